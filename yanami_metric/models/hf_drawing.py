"""The classes of transformers that draw, and how each is asked. A class that isn't in DRAWERS answers in text only.

Both draw from text alone: they don't look at input images when they draw. The dialogue reaches them flattened
(`flatten.py`) with "[image not shown]" where an image was, as the paper runs Janus-Pro. Knows prompts and seeds.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from yanami_dataset.errors import SpecError
from yanami_dataset.schema import Message, Part
from yanami_metric.history import NOT_SHOWN
from yanami_metric.models.flatten import Flat, flatten
from yanami_metric.models.hf_chat import Chat
from yanami_metric.models.hf_sampling import Sampling, Steps, split_sampling
from yanami_metric.records import Request

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

Size = tuple[int, int] | None

# of Emu3's own example of image generation
NEGATIVE = (
    "lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer digits, cropped, worst quality, "
    "low quality, normal quality, jpeg artifacts, signature, watermark, username, blurry."
)


@dataclass(frozen=True, slots=True)
class Job:
    """One image to draw; `size` is width and height in pixels as asked for."""

    text: str
    seed: int
    size: Size = None


def blind(request: Request) -> Request:
    """A request without its images: each is replaced by a text that says so."""
    messages = tuple(
        Message(
            message.role,
            tuple(Part("text", NOT_SHOWN) if part.type == "image" else part for part in message.content),
        )
        for message in request.messages
    )
    return replace(request, messages=messages, images=())


class Drawer(ABC):
    """How one class draws.

    Args:
        chat: of the model's processor.
        config: of the model.
        options: of `generate`; `guidance_scale` must be above 1.

    Raises:
        SpecError: options that make no sense.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    # whether its checkpoints either chat or draw, so that the user has to say what one does
    one_skill: ClassVar[bool] = False

    def __init__(self, chat: Chat, config: Any, options: Mapping[str, Any]) -> None:
        self.chat, self.processor, self.tokenizer, self.config = chat, chat.processor, chat.tokenizer, config
        self.sampling, self.options = split_sampling({**self.defaults, **options}, "draw.")
        self.guidance = float(self.options.pop("guidance_scale"))
        if self.guidance <= 1:
            raise SpecError(f"draw.guidance_scale: expected a number above 1, got {self.guidance}")

    def flat(self, request: Request, limit: int | None = None) -> Flat:
        """The prompt of a request; with a limit, its oldest text is left out until it fits.

        Raises:
            ModelError: it doesn't fit even so.
        """
        return flatten(blind(request), limit=limit, count_tokens=lambda text: self.count(text, request.size))

    def count(self, text: str, size: Size) -> int:
        """The tokens of a prompt as the model gets it."""
        return int(self.encode([text], size)["input_ids"].shape[-1])

    @abstractmethod
    def room(self, size: Size) -> int:
        """How many tokens an image takes."""

    def alike(self, size: Size) -> Any:
        """Images of sizes for which this is equal can be drawn in one batch."""
        return None

    @abstractmethod
    def encode(self, texts: Sequence[str], size: Size) -> Any:
        """Prompts as tensors, padded on the left."""

    @abstractmethod
    def pixels(self, model: Any, jobs: Sequence[Job], steps: Steps, inputs: Any) -> Tensor:
        """What the model draws: jobs x channels x height x width, normalised as its processor does."""

    def complete(self, model: Any, **options: Any) -> Any:
        """Have the model answer in text; its tokens."""
        return model.generate(**options)

    @property
    def first_steps(self) -> Sequence[Any]:
        """Steps that come before all others."""
        return ()

    def draw(self, model: Any, jobs: Sequence[Job]) -> list[Image | None]:
        """One image for each job; None where the model gave NaN."""
        import torch

        steps = Steps([job.seed for job in jobs], self.filled(model), self.first_steps)
        with torch.inference_mode():
            inputs = self.encode([job.text for job in jobs], jobs[0].size).to(model.device)
            drawn = self.pixels(model, jobs, steps, inputs).float().cpu()
        faulty = [bad or not bool(image.isfinite().all()) for bad, image in zip(steps.faulty(), drawn, strict=True)]
        return [None if bad else self._image(image) for bad, image in zip(faulty, drawn, strict=True)]

    def filled(self, model: Any) -> Sampling:
        """How tokens are drawn."""
        return self.sampling.filled(model.generation_config)

    def _image(self, pixels: Tensor) -> Image:
        done = self.processor.postprocess([pixels], return_tensors="PIL.Image.Image")
        image: Image = done["pixel_values"][0]
        return image


