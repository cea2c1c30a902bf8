"""Is a probe true of what was seen? A verdict with a reason in plain language.

A probe is a JSON object with a `predicate`; its form is checked before anything is decided, so that a typing error in
the data is an error and no verdict. Knows the picture and the palette, neither pixels nor scenes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from yanami_dataset.errors import DataError
from yanami_dataset.mini.palette import BACKGROUNDS, CELLS, COLOURS, RELATIONS, SHAPES, SIZES
from yanami_metric.judges.pixel.extract import Picture, Thing

Verdict = tuple[bool, str]

# Between the radii of small and large objects, as a fraction of the side.
SIZE_BORDER = 0.126
# Centres have to be so far apart, as a fraction of the side, to be left of, right of, above or below.
LEAST_OFFSET = 0.045

_VOCABULARY: dict[str, tuple[str, ...]] = {
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "cell": CELLS,
    "relation": RELATIONS,
    "size": SIZES,
    "background": tuple(BACKGROUNDS),
}
_NAMES_BOTH = ("colour", "shape")


def decide(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    """Whether a probe is true of a picture, and why.

    Args:
        picture: what was seen, by `extract`.
        probe: one of PREDICATES with its fields.

    Raises:
        DataError: no such predicate, or a field that is missing, unknown or has a value outside of the palette.

    >>> from yanami_metric.judges.pixel.quality import Measures
    >>> circle = Thing("red", "circle", x=0.2, y=0.2, radius=0.15, misfit=0.0)
    >>> picture = Picture("white", (circle,), (), Measures(0.0, 0.0, 0.0))
    >>> decide(picture, {"predicate": "cell", "object": {"colour": "red", "shape": "circle"}, "cell": "bottom left"})
    (False, 'the red circle is in the top left')
    """
    predicate = probe.get("predicate") if isinstance(probe, Mapping) else None
    if not isinstance(predicate, str) or predicate not in _PREDICATES:
        raise DataError(f"probe: expected a predicate of {', '.join(_PREDICATES)}, got {str(probe)[:200]}")
    decider, fields = _PREDICATES[predicate]
    _check_fields(probe, predicate, fields)
    return decider(picture, probe)


def _check_fields(probe: Mapping[str, Any], predicate: str, fields: tuple[str, ...]) -> None:
    optional = _NAMES_BOTH if predicate == "count" else ()
    missing = [name for name in fields if name not in probe]
    unknown = [str(name) for name in probe if name not in ("predicate", *fields, *optional)]
    if missing or unknown:
        raise DataError(f"probe {predicate}: expected the fields {', '.join(fields)}, got {str(dict(probe))[:200]}")
    for name in probe:
        if name in ("object", "other", "anchor"):
            _check_object(probe[name], f"probe {predicate}.{name}", partly=(predicate, name) == ("absent", "object"))
        elif name == "n":
            if not isinstance(probe[name], int) or isinstance(probe[name], bool) or probe[name] < 1:
                raise DataError(f"probe {predicate}.n: expected a whole number of at least 1, got {probe[name]!r}")
        elif name != "predicate":
            _check_word(probe[name], name, f"probe {predicate}.{name}")


def _check_object(wanted: Any, where: str, *, partly: bool) -> None:
    form = "colour and/or shape" if partly else "colour and shape"
    names = set(wanted) if isinstance(wanted, Mapping) else set()
    if not names or not names <= set(_NAMES_BOTH) or (len(names) < len(_NAMES_BOTH) and not partly):
        raise DataError(f"{where}: expected an object with {form}, got {wanted!r}")
    for name in wanted:
        _check_word(wanted[name], name, f"{where}.{name}")


def _check_word(value: Any, name: str, where: str) -> None:
    if value not in _VOCABULARY[name]:
        raise DataError(f"{where}: expected one of {', '.join(_VOCABULARY[name])}, got {value!r}")


def _matching(picture: Picture, wanted: Mapping[str, Any]) -> list[Thing]:
    """The objects that have the colour and/or shape which `wanted` names."""
    return [
        thing
        for thing in picture.objects
        if all(getattr(thing, name) == wanted[name] for name in _NAMES_BOTH if name in wanted)
    ]


def _name(wanted: Mapping[str, Any]) -> str:
    return f"{wanted.get('colour', '')} {wanted.get('shape', 'object')}".strip()


def _seen(things: list[Thing] | tuple[Thing, ...]) -> str:
    return ", ".join(f"{thing.name} ({thing.cell})" for thing in things) or "no object"


def _without(picture: Picture, wanted: Mapping[str, Any]) -> Verdict | None:
    """The verdict if an object that has to be there isn't."""
    if _matching(picture, wanted):
        return None
    return False, f"there is no {_name(wanted)}; seen: {_seen(picture.objects)}"


