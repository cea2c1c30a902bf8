"""Which of two regions that touch is in front of the other.

Two kinds of evidence, both of pixels only: the one in front is a complete shape while the other is better explained by going
on behind it; and where both meet the background, the outline of the one in front runs on, that of the other ends.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import ndimage

from yanami_metric.judges.pixel.oklab import Labels
from yanami_metric.judges.pixel.shapes import Fit, fit_behind, fit_complete

Box = tuple[slice, slice]
Pair = tuple[int, int]

_LEAST_BORDER = 6  # pixels along which regions have to meet to touch
_JUNCTION_WEIGHT = 0.15  # of the second kind of evidence beside the first
_JUNCTION_RADIUS = 7  # pixels around a point where the outlines of two regions meet
_LEAST_EVIDENCE = 0.01


def fit_all(ids: Labels, boxes: list[Box]) -> tuple[list[Fit], list[Pair]]:
    """Fit a shape to each region 1, 2, … (`boxes` in that order) and say which pairs (front, back) overlap.

    Returns:
        The fits in order, and pairs of places in that list.
    """
    fits = [fit_complete(ids, region, box) for region, box in enumerate(boxes, 1)]
    pairs = []
    for one, other in _touching(ids, len(boxes)):
        evidence = _evidence(ids, boxes, fits, one, other)
        if abs(evidence) >= _LEAST_EVIDENCE:
            pairs.append((one - 1, other - 1) if evidence > 0 else (other - 1, one - 1))
    for back in {back for _, back in pairs}:
        before = frozenset(front + 1 for front, behind in pairs if behind == back)
        fits[back] = fit_behind(ids, back + 1, boxes[back], before, fits[back])
    return fits, pairs


def _touching(ids: Labels, count: int) -> list[Pair]:
    """Pairs of regions, the lower number first, that meet along a border of some length."""
    lengths = np.zeros((count + 1, count + 1), dtype=np.int64)
    for one, other in ((ids[:, 1:], ids[:, :-1]), (ids[1:], ids[:-1])):
        border = one != other
        np.add.at(lengths, (one[border], other[border]), 1)
    lengths += lengths.T
    return [pair for pair in combinations(range(1, count + 1), 2) if lengths[pair] >= _LEAST_BORDER]


def _evidence(ids: Labels, boxes: list[Box], complete: list[Fit], one: int, other: int) -> float:
    """Positive if `one` is in front of `other`, negative if it is behind."""
    behind = [
        fit_behind(ids, region, boxes[region - 1], frozenset({rest}), complete[region - 1]).misfit
        for region, rest in ((one, other), (other, one))
    ]
    gains = (complete[other - 1].misfit - behind[1]) - (complete[one - 1].misfit - behind[0])
    return gains + _JUNCTION_WEIGHT * _junctions(ids, one, other)


def _junctions(ids: Labels, one: int, other: int) -> float:
    """How much more room `one` takes than `other` where both meet the background: mean share of discs there, -1 to 1."""
    first, second, none = (ndimage.maximum_filter(ids == region, 3) for region in (one, other, 0))
    meeting = first & second & none
    places, count = ndimage.label(meeting, np.ones((3, 3)))
    if count == 0:
        return 0.0
    rows, columns = np.ogrid[: ids.shape[0], : ids.shape[1]]
    shares = []
    for y, x in ndimage.center_of_mass(meeting, places, range(1, count + 1)):
        seen = ids[(rows - y) ** 2 + (columns - x) ** 2 <= _JUNCTION_RADIUS**2]
        shares.append(float((seen == one).mean()) - float((seen == other).mean()))
    return sum(shares) / count
