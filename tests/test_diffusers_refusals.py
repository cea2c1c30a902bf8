"""The diffusers adapter: what a class can't take is known before, and what goes wrong is a status with a reason."""

from __future__ import annotations

import shutil
from dataclasses import replace

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
    records,
    request,
    watched,
)
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import encode_png
from yanami_metric.api import rollout
from yanami_metric.history import Settings, Storyteller
from yanami_metric.models.diffusers import DiffusersModel

torch = pytest.importorskip("torch")
folders, few_threads = diffusers_support.folders, diffusers_support.few_threads  # fixtures


# What a class can't take


def test_a_prompt_that_would_be_cut_is_unsupported_or_shortened(folders, tmp_path):
    short = {"max_sequence_length": 130}
    run = rollout([pictured()], klein(folders, call=short), out=tmp_path / "cut")
    assert records(run)["d1", 1].status == "ok"
    assert records(run)["d1", 3].status == "unsupported"
    assert "more than 130 tokens, where the pipeline cuts it" in records(run)["d1", 3].reason
    run = rollout([pictured()], klein(folders, call=short, shorten=True), out=tmp_path / "shortened")
    assert records(run)["d1", 3].status == "ok"
    assert records(run)["d1", 3].reason == "3 of the oldest messages left out"
    alone = klein(folders, call={"max_sequence_length": 10}, shorten=True)
    assert "the current instruction alone has" in alone.unsupported(request())


def test_prompts_are_counted_as_the_pipeline_counts_them(folders):
    pipeline = tiny.load(folders("klein"))
    model = DiffusersModel(pipeline, call=tiny.KLEIN_CALL)
    chat = pipeline.tokenizer.apply_chat_template(
        [{"role": "user", "content": "Make it red."}], tokenize=False, add_generation_prompt=True
    )
    exactly = len(pipeline.tokenizer(chat)["input_ids"])
    assert model.caps.max_prompt_tokens == 256
    for limit, fault in ((exactly, ""), (exactly - 1, f"the prompt has more than {exactly - 1} tokens")):
        cut = DiffusersModel(pipeline, call=tiny.KLEIN_CALL | {"max_sequence_length": limit})
        assert cut.unsupported(request()).startswith(fault) and bool(cut.unsupported(request())) == bool(fault)
    assert pix2pix(folders).caps.max_prompt_tokens == 600  # its tokenizer's


def test_tokenizers_are_read_without_the_weights(folders, tmp_path):
    shutil.copytree(folders("pix2pix"), tmp_path / "half", ignore=shutil.ignore_patterns("*.safetensors"))
    model = DiffusersModel(tmp_path / "half", call=tiny.PIX2PIX_CALL)
    assert "more than 600 tokens" in model.unsupported(request("long " * 150, [picture(1)]))
    with pytest.raises(ModelError, match="only safetensors"):
        model.generate([request(images=[picture(1)])])


def test_a_slot_with_no_image_in_view(folders, tmp_path):
    run = rollout([pictured()], pix2pix(folders), history="none", out=tmp_path / "without")
    assert records(run, "none")["d1", 3].status == "unsupported"
    other = DiffusersModel(folders("stable_diffusion"), call=tiny.PIX2PIX_CALL)
    assert other.caps.placement == "text_only" and not other.caps.honours_images
    both = pix2pix(folders, text_to_image=other)
    assert other.identity in both.identity
    run = rollout([pictured()], both, history="none,gt", out=tmp_path / "with")
    assert {record.status for record in records(run, "none").values()} == {"ok"}
    asked = [Storyteller(pictured(), Settings("none", "front")).draw(turn) for turn in (1, 3)]
    alone = [output.images[0] for output in other.generate(asked)]
    assert [distance(drawn(run, "none")["d1", turn], image) for turn, image in zip((1, 3), alone, strict=True)] == [
        0,
        0,
    ]
    assert "takes at most 0 images" in other.unsupported(request(images=[picture(1)]))


def test_the_form_without_images_is_made_of_the_same_components(folders):
    import diffusers

    model = kontext(folders, declare={"no_image": "FluxPipeline"})
    output = model.generate([request(seed=5)])[0]
    flux = diffusers.FluxPipeline(**tiny.load(folders("kontext")).components)
    seeded = {"width": 64, "height": 64, "generator": torch.Generator().manual_seed(5)}
    alone = flux("Make it red.", num_inference_steps=2, max_sequence_length=256, **seeded).images[0]
    assert distance(output.images[0], alone) == 0


