"""Encoded images: what they are, and reading them safely from anywhere.

Nothing here changes PIL's global settings, nor do they (`MAX_IMAGE_PIXELS`) decide what is refused: sizes are read from
the header and checked before anything is decoded. Knows bytes and dialogues, no files.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import ImageError, InvariantError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from yanami_dataset.schema import Dialogue

MAX_PIXELS = 64_000_000
"""More pixels than this are refused before decoding: 192 MB as RGB, 16 times a 2048 x 2048 image."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""What is read: the formats that browsers and judges' servers show."""

_PIL_FAULTS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    AttributeError,
    struct.error,
    zlib.error,
    Warning,
)
_REMEMBERED = 4096  # some 100 bytes each


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Width and height in pixels as displayed (after EXIF rotation) and the format, one of FORMATS."""

    width: int
    height: int
    format: str


_known: dict[str, ImageFacts] = {}  # a memo by content: the same image is decoded once to be checked


def sha256(data: bytes | memoryview) -> str:
    """The hash of the encoded bytes, 64 lower-case hex digits.

    >>> sha256(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(data).hexdigest()


def inspect(data: bytes | memoryview) -> ImageFacts:
    """Size and format of an image that decodes to its end.

    Raises:
        ImageError: empty, not one of FORMATS, animated, more than MAX_PIXELS, truncated or broken.
    """
    digest = sha256(data)
    facts = _known.get(digest)
    if facts is None:
        image = _load(data)
        width, height = image.size
        if _orientation(image) >= 5:  # 5 to 8 lie on their side
            width, height = height, width
        facts = ImageFacts(width, height, str(image.format))
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[digest] = facts
    return facts


def media_type(data: bytes | memoryview) -> str:
    """The media type by the first bytes, without decoding.

    Raises:
        ImageError: not one of FORMATS.

    >>> media_type(b"GIF89a")
    'image/gif'
    """
    name = _format(bytes(data[:16]))
    if name is None:
        raise ImageError(f"expected an image ({', '.join(FORMATS)}), got {len(data)} bytes: {bytes(data[:12])!r}…")
    return f"image/{name.lower()}"


def orientation(data: bytes | memoryview) -> int:
    """How EXIF says that the image is turned, 1 to 8; 1: not at all.

    Raises:
        ImageError: as `inspect`.
    """
    found = _orientation(_load(data))
    return found if 1 <= found <= 8 else 1


def open_rgb(data: bytes | memoryview) -> Image:
    """The image as it is displayed, RGB with 8 bits: EXIF rotation applied, transparency on white, 16 bits scaled to 8.

    Raises:
        ImageError: as `inspect`.
    """
    from PIL import ImageOps

    image = _load(data)
    try:
        return _to_rgb(ImageOps.exif_transpose(image))
    except _PIL_FAULTS as error:
        raise ImageError(f"expected an image that converts to RGB, got mode {image.mode}: {error}") from error


def encode_png(image: Image) -> bytes:
    """The image as PNG, quick to write (compression level 1)."""
    buffer = BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def check_images(dialogue: Dialogue) -> None:
    """Decode every image of the pool and compare hash, width and height with `image_info`.

    Raises:
        InvariantError: listing each image that breaks a rule, with what was expected and what came.
    """
    problems = [problem for i in range(len(dialogue.images)) for problem in _image_problems(dialogue, i)]
    if problems:
        raise InvariantError(dialogue.id, problems)


def _image_problems(dialogue: Dialogue, i: int) -> Iterator[str]:
    data, info = dialogue.images[i], dialogue.image_info[i]
    if (digest := sha256(data)) != info.sha256:
        yield f"image_info[{i}].sha256: expected the hash of the bytes, {digest}, got {info.sha256}"
    try:
        facts = inspect(data)
    except ImageError as error:
        yield f"images[{i}]: {error}"
        return
    if (facts.width, facts.height) != (info.width, info.height):
        yield (
            f"image_info[{i}]: expected the displayed size {facts.width} x {facts.height}, "
            f"got {info.width} x {info.height}"
        )


def _load(data: bytes | memoryview) -> ImageFile:
    """Decode into the image's own mode, after the checks that need only the header."""
    from PIL.Image import DecompressionBombError

    name = _format(bytes(data[:16]))
    if name is None:
        got = "no bytes" if not data else f"{len(data)} bytes that start with {bytes(data[:12])!r}"
        raise ImageError(f"expected an image ({', '.join(FORMATS)}), got {got}")
    try:
        _check_size(_early_size(name, data))
        image = _plugin(name)(BytesIO(data))
        _check_size(image.size)
        if getattr(image, "is_animated", False):
            raise ImageError(f"expected a single image, got an animated {name}: save one frame of it as PNG")
        image.load()
    except ImageError:
        raise
    except (*_PIL_FAULTS, DecompressionBombError) as error:
        raise ImageError(
            f"expected a whole {name} image, got {len(data)} bytes that are truncated or damaged: {error}"
        ) from error
    return image


def _check_size(size: tuple[int, int]) -> None:
    width, height = size
    if width * height > MAX_PIXELS:
        raise ImageError(
            f"expected at most {MAX_PIXELS:,} pixels, got {width} x {height} = {width * height:,}: scale it down"
        )


def _format(head: bytes) -> str | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if head.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WEBP"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    return "BMP" if head.startswith(b"BM") else None


def _plugin(name: str) -> type[ImageFile]:
    # The class itself instead of Image.open: that warns at PIL's own bound, and takes a phone's JPEG with a second
    # picture in it (MPO) for animated.
    from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    return {
        "PNG": PngImagePlugin.PngImageFile,
        "JPEG": JpegImagePlugin.JpegImageFile,
        "WEBP": WebPImagePlugin.WebPImageFile,
        "GIF": GifImagePlugin.GifImageFile,
        "BMP": BmpImagePlugin.BmpImageFile,
    }[name]


def _early_size(name: str, data: bytes | memoryview) -> tuple[int, int]:
    """The size where PIL allocates or warns while it opens, (0, 0) where it only reads the header."""
    if name == "WEBP":
        return _webp_size(bytes(data[:30]))
    return _gif_size(data) if name == "GIF" else (0, 0)


def _webp_size(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def _gif_size(data: bytes | memoryview) -> tuple[int, int]:
    """The screen, enlarged by the first frame where that is larger, as PIL does."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + ((6 << (flags & 7)) if flags & 128 else 0)
    while data[at] == 0x21:  # an extension: two bytes, blocks with their length first, an empty one
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    if data[at] != 0x2C:
        raise ValueError(f"expected the first frame at byte {at}")
    left, top, wide, high = struct.unpack_from("<4H", data, at + 1)
    return max(width, left + wide), max(height, top + high)


def _orientation(image: Image) -> int:
    from PIL.ExifTags import Base

    try:
        value = image.getexif().get(Base.Orientation, 1)
    except _PIL_FAULTS as error:
        raise ImageError(f"expected readable EXIF data, got {error}: save the image without it") from error
    return value if isinstance(value, int) else 1


def _to_rgb(image: Image) -> Image:
    if image.mode.startswith("I"):
        return _scale_16_bit(image)
    if image.has_transparency_data:
        from PIL import Image as pil

        rgba = image.convert("RGBA")
        return pil.alpha_composite(pil.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def _scale_16_bit(image: Image) -> Image:
    import numpy as np
    from PIL import Image as pil

    values: Any = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ImageError(f"expected grey values of 0 to 65535, got {values.min()} to {values.max()}")
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        values = np.where(values == transparent, 65535, values)
    return pil.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")
