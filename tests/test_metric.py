"""The evaluate metric: offline, with the numbers of the run folder, in one process or several."""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from tests.strategies import colour_png
from tests.support import ScriptedJudge, ScriptedModel, dialogue, reply
from yanami_dataset.errors import DataError, ImageError, ModelError, SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric import api
from yanami_metric.data import Selection
from yanami_metric.mini import mini_folder
from yanami_metric.records import Caps, Output


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """`yanami install-metric`, then evaluate.load in this process, as a user's script does it."""
    import evaluate

    modules = os.environ["HF_MODULES_CACHE"]
    subprocess.run([sys.executable, "-m", "yanami_metric.cli", "install-metric"], check=True, capture_output=True)
    assert modules
    return lambda **kwargs: evaluate.load("yanami", **kwargs)


DIALOGUES = [dialogue(f"{s}-{n}", s) for s in SCENARIOS for n in range(2)]


def predictions(**changes):
    found = [
        {"id": d.id, "images": [colour_png(n) for n, _ in enumerate(d.slots)], "answers": ["a cat", "2"]}
        for d in DIALOGUES
    ]
    return [{**one, **changes} for one in found]


def compute(metric, given, **kwargs):
    judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
    return metric.compute(
        predictions=given, references=[one["id"] for one in given], judge=judge, answer_judge=judge, **kwargs
    )


def test_flat_names_and_the_numbers_of_the_formulas(loaded):
    found = compute(loaded(data=DIALOGUES), predictions())
    assert found["sc"] == found["fusion_sc"] == 50 and found["vq"] == 70 and found["vr"] == pytest.approx(58)
    # the small dialogues ask in two of the four dimensions: no DSU, so no overall, and no other formula instead
    assert found["fusion_context_retrieval"] == 100 and found["fusion_dsu"] is None and found["overall"] is None
    assert found["coverage"] == 1 and found["unscored"] == 0


def test_a_model_that_does_not_answer_is_scored_by_vr(loaded):
    found = compute(loaded(data=DIALOGUES), predictions(answers=None), weights={"sc": 0.5, "vq": 0.5})
    assert found["overall"] == found["vr"] == pytest.approx(60)


def test_a_missing_image_counts_as_wrong(loaded):
    found = compute(loaded(data=DIALOGUES), predictions(images=[None, colour_png(1)]))
    assert (found["sc"], found["vq"]) == (50, 35)


@pytest.mark.parametrize("way", ["add", "add_batch"])
def test_what_is_missing_may_come_first(loaded, way):
    nothing = {"images": [None, None], "answers": [None, None]}
    given = [{**one, **nothing} if n == 0 else one for n, one in enumerate(predictions())]
    metric = loaded(data=DIALOGUES)
    if way == "add":
        for one in given:
            metric.add(prediction=one, reference=one["id"])
    else:
        metric.add_batch(predictions=given, references=[one["id"] for one in given])
    found = metric.compute(judge=ScriptedJudge(), answer_judge=ScriptedJudge())
    assert (found["unscored"], found["fusion_sc"], found["fusion_context_retrieval"]) == (0, 50, 50)


def test_batches_and_an_event_loop_give_the_same(loaded):
    metric = loaded(data=DIALOGUES)
    whole = compute(metric, predictions())
    for one in predictions():
        metric.add(prediction=one, reference=one["id"])

    async def inside():
        judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
        return metric.compute(judge=judge, answer_judge=judge)

    assert asyncio.run(inside()) == whole


def forms(data):
    """The same image as everything that a prediction may hold; PIL's is encoded anew, to the same pixels."""
    return {"bytes": data, "PIL": Image.open(io.BytesIO(data)), "a row of datasets": {"bytes": data, "path": None}}


@pytest.mark.parametrize("form", ["bytes", "PIL", "a row of datasets", "path"])
@pytest.mark.parametrize("way", ["compute", "add", "add_batch", "both", "kept in memory"])
def test_whatever_the_way_and_the_form_the_numbers_are_the_same(loaded, way, form, tmp_path):
    given = predictions()
    for n, one in enumerate(given):
        for m, data in enumerate(one["images"]):
            (tmp_path / f"{n}-{m}.png").write_bytes(data)
            one["images"][m] = str(tmp_path / f"{n}-{m}.png") if form == "path" else forms(data)[form]
    metric = loaded(data=DIALOGUES, keep_in_memory=way == "kept in memory")
    judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
    added = {"compute": 0, "kept in memory": 0, "both": 5}.get(way, len(given))
    if way == "add":
        for one in given:
            metric.add(prediction=one, reference=one["id"])
    elif added:
        metric.add_batch(predictions=given[:added], references=[one["id"] for one in given[:added]])
    rest = given[added:]
    more = {"predictions": rest, "references": [one["id"] for one in rest]} if rest else {}
    found = metric.compute(judge=judge, answer_judge=judge, **more)
    assert found == compute(loaded(data=DIALOGUES), predictions())


