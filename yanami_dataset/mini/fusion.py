"""Multi-Image Fusion: a new picture put together from objects of several images, then completed and corrected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from yanami_dataset.mini.asking import EDITS, correct, correctable, edit
from yanami_dataset.mini.changes import Change, Limits, placed
from yanami_dataset.mini.draft import Draft, Unlucky
from yanami_dataset.mini.palette import BACKGROUNDS, CELLS, COLOURS
from yanami_dataset.mini.picture import Picture, Topic
from yanami_dataset.mini.questions import ask_all
from yanami_dataset.mini.rules import Rule
from yanami_dataset.mini.scene import Item, Scene, random_scene
from yanami_dataset.mini.story import Step, Story, must, opening, schedule
from yanami_dataset.mini.wording import ask, describe, instruction, ordinal, sentence, the

_WEIGHTS = {name: weight for name, weight in EDITS.items() if name != "add"}
_NUMBERS = {2: "two", 3: "three"}
_REPLIES = ("I've looked at all of them. Tell me what to combine.", "Got it, I'm ready.", "Understood, I'll wait.")


@dataclass(frozen=True, slots=True)
class _Source:
    """An object of one of the images that the user sent."""

    image: int
    item: Item


def write(rng: Random, turns: int) -> Draft:
    """Draw a fusion dialogue of `turns` turns.

    Raises:
        Unlucky: what was drawn leads nowhere.
    """
    references = _references(rng)
    first = _Source(0, rng.choice(references[0].items))
    backgrounds = [name for name in BACKGROUNDS if name != references[-1].background]
    picture = Picture(Scene(rng.choice(backgrounds), ()), ())
    rule = _rule(rng, references, first)
    story = Story(rng, schedule(rng, turns), references, picture, Limits(rule, least=2))
    thing = f"the {rule.value} from the first image (once it is in a picture)" if rule.kind == "keep" else ""
    number = _NUMBERS[len(references)]
    intro = rng.choice((f"Here are {number} images.", f"I'm sending you {number} images to combine."))
    story.open(intro, opening(rng, rule.phrase(rng, thing)), rng.choice(_REPLIES))
    drawn = 0
    for drawing in story.schedule[1:]:
        if drawing:
            _draw(story, drawn, first)
            drawn += 1
        else:
            story.small_talk()
    return Draft("fusion", tuple(story.turns), ask_all(story))


def _references(rng: Random) -> list[Scene]:
    """Two or three images that have no object in common."""
    scenes: list[Scene] = []
    count = rng.choice((2, 3, 3))
    while len(scenes) < count:
        scene = random_scene(rng, rng.randint(3, 4))
        if not any(other.find(*item.kind) for other in scenes for item in scene.items):
            scenes.append(scene)
    return scenes


def _rule(rng: Random, references: list[Scene], first: _Source) -> Rule:
    kind = rng.choice(("keep", "ban", "free"))
    if kind == "keep":
        return Rule("keep", first.item.name, _id(first))
    if kind == "free":
        return Rule("free", rng.choice(CELLS))
    return Rule("ban", rng.choice([name for name in COLOURS if name != first.item.colour]))


def _id(source: _Source) -> str:
    return f"the {source.item.name} of image {source.image + 1}"


def _draw(story: Story, drawn: int, first: _Source) -> None:
    """Two objects are combined, one is corrected, a third comes; then whatever is possible."""
    short = sum(story.schedule) == 3
    chance = story.rng.random()
    if drawn == 0:
        _combine(story, first)
    elif drawn == 1:
        correct(story, *[_WEIGHTS] * short)
    elif drawn == 2 or (chance < 0.35 and _sources(story)):
        _bring(story)
    elif chance < 0.55 and correctable(story):
        correct(story)
    else:
        edit(story, *[_WEIGHTS] * story.rng.choice((1, 1, 2)))


def _sources(story: Story, image: int | None = None) -> list[_Source]:
    """The objects (of one image, or of all) that could come into the picture."""
    if len(story.picture.ids) >= story.limits.most:
        return []
    every = [_Source(n, item) for n, scene in enumerate(story.references) for item in scene.items]
    banned = story.rule.value if story.rule.kind == "ban" else ""
    return [
        source
        for source in every
        if image in (None, source.image)
        and source.item.colour != banned
        and story.picture.scene.find(*source.item.kind) is None
        and _id(source) not in story.picture.ids
    ]


def _brought(story: Story, picture: Picture, source: _Source) -> tuple[Step, str]:
    """The step that brings an object into the picture, away from where it is in its own image, and its phrase."""
    rng, item = story.rng, source.item
    origin = f"the {ordinal(source.image)} image I sent"
    change: Change | None = None
    for _ in range(5):
        found = placed(rng, picture, _id(source), item.kind, item.size, origin, item.cell)
        if found is not None and story.limits.permits(found):
            change = found
    change = must(change)
    ref = describe(rng, story.references[source.image], item) if rng.random() < 0.5 else None
    return Step(change, described=ref is not None), instruction(rng, change, ref or the(item))


def _combine(story: Story, first: _Source) -> None:
    """The first picture: the background, an object of the first image and one of the second."""
    others = _sources(story, 1)
    if not others:
        raise Unlucky
    one, phrase = _brought(story, story.picture, first)
    one = replace(one, change=replace(one.change, asserts=(Topic("background"), *one.change.asserts)))
    two, second = _brought(story, one.change.after, story.rng.choice(others))
    colour = story.picture.scene.background
    start = story.rng.choice(
        (f"start a new picture with a {colour} background", f"make a new picture; its background is {colour}")
    )
    text = f"{sentence(start)}. {ask(story.rng, [phrase, second], rest=False)}"
    story.draw(text, [[one, two]])


def _bring(story: Story) -> None:
    """One more object comes into the picture, from the last image if it still has one that may."""
    sources = _sources(story, len(story.references) - 1) if story.rng.random() < 0.6 else []
    sources = sources or _sources(story)
    if not sources:
        raise Unlucky
    step, phrase = _brought(story, story.picture, story.rng.choice(sources))
    story.draw(ask(story.rng, [phrase]), [[step]])
