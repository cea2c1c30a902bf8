"""Hypothesis strategies: random dialogues that keep every invariant, with small images of one unique colour each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from hypothesis import strategies as st
from PIL import Image

from yanami_dataset.images import encode_png, sha256
from yanami_dataset.schema import (
    CAPABILITIES,
    CHECK_KINDS,
    DIMENSIONS,
    SCENARIOS,
    STATE_OPS,
    Check,
    Dialogue,
    ImageInfo,
    Message,
    Part,
    Question,
    StateOp,
    Turn,
)

WORDS = st.text("abc déƒ 中🙂<>&\n\"'\\", min_size=1, max_size=12).filter(str.strip)


@lru_cache(maxsize=1024)
def colour_png(number: int, width: int = 4, height: int = 3) -> bytes:
    """A PNG of one colour that no other number has."""
    return encode_png(Image.new("RGB", (width, height), (number % 256, number // 256 % 256, 77)))


@dataclass
class _Pool:
    """The images so far, and per image the first turn in which a user may show it."""

    images: list[bytes] = field(default_factory=list)
    info: list[ImageInfo] = field(default_factory=list)

    def add(self, role: str, turn: int, size: tuple[int, int]) -> int:
        data = colour_png(len(self.images), *size)
        self.images.append(data)
        self.info.append(ImageInfo(role, turn, sha256(data), *size, source="drawn", license="cc0-1.0"))
        return len(self.images) - 1

    def shown_before(self, turn: int) -> list[int]:
        return [i for i, info in enumerate(self.info) if info.turn < turn or info.role == "reference"]


SIZES = st.sampled_from([(4, 3), (3, 4), (5, 5)])


@st.composite
def _user(draw: st.DrawFn, pool: _Pool, turn: int) -> Message:
    parts = []
    for _ in range(draw(st.integers(0, 2))):
        known = pool.shown_before(turn)
        index = draw(st.sampled_from([*known, None]))
        parts.append(Part("image", index=pool.add("reference", turn, draw(SIZES)) if index is None else index))
    parts.insert(draw(st.integers(0, len(parts))), Part("text", draw(WORDS)))
    return Message("user", tuple(parts))


@st.composite
def _assistant(draw: st.DrawFn, pool: _Pool, turn: int, roles: list[str | None], least: int) -> Message:
    parts = []
    for _ in range(draw(st.integers(least, 2))):
        role = draw(st.sampled_from(roles))
        parts.append(Part("image", index=None if role is None else pool.add(role, turn, draw(SIZES))))
    if not parts or draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Part("text", draw(WORDS)))
    return Message("assistant", tuple(parts))


@st.composite
def _turn(draw: st.DrawFn) -> Turn:
    state = st.builds(StateOp, st.sampled_from(STATE_OPS), WORDS, WORDS)
    return Turn(
        tuple(draw(st.lists(st.sampled_from(CAPABILITIES), max_size=3, unique=True))),
        tuple(draw(st.lists(state, max_size=2))),
    )


@st.composite
def _questions(draw: st.DrawFn, pool: _Pool, turns: int) -> tuple[Question, ...]:
    questions = []
    for dimension in draw(st.sampled_from([(), DIMENSIONS[:1], DIMENSIONS])):
        turn = draw(st.integers(0, turns - 1))
        known = [i for i, info in enumerate(pool.info) if info.turn <= turn]
        images = draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        choices = draw(st.sampled_from([(), ("left", "right")]))
        questions.append(Question(dimension, dimension, turn, draw(WORDS), "left", choices, tuple(images)))
    return tuple(questions)


@st.composite
def _checks(draw: st.DrawFn, dialogue: Dialogue) -> tuple[Check, ...]:
    checks = []
    for slot in dialogue.slots:
        for n in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(CHECK_KINDS))
            capability = draw(st.sampled_from(CAPABILITIES)) if kind == "capability" else None
            probe = draw(st.sampled_from([None, '{"predicate": "quality"}']))
            name = f"t{slot.turn}-s{slot.ordinal}-{n}"
            checks.append(Check(name, slot.turn, slot.ordinal, draw(WORDS), kind, capability, probe))
    return tuple(checks)


@st.composite
def dialogues(
    draw: st.DrawFn,
    *,
    ids: st.SearchStrategy[str] | None = None,
    scenarios: tuple[str, ...] = SCENARIOS,
    min_turns: int = 1,
    max_turns: int = 4,
    roles: tuple[str | None, ...] = ("target", "observed", None),
    min_slots: int = 0,
    asked: bool = True,
) -> Dialogue:
    """Dialogues of `min_turns` to `max_turns`, each turn with `min_slots` to 2 slots and up to two user images.

    `roles` are what a slot may hold in the data, None for no ground truth; every image has a colour of its own. Users
    show new images and old ones again, drawn ones too. `asked` adds questions (some with images) and checks.
    """
    pool = _Pool()
    count = draw(st.integers(min_turns, max_turns))
    messages: list[Message] = []
    for turn in range(count):
        messages.append(draw(_user(pool, turn)))
        messages.append(draw(_assistant(pool, turn, list(roles), min_slots)))
    dialogue = Dialogue(
        id=draw(ids if ids is not None else st.uuids().map(str)),
        scenario=draw(st.sampled_from(scenarios)),
        messages=tuple(messages),
        turns=tuple(draw(_turn()) for _ in range(count)),
        images=tuple(pool.images),
        image_info=tuple(pool.info),
        source=draw(st.sampled_from(["", "a paper"])),
        extra=draw(st.sampled_from(["{}", '{"note": "x"}'])),
    )
    if not asked:
        return dialogue
    return replace(dialogue, questions=draw(_questions(pool, count)), checks=draw(_checks(dialogue)))
