"""Drift: the measures against plain second implementations, which image an output continues, and at the edges."""

import io
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tests.support import ScriptedModel, dialogue
from yanami_dataset.errors import DataError
from yanami_dataset.images import encode_png, inspect, sha256
from yanami_dataset.schema import SCENARIOS, Dialogue, ImageInfo, Message, Part, Turn, validate
from yanami_metric import api
from yanami_metric.analysis import pixels
from yanami_metric.analysis.drift import BASES, MEASURES, drift
from yanami_metric.analysis.loading import Analysed, load
from yanami_metric.analysis.writing import text
from yanami_metric.data import Selection
from yanami_metric.records import Output
from yanami_metric.score import Basis
from yanami_metric.tally import tally

FEW = {"resamples": 50}
SIDE = 64


def noise(seed, side=SIDE, low=60, high=190):
    return np.random.default_rng(seed).integers(low, high, (side, side, 3)).astype(np.uint8)


def png(image):
    return encode_png(Image.fromarray(image))


def decoded(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def edited(id, scenario="editing", draws=4, seed=0, mention=None):
    """A picture, then `draws` targets, in each of which one more square has another colour.

    `mention`: the last message shows this image of the pool again.
    """
    images = [noise(seed)]
    for n in range(draws):
        images.append(images[-1].copy())
        images[-1][2:8, 8 * n + 2 : 8 * n + 8] = (250, 10, 10)
    data = [png(image) for image in images]
    messages = []
    for n in range(draws):
        parts = [Part("text", f"{id}: square {n}")]
        parts += [Part("image", index=0)] if n == 0 else []
        parts += [Part("image", index=mention)] if mention is not None and n == draws - 1 else []
        messages += [Message("user", tuple(parts)), Message("assistant", (Part("image", index=n + 1),))]
    info = [
        ImageInfo("target" if i else "reference", max(0, i - 1), sha256(one), SIDE, SIDE) for i, one in enumerate(data)
    ]
    made = Dialogue(id, scenario, tuple(messages), (Turn(),) * draws, tuple(data), tuple(info))
    validate(made)
    return made


def bench(number=3, **shape):
    return [edited(f"{s}-{i}", s, seed=i, **shape) for s in SCENARIOS for i in range(number)]


def rolled_out(tmp_path, dialogues, model, history=("gt", "self"), **options):
    run = api.rollout(dialogues, model, history=history, out=tmp_path / "run", **options)
    tallies = [tally(one, {}) for one in dialogues]
    return Analysed("m", run, {}, {}, Basis(True, True), dict.fromkeys(history, tallies))


def drifting(tmp_path, dialogues, model, history=("gt", "self"), **options):
    found = drift([rolled_out(tmp_path, dialogues, model, history, **options)], **FEW)
    json.dumps(found.values, allow_nan=False)
    assert "nan" not in text(found)
    return found.values["m"]


def changing(change):
    """A model that draws the last image it is shown, changed."""

    def script(request):
        if request.expects == "text" or not request.images:
            return None
        return Output(images=[png(change(decoded(request.images[-1].read()), seed)) for seed in request.seeds])

    return ScriptedModel(script)


def noisy(image, seed):
    added = image + np.random.default_rng(seed).normal(0, 8, image.shape)
    return np.clip(added, 0, 255).round().astype(np.uint8)


def curve(found, measure, base="first"):
    return [point[base][measure]["value"] for point in found["turns"]]


# The measures


def test_ssim_of_flat_images_by_hand():
    flat = [np.full((20, 20, 3), grey, np.uint8) for grey in (100, 110)]
    c1 = (0.01 * 255) ** 2
    expected = (2 * 100 * 110 + c1) / (100**2 + 110**2 + c1)
    assert pixels.similarity(*flat) == pytest.approx(np.full((20, 20), expected), abs=1e-5)


def test_ssim_at_a_pixel_is_that_of_its_window():
    one, other = noise(1, 24), noisy(noise(1, 24), 2)
    x, y = (image[5:16, 3:14] @ np.array([0.299, 0.587, 0.114]) for image in (one, other))  # around (10, 8)
    line = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    weights = np.outer(line, line) / line.sum() ** 2

    def mean(values):
        return float((weights * values).sum())

    mx, my = mean(x), mean(y)
    vx, vy, both = mean((x - mx) ** 2), mean((y - my) ** 2), mean((x - mx) * (y - my))
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    expected = (2 * mx * my + c1) * (2 * both + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    assert 0.3 < expected < 0.99
    assert pixels.similarity(one, other)[10, 8] == pytest.approx(expected, abs=1e-4)


def test_sharpness_is_the_variance_of_the_laplacian():
    image = noise(3, pixels.SHARPNESS_SIDE)
    plane = np.pad(image @ np.array([0.299, 0.587, 0.114]), 1, mode="symmetric")
    middle = plane[1:-1, 1:-1]
    laplacian = plane[:-2, 1:-1] + plane[2:, 1:-1] + plane[1:-1, :-2] + plane[1:-1, 2:] - 4 * middle
    assert pixels.sharpness(image) == pytest.approx(laplacian.var(), rel=1e-4)
    blurred = np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(1)))
    assert pixels.sharpness(blurred) < 0.2 * pixels.sharpness(image)


