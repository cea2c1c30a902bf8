"""The diffusers adapter with tiny pipelines of the real classes: what reaches them, what comes out, what is refused."""

from __future__ import annotations

import functools
import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests import tiny_diffusers as tiny
from tests.support import dialogue
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import encode_png, open_rgb, sha256
from yanami_dataset.schema import Message, Part
from yanami_metric.api import rollout
from yanami_metric.history import Settings, Storyteller
from yanami_metric.models.diffusers import DiffusersModel
from yanami_metric.records import ImageRef, Request
from yanami_metric.run_folder import RunFolder

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated.*:FutureWarning:diffusers")


@pytest.fixture(scope="module", autouse=True)
def _few_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # for what is so small, more only wait for each other
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of each tiny pipeline, made when first asked for."""
    root = tmp_path_factory.mktemp("pipelines")
    return functools.cache(lambda name: getattr(tiny, name)(root / name))


@functools.cache
def picture(number: int, side: int = 64) -> bytes:
    """A pattern that differs much from that of any other number."""
    y, x = np.mgrid[0:side, 0:side]
    rng = np.random.default_rng(number)
    first, second = rng.integers(0, 256, (2, 3))
    stripes = ((x * (number % 3 + 1) + y * (number % 2)) % side < side // 3)[..., None]
    return encode_png(Image.fromarray(np.where(stripes, first, second).astype(np.uint8)))


def pictured(number: int = 0, id: str = "d1", draws: int = 2, **changed: int):
    """A dialogue whose images are pictures; `image_1=7` puts picture 7 in the place of image 1."""
    plain = dialogue(id, draws=draws)
    images = [picture(changed.get(f"image_{i}", 10 * number + i)) for i in range(len(plain.images))]
    info = [
        replace(info, sha256=sha256(data), width=64, height=64)
        for info, data in zip(plain.image_info, images, strict=True)
    ]
    return replace(plain, images=tuple(images), image_info=tuple(info), questions=())


def klein(folders, **options) -> DiffusersModel:
    return DiffusersModel(folders("klein"), call=tiny.KLEIN_CALL | options.pop("call", {}), **options)


def kontext(folders, **options) -> DiffusersModel:
    return DiffusersModel(folders("kontext"), call=tiny.KONTEXT_CALL | options.pop("call", {}), **options)


def pix2pix(folders, **options) -> DiffusersModel:
    return DiffusersModel(folders("pix2pix"), call=tiny.PIX2PIX_CALL | options.pop("call", {}), **options)


def drawn(run, history="gt") -> dict[tuple[str, int], bytes]:
    """The image of each turn, as encoded."""
    with RunFolder(run.path) as folder:
        return {
            (d.id, turn): folder.image(record.images[0]).read()
            for d in run.data
            for (turn, _), record in folder.current(history, d.id).items()
        }


def records(run, history="gt"):
    with RunFolder(run.path) as folder:
        return {(d.id, turn): record for d in run.data for (turn, _), record in folder.current(history, d.id).items()}


def request(text="Make it red.", images=(), count=1, size=(64, 64), seed=7, key=None) -> Request:
    refs = tuple(
        ImageRef(sha256(data), *open_rgb(data).size, lambda data=data: data, labels=(i,))
        for i, data in enumerate(images, 1)
    )
    parts = (Part("text", text), *(Part("image", index=i) for i in range(len(refs))))
    made = Message("user", parts)
    key = key or f"{text} {[ref.sha256 for ref in refs]} {count} {size}"
    return Request(key, "d", 0, (made,), refs, "images", count, tuple(range(seed, seed + count)), size=size)


def pixels(image) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(image)) if isinstance(image, bytes) else image).astype(int)


def distance(first, second) -> int:
    """The largest difference of a value, 0 to 255."""
    return int(np.abs(pixels(first) - pixels(second)).max())


def watched(pipeline, act=lambda call, arguments: call(**arguments)):
    """The pipeline with every call's arguments written down in `seen`; `act` may do something else than calling."""
    kind = type(pipeline)
    seen = []

    @functools.wraps(kind.__call__)
    def __call__(self, **arguments):
        seen.append(arguments)
        return act(functools.partial(kind.__call__, self), arguments)

    pipeline.__class__ = type(kind.__name__, (kind,), {"__call__": __call__, "__module__": kind.__module__})
    return pipeline, seen


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


@pytest.mark.parametrize("make", [kontext, pix2pix])
def test_the_same_seed_gives_the_same_image_alone_in_another_order_and_in_a_batch(folders, tmp_path, make):
    some = [pictured(n, id=f"d{n}") for n in range(3)]
    batch = make(folders)
    alone = make(folders, declare={"max_batch": 1})
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


# What a class can't take


def test_a_prompt_that_would_be_cut_is_unsupported_or_shortened(folders, tmp_path):
    short = {"max_sequence_length": 130}
    run = rollout([pictured()], klein(folders, call=short), out=tmp_path / "cut")
    assert records(run)["d1", 1].status == "ok"
    assert records(run)["d1", 3].status == "unsupported"
    assert "tokens, the pipeline cuts at 130" in records(run)["d1", 3].reason
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
    for limit, fault in ((exactly, ""), (exactly - 1, f"the prompt has {exactly} tokens")):
        cut = DiffusersModel(pipeline, call=tiny.KLEIN_CALL | {"max_sequence_length": limit})
        assert cut.unsupported(request()).startswith(fault) and bool(cut.unsupported(request())) == bool(fault)
    assert pix2pix(folders).caps.max_prompt_tokens == 600  # its tokenizer's


def test_tokenizers_are_read_without_the_weights(folders, tmp_path):
    shutil.copytree(folders("pix2pix"), tmp_path / "half", ignore=shutil.ignore_patterns("*.safetensors"))
    model = DiffusersModel(tmp_path / "half", call=tiny.PIX2PIX_CALL)
    assert "the pipeline cuts at 600" in model.unsupported(request("long " * 150, [picture(1)]))
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
