"""A dialogue whose images are still scenes, and how it becomes a `Dialogue` with encoded images."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from yanami_dataset.mini.probes import Probe, criterion, dumps
from yanami_dataset.mini.render import encode_png, render
from yanami_dataset.mini.scene import Scene
from yanami_dataset.schema import Check, Dialogue, ImageInfo, Message, Part, Question, StateOp, Turn

SOURCE = "yanami-mini"
LICENSE = "Apache-2.0"


class Unlucky(Exception):
    """What was drawn at random leads nowhere; the dialogue is drawn again. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class DraftCheck:
    """A probe that holds on the scene of its slot, and what it is asked for."""

    probe: Probe
    kind: str = "atomic"
    capability: str | None = None


@dataclass(frozen=True, slots=True)
class DraftSlot:
    """What the assistant has to draw, and the checks on it."""

    scene: Scene
    checks: tuple[DraftCheck, ...]


@dataclass(frozen=True, slots=True)
class DraftTurn:
    """One turn: `user` and `reply` are texts, `images` what the user sends, after the first paragraph of the text."""

    user: str
    reply: str
    images: tuple[Scene, ...] = ()
    slots: tuple[DraftSlot, ...] = ()
    capabilities: tuple[str, ...] = ()
    state: tuple[StateOp, ...] = ()

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """What the user says before the images, and after them."""
        first, _, rest = self.user.partition("\n\n")
        return (first, rest) if rest else (first,)


@dataclass(frozen=True, slots=True)
class DraftQuestion:
    """An understanding question with its answer, asked after a turn."""

    dimension: str
    turn: int
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole dialogue before anything is drawn."""

    scenario: str
    turns: tuple[DraftTurn, ...]
    questions: tuple[DraftQuestion, ...]


class _Pool:
    """The images of a dialogue in order of appearance."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.images: list[bytes] = []
        self.info: list[ImageInfo] = []

    def add(self, scene: Scene, role: Literal["reference", "target"], turn: int) -> Part:
        data = encode_png(render(scene, self.size))
        self.images.append(data)
        digest = hashlib.sha256(data).hexdigest()
        self.info.append(ImageInfo(role, turn, digest, self.size, self.size, SOURCE, LICENSE))
        return Part("image", index=len(self.images) - 1)


def finish(draft: Draft, name: str, size: int, extra: Mapping[str, Any]) -> Dialogue:
    """Draw the scenes of a draft and make it a dialogue with the id `name` and images of `size` pixels a side."""
    pool = _Pool(size)
    messages = []
    for turn, part in enumerate(draft.turns):
        messages.append(Message("user", tuple(_asked(part, turn, pool))))
        answer = [Part("text", part.reply), *(pool.add(slot.scene, "target", turn) for slot in part.slots)]
        messages.append(Message("assistant", tuple(answer)))
    return Dialogue(
        id=name,
        scenario=draft.scenario,
        messages=tuple(messages),
        turns=tuple(Turn(part.capabilities, part.state) for part in draft.turns),
        images=tuple(pool.images),
        image_info=tuple(pool.info),
        questions=tuple(
            Question(f"{name}-q{n}", question.dimension, question.turn, question.question, question.answer)
            for n, question in enumerate(draft.questions)
        ),
        checks=tuple(_checks(draft, name)),
        source=SOURCE,
        extra=json.dumps(extra, sort_keys=True),
    )


def _asked(part: DraftTurn, turn: int, pool: _Pool) -> list[Part]:
    """The first paragraph, the images, the other paragraph."""
    first, *rest = (Part("text", text) for text in part.paragraphs)
    return [first, *(pool.add(scene, "reference", turn) for scene in part.images), *rest]


def _checks(draft: Draft, name: str) -> list[Check]:
    return [
        Check(
            f"{name}-t{turn}-s{ordinal}-c{n}",
            turn,
            ordinal,
            criterion(check.probe),
            check.kind,
            check.capability,
            dumps(check.probe),
        )
        for turn, part in enumerate(draft.turns)
        for ordinal, slot in enumerate(part.slots)
        for n, check in enumerate(slot.checks)
    ]
