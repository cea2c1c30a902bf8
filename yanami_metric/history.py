"""History mode x placement: what a model is shown of a dialogue. Pure: no files, no pixels, no model.

Two steps. The *view* is what the history mode lets through, as pieces: texts, images, and gaps where an image is not
available. The *placement* turns the view into messages and labelled images. Modes and placements are those of the paper
(`gt`, `self`; interleaved, front, concatenate) and ours (`last`, `none`; `text_only` as the paper runs Janus-Pro).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from yanami_dataset.errors import HistoryError, SpecError
from yanami_dataset.schema import Dialogue, Message, Part, Question
from yanami_metric.grid import grid, with_label
from yanami_metric.records import HISTORIES, PLACEMENTS, ImageRef, Request, track

SEED_VERSION = "yanami-seed/1"
NOT_AVAILABLE = "[image not available]"  # an own image that is missing; never replaced by anything
NOT_SHOWN = "[image not shown]"  # placement text_only

# (turn, ordinal within the message) -> what the model drew there; None or absent: nothing usable
OwnImages = Mapping[tuple[int, int], ImageRef | None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How dialogues are shown to a model.

    Args:
        history: one of HISTORIES.
        placement: one of PLACEMENTS.
        drawing_placement: the placement in requests to draw; None: the same.
        max_images: more available images than this turn `interleaved` and `front` into `concatenate`; None: no limit.
        seed: the base seed.
        sample: which of several generations of the same item.
    """

    history: str = "gt"
    placement: str = "interleaved"
    max_images: int | None = None
    seed: int = 0
    sample: int = 0
    drawing_placement: str | None = None

    @property
    def track(self) -> str:
        """Where its outputs are filed: the history mode, and which further generation.

        >>> Settings("self").track, Settings("self", sample=2).track
        ('self', 'self-g2')
        """
        return track(self.history, self.sample)

    def __post_init__(self) -> None:
        allowed_for = {"history": HISTORIES, "placement": PLACEMENTS, "drawing_placement": (None, *PLACEMENTS)}
        for name, allowed in allowed_for.items():
            if getattr(self, name) not in allowed:
                known = ", ".join(filter(None, allowed))
                raise SpecError(f"{name}: expected one of {known}, got {getattr(self, name)!r}")
        if self.max_images is not None and self.max_images < 1:
            raise SpecError(f"max_images: expected 1 or more, or None, got {self.max_images}; see placement text_only")


