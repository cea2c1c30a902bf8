"""Models behind an OpenAI-compatible server: whole rollouts against a real server on the loopback interface."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server import Answer, Server, b64, chat, error, html, images, reply
from tests.strategies import colour_png
from tests.support import dialogue
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import sha256
from yanami_dataset.schema import Message, Part
from yanami_metric.api import rollout
from yanami_metric.http_faults import HttpFault
from yanami_metric.models.openai import OpenAIModel
from yanami_metric.models.openai_replies import api_images_output, chat_images_output, text_output
from yanami_metric.records import ImageRef, Output, Request
from yanami_metric.run_folder import RunFolder

SECRET = "sk-proj-Zx81QpLm77vT"  # noqa: S105 - of nobody
QUICK = {"timeout": 5, "attempts": 2, "backoff": 0.01, "max_wait": 1}
ANSWER, DRAWING = ("d1", 0, "q-first"), ("d1", 1, None)


def model(server: Server, call=None, *, tag=None, **load) -> OpenAIModel:
    return OpenAIModel(f"m@{server.url}", load={**QUICK, **load}, call=call, tag=tag)


def records(run, history="gt"):
    with RunFolder(run.path) as folder:
        return {(d.id, *item): record for d in run.data for item, record in folder.current(history, d.id).items()}


def roll(server, tmp_path, call=None, dialogues=None, **more):
    return rollout(dialogues or [dialogue()], model(server, call), out=tmp_path / "run", **more)


def drawn(call) -> Answer:
    """An image of its own for every call."""
    return images(colour_png(500 + call.number))


def both(call) -> Answer:
    return chat("a cat") if call.path.endswith("completions") else drawn(call)


def request(*messages: Message, expects="text", count=1, size=None, images=(), seeds=(5, 6, 7)) -> Request:
    return Request("k", "d", 0, messages, images, expects, count, seeds[:count], size)


def ref(number: int, label: int) -> ImageRef:
    data = colour_png(number)
    return ImageRef(sha256(data), 4, 3, lambda: data, (label,))


def says(role: str, *parts: str | int) -> Message:
    return Message(role, tuple(Part("text", p) if isinstance(p, str) else Part("image", index=p) for p in parts))


# What is asked


def test_a_question_is_a_chat_with_the_images_where_they_are(tmp_path):
    with Server() as server:
        run = roll(server, tmp_path, {"temperature": 0, "max_tokens": 99})
        assert {record.text for record in records(run).values()} == {"a cat"}
        last = max(server.calls, key=lambda call: len(call.body))
    first = last.json["messages"][0]["content"]
    assert [part["type"] for part in first] == ["text", "text", "image_url"]
    assert [message["role"] for message in last.json["messages"][:3]] == ["user", "assistant", "user"]
    assert last.json["messages"][-1] == {"role": "user", "content": "How many?"}
    assert last.images == list(dialogue().images)
    assert (last.json["model"], last.json["temperature"], last.json["max_tokens"]) == ("m", 0, 99)
    assert "seed" not in last.json and "modalities" not in last.json


def test_several_images_reach_the_edit_call_byte_for_byte(tmp_path):
    with Server(both) as server:
        run = roll(server, tmp_path, {"draw": "images", "drawing.quality": "high", "drawing": {"user": "x"}})
        edits = [call for call in server.calls if call.path == "/v1/images/edits"]
    assert {record.status for record in records(run).values()} == {"ok"}
    assert [(name, kind) for name, kind, _ in edits[0].files] == [("image[]", "image/png")] * 2  # the longest is first
    assert edits[0].images == list(dialogue().images[:2]) and edits[1].images == list(dialogue().images[:1])
    assert [name for name, *_ in edits[1].files] == ["image"]
    form = {name: values[0] for name, values in edits[0].form.items()}
    prompt = form.pop("prompt")
    assert form == {"model": "m", "n": "1", "size": "1536x1024", "quality": "high", "user": "x"}
    assert prompt.startswith("Draw 1.\n") and "User: d1: my cat [Image 1]" in prompt


def test_nothing_in_view_is_generated_rather_than_edited(tmp_path):
    with Server(both) as server:
        roll(server, tmp_path, {"draw": "images", "sizes": "exact", "drawing.n_steps": 4}, history="none")
        body = next(call.json for call in server.calls if call.path == "/v1/images/generations")
    assert body == {"model": "m", "prompt": "Draw 0.", "n": 1, "size": "4x3", "n_steps": 4}


def test_seeds_are_sent_if_the_server_is_said_to_honour_them():
    asked = request(says("user", "two cats"), expects="images", count=2, seeds=(5, 6))
    with Server(both) as server:
        plain, seeded = model(server, {"draw": "images"}), model(server, {"draw": "images", "seed": True})
        assert (plain.caps.seeded, seeded.caps.seeded) == (False, True)
        plain.generate([asked])
        assert server.calls[0].json["n"] == 2 and "seed" not in server.calls[0].json
        [output] = seeded.generate([asked])
        assert len(output.images) == 2 and len(set(output.images)) == 2
        assert [(call.json["n"], call.json["seed"]) for call in server.calls[1:]] == [(1, 5), (1, 6)]
        seeded.generate([request(says("user", "?"), seeds=(9,))])
        assert server.calls[-1].json["seed"] == 9


def test_images_of_the_assistant_may_stand_in_the_next_message_of_the_user():
    dialogue = (says("user", "Draw."), says("assistant", "Image 1:", 0, "Done."), says("user", "Image 2:", 1, "Which?"))
    asked = request(*dialogue, images=(ref(1, 1), ref(2, 2)))
    with Server() as server:
        model(server).generate([asked])
        model(server, {"assistant_images": "user"}).generate([asked])
        kept, moved = ([message["content"] for message in call.json["messages"]] for call in server.calls)
    assert [part["type"] for part in kept[1]] == ["text", "image_url", "text"]
    assert moved[1] == "Image 1:\nDone."
    assert [part.get("text") for part in moved[2]] == ["Image 1:", None, "Image 2:", None, "Which?"]
    assert server.calls[1].images == [colour_png(1), colour_png(2)]


def test_an_image_of_the_dialogue_is_read_once():
    reads = []
    data = colour_png(1)
    image = ImageRef(sha256(data), 4, 3, lambda: reads.append(1) or data, (1,))
    with Server() as server:
        asked = model(server)
        for _ in range(2):
            asked.generate([request(says("user", 0, "What?"), images=(image,))] * 8)
        assert len(server.calls) == 16 and len(reads) == 1


def test_calls_run_side_by_side_up_to_the_concurrency():
    asked = [request(says("user", str(i))) for i in range(12)]
    with Server(lambda call: chat(call.json["messages"][0]["content"]).but(delay=0.1)) as server:
        found = model(server, concurrency=6)
        assert found.caps.max_batch == 6
        start = time.monotonic()
        assert [output.text for output in found.generate(asked)] == [str(i) for i in range(12)]
        assert time.monotonic() - start < 1 and server.most == 6


# What becomes of replies


TEXT = [
    (chat("<think>so</think> red"), "ok", "red", "so", ""),
    (chat("red", message={"reasoning_content": "hm"}), "ok", "red", "hm", ""),
    (chat("red", message={"reasoning": "hm"}), "ok", "red", "hm", ""),
    (chat([{"type": "thinking", "thinking": [{"text": "hm"}]}, {"text": "red"}]), "ok", "red", "hm", ""),
    (chat("<think>so", "length"), "missing_output", None, "so", "cut off at the token limit before an answer"),
    (chat("<think>so"), "missing_output", None, "so", "only thinking, no answer"),
    (chat("re", "length"), "ok", "re", None, "the answer was cut off"),
    (chat("red", model="m-2026", system_fingerprint="fp"), "ok", "red", None, "served by m-2026, fp"),
    (chat("red", model="m"), "ok", "red", None, ""),
    (chat(None), "model_refused", None, None, "empty reply"),
    (chat(" \n"), "model_refused", None, None, "empty reply"),
    (reply({"choices": []}), "model_refused", None, None, "empty reply"),
    (chat(None, message={"refusal": "I can't."}), "model_refused", None, None, "refused: I can't."),
    (chat("", "content_filter"), "model_refused", None, None, "held back by the server's filter (content_filter)"),
    (error(400, "content_filter", "flagged"), "model_refused", None, None, "HTTP 400: flagged"),
    (error(400, message="no such field"), "generation_error", None, None, "HTTP 400: no such field"),
    (error(413), "unsupported", None, None, "HTTP 413"),
    (error(400, "context_length_exceeded", "too long"), "unsupported", None, None, "HTTP 400: too long"),
    (error(429), "generation_error", None, None, "HTTP 429: it failed (attempt 2 of 2)"),
    (error(429, "insufficient_quota"), "generation_error", None, None, "HTTP 429: it failed"),
    (error(500), "generation_error", None, None, "HTTP 500"),
    (error(401), "generation_error", None, None, "HTTP 401"),
    (html(), "generation_error", None, None, "expected JSON, got Welcome"),
    (reply({"hello": 1}), "generation_error", None, None, "as `choices`, got the keys hello"),
    (reply({"choices": [{"error": {"code": 502, "message": "down"}}]}), "generation_error", None, None, "502: down"),
    (chat("x" * 5000), "generation_error", None, None, "at most 4000 bytes"),
    (chat("red").but(delay=3), "generation_error", None, None, "no whole answer within 0.3 s"),
    (chat("red").but(drip=0.05), "generation_error", None, None, "no whole answer within 0.3 s"),
    (chat("red").but(cut=0), "generation_error", None, None, "isconnected"),
    (chat("red").but(cut=20), "generation_error", None, None, "not complete"),
]  # fmt: skip


def test_each_reply_to_a_question_is_its_status_and_the_run_goes_on(tmp_path):
    """All faults in one run; the next one repeats only what was infrastructure's."""
    dialogues = [dialogue(f"d{i}") for i in range(len(TEXT))]
    script = {f"d{i}: my cat": case[0] for i, case in enumerate(TEXT)}

    def play(call):
        name = next(name for name in script if json.dumps(name)[1:-1] in call.text)
        return script[name] if "What is it?" in call.text else chat("later")

    load = {"timeout": 0.3, "max_bytes": 4000, "concurrency": 16}
    with Server(play) as server:
        run = rollout(dialogues, model(server, **load), out=tmp_path / "run")
        found = records(run)
        for i, (_, status, text, thinking, reason) in enumerate(TEXT):
            record = found[f"d{i}", 0, "q-first"]
            assert (record.status, record.text, record.thinking) == (status, text, thinking), TEXT[i]
            assert reason in record.reason and (reason or not record.reason)
            assert found[f"d{i}", 4, "q-last"].status == "ok"
        server.calls.clear()
        server.script = lambda call: chat("now")
        again = records(rollout(dialogues, model(server, **load), out=tmp_path / "run"))
        failed = [f"d{i}" for i, case in enumerate(TEXT) if case[1] == "generation_error"]
        assert len(server.calls) == len(failed) and all(again[d, 0, "q-first"].text == "now" for d in failed)


