"""One dialogue as plain text for a terminal. Whatever a dialogue holds, no control character of it gets there."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from yanami_dataset.schema import Check, Dialogue, Part, Question

_KEPT = "\n\t"


def visible(text: str) -> str:
    """The text with control, format and surrogate characters written as escapes; only tabs and line breaks stay.

    That covers terminal escapes, and the marks that turn the direction of writing round.

    >>> visible("red\\x1b[2Jblue")
    'red\\\\x1b[2Jblue'
    """
    return "".join(char if char in _KEPT or not _hidden(char) else _escape(char) for char in text)


def show(dialogue: Dialogue) -> str:
    """The dialogue: turns with images as `[image 2: target 256x256]`, state, questions and checks. Images count from 1.

    >>> from yanami_dataset.schema import Message, Part, Turn
    >>> ask, draw = Message("user", (Part("text", "A cat."),)), Message("assistant", (Part("image"),))
    >>> print(show(Dialogue("d1", "editing", (ask, draw), (Turn(),))))
    d1 (editing, 1 turn, 0 images)
    <BLANKLINE>
    turn 0
      user: A cat.
      assistant: [image to be drawn, no ground truth]
    """
    return "\n".join(_lines(dialogue)).rstrip()


def _lines(dialogue: Dialogue) -> Iterator[str]:
    turns, images = _count(len(dialogue.turns), "turn"), _count(len(dialogue.image_info), "image")
    yield f"{_flat(dialogue.id)} ({_flat(dialogue.scenario)}, {turns}, {images})"
    if dialogue.source:
        yield f"source: {_flat(dialogue.source)}"
    if dialogue.extra not in ("", "{}"):
        yield f"extra: {_flat(dialogue.extra)}"
    for turn in range(len(dialogue.turns)):
        yield ""
        yield from _turn(dialogue, turn)


def _turn(dialogue: Dialogue, turn: int) -> Iterator[str]:
    marks = dialogue.turns[turn]
    yield f"turn {turn}" + (f" ({_flat(', '.join(marks.capabilities))})" if marks.capabilities else "")
    for message in (dialogue.user(turn), dialogue.assistant(turn)):
        text = " ".join(_part(dialogue, part) for part in message.content)
        yield f"  {message.role}: " + text.replace("\n", "\n    ")
    for op in marks.state:
        yield f"  state: {_flat(op.op)} {_flat(op.key)} = {_flat(op.fact)}"
    for check in dialogue.checks:
        if check.turn == turn:
            yield _check(check)
    for question in dialogue.questions:
        if question.turn == turn:
            yield from _question(question)


def _part(dialogue: Dialogue, part: Part) -> str:
    if part.type == "text":
        return visible(part.text or "")
    if part.index is None:
        return "[image to be drawn, no ground truth]"
    info = dialogue.image_info[part.index]
    return f"[image {part.index + 1}: {info.role} {info.width}x{info.height}]"


def _check(check: Check) -> str:
    about = check.kind + (f", {check.capability}" if check.capability else "")
    return f"  check {_flat(check.id)} (slot {check.slot}, {_flat(about)}): {_flat(check.criterion)}"


def _question(question: Question) -> Iterator[str]:
    images = f", with images {', '.join(str(i + 1) for i in question.images)}" if question.images else ""
    choices = f" [{' | '.join(map(_flat, question.choices))}]" if question.choices else ""
    where = f"{_flat(question.dimension)}{images}"
    yield f"  question {_flat(question.id)} ({where}): {_flat(question.question)}{choices}"
    yield f"    answer: {_flat(question.answer)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _flat(text: str) -> str:
    """On one line."""
    return visible(text).replace("\n", "\\n")


def _hidden(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char != "\u200d"
    )  # emoji need it


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
