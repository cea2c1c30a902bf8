"""Probes: single statements about a scene as plain JSON objects, their truth and their words.

A probe is what a check of the mini bench carries beside its criterion, for a judge that measures pixels. Truth is
decided here from the scene alone; how anybody reads it off an image is not known here. Every probe names an object that
has to be there or a number of at least one, so no probe holds on an empty image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from yanami_dataset.mini.palette import RELATIONS
from yanami_dataset.mini.scene import RADII, Item, Scene, pairs

Probe = Mapping[str, Any]
LEAST_OFFSET = 0.09  # two centres less apart than this (of the side) have no relation along that axis
_NUMBERS = ("one", "two", "three", "four", "five", "six")


def named(item: Item) -> dict[str, str]:
    """The object as probes name it."""
    return {"colour": item.colour, "shape": item.shape}


def present(item: Item) -> Probe:
    """The object is there.

    >>> criterion(present(Item("red", "circle", 0.5, 0.5, 0.15)))
    'There is a red circle in the image.'
    """
    return {"predicate": "present", "object": named(item)}


def absent(anchor: Item, *, colour: str | None = None, shape: str | None = None) -> Probe:
    """No object of that colour and/or shape is there, though the anchor is."""
    missing = {name: value for name, value in (("colour", colour), ("shape", shape)) if value is not None}
    return {"predicate": "absent", "object": missing, "anchor": named(anchor)}


def cell(item: Item) -> Probe:
    """The object's centre lies in the cell where it is now."""
    return {"predicate": "cell", "object": named(item), "cell": item.cell}


def empty(place: str, anchor: Item) -> Probe:
    """No object has its centre in a cell, though the anchor is there."""
    return {"predicate": "empty", "cell": place, "anchor": named(anchor)}


def relation(item: Item, other: Item, word: str) -> Probe:
    """The object's centre lies left of, right of, above or below that of the other."""
    return {"predicate": "relation", "object": named(item), "relation": word, "other": named(other)}


def size(item: Item) -> Probe:
    """The object has the size that it has now."""
    return {"predicate": "size", "object": named(item), "size": item.size}


def in_front(front: Item, back: Item) -> Probe:
    """The one object covers a part of the other."""
    return {"predicate": "in_front", "object": named(front), "other": named(back)}


def count(n: int, *, colour: str | None = None, shape: str | None = None) -> Probe:
    """There are exactly `n` (at least 1) objects, or `n` that match colour and/or shape."""
    matching = {name: value for name, value in (("colour", colour), ("shape", shape)) if value is not None}
    return {"predicate": "count", "n": n, **matching}


def background(name: str, anchor: Item) -> Probe:
    """The background has that colour, and the anchor is there."""
    return {"predicate": "background", "background": name, "anchor": named(anchor)}


def dumps(probe: Probe) -> str:
    """The probe as JSON, always in the same form."""
    return json.dumps(probe, sort_keys=True)


def matches(item: Item, wanted: Mapping[str, str]) -> bool:
    """Whether an object has the colour and/or the shape that is asked for."""
    return all(getattr(item, name) == wanted[name] for name in ("colour", "shape") if name in wanted)


def related(item: Item, other: Item, word: str) -> bool:
    """Whether one centre clearly lies left of, right of, above or below the other (by `LEAST_OFFSET`)."""
    across, sign = {"left of": (True, 1), "right of": (True, -1), "above": (False, 1), "below": (False, -1)}[word]
    distance = (other.x - item.x) if across else (other.y - item.y)
    return sign * distance >= LEAST_OFFSET


def relations(item: Item, other: Item) -> tuple[str, ...]:
    """The relations in which one object clearly stands to another."""
    return tuple(word for word in RELATIONS if related(item, other, word))


def holds(scene: Scene, probe: Probe) -> bool:
    """Whether a probe is true of a scene (which may have no objects: then it never is).

    >>> item = Item("red", "circle", 0.5, 0.5, 0.15)
    >>> holds(Scene("pink", (item,)), background("pink", item)), holds(Scene("pink", ()), background("pink", item))
    (True, False)
    """
    if "anchor" in probe and _find(scene, probe["anchor"]) is None:
        return False
    item = _find(scene, probe["object"]) if "object" in probe else None
    match probe["predicate"]:
        case "absent":
            return not any(matches(item, probe["object"]) for item in scene.items)
        case "empty":
            return not any(item.cell == probe["cell"] for item in scene.items)
        case "background":
            return bool(scene.background == probe["background"])
        case "count":
            return bool(sum(matches(item, probe) for item in scene.items) == probe["n"])
    return item is not None and _true_of(scene, item, probe)


def _find(scene: Scene, wanted: Mapping[str, str]) -> Item | None:
    return next((item for item in scene.items if matches(item, wanted)), None)


def _true_of(scene: Scene, item: Item, probe: Probe) -> bool:
    """Whether a statement on one object of the scene is true."""
    match probe["predicate"]:
        case "present":
            return True
        case "cell":
            return bool(item.cell == probe["cell"])
        case "size":
            return bool(item.size == probe["size"])
    other = _find(scene, probe["other"])
    if other is None:
        return False
    if probe["predicate"] == "in_front":
        return (item, other) in pairs(scene)
    return related(item, other, probe["relation"])


def criterion(probe: Probe) -> str:
    """The probe as a sentence that can be judged by looking at the image alone.

    >>> print(criterion(count(2, colour="red")))
    There are exactly two red objects in the image.
    """
    thing = _the(probe["object"]) if "object" in probe and probe["predicate"] != "absent" else ""
    anchor = f", and the image does show {a(_kind(probe['anchor']))}" if "anchor" in probe else ""
    match probe["predicate"]:
        case "present":
            return f"There is {a(_kind(probe['object']))} in the image."
        case "absent":
            return f"There is no {_kind(probe['object'])} in the image{anchor}."
        case "cell":
            return f"{thing} is in the {probe['cell']} of the image: its centre lies in that cell of a 3x3 grid."
        case "empty":
            return f"No object has its centre in the {probe['cell']} cell of a 3x3 grid over the image{anchor}."
        case "relation":
            word = probe["relation"]
            where = f"to the {word}" if word.endswith("of") else word
            return f"{thing} is {where} {_the(probe['other']).lower()}, by their centres."
        case "size":
            return f"{thing} is {probe['size']}: {_size_words(probe['size'])}."
        case "in_front":
            return f"{thing} is in front of {_the(probe['other']).lower()} and covers a part of it."
        case "count":
            return _count_words(probe)
    return f"The background is {probe['background']}{anchor}."


def _kind(wanted: Mapping[str, str]) -> str:
    return f"{wanted.get('colour', '')} {wanted.get('shape', 'object')}".strip()


def a(noun: str) -> str:
    """The noun with its indefinite article.

    >>> a("orange star"), a("small orange star")
    ('an orange star', 'a small orange star')
    """
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _the(wanted: Mapping[str, str]) -> str:
    return f"The {_kind(wanted)}"


def _size_words(name: str) -> str:
    other = "large" if name == "small" else "small"
    widths = {size: f"{200 * radius:.0f} %" for size, radius in RADII.items()}
    return (
        f"a circle drawn around it would be about {widths[name]} of the image's width across, "
        f"while it would be {widths[other]} for a {other} one"
    )


def _count_words(probe: Probe) -> str:
    n, kind = probe["n"], _kind(probe)
    if n == 1:
        return f"There is exactly one {kind} in the image."
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"There are exactly {_NUMBERS[n - 1] if n <= len(_NUMBERS) else n} {plural} in the image."