def _present(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    return _without(picture, probe["object"]) or (True, f"seen: {_seen(_matching(picture, probe['object']))}")


def _absent(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    if verdict := _without(picture, probe["anchor"]):
        return verdict
    found = _matching(picture, probe["object"])
    return not found, f"{_seen(found)} seen" if found else f"no {_name(probe['object'])} seen"


def _cell(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    def judged(thing: Thing) -> Verdict:
        return thing.cell == probe["cell"], f"the {thing.name} is in the {thing.cell}"

    return _of_all(picture, probe, judged)


def _size(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    def judged(thing: Thing) -> Verdict:
        size = "small" if thing.radius < SIZE_BORDER else "large"
        width = f"{200 * thing.radius:.0f} %"
        return size == probe["size"], f"the {thing.name} is {size}: the circle around it is {width} of the image wide"

    return _of_all(picture, probe, judged)


def _of_all(picture: Picture, probe: Mapping[str, Any], judged: Callable[[Thing], Verdict]) -> Verdict:
    """True if it is of every object that is meant (there should be one); the reason of the first that fails."""
    if verdict := _without(picture, probe["object"]):
        return verdict
    verdicts = [judged(thing) for thing in _matching(picture, probe["object"])]
    return min(verdicts, key=lambda verdict: verdict[0])


def _empty(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    if verdict := _without(picture, probe["anchor"]):
        return verdict
    found = [thing for thing in picture.objects if thing.cell == probe["cell"]]
    return not found, f"{_seen(found)} seen" if found else f"nothing has its centre in the {probe['cell']}"


def _relation(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    if verdict := _without(picture, probe["other"]):
        return verdict
    axis, sign = {"left of": ("x", 1), "right of": ("x", -1), "above": ("y", 1), "below": ("y", -1)}[probe["relation"]]
    others = [getattr(thing, axis) for thing in _matching(picture, probe["other"])]

    def judged(thing: Thing) -> Verdict:
        least = min(sign * (place - getattr(thing, axis)) for place in others)
        percent = f"{abs(100 * least):.0f} %"
        towards = probe["relation"] if least >= 0 else f"not {probe['relation']}, the other way"
        return least >= LEAST_OFFSET, f"by its centre the {thing.name} is {towards} ({percent} of the image)"

    return _of_all(picture, probe, judged)


def _in_front(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    for name in ("object", "other"):
        if verdict := _without(picture, probe[name]):
            return verdict
    pairs = [(picture.objects[front], picture.objects[back]) for front, back in picture.in_front]
    wanted = [_matching(picture, probe[name]) for name in ("object", "other")]
    front, back = (_name(probe[name]) for name in ("object", "other"))
    if any(one in wanted[0] and other in wanted[1] for one, other in pairs):
        return True, f"the {front} covers a part of the {back}"
    if any(one in wanted[1] and other in wanted[0] for one, other in pairs):
        return False, f"the {back} covers a part of the {front}"
    return False, f"the {front} and the {back} don't overlap"


def _count(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    found = _matching(picture, probe)
    return len(found) == probe["n"], f"{len(found)} {_name(probe)}(s) seen: {_seen(found)}"


def _background(picture: Picture, probe: Mapping[str, Any]) -> Verdict:
    if verdict := _without(picture, probe["anchor"]):
        return verdict
    return picture.background == probe["background"], f"the background is {picture.background}"


_PREDICATES: dict[str, tuple[Callable[[Picture, Mapping[str, Any]], Verdict], tuple[str, ...]]] = {
    "present": (_present, ("object",)),
    "absent": (_absent, ("object", "anchor")),
    "cell": (_cell, ("object", "cell")),
    "empty": (_empty, ("cell", "anchor")),
    "relation": (_relation, ("object", "relation", "other")),
    "size": (_size, ("object", "size")),
    "in_front": (_in_front, ("object", "other")),
    "count": (_count, ("n",)),
    "background": (_background, ("background", "anchor")),
}
PREDICATES: tuple[str, ...] = tuple(_PREDICATES)
