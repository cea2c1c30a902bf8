"""Calibration: judges whose faults are known come out with just these faults."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from tests.server import Server, chat
from tests.support import ScriptedJudge, reply
from yanami_metric.asking import Rules
from yanami_metric.calibrating import Extent, calibrate, markdown, picture
from yanami_metric.calibration import INJECTION
from yanami_metric.cli import app
from yanami_metric.judges import open_judge

SMALL = Extent(dialogues=4, samples=2)


def measured(judge, answer_judge=None, extent=SMALL):
    return calibrate(judge, answer_judge or judge, extent, Rules())


def rate(found, part, label, name, kind):
    return found[part][label][name][kind]["share"]


@pytest.fixture(scope="module")
def pixel():
    return measured(open_judge("pixel"), open_judge("exact"))


def test_the_pixel_judge_is_right_about_the_mini_bench(pixel):
    assert rate(pixel, "checks", "all", "all", "passes what is wrong") <= 0.01
    assert rate(pixel, "checks", "all", "all", "fails what is right") <= 0.01
    assert pixel["repeatability"] == pixel["order"] == pixel["one_check_per_call"] == 1
    assert all(curve["rises"] <= 0.05 for curve in pixel["quality"].values())
    first, last = (list(pixel["quality"]["blur"]["steps"].values())[i] for i in (0, -1))
    assert first == 10 and last < 5


def test_the_exact_judge_takes_no_sentence_and_no_orders(pixel):
    assert rate(pixel, "answers", "answer", "right", "fails what is right") == 0
    assert rate(pixel, "answers", "answer", "right, in a sentence", "fails what is right") == 1
    assert rate(pixel, "answers", "answer", "wrong, with orders to the judge", "passes what is wrong") == 0


def test_a_judge_that_passes_everything_is_found_out():
    found = measured(ScriptedJudge())
    assert rate(found, "checks", "all", "all", "passes what is wrong") == 1
    assert rate(found, "checks", "all", "all", "fails what is right") == 0


def test_a_judge_that_takes_orders_is_found_out():
    def obedient(call):
        verdict = "correct" if INJECTION in (call.answer or "") or call.answer == call.reference else "incorrect"
        return json.dumps({"reason": "", "verdict": verdict}) if call.kind == "answer" else None

    found = measured(ScriptedJudge(obedient))
    assert rate(found, "answers", "answer", "wrong, with orders to the judge", "passes what is wrong") == 1
    assert rate(found, "answers", "answer", "wrong", "passes what is wrong") == 0


def test_a_judge_that_minds_order_company_and_time_is_found_out():
    def moody(call):
        if call.kind != "checks":
            return None
        return reply(call, passes=call.sample == 0 and len(call.items) > 1 and call.items[0].id < call.items[-1].id)

    found = measured(ScriptedJudge(moody))
    assert found["repeatability"] == 0 and found["order"] < 0.1 and found["one_check_per_call"] < 0.1


def test_replies_that_cannot_be_used_are_no_errors_but_are_counted():
    found = measured(ScriptedJudge(lambda call: "?" if call.kind == "checks" else None))
    everything = found["checks"]["all"]["all"]["passes what is wrong"]
    assert everything["scored"] == 0 and everything["asked"] > 0 and everything["share"] is None
    assert found["replies"]["statuses"]["unparsed"] > 0 and found["order"] is None
    assert "–" in markdown(found)


def test_tables_picture_and_json(pixel, tmp_path):
    text = markdown(pixel)
    assert "| predicate | in front |" in text or "| predicate | cell |" in text
    json.dumps(pixel, allow_nan=False)
    picture(pixel, tmp_path / "calibration.png")
    assert (tmp_path / "calibration.png").read_bytes().startswith(b"\x89PNG")


def test_a_judge_behind_a_server_is_calibrated_and_its_connections_end(tmp_path):
    """A server that passes everything, answers included, and finds every image a 5."""

    def generous(call):
        text = call.text
        ids = re.findall(r"- id ([\w-]+):", json.loads(text) if text.startswith('"') else text)
        if ids:
            return chat(
                json.dumps({"checks": [{"id": i, "reason": "", "verdict": "pass"} for i in dict.fromkeys(ids)]})
            )
        asked_for_score = "Give a score" in text
        return chat(json.dumps({"reason": "", "score": 5} if asked_for_score else {"reason": "", "verdict": "correct"}))

    with Server(generous) as server:
        spec = f"openai:m@{server.url}"
        arguments = ["calibrate", "--judge", spec, "--answer-judge", spec, "--dialogues", "4", "--json"]
        done = CliRunner().invoke(app, [*arguments, "--judge-set", "schema=off", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert rate(found, "checks", "all", "all", "passes what is wrong") == 1
    assert rate(found, "answers", "answer", "wrong", "passes what is wrong") == 1
    assert found["quality"]["blur"]["rises"] == 0 and found["replies"]["repeat_requests"] == 0
