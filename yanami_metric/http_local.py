"""Which addresses are this machine's or this network's: for images that may not leave the house.

Only loopback (127.0.0.0/8, ::1), RFC 1918 (10/8, 172.16/12, 192.168/16) and unique local (fc00::/7) addresses are;
what can't be decided is not. A name must mean such addresses alone, both before a run and at every connection.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from yanami_dataset.errors import SpecError

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

_LOCAL = [
    ip_network(text) for text in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
]


def is_local(address: str) -> bool:
    """Whether a numeric address is loopback or private.

    >>> [is_local(address) for address in ("127.0.0.1", "192.168.1.7", "8.8.8.8", "::ffff:8.8.8.8", "no address")]
    [True, True, False, False, False]
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in network for network in _LOCAL)


def require_local(base: str) -> None:
    """Refuse the base URL of a server elsewhere.

    Args:
        base: as `http.base_url` gives it.

    Raises:
        SpecError: its host is or may be another than a loopback or private address, or is not known.
    """
    host = urlsplit(base).hostname or ""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:
        raise SpecError(
            f"--local-only: expected a loopback or private address, got {host!r}, which can't be resolved ({error})"
        ) from None
    if elsewhere := sorted(address for address in found if not is_local(address)):
        raise SpecError(f"--local-only: expected a loopback or private address, got {host!r}, which is {elsewhere[0]}")


def local_resolver() -> AbstractResolver:
    """A resolver for aiohttp to which names that mean an address elsewhere mean nothing."""
    from aiohttp.abc import AbstractResolver
    from aiohttp.resolver import ThreadedResolver

    class LocalResolver(AbstractResolver):
        def __init__(self) -> None:
            self._inner = ThreadedResolver()

        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> Any:
            found = await self._inner.resolve(host, port, family)
            if elsewhere := [entry["host"] for entry in found if not is_local(entry["host"])]:
                raise OSError(f"--local-only: {host} is now {elsewhere[0]}, neither loopback nor private")
            return found

        async def close(self) -> None:
            await self._inner.close()

    return LocalResolver()
