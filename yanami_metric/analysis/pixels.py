"""Measures on pixels: how far two images are apart, where a target changes, how sharp and how colourful an image is.

Arrays only: an image is height x width x 3, 8 bits, RGB; it knows no files, dialogues or models. Thresholds are
**ours**, formulas are of the papers named beside them. `docs/drift.md` says what they can't tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels: TypeAlias = NDArray[np.uint8]
Plane: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

WORKING_SIDE = 512
"""Images are made smaller until their longer side has so many pixels: that bounds time and memory."""
SHARPNESS_SIDE = 256
"""The longer side at which sharpness is measured, whatever the size of an image."""
THRESHOLD = 16
"""A pixel has changed where a channel differs by more than this, of 255."""
_SIGMA, _RADIUS = 1.5, 5  # of SSIM's window: 11 x 11
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def pixels(image: Image) -> Pixels:
    """An RGB image as an array, its longer side at most WORKING_SIDE.

    >>> from PIL import Image
    >>> pixels(Image.new("RGB", (2048, 1024))).shape, pixels(Image.new("RGB", (3, 2))).shape
    ((256, 512, 3), (2, 3, 3))
    """
    share = WORKING_SIDE / max(image.size)
    if share < 1:
        width, height = (max(1, round(share * side)) for side in image.size)
        image = image.resize((width, height))
    return np.asarray(image, dtype=np.uint8)


def fitted(image: Pixels, width: int, height: int) -> Pixels:
    """An image at another size (bicubic, averaged where it shrinks), aspect ratio not kept; itself if it has that size.

    >>> fitted(np.full((2, 2, 3), 7, np.uint8), 4, 3).shape
    (3, 4, 3)
    """
    if image.shape[:2] == (height, width):
        return image
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((width, height)), dtype=np.uint8)


def luma(image: Pixels) -> Plane:
    """Luma of each pixel, 0-255: 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601).

    >>> float(luma(np.full((1, 1, 3), 255, np.uint8))[0, 0])
    255.0
    """
    return np.asarray(image.astype(np.float32) @ _LUMA)


def _apart(one: Pixels, other: Pixels) -> NDArray[np.int16]:
    return np.abs(one.astype(np.int16) - other.astype(np.int16))


def _channels(image: NDArray[Any]) -> Any:
    """The three planes: numpy is slow at reducing an axis of three."""
    return np.moveaxis(image, 2, 0)


def difference(one: Pixels, other: Pixels) -> Plane:
    """How far each pixel is from that of an image of the same size: the mean over channels, 0-255.

    >>> difference(np.zeros((1, 1, 3), np.uint8), np.array([[[0, 3, 6]]], np.uint8)).tolist()
    [[3.0]]
    """
    red, green, blue = _channels(_apart(one, other))
    return np.asarray((red + green + blue) / np.float32(3), dtype=np.float32)


def changed(one: Pixels, other: Pixels) -> Mask:
    """Where some channel differs by more than THRESHOLD from an image of the same size.

    >>> changed(np.zeros((1, 2, 3), np.uint8), np.array([[[0, 17, 0], [16, 16, 16]]], np.uint8)).tolist()
    [[True, False]]
    """
    red, green, blue = _channels(_apart(one, other))
    return np.asarray(np.maximum(np.maximum(red, green), blue) > THRESHOLD)


def unchanged(before: Pixels, after: Pixels) -> Mask:
    """Where a turn changes nothing, by its ground truth before and after (same size): an estimate.

    Pixels that have changed, and those near them (2 % of the longer side, at least SSIM's window), are what it changes.

    >>> before = np.zeros((1, 20, 3), np.uint8)
    >>> after = before.copy(); after[0, 0] = 255
    >>> unchanged(before, after)[0].tolist().index(True)
    7
    """
    from scipy import ndimage

    found = changed(before, after)
    margin = max(_RADIUS + 1, round(0.02 * max(found.shape)))
    return np.logical_not(ndimage.maximum_filter(found, size=2 * margin + 1))


def similarity(one: Pixels, other: Pixels) -> Plane:
    """SSIM of each pixel's surroundings in the luma of two images of the same size, 1 where they are the same.

    Wang et al. 2004, equation 13: a Gaussian window (sigma 1.5, 11 x 11), K1 = 0.01, K2 = 0.03; edges are mirrored.

    >>> flat = np.full((12, 12, 3), 100, np.uint8)
    >>> float(similarity(flat, flat).min())
    1.0
    """
    from scipy import ndimage

    def blurred(plane: Plane) -> Plane:
        return np.asarray(ndimage.gaussian_filter(plane, _SIGMA, radius=_RADIUS))

    x, y = luma(one), luma(other)
    # about the means of the whole, so that float32 is exact enough for variances
    middle_x, middle_y = x.mean(), y.mean()
    x, y = x - middle_x, y - middle_y
    mean_x, mean_y = blurred(x), blurred(y)
    variances = blurred(x * x + y * y) - mean_x**2 - mean_y**2
    covariance = blurred(x * y) - mean_x * mean_y
    mean_x, mean_y = mean_x + middle_x, mean_y + middle_y
    c1, c2 = np.float32((0.01 * 255) ** 2), np.float32((0.03 * 255) ** 2)
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    return np.asarray(luminance * (2 * covariance + c2) / (variances + c2), dtype=np.float32)


def sharpness(image: Pixels) -> float:
    """The variance of the Laplacian of luma at a longer side of SHARPNESS_SIDE; 0 for a flat image.

    Pech-Pacheco et al. 2000. Fine texture, noise and hard edges raise it, blur lowers it.

    >>> sharpness(np.full((8, 8, 3), 9, np.uint8))
    0.0
    """
    from scipy import ndimage

    height, width = image.shape[:2]
    share = SHARPNESS_SIDE / max(height, width)
    plane = luma(fitted(image, max(1, round(share * width)), max(1, round(share * height))))
    return float(ndimage.laplace(plane.astype(np.float64)).var())


def saturation(image: Pixels) -> float:
    """The mean over pixels of (max - min) / max of the three channels (HSV), 0-100; 0 for black.

    >>> saturation(np.array([[[255, 0, 0], [0, 0, 0]]], np.uint8))
    50.0
    """
    red, green, blue = _channels(image)
    highest = np.maximum(np.maximum(red, green), blue).astype(np.float64)
    lowest = np.minimum(np.minimum(red, green), blue)
    return float(100 * ((highest - lowest) / np.maximum(highest, 1)).mean())


def colourfulness(image: Pixels) -> float:
    """How colourful an image looks: 0 for grey, about 15 slightly, 45 averagely, over 100 extremely.

    Hasler and Suesstrunk 2003, M3: with rg = R - G and yb = (R + G) / 2 - B over all pixels,
    sqrt(var(rg) + var(yb)) + 0.3 sqrt(mean(rg)^2 + mean(yb)^2).

    >>> colourfulness(np.full((2, 2, 3), 9, np.uint8)), colourfulness(np.array([[[100, 0, 50]]], np.uint8))
    (0.0, 30.0)
    """
    red, green, blue = _channels(image.astype(np.float64))
    rg, yb = red - green, (red + green) / 2 - blue
    return float(np.sqrt(rg.var() + yb.var()) + 0.3 * np.hypot(rg.mean(), yb.mean()))
