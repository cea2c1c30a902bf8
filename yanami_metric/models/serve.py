"""The other side of `command:`, for a Python program with an environment of its own: copy this file beside it.

Needs Python 3.8 and the standard library, nothing of yanami. (Annotations are newer; nobody evaluates them.) The
program:

    from serve import Output, options, serve

    given = options()                       # first: what the user set, and prints go to standard error from here on
    model = load_the_weights(**given["load"])

    def generate(requests):                 # up to caps["max_batch"] of them; one Output each, in order
        return [Output(images=[draw(r, seed) for seed in r.seeds]) for r in requests]

    serve(generate, caps={"outputs": ["images"], "max_images": 3}, identity="commit 3f2a91c")

Requests and outputs have the fields that they have in yanami, so one class serves both ways. The lines that go to and
fro are described in yanami_metric/models/command.py. Knows no model.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PROTOCOL = 1


class Output:
    """What a model gave for one request.

    Args:
        images: in slot order: a PIL image, encoded bytes, the path of a file, or None for one that is missing.
        text: the answer to a question.
        thinking: what came before it, never judged.
        status: "ok", "missing_output", "model_refused", "generation_error" or "unsupported".
        reason: why, if it isn't ok.
    """

    def __init__(
        self,
        images: Sequence[Any] = (),
        text: str | None = None,
        thinking: str | None = None,
        status: str = "ok",
        reason: str = "",
    ) -> None:
        self.images, self.text, self.thinking, self.status, self.reason = images, text, thinking, status, reason


class Part:
    """A part of a message: `type` "text" with `text`, or "image" with `index` into the request's images."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.type = given["type"]
        self.text = given.get("text")
        self.index = given.get("index")


class Message:
    """`role`, "user" or "assistant", and `content`, a list of parts."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.role = given["role"]
        self.content = [Part(part) for part in given["content"]]

    @property
    def text(self) -> str:
        """All its text, parts joined by a blank."""
        return " ".join(part.text for part in self.content if part.type == "text" and part.text)

    @property
    def image_parts(self) -> list[Part]:
        """Its image parts, in order."""
        return [part for part in self.content if part.type == "image"]


class Image:
    """An input image: a file, not to be changed, and the numbers under which the text speaks of it."""

    def __init__(self, path: str, labels: Sequence[int]) -> None:
        self.path = path
        self.labels = tuple(labels)

    def read(self) -> bytes:
        """The encoded bytes."""
        return Path(self.path).read_bytes()


class Request:
    """What is asked: `messages`, `images`, and what is expected.

    `expects` is "images" (`count` of them, `seeds` one for each, `size` width and height in pixels or None) or "text".
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self.key = given["id"]
        self.messages = [Message(message) for message in given["messages"]]
        self.images = [Image(path, given["labels"][i]) for i, path in enumerate(given["images"])]
        self.expects = given["expects"]
        self.count = given["count"]
        self.seeds = tuple(given["seeds"])
        self.size = tuple(given["size"]) if given["size"] else None


class _Line:
    """The connection: private copies of standard input and output, whose places are taken by others."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self.lines = os.fdopen(os.dup(0), "rb")
        self.answers = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # what the program starts must not eat requests
        os.close(nothing)
        os.dup2(2, 1)  # and whatever prints, C libraries too, must not be taken for an answer
        self.hello = self.read()
        if self.hello is None or self.hello.get("protocol") != PROTOCOL:
            raise SystemExit(f"expected a hello of yanami, protocol {PROTOCOL}, got {self.hello!r}")
        self.written = 0

    def read(self) -> dict[str, Any] | None:
        line = self.lines.readline()
        return json.loads(line.decode("utf-8")) if line else None

    def write(self, answer: dict[str, Any]) -> None:
        self.answers.write(json.dumps(answer).encode("ascii") + b"\n")
        self.answers.flush()


_connection: list[_Line] = []  # none or one


def _connect() -> _Line:
    if not _connection:
        _connection.append(_Line())
    return _connection[0]


def options() -> dict[str, Any]:
    """What the user set: {"load": {...}, "call": {...}}. To be called before anything prints; serve() does it too."""
    hello = _connect().hello or {}
    return {"load": hello["load"], "call": hello["call"]}


def serve(
    generate: Callable[[list[Request]], Sequence[Output]],
    caps: dict[str, Any],
    identity: str | None = None,
) -> None:
    """Answer requests until there are no more.

    Args:
        generate: from a list of requests to a list with one Output for each, in order. What it raises becomes the
            output of the request that raised.
        caps: what the model can do: "outputs" (a list of "text" and/or "images"), and where they apply "placement",
            "max_batch", "min_images", "max_images", "min_side", "max_prompt_tokens", "honours_images", "seeded".
        identity: what the weights are: a commit, a hash of the files; a path is none. None: the user gives a tag.
    """
    line = _connect()
    line.write({"protocol": PROTOCOL, "caps": caps, "identity": identity})
    batch: list[Request] = []
    while True:
        given = line.read()
        if given is None:
            return
        batch.append(Request(given))
        if not given["more"]:
            for request, output in _ask(generate, batch):
                line.write(_answer(line, request, output))
            batch = []


def _ask(generate: Callable[[list[Request]], Sequence[Output]], batch: list[Request]) -> list[Any]:
    """Pairs of request and output; a batch that raises is asked again one by one."""
    try:
        outputs = list(generate(batch))
        if len(outputs) != len(batch) or not all(hasattr(output, "images") for output in outputs):
            raise TypeError(
                f"expected {len(batch)} Output objects, got {[type(output).__name__ for output in outputs]}"
            )
    except Exception as error:  # noqa: BLE001 - the user's code; the error is the output
        traceback.print_exc()
        if len(batch) > 1:
            return [pair for request in batch for pair in _ask(generate, [request])]
        reason = f"{type(error).__name__}: {error}"
        return [(batch[0], Output(status="generation_error", reason=reason))]
    return [(request, outputs[i]) for i, request in enumerate(batch)]


def _answer(line: _Line, request: Request, output: Output) -> dict[str, Any]:
    answer = {"id": request.key, "text": output.text, "thinking": output.thinking}
    answer.update({"status": output.status, "reason": output.reason})
    try:
        answer["images"] = [_save(line, image) for image in output.images]
    except Exception as error:  # noqa: BLE001 - images are the user's too
        traceback.print_exc()
        reason = f"an image can't be saved: {type(error).__name__}: {error}"
        answer.update({"status": "generation_error", "reason": reason})
    return answer


def _save(line: _Line, image: Any) -> str | None:
    if image is None:
        return None
    line.written += 1
    name = f"{line.written}.png"  # what it is, is read from its content
    path = Path((line.hello or {})["output_folder"]) / name
    if isinstance(image, (bytes, bytearray, memoryview)):
        path.write_bytes(image)
    elif isinstance(image, (str, os.PathLike)):
        shutil.copyfile(os.fspath(image), str(path))
    else:
        image.save(str(path), format="PNG", compress_level=1)
    return name
