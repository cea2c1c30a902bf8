"""Request bodies with images in them: each image is made base64 once, and spliced in rather than serialised again.

`JsonBody` is what chat calls send, `FormBody` what the images API takes. Pure but for `ImageRef.read`; no network.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Protocol

from yanami_dataset.images import media_type
from yanami_metric.records import ImageRef

CACHE_BYTES = 256 * 2**20


class Body(Protocol):
    """Something to send, any number of times."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes with it."""
        ...

    def payload(self) -> Any:
        """A fresh payload for one attempt, as aiohttp's `data=` takes it."""
        ...


@dataclass(frozen=True, slots=True)
class DataUri:
    """Stands for an image in a payload; becomes its data: URI in the body."""

    image: ImageRef


class DataUris:
    """The data: URIs of images, the encoded bytes as they are, by hash; the least used are let go.

    Args:
        limit: bytes kept in all.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit, self.size, self.made = limit, 0, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def of(self, image: ImageRef) -> bytes:
        """`data:<media type>;base64,<data>`."""
        uri = self._kept.get(image.sha256)
        if uri is None:
            data = image.read()
            uri = b"data:%b;base64,%b" % (media_type(data).encode(), base64.b64encode(data))
            self.made += 1
            self._kept[image.sha256] = uri
            self.size += len(uri)
            while self.size > self.limit and len(self._kept) > 1:
                self.size -= len(self._kept.popitem(last=False)[1])
        else:
            self._kept.move_to_end(image.sha256)
        return uri


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A JSON body in pieces, so that large ones are never put together."""

    pieces: tuple[bytes, ...]

    @property
    def headers(self) -> Mapping[str, str]:
        """Type and length."""
        return {"Content-Type": "application/json", "Content-Length": str(sum(map(len, self.pieces)))}

    def payload(self) -> AsyncIterator[bytes]:
        """The pieces, one after the other."""
        return self._stream()

    async def _stream(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def json_body(payload: Mapping[str, Any], uris: DataUris) -> JsonBody:
    """Serialise a payload in which `DataUri` objects stand for images.

    >>> json_body({"a": [1, "é"]}, DataUris()).pieces
    (b'{"a": [1, "\\\\u00e9"]}',)
    """
    images: list[ImageRef] = []
    mark = secrets.token_hex(16)  # nothing that a dialogue says can look like it

    def stand_in(value: Any) -> str:
        if not isinstance(value, DataUri):
            raise TypeError(f"expected something that JSON has, or a DataUri, got {type(value).__name__}")
        images.append(value.image)
        return mark

    texts = json.dumps(payload, default=stand_in).encode().split(mark.encode())
    pieces = [texts[0]]
    for image, text in zip(images, texts[1:], strict=True):
        pieces += [uris.of(image), text]
    return JsonBody(tuple(pieces))


@dataclass(frozen=True, slots=True)
class FormBody:
    """A multipart form: fields as text, files with their bytes as they are."""

    fields: Mapping[str, str]
    files: Sequence[tuple[str, str, bytes]] = field(repr=False)  # (field, media type, data)

    @property
    def headers(self) -> Mapping[str, str]:
        """None of its own: the boundary is the payload's."""
        return {}

    def payload(self) -> Any:
        """An aiohttp form."""
        from aiohttp import FormData

        form = FormData()
        for name, value in self.fields.items():
            form.add_field(name, value)
        for number, (name, kind, data) in enumerate(self.files, 1):
            filename = f"image-{number}.{kind.partition('/')[2]}"
            form.add_field(name, BytesIO(data), content_type=kind, filename=filename)
        return form


_URI = re.compile(r"data:image/[\w.+-]+;base64,([A-Za-z0-9+/=\s]*)")


def decode_data_uri(uri: str) -> bytes | None:
    """The bytes of an image's data: URI; None if it isn't one, or is damaged."""
    found = _URI.fullmatch(uri.strip())
    return decode_base64(found[1]) if found else None


def decode_base64(text: str) -> bytes | None:
    """The bytes, None if the text isn't base64 from end to end."""
    try:
        return base64.b64decode("".join(text.split()), validate=True) or None
    except ValueError:
        return None
