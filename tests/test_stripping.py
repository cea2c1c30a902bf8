"""Metadata leave an image, its pixels don't."""

import random
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from yanami_dataset.errors import ImageError
from yanami_dataset.images import encode_png, inspect, open_rgb, orientation
from yanami_dataset.stripping import stripped

AUTHOR = "52 deg 31 min N, by Jane Doe"


def noise(size):
    return Image.frombytes("RGB", size, random.Random(0).randbytes(3 * size[0] * size[1]))


def photo(format, turned=1, size=(40, 24), mode="RGB", **options):
    """With a place and an author wherever the format has room for them."""
    image = noise(size).convert(mode)
    exif = Image.Exif()
    exif[0x0112], exif[0x013B] = turned, AUTHOR
    exif.get_ifd(0x8825)[1] = "N"
    buffer = BytesIO()
    if format == "PNG":
        notes = PngInfo()
        notes.add_text("Author", AUTHOR)
        notes.add_itxt("XML:com.adobe.xmp", AUTHOR)
        options |= {"pnginfo": notes}
    if format in ("JPEG", "GIF"):
        options |= {"comment": AUTHOR.encode()}
    if format in ("JPEG", "WEBP"):
        options |= {"xmp": AUTHOR.encode()}
    image.save(buffer, format, exif=exif, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("turned", [1, 3, 6, 8])
@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "quality": 95}),
        ("JPEG", {"mode": "CMYK"}),
        ("JPEG", {"restart_marker_blocks": 1}),
        ("PNG", {}),
        ("PNG", {"mode": "P"}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"mode": "RGBA"}),
        ("GIF", {}),
    ],
)
def test_metadata_are_gone_and_the_picture_is_the_same(format, options, turned):
    data = photo(format, turned, **options)
    assert AUTHOR.encode() in data
    found = stripped(data)
    assert AUTHOR.encode() not in found and len(found) < len(data)
    assert open_rgb(found).tobytes() == open_rgb(data).tobytes()
    assert inspect(found) == inspect(data) and orientation(found) == orientation(data)
    with Image.open(BytesIO(found)) as image:
        assert not image.getexif().get_ifd(0x8825) and set(image.getexif()) <= {0x0112}
    assert stripped(found) == found


def test_what_has_none_stays_as_it_is():
    image = noise((30, 20))
    for format in ("JPEG", "PNG", "WEBP", "GIF", "BMP"):
        buffer = BytesIO()
        image.save(buffer, format)
        assert stripped(buffer.getvalue()) == buffer.getvalue()


def test_what_follows_the_picture_is_cut_off():
    plain = encode_png(Image.new("RGB", (8, 8), "red"))
    assert stripped(plain + b"GPS") == plain
    data = photo("JPEG")
    assert stripped(data + photo("JPEG")) == stripped(data)


def test_a_colour_profile_stays():
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for format in ("JPEG", "PNG", "WEBP"):
        found = stripped(photo(format, icc_profile=profile))
        with Image.open(BytesIO(found)) as image:
            assert image.info["icc_profile"] == profile


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF"]), st.data())
def test_a_broken_image_is_an_error_or_an_image_never_something_else(format, draw):
    data = bytearray(photo(format, size=(16, 16)))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(12, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        found = stripped(bytes(data[: draw.draw(st.integers(20, len(data)))]))
    except ImageError:
        return
    inspect(found)


def test_no_image_at_all():
    with pytest.raises(ImageError, match="expected an image"):
        stripped(b"<svg/>")
