"""The paper's tables from scores of one's own, published rows beside them. Pure: scores in, tables out.

What is published comes from the cards that ship with yanami. Rows are made by `own`, `first_last`, `gap` and
`published`, put together by `paper_table`, and rendered by `paper_text`. Rounding is the paper's: half away from zero,
on the value without the noise of adding floats. It knows no run folders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS
from yanami_metric.alike import differences, digest, get
from yanami_metric.formulas import DEFAULT
from yanami_metric.published import COLUMNS, OTHER_BENCHMARKS
from yanami_metric.published import rows as published_rows
from yanami_metric.tables import DASH, DIMENSION_TITLES, SMOKE, is_mini, percent

AUTHORS_JUDGE = "Qwen-3.8-Flash-Next"
NUMBERS = tuple(table for table in COLUMNS if isinstance(table, int))
BY_SCENARIO = {12 + 2 * i: name for i, name in enumerate(("reasoning", "editing", "modeling", "fusion"))}
"""Which scenario's DSU a table has; the table after it has that scenario's scores."""
OTHERS = "yanami doesn't measure these benchmarks; docs/other-benchmarks.md says how to rerun them."
_TITLES = {
    2: "Overall by scenario",
    3: "DSU by scenario, selected models",
    4: "Understanding benchmarks and GenEval",
    5: "GEdit-EN, full set",
    11: "DSU by scenario",
    20: "First and last generation turn, 0-1",
    21: "Understanding-realization gap, 0-1, lower is better",
} | {n + k: f"{what}, {s}" for n, s in BY_SCENARIO.items() for k, what in enumerate(("DSU by dimension", "Scores"))}
_NAMES = {"dsu": "DSU", "sc": "SC", "vq": "VQ", "vr": "VR", "rr": "RR", "cr": "CR", "ct": "CT", "cu": "CU", "ck": "CK"}
_NAMES |= {"pope": "POPE", "mme_p": "MME-P", "mmbench": "MMBench"}
_ONE_DIGIT = {"sc", "vq", "rr", "cr", "ct", "cu", "pope", "mme_p", "mmbench"}
_DIGITS = {20: 3, 21: 4}
_WITH_OVERALL = (2, *(n + 1 for n in BY_SCENARIO))  # their overall is of two formulas
_GAP = {"ck": "constraint_keeping", "cu": "correction_updating", "overall": "overall"}
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row in the making: values by column, None where there is none, and their intervals, where there are some.

    `has_dsu` says whether its overall has DSU in it, `is_published` whether it is the paper's; `notes` are about it.
    """

    model: str
    size: str | None
    source: str
    values: Mapping[str, float | None]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    has_dsu: bool = True
    is_published: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of figures: its key in `Entry.values`, its title, its decimals, and whether lower is better."""

    key: str
    title: str
    digits: int
    lower: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Rows whose figures are of the same formulas; `caption` is "" where there is only one group."""

    caption: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table in the paper's shape: `banner` is what must not be overlooked, `notes` what a reader has to know."""

    number: int
    title: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    with_size: bool
    with_source: bool
    with_intervals: bool
    banner: str
    notes: tuple[str, ...]


