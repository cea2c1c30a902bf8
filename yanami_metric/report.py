"""The report of a run: one HTML page that anybody can open anywhere, with what the scores are made of.

The page loads nothing: styles are inside, images are small copies inside, scripts there are none, and its own policy
forbids the browser everything else. All text of models, judges and data is escaped. A bounded number of dialogues is
shown, so the page stays small however large the run was. It knows no run folder: the caller reads that and passes
what is here; nor does it compute scores.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from yanami_dataset.errors import ImageError, SpecError
from yanami_dataset.images import open_rgb, sha256
from yanami_dataset.schema import SCENARIOS, Check, Dialogue, Part, Question, Slot
from yanami_metric import tables
from yanami_metric.records import COUNTS_AS_WRONG, quality_id

if TYPE_CHECKING:
    from jinja2 import Environment

SHOWN = 24
"""How many dialogues a page shows where nothing else is asked for."""
_SIDE = 192  # pixels: what a thumbnail is scaled down to
_LONGEST = 3000  # characters of one text: a model may answer with a book


@dataclass(frozen=True, slots=True)
class ReportImage:
    """What a model drew for a slot: encoded bytes, or None and why (a status of `records.OUTPUT_STATUSES`)."""

    data: bytes | None
    status: str = "ok"
    reason: str = ""


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
class ReportHistory:
    """A dialogue under one history mode; what is missing in a mapping is shown as missing.

    `images` by (turn, ordinal), `answers` by question id, `items` by (kind, item id) as in `score.tally`.
    """

    images: Mapping[tuple[int, int], ReportImage] = field(default_factory=dict)
    answers: Mapping[str, ReportAnswer] = field(default_factory=dict)
    items: Mapping[tuple[str, str], ReportItem] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportDialogue:
    """A dialogue to be shown, with what happened to it by history mode."""

    dialogue: Dialogue
    histories: Mapping[str, ReportHistory]


def sample(scenarios: Mapping[str, str], limit: int = SHOWN) -> list[str]:
    """The ids of at most `limit` dialogues, evenly over scenarios and within each, always the same ones.

    Args:
        scenarios: the scenario of every dialogue by its id.
        limit: how many ids to return at most; 0 for none.

    >>> sample({"e1": "editing", "e2": "editing", "e3": "editing", "f1": "fusion"}, limit=3)
    ['f1', 'e1', 'e2']
    """
    if limit < 0:
        raise SpecError(f"limit: expected 0 or more dialogues to show, got {limit}")
    groups = [sorted(id_ for id_, name in scenarios.items() if name == scenario) for scenario in SCENARIOS]
    share = [0] * len(groups)
    for _ in range(min(limit, sum(map(len, groups)))):
        open_ = [i for i, group in enumerate(groups) if share[i] < len(group)]
        share[min(open_, key=lambda i: share[i])] += 1
    return [group[k * len(group) // n] for group, n in zip(groups, share, strict=True) for k in range(n)]


def html(scores: tables.Scores, dialogues: Iterable[ReportDialogue], *, total: int) -> str:
    """The page, as the text of an HTML file.

    Args:
        scores: as in scores.json, see `tables`.
        dialogues: those to show, read one at a time, so they may be made on the fly.
        total: how many dialogues the run has.
    """
    environment = _environment()
    thumbnails = _Thumbnails()
    shown = [_dialogue(one, thumbnails) for one in dialogues]
    return environment.get_template("report.html.j2").render(
        model=tables.model_name(scores),
        mini=tables.is_mini(scores),
        histories=tables.histories(scores),
        statuses=_statuses(scores),
        notes=tables.notes(scores),
        facts=tables.facts(scores),
        dialogues=shown,
        total=total,
        smoke=tables.SMOKE,
        titles=tables.TITLES,
        dimension_titles=tables.DIMENSION_TITLES,
        history_notes=tables.HISTORY_NOTES,
        scenarios=[name for name in SCENARIOS if any(name in e["scenarios"] for e in scores["histories"].values())],
    )


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("yanami_metric"),
        autoescape=True,  # always: by the file's ending, jinja2 would leave .j2 alone
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": tables.number,
        "percent": tables.percent,
        "spread": tables.spread,
        "clip": _clip,
        "words": lambda text: str(text).replace("_", " "),
    }
    return environment


def _clip(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} more characters)"


class _Thumbnail(NamedTuple):
    """A small copy as a data: URI, None where the bytes don't decode; the size is that of the original in pixels."""

    uri: str | None
    width: int = 0
    height: int = 0
    reason: str = ""


