"""`diffusers:<id or folder>`, or a pipeline object: images from a pipeline of diffusers.

    --set num_inference_steps=4     to the pipeline's call; lists and null as JSON
    --set load.dtype=bfloat16       to loading: dtype, device, offload, compile, attention, lora (`diffusers_loading`)
    --set shorten=true              leave out the oldest text of a prompt that the pipeline would cut
    --set declare.list=single       what a class takes that isn't in the table, or otherwise (`diffusers_table`)

The dialogue is given as one prompt (`flatten`) with its images in the order of their labels. Knows requests, no history
modes.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import SpecError
from yanami_metric.models.diffusers_calls import Caller, Drawn, Sample, fitted
from yanami_metric.models.diffusers_loading import open_source
from yanami_metric.models.diffusers_prompts import Prompter
from yanami_metric.models.diffusers_table import PipelineClass, lookup
from yanami_metric.models.identity import options_suffix
from yanami_metric.records import Caps, Model, Output, Request

if TYPE_CHECKING:
    from PIL.Image import Image

DECLARE = "declare."  # prefix of options
_OURS = ("prompt", "generator", "output_type", "return_dict", "num_images_per_prompt")  # arguments of the call


class DiffusersModel:
    """A pipeline of diffusers.

    Every sample is drawn with a generator of its own on the CPU, so that the same seed gives the same image alone, in
    another order and, within 2/255, in a batch. The size asked for is fitted to what the class can draw. Images smaller
    than it takes are enlarged, and the output's reason says so.

    Args:
        source: a folder, a Hub id, or a `DiffusionPipeline`.
        load: loading options; see `diffusers_loading.open_source`.
        call: arguments of the pipeline's call; names that start with `declare.` are declarations.
        tag: names weights that have no identity of their own, or one too slow to find out.
        text_to_image: draws slots with no image in view; None: the pipeline does if its class can.
        shorten: leave out the oldest messages of a prompt that is too long, rather than refuse it.
        declare: what the pipeline's class takes, field by field of `PipelineClass`; goes before the table.

    Raises:
        MissingExtraError: torch or diffusers isn't installed.
        ModelError: nothing there, or no pipeline.
        SpecError: options that the call doesn't take, or an unknown class that isn't declared.
    """

    def __init__(
        self,
        source: Any,
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
        tag: str | None = None,
        text_to_image: Model | None = None,
        shorten: bool = False,
        declare: Mapping[str, Any] | None = None,
    ) -> None:
        call = dict(call or {})
        declared = {name: call.pop(name) for name in list(call) if name.startswith(DECLARE)}
        declared = {name.removeprefix(DECLARE): value for name, value in declared.items()} | dict(declare or {})
        self._source = open_source(source, load or {}, tag)
        kind = self._source.kind
        self.takes: PipelineClass = lookup(kind.__name__, declared)
        self._call = {**dict(self.takes.defaults), **call}
        self._accepts = frozenset(_arguments(kind, self.takes, call))
        length = self._call.get("max_sequence_length")
        self._prompter = Prompter(self.takes, self._source.component, length, shorten=shorten)
        self._text_to_image = text_to_image
        # how many prompts go into a call is not what is drawn
        kept = {name: value for name, value in declared.items() if name != "max_batch"}
        changes = {**call, **({"shorten": True} if shorten else {}), **({"declare": kept} if kept else {})}
        self.identity = self._source.identity + options_suffix(changes)
        if text_to_image is not None:
            self.identity += f" text_to_image={text_to_image.identity}"

    @cached_property
    def caps(self) -> Caps:
        """Images only; placement `front`, as images are passed beside the prompt, which calls them by their labels."""
        takes = self.takes
        blind = takes.list == "none"
        return Caps(
            outputs=frozenset({"images"}),
            placement="text_only" if blind else "front",
            interleaved=False,
            multi_turn=False,
            min_images=0 if self._can_do_without else 1,
            max_images=takes.most_images,
            min_side=takes.min_side,
            max_prompt_tokens=self._prompter.limit(),
            # a batch of requests with other images each is no batch to a class whose prompts share their images
            max_batch=1 if takes.list == "shared_flat" else takes.max_batch,
            honours_images=not blind,
        )

    @property
    def _can_do_without(self) -> bool:
        return bool(self.takes.no_image) or self._text_to_image is not None

    def unsupported(self, request: Request) -> str:
        """Why the pipeline can't take a request; "" if it can. Prompts are measured with its own tokenizer."""
        shown, most = len(request.images), self.takes.most_images
        if request.expects == "text":
            return "a pipeline of diffusers answers no questions"
        if most is not None and shown > most:
            return f"the pipeline takes at most {most} images, {shown} are shown"
        if not shown and self._text_to_image is not None:
            return self._word_of_other(request)
        if not shown and not self.takes.no_image:
            return "no image is in view, and the pipeline needs one; --text-to-image names a model for such slots"
        if self.takes.max_aspect and (worst := max(map(_aspect, request.images), default=1)) > self.takes.max_aspect:
            return f"the pipeline takes images of at most {self.takes.max_aspect} : 1, one is {worst:.1f} : 1"
        return self._prompter.fault(request)

    def _word_of_other(self, request: Request) -> str:
        own_word = getattr(self._text_to_image, "unsupported", None)
        return str(own_word(request)) if own_word else ""

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """Draw every slot of every request; see the class for what is promised.

        Raises:
            torch.OutOfMemoryError: and other errors of the device, which aren't a sample's own.
        """
        outputs: dict[int, Output] = {}
        samples: list[Sample] = []
        others: list[int] = []
        images = _Images(self.takes.min_side)
        for i, request in enumerate(requests):
            if reason := self.unsupported(request):
                outputs[i] = Output(status="unsupported", reason=reason)
            elif not request.images and self._text_to_image is not None:
                others.append(i)
            else:
                samples += self._samples(i, request, images)
        outputs.update(zip(others, self._by_other([requests[i] for i in others]), strict=True))
        drawn = self._caller.draw(samples) if samples else []
        for i in sorted({sample.request for sample in samples}):
            mine = [(s, d) for s, d in zip(samples, drawn, strict=True) if s.request == i]
            outputs[i] = _output([d for _, d in mine], [note for s, _ in mine for note in s.notes])
        return [outputs[i] for i in range(len(requests))]

    def _by_other(self, requests: Sequence[Request]) -> Iterator[Output]:
        """What the text-to-image model draws, in batches of its size."""
        size = max(1, self._text_to_image.caps.max_batch) if self._text_to_image else 1
        for start in range(0, len(requests), size):
            assert self._text_to_image is not None  # noqa: S101 - nothing is asked of it otherwise
            yield from self._text_to_image.generate(requests[start : start + size])

    def close(self) -> None:
        """Free the pipeline, if we loaded it, and the text-to-image model."""
        if (close := getattr(self._text_to_image, "close", None)) is not None:
            close()
        self.__dict__.pop("_caller", None)
        self._source.close()
        gc.collect()

    @cached_property
    def _caller(self) -> Caller:
        return Caller(self._source.pipeline, self.takes, self._call, self._accepts)

    def _samples(self, i: int, request: Request, images: _Images) -> Iterable[Sample]:
        size = fitted(request.size, self.takes) if request.size else None
        for ordinal in range(request.count):
            flat = self._prompter.flat(request, ordinal)
            notes = [f"{flat.dropped} of the oldest messages left out"] if flat.dropped else []
            shown = []
            for position, ref in enumerate(flat.images, 1):
                image = images.read(ref.sha256, ref.read)
                if image.size != (ref.width, ref.height):
                    notes.append(f"image {position} enlarged to {image.width} x {image.height}")
                shown.append(image)
            shas = tuple(ref.sha256 for ref in flat.images)
            yield Sample(i, flat.text, tuple(shown), shas, request.seeds[ordinal], size, tuple(notes))


