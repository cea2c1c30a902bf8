"""From an image to regions of one palette colour each. Not here: what shape a region has, or what is asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from yanami_metric.judges.pixel.oklab import NAMES, Labels, nearest, nearest_of, palette_lab, table_index, table_lab

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

SIDE = 256  # an image is scaled to about SIDE * SIDE pixels, keeping its proportions
LEAST_AREA = 0.0025  # of the image; smaller regions are specks
MOST_REGIONS = 40
_FRAME = 4  # pixels; what is seen most along the frame is the background
_TIPS = 5  # pixels that a thin tip may reach beyond the part of it where 3x3 neighbours agree
_BAND = 8  # pixels; mixed colours between two regions are never wider


@dataclass(frozen=True, slots=True)
class Segments:
    """Regions of an image.

    `pixels` is the image as measured (height x width x 3), `ids` the region of each pixel, 0 for the background.
    `labels[i]` is the palette label of region i (`oklab.NAMES`), so `labels[0]` that of the background. `sampled` has
    for each pixel one of the original image, not mixed with its neighbours; `native` is that image's width and height.
    """

    pixels: Pixels
    sampled: Pixels
    ids: Labels
    labels: tuple[int, ...]
    native: tuple[int, int]


def segment(image: Image) -> Segments:
    """Split an image into its background and regions of one colour (at most MOST_REGIONS), no thin bands, no specks.

    Every pixel belongs to a region in the end: what is mixed, thin or small goes to the neighbour of the nearer colour.
    """
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    pixels, sampled = _scaled(rgb)
    index = table_index(pixels)
    found = nearest(index)
    parts, labels = _solid_parts(found)
    if not labels:
        blank = np.zeros(found.shape, dtype=np.uint8)
        return Segments(pixels, sampled, blank, (int(np.bincount(found.ravel()).argmax()),), image.size)
    ids, numbered = _background_first(parts, labels, _background(parts, labels))
    _grow(ids, index, numbered)
    ids, kept = _merged(ids, numbered)
    return Segments(pixels, sampled, ids, kept, image.size)


def _scaled(image: Image) -> tuple[Pixels, Pixels]:
    """The image at about SIDE * SIDE pixels, as means over boxes (bicubic when it grows) and as its nearest pixels."""
    from PIL.Image import Resampling

    factor = SIDE / math.sqrt(image.width * image.height)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    if size == image.size:
        return np.asarray(image), np.asarray(image)
    smooth = image.resize(size, Resampling.BOX if factor < 1 else Resampling.BICUBIC)
    return np.asarray(smooth), np.asarray(image.resize(size, Resampling.NEAREST))


def agreeing(labels: Labels) -> Mask:
    """The pixels that are equal to all of their 3x3 neighbours; none on the very edge."""
    row = labels[:, 1:] == labels[:, :-1]
    column = labels[1:] == labels[:-1]
    rows = row[:, 1:] & row[:, :-1]
    agreeing = np.zeros(labels.shape, dtype=np.bool_)
    if min(labels.shape) >= 3:
        agreeing[1:-1, 1:-1] = rows[:-2] & rows[1:-1] & rows[2:] & column[:-1, 1:-1] & column[1:, 1:-1]
    return agreeing


def eroded(mask: Mask, times: int = 1) -> Mask:
    """The mask without its outermost pixels (8 neighbours), `times` over; beyond the image nothing is inside."""
    for _ in range(times):
        mask = agreeing(mask.view(np.uint8)) & mask
    return mask


def _solid_parts(found: Labels) -> tuple[Labels, list[int]]:
    """Parts of one colour that are large and somewhere thick: 1, 2, … in the mask, and the label of each in order."""
    inside = agreeing(found)
    parts, count = ndimage.label(inside)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    thick = np.bincount(parts[eroded(inside, 2)], minlength=count + 1)
    keep = np.flatnonzero((sizes >= LEAST_AREA * found.size / 2) & (thick > 0))
    keep = keep[keep > 0]
    keep = keep[np.argsort(-sizes[keep], kind="stable")][:MOST_REGIONS]
    of_part = np.zeros(count + 1, dtype=np.uint8)
    of_part[parts[inside]] = found[inside]
    number = np.zeros(count + 1, dtype=np.uint8)
    number[keep] = np.arange(1, len(keep) + 1)
    return number[parts], [int(label) for label in of_part[keep]]


def _background(parts: Labels, labels: list[int]) -> int:
    """The label seen most along the frame of the image, or in all of it where the frame shows none."""
    frame = np.ones(parts.shape, dtype=np.bool_)
    frame[_FRAME:-_FRAME, _FRAME:-_FRAME] = False
    of_part = np.array([len(NAMES), *labels])
    for area in (parts[frame], parts):
        counts = np.bincount(of_part[area.ravel()], minlength=len(NAMES) + 1)[:-1]
        if counts.any():
            return int(counts.argmax())
    raise AssertionError("a solid part has no pixels")


def _background_first(parts: Labels, labels: list[int], background: int) -> tuple[Labels, tuple[int, ...]]:
    """Number the parts anew: 0 nowhere yet, 1 the background (all parts of its colour), then the others."""
    others = [i for i, label in enumerate(labels, 1) if label != background]
    number = np.ones(len(labels) + 1, dtype=np.uint8)
    number[0] = 0
    number[others] = np.arange(2, len(others) + 2)
    return number[parts], (background, background, *(labels[i - 1] for i in others))


def _grow(ids: Labels, index: npt.NDArray[np.int32], labels: tuple[int, ...]) -> None:
    """Give every pixel that has no region (0) one, in place: first along its own colour, then to the nearer colour."""
    colour_of = np.array(labels, dtype=np.uint8)
    ys, xs = np.nonzero(ids == 0)
    colour = nearest_of(index[ys, xs], tuple(sorted(set(labels))))
    for _ in range(_TIPS):
        highest = _highest_neighbour(ids)[ys, xs]
        take = (highest > 0) & (colour_of[highest] == colour)
        ids[ys[take], xs[take]] = highest[take]
        ys, xs, colour = ys[~take], xs[~take], colour[~take]
    for _ in range(_BAND):
        if not len(ys):
            return
        high = _highest_neighbour(ids)[ys, xs]
        low = _lowest_neighbour(ids)[ys, xs]
        lab = table_lab()[index[ys, xs]]
        to_high, to_low = (np.square(lab - palette_lab()[colour_of[some]]).sum(axis=-1) for some in (high, low))
        ids[ys, xs] = np.where(to_high < to_low, high, low)
        left = high == 0
        ys, xs = ys[left], xs[left]
    ids[ys, xs] = 1


def _highest_neighbour(ids: Labels) -> Labels:
    padded = np.pad(ids, 1)
    rows = np.maximum(np.maximum(padded[:, :-2], padded[:, 1:-1]), padded[:, 2:])
    return np.asarray(np.maximum(np.maximum(rows[:-2], rows[1:-1]), rows[2:]))


def _lowest_neighbour(ids: Labels) -> Labels:
    """The lowest number above 0 in the 3x3 neighbours, 0 where there is none."""
    turned = np.where(ids == 0, np.uint8(0), 255 - ids)
    lowest = _highest_neighbour(turned)
    return np.where(lowest == 0, np.uint8(0), 255 - lowest)


def _merged(ids: Labels, labels: tuple[int, ...]) -> tuple[Labels, tuple[int, ...]]:
    """Join touching regions of one colour, drop those that stay small, and number the rest from 0, the background."""
    root = np.arange(len(labels))
    for one, other in _touching_of_one_colour(ids, labels):
        root[root == root[other]] = root[one]
    root[:2] = root[1]
    sizes = np.bincount(root[ids.ravel()], minlength=len(labels))
    keep = [i for i in range(2, len(labels)) if root[i] == i and sizes[i] >= LEAST_AREA * ids.size]
    number = np.zeros(len(labels), dtype=np.uint8)
    number[keep] = np.arange(1, len(keep) + 1)
    return number[root][ids], (labels[1], *(labels[i] for i in keep))


def _touching_of_one_colour(ids: Labels, labels: tuple[int, ...]) -> list[tuple[int, int]]:
    colour_of = np.array(labels, dtype=np.uint8)
    pairs: set[tuple[int, int]] = set()
    for one, other in ((ids[:, 1:], ids[:, :-1]), (ids[1:], ids[:-1])):
        border = one != other
        first, second = one[border], other[border]
        same = colour_of[first] == colour_of[second]
        pairs.update(zip(first[same].tolist(), second[same].tolist(), strict=True))
    return sorted({(min(pair), max(pair)) for pair in pairs})
