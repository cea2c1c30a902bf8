"""Chat logs as JSON Lines: what chat clients and trainers write, one dialogue a line.

A line has `messages`, a list of {role, content}, and optionally `id`, `scenario`, `images`, `turns`, `questions`,
`checks`, `source` and `extra`. Content is one of
- a string, in which every `<image>` stands for the next of `images` (LLaMA-Factory, ms-swift); the blanks around it go;
- a list of parts: {"type": "text", "text"}, {"type": "image"} for the next of `images` (TRL), {"type": "image",
  "image": a path or data: URI}, {"type": "image_url", "image_url": {"url"}} (OpenAI). A null source is as good as none.

An entry of `images`, like the image of a part, is a path, a data: URI, or {path | bytes (base64) | url}.
- An image of the user is a reference. One with the bytes of an image that was there before, drawn or uploaded, is that
  image (the latest such) mentioned again.
- An image of the assistant is a slot, and what it holds is a target (ground truth) or observed (what some system drew):
  said by "role" on the part or on the entry of `images`, else by the option `assistant_images`. It is never guessed.
- A slot without ground truth is an assistant image whose entry in `images` is null; or, where the line has no `images`
  (absent, null or empty), one without a source. A user image always needs a source.

A leading system message is kept in `extra` as "system" and not shown to models. So are keys that nothing here knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from yanami_dataset.errors import DataError, InvariantError, SourceError, SpecError
from yanami_dataset.importers import fields
from yanami_dataset.importers.pool import AssistantImages, Pool
from yanami_dataset.importers.sources import ImageSources, shown, source_of
from yanami_dataset.schema import SCENARIOS, Dialogue, Message, Part, validate

TAG = "<image>"
KEYS = ("id", "scenario", "messages", "images", "turns", "questions", "checks", "source", "extra")


def read(
    path: Path,
    *,
    assistant_images: AssistantImages | None = None,
    scenario: str | None = None,
    on_bad: Callable[[DataError], object] | None = None,
) -> Iterator[Dialogue]:
    """The dialogues of a file, in order; only one is in memory at a time.

    `assistant_images` and `scenario` hold where a line doesn't say itself. `on_bad` is called with each line's problem
    and reading goes on with the next line; without it the first problem raises.

    Raises:
        SpecError: an option has a value that makes no sense.
        SourceError: with file, line, dialogue, field and value; always for a file that isn't there or has no lines.
    """
    if assistant_images not in (None, "target", "observed"):
        raise SpecError(f"expected assistant images to be target or observed, got {assistant_images!r}")
    if scenario is not None and scenario not in SCENARIOS:
        raise SpecError(f"expected a scenario of {', '.join(SCENARIOS)}, got {scenario!r}")
    return _dialogues(path, _Reader(path, assistant_images, scenario), on_bad)


def _dialogues(path: Path, reader: _Reader, on_bad: Callable[[DataError], object] | None) -> Iterator[Dialogue]:
    lines = 0
    for number, line in _lines(path):
        lines += 1
        try:
            dialogue = reader.dialogue(number, line)
        except SourceError as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            yield dialogue
    if not lines:
        raise SourceError(f"{path}: expected a dialogue a line, got an empty file")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered from 1, empty ones left out."""
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    yield number, line
    except OSError as error:
        raise SourceError(f"expected a JSON Lines file, got {path}: {error.strerror}") from error


