"""The pixel judge on small explicit scenes, on images of anything, and as a judge that replies in JSON."""

import asyncio
import io
import json
import math
import time

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from yanami_dataset.errors import DataError, ImageError, SpecError
from yanami_dataset.images import sha256
from yanami_dataset.mini.palette import BACKGROUNDS, COLOURS, SHAPES
from yanami_dataset.mini.render import encode_png, render
from yanami_dataset.mini.scene import Item, Scene
from yanami_metric.judges import open_judge
from yanami_metric.judges.pixel import PixelJudge, decide, extract
from yanami_metric.judges.pixel.probes import PREDICATES
from yanami_metric.records import ImageRef, Judge, JudgeCall, JudgeItem
from yanami_metric.replies import parse

# A large red circle before a small blue square at the top left, a small green star at the bottom right.
SCENE = Scene(
    "grey",
    (
        Item("blue", "square", 0.3, 0.3, 0.105),
        Item("red", "circle", 0.17, 0.18, 0.15),
        Item("green", "star", 0.8, 0.8, 0.105),
    ),
)
CIRCLE, SQUARE, STAR = (
    {"colour": c, "shape": s} for c, s in (("red", "circle"), ("blue", "square"), ("green", "star"))
)
NOTHING = {"colour": "black", "shape": "cross"}
SIZES = (128, 200, 256, 512, 1024)


@pytest.mark.parametrize("size", SIZES)
def test_a_scene_is_read_off_its_image(size):
    picture = extract(render(SCENE, size))
    assert picture.background == "grey"
    assert picture.quality == 10.0
    assert sorted(thing.name for thing in picture.objects) == ["blue square", "green star", "red circle"]
    for thing in picture.objects:
        item = SCENE.find(thing.colour, thing.shape)
        assert (thing.x, thing.y) == pytest.approx((item.x, item.y), abs=0.015)
        assert thing.radius == pytest.approx(item.radius, abs=0.012)
    assert [(picture.objects[i].name, picture.objects[j].name) for i, j in picture.in_front] == [
        ("red circle", "blue square")
    ]


@pytest.mark.parametrize(
    ("probe", "holds"),
    [
        ({"predicate": "present", "object": CIRCLE}, True),
        ({"predicate": "present", "object": NOTHING}, False),
        ({"predicate": "present", "object": {"colour": "red", "shape": "square"}}, False),
        ({"predicate": "absent", "object": {"colour": "black"}, "anchor": STAR}, True),
        ({"predicate": "absent", "object": {"shape": "star"}, "anchor": CIRCLE}, False),
        ({"predicate": "absent", "object": {"colour": "red", "shape": "star"}, "anchor": CIRCLE}, True),
        ({"predicate": "absent", "object": {"colour": "yellow"}, "anchor": NOTHING}, False),
        ({"predicate": "cell", "object": STAR, "cell": "bottom right"}, True),
        ({"predicate": "cell", "object": STAR, "cell": "bottom left"}, False),
        ({"predicate": "empty", "cell": "middle center", "anchor": STAR}, True),
        ({"predicate": "empty", "cell": "top left", "anchor": STAR}, False),
        ({"predicate": "empty", "cell": "middle center", "anchor": NOTHING}, False),
        ({"predicate": "relation", "object": CIRCLE, "relation": "left of", "other": STAR}, True),
        ({"predicate": "relation", "object": CIRCLE, "relation": "right of", "other": STAR}, False),
        ({"predicate": "relation", "object": CIRCLE, "relation": "above", "other": STAR}, True),
        ({"predicate": "relation", "object": STAR, "relation": "below", "other": SQUARE}, True),
        ({"predicate": "relation", "object": CIRCLE, "relation": "below", "other": SQUARE}, False),
        ({"predicate": "relation", "object": CIRCLE, "relation": "above", "other": NOTHING}, False),
        ({"predicate": "size", "object": CIRCLE, "size": "large"}, True),
        ({"predicate": "size", "object": SQUARE, "size": "large"}, False),
        ({"predicate": "in_front", "object": CIRCLE, "other": SQUARE}, True),
        ({"predicate": "in_front", "object": SQUARE, "other": CIRCLE}, False),
        ({"predicate": "in_front", "object": CIRCLE, "other": STAR}, False),
        ({"predicate": "in_front", "object": CIRCLE, "other": NOTHING}, False),
        ({"predicate": "count", "n": 3}, True),
        ({"predicate": "count", "n": 2}, False),
        ({"predicate": "count", "n": 1, "colour": "red"}, True),
        ({"predicate": "count", "n": 1, "shape": "triangle"}, False),
        ({"predicate": "background", "background": "grey", "anchor": STAR}, True),
        ({"predicate": "background", "background": "pink", "anchor": STAR}, False),
        ({"predicate": "background", "background": "grey", "anchor": NOTHING}, False),
    ],
)
def test_each_predicate(probe, holds):
    verdict, reason = decide(PICTURE, probe)
    assert verdict is holds
    assert reason


