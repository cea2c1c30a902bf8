import random
import struct
import sys
import threading
import warnings
import zlib
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageFile

from yanami_dataset.errors import ImageError, InvariantError
from yanami_dataset.images import MAX_PIXELS, check_images, encode_png, inspect, open_rgb, sha256
from yanami_dataset.schema import Dialogue, ImageInfo, Message, Part, Turn


def encoded(image, kind="PNG", **options):
    buffer = BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def halves(mode="RGB", left="red", right="blue", size=(8, 4)):
    image = Image.new("RGB", size, left)
    image.paste(Image.new("RGB", (size[0] // 2, size[1]), right), (size[0] // 2, 0))
    return image.convert(mode)


def png_header(width, height):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    ihdr = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def rotated():
    exif = Image.Exif()
    exif[0x0112] = 6  # the top is on the right: displayed a quarter turn clockwise
    return exif


def huge_gif():
    data = bytearray(encoded(Image.new("P", (4, 4)), "GIF"))
    at = data.index(b",", 13 + 3)
    data[at + 5 : at + 9] = struct.pack("<HH", 12_000, 12_000)  # between PIL's warning and its error
    return bytes(data)


def huge_webp():
    data = bytearray(encoded(Image.new("RGB", (4, 4)), "WEBP", lossless=True))
    data[21:25] = struct.pack("<I", 16_382 | 16_382 << 14 | int.from_bytes(data[21:25], "little") & 0xF0000000)
    return bytes(data)


PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 48, 3), dtype=np.uint8))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_formats_are_read_with_their_size(kind):
    facts = inspect(encoded(halves(size=(40, 30)), kind))
    assert (facts.width, facts.height, facts.format) == (40, 30, kind)
    pixel = open_rgb(encoded(halves(size=(40, 30)), kind)).getpixel((5, 15))
    assert np.abs(np.array(pixel) - (255, 0, 0)).max() < 8


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "got no bytes"),
        (b"<html>not found</html>", "22 bytes that start with b'<html>not fo'"),
        (encoded(PHOTO)[:-3000], "a whole PNG image"),
        (encoded(PHOTO, "JPEG", quality=95)[:-2000], "a whole JPEG image"),
        (encoded(PHOTO, "WEBP")[:-100], "a whole WEBP image"),
        (encoded(PHOTO, "GIF")[:-500], "a whole GIF image"),
        (encoded(PHOTO, "BMP")[:-500], "a whole BMP image"),
        (encoded(PHOTO)[:20], "a whole PNG image"),
        (png_header(20_000, 20_000), "at most 64,000,000 pixels, got 20000 x 20000 = 400,000,000"),
        (png_header(10_000, 9_999), "at most 64,000,000 pixels, got 10000 x 9999"),
        (huge_gif(), "got 12000 x 12000"),
        (huge_webp(), "got 16383 x 16383"),
        (encoded(halves(), "GIF", save_all=True, append_images=[halves(left="lime")]), "an animated GIF"),
        (encoded(halves(), "WEBP", save_all=True, append_images=[halves(left="lime")]), "an animated WEBP"),
        (encoded(halves(), "PNG", save_all=True, append_images=[halves(left="lime")]), "an animated PNG"),
        (encoded(halves(), "TIFF"), "expected an image (PNG, JPEG, WEBP, GIF, BMP)"),
    ],
)
def test_what_is_refused_says_what_came(data, says):
    for read in (inspect, open_rgb):
        with pytest.raises(ImageError) as error:
            read(data)
        assert says in str(error.value)


def test_a_bomb_is_refused_before_memory_is_taken():
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(ImageError):
        open_rgb(png_header(20_000, 20_000))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_pil_settings_of_the_caller_neither_change_nor_decide():
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for data in (png_header(10_000, 9_999), huge_gif(), huge_webp()):
            with pytest.raises(ImageError):
                inspect(data)
    assert not caught
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
    assert MAX_PIXELS < Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_rotation_is_applied(kind):
    data = encoded(halves(size=(80, 40)), kind, exif=rotated())
    assert (inspect(data).width, inspect(data).height) == (40, 80)
    shown = open_rgb(data)
    assert shown.size == (40, 80)
    assert shown.getpixel((20, 10))[0] > 240  # what was on the left is on top
    assert shown.getpixel((20, 70))[2] > 240