def test_more_images_than_a_class_takes_become_a_grid(folders, tmp_path):
    pipeline, seen = watched(tiny.load(folders("pix2pix")))
    run = rollout([pictured()], DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL), out=tmp_path / "run")
    assert records(run)["d1", 3].status == "ok"
    prompts = {call["prompt"]: call["image"].size for call in seen}
    assert max(prompts.values())[0] > 128
    assert "Images 1 to 2 are in one picture, each under its label." in max(prompts, key=len)


def test_what_the_class_refuses_is_known_before(folders):
    model = klein(folders)
    narrow = encode_png(Image.new("RGB", (900, 70)))
    assert "at most 8 : 1, one is 12.9 : 1" in model.unsupported(request(images=[narrow]))
    assert "answers no questions" in model.unsupported(replace(request(), expects="text"))
    assert [output.status for output in model.generate([request(images=[narrow]), request()])] == ["unsupported", "ok"]


def test_an_unknown_class_is_refused_until_it_is_declared(folders):
    from diffusers import Flux2KleinPipeline

    class OwnPipeline(Flux2KleinPipeline):
        pass

    pipeline = tiny.load(folders("klein"))
    known = DiffusersModel(pipeline, call=tiny.KLEIN_CALL).generate([request(images=[picture(1)])])[0]
    pipeline.__class__ = OwnPipeline
    with pytest.raises(SpecError, match=r"OwnPipeline: not in the table.*(\n.*)+declare.list=shared_flat"):
        DiffusersModel(pipeline)
    declared = {"declare.list": "shared_flat", "declare.min_side": 64, "declare.no_image": "itself"}
    own = DiffusersModel(pipeline, call=tiny.KLEIN_CALL | declared)
    assert distance(own.generate([request(images=[picture(1)])])[0].images[0], known.images[0]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"call": {"guidance": 3}}, "guidance: the call of Flux2KleinPipeline takes image, prompt"),
        ({"call": {"img_guidance_scale": 3}}, "its guidance is guidance_scale"),
        ({"call": {"generator": 3}}, "generator: this argument of the pipeline's call is set by the rollout"),
        ({"declare": {"images": "x"}}, r"declare\.images: expected names among list, image"),
        ({"declare": {"list": "many"}}, r"declare\.list: expected one of none, single"),
        ({"declare": {"image": "pictures"}}, r"declare\.image: Flux2KleinPipeline takes no 'pictures'"),
        ({"load": {"dtype": "int8"}}, r"load\.dtype: expected the name of a float type"),
        ({"load": {"offload": "all"}}, r"load\.offload: expected one of model, sequential"),
        ({"load": {"trust_remote_code": True}}, "no code from repositories"),
        ({"load": {"use_safetensors": False}}, "only safetensors are read"),
    ],
)
def test_options_that_make_no_sense_are_refused(folders, options, message):
    with pytest.raises(SpecError, match=message):
        klein(folders, **options)


@pytest.mark.parametrize("source", ["no/folder/here", "./nowhere", "org/not-downloaded"])
def test_what_is_no_pipeline_is_refused(source, tmp_path):
    with pytest.raises(ModelError, match="diffusers: "):
        DiffusersModel(source)
    (tmp_path / "model_index.json").write_text('{"_class_name": ["my_code", "MyPipeline"]}')
    with pytest.raises(ModelError, match="expected a pipeline class of diffusers"):
        DiffusersModel(tmp_path)
    with pytest.raises(ModelError, match="expected a pipeline of diffusers, a folder or a Hub id, got object"):
        DiffusersModel(object())


def test_pickled_weights_are_not_read(folders, tmp_path):
    folder = tmp_path / "pickled"
    shutil.copytree(folders("pix2pix"), folder)
    for path in folder.rglob("*.safetensors"):
        torch.save({}, path.with_suffix(".bin"))
        path.unlink()
    with pytest.raises(ModelError, match="only safetensors"):
        DiffusersModel(folder, call=tiny.PIX2PIX_CALL).generate([request(images=[picture(1)])])