PICTURE = extract(render(SCENE, 256))


def test_reasons_say_what_is_seen():
    assert decide(PICTURE, {"predicate": "cell", "object": STAR, "cell": "top left"}) == (
        False,
        "the green star is in the bottom right",
    )
    assert decide(PICTURE, {"predicate": "in_front", "object": SQUARE, "other": CIRCLE})[1] == (
        "the red circle covers a part of the blue square"
    )
    assert "there is no black cross; seen: " in decide(PICTURE, {"predicate": "present", "object": NOTHING})[1]


def test_two_of_a_kind_fail_what_is_true_of_one_only():
    image = render(Scene("pink", (Item("red", "circle", 0.2, 0.2, 0.15), Item("red", "circle", 0.8, 0.8, 0.15))), 256)
    seen = extract(image)
    assert decide(seen, {"predicate": "count", "n": 2, **CIRCLE})[0]
    assert not decide(seen, {"predicate": "cell", "object": CIRCLE, "cell": "top left"})[0]
    assert not decide(seen, {"predicate": "cell", "object": CIRCLE, "cell": "bottom right"})[0]


@pytest.mark.parametrize(
    "probe",
    [
        None,
        [],
        {},
        {"predicate": "shiny", "object": CIRCLE},
        {"predicate": "quality"},
        {"predicate": ["present"], "object": CIRCLE},
        {"predicate": "present"},
        {"predicate": "present", "object": "red circle"},
        {"predicate": "present", "object": {"colour": "red"}},
        {"predicate": "present", "object": {"colour": "red", "shape": ["circle"]}},
        {"predicate": "present", "object": CIRCLE, "cell": "top left"},
        {"predicate": "absent", "object": {}, "anchor": CIRCLE},
        {"predicate": "absent", "object": {"size": "small"}, "anchor": CIRCLE},
        {"predicate": "absent", "object": {"colour": "red"}},
        {"predicate": "cell", "object": CIRCLE, "cell": "center"},
        {"predicate": "relation", "object": CIRCLE, "relation": "near", "other": STAR},
        {"predicate": "count", "n": 0},
        {"predicate": "count", "n": True},
        {"predicate": "count", "n": 1, "size": "small"},
        {"predicate": "background", "background": "red", "anchor": STAR},
    ],
)
def test_a_malformed_probe_is_an_error(probe):
    with pytest.raises(DataError, match=r"^probe"):
        decide(PICTURE, probe)


def test_every_predicate_is_tried_above():
    assert set(PREDICATES) == {
        mark["predicate"]
        for mark, _ in next(m for m in test_each_predicate.pytestmark if m.name == "parametrize").args[1]
    }


# An image drawn by a model: other outlines than the renderer's, drawn by Pillow at 3 times the size.


def _drawn(draw_shape, background="white", side=256):
    image = Image.new("RGB", (3 * side, 3 * side), BACKGROUNDS[background])
    draw_shape(ImageDraw.Draw(image), 3 * side)
    return image.resize((side, side), Image.Resampling.BOX)


