"""The built-in baselines: an oracle, one that changes nothing, one that draws nothing.

They bound what a score can mean: `reference` is the ceiling, `copy-last` what doing nothing earns, `blank` the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from yanami_dataset.schema import Dialogue
from yanami_metric.records import Caps, Output, Request


class Lookup(Protocol):
    """Finds a dialogue by its id."""

    def get(self, id: str) -> Dialogue:
        """The dialogue of that id."""
        ...


class Reference:
    """The oracle: draws each target, as PNG, and answers with the reference answer. Built with the dialogues."""

    caps = Caps()
    identity = "baseline:reference/1"

    def __init__(self, dialogues: Lookup) -> None:
        self._dialogues = dialogues

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """The ground truth; a slot without a target stays missing."""
        return [self._output(request) for request in requests]

    def _output(self, request: Request) -> Output:
        dialogue = self._dialogues.get(request.dialogue)
        if request.question is not None:
            answers = {question.id: question.answer for question in dialogue.questions}
            return Output(text=answers[request.question])
        indices = [slot.index for slot in dialogue.slots_of(request.turn)]
        roles = [None if index is None else dialogue.image_info[index].role for index in indices]
        targets = [index if role == "target" else None for index, role in zip(indices, roles, strict=True)]
        return Output(images=[None if index is None else _as_png(dialogue.images[index]) for index in targets])


def _as_png(data: bytes) -> bytes:
    from yanami_dataset.images import encode_png, inspect, open_rgb

    return data if inspect(data).format == "PNG" else encode_png(open_rgb(data))


class CopyLast:
    """Draws the last image it was shown, unchanged, and answers with the user's last text."""

    caps = Caps()
    identity = "baseline:copy-last/1"

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """The last image for every slot; none shown: missing."""
        return [self._output(request) for request in requests]

    def _output(self, request: Request) -> Output:
        if request.expects == "text":
            return Output(text=request.messages[-1].text)
        shown = [part.index for message in request.messages for part in message.image_parts]
        if not shown or shown[-1] is None:
            return Output(status="missing_output", reason="no image was shown")
        return Output(images=[request.images[shown[-1]].read()] * request.count)


class Blank:
    """Draws a white image of the size asked for, and answers nothing."""

    caps = Caps()
    identity = "baseline:blank/1"
    default_size = (256, 256)  # pixels, where the request names none

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """White images; to a question, no text."""
        return [
            Output() if request.expects == "text" else Output(images=[_white(request.size)] * request.count)
            for request in requests
        ]


@lru_cache(maxsize=16)
def _white(size: tuple[int, int] | None) -> bytes:
    from PIL import Image

    from yanami_dataset.images import encode_png

    return encode_png(Image.new("RGB", size or Blank.default_size, "white"))
