"""The transformers adapter, on the real classes with tiny random weights saved to a folder and loaded from it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import tiny_transformers as tiny
from tests.support import dialogue
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import encode_png, sha256
from yanami_dataset.schema import Message, Part
from yanami_metric.api import rollout
from yanami_metric.history import Settings, Storyteller
from yanami_metric.models.hf_chat import Chat, as_chat, without_oldest_text
from yanami_metric.models.transformers import TransformersModel
from yanami_metric.records import ImageRef, Request

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

NEW = 24
SHORT = {"max_new_tokens": NEW, "suppress_tokens": tiny.UNPRINTABLE}
SAMPLED = {**SHORT, "do_sample": True, "temperature": 2.0}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    return {name: getattr(tiny, name)(root / name) for name in ("llava", "janus", "emu3")}


@pytest.fixture(scope="module")
def llava(folders):
    return TransformersModel(folders["llava"], call=SHORT)


@pytest.fixture(scope="module")
def janus(folders):
    return TransformersModel(folders["janus"], call=SHORT)


def noise_png(number: int) -> bytes:
    """Images that differ more than single colours do."""
    values = np.random.default_rng(number).integers(0, 256, (15, 20, 3), dtype=np.uint8)
    return encode_png(Image.fromarray(values))


def ref(number: int) -> ImageRef:
    data = noise_png(number)
    return ImageRef(sha256(data), 20, 15, lambda: data)


def says(role: str, *content: str | int) -> Message:
    return Message(role, tuple(Part("text", c) if isinstance(c, str) else Part("image", index=c) for c in content))


def request(*messages: Message, images=(), expects="text", seeds=(7,), size=None) -> Request:
    return Request("key", "d", 0, messages, tuple(images), expects, len(seeds), tuple(seeds), size=size)


def ask(text="Which colour?", image: int | None = 1, earlier="Hello.", seed=7) -> Request:
    """A question after a turn that shows an image."""
    shown = (0,) if image is not None else ()
    images = (ref(image),) if image is not None else ()
    first = says("user", earlier, *shown)
    return request(first, says("assistant", "I see."), says("user", text), images=images, seeds=(seed,))


def draw(text="Draw a cat.", seeds=(7,), image: int | None = None) -> Request:
    shown = (0,) if image is not None else ()
    images = (ref(image),) if image is not None else ()
    return request(says("user", *shown, text), images=images, expects="images", seeds=seeds)


def pixels(image) -> np.ndarray:
    return np.asarray(image).astype(int)


def texts(model, *requests) -> list[str]:
    outputs = model.generate(requests)
    assert [output.status for output in outputs] == ["ok"] * len(requests)
    return [output.text for output in outputs]


# Answers


def test_image_and_text_of_the_history_matter_and_the_seed_does_not(llava):
    base, other_image, other_text, no_image, other_seed = texts(
        llava, ask(), ask(image=2), ask(earlier="Good bye."), ask(image=None), ask(seed=8)
    )
    assert len({base, other_image, other_text, no_image}) == 4
    assert other_seed == base  # greedy unless asked


def test_alone_in_another_order_and_in_a_mixed_batch_it_says_the_same(folders, llava):
    two = request(says("user", 0, "and", 1), images=(ref(1), ref(2)))
    requests = [ask(image=None), ask(), two, ask("Why? " * 20), ask(image=None, text="A longer question than that?")]
    alone = [texts(llava, each)[0] for each in requests]
    assert texts(llava, *requests) == alone
    assert texts(llava, *reversed(requests)) == alone[::-1]
    small = TransformersModel(folders["llava"], call={**SHORT, "max_batch": 2})
    assert small.caps.max_batch == 2
    assert texts(small, *requests) == alone


@pytest.mark.parametrize("name", ["llava", "janus"])
def test_sampling_is_each_requests_own(folders, name):
    model = TransformersModel(folders[name], call=SAMPLED)
    requests = [ask(seed=seed, text="Which?" * length) for seed, length in ((1, 1), (2, 9), (3, 4), (1, 1))]
    alone = [texts(model, each)[0] for each in requests]
    assert len(set(alone)) == 3
    assert alone[0] == alone[3]
    torch.manual_seed(123)  # the global generator is neither used nor moved
    state = torch.get_rng_state()
    assert texts(model, *requests) == alone
    assert torch.equal(torch.get_rng_state(), state)


def test_sampling_follows_the_models_distribution(folders):
    from yanami_metric.models.hf_sampling import Sampling, Steps

    scores = torch.tensor([[0.0, 1.0, 2.0, -float("inf")]]).repeat(4000, 1)
    steps = Steps(range(4000), Sampling(True, temperature=1.0, top_k=0, top_p=1.0))
    drawn = steps.processors(torch.zeros(4000, 1, dtype=torch.long), scores).argmax(-1)
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert torch.allclose(shares, scores[0].softmax(-1), atol=0.03)
    one = Steps([5], Sampling(True, temperature=1.0, top_k=1, top_p=1.0))
    assert one.processors(torch.zeros(1, 1, dtype=torch.long), scores[:1]).argmax() == 2


def test_history_modes_reach_the_model(folders):
    model = TransformersModel(
        folders["llava"], call={**SAMPLED, "max_new_tokens": 96}
    )  # which shows smaller differences than greedy text

    def asked(history: str, images: int) -> Request:
        made = dialogue(draws=2)
        data = tuple(noise_png(images + i) for i in range(len(made.images)))
        info = [replace(each, sha256=sha256(new)) for each, new in zip(made.image_info, data, strict=True)]
        changed = replace(made, images=data, image_info=tuple(info))
        return Storyteller(changed, Settings(history)).ask(changed.questions[1])

    gt, other_gt = texts(model, asked("gt", 50), asked("gt", 60))
    assert gt != other_gt
    none, other_none = texts(model, asked("none", 50), asked("none", 60))
    assert none == other_none


@pytest.mark.parametrize("placement", ["interleaved", "front", "concatenate", "text_only"])
def test_every_placement_is_taken(llava, placement):
    made = dialogue(draws=2)
    asked = Storyteller(made, Settings("gt", placement)).ask(made.questions[1])
    assert llava.unsupported(asked) == ""
    assert texts(llava, asked)


def test_messages_of_one_role_are_joined_and_images_keep_their_order():
    chat = as_chat([says("user", 0), says("user", "a", 1), says("assistant", "b"), says("user", "c")])
    assert [message["role"] for message in chat] == ["user", "assistant", "user"]
    assert [part["type"] for part in chat[0]["content"]] == ["image", "text", "image"]


def test_without_a_chat_template_the_dialogue_is_flattened(tmp_path):
    model = TransformersModel(tiny.llava(tmp_path / "plain", template=None), call=SHORT)
    prompt = model._chat.prompt(ask("Which colour?"))
    assert prompt.text == (
        "Which colour?\n\nImage 1: <image>\n\n"
        "The dialogue so far:\nUser: Hello. [Image 1]\nAssistant: I see.\n\nAssistant:"
    )
    one, other, again = texts(model, ask(), ask(image=2), ask())
    assert one != other
    assert one == again


def test_a_chat_template_can_be_given_and_gets_its_options(folders):
    template = "{{ greeting }}{% for m in messages %}{% for p in m['content'] %}{{ p['text'] }}{% endfor %}{% endfor %}"
    options = {"chat.chat_template": template, "chat.greeting": "Hi! "}
    model = TransformersModel(folders["llava"], call={**SHORT, **options})
    assert model._chat.prompt(ask(image=None)).text == "Hi! Hello.I see.Which colour?"


# Thinking


def forced(folder: Path, said: str, template: str | None = None):
    """A model that says what it is told to."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    script = tokenizer(said)["input_ids"]
    start: list[int] = []

    def allowed(row, tokens):
        start[:] = start or [len(tokens)]
        at = len(tokens) - start[0]
        return [script[at] if at < len(script) else tokenizer.eos_token_id]

    call = {"max_new_tokens": 40, "prefix_allowed_tokens_fn": allowed}
    return TransformersModel(folder, call={**call, **({"chat.chat_template": template} if template else {})})


