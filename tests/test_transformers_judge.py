"""The local judge, on a tiny model: its babble is no verdict, and a model that replies well is understood."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field, replace

import pytest

from tests import tiny_transformers as tiny
from tests.strategies import colour_png
from tests.support import ScriptedModel, dialogue
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import sha256
from yanami_dataset.schema import Slot
from yanami_metric.api import judge, rollout, score, unscored
from yanami_metric.asking import Rules, Surroundings, image_calls, rendered
from yanami_metric.judges import check_judge
from yanami_metric.judges.transformers import TransformersJudge
from yanami_metric.judging import ask
from yanami_metric.records import ImageRef, JudgeError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHORT = {"max_new_tokens": 24, "suppress_tokens": tiny.UNPRINTABLE}
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + tiny.TEMPLATE


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.llava(tmp_path_factory.mktemp("judge") / "llava", positions=8192)


@pytest.fixture(scope="module")
def local(folder):
    return TransformersJudge(folder, call=SHORT)


@dataclass
class Replying:
    """Stands in front of a tiny model: `generate` gives the texts of a list, and notes the prompts."""

    model: object
    processor: object
    replies: list[object]
    prompts: list[str] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def __getattr__(self, name):
        return getattr(self.model, name)

    def generate(self, input_ids, **options):
        self.threads.add(threading.current_thread().name)
        tokens = self.processor.tokenizer
        self.prompts.append(tokens.decode(input_ids[0], clean_up_tokenization_spaces=False))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        added = tokens(f"{reply}</s>", return_tensors="pt", add_special_tokens=False)["input_ids"]
        return torch.cat([input_ids, added], dim=1)


@pytest.fixture
def replying(folder):
    def make(*replies: object, template: str | None = None) -> tuple[Replying, TransformersJudge]:
        model = transformers.LlavaForConditionalGeneration.from_pretrained(folder)
        processor = transformers.AutoProcessor.from_pretrained(folder)
        processor.chat_template = template or processor.chat_template
        stand_in = Replying(model, processor, list(replies))
        return stand_in, TransformersJudge((stand_in, processor), call={"max_new_tokens": 400})

    return make


def checks_call(by, data: bytes | None = None):
    made = dialogue()
    data = data or colour_png(9)
    candidate = ImageRef(sha256(data), 4, 3, lambda: data)
    plain = next(image_calls(made, Slot(1, 0, 1), candidate))
    return rendered(plain, by, Rules(), Surroundings(made, Slot(1, 0, 1), {}))


def asked(by, call):
    return asyncio.run(ask(by, call))


def test_it_is_a_judge_with_an_identity_of_its_own(local, folder):
    assert check_judge(local, "x") is local
    assert local.name == f"transformers:{folder}"
    assert json.loads(json.dumps(local.fingerprint)) == local.fingerprint
    assert str(folder) not in json.dumps(local.fingerprint)
    others = [TransformersJudge(folder), TransformersJudge(folder, call=SHORT, tag="mine")]
    assert len({json.dumps(one.fingerprint) for one in [local, *others]}) == 3
    assert TransformersJudge(folder, call=SHORT).fingerprint == local.fingerprint


def test_babble_is_unparsed_after_one_repeat_request_and_never_a_number(local, tmp_path):
    run = rollout([dialogue(draws=1)], ScriptedModel(), out=tmp_path / "run")
    judge(run, local, local)
    lines = [json.loads(line) for line in (run.path / "verdicts.jsonl").read_text().splitlines()]
    assert sorted(line["kind"] for line in lines) == ["answer", "answer", "checks", "quality"]
    for line in lines:
        assert {(item["status"], item["value"]) for item in line["items"]} == {("unparsed", None)}
        assert len(line["raw"]) == 2 and all(line["raw"])
        assert line["tokens"][0] > 500 and 2 <= line["tokens"][1] <= 48
    assert unscored(score(run, resamples=0)) == {"unparsed": 4}


def test_a_good_reply_is_understood_and_its_tokens_are_counted(replying):
    reply = json.dumps({"checks": [{"id": "c0", "reason": "whiskers", "verdict": "pass"}]})
    stand_in, by = replying(reply)
    call = checks_call(by)
    [given], [item] = asked(by, call)
    assert (given.text, item.status, item.value, item.reason) == (reply, "scored", 1.0, "whiskers")
    assert given.output_tokens == len(reply) + 1  # bytes, and the end
    prompt = stand_in.prompts[0]
    assert prompt.startswith(f"system: {call.rubric}user: ")
    assert prompt.index("The dialogue up to the request:") < prompt.index("- id c0: It is a cat.")
    assert prompt.count("<image>") == 4 * len(call.images) == 8  # the photo and the candidate
    assert prompt.endswith("assistant:")
    assert by.name == "transformers:Replying"
    assert all(name.startswith("yanami-judge") for name in stand_in.threads)


def test_the_repeat_request_shows_the_reply_and_its_fault(replying):
    stand_in, by = replying("It passes.", json.dumps({"checks": [{"id": "c0", "reason": "r", "verdict": "fail"}]}))
    replies, [item] = asked(by, checks_call(by))
    assert (len(replies), item.status, item.value) == (2, "scored", 0.0)
    assert "assistant: It passes.user: Your reply can't be used: expected one JSON object" in stand_in.prompts[1]
    assert stand_in.prompts[1].startswith(stand_in.prompts[0].removesuffix("assistant:"))


def test_a_template_without_a_place_for_a_system_message_gets_the_rubric_first(replying):
    stand_in, by = replying("x", "x", template=NO_SYSTEM)
    call = checks_call(by)
    asked(by, call)
    assert stand_in.prompts[0].startswith(f"user: {call.rubric}\n\nThe dialogue")
    dropping = tiny.TEMPLATE.replace(
        "{% for message in messages %}", "{% for message in messages if message.role != 'system' %}"
    )
    stand_in, by = replying("x", "x", template=dropping)
    asked(by, call)
    assert stand_in.prompts[0].startswith(f"user: {call.rubric}\n\nThe dialogue")


def test_thinking_stays_in_the_raw_reply_and_decides_nothing(replying):
    verdict = json.dumps({"checks": [{"id": "c0", "reason": "r", "verdict": "fail"}]})
    thought = json.dumps({"checks": [{"id": "c0", "reason": "r", "verdict": "pass"}]})
    _, by = replying(f"<think>{thought}</think>{verdict}", f"<think>{thought}", f"<think>{thought}")
    [given], [item] = asked(by, checks_call(by))
    assert item.value == 0.0 and thought in given.text
    _, [item] = asked(by, checks_call(by))  # cut off while it was thinking, twice
    assert (item.status, item.value) == ("unparsed", None)


@pytest.mark.parametrize(
    "fault",
    [
        MemoryError("full"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
)
def test_out_of_memory_is_asked_again_another_time(replying, fault):
    _, by = replying(fault)
    with pytest.raises(JudgeError, match="out of memory") as error:
        asyncio.run(by.judge(checks_call(by)))
    assert error.value.status == "transport_error"


def test_another_fault_of_the_model_is_no_verdict(replying):
    _, by = replying(RuntimeError("shapes"))
    assert asked(by, checks_call(by))[1][0].status == "transport_error"


def test_what_the_model_cant_take_is_not_judgeable_and_what_cant_be_decoded_a_bad_image(folder, local):
    call = checks_call(local)
    long = replace(call, rubric="Look. " * 2000)
    assert asked(local, long)[1][0].status == "not_judgeable"
    assert "tokens" in asked(local, long)[1][0].reason
    broken = checks_call(local, colour_png(9)[:40])
    assert asked(local, broken)[1][0].status == "bad_image"


def test_calls_at_once_give_what_they_give_alone_and_the_loop_goes_on(local):
    calls = [checks_call(local, colour_png(n)) for n in range(4)]
    alone = [asyncio.run(local.judge(call)).text for call in calls]

    async def at_once():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        clock = asyncio.create_task(tick())
        replies = await asyncio.gather(*(local.judge(call) for call in calls))
        clock.cancel()
        return [reply.text for reply in replies], ticks

    together, ticks = asyncio.run(at_once())
    assert together == alone
    assert ticks > 5


def test_what_makes_no_sense_is_refused_before_anything_is_asked(tmp_path, folder):
    with pytest.raises(SpecError, match=r"draw\.top_k"):
        TransformersJudge(folder, call={"draw.top_k": 3})
    with pytest.raises(SpecError, match="max_batch"):
        TransformersJudge(folder, call={"max_batch": 3})
    with pytest.raises(ModelError, match="expected a folder or a Hub id"):
        TransformersJudge(tmp_path / "nothing")
    bare = tiny.llava(tmp_path / "bare", template=None)
    with pytest.raises(SpecError, match=r"chat\.chat_template"):
        TransformersJudge(bare)
    assert TransformersJudge(bare, call={"chat.chat_template": tiny.TEMPLATE}).reads_prompt


def test_it_answers_again_after_its_weights_were_let_go(local):
    call = checks_call(local)
    before = asyncio.run(local.judge(call))
    local.close()
    assert asyncio.run(local.judge(call)) == before
