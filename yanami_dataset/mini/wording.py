"""How changes, references and requests are phrased. Truth isn't decided here: it comes from pictures and rules."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from yanami_dataset.mini.changes import Change
from yanami_dataset.mini.palette import CELLS, COLOURS, SHAPES
from yanami_dataset.mini.picture import Picture
from yanami_dataset.mini.probes import LEAST_OFFSET, a
from yanami_dataset.mini.scene import Item, Scene, pairs

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_EXTREMES = {
    "leftmost": ("x", 1),
    "rightmost": ("x", -1),
    "topmost": ("y", 1),
    "lowest": ("y", -1),
}

_INSTRUCTIONS = {
    "recolour": (
        "make {ref} {value}",
        "paint {ref} {value}",
        "turn {ref} {value}",
        "change the colour of {ref} to {value}",
    ),
    "move": (
        "move {ref} to the {value} cell",
        "put {ref} into the {value} cell",
        "shift {ref} over to the {value} cell",
        "let {ref} go to the {value} cell",
    ),
    "resize": ("make {ref} {value}", "redraw {ref} in the {value} size", "change {ref} from {old} to {value}"),
    "remove": ("remove {ref}", "take {ref} away", "take {ref} out of the picture"),
    "add": (
        "add {thing} in the {value} cell",
        "put {thing} into the {value} cell",
        "place {thing} in the {value} cell",
    ),
    "bring": (
        "take {ref} from {origin} and put it into the {value} cell",
        "bring in {ref} from {origin}, placed in the {value} cell",
        "copy {ref} from {origin} into the {value} cell",
    ),
    "background": ("change the background to {value}", "give the picture a {value} background"),
    "raise": (
        "bring {ref} in front of {other}, so that it covers a part of it",
        "let {ref} cover a part of {other} instead of the other way round",
        "swap the depth of {ref} and {other}, so that {ref} is the one in front",
    ),
    "tuck": (
        "slide {ref} behind {other}, into the {value} cell, so that {other} covers a part of it",
        "put {ref} into the {value} cell behind {other}, with a part of it hidden by {other}",
    ),
}
_CORRECTIONS = {
    "move": (
        "sorry, I said {old} but meant {value}: put {ref} into the {value} cell",
        "my mistake, {ref} doesn't belong in the {old} cell but in the {value} cell",
        "I take that back: not the {old} cell, {ref} goes to the {value} cell",
    ),
    "recolour": (
        "sorry, I said {old} but meant {value}: {ref} has to be {value}",
        "my mistake, {ref} shouldn't be {old}, make it {value} instead",
        "not {old} after all: make {ref} {value} instead",
    ),
}
_UNDO = {
    "recolour": ("undo the last change and give {ref} back the colour it had before", "undo that last recolouring"),
    "move": ("undo the last change and put {ref} back where it was before", "undo that last move"),
    "resize": ("undo the last change and give {ref} back the size it had before",),
    "remove": ("undo the last change and bring back the object that was removed, where it was before",),
    "add": ("undo the last change and take the object that was added out again", "undo that last addition"),
    "background": ("undo the last change and bring back the background we had before",),
}
_VIEWS = {
    "mirror": (
        "now show the scene as a mirror shows it: left and right change places, and what is in front stays in front",
        "flip the whole scene left to right, as in a mirror; who covers whom stays the same",
    ),
    "behind": (
        "walk around to the other side and show the scene from behind: "
        "left and right change places, and what was in front is now behind",
        "turn the view around: we look from the far side now, so left and right are exchanged, "
        "and so are front and back",
    ),
}
_ALONE = ("{p}.", "Please {p}.", "Now {p}.", "Next, {p}.", "One change: {p}.")
_TWO = ("{p}. Also, {q}.", "{p}, and {q}.", "Please {p}. Also {q}.", "Two changes: {p}; {q}.", "First {p}, then {q}.")
_REST = ("Leave everything else as it is.", "Nothing else changes.", "The rest stays as it was.", "Keep all the rest.")
_REQUESTS = ("Draw the result.", "Show me the new picture.", "Draw it, please.", "Let me see it.", "Draw that.")
_DONE = ("Here it is.", "Done.", "Here is the picture.", "There you are.", "This is how it looks now.", "All right:")


def the(item: Item) -> str:
    """An object by its present colour and shape, such as `the red circle`."""
    return f"the {item.name}"


def ordinal(n: int) -> str:
    """The ordinal of a position counted from 0.

    >>> ordinal(1), ordinal(21), ordinal(52)
    ('second', '22nd', '53rd')
    """
    if n < len(_ORDINALS):
        return _ORDINALS[n]
    tens, ones = divmod(n + 1, 10)
    return f"{n + 1}{'th' if tens % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(ones, 'th')}"


def sentence(text: str) -> str:
    """The text with a capital letter at its start."""
    return text[0].upper() + text[1:]


def places(scene: Scene) -> dict[str, Item]:
    """Phrases that describe one object by where it is or how large, without its colour or shape."""
    found = {f"the object in the {cell} cell": [item for item in scene.items if item.cell == cell] for cell in CELLS}
    found |= {
        f"the only {size} object": [item for item in scene.items if item.size == size] for size in ("small", "large")
    }
    for word, (axis, sign) in _EXTREMES.items():
        first, *others = sorted(scene.items, key=lambda item: sign * getattr(item, axis))
        if all(sign * (getattr(other, axis) - getattr(first, axis)) >= LEAST_OFFSET for other in others):
            found[f"the {word} object"] = [first]
    found["the object that covers a part of another one"] = [front for front, _ in pairs(scene)]
    found["the object that is partly covered"] = [back for _, back in pairs(scene)]
    return {phrase: items[0] for phrase, items in found.items() if len(items) == 1 < len(scene.items)}


def descriptions(scene: Scene) -> dict[str, Item]:
    """Phrases that describe one object without naming both its colour and its shape."""
    found = {f"the only {shape}": [item for item in scene.items if item.shape == shape] for shape in SHAPES}
    found |= {
        f"the only {colour} object": [item for item in scene.items if item.colour == colour] for colour in COLOURS
    }
    single = {phrase: items[0] for phrase, items in found.items() if len(items) == 1 < len(scene.items)}
    return single | places(scene)


def describe(rng: Random, scene: Scene, item: Item, avoid: str = "") -> str | None:
    """A description of an object that fits no other one and doesn't contain `avoid`; None where there is none."""
    fitting = [
        phrase for phrase, it in descriptions(scene).items() if it == item and (not avoid or avoid not in phrase)
    ]
    return rng.choice(fitting) if fitting else None