def with_alpha(mode):
    image = halves("RGBA")
    image.putalpha(Image.new("L", image.size, 0))
    return encoded(image.convert(mode))


def palette_with_alpha():
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    return encoded(image, transparency=bytes([255, 0]))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (with_alpha("RGBA"), [(255, 255, 255)] * 2),
        (with_alpha("LA"), [(255, 255, 255)] * 2),
        (palette_with_alpha(), [(255, 0, 0), (255, 255, 255)]),
        (encoded(Image.new("RGB", (2, 1), "lime"), transparency=(0, 255, 0)), [(255, 255, 255)] * 2),
        (encoded(halves("P", size=(2, 1)), "GIF"), [(255, 0, 0), (0, 0, 255)]),
        (encoded(Image.new("1", (2, 1), 1)), [(255, 255, 255)] * 2),
        (encoded(Image.fromarray(np.array([[0, 32768]], dtype=np.uint16))), [(0, 0, 0), (128, 128, 128)]),
        (encoded(Image.fromarray(np.array([[65535, 257]], dtype=np.uint16))), [(255, 255, 255), (1, 1, 1)]),
        (encoded(Image.fromarray(np.array([[300, 9]], dtype=np.uint16)), transparency=9), [(1, 1, 1), (255,) * 3]),
    ],
)
def test_modes_come_out_as_rgb(data, expected):
    shown = open_rgb(data)
    assert shown.mode == "RGB"
    assert [shown.getpixel((x, 0)) for x in (0, shown.width - 1)] == expected


def test_half_transparent_is_mixed_with_white():
    assert open_rgb(encoded(Image.new("RGBA", (1, 1), (0, 0, 0, 128)))).getpixel((0, 0)) == (127, 127, 127)


def test_cmyk_jpeg():
    pixel = open_rgb(encoded(Image.new("RGB", (16, 16), "red").convert("CMYK"), "JPEG", quality=95)).getpixel((8, 8))
    assert np.abs(np.array(pixel) - (255, 0, 0)).max() < 6


def test_a_phone_photo_with_a_second_picture_is_one_image():
    data = encoded(halves(size=(64, 32)), "MPO", save_all=True, append_images=[halves(size=(32, 16))])
    assert Image.open(BytesIO(data)).format == "MPO"
    assert inspect(data).format == "JPEG"
    assert open_rgb(data).size == (64, 32)


def test_png_round_trip_and_memoryview():
    data = encode_png(PHOTO)
    assert open_rgb(memoryview(data)).tobytes() == PHOTO.tobytes()
    assert sha256(memoryview(data)) == sha256(data)


def test_damaged_bytes_are_an_image_error_or_an_image():
    draw = random.Random(0)
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP"):
        whole = encoded(PHOTO, kind, **({"exif": rotated()} if kind in ("PNG", "JPEG", "WEBP") else {}))
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(draw.randint(1, 8)):
                data[draw.randrange(12, len(data))] = draw.randrange(256)
            try:
                assert open_rgb(bytes(data)).mode == "RGB"
                inspect(bytes(data))
            except ImageError as error:
                assert "expected" in str(error)


def test_threads_see_the_same_image():
    data, results = encode_png(PHOTO), []
    threads = [threading.Thread(target=lambda: results.append(open_rgb(data).tobytes())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {PHOTO.tobytes()}
    assert len(results) == 8


def test_importing_images_imports_no_pil():
    import subprocess

    code = "import sys, yanami_dataset.images; sys.exit('PIL' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def one_image(data, **info):
    ask = Message("user", (Part("text", "What is it?"), Part("image", index=0)))
    answer = Message("assistant", (Part("text", "A picture."),))
    known = ImageInfo("reference", 0, sha256(data), 48, 64)
    return Dialogue("d1", "editing", (ask, answer), (Turn(),), (data,), (replace(known, **info),))


def test_check_images_compares_what_is_stated():
    data = encoded(PHOTO)
    check_images(one_image(data))
    with pytest.raises(InvariantError, match=r"d1.*image_info\[0\].sha256: expected the hash"):
        check_images(one_image(data, sha256="0" * 64))
    with pytest.raises(InvariantError, match="displayed size 48 x 64, got 64 x 48"):
        check_images(one_image(data, width=64, height=48))
    with pytest.raises(InvariantError, match=r"images\[0\]: expected a whole PNG"):
        check_images(one_image(data[:-3000]))
