"""Images without what they say about their makers: EXIF with places and cameras, XMP, IPTC, comments, second pictures.

Nothing is encoded again: what isn't needed to show the picture is cut out of the file, so its pixels stay what they
were. How a picture is turned (the EXIF orientation) is needed, and stays as the only entry. Knows bytes, no files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from yanami_dataset.errors import ImageError
from yanami_dataset.images import media_type, orientation

_PNG_KEPT = frozenset(
    (
        b"IHDR",
        b"PLTE",
        b"IDAT",
        b"IEND",
        b"tRNS",
        b"gAMA",
        b"cHRM",
        b"sRGB",
        b"iCCP",
        b"cICP",
        b"sBIT",
        b"bKGD",
        b"pHYs",
    )
)
_WEBP_KEPT = {b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ICCP"}
_EXIF, _XMP = 0x08, 0x04  # flags of a WebP's header


def stripped(data: bytes) -> bytes:
    """The same picture without metadata; the very same bytes where there is none.

    Raises:
        ImageError: not one of `images.FORMATS`, or its structure is broken.
    """
    strip = {"image/jpeg": _jpeg, "image/png": _png, "image/webp": _webp, "image/gif": _gif}.get(media_type(data))
    if strip is None:
        return data  # a bitmap has no place for any
    try:
        return strip(data, orientation(data))
    except (IndexError, struct.error, ValueError) as error:
        raise ImageError(f"expected a whole image to take metadata out of, got a broken one: {error}") from error


def _turned(orientation: int) -> bytes:
    """EXIF that says nothing but how the picture is turned."""
    return b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def _jpeg(data: bytes, orientation: int) -> bytes:
    found = [b"\xff\xd8"]
    if orientation != 1:
        exif = b"Exif\0\0" + _turned(orientation)
        found.append(b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif)
    found += [part for marker, part in _segments(data) if _jpeg_keeps(marker, part)]
    return b"".join(found)


def _jpeg_keeps(marker: int, part: bytes) -> bool:
    """Application segments hold metadata but for JFIF, colour profiles and Adobe's colour transform; 0xFE: comments."""
    if marker == 0xE2:
        return part[4:].startswith(b"ICC_PROFILE\0")
    return marker in (0xE0, 0xEE) or not (0xE0 <= marker <= 0xEF or marker == 0xFE)


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Markers with their segments, scans with their data, until the end of the picture; what follows it is left out."""
    at = 2
    while True:
        start = at
        while data[at] == 0xFF:  # a marker may be preceded by any number of these
            at += 1
        if at == start:
            raise ValueError(f"no marker at byte {at}")
        marker = data[at]
        at += 1
        if marker == 0xD9:
            yield marker, b"\xff\xd9"
            return
        if 0xD0 <= marker <= 0xD7 or marker == 0x01:
            yield marker, bytes((0xFF, marker))
            continue
        at += struct.unpack_from(">H", data, at)[0]
        if marker == 0xDA:
            at = _scan_end(data, at)
        if at > len(data):
            raise ValueError("a segment is longer than the file")
        yield marker, data[start:at]


def _scan_end(data: bytes, at: int) -> int:
    """Where the compressed data end: at a marker that isn't a stuffed byte or a restart."""
    while True:
        at = data.index(b"\xff", at)
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7 and data[at + 1] != 0xFF:
            return at
        at += 1 if data[at + 1] == 0xFF else 2


def _png(data: bytes, orientation: int) -> bytes:
    found, at = [data[:8]], 8
    while True:
        (length,) = struct.unpack_from(">I", data, at)
        name, end = data[at + 4 : at + 8], at + 12 + length
        if end > len(data):
            raise ValueError("a chunk is longer than the file")
        if name in _PNG_KEPT:
            found.append(data[at:end])
        if name == b"IHDR" and orientation != 1:
            exif = b"eXIf" + _turned(orientation)
            found.append(struct.pack(">I", len(exif) - 4) + exif + struct.pack(">I", zlib.crc32(exif)))
        if name == b"IEND":
            return b"".join(found)
        at = end


def _webp(data: bytes, orientation: int) -> bytes:
    found, at = [], 12
    end = min(len(data), 8 + struct.unpack_from("<I", data, 4)[0])
    while at + 8 <= end:
        name, (length,) = data[at : at + 4], struct.unpack_from("<I", data, at + 4)
        chunk = data[at : at + 8 + length + length % 2]
        if name == b"VP8X":
            flags = chunk[8] & ~(_EXIF | _XMP) | (_EXIF if orientation != 1 else 0)
            chunk = chunk[:8] + bytes((flags,)) + chunk[9:]
        if name in _WEBP_KEPT:
            found.append(chunk)
        at += 8 + length + length % 2
    if orientation != 1:
        exif = _turned(orientation)
        found.append(b"EXIF" + struct.pack("<I", len(exif)) + exif)
    body = b"WEBP" + b"".join(found)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _gif(data: bytes, orientation: int) -> bytes:
    at = 13 + ((6 << (data[10] & 7)) if data[10] & 128 else 0)
    found = [data[:at]]
    while data[at] != 0x3B:
        start = at
        if data[at] == 0x21:
            at = _blocks_end(data, at + 2)
            if data[start + 1] in (0xFE, 0xFF):  # comments and applications'; a single picture needs neither
                continue
        elif data[at] == 0x2C:
            at += 10 + ((6 << (data[at + 9] & 7)) if data[at + 9] & 128 else 0)
            at = _blocks_end(data, at + 1)
        else:
            raise ValueError(f"no block at byte {at}")
        found.append(data[start:at])
    return b"".join(found) + b"\x3b"


def _blocks_end(data: bytes, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1