def instruction(rng: Random, change: Change, ref: str | None = None) -> str:
    """A change as an imperative without capital or stop; `ref` replaces the name of its object."""
    return _filled(rng, _INSTRUCTIONS[change.verb], change, change.before, ref)


def view(rng: Random, change: Change) -> str:
    """A change of the view as a request, with what it means for left, right, front and back."""
    return f"{sentence(rng.choice(_VIEWS[change.verb]))}. {rng.choice(_REQUESTS)}"


def correction(rng: Random, change: Change, wrong: Change) -> str:
    """A change that overrules another one, both values named."""
    old = wrong.value if wrong.verb == change.verb or change.verb == "move" else change.old
    text = rng.choice(_CORRECTIONS[change.verb])
    return text.format(ref=the(change.before.item(change.who)), old=old, value=change.value)


def undoing(rng: Random, change: Change) -> str:
    """The request to take a change back, without saying what it was."""
    return _filled(rng, _UNDO[change.verb], change, change.after, None)


def _filled(rng: Random, texts: Sequence[str], change: Change, picture: Picture, ref: str | None) -> str:
    item, other = picture.find(change.who), picture.find(change.other)
    new = change.after.find(change.who)
    return rng.choice(texts).format(
        ref=ref or (the(item) if item else ""),
        other=the(other) if other else "",
        thing=a(f"{new.size} {new.name}") if new else "",
        old=change.old,
        value=change.value,
        origin=change.origin,
    )


def ask(rng: Random, phrases: Sequence[str], *, plain: bool = False, rest: bool = True) -> str:
    """One or two instructions as a request for a picture.

    `plain` puts nothing before them; `rest` may add that nothing else changes.
    """
    texts = (_ALONE if len(phrases) == 1 else _TWO)[: 1 if plain else None]
    text = sentence(rng.choice(texts).format(p=phrases[0], q=phrases[-1]))
    tail = [rng.choice(_REST)] if rest and rng.random() < 0.8 else []
    return " ".join([text, *tail, rng.choice(_REQUESTS)])


def done(rng: Random, slots: int = 1) -> str:
    """What the assistant says with its pictures."""
    return rng.choice(_DONE) if slots == 1 else rng.choice(("Here are the two pictures.", "Both pictures, in order:"))
