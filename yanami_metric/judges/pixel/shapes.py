"""What shape a region has, where its centre is and how far it reaches, also where a neighbour hides a part of it.

A shape is fitted by place, radius and template: of the pixels around a region, its own should lie inside, those of the
background outside, and those of a neighbour that it touches on either side, since something may go on behind it.
Not here: what is asked of a shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yanami_metric.judges.pixel.oklab import Labels
from yanami_metric.judges.pixel.templates import DIRECTIONS, SHAPE_OF, reach

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]

IRREGULAR = "irregular"  # a region that no template fits
WORST_MISFIT = 0.22  # of the own pixels; beyond it a region is irregular
_POINTS = 500  # about so many pixels are looked at around a region
_CLOSELY = 4  # times as many in the end, where a part is hidden
_HIDDEN_COST = 0.06  # of a neighbour's pixel inside the outline, as compared with one of the background
_STEP = 0.5  # pixels, of the radius


@dataclass(frozen=True, slots=True)
class Fit:
    """A shape in pixels of the measured image.

    `template` is its place in `templates.OUTLINES`, `misfit` the wrong pixels as a share of the region's own.
    """

    template: int
    x: float
    y: float
    radius: float
    misfit: float

    @property
    def shape(self) -> str:
        """One of the palette's shapes, or `irregular`."""
        return SHAPE_OF[self.template] if self.misfit <= WORST_MISFIT else IRREGULAR


@dataclass(frozen=True, slots=True)
class Sample:
    """Pixels around a region: places, and what each adds to the fit when it is inside the outline (1 its own)."""

    x: Floats
    y: Floats
    gain: Floats
    own: int


def fit_complete(ids: Labels, region: int, box: tuple[slice, ...]) -> Fit:
    """Fit a shape to a region of `ids` that lies in `box`, all of it being in sight."""
    sample = _sample(ids, region, box, frozenset(), 0.15, _POINTS)
    return _best_of(_moved(sample, _complete_start(sample), (2.0, 1.0), 0.08))


def fit_behind(ids: Labels, region: int, box: tuple[slice, ...], before: frozenset[int], complete: Fit) -> Fit:
    """Fit a shape to a region that may go on behind the regions in `before`; `complete` is its fit as it looks."""
    sample = _sample(ids, region, box, before, 0.5, _POINTS)
    fits = _moved(sample, _hidden_start(sample, complete.radius), (4.0, 3.0, 2.0), 0.2)
    return _best_of(_moved(_sample(ids, region, box, before, 0.5, _CLOSELY * _POINTS), fits, (1.0, 0.5), 0.06))


def _sample(
    ids: Labels, region: int, box: tuple[slice, ...], neighbours: frozenset[int], margin: float, points: int
) -> Sample:
    """About `points` pixels in and around a box, `margin` of its longer side on every side."""
    rows, columns = box
    extra = math.ceil(margin * max(rows.stop - rows.start, columns.stop - columns.start)) + 2
    top, left = max(0, rows.start - extra), max(0, columns.start - extra)
    bottom, right = min(ids.shape[0], rows.stop + extra), min(ids.shape[1], columns.stop + extra)
    y, x = np.nonzero(_lattice(bottom - top, right - left, points))
    seen = ids[top + y, left + x]
    gain = np.full(seen.shape, -1.0, dtype=np.float32)
    for other in neighbours:
        gain[seen == other] = -_HIDDEN_COST
    own = seen == region
    gain[own] = 1.0
    return Sample((x + left).astype(np.float32), (y + top).astype(np.float32), gain, max(1, int(own.sum())))