def in_chat(**message) -> Answer:
    return chat(message.pop("content", None), message=message)


GOOD = colour_png(9)
URI = f"data:image/png;base64,{b64(GOOD)}"
PART = {"type": "image_url", "image_url": {"url": URI}}
DRAWN = [
    ("images", images(GOOD), "ok", ""),
    ("images", reply({"data": [{"url": URI}]}), "ok", ""),
    ("images", images("https://cdn.example/1.png"), "missing_output", "not fetched: ask for its bytes"),
    ("images", images(GOOD[:-20]), "missing_output", "image 0: expected a whole PNG image"),
    ("images", images(b"<svg/>"), "missing_output", "image 0: expected an image"),
    ("images", reply({"data": [{"b64_json": "%%%"}]}), "missing_output", "expected an image as base64"),
    ("images", reply({"data": [{"b64_json": None}]}), "missing_output", "expected an image as base64"),
    ("images", reply({"data": []}), "model_refused", "empty reply"),
    ("images", reply({"created": 1}), "generation_error", "expected a list of images as `data`, got the keys created"),
    ("images", error(400, "moderation_blocked", "safety"), "model_refused", "HTTP 400: safety"),
    ("images", error(413), "unsupported", "HTTP 413"),
    ("images", error(400, "invalid_image_format"), "unsupported", "HTTP 400"),
    ("images", error(503), "generation_error", "HTTP 503"),
    ("images", images(GOOD).but(cut=30), "generation_error", "not complete"),
    ("chat", in_chat(images=[PART], content="Here."), "ok", ""),
    ("chat", in_chat(images=[PART], content=[PART]), "ok", ""),
    ("chat", in_chat(content=[{"type": "text", "text": "Here."}, PART]), "ok", ""),
    ("chat", in_chat(content=[{"type": "image", "image": {"data": b64(GOOD)}}]), "ok", ""),
    ("chat", in_chat(content=f"Here: ![]({URI})"), "ok", ""),
    ("chat", in_chat(images=[{"image_url": {"url": "http://cdn.example/1.png"}}]), "missing_output", "not fetched"),
    ("chat", in_chat(content="I can only talk."), "missing_output", "a reply without an image: I can only talk."),
    ("chat", in_chat(content=""), "model_refused", "empty reply"),
    ("chat", in_chat(content="No.", refusal="I won't."), "model_refused", "refused: I won't."),
    ("chat", chat(None, "content_filter"), "model_refused", "filter"),
]  # fmt: skip