def test_the_order_of_dialogues_does_not_matter(loaded, small):
    metric = loaded(data=small)
    given = metric.rollout("baseline:copy-last")
    whole = scores(metric, given)
    assert None not in whole.values()
    assert scores(metric, random.Random(1).sample(given, len(given))) == whole


def test_one_dialogue_is_enough_and_nothing_is_nan(loaded, small):
    metric = loaded(data=small)
    found = scores(metric, metric.rollout("baseline:reference", selection=Selection(limit=1)))
    assert found["fusion_overall"] == 100 and "editing_sc" not in found
    assert all(found[name] is None for name in ("overall", "overall_low", "overall_high", "sc"))
    assert not any(isinstance(value, float) and math.isnan(value) for value in found.values())


# Rolled out by the metric itself


def raising(request):
    if request.dialogue == "fusion-0" and request.turn == 1:
        raise RuntimeError("the card fell off the bus")
    if request.dialogue == "editing-1":
        return Output(status="model_refused", reason="no cats")
    return Output(images=[None]) if request.dialogue == "modeling-0" and request.expects == "images" else None


@pytest.mark.parametrize("history", ["gt", "self"])
@pytest.mark.parametrize(
    "model",
    [
        ScriptedModel(),
        ScriptedModel(raising),
        ScriptedModel(caps=Caps(outputs=frozenset({"images"}))),
        ScriptedModel(raising, caps=Caps(outputs=frozenset({"text"}))),
        ScriptedModel(raising, caps=Caps(max_images=1, outputs=frozenset({"images"}))),
        ScriptedModel(caps=Caps(min_images=2)),
    ],
    ids=["all", "failing", "draws", "answers", "failing grids", "needs two"],
)
def test_a_rollout_scores_as_it_does_without_evaluate(loaded, model, history):
    from yanami_metric.metric import flat

    judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
    done = api.evaluate(DIALOGUES, model, judges=[judge], answer_judge=judge, history=history, seed=3)
    expected = flat(done.scores[0]["histories"][history])
    metric = loaded(data=DIALOGUES)
    assert compute(metric, metric.rollout(model, history, seed=3)) == expected


def test_what_failed_is_no_number(loaded):
    metric = loaded(data=DIALOGUES)
    given = metric.rollout(ScriptedModel(raising))
    assert [one["id"] for one in given] == [d.id for d in DIALOGUES]
    reason = "RuntimeError: the card fell off the bus"
    assert given[0]["faults"] == [{"turn": 1, "question": None, "status": "generation_error", "reason": reason}]
    assert {fault["status"] for fault in given[3]["faults"]} == {"model_refused"}
    assert all("faults" not in given[n] for n in (1, 2, 4, 5, 6, 7))
    found = compute(metric, given)
    # the check and the quality of one image; its check is the one that fails, in the other dialogue too
    assert (found["unscored"], found["fusion_sc"]) == (2, 75)
    without = compute(metric, [{**one, "faults": None} for one in given])
    assert (without["unscored"], without["fusion_sc"]) == (0, 50)


def test_conditions_reach_the_rollout(loaded, tmp_path):
    metric, model = loaded(data=DIALOGUES), ScriptedModel()
    seeds = [metric.rollout(model, seed=seed)[0]["images"] for seed in (0, 0, 1)]
    assert seeds[0] == seeds[1] != seeds[2]
    given = metric.rollout(model, "none", out=tmp_path / "run", selection=Selection(("fusion",)), placement="front")
    assert [one["id"] for one in given] == ["fusion-0", "fusion-1"]
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["placement"] == "front" and (tmp_path / "run" / "outputs" / "none").is_dir()


@pytest.mark.parametrize(
    ("history", "conditions", "message"),
    [
        (["gt", "self"], {}, "history: expected one mode at a time"),
        ("gt,self", {}, "history: expected one mode at a time"),
        ("gt", {"generations": 2}, "generations: expected 1"),
        ("all", {}, "history"),
    ],
)
def test_a_rollout_gives_one_prediction_per_dialogue(loaded, history, conditions, message):
    with pytest.raises(SpecError, match=message):
        loaded(data=DIALOGUES).rollout("baseline:blank", history, **conditions)


def test_predictions_of_a_run_with_several_generations_are_refused():
    from yanami_metric.given import predicted

    run = api.rollout(DIALOGUES, ScriptedModel(), generations=2)
    with pytest.raises(SpecError, match="expected one generation to take predictions from, got 2"):
        predicted(run)


