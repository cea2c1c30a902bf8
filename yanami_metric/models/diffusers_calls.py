"""Calling a pipeline: which samples go into one call, how their images are handed over, and what came of each.

Knows pipelines and the table's entry of their class; no requests and no files.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yanami_metric.models.diffusers_table import PipelineClass

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Sample:
    """One image to be drawn.

    `request` says what it belongs to; `shas` are what its images are known by; `size` is width x height in pixels, None
    to leave it to the pipeline; `notes` are for the output's reason.
    """

    request: int
    prompt: str
    images: tuple[Image, ...]
    shas: tuple[str, ...]
    seed: int
    size: tuple[int, int] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """What became of a sample: an image, or a status of an output with its reason."""

    image: Image | None = None
    status: str = "ok"
    reason: str = ""


def fitted(size: tuple[int, int], takes: PipelineClass) -> tuple[int, int]:
    """The size nearest to the one asked for that the class draws.

    Args:
        size: width x height in pixels.
        takes: its `min_side`, `max_pixels` and `multiple`.

    >>> from yanami_metric.models.diffusers_table import lookup
    >>> fitted((300, 200), lookup("Flux2Pipeline")), fitted((4, 3), lookup("Flux2Pipeline"))
    ((304, 208), (80, 64))
    """
    width, height = size
    scale = min(max(1.0, takes.min_side / min(size)), (takes.max_pixels / (width * height)) ** 0.5)
    least = -(-takes.min_side // takes.multiple)
    rounded = [max(least, int(side * scale / takes.multiple + 0.5)) * takes.multiple for side in size]
    return rounded[0], rounded[1]


class Caller:
    """A pipeline with what its class takes and the user's arguments of its call."""

    def __init__(self, pipeline: Any, takes: PipelineClass, call: Mapping[str, Any], accepts: frozenset[str]) -> None:
        self.takes, self.call, self.accepts = takes, call, accepts
        self.pipeline = pipeline
        self._first = True
        self._generators = _global_generators(pipeline)
        self.without: Any = None if takes.no_image in ("", "itself") else _text_form(pipeline, takes.no_image)

    def draw(self, samples: Sequence[Sample]) -> list[Drawn]:
        """What became of each sample, in order.

        Raises:
            torch.OutOfMemoryError: and other errors of the device; those are not a sample's own.
        """
        groups: dict[Hashable, list[int]] = {}
        for i, sample in enumerate(samples):
            groups.setdefault(self._group(sample), []).append(i)
        drawn: dict[int, Drawn] = {}
        for members in groups.values():
            for start in range(0, len(members), self.takes.max_batch):
                part = members[start : start + self.takes.max_batch]
                drawn.update(zip(part, self._together([samples[i] for i in part]), strict=True))
        return [drawn[i] for i in range(len(samples))]

    def _group(self, sample: Sample) -> Hashable:
        """Samples of one group fit into one call."""
        sizes = tuple(image.size for image in sample.images)
        by_list: dict[str, Hashable] = {
            "shared_flat": sample.shas,
            "one_per_prompt": sizes,
            "nested_equal": len(sizes),
            "nested_ragged": bool(sizes),
        }
        return sample.size, by_list.get(self.takes.list, sample.shas)

    def _together(self, samples: Sequence[Sample]) -> list[Drawn]:
        try:
            return self._one_call(samples)
        except Exception as error:  # foreign code: whatever it raises is what became of this sample
            if _of_device(error):
                raise
            if len(samples) > 1:
                return [one for sample in samples for one in self._together([sample])]
            return [Drawn(status="generation_error", reason=f"{type(error).__name__}: {error}")]

    def _one_call(self, samples: Sequence[Sample]) -> list[Drawn]:
        import torch

        pipeline = self.pipeline if samples[0].images or self.without is None else self.without
        generators = [torch.Generator("cpu").manual_seed(sample.seed) for sample in samples]
        alone = len(samples) == 1
        arguments = {
            **self._prompt_and_images(samples),
            **self._size(samples[0].size),
            "generator": generators[0] if alone else generators,
            "output_type": "np",
            **self.call,
        }
        if pipeline is not self.pipeline:
            names = inspect.signature(type(pipeline).__call__).parameters
            arguments = {name: value for name, value in arguments.items() if name in names}
        with _quiet(pipeline, warns=self._first), _own_noise(self._generators, samples[0].seed):
            result = pipeline(**arguments)
        self._first = False  # its warnings about options and sizes would come with every call
        return _read(getattr(result, self.takes.output), getattr(result, "nsfw_content_detected", None), len(samples))

    def _prompt_and_images(self, samples: Sequence[Sample]) -> dict[str, Any]:
        nested = self.takes.list in ("nested_equal", "nested_ragged")
        prompts = [sample.prompt for sample in samples]
        prompt = prompts[0] if len(samples) == 1 and not nested else prompts
        if self.takes.list == "none":
            return {"prompt": prompt}
        if not samples[0].images:
            return {"prompt": prompt, self.takes.image: None}
        images: Any
        if nested:
            images = [list(sample.images) for sample in samples]
        elif self.takes.list == "shared_flat":
            images = list(samples[0].images)
        elif len(samples) == 1:
            images = samples[0].images[0]
        else:
            images = [sample.images[0] for sample in samples]
        return {"prompt": prompt, self.takes.image: images}

    def _size(self, size: tuple[int, int] | None) -> dict[str, int]:
        if size is None or not {"height", "width"} <= self.accepts:
            return {}
        return {"width": size[0], "height": size[1]}


