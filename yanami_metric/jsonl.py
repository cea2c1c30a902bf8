"""Append-only JSON Lines, found by dialogue: one record a line, flushed as it is written.

Every record starts with the key "dialogue", so that opening a file needs no JSON parsing, and holding it needs eight
bytes a line whatever the size of the run. A last line torn by a crash is dropped; any other damage is an error.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from yanami_dataset.errors import RunFolderError

_HEAD = re.compile(rb'\{"dialogue": ("(?:[^"\\]|\\.)*")')


class JsonLines:
    """One file of records.

    Args:
        path: may not exist yet; its folder must.
        writable: whether `append` will be called; drops a torn last line from the file.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path = path
        self._lock = Lock()
        self._offsets: dict[str, array[int]] = {}
        self._end = self._scan()
        self._writer = path.open("ab") if writable else None
        if self._writer is not None:
            self._writer.truncate(self._end)
        self._reader = path.open("rb") if path.exists() else None

    def _scan(self) -> int:
        """Note where each line starts; return where the last whole line ends."""
        if not self.path.exists():
            return 0
        end = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                head = _HEAD.match(line)
                if head is None:
                    raise RunFolderError(
                        f"{self.path}, line {number}: expected a record that starts with a dialogue, got {line[:80]!r}"
                    )
                self._note(json.loads(head[1]), end)
                end += len(line)
        return end

    def _note(self, dialogue: str, offset: int) -> None:
        self._offsets.setdefault(dialogue, array("Q")).append(offset)

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it is on its way to the disk when this returns, whatever happens to the process."""
        if self._writer is None:
            raise ValueError(f"{self.path} was opened for reading")
        if next(iter(record)) != "dialogue":
            raise ValueError(f"expected a record that starts with its dialogue, got keys {list(record)}")
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        with self._lock:  # a rollout writes while a judge reads
            self._writer.write(line)
            self._writer.flush()
            self._note(record["dialogue"], self._end)
            self._end += len(line)

    def of(self, dialogue: str) -> list[dict[str, Any]]:
        """The records of one dialogue in the order they were written."""
        with self._lock:
            return list(self._read(self._offsets.get(dialogue, ())))

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in self._offsets.values())

    def _read(self, offsets: Any) -> Iterator[dict[str, Any]]:
        if self._reader is None and offsets:
            self._reader = self.path.open("rb")
        for offset in offsets:
            assert self._reader is not None  # noqa: S101 - opened above when there is anything to read
            self._reader.seek(offset)
            try:
                yield json.loads(self._reader.readline())
            except ValueError as error:
                raise RunFolderError(f"{self.path}, byte {offset}: expected a JSON record, got {error}") from None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was appended stays."""
        for file in (self._writer, self._reader):
            if file is not None:
                file.close()
