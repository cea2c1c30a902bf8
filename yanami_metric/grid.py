"""Several images as one labelled picture, for models that take only one.

The layout is arithmetic on sizes; pixels are touched when the picture is read. Every cell carries its label, `Image k`,
in a band above the image, so that a later mention in the text can be found in the picture (paper Table 9: "concatenated
into a grid"; layout and labels are ours).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace

from yanami_metric.records import ImageRef

VERSION = "grid/1"
MAX_CELL = 1024  # pixels; larger images are scaled down to fit
BAND = 0.12  # height of the label's band, relative to the cell's shorter side
GAP = 8  # pixels between cells and around them


def grid(images: Sequence[ImageRef]) -> ImageRef:
    """One image that shows all `images`, each with the label it carries; its hash is that of the recipe.

    Args:
        images: two or more, each with exactly one label.
    """
    if len(images) < 2 or any(len(image.labels) != 1 for image in images):
        raise ValueError(f"expected two or more images with one label each, got {[image.labels for image in images]}")
    labels = tuple(image.labels[0] for image in images)
    recipe = json.dumps([VERSION, [[image.sha256, label] for image, label in zip(images, labels, strict=True)]])
    width, height = _size(images)
    sources = tuple(images)
    return ImageRef(hashlib.sha256(recipe.encode()).hexdigest(), width, height, lambda: compose(sources), labels=labels)


def with_label(image: ImageRef, label: int) -> ImageRef:
    """The same image under one label."""
    return replace(image, labels=(label,))


def _cell(images: Sequence[ImageRef]) -> tuple[int, int, int]:
    """Width and height of a cell's image area and the height of its band, in pixels."""
    width = min(MAX_CELL, max(image.width for image in images))
    height = min(MAX_CELL, max(image.height for image in images))
    return width, height, max(16, round(BAND * min(width, height)))


def _columns(count: int) -> int:
    return math.ceil(math.sqrt(count))


def _size(images: Sequence[ImageRef]) -> tuple[int, int]:
    width, height, band = _cell(images)
    columns = _columns(len(images))
    rows = math.ceil(len(images) / columns)
    return GAP + columns * (width + GAP), GAP + rows * (height + band + GAP)


def compose(images: Sequence[ImageRef]) -> bytes:
    """Draw the grid; PNG bytes."""
    from PIL import Image, ImageDraw, ImageFont

    from yanami_dataset.images import encode_png, open_rgb

    width, height, band = _cell(images)
    columns = _columns(len(images))
    canvas = Image.new("RGB", _size(images), "white")
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=round(band * 0.75))
    for i, image in enumerate(images):
        x = GAP + (i % columns) * (width + GAP)
        y = GAP + (i // columns) * (height + band + GAP)
        draw.text((x + width / 2, y + band / 2), f"Image {image.labels[0]}", fill="black", font=font, anchor="mm")
        pixels = open_rgb(image.read())
        pixels.thumbnail((width, height))
        canvas.paste(pixels, (x + (width - pixels.width) // 2, y + band + (height - pixels.height) // 2))
    return encode_png(canvas)
