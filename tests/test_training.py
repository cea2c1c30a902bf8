"""Evaluations in a training loop: what they return and log, what they leave alone, and what they never stop."""

from __future__ import annotations

import ast
import importlib.util
import logging
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import tiny_diffusers
from tests.support import ScriptedJudge, ScriptedModel, dialogue
from tests.training_worker import Broken
from yanami_dataset.errors import HistoryError, MissingExtraError, ModelError, SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric import Caps, Output, Selection, api
from yanami_metric.models.baseline import Blank, CopyLast
from yanami_metric.records import JudgeError
from yanami_metric.runs import Run
from yanami_metric.training.curves import FAILED, SIDE
from yanami_metric.training.inloop import InLoop
from yanami_metric.training.trackers import TensorBoard, Trackio, Wandb, open_trackers
from yanami_metric.training.undisturbed import undisturbed

EXAMPLES = Path(__file__).parent.parent / "examples"
FOUR = [dialogue(f"d-{scenario}", scenario) for scenario in SCENARIOS]


class Kept:
    """A tracker that keeps what it is given."""

    def __init__(self):
        self.logged = []

    def log(self, scalars, images, step):
        self.logged.append((step, dict(scalars), dict(images)))


class Failing:
    def log(self, scalars, images, step):
        raise OSError("disk full")


def scripted(**more):
    return InLoop(FOUR, judge=ScriptedJudge(), answer_judge=ScriptedJudge(), **more)


def test_scores_are_those_of_a_run_of_the_same_dialogues(tmp_path):
    in_loop = InLoop(limit=8, history="gt,self", out=tmp_path)
    scores = in_loop.evaluate(CopyLast(), 500)
    run = api.rollout("mini", CopyLast(), history=("gt", "self"), selection=Selection(limit=8))
    expected = api.score(api.judge(run))["histories"]
    for history in ("gt", "self"):
        for name in ("overall", "vr", "dsu", "sc", "vq"):
            for suffix, key in (("", "value"), ("_low", "low"), ("_high", "high")):
                assert scores[f"yanami/{history}/{name}{suffix}"] == expected[history][name][key]
        assert scores[f"yanami/{history}/editing/sc"] == expected[history]["scenarios"]["editing"]["sc"]["value"]
        assert (scores[f"yanami/{history}/coverage"], scores[f"yanami/{history}/unscored"]) == (1, 0)
    assert scores[FAILED] == 0
    kept = Run.open(tmp_path / "step-00000500")
    assert len(kept.data) == 8 and [d.id for d in in_loop.data] == [d.id for d in kept.data]
    assert in_loop.evaluate(Blank(), 500)["yanami/gt/sc"] != scores["yanami/gt/sc"], "the older run was taken"


def test_only_at_multiples_of_every():
    model = ScriptedModel()
    in_loop = scripted(every=3)
    assert [in_loop.evaluate(model, step) is not None for step in range(5)] == [True, False, False, True, False]


