"""`command:<argv>`: a model in a program of its own, in another environment, spoken to in JSON Lines.

The program reads lines on standard input and writes lines on standard output, each a JSON object; whatever else it has
to say goes to standard error. `serve.py` beside this file does all of that for a Python program; it can be copied.

First a hello, and the program's answer once it is ready:

    -> {"protocol": 1, "load": {...}, "call": {...}, "output_folder": "/tmp/…/out"}
    <- {"protocol": 1, "caps": {"outputs": ["text", "images"], "max_batch": 1}, "identity": "commit 3f2a91c"}

`load` and `call` are the user's options. `caps` are the fields of `records.Caps`; only `outputs` is required.
`identity` says what the weights are; it may be left out where the user names them with a tag. Then requests, up to
`max_batch` at once, `more` being how many of the batch are still to come:

    -> {"id": "0-5b1c…", "more": 0, "expects": "images", "count": 1, "seeds": [1094795585], "size": [512, 512],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Image 1:"}, {"type": "image", "index": 0},
                                                  {"type": "text", "text": "Make it red."}]}],
        "images": ["/tmp/…/in/2c26….png"], "labels": [[1]]}
    <- {"id": "0-5b1c…", "images": ["0.png"], "text": null, "thinking": null, "status": "ok", "reason": ""}

`index` points into `images`: files with the data set's bytes, not to be changed. `expects` is "images" (`count` of
them, a seed for each, `size` as width and height in pixels or null) or "text". All of an answer but `id` may be left
out. Its `images` are files inside the output folder, a new name for each, null for one that is missing; they are
deleted once they are read. Answers to one batch may come in any order; the next batch is sent when all are there.

When standard input ends, the program is to end. One that dies, is silent for too long, or writes anything else is
killed with all that it started; what was unanswered is a `generation_error` with the reason and the end of standard
error, and the next request finds it started anew. This module knows nothing of dialogues, history modes and judges.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import inspect
from yanami_metric.models.child import Child, ChildFault
from yanami_metric.models.command_protocol import PROTOCOL, answer_fault, read_hello, read_object, request_line
from yanami_metric.models.identity import options_suffix
from yanami_metric.records import Caps, ImageRef, Output, Request

MAX_IMAGE = 256 << 20  # bytes of an image file that is read
KEPT = 512  # input images on disk; those not used for longest go first
GRACE = 10.0  # seconds to end by itself


class CommandModel:
    """A program as a model; it runs until `close`, and is started again when it has failed.

    Args:
        argv: the program and its arguments, as one string (split as a shell would, but no shell runs) or as a list.
        load: options for the program, sent in the hello; without `timeout`, `start_timeout` and `restarts`, which stand
            for the arguments of that name.
        call: options for the program, sent in the hello.
        tag: a name for the weights, where the program can't say what they are, or after what it says.
        timeout: seconds that it may be silent while requests are unanswered.
        start_timeout: seconds until it has answered the hello; loading weights takes its time.
        restarts: after so many failures in a row and one more it isn't started again.

    Raises:
        SpecError: no program, or options that aren't JSON.
        ModelError: it can't be started, or its answer to the hello can't be used.
    """

    caps: Caps
    identity: str

    def __init__(
        self,
        argv: str | Sequence[str],
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
        tag: str | None = None,
        timeout: float = 600.0,
        start_timeout: float = 1800.0,
        restarts: int = 5,
    ) -> None:
        self.argv = _split(argv)
        self.load, self.call = _options(load, "load"), _options(call, "call")
        self.timeout = _taken(self.load, "timeout", timeout)
        self.start_timeout = _taken(self.load, "start_timeout", start_timeout)
        self.restarts = int(_taken(self.load, "restarts", restarts))
        self._failures = 0  # in a row
        self._last_failure = ""
        self._place = _Place()
        weakref.finalize(self, self._place.clear)
        try:
            _, self._introduced = self._start()
            self.caps, identity = read_hello(self._introduced, tag)
            self.identity = identity + options_suffix({**self.load, **self.call})
        except (ChildFault, ModelError) as error:
            self._place.clear()
            raise ModelError(f"command:{shlex.join(self.argv)}: {error}") from error

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """One output per request; if a batch fails, what it left unanswered is asked again one by one."""
        answered, fault = self._exchange(requests)
        if fault and len(requests) == 1:
            return [Output(status="generation_error", reason=fault)]
        return [answered[i] if i in answered else self.generate([request])[0] for i, request in enumerate(requests)]

    def close(self) -> None:
        """End the program, by itself if it does so in time, and delete its files; a later request starts it again."""
        self._place.clear(GRACE)

    def _exchange(self, requests: Sequence[Request]) -> tuple[dict[int, Output], str]:
        """What was answered, by position, and why the rest wasn't."""
        answered: dict[int, Output] = {}
        try:
            child = self._running()
            self._ask(child, requests, answered)
        except ChildFault as fault:
            self._failures += 1
            self._last_failure = self._last_failure if isinstance(fault, _GivenUp) else str(fault)
            return answered, str(fault)
        finally:
            if len(answered) < len(requests):  # or answers would be taken for those to other requests
                self._place.stop()
        self._place.forget()
        return answered, ""

    def _ask(self, child: Child, requests: Sequence[Request], answered: dict[int, Output]) -> None:
        positions = {f"{i}-{request.key[:16]}": i for i, request in enumerate(requests)}
        for id, i in positions.items():
            request = requests[i]
            paths = [self._place.input(image) for image in request.images]
            child.send(_dump(request_line(request, id, len(requests) - 1 - i, paths)))
        named: set[Path] = set()
        while len(answered) < len(requests):
            answer = _receive(child, self.timeout)
            named_id = str(answer.get("id"))
            i = positions.get(named_id, -1)
            if i < 0 or i in answered:
                what = "twice" if i >= 0 else "what it was not asked"
                raise child.fault(f"answered {what}: id {named_id[:80]!r}")
            answered[i] = self._place.output(answer, named)
            self._failures = 0

    def _running(self) -> Child:
        if self._place.child is not None and self._place.child.alive:
            return self._place.child
        if self._failures > self.restarts:
            raise _GivenUp(
                f"the program failed {self.restarts + 1} times in a row, the last time: {self._last_failure}"
            )
        child, answer = self._start()
        if answer != self._introduced:
            raise child.fault(f"was started again and says {answer!r}, it had said {self._introduced!r}")
        return child

    def _start(self) -> tuple[Child, dict[str, Any]]:
        """Start the program; it and its answer to the hello."""
        self._place.stop()
        outputs = self._place.make()
        try:
            child = self._place.child = Child(self.argv)
        except OSError as error:
            raise ChildFault(f"the program can't be started: {error}") from error
        hello = {"protocol": PROTOCOL, "load": self.load, "call": self.call, "output_folder": str(outputs)}
        child.send(_dump(hello))
        return child, _receive(child, self.start_timeout)


