"""Judging with a scripted judge: one call for equal questions, no path from a failure to a number."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import colour_png
from tests.support import ScriptedJudge, ScriptedModel, dialogue, reply
from yanami_dataset.errors import RunFolderError, SpecError
from yanami_metric.api import Run, judge, rollout, score, unscored
from yanami_metric.records import JudgeItem, Output
from yanami_metric.replies import Unparsed, parse


def verdicts(run) -> list[dict]:
    return [json.loads(line) for line in (run.path / "verdicts.jsonl").read_text().splitlines()]


@pytest.fixture
def run(tmp_path) -> Run:
    return rollout([dialogue("d1"), dialogue("d2")], ScriptedModel(), history="gt,self", out=tmp_path / "run")


def test_everything_is_judged_and_equal_calls_are_made_once(run):
    scripted = ScriptedJudge()
    judge(run, scripted, scripted)
    lines = verdicts(run)
    assert len(lines) == 2 * 2 * (2 + 2 * 2)  # dialogues x histories x (questions + slots x (checks, quality))
    # every image is the same in gt and self (the scripted model looks at its seed only): asked once
    assert len(scripted.calls) == 12 and sum(line["reused"] for line in lines) == 12
    assert {line["kind"] for line in lines} == {"answer", "checks", "quality"}


def test_the_same_again_asks_nothing_and_writes_nothing(run):
    judge(run, ScriptedJudge(), ScriptedJudge())
    before = verdicts(run)
    again = ScriptedJudge()
    judge(run, again, again)
    assert again.calls == [] and verdicts(run) == before


def test_another_version_of_a_judge_is_another_judge(run):
    judge(run, ScriptedJudge(), ScriptedJudge())
    other = ScriptedJudge(version=2)
    judge(run, other, other)
    assert len(other.calls) == 12


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (lambda call: "I'd say it passes", "unparsed"),
        (lambda call: reply(call).replace('"c', '"x'), "unparsed"),
        (lambda call: 1 / 0, "transport_error"),
    ],
)
def test_a_failure_is_no_number_and_is_asked_again(run, script, status):
    judge(run, ScriptedJudge(lambda call: script(call) if call.kind == "checks" else None), ScriptedJudge())
    items = [item for line in verdicts(run) if line["kind"] == "checks" for item in line["items"]]
    assert {(item["status"], item["value"]) for item in items} == {(status, None)}
    scores = score(run, resamples=0)
    assert unscored(scores) == {status: 8}
    assert scores["histories"]["gt"]["scenarios"]["editing"]["sc"]["value"] is None
    assert scores["histories"]["gt"]["scenarios"]["editing"]["sc"]["bounds"] == [0, 100]
    assert scores["histories"]["gt"]["scenarios"]["editing"]["vq"]["value"] == 70
    again = ScriptedJudge()
    judge(run, again, again)
    assert {call.kind for call in again.calls} == {"checks"}
    scores = score(run, resamples=0)
    assert unscored(scores) == {} and scores["histories"]["gt"]["scenarios"]["editing"]["sc"]["value"] == 100


def test_not_judgeable_is_final(run):
    no = json.dumps({"reason": "no probe", "verdict": "not_judgeable"})
    judge(run, ScriptedJudge(lambda call: no if call.kind == "quality" else None), ScriptedJudge())
    assert unscored(score(run, resamples=0)) == {"not_judgeable": 8}
    again = ScriptedJudge()
    judge(run, again, again)
    assert again.calls == []


def test_a_judge_is_only_asked_what_it_is_made_for(run):
    only_answers = ScriptedJudge(kinds=frozenset({"answer"}))
    judge(run, only_answers, only_answers)
    assert {call.kind for call in only_answers.calls} == {"answer"}
    assert unscored(score(run, resamples=0)) == {"not_judgeable": 16}


def test_what_the_model_owes_counts_as_wrong_without_a_call(tmp_path):
    model = ScriptedModel(
        lambda r: Output(status="model_refused") if r.turn == 1 else Output() if r.turn == 3 else None
    )
    run = rollout([dialogue()], model, out=tmp_path / "run")
    scripted = ScriptedJudge()
    judge(run, scripted, scripted)
    assert {call.kind for call in scripted.calls} == {"answer"}
    scores = score(run, resamples=0)
    entry = scores["histories"]["gt"]
    assert (entry["scenarios"]["editing"]["sc"]["value"], entry["scenarios"]["editing"]["vq"]["value"]) == (0, 0)
    assert unscored(scores) == {}
    assert entry["statuses"]["quality"] == {"missing_output": 1, "model_refused": 1}
    assert entry["without_refusals"]["n_refused"] == 2


def test_a_generation_error_is_not_scored(tmp_path):
    model = ScriptedModel(lambda r: Output(status="generation_error") if r.turn == 1 else None)
    run = rollout([dialogue()], model, out=tmp_path / "run")
    judge(run, ScriptedJudge(), ScriptedJudge())
    assert unscored(score(run, resamples=0)) == {"generation_error": 2}  # its check and its quality


def test_context_reaches_only_a_judge_that_wants_it_and_never_holds_the_target(tmp_path):
    run = rollout([dialogue()], ScriptedModel(), history="self", out=tmp_path / "run")
    blind, seeing = ScriptedJudge(), ScriptedJudge(name="seeing", sees_context=True)
    judge(run, blind, blind)
    assert {call.context for call in blind.calls} == {()}
    judge(run, seeing, seeing)
    target_hashes = [info.sha256 for info in dialogue().image_info]
    contexts = [[image.sha256 for image in call.context_images] for call in seeing.calls if call.kind == "checks"]
    assert contexts == [target_hashes[:1], target_hashes[:2]]  # ground truth of earlier turns, in `self` too
    assert all(call.context == () for call in seeing.calls if call.kind == "quality")


def test_two_judges_have_scores_of_their_own(run):
    judge(run, ScriptedJudge(), ScriptedJudge())
    strict = ScriptedJudge(lambda call: reply(call, passes=False), name="strict", version=2)
    judge(run, strict, strict)
    assert score(run, resamples=0)["histories"]["gt"]["scenarios"]["editing"]["sc"]["value"] == 100
    assert score(run, judge="strict", resamples=0)["histories"]["gt"]["scenarios"]["editing"]["sc"]["value"] == 0
    assert sorted(path.name for path in run.path.glob("scores*")) == ["scores.json", "scores.strict-strict.json"]
    with pytest.raises(RunFolderError, match="expected a judge among scripted, strict, got 'lenient'"):
        score(run, judge="lenient")


def test_stages_say_what_must_come_first(run, tmp_path):
    with pytest.raises(RunFolderError, match="run `yanami judge` first"):
        score(run)
    with pytest.raises(RunFolderError, match=r"run\.json"):
        Run.open(tmp_path)
    with pytest.raises(RunFolderError, match="existed in memory only"):
        Run.open(run.path)


@pytest.mark.parametrize("spec", ["nobody", "json:JSONDecoder", "no.such:Judge"])
def test_what_names_no_judge_is_refused(run, spec):
    with pytest.raises(SpecError, match="judge"):
        judge(run, spec)


ITEMS = [JudgeItem("a"), JudgeItem("b")]
GOOD = '{"checks": [{"id": "b", "reason": "", "verdict": "fail"}, {"id": "a", "verdict": "pass"}]}'


def test_items_are_found_by_id_not_by_order():
    assert [(v.id, v.value) for v in parse("checks", ITEMS, GOOD)] == [("a", 1), ("b", 0)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("checks", ""),
        ("checks", "[]"),
        ("checks", GOOD + GOOD),
        ("checks", GOOD.replace('"b"', '"a"')),
        ("checks", GOOD.replace('"b"', '"c"')),
        ("checks", '{"checks": [{"id": "a", "verdict": "pass"}]}'),
        ("checks", '{"checks": {"a": "pass", "b": "pass"}}'),
        ("checks", GOOD.replace("fail", "passable")),
        ("checks", GOOD.replace('"fail"', "true")),
        ("checks", GOOD.replace('"b"', "1")),
        ("quality", '{"score": 11}'),
        ("quality", '{"score": -0.1}'),
        ("quality", '{"score": NaN}'),
        ("quality", '{"score": "8/10"}'),
        ("quality", '{"score": true}'),
        ("quality", '{"score": null}'),
        ("quality", "8"),
        ("answer", '{"verdict": "not correct"}'),
        ("answer", '{"verdict": 1}'),
        ("answer", "correct"),
        ("answer", "[" * 100_000),
    ],
)
def test_what_is_not_exactly_an_answer_is_unparsed(kind, text):
    with pytest.raises(Unparsed):
        parse(kind, ITEMS if kind == "checks" else ITEMS[:1], text)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_random_reply_becomes_a_number(text):
    for kind in ("checks", "answer", "quality"):
        with pytest.raises(Unparsed):
            parse(kind, ITEMS if kind == "checks" else ITEMS[:1], text)


@given(st.floats(allow_nan=True))
def test_a_score_is_from_0_to_10_or_nothing(number):
    text = json.dumps({"score": number})
    if math.isfinite(number) and 0 <= number <= 10:
        assert parse("quality", ITEMS[:1], text)[0].value == number
    else:
        with pytest.raises(Unparsed):
            parse("quality", ITEMS[:1], text)


def test_a_changed_candidate_is_judged_anew(tmp_path):
    run = rollout([dialogue()], ScriptedModel(), out=tmp_path / "run")
    judge(run, ScriptedJudge(), ScriptedJudge())
    image = next((run.path / "outputs/gt/images").glob("d1-t1-0*"))
    image.unlink()
    changed = ScriptedModel(lambda r: Output(images=[colour_png(3)]) if r.turn == 1 else None)
    rollout([dialogue()], changed, out=tmp_path / "run")
    again = ScriptedJudge()
    judge(run, again, again)
    assert [call.kind for call in again.calls] == ["checks", "quality"]
