"""`replay:<folder>`: outputs that were made elsewhere, judged here.

The folder holds `manifest.jsonl`, one line an output:

    {"dialogue": "d1", "turn": 2, "images": ["any/path.png", null]}      the images of a turn in slot order
    {"dialogue": "d1", "question": "q1", "text": "red circle"}           an answer
    {"dialogue": "d1", "turn": 4, "status": "model_refused", "reason": "content policy"}

`"history": "self"` on a line makes it count under that history mode only, and goes before a line without. Files are
found by the manifest, never by their names. Everything is compared with the dialogues before anything runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yanami_dataset.errors import ImageError, ModelError
from yanami_dataset.images import inspect, sha256
from yanami_dataset.schema import Dialogue
from yanami_metric.data import Data
from yanami_metric.records import HISTORIES, OUTPUT_STATUSES, Caps, Output, Request

MANIFEST = "manifest.jsonl"
_LISTED = 20  # problems named in an error; the rest are counted
_KEYS = {"dialogue", "turn", "question", "images", "text", "thinking", "history", "status", "reason"}

_Key = tuple[str, str, int | str]  # history or "", dialogue, turn or question id


@dataclass(frozen=True, slots=True)
class _Line:
    output: dict[str, Any]
    files: tuple[Path | None, ...]


class Replay:
    """Outputs from a folder.

    Raises:
        ModelError: no manifest, or lines or files that can't be used; each is named.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        path = self.folder / MANIFEST
        if not path.is_file():
            raise ModelError(f"replay: expected a manifest at {path}, found none")
        self._lines: dict[_Key, _Line] = {}
        problems: list[str] = []
        content = hashlib.sha256()
        for number, text in enumerate(path.read_bytes().splitlines(), 1):
            if text.strip():
                content.update(text + b"\n")
                problems += [f"line {number}: {problem}" for problem in self._read(text, content)]
        _refuse(path, problems)
        kinds = {"text" if isinstance(item, str) else "images" for _, _, item in self._lines}
        self.caps = Caps(outputs=frozenset(kinds), seeded=False)
        self.identity = "replay:" + content.hexdigest()[:16]
        self._history = ""

    def prepare(self, data: Data, history: str) -> Replay:
        """Compare the manifest with the dialogues and return the model for one history mode.

        Raises:
            ModelError: outputs that are missing, or that no dialogue asks for.
        """
        _refuse(self.folder / MANIFEST, [*self._missing(data, history), *self._extra(data, history)])
        prepared = object.__new__(Replay)
        prepared.__dict__.update(self.__dict__, _history=history)
        return prepared

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """The stored outputs."""
        return [self._output(request) for request in requests]

    def _output(self, request: Request) -> Output:
        line = self._find(request.dialogue, request.question or request.turn, self._history)
        if line is None:
            raise ModelError(f"{self.folder / MANIFEST}: no line for {_name(request.dialogue, request.turn)}")
        images = [None if file is None else file.read_bytes() for file in line.files]
        return Output(images=images, **line.output)

    def _find(self, dialogue: str, item: int | str, history: str) -> _Line | None:
        return self._lines.get((history, dialogue, item)) or self._lines.get(("", dialogue, item))

    def _read(self, text: bytes, content: Any) -> Iterator[str]:
        """Take in one line; yield what is wrong with it."""
        try:
            line = json.loads(text)
        except ValueError as error:
            yield f"expected JSON in UTF-8, got {text[:60]!r} ({error})"
            return
        problems = list(_shape(line))
        yield from problems
        if problems:
            return
        key = (line.pop("history", ""), line.pop("dialogue"), line.pop("question", line.pop("turn", None)))
        if key in self._lines:
            yield f"a second line for {_name(*key[1:])}"
        files = []
        for name in line.pop("images", ()):
            files.append(None if name is None else self.folder / name)
            if name is not None:
                yield from self._file(name, content)
        self._lines[key] = _Line(line, tuple(files))

    def _file(self, name: str, content: Any) -> Iterator[str]:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder):
            yield f"{name!r} lies outside the folder"
        elif not path.is_file():
            yield f"{name!r} is missing"
        else:
            data = path.read_bytes()
            content.update(sha256(data).encode())
            try:
                inspect(data)
            except ImageError as error:
                yield f"{name!r} is unreadable: {error}"

    def _missing(self, data: Data, history: str) -> Iterator[str]:
        for dialogue in data:
            for item in _items(dialogue):
                if _kind(item) in self.caps.outputs and self._find(dialogue.id, item, history) is None:
                    yield f"missing: {_name(dialogue.id, item)}, history {history!r}"

    def _extra(self, data: Data, history: str) -> Iterator[str]:
        known = data.all_ids()
        asked = {dialogue.id: set(_items(dialogue)) for dialogue in data}
        for mode, dialogue, item in self._lines:
            if mode in ("", history) and (dialogue not in known or item not in asked.get(dialogue, {item})):
                yield f"extra: {_name(dialogue, item)}, which the dialogues don't ask for"


def _items(dialogue: Dialogue) -> list[int | str]:
    return [*dialogue.generation_turns, *(question.id for question in dialogue.questions)]


def _kind(item: int | str) -> str:
    return "text" if isinstance(item, str) else "images"


def _name(dialogue: str, item: int | str) -> str:
    return f"dialogue {dialogue!r}, {f'question {item!r}' if isinstance(item, str) else f'turn {item}'}"


def _shape(line: Any) -> Iterator[str]:
    """What is wrong with the form of a manifest line."""
    if not isinstance(line, dict) or not isinstance(line.get("dialogue"), str):
        yield f"expected an object with a dialogue id, got {str(line)[:60]!r}"
        return
    if unknown := set(line) - _KEYS:
        yield f"expected keys among {', '.join(sorted(_KEYS))}, got {', '.join(sorted(unknown))}"
    if isinstance(line.get("turn"), int) == isinstance(line.get("question"), str):
        yield "expected either a turn (a number) or a question (an id)"
    if line.get("status", "ok") not in OUTPUT_STATUSES:
        yield f"expected a status of {', '.join(OUTPUT_STATUSES)}, got {line['status']!r}"
    if line.get("history", "gt") not in HISTORIES:
        yield f"expected a history of {', '.join(HISTORIES)}, got {line['history']!r}"
    images = line.get("images", [])
    if not isinstance(images, list) or not all(name is None or isinstance(name, str) for name in images):
        yield f"expected images to be a list of file names or null, got {str(images)[:60]!r}"
    for name in ("text", "thinking", "reason"):
        if not isinstance(line.get(name, ""), str):
            yield f"expected {name} to be a string, got {str(line[name])[:60]!r}"


def _refuse(path: Path, problems: list[str]) -> None:
    if problems:
        more = f"\n  … and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        raise ModelError(f"{path} can't be used:\n  " + "\n  ".join(problems[:_LISTED]) + more)
