"""Two or more runs compared on the dialogues that they share: differences, p-values, ranks. Pure.

Differences are paired: both runs are drawn alike, and a test exchanges what the runs did within a dialogue. The whole
comparison is **ours**. It knows no files, judges or models; whether runs may be compared at all (the same data, the
same judge) is for the caller to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.estimates import Row, Sample, Scored, blank
from yanami_metric.score import HEADLINES, LEAVES, Basis, Scores, combined, scored
from yanami_metric.statistics import LEVEL, FloatArray, exchanged_sums, holm, ratio
from yanami_metric.tally import DialogueTally

_TIE = 1e-12  # closer than that is equal: the same numbers added in another order


@dataclass(frozen=True)
class Side:
    """One of the runs: its tallies under one history, and what its scores are made of."""

    tallies: Sequence[DialogueTally]
    basis: Basis

    @property
    def formula(self) -> str:
        """Of its overall."""
        return self.basis.weights.formula(with_dsu=self.basis.can_answer)


def compare(
    sides: Mapping[str, Side], *, resamples: int = 1000, permutations: int = 2000, seed: int = 0
) -> dict[str, Any]:
    """Compare runs on the dialogues that all of them have.

    Where one side has nothing scored of a part (a question dimension, SC, VQ) of a dialogue, the dialogue is left out
    of that part of the difference on both sides: else it would be one between different dialogues. So a difference need
    not be that of the two `scores`. Bounds, `n` and coverage are over all. Overall is only compared between sides with
    the same formula.

    p is that of a two-sided permutation test: if two runs are alike, what they did in a dialogue might as well have
    been the other's, so within dialogues they are exchanged at random. p = (1 + as extreme) / (1 + permutations);
    it is None wherever the difference has no interval or no value.

    Args:
        sides: two or more, by name.
        resamples: of the bootstrap over dialogues within scenarios; 0 for no intervals.
        permutations: of the test; the same for all pairs and scores; 0 for no p.
        seed: of both.

    Returns:
        Ready for JSON: `dialogues` (shared by all), `scenarios` (how many in each), `left_out` (by name), `scores` (by
        name: HEADLINES as estimates over the shared dialogues, and `scenarios`), `pairs` (a list of `a`, `b`,
        `scenario` or None for all, `score`, `difference` a - b in points, `p`, `p_holm`), `ranks` (`vr` by name,
        `overall` a list of `formula` and `ranks`; see there) and `method`. `p_holm` is corrected within
        families: all pairs for a score over the whole are one, all pairs and scenarios for one score another.

    Raises:
        SpecError: fewer than two sides, sides whose SC or VR is another mean, or a negative number.
        DataError: no dialogue is shared, one is of two scenarios, or a side has one twice.
    """
    _check(sides)
    shared = _shared(sides)
    samples = {
        name: Sample.of((one for one in side.tallies if one.dialogue in shared), resamples, seed)
        for name, side in sides.items()
    }
    scores = {name: scored(samples[name], side.basis) for name, side in sides.items()}
    pairs = [
        entry
        for a, b in combinations(sides, 2)
        for entry in _pair((a, sides[a], samples[a]), (b, sides[b], samples[b]), permutations)
    ]
    _correct(pairs)
    first = next(iter(samples.values()))
    return {
        "dialogues": len(shared),
        "scenarios": {name: len(group) for name, group in first.groups.items()},
        "left_out": {name: len(side.tallies) - len(shared) for name, side in sides.items()},
        "scores": {name: _entries(found) for name, found in scores.items()},
        "pairs": pairs,
        "ranks": {"vr": ranks({n: s.whole["vr"] for n, s in scores.items()}), "overall": _overall(sides, scores)},
        "method": {
            "level": LEVEL,
            "resamples": resamples,
            "permutations": permutations,
            "seed": seed,
            "interval": "percentile bootstrap over dialogues within scenarios, the same draws for all runs",
            "test": "two-sided permutation test, runs exchanged within dialogues",
            "correction": "Holm, over all pairs for one score; the whole and scenarios apart",
        },
    }


def _check(sides: Mapping[str, Side]) -> None:
    if len(sides) < 2:
        raise SpecError(f"expected two or more runs to compare, got {len(sides)}")
    means = {
        name: f"{side.basis.weights.formula(with_dsu=False)}, SC by {side.basis.sc_mean}"
        for name, side in sides.items()
    }
    if len(set(means.values())) > 1:
        got = "; ".join(f"{name} {mean}" for name, mean in means.items())
        raise SpecError(f"expected runs whose VR is the same mean, got {got}; score them alike first")


def _shared(sides: Mapping[str, Side]) -> set[str]:
    scenarios = [{one.dialogue: one.scenario for one in side.tallies} for side in sides.values()]
    shared = set.intersection(*map(set, scenarios))
    if not shared:
        numbers = ", ".join(f"{name} has {len(one)}" for name, one in zip(sides, scenarios, strict=True))
        raise DataError(f"expected runs that share dialogues, got none that all of them have ({numbers})")
    for dialogue in sorted(shared):
        found = sorted({one[dialogue] for one in scenarios})
        if len(found) > 1:
            raise DataError(
                f"dialogue {dialogue!r}: expected one scenario in all runs, got {' and '.join(found)}; "
                "were they made with the same data?"
            )
    return shared


def _entries(found: Scores) -> dict[str, Any]:
    return {
        **{name: found.whole[name].entry() for name in HEADLINES},
        "scenarios": {s: {name: scores[name].entry() for name in HEADLINES} for s, scores in found.parts.items()},
    }


def _pair(
    one: tuple[str, Side, Sample], other: tuple[str, Side, Sample], permutations: int
) -> Iterator[dict[str, Any]]:
    (a, side_a, sample_a), (b, side_b, sample_b) = one, other
    theirs = {tally.dialogue: tally for tally in sample_b.tallies}
    columns = len(LEAVES)

    def rows(tally: DialogueTally) -> list[Row]:
        pairs = zip(side_a.basis.rows(tally), side_b.basis.rows(theirs[tally.dialogue]), strict=True)
        blanked = [blank(pair) for pair in pairs]
        return [pair[0] for pair in blanked] + [pair[1] for pair in blanked]

    means = sample_a.by_scenario(rows)
    found = [
        combined({s: side.basis.of_scenario(leaves[part]) for s, leaves in means.items()})
        for side, part in ((side_a, slice(columns)), (side_b, slice(columns, None)))
    ]
    null = _exchanged(sample_a, rows, (side_a.basis, side_b.basis), permutations)
    scores = [name for name in HEADLINES if name != "overall" or side_a.formula == side_b.formula]
    for scenario in (None, *found[0].parts):
        left, right, chance = (part.whole if scenario is None else part.parts[scenario] for part in (*found, null))
        for name in scores:
            difference = left[name] - right[name]
            yield {
                "a": a,
                "b": b,
                "scenario": scenario,
                "score": name,
                "difference": difference.entry(),
                "p": _p(difference.value, chance[name].samples),
            }


def _p(value: float, null: FloatArray) -> float | None:
    """The share of exchanges that differ at least as much, what happened counted as one of them."""
    if not null.size or np.isnan(value) or np.isnan(null).any():
        return None
    return (1 + int((np.abs(null) >= abs(value) - _TIE).sum())) / (1 + len(null))


def _exchanged(
    sample: Sample, rows: Callable[[DialogueTally], list[Row]], bases: tuple[Basis, Basis], permutations: int
) -> Scores:
    """Differences of all scores, as samples, when two runs are exchanged within dialogues at random.

    `rows` are those of LEAVES of the one run, then of the other. Undefined where a leaf has under two dialogues, as
    intervals are.
    """
    parts = {}
    for scenario, group in sample.groups.items():
        table = np.array([rows(one) for one in group], dtype=np.float64)[:, :, :2]
        a, b = table[:, : len(LEAVES)].reshape(len(group), -1), table[:, len(LEAVES) :].reshape(len(group), -1)
        rng = np.random.default_rng([sample.seed, SCENARIOS.index(scenario), 1])  # not the draws of the bootstrap
        kept = exchanged_sums(a - b, permutations, rng)
        left, right = (
            basis.of_scenario(_samples(sums, a))
            for basis, sums in zip(bases, (b.sum(axis=0) + kept, a.sum(axis=0) - kept), strict=True)
        )
        parts[scenario] = {name: left[name] - right[name] for name in left}
    return combined(parts)


def _samples(sums: FloatArray, rows: FloatArray) -> list[Scored]:
    """Means of which only samples matter, from sums of gained and units in turn."""
    ratios = ratio(sums[:, 0::2], sums[:, 1::2])
    ratios[:, (rows[:, 1::2] > 0).sum(axis=0) < 2] = np.nan
    return [Scored(0.0, 0.0, 0.0, column, 0, 0) for column in ratios.T]


def _correct(pairs: list[dict[str, Any]]) -> None:
    for name in HEADLINES:
        for whole in (True, False):
            family = [one for one in pairs if one["score"] == name and (one["scenario"] is None) == whole]
            for one, corrected in zip(family, holm([one["p"] for one in family]), strict=True):
                one["p_holm"] = corrected


def _overall(sides: Mapping[str, Side], scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    formulas = list(dict.fromkeys(side.formula for side in sides.values()))
    return [
        {
            "formula": formula,
            "ranks": ranks({name: scores[name].whole["overall"] for name in sides if sides[name].formula == formula}),
        }
        for formula in formulas
    ]


def ranks(scores: Mapping[str, Scored]) -> dict[str, dict[str, int | None]]:
    """Ranks, 1 for the highest score, with 95 % intervals: the percentiles of the rank over resamples (**ours**).

    Args:
        scores: by name, of the same dialogues drawn alike. Where one of them isn't defined in a resample, that one
            counts for no rank.

    Returns:
        `rank`, `low` and `high` by name. Equal scores share the better rank, a side without a score has none; without
        intervals `low` and `high` are None.

    >>> one, two = (Scored(v, v, v, np.array([v, v - 0.3]), 9, 9) for v in (0.9, 0.7))
    >>> ranks({"a": one, "b": two})["b"]
    {'rank': 2, 'low': 2, 'high': 2}
    """
    known = {name: one for name, one in scores.items() if not np.isnan(one.value)}
    found: dict[str, dict[str, int | None]] = {}
    if not known:
        return found
    values = np.array([one.value for one in known.values()])
    drawn = np.array([one.samples for one in known.values()])
    drawn = drawn[:, ~np.isnan(drawn).any(axis=0)]
    for place, name in enumerate(known):
        places = _rank(drawn, place)
        low, high = (
            int(np.quantile(places, share, method="nearest")) if places.size else None
            for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
        )
        found[name] = {"rank": int(_rank(values, place)), "low": low, "high": high}
    return found


def _rank(scores: FloatArray, place: int) -> NDArray[np.int_]:
    """The rank of one of the sides, which are the first axis."""
    higher: NDArray[np.int_] = (scores > scores[place] + _TIE).sum(axis=0)
    return higher + 1