class _Images:
    """Images of a batch, each decoded once and enlarged if its shorter side is below what the class takes."""

    def __init__(self, min_side: int) -> None:
        self._min_side = min_side
        self._known: dict[str, Image] = {}

    def read(self, sha256: str, read: Any) -> Image:
        if sha256 not in self._known:
            self._known[sha256] = self._enlarged(read())
        return self._known[sha256]

    def _enlarged(self, data: bytes) -> Image:
        from PIL.Image import Resampling

        from yanami_dataset.images import open_rgb

        image = open_rgb(data)
        short = min(image.size)
        if short >= self._min_side:
            return image
        width, height = (max(self._min_side, round(side * self._min_side / short)) for side in image.size)
        return image.resize((width, height), Resampling.BICUBIC)


def _aspect(image: Any) -> float:
    return float(max(image.width, image.height) / min(image.width, image.height))


def _arguments(kind: type, takes: PipelineClass, call: Mapping[str, Any]) -> list[str]:
    """The names of the arguments of the class's call.

    Raises:
        SpecError: it doesn't take what the table or the user gives it, or the user gives what is ours.
    """
    names = list(inspect.signature(kind.__call__).parameters)
    if takes.list != "none" and takes.image not in names:
        raise SpecError(f"declare.image: {kind.__name__} takes no {takes.image!r}, but {', '.join(names[1:])}")
    for name in call:
        if name in (*_OURS, takes.image):
            raise SpecError(f"{name}: this argument of the pipeline's call is set by the rollout")
        if name not in names:
            guidance = f"; its guidance is {', '.join(takes.guidance) or 'none'}" if "guidance" in name else ""
            raise SpecError(f"{name}: the call of {kind.__name__} takes {', '.join(names[1:])}{guidance}")
    return names


def _output(drawn: Sequence[Drawn], notes: Sequence[str]) -> Output:
    """What became of the slots of one request."""
    failed = next((d for d in drawn if d.status == "generation_error"), None)
    if failed is not None:
        return Output(status=failed.status, reason=failed.reason)
    reasons = [*dict.fromkeys(notes), *(f"image {k}: {d.reason}" for k, d in enumerate(drawn) if d.reason)]
    images = [d.image for d in drawn]
    status = "ok" if any(images) else drawn[0].status
    return Output(images=images, status=status, reason="; ".join(reasons))
