"""What is known before a run, batches that don't fit into memory, and several generations of each item."""

from __future__ import annotations

import statistics

import pytest

from tests.strategies import colour_png
from tests.support import ScriptedJudge, ScriptedModel, dialogue, reply
from yanami_dataset.errors import HistoryError, SpecError
from yanami_metric.api import evaluate, judge, plan, rollout, score
from yanami_metric.planning import take_census
from yanami_metric.records import Caps, Output
from yanami_metric.run_folder import RunFolder
from yanami_metric.runs import Progress

DIALOGUES = [dialogue("d1"), dialogue("d2", draws=3)]


class Notes(Progress):
    """Keeps what it is told."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)


def test_a_census_counts_calls_images_and_what_is_done(tmp_path):
    planned = plan(DIALOGUES, ScriptedModel(), history="gt,self", out=tmp_path / "run")
    census = take_census(planned)
    assert (census.draws["gt"], census.images["gt"], census.answers["gt"]) == (5, 5, 4)
    assert census.calls == 2 * 9 and census.done.total() == 0
    assert census.cost(0.04, 0.01) == pytest.approx(10 * 0.04 + 8 * 0.01)
    rollout(DIALOGUES, ScriptedModel(), history="gt", out=tmp_path / "run")
    with RunFolder(tmp_path / "run") as folder:
        assert take_census(planned, folder).done == {"gt": 9, "self": 0}


def test_what_cannot_be_taken_is_told_before_anything_runs(tmp_path):
    told_first = []
    notes = Notes()

    class Short(ScriptedModel):
        def unsupported(self, request):
            return "the prompt is too long" if request.turn > 3 else ""

        def generate(self, requests):
            told_first.append(list(notes.lines))
            return super().generate(requests)

    run = rollout(DIALOGUES, Short(), history="self", out=tmp_path / "run", progress=notes)
    census = take_census(plan(DIALOGUES, Short(), history="self"))
    assert census.examples[0] == "self, d1, question 'q-last': the prompt is too long" and len(census.examples) == 3
    assert notes.lines == ["self: 3 requests are unsupported: the prompt is too long"]
    assert told_first[0] == notes.lines
    with RunFolder(run.path) as folder:
        statuses = {item: record.status for item, record in folder.current("self", "d2").items()}
    assert statuses[5, None] == "unsupported" and statuses[3, None] == "ok"


def test_a_model_that_ignores_images_is_never_scored_as_if_it_had_looked(tmp_path):
    blind = ScriptedModel(caps=Caps(outputs=frozenset({"images"}), honours_images=False))
    census = take_census(plan(DIALOGUES, blind, history="gt"))
    assert census.unsupported["gt"].total() == 5 and "without looking at images" in census.notes()[0]
    assert take_census(plan(DIALOGUES, blind, history="gt", placement="text_only")).unsupported == {}


def test_placement_is_the_models_unless_one_is_asked_for(tmp_path):
    model = ScriptedModel(caps=Caps(placement="concatenate"))
    assert plan(DIALOGUES, model).settings[0].placement == "concatenate"
    assert plan(DIALOGUES, model, placement="front").settings[0].placement == "front"


def test_drawing_may_have_a_placement_of_its_own(tmp_path):
    model = ScriptedModel(caps=Caps(drawing_placement="text_only", honours_images=False))
    rollout(DIALOGUES, model, out=tmp_path / "run")
    assert {len(request.images) for request in model.requests if request.expects == "images"} == {0}
    assert all(request.images for request in model.requests if request.expects == "text")
    # asked for by the user, a placement holds for everything
    assert take_census(plan(DIALOGUES, model, placement="interleaved")).unsupported["gt"].total() == 5


def test_gt_is_refused_by_a_census_too():
    with pytest.raises(HistoryError):
        take_census(plan([dialogue(targets=False)], ScriptedModel()))


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


@pytest.mark.parametrize("error", [MemoryError, OutOfMemoryError])
def test_out_of_memory_halves_the_batch_for_the_rest_of_the_run(tmp_path, error):
    sizes = []

    class Small(ScriptedModel):
        def generate(self, requests):
            sizes.append(len(requests))
            if len(requests) > 2:
                raise error("no room")
            return super().generate(requests)

    run = rollout([dialogue(f"d{n}") for n in range(40)], Small(caps=Caps(max_batch=8)), out=tmp_path / "run")
    assert sizes[:3] == [8, 4, 2] and set(sizes[3:]) == {2}  # 40 dialogues are two windows
    with RunFolder(run.path) as folder:
        assert {record.status for d in run.data for record in folder.current("gt", d.id).values()} == {"ok"}


def test_a_request_that_does_not_fit_alone_is_an_error_of_its_own(tmp_path):
    def fails(request):
        if request.turn == 3:
            raise MemoryError("no room")

    run = rollout([dialogue()], ScriptedModel(fails, Caps(max_batch=4)), out=tmp_path / "run")
    with RunFolder(run.path) as folder:
        record = folder.current("gt", "d1")[3, None]
    assert (record.status, record.reason) == ("generation_error", "MemoryError: no room")


def test_a_model_is_closed_after_a_rollout_and_after_a_failed_one(tmp_path):
    closed = []

    class Holding(ScriptedModel):
        def close(self):
            closed.append(len(self.requests))

    rollout([dialogue()], Holding(), out=tmp_path / "run")

    class Stop(Progress):
        def step(self, what, status, *, fresh):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollout([dialogue()], Holding(), out=tmp_path / "other", progress=Stop())
    assert closed == [4, 1]


def test_the_longest_requests_come_first(tmp_path):
    model = ScriptedModel()
    rollout(DIALOGUES, model, history="gt", out=tmp_path / "run")
    shown = [len(request.images) for request in model.requests]
    assert shown == sorted(shown, reverse=True) and len(set(shown)) > 1


def test_generations_have_seeds_of_their_own_and_a_spread(tmp_path):
    model = ScriptedModel()
    run = rollout(DIALOGUES, model, history="gt,self", generations=3, out=tmp_path / "run")
    drawn = [request.seeds for request in model.requests if request.dialogue == "d1" and request.turn == 1]
    assert len(set(drawn)) == 3 and len(drawn) == 6  # gt and self share them
    passing = {colour_png(1000 + seeds[0] % 30_000) for seeds in sorted(set(drawn))[:1]}
    picky = ScriptedJudge(lambda call: reply(call, passes=call.candidate.read() in passing) if call.candidate else None)
    found = score(judge(run, picky, picky), resamples=0)["histories"]["gt"]
    spread = found["generations"]
    assert spread["count"] == 3 and spread["vq"] == {"values": [None] * 3, "sd": None}  # one scenario: no whole
    assert found["scenarios"]["editing"]["vq"]["n"] == 3 * 5
    share = found["scenarios"]["editing"]["sc"]["value"]
    assert share == pytest.approx(100 * (1 / 6 + 0) / 2)  # one of six checks of d1, none of d2


def test_generations_of_a_model_without_seeds_are_called_what_they_are():
    notes = [
        plan(DIALOGUES, ScriptedModel(caps=Caps(seeded=seeded)), generations=2).notes() for seeded in (True, False)
    ]
    assert notes == [[], ["the model takes no seeds: its generations are the same, or differ by chance"]]


def test_the_spread_over_generations_is_a_sample_deviation(tmp_path):
    four = [dialogue(f"d-{s}", s) for s in ("fusion", "editing", "modeling", "reasoning")]
    done = evaluate(
        four, ScriptedModel(), history="gt", generations=2, out=tmp_path / "run",
        judges=[ScriptedJudge(lambda c: reply(c, score=c.candidate.read()[-30] % 10) if c.kind == "quality" else None)],
        answer_judge=ScriptedJudge(),
    )  # fmt: skip
    spread = done.scores[0]["histories"]["gt"]["generations"]["vq"]
    assert spread["sd"] == pytest.approx(statistics.stdev(spread["values"]))
    assert done.scores[0]["histories"]["gt"]["vq"]["value"] == pytest.approx(statistics.mean(spread["values"]))


def test_more_generations_go_on_in_the_same_folder(tmp_path):
    rollout(DIALOGUES, ScriptedModel(), out=tmp_path / "run")
    more = ScriptedModel()
    rollout(DIALOGUES, more, generations=2, out=tmp_path / "run")
    assert len(more.requests) == 9


@pytest.mark.parametrize(
    ("conditions", "message"),
    [({"history": "gt,gt"}, "different modes"), ({"history": ()}, "got none"), ({"generations": 0}, "1 or more")],
)
def test_conditions_that_make_no_sense_are_refused(conditions, message):
    with pytest.raises(SpecError, match=message):
        plan(DIALOGUES, ScriptedModel(), **conditions)


def test_keys_are_no_options():
    with pytest.raises(SpecError, match="keys come from the environment"):
        plan(DIALOGUES, "openai:gpt@http://127.0.0.1:1/v1", options={"load.api_key": "sk-1"})


def test_another_size_than_asked_is_an_output_and_both_are_recorded(tmp_path):
    model = ScriptedModel(lambda r: Output(images=[colour_png(1, 9, 9)]) if r.expects == "images" else None)
    run = rollout([dialogue()], model, out=tmp_path / "run")
    with RunFolder(run.path) as folder:
        record = folder.current("gt", "d1")[1, None]
    assert record.asked_size == (4, 3) and (record.images[0].width, record.images[0].height) == (9, 9)