def _lattice(height: int, width: int, points: int) -> npt.NDArray[np.bool_]:
    """About `points` pixels of a box, evenly spread, of which few share a row or a column.

    On a grid of rows and columns a straight edge could move by a whole stride unseen.
    """
    every = max(1, height * width // points)
    shift = round(every * 0.618)
    while math.gcd(shift, every) > 1:
        shift += 1
    y, x = np.ogrid[:height, :width]
    return np.asarray((x + shift * y) % every == 0)


def _complete_start(sample: Sample) -> list[Fit]:
    """Each template at the centroid of the region."""
    own = sample.gain > 0
    return _best(sample, sample.x[own].mean(keepdims=True), sample.y[own].mean(keepdims=True), np.arange(len(SHAPE_OF)))


def _hidden_start(sample: Sample, radius: float) -> list[Fit]:
    """Each template at the best place up to 0.6 radii around the centroid of what is seen, by half of the pixels."""
    own = sample.gain > 0
    step = np.linspace(-0.6, 0.6, 7, dtype=np.float32)
    dx, dy = (part.ravel() for part in np.meshgrid(step, step))
    near = np.hypot(dx, dy) < 0.7
    dx, dy = dx[near] * np.float32(radius), dy[near] * np.float32(radius)
    rough = Sample(sample.x[::2], sample.y[::2], sample.gain[::2], max(1, int(own[::2].sum())))
    return _best(rough, sample.x[own].mean() + dx, sample.y[own].mean() + dy, np.arange(len(SHAPE_OF)))


def _moved(sample: Sample, start: list[Fit], steps: tuple[float, ...], spread: float) -> list[Fit]:
    """The best of each shape, in all its templates, after moving it by each of the steps (pixels).

    Only shapes that start at most `spread` worse than the best one are looked at.
    """
    fits = _best_of_each_shape(start)
    fits = [one for one in fits if one.misfit <= fits[0].misfit + spread]
    for step in steps:
        moves = np.array([-step, 0.0, step], dtype=np.float32)
        dx, dy = (part.ravel() for part in np.meshgrid(moves, moves))
        fits = [_best_of(_best(sample, one.x + dx, one.y + dy, _same_shape(one.template))) for one in fits]
    return fits


def _best_of(fits: list[Fit]) -> Fit:
    return min(fits, key=lambda one: one.misfit)


def _best_of_each_shape(fits: list[Fit]) -> list[Fit]:
    best: dict[str, Fit] = {}
    for one in sorted(fits, key=lambda each: each.misfit):
        best.setdefault(SHAPE_OF[one.template], one)
    return list(best.values())


def _same_shape(template: int) -> Ints:
    return np.array([i for i, shape in enumerate(SHAPE_OF) if shape == SHAPE_OF[template]])


def _best(sample: Sample, xs: Floats, ys: Floats, templates: Ints) -> list[Fit]:
    """For each template the best of the centres (xs, ys) with its best radius.

    A pixel is inside once the radius is at least its distance over the reach of the outline in its direction. So the
    gain for every radius is a running sum over pixels in the order of that quotient, here in bins of _STEP pixels.
    """
    dx, dy = sample.x - xs[:, None].astype(np.float32), sample.y - ys[:, None].astype(np.float32)
    needed = np.hypot(dx, dy) / reach()[templates][:, _direction(dx, dy)]
    bins = int(0.75 * max(np.ptp(sample.x), np.ptp(sample.y)) / _STEP) + 2
    place = np.minimum((needed * np.float32(1 / _STEP)).astype(np.int32) + 1, bins - 1)
    row = np.arange(len(templates) * len(xs), dtype=np.int32).reshape(len(templates), len(xs), 1) * bins
    weights = np.broadcast_to(sample.gain, place.shape).ravel()
    sums = np.bincount((place + row).ravel(), weights, minlength=place[..., 0].size * bins)
    gains = sums.reshape(len(templates), len(xs), bins)[..., :-1].cumsum(axis=-1)
    radius = gains.argmax(axis=-1)
    gain = np.take_along_axis(gains, radius[..., None], axis=-1)[..., 0]
    centre = gain.argmax(axis=1)
    return [
        Fit(int(t), float(xs[c]), float(ys[c]), float(radius[i, c]) * _STEP, 1 - float(gain[i, c]) / sample.own)
        for i, (t, c) in enumerate(zip(templates, centre, strict=True))
    ]


def _direction(dx: Floats, dy: Floats) -> Ints:
    """The row of the template table for each offset."""
    return np.asarray((np.arctan2(dy, dx) * np.float32(DIRECTIONS / (2 * math.pi))).astype(np.intp) % DIRECTIONS)
