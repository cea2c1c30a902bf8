"""The six shapes as outlines in units of their radius: what the renderer draws and the scene rules measure.

Not for the pixel judge, which has templates of its own: an image drawn by a model knows nothing of these outlines.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Point = tuple[float, float]
Mask = npt.NDArray[np.bool_]

# In front of another object only these: a star or a cross there would cut the one behind into pieces.
CONVEX = ("circle", "square", "triangle", "diamond")


def _ring(corners: int, first: float = -90.0) -> tuple[Point, ...]:
    """Corners on the unit circle, the first at an angle in degrees (-90 is up, y grows downwards)."""
    angles = (math.radians(first + 360 * i / corners) for i in range(corners))
    return tuple((math.cos(angle), math.sin(angle)) for angle in angles)


def _star(points: int = 5, inner: float = 0.45) -> tuple[Point, ...]:
    ring = _ring(2 * points)
    return tuple((x, y) if i % 2 == 0 else (x * inner, y * inner) for i, (x, y) in enumerate(ring))


def _cross(half: float = 0.33) -> tuple[Point, ...]:
    end = math.sqrt(1 - half * half)
    corner = ((half, -end), (half, -half), (end, -half))  # of the arm up and the arm to the right
    turned = [corner]
    for _ in range(3):
        turned.append(tuple((-y, x) for x, y in turned[-1]))  # type: ignore[arg-type]
    return tuple(point for part in turned for point in part)


# Each outline has its centroid in (0, 0), its farthest point at distance 1 and a vertical axis of symmetry.
OUTLINES: dict[str, tuple[Point, ...]] = {
    "circle": _ring(120),
    "square": _ring(4, -45.0),
    "triangle": _ring(3),
    "diamond": ((0.0, -1.0), (0.72, 0.0), (0.0, 1.0), (-0.72, 0.0)),
    "star": _star(),
    "cross": _cross(),
}


def inside(shape: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Mask:
    """Which points lie in a shape; `x` and `y` are offsets from its centre in units of its radius.

    >>> inside("square", np.array([0.7, 0.8]), np.array([0.0, 0.0])).tolist()
    [True, False]
    """
    if shape == "circle":
        return np.asarray(x * x + y * y <= 1.0)
    outline = OUTLINES[shape]
    within = np.zeros(np.broadcast(x, y).shape, dtype=np.bool_)
    for (x0, y0), (x1, y1) in zip(outline, outline[1:] + outline[:1], strict=True):
        if y0 == y1:
            continue
        beyond = x < x0 + (y - y0) * ((x1 - x0) / (y1 - y0))
        within ^= ((y0 > y) != (y1 > y)) & beyond
    return within
