"""Images made smaller for a server that refuses them as they are. The codec has a name, which verdicts record."""

from __future__ import annotations

from io import BytesIO

from yanami_dataset.images import open_rgb, sha256
from yanami_metric.records import ImageRef

SIDE, QUALITY = 1024, 90
CODEC = f"jpeg{QUALITY}-max{SIDE}"


def shrink(image: ImageRef) -> ImageRef:
    """The image as JPEG of quality 90, its longer side at most 1024 pixels.

    Raises:
        ImageError: it can't be decoded.
    """
    from PIL import Image

    picture = open_rgb(image.read())
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    picture.save(buffer, format="JPEG", quality=QUALITY)
    data = buffer.getvalue()
    return ImageRef(sha256(data), *picture.size, lambda: data, image.labels)
