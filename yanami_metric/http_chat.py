"""What a chat reply of an OpenAI-compatible server says. Pure: no network, no options, no model and no judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from yanami_metric.http_faults import HttpFault, fault_within, quote, refuses


def first_choice(reply: Any) -> Mapping[str, Any]:
    """The first choice of a chat reply; empty if there is none, as some send what a filter emptied.

    Raises:
        HttpFault: the reply isn't one, or holds an error instead.

    >>> first_choice({"choices": [{"finish_reason": "stop"}]})
    {'finish_reason': 'stop'}
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise HttpFault("malformed", f"expected a list of objects as `choices`, got {keys(reply)}")
    choice: Mapping[str, Any] = choices[0] if choices else {}
    if fault := fault_within(choice):
        raise fault
    return choice


def message_of(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a choice, empty if it has none."""
    message = choice.get("message")
    return message if isinstance(message, dict) else {}


def keys(reply: Any) -> str:
    """What a reply is, for an error."""
    return f"the keys {quote(', '.join(map(str, reply)))}" if isinstance(reply, dict) else type(reply).__name__


def declined(choice: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    """Why the model or a filter declined; empty if none did.

    >>> declined({"finish_reason": "content_filter"}, {})
    "held back by the server's filter (content_filter)"
    """
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return f"refused: {quote(refusal)}"
    reasons = [choice.get(name) for name in ("finish_reason", "native_finish_reason")]
    return (
        f"held back by the server's filter ({', '.join(map(str, filter(None, reasons)))})" if refuses(*reasons) else ""
    )


def texts(content: Any) -> Iterator[str]:
    """The text of a message's content, a string or a list of parts.

    >>> list(texts([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]))
    ['a', 'b']
    """
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


def served(reply: Any, asked: str) -> str:
    """What the server says answered, where that says more than the name asked for.

    >>> served({"model": "m-2026-11-01", "system_fingerprint": "fp_1"}, "m")
    'served by m-2026-11-01, fp_1'
    """
    named = [reply.get(name) for name in ("model", "system_fingerprint")] if isinstance(reply, dict) else []
    said = [quote(name)[:100] for name in named if isinstance(name, str) and name and name != asked]
    return f"served by {', '.join(said)}" if said else ""
