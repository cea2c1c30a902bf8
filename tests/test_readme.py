"""The README's table of models is true line by line: each spec is rolled out, and it draws and answers as told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny_diffusers, tiny_transformers
from tests.server import Server, chat, images
from tests.strategies import colour_png
from tests.support import dialogue
from yanami_dataset.builder import write_dataset
from yanami_dataset.schema import SCENARIOS
from yanami_metric.api import rollout
from yanami_metric.run_folder import RunFolder

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text()
KLEIN = {**tiny_diffusers.KLEIN_CALL, "num_inference_steps": 1, "max_sequence_length": 512}  # what tiny weights need
LONG = {**KLEIN, "max_sequence_length": 4096}  # the mini bench is long in bytes, which are this tokenizer's tokens
ROWS = re.findall(
    r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", README.split("## Models")[1].split("\n## ")[0], re.MULTILINE
)


@pytest.fixture(scope="module")
def served():
    with Server(lambda call: chat("a cat") if "chat" in call.path else images(colour_png(5))) as server:
        yield server


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "outputs").mkdir()
    answers = [{"dialogue": "d1", "question": q.id, "text": q.answer} for q in dialogue().questions]
    (folder / "outputs" / "manifest.jsonl").write_text("\n".join(map(json.dumps, answers)))
    return {
        "diffusers": tiny_diffusers.klein(folder / "klein"),
        "llava": tiny_transformers.llava(folder / "llava"),
        "janus": tiny_transformers.janus(folder / "janus"),
        "replay": folder / "outputs",
    }


def specs(row, folders, served):
    """What the row's spec may stand for here: (spec, options, draws, answers)."""
    program = f"command:{sys.executable} {EXAMPLES / 'command_program.py'}"
    known = {
        "diffusers:<id or folder>": [
            (f"diffusers:{folders['diffusers']}", KLEIN, True, False),
        ],
        "transformers:<id or folder>": [
            (f"transformers:{folders['llava']}", {"max_new_tokens": 3}, False, True),
            (f"transformers:{folders['janus']}", {"max_new_tokens": 3}, True, True),
        ],
        "openai:<model>@<base url>": [
            (f"openai:m@{served.url}", {}, False, True),
            (f"openai:m@{served.url}", {"draw": "images"}, True, True),
        ],
        "command:<argv>": [(program, {"answer": "a cat"}, True, True)],
        "replay:<folder>": [(f"replay:{folders['replay']}", {}, False, True)],
        "module:Class": [("own_model:Turned", {}, True, False)],
    }
    return known.get(row, [(row, {}, True, True)])


def test_the_table_is_there():
    assert len(ROWS) == 9


@pytest.mark.parametrize(("spec", "draws", "answers"), ROWS)
def test_a_line_of_the_table_of_models(spec, draws, answers, folders, served, tmp_path, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(EXAMPLES)
    for n, (real, options, can_draw, can_answer) in enumerate(specs(spec, folders, served)):
        told = {"yes": True, "no": False}
        assert told.get(draws, can_draw) == can_draw and told.get(answers, can_answer) == can_answer
        if spec == "command:<argv>":
            monkeypatch.setenv("PYTHONPATH", str(ROOT / "yanami_metric" / "models"))
        run = rollout([dialogue()], real, history="gt", options=options, out=tmp_path / f"run{n}")
        with RunFolder(run.path) as folder:
            records = folder.current("gt", "d1").values()
            outputs = set(folder.settings["model"]["caps"]["outputs"])
        assert ("images" in outputs, "text" in outputs) == (can_draw, can_answer)
        kinds = {"images" if record.question is None else "text" for record in records}
        assert kinds == outputs
        drawn = [record for record in records if record.question is None]
        assert {record.status for record in drawn} <= {"ok"}, [record.reason for record in drawn]
        # an untrained model may answer nothing, blank and the copying baseline by their nature
        answered = {record.status for record in records if record.question is not None}
        assert answered <= {"ok", "missing_output"}


@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=pytest.mark.slow) for n in ("diffusers", "transformers")), "openai"]
)
def test_the_example_of_each_library(name, folders, served, tmp_path):
    source = {"diffusers": folders["diffusers"], "transformers": folders["llava"], "openai": f"m@{served.url}"}[name]
    done = subprocess.run(
        [
            sys.executable,
            EXAMPLES / f"{name}_model.py",
            str(source),
            *([json.dumps(LONG)] if name == "diffusers" else []),
        ],
        capture_output=True,
        text=True,
        env=os.environ,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("gt ")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_on_disk_is_evaluated_with_one_command(folders, tmp_path):
    write_dataset([dialogue(f"d-{scenario}", scenario) for scenario in SCENARIOS], tmp_path / "data", name="small")
    command = [Path(sys.executable).with_name("yanami"), "eval", "--model", f"diffusers:{folders['diffusers']}"]
    options = [part for name, value in KLEIN.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    more = [*options, "--data", tmp_path / "data", "--quiet", "--out", tmp_path / "run"]
    done = subprocess.run([*command, *more], env=os.environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, NOBODY)  # the pixel judge can't judge what is no mini bench
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["histories"]["gt"]["formula"] == "0.6 SC + 0.4 VQ"
    assert scores["histories"]["gt"]["statuses"] == {"checks": {"not_judgeable": 8}, "quality": {"not_judgeable": 8}}


NOBODY = "not everything could be scored: 16 not_judgeable; give --judge and --answer-judge that can\n"
