"""What can be seen in an image: background, objects with their shapes and places, and what is in front of what.

The picture is made of pixels alone. Not here: what it should show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import ndimage

from yanami_metric.judges.pixel.depth import fit_all
from yanami_metric.judges.pixel.oklab import NAMES
from yanami_metric.judges.pixel.segment import segment

if TYPE_CHECKING:
    from PIL.Image import Image

@dataclass(frozen=True, slots=True)
class Thing:
    """An object: `x` and `y` of its centre as fractions of width and height, `radius` of the side (the root of the area).

    `radius` goes from the centre to the farthest point of the outline; `misfit` says how badly the shape fits (0 is best).
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


@dataclass(frozen=True, slots=True)
class Picture:
    """What was seen: `in_front` holds pairs (front, back) of places in `objects`."""

    background: str
    objects: tuple[Thing, ...]
    in_front: tuple[tuple[int, int], ...]


def extract(image: Image) -> Picture:
    """See what is in an image of any size; one without recognisable objects gives none, never an error."""
    seen = segment(image)
    fits, in_front = fit_all(seen.ids, ndimage.find_objects(seen.ids))
    height, width = seen.ids.shape
    objects = tuple(
        Thing(
            NAMES[seen.labels[i]],
            one.shape,
            (one.x + 0.5) / width,
            (one.y + 0.5) / height,
            one.radius / math.sqrt(width * height),
            one.misfit,
        )
        for i, one in enumerate(fits, 1)
    )
    return Picture(NAMES[seen.labels[0]], objects, tuple(in_front))
