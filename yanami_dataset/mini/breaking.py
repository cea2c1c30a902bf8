"""From a scene to one that is as valid and nearly the same, but of which a given probe isn't true.

The pairs measure judges: one that passes the broken image, or fails the intact one, is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from yanami_dataset.errors import DataError
from yanami_dataset.mini.palette import BACKGROUNDS, COLOURS, SHAPES
from yanami_dataset.mini.probes import LEAST_OFFSET, Probe, holds, matches
from yanami_dataset.mini.scene import MOST_ITEMS, RADII, Item, Scene, added, is_valid, moved

_ROUNDS = 10


def break_scene(scene: Scene, probe: Probe, rng: Random) -> Scene:
    """Change as little of a scene as makes a probe false, at random among the ways there are.

    Args:
        scene: a valid scene on which the probe holds.
        probe: any probe of `yanami_dataset.mini.probes`.
        rng: the source of chance.

    Raises:
        DataError: the probe doesn't hold on the scene, or no valid scene was found that breaks it.

    >>> scene = Scene("pink", (Item("red", "circle", 0.5, 0.5, 0.15),))
    >>> probe = {"predicate": "size", "object": {"colour": "red", "shape": "circle"}, "size": "large"}
    >>> break_scene(scene, probe, Random(0)).items[0].radius
    0.105
    """
    if not holds(scene, probe):
        raise DataError(f"expected a probe that holds on the scene, got {dict(probe)} on {scene}")
    for _ in range(_ROUNDS):
        for candidate in _candidates(scene, probe, rng):
            if (
                candidate is not None
                and is_valid(candidate)
                and not holds(candidate, probe)
                and _clearly(candidate, probe)
            ):
                return candidate
    wanted = probe.get("anchor") or probe.get("object")
    needed = scene.find(**wanted) if wanted else None
    if needed is not None and len(scene.items) > 1:  # too crowded for anything to move
        return scene.without(needed)
    raise DataError(f"no valid scene near {scene} breaks {dict(probe)}")


def _clearly(scene: Scene, probe: Probe) -> bool:
    """Whether a relation that doesn't hold misses by so much that it can be seen."""
    if probe["predicate"] != "relation":
        return True
    item, other = (scene.find(**probe[name]) for name in ("object", "other"))
    across = probe["relation"].endswith("of")
    return bool(item and other and abs(item.x - other.x if across else item.y - other.y) >= LEAST_OFFSET)


def _candidates(scene: Scene, probe: Probe, rng: Random) -> Iterator[Scene | None]:
    match probe["predicate"]:
        case "present":
            yield from _shuffled(rng, _lost(scene, scene.find(**probe["object"]), rng))
        case "absent":
            yield from _appearing(scene, probe, rng)
        case "empty":
            yield from _filled(scene, probe, rng)
        case "count":
            yield from _miscounted(scene, probe, rng)
        case "background":
            others = [name for name in BACKGROUNDS if name != scene.background]
            yield replace(scene, background=rng.choice(others))
        case "size":
            yield from _resized(scene, scene.find(**probe["object"]), rng)
        case "in_front":
            yield from _reordered(scene, probe, rng)
        case "cell":
            yield from _displaced(scene, scene.find(**probe["object"]), rng)
        case _:  # a relation
            yield from _rearranged(scene, probe, rng)


def _displaced(scene: Scene, item: Item | None, rng: Random) -> Iterator[Scene | None]:
    """The object is elsewhere, or where there is no room has exchanged places with another one."""
    if item is None:
        return
    yield moved(rng, scene, item)
    yield _traded(scene, item, rng.choice(scene.items))


def _rearranged(scene: Scene, probe: Probe, rng: Random) -> Iterator[Scene | None]:
    """One of the two is elsewhere, or they have exchanged places, or both are elsewhere."""
    item, other = scene.find(**probe["object"]), scene.find(**probe["other"])
    if item is None or other is None:
        return
    yield moved(rng, scene, item)
    yield moved(rng, scene, other)
    yield _traded(scene, item, other)
    apart = moved(rng, scene, item)
    yield moved(rng, apart, other) if apart else None


def _shuffled(rng: Random, candidates: Iterator[Scene | None]) -> list[Scene | None]:
    drawn = list(candidates)
    rng.shuffle(drawn)
    return drawn


