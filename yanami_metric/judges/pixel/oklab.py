"""Oklab, and the palette in it: which palette colour is nearest to a pixel.

Oklab (Björn Ottosson, 2020) is a colour space in which equal distances look about equally different. Not here: where a
pixel is or what it belongs to.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from yanami_dataset.mini.palette import BACKGROUNDS, COLOURS

Labels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

# Names by label: a label is a position in this tuple.
NAMES: tuple[str, ...] = (*COLOURS, *BACKGROUNDS)

_BITS = 6  # per channel, of the table of nearest colours
_TO_CONE = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    dtype=np.float32,
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ],
    dtype=np.float32,
)


@lru_cache(maxsize=1)
def _linear() -> Floats:
    """Linear light for each of the 256 sRGB values."""
    value = np.arange(256) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4).astype(np.float32)


def oklab(rgb: npt.NDArray[np.uint8]) -> Floats:
    """Convert sRGB (uint8, shape (..., 3)) to Oklab (float32, the same shape; lightness 0 to 1, the rest -0.4 to 0.4).

    >>> oklab(np.array([255, 255, 255], dtype=np.uint8)).round(2).tolist()
    [1.0, 0.0, 0.0]
    """
    cone = np.cbrt(_linear()[rgb] @ _TO_CONE.T)
    return np.asarray(cone @ _TO_LAB.T, dtype=np.float32)


@lru_cache(maxsize=1)
def palette_lab() -> Floats:
    """The palette in Oklab, one row for each of NAMES."""
    return oklab(np.array([*COLOURS.values(), *BACKGROUNDS.values()], dtype=np.uint8))


@lru_cache(maxsize=1)
def table_lab() -> Floats:
    """Oklab of every RGB of 6 bits a channel."""
    steps = (np.arange(1 << _BITS) * (1 << 8 - _BITS) + (1 << 7 - _BITS)).astype(np.uint8)
    return oklab(np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3))


@lru_cache(maxsize=1)
def _table() -> Labels:
    """The label of the nearest colour for every RGB of 6 bits a channel."""
    return _closest(table_lab(), tuple(range(len(NAMES))))


def _closest(lab: Floats, allowed: tuple[int, ...]) -> Labels:
    best = np.full(lab.shape[:-1], np.inf, dtype=np.float32)
    labels = np.zeros(lab.shape[:-1], dtype=np.uint8)
    for label in allowed:
        distance = np.square(lab - palette_lab()[label]).sum(axis=-1)
        nearer = distance < best
        best[nearer], labels[nearer] = distance[nearer], label
    return labels


def table_index(rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The place of each pixel (shape (..., 3)) in the table of nearest colours."""
    high = (rgb >> (8 - _BITS)).astype(np.int32)
    return np.asarray(high[..., 0] << 2 * _BITS | high[..., 1] << _BITS | high[..., 2])


def nearest(index: npt.NDArray[np.int32]) -> Labels:
    """The label of the nearest palette colour, for places of the table as `table_index` gives them.

    >>> NAMES[nearest(table_index(np.array([200, 45, 50], dtype=np.uint8)))]
    'red'
    """
    return np.asarray(_table().take(index))


def nearest_of(index: npt.NDArray[np.int32], allowed: tuple[int, ...]) -> Labels:
    """Like `nearest`, but only among the labels in `allowed` (at least one)."""
    return _closest(table_lab()[index], allowed)
