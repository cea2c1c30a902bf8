"""Dialogue x Model x history -> Output. Knows nothing of judges and scores.

The dialogues of a window run side by side, in waves where a mode shows the model its own images: first what needs none
of them, then what needs the first, and so on. What the run folder already holds is not made again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from yanami_dataset.errors import ImageError
from yanami_dataset.images import encode_png, inspect
from yanami_dataset.schema import Dialogue, Question
from yanami_metric.history import Settings, Storyteller
from yanami_metric.records import OUTPUT_STATUSES, RETRIED, Caps, ImageRef, Model, Output, Request
from yanami_metric.run_folder import OutputRecord, RunFolder, StoredImage, safe_name

# In these modes an earlier output of the model is part of the request.
SHOWS_OWN = ("self", "last")

Item = tuple[int, str | None]  # (turn, question id, or None for the turn's images)


@dataclass
class _Track:
    """One dialogue on its way through one history mode."""

    dialogue: Dialogue
    settings: Settings
    stored: dict[Item, OutputRecord]
    own: dict[tuple[int, int], ImageRef | None] = field(default_factory=dict)
    failed: str = ""  # why an earlier image isn't there although the model is not to blame

    def __post_init__(self) -> None:
        self.teller = Storyteller(self.dialogue, self.settings, self.own)


def items(dialogue: Dialogue, history: str, caps: Caps) -> Iterator[tuple[int, int, Question | None]]:
    """(wave, turn, question or None for the images) of everything that a model can be asked for.

    A wave needs the outputs of those before it.
    """
    drawing = dialogue.generation_turns
    shows_own = history in SHOWS_OWN and "images" in caps.outputs
    for turn in drawing if "images" in caps.outputs else ():
        yield (sum(t < turn for t in drawing) if shows_own else 0), turn, None
    for question in dialogue.questions if "text" in caps.outputs else ():
        yield (sum(t <= question.turn for t in drawing) if shows_own else 0), question.turn, question


class Rollout:
    """One model under one history mode, into one run folder.

    Args:
        model: asked in batches of at most `caps.max_batch`, fewer after it ran out of memory.
        folder: where outputs go, and where those that exist already are found.
        settings: history mode, placement, seed and which generation.
        on_output: called for every item with its record and whether it was made just now.
    """

    def __init__(
        self,
        model: Model,
        folder: RunFolder,
        settings: Settings,
        on_output: Callable[[OutputRecord, bool], None] = lambda record, fresh: None,
    ) -> None:
        self.model, self.folder, self.settings, self.on_output = model, folder, settings, on_output
        self.size = max(1, model.caps.max_batch)

    def run(self, dialogues: Sequence[Dialogue]) -> None:
        """Have every output of some dialogues, a window that runs side by side."""
        tracks = [_Track(d, self.settings, self.folder.current(self.settings.track, d.id)) for d in dialogues]
        waves: dict[int, list[tuple[_Track, int, Question | None]]] = {}
        for track in tracks:
            for wave, turn, question in items(track.dialogue, self.settings.history, self.model.caps):
                waves.setdefault(wave, []).append((track, turn, question))
        for wave in sorted(waves):
            self._wave(waves[wave])

    def _wave(self, wave: Sequence[tuple[_Track, int, Question | None]]) -> None:
        pending: list[tuple[_Track, Request]] = []
        identity = self.model.identity
        for track, turn, question in wave:
            request = track.teller.ask(question, identity) if question else track.teller.draw(turn, identity)
            stored = track.stored.get((turn, request.question))
            if stored and self._finished(stored, request.key):
                self._done(track, stored, fresh=False)
            elif track.failed:
                self._save(track, request, _infrastructure(track.failed))
            elif reason := unsupported(self.model, request):
                self._save(track, request, Output(status="unsupported", reason=reason))
            else:
                pending.append((track, request))
        # the longest first: what doesn't fit into memory shows at once
        self._generate(sorted(pending, key=lambda item: _length(item[1]), reverse=True))

    def _finished(self, stored: OutputRecord, key: str) -> bool:
        return stored.key == key and stored.status not in RETRIED and self.folder.has(stored)

    def _generate(self, pending: Sequence[tuple[_Track, Request]]) -> None:
        done = 0
        while done < len(pending):
            batch = pending[done : done + self.size]
            start = time.perf_counter()
            outputs = _ask(self.model, [request for _, request in batch])
            if outputs is None:
                self.size = max(1, len(batch) // 2)  # for the rest of the run: what follows is hardly smaller
                continue
            seconds = (time.perf_counter() - start) / len(batch)
            for (track, request), output in zip(batch, outputs, strict=True):
                self._save(track, request, output, seconds)
            done += len(batch)

    def _save(self, track: _Track, request: Request, output: Output, seconds: float = 0.0) -> None:
        record = _Keeper(self.folder, self.settings.track, request).keep(output, seconds)
        self.folder.append_output(self.settings.track, record)
        self._done(track, record, fresh=True)

    def _done(self, track: _Track, record: OutputRecord, *, fresh: bool) -> None:
        if record.question is None:
            for ordinal, image in enumerate(record.images):
                track.own[record.turn, ordinal] = self.folder.image(image) if image else None
            if record.status == "generation_error" and self.settings.history in SHOWS_OWN:
                track.failed = track.failed or f"turn {record.turn} of this dialogue failed: {record.reason}"
        self.on_output(record, fresh)


def unsupported(model: Model, request: Request) -> str:
    """Why a model can't take a request, by its caps or by its own word; empty if it can."""
    caps, shown = model.caps, len(request.images)
    if caps.max_images is not None and shown > caps.max_images:
        return f"the model takes at most {caps.max_images} images, {shown} are shown"
    if request.expects == "images" and shown < caps.min_images:
        return f"the model needs at least {caps.min_images} images, {shown} are shown"
    if request.expects == "images" and shown and not caps.honours_images:
        return "the model draws without looking at images; --placement text_only shows it none"
    own_word: Callable[[Request], str] = getattr(model, "unsupported", lambda request: "")
    return own_word(request)


