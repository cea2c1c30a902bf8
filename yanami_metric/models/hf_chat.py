"""From a request to what a transformers processor takes, and from tokens back to an answer.

A model with a chat template gets messages, images in order; one without gets the dialogue flattened (`flatten.py`) with
its image token once for each image, and "Assistant:" at the end. Knows processors, no weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import ModelError
from yanami_dataset.images import open_rgb
from yanami_dataset.schema import Message, Part
from yanami_metric.models.flatten import flatten
from yanami_metric.records import ImageRef, Request
from yanami_metric.thinking import is_tag, opening_tag, split_thinking

if TYPE_CHECKING:
    from PIL.Image import Image

NO_LIMIT = 10**9  # a tokenizer's model_max_length above this is none
_CAPTION = re.compile(r"Image \d+:|Images \d+ to \d+, labelled in one picture:")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What goes into the processor. `dropped` counts the oldest messages whose text was left out."""

    text: str
    images: tuple[ImageRef, ...]
    dropped: int = 0


def as_chat(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as chat templates take them; neighbours of one role are joined, since many templates refuse them.

    >>> from yanami_dataset.schema import Part
    >>> as_chat([Message("user", (Part("image", index=0),)), Message("user", (Part("text", "Hi"),))])
    [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'Hi'}]}]
    """
    chat: list[dict[str, Any]] = []
    for message in messages:
        parts = [
            {"type": "image"} if part.type == "image" else {"type": "text", "text": part.text or ""}
            for part in message.content
        ]
        if chat and chat[-1]["role"] == message.role:
            chat[-1]["content"] += parts
        elif parts:
            chat.append({"role": message.role, "content": parts})
    return chat


def without_oldest_text(messages: Sequence[Message], dropped: int) -> list[Message]:
    """The messages without the first `dropped` ones, whose images, with their captions, now open the dialogue.

    `dropped` is even, so that what is left begins with the user.
    """
    kept: list[Part] = []
    for message in messages[:dropped]:
        for part, following in zip(message.content, (*message.content[1:], None), strict=True):
            before_image = following is not None and following.type == "image"
            if part.type == "image" or (before_image and _CAPTION.fullmatch(part.text or "")):
                kept.append(part)
    return [*([Message("user", tuple(kept))] if kept else []), *messages[dropped:]]


class Chat:
    """Prompts, tensors and answers of one processor.

    Args:
        processor: of transformers.
        options: go to its chat template (`enable_thinking`, …).
    """

    def __init__(self, processor: Any, options: Mapping[str, Any]) -> None:
        self.processor, self.tokenizer, self.options = processor, processor.tokenizer, dict(options)
        self.has_template = bool(getattr(processor, "chat_template", None) or self.options.get("chat_template"))
        self._image_tokens: dict[tuple[int, int], int] = {}
        self._skipped: frozenset[int] | None = None

    @property
    def placeholder(self) -> str:
        """The processor's own token for an image, "" if it names none."""
        named = (getattr(each, "image_token", None) for each in (self.processor, self.tokenizer))
        return next((str(token) for token in named if token), "")

    @property
    def takes_system(self) -> bool:
        """Whether the chat template writes what a system message says; some refuse it, some leave it out."""
        from jinja2 import TemplateError

        if not self.has_template:
            return False
        said = "Two\nlines."  # as text, not as a list that is printed
        chat = [{"role": role, "content": [{"type": "text", "text": said}]} for role in ("system", "user")]
        try:
            return self.render(chat).count(said) == len(chat)
        except (TemplateError, TypeError):  # raise_exception(), or content added to a string
            return False

    def refusal(self, request: Request) -> str:
        """Why a request can't be put to this processor at all; empty if it can."""
        if request.images and not self.has_template and not self.placeholder:
            name = type(self.processor).__name__
            return f"{name} has no chat template and names no image token; give one with chat.chat_template"
        return ""

    def prompt(self, request: Request) -> Prompt:
        """A request as a prompt."""
        return self._prompt(request, 0)

    def shortened(self, request: Request, limit: int) -> Prompt:
        """A request as a prompt of at most `limit` tokens: its oldest turns are left out, but for their images.

        Raises:
            ModelError: it doesn't fit even without all earlier turns.
        """
        low, high = 0, (len(request.messages) - 1) // 2
        if (tokens := self.count(self._prompt(request, 2 * high))) > limit:
            raise ModelError(f"{tokens} tokens without any earlier text, the model takes at most {limit}")
        while low < high:  # `high` turns less fit
            middle = (low + high) // 2
            low, high = (low, middle) if self.count(self._prompt(request, 2 * middle)) <= limit else (middle + 1, high)
        return self._prompt(request, 2 * high)

    def _prompt(self, request: Request, dropped: int) -> Prompt:
        messages = without_oldest_text(request.messages, dropped)
        if self.has_template:
            shown = [part.index for message in messages for part in message.image_parts]
            return Prompt(self.render(as_chat(messages)), tuple(request.images[i or 0] for i in shown), dropped)
        flat = flatten(replace(request, messages=tuple(messages)), placeholder=lambda k: self.placeholder)
        return Prompt(f"{flat.text}\n\nAssistant:", flat.images, dropped)

    def render(self, chat: Sequence[Mapping[str, Any]]) -> str:
        """A chat as text, by the processor's template, up to where the model goes on."""
        text = self.processor.apply_chat_template(
            list(chat), **{"add_generation_prompt": True, **self.options, "tokenize": False}
        )
        return str(text)

    def count(self, prompt: Prompt) -> int:
        """The tokens of a prompt, those that its images become included; images are measured by their size."""
        return self._text_tokens(prompt.text) + sum(self._tokens_of((i.width, i.height)) for i in prompt.images)

    def _text_tokens(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=self._adds_special(text))["input_ids"])

    def _adds_special(self, text: str) -> bool:
        """Templates mostly write the first token themselves; it must not be there twice."""
        first = self.tokenizer.bos_token
        return not (first and text.startswith(first))

    def _tokens_of(self, size: tuple[int, int]) -> int:
        """How many tokens an image of this size adds to its placeholder: asked of the processor, once for each size."""
        if size not in self._image_tokens:
            from PIL import Image

            one = [{"role": "user", "content": [{"type": "image"}]}]
            text = self.render(one) if self.has_template else self.placeholder
            whole = self.encode([text], [[Image.new("RGB", size)]])["input_ids"].shape[-1]
            self._image_tokens[size] = whole - self._text_tokens(text)
        return self._image_tokens[size]

    def encode(self, texts: Sequence[str], images: Sequence[Sequence[Image]]) -> Any:
        """Tensors for the model, padded on the left. Either all of the texts have images, or none."""
        return self.processor(
            images=[list(each) for each in images] if any(images) else None, **self.text_options(texts)
        )

    def text_options(self, texts: Sequence[str]) -> dict[str, Any]:
        """What a processor is told with texts: tensors, padded on the left, special tokens once."""
        padding = {"padding": True, "padding_side": "left"} if len(texts) > 1 else {}
        special = self._adds_special(texts[0])
        return {"text": list(texts), "return_tensors": "pt", "add_special_tokens": special, **padding}

    @property
    def can_pad(self) -> bool:
        """Whether prompts of different lengths can stand in one batch."""
        return self.tokenizer.pad_token_id is not None

    def answer(self, tokens: Sequence[int], prompt: str) -> tuple[str | None, str]:
        """(thinking or None, answer) in what a model added to a prompt."""
        if self._skipped is None:
            added = self.tokenizer.added_tokens_decoder.items()
            special = {id for id, token in added if token.special} | set(self.tokenizer.all_special_ids)
            names = self.tokenizer.convert_ids_to_tokens(sorted(special))
            # tags of thinking are special tokens in some vocabularies: they must survive to be seen
            self._skipped = frozenset(i for i, name in zip(sorted(special), names, strict=True) if not is_tag(name))
        kept = [token for token in tokens if token not in self._skipped]
        text = self.tokenizer.decode(kept, skip_special_tokens=False)
        return split_thinking(opening_tag(prompt) + text)


def decoded(prompts: Sequence[Prompt]) -> list[list[Image]]:
    """The images of each prompt as pixels; one that several show is decoded once."""
    known = {ref.sha256: ref for prompt in prompts for ref in prompt.images}
    pixels = {name: open_rgb(ref.read()) for name, ref in known.items()}
    return [[pixels[ref.sha256] for ref in prompt.images] for prompt in prompts]


def token_limit(config: Any, tokenizer: Any) -> int | None:
    """The most tokens that a model can look at, by its positions and its tokenizer; None: not known.

    Args:
        config: of the whole model; that of its text part is asked.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    named = (getattr(text, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None))
    known = [int(limit) for limit in named if limit is not None and 0 < limit < NO_LIMIT]
    return min(known, default=None)
