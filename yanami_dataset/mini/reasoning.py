"""Visual Reasoning: a plan of steps, stated first, carried out one picture after the other, and revised midway."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from yanami_dataset.mini.asking import EDITS
from yanami_dataset.mini.changes import Change, Limits, corrected, propose, reapplied
from yanami_dataset.mini.draft import Draft, Unlucky
from yanami_dataset.mini.picture import Topic, start
from yanami_dataset.mini.questions import ask_all
from yanami_dataset.mini.rules import draw_rule
from yanami_dataset.mini.scene import random_scene
from yanami_dataset.mini.story import Step, Story, must, opening, schedule
from yanami_dataset.mini.wording import instruction, sentence

_REVISABLE = ("recolour", "move")
_INTROS = (
    "We start from this picture and work by a plan.",
    "This is the start. I'll give you a plan, and we go through it one step after the other.",
    "From this picture I want to get to another one in steps.",
)
_REPLIES = ("Understood.", "Got it, I'll go by the plan.", "All right, step by step.")
_AGREED = (
    "Clear. I'll carry the steps out when you say so.",
    "Understood, I have the plan.",
    "Got it, I'm ready for the next step.",
)


@dataclass(slots=True)
class _Plan:
    """The steps still to do: their numbers, changes and words, and for revised ones what was planned before."""

    numbers: list[int] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    overruled: dict[int, Change] = field(default_factory=dict)
    revised: bool = False
    done: int = 0


def write(rng: Random, turns: int) -> Draft:
    """Draw a reasoning dialogue of `turns` turns.

    Raises:
        Unlucky: what was drawn leads nowhere.
    """
    picture = start(random_scene(rng, rng.randint(4, 5)))
    rule = draw_rule(rng, picture, ("keep", "ban", "free"))
    story = Story(rng, schedule(rng, turns), [picture.scene], picture, Limits(rule))
    plan, opened = _Plan(), opening(rng, rule.phrase(rng))
    if story.schedule[1] or 1 in story.wish_turns:
        opened = f"{opened} {_planned(story, plan)}"
    story.open(rng.choice(_INTROS), opened, rng.choice(_REPLIES))
    for turn in range(1, turns):
        if story.schedule[turn]:
            _draw(story, plan)
        else:
            _talk(story, plan)
    if not any(event.overruled for event in story.events):
        raise Unlucky
    return Draft("reasoning", tuple(story.turns), ask_all(story))


def _planned(story: Story, plan: _Plan) -> str:
    """Make a plan for the next pictures; return it as the user states it."""
    left, first = story.drawing_turns_left, plan.done + 1
    count = min(left, 3 if left == 3 else story.rng.choice((3, 4)))
    plan.revised, picture, used = count < 3, story.picture, set[str]()
    for number in range(first, first + count):
        weights = {name: EDITS[name] for name in _REVISABLE} if number > first else EDITS
        change = must(propose(story.rng, picture, story.limits, weights, story.new_id, used))
        used |= {change.who}
        picture = change.after
        plan.numbers.append(number)
        plan.changes.append(change)
        plan.words.append(instruction(story.rng, change))
        story.ledger.state(Topic("step", (str(number),)), plan.words[-1])
    steps = " ".join(f"Step {n}: {words}." for n, words in zip(plan.numbers, plan.words, strict=True))
    return f"{story.rng.choice(('The plan:', 'This is the plan.', 'Here is what to do.'))} {steps}"


def _revised(story: Story, plan: _Plan, at: int) -> str:
    """Give a step of the plan another value, make the later ones follow; return what the user says."""
    wrong = plan.changes[at]
    changes = [*plan.changes[:at], must(corrected(story.rng, wrong, wrong.before, story.limits))]
    for change in plan.changes[at + 1 :]:
        changes.append(must(reapplied(change, changes[-1].after)))
        if not story.limits.permits(changes[-1]):
            raise Unlucky
    plan.changes, plan.revised, number = changes, True, plan.numbers[at]
    plan.overruled[number] = wrong
    plan.words[at] = instruction(story.rng, changes[at])
    story.ledger.state(Topic("step", (str(number),)), plan.words[at], corrected=True)
    return story.rng.choice(
        (
            f"I have to change the plan: step {number} is now to {plan.words[at]}. Forget what it was.",
            f"A change of plan: for step {number}, {plan.words[at]}. Forget what I planned there before.",
            f"I was wrong about step {number}. It should say: {plan.words[at]}.",
        )
    )


def _talk(story: Story, plan: _Plan) -> None:
    """A text turn: the wish, the plan, its revision, or a question."""
    if story.turn in story.wish_turns:
        story.small_talk()
    elif not plan.changes and story.drawing_turns_left:
        story.tell(_planned(story, plan), story.rng.choice(_AGREED), ["context_retrieval"])
    elif not plan.revised and story.events and plan.changes and plan.numbers[0] > 1:
        text = _revised(story, plan, story.rng.randrange(len(plan.changes)))
        story.tell(text, "Understood, I've changed the plan.", ["correction_updating"])
    else:
        story.small_talk()


def _draw(story: Story, plan: _Plan) -> None:
    """Carry out the next step or two; the plan is made, or revised, in the same message where that is due."""
    rng, said = story.rng, []
    if not plan.changes:
        said.append(_planned(story, plan))
    elif not plan.revised and len(plan.changes) == 2:
        said.append(_revised(story, plan, 1))
    spare = story.drawing_turns_left - len(plan.changes)
    count = 2 if plan.revised and len(plan.changes) >= 2 and spare == 0 and rng.random() < 0.5 else 1
    numbers = plan.numbers[:count]
    if count == 1:
        said.append(rng.choice(("Carry out step {}.", "Now do step {}.", "Go on with step {}.")).format(numbers[0]))
        said.append(rng.choice(("Show me the picture after it.", "Draw how it looks then.", "One picture, please.")))
    else:
        said.append(f"Carry out steps {numbers[0]} and {numbers[1]} now, with a picture after each of them.")
    stages = [[Step(plan.changes[n], plan.overruled.get(number))] for n, number in enumerate(numbers)]
    for number in numbers:
        story.ledger.invalidate(Topic("step", (str(number),)))
    plan.changes, plan.words, plan.numbers = plan.changes[count:], plan.words[count:], plan.numbers[count:]
    plan.done += count
    story.draw(sentence(" ".join(said)), stages, ["context_retrieval"])