# Together with others, and from several processes


@pytest.fixture(scope="module")
def small():
    return str(mini_folder(dialogues=8, quiet=True))


def scores(metric, given, **kwargs):
    return metric.compute(predictions=given, references=[one["id"] for one in given], **kwargs)


def test_judges_given_at_loading_are_those_of_compute(loaded):
    judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
    metric = loaded(data=DIALOGUES, judge=judge, answer_judge=judge, weights={"sc": 0.5, "vq": 0.5})
    given = predictions(answers=None)
    assert scores(metric, given) == compute(metric, given, weights={"sc": 0.5, "vq": 0.5})
    assert scores(metric, given)["overall"] == pytest.approx(60)


def test_combined_with_another_metric(loaded):
    import datasets
    import evaluate

    class Drawn(evaluate.Metric):
        """The share of slots with an image."""

        def _info(self):
            one = {"id": datasets.Value("string"), "images": datasets.List(datasets.Image(decode=False))}
            one["answers"] = datasets.List(datasets.Value("string"))
            features = datasets.Features({"predictions": one, "references": datasets.Value("string")})
            return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

        def _compute(self, *, predictions, references):
            images = [image for one in predictions for image in one["images"]]
            return {"drawn": sum(image is not None for image in images) / len(images)}

    judge = ScriptedJudge()
    given = predictions(images=[None, colour_png(1)])
    expected = scores(loaded(data=DIALOGUES, judge=judge, answer_judge=judge), given)
    both = evaluate.combine([loaded(data=DIALOGUES, judge=judge, answer_judge=judge), Drawn()])
    assert scores(both, given) == {**expected, "drawn": 0.5}
    for one in given:
        both.add(prediction=one, reference=one["id"])
    assert both.compute() == {**expected, "drawn": 0.5}


def test_combined_with_itself_under_two_judges(loaded):
    import evaluate

    strict = ScriptedJudge(lambda call: reply(call, passes=False), name="strict")
    mild = ScriptedJudge(name="mild")
    judged = {judge.name: loaded(data=DIALOGUES, judge=judge, answer_judge=judge) for judge in (strict, mild)}
    found = scores(evaluate.combine(judged), predictions())
    assert (found["strict_sc"], found["mild_sc"]) == (0, 100)


def test_two_processes_give_the_numbers_of_one(loaded, small, tmp_path):
    command = [sys.executable, "-m", "tests.metric_processes", small, str(tmp_path)]
    started = [subprocess.Popen([*command, str(process)], env=os.environ) for process in range(2)]
    assert [one.wait(timeout=240) for one in started] == [0, 0]
    results = [json.loads((tmp_path / f"{process}.json").read_text()) for process in range(2)]
    metric = loaded(data=small)
    whole = scores(metric, metric.rollout("baseline:copy-last"))
    assert results[0]["scores"] == whole and results[1]["scores"] is None
    assert sum(one["added"] for one in results) == 8 and all(one["added"] for one in results)
    assert None not in whole.values()


def share(loaded, given, process, experiment):
    metric = loaded(data=DIALOGUES, num_process=2, process_id=process, experiment_id=experiment)
    judge = ScriptedJudge(lambda call: reply(call, passes=call.items[0].id != "c0"))
    if given:
        metric.add_batch(predictions=given, references=[one["id"] for one in given])
    return metric.compute(judge=judge, answer_judge=judge)


def shares(loaded, experiment, *parts):
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(share, loaded, part, process, experiment) for process, part in enumerate(parts)]
    return [one.result() for one in waiting]


def test_a_process_may_have_nothing_to_add(loaded):
    whole = compute(loaded(data=DIALOGUES), predictions())
    assert shares(loaded, "first", predictions(), []) == [whole, None]
    assert shares(loaded, "second", [], predictions()) == [whole, None]
    with pytest.raises(DataError, match="expected at least one prediction, got none"):
        shares(loaded, "neither", [], [])


def test_a_share_that_two_processes_add_is_refused_and_frees_what_it_locked(loaded):
    for _ in range(2):
        with pytest.raises(DataError, match=r"got 'fusion-0', .* twice; was a share added twice\?"):
            shares(loaded, "again", predictions(), predictions()[:2])
    assert shares(loaded, "again", predictions()[:3], predictions()[3:])[0]["sc"] == 50


def test_it_can_be_pickled_before_and_after(loaded):
    metric = loaded(data=DIALOGUES)
    whole = compute(metric, predictions())
    assert compute(pickle.loads(pickle.dumps(metric)), predictions()) == whole  # noqa: S301 - our own bytes


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"id": "nobody", "images": [], "answers": []}], "expected ids of memory.*got 'nobody'; load the metric"),
        (predictions(images=[])[:1], "expected 2 images, one per slot"),
        (predictions(answers=["one"])[:1], "expected 2 answers, one per question"),
        (predictions()[:1] * 2, "'fusion-0' twice"),
    ],
)
def test_what_does_not_fit_the_dialogues_is_refused(loaded, given, message):
    with pytest.raises(DataError, match=message):
        compute(loaded(data=DIALOGUES), given)


