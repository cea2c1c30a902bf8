"""Image Editing: one picture, changed step by step, with a correction and an undo."""

from __future__ import annotations

from random import Random

from yanami_dataset.mini.asking import EDITS, OTHER, correct, correctable, edit
from yanami_dataset.mini.changes import Limits, undone
from yanami_dataset.mini.draft import Draft, Unlucky
from yanami_dataset.mini.picture import start
from yanami_dataset.mini.questions import ask_all
from yanami_dataset.mini.rules import draw_rule
from yanami_dataset.mini.scene import random_scene
from yanami_dataset.mini.story import Step, Story, opening, schedule
from yanami_dataset.mini.wording import ask, undoing

_INTROS = (
    "Here is a picture that I want to change bit by bit.",
    "This is the picture I'd like to edit with you.",
    "I have this picture, and some changes in mind.",
)
_REPLIES = ("Understood. I'll keep to that.", "Got it, I'll wait for the first change.", "All right, noted.")


def write(rng: Random, turns: int) -> Draft:
    """Draw an editing dialogue of `turns` turns.

    Raises:
        Unlucky: what was drawn leads nowhere.
    """
    picture = start(random_scene(rng, rng.randint(4, 5), overlaps=rng.choice((0, 0, 1))))
    rule = draw_rule(rng, picture, ("keep", "ban", "free"))
    story = Story(rng, schedule(rng, turns), [picture.scene], picture, Limits(rule))
    story.open(rng.choice(_INTROS), opening(rng, rule.phrase(rng)), rng.choice(_REPLIES))
    drawn = 0
    for drawing in story.schedule[1:]:
        if drawing:
            _draw(story, drawn)
            drawn += 1
        else:
            story.small_talk()
    return Draft("editing", tuple(story.turns), ask_all(story))


def _draw(story: Story, drawn: int) -> None:
    """The first pictures go alike in every dialogue: edits, a correction, an undo; then whatever is possible."""
    short = sum(story.schedule) == 3
    if drawn == 0:
        edit(story, *story.rng.sample([{"recolour": 1.0}, OTHER], 2))
    elif drawn == 1:
        correct(story, *[EDITS] * short)
    elif drawn == (2 if short else 3):
        _undo(story)
    elif drawn == 2:
        edit(story, EDITS)
    else:
        _free(story)


def _free(story: Story) -> None:
    chance = story.rng.random()
    if chance < 0.2 and _undoable(story):
        _undo(story)
    elif chance < 0.4 and correctable(story):
        correct(story)
    else:
        edit(story, *[EDITS] * story.rng.choice((1, 1, 2)))


def _undoable(story: Story) -> bool:
    """Whether the last change can be taken back: it is no correction, and the picture is as it left it."""
    event = story.last_steps()[-1]
    return event.change.verb in EDITS and event.overruled is None and event.change.after == story.picture


def _undo(story: Story) -> None:
    if not _undoable(story):
        raise Unlucky
    change = story.last_steps()[-1].change
    story.draw(
        ask(story.rng, [undoing(story.rng, change)], plain=True), [[Step(undone(change))]], ["context_retrieval"]
    )
