"""One asynchronous client for OpenAI-compatible servers: keys, limits, retries. Knows no model and no judge.

What it promises: the key comes from the environment and goes to the configured server alone; redirects are not
followed; an answer has a largest size and every attempt a time-out; what may pass (`http_faults.PASSING`) is tried
again with growing, scattered waits, never earlier than the server asks for. All else is an `HttpFault`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent
from urllib.parse import urlsplit

from yanami_dataset import __version__
from yanami_dataset.errors import MissingExtraError, SpecError
from yanami_metric.http_body import Body
from yanami_metric.http_faults import PASSING, HttpFault, fault_of, fault_within, parse, quote
from yanami_metric.http_local import local_resolver

if TYPE_CHECKING:
    from aiohttp import ClientResponse

KEY_VARIABLE = "OPENAI_API_KEY"
_SECRET = 12  # characters; what is shorter ("EMPTY", "none") stands for no key and may well be a word of an answer
_ERROR_BYTES = 64 * 2**10  # of the body of an error


def require_aiohttp() -> None:
    """Raise MissingExtraError, naming the command that installs it, if aiohttp isn't there."""
    try:
        import aiohttp  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("models and judges over HTTP need aiohttp: pip install 'yanami[judge]'") from error


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to wait and how often to try.

    Args:
        timeout: seconds for one attempt, from connecting to the last byte.
        connect_timeout: seconds to connect.
        attempts: of one call in all.
        backoff: seconds, at most, before the second attempt; doubled before each further one.
        max_wait: seconds that are waited for at most between attempts; a server that asks for more is given up.
        max_bytes: of an answer.
    """

    timeout: float = 600.0
    connect_timeout: float = 20.0
    attempts: int = 5
    backoff: float = 1.0
    max_wait: float = 120.0
    max_bytes: int = 128 * 2**20

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 1 if field.type == "int" else 0
            kinds = (int,) if field.type == "int" else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
                raise SpecError(f"{field.name}: expected a number of {least} or more, got {value!r}")

    def wait(self, attempt: int, asked: float | None) -> float:
        """Seconds before the attempt after this one, counted from 1: what the server asks for, and a scattered rest."""
        most = min(self.backoff * 2.0 ** (attempt - 1), self.max_wait)
        return (asked or 0.0) + most * random.uniform(0.5, 1.0)


class Key:
    """An API key that shows itself nowhere but in the header of a request.

    Args:
        variable: the environment variable that holds it; None: none is sent.
        required: whether it must be set.

    Raises:
        SpecError: it must be set and isn't, or it holds what no header can.
    """

    __slots__ = ("_forms", "_value", "variable")

    def __init__(self, variable: str | None = KEY_VARIABLE, *, required: bool = False) -> None:
        self.variable = variable
        self._value = os.environ.get(variable, "").strip() if variable else ""
        if required and not self._value:
            raise SpecError(f"expected an API key in the environment variable {variable}, which is not set")
        if not (self._value.isascii() and self._value.isprintable()):
            raise SpecError(f"{variable}: expected printable ASCII characters, got others (its value is not shown)")

        # as it is, as JSON and as an address have it
        forms = (self._value, self._value.replace("/", "\\/"), json.dumps(self._value)[1:-1], percent(self._value, ""))
        self._forms = {form.encode() for form in forms if len(self._value) >= _SECRET}

    def __repr__(self) -> str:
        return f"Key({self.variable}, {'set' if self else 'not set'})"

    def __bool__(self) -> bool:
        return bool(self._value)

    @property
    def headers(self) -> dict[str, str]:
        """The Authorization header; nothing if there is no key."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def scrub(self, body: bytes) -> bytes:
        """What a server sent, without the key, should it say it back."""
        for form in self._forms:
            body = body.replace(form, b"[key]")
        return body

    def scrub_text(self, text: str) -> str:
        """The same for text."""
        return self.scrub(text.encode(errors="replace")).decode()


