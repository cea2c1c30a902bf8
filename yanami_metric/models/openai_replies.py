"""What a reply of an OpenAI-compatible server says, as an `Output`. Pure: no network, no options.

Images are taken from where servers put them: `data[].b64_json` of the images API; in a chat reply `message.images`,
parts of the content, or data: URIs in its text. An address of an image is never fetched: whoever answers could name
any address, and what lies there may change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from yanami_metric.http_body import decode_base64, decode_data_uri
from yanami_metric.http_chat import declined, first_choice, keys, message_of, texts
from yanami_metric.http_faults import FaultKind, HttpFault, quote
from yanami_metric.records import Output
from yanami_metric.thinking import split_thinking

ADDRESS = (
    "the server sent the address of an image, which is not fetched: ask for its bytes, as a rule by "
    "--set drawing.response_format=b64_json"
)
_STATUS: dict[FaultKind, str] = {
    "refused": "model_refused",
    "too_large": "unsupported",
    "too_long": "unsupported",
    "bad_image": "unsupported",
}
_URI = re.compile(r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+")


def failed(fault: HttpFault) -> Output:
    """What a call without an answer is: the model's own doing, its limits, or else infrastructure."""
    return Output(status=_STATUS.get(fault.kind, "generation_error"), reason=fault.reason)


def text_output(reply: Any) -> Output:
    """The answer in a chat reply.

    Raises:
        HttpFault: the reply isn't one.

    >>> text_output({"choices": [{"message": {"content": "<think>a cat?</think>A cat."}}]}).text
    'A cat.'
    """
    choice = first_choice(reply)
    message = message_of(choice)
    thinking, text = _spoken(message)
    if why := declined(choice, message):
        return Output(text=text or None, thinking=thinking, status="model_refused", reason=why)
    cut = choice.get("finish_reason") == "length"
    if not text:
        return _no_answer(thinking, cut=cut)
    return Output(text=text, thinking=thinking, reason="the answer was cut off at the token limit" if cut else "")


def chat_images_output(reply: Any) -> Output:
    """The images in a chat reply, with its text beside them.

    Raises:
        HttpFault: the reply isn't one.
    """
    choice = first_choice(reply)
    message = message_of(choice)
    thinking, text = _spoken(message)
    images, reason = _decoded(_shown(message, text))
    text = _URI.sub("[image]", text)
    why = declined(choice, message)
    if why and not any(images):
        return Output(text=text or None, thinking=thinking, status="model_refused", reason=why)
    if images:
        return Output(images, text or None, thinking, reason=reason)
    if not text:
        return _no_answer(thinking, cut=choice.get("finish_reason") == "length")
    return Output((), text, thinking, "missing_output", f"a reply without an image: {quote(text)}")


def api_images_output(reply: Any) -> Output:
    """The images in a reply of the images API.

    Raises:
        HttpFault: the reply isn't one.
    """
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list):
        raise HttpFault("malformed", f"expected a list of images as `data`, got {keys(reply)}")
    if not data:
        return Output(status="model_refused", reason="empty reply: no image and no reason")
    images, reason = _decoded(iter(data))
    return Output(images, reason=reason)


def _no_answer(thinking: str | None, *, cut: bool) -> Output:
    """An empty reply is a refusal, unless it is clear that the model was at work."""
    if cut:
        return Output(thinking=thinking, status="missing_output", reason="cut off at the token limit before an answer")
    if thinking:
        return Output(thinking=thinking, status="missing_output", reason="only thinking, no answer")
    return Output(status="model_refused", reason="empty reply")


def _spoken(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """Thinking and answer, from wherever servers put them."""
    parts = _parts(message)
    beside = [message.get(name) for name in ("reasoning_content", "reasoning")]  # one of them: some send it as both
    apart = [value for value in beside if isinstance(value, str)][:1]
    apart += ["".join(texts(part.get("thinking"))) for part in parts if part.get("type") == "thinking"]
    inside, answer = split_thinking("".join(texts(message.get("content"))))
    thinking = "\n".join(text.strip() for text in (*apart, inside) if text and text.strip())
    return thinking or None, answer


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _shown(message: Mapping[str, Any], text: str) -> Iterator[Any]:
    """The images of a message as the server has them; one place is read, as some send the same image in two."""
    images = message.get("images")
    if isinstance(images, list) and images:
        yield from images
        return
    parts = [part for part in _parts(message) if str(part.get("type")) in ("image", "image_url", "output_image")]
    yield from parts or _URI.findall(text)


def _decoded(shown: Iterator[Any]) -> tuple[list[bytes | None], str]:
    """Each image's bytes, or None with the reasons."""
    found = [_bytes(_source(image)) for image in shown]
    reasons = dict.fromkeys(image for image in found if isinstance(image, str))
    return [image if isinstance(image, bytes) else None for image in found], "; ".join(reasons)


def _source(image: Any) -> Any:
    """The text that holds an image: itself, or under one of the names that servers give it."""
    for _ in range(3):  # {"image_url": {"url": …}}, and one more for those that wrap once again
        if not isinstance(image, dict):
            break
        names = ("b64_json", "image_url", "url", "data", "image", "base64")
        image = next((image[name] for name in names if image.get(name)), None)
    return image


def _bytes(source: Any) -> bytes | str:
    """The encoded image, or why there is none."""
    if not isinstance(source, str):
        return "expected an image as base64 or a data: URI, got none"
    if re.match(r"https?://", source):
        return ADDRESS
    data = decode_data_uri(source) if source.startswith("data:") else decode_base64(source)
    return data or f"expected an image as base64 or a data: URI, got {quote(source[:60])!r}"
