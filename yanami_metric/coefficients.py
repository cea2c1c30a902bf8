"""Coefficients of agreement and correlation, with a bootstrap over dialogues. It knows pairs of numbers, no raters.

Values come from scipy; their resamples from formulas over counts, all resamples at once, which the tests hold against
scipy. A coefficient is None where it isn't defined, e.g. where everything got the same score; never NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from yanami_metric.statistics import FloatArray, drawn, interval

SCORES = ("pearson", "spearman", "kendall")
VERDICTS = ("kappa", "agreement")

_COLUMNS = 512  # of the matrix of signs held at once: bounds memory, doesn't change the result


class Estimate(TypedDict):
    """A coefficient. `low` and `high` are its 95 % interval, null where a scenario has fewer than two dialogues.

    `n` is the number of pairs it is over, `dialogues` the number of dialogues these are of.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    dialogues: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two values for the same thing, and the dialogue that it is of."""

    dialogue: str
    scenario: str
    x: float
    y: float


# Coefficients


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r, -1 to 1, None for fewer than two pairs or where one side is constant.

    >>> pearson([1, 2, 3, 4], [1, 3, 2, 4]), pearson([1, 2], [5, 5])
    (0.8, None)
    """
    from scipy.stats import pearsonr

    return float(pearsonr(x, y).statistic) if _varies(x) and _varies(y) else None


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's rho, -1 to 1 (ties share their mean rank); None as for `pearson`."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic) if _varies(x) and _varies(y) else None


