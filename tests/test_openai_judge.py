"""A judge behind an OpenAI-compatible server: whole evals over loopback, every fault its status and never a number."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.server import Answer, Call, Server, chat, error, html
from tests.strategies import colour_png
from tests.support import ScriptedModel, dialogue
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import inspect, sha256
from yanami_dataset.schema import Message, Part
from yanami_metric.api import Judging, estimate, evaluate, judge, report, rollout, score, unscored
from yanami_metric.asking import Rules
from yanami_metric.costs import BudgetSpentError, Prices
from yanami_metric.http_local import is_local, local_resolver, require_local
from yanami_metric.judges import open_judge
from yanami_metric.judges.openai import OpenAIJudge
from yanami_metric.judges.shrinking import CODEC
from yanami_metric.records import ImageRef, JudgeCall, JudgeError, JudgeItem, Output
from yanami_metric.runs import Progress

SECRET = "sk-judge-Qp17Zx81LmvT"  # noqa: S105 - of nobody
QUICK = {"timeout": 5, "attempts": 2, "backoff": 0.01, "max_wait": 1}


def kind(call: Call) -> str:
    rubric = call.json["messages"][0]["content"]
    return "answer" if "reference answer" in rubric else "quality" if "how well" in rubric else "checks"


def ids(call: Call) -> list[str]:
    user = call.json["messages"][1]["content"]
    text = user if isinstance(user, str) else "".join(part.get("text", "") for part in user)
    return [line.split()[2].rstrip(":") for line in text.splitlines() if line.startswith("- id ")]


def verdict(call: Call) -> Answer:
    """What a judge says that passes everything and finds every image an 8."""
    if kind(call) == "checks":
        said = {"checks": [{"id": id, "reason": "r", "verdict": "pass"} for id in ids(call)]}
    else:
        said = {"reason": "r", **({"score": 8} if kind(call) == "quality" else {"verdict": "correct"})}
    return chat(json.dumps(said))


def opened(server: Server, call=None, *, tag=None, **load) -> OpenAIJudge:
    return OpenAIJudge(f"m@{server.url}", load={**QUICK, **load}, call=call, tag=tag)


@pytest.fixture
def run(tmp_path):
    return rollout([dialogue("d1"), dialogue("d2")], ScriptedModel(), out=tmp_path / "run")


def verdicts(run) -> list[dict]:
    return [json.loads(line) for line in (run.path / "verdicts.jsonl").read_text().splitlines()]


def statuses(run) -> Counter:
    return Counter(item["status"] for line in verdicts(run) for item in line["items"])


def judged(run, script, call=None, *, load=None, **how):
    """Judge a run by a scripted server; the server that was."""
    with Server(script) as server:
        asked = opened(server, call, **(load or {}))
        judge(run, asked, asked, **how)
    return server


# What is asked


def test_a_whole_eval_by_a_spec_string(tmp_path):
    with Server(verdict) as server:
        spec = f"openai:m@{server.url}"
        done = evaluate(
            [dialogue("d1"), dialogue("d2")], ScriptedModel(), judges=[spec], answer_judge=spec, out=tmp_path / "run"
        )
        assert unscored(done.scores[0]) == {}
        scenario = done.scores[0]["histories"]["gt"]["scenarios"]["editing"]
        assert (scenario["sc"]["value"], scenario["vq"]["value"]) == (100, 80)
        assert len(server.calls) == 12 and server.asked[0] == "GET /v1/models"
        assert server.asked.count("GET /v1/models") == 1  # the judge of images is the one of answers
        evaluate(
            [dialogue("d1"), dialogue("d2")], ScriptedModel(), judges=[spec], answer_judge=spec, out=tmp_path / "run"
        )
        assert len(server.asked) == 13
    line = next(line for line in verdicts(done.run) if line["kind"] == "checks")
    assert (line["judge"], line["tokens"], line["notes"]) == ("openai:m", [11, 3], [])


def test_the_same_model_at_another_port_is_the_same_judge(run):
    judged(run, verdict)
    again = judged(run, verdict)
    assert again.asked == [] and len(verdicts(run)) == 12  # not even whether it is there
    text = (run.path / "run.json").read_text() + (run.path / "verdicts.jsonl").read_text()
    assert "127.0.0.1" not in text and str(again.port) not in text


def test_the_prompt_and_the_bytes_of_the_images_arrive_as_they_are(run):
    server = judged(run, verdict)
    known = list(dialogue("d1").images)
    call = next(c for c in server.calls if kind(c) == "checks" and ids(c) == ["c1"])
    system, user = call.json["messages"]
    assert system["role"] == "system" and "exactly one entry for each id" in system["content"]
    assert call.images[:2] == known[:2]  # the photo and the target of the first turn, then the candidate
    folder = run.path / "outputs/gt/images"
    drawn = {path.read_bytes() for path in folder.iterdir()}
    assert call.images[2] in drawn and len(call.images) == 3
    texts = "".join(part.get("text", "<image>") for part in user["content"])
    assert "\nUser:\nd1: my cat\nImage 1:\n<image>\nAssistant:\nA cat.\n" in texts and texts.endswith(
        "- id c1: It is a cat.\n"
    )
    assert user["content"][-1]["type"] == "text"
    answer = next(c for c in server.calls if kind(c) == "answer")
    assert isinstance(answer.json["messages"][1]["content"], str) and answer.images == []


def test_parameters_and_schema(run):
    server = judged(run, verdict, {"top_p": 0.5, "temperature": None, "detail": "high"}, rules=Rules(samples=2))
    bodies = [call.json for call in server.calls]
    assert {body["seed"] for body in bodies} == {0, 1}
    assert all((body["top_p"], body["max_tokens"], body["model"]) == (0.5, 4096, "m") for body in bodies)
    assert not any("temperature" in body for body in bodies)
    checks = next(call for call in server.calls if kind(call) == "checks")
    form = checks.json["response_format"]
    assert form["type"] == "json_schema" and form["json_schema"]["strict"] is True
    entry = form["json_schema"]["schema"]["properties"]["checks"]["items"]["properties"]
    assert list(entry) == ["id", "reason", "verdict"] and entry["id"]["enum"] == ids(checks)
    parts = checks.json["messages"][1]["content"]
    assert {part["image_url"]["detail"] for part in parts if part["type"] == "image_url"} == {"high"}


def test_without_a_system_role_the_rubric_leads_the_message(run):
    def script(call):
        assert [message["role"] for message in call.json["messages"]] == ["user"]
        content = call.json["messages"][0]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        return chat('{"reason": "r", "verdict": "correct"}') if text.startswith("You decide whether") else chat("?")

    judged(run, lambda call: script(call) if len(call.json["messages"]) == 1 else chat("?"), {"system": False})
    assert statuses(run) == {"scored": 4, "unparsed": 8}


def test_a_server_without_schemas_is_asked_without_for_the_life_of_the_judge(run):
    def script(call):
        return error(422, message="unknown field") if "response_format" in call.json else verdict(call)

    server = judged(run, script, concurrency=1)
    assert statuses(run) == {"scored": 12}
    assert ["response_format" in call.json for call in server.calls] == [True] + 12 * [False]
    assert {tuple(line["notes"]) for line in verdicts(run)} == {("without a JSON schema, which the server refused",)}


def test_another_bad_request_does_not_turn_schemas_off(run):
    def script(call):
        return error(400, message="no") if kind(call) == "quality" else verdict(call)

    server = judged(run, script, concurrency=1)
    assert statuses(run) == {"scored": 8, "transport_error": 4}
    assert all("response_format" in call.json for call in server.calls if kind(call) != "quality")


@pytest.mark.parametrize(("option", "sent"), [("on", True), ("off", False)])
def test_a_schema_can_be_demanded_or_left_out(run, option, sent):
    server = judged(run, lambda call: error(400), {"schema": option})
    assert {"response_format" in call.json for call in server.calls} == {sent} and len(server.calls) == 12
    assert statuses(run) == {"transport_error": 12}


def test_a_reply_that_cannot_be_used_is_answered_with_its_fault(run):
    def script(call):
        return verdict(call) if len(call.json["messages"]) == 4 else chat("It passes, I'd say.")

    server = judged(run, script)
    assert statuses(run) == {"scored": 12} and len(server.calls) == 24
    last = server.calls[-1].json["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    assert last[2]["content"] == "It passes, I'd say." and "expected one JSON object" in last[3]["content"]
    line = verdicts(run)[0]
    assert line["raw"][0] == "It passes, I'd say." and line["tokens"] == [22, 6]


# Faults


def parts_of(call: Call) -> Answer:
    text = json.loads(verdict(call).body)["choices"][0]["message"]["content"]
    halves = [{"type": "text", "text": half} for half in (text[:9], text[9:])]
    parts = [{"type": "thinking", "thinking": "It fails?"}, *halves]
    return chat(parts, message={"reasoning_content": '{"verdict": "incorrect"}'})


def first(*answers):
    """The answers to the same content, one after the other; then the right one."""
    return lambda call: answers[call.again] if call.again < len(answers) else verdict(call)


@pytest.mark.parametrize(
    ("script", "status", "calls"),
    [
        (parts_of, "scored", 1),
        (lambda call: verdict(call).but(delay=0.2), "scored", 1),
        (lambda call: verdict(call).but(drip=0.0005), "scored", 1),
        (first(error(429, headers={"Retry-After": "0.2"})), "scored", 2),
        (first(error(500)), "scored", 2),
        (first(Answer(body=b'{"choices": [', cut=5)), "scored", 2),
        (lambda call: error(500), "transport_error", 2),
        (lambda call: error(503), "transport_error", 2),
        (lambda call: error(429, headers={"Retry-After": "90"}), "transport_error", 1),
        (lambda call: Answer(cut=0), "transport_error", 2),
        (lambda call: verdict(call).but(cut=30), "transport_error", 2),
        (lambda call: verdict(call).but(drip=0.02), "transport_error", 2),  # some 3 s, more than the time-out
        (lambda call: html(), "transport_error", 1),
        (lambda call: html(502), "transport_error", 2),
        (lambda call: Answer(body=b'data: {"choices": [{"delta"', kind="text/event-stream"), "transport_error", 1),
        (lambda call: Answer(body=b'{"choices": 5}'), "transport_error", 1),
        (lambda call: error(401, message="who?"), "transport_error", 1),
        (lambda call: error(402, "insufficient_quota"), "transport_error", 1),
        (lambda call: error(400, "invalid_image"), "bad_image", 1),
        (lambda call: error(400, "content_filter"), "refused", 1),
        (lambda call: error(403, "moderation_blocked"), "refused", 1),
        (lambda call: chat("", "content_filter"), "refused", 1),
        (lambda call: chat(None, message={"refusal": "I won't look at this."}), "refused", 1),
        (lambda call: chat("I'm sorry, I can't help with that."), "unparsed", 2),
        (lambda call: chat(""), "unparsed", 2),
        (lambda call: chat(None, message={"reasoning_content": '{"reason": "r", "score": 9}'}), "unparsed", 2),
        (lambda call: chat('{"reason": "it is', "length"), "unparsed", 2),
        (lambda call: chat('{"reason": "r", "score": 8.5, "verdict": "pass"}'), None, None),
    ],
)
def test_every_fault_has_its_status_and_none_is_a_number(tmp_path, script, status, calls):
    run = rollout([dialogue(draws=1)], ScriptedModel(), out=tmp_path / "run")
    load = {"timeout": 1.5} if status != "scored" else {}
    server = judged(run, lambda call: script(call) if kind(call) == "quality" else verdict(call), load=load)
    [line] = [line for line in verdicts(run) if line["kind"] == "quality"]
    [item] = line["items"]
    if status is None:  # an extra key does no harm
        assert (item["status"], item["value"]) == ("scored", 8.5)
        return
    assert (item["status"], item["value"]) == (status, 8 if status == "scored" else None)
    assert len([call for call in server.calls if kind(call) == "quality"]) == calls
    scores = score(run, resamples=0)
    value = scores["histories"]["gt"]["scenarios"]["editing"]["vq"]["value"]
    assert value == (80 if status == "scored" else None)
    assert unscored(scores) == ({} if status == "scored" else {status: 1})


def test_a_refusal_is_final_and_asked_again_on_demand(run):
    def refusing(call):
        return error(400, "content_filter") if kind(call) == "checks" else verdict(call)

    assert len(judged(run, refusing).calls) == 12
    assert judged(run, verdict).calls == []
    assert len(judged(run, verdict, retry=("refused",)).calls) == 4
    assert unscored(score(run, resamples=0)) == {}


def photo(seed: int) -> bytes:
    """An image that JPEG makes smaller by far."""
    from io import BytesIO

    from PIL import Image

    buffer = BytesIO()
    Image.effect_noise((1400, 700), 40 + seed).convert("RGB").save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("refusal", [error(413), error(400, "context_length_exceeded"), error(400, "image_too_large")])
def test_what_is_too_large_is_sent_smaller_once_and_said(tmp_path, refusal):
    data = photo(1)
    model = ScriptedModel(lambda r: Output(images=[data]) if r.expects == "images" else None)
    run = rollout([dialogue(draws=1)], model, out=tmp_path / "run")
    drawn = next((run.path / "outputs/gt/images").iterdir()).read_bytes()
    server = judged(run, lambda call: refusal if len(call.body) > len(drawn) else verdict(call))
    assert statuses(run) == {"scored": 4}
    notes = {line["kind"]: line["notes"] for line in verdicts(run) if line["kind"] != "answer"}
    assert notes == {"checks": [f"images as {CODEC}"], "quality": [f"images as {CODEC}"]}
    full, small = [call for call in server.calls if kind(call) == "quality"]
    assert full.images == [drawn]
    facts = inspect(small.images[0])
    assert (facts.width, facts.height, facts.format) == (1024, 512, "JPEG")


def test_what_is_still_too_large_is_no_verdict(run):
    server = judged(run, lambda call: error(413))
    lines = verdicts(run)
    assert {item["status"] for line in lines for item in line["items"]} == {"transport_error"}
    reasons = {line["kind"]: line["items"][0]["reason"] for line in lines}
    assert CODEC in reasons["quality"] and CODEC not in reasons["answer"]
    assert Counter(kind(call) for call in server.calls) == {"answer": 4, "checks": 8, "quality": 8}


def asked(judge_: OpenAIJudge, call: JudgeCall):
    async def one():
        try:
            return await judge_.judge(call)
        finally:
            await judge_.aclose()

    return asyncio.run(one())


def a_call(data: bytes) -> JudgeCall:
    image = ImageRef(sha256(data), 4, 3, lambda: data)
    said = (Message("user", (Part("text", "the image"), Part("image", index=0))),)
    return JudgeCall("quality", (JudgeItem("q"),), image, rubric="rate how well", messages=said, images=(image,))


def test_an_image_that_is_none_is_a_bad_image():
    with Server(lambda call: error(413)) as server:
        with pytest.raises(JudgeError, match="can't be read") as caught:
            asked(opened(server), a_call(b"no image"))
        assert caught.value.status == "bad_image" and server.calls == []
        with pytest.raises(JudgeError, match="can't be read"):  # only making it smaller shows it
            asked(opened(server), a_call(colour_png(1)[:40]))


def test_one_client_serves_a_loop_and_another_loop_gets_its_own():
    with Server(verdict) as server:
        one = opened(server)
        for _ in range(2):
            assert json.loads(asked(one, a_call(colour_png(1))).text)["score"] == 8


# How much at a time


def test_neither_concurrency_nor_order_changes_a_verdict(tmp_path):
    def by_content(call):
        number = int(sha256(call.body)[:8], 16)
        if number % 7 == 0:
            return chat("unusable")
        text = json.loads(verdict(call).body)["choices"][0]["message"]["content"]
        return chat(text.replace('"pass"', '"fail"') if number % 3 == 0 else text.replace("8", str(number % 11)))

    many = [dialogue(f"d{n}", draws=3) for n in range(12)]
    found = []
    for concurrency in (1, 64):
        order = random.Random(concurrency).sample(many, len(many))
        run = rollout(order, ScriptedModel(), out=tmp_path / str(concurrency))
        server = judged(run, lambda call: by_content(call).but(delay=random.random() / 100), concurrency=concurrency)
        assert server.most <= concurrency
        kept = [{k: v for k, v in line.items() if k != "seconds"} for line in verdicts(run)]
        scores = score(run)
        found.append((sorted(kept, key=json.dumps), scores["histories"]))
    assert server.most > 8
    assert found[0] == found[1]


def test_a_busy_server_gets_fewer_calls_at_a_time(tmp_path):
    run = rollout([dialogue(f"d{n}", draws=3) for n in range(16)], ScriptedModel(), out=tmp_path / "run")
    with Server() as server:
        server.script = lambda call: error(429) if server._now > 6 else verdict(call).but(delay=0.02)
        patient = opened(server, attempts=20)
        judge(run, patient, patient, concurrency=32)
        refused = len(server.calls) - 8 * 16
    assert statuses(run) == {"scored": 128}
    assert 0 < refused < 128  # at 32 at a time, most calls would be refused again and again


# Before a run


def rolled(tmp_path, spec, **how):
    model = ScriptedModel()
    with pytest.raises((ModelError, SpecError)) as caught:
        evaluate([dialogue()], model, judges=[spec], judging=Judging(**how), out=tmp_path / "run")
    assert model.requests == [] and not (tmp_path / "run").exists()
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_wrong_key_model_or_address_ends_a_run_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with Server(models=["n", "m-large"]) as server:
        said = rolled(tmp_path, f"openai:m@{server.url}")
        assert "no model 'm' but 2 others" in said and "--judge-set load.check=false" in said
    with Server(lambda call: error(401, message=f"bad key {SECRET}"), models=None) as server:
        assert "doesn't take the key in OPENAI_API_KEY" in rolled(tmp_path, f"openai:m@{server.url}")
    with Server(lambda call: error(404), models=None) as server:
        assert "as a rule ends in /v1" in rolled(tmp_path, f"openai:m@{server.url.removesuffix('/v1')}")
    options = {f"load.{name}": value for name, value in QUICK.items()}
    assert "can't be used: ClientConnector" in rolled(tmp_path, f"openai:m@{server.url}", options=options)
    for spec in ("openai:", "openai:m", "openai:m@host"):
        assert "expected" in rolled(tmp_path, spec)


def test_a_server_that_is_still_loading_is_waited_for():
    with Server(models=None) as server:
        start = time.monotonic()
        server.script = lambda call: error(503, message="loading") if time.monotonic() < start + 1.2 else chat()
        with pytest.raises(ModelError, match="loading"):
            opened(server, attempts=1).check()
        server.script = lambda call: (
            error(503, message="loading") if time.monotonic() < start + 1.2 else Answer(body=b'{"data": [{"id": "m"}]}')
        )
        assert opened(server, attempts=1).check(wait=30) == ""
        assert 1 < time.monotonic() - start < 10
        server.script = lambda call: error(401)
        with pytest.raises(ModelError, match="wants a key"):  # waiting doesn't help
            opened(server).check(wait=30)
        assert opened(server, check=False).check() == ""


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.1", True),
        ("[::1]", True),
        ("localhost", True),
        ("10.2.3.4", True),
        ("172.31.0.1", True),
        ("192.168.0.9", True),
        ("[fd00::7]", True),
        ("[::ffff:10.0.0.1]", True),
        ("8.8.8.8", False),
        ("0.0.0.0", False),  # noqa: S104 - to be refused
        ("172.32.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("[::ffff:8.8.8.8]", False),
        ("[64:ff9b::a00:1]", False),
        ("[2001:4860:4860::8888]", False),
        ("134744072", False),  # 8.8.8.8 as one number
        ("no-such-host.invalid", False),
    ],
)
def test_only_loopback_and_private_addresses_are_local(host, local):
    if local:
        require_local(f"http://{host}:8000/v1")
    else:
        with pytest.raises(SpecError, match="--local-only: expected a loopback or private address"):
            require_local(f"http://{host}:8000/v1")


def test_a_name_that_means_another_address_later_is_refused_when_connecting():
    async def resolved(host):
        return await local_resolver().resolve(host, 80)

    assert asyncio.run(resolved("localhost"))
    with pytest.raises(OSError, match=r"8\.8\.8\.8, neither loopback nor private"):
        asyncio.run(resolved("8.8.8.8"))
    with Server(verdict) as server:
        judge_ = OpenAIJudge(f"m@http://localhost:{server.port}/v1")
        judge_.keep_local()
        assert judge_.check() == "" and json.loads(asked(judge_, a_call(colour_png(1))).text)["score"] == 8


def test_local_only_refuses_before_anything_and_lets_loopback_through(tmp_path):
    said = rolled(tmp_path, "openai:m@http://8.8.8.8/v1", local_only=True)
    assert "--local-only" in said and not is_local("8.8.8.8")
    with Server(verdict) as server:
        spec = f"openai:m@http://localhost:{server.port}/v1"
        how = Judging(local_only=True)
        done = evaluate([dialogue()], ScriptedModel(), judges=[spec], judging=how, out=tmp_path / "run")
    assert statuses(done.run)["scored"] == 6


def test_options_of_judges():
    with pytest.raises(SpecError, match="takes no options, got x"):
        open_judge("pixel", {"x": 1})
    with pytest.raises(SpecError, match="no judge that takes any"):
        Judging(options={"x": 1}).open("pixel", "exact")
    with pytest.raises(SpecError, match="keys come from the environment"):
        open_judge("openai:m@http://h/v1", {"api_key": SECRET})
    for call, said in (({"schema": "maybe"}, "schema: expected"), ({"seed": 3}, "seed: "), ({"n": 2}, "n: set by")):
        with pytest.raises(SpecError, match=said):
            OpenAIJudge("m@http://h/v1", call=call)
    made = open_judge("openai:m@http://h/v1", {"load.timeout": 3, "temperature": 1, "tag": "int8"})
    assert made.name == "openai:m int8" and made.connection.policy.timeout == 3
    assert made.fingerprint["body"] == {"temperature": 1, "max_tokens": 4096} and made.fingerprint["tag"] == "int8"
    assert OpenAIJudge("m@http://h/v1", call={"max_completion_tokens": 9}).options.sent == {
        "temperature": 0,
        "max_completion_tokens": 9,
    }
    both = Judging(options={"temperature": 1}).open("openai:m@http://h/v1", "exact")
    assert both.images.fingerprint["body"]["temperature"] == 1
    for how in ({"retry": ("lost",)}, {"concurrency": 0}, {"max_cost": 1.0}):
        with pytest.raises(SpecError, match="expected"):
            Judging(**how)


# What it costs


def test_an_estimate_and_a_budget(run, tmp_path):
    prices = Prices(1_000_000, 2_000_000)  # 17 a call
    with Server(verdict) as server:
        spec, how = f"openai:m@{server.url}", Judging(prices=prices, concurrency=1, max_cost=60)
        before = estimate(run, spec, spec, judging=how)
        assert before.calls == {"answer": 4, "checks": 4, "quality": 4} and before.tokens is None
        assert before.images == 4 * 1 + 2 * 2 + 2 * 3 and server.asked == []
        assert "tokens are not known" in before.text(prices)
        with pytest.raises(BudgetSpentError, match=r"has cost 68\.00 of the 60\.00"):
            judge(run, spec, spec, judging=how)
        assert len(server.calls) == 4 and len(verdicts(run)) == 4
        with pytest.raises(BudgetSpentError):  # nothing is left for whatever is judged next
            judge(run, spec, spec, judging=how)
        assert len(server.calls) == 4
        told = []

        class Told(Progress):
            def spent(self, what, tokens, cost):
                told.append((tokens, cost))

        judge(run, spec, spec, judging=Judging(prices=prices), progress=Told())
        assert told[-1] == ((88, 24), 136) and len(server.calls) == 12
        assert estimate(run, spec, spec).calls == {}
        twice = estimate(run, spec, spec, judging=Judging(rules=Rules(samples=2)))
        assert twice.tokens == (12 * 11, 12 * 3) and "cost about 204.00" in twice.text(prices)


def test_a_limit_that_cannot_be_kept_stops(run):
    def silent(call):
        return Answer(body=verdict(call).body.replace(b'"usage"', b'"unused"'))

    with pytest.raises(BudgetSpentError, match="doesn't say how many tokens"):
        judged(run, silent, prices=Prices(1, 1), max_cost=1.0, concurrency=1)
    assert len(verdicts(run)) == 1


# The key, and what is kept


def test_the_key_is_nowhere(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)

    def script(call):
        assert call.headers["authorization"] == f"Bearer {SECRET}"
        said = [error(401, message=f"wrong: {SECRET}"), error(400, message=SECRET), chat(SECRET), verdict(call)]
        return said[call.number % 4]

    with Server(script) as server:
        spec = f"openai:m@{server.url}"
        judging = Judging(rules=Rules(samples=3), cache=tmp_path / "cache")
        done = evaluate(
            [dialogue("d1"), dialogue("d2")],
            ScriptedModel(),
            judges=[spec],
            answer_judge=spec,
            judging=judging,
            out=tmp_path / "run",
        )
    report(done.run)
    assert set(statuses(done.run)) >= {"scored", "transport_error"}
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in caplog.text and SECRET not in repr(open_judge(spec).connection)


def test_a_cache_is_shared_and_failures_are_not_in_it(tmp_path):
    def flaky(call):
        return error(500) if kind(call) == "checks" else verdict(call)

    one, two = (rollout([dialogue()], ScriptedModel(), out=tmp_path / name) for name in ("one", "two"))
    judged(one, flaky, cache=tmp_path / "cache")
    server = judged(two, verdict, cache=tmp_path / "cache")
    assert [kind(call) for call in server.calls] == ["checks", "checks"]


def test_half_a_character_ends_no_run(run):
    def script(call):
        said = {"quality": chat('{"reason": "\\ud800 x", "score": 3}'), "checks": chat("\ud800")}
        return said.get(kind(call), error(400, message="\udfff"))

    judged(run, script)
    assert statuses(run) == {"scored": 4, "unparsed": 4, "transport_error": 4}
    score(run, resamples=0)
    assert report(run).is_file()


# Killed


COMMAND = [sys.executable, "-m", "yanami_metric.cli"]


def test_killed_in_the_middle_nothing_is_asked_twice_that_had_an_answer_on_disk(tmp_path):
    rolled_out = ["rollout", "--model", "baseline:copy-last", "--limit", "8", "--out", tmp_path / "run", "-q"]
    subprocess.run([*COMMAND, *rolled_out], check=True)
    asked_: list[str] = []

    def script(call):
        asked_.append(sha256(call.body))
        return verdict(call).but(delay=0.02)

    with Server(script) as server:
        spec = f"openai:m@{server.url}"
        command = [*COMMAND, "judge", tmp_path / "run", "--judge", spec, "--concurrency", "4", "-q"]
        path = tmp_path / "run/verdicts.jsonl"
        for lines in (5, 25):
            process = subprocess.Popen(command, env=os.environ)
            while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < lines):
                time.sleep(0.005)
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            at_kill = len(asked_)
        subprocess.run(command, check=True)
        twice = len(asked_) - len(set(asked_))
        assert 0 < at_kill < len(asked_) and twice <= 2 * 4  # the calls in flight at each kill, no more
        before = len(asked_)
        subprocess.run(command, check=True)
        assert len(asked_) == before
    found = [json.loads(line) for line in path.read_text().splitlines()]
    fresh = [line["fingerprint"] for line in found if line["judge"] == "openai:m" and not line["reused"]]
    assert len(fresh) == len(set(fresh))


def test_a_reply_cut_off_says_so(run):
    judged(run, lambda call: chat('{"reason": "it is', "length") if kind(call) == "answer" else verdict(call))
    notes = [line["notes"] for line in verdicts(run) if line["kind"] == "answer"]
    assert notes == [["cut off at the token limit"] * 2] * 4


def test_the_command_says_what_it_would_ask_and_stops(tmp_path):
    def yanami(*arguments, code=0):
        done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    yanami("rollout", "--model", "baseline:blank", "--limit", 4, "--out", "run", "-q")
    with Server(verdict) as server:
        spec = f"openai:m@{server.url}"
        priced = ("--price-input", 1000, "--price-output", 2000)
        said = yanami("judge", "run", "--judge", spec, "--answer-judge", spec, "--dry-run").stdout
        assert "of kind checks" in said and "tokens are not known" in said and server.asked == []
        done = yanami("judge", "run", "--judge", spec, *priced, "--max-cost", 0.05, "--concurrency", 1, code=2)
        assert "--max-cost allows; what was judged is kept" in done.stderr and "Traceback" not in done.stderr
        tagged = ("--judge", spec, "--judge-tag", "int8", "--judge-set", "top_k=1", "--samples")
        yanami("judge", "run", *tagged, 2, "--local-only")
        assert server.calls[-1].json["top_k"] == 1
        said = yanami("judge", "run", *tagged, 3, *priced, "--dry-run").stdout
        assert "about" in said and "cost about" in said
        done = yanami("judge", "run", "--judge", "openai:m@http://8.8.8.8/v1", "--local-only", code=2)
        assert "--local-only: expected a loopback or private address" in done.stderr
        done = yanami("judge", "run", "--judge", spec, "--judge-wait", "soon", code=2)
        assert "expected a duration" in done.stderr
    far = ("--model", "openai:m@http://8.8.8.8/v1", "--local-only", "--limit", 4)
    assert "--local-only: expected" in yanami("eval", *far, code=2).stderr
    quickly = ("--limit", 4, "--judge-set", "load.attempts=1")
    done = yanami("eval", "--model", "baseline:blank", "--judge", spec, *quickly, code=2)
    assert "can't be used" in done.stderr and not (tmp_path / "runs").exists()
