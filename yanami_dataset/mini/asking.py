"""Turns that every scenario has: one or two changes of the picture, and a correction of what was asked for last."""

from __future__ import annotations

from collections.abc import Mapping

from yanami_dataset.mini.changes import corrected, propose
from yanami_dataset.mini.draft import Unlucky
from yanami_dataset.mini.story import Event, Step, Story, must
from yanami_dataset.mini.wording import ask, correction, describe, instruction

EDITS = {"recolour": 3.0, "move": 3.0, "remove": 1.5, "add": 1.5, "resize": 1.0, "background": 0.6}
OTHER = {name: weight for name, weight in EDITS.items() if name != "recolour"}
CORRECTABLE = {"recolour": 2.0, "move": 1.0}


def changes(
    story: Story, weights: list[Mapping[str, float]], before: Step | None = None
) -> tuple[list[Step], list[str]]:
    """Draw a change for each table of weights, of different objects and verbs, and phrase them.

    `before` is a change made in the same turn before these. Only the first object of a turn may be described by
    something else than colour and shape: nobody has to guess which picture a description is about.

    Raises:
        Unlucky: no change was possible.
    """
    steps, phrases = [before] if before else [], []
    for table in weights:
        picture = steps[-1].change.after if steps else story.picture
        verbs = {step.change.verb for step in steps}
        avoid = {who for step in steps for who in (step.change.who, step.change.other) if who}
        chosen = {verb: weight for verb, weight in table.items() if verb not in verbs}
        change = must(propose(story.rng, picture, story.limits, chosen, story.new_id, avoid))
        item = picture.find(change.who)
        describable = (
            item is not None and not steps and change.verb not in ("raise", "tuck") and story.rng.random() < 0.5
        )
        ref = describe(story.rng, picture.scene, item, change.value) if item and describable else None
        steps.append(Step(change, described=ref is not None))
        phrases.append(instruction(story.rng, change, ref))
    return steps[1 if before else 0 :], phrases


def edit(story: Story, *weights: Mapping[str, float]) -> None:
    """Tell a turn with one change for each table of weights."""
    steps, phrases = changes(story, list(weights))
    story.draw(ask(story.rng, phrases), [steps])


def correctable(story: Story) -> list[Event]:
    """The changes of the last picture that can be overruled: a colour or a place, of an object that may be touched."""
    kept = story.rule.who if story.rule.kind == "keep" else ""
    return [
        event
        for event in story.last_steps()
        if event.change.verb in ("recolour", "move", "add", "bring")
        and event.change.who in set(story.picture.ids) - {kept}
    ]


def correct(story: Story, *weights: Mapping[str, float]) -> None:
    """Tell a turn that overrules a change of the last picture, and makes further changes, one for each table.

    Raises:
        Unlucky: there is nothing to overrule.
    """
    known = correctable(story)
    if not known:
        raise Unlucky
    wrong = story.rng.choice(known).change
    step = Step(must(corrected(story.rng, wrong, story.picture, story.limits)), wrong)
    more, phrases = changes(story, list(weights), step)
    story.draw(ask(story.rng, [correction(story.rng, step.change, wrong), *phrases], plain=True), [[step, *more]])