def test_ids_must_agree_and_weights_be_known(loaded):
    metric = loaded(data=DIALOGUES)
    with pytest.raises(DataError, match="same ids in the same order"):
        metric.compute(predictions=predictions()[:1], references=["fusion-1"])
    with pytest.raises(SpecError, match="weights"):
        compute(loaded(data=DIALOGUES), predictions(), weights={"quality": 1})
    with pytest.raises(SpecError, match="weights"):
        loaded(data=DIALOGUES, weights={"quality": 1})


@pytest.mark.parametrize(
    ("given", "references", "message"),
    [
        ([], [], "expected at least one prediction, got none"),
        (None, None, "expected at least one prediction, got none"),
        (predictions(), None, "references: expected a list, one per dialogue, got None"),
        (None, ["fusion-0"], "predictions: expected a list, one per dialogue, got None"),
        (predictions(), ["fusion-0"], "got 8 predictions and 1 references"),
        (predictions()[0], ["fusion-0"], "predictions: expected a list, one per dialogue, got dict"),
        (["fusion-0"], ["fusion-0"], "prediction 0: expected a dict of id, images, answers, got str"),
        ([{"id": "fusion-0"}], ["fusion-0"], "prediction 0: expected the fields id, images, answers .*, got id"),
        (predictions(id=7)[:1], ["fusion-0"], "prediction 0: id: expected a string, got int"),
        (predictions()[:1], [0], "reference 0: expected a dialogue's id, got int"),
        (predictions(images=colour_png(0))[:1], ["fusion-0"], "images: expected a list or None, got bytes"),
        (predictions(answers=["a cat", 2])[:1], ["fusion-0"], "answers: expected texts, .* got int"),
        (predictions(answers=None, images=None)[:1], ["fusion-0"], "got None for both in all predictions"),
        (predictions(faults=[{"turn": 1}])[:1], ["fusion-0"], "faults: expected dicts of turn, question, status"),
    ],
)
def test_the_form_of_predictions(loaded, given, references, message):
    with pytest.raises(DataError, match=message):
        loaded(data=DIALOGUES).compute(predictions=given, references=references)


@pytest.mark.parametrize("image", ["nowhere.png", 7])
def test_an_image_that_is_none_names_the_prediction(loaded, image):
    with pytest.raises(ImageError, match=r"prediction 0 \('fusion-0'\): expected an image"):
        compute(loaded(data=DIALOGUES), predictions(images=[image, None])[:1])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"turn": 1, "status": "ok"}, "faults: expected one of generation_error, unsupported, model_refused, got 'ok'"),
        ({"turn": 0, "status": "unsupported"}, "expected faults of what it asks for, got one of turn 0, question None"),
    ],
)
def test_faults_are_of_what_is_asked(loaded, fault, message):
    with pytest.raises(DataError, match=message):
        compute(loaded(data=DIALOGUES), predictions(faults=[{"question": None, "reason": "", **fault}]))


def test_either_all_predictions_have_answers_or_none(loaded):
    with pytest.raises(DataError, match=r"'fusion-1': expected 2 answers, .* got none"):
        compute(loaded(data=DIALOGUES), [predictions()[0], predictions(answers=None)[1]])


def test_what_is_refused_leaves_what_was_added(loaded):
    metric, given = loaded(data=DIALOGUES), predictions()
    metric.add_batch(predictions=given[:2], references=[one["id"] for one in given[:2]])
    with pytest.raises(DataError, match="prediction 1"):
        metric.add_batch(predictions=[given[2], {}], references=["editing-0", "editing-1"])
    assert compute(metric, given[2:]) == compute(loaded(data=DIALOGUES), given)


def test_dialogues_that_are_not_selected_are_unknown(loaded):
    fusion = loaded(data=api.open_data(DIALOGUES, Selection(("fusion",))))
    with pytest.raises(DataError, match=r"expected ids of memory \(2 dialogues\), got 'editing-0'"):
        compute(fusion, predictions()[:3])


def test_a_judge_that_cannot_be_used_leaves_no_lock(loaded):
    metric = loaded(data=DIALOGUES)
    for _ in range(2):
        with pytest.raises((SpecError, ModelError)):
            metric.compute(predictions=predictions()[:1], references=["fusion-0"], judge="nobody")
        assert metric.filelocks is None
    assert compute(metric, predictions())["sc"] == 50
