"""`yanami agreement measure`: reads what people said of a study's images, and sets it beside a judge's verdicts.

Numbers are made in `agreement`; `study` draws what is rated, `ratings` reads the sheet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from yanami_dataset.errors import RunFolderError, SourceError
from yanami_dataset.schema import Dialogue, Slot
from yanami_metric import agreement
from yanami_metric.ratings import Row, read_ratings
from yanami_metric.records import quality_id
from yanami_metric.replies import ItemVerdict
from yanami_metric.results import item_verdicts, own_images
from yanami_metric.run_folder import RunFolder
from yanami_metric.runs import Run
from yanami_metric.scoring import chosen_judges
from yanami_metric.study import identity_of, key_file
from yanami_metric.tables import DASH, render

PART_TITLES = {"checks": "Checks", "quality": "Quality", "pass_share": "Share of checks passed"}


@dataclass
class _Unpaired:
    """Rows that nothing could be compared with, by reason."""

    rows: dict[str, list[Row]] = field(default_factory=dict)

    def note(self, reason: str, row: Row) -> None:
        self.rows.setdefault(reason, []).append(row)

    def counts(self) -> dict[str, dict[str, Any]]:
        """How many, and the first, by reason."""
        first = {reason: min(rows, key=lambda row: (row.file, row.line)) for reason, rows in sorted(self.rows.items())}
        return {reason: {"rows": len(self.rows[reason]), "first": row.where} for reason, row in first.items()}


def measure(
    ratings: str | Path,
    runs: Sequence[Run],
    *,
    judge: str | None = None,
    key: str | Path | None = None,
    resamples: int = agreement.RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """How far a judge agrees with people, and people with each other.

    Args:
        ratings: a filled sheet, or a folder of them, one for each rater.
        runs: judged; those that were sampled, in any order.
        judge: the name of the judge of images; None: the first that each run was judged by.
        key: the study's key; None: the one beside the folder of the ratings. Without any, the sheet's column `run`
            holds the names of the run folders.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        What `agreement.measure` says, and `judge` by run, `rows` (all, rated, compared with the judge), `unpaired` (by
        reason: how many rows, and the first), and `notes`.

    Raises:
        SourceError: a sheet or key that can't be read; names file, row, column and value.
        RunFolderError: a run that wasn't judged, or not by that judge.
    """
    rows = read_ratings(Path(ratings))
    named = _named_runs(Path(ratings), runs, None if key is None else Path(key))
    unpaired = _Unpaired()
    found: list[agreement.Rating] = []
    entries: dict[str, dict[str, Any]] = {}
    for name, run in named.items():
        with RunFolder(run.path) as folder:
            entries[name] = chosen_judges(folder, judge)
            found += _paired([row for row in rows if row.run == name], run, folder, entries[name], unpaired)
    for row in rows:
        if row.run not in named:
            unpaired.note("unknown_run", row)
    _refuse_twice(rows)
    return {
        "schema": 1,
        "judge": {name: entry["images"] for name, entry in entries.items()},
        "runs": {name: str(run.path) for name, run in named.items()},
        "rows": {
            "all": len(rows),
            "rated": sum(bool(row.rating.strip()) for row in rows),
            "compared": sum(one.judged is not None for one in found),
        },
        "unpaired": unpaired.counts(),
        "notes": _notes(entries, runs),
        **agreement.measure(found, resamples=resamples, seed=seed),
    }


def _named_runs(ratings: Path, runs: Sequence[Run], key: Path | None) -> dict[str, Run]:
    """The runs by what the sheet calls them."""
    beside = key_file(ratings if ratings.is_dir() else ratings.resolve().parent)
    if key is None and not beside.is_file():
        return {run.path.resolve().name: run for run in runs}
    file = key or beside
    try:
        letters = {entry["identity"]: letter for letter, entry in json.loads(file.read_text())["runs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"{file}: expected the key that `yanami agreement sample` wrote, got {type(error).__name__}: {error}"
        ) from None
    named = {}
    for run in runs:
        letter = letters.get(identity_of(run))
        if letter is None:
            raise RunFolderError(f"{run.path}: expected a run of the study, the key {file} doesn't name it")
        named[letter] = run
    return named


def _refuse_twice(rows: Sequence[Row]) -> None:
    seen: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if not row.rating.strip():
            continue
        what = (row.rater, row.run, row.dialogue, row.track, row.turn, row.slot, row.kind, row.item)
        if what in seen:
            raise SourceError(
                f"{row.where}, column rater: expected one rating of {row.kind} {row.item!r} by {row.rater!r}, which "
                f"{seen[what].where} has already"
            )
        seen[what] = row


def _paired(
    rows: Sequence[Row], run: Run, folder: RunFolder, entry: Mapping[str, Any], unpaired: _Unpaired
) -> Iterator[agreement.Rating]:
    """The ratings of one run, each with what the judge says."""
    by_dialogue: dict[str, list[Row]] = {}
    for row in rows:
        by_dialogue.setdefault(row.dialogue, []).append(row)
    tracks = {track for history in folder.histories for track in folder.tracks(history)}
    for dialogue in run.data:
        mine = by_dialogue.pop(dialogue.id, [])
        for track in sorted({row.track for row in mine}):
            there = [row for row in mine if row.track == track]
            judged = _Judged(dialogue, track, folder, entry) if track in tracks else None
            for row in there:
                yield from _rated(row, judged, unpaired)
    for rest in by_dialogue.values():
        for row in rest:
            unpaired.note("unknown_dialogue", row)


class _Judged:
    """What a judge said about the images of one dialogue in one track."""

    def __init__(self, dialogue: Dialogue, track: str, folder: RunFolder, entry: Mapping[str, Any]) -> None:
        self.dialogue = dialogue
        current = folder.current(track, dialogue.id)
        self.verdicts = item_verdicts(dialogue, track, current, folder.verdicts.of(dialogue.id), entry)
        self.images = own_images(current, folder)
        self.items: set[tuple[int, int, str, str]] = set()
        for slot in dialogue.slots:
            self.items |= {(slot.turn, slot.ordinal, kind, item) for kind, item in _items(dialogue, slot)}

    def why_not(self, row: Row) -> str:
        """Why a row is about nothing here; empty if it is."""
        if (row.turn, row.slot, row.kind, row.item) not in self.items:
            return "unknown_item"
        image = self.images.get((row.turn, row.slot))
        if row.candidate and (image is None or image.sha256 != row.candidate):
            return "another_image_now"
        return ""

    def verdict(self, row: Row) -> ItemVerdict | None:
        return self.verdicts.get((row.kind, row.item))


def _items(dialogue: Dialogue, slot: Slot) -> Iterator[tuple[str, str]]:
    yield "quality", quality_id(slot)
    for check in dialogue.checks_of(slot):
        yield "checks", check.id


def _rated(row: Row, judged: _Judged | None, unpaired: _Unpaired) -> Iterator[agreement.Rating]:
    if judged is None:
        unpaired.note("unknown_track", row)
        return
    if reason := judged.why_not(row):
        unpaired.note(reason, row)
        return
    if not row.rating.strip():
        unpaired.note("not_rated", row)
        return
    value = row.value
    if value is None:
        unpaired.note("rater_could_not_tell", row)
        return
    verdict = judged.verdict(row)
    status = verdict.status if verdict else "not_judged"
    if status != "scored":
        unpaired.note(f"judge_{status}", row)
    instance = agreement.Instance(row.run, row.track, row.dialogue, judged.dialogue.scenario, row.turn, row.slot)
    says = verdict.value if verdict and status == "scored" else None
    yield agreement.Rating(row.rater, instance, cast(Literal["checks", "quality"], row.kind), row.item, value, says)


def _notes(entries: Mapping[str, Mapping[str, Any]], runs: Sequence[Run]) -> list[str]:
    notes = []
    if len({json.dumps([entry["images"], entry["rules"]], sort_keys=True) for entry in entries.values()}) > 1:
        notes.append("The runs were judged by different judges, or by one in different ways.")
    if any(run.data.is_mini for run in runs):
        notes.append("Some runs are of the mini bench, which yanami draws itself: this says nothing of other images.")
    return notes


def markdown(found: Mapping[str, Any]) -> str:
    """The result of `measure` as tables."""
    rows = found["rows"]
    blocks = ["# Agreement of the judge with people"]
    blocks.append(f"{rows['all']} rows, {rows['rated']} rated, {rows['compared']} compared with the judge.")
    groups = {"all": found["overall"]}
    groups |= {f"scenario {name}": entry for name, entry in found["scenarios"].items()}
    groups |= {f"rater {name}": entry for name, entry in found["raters"].items()}
    blocks += _tables(groups)
    between = found["between_raters"]
    if between["pairs"]:
        blocks.append("# Agreement between raters")
        pairs = {" and ".join(entry["raters"]): entry for entry in between["pairs"]}
        blocks += _tables({between["method"]: between["mean"], **pairs})
    if found["unpaired"]:
        unpaired = [["Not compared", "Rows", "First"]]
        unpaired += [[reason, str(entry["rows"]), entry["first"]] for reason, entry in found["unpaired"].items()]
        blocks += ["# Rows that were not compared", render(unpaired)]
    how = found["interval"]
    blocks.append(f"Intervals: {how['level']:.0%}, {how['method']}, {how['resamples']} resamples, seed {how['seed']}.")
    return "\n\n".join([*blocks, *found["notes"]]) + "\n"


def _tables(groups: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for part, names in agreement.PARTS.items():
        rows = [[PART_TITLES[part], *(name.capitalize() for name in names), "Pairs"]]
        for title, entry in groups.items():
            estimates = [entry[part][name] for name in names]
            count = estimates[0].get("n", "")
            rows.append([title, *(_cell(estimate) for estimate in estimates), str(count)])
        yield render(rows)


def _cell(estimate: Mapping[str, Any]) -> str:
    if estimate["value"] is None:
        return DASH
    ends = "" if estimate["low"] is None else f" ({estimate['low']:.2f} to {estimate['high']:.2f})"
    return f"{estimate['value']:.2f}{ends}"