class _Reader:
    """Turns lines into dialogues; knows which ids there were."""

    def __init__(self, path: Path, assistant_images: str | None, scenario: str | None) -> None:
        self._path, self._assistant_images, self._scenario = path, assistant_images, scenario
        self._sources = ImageSources(path.parent)
        self._lines: dict[str, int] = {}

    def dialogue(self, number: int, line: bytes) -> Dialogue:
        where = f"{self._path}, line {number}"
        try:
            record = _record(line)
            id = self._id(number, record)
            where += f", dialogue {id!r}"
            dialogue = self._build(number, id, record)
            validate(dialogue)
        except InvariantError as error:
            raise SourceError(f"{where}: {'; '.join(error.problems)}") from error
        except DataError as error:
            raise SourceError(f"{where}: {error}") from error
        self._lines[id] = number
        return dialogue

    def _id(self, number: int, record: dict[str, Any]) -> str:
        value = record.get("id")
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        id = f"{self._path.stem}-{number}" if value is None else fields.text("id", value)
        if id in self._lines:
            raise SourceError(f"id: expected one that no other dialogue has, got {id!r} as in line {self._lines[id]}")
        return id

    def _scenario_of(self, record: dict[str, Any]) -> str:
        value = self._scenario if record.get("scenario") is None else record["scenario"]
        if value is None:
            raise SourceError(f"scenario: expected {' | '.join(SCENARIOS)} in the line or by --scenario, got none")
        return fields.text("scenario", value)

    def _build(self, number: int, id: str, record: dict[str, Any]) -> Dialogue:
        _check_keys(record)
        extra = _extra(record)
        pool, queue = Pool(self._sources, self._assistant_images), _Queue(record.get("images"))
        messages = tuple(_messages(record, extra, pool, queue))
        queue.close()
        return Dialogue(
            id=id,
            scenario=self._scenario_of(record),
            messages=messages,
            turns=fields.turns(record.get("turns"), len(messages) // 2),
            images=tuple(pool.images),
            image_info=tuple(pool.info),
            questions=fields.questions(record.get("questions")),
            checks=fields.checks(record.get("checks")),
            source=fields.text("source", record.get("source") or f"{self._path.name}, line {number}"),
            extra=json.dumps(extra, ensure_ascii=False),
        )


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
        if b"\\u" in line:
            json.dumps(record, ensure_ascii=False).encode("utf-8")  # half a surrogate pair, which no file can hold
    except UnicodeDecodeError as error:
        bad = line[error.start : error.start + 4]
        raise SourceError(f"expected UTF-8, got the bytes {bad!r} at byte {error.start} of the line") from error
    except UnicodeEncodeError as error:
        raise SourceError(f"expected Unicode text, got {shown(error.object[error.start : error.end])}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"expected a JSON object, got {shown(line)}: {error}") from error
    if not isinstance(record, dict):
        raise SourceError(f"expected a JSON object, one a line, got {type(record).__name__}: {shown(record)}")
    return record


def _check_keys(record: dict[str, Any]) -> None:
    for key in record.keys() - set(KEYS):
        if close := get_close_matches(key, KEYS, n=1, cutoff=0.85):
            raise SourceError(f"expected the key {close[0]!r}, got {key!r}")


def _extra(record: dict[str, Any]) -> dict[str, Any]:
    extra = record.get("extra") or {}
    if not isinstance(extra, dict):
        raise SourceError(f"extra: expected an object, got {shown(extra)}")
    return {**extra, **{key: value for key, value in record.items() if key not in KEYS}}


def _messages(record: dict[str, Any], extra: dict[str, Any], pool: Pool, queue: _Queue) -> Iterator[Message]:
    values = record.get("messages")
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        hint = ": rename conversations, from and value" if "conversations" in record else ""
        raise SourceError(f"messages: expected a list of {{role, content}}, got {shown(values)}{hint}")
    first = 1 if values and values[0].get("role") == "system" else 0
    if first:
        extra["system"] = _system(values[0].get("content"))
    for i, value in enumerate(values[first:], start=first):
        role, where = value.get("role"), f"messages[{i}]"
        if role not in ("user", "assistant"):
            raise SourceError(f"{where}.role: expected user or assistant (system only first), got {shown(role)}")
        parts = _parts(f"{where}.content", value.get("content"))
        yield Message(role, tuple(_part(at, role, (i - first) // 2, part, pool, queue) for at, part in parts))


def _part(where: str, role: str, turn: int, part: dict[str, Any], pool: Pool, queue: _Queue) -> Part:
    if part["type"] == "text":
        return Part("text", part["text"])
    try:
        source, said = source_of(part), part
        if source is None and queue.used:
            at, source = queue.take()
            where += f" ({at})"
            if isinstance(source, dict):
                said = {**part, **{key: value for key, value in source.items() if value is not None}}
                source = source_of(source)
        if source is None and role == "assistant":
            return Part("image")
        place = pool.mention if role == "user" else pool.draw
        return Part("image", index=place(source, turn, said))
    except DataError as error:
        raise SourceError(f"{where}: {error}") from error


def _system(content: Any) -> str:
    parts = [part for _, part in _parts("messages[0].content", content)]
    if any(part["type"] != "text" for part in parts):
        raise SourceError("messages[0].content: expected a system message of text, got one with an image")
    return "\n".join(part["text"] for part in parts)


def _parts(where: str, content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each part is, and the part as {"type": "text", "text"} or {"type": "image", ...}."""
    if isinstance(content, str):
        yield from ((where, part) for part in _split(content))
        return
    if not isinstance(content, list):
        raise SourceError(f"{where}: expected a string or a list of parts, got {shown(content)}")
    for i, part in enumerate(content):
        at = f"{where}[{i}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            yield at, {"type": "text", "text": fields.text(f"{at}.text", part.get("text"))}
        elif kind in ("image", "image_url"):
            yield at, {**part, "type": "image"}
        else:
            raise SourceError(f"{at}: expected a part of type text, image or image_url, got {shown(part)}")


def _split(content: str) -> Iterator[dict[str, Any]]:
    if TAG not in content:
        yield {"type": "text", "text": content}
        return
    for n, piece in enumerate(content.split(TAG)):
        if n:
            yield {"type": "image"}
        if piece.strip():
            yield {"type": "text", "text": piece.strip()}


class _Queue:
    """The line's `images`, used up in order; `used` is False where there are none."""

    def __init__(self, value: Any) -> None:
        if value is not None and not isinstance(value, list):
            raise SourceError(f"images: expected a list of images, got {shown(value)}")
        self._images: list[Any] = value or []
        self._next = 0
        self.used = bool(value)

    def take(self) -> tuple[str, Any]:
        """Where the next one is, and its value."""
        if self._next >= len(self._images):
            raise SourceError(f"images: expected one per mention, got {len(self._images)} and more mentions")
        self._next += 1
        return f"images[{self._next - 1}]", self._images[self._next - 1]

    def close(self) -> None:
        """Refuse what no message mentioned."""
        if self._next < len(self._images):
            raise SourceError(f"images: expected one per mention, got {len(self._images)} and {self._next} mentions")
