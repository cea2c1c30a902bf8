"""Seeded percentile bootstrap over dialogues. It knows arrays of numbers, not what they mean, and no files.

The dialogue is what is drawn, never the item: items of one dialogue share its images and its state, so intervals over
items would be too narrow. Strata (scenarios) are resampled each on its own by calling `resampled_ratios` for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from yanami_dataset.errors import SpecError

FloatArray: TypeAlias = NDArray[np.float64]

LEVEL = 0.95
_CELLS = 1 << 16  # draws held at once: 1 MB, which stays in the cache
_ROWS = 16  # but no fewer resamples at once: each block reads all values


def ratio(gained: FloatArray, units: FloatArray) -> FloatArray:
    """`gained / units` element by element, NaN where there are no units.

    >>> ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    array([0.5, nan])
    """
    shares: FloatArray = np.full(np.shape(gained), np.nan)
    np.divide(gained, units, out=shares, where=units > 0)
    return shares


def resampled_ratios(
    gained: FloatArray, units: FloatArray, resamples: int, rng: np.random.Generator, *, cells: int = _CELLS
) -> FloatArray:
    """Ratios of sums over dialogues drawn with replacement, each resample as large as the sample.

    Args:
        gained: dialogues x columns, the numerators.
        units: dialogues x columns, the denominators (0 where a dialogue has nothing for that column).
        resamples: how many times to draw.
        rng: a seeded Generator; the same draws serve all columns, so columns stay paired.
        cells: about how many draws to hold in memory at once; doesn't change the result.

    Returns:
        resamples x columns; NaN where a resample has no units in a column, and in all of a column that fewer than two
        dialogues have units for: one dialogue says nothing about the spread between dialogues.

    Raises:
        SpecError: shapes that don't agree, or a negative number of resamples.

    >>> share = np.array([[1.0], [0.0], [1.0], [1.0]])
    >>> samples = resampled_ratios(share, np.ones_like(share), 1000, np.random.default_rng(0))
    >>> samples.shape, interval(samples)
    ((1000, 1), (0.25, 1.0))
    """
    if gained.ndim != 2 or gained.shape != units.shape or resamples < 0:
        raise SpecError(
            "expected two arrays of the same shape (dialogues, columns) and 0 or more resamples, "
            f"got {gained.shape}, {units.shape} and {resamples}"
        )
    columns = gained.shape[1]
    sums = resampled_sums(np.hstack([gained, units]), resamples, rng, cells=cells)
    ratios = ratio(sums[:, :columns], sums[:, columns:])
    ratios[:, (units > 0).sum(axis=0) < 2] = np.nan
    return ratios


def resampled_sums(values: FloatArray, resamples: int, rng: np.random.Generator, *, cells: int = _CELLS) -> FloatArray:
    """Sums over dialogues drawn with replacement: resamples x columns; zeros where there are no dialogues.

    Args:
        values: dialogues x columns.
        resamples: how many times to draw.
        rng: a seeded Generator; equal numbers of dialogues are drawn alike by equal generators.
        cells: about how many draws to hold in memory at once; doesn't change the result.
    """
    dialogues, columns = values.shape
    sums = np.zeros((resamples, columns))
    for start, stop in _blocks(resamples if dialogues else 0, dialogues, cells):
        sums[start:stop] = drawn(dialogues, stop - start, rng) @ values
    return sums


def _blocks(times: int, dialogues: int, cells: int) -> Iterator[tuple[int, int]]:
    step = max(_ROWS, cells // max(1, dialogues))
    return ((start, min(start + step, times)) for start in range(0, times, step))


def drawn(dialogues: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each dialogue is drawn in each resample: resamples x dialogues, rows summing to `dialogues`.

    >>> drawn(3, 2, np.random.default_rng(0)).sum(axis=1)
    array([3., 3.])
    """
    places = rng.integers(0, dialogues, size=(resamples, dialogues))
    places += np.arange(resamples)[:, None] * dialogues
    counts = np.bincount(places.ravel(), minlength=resamples * dialogues)
    return counts.reshape(resamples, dialogues).astype(np.float64)


def exchanged_sums(
    differences: FloatArray, permutations: int, rng: np.random.Generator, *, cells: int = _CELLS
) -> FloatArray:
    """Sums over those dialogues that are not exchanged, each with a chance of one half: permutations x columns.

    For a paired permutation test: with rows a and b of two runs and `kept` the sums of a - b, the sums of the one run
    after the exchange are those of b plus `kept`, of the other those of a minus `kept`.

    Args:
        differences: dialogues x columns.
        permutations: how many times to exchange.
        rng: a seeded Generator; the same exchanges serve all columns.
        cells: about how many exchanges to hold in memory at once; doesn't change the result.

    Raises:
        SpecError: a negative number of permutations.

    >>> sorted(set(exchanged_sums(np.array([[1.0], [-3.0]]), 100, np.random.default_rng(0)).ravel().tolist()))
    [-3.0, -2.0, 0.0, 1.0]
    """
    if permutations < 0:
        raise SpecError(f"expected 0 or more permutations, got {permutations}")
    dialogues, columns = differences.shape
    sums = np.zeros((permutations, columns))
    for start, stop in _blocks(permutations, dialogues, cells):
        sums[start:stop] = rng.integers(0, 2, size=(stop - start, dialogues)) @ differences
    return sums


def interval(samples: FloatArray, level: float = LEVEL) -> tuple[float, float] | None:
    """The percentile interval of bootstrap samples; None where no sample is defined.

    Undefined (NaN) samples are left out: the interval holds given that something could be measured.

    >>> interval(np.arange(101.0), level=0.5)
    (25.0, 75.0)
    >>> interval(np.array([np.nan])) is None
    True
    """
    if not 0 < level < 1:
        raise SpecError(f"expected a level between 0 and 1, got {level}")
    defined = samples[~np.isnan(samples)]
    if not defined.size:
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down adjustment: p-values that stay valid though several hypotheses are tested at once.

    The k-th smallest of m is multiplied by m - k + 1; none gets below a smaller one, nor above 1.

    Args:
        p_values: of one family; None for what could not be tested, which doesn't count and stays None.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = highest
    return adjusted
