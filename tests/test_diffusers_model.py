"""The diffusers adapter with tiny pipelines of the real classes: what reaches them, and what decides an image."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests import diffusers_support
from tests import tiny_diffusers as tiny
from tests.diffusers_support import (
    distance,
    drawn,
    klein,
    kontext,
    picture,
    pictured,
    pix2pix,
    pixels,
    records,
    request,
    watched,
)
from yanami_dataset.images import encode_png, open_rgb, sha256
from yanami_metric.api import rollout
from yanami_metric.history import Settings, Storyteller
from yanami_metric.models.diffusers import DiffusersModel
from yanami_metric.records import ImageRef

torch = pytest.importorskip("torch")
folders, few_threads = diffusers_support.folders, diffusers_support.few_threads  # fixtures


# What reaches the model


def test_in_gt_a_changed_history_image_changes_what_comes_after_it(folders, tmp_path):
    model = klein(folders)
    before = drawn(rollout([pictured()], model, out=tmp_path / "a"))
    after = drawn(rollout([pictured(image_1=77)], model, out=tmp_path / "b"))
    assert before["d1", 1] == after["d1", 1]
    assert distance(before["d1", 3], after["d1", 3]) > 2


def test_in_self_its_own_earlier_image_is_what_reaches_it(folders, tmp_path):
    model = klein(folders)
    own = drawn(rollout([pictured()], model, history="self", out=tmp_path / "self"), "self")
    image = own["d1", 1]
    info = pictured().image_info
    as_target = replace(
        pictured(),
        images=(pictured().images[0], image, pictured().images[2]),
        image_info=(info[0], replace(info[1], sha256=sha256(image)), info[2]),
    )
    shown_own = drawn(rollout([as_target], model, out=tmp_path / "own"))
    shown_target = drawn(rollout([pictured()], model, out=tmp_path / "target"))
    assert shown_own["d1", 3] == own["d1", 3]
    assert distance(shown_target["d1", 3], own["d1", 3]) > 2


def test_in_last_only_the_latest_image_reaches_it(folders):
    model = klein(folders)

    def third_turn(number: int, own: int):
        data = picture(own)
        latest = {(1, 0): ImageRef(sha256(data), 64, 64, lambda: data)}
        asked = Storyteller(pictured(image_0=number), Settings("last", "front"), latest).draw(3)
        assert len(asked.images) == 1
        return model.generate([asked])[0].images[0]

    assert distance(third_turn(0, own=50), third_turn(33, own=50)) == 0
    assert distance(third_turn(0, own=50), third_turn(0, own=51)) > 2


def test_in_none_no_history_reaches_it(folders, tmp_path):
    model = klein(folders)
    first = drawn(rollout([pictured()], model, history="none", out=tmp_path / "a"), "none")
    other = drawn(rollout([pictured(image_0=40, image_1=41)], model, history="none", out=tmp_path / "b"), "none")
    assert first == other


def test_every_reference_counts_in_its_place(folders):
    model = klein(folders)
    orders = ((1, 2), (2, 1), (1, 3), (4, 2), (1,))
    images = [model.generate([request(images=[picture(i) for i in order])])[0].images[0] for order in orders]
    assert all(distance(a, b) > 0 for i, a in enumerate(images) for b in images[:i])


def test_images_pass_without_being_encoded_again(folders):
    pipeline, seen = watched(tiny.load(folders("klein")))
    reads = []
    buffer = io.BytesIO()
    Image.open(io.BytesIO(picture(5))).save(buffer, "JPEG", quality=60)
    data = buffer.getvalue()
    ref = ImageRef(sha256(data), 64, 64, lambda: reads.append(data) or data, labels=(1,))
    twice = replace(request(count=2), images=(ref,))
    DiffusersModel(pipeline, call=tiny.KLEIN_CALL).generate([twice])
    assert reads == [data]  # the data set's own bytes, decoded once
    for call in seen:
        assert np.array_equal(np.asarray(call["image"][0]), np.asarray(open_rgb(data)))


def test_the_prompt_is_the_dialogue_and_calls_images_as_they_are_passed(folders, tmp_path):
    pipeline, seen = watched(tiny.load(folders("klein")))
    rollout([pictured()], DiffusersModel(pipeline, call=tiny.KLEIN_CALL), out=tmp_path / "run")
    longest = max(seen, key=lambda call: len(call["prompt"]))
    assert longest["prompt"] == (
        "Draw 1.\n\nThe dialogue so far:\nUser: d1: my cat [Image 1]\nAssistant: A cat.\nUser: Draw 0.\n"
        "Assistant: [Image 2]\nUser: Good?\nAssistant: Yes."
    )
    assert [np.array_equal(np.asarray(image), pixels(picture(i))) for i, image in enumerate(longest["image"])] == [
        True,
        True,
    ]


# Seeds, batches, sizes


@pytest.mark.parametrize(("make", "dtype"), [(kontext, "float32"), (kontext, "bfloat16"), (pix2pix, "float32")])
def test_the_same_seed_gives_the_same_image_alone_in_another_order_and_in_a_batch(folders, tmp_path, make, dtype):
    some = [pictured(n, id=f"d{n}") for n in range(3)]
    batch = make(folders, load={"dtype": dtype})
    alone = make(folders, load={"dtype": dtype}, declare={"max_batch": 1})
    assert alone.identity == batch.identity
    assert batch.caps.max_batch == 8 and alone.caps.max_batch == 1
    together = drawn(rollout(some, batch, out=tmp_path / "together"))
    for name, dialogues in (("alone", some), ("reversed", some[::-1])):
        others = drawn(rollout(dialogues, alone, out=tmp_path / name))
        assert others.keys() == together.keys() and len(others) == 6
        assert max(distance(others[key], together[key]) for key in others) <= 2
    assert len(set(together.values())) == 6
    again = drawn(rollout(some[::-1], batch, out=tmp_path / "again"))
    assert max(distance(again[key], together[key]) for key in again) <= 2


def test_what_fits_together_goes_into_one_call(folders):
    pipeline, seen = watched(tiny.load(folders("pix2pix")))
    model = DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL)
    wide = encode_png(Image.new("RGB", (96, 64), "blue"))
    model.generate([request(f"Number {i}.", [picture(i)], seed=i) for i in range(3)] + [request(images=[wide])])
    assert [call["prompt"] for call in seen] == [[f"Number {i}. [Image 1]" for i in range(3)], "Make it red. [Image 1]"]
    assert [len(call["generator"]) for call in seen[:1]] == [3]


def test_several_slots_are_drawn_apart_with_seeds_of_their_own(folders):
    model = klein(folders)
    output = model.generate([request(images=[picture(1)], count=2, seed=3)])[0]
    assert output.status == "ok" and len(output.images) == 2
    assert distance(*output.images) > 2


@pytest.mark.parametrize(("asked", "got"), [((100, 70), (96, 64)), ((4, 3), (80, 64)), (None, (64, 64))])
def test_the_size_is_fitted_to_what_the_class_draws(folders, asked, got):
    output = klein(folders).generate([request(images=[picture(1)], size=asked)])[0]
    assert (output.status, output.images[0].size) == ("ok", got)


def test_images_that_are_too_small_are_enlarged_and_that_is_said(folders):
    small = encode_png(Image.new("RGB", (4, 3), "red"))
    output = klein(folders).generate([request(images=[picture(1), small])])[0]
    assert (output.status, output.reason) == ("ok", "image 2 enlarged to 85 x 64")


# What weights are


def test_overwritten_weights_make_new_outputs_and_a_copy_elsewhere_does_not(folders, tmp_path):
    folder = tmp_path / "checkpoint"
    shutil.copytree(folders("klein"), folder)
    first = DiffusersModel(folder, call=tiny.KLEIN_CALL)
    shutil.copytree(folder, tmp_path / "elsewhere")
    copy = DiffusersModel(tmp_path / "elsewhere", call=tiny.KLEIN_CALL)
    assert copy.identity == first.identity
    before = rollout([pictured()], first, out=tmp_path / "a")
    stored = records(before)
    again = rollout([pictured()], copy, out=tmp_path / "a")
    assert records(again) == stored  # to the time each took: nothing was drawn again
    tiny.klein(folder, seed=1)
    second = DiffusersModel(folder, call=tiny.KLEIN_CALL)
    after = rollout([pictured()], second, out=tmp_path / "c")
    for key, record in records(after).items():
        assert record.key != stored[key].key
        assert distance(drawn(after)[key], drawn(before)[key]) > 2


def test_a_hub_model_in_the_cache_is_its_commit_wherever_the_branch_goes(folders, tmp_path):
    commits = ["1" * 40, "2" * 40]
    repository = tmp_path / "models--org--tiny"
    for commit in commits:
        shutil.copytree(folders("pix2pix"), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    for commit in commits:
        (repository / "refs" / "main").write_text(commit)
        model = DiffusersModel("org/tiny", load={"cache_dir": str(tmp_path)}, call=tiny.PIX2PIX_CALL)
        assert model.identity.startswith(f"hub:org/tiny@{commit}")
        assert model.generate([request(images=[picture(1)])])[0].status == "ok"


def test_identity_holds_what_changes_an_image_and_not_where_it_is_drawn(folders):
    first = klein(folders).identity
    assert klein(folders, load={"device": "cpu"}).identity == first
    assert klein(folders, load={"dtype": "bfloat16"}).identity != first
    assert klein(folders, call={"num_inference_steps": 3}).identity != first
    assert klein(folders, tag="step-1000").identity.startswith("tag:step-1000")


def test_a_pipeline_object_works_as_it_is(folders, tmp_path, capfd):
    other = tiny.load(folders("pix2pix"))
    quick = tiny.PIX2PIX_CALL  # the class's own 100 steps would take a while
    pipeline, _ = watched(tiny.load(folders("pix2pix")), lambda call, arguments: call(**arguments, **quick))
    run = rollout([pictured(draws=1)], pipeline, out=tmp_path / "run")
    assert records(run)["d1", 1].status == "ok"
    assert DiffusersModel(pipeline).identity == DiffusersModel(other).identity
    capfd.readouterr()
    DiffusersModel(pipeline).generate([request(images=[picture(1)])])
    assert capfd.readouterr() == ("", "")  # no progress bar
    assert pipeline._progress_bar_config == {}  # it is the user's
    with torch.no_grad():
        other.unet.conv_in.bias += 0.1
    assert DiffusersModel(pipeline).identity != DiffusersModel(other).identity


def test_a_pipeline_warns_once_and_not_with_every_image(folders, caplog):
    from diffusers.utils import logging

    model = kontext(folders)  # says in every call that it adjusts a size
    logging.enable_propagation()
    try:
        model.generate([request(images=[picture(i)], size=(90, 64), seed=i) for i in range(3)])
        model.generate([request(images=[picture(9)], size=(90, 64))])
    finally:
        logging.disable_propagation()
    assert len({id(record) for record in caplog.records if "have been adjusted" in record.message}) == 1
