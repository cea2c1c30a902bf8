"""How far the judges of one run agree with each other, and how far one judge agrees with itself over its samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yanami_metric.coefficients import agreement, kappa, pearson
from yanami_metric.data import Data
from yanami_metric.results import item_verdicts, judge_names
from yanami_metric.run_folder import RunFolder

KINDS = ("answer", "checks", "quality")


def judges_agree(data: Data, folder: RunFolder, one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two sets of judges on the items that both scored, over all tracks of a run.

    Args:
        data: the dialogues of the run.
        folder: where the verdicts are.
        one, other: entries of run.json's `judges`.

    Returns:
        By kind of item: `n`, and for answers and checks `agreement` (share of equal verdicts, 0-1) and `kappa`, for
        quality `pearson`; None where there is nothing to compare.
    """
    pairs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for dialogue in data:
        lines = folder.verdicts.of(dialogue.id)
        for track in _tracks(folder):
            current = folder.current(track, dialogue.id)
            mine, theirs = (item_verdicts(dialogue, track, current, lines, entry) for entry in (one, other))
            for (kind, id_), verdict in mine.items():
                partner = theirs.get((kind, id_))
                if verdict.status == "scored" and partner is not None and partner.status == "scored":
                    pairs[kind].append((verdict.value or 0.0, partner.value or 0.0))
    return {kind: _compared(kind, found) for kind, found in pairs.items()}


def _compared(kind: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    x, y = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if kind == "quality":
        return {"n": len(pairs), "pearson": pearson(x, y)}
    return {"n": len(pairs), "agreement": agreement(x, y), "kappa": kappa(x, y)}


def sample_spread(data: Data, folder: RunFolder, track: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """How far the samples of one judge differ in one track, over the items whose samples all have a value.

    Returns:
        `count` of samples; for answers and checks the share of items on which all agree, for quality the mean standard
        deviation on the 0-10 scale; None where there is nothing to compare.
    """
    names, count = judge_names(entry), entry["rules"]["samples"]
    found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for dialogue in data:
        keys = {record.key for record in folder.current(track, dialogue.id).values()}
        lines = [
            line
            for line in folder.verdicts.of(dialogue.id)
            if line["track"] == track and line["output"] in keys and line["judge"] == names[line["kind"]]
        ]
        for (kind, _, _), values in _by_item(lines).items():
            if len(values) == count and None not in values.values():
                found[kind].append([value for value in values.values() if value is not None])
    unanimous = {kind: _mean(len(set(values)) == 1 for values in found[kind]) for kind in ("answer", "checks")}
    return {"count": count, **unanimous, "quality_sd": _mean(statistics.stdev(values) for values in found["quality"])}


def _by_item(lines: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], dict[int, float | None]]:
    """The latest value of each sample of each item; None for one without a value."""
    found: dict[tuple[str, str, str], dict[int, float | None]] = {}
    for line in lines:
        for item in line["items"]:
            key = (line["kind"], line["output"], item["id"])
            found.setdefault(key, {})[line["sample"]] = item["value"] if item["status"] == "scored" else None
    return found


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _tracks(folder: RunFolder) -> list[str]:
    return [track for history in folder.histories for track in folder.tracks(history)]