def test_colours_by_hand():
    image = np.array([[[200, 100, 50], [0, 40, 80]]], np.uint8)
    assert pixels.saturation(image) == pytest.approx(100 * fmean([150 / 200, 80 / 80]))
    rg, yb = np.array([100.0, -40.0]), np.array([100.0, -60.0])
    expected = np.sqrt(rg.var() + yb.var()) + 0.3 * np.sqrt(rg.mean() ** 2 + yb.mean() ** 2)
    assert pixels.colourfulness(image) == pytest.approx(expected)


def test_what_a_turn_changes_has_a_margin():
    before = noise(1, 40)
    after = before.copy()
    after[20, 20] = 255 - after[20, 20]
    after[0, 0] += pixels.THRESHOLD  # not more than the threshold
    outside = pixels.unchanged(before, after)
    assert outside.sum() == 40 * 40 - 13 * 13
    assert not outside[14:27, 14:27].any()


# Which image is compared with which


def test_the_reference_drifts_nowhere_and_copying_is_no_drift(tmp_path: Path):
    names = ("reference", "copy-last")
    for name in names:
        run = api.rollout(
            "mini", f"baseline:{name}", history=("gt", "self"), selection=Selection(limit=8), out=tmp_path / name
        )
        api.judge(run)
    found = drift(load([tmp_path / name for name in names]), **FEW).values
    for history in ("gt", "self"):
        target, copy = (found[name][history]["continued"] for name in names)
        assert target["outside_difference"]["value"] < 0.05
        assert target["outside_ssim"]["value"] > 0.999
        assert target["outside_changed"]["value"] == 0
        assert target["whole_difference"]["value"] > 1
        assert [copy[f"whole_{one}"]["value"] for one in ("difference", "ssim", "changed")] == [0, 1, 0]
        assert copy["sharpness"]["value"] == 1
        assert copy["whole_difference"]["coverage"] == 1


def test_noise_adds_up_on_ones_own_images_only(tmp_path: Path):
    found = drifting(tmp_path, bench(), changing(noisy))
    own, gt = (curve(found[history], "outside_difference") for history in ("self", "gt"))
    assert len(own) == 4
    assert all(later > 1.15 * earlier for earlier, later in pairwise(own))
    assert gt == pytest.approx([gt[0]] * 4, rel=0.05)
    assert own[0] == pytest.approx(gt[0])  # nothing was drawn before: both continue the user's image
    continued = [found[history]["continued"]["outside_difference"]["value"] for history in ("self", "gt")]
    assert continued == pytest.approx([continued[0]] * 2, rel=0.1)  # each step is as large
    assert curve(found["self"], "outside_ssim")[-1] < curve(found["gt"], "outside_ssim")[-1]


def test_blur_takes_sharpness_and_contrast_turn_by_turn(tmp_path: Path):
    def blurred(image, seed):
        return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(0.6)))

    found = drifting(tmp_path, bench(2, draws=3), changing(blurred))
    own, gt = (curve(found[history], "sharpness") for history in ("self", "gt"))
    assert 1 > own[0] > own[1] > own[2] > 0
    assert gt == pytest.approx([gt[0]] * 3, rel=0.15)
    assert curve(found["self"], "contrast")[2] < curve(found["self"], "contrast")[0] < 0


