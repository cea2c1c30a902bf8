"""From a judge's raw reply to verdicts. Pure; nothing is guessed from a word or a digit.

A reply ends in one JSON object, after thinking text or a preamble perhaps, in a code fence perhaps:

    checks    {"checks": [{"id": "...", "reason": "...", "verdict": "pass" | "fail" | "not_judgeable"}, ...]}
    quality   {"reason": "...", "score": 0 to 10}   or   {"reason": "...", "verdict": "not_judgeable"}
    answer    {"reason": "...", "verdict": "correct" | "incorrect" | "not_judgeable"}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yanami_metric.records import JudgeItem
from yanami_metric.thinking import split_thinking

MAX_REPLY = 1_000_000  # characters; a longer reply is no answer

_FENCE_END = re.compile(r"\s*```\s*$")
_LINE_START = re.compile(r"^\{", re.MULTILINE)

_VALUES = {"checks": {"pass": 1.0, "fail": 0.0}, "answer": {"correct": 1.0, "incorrect": 0.0}}


class Unparsed(ValueError):
    """A reply that doesn't hold what was asked for; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ItemVerdict:
    """What became of one judged item: a status of records.STATUSES, and a value if it counts.

    `value` is 1 or 0 for checks and answers, 0 to 10 for quality, None when nothing was decided.
    """

    id: str
    status: str
    value: float | None = None
    reason: str = ""


def parse(kind: str, items: Sequence[JudgeItem], text: str) -> list[ItemVerdict]:
    """The verdicts in a reply, one for each item, in their order.

    Raises:
        Unparsed: anything else than exactly what was asked for.

    >>> parse("answer", [JudgeItem("q1")], '{"reason": "same colour", "verdict": "correct"}')
    [ItemVerdict(id='q1', status='scored', value=1.0, reason='same colour')]
    """
    reply = _object(text)
    if kind != "checks":
        return [_verdict(kind, items[0].id, reply)]
    entries = reply.get("checks")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Unparsed(f"expected a list of objects under 'checks', got {str(entries)[:80]!r}")
    ids = [entry.get("id") for entry in entries]
    expected = [item.id for item in items]
    if sorted(map(str, ids)) != sorted(expected) or not all(isinstance(id, str) for id in ids):
        raise Unparsed(f"expected exactly the ids {expected}, got {str(ids)[:200]}")
    found = {entry["id"]: _verdict(kind, entry["id"], entry) for entry in entries}
    return [found[id] for id in expected]


def schema(kind: str, items: Sequence[JudgeItem]) -> dict[str, Any]:
    """The JSON schema of a reply, for servers that hold a model to one; `parse` checks all the same.

    >>> schema("quality", [JudgeItem("t0-s0")])["required"]
    ['reason', 'score']
    """
    if kind == "quality":
        return _object_schema({"reason": {"type": "string"}, "score": {"type": "number", "minimum": 0, "maximum": 10}})
    verdict = {"type": "string", "enum": [*_VALUES[kind], "not_judgeable"]}
    if kind == "answer":
        return _object_schema({"reason": {"type": "string"}, "verdict": verdict})
    id_ = {"type": "string", "enum": [item.id for item in items]}
    entry = _object_schema({"id": id_, "reason": {"type": "string"}, "verdict": verdict})
    count = len(items)
    return _object_schema({"checks": {"type": "array", "items": entry, "minItems": count, "maxItems": count}})


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    # properties in their order: the reason comes before the verdict
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _object(text: str) -> dict[str, Any]:
    """The one JSON object that a reply ends in."""
    if len(text) > MAX_REPLY:
        raise Unparsed(f"expected at most {MAX_REPLY} characters, got {len(text)}")
    _, answer = split_thinking(text)
    answer = _FENCE_END.sub("", answer).strip()
    # a preamble: the object must be the only one, start a line and end the reply, so that none that is only quoted or
    # cut off is taken for the judge's own
    start = _LINE_START.search(answer)
    reply = _loaded(answer[start.start() :]) if start else None
    if not isinstance(reply, dict):
        raise Unparsed(f"expected one JSON object at the end of the reply, got {text[-80:]!r}")
    return reply


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError):
        return None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")  # which of the two verdicts would it be?
    return found


def _verdict(kind: str, id: str, entry: dict[str, Any]) -> ItemVerdict:
    reason, verdict = entry.get("reason", ""), entry.get("verdict")
    if not isinstance(reason, str):
        raise Unparsed(f"{id}: expected the reason to be a string, got {str(reason)[:80]!r}")
    if verdict == "not_judgeable":
        return ItemVerdict(id, "not_judgeable", None, reason)
    if kind == "quality":
        return ItemVerdict(id, "scored", _score(entry.get("score")), reason)
    values = _VALUES[kind]
    if not isinstance(verdict, str) or verdict not in values:
        raise Unparsed(f"{id}: expected a verdict of {', '.join(values)} or not_judgeable, got {str(verdict)[:80]!r}")
    return ItemVerdict(id, "scored", values[verdict], reason)


def _score(score: Any) -> float:
    number = isinstance(score, int | float) and not isinstance(score, bool)
    if not number or not math.isfinite(score) or not 0 <= score <= 10:
        raise Unparsed(f"expected a score from 0 to 10, got {str(score)[:80]!r}")
    return float(score)
