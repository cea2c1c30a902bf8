"""Judging with a scripted judge: one call for equal questions, no path from a failure to a number."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import colour_png
from tests.support import ScriptedJudge, ScriptedModel, dialogue, reply
from yanami_dataset.errors import RunFolderError, SpecError
from yanami_metric import tables
from yanami_metric.api import Run, evaluate, judge, report, rollout, score, unscored
from yanami_metric.asking import Rules
from yanami_metric.judging import TooManyFailuresError
from yanami_metric.prompts import load_prompts
from yanami_metric.records import JudgeError, JudgeItem, Output
from yanami_metric.replies import Unparsed, parse
from yanami_metric.runs import Progress


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


def shown(call) -> list[str]:
    return [image.sha256 for image in call.images]


def test_a_judge_of_checks_sees_the_history_with_ground_truth_and_the_candidate(tmp_path):
    run = rollout([dialogue()], ScriptedModel(), history="self", out=tmp_path / "run")
    blind, reading = ScriptedJudge(), ScriptedJudge(name="reading", reads_prompt=True, version=2)
    judge(run, blind, blind)
    assert {call.messages for call in blind.calls} == {()}
    judge(run, reading, reading)
    known = [info.sha256 for info in dialogue().image_info]
    checks = [call for call in reading.calls if call.kind == "checks"]
    # ground truth of earlier turns, in `self` too; never the target of the slot itself
    assert [shown(call) for call in checks] == [
        [*known[:1], checks[0].candidate.sha256],
        [*known[:2], checks[1].candidate.sha256],
    ]
    for call in reading.calls:
        if call.kind == "quality":
            assert shown(call) == [call.candidate.sha256]
        if call.kind == "answer":
            assert shown(call) == [] and "~~~\na cat\n~~~" in [part.text for part in call.messages[0].content]
    assert "exactly one entry for each id" in checks[0].rubric
    assert "- id c0: It is a cat." in [part.text for part in checks[0].messages[0].content]


@pytest.mark.parametrize(("context", "images"), [("candidate", 1), ("history", 2), ("target", 3)])
def test_the_context_of_a_judge_is_a_choice(tmp_path, context, images):
    run = rollout([dialogue(draws=1)], ScriptedModel(), out=tmp_path / "run")
    reading = ScriptedJudge(reads_prompt=True)
    judge(run, reading, reading, rules=Rules(context=context))
    checks = next(call for call in reading.calls if call.kind == "checks")
    assert len(checks.images) == images and shown(checks)[-1] == checks.candidate.sha256
    assert (dialogue().image_info[1].sha256 in shown(checks)) == (context == "target")


def test_a_reply_that_cannot_be_used_is_asked_for_once_more_naming_the_fault(run):
    reading = ScriptedJudge(lambda call: reply(call) if call.fault else "It passes.", reads_prompt=True)
    judge(run, reading, reading)
    assert unscored(score(run, resamples=0)) == {}
    line = verdicts(run)[0]
    assert line["raw"][0] == "It passes." and len(line["raw"]) == 2
    assert {call.last for call in reading.calls if call.fault} == {"It passes."}
    assert all("expected one JSON object" in call.fault for call in reading.calls if call.fault)
    hopeless = ScriptedJudge(lambda call: "It passes.", reads_prompt=True, version=2)
    judge(run, hopeless, hopeless)
    assert {tuple(line["raw"]) for line in verdicts(run)[len(verdicts(run)) // 2 :]} == {("It passes.", "It passes.")}


def test_a_refusal_is_final_and_asked_again_only_on_demand(run):
    class Refusing(ScriptedJudge):
        async def judge(self, call):
            self.calls.append(call)
            raise JudgeError("refused", "content filter", final=True)

    first, again, retried = (Refusing(reads_prompt=True) for _ in range(3))
    judge(run, first, first)
    assert len(first.calls) == 12 and unscored(score(run, resamples=0)) == {"refused": 24}
    judge(run, again, again)
    assert again.calls == []
    judge(run, retried, retried, retry=("refused",))
    assert len(retried.calls) == 12


def test_samples_decide_by_majority_and_mean(run):
    def wavering(call):
        return reply(call, passes=call.sample != 1, score=call.sample * 2)

    thrice = ScriptedJudge(wavering)
    judge(run, thrice, thrice, rules=Rules(samples=3))
    assert len(thrice.calls) == 36
    entry = score(run, resamples=0)["histories"]["gt"]["scenarios"]["editing"]
    assert (entry["sc"]["value"], entry["vq"]["value"]) == (100, 20)
    html = report(run).read_text()
    assert "3 samples" in html


def test_a_sample_that_failed_leaves_the_item_unscored(run):
    failing = ScriptedJudge(lambda call: "?" if (call.kind, call.sample) == ("checks", 1) else None)
    judge(run, failing, failing, rules=Rules(samples=2))
    assert unscored(score(run, resamples=0)) == {"unparsed": 8}


def test_checks_may_be_asked_a_few_at_a_time(tmp_path):
    talk = dialogue(draws=1)
    many = replace(talk, checks=tuple(replace(talk.checks[0], id=f"c{n}") for n in range(5)))
    run = rollout([many], ScriptedModel(), out=tmp_path / "run")
    few = ScriptedJudge()
    judge(run, few, few, rules=Rules(checks_per_call=2))
    assert [len(call.items) for call in few.calls if call.kind == "checks"] == [2, 2, 1]
    assert score(run, resamples=0)["histories"]["gt"]["scenarios"]["editing"]["sc"]["n"] == 5


def test_a_cache_is_shared_between_runs_and_keeps_no_failure(tmp_path):
    failing = ScriptedJudge(lambda call: "?" if call.kind == "quality" else None)
    runs = [rollout([dialogue()], ScriptedModel(), out=tmp_path / f"run{n}") for n in range(2)]
    judge(runs[0], failing, failing, cache=tmp_path / "cache")
    again = ScriptedJudge()
    judge(runs[1], again, again, cache=tmp_path / "cache")
    assert {call.kind for call in again.calls} == {"quality"}
    assert all(line["reused"] for line in verdicts(runs[1]) if line["kind"] != "quality")


def test_a_hopeless_judge_is_stopped_and_what_was_judged_is_kept(run):
    hopeless = ScriptedJudge(lambda call: "?" if call.kind != "answer" else None)
    with pytest.raises(TooManyFailuresError, match="3 judge calls failed"):
        judge(run, hopeless, hopeless, max_failures=3, concurrency=1)
    assert len(hopeless.calls) < 12
    assert {line["kind"] for line in verdicts(run)} >= {"answer"}


def run_judges(run) -> list[dict]:
    return json.loads((run.path / "run.json").read_text())["judges"]


def test_prompts_of_ones_own_are_checked_and_make_another_judge(run, tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    with pytest.raises(SpecError, match=r"expected answer\.md, checks\.md, quality\.md"):
        load_prompts(folder)
    for text, message in [
        ("no parts", "a line '---'"),
        ("r\n---\n{image}\n", "expected placeholders of candidate"),
        ("r\n---\nthe image\n", "expected the placeholders"),
    ]:
        (folder / "quality.md").write_text(text)
        with pytest.raises(SpecError, match=message):
            load_prompts(folder)
    (folder / "quality.md").write_text("Rate it.\n---\n{candidate}\n")
    judge(run, ScriptedJudge(reads_prompt=True), ScriptedJudge(reads_prompt=True))
    other = ScriptedJudge(reads_prompt=True)
    judge(run, other, other, rules=Rules(prompts=load_prompts(folder)))
    assert {call.kind for call in other.calls} == {"quality"} and other.calls[0].rubric == "Rate it."
    # run.json names prompts by their hashes, and each is kept: a verdict can be followed to its prompt
    hashes = {kind: entry["rules"]["prompts"][kind] for entry in run_judges(run) for kind in ("quality",)}
    kept = {path.name: path.read_text() for path in (run.path / "prompts").iterdir()}
    assert kept[f"quality-{hashes['quality'][:12]}.md"] == "Rate it.\n---\n{candidate}\n" and len(kept) == 4


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


RIGHT = '{"reason": "r", "verdict": "correct"}'


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"  {RIGHT}\n\n",
        f"```json\n{RIGHT}\n```",
        f"```\n{RIGHT}\n```",
        f"Here is my verdict:\n{RIGHT}",
        f"Here is my verdict:\n\n```json\n{RIGHT}\n```\n",
        f'<think>Is it {{"verdict": "incorrect"}}? No.</think>\n{RIGHT}',
        '{\n  "reason": "ja, \u00e4hnlich \u4e2d",\n  "verdict": "correct"\n}',
        '{"verdict": "correct", "reason": "incorrect would be {wrong}"}',
    ],
)
def test_an_answer_is_found_whatever_stands_before_it(text):
    assert parse("answer", ITEMS[:1], text)[0].value == 1


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
        ("answer", f"{RIGHT}\n{RIGHT}"),
        ("answer", f"{RIGHT} I am sure."),
        ("answer", f"The model said {RIGHT}"),
        ("answer", f'The model said\n{RIGHT}\nbut I say {{"reason": "cut'),
        ("answer", f"<think>so far {RIGHT}"),
        ("answer", '{"reason": "cut off", "verdict": "corr'),
        ("answer", '{"verdict": "incorrect", "verdict": "correct"}'),
        ("answer", '{"verdict": "Correct"}'),
        ("answer", '{"verdict": "richtig"}'),
        ("answer", "<html><body>502 Bad Gateway</body></html>"),
        ("answer", "I'm sorry, I can't help with that."),
        ("answer", '{"error": {"message": "quota", "code": 429}}'),
        ("answer", "x" * 2_000_000),
        ("answer", '{"reason": 5, "verdict": "correct"}'),
        ("answer", '{"reason": "r", "verdict": ["correct"]}'),
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


def test_judges_of_one_run_are_compared_with_each_other(tmp_path):
    lenient = ScriptedJudge()
    strict = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id == "c0"), name="strict", version=2)
    done = evaluate(
        [dialogue("d1"), dialogue("d2")], ScriptedModel(), judges=[lenient, strict], answer_judge=lenient,
        out=tmp_path / "run",
    )  # fmt: skip
    ((one, other, found),) = done.agreements()
    assert (one, other) == ("scripted", "strict")
    assert found["checks"] == {"n": 4, "agreement": 0.5, "kappa": 0}
    assert found["answer"]["n"] == 4 and found["answer"]["agreement"] == 1
    assert found["quality"] == {"n": 4, "pearson": None}  # each always gives the same
    text = tables.agreement(found, one, other)
    assert text.startswith("Agreement of scripted and strict: checks 50.0 % (kappa 0.00, n = 4), answer 100 %")


def test_the_spread_of_a_judges_samples_is_told(run):
    wavering = ScriptedJudge(
        lambda call: reply(call, passes=call.sample == 0 or call.items[0].id == "c0", score=call.sample)
    )
    judge(run, wavering, wavering, rules=Rules(samples=3))
    entry = score(run, resamples=0)["histories"]["gt"]
    assert entry["judge_samples"] == {"count": 3, "answer": 1, "checks": 0.5, "quality_sd": 1}
    assert "all samples agree on 50.0 % of checks" in report(run).with_suffix(".md").read_text()


def test_progress_counts_as_made_only_what_was_asked(run):
    class Count(Progress):
        made = steps = 0

        def step(self, what, status, *, fresh):
            self.made, self.steps = self.made + fresh, self.steps + 1

    count = Count()
    judge(run, ScriptedJudge(), ScriptedJudge(), progress=count)
    assert (count.made, count.steps) == (12, 24)


@pytest.mark.parametrize("status", ["missing_output", "model_refused", "scored", "ok"])
def test_a_judges_fault_never_counts_as_the_models(run, status):
    class Lying(ScriptedJudge):
        async def judge(self, call):
            raise JudgeError(status, "the judge failed")

    judge(run, Lying(), Lying())
    scores = score(run, resamples=0)
    assert unscored(scores) == {"transport_error": 24}
    entry = scores["histories"]["gt"]["scenarios"]["editing"]
    assert (entry["sc"]["value"], entry["sc"]["bounds"], entry["vq"]["value"]) == (None, [0, 100], None)
