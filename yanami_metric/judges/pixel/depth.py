"""Which of two regions that touch is in front of the other.

Two kinds of evidence, both of pixels only: the one in front is a complete shape while the other is better explained by
going on behind it; and where both meet the background, the outline of the one in front runs on, that of the other ends.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from scipy import ndimage

from yanami_metric.judges.pixel.oklab import Labels
from yanami_metric.judges.pixel.shapes import Fit, fit_behind, fit_complete

Box = tuple[slice, ...]  # rows and columns
Pair = tuple[int, int]

_LEAST_BORDER = 6  # pixels along which regions have to meet to touch
_MOST_PAIRS = 8  # that are looked at, those with the longest borders; bounds the time for a photograph
_JUNCTION_WEIGHT = 0.15  # of the second kind of evidence beside the first
_JUNCTION_RADIUS = 7  # pixels around a point where the outlines of two regions meet
_LEAST_EVIDENCE = 0.005
_SURELY_COMPLETE = 0.025  # misfit up to which going on behind something explains nothing


def fit_all(ids: Labels, boxes: list[Box]) -> tuple[list[Fit], list[Pair]]:
    """Fit a shape to each region 1, 2, … (`boxes` in that order) and say which pairs (front, back) overlap.

    Returns:
        The fits in order, and pairs of places in that list.
    """
    complete = [fit_complete(ids, region, box) for region, box in enumerate(boxes, 1)]

    @cache
    def behind(region: int, before: frozenset[int]) -> Fit:
        return fit_behind(ids, region, boxes[region - 1], before, complete[region - 1])

    def gain(region: int, before: int) -> float:
        whole = complete[region - 1].misfit
        return whole - behind(region, frozenset({before})).misfit if whole > _SURELY_COMPLETE else 0.0

    pairs = []
    for one, other in _touching(ids, len(boxes)):
        around = ids[_around(boxes[one - 1], boxes[other - 1])]
        evidence = gain(other, one) - gain(one, other) + _JUNCTION_WEIGHT * _junctions(around, one, other)
        if abs(evidence) >= _LEAST_EVIDENCE:
            pairs.append((one, other) if evidence > 0 else (other, one))
    fits = [
        behind(region, frozenset(before)) if (before := [front for front, back in pairs if back == region]) else whole
        for region, whole in enumerate(complete, 1)
    ]
    return fits, [(front - 1, back - 1) for front, back in pairs]


def _touching(ids: Labels, count: int) -> list[Pair]:
    """Pairs of regions, the lower number first, that meet along a border of some length."""
    lengths = np.zeros((count + 1, count + 1), dtype=np.int64)
    for one, other in ((ids[:, 1:], ids[:, :-1]), (ids[1:], ids[:-1])):
        border = one != other
        np.add.at(lengths, (one[border], other[border]), 1)
    lengths += lengths.T
    pairs = [pair for pair in combinations(range(1, count + 1), 2) if lengths[pair] >= _LEAST_BORDER]
    return sorted(sorted(pairs, key=lambda pair: -lengths[pair])[:_MOST_PAIRS])


def _junctions(seen: Labels, one: int, other: int) -> float:
    """How much more room `one` takes than `other` where both meet the background: mean share of discs, -1 to 1."""
    first, second, none = (ndimage.maximum_filter(seen == region, 3) for region in (one, other, 0))
    meeting = first & second & none
    places, count = ndimage.label(meeting, np.ones((3, 3)))
    if count == 0:
        return 0.0
    rows, columns = np.ogrid[: seen.shape[0], : seen.shape[1]]
    shares = []
    for y, x in ndimage.center_of_mass(meeting, places, range(1, count + 1)):
        around = seen[(rows - y) ** 2 + (columns - x) ** 2 <= _JUNCTION_RADIUS**2]
        shares.append(float((around == one).mean()) - float((around == other).mean()))
    return sum(shares) / count


def _around(box: Box, other: Box) -> Box:
    """The pixels of two boxes and as many around them as a disc at a junction needs."""
    (top, left), (bottom, right) = (
        [max(0, min(one.start, two.start) - _JUNCTION_RADIUS) for one, two in zip(box, other, strict=True)],
        [max(one.stop, two.stop) + _JUNCTION_RADIUS for one, two in zip(box, other, strict=True)],
    )
    return slice(top, bottom), slice(left, right)
