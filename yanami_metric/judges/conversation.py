"""A call as a conversation, for judges that read a prompt: what is judged and, if need be, the repeat request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from yanami_dataset.schema import Message, Part
from yanami_metric.records import JudgeCall

REPEAT = (
    "Your reply can't be used: {fault}\n\n"
    "Reply once more, with one JSON object of the form asked for and nothing before or after it."
)


def conversation(call: JudgeCall) -> Iterator[Message]:
    """What is judged and, in the repeat request, the reply that couldn't be used and what was wrong with it."""
    for message in call.messages:
        yield replace(message, content=tuple(_spaced(message.content)))
    if call.fault:
        if call.last:
            yield Message("assistant", (Part("text", call.last),))
        yield Message("user", (Part("text", REPEAT.format(fault=call.fault)),))


def _spaced(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts, texts on lines of their own: templates write parts one after the other, with nothing between."""
    after_image = False
    for part in parts:
        yield part if part.type == "image" else Part("text", "\n" * after_image + f"{part.text}\n")
        after_image = part.type == "image"
