"""What can be seen in an image: background, objects with their shapes and places, and what is in front of what.

The picture is made of pixels alone. Not here: what it should show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import ndimage

from yanami_dataset.mini.palette import COLUMNS, ROWS
from yanami_metric.judges.pixel.depth import fit_all
from yanami_metric.judges.pixel.oklab import NAMES
from yanami_metric.judges.pixel.quality import Measures, measure
from yanami_metric.judges.pixel.segment import segment

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: its centre as fractions of width (`x`) and height (`y`), its `radius` as one of the root of the area.

    `shape` is one of the palette's or `irregular`, `radius` goes from the centre to the farthest point of the outline,
    `misfit` says how badly the shape fits (0 is best).
    """

    colour: str
    shape: str
    x: float
    y: float
    radius: float
    misfit: float

    @property
    def name(self) -> str:
        """The object in words, such as `red circle`."""
        return f"{self.colour} {self.shape}"

    @property
    def cell(self) -> str:
        """The cell of the 3x3 grid in which the centre lies.

        >>> Thing("red", "circle", x=0.25, y=0.8, radius=0.15, misfit=0.0).cell
        'bottom left'
        """
        row, column = (min(max(int(3 * place), 0), 2) for place in (self.y, self.x))
        return f"{ROWS[row]} {COLUMNS[column]}"


@dataclass(frozen=True, slots=True)
class Picture:
    """What was seen: `in_front` holds pairs (front, back) of places in `objects`."""

    background: str
    objects: tuple[Thing, ...]
    in_front: tuple[tuple[int, int], ...]
    measures: Measures

    @property
    def quality(self) -> float:
        """How cleanly it is drawn, 0 (no object) to 10, rounded to 0.01."""
        return round(self.measures.score, 2) if self.objects else 0.0


def extract(image: Image) -> Picture:
    """See what is in an image of any size; one without recognisable objects gives none, never an error."""
    seen = segment(image)
    fits, in_front = fit_all(seen.ids, ndimage.find_objects(seen.ids))
    height, width = seen.ids.shape
    side = math.sqrt(width * height)
    objects = tuple(
        Thing(NAMES[label], one.shape, (one.x + 0.5) / width, (one.y + 0.5) / height, one.radius / side, one.misfit)
        for label, one in zip(seen.labels[1:], fits, strict=True)
    )
    return Picture(NAMES[seen.labels[0]], objects, tuple(in_front), measure(seen))