@pytest.mark.parametrize("draw", ["images", "chat"])
def test_each_reply_to_a_drawing_call_is_its_status(tmp_path, draw):
    cases = [case[1:] for case in DRAWN if case[0] == draw]
    dialogues = [dialogue(f"d{i}-", draws=1) for i in range(len(cases))]
    script = {f"d{i}-: my cat": case[0] for i, case in enumerate(cases)}
    call = {"draw": draw, "answer": False}
    with Server(lambda call: next(answer for name, answer in script.items() if name in call.text)) as server:
        found = records(roll(server, tmp_path, call, dialogues))
        assert ("modalities" in server.calls[0].text) == (draw == "chat")
    assert len(found) == len(cases)
    for i, (_, status, reason) in enumerate(cases):
        record = found[f"d{i}-", 1, None]
        assert record.status == status and reason in record.reason, cases[i]
        assert [image.sha256 for image in record.images if image] == [sha256(GOOD)] * (status == "ok")
        assert "base64," not in (record.text or "") and not record.extras


def test_an_address_is_never_fetched():
    with Server() as other, Server(lambda call: images(f"{other.url}/a.png", f"{server.url}/a.png")) as server:
        [output] = model(server, {"draw": "images"}).generate([request(says("user", "x"), expects="images", count=2)])
        assert list(output.images) == [None, None]
        assert other.asked == [] and len(server.asked) == 1


