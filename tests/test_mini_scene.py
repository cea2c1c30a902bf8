"""Scenes, their pixels, probes and the breaking of probes."""

import io
from dataclasses import replace
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.mini import probes
from yanami_dataset.mini.breaking import break_scene
from yanami_dataset.mini.palette import BACKGROUNDS, CELLS, COLOURS, SHAPES
from yanami_dataset.mini.render import encode_png, render
from yanami_dataset.mini.scene import (
    BORDER,
    EDGE,
    GAP,
    RADII,
    Item,
    Scene,
    added,
    is_valid,
    moved,
    pairs,
    problems,
    random_scene,
)
from yanami_dataset.mini.shapes import OUTLINES, inside

SMALL, LARGE = RADII["small"], RADII["large"]
RED = Item("red", "circle", 0.2, 0.2, SMALL)
BLUE = Item("blue", "square", 0.75, 0.8, LARGE)
GREEN = Item("green", "diamond", 0.75, 0.6, LARGE)  # in front of the blue square
SCENE = Scene("pink", (RED, BLUE, GREEN))

seeds = st.integers(0, 2**32)


def scenes():
    return st.builds(
        lambda seed, count, share: random_scene(Random(seed), count, overlaps=int(share * (count // 2))),
        seeds,
        st.integers(1, 6),
        st.sampled_from([0.0, 0.5, 1.0]),
    )


def every_probe(scene, rng):
    """All statements of every kind that hold on a scene, with a random anchor."""
    items, anchor = scene.items, rng.choice(scene.items)
    for item in items:
        yield from (probes.present(item), probes.cell(item), probes.size(item))
    for item, other in permutations(items, 2):
        yield from (probes.relation(item, other, word) for word in probes.relations(item, other))
    yield from (probes.in_front(front, back) for front, back in pairs(scene))
    yield from (probes.empty(cell, anchor) for cell in CELLS if all(item.cell != cell for item in items))
    yield from (probes.absent(anchor, colour=c) for c in COLOURS if all(item.colour != c for item in items))
    yield from (probes.absent(anchor, shape=s) for s in SHAPES if all(item.shape != s for item in items))
    kinds = [(colour, shape) for colour in COLOURS for shape in SHAPES if not scene.find(colour, shape)]
    yield from (probes.absent(anchor, colour=c, shape=s) for c, s in rng.sample(kinds, 3))
    yield probes.count(len(items))
    yield probes.count(sum(item.colour == anchor.colour for item in items), colour=anchor.colour)
    yield probes.count(sum(item.shape == anchor.shape for item in items), shape=anchor.shape)
    yield probes.background(scene.background, anchor)


@given(scenes())
def test_random_scenes_obey_the_rules(scene):
    assert list(problems(scene)) == []
    assert list(problems(scene.mirrored())) == []
    for item in scene.items:
        assert item.radius + EDGE <= item.x <= 1 - item.radius - EDGE
        assert min(abs(v - third) for v in (item.x, item.y) for third in (1 / 3, 2 / 3)) >= BORDER
    touching = {frozenset(pair) for pair in pairs(scene)}
    for one, other in permutations(scene.items, 2):
        distance = np.hypot(one.x - other.x, one.y - other.y)
        if frozenset((one, other)) not in touching:
            assert distance >= one.radius + other.radius + GAP
        else:
            assert one.colour != other.colour


def test_random_scenes_are_the_same_everywhere():
    scene = random_scene(Random("a seed"), 2, overlaps=1)
    assert [(item.name, item.x, item.y, item.radius) for item in scene.items] == [
        ("red triangle", 0.526, 0.707, 0.15),
        ("purple triangle", 0.434, 0.746, 0.15),
    ]


@pytest.mark.parametrize(
    ("scene", "part"),
    [
        (Scene("beige", (RED,)), "background: expected one of white"),
        (Scene("pink", ()), "items: expected 1 to 6, got 0"),
        (Scene("pink", (RED, replace(RED, x=0.8))), "unique colour and shape"),
        (Scene("pink", (replace(RED, radius=0.12),)), "radius: expected one of"),
        (Scene("pink", (replace(RED, x=0.1),)), "between object and edge"),
        (Scene("pink", (replace(RED, y=0.32),)), "border of a cell"),
        (Scene("pink", (replace(RED, shape="heart"),)), "shape of the palette"),
        (Scene("pink", (BLUE, replace(GREEN, colour="blue"))), "clear gap between objects of one colour"),
        (Scene("pink", (BLUE, replace(GREEN, shape="star"))), "only a convex shape in front"),
        (Scene("pink", (BLUE, replace(GREEN, y=0.75))), "hides at most"),
        (Scene("pink", (BLUE, replace(GREEN, y=0.51))), "overlap of at least"),
        (Scene("pink", (BLUE, GREEN, Item("red", "circle", 0.75, 0.41, SMALL))), "at most one overlapping pair"),
    ],
)
def test_each_rule_is_told(scene, part):
    assert any(part in problem for problem in problems(scene))
    assert not is_valid(scene)


def test_a_hidden_half_that_would_change_the_shape_is_refused():
    square, front = Item("yellow", "square", 0.4, 0.5, LARGE), Item("blue", "square", 0.56, 0.5, LARGE)
    assert ["corners" in problem for problem in problems(Scene("white", (square, front)))] == [True]


def test_counts_out_of_range_are_refused():
    for count, overlaps in ((0, 0), (7, 0), (3, 2)):
        with pytest.raises(SpecError, match="1 to 6 objects"):
            random_scene(Random(0), count, overlaps=overlaps)


@given(seeds, st.sampled_from(CELLS))
def test_objects_come_and_go_where_they_are_asked_to(seed, cell):
    rng = Random(seed)
    scene = random_scene(rng, 2)
    more = added(
        rng, scene, ("black", "star") if not scene.find("black", "star") else ("red", "cross"), "small", cell=cell
    )
    if more is not None:
        assert is_valid(more)
        assert more.items[-1].cell == cell
        assert scene.items == more.items[:-1]
    shifted = moved(rng, scene, scene.items[0])
    assert shifted is not None
    assert shifted.items[0].cell != scene.items[0].cell
    assert shifted.items[1:] == scene.items[1:]


@pytest.mark.parametrize("shape", SHAPES)
def test_outlines_have_their_centre_and_radius(shape):
    x, y = np.meshgrid(*(np.linspace(-1.1, 1.1, 441),) * 2)
    mask = inside(shape, x, y)
    assert abs(x[mask].mean()) < 0.01
    assert abs(y[mask].mean()) < 0.01
    assert max(np.hypot(*point) for point in OUTLINES[shape]) == pytest.approx(1)
    assert np.hypot(x[mask], y[mask]).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("size", [128, 256, 1024])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_object_covers_its_outline(shape, size):
    item = Item("blue", shape, 0.437, 0.561, LARGE)
    blue = np.asarray(render(Scene("white", (item,)), size)).astype(float)
    share = (250 - blue[..., 0]) / (250 - COLOURS["blue"][0])  # how much of a pixel is blue
    rows, columns = np.mgrid[:size, :size] + 0.5
    area = abs(
        np.sum(
            [
                x0 * y1 - x1 * y0
                for (x0, y0), (x1, y1) in zip(OUTLINES[shape], np.roll(OUTLINES[shape], -1, 0), strict=True)
            ]
        )
    )
    assert share.sum() == pytest.approx(area / 2 * (LARGE * size) ** 2, rel=0.03)
    assert (share * columns).sum() / share.sum() == pytest.approx(item.x * size, abs=0.1)
    assert (share * rows).sum() / share.sum() == pytest.approx(item.y * size, abs=0.1)


def test_the_front_is_drawn_over_the_back():
    image = render(SCENE, 200)
    assert image.getpixel((150, 135)) == COLOURS["green"]
    assert image.getpixel((150, 170)) == COLOURS["blue"]
    assert image.getpixel((40, 40)) == COLOURS["red"]
    assert image.getpixel((1, 198)) == BACKGROUNDS["pink"]
    behind = render(replace(SCENE, items=(RED, GREEN, BLUE)), 200)
    assert behind.getpixel((150, 142)) == COLOURS["blue"]


@given(scenes())
@settings(max_examples=20)
def test_a_mirrored_scene_is_the_mirrored_image(scene):
    image = np.asarray(render(scene, 128)).astype(int)
    mirrored = np.asarray(render(scene.mirrored(), 128)).astype(int)
    assert np.abs(image[:, ::-1] - mirrored).mean() < 0.4


def test_png_is_lossless_and_always_the_same():
    image = render(SCENE, 256)
    data = encode_png(image)
    assert data == encode_png(render(SCENE, 256))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), np.asarray(image))
    assert len(data) < 30_000


@pytest.mark.parametrize("size", [127, 1025, 0])
def test_sizes_out_of_range_are_refused(size):
    with pytest.raises(SpecError, match=f"128 to 1024 pixels, got {size}"):
        render(SCENE, size)


@pytest.mark.parametrize(
    ("probe", "truth", "sentence"),
    [
        (probes.present(RED), True, "There is a red circle in the image."),
        (probes.present(replace(RED, colour="orange")), False, "There is an orange circle in the image."),
        (
            probes.absent(RED, colour="black"),
            True,
            "There is no black object in the image, and the image does show a red circle.",
        ),
        (probes.absent(RED, shape="square"), False, None),
        (probes.absent(replace(RED, colour="black"), shape="star"), False, None),
        (probes.cell(BLUE), True, None),
        (probes.cell(replace(BLUE, x=0.2)), False, None),
        (probes.empty("top right", RED), True, None),
        (probes.empty("middle right", RED), False, None),
        (
            probes.relation(RED, BLUE, "left of"),
            True,
            "The red circle is to the left of the blue square, by their centres.",
        ),
        (probes.relation(RED, BLUE, "above"), True, "The red circle is above the blue square, by their centres."),
        (probes.relation(BLUE, GREEN, "left of"), False, None),
        (probes.size(GREEN), True, None),
        (probes.size(replace(RED, radius=LARGE)), False, None),
        (
            probes.in_front(GREEN, BLUE),
            True,
            "The green diamond is in front of the blue square and covers a part of it.",
        ),
        (probes.in_front(BLUE, GREEN), False, None),
        (probes.in_front(GREEN, RED), False, None),
        (probes.count(3), True, "There are exactly three objects in the image."),
        (probes.count(1, shape="square"), True, "There is exactly one square in the image."),
        (probes.count(2, shape="cross"), False, "There are exactly two crosses in the image."),
        (probes.background("pink", RED), True, "The background is pink, and the image does show a red circle."),
        (probes.background("white", RED), False, None),
        (probes.background("pink", replace(RED, shape="star")), False, None),
    ],
)
def test_truth_and_words_of_probes(probe, truth, sentence):
    assert probes.holds(SCENE, probe) is truth
    assert probes.criterion(probe).endswith(".")
    if sentence is not None:
        assert probes.criterion(probe) == sentence


@given(scenes(), seeds)
def test_nothing_holds_on_an_empty_image(scene, seed):
    for probe in every_probe(scene, Random(seed)):
        assert probes.holds(scene, probe)
        assert not any(probes.holds(Scene(name, ()), probe) for name in BACKGROUNDS)


@given(scenes().filter(lambda scene: len(scene.items) > 1), seeds)
@settings(max_examples=40, deadline=None)
def test_every_probe_can_be_broken_by_a_small_change(scene, seed):
    rng = Random(seed)
    known = list(every_probe(scene, rng))
    for probe in rng.sample(known, min(6, len(known))):
        broken = break_scene(scene, probe, rng)
        assert is_valid(broken)
        assert not probes.holds(broken, probe)
        assert len(set(scene.items) ^ set(broken.items)) <= 4
        assert broken == scene or scene.background == broken.background or broken.items == scene.items


def test_breaking_is_drawn_from_its_seed():
    probe = probes.in_front(GREEN, BLUE)
    assert [break_scene(SCENE, probe, Random(seed)) for seed in range(9)] == [
        break_scene(SCENE, probe, Random(seed)) for seed in range(9)
    ]


def test_depth_is_exchanged_where_that_is_allowed_and_else_pulled_apart():
    back, front = Item("red", "circle", 0.45, 0.5, LARGE), Item("blue", "circle", 0.6, 0.6, LARGE)
    for items, front_first in (((back, front), True), ((replace(back, shape="star"), front), False)):
        scene = Scene("grey", items)
        broken = break_scene(scene, probes.in_front(items[1], items[0]), Random(0))
        assert (broken == Scene("grey", items[::-1])) is front_first
        assert pairs(broken) == (((items[0], items[1]),) if front_first else ())


def test_what_does_not_hold_cannot_be_broken():
    with pytest.raises(DataError, match="expected a probe that holds"):
        break_scene(SCENE, probes.count(2), Random(0))
