"""`openai:<model>@<base url>` as a judge: any OpenAI-compatible server, be it vLLM, SGLang, llama.cpp or hosted.

Knows calls and the protocol; what to ask and what a reply means are not its business. Options of the call:

    schema        "auto" (the default) sends the JSON schema of the reply, and no more once the server has refused one;
                  "on" always, "off" never
    system        true; false: the rubric leads the user's message, for chat templates without a system role
    seed          true: the number of the sample is sent as the seed; false: none is
    detail        of images, e.g. "high", for servers that know it
    NAME          anything else is a field of the body: temperature (0 unless set), max_tokens (4096 unless set), …;
                  null leaves it out

Options for loading (`load.NAME`): `key_env`, the variable with the API key (null: none is sent), `check=false` for
servers that take names they don't list, and all of `http.Policy`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import Message, Part
from yanami_metric.http import Client, require_aiohttp
from yanami_metric.http_body import DataUri, DataUris, json_body
from yanami_metric.http_chat import declined, first_choice, message_of, served, texts
from yanami_metric.http_faults import FaultKind, HttpFault
from yanami_metric.http_server import CHAT, Connection, Preflight, split_spec
from yanami_metric.judges.conversation import conversation
from yanami_metric.judges.shrinking import CODEC, shrink
from yanami_metric.loop import Loop
from yanami_metric.records import CallKind, ImageRef, JudgeCall, JudgeError, Reply

VERSION = 1  # of how calls are put into messages: what changes them changes this
_DEFAULTS = {"temperature": 0, "max_tokens": 4096}
_OURS = ("model", "messages", "stream", "n", "tools", "response_format")  # fields that are no options
_STATUS: dict[FaultKind, str] = {"refused": "refused", "bad_image": "bad_image"}
_TOO_MUCH = ("too_large", "too_long")
_NO_SCHEMA = "without a JSON schema, which the server refused"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the call, as this module's docstring has them.

    Raises:
        SpecError: a value that makes no sense.
    """

    schema: str = "auto"
    system: bool = True
    seed: bool = True
    detail: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Options:
        """From the options as a user gives them."""
        known = {f.name for f in fields(cls)} - {"body"}
        own = {name: value for name, value in options.items() if name in known}
        given = {name: value for name, value in options.items() if name not in known}
        defaults = dict(_DEFAULTS)
        if "max_completion_tokens" in given:
            del defaults["max_tokens"]
        return cls(**own, body={**defaults, **given})

    def __post_init__(self) -> None:
        if self.schema not in ("auto", "on", "off"):
            raise SpecError(f"schema: expected auto, on or off, got {self.schema!r}")
        for name in ("system", "seed"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"{name}: expected true or false, got {getattr(self, name)!r}")
        if not isinstance(self.detail, str | None):
            raise SpecError(f"detail: expected a string, got {self.detail!r}")
        if ours := [name for name in self.body if name in _OURS]:
            raise SpecError(f"{', '.join(ours)}: set by yanami itself, expected other fields of the call")

    @property
    def sent(self) -> dict[str, Any]:
        """The fields of the body."""
        return {name: value for name, value in self.body.items() if value is not None}


