"""From counts to scores: DSU, SC, VQ, VR and overall, each with its interval, coverage and bounds.

Pure: no files, models or judges. Every score here is a weighted mean of a few leaves (four question dimensions, SC
and VQ in each scenario), so one rule carries values, resamples and bounds upwards, and anything undefined stays
undefined: no weight ever moves to what happens to be there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypedDict

import numpy as np

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import CAPABILITIES, DIMENSIONS, SCENARIOS
from yanami_metric.formulas import DEFAULT, Weights, dsu, macro, overall, vr
from yanami_metric.statistics import LEVEL, FloatArray, interval, ratio, resampled_ratios
from yanami_metric.tally import (
    STATUS_COLUMNS,
    Count,
    DialogueTally,
    ItemResult,
    tally,
    total,
)

__all__ = [
    "SC_MEANS",
    "Estimate",
    "ItemResult",
    "ScMean",
    "Weights",
    "dsu",
    "macro",
    "overall",
    "summarise",
    "tally",
    "vr",
]

ScMean = Literal["dialogue", "image", "check"]
SC_MEANS: tuple[ScMean, ...] = ("dialogue", "image", "check")
"""What SC averages over. The paper doesn't say; "dialogue" is ours."""

_LEAVES = (*DIMENSIONS, "sc", "vq")
_HEADLINES = ("overall", "vr", "dsu", "sc", "vq")


