"""`openai:<model>@<base url>`: a model behind an OpenAI-compatible server.

Text by chat completions. Drawing by the images API (`/images/edits` with the images in view, `/images/generations`
where none is) or by chat replies that carry images; which one, the user says, as no server does. Knows requests and
the protocol; the connection is `yanami_metric.http`'s business what a reply means `openai_replies`' and
the options are `openai_options`'.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from yanami_dataset.errors import DataError
from yanami_dataset.images import media_type
from yanami_dataset.schema import Part
from yanami_metric.http import Client, require_aiohttp
from yanami_metric.http_body import DataUri, DataUris, FormBody, json_body
from yanami_metric.http_chat import served
from yanami_metric.http_faults import HttpFault
from yanami_metric.http_server import CHAT, Preflight, split_spec
from yanami_metric.loop import Loop
from yanami_metric.models.flatten import flatten
from yanami_metric.models.identity import options_suffix
from yanami_metric.models.openai_options import CallOptions, read_connection
from yanami_metric.models.openai_replies import api_images_output, chat_images_output, failed, text_output
from yanami_metric.records import Caps, Output, Request

EDITS, GENERATIONS = "/images/edits", "/images/generations"


class OpenAIModel:
    """A model behind an OpenAI-compatible server.

    Args:
        spec: <model>@<base url>.
        load: options of the connection.
        call: options of the call.
        tag: names what the model's name hides, a snapshot or a quantization.

    Raises:
        SpecError: a spec or option that makes no sense.
        MissingExtraError: aiohttp isn't installed.

    >>> model = OpenAIModel("m@http://localhost:8000/v1", call={"draw": "images"}, tag="int8")
    >>> model.identity, sorted(model.caps.outputs)
    ('openai:m int8+3f7564663caa', ['images', 'text'])
    """

    def __init__(
        self,
        spec: str,
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
        tag: str | None = None,
    ) -> None:
        require_aiohttp()
        self.name, base = split_spec(spec)
        self.connection, concurrency = read_connection(base, load or {})
        self.call = CallOptions.read(call or {})
        self.caps = Caps(
            outputs=self.call.outputs,
            max_images=self.call.max_images,
            max_batch=concurrency,
            seeded=self.call.seed,
        )
        self.identity = " ".join(filter(None, [f"openai:{self.name}", tag])) + options_suffix(call or {})
        self.note = ""  # what the check before the run couldn't find out
        self._check = self.connection.check
        self._uris = DataUris()

    def prepare(self, data: object, history: str) -> OpenAIModel:
        """Ask the server, once, whether it takes the key and has the model; see `check`."""
        if self._check:
            self.note = self.check()
            self._check = False
        return self

    def check(self) -> str:
        """Ask for the list of models, which costs nothing.

        Returns:
            What couldn't be found out, "" if the server has the model.

        Raises:
            ModelError: a wrong key, model or URL, or no server.
        """
        path = CHAT if self.call.answer or self.call.draw == "chat" else GENERATIONS
        with Loop() as loop:
            return loop.run(Preflight(self.name, self.connection, path).ask())

    def keep_local(self) -> None:
        """Refuse any address that is neither loopback nor private, now and at every connection.

        Raises:
            SpecError: the server's is.
        """
        self.connection = self.connection.kept_local()

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """One output per request, at most `caps.max_batch` of them at a time."""
        with Loop() as loop:
            return loop.run(self._all(requests))

    async def _all(self, requests: Sequence[Request]) -> list[Output]:
        gate = asyncio.Semaphore(self.caps.max_batch)
        async with self.connection.client() as client:
            return await asyncio.gather(*(self._one(client, gate, request) for request in requests))

    async def _one(self, client: Client, gate: asyncio.Semaphore, request: Request) -> Output:
        try:
            if request.expects == "text" or self.call.draw == "chat":
                async with gate:
                    return await self._chat(client, request)
            return await self._draw(client, gate, request)
        except (DataError, OSError) as error:  # an image in view that can't be read
            return Output(status="generation_error", reason=f"{type(error).__name__}: {error}")

    # Chat

    async def _chat(self, client: Client, request: Request) -> Output:
        drawing = request.expects == "images"
        body = {"model": self.name, "messages": self._messages(request), **self.call.chat}
        body |= {"modalities": ["image", "text"], **self.call.drawing} if drawing else {}
        body |= {"seed": request.seeds[0]} if self.call.seed else {}
        body = {name: value for name, value in body.items() if value is not None}
        read = chat_images_output if drawing else text_output
        return await self._asked(client.post(CHAT, json_body(body, self._uris)), read)

    async def _asked(self, call: Coroutine[Any, Any, Any], read: Callable[[Any], Output]) -> Output:
        try:
            reply = await call
            output = read(reply)
        except HttpFault as fault:
            return failed(fault)
        return replace(output, reason="; ".join(filter(None, [output.reason, served(reply, self.name)])))

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        """The dialogue as chat messages; a message without images is a string, which every server takes."""
        moved: list[dict[str, Any]] = []  # from assistant messages to the next of the user
        messages = []
        for message in request.messages:
            parts = [_part(part, request) for part in message.content]
            if message.role == "user":
                parts, moved = moved + parts, []
            elif self.call.assistant_images == "user":
                for part in message.image_parts:
                    moved += [*_label(part, request), _part(part, request)]
                parts = [part for part in parts if part["type"] == "text"]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            content = parts if len(texts) < len(parts) else "\n".join(texts)
            messages.append({"role": message.role, "content": content})
        return messages

    # The images API

    async def _draw(self, client: Client, gate: asyncio.Semaphore, request: Request) -> Output:
        """One call for all slots, or, with seeds, one for each."""

        async def once(number: int, seed: int | None) -> Output:
            async with gate:
                return await self._images(client, request, number, seed)

        if not self.call.seed:
            return await once(request.count, None)
        return _together(await asyncio.gather(*(once(1, seed) for seed in request.seeds)))

    async def _images(self, client: Client, request: Request, number: int, seed: int | None) -> Output:
        flat = flatten(request)
        own = {"n": number, "size": self.call.size(request.size), "seed": seed}
        wanted = {"model": self.name, "prompt": flat.text, **own, **self.call.drawing}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        if not flat.images:
            return await self._asked(client.post(GENERATIONS, json_body(wanted, self._uris)), api_images_output)
        fields = {k: v if isinstance(v, str) else json.dumps(v) for k, v in wanted.items()}
        name = self.call.image_field or ("image" if len(flat.images) == 1 else "image[]")
        data = [image.read() for image in flat.images]
        body = FormBody(fields, [(name, media_type(image), image) for image in data])
        return await self._asked(client.post(EDITS, body), api_images_output)


def _part(part: Part, request: Request) -> dict[str, Any]:
    if part.index is None:
        return {"type": "text", "text": part.text or ""}
    return {"type": "image_url", "image_url": {"url": DataUri(request.images[part.index])}}


def _label(part: Part, request: Request) -> Iterator[dict[str, Any]]:
    for label in request.images[part.index].labels[:1] if part.index is not None else ():
        yield {"type": "text", "text": f"Image {label}:"}


def _together(outputs: Sequence[Output]) -> Output:
    """The images of one call per slot as one output; a fault that may pass makes it one to be tried again."""
    passing = [output for output in outputs if output.status not in ("ok", "model_refused", "missing_output")]
    if passing:
        return passing[0]
    if all(output.status == outputs[0].status != "ok" for output in outputs):
        return outputs[0]
    images = [image for output in outputs for image in (list(output.images)[:1] or [None])]
    return Output(images, reason="; ".join(dict.fromkeys(output.reason for output in outputs if output.reason)))