class OpenAIJudge:
    """A judge behind an OpenAI-compatible server. One client serves all calls in an event loop, until `aclose`.

    `name` holds no address: the same model at another port is the same judge, whose verdicts are found again.

    Args:
        spec: <model>@<base url>.
        load: options of the connection.
        call: options of the call.
        tag: names what the model's name hides, a snapshot or a quantization.

    Raises:
        SpecError: a spec or option that makes no sense.
        MissingExtraError: aiohttp isn't installed.

    >>> judge = OpenAIJudge("m@http://localhost:8000/v1", call={"temperature": None, "top_k": 1}, tag="int8")
    >>> judge.name, judge.fingerprint["body"]
    ('openai:m int8', {'max_tokens': 4096, 'top_k': 1})
    """

    kinds: frozenset[CallKind] = frozenset({"answer", "checks", "quality"})
    reads_prompt = True

    def __init__(
        self,
        spec: str,
        *,
        load: Mapping[str, Any] | None = None,
        call: Mapping[str, Any] | None = None,
        tag: str | None = None,
    ) -> None:
        require_aiohttp()
        self.model, base = split_spec(spec)
        self.connection = Connection.read(base, load or {})
        self.options = Options.read(call or {})
        self.tag = tag
        self.name = " ".join(filter(None, [f"openai:{self.model}", tag]))
        self.on_pressure: Callable[[], None] = lambda: None
        self._schema = self.options.schema != "off"
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uris = DataUris()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The model's name, what is sent besides the prompt, and the tag."""
        options = {name: getattr(self.options, name) for name in ("schema", "system", "seed", "detail")}
        tag = {"tag": self.tag} if self.tag else {}
        return {"judge": "openai", "version": VERSION, "model": self.model, "body": self.options.sent, **options, **tag}

    def check(self, wait: float = 0.0) -> str:
        """Ask the server for the list of models, which costs nothing.

        Args:
            wait: seconds to wait for a server that is still loading.

        Returns:
            What couldn't be found out, "" if the server has the model.

        Raises:
            ModelError: a wrong key, model or URL, or no server.
        """
        if not self.connection.check:
            return ""
        unchecked = "--judge-set load.check=false goes on without asking"
        with Loop() as loop:
            return loop.run(Preflight(self.model, self.connection, unchecked=unchecked).ask(wait))

    def keep_local(self) -> None:
        """Refuse any address that is neither loopback nor private, now and at every connection.

        Raises:
            SpecError: the server's is.
        """
        self.connection = self.connection.kept_local()

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.__aexit__()

    async def judge(self, call: JudgeCall) -> Reply:
        """Ask; images too large for the server are made smaller, once, and the reply's note says so.

        Raises:
            JudgeError: refused (final), bad_image or transport_error.
        """
        client = await self._connected()
        try:
            return await self._asked(client, call)
        except HttpFault as fault:
            if fault.kind not in _TOO_MUCH or not call.images:
                raise _failed(fault) from None
        except (DataError, OSError) as error:
            raise _unreadable(error) from None
        return await self._with_smaller_images(client, call)

    async def _with_smaller_images(self, client: Client, call: JudgeCall) -> Reply:
        try:
            images = tuple([await asyncio.to_thread(shrink, image) for image in call.images])
            reply = await self._asked(client, replace(call, images=images))
        except HttpFault as fault:
            raise _failed(fault, f" (images as {CODEC})") from None
        except (DataError, OSError) as error:
            raise _unreadable(error) from None
        return replace(reply, note="; ".join(filter(None, [f"images as {CODEC}", reply.note])))

    async def _connected(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = await self.connection.client(self._felt).__aenter__()
            self._loop = loop
        return self._client

    def _felt(self, fault: HttpFault) -> None:
        if fault.kind in ("rate_limit", "timeout") or fault.status == 503:
            self.on_pressure()

    async def _asked(self, client: Client, call: JudgeCall) -> Reply:
        """With a schema where the server honours one."""
        if not (self._schema and call.schema):
            missed = self.options.schema == "auto" and call.schema
            return await self._once(client, call, _NO_SCHEMA if missed else "")
        form = {"name": call.kind, "schema": call.schema, "strict": True}
        try:
            return await self._once(client, call, response_format={"type": "json_schema", "json_schema": form})
        except HttpFault as fault:
            if self.options.schema == "on" or fault.kind != "bad_request" or fault.status not in (400, 422):
                raise
        reply = await self._once(client, call, _NO_SCHEMA)
        self._schema = False  # only now: what else may be wrong with the request is not the schema's fault
        return reply

    async def _once(self, client: Client, call: JudgeCall, note: str = "", **more: Any) -> Reply:
        seed = {"seed": call.sample} if self.options.seed else {}
        body = {"model": self.model, "messages": self._messages(call), **seed, **self.options.sent, **more}
        answer = await client.post(CHAT, json_body(body, self._uris))
        return _reply(answer, "; ".join(filter(None, [note, served(answer, self.model)])))

    def _messages(self, call: JudgeCall) -> list[dict[str, Any]]:
        """As chat messages; a message without images is a string, which every server takes."""
        turns = [{"role": turn.role, "content": self._content(turn, call.images)} for turn in conversation(call)]
        if self.options.system:
            return [{"role": "system", "content": call.rubric}, *turns]
        turns[0]["content"] = _led_by(call.rubric, turns[0]["content"])
        return turns

    def _content(self, message: Message, images: Sequence[ImageRef]) -> str | list[dict[str, Any]]:
        if not message.image_parts:
            return "".join(part.text or "" for part in message.content)
        return [self._part(part, images) for part in message.content]

    def _part(self, part: Part, images: Sequence[ImageRef]) -> dict[str, Any]:
        if part.index is None:
            return {"type": "text", "text": part.text or ""}
        detail = {"detail": self.options.detail} if self.options.detail else {}
        return {"type": "image_url", "image_url": {"url": DataUri(images[part.index]), **detail}}


def _led_by(rubric: str, content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return f"{rubric}\n\n{content}"
    return [{"type": "text", "text": f"{rubric}\n\n"}, *content]


def _reply(answer: Any, note: str) -> Reply:
    choice = first_choice(answer)
    message = message_of(choice)
    if why := declined(choice, message):
        raise JudgeError("refused", why, final=True)
    usage = answer.get("usage")
    counts = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    tokens = [count if isinstance(count, int) else None for count in counts]
    cut = "cut off at the token limit" if choice.get("finish_reason") == "length" else ""
    text = "".join(texts(message.get("content")))
    return Reply(text, tokens[0], tokens[1], "; ".join(filter(None, [note, cut])))


def _failed(fault: HttpFault, how: str = "") -> JudgeError:
    status = _STATUS.get(fault.kind, "transport_error")
    return JudgeError(status, f"{fault.reason}{how}", final=status == "refused")


def _unreadable(error: Exception) -> JudgeError:
    return JudgeError("bad_image", f"an image can't be read: {type(error).__name__}: {error}")