def cell(value: float | None, digits: int) -> str:
    """A figure as the paper rounds: half away from zero, on the value rounded to 9 digits; None is a dash.

    >>> cell(51.125, 2), cell(-0.0685, 3), cell(-0.0001, 3), cell(None, 2)
    ('51.13', '-0.069', '0.000', '–')
    """
    if value is None:
        return DASH
    exact = Decimal(str(round(value, 9))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{abs(exact) if exact == 0 else exact:f}"


def known(number: int) -> None:
    """Nothing, for a table that there is.

    Raises:
        SpecError: a number that isn't in NUMBERS.
    """
    if number not in NUMBERS:
        raise SpecError(f"expected a table among {', '.join(map(str, NUMBERS))}, got {number}")


def published(table: int) -> list[Entry]:
    """The paper's rows of a table; SpecError for one that there isn't."""
    return [
        Entry(
            row.model,
            row.size,
            f"published; judge: {row.judge}" if row.judge else "published",
            # without DSU overall is VR, which the paper has no column for
            {**row.values, "vr": None if row.has_dsu else row.values.get("overall")},
            has_dsu=row.has_dsu,
            is_published=True,
        )
        for row in published_rows(table)
    ]


def own(table: int, name: str, scores: Mapping[str, Any], history: str = "gt") -> Entry:
    """A run's row of Tables 2, 3 and 11 to 19.

    Args:
        table: its number.
        name: what the run is called in the table.
        scores: its scores.json.
        history: the history mode.

    Raises:
        SpecError: another table.
        DataError: the run has no such history.
    """
    if table not in (2, 3, 11) and table not in BY_SCENARIO and table - 1 not in BY_SCENARIO:
        raise SpecError(f"expected a table that scores.json has the figures of (2, 3, 11 to 19), got {table}")
    if history not in scores["histories"]:
        ran = ", ".join(scores["histories"]) or "none"
        raise DataError(f"{name}: expected scores under history {history}, got some under {ran}")
    entry = scores["histories"][history]
    found = {key: estimate for key, estimate in _estimates(table, entry).items() if estimate}
    notes = _run_notes(name, scores, history) + _score_notes(name, entry, found)
    return _entry(name, scores, found, bool(entry["can_answer"]), notes)


def _estimates(table: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """By column the estimate, None where the run has nothing of that scenario."""
    parts = entry["scenarios"]
    if table in (2, 3, 11):
        score, whole = ("overall", "overall") if table == 2 else ("dsu", "average")
        found = {name: parts[name][score] if name in parts else None for name in SCENARIOS}
        return {**found, whole: entry[score]} | ({"vr": entry["vr"]} if table == 2 else {})
    if table in BY_SCENARIO:
        part = parts.get(BY_SCENARIO[table])
        names = {DIMENSION_TITLES[name].lower(): name for name in DIMENSIONS}
        return {key: part["dimensions"][name] for key, name in names.items()} | {"dsu": part["dsu"]} if part else {}
    part = parts.get(BY_SCENARIO[table - 1])
    return {key: part[key] for key in ("dsu", "sc", "vq", "overall", "vr")} if part else {}


def first_last(values: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]], history: str = "gt") -> list[Entry]:
    """Rows of Table 20.

    Args:
        values: of the finding of `analysis.turns.first_last`.
        runs: by the same names what was measured: `model`, `dataset` and `judge` as in scores.json.
        history: the history mode of the tallies.
    """
    return _found({name: {key: found[key] for key in COLUMNS[20]} for name, found in values.items()}, runs, history)


def gap(values: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]], history: str = "gt") -> list[Entry]:
    """Rows of Table 21.

    Args:
        values: of the finding of `analysis.gap.gap`.
        runs: by the same names what was measured: `model`, `dataset` and `judge` as in scores.json.
        history: the history mode of the tallies.
    """
    models = values["models"].items()
    return _found({name: {key: found[long] for key, long in _GAP.items()} for name, found in models}, runs, history)


def _found(models: Mapping[str, Mapping[str, Any]], runs: Mapping[str, Mapping[str, Any]], history: str) -> list[Entry]:
    return [
        _entry(name, runs[name], found, True, _run_notes(name, runs[name], history) + _covered(name, found))
        for name, found in models.items()
    ]


def _entry(
    name: str, scores: Mapping[str, Any], found: Mapping[str, Any], has_dsu: bool, notes: Sequence[str]
) -> Entry:
    ends = {key: (one["low"], one["high"]) for key, one in found.items() if one["low"] is not None}
    source = f"this run; judge: {_judge(scores)}"
    values = {key: one["value"] for key, one in found.items()}
    return Entry(name, None, source, values, ends, has_dsu, notes=tuple(notes))


def _judge(scores: Mapping[str, Any]) -> str:
    """The judges with the digests of their fingerprints, that of answers only where it is another."""
    told: list[str] = []
    for role in ("images", "answers"):
        name = get(scores, "judge", role, "name") or "not recorded"
        one = f"{name} ({digest(get(scores, 'judge', role, 'fingerprint'))})"
        told.append(one if not told else f"{one} for answers")
    return told[0] if told[1] == f"{told[0]} for answers" else ", ".join(told)


def _run_notes(name: str, scores: Mapping[str, Any], history: str) -> list[str]:
    """What about a run a reader has to know."""
    notes = []
    if history != "gt":
        notes.append(f"{name}: under history {history}; the paper's table is under gt.")
    part = {key: get(scores, "dataset", key) for key in ("limit", "shard", "scenarios")}
    if partial := [f"{key} {value}" for key, value in part.items() if value and not _is_all(key, value)]:
        notes.append(f"{name}: on a part of the data only ({'; '.join(partial)}).")
    return notes


def _is_all(key: str, value: Any) -> bool:
    return key == "scenarios" and set(value) == set(SCENARIOS)


