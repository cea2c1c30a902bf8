"""`transformers:<id or folder>`: answers from any image-text-to-text model, images from those that draw.

    --set max_new_tokens=512        to `generate`, for answers; greedy unless do_sample=true
    --set draw.guidance_scale=4     to `generate`, for images (Janus, Emu3)
    --set chat.enable_thinking=true to the chat template
    --set load.dtype=bfloat16       to `from_pretrained`; load.device, load.processor.NAME
    --set max_batch=16              requests at a time
    --set outputs=text              what to ask it for: text, images, or both with a comma

In Python a pipeline of transformers or a pair (model, processor) does as well. Knows requests, no history modes.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from yanami_dataset.errors import ModelError, SpecError
from yanami_metric.models.hf_chat import Chat, Prompt, decoded, token_limit
from yanami_metric.models.hf_drawing import DRAWERS, Drawer, Job
from yanami_metric.models.hf_loading import open_source
from yanami_metric.models.hf_sampling import Steps, split_sampling
from yanami_metric.models.identity import options_suffix
from yanami_metric.records import Caps, Output, Request

DRAW, CHAT = "draw.", "chat."  # prefixes of options
MAX_NEW_TOKENS = 1024  # of an answer, or a quarter of the model's positions if that is less
MAX_BATCH = 8

# One image a prompt is all that these can take, by their source; none of them was run here.
ONE_IMAGE = (
    "BlipForConditionalGeneration",
    "Blip2ForConditionalGeneration",
    "Florence2ForConditionalGeneration",
    "GitForCausalLM",
    "InstructBlipForConditionalGeneration",
    "Kosmos2ForConditionalGeneration",
    "Pix2StructForConditionalGeneration",
)


@dataclass(frozen=True)
class _Answer:
    """What became of one row of a batch of text."""

    tokens: list[int]
    faulty: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class Told:
    """An answer and its tokens: of the prompt, its images included, and new ones. 0 where nothing was generated."""

    output: Output
    input_tokens: int = 0
    output_tokens: int = 0


class TransformersModel:
    """A model of transformers.

    `caps.honours_images` is False for a class that draws without looking at input images (Janus, Emu3): its drawing
    placement is text_only, as the paper runs Janus-Pro. Its answers do see the images. Answers are greedy
    unless `do_sample`; every sample is drawn with a generator of its own. In half precision images are drawn one at a
    time, as rounding in a batch can change a token and with it the rest of the image.

    Args:
        source: a folder, a Hub id, a pipeline (image-text-to-text, any-to-any), or a pair (model, processor).
        load: options of `from_pretrained`. `trust_remote_code` runs code of the repository: off unless given.
        call: options of `generate` for answers; `draw.NAME` for images, `chat.NAME` for the chat template;
            `max_batch` and `outputs`.
        tag: the user's name for the weights, in place of their identity.
        shorten: leave out the oldest text of prompts that are too long, and say so; else they are unsupported.

    Raises:
        MissingExtraError: torch or transformers isn't installed.
        ModelError: the source can't be used.
        SpecError: options that make no sense.
    """

    def __init__(
        self,
        source: Any,
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
        tag: str | None = None,
        shorten: bool = False,
    ) -> None:
        options = dict(call or {})
        self._source = open_source(source, load or {}, tag)
        changing = {name: value for name, value in options.items() if name not in ("max_batch", "outputs")}
        self.identity = self._source.identity + options_suffix({**changing, **({"shorten": True} if shorten else {})})
        self._shorten = shorten
        self._max_batch = int(options.pop("max_batch", MAX_BATCH))
        outputs = options.pop("outputs", None)
        config, tokenizer = self._source.config, self._source.processor.tokenizer
        self._chat = Chat(self._source.processor, _prefixed(options, CHAT))
        drawing = _prefixed(options, DRAW)
        self._drawer = self._find_drawer(drawing)
        self._positions = token_limit(config, tokenizer)
        self._sampling, self._generate = split_sampling({**self._source.generate, **options})
        self._generate.setdefault("max_new_tokens", min(MAX_NEW_TOKENS, (self._positions or 10**9) // 4))
        self.caps = self._caps(self._outputs(outputs))
        self._model: Any = None
        self._failure = ""

    def _find_drawer(self, options: Mapping[str, Any]) -> Drawer | None:
        for kind in self._source.kinds:
            if kind in DRAWERS:
                return DRAWERS[kind](self._chat, self._source.config, options)
        if options:
            raise SpecError(f"draw.{next(iter(options))}: {self._kind} draws no images; {', '.join(DRAWERS)} do")
        return None

    @property
    def _kind(self) -> str:
        return self._source.kinds[0] if self._source.kinds else "the model"

    def _outputs(self, asked: Any) -> frozenset[str]:
        """What it is asked for: what its class can, unless the user says less."""
        able = {"text", "images"} if self._drawer else {"text"}
        if asked is None:
            if self._drawer and self._drawer.one_skill:
                raise ModelError(
                    f"{self._kind}: its checkpoints either answer or draw, and none says which it is; "
                    "give outputs=text (e.g. Emu3-Chat) or outputs=images (e.g. Emu3-Gen)"
                )
            return frozenset(able)
        named = set(asked.split(",")) if isinstance(asked, str) else set(asked)
        if not named or named - able:
            raise SpecError(f"outputs: expected {' or '.join(sorted(able))} of {self._kind}, got {asked!r}")
        return frozenset(named)

    def _caps(self, outputs: frozenset[str]) -> Caps:
        limits = [self._text_limit] if "text" in outputs else []
        if self._drawer and "images" in outputs:
            limits.append(self._draw_limit(self._drawer, None))
        known = [limit for limit in limits if limit is not None]
        if any(limit < 1 for limit in known):
            raise SpecError(
                f"max_new_tokens: {self._generate['max_new_tokens']} leave no room for a prompt in the "
                f"{self._positions} tokens that {self._kind} can look at"
            )
        return Caps(
            outputs=outputs,
            placement="interleaved" if "text" in outputs else "text_only",
            drawing_placement="text_only" if "images" in outputs else None,
            max_images=1 if set(self._source.kinds) & set(ONE_IMAGE) else None,
            max_prompt_tokens=min(known, default=None),
            max_batch=self._max_batch,
            honours_images="images" not in outputs,
        )

    @property
    def _text_limit(self) -> int | None:
        """The most tokens of a prompt to answer: a decoder's positions also hold the answer."""
        if self._positions is None or getattr(self._source.config, "is_encoder_decoder", False):
            return self._positions
        return self._positions - int(self._generate["max_new_tokens"])

    def _draw_limit(self, drawer: Drawer, size: tuple[int, int] | None) -> int | None:
        return None if self._positions is None else self._positions - drawer.room(size)

    # What a request becomes, and why it can't

    def unsupported(self, request: Request) -> str:
        """Why a request can't be taken; empty if it can. Tokens are counted by the model's own tokenizer."""
        prompt = self._prepared(request)
        return prompt if isinstance(prompt, str) else ""

    def _prepared(self, request: Request) -> Prompt | str:
        """The prompt of a request, or why there can be none."""
        if request.expects not in self.caps.outputs:
            return f"{self._kind} gives no {request.expects} here"
        if request.expects == "text" and (reason := self._chat.refusal(request)):
            return reason
        try:
            return self._to_draw(request) if request.expects == "images" else self._to_answer(request)
        except ModelError as error:
            return f"the prompt is too long: {error}"

    def _to_answer(self, request: Request) -> Prompt:
        prompt, limit = self._chat.prompt(request), self._text_limit
        if limit is None or (tokens := self._chat.count(prompt)) <= limit:
            return prompt
        if self._shorten:
            return self._chat.shortened(request, limit)
        raise ModelError(self._too_long(tokens, limit, f"max_new_tokens={self._generate['max_new_tokens']}"))

    def _to_draw(self, request: Request) -> Prompt:
        drawer = self._drawer
        if drawer is None:
            raise ModelError(f"{self._kind} draws no images")
        limit = self._draw_limit(drawer, request.size)
        if self._shorten and limit is not None:
            flat = drawer.flat(request, limit)
            return Prompt(flat.text, (), flat.dropped)
        flat = drawer.flat(request)
        if limit is not None and (tokens := drawer.count(flat.text, request.size)) > limit:
            raise ModelError(self._too_long(tokens, limit, f"{drawer.room(request.size)} for the image"))
        return Prompt(flat.text, ())

    def _too_long(self, tokens: int, limit: int, rest: str) -> str:
        return f"{tokens} tokens, the model takes at most {limit} ({self._positions} less {rest})"

    # Generating

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """One output per request, in their order. Out of memory and faults of the device are raised."""
        outputs: dict[int, Output] = {}
        ready: dict[int, Prompt] = {}
        for i, request in enumerate(requests):
            prompt = self._prepared(request)
            if isinstance(prompt, str):
                outputs[i] = Output(status="unsupported", reason=prompt)
            else:
                ready[i] = prompt
        for batch in self._batches(requests, ready):
            told = self._answers([requests[i] for i in batch], [ready[i] for i in batch])
            outputs |= {i: one.output for i, one in zip(batch, told, strict=True)}
        drawing = [i for i in ready if requests[i].expects == "images"]
        given = self._drawings([requests[i] for i in drawing], [ready[i] for i in drawing])
        outputs |= dict(zip(drawing, given, strict=True))
        return [outputs[i] for i in range(len(requests))]

    def tell(self, request: Request) -> Told:
        """The answer to one request, as `generate` gives it, with its tokens counted."""
        prompt = self._prepared(request)
        if isinstance(prompt, str):
            return Told(Output(status="unsupported", reason=prompt))
        return self._answers([request], [prompt])[0]

    @property
    def takes_system(self) -> bool:
        """Whether the first message may have the role "system": whether the chat template has a place for it."""
        return self._chat.takes_system

    @property
    def has_template(self) -> bool:
        """Whether there is a chat template, the processor's or one given as an option."""
        return self._chat.has_template

    @property
    def max_new_tokens(self) -> int:
        """The most tokens of an answer."""
        return int(self._generate["max_new_tokens"])

    def _batches(self, requests: Sequence[Request], ready: Mapping[int, Prompt]) -> list[list[int]]:
        """What can be answered together: texts with images, texts without; alone where nothing can be padded."""
        asked = [i for i in ready if requests[i].expects == "text"]
        groups = [[i for i in asked if bool(ready[i].images) is shown] for shown in (True, False)]
        size = self._max_batch if self._chat.can_pad else 1
        return [group[start : start + size] for group in groups for start in range(0, len(group), size)]

    def _answers(self, requests: Sequence[Request], prompts: Sequence[Prompt]) -> list[Told]:
        inputs = self._chat.encode([prompt.text for prompt in prompts], decoded(prompts))
        lengths = inputs["attention_mask"].sum(dim=-1).tolist()
        limit = self._text_limit
        fits = [limit is None or length <= limit for length in lengths]
        if not all(fits):  # a processor that makes more of several images than of each alone
            return self._those_that_fit(requests, prompts, lengths, fits)
        rows = self._complete(inputs, [request.seeds[0] for request in requests])
        ends = _ends(self._weights.generation_config)
        return [
            Told(self._output(row, prompt), length, _generated(row.tokens, ends))
            for row, prompt, length in zip(rows, prompts, lengths, strict=True)
        ]

    def _those_that_fit(
        self, requests: Sequence[Request], prompts: Sequence[Prompt], lengths: Sequence[int], fits: Sequence[bool]
    ) -> list[Told]:
        kept = [i for i, fit in enumerate(fits) if fit]
        answers = iter(self._answers([requests[i] for i in kept], [prompts[i] for i in kept]) if kept else ())
        reasons = [f"the prompt is too long: {tokens} tokens, the model takes {self._text_limit}" for tokens in lengths]
        return [
            next(answers) if fit else Told(Output(status="unsupported", reason=reason))
            for fit, reason in zip(fits, reasons, strict=True)
        ]

    def _complete(self, inputs: Any, seeds: Sequence[int]) -> list[_Answer]:
        """What the model adds to each row."""
        import torch

        model = self._weights
        steps = Steps(seeds, self._sampling.filled(model.generation_config))
        inputs = inputs.to(model.device, dtype=model.dtype)
        with torch.inference_mode():
            complete = partial(self._drawer.complete, model) if self._drawer else model.generate
            sequences = complete(**inputs, **self._generate, do_sample=False, logits_processor=steps.processors)
        given = inputs["input_ids"]
        length = given.shape[-1]
        if sequences.shape[-1] >= length and bool((sequences[:, :length] == given).all()):
            sequences = sequences[:, length:]  # decoder-only models repeat the prompt
        full = sequences.shape[-1] >= self._generate["max_new_tokens"]
        ends = _ends(model.generation_config)
        return [
            _Answer(row, faulty, full and not ends & set(row))
            for row, faulty in zip(sequences.tolist(), steps.faulty(), strict=True)
        ]

    def _output(self, row: _Answer, prompt: Prompt) -> Output:
        if row.faulty:
            return Output(status="missing_output", reason="the model gave NaN")
        thinking, text = self._chat.answer(row.tokens, prompt.text)
        notes = [_shortened(prompt)] if prompt.dropped else []
        if row.cut:
            notes.append(f"stopped at max_new_tokens={self._generate['max_new_tokens']}")
        if not text:
            notes.insert(0, "only thinking" if thinking else "no text")
        return Output(text=text, thinking=thinking, status="ok" if text else "missing_output", reason="; ".join(notes))

    def _drawings(self, requests: Sequence[Request], prompts: Sequence[Prompt]) -> list[Output]:
        jobs = [
            (i, Job(prompt.text, seed, request.size))
            for i, (request, prompt) in enumerate(zip(requests, prompts, strict=True))
            for seed in request.seeds[: request.count]
        ]
        images = iter(self._draw([job for _, job in jobs]))
        drawn: list[list[Any]] = [[] for _ in requests]
        for i, _ in jobs:
            drawn[i].append(next(images))
        return [_drawing(*each) for each in zip(requests, prompts, drawn, strict=True)]

    def _draw(self, jobs: Sequence[Job]) -> list[Any]:
        drawer = self._drawer
        if drawer is None or not jobs:
            return []
        model, images = self._weights, dict[int, Any]()
        groups: dict[Any, list[int]] = {}
        for i, job in enumerate(jobs):
            groups.setdefault(drawer.alike(job.size), []).append(i)
        for group in groups.values():
            size = self._max_batch if self._chat.can_pad and model.dtype.itemsize >= 4 else 1
            for start in range(0, len(group), size):
                batch = group[start : start + size]
                images |= dict(zip(batch, drawer.draw(model, [jobs[i] for i in batch]), strict=True))
        return [images[i] for i in range(len(jobs))]

    @property
    def _weights(self) -> Any:
        if self._failure:
            raise ModelError(self._failure)  # it takes long to fail, and every request would
        if self._model is None:
            try:
                self._model = self._source.weights()
            except ModelError as error:
                self._failure = str(error)
                raise
        return self._model

    def close(self) -> None:
        """Let weights go that were loaded here; they are loaded again when needed. Objects of the user's stay."""
        self._model = None
        if self._source.owned:
            import torch

            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _prefixed(options: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Take the options with a prefix out, without it."""
    return {name.removeprefix(prefix): options.pop(name) for name in list(options) if name.startswith(prefix)}


def _ends(config: Any) -> set[int]:
    ends = config.eos_token_id
    return set(ends) if isinstance(ends, list) else {ends}


def _generated(tokens: Sequence[int], ends: set[int]) -> int:
    """How many tokens a row has up to its end; what follows is padding."""
    return next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))


def _shortened(prompt: Prompt) -> str:
    return f"shortened: the text of the {prompt.dropped} oldest messages was left out"


def _drawing(request: Request, prompt: Prompt, images: list[Any]) -> Output:
    notes = [_shortened(prompt)] if prompt.dropped else []
    if request.images:
        notes.append(f"drawn from the text alone, without the {len(request.images)} images shown")
    made = Output(images=images, reason="; ".join(notes))
    if None in images:
        made = replace(made, reason="; ".join(["the model gave NaN", *notes]))
    return made if any(image is not None for image in images) else replace(made, status="missing_output")
