"""The callback in a real Trainer of transformers."""

from __future__ import annotations

import math
import sys

import pytest
import torch
import transformers

from tests import tiny_transformers
from tests.support import ScriptedJudge, ScriptedModel, dialogue
from tests.test_training import Broken, Kept
from yanami_dataset.schema import SCENARIOS
from yanami_metric.training.callback import YanamiCallback
from yanami_metric.training.curves import FAILED
from yanami_metric.training.inloop import InLoop

FOUR = [dialogue(f"d-{scenario}", scenario) for scenario in SCENARIOS]


class Regression(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean(), "logits": self.layer(x)}


def trainer(folder, model=None, **more):
    data = [{"x": torch.tensor([float(i), 1.0]), "labels": torch.tensor([float(i)])} for i in range(8)]
    arguments = transformers.TrainingArguments(
        str(folder),
        per_device_train_batch_size=2,
        max_steps=4,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **({"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "no"} | more),
    )
    model = model or Regression()
    return transformers.Trainer(model, arguments, train_dataset=data, eval_dataset=data)


def in_loop(judge=None, **more):
    return InLoop(FOUR, judge=judge or ScriptedJudge(), answer_judge=ScriptedJudge(), **more)


def adapt(model, processing):
    assert isinstance(model, torch.nn.Module)
    return ScriptedModel()


def steps(trainer):
    return [entry["step"] for entry in trainer.state.log_history if "yanami/gt/sc" in entry]


def test_whenever_the_trainer_evaluates(tmp_path):
    kept, made = Kept(), trainer(tmp_path)
    YanamiCallback(in_loop(trackers=[kept]), adapt).attach(made)
    made.train()
    assert steps(made) == [2, 4] == [step for step, _, _ in kept.logged]
    metrics = made.evaluate()
    assert metrics["eval_yanami/gt/sc"] == 100 and "eval_yanami/gt/dsu" not in metrics


def test_every_so_many_steps_without_being_attached(tmp_path):
    kept, made = Kept(), trainer(tmp_path)
    made.add_callback(YanamiCallback(in_loop(every=3, trackers=[kept]), adapt))
    made.train()
    assert [step for step, _, _ in kept.logged] == [3] and steps(made) == []


def test_the_losses_are_those_without_it(tmp_path):
    found = []
    for with_it in (False, True):
        transformers.set_seed(0)
        made = trainer(tmp_path, Regression())
        if with_it:
            YanamiCallback(in_loop(), adapt).attach(made)
        made.train()
        found.append([entry["loss"] for entry in made.state.log_history if "loss" in entry])
    assert found[0] == found[1] and len(found[0]) == 4


@pytest.mark.parametrize("broken", [False, True])
def test_the_best_model_by_a_score_and_a_failed_evaluation_stops_no_training(tmp_path, broken):
    best = {"save_strategy": "best", "metric_for_best_model": "yanami/gt/vr", "greater_is_better": True}
    made = trainer(tmp_path, **best)
    YanamiCallback(in_loop(Broken() if broken else None), adapt).attach(made)
    made.train()
    assert made.state.global_step == 4
    if broken:
        assert made.state.best_global_step is None and math.isnan(made.evaluate()["eval_yanami/gt/vr"])
        assert made.state.log_history[-1][FAILED] == 1
    else:
        assert made.state.best_global_step == 2 and made.state.best_metric == made.evaluate()["eval_yanami/gt/vr"]


def test_a_model_with_its_processor_answers(tmp_path):
    folder = tiny_transformers.llava(tmp_path / "llava")
    model = transformers.LlavaForConditionalGeneration.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model.train()
    scores = in_loop(options={"max_new_tokens": 2}).evaluate((model, processor), 1)
    assert scores["yanami/gt/dsu"] is None or 0 <= scores["yanami/gt/dsu"] <= 100
    assert scores["yanami/gt/sc"] is None and scores["yanami/gt/unscored"] == 0 and model.training


def test_nothing_else_imports_transformers():
    import subprocess

    code = (
        "import sys, yanami_metric.training.inloop, yanami_metric.training.reward, yanami_metric.training.trackers, "
        "yanami_metric.training.watching, yanami_metric.cli.watch; "
        "print([name for name in ('torch', 'transformers', 'trackio', 'tensorboard') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
