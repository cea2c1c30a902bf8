"""scores.json as text: the table of one run, and the comparison of several. Strings only, no files.

What is read of a scores.json; all but `histories` may be missing, and is then named as not recorded:

    model        {spec, identity, options}
    dataset      {name, revision, mini, scenarios, limit, shard, of}; `mini`: the bench that yanami draws itself;
                 `of`: how many dialogues there are without limit and shard
    placement    where images stand in a request
    judge        {images: {name, fingerprint}, answers: {name, fingerprint}}; a fingerprint is a dict, prompts included
    facts        {label: text}, anything else worth showing
    histories    {history: the entry that `score.summarise` gives, and observed_images_in_history, a number}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from yanami_dataset.plain import plain_line
from yanami_dataset.schema import SCENARIOS
from yanami_metric.alike import NOT_RECORDED, differences, digest, get, listed
from yanami_metric.alike import Scores as Scores
from yanami_metric.formulas import DEFAULT
from yanami_metric.records import HISTORIES
from yanami_metric.widths import note

DASH = "–"
HEADLINES = ("overall", "vr", "dsu", "sc", "vq")
TITLES = {"overall": "Overall", "vr": "VR", "dsu": "DSU", "sc": "SC", "vq": "VQ"}
DIMENSION_TITLES = {
    "reference_resolution": "RR",
    "context_retrieval": "CR",
    "constraint_tracking": "CT",
    "correction_updating": "CU",
}
SMOKE = (
    "A smoke and calibration bench, drawn by yanami itself. These are not YANAMI-Bench scores: "
    "they can't be compared with published figures, nor submitted."
)
HISTORY_NOTES = {
    "gt": "earlier images are the targets (GT-History, the main setting)",
    "self": "earlier images are the model's own (Self-History)",
    "last": "only the model's latest image and the current message",
    "none": "only the current message",
}


def number(value: float | None, digits: int = 2) -> str:
    """A score in points, or a dash for one that there isn't.

    >>> number(65.021), number(None)
    ('65.02', '–')
    """
    return DASH if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    """A share as a percentage, never rounded up to all.

    >>> percent(1.0), percent(0.9999), percent(None)
    ('100 %', '99.9 %', '–')
    """
    if share is None:
        return DASH
    return "100 %" if share >= 1 else f"{min(100 * share, 99.9):.1f} %"


def spread(estimate: Mapping[str, Any]) -> str:
    """The interval of an estimate, or nothing.

    >>> spread({"low": 61.04, "high": 68.9}), spread({"low": None, "high": None})
    ('61.0–68.9', '')
    """
    return "" if estimate["low"] is None else f"{estimate['low']:.1f}–{estimate['high']:.1f}"


def histories(scores: Scores) -> dict[str, Mapping[str, Any]]:
    """The entries by history, the main setting first."""
    order = {name: i for i, name in enumerate(HISTORIES)}
    return dict(sorted(scores["histories"].items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def model_name(scores: Scores) -> str:
    """What was run, as it was asked for."""
    return _text(scores, "model", "spec")


def is_mini(scores: Scores) -> bool:
    """Whether the scores are of the mini bench."""
    return bool(get(scores, "dataset", "mini"))


def facts(scores: Scores) -> list[tuple[str, str]]:
    """What was measured, and with what; a thing that wasn't recorded is named as such."""
    found = [
        ("Model", model_name(scores)),
        ("Model identity", _text(scores, "model", "identity")),
        ("Model options", listed(get(scores, "model", "options"))),
        ("Data", _text(scores, "dataset", "name")),
        ("Data revision", _text(scores, "dataset", "revision")),
        ("Selection", listed({key: get(scores, "dataset", key) for key in ("scenarios", "limit", "shard")})),
        ("Placement of images", _text(scores, "placement")),
    ]
    for role in ("images", "answers"):
        fingerprint = get(scores, "judge", role, "fingerprint")
        found.append((f"Judge of {role}", _text(scores, "judge", role, "name")))
        found.append((f"Its fingerprint ({role})", digest(fingerprint) if fingerprint else _text({}, "")))
        found.append((f"What that holds ({role})", listed(fingerprint)))
    found += [(str(label), str(text)) for label, text in scores.get("facts", {}).items()]
    return [(label, text) for label, text in found if text]


def _text(scores: Scores, *path: str) -> str:
    return str(get(scores, *path) or NOT_RECORDED)