@dataclass(frozen=True, slots=True)
class Seen:
    """An image in a view: which one it is within the dialogue, and its content, None when it is not available."""

    id: tuple[int, ...]  # (pool index,) of a reference, (turn, ordinal) of a drawn image
    ref: ImageRef | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of a view."""

    role: Literal["user", "assistant"]
    pieces: tuple[str | Seen, ...]


def seed_of(base: int, dialogue: str, turn: int, slot: int | str, sample: int = 0) -> int:
    """The seed of one output, 0 to 2**31 - 1: a hash of what it is, not of order, batch, shard or history.

    Args:
        slot: the ordinal within the turn, or the id of a question.

    >>> seed_of(0, "d1", 2, 0) == seed_of(0, "d1", 2, 0), seed_of(0, "d1", 2, 0) == seed_of(1, "d1", 2, 0)
    (True, False)
    """
    text = json.dumps([SEED_VERSION, base, dialogue, turn, slot, sample])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def refuse_unsuitable(dialogue: Dialogue, history: str) -> None:
    """Raise HistoryError if `gt` would have to show an earlier slot that has neither a target nor an observed image."""
    if history != "gt":
        return
    last_asked = max((question.turn for question in dialogue.questions), default=-1)
    last_drawn = max(dialogue.generation_turns, default=-1)
    for slot in dialogue.slots:
        if slot.index is None and (slot.turn < last_drawn or slot.turn <= last_asked):
            raise HistoryError(
                f"dialogue {dialogue.id!r}: history 'gt' needs an image in every earlier slot, and turn {slot.turn}, "
                f"slot {slot.ordinal} has none; use --history self, last or none for these dialogues"
            )


def observed_in_history(dialogue: Dialogue) -> int:
    """How many images that `gt` shows as history were once drawn by some system rather than being targets."""
    last = max(dialogue.generation_turns, default=-1)
    return sum(1 for info in dialogue.image_info if info.role == "observed" and info.turn < last)


class Storyteller:
    """Builds the requests of one dialogue under one setting.

    `own` is read when a request is built, so in `self` it may fill while the dialogue goes on.
    """

    def __init__(self, dialogue: Dialogue, settings: Settings, own: OwnImages | None = None) -> None:
        self.dialogue = dialogue
        self.settings = settings
        self.own: OwnImages = own if own is not None else {}
        self._slot_of = {slot.index: (slot.turn, slot.ordinal) for slot in dialogue.slots if slot.index is not None}

    def draw(self, turn: int, identity: str = "") -> Request:
        """The request for the images of a generation turn."""
        count = len(self.dialogue.slots_of(turn))
        seeds = tuple(self._seed(turn, ordinal) for ordinal in range(count))
        pieces = tuple(self._pieces(2 * turn))
        view = [*self._history(2 * turn), Shown("user", pieces)]
        return self._request(turn, view, "images", count, seeds, identity, size=self._size(turn))

    def ask(self, question: Question, identity: str = "") -> Request:
        """The request for the answer to a question, asked after its turn."""
        text = question.question
        if question.choices:
            text += "\n" + "\n".join(f"{chr(65 + i)}. {choice}" for i, choice in enumerate(question.choices))
        images = tuple(self._image(index) for index in question.images)
        view = [*self._history(2 * question.turn + 2), Shown("user", (*images, text))]
        seeds = (self._seed(question.turn, question.id),)
        return self._request(question.turn, view, "text", 1, seeds, identity, question=question.id)

    def context(self, turn: int) -> tuple[tuple[Message, ...], tuple[ImageRef, ...]]:
        """What a judge may see: the dialogue up to the current user message, with ground truth where there is any."""
        with_truth = Storyteller(self.dialogue, Settings("gt"), self.own)
        view = [*with_truth._history(2 * turn), Shown("user", tuple(with_truth._pieces(2 * turn)))]
        return place(view, "interleaved")

    # The view: what the history mode lets through

    def _history(self, end: int) -> Iterator[Shown]:
        """Messages before index `end`, as the mode shows them."""
        if self.settings.history == "none":
            return
        if self.settings.history == "last":
            latest = [piece for i in range(end) for piece in self._pieces(i) if isinstance(piece, Seen)][-1:]
            if latest:
                yield Shown("user", tuple(latest))
            return
        for i in range(end):
            yield Shown(self.dialogue.messages[i].role, tuple(self._pieces(i)))

    def _pieces(self, i: int) -> Iterator[str | Seen]:
        slots = iter(self.dialogue.slots_of(i // 2) if i % 2 else ())
        for part in self.dialogue.messages[i].content:
            if part.type == "text":
                yield part.text or ""
            elif i % 2:
                slot = next(slots)
                yield self._drawn((slot.turn, slot.ordinal), slot.index)
            else:
                yield self._image(part.index)

    def _image(self, index: int | None) -> Seen:
        assert index is not None  # user images always have one (schema)  # noqa: S101
        if index in self._slot_of:
            return self._drawn(self._slot_of[index], index)
        return Seen((index,), self._pool(index))

    def _drawn(self, slot: tuple[int, int], index: int | None) -> Seen:
        """An image in the place of the assistant, as the mode has it: the target only ever in `gt`."""
        if self.settings.history == "gt" and index is not None:
            return Seen(slot, self._pool(index))
        if self.settings.history == "none":
            return Seen(slot, None)
        return Seen(slot, self.own.get(slot))

    def _pool(self, index: int) -> ImageRef:
        info, images = self.dialogue.image_info[index], self.dialogue.images
        return ImageRef(info.sha256, info.width, info.height, lambda: images[index])

    # From view to request

    def _size(self, turn: int) -> tuple[int, int] | None:
        """Width and height to draw: the target's where there is one, else of the latest image of the user."""
        last = 2 * turn
        indices = [part.index for i in range(0, last + 1, 2) for part in self.dialogue.messages[i].image_parts]
        indices += [slot.index for slot in self.dialogue.slots_of(turn) if slot.index is not None][:1]
        if not indices or indices[-1] is None:
            return None
        info = self.dialogue.image_info[indices[-1]]
        return info.width, info.height

    def _seed(self, turn: int, slot: int | str) -> int:
        return seed_of(self.settings.seed, self.dialogue.id, turn, slot, self.settings.sample)

    def _request(
        self,
        turn: int,
        view: Sequence[Shown],
        expects: Literal["images", "text"],
        count: int,
        seeds: tuple[int, ...],
        identity: str,
        *,
        size: tuple[int, int] | None = None,
        question: str | None = None,
    ) -> Request:
        drawing = self.settings.drawing_placement if expects == "images" else None
        messages, images = place(view, drawing or self.settings.placement, self.settings.max_images)
        content = [
            [[message.role, [[part.type, part.text, part.index] for part in message.content]] for message in messages],
            [[image.sha256, image.labels] for image in images],
        ]
        key = hashlib.sha256(json.dumps([identity, content, expects, count, seeds, size]).encode()).hexdigest()
        return Request(
            key, self.dialogue.id, turn, messages, images, expects, count, seeds, size=size, question=question
        )


