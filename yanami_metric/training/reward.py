"""The checks of one drawn image as a number for reinforcement learning: asked and counted as in a run, no folder.

rewards([Drawn(dialogue, 2, image) for image in images])        # e.g. [0.75, None, 0.0]
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from yanami_dataset.errors import ImageError, SpecError
from yanami_dataset.images import inspect, sha256
from yanami_dataset.schema import Dialogue, Slot
from yanami_metric.asking import Surroundings, image_calls, rendered
from yanami_metric.judges import close
from yanami_metric.judging import ask
from yanami_metric.loop import Loop
from yanami_metric.panel import Judging
from yanami_metric.records import ImageRef, Judge, JudgeCall
from yanami_metric.replies import ItemVerdict
from yanami_metric.results import decide
from yanami_metric.rollout import encoded
from yanami_metric.tally import ItemResult, tally

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Drawn:
    """An image that was drawn in a dialogue.

    `turn` and `slot` (its ordinal within the turn) say where. `image` is encoded bytes or a PIL image, None if the
    model drew none. `own` has what it had drawn in earlier slots, by (turn, ordinal): shown to a judge that is shown
    the dialogue, where there is no ground truth.
    """

    dialogue: Dialogue
    turn: int
    image: bytes | Image | None
    slot: int = 0
    own: Mapping[tuple[int, int], bytes | Image | None] = field(default_factory=dict)


def reward(
    dialogue: Dialogue,
    turn: int,
    image: bytes | Image | None,
    *,
    slot: int = 0,
    own: Mapping[tuple[int, int], bytes | Image | None] | None = None,
    judge: str | Judge = "pixel",
    judging: Judging | None = None,
) -> float | None:
    """The share of passed atomic checks of one image, 0-1: what the image adds to SC.

    Args and errors are those of `Drawn` and `rewards`.
    """
    return rewards([Drawn(dialogue, turn, image, slot, own or {})], judge=judge, judging=judging)[0]


def rewards(
    drawn: Sequence[Drawn], *, judge: str | Judge = "pixel", judging: Judging | None = None
) -> list[float | None]:
    """The share of passed atomic checks of each image, 0-1.

    As in scoring, an image that is missing or can't be decoded passes none (0.0), and the share is of what was scored.
    None, never 0, where no check was scored: the judge failed or can't judge it, or there are no atomic checks.

    Args:
        drawn: what to judge.
        judge: of images, a spec string or an object.
        judging: how it is asked: rules, options and how many calls at a time.

    Raises:
        SpecError: no such judge, or no such slot in the dialogue.
    """
    how = judging or Judging()
    by = how.open(judge, "exact").images
    slots = [_slot(one) for one in drawn]
    with Loop() as loop:
        loop.at_end(partial(close, by))
        return loop.run(_all(drawn, slots, by, how))


def _slot(one: Drawn) -> Slot:
    for slot in one.dialogue.slots:
        if (slot.turn, slot.ordinal) == (one.turn, one.slot):
            return slot
    there = ", ".join(f"turn {slot.turn} slot {slot.ordinal}" for slot in one.dialogue.slots) or "none"
    raise SpecError(f"dialogue {one.dialogue.id!r}: expected one of its slots ({there}), got {one.turn}, {one.slot}")


async def _all(drawn: Sequence[Drawn], slots: Sequence[Slot], judge: Judge, how: Judging) -> list[float | None]:
    gate = asyncio.Semaphore(how.concurrency)

    async def asked(call: JudgeCall) -> list[ItemVerdict]:
        async with gate:
            return (await ask(judge, call))[1]

    async def one(drawn: Drawn, slot: Slot) -> float | None:
        candidate = _ref(drawn.image)
        if candidate is None:
            return _share(drawn.dialogue, slot, {c.id: "missing_output" for c in drawn.dialogue.checks_of(slot)}, {})
        own = {place: _ref(image) for place, image in drawn.own.items()}
        around = Surroundings(drawn.dialogue, slot, own)
        calls = image_calls(drawn.dialogue, slot, candidate, how.rules.checks_per_call)
        checks = [rendered(call, judge, how.rules, around) for call in calls if call.kind == "checks"]
        samples = range(how.rules.samples)
        replies = await asyncio.gather(*(asked(replace(call, sample=n)) for call in checks for n in samples))
        by_id: dict[str, list[ItemVerdict]] = {}
        for verdict in (verdict for verdicts in replies for verdict in verdicts):
            by_id.setdefault(verdict.id, []).append(verdict)
        decided = {id: decide("checks", verdicts) for id, verdicts in by_id.items()}
        return _share(
            drawn.dialogue,
            slot,
            {id: v.status for id, v in decided.items()},
            {id: v.value for id, v in decided.items()},
        )

    return list(await asyncio.gather(*map(one, drawn, slots)))


def _share(
    dialogue: Dialogue, slot: Slot, statuses: Mapping[str, str], values: Mapping[str, float | None]
) -> float | None:
    """As the tally of a run has it."""
    results = {("checks", id): ItemResult(status, values.get(id)) for id, status in statuses.items()}
    images = tally(dialogue, results).images
    count = next(image.checks for image in images if (image.turn, image.ordinal) == (slot.turn, slot.ordinal))
    return count.share if count.scored else None


def _ref(image: bytes | Image | None) -> ImageRef | None:
    """An image as judges take it; None for one that is missing or can't be decoded."""
    if image is None:
        return None
    try:
        data = encoded(image)
        facts = inspect(data)
    except ImageError:
        return None
    return ImageRef(sha256(data), facts.width, facts.height, lambda: data)
