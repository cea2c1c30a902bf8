"""Changes of the picture: what may be asked for, drawn at random within the rules of scenes and dialogues.

A change knows the picture before and after it, so it can be undone, corrected and made part of a plan. Not here: words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from yanami_dataset.mini.breaking import exchanged
from yanami_dataset.mini.palette import BACKGROUNDS, CELLS, COLOURS, SHAPES
from yanami_dataset.mini.picture import Picture, Topic
from yanami_dataset.mini.rules import Rule
from yanami_dataset.mini.scene import RADII, Scene, added, is_valid, moved

VIEWS = ("mirror", "behind")
_DRAWS = 60


@dataclass(frozen=True, slots=True)
class Change:
    """What one instruction does to the picture.

    `verb` is one of recolour, move, resize, add, bring, remove, background, raise, tuck, mirror, behind, undo; `who`
    is the object concerned, `other` a second one; `old` and `value` are what the instruction names (a colour, a cell,
    a size); `asserts` are the topics on which it says something new; `origin` tells where a brought object comes from.
    """

    verb: str
    before: Picture
    after: Picture
    asserts: tuple[Topic, ...]
    who: str = ""
    other: str = ""
    old: str = ""
    value: str = ""
    origin: str = ""


@dataclass(slots=True)
class Limits:
    """What a dialogue allows: its rule, objects only to be recoloured or raised, how many, kinds used before."""

    rule: Rule
    protected: set[str] = field(default_factory=set)
    least: int = 3
    most: int = 5
    seen: set[tuple[str, str]] = field(default_factory=set)

    def permits(self, change: Change) -> bool:
        """Whether a change keeps to the rule and leaves protected objects alone."""
        if change.verb not in (*VIEWS, "raise", "recolour") and {change.who, change.other} & self.protected:
            return False
        count = len(change.after.ids)
        fewer, more = count < len(change.before.ids), count > len(change.before.ids)
        if (fewer and count < self.least) or (more and count > self.most):
            return False
        return self.rule.allows(change.before, change.after, moves=change.verb in VIEWS)

    def fresh(self, rng: Random, scene: Scene, colour: str | None = None, shape: str | None = None) -> tuple[str, str]:
        """A kind that isn't in the scene and, as long as there are such, was never seen in the dialogue."""
        every = [(c, s) for c in COLOURS for s in SHAPES if colour in (None, c) and shape in (None, s)]
        free = [kind for kind in every if scene.find(*kind) is None]
        return rng.choice([kind for kind in free if kind not in self.seen] or free)


def propose(
    rng: Random,
    picture: Picture,
    limits: Limits,
    weights: Mapping[str, float],
    new: Callable[[], str],
    avoid: set[str] | None = None,
) -> Change | None:
    """Draw a change that is possible and permitted.

    Args:
        rng: the source of chance.
        picture: what is to be changed.
        limits: what the dialogue allows.
        weights: how often each verb is tried.
        new: gives the id for an object that is added.
        avoid: ids of objects not to be changed this time.
    """
    for _ in range(_DRAWS):
        verb = rng.choices(list(weights), list(weights.values()))[0]
        who = rng.choice(picture.ids)
        change = _DRAWN[verb](rng, picture, limits, new() if verb == "add" else who)
        if change is not None and not {change.who, change.other} & (avoid or set()) and limits.permits(change):
            limits.seen.update(item.kind for item in change.after.scene.items)
            return change
    return None


def free_cell(rng: Random, scene: Scene, avoid: str = "") -> str | None:
    """A cell in which no object has its centre; None where there is none."""
    taken = {item.cell for item in scene.items} | {avoid}
    free = [cell for cell in CELLS if cell not in taken]
    return rng.choice(free) if free else None


