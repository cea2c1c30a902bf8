"""`transformers:<id or folder>` as a judge: a vision-language model in this process.

    --set max_new_tokens=2048       to `generate`; greedy unless do_sample=true
    --set chat.enable_thinking=true to the chat template
    --set load.dtype=bfloat16       to `from_pretrained`; load.device, load.processor.NAME

Loading, prompts, images and generating are `models/transformers.py`'s business. Calls are answered one at a time, in a
thread of their own: the event loop goes on, and in half precision a neighbour in a batch could change a verdict. A
model behind a server (`openai:`) answers many at once. Knows calls, no dialogues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from yanami_dataset.errors import ImageError, ModelError, SpecError
from yanami_dataset.schema import Message, Part
from yanami_metric.judges.conversation import conversation
from yanami_metric.models.transformers import TransformersModel
from yanami_metric.records import JudgeCall, JudgeError, Output, Reply, Request

VERSION = 1  # goes up with every change that may change a reply


class TransformersJudge:
    """A local model of transformers as a judge of images and answers.

    The rubric is the system message where the chat template has a place for one, else it opens the user's message. A
    prompt longer than the model takes, or more images, is `not_judgeable`; an image that can't be decoded is
    `bad_image`; running out of memory is `transport_error`, asked again next time. Thinking is kept in the raw reply.

    Args:
        source: a folder, a Hub id, a pipeline (image-text-to-text, any-to-any), or a pair (model, processor).
        load: options of `from_pretrained`. `trust_remote_code` runs code of the repository: off unless given.
        call: options of `generate`; `chat.NAME` for the chat template.
        tag: the user's name for the weights, in place of their identity.

    Raises:
        MissingExtraError: torch or transformers isn't installed.
        ModelError: the source can't be used.
        SpecError: options that make no sense, or a processor without a chat template.
    """

    kinds = frozenset({"answer", "checks", "quality"})
    reads_prompt = True

    def __init__(
        self,
        source: Any,
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
        tag: str | None = None,
    ) -> None:
        options = dict(call or {})
        if unknown := [name for name in options if name.startswith("draw.") or name in ("outputs", "max_batch")]:
            raise SpecError(f"{unknown[0]}: a judge answers calls one at a time, in text; it takes no such option")
        self.name = f"transformers:{source if isinstance(source, str | Path) else _class_name(source)}"
        self._model = TransformersModel(source, load=load, call={**options, "outputs": "text"}, tag=tag)
        if not self._model.has_template:
            raise SpecError(
                f"{self.name}: a judge needs a chat template, and its processor has none; give one with "
                "chat.chat_template"
            )
        self._options = options
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="yanami-judge")

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the weights are, and the options that may change a reply."""
        return {
            "judge": "transformers",
            "version": VERSION,
            "model": self._model.identity,
            "max_new_tokens": self._model.max_new_tokens,
            "options": {name: repr(value) for name, value in sorted(self._options.items())},
        }

    async def judge(self, call: JudgeCall) -> Reply:
        """Answer one call.

        Raises:
            JudgeError: as the class says.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._reply, call)

    def _reply(self, call: JudgeCall) -> Reply:
        most = self._model.caps.max_images
        if most is not None and len(call.images) > most:
            raise JudgeError("not_judgeable", f"the call shows {len(call.images)} images, the model takes {most}")
        try:
            told = self._model.tell(self._request(call))
        except ImageError as error:
            raise JudgeError("bad_image", str(error)) from error
        except ModelError as error:
            raise JudgeError("transport_error", str(error)) from error
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            raise JudgeError("transport_error", f"out of memory: {error}") from error
        if told.output.status == "unsupported":
            raise JudgeError("not_judgeable", told.output.reason)
        if told.output.text is None:
            raise JudgeError("transport_error", told.output.reason)
        return Reply(_raw(told.output), told.input_tokens, told.output_tokens, told.output.reason)

    def _request(self, call: JudgeCall) -> Request:
        messages = list(conversation(call))
        if call.rubric and self._model.takes_system:
            # a role that no dialogue has, but a chat template
            messages.insert(0, Message(cast(Any, "system"), (Part("text", call.rubric),)))
        elif call.rubric:
            messages[0] = replace(messages[0], content=(Part("text", f"{call.rubric}\n\n"), *messages[0].content))
        return Request("", "", 0, tuple(messages), call.images, "text", 1, (call.sample,))

    def close(self) -> None:
        """Let weights go that were loaded here; they are loaded again when needed. Objects of the user's stay."""
        self._model.close()


def _class_name(source: Any) -> str:
    model: Any = source[0] if isinstance(source, Sequence) and source else getattr(source, "model", source)
    return type(model).__name__


def _raw(output: Output) -> str:
    """The reply as it came, thinking and all; thinking that wasn't closed leaves no answer."""
    if output.thinking is None:
        return output.text or ""
    closed = f"</think>\n\n{output.text}" if output.text else ""
    return f"<think>\n{output.thinking}\n{closed}"


def _out_of_memory(error: BaseException) -> bool:
    import torch

    on_cpu = "DefaultCPUAllocator" in str(error)  # a plain RuntimeError of torch
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or on_cpu
