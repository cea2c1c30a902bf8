"""The command as a user runs it: a fresh process, files on disk, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import load_dataset

ROOT = Path(__file__).parent.parent
PHOTOS = ROOT / "examples" / "photos"


def yanami(*arguments, cwd=None, code=0):
    command = [sys.executable, "-m", "yanami_metric.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The three baselines on part of the mini bench, with no other argument."""
    folder = tmp_path_factory.mktemp("work")
    return folder, yanami("eval", "--limit", 12, cwd=folder)


def test_eval_without_a_model_is_the_three_baselines_under_four_histories(evaluated):
    folder, done = evaluated
    assert "smoke and calibration bench" in done.stdout and "| gt | baseline:reference | 100.00" in done.stdout
    for name in ("reference", "copy-last", "blank"):
        run = folder / "runs" / "mini-limit12" / f"baseline-{name}"
        assert f"report: {run.relative_to(folder)}/report.html" in done.stdout
        scores = json.loads((run / "scores.json").read_text())
        assert list(scores["histories"]) == ["gt", "self", "last", "none"]
        assert scores["schema"] == 1 and scores["dataset"]["mini"] is True
        assert scores["dataset"]["dialogues"] == 12 and len(scores["histories"]["gt"]["scenarios"]) == 4
        assert (run / "report.html").is_file() and (run / "report.md").is_file()


def test_the_stages_give_what_eval_gives(evaluated, tmp_path):
    folder, _ = evaluated
    run = tmp_path / "run"
    yanami("rollout", "--model", "baseline:copy-last", "--history", "gt,self,last,none", "--limit", 12, "--out", run)
    yanami("judge", run)
    told = yanami("score", run, "--json")
    assert yanami("report", run).stdout.strip() == str(run / "report.html")
    whole = (folder / "runs/mini-limit12/baseline-copy-last/scores.json").read_text()
    assert (run / "scores.json").read_text() == whole
    assert json.loads(told.stdout) == json.loads(whole)


def test_eval_again_does_nothing_and_says_the_same(evaluated):
    folder, done = evaluated
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    times = [path.stat().st_mtime_ns for path in files]
    assert yanami("eval", "--limit", 12, cwd=folder).stdout == done.stdout
    assert [path.stat().st_mtime_ns for path in files] == times


def test_other_settings_in_the_same_folder_are_refused(evaluated):
    folder, _ = evaluated
    run = folder / "runs/mini-limit12/baseline-blank"
    done = yanami("eval", "--model", "baseline:blank", "--limit", 12, "--seed", 5, "--out", run, code=2)
    assert "holds a run with other settings" in done.stderr and "seed: the folder has 0, asked for is 5" in done.stderr
    assert "Traceback" not in done.stderr


def test_quiet_and_json(evaluated, tmp_path):
    arguments = ("eval", "--model", "baseline:blank", "--limit", 4, "--out", tmp_path / "run")
    assert yanami(*arguments, "--quiet").stdout == ""
    told = json.loads(yanami(*arguments, "--json").stdout)
    assert told == json.loads((tmp_path / "run" / "scores.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "--data", "nowhere"], "expected 'mini', an existing folder or the Hub id of a dataset"),
        (["eval", "--model", "baseline:magic"], "expected a model spec"),
        (["eval", "--judge", "nobody"], "expected a judge spec"),
        (["eval", "--history", "gt,past"], "history: expected one of gt, self, last, none, got 'past'"),
        (["eval", "--placement", "middle"], "placement: expected one of"),
        (["eval", "--scenario", "cooking"], "scenario: expected one of"),
        (["eval", "--limit", "0"], "limit: expected 1 or more"),
        (["eval", "--shard", "4/4"], "shard: expected i/n with 0 <= i < n"),
        (["eval", "--model", "json:JSONDecoder", "--set", "x"], "expected NAME=VALUE"),
        (["score", "nowhere"], "expected a run folder with a run.json"),
        (["data", "show", "nowhere"], "doesn't exist"),
        (["data", "import", "--format", "messages", "nowhere", "out"], "nowhere"),
    ],
)
def test_what_is_wrong_is_one_message_and_exit_code_2(evaluated, tmp_path, arguments, message):
    done = yanami(*arguments, cwd=tmp_path, code=2)
    assert message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


MODEL = """
from yanami_metric import Caps, Output

class Painter:
    caps = Caps(outputs=frozenset({"images"}))
    identity = "painter/1"
    def __init__(self, fail=False):
        self.fail = fail
    def generate(self, requests):
        if self.fail:
            raise MemoryError("no room")
        return [Output(images=[request.images[0].read()] * request.count) for request in requests]
"""