class _GivenUp(ChildFault):
    """It has failed too often to be started again."""


class _Place:
    """The program that runs, and a private folder for the files that go to and fro."""

    def __init__(self) -> None:
        self.child: Child | None = None
        self._folder: Path | None = None
        self._inputs: dict[str, Path] = {}

    def make(self) -> Path:
        """The folder for what the program draws, empty."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="yanami-command-")).resolve()
            (self._folder / "in").mkdir()
        outputs = self._folder / "out"
        shutil.rmtree(outputs, ignore_errors=True)
        outputs.mkdir(exist_ok=True)
        return outputs

    def stop(self, grace: float = 0.0) -> None:
        """End the program."""
        if self.child is not None:
            self.child.stop(grace)
            self.child = None

    def clear(self, grace: float = 0.0) -> None:
        """End the program and delete all files."""
        self.stop(grace)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._inputs.clear()

    @property
    def folder(self) -> Path:
        """The private folder, which is there while the program runs."""
        assert self._folder is not None  # noqa: S101
        return self._folder

    def input(self, image: ImageRef) -> str:
        """The path of a file with the image's bytes as they are; written once."""
        path = self._inputs.pop(image.sha256, None)
        if path is None:
            data = image.read()
            path = self.folder / "in" / f"{image.sha256}.{inspect(data).format.lower()}"
            path.write_bytes(data)
        self._inputs[image.sha256] = path  # what was used most recently is last
        return str(path)

    def forget(self) -> None:
        """Delete the input images that weren't used for longest, beyond KEPT."""
        for sha256 in list(self._inputs)[:-KEPT]:
            self._inputs.pop(sha256).unlink(missing_ok=True)

    def output(self, answer: Mapping[str, Any], named: set[Path]) -> Output:
        """The output that an answer stands for.

        Args:
            answer: the program's line.
            named: the files that answers to the same batch have named; this one's are added.
        """
        try:
            if fault := answer_fault(answer):
                raise ValueError(fault)
            images = self._images(answer.get("images") or [], named)
        except (ValueError, OSError) as error:
            return Output(status="generation_error", reason=f"the program's answer can't be used: {error}")
        return Output(
            images=images,
            text=answer.get("text"),
            thinking=answer.get("thinking"),
            status=answer.get("status") or "ok",
            reason=answer.get("reason") or "",
        )

    def _images(self, names: Sequence[str | None], named: set[Path]) -> list[bytes | None]:
        outputs = self.folder / "out"
        paths = [None if name is None else (outputs / name).resolve() for name in names]
        for path in filter(None, paths):
            if not path.is_relative_to(outputs):
                raise ValueError(f"{str(path)!r} lies outside the output folder {outputs}")
            if path in named:
                raise ValueError(f"{path.name!r} was named for another request: give each image a name of its own")
            if not path.is_file():
                raise ValueError(f"there is no file {path.name!r} in the output folder")
            if (size := path.stat().st_size) > MAX_IMAGE:
                raise ValueError(f"{path.name!r} has {size:,} bytes, more than {MAX_IMAGE:,}")
        images = [None if path is None else path.read_bytes() for path in paths]
        for path in filter(None, paths):
            named.add(path)
            path.unlink(missing_ok=True)
        return images


def _split(argv: str | Sequence[str]) -> list[str]:
    try:
        words = shlex.split(argv) if isinstance(argv, str) else [str(word) for word in argv]
    except ValueError as error:
        raise SpecError(f"command: expected a program and its arguments, got {argv!r} ({error})") from error
    if not words or words == ["<argv>"]:  # as presets have it
        raise SpecError(
            f"command: expected a program and its arguments, got {argv!r}: name the one that runs the model, e.g. "
            "--model 'command:/elsewhere/.venv/bin/python /elsewhere/program.py' (docs/own-models.md)"
        )
    return words


def _options(options: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    found = dict(options or {})
    try:
        _dump(found)
    except (TypeError, ValueError) as error:
        raise SpecError(f"command: expected {name} options that are JSON, got {found!r} ({error})") from error
    return found


def _taken(load: dict[str, Any], name: str, otherwise: float) -> float:
    """An option that is for this side."""
    value = load.pop(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise SpecError(f"command: expected {name} to be a number of 0 or more, got {value!r}")
    return value


def _dump(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, allow_nan=False).encode()


def _receive(child: Child, timeout: float) -> dict[str, Any]:
    line = child.line(timeout)
    found = read_object(line)
    if found is None:
        raise child.fault(f"wrote something else than a JSON object on standard output: {line[:80]!r}")
    return found