def test_colours_that_grow_are_told_turn_by_turn(tmp_path: Path):
    def stronger(image, seed):
        grey = image.mean(axis=2, keepdims=True)
        return np.clip(grey + 1.15 * (image - grey) + 3, 0, 255).astype(np.uint8)

    found = drifting(tmp_path, bench(2, draws=3), changing(stronger))
    for measure in ("saturation", "colourfulness", "luma"):
        own, gt = (curve(found[history], measure) for history in ("self", "gt"))
        assert 0 < own[0] < own[1] < own[2], measure
        assert own[2] > 1.3 * gt[2], measure


def test_means_are_over_dialogues(tmp_path: Path):
    dialogues = [edited("a", draws=1), edited("b", draws=4, seed=1), edited("c", "fusion", draws=2, seed=2)]
    found = drifting(tmp_path, dialogues, "baseline:blank", ("gt",))["gt"]

    def against(base, one, n):
        return np.abs(255.0 - decoded(one.images[n if base == "continued" else 0])).mean()

    for base in BASES:
        means = [fmean(against(base, one, n) for n in range(len(one.turns))) for one in dialogues]
        assert found[base]["whole_difference"]["value"] == pytest.approx(fmean(means), abs=1e-4)
        assert found[base]["whole_difference"]["n"] == 7
        logs = [
            fmean(
                np.log(1 / (pixels.sharpness(decoded(one.images[n if base == "continued" else 0])) + 1))
                for n in range(len(one.turns))
            )
            for one in dialogues
        ]
        assert found[base]["sharpness"]["value"] == pytest.approx(np.exp(fmean(logs)), abs=1e-6)
    assert [point["dialogues"] for point in found["turns"]] == [3]  # fewer than a point needs: all in one
    assert found["turns"][0]["turns"] == [1, 4]


def test_an_image_that_the_user_shows_again_is_the_latest(tmp_path: Path):
    dialogues = bench(1, draws=3, mention=1)

    def script(request):
        [one] = [one for one in dialogues if one.id == request.dialogue]
        return Output(images=[one.images[1]])

    found = drifting(tmp_path, dialogues, ScriptedModel(script))
    expected = {
        "gt": fmean(np.abs(decoded(one.images[1]) - 1.0 * decoded(one.images[n])).mean() for one in dialogues for n in (0, 1, 1)),  # noqa: E501
        "self": fmean(np.abs(decoded(one.images[1]) - 1.0 * decoded(one.images[0])).mean() / 3 for one in dialogues),
    }  # fmt: skip
    for history, value in expected.items():
        assert found[history]["continued"]["whole_difference"]["value"] == pytest.approx(value, abs=1e-4)


def test_last_continues_ones_own_image_and_none_only_what_the_message_shows(tmp_path: Path):
    dialogues = bench(1, draws=3)
    found = drifting(tmp_path, dialogues, ScriptedModel(lambda r: Output(images=[png(noise(7))])), ("last", "none"))
    per_turn = [one["continued"]["whole_difference"]["value"] for one in found["last"]["turns"]]
    assert found["last"]["continued"]["whole_difference"]["n"] == 12
    assert found["last"]["continued"]["whole_difference"]["value"] < per_turn[0] + 1e-9
    assert found["none"]["continued"]["whole_difference"]["n"] == 4  # of the first turn, which shows the picture
    assert found["none"]["counts"]["continued: nothing_before"] == 8
    assert found["none"]["first"]["whole_difference"]["n"] == 12


# What isn't there


def test_without_targets_only_the_whole_is_measured(tmp_path: Path):
    found = drifting(tmp_path, [dialogue(f"d{n}", targets=False) for n in range(3)], ScriptedModel(), ("self",))
    own = found["self"]
    assert own["counts"] == {"continued: no_target": 6, "first: no_target": 6, "images": 6}
    for base in BASES:
        assert own[base]["outside_ssim"] == {
            "value": None, "low": None, "high": None, "n": 0, "coverage": 0, "bounds": [None, None]
        }  # fmt: skip
        assert own[base]["whole_difference"]["n"] == 6