OPENED = "{% for m in messages %}{% for p in m['content'] %}{{ p['text'] }}{% endfor %}{% endfor %}A:<think>\n"


@pytest.mark.parametrize(
    ("said", "template", "thinking", "text", "status", "reason"),
    [
        ("red", None, None, "red", "ok", ""),
        ("<think>two</think> red", None, "two", "red", "ok", ""),
        ("two reds</think>red", OPENED, "two reds", "red", "ok", ""),
        ("two reds", OPENED, "two reds", "", "missing_output", "only thinking"),
        ("<think>two</think>", None, "two", "", "missing_output", "only thinking"),
        ("", None, None, "", "missing_output", "no text"),
        ("<think>" + "so " * 30, None, None, "", "missing_output", "only thinking; stopped at max_new_tokens=40"),
    ],
)
def test_thinking_is_no_answer(folders, said, template, thinking, text, status, reason):
    (output,) = forced(folders["llava"], said, template).generate([ask(image=None)])
    assert (output.text, output.status, output.reason) == (text, status, reason)
    assert thinking is None or output.thinking == thinking


def test_tags_that_are_special_tokens_are_seen():
    chat = Chat(type("Processor", (), {"tokenizer": tiny.tokenizer({"open": "[THINK]", "close": "[/THINK]"})}), {})
    tokens = chat.tokenizer("[THINK]two[/THINK]red</s><pad>")["input_ids"]
    assert chat.answer(tokens, "") == ("two", "red")


