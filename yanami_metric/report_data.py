"""What the page holds of each dialogue: plain values, ready for JSON, that its script turns into what one sees.

It knows no run folder and no HTML. Where something wasn't judged, drawn or answered, that is said, never a number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from yanami_dataset.images import sha256
from yanami_dataset.schema import Check, Dialogue, Part, Question, Slot
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.records import COUNTS_AS_WRONG, quality_id
from yanami_metric.tally import NOT_JUDGED, ItemResult, tally
from yanami_metric.thumbnails import Picture, Pictures

LONGEST = 3000
"""Characters that are shown of one text: a model may answer with a book."""
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class ReportImage:
    """What a model drew for a slot: how to read its bytes, or None and why (a status of `records.OUTPUT_STATUSES`).

    `digest` is the hash of the bytes and `file` where they are, relative to the page; both may be unknown ("").
    """

    read: Callable[[], bytes] | None
    status: str = "ok"
    reason: str = ""
    digest: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """What a model answered to a question: a text, or None and why."""

    text: str | None
    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportItem:
    """A verdict on one item: a status of `records.STATUSES`, its value (1/0, quality 0-10) and the judge's reason."""

    status: str
    value: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportCall:
    """A judge call: what was asked, and the raw replies.

    `slot` or `question` says what it was about. `prompt` is what the judge was shown besides its rubric; None where it
    reads no prompt.
    """

    kind: str
    judge: str
    turn: int
    slot: int | None
    question: str | None
    items: tuple[str, ...]
    raw: tuple[str, ...]
    sample: int = 0
    prompt: str | None = None
    fingerprint: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportHistory:
    """A dialogue under one history mode; what is missing in a mapping is shown as missing.

    `images` by (turn, ordinal), `answers` by question id, `items` by (kind, item id) as in `tally.tally`.
    """

    images: Mapping[tuple[int, int], ReportImage] = field(default_factory=dict)
    answers: Mapping[str, ReportAnswer] = field(default_factory=dict)
    items: Mapping[tuple[str, str], ReportItem] = field(default_factory=dict)
    calls: Sequence[ReportCall] = ()


@dataclass(frozen=True, slots=True)
class ReportDialogue:
    """A dialogue to be shown, with what happened to it by history mode."""

    dialogue: Dialogue
    histories: Mapping[str, ReportHistory]


def clip(text: str) -> str:
    """The start of a text, and how much more there is.

    >>> clip("a"), clip("a" * 3002)[-26:]
    ('a', 'aaaa … (2 more characters)')
    """
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} … ({len(text) - LONGEST:,} more characters)"