def test_missing_and_broken_images_are_no_numbers(tmp_path: Path):
    dialogues = bench(1)

    def script(request):
        return Output(status="missing_output") if request.turn == 1 else Output(images=[png(noise(request.turn))])

    run = rolled_out(tmp_path, dialogues, ScriptedModel(script), ("self",))
    before = drift([run], **FEW).values["m"]["self"]
    assert before["counts"]["missing"] == 4
    assert before["continued"]["whole_difference"]["n"] == 12
    images = sorted((run.run.path / "outputs/self/images").iterdir())
    images[0].write_bytes(images[0].read_bytes()[:200])
    images[-1].unlink()
    after = drift([run], **FEW).values["m"]["self"]
    assert after["counts"]["unreadable"] == 2
    assert after["counts"]["continued: unreadable"] == 1  # the third turn continues the broken first
    assert after["continued"]["whole_difference"]["n"] == 9
    assert after["continued"]["whole_difference"]["coverage"] == 9 / 16
    json.dumps(after, allow_nan=False)


def test_a_target_that_changes_everything_leaves_nothing_outside(tmp_path: Path):
    one = edited("d", draws=1)
    other = png(255 - noise(5))
    info = replace(one.image_info[1], sha256=sha256(other))
    one = replace(one, images=(one.images[0], other), image_info=(one.image_info[0], info))
    found = drifting(tmp_path, [one], "baseline:copy-last", ("gt",))["gt"]
    assert found["counts"]["continued: nothing_outside"] == 1
    assert found["continued"]["outside_difference"]["value"] is None
    assert found["continued"]["whole_difference"]["value"] == 0


def test_an_output_of_another_size_is_fitted(tmp_path: Path):
    smooth = png(np.tile(np.linspace(40, 200, SIDE)[:, None, None], (1, SIDE, 3)).astype(np.uint8))
    one = edited("d", draws=1)
    infos = tuple(replace(info, sha256=sha256(smooth)) for info in one.image_info)
    one = replace(one, images=(smooth, smooth), image_info=infos)

    def twice(request):
        with Image.open(io.BytesIO(request.images[-1].read())) as image:
            return Output(images=[encode_png(image.resize((4 * SIDE, 2 * SIDE)))])

    run = rolled_out(tmp_path, [one], ScriptedModel(twice), ("self",))
    [file] = (run.run.path / "outputs/self/images").iterdir()
    assert inspect(file.read_bytes()).width == 4 * SIDE
    found = drift([run], **FEW).values["m"]["self"]["continued"]
    assert found["outside_difference"]["value"] < 1
    assert found["outside_ssim"]["value"] > 0.99


def test_a_large_image_is_measured_at_the_working_side():
    image = Image.fromarray(noise(1)).resize((3 * pixels.WORKING_SIDE, pixels.WORKING_SIDE))
    assert pixels.pixels(image).shape == (171, 512, 3)


def test_all_generations_count(tmp_path: Path):
    dialogues = bench(1, draws=2)
    found = drifting(tmp_path, dialogues, changing(noisy), ("self",), generations=2)["self"]
    assert found["counts"]["images"] == 16
    assert found["first"]["luma"]["n"] == 16


def test_one_dialogue_has_no_interval_and_a_model_that_draws_nothing_no_value(tmp_path: Path):
    alone = drifting(tmp_path / "a", [edited("d")], changing(noisy), ("gt",))["gt"]["first"]
    assert all(one["value"] is not None and one["low"] is one["high"] is None for one in alone.values())
    nothing = ScriptedModel(lambda request: Output(status="model_refused"))
    found = drifting(tmp_path / "b", bench(1), nothing, ("gt",))["gt"]
    assert Counter(one["value"] for base in BASES for one in found[base].values()) == {None: 2 * len(MEASURES)}
    assert found["counts"] == {"images": 16, "missing": 16}


def test_histories_are_chosen_and_what_nobody_ran_is_an_error(tmp_path: Path):
    run = rolled_out(tmp_path, bench(1, draws=1), changing(noisy))
    assert list(drift([run], histories=("self",), **FEW).values["m"]) == ["self"]
    with pytest.raises(DataError, match="expected runs under none, got m: gt, self"):
        drift([run], histories=("none",))


def test_equal_seeds_give_equal_intervals(tmp_path: Path):
    run = rolled_out(tmp_path, bench(), changing(noisy), ("gt",))
    found = drift([run], **FEW)
    assert found.values == drift([run], **FEW).values
    one = found.values["m"]["gt"]["first"]["whole_difference"]
    assert one["low"] < one["value"] < one["high"]
    assert one["bounds"] == [None, None]