def notes(scores: Scores) -> list[str]:
    """What a reader has to know to read the scores: the formulas and where their weights come from."""
    lines = ["Scores are points from 0 to 100, higher is better."]
    entries = histories(scores)
    for formula in sorted({entry["formula"] for entry in entries.values()}):
        lines.append(f"Overall = {formula}.")
    if any(not entry["can_answer"] for entry in entries.values()):
        lines.append(
            "The model doesn't answer in text: overall is VR, not comparable with an overall that has DSU in it."
        )
    lines += [_weights(weights) for weights in _different(entry["weights"] for entry in entries.values())]
    for mean in sorted({entry["sc_mean"] for entry in entries.values()}):
        lines.append(f"SC is averaged over {mean}s (the paper doesn't say over what; dialogues are ours).")
    for how in _different(entry["interval"] for entry in entries.values()):
        if how["resamples"]:
            lines.append(
                f"Ranges are {100 * how['level']:g} % intervals: {how['method']}, {how['resamples']} resamples, "
                f"seed {how['seed']}."
            )
    for history, entry in entries.items():
        if width := note(history, entry, get(scores, "dataset", "of") or 0):
            lines.append(width)
        if observed := entry.get("observed_images_in_history"):
            lines.append(f"{history}: {observed} of the earlier images are what some system once drew, not targets.")
        if samples := entry.get("judge_samples"):
            lines.append(_samples(history, samples))
        if generations := entry.get("generations"):
            lines.append(_generations(history, generations))
    return lines + _unscored(entries)


def _samples(history: str, samples: Mapping[str, Any]) -> str:
    return (
        f"{history}: each question was put to the judge {samples['count']} times; all samples agree on "
        f"{percent(samples['checks'])} of checks and {percent(samples['answer'])} of answers, the standard deviation "
        f"of a quality is {number(samples['quality_sd'])} of 10."
    )


def agreement(found: Mapping[str, Mapping[str, Any]], one: str, other: str) -> str:
    """`between.judges_agree` as a line of text."""
    told = []
    for kind in ("checks", "answer"):
        if found[kind]["n"]:
            kappa = number(found[kind]["kappa"])
            told.append(f"{kind} {percent(found[kind]['agreement'])} (kappa {kappa}, n = {found[kind]['n']})")
    if found["quality"]["n"]:
        told.append(f"quality Pearson {number(found['quality']['pearson'])} (n = {found['quality']['n']})")
    return f"Agreement of {one} and {other}: {', '.join(told) or 'nothing that both scored'}."


def _generations(history: str, generations: Mapping[str, Any]) -> str:
    spread = ", ".join(
        f"{TITLES[name]} {number(generations[name]['sd'])}"
        for name in ("overall", "vr")
        if generations[name]["sd"] is not None
    )
    return (
        f"{history}: {generations['count']} generations of each item with different seeds; scores are over all of them"
        + (f", their standard deviation between generations is: {spread}." if spread else ".")
    )


