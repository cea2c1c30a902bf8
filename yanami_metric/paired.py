"""Two or more runs compared on the dialogues that they share: differences, p-values, ranks. Pure.

Differences are paired: both runs are drawn alike, and a test exchanges what the runs did within a dialogue. It knows no
files, judges or models; whether runs may be compared at all is for the caller to find out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.estimates import Row, Sample, Scored, blank, ordered
from yanami_metric.score import HEADLINES, LEAVES, Basis, Scores, combined, scored
from yanami_metric.statistics import LEVEL, FloatArray, holm, ratio
from yanami_metric.tally import DialogueTally

_CELLS = 1 << 21  # exchanges held at once


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

    A dialogue in which a score has nothing scored on one side counts for the difference of that score on neither, so
    that no difference is one between different dialogues; bounds are over all. Overall is only compared between sides with
    the same formula. p is that of a two-sided permutation test: under the null hypothesis what two runs did in a dialogue
    might as well have been the other's, so within each dialogue they are exchanged at random.

    Args:
        sides: two or more, by name.
        resamples: of the bootstrap over dialogues within scenarios.
        permutations: of the test.
        seed: of both.

    Returns:
        Ready for JSON: `dialogues` (shared by all), `scenarios` (how many in each), `left_out` (by name), `scores` (by
        name: HEADLINES as estimates over the shared dialogues, and `scenarios`), `pairs` (a list of `a`, `b`, `scenario`
        or None, `score`, `difference` a - b in points, `p`, `p_holm`), `ranks` (`vr` by name, `overall` a list of
        `formula` and `ranks`) and `method`. `p_holm` is corrected over all pairs for one score, over the whole and over
        scenarios apart.

    Raises:
        SpecError: fewer than two sides.
        DataError: no dialogue is shared.
    """
    if len(sides) < 2:
        raise SpecError(f"expected two or more runs to compare, got {len(sides)}")
    shared = _shared(sides)
    samples = {
        name: Sample(ordered(one for one in side.tallies if one.dialogue in shared), resamples, seed)
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


def _shared(sides: Mapping[str, Side]) -> set[str]:
    ids = [{one.dialogue for one in side.tallies} for side in sides.values()]
    shared = set.intersection(*ids)
    if not shared:
        numbers = ", ".join(f"{name} {len(one)}" for name, one in zip(sides, ids, strict=True))
        raise DataError(f"expected runs that share dialogues, got none in common ({numbers})")
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
    chance = _exchanged(sample_a, rows, (side_a, side_b), permutations)
    scores = [name for name in HEADLINES if name != "overall" or side_a.formula == side_b.formula]
    for scenario in (None, *found[0].parts):
        left, right, null = (
            part.whole if scenario is None else part.parts[scenario] for part in (found[0], found[1], chance)
        )
        for name in scores:
            difference = left[name] - right[name]
            yield {
                "a": a,
                "b": b,
                "scenario": scenario,
                "score": name,
                "difference": difference.entry(),
                "p": _p(difference, null[name].samples),
            }


def _p(difference: Scored, null: FloatArray) -> float | None:
    """The share of exchanges that differ at least as much, the real one counted; None for fewer than two dialogues."""
    if np.isnan(difference.value) or np.isnan(difference.samples).all() or not null.size or np.isnan(null).any():
        return None
    extreme = int((np.abs(null) >= abs(difference.value) - 1e-12).sum())
    return (1 + extreme) / (1 + len(null))


def _exchanged(sample: Sample, rows: Any, sides: tuple[Side, Side], permutations: int) -> Scores:
    """The differences of all scores when both runs are exchanged within dialogues at random, as samples."""
    parts = {}
    columns = len(LEAVES)
    for scenario, group in sample.groups.items():
        table = np.array([rows(one) for one in group], dtype=np.float64)[:, :, :2]
        a, b = table[:, :columns].reshape(len(group), -1), table[:, columns:].reshape(len(group), -1)
        rng = np.random.default_rng([sample.seed, SCENARIOS.index(scenario), 1])  # other numbers than the bootstrap's
        swapped = _swapped(a - b, permutations, rng)
        leaves = []
        for sums in (b.sum(axis=0) + swapped, a.sum(axis=0) - swapped):
            ratios = ratio(sums[:, 0::2], sums[:, 1::2])
            leaves.append([Scored(0.0, 0.0, 0.0, ratios[:, i], 0, 0) for i in range(columns)])
        left, right = (side.basis.of_scenario(found) for side, found in zip(sides, leaves, strict=True))
        parts[scenario] = {name: left[name] - right[name] for name in left}
    return combined(parts)


def _swapped(differences: FloatArray, permutations: int, rng: np.random.Generator) -> FloatArray:
    """Sums of the differences of those dialogues that aren't exchanged: permutations x columns."""
    dialogues, columns = differences.shape
    sums = np.zeros((permutations, columns))
    step = max(1, _CELLS // max(1, dialogues))
    for start in range(0, permutations, step):
        stop = min(start + step, permutations)
        sums[start:stop] = rng.integers(0, 2, size=(stop - start, dialogues)).astype(np.float64) @ differences
    return sums


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
    """Ranks, 1 the highest score, with their 95 % intervals (**ours**: the percentiles of the rank over resamples).

    Scores must be of the same dialogues, drawn alike. Equal scores share the better rank; a side without a score has none,
    one without an interval has a rank alone.

    >>> one, two = (Scored(v, v, v, np.array([v, v - 0.3]), 9, 9) for v in (0.9, 0.7))
    >>> ranks({"a": one, "b": two})["b"]
    {'rank': 2, 'low': 2, 'high': 2}
    """
    known = {name: one for name, one in scores.items() if not np.isnan(one.value)}
    values = np.array([one.value for one in known.values()])
    drawn = np.array([one.samples for one in known.values()])
    found = {}
    for place, name in enumerate(known):
        rank = 1 + int((values > values[place] + 1e-12).sum())
        places = 1 + (drawn > drawn[place] + 1e-12).sum(axis=0) if drawn.size and not np.isnan(drawn).any() else None
        low, high = (None, None) if places is None else (
            int(np.quantile(places, share, method="nearest")) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
        )  # fmt: skip
        found[name] = {"rank": rank, "low": low, "high": high}
    return found
