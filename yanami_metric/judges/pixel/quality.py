"""How cleanly an image is drawn, without a reference: noise, drift of colours, soft edges; a score of 0 to 10 (ours).

Says nothing about what is drawn, except that an image without any object has no quality.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from yanami_metric.judges.pixel.oklab import Floats, oklab, palette_lab
from yanami_metric.judges.pixel.segment import Mask, Segments, agreeing, eroded

# What a clean image may have of each, and how much more than that halves the score.
_NOISE, _NOISE_SCALE = 0.004, 0.03
_DRIFT, _DRIFT_SCALE = 0.006, 0.06
_SOFT, _SOFT_SCALE = 0.85, 2.0
_STRIDE = 2  # every second row and column is enough for noise and drift
_BAND = 9  # pixels on both sides of an edge in which its colours may mix


@dataclass(frozen=True, slots=True)
class Measures:
    """What blemishes an image.

    `noise`: spread of colours inside regions (Oklab, root mean square). `drift`: distance of the regions' median
    colours from the palette (Oklab, mean over regions). `softness`: how many pixels wide edges to the background are,
    at about 256 x 256 pixels or at the image's own size where that is smaller.
    """

    noise: float
    drift: float
    softness: float

    @property
    def score(self) -> float:
        """10 for a clean image, less for every blemish, never 0.

        >>> Measures(noise=0.0, drift=0.0, softness=0.5).score, Measures(noise=0.034, drift=0.0, softness=0.5).score
        (10.0, 5.0)
        """
        blemish = (
            max(0.0, self.noise - _NOISE) / _NOISE_SCALE
            + max(0.0, self.drift - _DRIFT) / _DRIFT_SCALE
            + max(0.0, self.softness - _SOFT) / _SOFT_SCALE
        )
        return 10 / (1 + blemish)


def measure(seen: Segments) -> Measures:
    """Measure the blemishes of an image that was split into regions."""
    noise, drift = _colours(seen)
    return Measures(noise, drift, _softness(seen))


def _colours(seen: Segments) -> tuple[float, float]:
    """Noise and drift; a region without pixels well inside counts for neither."""
    well_inside = eroded(agreeing(seen.ids), 2)[::_STRIDE, ::_STRIDE]
    regions = seen.ids[::_STRIDE, ::_STRIDE][well_inside]
    lab = oklab(seen.sampled[::_STRIDE, ::_STRIDE][well_inside])
    squares, drifts = 0.0, []
    for region, label in enumerate(seen.labels):
        own = lab[regions == region]
        if len(own):
            squares += float(np.square(own - own.mean(axis=0)).sum())
            drifts.append(float(np.linalg.norm(np.median(own, axis=0) - palette_lab()[label])))
    if not drifts:
        return 0.0, 0.0
    return float(np.sqrt(squares / len(lab))), sum(drifts) / len(drifts)


def _softness(seen: Segments) -> float:
    """Mean width of the edges between objects and background, where no other object is near."""
    upscaled = max(1.0, np.sqrt(seen.ids.size / (seen.native[0] * seen.native[1])))
    pixels = seen.sampled if upscaled > 1 else seen.pixels
    mixed, length = 0.0, 0
    for region, box in enumerate(ndimage.find_objects(seen.ids), 1):
        rows, columns = (slice(max(0, part.start - _BAND), part.stop + _BAND) for part in box)
        more, edge = _edge(pixels[rows, columns].astype(np.float32), seen.ids[rows, columns], region)
        mixed, length = mixed + more, length + edge
    return float(mixed / length / upscaled) if length else 0.0


def _edge(pixels: Floats, ids: npt.NDArray[np.uint8], region: int) -> tuple[float, int]:
    """The sum of how mixed the pixels around one region are (0 pure to 1 half and half), and the length of its edge."""
    own, clear = ids == region, ids == 0
    alone = ~ndimage.maximum_filter(~(own | clear), 2 * _BAND + 1)
    if not (own & alone).any() or not (clear & alone).any():
        return 0.0, 0
    inner, outer = (_median(pixels, part) for part in (own, clear))
    along = inner - outer
    share = (pixels - outer) @ along / max(float(along @ along), 1.0)
    mixed = np.clip(1 - np.abs(2 * share - 1), 0, 1)
    length = int(((own[:, 1:] != own[:, :-1]) & alone[:, 1:]).sum() + ((own[1:] != own[:-1]) & alone[1:]).sum())
    return float(mixed[alone].sum()), length


def _median(pixels: Floats, part: Mask) -> Floats:
    return np.asarray(np.median(pixels[part], axis=0), dtype=np.float32)