# Limits


def test_a_prompt_that_is_too_long_is_unsupported(llava):
    fits, long = ask("a" * 1900), ask("a" * 2000)
    assert llava.caps.max_prompt_tokens == tiny.POSITIONS - NEW
    assert llava.unsupported(fits) == ""
    reason = llava.unsupported(long)
    assert "the model takes at most 2024 (2048 less max_new_tokens=24)" in reason
    outputs = llava.generate([long, ask()])
    assert [(output.status, output.reason) for output in outputs] == [
        ("unsupported", reason),
        ("ok", outputs[1].reason),
    ]


def test_tokens_are_counted_as_the_processor_makes_them(folders, janus):
    for model in (TransformersModel(folders["llava"], call=SHORT), janus):
        for asked in (ask(), ask(image=None), request(says("user", 0, "and", 1), images=(ref(1), ref(2)))):
            prompt = model._chat.prompt(asked)
            from yanami_metric.models.hf_chat import decoded

            made = model._chat.encode([prompt.text], decoded([prompt]))
            assert model._chat.count(prompt) == made["input_ids"].shape[-1]


def test_shortening_leaves_out_the_oldest_turns_but_not_their_images(folders):
    model = TransformersModel(folders["llava"], call=SHORT, shorten=True)
    turns = [says(role, f"{i} " + "a" * 300) for i in range(5) for role in ("user", "assistant")]
    first = says("user", "old " * 100, "Image 1:", 0)
    asked = request(first, *turns[1:], says("user", "Which colour?"), images=(ref(1),))
    (output,) = model.generate([asked])
    assert output.status == "ok"
    assert output.reason.startswith("shortened: the text of the 4 oldest messages was left out")
    prompt = model._chat.shortened(asked, tiny.POSITIONS - NEW)
    assert prompt.text.startswith("user: Image 1:<image>2 aaa")
    assert model._chat.count(prompt) <= tiny.POSITIONS - NEW < model._chat.count(model._chat.shortened(asked, 10**6))
    assert "even" not in model.unsupported(asked)
    assert "tokens without any earlier text" in model.unsupported(ask("a" * 3000))


