"""The examples run as they stand."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from yanami_metric.mini import mini_folder

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script, *arguments, cwd=None):
    """What an example prints: lines of a name and a value, as a dictionary."""
    command = [sys.executable, EXAMPLES / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ, cwd=cwd)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_load_dataset_rollout_compute():
    assert len((EXAMPLES / "evaluate_mini.py").read_text().splitlines()) <= 60
    scores = run("evaluate_mini.py")
    gt, own = (ast.literal_eval(scores[history]) for history in ("gt", "self"))
    assert 0 < own["overall"] < gt["overall"] < 100 and gt["vq"] == 100


@pytest.mark.parametrize("script", ["own_model.py", "command_model.py", "replay_outputs.py"])
def test_one_example_for_each_way_of_bringing_a_model(script, tmp_path):
    scores = run(script, cwd=tmp_path)
    gt = ast.literal_eval(scores["gt"])
    assert 0 < gt["sc"] < 60 and 0 < gt["overall"] < 100 and gt["vq"] == 100
    if script != "replay_outputs.py":
        assert ast.literal_eval(scores["self"])["sc"] < gt["sc"]
    assert list(tmp_path.iterdir()) == []


def test_the_class_of_the_example_is_found_by_its_spec_string(tmp_path):
    yanami = Path(sys.executable).with_name("yanami")
    wanted = ["--data", mini_folder(dialogues=8), "--limit", "4", "--out", tmp_path / "run"]
    command = [yanami, "rollout", "--model", "own_model:Turned", "--set", "degrees=90", *wanted]
    subprocess.run(command, capture_output=True, check=True, env=os.environ, cwd=EXAMPLES)
    assert len((tmp_path / "run/outputs/gt/outputs.jsonl").read_text().splitlines()) >= 8