def kendall(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Kendall's tau-b, -1 to 1; None as for `pearson`."""
    from scipy.stats import kendalltau

    return float(kendalltau(x, y).statistic) if _varies(x) and _varies(y) else None


def kappa(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Cohen's kappa of two raters' categories, at most 1; 0 is what chance gives.

    None for no pairs, and where both always gave the same one category: chance then explains everything.

    >>> kappa([1, 1, 0, 0], [1, 0, 0, 0]), kappa([1, 1], [1, 1])
    (0.5, None)
    """
    return _known(_kappas(_Cells.of(x, y), np.ones((1, len(x))))[0])


def agreement(x: Sequence[float], y: Sequence[float]) -> float | None:
    """The share of pairs that are equal, 0 to 1; None for no pairs.

    >>> agreement([1, 1, 0, 0], [1, 0, 0, 0])
    0.75
    """
    return _known(_agreements(_Cells.of(x, y), np.ones((1, len(x))))[0])


def _varies(values: Sequence[float]) -> bool:
    return len(set(values)) > 1


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# The same of many resamples at once, as functions of how often each cell (a value of x with a value of y) is drawn


@dataclass(frozen=True)
class _Cells:
    """Pairs of values, `x[i]` with `y[i]`."""

    x: FloatArray
    y: FloatArray

    @classmethod
    def of(cls, x: Sequence[float], y: Sequence[float]) -> _Cells:
        return cls(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))


def _divided(above: FloatArray, below: FloatArray) -> FloatArray:
    result = np.full(np.broadcast_shapes(above.shape, below.shape), np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result


def _margin(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, Any]:
    """How often each distinct value is drawn (resamples x values, in rising order), and each cell's place there."""
    distinct, places = np.unique(values, return_inverse=True)
    return counts @ np.eye(len(distinct))[places], places


def _correlations(x: FloatArray, y: FloatArray, counts: FloatArray) -> FloatArray:
    """Pearson's r; x and y are (cells) or (resamples x cells)."""
    n = counts.sum(axis=1, keepdims=True)
    dx = x - _divided((counts * x).sum(axis=1, keepdims=True), n)
    dy = y - _divided((counts * y).sum(axis=1, keepdims=True), n)
    both, xx, yy = ((counts * product).sum(axis=1) for product in (dx * dy, dx * dx, dy * dy))
    return _divided(both, np.sqrt(xx * yy))


def _constant(cells: _Cells, counts: FloatArray) -> Any:
    """The resamples in which one side has one value only."""
    margins = (_margin(values, counts)[0] for values in (cells.x, cells.y))
    few_x, few_y = ((margin > 0).sum(axis=1) < 2 for margin in margins)
    return few_x | few_y


def _pearsons(cells: _Cells, counts: FloatArray) -> FloatArray:
    found = _correlations(cells.x, cells.y, counts)
    return np.where(_constant(cells, counts), np.nan, found)


def _spearmans(cells: _Cells, counts: FloatArray) -> FloatArray:
    found = _correlations(_ranks(cells.x, counts), _ranks(cells.y, counts), counts)
    return np.where(_constant(cells, counts), np.nan, found)


def _ranks(values: FloatArray, counts: FloatArray) -> FloatArray:
    margin, places = _margin(values, counts)
    ranks: FloatArray = (margin.cumsum(axis=1) - (margin - 1) / 2)[:, places]
    return ranks


def _kendalls(cells: _Cells, counts: FloatArray) -> FloatArray:
    twice = np.zeros(len(counts))  # concordant less discordant pairs, each counted from both ends
    for start in range(0, len(cells.x), _COLUMNS):
        some = slice(start, start + _COLUMNS)
        signs = np.sign(cells.x[:, None] - cells.x[some]) * np.sign(cells.y[:, None] - cells.y[some])
        twice += ((counts @ signs) * counts[:, some]).sum(axis=1)
    all_pairs = counts.sum(axis=1) ** 2
    untied = [all_pairs - (_margin(values, counts)[0] ** 2).sum(axis=1) for values in (cells.x, cells.y)]
    return _divided(twice, np.sqrt(untied[0] * untied[1]))


def _agreements(cells: _Cells, counts: FloatArray) -> FloatArray:
    return _divided(counts @ (cells.x == cells.y).astype(np.float64), counts.sum(axis=1))


def _kappas(cells: _Cells, counts: FloatArray) -> FloatArray:
    n = counts.sum(axis=1)
    by_chance = np.zeros(len(counts))
    for value in np.intersect1d(cells.x, cells.y):
        shares = [_divided(counts @ (side == value).astype(np.float64), n) for side in (cells.x, cells.y)]
        by_chance += shares[0] * shares[1]
    return _divided(_agreements(cells, counts) - by_chance, 1 - by_chance)


_Values = Callable[[Sequence[float], Sequence[float]], float | None]
_Samples = Callable[[_Cells, FloatArray], FloatArray]
_COEFFICIENTS: dict[str, tuple[_Values, _Samples]] = {
    "pearson": (pearson, _pearsons),
    "spearman": (spearman, _spearmans),
    "kendall": (kendall, _kendalls),
    "kappa": (kappa, _kappas),
    "agreement": (agreement, _agreements),
}


# Intervals


class Draws:
    """The resamples of a study: the same for all its coefficients, so that these stay paired.

    Args:
        dialogues: (scenario, dialogue) pairs, in any order; drawn within scenarios.
        resamples: how many; 0 for no intervals.
        seed: of the bootstrap.
    """

    def __init__(self, dialogues: Iterable[tuple[str, str]], resamples: int = 1000, seed: int = 0) -> None:
        groups: dict[str, list[str]] = {}
        for scenario, dialogue in sorted(set(dialogues)):
            groups.setdefault(scenario, []).append(dialogue)
        self.resamples, self.seed = resamples, seed
        self._places = {one: place for place, one in enumerate((s, d) for s in groups for d in groups[s])}
        parts = [
            drawn(len(group), resamples, np.random.default_rng([seed, *scenario.encode()]))
            for scenario, group in groups.items()
        ]
        self._weights = np.hstack(parts) if parts else np.zeros((resamples, 0))

    def counts(self, pairs: Sequence[Pair]) -> tuple[_Cells, FloatArray]:
        """The cells of some pairs, and how often each is drawn: resamples x cells."""
        cells = sorted({(pair.x, pair.y) for pair in pairs})
        places = {cell: place for place, cell in enumerate(cells)}
        table = np.zeros((len(self._places), len(cells)))
        for pair in pairs:
            table[self._places[pair.scenario, pair.dialogue], places[pair.x, pair.y]] += 1
        return _Cells.of([x for x, _ in cells], [y for _, y in cells]), self._weights @ table


@dataclass(frozen=True)
class Found:
    """A coefficient with its resamples; `spread` says whether these mean anything."""

    value: float | None
    samples: FloatArray
    n: int
    dialogues: int
    spread: bool

    def entry(self) -> Estimate:
        """As results have it."""
        ends = interval(self.samples) if self.value is not None and self.spread else None
        return Estimate(
            value=None if self.value is None else _rounded(self.value),
            low=None if ends is None else _rounded(ends[0]),
            high=None if ends is None else _rounded(ends[1]),
            n=self.n,
            dialogues=self.dialogues,
        )


def _rounded(value: float) -> float:
    return round(value, 9) + 0.0  # without the noise of adding floats, and no -0.0


def found(pairs: Iterable[Pair], names: Sequence[str], draws: Draws) -> dict[str, Found]:
    """Coefficients of pairs, in any order, by name."""
    pairs = sorted(pairs, key=lambda pair: (pair.scenario, pair.dialogue, pair.x, pair.y))
    cells, counts = draws.counts(pairs)
    x, y = [pair.x for pair in pairs], [pair.y for pair in pairs]
    by_scenario: dict[str, set[str]] = {}
    for pair in pairs:
        by_scenario.setdefault(pair.scenario, set()).add(pair.dialogue)
    spread = all(len(group) > 1 for group in by_scenario.values())
    dialogues = sum(map(len, by_scenario.values()))
    return {
        name: Found(_COEFFICIENTS[name][0](x, y), _COEFFICIENTS[name][1](cells, counts), len(pairs), dialogues, spread)
        for name in names
    }


def estimates(pairs: Sequence[Pair], names: Sequence[str], draws: Draws | None = None) -> dict[str, Estimate]:
    """Coefficients of pairs with their intervals.

    Args:
        pairs: in any order.
        names: of SCORES or VERDICTS.
        draws: made for a study that these pairs are part of; None: for their own dialogues, by seed 0.

    >>> pairs = [Pair(f"d{i}", "editing", i, i * i) for i in range(5)]
    >>> estimates(pairs, ["spearman"])["spearman"]
    {'value': 1.0, 'low': 1.0, 'high': 1.0, 'n': 5, 'dialogues': 5}
    """
    draws = draws or Draws((pair.scenario, pair.dialogue) for pair in pairs)
    return {name: one.entry() for name, one in found(pairs, names, draws).items()}
