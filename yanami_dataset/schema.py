"""What a dialogue is: the nouns, the enumerations and the invariants.

Standard library only and no I/O: images are bytes that somebody else reads, decodes and checks (`images.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from yanami_dataset.errors import InvariantError

SCENARIOS = ("fusion", "editing", "modeling", "reasoning")
CAPABILITIES = (
    "reference_resolution",
    "context_retrieval",
    "consistency_maintenance",
    "spatial_physical_consistency",
    "constraint_keeping",
    "correction_updating",
)
DIMENSIONS = ("reference_resolution", "context_retrieval", "constraint_tracking", "correction_updating")
IMAGE_ROLES = ("reference", "target", "observed")
STATE_OPS = ("establish", "maintain", "update", "invalidate")
CHECK_KINDS = ("atomic", "capability")

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message: a text, or an image of the pool by its index.

    `index` is None for a text, and for an assistant image that is to be drawn and has no ground truth.
    """

    type: Literal["text", "image"]
    text: str | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What one side says in one turn, text and images in their order."""

    role: Literal["user", "assistant"]
    content: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All text of the message, parts joined by a blank."""
        return " ".join(part.text for part in self.content if part.type == "text" and part.text)

    @property
    def image_parts(self) -> tuple[Part, ...]:
        """The image parts in order; in an assistant message these are its slots."""
        return tuple(part for part in self.content if part.type == "image")


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What is known of one image of the pool.

    `width` and `height` are pixels as displayed (after EXIF rotation); `sha256` is that of the encoded bytes.
    """

    role: str
    turn: int
    sha256: str
    width: int
    height: int
    source: str = ""
    license: str = ""


@dataclass(frozen=True, slots=True)
class StateOp:
    """A change of the dialogue state: `op` is one of STATE_OPS, `key` names the fact, `fact` states it."""

    op: str
    key: str
    fact: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn exercises (`capabilities`, of the six) and does to the state; both may be empty."""

    capabilities: tuple[str, ...] = ()
    state: tuple[StateOp, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """An understanding question, asked after its turn; `images` are pool indices shown with it."""

    id: str
    dimension: str
    turn: int
    question: str
    answer: str
    choices: tuple[str, ...] = ()
    images: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One yes/no criterion on the image drawn for (turn, slot); `probe` is JSON, None outside the mini bench."""

    id: str
    turn: int
    slot: int
    criterion: str
    kind: str = "atomic"
    capability: str | None = None
    probe: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """An image the assistant is to draw: the turn, the ordinal within its message, the pool index if there is one."""

    turn: int
    ordinal: int
    index: int | None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue: `images[i]` holds the encoded bytes of pool image i (any sequence, so it may read lazily).

    >>> ask = Message("user", (Part("text", "Draw a red circle."),))
    >>> draw = Message("assistant", (Part("image"),))
    >>> dialogue = Dialogue("d1", "editing", (ask, draw), turns=(Turn(),))
    >>> validate(dialogue)
    >>> dialogue.slots
    (Slot(turn=0, ordinal=0, index=None),)
    """

    id: str
    scenario: str
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    images: Sequence[bytes] = ()
    image_info: tuple[ImageInfo, ...] = ()
    questions: tuple[Question, ...] = ()
    checks: tuple[Check, ...] = ()
    source: str = ""
    extra: str = field(default="{}")

    def user(self, turn: int) -> Message:
        """The user message of a turn (counted from 0)."""
        return self.messages[2 * turn]

    def assistant(self, turn: int) -> Message:
        """The assistant message of a turn (counted from 0)."""
        return self.messages[2 * turn + 1]

    def slots_of(self, turn: int) -> tuple[Slot, ...]:
        """The slots of one turn in their order; empty for a text turn."""
        return tuple(Slot(turn, n, part.index) for n, part in enumerate(self.assistant(turn).image_parts))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All slots in their order."""
        return tuple(slot for turn in range(len(self.turns)) for slot in self.slots_of(turn))

    @property
    def generation_turns(self) -> tuple[int, ...]:
        """The turns that have at least one slot."""
        return tuple(turn for turn in range(len(self.turns)) if self.slots_of(turn))

    def checks_of(self, slot: Slot) -> tuple[Check, ...]:
        """The checks on one slot, in their order."""
        return tuple(check for check in self.checks if (check.turn, check.slot) == (slot.turn, slot.ordinal))


def validate(dialogue: Dialogue) -> None:
    """Check every invariant that needs no decoding.

    Raises:
        InvariantError: listing each broken rule with its field, what was expected and the value.
    """
    problems = list(violations(dialogue))
    if problems:
        raise InvariantError(dialogue.id, problems)


def violations(dialogue: Dialogue) -> Iterator[str]:
    """Yield each broken invariant as `field: what was expected, got value`."""
    if not dialogue.id:
        yield "id: expected a non-empty string, got ''"
    yield from _one_of("scenario", dialogue.scenario, SCENARIOS)
    structure = list(_structure(dialogue))
    yield from structure
    if structure:  # the rest counts on turns and pool lists that agree
        return
    yield from _images(dialogue)
    yield from _parts(dialogue)
    yield from _turns(dialogue)
    yield from _questions(dialogue)
    yield from _checks(dialogue)


def _one_of(where: str, value: str | None, allowed: Sequence[str]) -> Iterator[str]:
    if value not in allowed:
        yield f"{where}: expected one of {', '.join(allowed)}, got {value!r}"


def _structure(dialogue: Dialogue) -> Iterator[str]:
    if not dialogue.messages:
        yield "messages: expected at least one turn, got none"
    for i, message in enumerate(dialogue.messages):
        expected = "user" if i % 2 == 0 else "assistant"
        if message.role != expected:
            yield f"messages[{i}].role: expected {expected!r} (they alternate from 'user'), got {message.role!r}"
    if len(dialogue.messages) % 2:
        yield f"messages: expected pairs of user and assistant, got {len(dialogue.messages)} messages"
    elif len(dialogue.turns) != len(dialogue.messages) // 2:
        yield f"turns: expected {len(dialogue.messages) // 2}, one per pair of messages, got {len(dialogue.turns)}"
    if len(dialogue.images) != len(dialogue.image_info):
        yield f"image_info: expected {len(dialogue.images)}, one per image, got {len(dialogue.image_info)}"


def _images(dialogue: Dialogue) -> Iterator[str]:
    last = 0
    for i, info in enumerate(dialogue.image_info):
        where = f"image_info[{i}]"
        yield from _one_of(f"{where}.role", info.role, IMAGE_ROLES)
        if not 0 <= info.turn < len(dialogue.turns):
            yield f"{where}.turn: expected 0 to {len(dialogue.turns) - 1}, got {info.turn}"
        if info.turn < last:
            yield f"{where}.turn: expected images in order of appearance (turn {last} or later), got {info.turn}"
        last = max(last, info.turn)
        if not _SHA256.fullmatch(info.sha256):
            yield f"{where}.sha256: expected 64 lower-case hex digits, got {info.sha256!r}"
        if info.width < 1 or info.height < 1:
            yield f"{where}: expected a width and height of at least 1 pixel, got {info.width} x {info.height}"


def _parts(dialogue: Dialogue) -> Iterator[str]:
    drawn: set[int] = set()
    for i, message in enumerate(dialogue.messages):
        for j, part in enumerate(message.content):
            where = f"messages[{i}].content[{j}]"
            if part.type == "text":
                if part.text is None or part.index is not None:
                    yield f"{where}: expected a text part with text and no index, got {part!r}"
            elif part.type != "image" or part.text is not None:
                yield f"{where}: expected an image part without text, or a text part, got {part!r}"
            elif part.index is None:
                if message.role == "user":
                    yield f"{where}.index: expected a pool index in a user message, got None"
            elif not 0 <= part.index < len(dialogue.image_info):
                yield f"{where}.index: expected 0 to {len(dialogue.image_info) - 1}, got {part.index}"
            else:
                yield from _mention(dialogue, i, where, part.index, drawn)
    for i, info in enumerate(dialogue.image_info):
        if info.role != "reference" and i not in drawn:
            yield f"image_info[{i}].role: expected an assistant image part for this {info.role}, got none"


def _mention(dialogue: Dialogue, i: int, where: str, index: int, drawn: set[int]) -> Iterator[str]:
    info, turn = dialogue.image_info[index], i // 2
    if dialogue.messages[i].role == "user":
        first = info.turn if info.role == "reference" else info.turn + 1
        if turn < first:
            yield f"{where}.index: {info.role} image {index} of turn {info.turn} is used before it exists (turn {turn})"
        return
    if info.role == "reference":
        yield f"{where}.index: expected a target or observed image in an assistant message, got reference {index}"
    elif info.turn != turn:
        yield f"{where}.index: expected an image of turn {turn}, got {index} of turn {info.turn}"
    elif index in drawn:
        yield f"{where}.index: expected each drawn image in one slot, got {index} a second time"
    drawn.add(index)


def _turns(dialogue: Dialogue) -> Iterator[str]:
    for i, turn in enumerate(dialogue.turns):
        for name in turn.capabilities:
            yield from _one_of(f"turns[{i}].capabilities", name, CAPABILITIES)
        for op in turn.state:
            yield from _one_of(f"turns[{i}].state.op", op.op, STATE_OPS)


def _questions(dialogue: Dialogue) -> Iterator[str]:
    yield from repeated("questions.id", (question.id for question in dialogue.questions))
    for i, question in enumerate(dialogue.questions):
        where = f"questions[{i}]"
        yield from _one_of(f"{where}.dimension", question.dimension, DIMENSIONS)
        if not 0 <= question.turn < len(dialogue.turns):
            yield f"{where}.turn: expected 0 to {len(dialogue.turns) - 1}, got {question.turn}"
        for name in ("id", "question", "answer"):
            if not getattr(question, name).strip():
                yield f"{where}.{name}: expected some text, got {getattr(question, name)!r}"
        for index in question.images:
            if not 0 <= index < len(dialogue.image_info):
                yield f"{where}.images: expected 0 to {len(dialogue.image_info) - 1}, got {index}"
            elif dialogue.image_info[index].turn > question.turn:
                later = dialogue.image_info[index].turn
                yield f"{where}.images: image {index} of turn {later} is used before it exists"


def _checks(dialogue: Dialogue) -> Iterator[str]:
    yield from repeated("checks.id", (check.id for check in dialogue.checks))
    slots = {(slot.turn, slot.ordinal) for slot in dialogue.slots}
    for i, check in enumerate(dialogue.checks):
        where = f"checks[{i}]"
        yield from _one_of(f"{where}.kind", check.kind, CHECK_KINDS)
        if check.capability is not None or check.kind == "capability":
            yield from _one_of(f"{where}.capability", check.capability, CAPABILITIES)
        if (check.turn, check.slot) not in slots:
            yield f"{where}: expected an existing slot, got turn {check.turn}, slot {check.slot}"
        for name in ("id", "criterion"):
            if not getattr(check, name).strip():
                yield f"{where}.{name}: expected some text, got {getattr(check, name)!r}"


def repeated(where: str, ids: Iterable[str]) -> Iterator[str]:
    """Yield a problem for each id that came before."""
    seen: set[str] = set()
    for value in ids:
        if value in seen:
            yield f"{where}: expected unique ids, got {value!r} twice"
        seen.add(value)
