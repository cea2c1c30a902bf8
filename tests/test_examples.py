"""The examples run as they stand."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import yanami_metric
from tests.browsing import browser, looking, soon  # noqa: F401 - a fixture
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


def test_the_rendered_report_is_of_this_code_and_complete_in_itself(browser):  # noqa: F811
    file = EXAMPLES / "report.html"
    page = file.read_text(encoding="utf-8")
    templates = Path(yanami_metric.__file__).parent / "templates"
    for name in ("report.js", "report.css"):
        assert (templates / name).read_text().strip() in page, f"another {name} than the package's: run make example"
    assert "Not a YANAMI-Bench score" in page and file.stat().st_size < 1_500_000
    with looking(browser, file) as looked:
        looked.page.locator("button.zoom").first.click()
        assert soon(lambda: looked.page.evaluate("document.getElementById('y-image').naturalWidth") == 256)
        assert looked.page.locator("#y-count").inner_text() == "8 of 8 dialogues"
    assert [url for url in looked.requests if not url.startswith("data:")] == [file.as_uri()]
    assert "examples/report.html" in (EXAMPLES.parent / "README.md").read_text()
