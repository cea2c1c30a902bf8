"""From counts to scores: DSU, SC, VQ, VR and overall, each with its interval, coverage and bounds.

Pure: no files, models or judges. Every score here is a weighted mean of a few leaves (four question dimensions, SC
and VQ in each scenario), so one rule carries values, resamples and bounds upwards, and anything undefined stays
undefined: no weight ever moves to what happens to be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from yanami_dataset.errors import SpecError
from yanami_dataset.schema import CAPABILITIES, DIMENSIONS, SCENARIOS
from yanami_metric.estimates import Estimate, Row, Sample, Scored, equal, mix, pooled, summed
from yanami_metric.formulas import DEFAULT, Weights, dsu, macro, overall, vr
from yanami_metric.statistics import LEVEL
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

LEAVES = (*DIMENSIONS, "sc", "vq")
HEADLINES = ("overall", "vr", "dsu", "sc", "vq")


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
    basis = Basis(can_answer, can_draw, weights, sc_mean)
    sample = Sample.of(tallies, resamples, seed)
    scores = scored(sample, basis)
    return {
        **{name: score.entry() for name, score in scores.whole.items()},
        "dialogues": len(sample.tallies),
        "scenarios": {name: _scenario_entry(scores, len(sample.groups[name])) for name, scores in scores.parts.items()},
        "statuses": _statuses(sample.tallies, ("answer",) * can_answer + ("checks", "quality") * can_draw),
        "without_refusals": _without_refusals(sample, basis, scores),
        "capability_checks": _capability_checks(sample.tallies) if can_draw else {},
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
class Basis:
    """What the scores of a model are made of: what it can do, and how that is weighted.

    `can_answer` and `can_draw` are its caps, `refusals` says whether what the model refused counts (as wrong).

    Raises:
        SpecError: an unknown `sc_mean`.
    """

    can_answer: bool
    can_draw: bool
    weights: Weights = DEFAULT
    sc_mean: ScMean = "dialogue"
    refusals: bool = True

    def __post_init__(self) -> None:
        if self.sc_mean not in SC_MEANS:
            raise SpecError(f"sc_mean: expected one of {', '.join(SC_MEANS)}, got {self.sc_mean!r}")

    def rows(self, one: DialogueTally) -> list[Row]:
        """What a dialogue puts into each of LEAVES."""
        return [self._row(leaf, one) for leaf in LEAVES]

    def _row(self, leaf: str, one: DialogueTally) -> Row:
        counts, weigh = self.counts(leaf, one)
        if not self.refusals:
            counts = [count.without_refusals() for count in counts]
        return summed(map(weigh, counts))

    def counts(self, leaf: str, one: DialogueTally) -> tuple[list[Count], Callable[[Count], Row]]:
        """The counts that a leaf takes from a dialogue, and how each of them weighs; none if the model can't do it."""
        if not (self.can_draw if leaf in ("sc", "vq") else self.can_answer):
            return [], equal
        if leaf == "vq":
            return [one.quality], equal
        if leaf != "sc":
            return [one.questions[DIMENSIONS.index(leaf)]], pooled
        if self.sc_mean == "image":
            return [image.checks for image in one.images], equal
        return [one.checks], equal if self.sc_mean == "dialogue" else pooled

    def of_scenario(self, leaves: Sequence[Scored]) -> dict[str, Scored]:
        """The scores of one scenario, leaves included, from its LEAVES."""
        scores = dict(zip(LEAVES, leaves, strict=True))
        scores["dsu"] = mix((1 / len(DIMENSIONS), scores[name]) for name in DIMENSIONS)
        for name, with_dsu in (("vr", False), ("overall", self.can_answer)):
            shares = self.weights.shares(with_dsu=with_dsu)
            scores[name] = mix((share, scores[part]) for part, share in shares.items())
        return scores


class Scores(NamedTuple):
    """HEADLINES over all four scenarios (undefined if one is missing), and by scenario, there with LEAVES."""

    whole: dict[str, Scored]
    parts: dict[str, dict[str, Scored]]


def scored(sample: Sample, basis: Basis) -> Scores:
    """The scores of a sample, each with its bootstrap samples: those of equal dialogues are paired."""
    return combined({name: basis.of_scenario(leaves) for name, leaves in sample.by_scenario(basis.rows).items()})


def combined(parts: dict[str, dict[str, Scored]]) -> Scores:
    """The scores over all scenarios from those of each."""
    resamples = max((len(score.samples) for scores in parts.values() for score in scores.values()), default=0)
    missing = Scored.undefined(resamples)
    whole = {
        name: mix((1 / len(SCENARIOS), parts[s][name] if s in parts else missing) for s in SCENARIOS)
        for name in HEADLINES
    }
    return Scores(whole, parts)


def _scenario_entry(scores: Mapping[str, Scored], dialogues: int) -> dict[str, Any]:
    return {
        **{name: scores[name].entry() for name in HEADLINES},
        "dimensions": {name: scores[name].entry() for name in DIMENSIONS},
        "dialogues": dialogues,
    }


def _without_refusals(sample: Sample, basis: Basis, scores: Scores) -> dict[str, Any]:
    """Overall and VR over all but the refused items, with the same draws; `scores` are those with them."""
    refused = sum(count.refused for one in sample.tallies for leaf in LEAVES for count in basis.counts(leaf, one)[0])
    if refused:
        scores = scored(sample, replace(basis, refusals=False))
    return {**{name: scores.whole[name].entry() for name in ("overall", "vr")}, "n_refused": refused}


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