def _different(values: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _weights(weights: Mapping[str, float]) -> str:
    if dict(weights) != asdict(DEFAULT):
        given = ", ".join(f"{name} {value:g}" for name, value in weights.items())
        return f"The weights were set for this run ({given}): not comparable with scores under the default weights."
    return (
        "SC : VQ = 0.6 : 0.4 is recovered from the published rows; the weight 0.40 of DSU is inferred, not published."
    )


def _unscored(entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for history, entry in entries.items():
        best = entry["overall"] if entry["overall"]["coverage"] is not None else entry["vr"]
        if best["coverage"] is not None and best["coverage"] < 1:
            name = "overall" if best is entry["overall"] else "VR"
            low, high = (number(bound, 1) for bound in best["bounds"])
            lines.append(
                f"{history}: {percent(best['coverage'])} of the items are scored; were all others wrong or right, "
                f"{name} would be {low} or {high}."
            )
    return lines


def markdown(scores: Scores) -> str:
    """The scores of one run as Markdown: headline, scenarios, statuses, facts. Text of others is escaped."""
    entries = histories(scores)
    blocks = [f"# {plain_line(model_name(scores))}"]
    if is_mini(scores):
        blocks.append(f"> **{SMOKE}**")
    blocks.append(render(_headlines(entries)))
    if any(entry["without_refusals"]["n_refused"] for entry in entries.values()):
        blocks.append(render(_refusals(entries)))
    blocks += ["## Scenarios", render(_scenarios(entries)), "## Items", render(_statuses(entries)), "## Notes"]
    blocks.append("\n".join(f"- {plain_line(line)}" for line in notes(scores)))
    blocks.append("\n".join(f"- {plain_line(label)}: {plain_line(text)}" for label, text in facts(scores)))
    return "\n\n".join(blocks) + "\n"


def _with_spread(estimate: Mapping[str, Any]) -> str:
    ends = spread(estimate)
    return number(estimate["value"]) + (f" ({ends})" if ends else "")


def _headlines(entries: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    rows = [["History", *TITLES.values(), "n", "Coverage"]]
    for history, entry in entries.items():
        widest = max((entry[name] for name in HEADLINES), key=lambda estimate: estimate["n"])
        rows.append(
            [history, *(_with_spread(entry[name]) for name in HEADLINES), str(widest["n"]), percent(widest["coverage"])]
        )
    return rows


def _refusals(entries: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    rows = [["History", "Refused items", "Overall without them", "VR without them"]]
    for history, entry in entries.items():
        apart = entry["without_refusals"]
        rows.append([history, str(apart["n_refused"]), _with_spread(apart["overall"]), _with_spread(apart["vr"])])
    return rows


def _scenarios(entries: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    rows = [["History", "Scenario", "Dialogues", *TITLES.values(), *DIMENSION_TITLES.values()]]
    for history, entry in entries.items():
        for scenario in SCENARIOS:
            if scenario in entry["scenarios"]:
                scored = entry["scenarios"][scenario]
                estimates = [scored[name] for name in HEADLINES]
                estimates += [scored["dimensions"][name] for name in DIMENSION_TITLES]
                values = [number(estimate["value"]) for estimate in estimates]
                rows.append([history, scenario, str(scored["dialogues"]), *values])
    return rows


def _statuses(entries: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    seen = [status for entry in entries.values() for counts in entry["statuses"].values() for status in counts]
    columns = list(dict.fromkeys(seen))
    rows = [["History", "Kind", *columns]]
    for history, entry in entries.items():
        for kind, counts in entry["statuses"].items():
            rows.append([history, kind, *(str(counts.get(status, 0)) for status in columns)])
    return rows


def table(runs: Sequence[tuple[str, Scores]]) -> list[list[str]]:
    """Several runs side by side, a header and a row per model and history; the same cells for Markdown and terminals.

    A run on fewer than four scenarios has no scores over all, so it has a row for each scenario instead. Rows are
    sorted by history, then by VR, which every model that draws has under the same formula. They are never sorted by
    overall: a model with DSU in it can pass one that draws better.
    """
    rows = [
        (history, name, scenario, part)
        for name, scores in runs
        for history, entry in histories(scores).items()
        for scenario, part in _parts(entry)
    ]
    order = {name: i for i, name in enumerate(HISTORIES)}
    rows.sort(key=lambda row: (order.get(row[0], len(order)), row[2], _descending(row[3]["vr"]["value"]), row[1]))
    partial = any(scenario for _, _, scenario, _ in rows)
    header = ["History", "Model", "VR", "SC", "VQ", "DSU", "Overall", "Coverage"]
    cells = [[*header[:2], "Scenario", *header[2:]] if partial else header]
    for history, name, scenario, part in rows:
        where = [history, name, scenario or "all"] if partial else [history, name]
        cells.append([*where, *_cells(part)])
    return cells


def _parts(entry: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The whole if all scenarios are there, else each that is."""
    scenarios = entry["scenarios"]
    return [("", entry)] if len(scenarios) == len(SCENARIOS) or not scenarios else list(scenarios.items())


def _cells(entry: Mapping[str, Any]) -> list[str]:
    scored = max((entry[key] for key in HEADLINES), key=lambda estimate: estimate["n"])
    values = [number(entry[key]["value"]) for key in ("sc", "vq", "dsu")]
    return [_with_spread(entry["vr"]), *values, _with_spread(entry["overall"]), percent(scored["coverage"])]


def _descending(value: float | None) -> float:
    return float("inf") if value is None else -value


def comparison(runs: Sequence[tuple[str, Scores]]) -> str:
    """`table` as Markdown, with a warning wherever the runs were not measured alike."""
    blocks = [f"> **{SMOKE}**"] if any(is_mini(scores) for _, scores in runs) else []
    blocks += [f"> **Not measured alike: {line}.**" for line in _incomparable(runs)]
    blocks += [render(table(runs)), f"Sorted by VR within each history. {_formulas(runs)}"]
    return "\n\n".join(blocks) + "\n"


def _formulas(runs: Sequence[tuple[str, Scores]]) -> str:
    """What overall is, which depends on whether a model answers: never ranked across the two."""
    models: dict[str, list[str]] = {}
    for name, scores in runs:
        for formula in {entry["formula"] for entry in scores["histories"].values()}:
            models.setdefault(formula, []).append(name)
    if len(models) == 1:
        return f"Overall is {next(iter(models))}."
    listed = "; ".join(f"{formula} for {', '.join(names)}" for formula, names in models.items())
    return f"Overall is {listed}: not to be compared across the two."


def _incomparable(runs: Sequence[tuple[str, Scores]]) -> list[str]:
    """In what the runs differ that makes their scores incomparable: data, judges with their prompts, formula, mean."""
    found = {one.what: {value for _, value in one.values} for one in differences(runs) if one.stops}
    formulas = {entry["formula"] for _, scores in runs for entry in scores["histories"].values()}
    if len(formulas) > 1:
        found["overall"] = formulas
    return [f"{what}: {' / '.join(sorted(values))}" for what, values in found.items()]


def render(cells: Sequence[Sequence[str]]) -> str:
    """Cells as a Markdown table, the first row being the header; text that would be markup is escaped.

    >>> print(render([["Model", "VR"], ["a|b", "65.02"]]))
    | Model | VR |
    |---|---:|
    | a\\|b | 65.02 |
    """
    header, *rows = ([plain_line(cell) for cell in row] for row in cells)
    numeric = [bool(rows) and all(row[i][:1].isdigit() or row[i] == DASH for row in rows) for i in range(len(header))]
    lines = [header, *rows]
    text = [f"| {' | '.join(line)} |" for line in lines]
    text.insert(1, "|" + "|".join("---:" if right else "---" for right in numeric) + "|")
    return "\n".join(text)
