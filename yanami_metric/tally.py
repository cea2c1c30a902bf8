"""Counting: what one dialogue asked for, what was scored, what was gained. No means here; those are made in `score`.

A tally is a small record of numbers, so a list of them can be kept for thousands of dialogues, and the lists of shards
concatenate to exactly what one process would have counted. It must not know models, histories, weights or files.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import add

from yanami_dataset.errors import DataError
from yanami_dataset.schema import CAPABILITIES, DIMENSIONS, Check, Dialogue, Slot
from yanami_metric.records import COUNTS_AS_WRONG, STATUSES, quality_id

KINDS = ("answer", "checks", "quality")
NOT_JUDGED = "not_judged"
"""The status, in counts only, of an item that the dialogue asks for and no verdict speaks of."""
STATUS_COLUMNS = (*STATUSES, NOT_JUDGED)
_TOP = {"answer": 1.0, "checks": 1.0, "quality": 10.0}


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One judged item: a status of `records.STATUSES`, and its value.

    The value is 1 or 0 for an answer or a check and 0 to 10 for a quality; it is read only where the status is
    `scored` (a status of COUNTS_AS_WRONG is worth 0 whatever it says).
    """

    status: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How a group of items fared. `gained` is the sum of their shares of the best value, so 0 <= gained <= scored.

    `scored` includes `refused`: items that count as wrong because the model declined, kept so that the
    headline can be given without them as well.

    >>> count = Count(asked=4, scored=2, gained=1.0)
    >>> count.share, count.lowest, count.highest
    (0.5, 0.25, 0.75)
    """

    asked: int = 0
    scored: int = 0
    gained: float = 0.0
    refused: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.asked + other.asked,
            self.scored + other.scored,
            self.gained + other.gained,
            self.refused + other.refused,
        )

    @property
    def share(self) -> float:
        """What was gained of what was scored, 0-1; only where `scored` is above 0."""
        return self.gained / self.scored

    @property
    def lowest(self) -> float:
        """The share if all that isn't scored were wrong, 0-1; only where `asked` is above 0."""
        return self.gained / self.asked

    @property
    def highest(self) -> float:
        """The share if all that isn't scored were right, 0-1; only where `asked` is above 0."""
        return (self.gained + self.asked - self.scored) / self.asked

    def without_refusals(self) -> Count:
        """The same items but for those that the model refused."""
        return Count(self.asked - self.refused, self.scored - self.refused, self.gained)


@dataclass(frozen=True, slots=True)
class ImageTally:
    """The atomic checks and the quality of the image asked for in one slot; `capabilities` are those of its turn."""

    turn: int
    ordinal: int
    checks: Count
    quality: Count
    capabilities: tuple[str, ...] = ()

    def __add__(self, other: ImageTally) -> ImageTally:
        return replace(self, checks=self.checks + other.checks, quality=self.quality + other.quality)


@dataclass(frozen=True, slots=True)
class CheckTally:
    """One check: which, on the image of which slot, and how it fared. `capability` is None where the data names none.

    `predicate` is what its probe asks, in the mini bench only, else "".
    """

    id: str
    turn: int
    ordinal: int
    kind: str
    capability: str | None
    criterion: str
    predicate: str
    count: Count

    def __add__(self, other: CheckTally) -> CheckTally:
        return replace(self, count=self.count + other.count)


@dataclass(frozen=True, slots=True)
class DialogueTally:
    """The counts of one dialogue.

    `questions` are in the order of `schema.DIMENSIONS`; `images` has one entry per slot; `capabilities` are the
    capability checks, which don't count for SC, in the order of `schema.CAPABILITIES`; `statuses` are
    (kind, status, number) over all items, capability checks included; `each` has every check of either kind on its own.
    """

    dialogue: str
    scenario: str
    questions: tuple[Count, ...]
    images: tuple[ImageTally, ...]
    capabilities: tuple[Count, ...]
    statuses: tuple[tuple[str, str, int], ...]
    each: tuple[CheckTally, ...] = ()

    def __add__(self, other: DialogueTally) -> DialogueTally:
        """The same dialogue rolled out once more: all items of both.

        Raises:
            DataError: another dialogue.
        """
        if other.dialogue != self.dialogue:
            raise DataError(f"expected another tally of dialogue {self.dialogue!r}, got one of {other.dialogue!r}")
        statuses: Counter[tuple[str, str]] = Counter()
        for kind, status, number in (*self.statuses, *other.statuses):
            statuses[kind, status] += number
        return DialogueTally(
            self.dialogue,
            self.scenario,
            tuple(map(add, self.questions, other.questions)),
            tuple(map(add, self.images, other.images)),
            tuple(map(add, self.capabilities, other.capabilities)),
            tuple((kind, status, number) for (kind, status), number in sorted(statuses.items())),
            tuple(map(add, self.each, other.each)),
        )

    @property
    def checks(self) -> Count:
        """All atomic checks of the dialogue."""
        return total(image.checks for image in self.images)

    @property
    def quality(self) -> Count:
        """All images of the dialogue."""
        return total(image.quality for image in self.images)