def test_images_of_left_out_turns_stay_with_their_captions():
    messages = [says("user", "see", "Image 1:", 0), says("assistant", "ok", "Image 2:", 1), says("user", "now")]
    kept = without_oldest_text(messages, 2)
    assert kept == [says("user", "Image 1:", 0, "Image 2:", 1), says("user", "now")]


# Images


def test_janus_draws_what_the_text_says_and_does_not_see_images(janus):
    assert janus.caps.outputs == {"text", "images"}
    assert not janus.caps.honours_images
    assert (janus.caps.placement, janus.caps.drawing_placement) == ("interleaved", "text_only")
    requests = [draw(), draw("Draw a long dog on a mat."), draw(image=1), draw(image=2)]
    outputs = janus.generate(requests)
    cat, dog, one, two = (pixels(output.images[0]) for output in outputs)
    assert cat.shape == (16, 16, 3)
    assert np.abs(cat - dog).max() > 2
    assert np.array_equal(one, two)
    assert [output.reason for output in outputs[1:3]] == ["", "drawn from the text alone, without the 1 images shown"]
    for each, output in zip(requests, outputs, strict=True):
        (alone,) = janus.generate([each])
        assert np.abs(pixels(alone.images[0]) - pixels(output.images[0])).max() <= 2


def test_janus_answers_see_the_images(janus):
    one, other, without = texts(janus, ask(), ask(image=2), ask(image=None))
    assert len({one, other, without}) == 3


def test_the_drawing_prompt_is_the_flattened_text(janus):
    asked = request(
        says("user", "My cat", "Image 1:", 0), says("assistant", "Nice."), says("user", "Draw it."), images=(ref(1),)
    )
    assert janus._drawer.flat(asked).text == (
        "Draw it.\n\nThe dialogue so far:\nUser: My cat Image 1: [image not shown]\nAssistant: Nice."
    )


@pytest.mark.parametrize("name", ["janus", "emu3"])
def test_sampled_images_follow_their_seeds_alone_and_in_a_batch(folders, name):
    options = {"draw.do_sample": True, "draw.temperature": 3.0, "outputs": "images"}
    if name == "emu3":
        options["draw.image_area"] = 24 * 24
    model = TransformersModel(folders[name], call=options)
    assert model.caps.placement == "text_only"
    both, other = model.generate([draw(seeds=(1, 2)), draw("Draw a long dog on a mat.", seeds=(3,))])
    first, second, third = (pixels(image) for image in (*both.images, *other.images))
    assert np.abs(first - second).max() > 2
    for text, seed, image in (("Draw a cat.", 1, first), ("Draw a cat.", 2, second)):
        (alone,) = model.generate([draw(text, seeds=(seed,))])
        assert np.abs(pixels(alone.images[0]) - image).max() <= 2
    assert third.shape == first.shape


def test_emu3_answers_or_draws_as_the_user_says(folders):
    with pytest.raises(ModelError, match=r"outputs=text .* or outputs=images"):
        TransformersModel(folders["emu3"])
    answers = TransformersModel(folders["emu3"], call={**SHORT, "outputs": "text"})
    one, other = texts(answers, ask(), ask(image=2))
    assert one != other
    assert answers.caps.honours_images
    assert "gives no images" in answers.unsupported(draw())
    draws = TransformersModel(folders["emu3"], call={"outputs": "images", "draw.image_area": 24 * 32})
    assert draws.caps.outputs == {"images"}
    wide = replace(draw(), size=(80, 60))
    outputs = draws.generate([wide, draw("A dog."), replace(wide, images=())])
    assert [output.images[0].size for output in outputs] == [(32, 24), (24, 24), (32, 24)]


