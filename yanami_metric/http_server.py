"""A server as a spec and its options name it, and the question before a run whether it can be used.

Knows the client and the protocol, no model and no judge.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from yanami_dataset.errors import ModelError, SpecError
from yanami_metric.http import KEY_VARIABLE, Client, Key, Policy, base_url
from yanami_metric.http_body import DataUris, json_body
from yanami_metric.http_faults import PASSING, HttpFault, quote
from yanami_metric.http_local import require_local

CHAT = "/chat/completions"
_PAUSES = (1.0, 2.0, 5.0)  # seconds between questions to a server that is still loading, the last one on and on


def split_spec(spec: str) -> tuple[str, str]:
    """Model and base URL of `<model>@<base url>`.

    Raises:
        SpecError: it is something else.

    >>> split_spec("@cf/a/b@http://localhost:8000/v1/")
    ('@cf/a/b', 'http://localhost:8000/v1')
    """
    found = re.fullmatch(r"(.+?)@(https?://.*)", spec, re.IGNORECASE)
    if found is None:
        raise SpecError("expected openai:<model>@<base url>, such as openai:qwen@http://localhost:8000/v1")
    return found[1], base_url(found[2])


@dataclass(frozen=True, slots=True)
class Connection:
    """How a server is reached.

    Args:
        base: its base URL.
        key: sent with every request.
        policy: time-outs, sizes, retries.
        check: whether it is asked for its models before a run.
        local_only: whether an address that is neither loopback nor private is refused.
    """

    base: str
    key: Key
    policy: Policy
    check: bool = True
    local_only: bool = False

    @classmethod
    def read(cls, base: str, options: Mapping[str, Any], others: Sequence[str] = ()) -> Connection:
        """From the options for loading as a user gives them; `others` are known to the caller and named in errors.

        Raises:
            SpecError: an unknown option, a value that makes no sense, or a variable that is named and not set.
        """
        rest = dict(options)
        variable, check = rest.pop("key_env", KEY_VARIABLE), rest.pop("check", True)
        if variable is not None and not isinstance(variable, str):
            raise SpecError(f"load.key_env: expected the name of a variable or null, got {type(variable).__name__}")
        if not isinstance(check, bool):
            raise SpecError(f"load.check: expected true or false, got {check!r}")
        known = [field.name for field in fields(Policy)]
        if unknown := [name for name in rest if name not in known]:
            expected = ", ".join(["key_env", *others, "check", *known])
            raise SpecError(f"load.{unknown[0]}: unknown, expected one of {expected}")
        key = Key(variable, required="key_env" in options and variable is not None)
        return cls(base, key, Policy(**rest), check)

    def kept_local(self) -> Connection:
        """The same, refusing any address that is neither loopback nor private.

        Raises:
            SpecError: this one is, or it can't be known.
        """
        require_local(self.base)
        return replace(self, local_only=True)

    def client(self, on_fault: Callable[[HttpFault], None] = lambda fault: None) -> Client:
        """A client for one event loop."""
        return Client(self.base, self.key, self.policy, on_fault=on_fault, local_only=self.local_only)


@dataclass(frozen=True, slots=True)
class Preflight:
    """The question before a run whether the server takes the key and has the model.

    Args:
        model: its name.
        connection: where it is.
        path: what would be called, should the server list no models.
        unchecked: how to go on without asking, for errors.
    """

    model: str
    connection: Connection
    path: str = CHAT
    unchecked: str = "--set load.check=false goes on without asking"

    async def ask(self, wait: float = 0.0) -> str:
        """Ask for the list of models, which costs nothing.

        Args:
            wait: seconds for which a server that doesn't answer yet is asked again.

        Returns:
            What couldn't be found out, "" if the server has the model.

        Raises:
            ModelError: a wrong key, model or URL, or no server.
        """
        policy = self.connection.policy
        brief = replace(policy, attempts=min(2, policy.attempts), timeout=min(60.0, policy.timeout))
        async with replace(self.connection, policy=brief).client() as client:
            try:
                names = _listed(await _patiently(client, wait))
            except HttpFault as fault:
                if fault.kind == "rate_limit":
                    return f"whether the server has the model {self.model!r} is not known: {fault.reason}"
                if fault.status not in (404, 405, 501):
                    raise self._refused(fault) from None
                return await self._reach(client)
        if names and self.model not in names:
            near = quote(", ".join(difflib.get_close_matches(self.model, names, 5, 0)))
            others = f"the server has no model {self.model!r} but {len(names)} others: {near}"
            raise ModelError(f"{others} ({self.unchecked})")
        return "" if names else f"the server lists no models, so that it has {self.model!r} is not known"

    async def _reach(self, client: Client) -> str:
        """Without a list of models: an empty request tells whether anybody takes such requests at this address."""
        try:
            await client.post(self.path, json_body({}, DataUris()))
        except HttpFault as fault:
            if fault.kind in ("auth", "not_found", "redirect", "connection", "timeout"):
                raise self._refused(fault) from None
        return f"the server doesn't list its models, so that it has {self.model!r} is not known"

    def _refused(self, fault: HttpFault) -> ModelError:
        return ModelError(f"openai:{self.model} can't be used: {self._why(fault)} ({self.unchecked})")

    def _why(self, fault: HttpFault) -> str:
        key = self.connection.key
        if fault.kind == "auth" and key:
            return f"the server doesn't take the key in {key.variable}: {fault.reason}"
        if fault.kind == "auth":
            return f"the server wants a key: set {key.variable or KEY_VARIABLE} ({fault.reason})"
        if fault.kind in ("not_found", "malformed"):
            return f"no such server at the base URL, which as a rule ends in /v1: {fault.reason}"
        return fault.reason


async def _patiently(client: Client, wait: float) -> Any:
    """The list of models, asked for until it comes, a fault that doesn't pass does, or the time is over."""
    until = time.monotonic() + wait
    pauses = iter(_PAUSES)
    pause = 0.0
    while True:
        try:
            return await client.get("/models")
        except HttpFault as fault:
            pause = next(pauses, pause)
            if fault.kind not in PASSING or time.monotonic() + pause > until:
                raise
        await asyncio.sleep(pause)


def _listed(reply: Any) -> list[str]:
    models = reply.get("data") if isinstance(reply, dict) else None
    found = [model.get("id") for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return [name for name in found if isinstance(name, str)]
