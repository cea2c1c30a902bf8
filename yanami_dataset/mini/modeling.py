"""World Modeling: a scene with depth, in which objects pass before and behind each other and the view changes."""

from __future__ import annotations

from random import Random

from yanami_dataset.mini.asking import CORRECTABLE, EDITS, correct, correctable, edit
from yanami_dataset.mini.changes import Limits, behind, mirror, reversed_pair
from yanami_dataset.mini.draft import Draft
from yanami_dataset.mini.picture import Picture, start
from yanami_dataset.mini.questions import ask_all
from yanami_dataset.mini.rules import draw_rule
from yanami_dataset.mini.scene import is_valid, random_scene
from yanami_dataset.mini.story import Step, Story, opening, schedule
from yanami_dataset.mini.wording import view

_DEPTH = {"raise": 2.0, "tuck": 2.0}
_WEIGHTS = EDITS | _DEPTH
_INTROS = (
    "Here is a little world of flat shapes; some lie in front of others.",
    "This is a scene with depth: one shape lies before another.",
    "I'd like to play through how this scene changes. Mind what is in front of what.",
)
_REPLIES = ("Understood, I'll keep track of it.", "Got it. I'm ready when you are.", "All right, noted.")


def write(rng: Random, turns: int) -> Draft:
    """Draw a modeling dialogue of `turns` turns.

    Raises:
        Unlucky: what was drawn leads nowhere.
    """
    picture = _start(rng)
    rule = draw_rule(rng, picture, ("keep", "keep", "ban"), fixed=False)
    limits = Limits(rule, protected={who for pair in picture.overlaps for who in pair})
    story = Story(rng, schedule(rng, turns), [picture.scene], picture, limits)
    capabilities = ["spatial_physical_consistency"]
    story.open(rng.choice(_INTROS), opening(rng, rule.phrase(rng)), rng.choice(_REPLIES), capabilities)
    drawn = 0
    for drawing in story.schedule[1:]:
        if drawing:
            _draw(story, drawn)
            drawn += 1
        else:
            story.small_talk()
    return Draft("modeling", tuple(story.turns), ask_all(story))


def _start(rng: Random) -> Picture:
    """A picture with one pair that overlaps and would stay a proper one with front and back exchanged."""
    while True:
        picture = start(random_scene(rng, rng.randint(4, 5), overlaps=1))
        if is_valid(reversed_pair(picture, *picture.overlaps[0]).scene):
            return picture


def _draw(story: Story, drawn: int) -> None:
    """Front and back are exchanged, a correction, another view; then whatever is possible."""
    chance = story.rng.random()
    if drawn == 0:
        edit(story, {"raise": 1.0}, CORRECTABLE)
    elif drawn == 1:
        correct(story)
    elif drawn == 2 or chance < 0.2:
        _view(story)
    elif chance < 0.4 and correctable(story):
        correct(story)
    elif chance < 0.6:
        edit(story, _DEPTH | CORRECTABLE)
    else:
        edit(story, *[_WEIGHTS] * story.rng.choice((1, 1, 2)))


def _view(story: Story) -> None:
    change = (behind(story.picture) if story.rng.random() < 0.5 else None) or mirror(story.picture)
    story.draw(view(story.rng, change), [[Step(change)]], ["spatial_physical_consistency"])