def test_a_drawing_prompt_that_is_too_long(folders, janus):
    long = request(says("user", "a" * 2100), says("assistant", "b"), says("user", "Draw."), expects="images")
    assert "(2048 less 16 for the image)" in janus.unsupported(long)
    shortening = TransformersModel(folders["janus"], shorten=True)
    (output,) = shortening.generate([long])
    assert (output.status, output.reason) == ("ok", "shortened: the text of the 1 oldest messages was left out")


def test_weights_that_give_nan_give_no_output(folders):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(folders["janus"])
    with torch.no_grad():
        model.model.language_model.norm.weight.fill_(float("nan"))
    broken = TransformersModel((model, AutoProcessor.from_pretrained(folders["janus"])), call=SHORT)
    outputs = broken.generate([ask(), draw(seeds=(1, 2))])
    assert [(o.status, o.reason) for o in outputs] == [("missing_output", "the model gave NaN")] * 2


# Where models come from


def test_a_pair_and_a_pipeline_do_what_the_folder_does(folders):
    from transformers import AutoModelForImageTextToText, AutoProcessor, pipeline

    model = AutoModelForImageTextToText.from_pretrained(folders["llava"])
    processor = AutoProcessor.from_pretrained(folders["llava"])
    pipe = pipeline("image-text-to-text", model=model, processor=processor, max_new_tokens=NEW)
    asked = [ask(), ask(image=None)]
    expected = texts(TransformersModel(folders["llava"], call=SHORT), *asked)
    call = {"suppress_tokens": tiny.UNPRINTABLE}
    assert texts(TransformersModel(pipe, call=call), *asked) == expected
    pair = TransformersModel((model, processor), call=SHORT)
    assert texts(pair, *asked) == expected
    pair.close()
    assert texts(pair, *asked) == expected  # the user's objects stay
    for passed in (pipe, (model, processor)):
        run = rollout([dialogue(draws=1)], passed)
        lines = (run.path / "outputs" / "gt" / "outputs.jsonl").read_text().splitlines()
        assert len(lines) == 2  # two questions; it isn't asked to draw


def test_a_pipeline_of_a_model_that_draws_draws(folders, janus):
    from transformers import pipeline

    pipe = pipeline("image-text-to-text", model=str(folders["janus"]), device="cpu")
    (drawn,), (expected,) = TransformersModel(pipe).generate([draw()]), janus.generate([draw()])
    assert np.abs(pixels(drawn.images[0]) - pixels(expected.images[0])).max() <= 2


def test_a_rollout_of_a_model_that_draws(folders, tmp_path):
    model = TransformersModel(folders["janus"], call=SHORT)
    run = rollout([dialogue(draws=2)], model, history=("gt", "self"), placement="text_only", out=tmp_path / "run")
    for history in ("gt", "self"):
        assert len(list((run.path / "outputs" / history / "images").glob("*.png"))) == 2
    assert texts(model, ask())  # closed after a rollout, and loaded again


def test_identity_is_the_weights_and_what_changes_outputs(folders, tmp_path):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    here = tiny.llava(tmp_path / "a")
    identity = TransformersModel(here).identity
    elsewhere = shutil.copytree(here, tmp_path / "b")
    assert TransformersModel(elsewhere).identity == identity
    assert TransformersModel(here, call={"max_batch": 3, "outputs": "text"}).identity == identity
    others = [TransformersModel(here, call=SAMPLED), TransformersModel(here, shorten=True)]
    others += [TransformersModel(here, load={"dtype": "bfloat16"})]
    assert len({identity, *(other.identity for other in others)}) == 4
    assert TransformersModel(here, tag="epoch 3").identity == "tag:epoch 3"
    tiny.llava(here, seed=1)
    assert TransformersModel(here).identity != identity
    model = AutoModelForImageTextToText.from_pretrained(elsewhere)
    pair = (model, AutoProcessor.from_pretrained(elsewhere))
    before = TransformersModel(pair).identity
    assert TransformersModel(pair).identity == before
    with torch.no_grad():
        model.lm_head.weight.mul_(1.5)
    assert TransformersModel(pair).identity != before