@pytest.mark.parametrize(
    ("second", "status", "number"),
    [(error(400, "moderation_blocked"), "ok", 1), (images(), "ok", 1), (error(500), "generation_error", 0)],
)
def test_one_slot_of_two_may_fail_alone(second, status, number):
    with Server(lambda call: second if call.json["seed"] == 6 else images(GOOD)) as server:
        asked = request(says("user", "two"), expects="images", count=2, seeds=(5, 6))
        [output] = model(server, {"draw": "images", "seed": True}).generate([asked])
    assert output.status == status and list(output.images) == [GOOD, None][: 2 * number] and output.reason


_NAMES = (
    *("choices", "message", "content", "images", "image_url", "url", "data", "b64_json", "text", "type", "error"),
    *("refusal", "finish_reason", "reasoning", "thinking", "code"),
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([URI, "stop", "content_filter"]),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), some, max_size=4),
    max_leaves=12,
)


@given(_VALUES, st.sampled_from([text_output, chat_images_output, api_images_output]))
def test_any_reply_is_an_output_or_a_fault(value, read):
    for answer in (value, {"choices": [value]}, {"choices": [{"message": value}]}, {"data": value}):
        try:
            output = read(answer)
        except HttpFault as fault:
            assert fault.reason
        else:
            assert isinstance(output, Output)
            assert output.text or any(output.images) or output.reason  # nothing is empty without a word


