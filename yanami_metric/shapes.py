"""JSON of others, checked field by field: of what comes in, only what was expected goes on. No files.

A shape says what is expected:

    Between, Text      a number, text
    {"a", "b"}         one of these texts, as a frozenset
    bool               true or false
    (None, shape)      null or that
    [shape]            a list of those; with several shapes, a list with one item for each
    {key: shape}       an object with these keys (`Maybe(shape)`: one that may be missing); others are left out
    Each(keys, shape)  an object whose keys are among these
    object             JSON as it is, if it isn't deep and can be written
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple, NoReturn

from yanami_dataset.errors import DataError

DEPTH = 20  # of JSON that is kept as it is, such as a model's options


class Between(NamedTuple):
    """A number, both ends included."""

    low: float
    high: float
    whole: bool = False


class Each(NamedTuple):
    """A mapping with some of these keys and values of one shape."""

    keys: Collection[str]
    shape: Any


class Maybe(NamedTuple):
    """The value of a key that may be missing."""

    shape: Any


class Text(NamedTuple):
    """Text of at most so many characters."""

    most: int = 2000


def parsed(data: bytes, where: str) -> Any:
    """JSON without NaN and infinity, which are no JSON.

    Raises:
        DataError: it is none.
    """
    try:
        return json.loads(data.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: expected JSON, got: {shown(str(error))}") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def read(value: Any, shape: Any, where: str) -> Any:
    """What a value has of a shape, and nothing else.

    Args:
        value: from JSON.
        shape: as the module says.
        where: for messages.

    Raises:
        DataError: it hasn't that shape.

    >>> read({"n": 3, "more": "no"}, {"n": Between(0, 9), "of": Maybe(Text())}, "x")
    {'n': 3}
    >>> read({"n": "3"}, {"n": Between(0, 9)}, "x")
    Traceback (most recent call last):
    yanami_dataset.errors.DataError: x, n: expected a number from 0 to 9, got '3'
    """
    match shape, value:
        case (None, other), _:
            return None if value is None else read(value, other, where)
        case dict(), dict():
            return {
                key: read(value.get(key), one.shape if isinstance(one, Maybe) else one, f"{where}, {key}")
                for key, one in shape.items()
                if key in value or not isinstance(one, Maybe)
            }
        case Each(), dict() if value.keys() <= set(shape.keys):
            return {key: read(one, shape.shape, f"{where}, {key}") for key, one in value.items()}
        case list(), list() if len(shape) in (1, len(value)):
            shapes = shape if len(shape) > 1 else shape * len(value)
            return [read(one, of, f"{where}, item {i}") for i, (one, of) in enumerate(zip(value, shapes, strict=True))]
        case _ if _fits(value, shape):
            return value
    raise DataError(f"{where}: expected {_told(shape)}, got {shown(value)}")


def _fits(value: Any, shape: Any) -> bool:
    """Whether a value that has no parts of its own is of a shape."""
    match shape:
        case Between():
            number = isinstance(value, int if shape.whole else int | float) and not isinstance(value, bool)
            return number and shape.low <= value <= shape.high
        case Text():
            return isinstance(value, str) and len(value) <= shape.most and _is_encodable(value)
        case frozenset():
            return isinstance(value, str) and value in shape
        case _:
            return isinstance(value, bool) if shape is bool else shape is object and _is_plain(value, DEPTH)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether JSON is of moderate depth, its text can be written and its numbers are finite."""
    if isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return depth > 0 and all(_is_plain(part, depth - 1) for part in parts)
    if isinstance(value, str):
        return _is_encodable(value)
    return not isinstance(value, float) or math.isfinite(value)


def _is_encodable(text: str) -> bool:
    return not re.search("[\ud800-\udfff]", text)


def _told(shape: Any) -> str:
    match shape:
        case Between():
            return f"{'a whole' if shape.whole else 'a'} number from {shape.low:g} to {shape.high:g}"
        case Text():
            return f"text of at most {shape.most} characters"
        case frozenset():
            return f"one of {', '.join(sorted(shape))}"
        case dict():
            return f"an object with {', '.join(shape)}"
        case Each():
            return f"an object with keys among {', '.join(shape.keys)}"
        case list():
            return "a list" if len(shape) == 1 else f"a list of {len(shape)}"
        case _:
            return "true or false" if shape is bool else f"JSON at most {DEPTH} levels deep"


def shown(value: Any) -> str:
    """Something of others in a message: quoted, short, without anything that isn't printed.

    >>> shown("a\\n"), shown([1])
    ("'a\\\\n'", '[1]')
    """
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