def test_loading_options_reach_the_pipeline(folders):
    model = klein(folders, load={"dtype": "bfloat16", "attention": "native"})
    assert model.generate([request(images=[picture(1)])])[0].status == "ok"
    assert model._source.pipeline.transformer.dtype == torch.bfloat16
    model.close()
    assert "pipeline" not in vars(model._source)


# What goes wrong with a sample


def test_an_image_of_nan_is_missing(folders):
    pipeline = tiny.load(folders("pix2pix"))
    with torch.no_grad():
        pipeline.vae.decoder.conv_out.bias[:] = float("nan")
    output = DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL).generate([request(images=[picture(1)])])[0]
    assert (output.status, output.images) == ("missing_output", [None])
    assert "NaN" in output.reason


@pytest.mark.parametrize(("threshold", "status"), [(-2.0, "model_refused"), (2.0, "ok")])
def test_an_image_that_the_safety_checker_blackened_is_a_refusal(folders, threshold, status):
    pipeline = tiny.load(folders("pix2pix"))
    pipeline.register_modules(**tiny.safety_checker(threshold))
    output = DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL).generate([request(images=[picture(1)])])[0]
    assert output.status == status
    if status == "model_refused":
        assert output.images == [None] and "safety checker" in output.reason


def test_a_sample_that_raises_is_an_output_and_the_others_are_drawn(folders):
    def fails_on_two(call, arguments):
        if "Number 2." in "".join(arguments["prompt"]):
            raise ValueError("two is too much")
        return call(**arguments)

    pipeline, _ = watched(tiny.load(folders("pix2pix")), fails_on_two)
    asked = [request(f"Number {i}.", [picture(i)]) for i in range(4)]
    outputs = DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL).generate(asked)
    assert [output.status for output in outputs] == ["ok", "ok", "generation_error", "ok"]
    assert outputs[2].reason == "ValueError: two is too much"


def test_out_of_memory_is_raised_and_the_rollout_goes_on_with_less(folders, tmp_path):
    def little_memory(call, arguments):
        if not isinstance(arguments["prompt"], str) and len(arguments["prompt"]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return call(**arguments)

    pipeline, seen = watched(tiny.load(folders("pix2pix")), little_memory)
    model = DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL)
    with pytest.raises(torch.OutOfMemoryError):
        model.generate([request(f"Number {i}.", [picture(i)]) for i in range(4)])
    run = rollout([pictured(n, id=f"d{n}", draws=1) for n in range(4)], model, out=tmp_path / "run")
    assert {record.status for record in records(run).values()} == {"ok"}
    assert len(seen[-1]["prompt"]) == 2


def test_nothing_drawn_is_missing(folders):
    from diffusers.pipelines.stable_diffusion import StableDiffusionPipelineOutput

    def nothing(call, arguments):
        return StableDiffusionPipelineOutput(images=[], nsfw_content_detected=None)

    pipeline, _ = watched(tiny.load(folders("pix2pix")), nothing)
    output = DiffusersModel(pipeline, call=tiny.PIX2PIX_CALL).generate([request(images=[picture(1)])])[0]
    assert (output.status, output.reason) == ("missing_output", "image 0: the pipeline gave 0 images for 1 prompts")


# A class whose images are nested lists


def test_nested_lists_with_placeholders_and_noise_from_the_global_generator(folders):
    tiny.stand_in()
    pipeline, seen = watched(tiny.load(folders("omnigen")))
    model = DiffusersModel(pipeline, call=tiny.OMNIGEN_CALL)
    first, second = request(images=[picture(1), picture(2)]), request(images=[picture(1), picture(3)])
    state = torch.get_rng_state()
    images = [output.images[0] for output in model.generate([first, second, request()])]
    assert torch.equal(torch.get_rng_state(), state)
    assert [len(call["input_images"][0]) if call["input_images"] else None for call in seen] == [2, 2, None]
    assert seen[0]["prompt"] == [
        "Make it red. [Image 1] [Image 2]\n\nImage 1: <img><|image_1|></img>\nImage 2: <img><|image_2|></img>"
    ]
    assert distance(images[0], images[1]) > 2
    torch.manual_seed(1234)
    assert distance(model.generate([first])[0].images[0], images[0]) == 0