def _score_notes(name: str, entry: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    notes = _covered(name, found)
    if any(entry["weights"][key] != value for key, value in (("sc", DEFAULT.sc), ("dsu", DEFAULT.dsu))):
        notes.append(f"{name}: its weights were set: {', '.join(f'{k} {v:g}' for k, v in entry['weights'].items())}.")
    if entry["sc_mean"] != "dialogue":
        notes.append(f"{name}: SC is averaged over {entry['sc_mean']}s.")
    return notes


def _covered(name: str, found: Mapping[str, Any]) -> list[str]:
    shares = [one["coverage"] for one in found.values() if one["coverage"] is not None]
    if not shares or min(shares) >= 1:
        return []
    return [f"{name}: only {percent(min(shares))} of what one of its figures is over could be scored."]


def paper_table(
    number: int,
    entries: Sequence[Entry],
    runs: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    intervals: bool = False,
    vr: bool = False,
) -> PaperTable:
    """Rows as a table: the paper's first, in its order, then runs as given.

    Where overall is of two formulas (Tables 2, 13, 15, 17, 19) models with and without DSU in it are two groups.

    Args:
        number: of the paper's table.
        entries: its rows.
        runs: by name what was measured, for those among the rows that aren't published.
        intervals: whether cells have their 95 % interval.
        vr: whether there is a column VR, which all models have; only in tables with an overall.

    Raises:
        SpecError: a number that isn't in NUMBERS, no row, VR in a table without it, or published rows beside a run on
            the mini bench.
    """
    runs = runs or {}
    mini = [name for name, scores in runs.items() if is_mini(scores)]
    any_published = any(entry.is_published for entry in entries)
    known(number)
    if not entries:
        raise SpecError(f"table {number}: expected at least one row, of a run or published, got none")
    if mini and any_published:
        raise SpecError(f"expected no run on the mini bench beside published figures, got {', '.join(mini)}. {SMOKE}")
    if vr and number not in _WITH_OVERALL:
        raise SpecError(f"expected a table with an overall for VR ({', '.join(map(str, _WITH_OVERALL))}), got {number}")
    ordered = sorted(entries, key=lambda entry: not entry.is_published)
    groups = _groups(number, ordered)
    own_notes = [note for entry in ordered for note in entry.notes]
    return PaperTable(
        number,
        f"{_TITLES[number]} (Table {number} of arXiv 2611.05280)",
        _columns(number, vr=vr),
        groups,
        with_size=number not in (3, 4, 5, 11, 20, 21),
        with_source=any_published,
        with_intervals=intervals,
        banner=SMOKE if mini else "",
        notes=tuple(dict.fromkeys((*_notes(number, groups, runs, published=any_published, vr=vr), *own_notes))),
    )


def _columns(number: int, *, vr: bool) -> tuple[Column, ...]:
    keys = (*COLUMNS[number], *(("vr",) if vr else ()))
    lower = number == 21
    return tuple(
        Column(key, _NAMES.get(key) or key.replace("_", " ").capitalize(), _digits(number, key), lower) for key in keys
    )


def _digits(number: int, key: str) -> int:
    return _DIGITS.get(number) or (1 if key in _ONE_DIGIT else 2)


def _groups(number: int, entries: Sequence[Entry]) -> tuple[Group, ...]:
    if number not in _WITH_OVERALL:
        return (Group("", tuple(entries)),)
    captions = {True: "Overall with DSU", False: "Overall without DSU (VR)"}
    by = {caption: tuple(e for e in entries if e.has_dsu == has_dsu) for has_dsu, caption in captions.items()}
    found = [Group(caption, some) for caption, some in by.items() if some]
    return tuple(found) if len(found) > 1 else (Group("", found[0].entries),)


def _notes(
    number: int, groups: Sequence[Group], runs: Mapping[str, Mapping[str, Any]], *, published: bool, vr: bool
) -> list[str]:
    notes = []
    if number in OTHER_BENCHMARKS:
        notes.append(OTHERS)
    if published:
        notes.append("Published rows are those that are at hand, as printed; a dash is the paper's.")
    if len(groups) > 1:
        notes.append("Overall has DSU in it for one group and is VR for the other: not to be compared across the two.")
    elif number in _WITH_OVERALL:
        has_dsu = groups[0].entries[0].has_dsu
        notes.append("Overall has DSU in it." if has_dsu else "Overall is VR: the models have no DSU.")
    if vr:
        notes.append("VR = 0.6 SC + 0.4 VQ under the default weights; the paper has no such column.")
    if published and runs:
        notes += _beside(number, runs)
    if not published:
        notes += [f"{name}: judge {_judge(scores)}." for name, scores in runs.items()]
    stops = [one for one in differences(list(runs.items())) if one.stops]
    return notes + [f"Not measured alike: {one.text}." for one in stops]


def _beside(number: int, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What stands between runs and published rows."""
    notes = []
    for name, scores in runs.items():
        judges = {str(get(scores, "judge", role, "name") or "not recorded") for role in ("images", "answers")}
        if all(AUTHORS_JUDGE.lower() in judge.lower() for judge in judges):
            notes.append(f"{name}: a judge of the authors' name; its prompts and settings need not be theirs.")
        else:
            others = " and ".join(sorted(judges))
            notes.append(f"{name}: judged by {others}, not by the authors' judge ({AUTHORS_JUDGE}): not comparable.")
        data = " at ".join(str(get(scores, "dataset", key) or "not recorded") for key in ("name", "revision"))
        notes.append(f"{name}: its data are {data}.")
    if number == 21:
        notes.append("A gap is on what all compared models understand: that of the runs is another than the paper's.")
    return notes
