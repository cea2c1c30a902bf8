"""Scenes of coloured shapes, the rules that keep them decidable, and random scenes that obey these rules.

A scene is what is true of an image. Not here: how it is drawn (`render`), what is said about it (`probes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from random import Random

import numpy as np

from yanami_dataset.errors import SpecError
from yanami_dataset.mini.palette import BACKGROUNDS, COLOURS, COLUMNS, ROWS, SHAPES
from yanami_dataset.mini.shapes import CONVEX, OUTLINES, Mask, inside

# All lengths are fractions of the side of the image.
RADII = {"small": 0.105, "large": 0.15}
EDGE = 0.02  # least distance from the edge of the image to the circle around an object
BORDER = 0.03  # least distance of a centre from the borders of the 3x3 cells
GAP = 0.03  # least distance between the circles around two objects that don't overlap
MOST_ITEMS = 6
LEAST_OVERLAP = 0.20  # of the area of the smaller one
MOST_HIDDEN = 0.35  # of the area of the one behind
MOST_CORNERS = 1 / 3  # of the corners of the one behind: with more hidden, a diamond passes for a triangle
_STEP = 0.005  # grid on which overlaps are measured
_TRIES = 300


@dataclass(frozen=True, slots=True)
class Item:
    """An object: `x`, `y` (of its centre, y downwards) and `radius` are fractions of the side of the image.

    >>> Item("red", "circle", 0.25, 0.8, 0.15).cell
    'bottom left'
    """

    colour: str
    shape: str
    x: float
    y: float
    radius: float

    @property
    def kind(self) -> tuple[str, str]:
        """Colour and shape, which together are unique in a scene."""
        return self.colour, self.shape

    @property
    def name(self) -> str:
        """The object in words, such as `red circle`."""
        return f"{self.colour} {self.shape}"

    @property
    def size(self) -> str:
        """`small` or `large`."""
        return "small" if self.radius < (RADII["small"] + RADII["large"]) / 2 else "large"

    @property
    def cell(self) -> str:
        """The cell of the 3x3 grid in which the centre lies."""
        return f"{ROWS[min(int(self.y * 3), 2)]} {COLUMNS[min(int(self.x * 3), 2)]}"


@dataclass(frozen=True, slots=True)
class Scene:
    """A background colour and objects, ordered from back to front."""

    background: str
    items: tuple[Item, ...]

    def find(self, colour: str, shape: str) -> Item | None:
        """The object of that colour and shape, if it is there."""
        return next((item for item in self.items if item.kind == (colour, shape)), None)

    def replaced(self, old: Item, new: Item) -> Scene:
        """The scene with one object in the place of another, at the same depth."""
        return replace(self, items=tuple(new if item == old else item for item in self.items))

    def without(self, item: Item) -> Scene:
        """The scene without one object."""
        return replace(self, items=tuple(other for other in self.items if other != item))

    def mirrored(self) -> Scene:
        """The scene with left and right exchanged; depth stays."""
        return replace(self, items=tuple(replace(item, x=round(1 - item.x, 4)) for item in self.items))


def pairs(scene: Scene) -> tuple[tuple[Item, Item], ...]:
    """The pairs (front, back) of which the front covers a part of the back."""
    return tuple((front, back) for back, front in combinations(scene.items, 2) if _near(front, back))


def is_valid(scene: Scene) -> bool:
    """Whether a scene breaks no rule."""
    return next(problems(scene), None) is None


def problems(scene: Scene) -> Iterator[str]:
    """Yield each broken rule in words.

    Under these rules shapes, cells, sizes and depth can be read off the pixels: one size of two, centres away from
    cell borders, a margin, unique kinds, and for each two objects either a clear gap or a proper overlap.
    """
    if scene.background not in BACKGROUNDS:
        yield f"background: expected one of {', '.join(BACKGROUNDS)}, got {scene.background!r}"
    if not 1 <= len(scene.items) <= MOST_ITEMS:
        yield f"items: expected 1 to {MOST_ITEMS}, got {len(scene.items)}"
    if len({item.kind for item in scene.items}) < len(scene.items):
        yield f"items: expected unique colour and shape, got {[item.name for item in scene.items]}"
    for item in scene.items:
        yield from _item_problems(item)
    overlapping = pairs(scene)
    for front, back in overlapping:
        yield from _overlap_problems(front, back)
    members = [item.name for pair in overlapping for item in pair]
    if len(set(members)) < len(members):
        yield f"items: expected each in at most one overlapping pair, got {members}"


def _item_problems(item: Item) -> Iterator[str]:
    if item.colour not in COLOURS or item.shape not in SHAPES:
        yield f"{item.name}: expected a colour and a shape of the palette"
    if item.radius not in RADII.values():
        yield f"{item.name}.radius: expected one of {sorted(RADII.values())}, got {item.radius}"
    for axis, value in (("x", item.x), ("y", item.y)):
        if not item.radius + EDGE <= value <= 1 - item.radius - EDGE:
            yield f"{item.name}.{axis}: expected at least {EDGE} between object and edge, got {value}"
        if min(abs(value - 1 / 3), abs(value - 2 / 3)) < BORDER:
            yield f"{item.name}.{axis}: expected at least {BORDER} to the border of a cell, got {value}"


def _near(one: Item, other: Item) -> bool:
    return math.hypot(one.x - other.x, one.y - other.y) < one.radius + other.radius + GAP


def _overlap_problems(front: Item, back: Item) -> Iterator[str]:
    if front.colour == back.colour:
        yield f"{front.name}, {back.name}: expected a clear gap between objects of one colour"
    if front.shape not in CONVEX:
        yield f"{front.name}: expected only a convex shape in front of {back.name}"
        return
    pair = (front.shape, front.radius, back.shape, back.radius, *_offset(front, back))
    overlap, hidden, pieces = _overlap(*pair)
    if _hidden_corners(*pair) > MOST_CORNERS:
        yield f"{front.name} before {back.name}: expected at most a third of the corners behind to be hidden"
    if overlap < LEAST_OVERLAP or hidden > MOST_HIDDEN or pieces != 1:
        yield (
            f"{front.name} before {back.name}: expected a clear gap, or an overlap of at least {LEAST_OVERLAP} "
            f"of the smaller that hides at most {MOST_HIDDEN} and leaves one piece, "
            f"got {overlap:.2f}, {hidden:.2f}, {pieces}"
        )


def _offset(front: Item, back: Item) -> tuple[float, float]:
    return round(front.x - back.x, 4), round(front.y - back.y, 4)


@lru_cache(maxsize=4096)
def _overlap(
    front: str, front_radius: float, back: str, back_radius: float, dx: float, dy: float
) -> tuple[float, float, int]:
    """Overlap as a share of the smaller area, the hidden share of the back, and the pieces that stay visible of it."""
    x, y = np.meshgrid(*(np.arange(-back_radius, back_radius + _STEP, _STEP),) * 2)
    behind = inside(back, x / back_radius, y / back_radius)
    hidden = behind & inside(front, (x - dx) / front_radius, (y - dy) / front_radius)
    area, covered = int(behind.sum()), int(hidden.sum())
    smaller = min(area, _area(front, front_radius))
    return covered / smaller, covered / area, _pieces(behind & ~hidden)


def _hidden_corners(front: str, front_radius: float, back: str, back_radius: float, dx: float, dy: float) -> float:
    """The share of the corners of the back that the front hides, each taken a little inwards; a circle has none."""
    corners = np.array([(x, y) for x, y in OUTLINES[back] if math.hypot(x, y) > 0.7]) * (0.9 * back_radius)
    if back == "circle":
        return 0.0
    hidden = inside(front, (corners[:, 0] - dx) / front_radius, (corners[:, 1] - dy) / front_radius)
    return float(hidden.mean())


@lru_cache(maxsize=64)
def _area(shape: str, radius: float) -> int:
    x, y = np.meshgrid(*(np.arange(-radius, radius + _STEP, _STEP),) * 2)
    return int(inside(shape, x / radius, y / radius).sum())


def _pieces(mask: Mask) -> int:
    """How many pieces are left after two grid points (0.01 of the side) are taken off all around."""
    from scipy.ndimage import binary_erosion, label

    return int(label(binary_erosion(mask, iterations=2))[1])


def added(
    rng: Random,
    scene: Scene,
    kind: tuple[str, str],
    size: str,
    *,
    cell: str | None = None,
    behind: Item | None = None,
    before: Item | None = None,
) -> Scene | None:
    """The scene with one more object at a random place, or None where no place was found.

    Args:
        rng: the source of chance.
        scene: a valid scene, or one without objects.
        kind: colour and shape.
        size: `small` or `large`.
        cell: the cell in which the centre has to be; anywhere by default.
        behind, before: an object of the scene which the new one has to overlap, from behind or from the front.
    """
    partner = behind or before
    for _ in range(_TRIES):
        x, y = _point(rng, cell, RADII[size], partner)
        item = Item(*kind, x, y, RADII[size])
        items = list(scene.items)
        items.insert(items.index(behind) if behind else len(items), item)
        candidate = replace(scene, items=tuple(items))
        touched = [other for other in scene.items if _near(item, other)]
        if touched == ([partner] if partner else []) and is_valid(candidate) and cell in (None, item.cell):
            return candidate
    return None


def moved(rng: Random, scene: Scene, item: Item, cell: str | None = None) -> Scene | None:
    """The scene with an object at another place (in `cell`), clear of the others, at the same depth, or None."""
    rest = scene.without(item)
    for _ in range(_TRIES):
        x, y = _point(rng, cell, item.radius, None)
        new = replace(item, x=x, y=y)
        candidate = scene.replaced(item, new)
        if not any(_near(new, other) for other in rest.items) and is_valid(candidate) and new.cell != item.cell:
            return candidate
    return None


def _point(rng: Random, cell: str | None, radius: float, partner: Item | None) -> tuple[float, float]:
    if partner is not None:
        angle, distance = rng.uniform(0, 2 * math.pi), rng.uniform(0.3, 1.0) * (radius + partner.radius)
        return round(partner.x + distance * math.cos(angle), 3), round(partner.y + distance * math.sin(angle), 3)
    low, high = radius + EDGE, 1 - radius - EDGE
    if cell is None:
        return round(rng.uniform(low, high), 3), round(rng.uniform(low, high), 3)
    row, column = cell.split(" ")
    return _in_third(rng, COLUMNS.index(column), low, high), _in_third(rng, ROWS.index(row), low, high)


def _in_third(rng: Random, third: int, low: float, high: float) -> float:
    start, end = max(low, third / 3 + BORDER), min(high, (third + 1) / 3 - BORDER)
    return round(rng.uniform(start, end), 3)


def kinds(
    rng: Random, count: int, colours: Sequence[str] = tuple(COLOURS), shapes: Sequence[str] = SHAPES
) -> list[tuple[str, str]]:
    """Draw `count` kinds (colour, shape) no two of which are equal."""
    return rng.sample([(colour, shape) for colour in colours for shape in shapes], count)


def random_scene(rng: Random, count: int | None = None, *, overlaps: int = 0, background: str | None = None) -> Scene:
    """Draw a valid scene.

    Args:
        rng: the source of chance; the same state gives the same scene on every machine.
        count: number of objects, 1 to 6; by default drawn between 3 and 5.
        overlaps: how many pairs overlap, 0 to count // 2.
        background: by default drawn.

    Raises:
        SpecError: count or overlaps is out of range.

    >>> scene = random_scene(Random(1), 4, overlaps=1)
    >>> len(scene.items), len(pairs(scene)), is_valid(scene)
    (4, 1, True)
    """
    count = rng.randint(3, 5) if count is None else count
    if not 1 <= count <= MOST_ITEMS or not 0 <= overlaps <= count // 2:
        raise SpecError(
            f"a scene has 1 to {MOST_ITEMS} objects and up to half as many overlaps: got {count}, {overlaps}"
        )
    while True:
        scene = _attempt(rng, count, overlaps, background or rng.choice(list(BACKGROUNDS)))
        if scene is not None:
            return scene


def _attempt(rng: Random, count: int, overlaps: int, background: str) -> Scene | None:
    scene: Scene | None = Scene(background, ())
    for n, kind in enumerate(kinds(rng, count)):
        if scene is None:
            return None
        behind = scene.items[-1] if n < 2 * overlaps and n % 2 else None
        scene = added(rng, scene, kind, rng.choice(list(RADII)), behind=behind)
    return scene