def test_what_is_logged_and_the_picture():
    kept = Kept()
    drawing = ScriptedModel(
        lambda request: Output(status="model_refused") if request.dialogue == "d-fusion" else None,
        caps=Caps(outputs=frozenset({"images"})),
    )
    scores = scripted(trackers=[kept], rows=2).evaluate(drawing, 7)
    ((step, scalars, images),) = kept.logged
    assert step == 7 and scalars == {name: value for name, value in scores.items() if value is not None}
    assert scores["yanami/gt/dsu"] is None and "yanami/gt/dsu" not in scalars
    (image,) = images.values()
    assert list(images) == ["yanami/gt/images"] and image.width > 2 * SIDE and 2 * SIDE < image.height < 3 * SIDE
    colours = np.asarray(image)
    refused, drawn = colours[SIDE // 4, -SIDE // 2], colours[-SIDE // 2, -SIDE // 2]
    assert tuple(refused) == (211, 211, 211) and tuple(drawn) != (211, 211, 211)


@pytest.mark.parametrize(
    "wrong",
    [
        {"history": "later"},
        {"judge": "nobody"},
        {"trackers": "paper"},
        {"every": 0},
        {"limit": 3, "selection": Selection()},
    ],
)
def test_wrong_arguments_raise_at_once(wrong):
    with pytest.raises(SpecError):
        InLoop(FOUR, **wrong)


def test_dialogues_that_the_history_mode_cant_take_raise_at_once_and_missing_scenarios_are_told(caplog):
    with pytest.raises(HistoryError):
        InLoop([dialogue(targets=False)])
    with caplog.at_level(logging.WARNING, "yanami"):
        InLoop([dialogue()])
    assert "no dialogue is of fusion, modeling, reasoning" in caplog.text


def test_what_is_no_model_raises():
    with pytest.raises(ModelError, match="caps"):
        scripted().evaluate(torch.nn.Linear(1, 1), 0)
    with pytest.raises(SpecError, match="options"):
        scripted(options={"steps": 1}).evaluate(ScriptedModel(), 0)


def test_a_judge_that_breaks_is_told_and_leaves_no_scores(caplog):
    kept = Kept()
    in_loop = InLoop(FOUR, judge=Broken(), trackers=[kept])
    with caplog.at_level(logging.WARNING, "yanami"):
        assert in_loop.evaluate(ScriptedModel(), 4) == {FAILED: 1.0}
    assert "step 4 failed" in caplog.text and "this judge is broken" in caplog.text and "Traceback" in caplog.text
    assert kept.logged == [(4, {FAILED: 1.0}, {})]


def test_judge_calls_that_fail_are_unscored():
    def fails(call):
        raise JudgeError("transport_error", "no answer")

    in_loop = InLoop(FOUR, judge=ScriptedJudge(fails), answer_judge=ScriptedJudge())
    scores = in_loop.evaluate(ScriptedModel(), 4)
    assert scores["yanami/gt/sc"] is None and scores["yanami/gt/unscored"] == 16 and scores[FAILED] == 0


def test_a_tracker_that_fails_is_told_and_the_scores_stay(caplog):
    kept = Kept()
    scores = scripted(trackers=[Failing(), kept]).evaluate(ScriptedModel(), 4)
    assert scores["yanami/gt/sc"] == 100 and scores[FAILED] == 1 and "disk full" in caplog.text
    assert len(kept.logged) == 1


class Noisy(torch.nn.Module):
    """A model whose drawing depends on its mode and uses up everybody's random numbers."""

    caps, identity = Caps(outputs=frozenset({"images"}), min_images=1), "noisy"

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
        self.seen = []

    def generate(self, requests):
        random.random(), np.random.rand(), torch.rand(1)
        self.seen.append((self.training, self.layers[1].training, torch.is_grad_enabled()))
        return [Output(images=[r.images[-1].read()] * r.count) for r in requests]


def losses(in_loop):
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    model = Noisy()
    model.layers[2].eval()  # a frozen part stays as it is
    optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(4):
        loss = model.layers(torch.rand(4, 3) + random.random() + float(np.random.rand())).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
        if in_loop is not None:
            in_loop.evaluate(model, step)
        assert [part.training for part in (model, *model.layers)] == [True, True, True, False]
    return found, model.seen


def test_training_goes_on_as_if_nothing_had_happened():
    without, _ = losses(None)
    found, seen = losses(scripted(every=2))
    assert found == without
    assert seen and set(seen) == {(False, False, False)}


def test_a_pipeline_of_diffusers_with_its_scheduler_put_back(tmp_path):
    pipeline = tiny_diffusers.load(tiny_diffusers.klein(tmp_path))
    pipeline.transformer.train()
    scheduler = pipeline.scheduler
    before = scheduler.timesteps.clone()
    call = {**tiny_diffusers.KLEIN_CALL, "num_inference_steps": 1, "max_sequence_length": 512}
    scores = scripted(options=call).evaluate(pipeline, 3)
    assert scores["yanami/gt/sc"] == 100 and scores["yanami/gt/unscored"] == 0
    assert pipeline.transformer.training and pipeline.scheduler is scheduler
    assert torch.equal(scheduler.timesteps, before)


def test_a_model_is_not_closed():
    class Closing(ScriptedModel):
        def close(self):
            raise AssertionError

    assert scripted().evaluate(Closing(), 0)[FAILED] == 0


def test_modes_are_put_back_after_an_exception():
    model = Noisy()
    with pytest.raises(ZeroDivisionError), undisturbed(model):
        assert not model.layers[0].training
        raise ZeroDivisionError
    assert model.layers[0].training and torch.is_grad_enabled()


# Trackers


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    in_loop = scripted(trackers=[TensorBoard(tmp_path)])
    for step in (5, 10):
        in_loop.evaluate(ScriptedModel(), step)
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in found.Scalars("yanami/gt/sc")] == [(5, 100), (10, 100)]
    assert [event.step for event in found.Images("yanami/gt/images")] == [5, 10]


