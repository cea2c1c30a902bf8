"""YanamiEvaluator: model and dialogues in, scores and timing out, with pipelines of the real classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import tiny_diffusers, tiny_transformers
from tests.diffusers_support import few_threads, pictured  # noqa: F401 - a fixture for this module
from tests.support import ScriptedJudge, ScriptedModel, dialogue
from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.features import features, to_row
from yanami_dataset.schema import SCENARIOS
from yanami_metric import Selection
from yanami_metric.data import open_data
from yanami_metric.mini import mini_folder

TIMING = ["total_time_in_seconds", "samples_per_second", "latency_in_seconds"]
DIALOGUES = [dialogue(f"{s}-{n}", s) for s in SCENARIOS for n in range(2)]


@pytest.fixture(scope="module")
def small():
    return mini_folder(dialogues=8, quiet=True)


@pytest.fixture
def judge():
    return ScriptedJudge()


@pytest.fixture(scope="module")
def evaluator():
    from yanami_metric.metric import YanamiEvaluator

    return YanamiEvaluator()


def metric_for(data, **kwargs):
    from yanami_metric.metric import Yanami

    return Yanami(data=data, **kwargs)


def alone(found):
    """The scores without the timing, which is there."""
    assert list(found)[-3:] == TIMING and all(found[name] > 0 for name in TIMING)
    return {name: value for name, value in found.items() if name not in TIMING}


def test_it_is_one_of_evaluates(evaluator):
    from evaluate.evaluator import Evaluator

    assert isinstance(evaluator, Evaluator) and evaluator.task == evaluator.default_metric_name == "yanami"


@pytest.mark.parametrize("metric", [None, "yanami", "yanami/yanami"])
def test_a_baseline_scores_as_by_the_metric(evaluator, small, metric):
    found = evaluator.compute("baseline:copy-last", str(small), metric=metric)
    own = metric_for(small)
    given = own.rollout("baseline:copy-last")
    assert alone(found) == own.compute(predictions=given, references=[one["id"] for one in given])
    assert found["samples_per_second"] == pytest.approx(8 / found["total_time_in_seconds"])
    assert found["latency_in_seconds"] == pytest.approx(found["total_time_in_seconds"] / 8)
    assert found["overall_low"] <= found["overall"] <= found["overall_high"]


def test_a_pipeline_of_diffusers(evaluator, judge, tmp_path):
    pipeline = tiny_diffusers.load(tiny_diffusers.pix2pix(tmp_path))
    pipeline.set_progress_bar_config(disable=True)
    data = [replace(pictured(n, f"{scenario}-0", draws=1), scenario=scenario) for n, scenario in enumerate(SCENARIOS)]
    found = evaluator.compute(model_or_pipeline=pipeline, data=data, judge=judge, answer_judge=judge)
    assert (found["sc"], found["vq"], found["dsu"], found["coverage"]) == (100, 70, None, 1)
    assert {call.candidate.width for call in judge.calls} == {64}


def test_a_pipeline_of_transformers(evaluator, judge, tmp_path):
    from transformers import AutoModelForImageTextToText, AutoProcessor, pipeline

    folder = tiny_transformers.llava(tmp_path)
    parts = {
        "model": AutoModelForImageTextToText.from_pretrained(folder),
        "processor": AutoProcessor.from_pretrained(folder),
    }
    pipe = pipeline("image-text-to-text", **parts, max_new_tokens=3)
    found = evaluator.compute(model_or_pipeline=pipe, data=DIALOGUES, judge=judge, answer_judge=judge)
    assert found["fusion_context_retrieval"] == 0  # weights drawn at random
    # it doesn't draw: no image is judged and none counts as missing
    assert found["sc"] is None and found["coverage"] == 1 and {call.kind for call in judge.calls} <= {"answer"}


def rows(dialogues):
    import datasets

    return datasets.Dataset.from_list([to_row(one) for one in dialogues], features=features())


@pytest.mark.parametrize("form", ["folder", "Data", "dialogues", "Dataset"])
def test_the_forms_of_data(evaluator, small, form):
    data = open_data(small)
    forms = {
        "folder": lambda: small,
        "Data": lambda: data,
        "dialogues": lambda: list(data),
        "Dataset": lambda: rows(data),
    }
    found = alone(evaluator.compute("baseline:blank", forms[form](), history="none"))
    assert found == alone(evaluator.compute("baseline:blank", small, history="none"))
    # and a metric that has the same dialogues in another form fits
    again = evaluator.compute("baseline:blank", forms[form](), metric=metric_for(str(small)), history="none")
    assert alone(again) == found


@pytest.mark.parametrize("data", ["small", pytest.param("mini", marks=pytest.mark.slow)])
def test_conditions_reach_the_rollout(evaluator, small, tmp_path, data):
    chosen, data = Selection(scenarios=("fusion",), limit=2), small if data == "small" else data
    found = evaluator.compute("baseline:reference", data, history="self", selection=chosen, out=tmp_path / "run")
    assert found["fusion_overall"] == 100 and found["overall"] is None
    assert (tmp_path / "run" / "outputs" / "self" / "outputs.jsonl").is_file()


def test_a_loaded_metric_brings_its_dialogues_and_judges(evaluator, judge):
    metric = metric_for(DIALOGUES, judge=judge, answer_judge=judge)
    found = alone(evaluator.compute(ScriptedModel(), metric=metric))
    assert found == alone(evaluator.compute(ScriptedModel(), DIALOGUES, metric=metric))
    assert found["sc"] == 100 and found["fusion_correction_updating"] == 0
    halves = evaluator.compute(ScriptedModel(), metric=metric, weights={"dsu": 0, "sc": 0.5, "vq": 0.5})
    assert (found["vr"], halves["vr"]) == (pytest.approx(88), pytest.approx(85))


@pytest.mark.parametrize("data", [DIALOGUES[1:], [*DIALOGUES[1:], dialogue("fusion-0", "fusion", draws=1)]])
def test_a_metric_about_other_dialogues_is_refused(evaluator, data):
    with pytest.raises(DataError, match=r"about the same dialogues as data .*'fusion-0' differs"):
        evaluator.compute("baseline:blank", data, metric=metric_for(DIALOGUES))


def test_another_metric_is_refused(evaluator):
    import evaluate

    for metric in ("accuracy", evaluate.combine([metric_for(DIALOGUES)])):
        with pytest.raises(SpecError, match=r"metric: expected 'yanami' or evaluate\.load"):
            evaluator.compute("baseline:blank", DIALOGUES, metric=metric)
    with pytest.raises(SpecError, match="expected one of a single process, got one of several"):
        evaluator.compute("baseline:blank", DIALOGUES, metric=metric_for(DIALOGUES, num_process=2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "bootstrap"}, "strategy: .*have intervals already"),
        ({"n_resamples": 100}, "n_resamples: .*have intervals already"),
        ({"confidence_level": 0.9}, "confidence_level: .*have intervals already"),
        ({"random_state": 0}, "random_state: .*seed is that of the rollout"),
        ({"label_column": "label"}, "label_column: .*no such column"),
        ({"input_column": "text"}, "input_column: .*no such column"),
        ({"label_mapping": {"a": 0}}, "label_mapping: .*no such column"),
        ({"split": "test"}, "split: .*Selection"),
        ({"subset": "fusion"}, "subset: .*Selection"),
        ({"tokenizer": "gpt2"}, "tokenizer: .*the model brings its own"),
        ({"feature_extractor": "vit"}, "feature_extractor: .*the model brings its own"),
        ({"device": 0}, "device: .*put the pipeline on its device"),
        ({"generation_kwargs": {}}, "generation_kwargs: .*set them on the pipeline"),
        ({"data": None}, "data: expected 'mini', a folder, a Hub id or dialogues, got None"),
        ({"model_or_pipeline": None}, "model_or_pipeline: expected a spec string"),
    ],
)
def test_no_argument_is_ignored(evaluator, arguments, message):
    with pytest.raises(SpecError, match=message):
        evaluator.compute(**{"model_or_pipeline": "baseline:blank", "data": DIALOGUES, **arguments})


def test_every_argument_of_evaluates_own_is_taken_or_refused(evaluator):
    import inspect

    from evaluate.evaluator import Evaluator

    from yanami_metric.metric import _REFUSED

    names = set(inspect.signature(Evaluator.compute).parameters)
    taken = {
        name for name, one in inspect.signature(evaluator.compute).parameters.items() if one.kind != one.VAR_KEYWORD
    }
    assert names - {"self"} <= taken | set(_REFUSED)
    # what nobody knows is refused by the rollout
    with pytest.raises(TypeError, match="colour"):
        evaluator.compute("baseline:blank", DIALOGUES, colour="red")
    # what is not given may be handed on as None
    assert evaluator.compute("baseline:blank", DIALOGUES, tokenizer=None, split=None)["coverage"] < 1
