"""Small copies of images for a page, and where their originals are; made by threads, each once.

Pillow decodes, scales and encodes without Python's lock, so threads use all cores. It knows bytes and hashes, neither
dialogues nor runs.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, TypedDict

from yanami_dataset.errors import ImageError
from yanami_dataset.images import MAX_PIXELS, encode_png, media_type, open_rgb, sha256

if TYPE_CHECKING:
    from PIL.Image import Image

FOLDER = "report-images"
"""Beside the page: where the originals of images that are nowhere else go."""
BUDGET = 16_000_000
"""Characters that all small copies of a page may take, so that it can be mailed and opens at once."""
LADDER = ((192, 80), (160, 75), (128, 70), (128, 50), (96, 60), (96, 35))
"""Longest side in pixels and WebP quality, best first: an image takes the first that fits its share of the budget."""
_BYTES_PER_PIXEL = 0.14  # of a photograph as WebP: where on the ladder it is worth starting
_SHOWN = ("image/png", "image/jpeg", "image/webp", "image/gif")  # what every browser shows


class Picture(TypedDict, total=False):
    """An image as the page holds it: `thumb` a data: URI, `file` its original (a path or a data: URI), `width` and
    `height` of the original in pixels; or `why` it can't be shown."""

    thumb: str
    file: str
    width: int
    height: int
    why: str


class Pictures:
    """The images of one page; use it as a context manager.

    Args:
        folder: where the page goes; originals go to `report-images/` in it.
        count: about how many images there will be, which decides how small the copies are.
        inline: hold the originals themselves, as data: URIs, and write no file.
    """

    def __init__(self, folder: Path, count: int, *, inline: bool = False) -> None:
        self.inline = inline
        self._folder = folder / FOLDER
        self._allowance = BUDGET * 3 // 4 // max(1, count)
        self._ladder = LADDER[_rung(self._allowance) :]
        self._made: dict[str, Future[Picture]] = {}
        self._pool = ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 2))

    @property
    def side(self) -> int:
        """The longest side of a small copy in pixels."""
        return self._ladder[0][0]

    def __enter__(self) -> Pictures:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def of(self, digest: str, read: Callable[[], bytes], file: str = "") -> Future[Picture]:
        """An image, made in the background.

        Args:
            digest: of its bytes, by which it is found again.
            read: gives its bytes.
            file: where its original is, relative to the page; "": nowhere yet.
        """
        if digest not in self._made:
            self._made[digest] = self._pool.submit(self._make, read, file)
        return self._made[digest]

    def _make(self, read: Callable[[], bytes], file: str) -> Picture:
        try:
            data = read()
            image, (width, height) = _opened(data, self.side)
        except (ImageError, OSError) as error:
            return Picture(why=str(error))
        if self.inline:
            uri = _uri(*_original(data))
            return Picture(thumb=uri, file=uri, width=width, height=height)
        thumb = _uri("image/webp", self._small(image))
        return Picture(thumb=thumb, file=file or self._kept(data), width=width, height=height)

    def _small(self, image: Image) -> bytes:
        """The best copy that fits the image's share, or else the smallest."""
        encoded = b""
        for side, quality in self._ladder:
            image.thumbnail((side, side), reducing_gap=2.0)
            buffer = BytesIO()
            image.save(buffer, format="WEBP", quality=quality, method=2)
            encoded = buffer.getvalue()
            if len(encoded) <= self._allowance:
                break
        return encoded

    def _kept(self, data: bytes) -> str:
        """Write an original once; its path relative to the page."""
        kind, original = _original(data)
        name = f"{sha256(original)}.{kind.rpartition('/')[2]}"
        path = self._folder / name
        if not path.is_file() or path.stat().st_size != len(original):
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{name}.{os.getpid()}.{get_ident()}.tmp")
            temporary.write_bytes(original)
            temporary.replace(path)
        return f"{FOLDER}/{name}"


def _rung(allowance: int) -> int:
    """Where on the ladder a photograph about fits so many bytes.

    >>> _rung(10_000), _rung(2_300), _rung(0)
    (0, 2, 4)
    """
    fitting = [place for place, (side, _) in enumerate(LADDER) if side * side * _BYTES_PER_PIXEL <= allowance]
    return min([*fitting, 4])


def _opened(data: bytes, side: int) -> tuple[Image, tuple[int, int]]:
    """An image for scaling down, and the size of the original as displayed."""
    if media_type(data) == "image/jpeg":
        try:
            return _draft(data, side)
        except Exception:  # noqa: BLE001, S110 - whatever it was, the safe way says it better, or gets through
            pass
    image = open_rgb(data)
    return image, image.size


def _draft(data: bytes, side: int) -> tuple[Image, tuple[int, int]]:
    """A JPEG decoded at about the size needed, which takes a fraction of the time."""
    from PIL import ImageOps
    from PIL.ExifTags import Base
    from PIL.JpegImagePlugin import JpegImageFile

    image = JpegImageFile(BytesIO(data))
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ImageError(f"expected at most {MAX_PIXELS:,} pixels, got {width} x {height}")
    image.draft("RGB", (2 * side, 2 * side))
    if image.getexif().get(Base.Orientation, 1) >= 5:  # 5 to 8 lie on their side
        width, height = height, width
    return ImageOps.exif_transpose(image).convert("RGB"), (width, height)


def _original(data: bytes) -> tuple[str, bytes]:
    """Media type and bytes of an original: as it is where browsers show it, else as PNG."""
    kind = media_type(data)
    return (kind, data) if kind in _SHOWN else ("image/png", encode_png(open_rgb(data)))


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