def _points(count, inner=None, turn=0.0, centre=(0.5, 0.5), radius=0.14):
    n = count if inner is None else 2 * count
    for i in range(n):
        r = radius * (inner if inner is not None and i % 2 else 1)
        angle = math.radians(turn - 90 + 360 * i / n)
        yield centre[0] + r * math.cos(angle), centre[1] + r * math.sin(angle)


def _polygon(points, colour="blue", **more):
    points = list(points)

    def draw(canvas, side):
        canvas.polygon([(x * side, y * side) for x, y in points], fill=COLOURS[colour], **more)

    return draw


def _bars(arm):
    def draw(canvas, side):
        for width, height in ((0.14, arm), (arm, 0.14)):
            box = [(0.5 - width) * side, (0.5 - height) * side, (0.5 + width) * side, (0.5 + height) * side]
            canvas.rectangle(box, fill=COLOURS["blue"])

    return draw


@pytest.mark.parametrize(
    ("draw", "shape"),
    [
        (_polygon(_points(5, 0.382)), "star"),
        (_polygon(_points(5, 0.52)), "star"),
        (_polygon(_points(5, 0.42, turn=6)), "star"),
        (_polygon(_points(6, 0.55)), "star"),
        (_polygon(_points(40)), "circle"),
        (_polygon((x, 0.5 + 0.9 * (y - 0.5)) for x, y in _points(40)), "circle"),
        (_polygon(_points(4)), "diamond"),
        (_polygon([(0.5, 0.35), (0.59, 0.5), (0.5, 0.65), (0.41, 0.5)]), "diamond"),
        (_polygon(_points(4, turn=45)), "square"),
        (_polygon(_points(4, turn=48)), "square"),
        (_polygon([(0.38, 0.4), (0.62, 0.4), (0.62, 0.61), (0.38, 0.61)]), "square"),
        (_polygon([(0.5, 0.36), (0.61, 0.6), (0.39, 0.6)]), "triangle"),
        (_polygon(_points(3, turn=180)), "triangle"),
        (_polygon(_points(3, turn=5)), "triangle"),
        (_bars(0.03), "cross"),
        (_bars(0.06), "cross"),
    ],
)
def test_another_hand_may_draw_the_shapes(draw, shape):
    (thing,) = extract(_drawn(draw)).objects
    assert thing.name == f"blue {shape}"


def test_a_dark_outline_is_no_object():
    (thing,) = extract(_drawn(_polygon(_points(5, 0.45), "yellow", outline=COLOURS["black"], width=5))).objects
    assert thing.name == "yellow star"


def test_a_blob_is_no_shape_but_counts_as_an_object():
    bar = _polygon([(0.2, 0.4), (0.8, 0.4), (0.8, 0.5), (0.2, 0.5)])
    seen = extract(_drawn(bar))
    assert [thing.shape for thing in seen.objects] == ["irregular"]
    assert decide(seen, {"predicate": "count", "n": 1, "colour": "blue"})[0]


def test_a_wide_image_keeps_its_proportions():
    wide = Image.new("RGB", (512, 256), BACKGROUNDS["white"])
    wide.paste(render(Scene("white", (Item("red", "circle", 0.5, 0.5, 0.15),)), 256), (256, 0))
    (thing,) = extract(wide).objects
    assert thing.name == "red circle"
    assert (thing.x, thing.y, thing.cell) == (
        pytest.approx(0.75, abs=0.01),
        pytest.approx(0.5, abs=0.01),
        "middle right",
    )


# Quality


def _noisy(image, sigma):
    noise = np.random.default_rng(0).normal(0, sigma, (image.height, image.width, 3))
    return Image.fromarray(np.clip(np.rint(np.asarray(image) + noise), 0, 255).astype(np.uint8))


def _compressed(image, loss):
    if not loss:
        return image
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=100 - loss)
    return Image.open(buffer).convert("RGB")


def _drifted(image, share):
    return Image.blend(image, Image.new("RGB", image.size, (120, 90, 140)), share)


