"""Evaluating each checkpoint that appears in a folder, once, in a process of its own.

A checkpoint is a subfolder whose name holds its step. What was scored is noted beside the runs, so that a watch goes on
where it was stopped. Knows folders and commands; what is run in the process is for others.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError, SpecError
from yanami_metric.run_folder import RunFolder, write_atomic
from yanami_metric.runs import Run
from yanami_metric.training.curves import curves, pictures
from yanami_metric.training.trackers import Tracker, known

MARKERS = ("trainer_state.json", "model_index.json")  # written last, by the Trainer and by diffusers
NOTE = "watch.json"
INCOMPLETE = 3  # exit code of `yanami eval`: something could not be scored
CHECKPOINT, OUT, STEP = "{checkpoint}", "{out}", "{step}"
_TOLD = 2000  # characters of what a process that failed said last

Signature = tuple[tuple[str, int, int], ...]


def step_of(name: str) -> int | None:
    """The step in the name of a checkpoint: the number after a word such as checkpoint or step, else the last one.

    >>> step_of("checkpoint-500"), step_of("global_step12-ema2"), step_of("run2-0300"), step_of("final")
    (500, 12, 300, None)
    """
    named = re.search(r"(?:checkpoint|step|iter|iteration|epoch)[-_]?(\d+)", name)
    numbers = [named[1]] if named else re.findall(r"\d+", name)
    return int(numbers[-1]) if numbers else None


def signature(folder: Path) -> Signature:
    """Names, sizes and times of all files of a folder: changes while it is written."""
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file():
                stat = path.stat()
                found.append((path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:  # renamed or deleted just now
            continue
    return tuple(found)


@dataclass
class Watch:
    """Watches a folder.

    Args:
        folder: whose subfolders are checkpoints; links and names that start with "." or "tmp" are none.
        out: where their runs go, each under its name, with a note of those that are done.
        command: what is run, with {checkpoint}, {out} and {step} in place of what they stand for; no shell is involved.
            It has to leave a scored run in {out}.
        trackers: where curves and pictures go.
        settle: seconds that a checkpoint without a marker file must not have changed.
        tell: is given a line about everything that happens.

    Raises:
        SpecError: no such folder, or a command without {checkpoint}.
        RunFolderError: the runs in `out` were made by another command.
    """

    folder: Path
    out: Path
    command: Sequence[str]
    trackers: Sequence[Tracker] = ()
    settle: float = 10.0
    tell: Callable[[str], None] = print
    _seen: dict[str, tuple[Signature, float]] = field(default_factory=dict, init=False)
    _failed: dict[str, Signature] = field(default_factory=dict, init=False)
    _done: dict[str, int | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise SpecError(f"expected a folder of checkpoints, got {self.folder}")
        if not any(CHECKPOINT in part for part in self.command):
            raise SpecError(f"expected {CHECKPOINT} in what is to be run, got {' '.join(self.command)}")
        note = self.out / NOTE
        if note.is_file():
            noted = json.loads(note.read_text())
            if noted["command"] != list(self.command):
                raise RunFolderError(
                    f"{self.out} holds what another command made:\n  {' '.join(noted['command'])}\n"
                    f"asked for is\n  {' '.join(self.command)}\nUse another --out, or delete the folder."
                )
            self._done = noted["done"]

    def run(self, every: float, *, once: bool = False) -> int:
        """Evaluate what is there and, unless `once`, what comes, looking every so many seconds.

        Returns:
            How many checkpoints failed; without `once` it runs until it is interrupted.
        """
        while True:
            for checkpoint in self._ready():
                self._evaluate(checkpoint)
            waiting = [c for c in self._checkpoints() if c.name not in self._done and c.name not in self._failed]
            if once and not waiting:
                return len(self._failed)
            time.sleep(min(every, max(self.settle / 4, 0.1)) if waiting else every)

    def _checkpoints(self) -> list[Path]:
        """By step, those without one last."""
        found = [
            path
            for path in self.folder.iterdir()
            if path.is_dir() and not path.is_symlink() and not path.name.startswith((".", "tmp"))
        ]
        return sorted(found, key=lambda path: (step_of(path.name) is None, step_of(path.name) or 0, path.name))

    def _ready(self) -> Iterator[Path]:
        """Checkpoints to be evaluated now."""
        for path in self._checkpoints():
            if path.name in self._done:
                continue
            now = signature(path)
            if self._failed.get(path.name) == now or not self._is_complete(path, now):
                continue
            if path.name in self._failed:
                shutil.rmtree(self.out / path.name, ignore_errors=True)  # half a run, of weights that are no more
                del self._failed[path.name]
            yield path

    def _is_complete(self, path: Path, now: Signature) -> bool:
        before, since = self._seen.get(path.name, ((), 0.0))
        if before != now:
            since = time.monotonic()
            self._seen[path.name] = now, since
        if not now:
            return False
        return any((path / marker).is_file() for marker in MARKERS) or time.monotonic() - since >= self.settle

    def _evaluate(self, path: Path) -> None:
        before, out, step = signature(path), self.out / path.name, step_of(path.name)
        self.tell(f"{path.name}: evaluating")
        code, said = _called(_filled(self.command, path, out, step))
        if code not in (0, INCOMPLETE) or not (out / "scores.json").is_file():
            self._failed[path.name] = before
            why = said or "it said nothing"
            self.tell(f"{path.name}: failed with exit code {code}; tried again when it changes. {why}")
            return
        scores = json.loads((out / "scores.json").read_text())
        self.tell(f"{path.name}: {_line(scores)}{' (not everything could be scored)' if code else ''}")
        self._log(path.name, step, out, scores)
        self._done[path.name] = step
        self.out.mkdir(parents=True, exist_ok=True)
        note = {"command": list(self.command), "done": self._done}
        write_atomic(self.out / NOTE, json.dumps(note, indent=2).encode() + b"\n")

    def _log(self, name: str, step: int | None, out: Path, scores: dict[str, Any]) -> None:
        if step is None and self.trackers:
            self.tell(f"{name}: expected a step in its name, found none: nothing is logged")
        if step is None or not self.trackers:
            return
        run = Run.open(out)
        with RunFolder(run.path) as folder:
            images = pictures(run.data, folder)
        for tracker in self.trackers:
            try:
                tracker.log(known(curves(scores)), images, step)
            except Exception as error:  # noqa: BLE001 - foreign code; the watch goes on, and the scores are kept
                self.tell(f"{name}: {type(tracker).__name__} failed: {type(error).__name__}: {error}")


def eval_command(options: Sequence[str]) -> list[str]:
    """`yanami eval` into {out}, in this Python, with these options."""
    return [sys.executable, "-m", "yanami_metric.cli", "eval", "--quiet", "--out", OUT, *options]


def _filled(command: Sequence[str], path: Path, out: Path, step: int | None) -> list[str]:
    values = {CHECKPOINT: str(path), OUT: str(out), STEP: "" if step is None else str(step)}
    return [re.sub(r"\{(?:checkpoint|out|step)\}", lambda found: values[found[0]], part) for part in command]


def _called(command: Sequence[str]) -> tuple[int, str]:
    """The exit code of a process and the end of what it said on standard error; ends it if we are interrupted."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # noqa: S603
    except OSError as error:
        return 127, str(error)
    try:
        _, said = process.communicate()
    except BaseException:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    return process.returncode, said.strip()[-_TOLD:]


def _line(scores: dict[str, Any]) -> str:
    """The scores of a checkpoint in a line."""
    parts = []
    for history, entry in scores["histories"].items():
        told = []
        for name in ("overall", "vr", "dsu", "sc", "vq"):
            one = entry[name]
            if one["value"] is not None:
                interval = "" if one["low"] is None else f" [{one['low']:.1f}, {one['high']:.1f}]"
                told.append(f"{name} {one['value']:.1f}{interval}")
        parts.append(f"{history} {', '.join(told) or 'no score'}")
    return "; ".join(parts)