def _length(request: Request) -> tuple[int, int]:
    return len(request.images), sum(len(part.text or "") for message in request.messages for part in message.content)


def _infrastructure(reason: str) -> Output:
    return Output(status="generation_error", reason=reason)


def _ask(model: Model, requests: Sequence[Request]) -> list[Output] | None:
    """Call a model; what it raises becomes the status of the one request that raised. None: too many at a time."""
    try:
        outputs = list(model.generate(requests))
    except Exception as error:  # noqa: BLE001 - foreign code; the error is the output, and the run goes on
        if len(requests) > 1:
            if _out_of_memory(error):
                return None
            return [output for request in requests for output in _ask(model, [request]) or ()]
        return [_infrastructure(f"{type(error).__name__}: {error}")]
    if len(outputs) != len(requests) or not all(isinstance(output, Output) for output in outputs):
        what = f"expected {len(requests)} Output objects from generate(), got {[type(o).__name__ for o in outputs]}"
        return [_infrastructure(what)] * len(requests)
    return outputs


def _out_of_memory(error: Exception) -> bool:
    """Python's own, or torch's, which is known by its name so that torch needn't be here."""
    return isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Puts one output into the run folder."""

    folder: RunFolder
    track: str
    request: Request

    def keep(self, output: Output, seconds: float) -> OutputRecord:
        status, reason = output.status, output.reason
        if status not in OUTPUT_STATUSES:
            status, reason = "generation_error", f"expected a status of {', '.join(OUTPUT_STATUSES)}, got {status!r}"
        images: tuple[StoredImage | None, ...] = ()
        extras: tuple[StoredImage, ...] = ()
        if status == "ok" and self.request.expects == "text" and not (output.text or "").strip():
            status, reason = "missing_output", "no text"
        elif status == "ok" and self.request.expects == "images":
            images, extras, faults = self._images(output)
            reason = "; ".join(faults) or reason
            if not any(images):
                status, reason = "missing_output", reason or "no image"
        request = self.request
        return OutputRecord(
            request.dialogue,
            request.turn,
            request.question,
            request.key,
            status,
            reason,
            images,
            extras,
            output.text,
            output.thinking,
            round(seconds, 4),
            request.size,
        )

    def _images(self, output: Output) -> tuple[tuple[StoredImage | None, ...], tuple[StoredImage, ...], list[str]]:
        faults: list[str] = []
        stored: list[StoredImage | None] = []
        for ordinal, image in enumerate(output.images):
            try:
                stored.append(self._store(ordinal, image))
            except ImageError as error:
                stored.append(None)
                faults.append(f"image {ordinal}: {error}")
        count = self.request.count
        stored += [None] * (count - len(stored))
        return tuple(stored[:count]), tuple(image for image in stored[count:] if image), faults

    def _store(self, ordinal: int, image: object) -> StoredImage | None:
        if image is None:
            return None
        data = encoded(image)
        facts = inspect(data)  # decodes it whole: a truncated image is no image
        name = f"{safe_name(self.request.dialogue)}-t{self.request.turn}-{ordinal}.{facts.format.lower()}"
        return self.folder.store_image(self.track, name, data, facts.width, facts.height)


def encoded(image: object) -> bytes:
    """The bytes of an image that a model gave: its own if it is encoded already, else PNG."""
    from PIL.Image import Image

    if isinstance(image, bytes):
        return image
    if isinstance(image, Image):
        return encode_png(image)
    raise ImageError(f"expected encoded bytes or a PIL image from the model, got {type(image).__name__}")