def test_half_precision_and_attention_are_loading_options(folders):
    load = {"dtype": "bfloat16", "attn_implementation": "eager", "device": "cpu"}
    model = TransformersModel(folders["janus"], load=load, call=SHORT)
    answer, drawing = model.generate([ask(), draw(seeds=(1, 2))])
    assert (answer.status, drawing.status) == ("ok", "ok")
    assert model._weights.dtype == torch.bfloat16
    assert model._weights.config._attn_implementation == "eager"


def test_what_cannot_be_used_is_refused(folders, tmp_path):
    from transformers import AutoModelForImageTextToText

    with pytest.raises(ModelError, match="expected a folder or a Hub id"):
        TransformersModel("not a folder")
    with pytest.raises(ModelError, match="no folder 'some-org/none' here, and the Hub gives none"):
        TransformersModel("some-org/none")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="expected a model of transformers"):
        TransformersModel(tmp_path / "empty")
    with pytest.raises(ModelError, match="whose model has generate"):
        TransformersModel((object(), object()))
    with pytest.raises(SpecError, match="use_safetensors: expected true"):
        TransformersModel(folders["llava"], load={"use_safetensors": False})
    with pytest.raises(SpecError, match="LlavaForConditionalGeneration draws no images"):
        TransformersModel(folders["llava"], call={"draw.guidance_scale": 4})
    with pytest.raises(SpecError, match="outputs: expected text of Llava"):
        TransformersModel(folders["llava"], call={"outputs": "text,images"})
    with pytest.raises(SpecError, match=r"draw\.guidance_scale: expected a number above 1, got 1"):
        TransformersModel(folders["janus"], call={"draw.guidance_scale": 1})
    with pytest.raises(SpecError, match="max_new_tokens: 2048 leave no room"):
        TransformersModel(folders["llava"], call={"max_new_tokens": 2048})
    with pytest.raises(SpecError, match="temperature: has an effect only with do_sample=true"):
        TransformersModel(folders["llava"], call={"temperature": 2.0})
    with pytest.raises(SpecError, match="num_return_sequences: expected 1, got 2"):
        TransformersModel(folders["llava"], call={"num_return_sequences": 2})
    pickled = shutil.copytree(folders["llava"], tmp_path / "pickled")
    weights = AutoModelForImageTextToText.from_pretrained(folders["llava"]).state_dict()
    torch.save(weights, pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="expected weights in safetensors, found none"):
        TransformersModel(pickled)


def test_weights_that_cannot_be_loaded_are_tried_once(folders):
    model = TransformersModel(folders["llava"], load={"attn_implementation": "none of these"})
    assert model.unsupported(ask()) == ""  # for which weights aren't read
    for _ in range(2):
        with pytest.raises(ModelError, match="can't be loaded"):
            model.generate([ask()])


def test_code_of_a_repository_does_not_run_unless_asked(folders, tmp_path):
    folder = shutil.copytree(folders["llava"], tmp_path / "own")
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}, "architectures": ["Own"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ModelError, match="trust_remote_code"):
        TransformersModel(folder)
    assert not (tmp_path / "ran").exists()


def test_a_hub_id_is_its_commit(folders):
    from huggingface_hub.constants import HF_HUB_CACHE

    cached = Path(HF_HUB_CACHE) / "models--tests--tiny-llava"
    shutil.copytree(folders["llava"], cached / "snapshots" / ("0a" * 20))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0a" * 20)
    model = TransformersModel("tests/tiny-llava", call=SHORT)
    assert model.identity.startswith(f"hub:tests/tiny-llava@{'0a' * 20}+")
    assert texts(model, ask()) == texts(TransformersModel(folders["llava"], call=SHORT), ask())
