"""A run as an object: its folder, its dialogues, and how its progress is told."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from yanami_metric.data import Data, open_data, reopen
from yanami_metric.run_folder import RunFolder

WINDOW = 16  # dialogues at a time: bounds memory, how far a wave of `self` reaches, and how late judging is

T = TypeVar("T")


class Progress:
    """What the stages report; this one says nothing. Subclass it to show or to stop."""

    def start(self, what: str, total: int) -> None:
        """A stage begins; `total` is the number of steps."""

    def step(self, what: str, status: str, *, fresh: bool) -> None:
        """One output or judge call is there; `fresh` if it was made just now."""

    def spent(self, what: str, tokens: tuple[int, int], cost: float) -> None:
        """Judge calls took so many tokens, in and out, so far; `cost` is 0 where no prices are known."""

    def note(self, text: str) -> None:
        """Something that one should know before the run goes on."""


@dataclass(frozen=True)
class Run:
    """A run folder and the dialogues it is about.

    Build one with `api.rollout`, or open one that exists: `Run.open("runs/mini/baseline-blank")`.
    """

    path: Path
    data: Data
    keep: object = field(default=None, repr=False, compare=False)  # a temporary folder lives as long as its run

    @classmethod
    def open(cls, path: str | Path, dialogues: Any = None) -> Run:
        """An existing run folder.

        Args:
            path: the folder.
            dialogues: only needed where the dialogues existed in memory.

        Raises:
            RunFolderError: it is none, or its data has changed.
        """
        with RunFolder(Path(path)) as folder:
            settings = folder.settings["data"]
        return cls(Path(path), reopen(settings) if dialogues is None else open_data(dialogues))


class Temporary:
    """A folder that is deleted when nobody holds this object any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="yanami-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def default_out(data: Data, model: str, placement: str | None = None) -> Path:
    """runs/<data>/<model>/, always the same for the same command; `placement` is one asked for, if any."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.") or "model"
    return Path("runs") / data.name / (f"{name}-{placement}" if placement else name)


def windows(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of at most WINDOW."""
    source = iter(items)
    while window := list(islice(source, WINDOW)):
        yield window