class Estimate(TypedDict):
    """A score on the 0-100 scale as it stands in scores.json.

    `value` is null where nothing of some part was scored; `low` and `high` are its 95 % interval, null where
    a part of it was scored in fewer than two dialogues. `n` is the number of scored items in it, `coverage` that number
    over the items asked, `bounds` what the value would be if everything unscored were wrong, and if it were right.
    A score that isn't defined at all (the model can't do it, the data doesn't ask for it, a scenario is missing) is
    null throughout, with n = 0 and bounds [null, null].
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    coverage: float | None
    bounds: list[float | None]


def summarise(
    tallies: Iterable[DialogueTally],
    *,
    can_answer: bool,
    can_draw: bool,
    weights: Weights = DEFAULT,
    resamples: int = 1000,
    seed: int = 0,
    sc_mean: ScMean = "dialogue",
) -> dict[str, Any]:
    """The scores of one history: an entry of `histories` in scores.json, ready for JSON (no NaN).

    Args:
        tallies: one per dialogue, in any order; it doesn't change the result.
        can_answer: whether the model's caps say that it answers in text. Chooses the formula of overall.
        can_draw: whether they say that it draws. Where not, SC, VQ, VR and overall are undefined.
        weights: written into the result.
        resamples: of the bootstrap over dialogues within scenarios; 0 for no intervals.
        seed: of the bootstrap. Equal dialogues are drawn alike under every history, so histories stay paired.
        sc_mean: what SC averages over.

    Returns:
        `overall`, `vr`, `dsu`, `sc`, `vq` (each an `Estimate`, the mean over all four scenarios, undefined if one is
        missing), `scenarios` (by name: the same, with `dimensions` and `dialogues`), `statuses` (by kind, only what
        occurs), `without_refusals` (`overall`, `vr`, `n_refused`), `capability_checks` (counts, in no score),
        `dialogues`, `formula`, `weights`, `sc_mean`, `can_answer`, `can_draw` and `interval`.

    Raises:
        DataError: a dialogue counted twice, or an unknown scenario.
        SpecError: an unknown `sc_mean`.
    """
    if sc_mean not in SC_MEANS:
        raise SpecError(f"sc_mean: expected one of {', '.join(SC_MEANS)}, got {sc_mean!r}")
    ordered = _ordered(tallies)
    able = frozenset(DIMENSIONS * can_answer + ("sc", "vq") * can_draw)
    plan = _Plan(weights, can_answer, able, sc_mean, resamples, seed)
    scenarios = _scenarios(plan, ordered)
    scores = _across(plan, scenarios)
    everything = [one for group in ordered.values() for one in group]
    return {
        **{name: score.entry() for name, score in scores.items()},
        "dialogues": len(everything),
        "scenarios": {name: _scenario_entry(scores, len(ordered[name])) for name, scores in scenarios.items()},
        "statuses": _statuses(everything, ("answer",) * can_answer + ("checks", "quality") * can_draw),
        "without_refusals": _without_refusals(plan, ordered, scores),
        "capability_checks": _capability_checks(everything) if can_draw else {},
        "formula": weights.formula(with_dsu=can_answer),
        "weights": asdict(weights),
        "sc_mean": sc_mean,
        "can_answer": can_answer,
        "can_draw": can_draw,
        "interval": {
            "method": "percentile bootstrap over dialogues within scenarios",
            "level": LEVEL,
            "resamples": resamples,
            "seed": seed,
        },
    }


@dataclass(frozen=True, slots=True)
class _Plan:
    weights: Weights
    with_dsu: bool
    able: frozenset[str]  # the leaves that the model can be asked for
    sc_mean: ScMean
    resamples: int
    seed: int
    refusals: bool = True


@dataclass(frozen=True, slots=True)
class _Score:
    """A score on 0-1 on its way up: NaN bounds mean undefined, a NaN value alone means that nothing was scored."""

    value: float
    low: float
    high: float
    samples: FloatArray
    scored: int
    asked: int

    def entry(self) -> Estimate:
        if math.isnan(self.low):
            return Estimate(value=None, low=None, high=None, n=0, coverage=None, bounds=[None, None])
        ends = None if math.isnan(self.value) else interval(self.samples)
        return Estimate(
            value=None if math.isnan(self.value) else _percent(self.value),
            low=None if ends is None else _percent(ends[0]),
            high=None if ends is None else _percent(ends[1]),
            n=self.scored,
            coverage=self.scored / self.asked,
            bounds=[_percent(self.low), _percent(self.high)],
        )


def _percent(share: float) -> float:
    return round(100 * float(share), 9)  # without the noise of adding floats: never 100.00000000000001


def _undefined(resamples: int) -> _Score:
    return _Score(math.nan, math.nan, math.nan, np.full(resamples, math.nan), 0, 0)


def _mix(parts: Iterable[tuple[float, _Score]]) -> _Score:
    """The weighted mean; what has no weight has no say, and what is undefined makes the whole so."""
    parts = [(share, score) for share, score in parts if share > 0]
    return _Score(
        value=sum(share * score.value for share, score in parts),
        low=sum(share * score.low for share, score in parts),
        high=sum(share * score.high for share, score in parts),
        samples=np.sum([share * score.samples for share, score in parts], axis=0),
        scored=sum(score.scored for _, score in parts),
        asked=sum(score.asked for _, score in parts),
    )


def _ordered(tallies: Iterable[DialogueTally]) -> dict[str, list[DialogueTally]]:
    """By scenario, sorted by id: sums and draws then depend on no order."""
    ordered: dict[str, list[DialogueTally]] = {name: [] for name in SCENARIOS}
    seen: set[str] = set()
    for one in tallies:
        if one.dialogue in seen:
            raise DataError(
                f"dialogue {one.dialogue!r}: expected one tally per dialogue, got a second; do shards overlap?"
            )
        if one.scenario not in ordered:
            expected = ", ".join(SCENARIOS)
            raise DataError(f"dialogue {one.dialogue!r}: expected a scenario of {expected}, got {one.scenario!r}")
        seen.add(one.dialogue)
        ordered[one.scenario].append(one)
    return {name: sorted(group, key=lambda one: one.dialogue) for name, group in ordered.items()}


def _scenario(plan: _Plan, index: int, tallies: Sequence[DialogueTally]) -> dict[str, _Score]:
    scores = _leaves(plan, index, tallies)
    scores["dsu"] = _mix((1 / len(DIMENSIONS), scores[name]) for name in DIMENSIONS)
    for name, with_dsu in (("vr", False), ("overall", plan.with_dsu)):
        scores[name] = _mix((share, scores[part]) for part, share in plan.weights.shares(with_dsu=with_dsu).items())
    return scores


def _leaves(plan: _Plan, index: int, tallies: Sequence[DialogueTally]) -> dict[str, _Score]:
    table = np.array([[_row(plan, leaf, one) for leaf in _LEAVES] for one in tallies], dtype=np.float64)
    gained, units, low, high, asked_units, scored, asked = table.sum(axis=0).T
    rng = np.random.default_rng([plan.seed, index])  # a scenario's draws don't depend on which others are there
    samples = resampled_ratios(table[:, :, 0], table[:, :, 1], plan.resamples, rng)
    value, low, high = ratio(gained, units), ratio(low, asked_units), ratio(high, asked_units)
    return {
        leaf: _Score(value[i], low[i], high[i], samples[:, i], int(scored[i]), int(asked[i]))
        if asked[i] and leaf in plan.able
        else _undefined(plan.resamples)
        for i, leaf in enumerate(_LEAVES)
    }


def _row(plan: _Plan, leaf: str, one: DialogueTally) -> tuple[float, ...]:
    """A dialogue's part in a leaf: gained, units, both bounds of gained, asked units, items scored, items asked."""
    counts, equal = _parts(plan, leaf, one)
    if not plan.refusals:
        counts = [count.without_refusals() for count in counts]
    rows = [_equal(count) if equal else _pooled(count) for count in counts if count.asked]
    return tuple(sum(column) for column in zip(*rows, strict=True)) or (0,) * 7