def place(
    view: Sequence[Shown], placement: str, max_images: int | None = None
) -> tuple[tuple[Message, ...], tuple[ImageRef, ...]]:
    """Turn a view into messages and images; image parts point into the images returned.

    Labels are 1 to n over the images available, in the order of their first mention; a later mention is text.
    """
    labels: dict[tuple[int, ...], ImageRef] = {}
    for piece in (piece for shown in view for piece in shown.pieces if isinstance(piece, Seen)):
        if piece.ref is not None and piece.id not in labels:
            labels[piece.id] = with_label(piece.ref, len(labels) + 1)
    if placement == "text_only":
        return _written(view, lambda seen: NOT_SHOWN if seen.ref else NOT_AVAILABLE), ()
    if max_images is not None and len(labels) > max_images:
        placement = "concatenate"
    available = tuple(labels.values())
    if placement == "interleaved":
        return _interleaved(view, labels), available
    messages = _written(view, lambda seen: f"[Image {labels[seen.id].labels[0]}]" if seen.ref else NOT_AVAILABLE)
    if placement == "concatenate" and len(available) > 1:
        return _in_front(messages, [f"Images 1 to {len(available)}, labelled in one picture:"]), (grid(available),)
    return _in_front(messages, [f"Image {image.labels[0]}:" for image in available]), available


def _written(view: Sequence[Shown], mention: Callable[[Seen], str]) -> tuple[Message, ...]:
    """The view with every image replaced by a text that mentions it."""
    return tuple(
        Message(
            shown.role,
            tuple(Part("text", piece if isinstance(piece, str) else mention(piece)) for piece in shown.pieces),
        )
        for shown in view
    )


def _interleaved(view: Sequence[Shown], labels: Mapping[tuple[int, ...], ImageRef]) -> tuple[Message, ...]:
    """The view with each image at its first mention, its label before it, and text at later ones."""
    seen: set[tuple[int, ...]] = set()
    messages = []
    for shown in view:
        content: list[Part] = []
        for piece in shown.pieces:
            if isinstance(piece, str):
                content.append(Part("text", piece))
            elif piece.ref is None:
                content.append(Part("text", NOT_AVAILABLE))
            else:
                label = labels[piece.id].labels[0]
                if piece.id in seen:
                    content.append(Part("text", f"[Image {label}]"))
                else:
                    content += [Part("text", f"Image {label}:"), Part("image", index=label - 1)]
                    seen.add(piece.id)
        messages.append(Message(shown.role, tuple(content)))
    return tuple(messages)


def _in_front(messages: tuple[Message, ...], captions: Sequence[str]) -> tuple[Message, ...]:
    """Put one captioned image for each caption before the first message's content."""
    front = tuple(
        part for i, caption in enumerate(captions) for part in (Part("text", caption), Part("image", index=i))
    )
    return (Message(messages[0].role, front + messages[0].content), *messages[1:])
