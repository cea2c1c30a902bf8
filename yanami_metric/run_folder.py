"""The run folder: the one record of a run (one model x one data set x one placement).

    run.json                              settings (specs, identities, data revision), judges, versions; no secrets
    outputs/<track>/outputs.jsonl         one line per output; the last line of an item counts
    outputs/<track>/images/               what was drawn
    verdicts.jsonl                        one line per judge call, with the raw reply
    prompts/                              the prompt files of judges that read one
    scores.json, scores.<judge>.json, report.md, report.html

A track is a history mode, or a further generation of it (`gt-g1`). Images are written before the line that names them,
and files that are rewritten are replaced in one step, so that a process may be killed at any point.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError
from yanami_metric.jsonl import JsonLines
from yanami_metric.records import HISTORIES, ImageRef, track

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in a run folder: `file` is relative to it."""

    file: str
    sha256: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A line of outputs.jsonl: what became of one request.

    `images` are in slot order, None for one that is missing; `extras` are images beyond what was asked for, not judged.
    """

    dialogue: str
    turn: int
    question: str | None
    key: str
    status: str
    reason: str = ""
    images: tuple[StoredImage | None, ...] = ()
    extras: tuple[StoredImage, ...] = ()
    text: str | None = None
    thinking: str | None = None
    seconds: float = 0.0
    asked_size: tuple[int, int] | None = None  # width x height; what was drawn has its own

    @classmethod
    def load(cls, line: Mapping[str, Any]) -> OutputRecord:
        """From a line of outputs.jsonl."""
        images = tuple(StoredImage(**image) if image else None for image in line["images"])
        extras = tuple(StoredImage(**image) for image in line["extras"])
        asked = tuple(line["asked_size"]) if line["asked_size"] else None
        return cls(**{**line, "images": images, "extras": extras, "asked_size": asked})

    def line(self) -> dict[str, Any]:
        """As a line of outputs.jsonl."""
        images = [image and asdict(image) for image in self.images]
        named = {field: getattr(self, field) for field in self.__dataclass_fields__}
        return {**named, "images": images, "extras": [asdict(image) for image in self.extras]}

    def slot_status(self, ordinal: int) -> str:
        """The status of one slot: the output's, or `missing_output` where its image is missing."""
        if self.status == "ok" and (ordinal >= len(self.images) or self.images[ordinal] is None):
            return "missing_output"
        return self.status


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def safe_name(text: str) -> str:
    """A file name for any string: unchanged where it is harmless, else with a hash so that no two become one.

    >>> safe_name("mini-fusion-0001"), safe_name("../x")
    ('mini-fusion-0001', 'x-d6b96a97')
    """
    name = re.sub(r"[^a-z0-9._-]+", "_", text).strip("._-")[:80]
    if name and name == text:
        return name
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".lstrip("-")


