"""A scripted HTTP server on the loopback interface, for tests of whatever talks to an OpenAI-compatible server.

    with Server(lambda call: chat("red") if call.number else error(500)) as server:
        ...  # server.url, server.calls

A script is asked for the answer to each call but `GET /models`, which lists `models`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Call:
    """What came in. `number` counts from 0 the calls so far, `again` those with the same content."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    again: int = 0
    form: dict[str, list[str]] = field(default_factory=dict)
    files: tuple[tuple[str, str, bytes], ...] = ()  # (field, media type, data)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """Everything that is text in it, to look for words."""
        return json.dumps(self.json) if not self.form else json.dumps(self.form)

    @property
    def images(self) -> list[bytes]:
        """The images of a chat call or of a form, in order."""
        if self.form:
            return [data for _, _, data in self.files]
        return [base64.b64decode(data) for data in re.findall(r"data:image/\w+;base64,([^\"]*)", self.body.decode())]


@dataclass(frozen=True)
class Answer:
    """What goes out.

    `delay` seconds come first. `cut` closes the connection after so many bytes of the body, at 0 without any answer.
    `drip` sends the body in single bytes with so many seconds between them, `endless` sends it again and again.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    delay: float = 0.0
    cut: int | None = None
    drip: float | None = None
    endless: bool = False

    def but(self, **changes: Any) -> Answer:
        return replace(self, **changes)


def reply(value: Any, status: int = 200, **more: Any) -> Answer:
    return Answer(status, json.dumps(value).encode(), **more)


def chat(text: Any = None, finish: str = "stop", *, message: dict[str, Any] | None = None, **top: Any) -> Answer:
    """A chat completion; `message` adds to the message, other keywords to the reply."""
    said = {"role": "assistant", "content": text, **(message or {})}
    usage = {"prompt_tokens": 11, "completion_tokens": 3}
    return reply({"choices": [{"index": 0, "message": said, "finish_reason": finish}], "usage": usage, **top})


def images(*data: bytes | str) -> Answer:
    """A reply of the images API: bytes as base64, a string as an address."""
    return reply({"data": [{"url": d} if isinstance(d, str) else {"b64_json": b64(d)} for d in data]})


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def error(status: int, code: str | None = None, message: str = "it failed", **more: Any) -> Answer:
    return reply({"error": {"message": message, "type": "some_error", "code": code}}, status, **more)


def html(status: int = 200, text: str = "Welcome") -> Answer:
    return Answer(status, f"<html><body><h1>{text}</h1></body></html>".encode(), kind="text/html")


Script = Callable[[Call], Answer]


class Server:
    """The server, in a thread of its own while the context lasts. `most` is the most calls at one time."""

    def __init__(self, script: Script = lambda call: chat("a cat"), models: Sequence[str] | None = ("m",)) -> None:
        self.script, self.models = script, models
        self.calls: list[Call] = []
        self.asked: list[str] = []  # method and path of everything, also of what the script isn't asked
        self.most = self._now = 0
        self._seen: dict[bytes, int] = {}

    def __enter__(self) -> Server:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=20)

    async def _start(self) -> None:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        at = time.monotonic()
        self.asked.append(f"{request.method} {request.path}")
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            if request.path == "/v1/models" and self.models is not None:
                listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
                return web.json_response(listed)
            call = await self._call(request, at)
            self.calls.append(call)
            return await _send(request, self.script(call))
        finally:
            self._now -= 1

    async def _call(self, request: web.Request, at: float) -> Call:
        form: dict[str, list[str]] = {}
        files = []
        body = b""
        if request.content_type == "multipart/form-data":
            async for part in await request.multipart():
                data = bytes(await part.read())
                if part.filename:
                    files.append((part.name, part.headers["Content-Type"], data))
                else:
                    form.setdefault(part.name, []).append(data.decode())
            content = json.dumps(form).encode() + b"".join(data for *_, data in files)
        else:
            body = content = await request.read()
        again = self._seen[content] = self._seen.get(content, -1) + 1
        headers = {name.lower(): value for name, value in request.headers.items()}
        number = len(self.calls)
        return Call(number, request.method, request.path, headers, body, at, again, form, tuple(files))


async def _send(request: web.Request, answer: Answer) -> web.StreamResponse:
    await asyncio.sleep(answer.delay)
    assert request.transport is not None
    if answer.cut == 0:
        request.transport.abort()
        return web.Response()
    headers = {"Content-Type": answer.kind, **answer.headers}
    if answer.cut is None and answer.drip is None and not answer.endless:
        return web.Response(status=answer.status, body=answer.body, headers=headers)
    response = web.StreamResponse(status=answer.status, headers=headers)
    if not answer.endless:
        response.content_length = len(answer.body)
    await response.prepare(request)
    while answer.endless:
        await response.write(answer.body)
    if answer.cut is not None:
        await response.write(answer.body[: answer.cut])
        request.transport.close()
        return response
    for i in range(len(answer.body)):
        await response.write(answer.body[i : i + 1])
        await asyncio.sleep(answer.drip or 0)
    return response
