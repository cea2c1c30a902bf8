"""The judge of answers that compares text: right is what says the same after normalising, nothing else is.

No part of an answer is searched for: "not a red circle" is not "a red circle". Knows no dialogue and no image.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.records import JudgeCall, Reply

VERSION = 1  # goes up with every change that may change a verdict

_ARTICLE = re.compile(r"^\W*(?:an?|the)\s+(?=\S)")  # "A. Smith" has none
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# "B", "b.", "(B)", "B)", "B: red circle", "(b) red circle": a letter by itself, then perhaps the text of the choice.
_LETTERED = re.compile(r"\(\s*([a-z])\s*\)[.:]?\s*(.*)|([a-z])\s*(?:[.):]\s*(.*))?", re.DOTALL)


class ExactJudge:
    """Judges answers to questions by comparing them with the reference answer, as `matches` does."""

    name = "exact"
    kinds = frozenset({"answer"})
    reads_prompt = False

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Its name and version."""
        return {"judge": self.name, "version": VERSION}

    async def judge(self, call: JudgeCall) -> Reply:
        """Answer a call of kind answer.

        Raises:
            SpecError: another kind, or no answer or reference to compare.
        """
        if call.kind != "answer" or call.answer is None or call.reference is None:
            raise SpecError(
                f"exact judge: expected a call of kind answer with answer and reference, "
                f"got {call.kind} with {call.answer!r} and {call.reference!r}"
            )
        right = matches(call.answer, call.reference, call.choices)
        reason = f"answer {normalise(call.answer)!r}, reference {normalise(call.reference)!r}"
        if call.choices:
            reason += f", choices {', '.join(repr(normalise(choice)) for choice in call.choices)}"
        return Reply(json.dumps({"reason": reason, "verdict": "correct" if right else "incorrect"}))


def normalise(text: str) -> str:
    """The text as it is compared: NFKC, case folded, single blanks, no leading article, no punctuation.

    What carries meaning stays: marks between digits ("1.5", "10:30"), a minus before a number, symbols such as "%".

    >>> normalise("The  Red-Circle.")
    'red circle'
    >>> normalise("-1.5 %") == normalise("1.5 %")
    False
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).replace("\u2212", "-")
    bare = _ARTICLE.sub("", folded)
    return " ".join("".join(_kept(bare, i) for i in range(len(bare))).split())


def _kept(text: str, i: int) -> str:
    """The character at a place, or what stands for it: a blank for punctuation, nothing for an apostrophe."""
    character = text[i]
    category = unicodedata.category(character)
    if character in "'\u2019" or category == "Cf":
        return ""
    if not category.startswith("P") or character == "%":
        return character
    before, after = text[max(i - 1, 0) : i], text[i + 1 : i + 2]
    between_digits = before.isdigit() and after.isdigit() and character in ".,:/"
    minus = character == "-" and after.isdigit() and not before.strip()
    return character if between_digits or minus else " "


def matches(answer: str, reference: str, choices: Sequence[str] = ()) -> bool:
    """Whether an answer says the same as the reference, which may be one of several choices.

    With choices, both may also be the letter of a choice (the first is A), alone or before its text. What could mean
    two choices, such as the letter of one with the text of another, is wrong.

    >>> matches("A red circle.", "red circle"), matches("not a red circle", "red circle")
    (True, False)
    >>> choices = ["blue star", "red circle"]
    >>> matches("(b)", "red circle", choices), matches("B) blue star", "red circle", choices)
    (True, False)
    """
    if not normalise(answer) or not normalise(reference):
        return False
    if not choices:
        return normalise(answer) == normalise(reference)
    wanted = _chosen(reference, choices)
    if wanted is None:
        return normalise(answer) == normalise(reference)
    return _chosen(answer, choices) == wanted


def _chosen(text: str, choices: Sequence[str]) -> int | None:
    """The place of the one choice that a text names, None where it names none or could mean several."""
    plain = [normalise(choice) for choice in choices]
    by_text = {i for i, choice in enumerate(plain) if choice and choice == normalise(text)}
    named = by_text | _lettered(text, plain)
    return named.pop() if len(named) == 1 else None


def _lettered(text: str, plain: Sequence[str]) -> set[int]:
    """The choice whose letter a text gives, if what follows it is nothing or that very choice."""
    found = _LETTERED.fullmatch(unicodedata.normalize("NFKC", text).strip().casefold())
    if found is None:
        return set()
    place = _LETTERS.index(found[1] or found[3])
    rest = normalise(found[2] or found[4] or "")
    return {place} if place < len(plain) and rest in ("", plain[place]) else set()
