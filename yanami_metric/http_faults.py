"""What can become of a call to an OpenAI-compatible server but an answer, told apart by status and error code.

Pure: it sees statuses, headers and bodies, knows no client, no model and no judge. Codes decide, never words in a
message: a message is quoted for people to read. Which codes mean what is ours, from what the servers were seen to send.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, get_args

from yanami_dataset.errors import YanamiError

FaultKind = Literal[
    "refused",  # moderation or a content filter: final
    "too_large",  # 413: the request, or an image in it, has too many bytes
    "too_long",  # more tokens or images than the model takes
    "bad_image",  # the server can't read an image that we sent
    "auth",  # the key is wrong, missing or may not do this
    "not_found",  # no such model or address
    "bad_request",  # anything else that the server doesn't take
    "quota",  # the account is out of money
    "rate_limit",
    "server",  # 5xx
    "timeout",
    "connection",  # refused, reset, or cut in the middle of the answer
    "redirect",  # never followed
    "malformed",  # an answer that isn't what the protocol says, or has no end
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
# Faults that may be gone the next time; the client tries these again.
PASSING: tuple[FaultKind, ...] = ("rate_limit", "server", "timeout", "connection")

_QUOTED = 300  # characters of a server's message
_KEY_LIKE = re.compile(r"\bsk-[\w*/+=.-]{6,}")  # servers say keys back, partly masked

# compared without case and punctuation
_CODES: dict[FaultKind, tuple[str, ...]] = {
    "refused": (
        "content_filter",
        "content_filtered",
        "content_moderation",
        "content_policy_violation",
        "content_safety_violation",
        "data_inspection_failed",
        "image_safety",
        "moderation_blocked",
        "prohibited_content",
        "responsible_ai_policy_violation",
        "safety",
        "sensitive_content_detected",
    ),
    "too_large": ("request_too_large", "request_entity_too_large", "payload_too_large", "image_too_large"),
    "too_long": ("context_length_exceeded", "exceed_context_size_error", "string_above_max_length", "too_many_images"),
    "bad_image": (
        "image_parse_error",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_file",
        "unsupported_image_media_type",
    ),
    "quota": ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"),
    "not_found": ("model_not_found",),
    "auth": ("invalid_api_key",),
}
_BY_STATUS: dict[int, FaultKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    413: "too_large",
    425: "server",
    429: "rate_limit",
}


class HttpFault(YanamiError):
    """A call without an answer. Adapters turn it into a status; `reason` is for people and holds no secret.

    `kind` is one of KINDS, `status` the HTTP status if there was one, `wait` what the server asked to wait, in seconds.
    """

    def __init__(self, kind: FaultKind, reason: str, status: int | None = None, wait: float | None = None) -> None:
        self.kind, self.reason, self.status, self.wait = kind, reason, status, wait
        super().__init__(reason)


def fault_of(status: int, headers: Mapping[str, str], body: bytes) -> HttpFault:
    """The fault that an HTTP answer with an error status stands for.

    >>> fault_of(400, {}, b'{"error": {"code": "content_filter", "message": "Not this."}}').kind
    'refused'
    >>> str(fault_of(503, {}, b"<html><h1>Bad</h1> gateway</html>"))
    'HTTP 503: Bad gateway'
    """
    parsed = parse(body)
    kind = _kind(status, _codes(parsed))
    said = message(parsed) or quote(re.sub(r"<[^>]*>", " ", body[:4000].decode(errors="replace")))
    return HttpFault(kind, f"HTTP {status}: {said}" if said else f"HTTP {status}", status, retry_after(headers))


def fault_within(parsed: Any) -> HttpFault | None:
    """The fault that an answer with status 200 holds instead of a result, as some gateways send; None if it has none.

    >>> fault_within({"error": {"code": 502, "message": "provider is down"}}).kind
    'server'
    """
    error = parsed.get("error") if isinstance(parsed, dict) else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else 500
    return HttpFault(_kind(status, _codes(parsed)), f"error {code or ''}: {message(parsed)}".replace(" :", ":"))


def refuses(*codes: Any) -> bool:
    """Whether one of the codes or finish reasons says that a filter held the answer back.

    >>> refuses("stop", "content_filter"), refuses("length", None)
    (True, False)
    """
    return bool({_plain(code) for code in codes} & _PLAIN["refused"])


def parse(body: bytes) -> Any:
    """JSON, or None where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def quote(text: str) -> str:
    """A server's words on one line, cut to a length that fits into a reason, without what looks like a key.

    >>> quote("Incorrect API key provided: sk-abc1****wxyz")
    'Incorrect API key provided: [key]'
    """
    line = _KEY_LIKE.sub("[key]", " ".join(text.split()))
    return line if len(line) <= _QUOTED else line[: _QUOTED - 1] + "…"


def message(parsed: Any) -> str:
    """What the body of an error says to people: `error.message`, `error`, `message` or `detail`."""
    body = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    said = inner or body.get("message") or body.get("detail") or ""
    return quote(said if isinstance(said, str) else json.dumps(said))


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` as a number or a date; None: it doesn't.

    >>> retry_after({"Retry-After": "2"}), retry_after({"Retry-After": "soon"})
    (2.0, None)
    """
    named = {name.lower(): value.strip() for name, value in headers.items()}
    if re.fullmatch(r"\d+(\.\d+)?", named.get("retry-after-ms", "")):
        return float(named["retry-after-ms"]) / 1000
    asked = named.get("retry-after", "")
    if re.fullmatch(r"\d+(\.\d+)?", asked):
        return float(asked)
    try:
        until = parsedate_to_datetime(asked)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _kind(status: int, codes: set[str]) -> FaultKind:
    for kind, known in _PLAIN.items():
        if codes & known:
            return kind
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "server" if status >= 500 else "redirect" if 300 <= status < 400 else "bad_request"


def _codes(parsed: Any) -> set[str]:
    return {_plain(code) for code in _named(parsed[0] if isinstance(parsed, list) and parsed else parsed)}


def _named(body: Any) -> Iterator[Any]:
    """Every code and type of an error body, also of the inner errors that Azure sends."""
    for _ in range(4):  # no deeper: it is the server's to say how deep
        if not isinstance(body, dict):
            return
        yield from (body.get("code"), body.get("type"))
        body = body.get("error") or body.get("innererror") or body.get("inner_error")


def _plain(code: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", code.lower()) if isinstance(code, str) else ""


_PLAIN: dict[FaultKind, frozenset[str]] = {kind: frozenset(map(_plain, codes)) for kind, codes in _CODES.items()}