class RunFolder:
    """A run folder, opened; use it as a context manager.

    Args:
        path: the folder.
        settings: what makes this run the same run; written on creation, compared ever after. None: as it is on disk.
        writable: whether outputs and verdicts will be appended; only one process at a time may.

    Raises:
        RunFolderError: the folder holds a run with other settings (the difference is given), or none at all.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any] | None = None, *, writable: bool = False) -> None:
        self.path = Path(path)
        if settings is None and not (self.path / "run.json").is_file():
            raise RunFolderError(f"{self.path}: expected a run folder with a run.json, as `yanami rollout` makes it")
        self._lock = self._locked() if writable else None
        self._writable = writable
        self._outputs: dict[str, JsonLines] = {}
        self._verdicts: JsonLines | None = None
        try:
            self.meta = self._agree(settings)
        except RunFolderError:
            self.close()
            raise

    def _locked(self) -> Any:
        from filelock import FileLock, Timeout

        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise RunFolderError(
                f"{self.path}: another process is writing this run; wait for it or use --out"
            ) from None
        return lock

    def _agree(self, settings: Mapping[str, Any] | None) -> dict[str, Any]:
        file = self.path / "run.json"
        asked = json.loads(json.dumps(settings))  # as it will be read back: tuples are lists
        if asked is None or file.is_file():
            meta: dict[str, Any] = json.loads(file.read_text())
        else:
            meta = {"schema": SCHEMA, "settings": asked, "made_with": _versions(), "judges": []}
            self.write_json("run.json", meta)
        asked = meta["settings"] if asked is None else asked
        differences = _differences("", meta["settings"], asked)
        if differences:
            listed = "\n  ".join(differences)
            raise RunFolderError(
                f"{self.path} holds a run with other settings:\n  {listed}\nUse another --out, or delete the folder."
            )
        return meta

    @property
    def settings(self) -> dict[str, Any]:
        """What makes this run the same run."""
        return dict(self.meta["settings"])

    @property
    def judges(self) -> list[dict[str, Any]]:
        """The judges that were asked, in the order they first were."""
        return list(self.meta["judges"])

    def add_judges(self, entry: dict[str, Any]) -> None:
        """Write down who judges, once."""
        entry = json.loads(json.dumps(entry))
        if entry not in self.meta["judges"]:
            self.meta["judges"].append(entry)
            self.write_json("run.json", self.meta)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files and let others write."""
        for lines in (*self._outputs.values(), self._verdicts):
            if lines is not None:
                lines.close()
        self._outputs, self._verdicts = {}, None
        if self._lock is not None:
            self._lock.release()

    @property
    def histories(self) -> tuple[str, ...]:
        """The history modes of which there are outputs, in their usual order."""
        return tuple(history for history in HISTORIES if self.tracks(history))

    def tracks(self, history: str) -> tuple[str, ...]:
        """The tracks of one history mode of which there are outputs: the mode itself, and its further generations."""
        found: list[str] = []
        while (self.path / "outputs" / track(history, len(found)) / "outputs.jsonl").is_file():
            found.append(track(history, len(found)))
        return tuple(found)

    def outputs(self, track: str) -> JsonLines:
        """The outputs of one track."""
        if track not in self._outputs:
            folder = self.path / "outputs" / track
            if self._writable:
                (folder / "images").mkdir(parents=True, exist_ok=True)
            self._outputs[track] = JsonLines(folder / "outputs.jsonl", writable=self._writable)
        return self._outputs[track]

    @property
    def verdicts(self) -> JsonLines:
        """All judge calls."""
        if self._verdicts is None:
            self._verdicts = JsonLines(self.path / "verdicts.jsonl", writable=self._writable)
        return self._verdicts

    def current(self, track: str, dialogue: str) -> dict[tuple[int, str | None], OutputRecord]:
        """The latest output of each (turn, question) of a dialogue."""
        records = (OutputRecord.load(line) for line in self.outputs(track).of(dialogue))
        return {(record.turn, record.question): record for record in records}

    def append_output(self, track: str, record: OutputRecord) -> None:
        """Write one output; its images must be stored already."""
        self.outputs(track).append(record.line())

    def store_image(self, track: str, name: str, data: bytes, width: int, height: int) -> StoredImage:
        """Write an image of width x height pixels under outputs/<track>/images/."""
        file = f"outputs/{track}/images/{name}"
        write_atomic(self.path / file, data)
        return StoredImage(file, hashlib.sha256(data).hexdigest(), width, height)

    def image(self, stored: StoredImage) -> ImageRef:
        """A stored image, read when needed."""
        return ImageRef(stored.sha256, stored.width, stored.height, partial(self._read, stored.file))

    def has(self, record: OutputRecord) -> bool:
        """Whether all files that a record names are there."""
        images = (*record.images, *record.extras)
        return all((self.path / image.file).is_file() for image in images if image is not None)

    def _read(self, file: str) -> bytes:
        path = (self.path / file).resolve()
        if not path.is_relative_to(self.path.resolve()):
            raise RunFolderError(f"{self.path}: an output names the file {file!r} outside the run folder")
        return path.read_bytes()

    def keep_prompt(self, kind: str, hash: str, text: str) -> None:
        """Keep a prompt file under its hash, which run.json names: prompts of one's own may change later."""
        path = self.path / "prompts" / f"{kind}-{hash[:12]}.md"
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, text.encode())

    def write_json(self, name: str, value: Any) -> Path:
        """Write a JSON file of the folder in one step; NaN is refused."""
        write_atomic(self.path / name, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n")
        return self.path / name


def _versions() -> dict[str, str]:
    from yanami_dataset import __version__

    return {"yanami": __version__, "python": platform.python_version()}


def _differences(where: str, stored: Any, asked: Any) -> list[str]:
    if isinstance(stored, dict) and isinstance(asked, dict):
        found = []
        for name in {**stored, **asked}:
            found += _differences(f"{where}.{name}" if where else name, stored.get(name), asked.get(name))
        return found
    return [] if stored == asked else [f"{where}: the folder has {stored!r}, asked for is {asked!r}"]
