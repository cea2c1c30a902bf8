"""From a scene to pixels, and from pixels to PNG. Knows nothing of dialogues or probes."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from yanami_dataset.errors import SpecError
from yanami_dataset.mini.palette import BACKGROUNDS, COLOURS
from yanami_dataset.mini.scene import Item, Scene
from yanami_dataset.mini.shapes import OUTLINES

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_SIDE, MOST_SIDE = 128, 1024
_FINER = 8  # samples per pixel and axis on the edge of an object


def check_size(size: int) -> None:
    """Raise SpecError unless a side of `size` pixels can be drawn and judged."""
    if not LEAST_SIDE <= size <= MOST_SIDE:
        raise SpecError(f"size: expected a side of {LEAST_SIDE} to {MOST_SIDE} pixels, got {size}")


def render(scene: Scene, size: int = 256) -> Image:
    """Draw a scene as an RGB image of `size` x `size` pixels, from the back to the front, with smooth edges.

    Raises:
        SpecError: `size` is not 128 to 1024.

    >>> render(Scene("white", (Item("red", "circle", 0.5, 0.5, 0.15),)), 128).getpixel((64, 64))
    (214, 39, 40)
    """
    from PIL import Image as pil

    check_size(size)
    image = pil.new("RGB", (size, size), BACKGROUNDS[scene.background])
    for item in scene.items:
        mask, corner = _mask(item, size)
        image.paste(COLOURS[item.colour], (*corner, corner[0] + mask.width, corner[1] + mask.height), mask)
    return image


def _mask(item: Item, size: int) -> tuple[Image, tuple[int, int]]:
    """How much of each pixel the object covers (0-255) in the box around it, and the upper left corner of that box."""
    from PIL import Image as pil
    from PIL import ImageDraw

    left, top = (math.floor((centre - item.radius) * size) - 1 for centre in (item.x, item.y))
    side = math.ceil(2 * item.radius * size) + 3
    fine = pil.new("L", (side * _FINER, side * _FINER), 0)
    # No half sample is taken off: Pillow's polygons are unbiased as they are (measured, to 0.01 pixels).
    outline = [
        (((item.x + dx * item.radius) * size - left) * _FINER, ((item.y + dy * item.radius) * size - top) * _FINER)
        for dx, dy in OUTLINES[item.shape]
    ]
    ImageDraw.Draw(fine).polygon(outline, fill=255)
    return fine.reduce(_FINER), (left, top)


def encode_png(image: Image) -> bytes:
    """The image as PNG, compressed lightly: the same pixels give the same bytes."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()