def base_url(text: str) -> str:
    """The address of a server, without a slash at its end.

    Raises:
        SpecError: not http(s), or with a user, a query or a fragment, which may hold secrets and are not shown.

    >>> base_url("http://localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    example = "expected a base URL such as http://localhost:8000/v1"
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError:
        raise SpecError(f"{example}, got one that can't be read") from None
    if "@" in text or parts.query or parts.fragment:
        raise SpecError(f"{example}, got one with a user, query or fragment; keys come from the environment")
    if parts.scheme not in ("http", "https") or not host or not text.isprintable():
        raise SpecError(f"{example}, got {text!r}")
    return text.strip().rstrip("/")


class Client:
    """A connection pool to one server, to be used in one event loop: `async with Client(…) as client`.

    Args:
        base: as `base_url` takes it.
        key: sent with every request to that server.
        policy: time-outs, sizes and retries.
        on_fault: told of every failed attempt, also of those that are tried again.
        local_only: names that mean addresses elsewhere than `http_local` allows mean nothing.

    Raises:
        SpecError: the address can't be used.
        MissingExtraError: aiohttp isn't installed.
    """

    def __init__(
        self,
        base: str,
        key: Key,
        policy: Policy | None = None,
        *,
        on_fault: Callable[[HttpFault], None] = lambda fault: None,
        local_only: bool = False,
    ) -> None:
        require_aiohttp()
        self.local_only = local_only
        self.base, self.key, self.policy, self.on_fault = base_url(base), key, policy or Policy(), on_fault

    async def __aenter__(self) -> Client:
        import aiohttp

        self._session = aiohttp.ClientSession(
            # no limit of its own: time in its queue would count as time of the server
            connector=aiohttp.TCPConnector(limit=0, resolver=local_resolver() if self.local_only else None),
            timeout=aiohttp.ClientTimeout(total=self.policy.timeout, sock_connect=self.policy.connect_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": f"yanami/{__version__}",
            },
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> Any:
        """The JSON at a path below the base URL.

        Raises:
            HttpFault: there was no answer, after all attempts.
        """
        return await self._call("GET", path, None)

    async def post(self, path: str, body: Body) -> Any:
        """Send a body; errors and result as of `get`."""
        return await self._call("POST", path, body)

    async def _call(self, method: str, path: str, body: Body | None) -> Any:
        for attempt in range(1, self.policy.attempts + 1):
            try:
                return await self._once(method, path, body)
            except HttpFault as error:
                fault = error
            self.on_fault(fault)
            if fault.kind not in PASSING:
                break
            if (fault.wait or 0) > self.policy.max_wait:
                asked = f"{fault.reason}; the server asks to wait {fault.wait:.0f} s, more than max_wait"
                raise HttpFault(fault.kind, asked, fault.status, fault.wait)
            if attempt == self.policy.attempts:
                times = f"{fault.reason} (attempt {attempt} of {attempt})"
                raise HttpFault(fault.kind, times, fault.status, fault.wait)
            await asyncio.sleep(self.policy.wait(attempt, fault.wait))
        raise fault

    async def _once(self, method: str, path: str, body: Body | None) -> Any:
        import aiohttp

        try:
            async with self._session.request(
                method,
                self.base + path,
                data=body.payload() if body else None,
                headers={**self.key.headers, **(body.headers if body else {})},
                allow_redirects=False,
            ) as response:
                return self._parsed(response, await self._read(response))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            fault = self._of(error)
        raise fault  # outside, as what aiohttp raises refers to the request with all its headers

    async def _read(self, response: ClientResponse) -> bytes:
        failed = response.status >= 300
        most = _ERROR_BYTES if failed else self.policy.max_bytes
        data = bytearray()
        async for chunk in response.content.iter_any():
            data += chunk
            if len(data) > most:
                if failed:
                    break
                raise HttpFault("malformed", f"expected an answer of at most {most} bytes, got more", response.status)
        return self.key.scrub(bytes(data))

    def _parsed(self, response: ClientResponse, data: bytes) -> Any:
        if 300 <= response.status < 400:
            target = self.key.scrub_text(response.headers.get("Location", ""))
            raise HttpFault("redirect", _redirected(target), response.status)
        if response.status >= 400:
            raise fault_of(response.status, response.headers, data)
        parsed = parse(data)
        if parsed is None:
            text = quote(re.sub(r"<[^>]*>", " ", data[:4000].decode(errors="replace")))
            raise HttpFault("malformed", f"expected JSON, got {text or 'nothing'}", response.status)
        if fault := fault_within(parsed):
            raise fault
        return parsed

    def _of(self, error: Exception) -> HttpFault:
        if isinstance(error, TimeoutError):
            return HttpFault("timeout", f"no whole answer within {self.policy.timeout:g} s")
        return HttpFault("connection", quote(f"{type(error).__name__}: {self.key.scrub_text(str(error))}"))


def _redirected(location: str) -> str:
    """Where a redirect points, without what may be secret in it."""
    where = location.partition("?")[0].partition("#")[0].rpartition("@")[2]
    return quote(f"the server redirects to {where or 'nowhere'}, which is not followed: give the right base URL")
