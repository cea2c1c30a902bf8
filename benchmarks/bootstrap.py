"""Intervals of all scores of 400 dialogues from 10,000 resamples, beside scipy.stats.bootstrap called for each score.

Both in one run, alternating, on the same dialogues; the ratio is of the better of three times each. Each scenario has
four question dimensions, DSU, SC, VQ, VR and overall, and all together the five headline scores. Fails beyond a ratio
of 0.2.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from yanami_dataset.schema import DIMENSIONS, SCENARIOS
from yanami_metric.score import HEADLINES, LEAVES, summarise
from yanami_metric.tally import Count, DialogueTally, ImageTally

RESAMPLES, PER_SCENARIO = 10_000, 100
DSU = dict.fromkeys(DIMENSIONS, 0.25)
VR = {"sc": 0.6, "vq": 0.4}
OVERALL = {**{name: 0.4 * share for name, share in DSU.items()}, **{name: 0.6 * share for name, share in VR.items()}}
SHARES: dict[str, Mapping[str, float]] = {
    **{leaf: {leaf: 1.0} for leaf in LEAVES},
    **{"dsu": DSU, "vr": VR, "overall": OVERALL},
}
Table = NDArray[np.float64]


def dialogue(number: int, scenario: str, rng: np.random.Generator) -> DialogueTally:
    """Two questions per dimension, and four images with four checks each."""
    questions = tuple(Count(2, 2, float(rng.integers(0, 3))) for _ in DIMENSIONS)
    images = tuple(
        ImageTally(turn, 0, Count(4, 4, float(rng.integers(0, 5))), Count(1, 1, rng.integers(0, 11) / 10))
        for turn in range(4)
    )
    return DialogueTally(f"{scenario}-{number}", scenario, questions, images, (Count(),) * 6, ())


def shares(one: DialogueTally) -> list[float]:
    """What a dialogue puts into each of LEAVES but for pooled questions, which are as many everywhere here."""
    return [*(count.share for count in one.questions), one.checks.share, one.quality.share]


def scipy_interval(groups: Sequence[Table]) -> tuple[float, float]:
    """Of the mean over groups of their means."""

    def statistic(*parts: Table, axis: int) -> Table:
        return np.mean([part.mean(axis=axis) for part in parts], axis=0)

    found = stats.bootstrap(
        groups,
        statistic,
        paired=False,
        n_resamples=RESAMPLES,
        method="percentile",
        batch=1000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return 100 * float(found.low), 100 * float(found.high)


def peer(tables: Mapping[str, Table]) -> dict[tuple[str | None, str], tuple[float, float]]:
    """The interval of every score by one call each; scores are linear, so a dialogue's is the mix of its leaves."""
    values = {
        (scenario, name): sum(share * table[:, LEAVES.index(leaf)] for leaf, share in parts.items())
        for scenario, table in tables.items()
        for name, parts in SHARES.items()
    }
    single = {where: scipy_interval([column]) for where, column in values.items()}
    return single | {(None, name): scipy_interval([values[s, name] for s in SCENARIOS]) for name in HEADLINES}


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def furthest(entry: Mapping[str, object], found: Mapping[tuple[str | None, str], tuple[float, float]]) -> float:
    """The largest difference of an end of an interval, over the width of that interval."""

    def ours(scenario: str | None, name: str) -> Mapping[str, float]:
        part = entry if scenario is None else entry["scenarios"][scenario]
        return part["dimensions"][name] if name in DIMENSIONS else part[name]

    return max(
        max(abs(ours(*where)["low"] - low), abs(ours(*where)["high"] - high)) / (high - low)
        for where, (low, high) in found.items()
    )


def main() -> None:
    """Measure, print, and fail if it is too slow or says something else than scipy."""
    rng = np.random.default_rng(1)
    tallies = [dialogue(n, scenario, rng) for scenario in SCENARIOS for n in range(PER_SCENARIO)]
    tables = {s: np.array([shares(one) for one in tallies if one.scenario == s]) for s in SCENARIOS}
    options = {"can_answer": True, "can_draw": True, "resamples": RESAMPLES}
    apart = furthest(summarise(tallies, **options), found := peer(tables))
    times = [(timed(lambda: summarise(tallies, **options)), timed(lambda: peer(tables))) for _ in range(3)]
    ours, theirs = (min(column) for column in zip(*times, strict=True))
    print(
        f"{len(tallies)} dialogues, {RESAMPLES:,} resamples, {len(found)} scores; ends differ by {apart:.1%} of a width"
    )
    print(f"yanami {ours:.2f} s, scipy.stats.bootstrap {theirs:.2f} s: ratio {ours / theirs:.3f} (wanted: at most 0.2)")
    if ours / theirs > 0.2 or apart > 0.1:
        sys.exit("too slow, or other intervals")


if __name__ == "__main__":
    main()