def total(counts: Iterable[Count]) -> Count:
    """The sum of counts; `Count()` for none.

    >>> total([Count(1, 1, 1.0), Count(2, 1, 0.0)])
    Count(asked=3, scored=2, gained=1.0, refused=0)
    """
    asked = scored = refused = 0
    gained = 0.0
    for count in counts:  # not by adding records: there are thousands of them
        asked, scored = asked + count.asked, scored + count.scored
        gained, refused = gained + count.gained, refused + count.refused
    return Count(asked, scored, gained, refused)


def tally(dialogue: Dialogue, results: Mapping[tuple[str, str], ItemResult]) -> DialogueTally:
    """Count one dialogue under one history.

    Args:
        dialogue: says what is asked: its questions, its checks, and a quality per slot. What is asked and has no
            result counts as asked and unscored (`not_judged`).
        results: by (kind, item id), where the kind is answer, checks or quality and the id that of the question or
            the check, or `quality_id` of the slot.

    Raises:
        DataError: a result for something the dialogue doesn't ask, an unknown status, or a value out of range.

    >>> from yanami_dataset.schema import Message, Part, Turn
    >>> messages = (Message("user", (Part("text", "Draw a cat."),)), Message("assistant", (Part("image"),)))
    >>> dialogue = Dialogue("d", "editing", messages, turns=(Turn(),))
    >>> tally(dialogue, {("quality", "t0-s0"): ItemResult("scored", 7)}).quality
    Count(asked=1, scored=1, gained=0.7, refused=0)
    """
    items = _asked(dialogue)
    for key in results:
        if key not in items:
            raise DataError(
                f"dialogue {dialogue.id!r}: expected results for its own questions, checks and images, got one for "
                f"{key!r}; were the verdicts made with another revision of the data?"
            )
    counts = {key: _count(dialogue.id, key, results.get(key)) for key in items}
    statuses = Counter(
        (kind, results[kind, id_].status if (kind, id_) in results else NOT_JUDGED) for kind, id_ in items
    )
    return DialogueTally(
        dialogue=dialogue.id,
        scenario=dialogue.scenario,
        questions=tuple(
            total(counts["answer", question.id] for question in dialogue.questions if question.dimension == dimension)
            for dimension in DIMENSIONS
        ),
        images=tuple(_image(dialogue, slot, counts) for slot in dialogue.slots),
        capabilities=tuple(
            total(
                counts["checks", check.id]
                for check in dialogue.checks
                if check.kind == "capability" and check.capability == capability
            )
            for capability in CAPABILITIES
        ),
        statuses=tuple((kind, status, number) for (kind, status), number in sorted(statuses.items())),
        each=tuple(_check(check, counts["checks", check.id]) for check in dialogue.checks),
    )


def _asked(dialogue: Dialogue) -> frozenset[tuple[str, str]]:
    return frozenset(
        [("answer", question.id) for question in dialogue.questions]
        + [("checks", check.id) for check in dialogue.checks]
        + [("quality", quality_id(slot)) for slot in dialogue.slots]
    )


def _image(dialogue: Dialogue, slot: Slot, counts: Mapping[tuple[str, str], Count]) -> ImageTally:
    checks = total(counts["checks", check.id] for check in dialogue.checks_of(slot) if check.kind == "atomic")
    quality = counts["quality", quality_id(slot)]
    return ImageTally(slot.turn, slot.ordinal, checks, quality, tuple(dialogue.turns[slot.turn].capabilities))


def _check(check: Check, count: Count) -> CheckTally:
    predicate = _predicate(check.probe) if check.probe else ""
    return CheckTally(check.id, check.turn, check.slot, check.kind, check.capability, check.criterion, predicate, count)


@lru_cache(maxsize=4096)  # the same probes are asked under every history
def _predicate(probe: str) -> str:
    """What a probe of the mini bench asks; "" for what isn't one."""
    try:
        parsed = json.loads(probe)
    except ValueError:
        return ""
    return str(parsed.get("predicate", "")) if isinstance(parsed, dict) else ""


def _count(dialogue: str, key: tuple[str, str], result: ItemResult | None) -> Count:
    if result is None:
        return Count(asked=1)
    if result.status not in STATUSES:
        raise DataError(
            f"dialogue {dialogue!r}, {key!r}: expected a status of {', '.join(STATUSES)}, got {result.status!r}"
        )
    if result.status in COUNTS_AS_WRONG:
        return Count(asked=1, scored=1, refused=int(result.status == "model_refused"))
    if result.status != "scored":
        return Count(asked=1)
    return Count(asked=1, scored=1, gained=_share(dialogue, key, result.value))


def _share(dialogue: str, key: tuple[str, str], value: float | None) -> float:
    top = _TOP[key[0]]
    allowed = value is not None and math.isfinite(value) and (0 <= value <= top if top > 1 else value in (0, 1))
    if value is None or not allowed:
        expected = "a quality from 0 to 10" if top > 1 else "0 or 1"
        raise DataError(f"dialogue {dialogue!r}, {key!r}: expected {expected} for a scored item, got {value!r}")
    return value / top
