"""Presets: the paper's figures to the letter, every setting with its source, nothing that adapters don't know."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from yanami_dataset.errors import SpecError
from yanami_metric.presets import PAPER, SOURCES, Preset, load_preset, preset_names

# Table 9 of the paper: settings as printed, how images are given, and the figures that are options.
TABLE_9 = {
    "bagel": (
        "50 steps; text/image CFG 4.0/1.5 ; parallel CFG; timestep shift 3.0",
        "Native interleaved image–text sequence; no image concatenation",
        ("interleaved", None),
        {"num_timesteps": 50, "cfg_text_scale": 4.0, "cfg_img_scale": 1.5, "timestep_shift": 3.0},
    ),
    "emu3.5": (
        "Image/text guidance 3.0/1.0 ; image top- k 10,240; top- p 1.0",
        "Native interleaved image–text sequence; no image concatenation",
        ("interleaved", None),
        {"classifier_free_guidance": 3.0, "guidance_scale": 1.0, "image_top_k": 10240, "image_top_p": 1.0},
    ),
    "omnigen2": (
        "50 steps; text guidance 4.0 ; resolution alignment disabled",
        "Separate visual inputs; references are concatenated into a grid only when more than three are present",
        ("front", 3),
        {"num_inference_steps": 50, "text_guidance_scale": 4.0, "align_res": False},
    ),
    "ovis-u1": (
        "50 steps; text/image CFG 5.0/1.5",
        "Ordered image placeholders; multiple references are concatenated into a grid",
        ("concatenate", None),
        {"steps": 50, "txt_cfg": 5.0, "img_cfg": 1.5},
    ),
    "internvl-u": (
        "50 steps; deterministic per-sample seed",
        "Multiple references are concatenated into a grid",
        ("concatenate", None),
        {"num_inference_steps": 50},
    ),
    "janus-pro": (
        "576 visual tokens per image; CFG 5.0 ; greedy decoding",
        "Interleaved inputs for understanding; generation uses the flattened dialogue text without reference-image "
        "conditioning",
        (None, None),  # its adapter shows images with questions and none when it draws
        {"draw.guidance_scale": 5.0, "draw.do_sample": False},
    ),
}
EDITING = {"qwen-image-edit", "qwen-image-edit-plus", "flux.2-dev", "step1x-v1p2", "unipic-3"}


@pytest.mark.parametrize("name", TABLE_9)
def test_the_settings_are_those_of_the_paper(name):
    settings, visual_input, shown, call = TABLE_9[name]
    preset = load_preset(name)
    assert preset.paper == {"settings": settings, "visual_input": visual_input}
    assert (preset.placement, preset.max_images) == shown
    assert preset.call == call and preset.options == call
    assert [type(value) for value in preset.call.values()] == [type(value) for value in call.values()]
    assert {preset.sources[f"call.{option}"] for option in call} == {PAPER} == {preset.sources["placement"]}


@pytest.mark.parametrize("name", TABLE_9)
def test_every_figure_of_the_paper_is_an_option_or_a_note(name):
    preset = load_preset(name)
    figures = {float(number.replace(",", "")) for number in re.findall(r"[\d,]*\d(?:\.\d+)?", preset.paper["settings"])}
    told = {float(value) for value in preset.call.values() if not isinstance(value, bool)}
    told |= {float(number) for number in re.findall(r"\b\d+\b", " ".join(preset.notes))}
    assert figures <= told


def test_presets_are_of_the_models_that_the_paper_evaluates():
    assert set(preset_names()) == set(TABLE_9) | EDITING
    assert [load_preset(name).name for name in preset_names()] == preset_names()


@pytest.mark.parametrize("name", preset_names())
def test_every_setting_has_a_source(name):
    preset = load_preset(name)
    needed = {"placement", *(f"load.{option}" for option in preset.load), *(f"call.{option}" for option in preset.call)}
    needed |= {"max_images"} if preset.max_images else set()
    needed |= set() if preset.is_template else {"spec"}
    assert needed <= set(preset.sources)
    assert set(preset.sources.values()) <= set(SOURCES)
    assert bool(preset.paper) == (PAPER in preset.sources.values())


@pytest.mark.parametrize("name", preset_names())
def test_a_spec_is_whole_or_waits_for_a_program(name):
    preset = load_preset(name)
    assert preset.adapter in ("diffusers", "transformers", "command")
    assert preset.is_template == (preset.adapter == "command") == (preset.spec == "command:<argv>")


PIPELINES = {
    "qwen-image-edit": "qwenimage/pipeline_qwenimage_edit.py",
    "qwen-image-edit-plus": "qwenimage/pipeline_qwenimage_edit_plus.py",
    "flux.2-dev": "flux2/pipeline_flux2.py",
}


def call_defaults(source):
    """The arguments of a pipeline's call and their defaults, read without importing it."""
    [call] = [node for node in ast.walk(ast.parse(source)) if getattr(node, "name", "") == "__call__"]
    names = [argument.arg for argument in call.args.args][-len(call.args.defaults) :]
    return dict(zip(names, map(ast.unparse, call.args.defaults), strict=True))