class _Janus(Drawer):
    """JanusForConditionalGeneration: greedy with guidance 5, as in the paper's Table 9; square images of one size."""

    defaults: ClassVar[Mapping[str, Any]] = {"guidance_scale": 5.0, "do_sample": False}

    def room(self, size: Size) -> int:
        return int(self.config.vision_config.num_image_tokens)

    def encode(self, texts: Sequence[str], size: Size) -> Any:
        if self.chat.has_template:
            texts = [self.chat.render([{"role": "user", "content": [{"type": "text", "text": t}]}]) for t in texts]
        return self.processor(generation_mode="image", **self.chat.text_options(texts))

    def complete(self, model: Any, **options: Any) -> Any:
        # its own generate() loses logits_processor on the way to this one
        from transformers import GenerationMixin

        return GenerationMixin.generate(model, **options, guidance_scale=None)

    @property
    def first_steps(self) -> Sequence[Any]:
        # its own generate() would put guidance behind ours, which need the rows it joins
        from transformers import ClassifierFreeGuidanceLogitsProcessor

        kind: Any = ClassifierFreeGuidanceLogitsProcessor
        return [kind(self.guidance)]

    def pixels(self, model: Any, jobs: Sequence[Job], steps: Steps, inputs: Any) -> Tensor:
        config = copy.deepcopy(model.generation_config)
        config.update(**self.options, do_sample=False, guidance_scale=1.0)
        # from_pretrained of transformers 5.24 loses it
        config.generation_kwargs = {"boi_token_id": self.tokenizer.boi_token_id}
        tokens = model.generate(
            **inputs, generation_mode="image", generation_config=config, logits_processor=steps.processors
        )
        # its PIL processor takes channels-last images for wrongly sized ones
        pixels: Tensor = model.decode_image_tokens(tokens).permute(0, 3, 1, 2)
        return pixels


class _Emu3(Drawer):
    """Emu3ForConditionalGeneration: sampled from the 2,048 likeliest tokens with guidance 3, as its authors do.

    The image has the proportions asked for and an area of `image_area` pixels (720 x 720 as its authors draw).
    """

    one_skill = True
    defaults: ClassVar[Mapping[str, Any]] = {
        "guidance_scale": 3.0,
        "do_sample": True,
        "top_k": 2048,
        "negative_prompt": NEGATIVE,
        "image_area": 518_400,
        "ratio": None,
    }

    def __init__(self, chat: Chat, config: Any, options: Mapping[str, Any]) -> None:
        dropped = {"top_k"} if options.get("do_sample") is False else set()
        defaults = {name: value for name, value in self.defaults.items() if name not in dropped}
        super().__init__(chat, config, {**defaults, **options})
        self.negative, self.area, self.ratio = (
            self.options.pop(name) for name in ("negative_prompt", "image_area", "ratio")
        )

    def _grid(self, size: Size) -> tuple[int, int]:
        """Height and width in tokens."""
        height, width = self.processor.calculate_generate_size(
            self._ratio(size), self.area, self.processor.downsample_ratio
        )
        return height, width

    def _ratio(self, size: Size) -> str:
        return self.ratio or (f"{size[0]}:{size[1]}" if size else "1:1")

    def room(self, size: Size) -> int:
        height, width = self._grid(size)
        return height * (width + 1) + 3  # a token at the end of each line, three at the end of the image

    def alike(self, size: Size) -> Any:
        return self._grid(size)

    def encode(self, texts: Sequence[str], size: Size) -> Any:
        made = self.processor(
            return_for_image_generation=True,
            ratio=self._ratio(size),
            image_area=self.area,
            **self.chat.text_options(texts),
        )
        made.pop("image_sizes")
        return made

    def pixels(self, model: Any, jobs: Sequence[Job], steps: Steps, inputs: Any) -> Tensor:
        size, start = jobs[0].size, inputs["input_ids"].shape[-1]
        height, width = self._grid(size)
        against = self.encode([self.negative] * len(jobs), size).to(model.device)
        tokens = model.generate(
            **inputs,
            **self.options,
            do_sample=False,
            max_new_tokens=self.room(size),
            guidance_scale=self.guidance,
            negative_prompt_ids=against["input_ids"],
            negative_prompt_attention_mask=against["attention_mask"],
            prefix_allowed_tokens_fn=self._allowed(model, start, height, width),
            logits_processor=steps.processors,
        )
        pixels: Tensor = model.decode_image_tokens(image_tokens=tokens[:, start:], height=height, width=width)
        return pixels

    def _allowed(self, model: Any, start: int, height: int, width: int) -> Any:
        """Which tokens may come next: image tokens, line ends where lines end, then the three that end an image."""
        visual = model.vocabulary_mapping.image_tokens
        line = [model.vocabulary_mapping.eol_token_id]
        end = [[self.tokenizer.eof_token_id], [self.tokenizer.eoi_token_id], [self.tokenizer.eos_token_id]]

        def allowed(row: int, tokens: Tensor) -> list[int]:
            position = len(tokens) - start
            if position >= height * (width + 1):
                return end[min(position - height * (width + 1), 2)]
            return line if position % (width + 1) == width else visual

        return allowed


# by the name of the class; others of transformers 5.24 that take images and text don't draw
DRAWERS: dict[str, type[Drawer]] = {"JanusForConditionalGeneration": _Janus, "Emu3ForConditionalGeneration": _Emu3}