# The server's pace


def test_retry_after_is_heeded_and_other_calls_go_on(tmp_path):
    def script(call):
        limited = "What is it?" in call.text and not call.again
        return error(429, headers={"Retry-After": "0.3"}) if limited else chat("a cat")

    with Server(script) as server:
        run = roll(server, tmp_path)
        first, second = (call for call in server.calls if "What is it?" in call.text)
    assert second.at - first.at >= 0.3 and len(server.calls) == 3
    assert {record.status for record in records(run).values()} == {"ok"}


def test_ctrl_c_ends_at_once_and_quietly():
    code = (
        "import sys\n"
        "from tests.support import dialogue\n"
        "from yanami_metric.api import rollout\n"
        "from yanami_metric.models.openai import OpenAIModel\n"
        "rollout([dialogue()], OpenAIModel(sys.argv[1]))"
    )
    with Server(lambda call: chat("late").but(delay=30)) as server:
        process = subprocess.Popen([sys.executable, "-c", code, f"m@{server.url}"], stderr=subprocess.PIPE, text=True)
        while len(server.calls) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=10)[1]
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "Unclosed" not in said and "destroyed" not in said


# Secrets


def test_the_key_is_nowhere_but_in_the_header(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    scripts = [chat(f"Bearer {SECRET}"), error(400, message=f"bad key {SECRET}"), error(500, message=SECRET),
               html(502, SECRET), chat(None, message={"refusal": SECRET})]  # fmt: skip
    with Server(lambda call: scripts[call.number % 5] if call.path.endswith("completions") else drawn(call)) as server:
        asked = model(server, {"draw": "images"}, attempts=1)
        run = rollout([dialogue(str(i)) for i in range(5)], asked, out=tmp_path / "run", history="gt,self")
        assert {call.headers.get("authorization") for call in server.calls} == {f"Bearer {SECRET}"}
        shown = [asked.identity, repr(vars(asked)), repr(asked), *(r.getMessage() for r in caplog.records)]
        assert not any(server.url in text for text in (asked.identity, (run.path / "run.json").read_text()))
    files = [file.read_bytes() for file in run.path.rglob("*") if file.is_file()]
    assert len(files) > 10 and b"bad key [key]" in b"".join(files)
    assert not any(SECRET[:12].encode() in data for data in files) and not any(SECRET[:12] in text for text in shown)


def test_a_redirect_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with Server() as other, Server(lambda call: Answer(302, headers={"Location": other.url + "/steal"})) as server:
        record = records(roll(server, tmp_path))[ANSWER]
        assert record.status == "generation_error" and "redirects to" in record.reason
        assert other.asked == []


# Before anything runs


def test_a_wrong_key_model_or_address_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def refused(server, message, path="/v1", **load):
        spec = f"m@{server.url.removesuffix('/v1')}{path}"
        with pytest.raises(ModelError, match=message) as caught:
            rollout([dialogue()], OpenAIModel(spec, load={**QUICK, **load}), out=tmp_path / "run")
        assert SECRET not in str(caught.value) and not (tmp_path / "run").exists()

    with Server(models=["m-large", "other"]) as server:
        refused(server, r"no model 'm' but 2 others: m-large.*load\.check=false")
        assert server.calls == []
    with Server(lambda call: error(401, message="who are you?"), models=None) as server:
        refused(server, r"wants a key: set OPENAI_API_KEY \(HTTP 401")
        monkeypatch.setenv("MY_KEY", SECRET)
        refused(server, "doesn't take the key in MY_KEY: HTTP 401", key_env="MY_KEY")
        assert [call.path for call in server.calls] == ["/v1/models"] * 2
    with Server(lambda call: error(404), models=None) as server:
        refused(server, "no such server at the base URL, which as a rule ends in /v1", path="")
        assert [call.path for call in server.calls] == ["/models", "/chat/completions"]
    with Server(lambda call: html(), models=None) as server:
        refused(server, "no such server at the base URL.*got Welcome")
    with Server(lambda call: Answer(308, headers={"Location": "https://elsewhere/v1"}), models=None) as server:
        refused(server, "redirects to https://elsewhere/v1, which is not followed")
    refused(server, "can't be used: ClientConnector")


def test_a_server_without_a_list_of_models_is_taken_with_a_note(tmp_path):
    def script(call):
        if call.path.endswith("/models"):
            return error(404)
        return chat("a cat") if call.json else error(400, message="no messages")

    with Server(script, models=None) as server:
        asked = model(server)
        run = rollout([dialogue()], asked, history="gt,self", out=tmp_path / "run")
        assert "doesn't list its models" in asked.note
        assert sum(call.path.endswith("/models") for call in server.calls) == 1
        assert {record.status for record in records(run).values()} == {"ok"}
    with Server(models=[]) as server:
        assert "lists no models" in model(server).check()
    with Server() as server:
        assert model(server).check() == ""
        assert model(server, check=False).prepare(None, "gt").note == "" and len(server.asked) == 1


def test_identity_is_of_the_model_and_not_of_where_it_is():
    with Server() as server:
        assert model(server).identity == "openai:m"
        assert model(server, tag="int8").identity == "openai:m int8"
    assert OpenAIModel("@cf/a/b@https://host/v1").identity == "openai:@cf/a/b"


@pytest.mark.parametrize(
    ("call", "outputs"),
    [({}, {"text"}), ({"draw": "chat"}, {"text", "images"}), ({"draw": "images", "answer": False}, {"images"})],
)
def test_what_it_can_do_is_what_the_user_says(call, outputs):
    caps = OpenAIModel("m@http://host/v1", call={"max_images": 3, **call}).caps
    assert (caps.outputs, caps.max_images, caps.seeded) == (outputs, 3, False)


@pytest.mark.parametrize(
    ("call", "load", "message"),
    [
        ({"draw": "svg"}, {}, "draw: expected one of none, images, chat, got 'svg'"),
        ({"answer": False}, {}, "leave the model nothing to do"),
        ({"seed": 5}, {}, "seed: expected true or false, got 5"),
        ({"sizes": ["big"]}, {}, "sizes: expected <width>x<height>, got 'big'"),
        ({"sizes": "big"}, {}, "sizes: expected a list such as"),
        ({"stream": True}, {}, "stream: set by yanami itself"),
        ({"drawing.prompt": "x"}, {}, "prompt: set by yanami itself"),
        ({"drawing": 3}, {}, "drawing: expected fields as an object, got 3"),
        ({"assistant_images": "drop"}, {}, "assistant_images: expected one of keep, user"),
        ({}, {"retries": 3}, r"load\.retries: unknown, expected one of key_env, concurrency, check, timeout"),
        ({}, {"attempts": 0}, "attempts: expected a number of 1 or more, got 0"),
        ({}, {"concurrency": 0}, r"load\.concurrency: expected a whole number"),
        ({}, {"check": "no"}, r"load\.check: expected true or false"),
        ({}, {"key_env": "NOT_SET_ANYWHERE"}, "environment variable NOT_SET_ANYWHERE, which is not set"),
    ],
)
def test_options_are_checked(call, load, message):
    with pytest.raises(SpecError, match=message):
        OpenAIModel("m@http://host/v1", load=load, call=call)


@pytest.mark.parametrize("spec", ["", "m", "m@", "m@host", "@http://host", "m@ftp://host", "m@http://me:hunter2@host"])
def test_a_spec_names_model_and_address(spec):
    with pytest.raises(SpecError, match="expected") as caught:
        OpenAIModel(spec)
    assert "hunter2" not in str(caught.value)


def test_an_image_that_cannot_be_read_costs_one_output():
    def gone():
        raise FileNotFoundError("image.png")

    broken = ImageRef("0" * 64, 4, 3, gone, (1,))
    with Server(both) as server:
        asked = [request(says("user", 0, "What?"), images=(image,)) for image in (broken, ref(1, 1))]
        lost, answered = model(server).generate(asked)
    assert (lost.status, answered.text) == ("generation_error", "a cat") and "FileNotFoundError" in lost.reason