def _parts(plan: _Plan, leaf: str, one: DialogueTally) -> tuple[list[Count], bool]:
    """The counts that a leaf takes from a dialogue, and whether each of them weighs the same whatever its size."""
    if leaf == "vq":
        return [one.quality], True
    if leaf != "sc":
        return [one.questions[DIMENSIONS.index(leaf)]], False
    if plan.sc_mean == "image":
        return [image.checks for image in one.images], True
    return [one.checks], plan.sc_mean == "dialogue"


def _equal(count: Count) -> tuple[float, ...]:
    share = (count.share, 1) if count.scored else (0, 0)
    return (*share, count.lowest, count.highest, 1, count.scored, count.asked)


def _pooled(count: Count) -> tuple[float, ...]:
    unscored = count.asked - count.scored
    return (count.gained, count.scored, count.gained, count.gained + unscored, count.asked, count.scored, count.asked)


def _across(plan: _Plan, scenarios: Mapping[str, Mapping[str, _Score]]) -> dict[str, _Score]:
    """The means over the four scenarios."""
    missing = _undefined(plan.resamples)
    return {
        name: _mix((1 / len(SCENARIOS), scenarios[s][name] if s in scenarios else missing) for s in SCENARIOS)
        for name in _HEADLINES
    }


def _scenarios(plan: _Plan, ordered: Mapping[str, Sequence[DialogueTally]]) -> dict[str, dict[str, _Score]]:
    return {name: _scenario(plan, index, ordered[name]) for index, name in enumerate(SCENARIOS) if ordered[name]}


def _scenario_entry(scores: Mapping[str, _Score], dialogues: int) -> dict[str, Any]:
    return {
        **{name: scores[name].entry() for name in _HEADLINES},
        "dimensions": {name: scores[name].entry() for name in DIMENSIONS},
        "dialogues": dialogues,
    }


def _without_refusals(
    plan: _Plan, ordered: Mapping[str, Sequence[DialogueTally]], scores: Mapping[str, _Score]
) -> dict[str, Any]:
    """Overall and VR over all but the refused items, with the same draws; `scores` are those with them."""
    refused = sum(
        count.refused
        for group in ordered.values()
        for one in group
        for leaf in plan.able
        for count in _parts(plan, leaf, one)[0]
    )
    if refused:
        scores = _across(plan, _scenarios(replace(plan, refusals=False), ordered))
    return {**{name: scores[name].entry() for name in ("overall", "vr")}, "n_refused": refused}


def _statuses(tallies: Iterable[DialogueTally], kinds: Sequence[str]) -> dict[str, dict[str, int]]:
    counts: Counter[tuple[str, str]] = Counter()
    for one in tallies:
        for kind, status, number in one.statuses:
            counts[kind, status] += number
    return {kind: {status: counts[kind, status] for status in STATUS_COLUMNS if counts[kind, status]} for kind in kinds}


def _capability_checks(tallies: Sequence[DialogueTally]) -> dict[str, dict[str, float]]:
    sums = {name: total(one.capabilities[i] for one in tallies) for i, name in enumerate(CAPABILITIES)}
    return {
        name: {"asked": count.asked, "scored": count.scored, "passed": int(count.gained)}
        for name, count in sums.items()
    }
