"""A dialogue as one prompt, for models that take a text and a list of images rather than messages.

The form, all of it ours (the paper doesn't give one):

    <the current instruction>

    Draw image 2 of the 3 asked for.                                only where several are, each by a call of its own
    Image 1: <placeholder>                                          only where the model's prompts need placeholders
    Images 1 to 3 are in one picture, each under its label.         only where a grid is shown

    The dialogue so far:
    User: <text, with [Image 1] where it shows or mentions an image>
    Assistant: [Image 2]

The instruction comes first, where a tokenizer that cuts at its limit can't cut it. `[Image k]` is the k-th image
passed. Knows requests, no model, no library of models and no history modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from yanami_dataset.errors import ModelError
from yanami_dataset.schema import Message, Part
from yanami_metric.records import ImageRef, Request

HISTORY = "The dialogue so far:"
_ROLES = {"user": "User", "assistant": "Assistant"}


def bracketed(label: int) -> str:
    """How history writes a mention of an image.

    >>> bracketed(2)
    '[Image 2]'
    """
    return f"[Image {label}]"


@dataclass(frozen=True, slots=True)
class Flat:
    """A flattened request.

    `images` are in the order of their labels. `dropped` counts the earlier messages, the oldest, that were left out.
    """

    text: str
    images: tuple[ImageRef, ...]
    dropped: int = 0


def flatten(
    request: Request,
    *,
    tag: Callable[[int], str] = bracketed,
    placeholder: Callable[[int], str] | None = None,
    ordinal: int | None = None,
    limit: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> Flat:
    """The dialogue of a request as one prompt; the form is in this module's docstring.

    Args:
        request: of any placement; its last message is the current instruction.
        tag: writes a mention of the image with this label, if the image itself is passed rather than a grid.
        placeholder: what the model's prompt needs once for each image passed, by its position from 1.
        ordinal: which of several images asked for is to be drawn, from 0; None: not said.
        limit: the most tokens, special ones included if `count_tokens` counts them. Whole messages are left out, the
            oldest first, until the prompt fits; the instruction and the placeholders always stay.
        count_tokens: counts by the model's own tokenizer; needed with `limit`.

    Raises:
        ModelError: the prompt doesn't fit even without all earlier messages.

    >>> from yanami_dataset.schema import Message, Part
    >>> said = Message("user", (Part("text", "A cat."),)), Message("assistant", (Part("text", "Nice."),))
    >>> messages = (*said, Message("user", (Part("text", "Draw it."),)))
    >>> print(flatten(Request("k", "d", 1, messages, (), "images", 1, (7,))).text)
    Draw it.
    <BLANKLINE>
    The dialogue so far:
    User: A cat.
    Assistant: Nice.
    """
    labels = [image.labels or (i + 1,) for i, image in enumerate(request.images)]
    order = sorted(range(len(labels)), key=lambda i: labels[i])
    messages = _without_captions(request.messages, labels)
    lines = [_line(message, labels, tag) for message in messages]
    notes = [text for position, i in enumerate(order, 1) if (text := _note(labels[i], position, placeholder))]
    if ordinal is not None and request.count > 1:
        notes.insert(0, f"Draw image {ordinal + 1} of the {request.count} asked for.")
    history = [f"{_ROLES[m.role]}: {line}" for m, line in zip(messages[:-1], lines[:-1], strict=True) if line]

    def prompt(dropped: int) -> str:
        earlier = [HISTORY, *history[dropped:]] if dropped < len(history) else []
        return "\n\n".join("\n".join(block) for block in (lines[-1:], notes, earlier) if block)

    dropped = 0 if limit is None else _fewest_dropped(prompt, len(history), limit, count_tokens)
    return Flat(prompt(dropped), tuple(request.images[i] for i in order), dropped)


def _fewest_dropped(
    prompt: Callable[[int], str], most: int, limit: int, count_tokens: Callable[[str], int] | None
) -> int:
    """The smallest number of messages to leave out so that the prompt fits, found by halving."""
    if count_tokens is None:
        raise TypeError("flatten: expected count_tokens beside limit, got None")
    if (tokens := count_tokens(prompt(most))) > limit:
        raise ModelError(f"the current instruction alone has {tokens} tokens, the model takes at most {limit}")
    low, high = 0, most  # `high` fits
    while low < high:
        middle = (low + high) // 2
        if count_tokens(prompt(middle)) <= limit:
            high = middle
        else:
            low = middle + 1
    return high


def _note(label: tuple[int, ...], position: int, placeholder: Callable[[int], str] | None) -> str:
    """The line about one image passed; empty if there is nothing to say."""
    mark = placeholder(position) if placeholder else ""
    if len(label) > 1:
        about = f"Images {label[0]} to {label[-1]} are in one picture, each under its label."
        return f"{about} {mark}" if mark else about
    return f"Image {label[0]}: {mark}" if mark else ""


def _line(message: Message, labels: Sequence[tuple[int, ...]], tag: Callable[[int], str]) -> str:
    """A message as text; images are their tags, and a grid, which the note is about, is none."""
    mentions = {bracketed(label[0]): tag(label[0]) for label in labels if len(label) == 1}
    written = []
    for part in message.content:
        if part.type == "text":
            text = (part.text or "").strip()
            written.append(mentions.get(text, text))
        elif part.index is not None and len(labels[part.index]) == 1:
            written.append(tag(labels[part.index][0]))
    return " ".join(text for text in written if text)


def _without_captions(messages: Sequence[Message], labels: Sequence[tuple[int, ...]]) -> list[Message]:
    """The messages without what the placement put before images.

    That are captions, and, where all images stand in front and the text mentions each, the images in front too: a
    mention is where the dialogue has the image.
    """
    pairs = [list(_captioned(message, labels)) for message in messages]
    front = []
    for part, caption in pairs[0]:
        if part.type != "image" and not caption:
            break
        front.append((part, caption))
    mentioned = {part.text for message in messages for part in message.content if part.type == "text"}
    in_front = [part.index for part, caption in front if not caption]
    all_in_front = len(in_front) == len(labels)
    if all_in_front and all(len(label) > 1 or bracketed(label[0]) in mentioned for label in labels):
        pairs[0] = pairs[0][len(front) :]
    return [
        Message(message.role, tuple(part for part, caption in kept if not caption))
        for message, kept in zip(messages, pairs, strict=True)
    ]


def _captioned(message: Message, labels: Sequence[tuple[int, ...]]) -> Iterator[tuple[Part, bool]]:
    """Each part, and whether it is only the caption of the image after it."""
    after = (*message.content[1:], None)
    for part, following in zip(message.content, after, strict=True):
        index = following.index if following is not None and following.type == "image" else None
        yield part, part.type == "text" and index is not None and part.text in _captions(labels[index])


def _captions(label: tuple[int, ...]) -> tuple[str, ...]:
    """What `history.place` writes before an image with these labels."""
    if len(label) == 1:
        return (f"Image {label[0]}:",)
    return (f"Images {label[0]} to {label[-1]}, labelled in one picture:",)