@pytest.mark.parametrize("name", [name for name in preset_names() if load_preset(name).adapter == "diffusers"])
def test_options_and_defaults_are_those_of_the_pipeline(name):
    preset = load_preset(name)
    [library] = importlib.util.find_spec("diffusers").submodule_search_locations
    source = (Path(library) / "pipelines" / PIPELINES[name]).read_text()
    defaults = call_defaults(source)
    assert set(preset.call) <= set(defaults)
    for option, value in preset.call.items():
        if preset.sources[f"call.{option}"] == "the pipeline's default":
            assert repr(value) == defaults[option]
    assert f'"{preset.spec.partition(":")[2]}", torch_dtype=torch.{preset.load["dtype"]}' in source


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "description: x\nspec: s\nsteps: 3",
            "expected description and spec, and other keys among call, load, max_images",
        ),
        ("description: x", "expected description and spec"),
        ("- x", "got list"),
        ("description: {", "expected a YAML file in UTF-8"),
        ("description: x\nspec: s\nplacement: behind", "placement: expected one of interleaved, front"),
        ("description: x\nspec: s\nmax_images: 0", "max_images: expected a whole number of 1 or more, or null, got 0"),
        ("description: x\nspec: s\nmax_images: true", "max_images: expected a whole number"),
        ("description: 3\nspec: s", "description: expected a text, got 3"),
        ("description: x\nspec: s\ncall: [steps]", "call: expected names with values, got ['steps']"),
        ("description: x\nspec: s\ncall: {1: 2}", "call: expected names with values, got {1: 2}"),
        ("description: x\nspec: s\npaper: {settings: 3}", "paper: expected names with values that are texts"),
        ("description: x\nspec: s\nnotes: x", "notes: expected a list of texts, got 'x'"),
        (
            "description: x\nspec: s\nsources: {call.steps: ours}",
            "sources: expected settings among max_images, placement",
        ),
        ("description: x\nspec: s\nsources: {spec: hearsay}", "sources.spec: expected one of paper, Table 9; the pipe"),
        ("description: !!python/object/apply:os.getcwd []\nspec: s", "expected a YAML file"),
    ],
)
def test_a_preset_of_one_s_own_is_checked(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(SpecError) as error:
        load_preset(str(path))
    assert message in str(error.value) and "mine" in str(error.value)


def test_a_preset_of_one_s_own_is_a_preset(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "description: mine\nspec: diffusers:weights\nload: {dtype: float16}\ncall: {num_inference_steps: 4}"
    )
    expected = Preset("mine", "mine", "diffusers:weights", load={"dtype": "float16"}, call={"num_inference_steps": 4})
    assert load_preset(str(path)) == expected
    assert expected.options == {"load.dtype": "float16", "num_inference_steps": 4}


@pytest.mark.parametrize("name", ["BAGEL", "none", "../bagel", "", "missing.yaml"])
def test_an_unknown_preset_says_what_there_is(name):
    with pytest.raises(SpecError) as error:
        load_preset(name)
    assert ("among bagel, emu3.5" in str(error.value)) == (name != "missing.yaml")


def test_presets_ship_with_the_package():
    import configparser

    from yanami_metric import presets

    parser = configparser.ConfigParser()
    parser.read(presets.FOLDER.parent.parent / "setup.cfg", encoding="utf-8")
    assert "yanami_metric.presets" in parser["options"]["packages"].split()
    assert "*.yaml" in parser["options.package_data"]["yanami_metric.presets"].split()
