"""What the lines between yanami and a program say (`command.py` describes them), checked. No processes, no files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from yanami_dataset.errors import ModelError
from yanami_metric.records import OUTPUT_STATUSES, PLACEMENTS, Caps, Request

PROTOCOL = 1
_ANSWER = ("id", "images", "text", "thinking", "status", "reason")


def request_line(request: Request, id: str, more: int, images: Sequence[str]) -> dict[str, Any]:
    """A request as the program gets it.

    Args:
        request: what is asked.
        id: what the answer is to name.
        more: how many requests of the batch are still to come.
        images: the path of each of the request's images.
    """
    return {
        "id": id,
        "more": more,
        "expects": request.expects,
        "count": request.count,
        "seeds": request.seeds,
        "size": request.size,
        "messages": [
            {
                "role": message.role,
                "content": [
                    {"type": "text", "text": part.text}
                    if part.type == "text"
                    else {"type": "image", "index": part.index}
                    for part in message.content
                ],
            }
            for message in request.messages
        ],
        "images": images,
        "labels": [image.labels for image in request.images],
    }


def read_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is, None if it is something else.

    >>> read_object(b'{"id": "0-5b1c"}'), read_object(b"Loading weights: 50 %")
    ({'id': '0-5b1c'}, None)
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_hello(answer: Mapping[str, Any], tag: str | None = None) -> tuple[Caps, str]:
    """Caps and identity from a program's answer to the hello.

    Args:
        answer: the line as an object.
        tag: the user's name for the weights, put after what the program says.

    Raises:
        ModelError: naming each fault, what was expected and what came.

    >>> read_hello({"protocol": 1, "caps": {"outputs": ["images"]}, "identity": "commit 3f2a91c"})[1]
    'commit 3f2a91c'
    """
    if faults := list(_hello_faults(answer, tag)):
        raise ModelError("its answer to the hello can't be used:\n  " + "\n  ".join(faults))
    caps = {**answer["caps"], "outputs": frozenset(answer["caps"]["outputs"])}
    identity = answer.get("identity")
    return Caps(**caps), " ".join(filter(None, [identity, tag]))


def answer_fault(answer: Mapping[str, Any]) -> str:
    """What is wrong with the form of an answer to a request, empty if nothing is.

    >>> answer_fault({"id": "0-5b1c", "image": "0.png"})
    'expected keys among id, images, text, thinking, status, reason, got image'
    """
    if unknown := [key for key in answer if key not in _ANSWER]:
        return f"expected keys among {', '.join(_ANSWER)}, got {', '.join(unknown)}"
    images = answer.get("images")
    if images is not None and not (isinstance(images, list) and all(n is None or isinstance(n, str) for n in images)):
        return f"expected images to be a list of file names or null, got {str(images)[:80]!r}"
    for name in ("text", "thinking", "status", "reason"):
        if not isinstance(answer.get(name) or "", str):
            return f"expected {name} to be a string or null, got {str(answer[name])[:80]!r}"
    if (status := answer.get("status") or "ok") not in OUTPUT_STATUSES:
        return f"expected a status of {', '.join(OUTPUT_STATUSES)}, got {status!r}"
    return ""


def _hello_faults(answer: Mapping[str, Any], tag: str | None) -> Iterator[str]:
    if answer.get("protocol") != PROTOCOL:
        yield f"protocol: expected {PROTOCOL}, got {answer.get('protocol')!r}"
    caps, identity = answer.get("caps"), answer.get("identity")
    if not isinstance(caps, dict) or "outputs" not in caps:
        yield f'caps: expected an object with at least "outputs", got {caps!r}'
    for name, value in caps.items() if isinstance(caps, dict) else ():
        if name not in _CAPS:
            yield f"caps.{name}: expected one of {', '.join(_CAPS)}"
        elif not _CAPS[name][1](value):
            yield f"caps.{name}: expected {_CAPS[name][0]}, got {value!r}"
    if not (isinstance(identity, str) and identity) and not (identity is None and tag):
        yield (
            f"identity: expected a string that says what the weights are (a commit, a hash of the files; no path), "
            f"got {identity!r}; or give them a name with --model-tag NAME, tag= in Python"
        )
    if unknown := set(answer) - {"protocol", "caps", "identity"}:
        yield f"expected protocol, caps and identity, got also {', '.join(sorted(unknown))}"


def _number(least: int, *, null: bool) -> tuple[str, Callable[[Any], bool]]:
    def fits(value: Any) -> bool:
        return null if value is None else type(value) is int and value >= least

    return f"a whole number of {least} or more{', or null' if null else ''}", fits


def _some_outputs(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(kind in ("text", "images") for kind in value)


_FLAG: tuple[str, Callable[[Any], bool]] = ("true or false", lambda value: isinstance(value, bool))
_CAPS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "outputs": ('a list of "text" and/or "images"', _some_outputs),
    "placement": (f"one of {', '.join(PLACEMENTS)}", lambda value: value in PLACEMENTS),
    "interleaved": _FLAG,
    "multi_turn": _FLAG,
    "min_images": _number(0, null=False),
    "max_images": _number(0, null=True),
    "min_side": _number(1, null=True),
    "max_prompt_tokens": _number(1, null=True),
    "max_batch": _number(1, null=False),
    "honours_images": _FLAG,
    "seeded": _FLAG,
}
