"""The table of pipeline classes agrees with the classes of the installed diffusers."""

from __future__ import annotations

import inspect

import pytest

from yanami_dataset.errors import SpecError
from yanami_metric.models.diffusers_table import CLASSES, ITSELF, MEANINGS, PipelineClass, lookup

diffusers = pytest.importorskip("diffusers")


def call_of(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(diffusers, name).__call__).parameters)


def parts_of(name: str) -> set[str]:
    return set(inspect.signature(getattr(diffusers, name).__init__).parameters) - {"self"}


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_that_is_declared_exists(name):
    takes, call = CLASSES[name], call_of(name)
    declared = {"prompt", "generator", "output_type", *takes.guidance, *dict(takes.defaults)}
    declared |= set() if takes.list == "none" else {takes.image}
    assert declared <= set(call)
    if takes.prompt_tokens is not None:
        assert set(takes.tokenizers) <= parts_of(name)
    if isinstance(takes.prompt_tokens, int) and "max_sequence_length" in call:
        assert call["max_sequence_length"].default == takes.prompt_tokens


@pytest.mark.parametrize("name", [name for name, takes in CLASSES.items() if takes.list != "none"])
def test_a_class_that_draws_without_an_image_can_be_called_so(name):
    takes = CLASSES[name]
    if takes.no_image == ITSELF:
        assert call_of(name)[takes.image].default is None
    elif takes.no_image:
        assert CLASSES[takes.no_image].list == "none"
        assert parts_of(takes.no_image) <= parts_of(name)


@pytest.mark.parametrize("name", [name for name, takes in CLASSES.items() if takes.list == "none"])
def test_a_class_that_takes_no_images_has_no_argument_for_them(name):
    assert not {"image", "images", "input_images"} & set(call_of(name))


def test_the_classes_that_edit_are_all_there():
    """Those of diffusers 0.42 that follow an instruction about images and draw one; why others aren't is said here."""
    not_dialogues = {
        "BriaFiboEditPipeline": "takes JSON captions, no instructions",
        "ChronoEditPipeline": "draws videos",
        "LucyEditPipeline": "draws videos",
        "QwenImageEditInpaintPipeline": "needs a mask",
        "StableDiffusionDiffEditPipeline": "needs a mask",
        "StableDiffusionModelEditingPipeline": "edits the model",
        "StableDiffusionPix2PixZeroPipeline": "needs directions in the embedding",
    }
    names = [name for name in dir(diffusers) if name.endswith("Pipeline") and "Modular" not in name]
    edits = {name for name in names if any(word in name for word in ("Edit", "Pix2Pix", "Kontext"))}
    edits -= {"FluxKontextInpaintPipeline"}  # needs a mask
    assert edits - set(CLASSES) == set(not_dialogues)


def test_summaries_tell_classes_apart():
    assert CLASSES["Flux2KleinPipeline"].summary == (
        "a list of images that all prompts of a call share; draws without too; 512 prompt tokens; batches of 8"
    )
    assert CLASSES["QwenImageEditPipeline"].summary.endswith("without: QwenImagePipeline; one by one; not run here")
    assert {takes.list for takes in CLASSES.values()} == set(MEANINGS)


def test_what_is_declared_goes_before_the_table():
    assert lookup("FluxKontextPipeline", {"max_batch": 2}).max_batch == 2
    own = lookup("Own", {"list": "nested_equal", "tokenizers": ["a", "b"], "guidance": "cfg", "defaults": {"x": 1}})
    assert own == PipelineClass("nested_equal", tokenizers=("a", "b"), guidance=("cfg",), defaults=(("x", 1),))
    for declared in ({}, {"image": "refs"}):
        with pytest.raises(SpecError, match="Own: not in the table of pipeline classes") as refused:
            lookup("Own", declared)
        assert all(f"declare.list={meaning}" in str(refused.value) for meaning in MEANINGS)