def test_a_class_of_ones_own_with_options(evaluated, tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    yanami("eval", "--model", "mine:Painter", "--limit", 4, cwd=tmp_path)
    scores = json.loads((tmp_path / "runs/mini-limit4/mine-Painter/scores.json").read_text())
    entry = scores["histories"]["gt"]
    assert entry["formula"] == "0.6 SC + 0.4 VQ" and entry["overall"] == entry["vr"] and entry["dsu"]["value"] is None


def test_what_could_not_be_scored_is_exit_code_3_and_is_tried_again(evaluated, tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    command = ("eval", "--model", "mine:Painter", "--limit", 4, "--out", "run", "--set")
    done = yanami(*command, "fail=true", cwd=tmp_path, code=3)
    assert "not everything could be scored" in done.stderr and "generation_error" in done.stderr
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["histories"]["gt"]["overall"]["value"] is None
    assert scores["histories"]["gt"]["overall"]["bounds"] == [0, 100]
    yanami(*command, "fail=true", cwd=tmp_path, code=3)


def test_photographs_with_targets_and_without(tmp_path):
    for name, histories in (("with-targets", "gt,self"), ("without-targets", "self,last,none")):
        source = PHOTOS / f"dialogues-{name}.jsonl"
        yanami("data", "import", "--format", "messages", source, tmp_path / name)
        assert "turn 0" in yanami("data", "show", tmp_path / name).stdout.lower()
        assert len(load_dataset(str(tmp_path / name), split="test")) >= 1
        out = tmp_path / f"run-{name}"
        done = yanami(
            "eval",
            "--data",
            tmp_path / name,
            "--model",
            "baseline:copy-last",
            "--history",
            histories,
            "--out",
            out,
            code=3,
        )
        assert "not_judgeable; give --judge" in done.stderr and "smoke and calibration" not in done.stdout
        assert "| History | Model | Scenario |" in done.stdout  # of one scenario there are no scores over all
        # what nobody could judge is no 0: neither in the list nor at the checks
        page = (out / "report.html").read_text()
        assert re.search(r'"scores":\{"\w+":\[null,null,null,', page)
        assert '"tone":"open","value":null,"status":"not_judgeable"' in page
        assert '"value":0,"status":"not_judgeable"' not in page
    done = yanami(
        "eval",
        "--data",
        tmp_path / "without-targets",
        "--model",
        "baseline:blank",
        "--history",
        "gt",
        code=2,
        cwd=tmp_path,
    )
    assert "use --history self, last or none" in done.stderr


def test_a_mini_bench_of_ones_own_size(tmp_path):
    done = yanami("data", "mini", tmp_path / "long", "--dialogues", 4, "--turns", 43, "--size", 128, "--seed", 3)
    assert "targets the pixel judge misread" in done.stdout
    rows = load_dataset(str(tmp_path / "long"), split="test")
    assert [len(row["turns"]) for row in rows.remove_columns("images")] == [43] * 4
    assert yanami("data", "show", tmp_path / "long", "mini-editing-0000").stdout.count("user") >= 43


def test_help_starts_fast_and_imports_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from yanami_metric.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; print(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "scipy", "pyarrow", "PIL", "datasets", "huggingface_hub", "evaluate", "torch", "pandas", "jinja2"}
    assert not heavy & {name.partition(".")[0] for name in loaded}


def test_a_dry_run_says_what_would_be_asked_for_and_writes_nothing(tmp_path):
    arguments = ("--model", "baseline:copy-last", "--limit", 8, "--history", "gt,self", "--price-image", "0.5")
    told = yanami("rollout", "--dry-run", *arguments, cwd=tmp_path).stdout
    images = [int(found) for found in re.findall(r"for (\d+) images, 32 answers; 0 outputs exist already", told)]
    assert len(images) == 2 and f"price, if nothing exists already: {sum(images) / 2:.2f}" in told
    assert list(tmp_path.iterdir()) == []


def test_models_lists_adapters_classes_and_presets():
    told = yanami("models").stdout
    for name in ("diffusers", "command", "Flux2KleinPipeline", "OmniGenPipeline", "bagel", "qwen-image-edit-plus"):
        assert f"  {name} " in told
    assert "not run here" in told
    known = json.loads(yanami("models", "--json").stdout)
    assert set(known) == {"adapters", "pipeline classes of diffusers", "presets"}


def test_a_preset_fills_in_what_the_options_leave_open(tmp_path):
    done = yanami("eval", "--preset", "bagel", cwd=tmp_path, code=2)
    assert "name the one that runs the model" in done.stderr  # a command: to be filled in
    program = f"command:{sys.executable} {PHOTOS.parent / 'command_program.py'}"
    os.environ["PYTHONPATH"] = str(ROOT / "yanami_metric" / "models")
    try:
        yanami("rollout", "--preset", "omnigen2", "--model", program, "--limit", 1, "--set", "answer=x", cwd=tmp_path)
    finally:
        del os.environ["PYTHONPATH"]
    settings = json.loads((tmp_path / "runs/mini-limit1/omnigen2/run.json").read_text())["settings"]
    assert (settings["placement"], settings["max_images"]) == ("front", 3)
    assert settings["model"]["options"] == {
        "num_inference_steps": 50,
        "text_guidance_scale": 4.0,
        "align_res": False,
        "answer": "x",
    }


def test_keys_are_not_taken_as_options(tmp_path):
    done = yanami("eval", "--model", "openai:m@http://127.0.0.1:1/v1", "--set", "api_key=sk-123", cwd=tmp_path, code=2)
    assert "keys come from the environment" in done.stderr and "sk-123" not in done.stderr
