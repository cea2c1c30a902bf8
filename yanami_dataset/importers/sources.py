"""Image bytes from what a foreign file says about them: a path beside it, or the bytes themselves. Never the network.

A path is relative to the importing file's folder and stays inside it. Knows nothing of dialogues.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from yanami_dataset.errors import SourceError

MAX_FILE_BYTES = 256 * 2**20
"""A larger file is refused before it is read; the largest image that `images` takes has 192 MB uncompressed."""

_KEYS = ("image", "image_url", "url", "path")

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://|file:", re.IGNORECASE)


def shown(value: object, limit: int = 80) -> str:
    """The value for an error message, shortened.

    >>> shown("x" * 200, limit=10)
    "'xxxxxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


def source_of(value: Mapping[str, Any]) -> Any:
    """What a mapping names as its image, for `ImageSources.read`; null is as good as absent, None where it names none.

    >>> source_of({"type": "image", "path": None, "url": "a.png"})
    'a.png'
    """
    if value.get("bytes") is not None:
        return {"bytes": value["bytes"]}
    return next((value[key] for key in _KEYS if value.get(key) is not None), None)


class ImageSources:
    """Reads the images that files in `folder` name; what was read last is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._last: dict[Path, bytes] = {}

    def read(self, source: Any) -> tuple[bytes, str]:
        """The bytes, and where they are from: a path inside the folder, or "" for inline bytes.

        `source` is a path, a `data:` URI, or a mapping with `path`, `bytes` (base64) or `url`.

        Raises:
            SourceError: anything else, a file that isn't there or not inside the folder, an address on the network.
        """
        while isinstance(source, Mapping):
            if source.get("bytes") is not None:
                return _base64(source["bytes"]), ""
            source = source_of(source)
        if not isinstance(source, str):
            raise SourceError(f"expected a path, a data: URI or {{path | bytes | url}}, got {shown(source)}")
        if source[:5].lower() == "data:":
            return _data_uri(source), ""
        path = self._inside(source)
        if path not in self._last:
            self._last = {path: self._load(path, source)}
        return self._last[path], source

    def _inside(self, source: str) -> Path:
        if source[:5].lower() in ("http:", "https"):
            raise SourceError(f"expected a file, got {shown(source)}: yanami fetches nothing, download it first")
        windows = PureWindowsPath(source)  # it knows both kinds of slashes
        if _ADDRESS.match(source) or windows.drive or windows.root or ".." in windows.parts:
            raise SourceError(f"expected a path inside {self._folder}, relative to it, got {shown(source)}")
        try:
            path = (self._folder / source).resolve()
            exists = path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a null byte, a loop of links
            why = error.strerror if isinstance(error, OSError) else error
            raise SourceError(f"expected a path, got {shown(source)}: {why}") from error
        if not path.is_relative_to(self._folder):
            raise SourceError(f"expected a path inside {self._folder}, got {shown(source)}, a link to {path}")
        if not exists:
            raise SourceError(f"expected an image file in {self._folder}, got {shown(source)}, which is none")
        return path

    def _load(self, path: Path, source: str) -> bytes:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise SourceError(f"expected an image of at most {MAX_FILE_BYTES:,} bytes, got {shown(source)} of {size:,}")
        try:
            return path.read_bytes()
        except OSError as error:
            raise SourceError(f"expected a readable file, got {shown(source)}: {error}") from error


def _data_uri(uri: str) -> bytes:
    head, comma, body = uri.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise SourceError(f"expected data:image/...;base64,..., got {shown(uri)}")
    return _base64(body)


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise SourceError(f"expected base64 text, got {shown(text)}")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SourceError(f"expected base64 text, got {shown(text)}: {error}") from error
