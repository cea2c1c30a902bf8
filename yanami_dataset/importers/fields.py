"""Turns, questions and checks as people write them in JSON: typed, with defaults, and no key that isn't known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from yanami_dataset.errors import SourceError
from yanami_dataset.importers.sources import shown
from yanami_dataset.schema import Check, Question, StateOp, Turn

T = TypeVar("T")

_REQUIRED = object()


def turns(value: Any, count: int) -> tuple[Turn, ...]:
    """`[{"capabilities": [...], "state": [{"op", "key", "fact"}]}]`, both optional; None for `count` empty turns."""
    return _list("turns", value, _turn) if value is not None else (Turn(),) * count


def questions(value: Any) -> tuple[Question, ...]:
    """`[{"dimension", "turn", "question", "answer", "id", "choices", "images"}]`, the last three optional.

    The default id is `q` and the number, from 1; `images` are pool indices: in order of first appearance, from 0.
    """
    return _list("questions", value, _question)


def checks(value: Any) -> tuple[Check, ...]:
    """`[{"turn", "criterion", "slot", "id", "kind", "capability", "probe"}]`, all but the first two optional.

    Default: slot 0, id `c` and the number (from 1), kind `atomic`. A probe may be an object or its JSON.
    """
    return _list("checks", value, _check)


def text(where: str, value: Any) -> str:
    """The value, if it is a string; SourceError otherwise."""
    return _typed(where, value, str, "a string")


def strings(where: str, value: Any) -> tuple[str, ...]:
    """A list of strings; SourceError otherwise."""
    return tuple(text(f"{where}[{i}]", item) for i, item in enumerate(_typed(where, value, list, "a list of strings")))


def _number(where: str, value: Any) -> int:
    if isinstance(value, bool):
        raise SourceError(f"{where}: expected an integer, got {value!r}")
    return _typed(where, value, int, "an integer")


def _numbers(where: str, value: Any) -> tuple[int, ...]:
    items = _typed(where, value, list, "a list of integers")
    return tuple(_number(f"{where}[{i}]", item) for i, item in enumerate(items))


def _typed(where: str, value: Any, kind: type[T], expected: str) -> T:
    if not isinstance(value, kind):
        raise SourceError(f"{where}: expected {expected}, got {shown(value)}")
    return value


def _list(where: str, value: Any, read: Callable[[str, int, _Fields], T]) -> tuple[T, ...]:
    if value is None:
        return ()
    items = _typed(where, value, list, "a list of objects")
    return tuple(read(f"{where}[{i}]", i, _Fields(f"{where}[{i}]", item)) for i, item in enumerate(items))


class _Fields:
    """The fields of one JSON object, taken one by one; null is as good as absent."""

    def __init__(self, where: str, value: Any) -> None:
        self._where = where
        self._value = _typed(where, value, dict, "an object")
        self._taken: set[str] = set()

    def take(self, name: str, read: Callable[[str, Any], T], default: Any = _REQUIRED) -> T:
        """The field as `read` gives it."""
        self._taken.add(name)
        value = self._value.get(name)
        if value is not None:
            return read(f"{self._where}.{name}", value)
        if default is _REQUIRED:
            raise SourceError(f"{self._where}: expected {name!r}, got {shown(self._value)}")
        return default  # type: ignore[no-any-return]

    def close(self) -> None:
        """Refuse what was not taken."""
        if unknown := sorted(self._value.keys() - self._taken):
            known = ", ".join(sorted(self._taken))
            raise SourceError(f"{self._where}: expected no keys but {known}, got {', '.join(map(shown, unknown))}")


def _turn(where: str, i: int, fields: _Fields) -> Turn:
    turn = Turn(
        fields.take("capabilities", strings, ()), fields.take("state", lambda at, value: _list(at, value, _state), ())
    )
    fields.close()
    return turn


def _state(where: str, i: int, fields: _Fields) -> StateOp:
    op = StateOp(fields.take("op", text), fields.take("key", text), fields.take("fact", text))
    fields.close()
    return op


def _question(where: str, i: int, fields: _Fields) -> Question:
    question = Question(
        id=fields.take("id", text, f"q{i + 1}"),
        dimension=fields.take("dimension", text),
        turn=fields.take("turn", _number),
        question=fields.take("question", text),
        answer=fields.take("answer", text),
        choices=fields.take("choices", strings, ()),
        images=fields.take("images", _numbers, ()),
    )
    fields.close()
    return question


def _check(where: str, i: int, fields: _Fields) -> Check:
    check = Check(
        id=fields.take("id", text, f"c{i + 1}"),
        turn=fields.take("turn", _number),
        slot=fields.take("slot", _number, 0),
        criterion=fields.take("criterion", text),
        kind=fields.take("kind", text, "atomic"),
        capability=fields.take("capability", text, None),
        probe=fields.take("probe", _probe, None),
    )
    fields.close()
    return check


def _probe(where: str, value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else text(where, value)
