"""The prompt and the images that a pipeline is given for a request, measured with the pipeline's own tokenizer.

Knows requests and the table's entry of a class; of a pipeline only how to ask for one of its components.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from yanami_dataset.errors import ModelError
from yanami_metric.models.diffusers_table import PipelineClass
from yanami_metric.models.flatten import Flat, flatten
from yanami_metric.records import Request

_UNLIMITED = 10**9  # transformers writes 10**30 where a tokenizer has no limit
_REMEMBERED = 256  # prompts: a request is asked about before the run, before its call, and in it


class Prompter:
    """Flattens requests for one class of pipelines.

    Args:
        takes: what the class takes.
        component: gives a component of the pipeline by its name.
        max_sequence_length: what the user has the call cut at; None: the class's default.
        shorten: leave out the oldest messages of a prompt that is too long, rather than refuse it.
    """

    def __init__(
        self,
        takes: PipelineClass,
        component: Callable[[str], Any],
        max_sequence_length: int | None = None,
        *,
        shorten: bool = False,
    ) -> None:
        self.takes, self.shorten = takes, shorten
        self._component, self._asked = component, max_sequence_length
        self._known: OrderedDict[tuple[str, int], Flat] = OrderedDict()

    def fault(self, request: Request) -> str:
        """Why a prompt for this request can't be made; "" if it can."""
        try:
            self.flat(request, request.count - 1)
        except ModelError as error:
            return str(error)
        return ""

    def flat(self, request: Request, ordinal: int) -> Flat:
        """The prompt for one of the images asked for.

        Raises:
            ModelError: it is too long, or its instruction alone is where it may be shortened.
        """
        key = request.key, ordinal
        if key not in self._known:
            self._known[key] = self._made(request, ordinal)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return self._known[key]

    def _made(self, request: Request, ordinal: int) -> Flat:
        limit = self.limit(len(request.images))
        if limit is None or self.shorten:
            return self._flattened(request, ordinal, limit)
        flat = self._flattened(request, ordinal, None)
        if self.count(flat.text) > limit:  # said without the number, so that like reasons are counted together
            raise ModelError(f"the prompt has more than {limit} tokens, where the pipeline cuts it; see option shorten")
        return flat

    def _flattened(self, request: Request, ordinal: int, limit: int | None) -> Flat:
        return flatten(
            request,
            tag=self.takes.mention.format,
            placeholder=self.takes.placeholder.format if self.takes.placeholder else None,
            ordinal=ordinal,
            limit=limit,
            count_tokens=self.count,
        )

    def limit(self, images: int = 0) -> int | None:
        """The most tokens of a prompt beside so many images; None: it isn't cut."""
        most = self.takes.prompt_tokens
        if most == "model":
            most = min(int(self._component(name).model_max_length) for name in self.takes.tokenizers)
            return most if most < _UNLIMITED else None
        if most is None:
            return None
        return (self._asked or most) - images * self.takes.image_tokens

    def count(self, text: str) -> int:
        """Tokens of a prompt as the pipeline counts them, with all that it puts around; the most of its tokenizers."""
        return max(self._count(self._component(name), text) for name in self.takes.tokenizers)

    def _count(self, tokenizer: Any, text: str) -> int:
        if self.takes.chat == "flux2":
            from diffusers.pipelines.flux2.pipeline_flux2 import format_input
            from diffusers.pipelines.flux2.system_messages import SYSTEM_MESSAGE

            messages = format_input([text], SYSTEM_MESSAGE)
            made = tokenizer.apply_chat_template(messages, add_generation_prompt=False, tokenize=True, return_dict=True)
            return len(made["input_ids"][0])
        text = self.takes.around.replace("{}", text)
        if self.takes.chat == "user":
            message = {"role": "user", "content": text}
            text = tokenizer.apply_chat_template(
                [message], tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        return len(tokenizer(text=[text])["input_ids"][0])