def _global_generators(pipeline: Any) -> list[Any]:
    import torch

    device = torch.device(getattr(pipeline, "_execution_device", "cpu"))
    on_device = [torch.cuda.default_generators[device.index or 0]] if device.type == "cuda" else []
    return [torch.default_generator, *on_device]


def _text_form(pipeline: Any, name: str) -> Any:
    """The class that draws from text alone, made of the same components."""
    import diffusers

    kind = getattr(diffusers, name)
    wanted = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    return kind(**{name: pipeline.components[name] for name in wanted if name in pipeline.components})


@contextmanager
def _quiet(pipeline: Any, *, warns: bool) -> Iterator[None]:
    """The pipeline without its progress bar, which would mix with ours, and, unless it `warns`, without warnings."""
    import logging as levels

    from diffusers.utils import logging

    before, level = getattr(pipeline, "_progress_bar_config", {}), logging.get_verbosity()
    pipeline.set_progress_bar_config(**{**before, "disable": True})
    if not warns:
        logging.set_verbosity(max(level, levels.ERROR))
    try:
        yield
    finally:
        pipeline.set_progress_bar_config(**before)
        logging.set_verbosity(level)


@contextmanager
def _own_noise(generators: Sequence[Any], seed: int) -> Iterator[None]:
    """Seed torch's global generators, from which some classes draw beside the sample's own, and put them back."""
    states = [generator.get_state() for generator in generators]
    for generator in generators:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def _read(images: Any, flagged: Sequence[bool] | None, count: int) -> list[Drawn]:
    """The images of a result, as numbers from 0 to 1 in batch x height x width x channel."""
    if images is None or len(images) != count:
        found = 0 if images is None else len(images)
        return [Drawn(status="missing_output", reason=f"the pipeline gave {found} images for {count} prompts")] * count
    return [_image(images[i], refused=bool(flagged is not None and flagged[i])) for i in range(count)]


def _image(values: Any, *, refused: bool) -> Drawn:
    import numpy as np
    from PIL import Image

    if refused:
        return Drawn(status="model_refused", reason="blocked by the pipeline's safety checker")
    if not isinstance(values, np.ndarray):
        return Drawn(status="missing_output", reason=f"expected numbers from the pipeline, got {type(values).__name__}")
    if not np.isfinite(values).all():
        return Drawn(status="missing_output", reason="the pipeline's image has values that are no numbers (NaN)")
    pixels = (np.clip(values, 0, 1) * 255).round().astype(np.uint8)
    return Drawn(Image.fromarray(pixels).convert("RGB"))


def _of_device(error: Exception) -> bool:
    """Whether an error isn't the sample's own: out of memory, or a device that no longer works."""
    import torch

    kinds = [MemoryError, torch.OutOfMemoryError, getattr(torch, "AcceleratorError", torch.OutOfMemoryError)]
    return isinstance(error, tuple(kinds)) or "CUDA error" in str(error)