class _Thumbnails:
    """Small copies, each made once: the same image appears under several histories."""

    def __init__(self) -> None:
        self._made: dict[str, _Thumbnail] = {}

    def of(self, data: bytes) -> _Thumbnail:
        digest = sha256(data)
        if digest not in self._made:
            self._made[digest] = self._make(data)
        return self._made[digest]

    @staticmethod
    def _make(data: bytes) -> _Thumbnail:
        try:
            image = open_rgb(data)
        except ImageError as error:
            return _Thumbnail(None, reason=str(error))
        width, height = image.size
        image.thumbnail((_SIDE, _SIDE))
        buffer = BytesIO()
        image.save(buffer, format="WEBP", quality=85)
        return _Thumbnail("data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode(), width, height)


def _statuses(scores: tables.Scores) -> list[dict[str, Any]]:
    """Rows of (history, kind) with each status, its number, its share and whether it is scored, wrong or unscored."""
    rows = []
    for history, entry in tables.histories(scores).items():
        for kind, counts in entry["statuses"].items():
            asked = sum(counts.values())
            parts = [
                {"status": name, "number": number, "share": number / asked, "mark": _tone(name)}
                for name, number in counts.items()
            ]
            if parts:
                rows.append({"history": history, "kind": kind, "asked": asked, "parts": parts})
    return rows


def _tone(status: str) -> str:
    if status == "scored":
        return "yes"
    return "no" if status in COUNTS_AS_WRONG else "open"


def _dialogue(shown: ReportDialogue, thumbnails: _Thumbnails) -> dict[str, Any]:
    dialogue = shown.dialogue
    return {
        "id": dialogue.id,
        "scenario": dialogue.scenario,
        "histories": list(shown.histories),
        "outcomes": [_outcome(dialogue, name, history) for name, history in shown.histories.items()],
        "turns": [_turn(shown, turn, thumbnails) for turn in range(len(dialogue.turns))],
    }


def _outcome(dialogue: Dialogue, name: str, history: ReportHistory) -> dict[str, Any]:
    """How a dialogue went in a line: passed of judged checks, right of judged answers, mean quality of what was."""
    atomic = [check.id for check in dialogue.checks if check.kind == "atomic"]
    quality = [_mark(history, "quality", quality_id(slot)) for slot in dialogue.slots]
    scored = [mark["value"] for mark in quality if mark["value"] is not None]
    return {
        "history": name,
        "checks": _share(history, "checks", atomic),
        "questions": _share(history, "answer", [question.id for question in dialogue.questions]),
        "quality": sum(scored) / len(scored) if scored else None,
    }


def _share(history: ReportHistory, kind: str, ids: Sequence[str]) -> str:
    """Right of scored, and how many were not scored: what nobody judged is no failure. Empty where nothing is asked."""
    tones = [_mark(history, kind, id_)["tone"] for id_ in ids]
    scored = len(tones) - tones.count("open")
    share = f"{tones.count('yes')}/{scored}" if scored else tables.DASH
    return "" if not ids else share if scored == len(ids) else f"{share} (+{len(ids) - scored} ?)"


def _turn(shown: ReportDialogue, turn: int, thumbnails: _Thumbnails) -> dict[str, Any]:
    dialogue = shown.dialogue
    return {
        "number": turn,
        "capabilities": dialogue.turns[turn].capabilities,
        "user": [_part(dialogue, part, thumbnails) for part in dialogue.user(turn).content],
        "assistant": dialogue.assistant(turn).text,
        "slots": [_slot(shown, slot, thumbnails) for slot in dialogue.slots_of(turn)],
        "questions": [_question(shown, question) for question in dialogue.questions if question.turn == turn],
    }


def _part(dialogue: Dialogue, part: Part, thumbnails: _Thumbnails) -> dict[str, Any]:
    if part.type == "text" or part.index is None:
        return {"text": part.text or "", "image": None}
    role = dialogue.image_info[part.index].role
    return {"text": role, "image": thumbnails.of(dialogue.images[part.index])}


def _slot(shown: ReportDialogue, slot: Slot, thumbnails: _Thumbnails) -> dict[str, Any]:
    dialogue = shown.dialogue
    truth = None
    if slot.index is not None:
        role = dialogue.image_info[slot.index].role
        truth = {"label": role, "image": thumbnails.of(dialogue.images[slot.index])}
    return {
        "ordinal": slot.ordinal,
        "truth": truth,
        "outputs": [_output(name, history, slot, thumbnails) for name, history in shown.histories.items()],
        "checks": [_check(shown, check) for check in dialogue.checks_of(slot)],
    }


def _output(name: str, history: ReportHistory, slot: Slot, thumbnails: _Thumbnails) -> dict[str, Any]:
    drawn = history.images.get((slot.turn, slot.ordinal), ReportImage(None, "missing", "this run has no such output"))
    return {
        "history": name,
        "image": None if drawn.data is None else thumbnails.of(drawn.data),
        "status": drawn.status,
        "reason": drawn.reason,
        "quality": _mark(history, "quality", quality_id(slot)),
    }


def _check(shown: ReportDialogue, check: Check) -> dict[str, Any]:
    return {
        "criterion": check.criterion,
        "kind": check.kind,
        "capability": check.capability,
        "marks": _marks(shown, "checks", check.id),
    }


def _question(shown: ReportDialogue, question: Question) -> dict[str, Any]:
    answers = []
    for mark in _marks(shown, "answer", question.id):
        missing = ReportAnswer(None, "missing", "this run has no such answer")
        answers.append({**mark, "answer": shown.histories[mark["history"]].answers.get(question.id, missing)})
    return {
        "dimension": question.dimension,
        "question": question.question,
        "reference": question.answer,
        "choices": question.choices,
        "answers": answers,
    }


def _marks(shown: ReportDialogue, kind: str, id_: str) -> Sequence[dict[str, Any]]:
    return [{"history": name, **_mark(history, kind, id_)} for name, history in shown.histories.items()]


def _mark(history: ReportHistory, kind: str, id_: str) -> dict[str, Any]:
    """A verdict as it is shown: `tone` is yes, no or open (not scored); the value only where it counts."""
    item = history.items.get((kind, id_), ReportItem("not_judged"))
    counts = item.status == "scored" or item.status in COUNTS_AS_WRONG
    value = (item.value or 0) if counts else None
    tone = "open" if value is None else "yes" if value > 0 else "no"
    return {"tone": tone, "value": value, "status": item.status, "reason": item.reason}