def test_trackio(tmp_path):
    script = """
from tests.support import ScriptedModel
from tests.test_training import scripted
from yanami_metric.training.trackers import Trackio
in_loop = scripted(trackers=[Trackio("p", "r")])
for step in (5, 10):
    assert in_loop.evaluate(ScriptedModel(), step)["yanami/failed"] == 0
import trackio
trackio.finish()
from trackio.sqlite_storage import SQLiteStorage
logs = SQLiteStorage.get_logs("p", "r")
assert [(log["step"], log["yanami/gt/sc"]) for log in logs] == [(5, 100), (10, 100)], logs
assert logs[0]["yanami/gt/images"]["_type"] == "trackio.image", logs
"""
    env = os.environ | {"TRACKIO_DIR": str(tmp_path)}
    root = EXAMPLES.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


WANDB = """
runs, run = [], None
Image = lambda image: ("image", image.size)
class Run:
    def __init__(self, **given): self.given, self.defined, self.logged = given, [], []
    def define_metric(self, *names, **more): self.defined.append((names, more))
    def log(self, values): self.logged.append(values)
def init(**given):
    global run
    run = Run(**given)
    runs.append(run)
    return run
"""


def test_wandb_as_far_as_its_documentation_goes(tmp_path):
    (tmp_path / "wandb.py").write_text(WANDB)
    script = """
import wandb
from tests.support import ScriptedModel
from tests.test_training import scripted
from yanami_metric.training.trackers import Wandb
in_loop = scripted(trackers=[Wandb("p", "r")])
for step in (5, 10):
    assert in_loop.evaluate(ScriptedModel(), step)["yanami/failed"] == 0
(run,) = wandb.runs
assert run.given == {"project": "p", "name": "r", "mode": "offline"}
assert run.defined == [(("yanami/step",), {}), (("yanami/*",), {"step_metric": "yanami/step"})]
assert [(values["yanami/step"], values["yanami/gt/sc"]) for values in run.logged] == [(5, 100), (10, 100)]
assert run.logged[0]["yanami/gt/images"][0] == "image"
"""
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{EXAMPLES.parent}"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_trackers_by_name(tmp_path):
    assert [type(one) for one in open_trackers("trackio,tensorboard")] == [Trackio, TensorBoard]
    assert open_trackers("none") == open_trackers([]) == []
    kept = Kept()
    assert open_trackers(kept) == open_trackers([kept]) == [kept]
    there = [kind for kind in (Trackio, Wandb, TensorBoard) if importlib.util.find_spec(kind.__name__.lower())]
    assert [type(one) for one in open_trackers("auto")] == there
    if Wandb not in there:
        with pytest.raises(MissingExtraError, match="pip install wandb"):
            InLoop(FOUR, trackers="wandb")


# The example


@pytest.mark.slow
def test_the_example_learns():
    path = EXAMPLES / "finetune_tiny.py"
    assert len(path.read_text().splitlines()) < 120
    done = subprocess.run([sys.executable, path, "160"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    before, _, after = (ast.literal_eval(line.split(" ", 1)[1]) for line in done.stdout.splitlines())
    assert before["sc"] + 15 < after["sc"] and before["vr"] + 15 < after["vr"]