def _blurred(image, share):
    return image.filter(ImageFilter.GaussianBlur(share * image.width))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("worse", "steps"),
    [
        (_noisy, (0, 4, 8, 16, 32, 64)),
        (_blurred, (0, 0.006, 0.012, 0.024, 0.05)),
        (_drifted, (0, 0.05, 0.1, 0.2, 0.3)),
        (_compressed, (0, 50, 80, 90, 97)),
    ],
)
def test_quality_falls_with_every_blemish(size, worse, steps):
    scores = np.array([[extract(worse(image, step)).quality for step in steps] for image in _clean_images(size)])
    assert (scores >= 0).all() and (scores <= 10).all()
    means = scores.mean(axis=0)
    assert means[0] == 10
    assert (np.diff(means) <= 0).all(), means
    assert means[-1] < 7.5, means
    assert (np.diff(scores, axis=1) <= 0).mean() >= 0.9


def _clean_images(size):
    yield render(SCENE, size)
    for n, shape in enumerate(SHAPES):
        colours = list(COLOURS)
        items = Item(colours[n], shape, 0.25, 0.25, 0.15), Item(colours[n + 1], shape, 0.75, 0.72, 0.105)
        yield render(Scene(list(BACKGROUNDS)[n % 4], items), size)


@pytest.mark.parametrize("size", SIZES)
def test_clean_images_are_worth_exactly_ten(size):
    assert {extract(image).quality for image in _clean_images(size)} == {10.0}


@pytest.mark.parametrize("colour", [*COLOURS.values(), *BACKGROUNDS.values(), (128, 128, 128), (1, 255, 3)])
def test_a_blank_image_is_worth_nothing(colour):
    seen = extract(Image.new("RGB", (256, 256), colour))
    assert (seen.objects, seen.quality) == ((), 0.0)


# Anything at all


def _photograph():
    x, y = np.meshgrid(np.linspace(0, 12, 640), np.linspace(0, 9, 480))
    waves = [
        127 + 60 * np.sin(x * a + y * b) + 60 * np.cos(x * b - a * y * y / 5) for a, b in ((1, 2), (2, 1.3), (0.7, 1))
    ]
    return _noisy(Image.fromarray(np.clip(np.stack(waves, axis=-1), 0, 255).astype(np.uint8)), 10)


def _random(width, height, mode="RGB"):
    channels = len(Image.new(mode, (1, 1)).getbands())
    data = np.random.default_rng(1).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return Image.fromarray(data)


@pytest.mark.parametrize(
    "image",
    [
        Image.new("RGB", (1, 1)),
        Image.new("RGB", (2, 3), (255, 0, 0)),
        Image.new("RGB", (5000, 100), (255, 0, 0)),
        Image.new("RGB", (1, 60000)),
        Image.new("L", (300, 300), 7),
        _random(256, 256),
        _random(5000, 100),
        _random(3, 3),
        _random(300, 200, "RGBA"),
        _random(64, 64).resize((1500, 1500), Image.Resampling.NEAREST),
        _random(12, 12).resize((256, 256), Image.Resampling.NEAREST),
        _random(40, 40).resize((256, 256), Image.Resampling.BICUBIC),
        _photograph(),
    ],
    ids=lambda image: f"{image.mode}-{image.width}x{image.height}",
)
def test_any_image_is_looked_at_in_bounded_time(image):
    extract(render(SCENE, 128))  # the tables are made
    start = time.process_time()
    seen = extract(image)
    assert time.process_time() - start < 0.5
    assert 0 <= seen.quality <= 10
    assert all(0 <= thing.x <= 1 and 0 <= thing.y <= 1 and math.isfinite(thing.radius) for thing in seen.objects)


def test_the_same_image_is_always_seen_the_same():
    assert extract(render(SCENE, 256)) == extract(render(SCENE, 256))


# The judge


def _ref(data, reads=None):
    def read():
        if reads is not None:
            reads.append(1)
        return data

    return ImageRef(sha256(data), 256, 256, read)


