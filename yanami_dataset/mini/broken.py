"""The scenes behind a dialogue of the mini bench, and for each check an image that breaks just this one.

With it a judge can be measured: it has to pass the target and to fail the broken image. A dialogue doesn't carry its
scenes (no judge may see them); they are drawn again from its seed.
"""

from __future__ import annotations

import json
from random import Random

from yanami_dataset.errors import DataError
from yanami_dataset.mini.bench import draft
from yanami_dataset.mini.breaking import break_scene
from yanami_dataset.mini.draft import SOURCE, Draft
from yanami_dataset.mini.render import encode_png, render
from yanami_dataset.schema import SCENARIOS, Check, Dialogue


def draft_of(dialogue: Dialogue) -> Draft:
    """The draft with the scenes of a dialogue that `generate` drew.

    Raises:
        DataError: the dialogue isn't of the mini bench, or was drawn by another version of it.
    """
    extra = json.loads(dialogue.extra)
    if dialogue.source != SOURCE or not {"attempt", "seed", "turns"} <= extra.keys():
        raise DataError(f"dialogue {dialogue.id!r}: expected one of {SOURCE}, got source {dialogue.source!r}, {extra}")
    number = int(dialogue.id.rsplit("-", 1)[1]) * len(SCENARIOS) + SCENARIOS.index(dialogue.scenario)
    found = draft(number, turns=extra["turns"], seed=extra["seed"], attempt=extra["attempt"])
    texts = [message.text for message in dialogue.messages]
    if found is None or texts != [text for turn in found.turns for text in (" ".join(turn.paragraphs), turn.reply)]:
        raise DataError(f"dialogue {dialogue.id!r}: another version of the mini bench drew it; draw the bench anew")
    return found


def broken_image(dialogue: Dialogue, check: Check) -> bytes:
    """A PNG, as large as the target, on which a check fails though little else differs; always the same one.

    Raises:
        DataError: the dialogue isn't of this mini bench, or the check has no probe.
    """
    if check.probe is None:
        raise DataError(f"dialogue {dialogue.id!r}: check {check.id!r} is without a probe")
    scene = draft_of(dialogue).turns[check.turn].slots[check.slot].scene
    broken = break_scene(scene, json.loads(check.probe), Random(f"{SOURCE}/broken/{check.id}"))
    return encode_png(render(broken, dialogue.image_info[0].width))
