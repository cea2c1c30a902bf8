"""A rollout, decided on but not begun: what will be asked of the model, what it can't take, what is done already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_dataset.images import encode_png, sha256
from yanami_dataset.schema import Dialogue
from yanami_metric.data import Data
from yanami_metric.history import OwnImages, Settings, Storyteller, refuse_unsuitable
from yanami_metric.models import Opened
from yanami_metric.records import ImageRef, Model, Request
from yanami_metric.rollout import items, unsupported
from yanami_metric.run_folder import RunFolder
from yanami_metric.runs import Temporary


@dataclass(frozen=True)
class Conditions:
    """Under what a model is rolled out.

    Args:
        histories: one or more of records.HISTORIES.
        placement: where images stand; None: as the model's caps say.
        max_images: more images than this are shown as one labelled grid; None: as the model's caps say.
        seed: the base seed; each output's own is derived from it.
        generations: how many times each item is rolled out, with different seeds.
    """

    histories: tuple[str, ...] = ("gt",)
    placement: str | None = None
    max_images: int | None = None
    seed: int = 0
    generations: int = 1

    def __post_init__(self) -> None:
        if not self.histories or len(set(self.histories)) != len(self.histories):
            raise SpecError(f"history: expected one or more different modes, got {', '.join(self.histories) or 'none'}")
        if self.generations < 1:
            raise SpecError(f"generations: expected 1 or more, got {self.generations}")
        for history in self.histories:
            Settings(history, self.placement or "interleaved", self.max_images)  # refuses what is unknown

    def settings(self, model: Model) -> list[Settings]:
        """One for each history mode and generation."""
        placement = self.placement or model.caps.placement
        drawing = None if self.placement else model.caps.drawing_placement
        limit = self.max_images if self.max_images is not None else model.caps.max_images or None
        return [
            Settings(history, placement, limit, self.seed, sample, drawing)
            for history in self.histories
            for sample in range(self.generations)
        ]


@dataclass(frozen=True)
class Plan:
    """What is to be run. `described` is what run.json has as its settings."""

    data: Data
    opened: Opened
    conditions: Conditions
    path: Path
    keep: Temporary | None = None

    @property
    def model(self) -> Model:
        """The model."""
        return self.opened.model

    @property
    def settings(self) -> list[Settings]:
        """One for each history mode and generation."""
        return self.conditions.settings(self.model)

    @property
    def described(self) -> dict[str, Any]:
        """What makes this run the same run."""
        caps = asdict(self.model.caps)
        del caps["max_batch"]  # how many at a time is not what is run
        first = self.settings[0]
        return {
            "model": {
                "spec": self.opened.spec,
                "identity": self.model.identity,
                "options": self.opened.options,
                "caps": {**caps, "outputs": sorted(caps["outputs"])},
            },
            "data": self.data.settings,
            "placement": first.placement,
            "drawing_placement": first.drawing_placement,
            "max_images": first.max_images,
            "seed": first.seed,
        }

    def notes(self) -> list[str]:
        """What one should know before it runs, whatever the dialogues."""
        found = [getattr(self.model, "note", "")]
        if self.conditions.generations > 1 and not self.model.caps.seeded:
            found.append("the model takes no seeds: its generations are the same, or differ by chance")
        return [note for note in found if note]

    def models(self) -> dict[str, Model]:
        """The model for each history mode: one that has `prepare` looks at the dialogues first.

        Raises:
            ModelError: the model can't be used with these dialogues.
        """
        prepare: Callable[[Data, str], Model] | None = getattr(self.model, "prepare", None)
        return {h: prepare(self.data, h) if prepare else self.model for h in self.conditions.histories}


EXAMPLES = 50


@dataclass
class Census:
    """What a run will ask for: counts by history mode of images, answers, what the model can't take and why."""

    images: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    draws: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    unsupported: dict[str, Counter[str]] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)  # of unsupported requests: at most EXAMPLES

    @property
    def calls(self) -> int:
        """How many outputs there will be in all."""
        return self.draws.total() + self.answers.total()

    def cost(self, per_image: float, per_answer: float) -> float:
        """What all images and answers cost at these prices, without those that are done or not supported."""
        return self.images.total() * per_image + self.answers.total() * per_answer

    def notes(self) -> list[str]:
        """A line for each reason why some requests can't be taken."""
        return [
            f"{history}: {number} requests are unsupported: {reason}"
            for history, reasons in self.unsupported.items()
            for reason, number in reasons.most_common()
        ]


def take_census(plan: Plan, folder: RunFolder | None = None) -> Census:
    """Refuse what can't run at all, and count the rest.

    Whether the model can take a request is asked of it with stand-ins for the images it has yet to draw.

    Args:
        plan: what is to be run.
        folder: where outputs that exist already are counted as done.

    Raises:
        HistoryError: `gt`, and a dialogue has an earlier slot without an image.
    """
    census = Census()
    picky = _is_picky(plan.model)
    for dialogue in plan.data:
        for history in plan.conditions.histories:
            refuse_unsuitable(dialogue, history)
        for settings in plan.settings:
            census.done[settings.history] += len(folder.current(settings.track, dialogue.id)) if folder else 0
            for request in _requests(dialogue, settings, plan.model, build=picky):
                _count(census, settings.history, request, plan.model)
    return census


def _is_picky(model: Model) -> bool:
    """Whether it may turn out that it can't take a request: only then need requests be built to know."""
    caps = model.caps
    limited = caps.max_images is not None or caps.min_images > 0 or not caps.honours_images
    return limited or hasattr(model, "unsupported")


def _requests(
    dialogue: Dialogue, settings: Settings, model: Model, *, build: bool
) -> Iterator[Request | tuple[str, int]]:
    """Every request, or where they needn't be built, what each expects and how many."""
    teller = Storyteller(dialogue, settings, _stand_ins(dialogue)) if build else None
    for _, turn, question in items(dialogue, settings.history, model.caps):
        if teller is not None:
            yield teller.ask(question) if question else teller.draw(turn)
        else:
            yield ("text", 1) if question else ("images", len(dialogue.slots_of(turn)))


def _count(census: Census, history: str, request: Request | tuple[str, int], model: Model) -> None:
    if isinstance(request, Request):
        reason = unsupported(model, request)
        if reason:
            census.unsupported.setdefault(history, Counter())[reason] += 1
            if len(census.examples) < EXAMPLES:
                item = f"question {request.question!r}" if request.question else f"turn {request.turn}"
                census.examples.append(f"{history}, {request.dialogue}, {item}: {reason}")
            return
        request = (request.expects, request.count)
    expects, number = request
    if expects == "text":
        census.answers[history] += 1
    else:
        census.draws[history] += 1
        census.images[history] += number


def _stand_ins(dialogue: Dialogue) -> OwnImages:
    """Something of the right size in the place of each image that the model has yet to draw."""
    found = {}
    for slot in dialogue.slots:
        info = dialogue.image_info[slot.index] if slot.index is not None else None
        found[slot.turn, slot.ordinal] = _white(info.width, info.height) if info else _white(1024, 1024)
    return found


@lru_cache(maxsize=64)
def _white(width: int, height: int) -> ImageRef:
    from PIL import Image

    data = encode_png(Image.new("RGB", (width, height), "white"))
    return ImageRef(sha256(data), width, height, lambda: data)


def histories(history: str | Sequence[str]) -> tuple[str, ...]:
    """Names from a comma-separated string, or as they are given."""
    return tuple(history.split(",")) if isinstance(history, str) else tuple(history)