def recolour(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Give an object another colour."""
    item = picture.item(who)
    colour = limits.fresh(rng, picture.scene, shape=item.shape)[0]
    return recoloured(picture, who, colour)


def recoloured(picture: Picture, who: str, colour: str) -> Change | None:
    """Give an object a certain colour."""
    item = picture.item(who)
    after = picture.with_item(who, replace(item, colour=colour))
    if colour == item.colour or not is_valid(after.scene):
        return None
    return Change("recolour", picture, after, (Topic("kind", (who,)),), who, old=item.colour, value=colour)


def move(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Put an object into a free cell."""
    cell = free_cell(rng, picture.scene)
    return put(rng, picture, who, cell) if cell else None


def put(rng: Random, picture: Picture, who: str, cell: str) -> Change | None:
    """Put an object into a certain cell."""
    item = picture.item(who)
    scene = moved(rng, picture.scene, item, cell)
    if scene is None:
        return None
    after = replace(picture, scene=scene)
    return Change("move", picture, after, (Topic("place", (who,)),), who, old=item.cell, value=cell)


def resize(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Make a small object large or a large one small."""
    item = picture.item(who)
    size = "large" if item.size == "small" else "small"
    after = picture.with_item(who, replace(item, radius=RADII[size]))
    if not is_valid(after.scene) or len(after.overlaps) != len(picture.overlaps):
        return None
    return Change("resize", picture, after, (Topic("size", (who,)),), who, old=item.size, value=size)


def remove(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Take an object away."""
    item = picture.item(who)
    return Change("remove", picture, picture.without(who), (Topic("gone", item.kind),), who)


def add(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Put a new object into a free cell."""
    return placed(rng, picture, who, limits.fresh(rng, picture.scene), rng.choice(list(RADII)))


def placed(
    rng: Random, picture: Picture, who: str, kind: tuple[str, str], size: str, origin: str = "", avoid: str = ""
) -> Change | None:
    """Put an object of a certain kind and size into a free cell other than `avoid`."""
    cell = free_cell(rng, picture.scene, avoid)
    scene = added(rng, picture.scene, kind, size, cell=cell) if cell else None
    if scene is None or cell is None:
        return None
    asserts = tuple(Topic(about, (who,)) for about in ("kind", "place", "size"))
    return Change(
        "bring" if origin else "add", picture, picture.grown(who, scene), asserts, who, value=cell, origin=origin
    )


def background(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Change the background; `who` doesn't matter."""
    old = picture.scene.background
    name = rng.choice([name for name in BACKGROUNDS if name != old])
    after = replace(picture, scene=replace(picture.scene, background=name))
    return Change("background", picture, after, (Topic("background"),), old=old, value=name)


def bring_forward(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Let an object that is partly covered cover the one that covers it."""
    front = next((front for front, back in picture.overlaps if back == who), None)
    if front is None:
        return None
    after = reversed_pair(picture, front, who)
    return (
        Change("raise", picture, after, (Topic("depth", (who, front)),), who, front) if is_valid(after.scene) else None
    )


def reversed_pair(picture: Picture, front: str, back: str) -> Picture:
    """The picture in which two objects exchange their depth (which may break a rule of scenes)."""
    scene = exchanged(picture.scene, picture.item(front), picture.item(back))
    swap = {front: back, back: front}
    return Picture(scene, tuple(swap.get(who, who) for who in picture.ids))


def tuck(rng: Random, picture: Picture, limits: Limits, who: str) -> Change | None:
    """Put an object behind another one, which then covers a part of it."""
    rest = picture.without(who)
    item, front = picture.item(who), rng.choice(rest.ids) if rest.ids else who
    if front == who or any(front in pair or who in pair for pair in picture.overlaps):
        return None
    scene = added(rng, rest.scene, item.kind, item.size, behind=rest.item(front))
    if scene is None:
        return None
    after = rest.grown(who, scene)
    asserts = (Topic("depth", (front, who)), Topic("place", (who,)))
    return Change("tuck", picture, after, asserts, who, front, old=item.cell, value=after.item(who).cell)


def mirror(picture: Picture) -> Change:
    """Show the picture in a mirror: left and right are exchanged, depth stays."""
    after = replace(picture, scene=picture.scene.mirrored())
    return Change("mirror", picture, after, _shifted(picture, after))


def behind(picture: Picture) -> Change | None:
    """Show the picture from the other side: left and right are exchanged, and so are front and back."""
    after = replace(picture, scene=picture.scene.mirrored()).reordered(reversed(picture.ids))
    if not is_valid(after.scene):
        return None
    depth = tuple(Topic("depth", pair) for pair in after.overlaps)
    return Change("behind", picture, after, depth + _shifted(picture, after))


def _shifted(before: Picture, after: Picture) -> tuple[Topic, ...]:
    changed = (who for who in after.ids if before.item(who).cell != after.item(who).cell)
    return tuple(Topic("place", (who,)) for who in changed)


def corrected(rng: Random, change: Change, picture: Picture, limits: Limits) -> Change | None:
    """Overrule a change that gave an object a colour or a place: the same object gets another one.

    `old` of the result is the value that was asked for by mistake; None where the change can't be corrected.
    """
    if change.verb not in ("recolour", "move", "add", "bring") or picture.find(change.who) is None:
        return None
    shade = change.verb == "recolour" or (change.verb == "add" and rng.random() < 0.5)
    for _ in range(_DRAWS):
        new = (recolour if shade else move)(rng, picture, limits, change.who)
        if new is not None and new.value not in (change.old, change.value) and limits.permits(new):
            limits.seen.update(item.kind for item in new.after.scene.items)
            return new
    return None


def undone(change: Change) -> Change:
    """Take a change back: what it changed is asserted as it was before."""
    asserts = tuple(_restored(change, topic) for topic in change.asserts)
    if change.verb in ("add", "bring"):
        asserts = (Topic("gone", change.after.item(change.who).kind),)
    elif change.verb == "remove":
        asserts = (Topic("kind", (change.who,)), Topic("place", (change.who,)))
    elif change.verb == "tuck":
        asserts = (Topic("place", (change.who,)),)
    return Change("undo", change.after, change.before, asserts, change.who, change.other, change.value, change.old)


def _restored(change: Change, topic: Topic) -> Topic:
    """The topic of a change as it is called when the change is taken back."""
    return Topic("depth", topic.of[::-1]) if change.verb == "raise" else topic


def reapplied(change: Change, picture: Picture) -> Change | None:
    """The same change made to another picture; None where it isn't possible there in the same words."""
    if change.verb == "remove" and picture.find(change.who) == change.before.item(change.who):
        return replace(change, before=picture, after=picture.without(change.who))
    if change.verb == "background" and picture.scene.background == change.old:
        scene = replace(picture.scene, background=change.value)
        return replace(change, before=picture, after=replace(picture, scene=scene))
    after: Picture | None = None
    if change.verb == "add" and change.who not in picture.ids:
        item = change.after.item(change.who)
        after = Picture(replace(picture.scene, items=(*picture.scene.items, item)), (*picture.ids, change.who))
    elif change.verb in ("move", "recolour", "resize") and picture.find(change.who) == change.before.item(change.who):
        after = picture.with_item(change.who, change.after.item(change.who))
    if after is None or not is_valid(after.scene) or len(after.overlaps) > len(picture.overlaps):
        return None
    return replace(change, before=picture, after=after)


_DRAWN: dict[str, Callable[[Random, Picture, Limits, str], Change | None]] = {
    "recolour": recolour,
    "move": move,
    "resize": resize,
    "remove": remove,
    "add": add,
    "background": background,
    "raise": bring_forward,
    "tuck": tuck,
}
