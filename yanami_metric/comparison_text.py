"""A comparison as tables, notes, Markdown and CSV. Strings only: it gets what comparison.json holds, and no files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yanami_dataset.plain import plain_line
from yanami_metric.analysis.finding import Cell, Table, spread
from yanami_metric.analysis.writing import cell, comma_separated
from yanami_metric.tables import HEADLINES, SMOKE, TITLES, percent, render

Content = Mapping[str, Any]

ORDER = ("vr", "sc", "vq", "dsu", "overall")
MEASURES = {"vr": "VR", "answers": "Answers right"}
"""What a dialogue is compared by: its VR, or the share of its questions answered right."""


def p_value(p: float | None) -> str | None:
    """A p-value as text, None where there is none.

    >>> p_value(0.0034), p_value(0.0004998), p_value(1.0), p_value(None)
    ('p = 0.003', 'p < 0.001', 'p = 1.000', None)
    """
    if p is None:
        return None
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def score_tables(content: Content) -> list[Table]:
    """VR, SC and VQ of all; then, for each formula apart, overall: models with and without DSU are never ranked."""
    found = [_realization(content)]
    for group in content["ranks"]["overall"]:
        found.append(_overall(content, group))
    return found


def scenario_table(content: Content) -> Table:
    """Scores by scenario."""
    rows = [
        (scenario, number, name, *_values(content["scores"][name]["scenarios"][scenario], ORDER[:4]))
        for scenario, number in content["scenarios"].items()
        for name in content["scores"]
    ]
    return Table("Scores by scenario", ("Scenario", "Dialogues", "Run", *_titles(ORDER[:4])), tuple(rows))


def difference_tables(content: Content) -> list[Table]:
    """Differences over all four scenarios, and by scenario."""
    whole = tuple(_difference(one) for one in differences(content, whole=True))
    header = ("Score", "Difference of", "Points", "95 % interval", "p", "p (Holm)")
    parts = tuple((one["scenario"], *_difference(one)) for one in differences(content, whole=False))
    return [
        Table("Differences", header, whole),
        Table("Differences by scenario", ("Scenario", *header), parts),
    ]


def differences(content: Content, *, whole: bool) -> list[dict[str, Any]]:
    """The pairs that something was asked about, by scenario and score; overall is in none by scenario."""
    found = [
        one
        for one in content["pairs"]
        if (one["scenario"] is None) == whole and one["difference"]["coverage"] is not None
        if whole or one["score"] != "overall"
    ]
    scenarios = [None, *content["scenarios"]]
    return sorted(found, key=lambda one: (scenarios.index(one["scenario"]), ORDER.index(one["score"])))


def largest_table(content: Content) -> Table:
    """The dialogues on which runs differ most."""
    names = list(content["scores"])
    rows = tuple(
        (one["dialogue"], one["scenario"], one["range"], *(one["values"][name] for name in names))
        for one in content["largest"]
    )
    measure = MEASURES[content["measure"]] if content["measure"] else ""
    return Table(f"Largest differences in a dialogue, {measure}", ("Dialogue", "Scenario", "Range", *names), rows, 1)


def notes(content: Content) -> list[str]:
    """What a reader has to know."""
    how, dialogues = content["method"], content["dialogues"]
    shared = f"{dialogues} {'dialogue' if dialogues == 1 else 'dialogues'} that all runs have"
    left = [f"{number} of {name}" for name, number in content["left_out"].items() if number]
    lines = [
        f"History {content['history']}; over the {shared}" + (f"; left out: {', '.join(left)}." if left else "."),
        f"VR = {content['formula_vr']}, SC averaged over {content['sc_mean']}s. A score over all is the mean of the "
        "four scenarios, and isn't defined where one of them is missing.",
        "Overall has DSU in it only for models that answer, so it is never ranked across the two formulas.",
        "A difference is the first run minus the second, over what is scored in both; so it need not be that of the "
        "scores above.",
    ]
    if {one["what"] for one in content["warnings"]} & {"weights", "SC averaged over"}:
        lines.append(f"All runs are counted here with the weights and the mean of {next(iter(content['runs']))}.")
    if how["resamples"]:
        lines.append(
            f"Ranges and intervals of ranks: {100 * how['level']:g} %, {how['interval']}, {how['resamples']} "
            f"resamples, seed {how['seed']}."
        )
    if how["permutations"]:
        lines.append(
            f"p: {how['test']}, {how['permutations']} permutations. Corrected: {how['correction']}. Few dialogues "
            "find large differences only: a high p is no proof that runs are alike."
        )
    lines += [_coverage(name, scores) for name, scores in content["scores"].items() if _widest(scores)["coverage"] != 1]
    return lines


def markdown(content: Content) -> str:
    """The comparison as Markdown; text of others is escaped."""
    blocks = ["# Comparison of runs"]
    if content["mini"]:
        blocks.append(f"> **{SMOKE}**")
    blocks += [f"> **{_heading(one)}** {plain_line(one['text'])}" for one in content["warnings"]]
    for table in [
        *score_tables(content),
        scenario_table(content),
        *difference_tables(content),
        largest_table(content),
    ]:
        if table.rows:
            rows = [[cell(value, table.digits) for value in row] for row in table.rows]
            blocks += [f"## {plain_line(table.title)}", render([table.header, *rows])]
    blocks += ["## Notes", "\n".join(f"- {plain_line(line)}" for line in notes(content))]
    # "< " begins no markup, and a terminal shows it as it is
    return "\n\n".join(blocks).replace("p &lt; 0.001", "p < 0.001") + "\n"


def csv(content: Content) -> str:
    """Every score and difference in a row, numbers in full."""
    header = ("Kind", "Run", "Minus", "Scenario", "Score", "Value", "Low", "High", "n", "Coverage", "p", "p (Holm)")
    return comma_separated(Table("", header, tuple(_rows(content))))


def _rows(content: Content) -> Iterator[tuple[Cell, ...]]:
    for name, scores in content["scores"].items():
        for scenario, part in ((None, scores), *scores["scenarios"].items()):
            for score in HEADLINES:
                yield "score", name, None, scenario or "all", TITLES[score], *_numbers(part[score]), None, None
    for one in content["pairs"]:
        numbers = _numbers(one["difference"])
        where = one["scenario"] or "all"
        yield "difference", one["a"], one["b"], where, TITLES[one["score"]], *numbers, one["p"], one["p_holm"]


def _numbers(estimate: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(estimate[key] for key in ("value", "low", "high", "n", "coverage"))


def _realization(content: Content) -> Table:
    ranks = content["ranks"]["vr"]
    rows = []
    for name in _by_value(content, "vr"):
        scores = content["scores"][name]
        estimates = _values(scores, ("vr", "sc", "vq"))
        rows.append(
            (
                name,
                content["runs"][name]["model"],
                estimates[0],
                spread(scores["vr"]),
                *_rank(ranks, name),
                *estimates[1:],
                _widest(scores)["n"],
                percent(_widest(scores)["coverage"]),
            )
        )
    header = ("Run", "Model", "VR", "95 % interval", "Rank", "of rank", "SC", "VQ", "Scored items", "Coverage")
    return Table(f"VR, {content['dialogues']} shared dialogues", header, tuple(rows))


def _overall(content: Content, group: Mapping[str, Any]) -> Table:
    rows = []
    for name in _by_value(content, "overall"):
        if content["runs"][name]["formula"] == group["formula"]:
            scores = content["scores"][name]
            value, dsu = _values(scores, ("overall", "dsu"))
            rows.append((name, value, spread(scores["overall"]), *_rank(group["ranks"], name), dsu))
    header = ("Run", "Overall", "95 % interval", "Rank", "of rank", "DSU")
    return Table(f"Overall = {group['formula']}", header, tuple(rows))


def _by_value(content: Content, score: str) -> list[str]:
    values = {name: scores[score]["value"] for name, scores in content["scores"].items()}
    return sorted(values, key=lambda name: (values[name] is None, -(values[name] or 0), name))


def _rank(ranks: Mapping[str, Any], name: str) -> tuple[Cell, Cell]:
    rank = ranks.get(name)
    if rank is None:
        return None, None
    return rank["rank"], None if rank["low"] is None else f"{rank['low']} to {rank['high']}"


def _difference(one: Mapping[str, Any]) -> tuple[Cell, ...]:
    found = one["difference"]
    pair = f"{one['a']} − {one['b']}"
    return TITLES[one["score"]], pair, found["value"], spread(found), p_value(one["p"]), p_value(one["p_holm"])


def _values(scores: Mapping[str, Any], names: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(scores[name]["value"] for name in names)


def _titles(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(TITLES[name] for name in names)


def _widest(scores: Mapping[str, Any]) -> Mapping[str, Any]:
    """The headline that is about most items."""
    found: Mapping[str, Any] = max((scores[name] for name in HEADLINES), key=lambda estimate: estimate["n"])
    return found


def _coverage(name: str, scores: Mapping[str, Any]) -> str:
    coverage = _widest(scores)["coverage"]
    if coverage is None:
        return f"{name}: no score over all four scenarios."
    return f"{name}: {percent(coverage)} of the items are scored; the others have no number."


def _heading(warning: Mapping[str, Any]) -> str:
    return "Not comparable:" if warning["stops"] else "Not alike:"