def _traded(scene: Scene, item: Item, other: Item) -> Scene:
    """Two objects have exchanged their places."""
    swap = {item: replace(item, x=other.x, y=other.y), other: replace(other, x=item.x, y=item.y)}
    return replace(scene, items=tuple(swap.get(one, one) for one in scene.items))


def _lost(scene: Scene, item: Item | None, rng: Random) -> Iterator[Scene]:
    """The object is gone, or has another colour, or another shape."""
    if item is None:
        return
    if len(scene.items) > 1:
        yield scene.without(item)
    yield scene.replaced(item, replace(item, colour=rng.choice([name for name in COLOURS if name != item.colour])))
    yield scene.replaced(item, replace(item, shape=rng.choice([name for name in SHAPES if name != item.shape])))


def _appearing(scene: Scene, probe: Probe, rng: Random) -> Iterator[Scene | None]:
    """What has to be absent is there: one more object, or another one in its guise."""
    colour = probe["object"].get("colour") or rng.choice(list(COLOURS))
    shape = probe["object"].get("shape") or rng.choice(SHAPES)
    if len(scene.items) < MOST_ITEMS:
        yield added(rng, scene, (colour, shape), rng.choice(list(RADII)))
    for item in _others(scene, probe, rng):
        yield scene.replaced(item, replace(item, colour=colour, shape=shape))


def _others(scene: Scene, probe: Probe, rng: Random) -> list[Item]:
    """The objects except the one that has to stay, in a random order."""
    items = [item for item in scene.items if not matches(item, probe["anchor"])]
    return rng.sample(items, len(items))


def _filled(scene: Scene, probe: Probe, rng: Random) -> Iterator[Scene | None]:
    """Another object, else a new one, else the anchor itself lies in the cell."""
    for item in _others(scene, probe, rng):
        yield moved(rng, scene, item, probe["cell"])
    if len(scene.items) < MOST_ITEMS:
        yield added(rng, scene, _new_kind(scene, rng), rng.choice(list(RADII)), cell=probe["cell"])
    anchor = scene.find(**probe["anchor"])
    yield moved(rng, scene, anchor, probe["cell"]) if anchor else None
    for item in _others(scene, probe, rng):
        yield added(rng, scene.without(item), item.kind, "small", cell=probe["cell"])


def _new_kind(scene: Scene, rng: Random) -> tuple[str, str]:
    there = {item.kind for item in scene.items}
    return rng.choice([(colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in there])


def _miscounted(scene: Scene, probe: Probe, rng: Random) -> Iterator[Scene | None]:
    """One more or one less of what is counted."""
    counted = [item for item in scene.items if matches(item, probe)]
    if len(scene.items) > 1:
        yield scene.without(rng.choice(counted))
    kinds = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    rng.shuffle(kinds)
    colour, shape = next(
        kind
        for kind in kinds
        if kind[0] == probe.get("colour", kind[0]) and kind[1] == probe.get("shape", kind[1]) and not scene.find(*kind)
    )
    if len(scene.items) < MOST_ITEMS:
        yield added(rng, scene, (colour, shape), rng.choice(list(RADII)))
    yield from _lost(scene, rng.choice(counted), rng)


def _resized(scene: Scene, item: Item | None, rng: Random) -> Iterator[Scene | None]:
    """The other size, in its place or, where there is no room, nearby or elsewhere."""
    if item is None:
        return
    other = replace(item, radius=RADII["large" if item.size == "small" else "small"])
    yield scene.replaced(item, other)
    for _ in range(_ROUNDS):
        nearby = {axis: round(getattr(item, axis) + rng.uniform(-0.05, 0.05), 3) for axis in ("x", "y")}
        yield scene.replaced(item, replace(other, **nearby))
    yield moved(rng, scene.replaced(item, other), other)


def _reordered(scene: Scene, probe: Probe, rng: Random) -> Iterator[Scene | None]:
    """The two exchange their depth, or one of them goes elsewhere."""
    front, back = scene.find(**probe["object"]), scene.find(**probe["other"])
    if front is None or back is None:
        return
    yield exchanged(scene, front, back)
    yield moved(rng, scene, rng.choice([front, back]))


def exchanged(scene: Scene, one: Item, other: Item) -> Scene:
    """The scene in which two objects exchange their depth and nothing else (it may break a rule)."""
    swap = {one: other, other: one}
    return replace(scene, items=tuple(swap.get(item, item) for item in scene.items))
