"""Where models fail: by capability, by kind of check, and how one failure brings the next. Pure, all **ours**."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from yanami_dataset.schema import CAPABILITIES
from yanami_metric.analysis.finding import Cell, Chart, Finding, Table, covered, series, spread
from yanami_metric.estimates import NOTHING, Estimate, Row, Sample, Scored, equal, pooled
from yanami_metric.statistics import interval, ratio
from yanami_metric.tally import CheckTally, Count, DialogueTally, total

Runs = Mapping[str, Mapping[str, Sequence[DialogueTally]]]

_BY_CAPABILITY = {
    "capability_checks": "capability checks",
    "atomic_checks": "atomic checks of that capability",
    "sc": "SC of turns that exercise it",
    "vq": "VQ of turns that exercise it",
}


def capabilities(runs: Runs, *, resamples: int = 1000, seed: int = 0) -> Finding:
    """Scores by the six capabilities, 0-100: of checks made for one, and of images in turns that exercise it.

    Args:
        runs: by model, then by history, the tallies.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.

    Returns:
        `values`: by model, history and capability `capability_checks`, `atomic_checks` (those that the data labels with
        it), `sc` and `vq` (of the images in turns that exercise it), each a mean over dialogues.
    """

    def rows(one: DialogueTally) -> list[Row]:
        found = []
        for place, capability in enumerate(CAPABILITIES):
            images = [image for image in one.images if capability in image.capabilities]
            labelled = (c.count for c in one.each if c.kind == "atomic" and c.capability == capability)
            found += [
                equal(one.capabilities[place]),
                equal(total(labelled)),
                equal(total(image.checks for image in images)),
                equal(total(image.quality for image in images)),
            ]
        return found

    values: dict[str, Any] = {}
    for name, history, sample in _samples(runs, resamples, seed):
        means = sample.means(rows) or [Scored.undefined(resamples)] * 4 * len(CAPABILITIES)
        values.setdefault(name, {})[history] = {
            capability: {key: means[4 * i + j].entry() for j, key in enumerate(_BY_CAPABILITY)}
            for i, capability in enumerate(CAPABILITIES)
        }
    header = (
        "Model",
        "History",
        "Capability",
        "Capability checks",
        "95 %",
        "n",
        "Atomic checks",
        "SC",
        "VQ",
        "Coverage",
    )
    table: list[tuple[Cell, ...]] = [
        (name, history, capability, found["capability_checks"]["value"], spread(found["capability_checks"]),
         found["capability_checks"]["n"], *(found[key]["value"] for key in ("atomic_checks", "sc", "vq")),
         covered(found["sc"]))
        for name, history, entries in _entries(values)
        for capability, found in entries.items()
    ]  # fmt: skip
    bars = tuple(
        series(f"{name}, {history}", CAPABILITIES, [entries[c]["sc"] for c in CAPABILITIES])
        for name, history, entries in _entries(values)
    )
    return Finding(
        "capabilities",
        "By capability",
        "ours",
        values,
        (Table("Points, by capability", header, tuple(table)),),
        (Chart("SC of turns that exercise a capability", "bars", "", "SC", bars, (0, 100)),),
        ("Capability checks count in no score; SC and VQ are of the images in turns that exercise a capability, and a "
         "turn may exercise several. Coverage is that of SC.",),
    )  # fmt: skip


def kinds(runs: Runs, *, resamples: int = 1000, seed: int = 0) -> Finding:
    """The share of checks passed, 0-100, by kind and, in the mini bench, by what a probe asks; by scenario too.

    Args:
        runs: by model, then by history, the tallies.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.

    Returns:
        `values`: by model, history and kind (atomic, capability, or `probe: …`) an estimate, a mean over dialogues, and
        `scenarios`, the same within each.
    """
    samples = _samples(runs, resamples, seed)
    counted = [{one.dialogue: _kinds(one) for one in sample.tallies} for _, _, sample in samples]
    every = {kind for found in counted for counts in found.values() for kind in counts}
    names = sorted(every, key=lambda kind: (kind.startswith("probe: "), kind))
    values: dict[str, Any] = {}
    for (name, history, sample), counts in zip(samples, counted, strict=True):
        table_of = {
            id_: [equal(found[kind]) if kind in found else NOTHING for kind in names] for id_, found in counts.items()
        }

        def rows(one: DialogueTally, found: Mapping[str, list[Row]] = table_of) -> list[Row]:
            return found[one.dialogue]

        scenarios = {s: [mean.entry() for mean in means] for s, means in sample.by_scenario(rows).items()}
        values.setdefault(name, {})[history] = {
            kind: {**mean.entry(), "scenarios": {s: found[i] for s, found in scenarios.items()}}
            for i, (kind, mean) in enumerate(zip(names, sample.means(rows), strict=True))
        }
    present = sorted(
        {s for _, _, entries in _entries(values) for found in entries.values() for s in found["scenarios"]}
    )
    table: list[tuple[Cell, ...]] = [
        (name, history, kind, found["value"], spread(found), found["n"], covered(found),
         *(found["scenarios"].get(s, {}).get("value") for s in present))
        for name, history, entries in _entries(values)
        for kind, found in entries.items()
    ]  # fmt: skip
    bars = tuple(
        series(f"{name}, {history}", tuple(names), [entries[kind] for kind in names])
        for name, history, entries in _entries(values)
    )
    return Finding(
        "checks",
        "By kind of check",
        "ours",
        values,
        (Table("Share passed", ("Model", "History", "Kind", "Passed", "95 %", "n", "Coverage", *present), tuple(table)),),  # noqa: E501
        (Chart("Checks passed", "bars", "", "share passed, %", bars, (0, 100)),),
        ("Means over dialogues. Atomic checks make SC, capability checks are in no score. What probes ask is known in "
         "the mini bench only.",),
    )  # fmt: skip


def _kinds(one: DialogueTally) -> dict[str, Count]:
    groups: dict[str, list[Count]] = {}
    for check in one.each:
        groups.setdefault(check.kind, []).append(check.count)
        if check.predicate:
            groups.setdefault(f"probe: {check.predicate}", []).append(check.count)
    return {kind: total(counts) for kind, counts in groups.items()}


_ERRORS = ("after_failure", "after_success", "again_after_failure", "again_after_success")


def errors(runs: Runs, *, resamples: int = 1000, seed: int = 0) -> Finding:
    """How one failure brings the next: the chance to fail an atomic check, given what happened a turn ago.

    A hard dialogue makes both turns fail, so the difference alone proves no accumulation: in `gt` turns don't build on
    each other, which makes it the baseline, and `excess` is the difference in `self` beyond that in `gt`.

    Args:
        runs: by model, then by history, the tallies.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.

    Returns:
        `values`: by model and history `after_failure` and `after_success` (the chance to fail if an atomic check
        of the turn before failed, or all passed), their `difference` and `ratio` (times); `again_…`: the same for
        checks whose very criterion was asked one generation turn before; by model `excess`. Shares of checks; a turn
        that isn't scored throughout is no condition, and its successors are left out, of bounds as well.
    """
    values: dict[str, Any] = {}
    for name, found in runs.items():
        scores: dict[str, dict[str, Scored]] = {}
        for _, history, sample in _samples({name: found}, resamples, seed):
            means = sample.means(_error_rows) or [Scored.undefined(resamples)] * len(_ERRORS)
            entries = dict(zip(_ERRORS, means, strict=True))
            entries["difference"] = entries["after_failure"] - entries["after_success"]
            entries["again_difference"] = entries["again_after_failure"] - entries["again_after_success"]
            scores[history] = entries
        values[name] = {history: _told(each) for history, each in scores.items()}
        if "self" in scores and "gt" in scores:
            keys = ("difference", "again_difference")
            values[name]["excess"] = {key: (scores["self"][key] - scores["gt"][key]).entry() for key in keys}
    header = ("Model", "History", "After failure", "After success", "Difference", "95 %", "Ratio",
              "Same check: after failure", "after success", "Difference", "95 %", "Ratio", "n")  # fmt: skip
    table: list[tuple[Cell, ...]] = []
    for name, history, entries in _entries(values):
        cells: list[Cell] = [name, "self - gt" if history == "excess" else history]
        for same in ("", "again_"):
            cells += [_value(entries, f"{same}{key}") for key in ("after_failure", "after_success", "difference")]
            cells += [spread(entries[f"{same}difference"]), _value(entries, f"{same}ratio")]
        table.append((*cells, entries["difference"]["n"]))
    bars = tuple(
        series(f"{name}, {history}", _ERRORS, [entries[key] for key in _ERRORS])
        for name, history, entries in _entries(values)
        if history != "excess"
    )
    return Finding(
        "errors",
        "How errors go on",
        "ours",
        values,
        (Table("Chance to fail an atomic check, %", header, tuple(table)),),
        (Chart("Chance to fail a check, by the turn before", "bars", "", "share failed, %", bars, (0, 100)),),
        ("A failure: an atomic check of the generation turn before failed. Same check: asked again in the same words. "
         "Hard dialogues fail twice whatever the history: read self beside gt, where turns don't build on others.",),
    )  # fmt: skip


def _told(scores: Mapping[str, Scored]) -> dict[str, Estimate]:
    ratios = {
        f"{same}ratio": _quotient(scores[f"{same}after_failure"], scores[f"{same}after_success"])
        for same in ("", "again_")
    }
    return {key: score.entry() for key, score in scores.items()} | ratios


def _quotient(one: Scored, other: Scored) -> Estimate:
    """How many times as large a mean is; null where the other is 0, its interval where it is in any resample."""
    values = ratio(np.array([one.value, one.low, one.high]), np.array([other.value, other.high, other.low]))
    value, low, high = (None if np.isnan(found) else round(float(found), 9) for found in values)
    unsure = value is None or bool((other.samples == 0).any())
    ends = None if unsure else interval(ratio(one.samples, other.samples))
    asked = one.asked + other.asked
    return Estimate(
        value=value,
        low=round(ends[0], 9) if ends else None,
        high=round(ends[1], 9) if ends else None,
        n=one.scored + other.scored,
        coverage=(one.scored + other.scored) / asked if asked else None,
        bounds=[low, high],
    )


def _error_rows(one: DialogueTally) -> list[Row]:
    """Failed of scored checks, by what happened one generation turn before; in the order of _ERRORS."""
    turns: dict[int, list[CheckTally]] = {}
    for check in one.each:
        if check.kind == "atomic":
            turns.setdefault(check.turn, []).append(check)
    counts = [Count() for _ in _ERRORS]
    for before, after in pairwise(turns[turn] for turn in sorted(turns)):
        whole = _failed(before)
        same: dict[str, list[CheckTally]] = {}
        for check in before:
            same.setdefault(check.criterion, []).append(check)
        for check in after:
            if whole is not None:
                counts[0 if whole else 1] += _failure(check.count)
            again = _failed(same[check.criterion]) if check.criterion in same else None
            if again is not None:
                counts[2 if again else 3] += _failure(check.count)
    return [pooled(count) for count in counts]


def _failed(checks: Sequence[CheckTally]) -> bool | None:
    """Whether any of some checks failed; None where one isn't scored (in all its generations)."""
    if any(check.count.scored < check.count.asked for check in checks):
        return None
    return any(check.count.gained < check.count.asked for check in checks)


def _failure(count: Count) -> Count:
    return Count(count.asked, count.scored, count.scored - count.gained)


def _value(entries: Mapping[str, Estimate], key: str) -> float | None:
    return entries[key]["value"] if key in entries else None


def _samples(runs: Runs, resamples: int, seed: int) -> list[tuple[str, str, Sample]]:
    return [
        (name, history, Sample.of(tallies, resamples, seed))
        for name, found in runs.items()
        for history, tallies in found.items()
    ]


def _entries(values: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [(name, history, entries) for name, found in values.items() for history, entries in found.items()]