def embedded(value: Any) -> str:
    """JSON that can stand in a script element whatever the texts in it say.

    >>> print(embedded("</script>"))
    "\\u003c/script\\u003e"
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPED)  # outside strings JSON has none of these


class Block:
    """One dialogue on its way into the page; `value` waits for its images."""

    def __init__(self, shown: ReportDialogue, pictures: Pictures, weights: Weights = DEFAULT) -> None:
        self._shown, self._pictures = shown, pictures
        self._images: list[Future[Picture]] = []
        self._places: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self.entry = _entry(shown, weights)
        self._turns = [self._turn(turn) for turn in range(len(shown.dialogue.turns))]
        self._calls = [self._call(name, call) for name, history in shown.histories.items() for call in history.calls]

    def value(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {
            "histories": list(self._shown.histories),
            "images": [image.result() for image in self._images],
            "texts": [clip(text) for text in self._texts],
            "turns": self._turns,
            "calls": self._calls,
        }

    def _image(self, digest: str, read: Callable[[], bytes], file: str = "") -> int:
        """The place of an image in the block: the same one may appear under several histories."""
        if digest not in self._places:
            self._places[digest] = len(self._images)
            self._images.append(self._pictures.of(digest, read, file))
        return self._places[digest]

    def _pool(self, index: int) -> int:
        data = self._shown.dialogue.images[index]
        return self._image(self._shown.dialogue.image_info[index].sha256, lambda: data)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _turn(self, turn: int) -> dict[str, Any]:
        dialogue = self._shown.dialogue
        return {
            "capabilities": dialogue.turns[turn].capabilities,
            "user": [self._part(part) for part in dialogue.user(turn).content],
            "assistant": clip(dialogue.assistant(turn).text),
            "slots": [self._slot(slot) for slot in dialogue.slots_of(turn)],
            "questions": [self._question(one) for one in dialogue.questions if one.turn == turn],
        }

    def _part(self, part: Part) -> dict[str, Any]:
        if part.type == "text" or part.index is None:
            return {"text": clip(part.text or "")}
        info = self._shown.dialogue.image_info[part.index]
        return {"role": info.role, "from": info.turn + 1, "image": self._pool(part.index)}

    def _slot(self, slot: Slot) -> dict[str, Any]:
        dialogue = self._shown.dialogue
        truth = None
        if slot.index is not None:
            truth = {"role": dialogue.image_info[slot.index].role, "image": self._pool(slot.index)}
        return {
            "ordinal": slot.ordinal,
            "truth": truth,
            "outputs": [self._output(name, history, slot) for name, history in self._shown.histories.items()],
            "checks": [self._check(check) for check in dialogue.checks_of(slot)],
        }

    def _output(self, name: str, history: ReportHistory, slot: Slot) -> dict[str, Any]:
        missing = ReportImage(None, "missing", "this run has no such output")
        drawn = history.images.get((slot.turn, slot.ordinal), missing)
        image = None
        if drawn.read is not None:
            image = self._image(drawn.digest or sha256(drawn.read()), drawn.read, drawn.file)
        return {
            "history": name,
            "image": image,
            "status": drawn.status,
            "reason": clip(drawn.reason),
            "quality": _mark(history, "quality", quality_id(slot)),
        }

    def _check(self, check: Check) -> dict[str, Any]:
        capability = check.capability if check.kind == "capability" else ""
        return {
            "id": check.id,
            "criterion": clip(check.criterion),
            "capability": capability,
            "marks": self._marks("checks", check.id),
        }

    def _question(self, question: Question) -> dict[str, Any]:
        missing = ReportAnswer(None, "missing", "this run has no such answer")
        given = [history.answers.get(question.id, missing) for history in self._shown.histories.values()]
        return {
            "id": question.id,
            "dimension": question.dimension,
            "question": clip(question.question),
            "reference": clip(question.answer),
            "choices": [clip(choice) for choice in question.choices],
            "images": [self._part(Part("image", index=index)) for index in question.images],
            "answers": [
                {"text": None if one.text is None else clip(one.text), "status": one.status, "reason": clip(one.reason)}
                for one in given
            ],
            "marks": self._marks("answer", question.id),
        }

    def _marks(self, kind: str, id: str) -> list[dict[str, Any]]:
        return [_mark(history, kind, id) for history in self._shown.histories.values()]

    def _call(self, history: str, call: ReportCall) -> dict[str, Any]:
        return {
            "history": history,
            "kind": call.kind,
            "judge": call.judge,
            "turn": call.turn,
            "slot": call.slot,
            "question": call.question,
            "sample": call.sample + 1,
            "items": call.items,
            "raw": [self._text(reply) for reply in call.raw],
            "prompt": None if call.prompt is None else self._text(call.prompt),
            "fingerprint": call.fingerprint[:12],
            "notes": [clip(note) for note in call.notes],
        }


def _entry(shown: ReportDialogue, weights: Weights) -> dict[str, Any]:
    """What the list and its filters know of a dialogue: scores are points of this dialogue alone, None without any."""
    scores, statuses = {}, set()
    shares = weights.shares(with_dsu=False)
    for name, history in shown.histories.items():
        results = {key: ItemResult(item.status, item.value) for key, item in history.items.items()}
        one = tally(shown.dialogue, {key: item for key, item in results.items() if item.status != NOT_JUDGED})
        sc, vq = (100 * part.share if part.scored else None for part in (one.checks, one.quality))
        vr = None if sc is None or vq is None else shares["sc"] * sc + shares["vq"] * vq
        dsu = 100 * _answers(one.questions) if any(count.scored for count in one.questions) else None
        scores[name] = [None if value is None else round(value, 1) for value in (vr, sc, vq, dsu)]
        statuses |= {status for _, status, _ in one.statuses}
    return {
        "id": shown.dialogue.id,
        "scenario": shown.dialogue.scenario,
        "capabilities": sorted({name for turn in shown.dialogue.turns for name in turn.capabilities}),
        "statuses": sorted(statuses),
        "scores": scores,
    }


def _answers(questions: Sequence[Any]) -> float:
    """The share of right answers among those scored."""
    return float(sum(count.gained for count in questions) / sum(count.scored for count in questions))


def _mark(history: ReportHistory, kind: str, id: str) -> dict[str, Any]:
    """A verdict as it is shown: `tone` is yes, no or open (not scored); the value only where it counts."""
    item = history.items.get((kind, id), ReportItem(NOT_JUDGED))
    counts = item.status == "scored" or item.status in COUNTS_AS_WRONG
    value = (item.value or 0) if counts else None
    tone = "open" if value is None else "yes" if value > 0 else "no"
    return {"tone": tone, "value": value, "status": item.status, "reason": clip(item.reason)}