def _ask(judge, kind, items, data, reads=None):
    reply = asyncio.run(judge.judge(JudgeCall(kind, tuple(items), _ref(data, reads))))
    return json.loads(reply.text), parse(kind, items, reply.text)


PNG = encode_png(render(SCENE, 256))
QUALITY = JudgeItem("t1-s0", probe='{"predicate": "quality"}')


def test_it_is_a_judge():
    judge = open_judge("pixel")
    assert isinstance(judge, PixelJudge) and isinstance(judge, Judge)
    assert (judge.name, judge.kinds, judge.reads_prompt) == ("pixel", {"checks", "quality"}, False)
    assert json.loads(json.dumps(judge.fingerprint)) == {"judge": "pixel", "version": 1}


def test_checks_are_answered_in_order_and_by_id():
    items = [
        JudgeItem("c1", "There is a red circle.", json.dumps({"predicate": "present", "object": CIRCLE})),
        JudgeItem("c2", "There is a black cross.", json.dumps({"predicate": "present", "object": NOTHING})),
        JudgeItem("c3", "It looks friendly."),
        JudgeItem("c4", "It shines.", '{"predicate": "shiny"}'),
        JudgeItem("c5", "It is broken.", '{"predicate": '),
    ]
    reply, verdicts = _ask(PixelJudge(), "checks", items, PNG)
    assert [entry["verdict"] for entry in reply["checks"]] == ["pass", "fail", *["not_judgeable"] * 3]
    assert [verdict.status for verdict in verdicts] == ["scored", "scored", *["not_judgeable"] * 3]
    assert "expected a predicate of present, absent" in reply["checks"][3]["reason"]
    assert "expected JSON" in reply["checks"][4]["reason"]


def test_quality_needs_the_probe_of_the_mini_bench():
    judge = PixelJudge()
    assert _ask(judge, "quality", [QUALITY], PNG)[0]["score"] == 10.0
    for probe in (None, '{"predicate": "present"}', "quality", "["):
        reply, (verdict,) = _ask(judge, "quality", [JudgeItem("t1-s0", probe=probe)], PNG)
        assert (reply["verdict"], verdict.status) == ("not_judgeable", "not_judgeable")
    blank = encode_png(Image.new("RGB", (256, 256), BACKGROUNDS["pink"]))
    assert _ask(judge, "quality", [QUALITY], blank)[0] == {"reason": "no object seen", "score": 0.0}


def test_an_image_is_read_once_while_it_is_remembered():
    judge, reads = PixelJudge(), []
    checks = [JudgeItem(id, probe=json.dumps({"predicate": "present", "object": CIRCLE})) for id in ("c1", "c2")]
    for _ in range(2):
        _ask(judge, "checks", checks, PNG, reads)
        _ask(judge, "quality", [QUALITY], PNG, reads)
    assert len(reads) == 1


def test_transparency_and_rotation_are_as_displayed():
    image = render(Scene("white", (Item("red", "circle", 0.2, 0.2, 0.15),)), 256).convert("RGBA")
    pixels = np.array(image)
    pixels[np.all(pixels[..., :3] == BACKGROUNDS["white"], axis=-1), :] = 0  # transparent black
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: top left becomes top right
    Image.fromarray(pixels).save(buffer, "PNG", exif=exif)
    (thing,) = PixelJudge().picture(_ref(buffer.getvalue())).objects
    assert (thing.name, thing.cell) == ("red circle", "top right")


def test_what_it_is_not_made_for_is_refused():
    judge = PixelJudge()
    with pytest.raises(SpecError, match="expected checks or quality"):
        asyncio.run(judge.judge(JudgeCall("answer", (QUALITY,), answer="a", reference="a")))
    with pytest.raises(SpecError, match="one item in a quality call, got 2"):
        asyncio.run(judge.judge(JudgeCall("quality", (QUALITY, QUALITY), _ref(PNG))))
    with pytest.raises(ImageError):
        asyncio.run(judge.judge(JudgeCall("quality", (QUALITY,), _ref(b"no image"))))
