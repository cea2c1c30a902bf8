"""The picture a dialogue works on: a scene whose objects keep their identity while what is visible of them changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from yanami_dataset.mini import probes
from yanami_dataset.mini.probes import Probe
from yanami_dataset.mini.scene import Item, Scene, pairs


@dataclass(frozen=True, slots=True)
class Picture:
    """A scene and the ids of its objects, in the same order (from back to front)."""

    scene: Scene
    ids: tuple[str, ...]

    def find(self, who: str) -> Item | None:
        """The object with an id, if it is there."""
        return next((item for item, owner in zip(self.scene.items, self.ids, strict=True) if owner == who), None)

    def item(self, who: str) -> Item:
        """The object with an id, which must be there."""
        return self.scene.items[self.ids.index(who)]

    def owner(self, item: Item) -> str:
        """The id of an object of the scene."""
        return self.ids[self.scene.items.index(item)]

    def with_item(self, who: str, item: Item) -> Picture:
        """The picture in which an object has become another item, at the same depth."""
        return replace(self, scene=self.scene.replaced(self.item(who), item))

    def without(self, who: str) -> Picture:
        """The picture without an object."""
        rest = tuple(owner for owner in self.ids if owner != who)
        return Picture(self.scene.without(self.item(who)), rest)

    def grown(self, who: str, scene: Scene) -> Picture:
        """The picture whose scene has one more object, called `who`; `scene` is the new scene."""
        known = dict(zip(self.scene.items, self.ids, strict=True))
        return Picture(scene, tuple(known.get(item, who) for item in scene.items))

    def reordered(self, order: Iterable[str]) -> Picture:
        """The picture with its objects in another order of depth, given by ids from back to front."""
        order = tuple(order)
        return Picture(replace(self.scene, items=tuple(self.item(who) for who in order)), order)

    @property
    def overlaps(self) -> tuple[tuple[str, str], ...]:
        """The pairs (front, back) by their ids."""
        return tuple((self.owner(front), self.owner(back)) for front, back in pairs(self.scene))


def start(scene: Scene) -> Picture:
    """The picture at the start of a dialogue: ids are `object 1`, `object 2`, ..."""
    return Picture(scene, tuple(f"object {n + 1}" for n in range(len(scene.items))))


class Topic(NamedTuple):
    """What a fact is about: `about` is one of kind, place, size, depth, background, gone, rule, wish, step.

    `of` holds the ids of the objects concerned; for `gone` colour and shape, for `step` its number.
    """

    about: str
    of: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The topic as the key of a state operation, such as `place of object 2`."""
        if self.about == "gone":
            return f"absence of the {' '.join(self.of)}"
        if self.about == "step":
            return f"step {self.of[0]}"
        return f"{self.about} of {' and '.join(self.of)}" if self.of else self.about


def statement(picture: Picture, topic: Topic, anchor: Item) -> Probe | None:
    """What the picture says on a topic as a probe that holds, or None where there is nothing to say (any more).

    `anchor` is the object that a negative statement names.
    """
    match topic.about:
        case "background":
            return probes.background(picture.scene.background, anchor)
        case "gone":
            colour, shape = topic.of
            there = picture.scene.find(colour, shape)
            return None if there else probes.absent(anchor, colour=colour, shape=shape)
        case "depth":
            front, back = topic.of
            visible = (front, back) in picture.overlaps
            return probes.in_front(picture.item(front), picture.item(back)) if visible else None
    item = picture.find(topic.of[0])
    if item is None:
        return None
    return {"kind": probes.present, "place": probes.cell, "size": probes.size}[topic.about](item)


def words(picture: Picture, topic: Topic) -> str:
    """What the picture says on a topic in words, for the state of a turn."""
    match topic.about:
        case "background":
            return f"the background is {picture.scene.background}"
        case "gone":
            return f"there is no {' '.join(topic.of)}"
        case "depth":
            front, back = (picture.item(who).name for who in topic.of)
            return f"the {front} is in front of the {back}"
    item = picture.item(topic.of[0])
    return {
        "kind": f"there is {probes.a(item.name)}",
        "place": f"the {item.name} is in the {item.cell} cell",
        "size": f"the {item.name} is {item.size}",
    }[topic.about]
