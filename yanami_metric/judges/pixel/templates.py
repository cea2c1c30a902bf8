"""What the six shapes look like to the judge: outlines around their centroid.

There are several of each, since a model has its own idea of a star.
Written for this judge alone: the renderer's outlines are unknown here. Not here: how an outline is fitted to pixels.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Corners = list[tuple[float, float]]

DIRECTIONS = 720  # of the tables below, each half a degree


def _regular(corners: int, turn: float = 0.0, inner: float | None = None) -> Corners:
    """A regular polygon with its first corner up, turned clockwise (degrees); `inner`: a star with so many points."""
    radii = [1.0] if inner is None else [1.0, inner]
    count = corners * len(radii)
    angles = [2 * math.pi * i / count + math.radians(turn) for i in range(count)]
    return [(radii[i % len(radii)] * math.sin(a), -radii[i % len(radii)] * math.cos(a)) for i, a in enumerate(angles)]


def _plus(arm: float, turn: float = 0.0) -> Corners:
    """A cross whose arms are `arm` of its width wide, turned clockwise (degrees)."""
    quarter = [(arm, -1.0), (arm, -arm), (1.0, -arm)]
    corners: Corners = []
    for i in range(4):
        a = math.radians(90 * i + turn)
        corners += [(x * math.cos(a) - y * math.sin(a), x * math.sin(a) + y * math.cos(a)) for x, y in quarter]
    return corners


def _triangle(height: float, turn: float = 0.0) -> Corners:
    """An isosceles triangle with a base of 2, pointing up, around its centroid, turned clockwise (degrees)."""
    corners = [(0.0, -2 * height / 3), (1.0, height / 3), (-1.0, height / 3)]
    a = math.radians(turn)
    return [(x * math.cos(a) - y * math.sin(a), x * math.sin(a) + y * math.cos(a)) for x, y in corners]


OUTLINES: tuple[tuple[str, Corners], ...] = (
    ("circle", _regular(90)),
    ("square", _regular(4, 45)),
    ("triangle", _triangle(math.sqrt(3))),
    ("triangle", _triangle(2.1)),
    ("triangle", _triangle(1.3)),
    ("triangle", _triangle(math.sqrt(3), 180)),
    ("diamond", _regular(4)),
    ("diamond", [(0.0, -1.0), (0.75, 0.0), (0.0, 1.0), (-0.75, 0.0)]),
    ("diamond", [(0.0, -1.0), (0.55, 0.0), (0.0, 1.0), (-0.55, 0.0)]),
    ("star", _regular(5, 0, 0.38)),
    ("star", _regular(5, 0, 0.47)),
    ("star", _regular(5, 0, 0.56)),
    ("star", _regular(6, 0, 0.55)),
    ("cross", _plus(0.2)),
    ("cross", _plus(0.33)),
    ("cross", _plus(0.45)),
    ("cross", _plus(0.25, 45)),
)
SHAPE_OF: tuple[str, ...] = tuple(shape for shape, _ in OUTLINES)


@lru_cache(maxsize=1)
def reach() -> Floats:
    """How far each outline reaches in each direction: templates x DIRECTIONS, 1 at its farthest point.

    Direction i is the angle 2 pi i / DIRECTIONS from the x axis towards y, which grows downwards.
    """
    table = np.array([_reach_of(corners) for _, corners in OUTLINES])
    return np.asarray(table / table.max(axis=1, keepdims=True), dtype=np.float32)


def _reach_of(corners: Corners) -> npt.NDArray[np.float64]:
    """Distance from the origin to the outline, by cutting a ray with each edge."""
    angle = np.arange(DIRECTIONS) * (2 * np.pi / DIRECTIONS)
    dx, dy = np.cos(angle), np.sin(angle)
    farthest = np.zeros(DIRECTIONS)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        ex, ey = x1 - x0, y1 - y0
        with np.errstate(divide="ignore", invalid="ignore"):
            across = ex * dy - ey * dx
            distance = (ex * y0 - ey * x0) / across
            along = (dx * y0 - dy * x0) / across
        hit = (np.abs(across) > 1e-12) & (distance > 0) & (along >= -1e-9) & (along <= 1 + 1e-9)
        farthest = np.where(hit, np.maximum(farthest, distance), farthest)
    return farthest
