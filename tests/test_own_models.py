"""docs/own-models.md: its code runs as it stands, BAGEL's with a stand-in for its repository."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.test_repository import blocks
from yanami_dataset.images import sha256
from yanami_metric.mini import mini_folder
from yanami_metric.models import ADAPTERS, check_model, serve
from yanami_metric.models.command_protocol import answer_fault, read_hello
from yanami_metric.presets import load_preset, preset_names

DOCS = Path(__file__).parent.parent / "docs"
TEXT = (DOCS / "own-models.md").read_text(encoding="utf-8")

# What the user writes (bagel_loading.py), with the signature of the repository's inferencer and none of its weights,
# and a torch that can be seeded.
BAGEL_LOADING = """
import hashlib, json, os
import torch
from PIL import Image

print("Loading weights")


class InterleaveInferencer:
    def interleave_inference(
        self, input_lists, think=False, understanding_output=False, max_think_token_n=1000, do_sample=False,
        text_temperature=0.3, cfg_text_scale=3.0, cfg_img_scale=1.5, cfg_interval=[0.4, 1.0], timestep_shift=3.0,
        num_timesteps=50, cfg_renorm_min=0.0, cfg_renorm_type="global", image_shapes=(1024, 1024),
    ):
        settings = [num_timesteps, cfg_text_scale, cfg_img_scale, timestep_shift]
        settings += [think, understanding_output, do_sample]
        terms = [t if isinstance(t, str) else hashlib.sha256(t.tobytes()).hexdigest()[:8] for t in input_lists]
        kinds = ["text" if isinstance(t, str) else t.mode for t in input_lists]
        with open(os.environ["BAGEL_LOG"], "a") as file:
            file.write(json.dumps([settings, terms, kinds]) + "\\n")
        if understanding_output:
            return [f"an answer to {len(terms)} terms"]
        digest = hashlib.sha256(json.dumps([terms, torch.seeds[-1]]).encode()).digest()
        return [Image.new("RGB", (64, 64), tuple(digest[:3]))]


def load_inferencer(weights):
    assert os.path.isdir(weights)
    return InterleaveInferencer()
"""
TORCH = "seeds = []\nmanual_seed = seeds.append\n"


def named_blocks():
    """The files that the page shows, by the name in their first line."""
    found = {
        block.splitlines()[0].removeprefix("# "): block for block in blocks(TEXT, "python") if block.startswith("# ")
    }
    assert {"my_models.py", "program.py", "bagel_core.py", "bagel_model.py", "bagel_program.py"} <= set(found)
    return found


def test_python_of_the_page_is_python():
    found = blocks(TEXT, "python")
    assert len(found) >= 7
    for block in found:
        compile(block, "own-models.md", "exec")


def test_the_class_of_the_page_is_a_model():
    names = {}
    exec(named_blocks()["my_models.py"], names)  # noqa: S102 - our own page
    assert check_model(names["Painter"](steps=30), "Painter").steps == 30


def test_commands_of_the_page_exist():
    from typer.main import get_command

    from yanami_metric.cli import app

    lines = [line for block in blocks(TEXT, "") for line in block.splitlines()]
    assert len(lines) >= 5
    for line in lines:
        yanami, command, *words = shlex.split(line)
        parameters = get_command(app).commands[command].params
        known = {option for parameter in parameters for option in parameter.opts}
        assert yanami == "yanami" and {word for word in words if word.startswith("--")} <= known, line


def test_lines_of_the_page_follow_the_protocol():
    hello, introduction, request, answer = map(json.loads, blocks(TEXT, "json")[0].splitlines())
    assert set(hello) == {"protocol", "load", "call", "output_folder"} and hello["protocol"] == 1
    assert read_hello(introduction)[1] == "commit 3f2a91c"
    assert serve.Request(request).messages[0].text == "Image 1: Make it red."
    assert answer["id"] == request["id"] and answer_fault(answer) == ""


def test_links_of_the_page_lead_somewhere():
    for name in ("own_model.py", "command_model.py", "replay_outputs.py"):
        assert f"`examples/{name}`" in TEXT and (DOCS.parent / "examples" / name).is_file()


def test_the_table_of_presets_is_true():
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| `")
    ]
    table = {row[0]: row for row in rows if len(row) == 4}
    assert list(table) and set(table) == set(preset_names())
    for name, (_, adapter, images, source) in table.items():
        preset = load_preset(name)
        assert adapter.rstrip(":") == preset.adapter and preset.adapter in ADAPTERS
        grid = f", a grid of more than {preset.max_images}" if preset.max_images else ""
        assert images == (preset.placement or "as its adapter has it") + grid
        assert (source == "paper, Table 9") == bool(preset.paper)


@pytest.fixture
def bagel(tmp_path, monkeypatch):
    """A folder with the page's files and stand-ins for what is BAGEL's; runs `yanami rollout` there."""
    for name, block in named_blocks().items():
        (tmp_path / name).write_text(block)
    (tmp_path / "bagel_loading.py").write_text(BAGEL_LOADING)
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "ema.safetensors").write_bytes(b"weights")
    shutil.copy(serve.__file__, tmp_path)

    def roll_out(form, *options):
        monkeypatch.setenv("BAGEL_LOG", str(tmp_path / f"{form}.log"))
        yanami = Path(sys.executable).with_name("yanami")
        wanted = ["--data", mini_folder(dialogues=8), "--limit", "4", "--history", "gt,self", "--out", form]
        command = [yanami, "rollout", "--preset", "bagel", *options, *wanted]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        calls = sorted((tmp_path / f"{form}.log").read_text().splitlines())
        outputs = [path.read_bytes() for path in sorted((tmp_path / form / "outputs").rglob("*.png"))]
        return json.loads((tmp_path / form / "run.json").read_text()), calls, list(map(sha256, outputs))

    return roll_out


def test_bagel_runs_in_both_forms_with_the_settings_of_the_paper(bagel):
    one, calls, images = bagel("class", "--model", "bagel_model:Bagel", "--set", "weights=weights")
    program = f"command:{shlex.quote(sys.executable)} bagel_program.py"
    other = bagel("program", "--model", program, "--set", "load.weights=weights", "--model-tag", "BAGEL-7B-MoT@0123abc")
    assert calls == other[1] and images == other[2]
    assert len(set(images)) == len(images) - 4 >= 16  # the first image of each dialogue is the same in gt and self
    drawn = [json.loads(call) for call in calls if not json.loads(call)[0][5]]
    assert {tuple(settings) for settings, _, _ in drawn} == {(50, 4.0, 1.5, 3.0, False, False, False)}
    told = [json.loads(call) for call in calls if json.loads(call)[0][5]]
    assert told and {(settings[5], settings[6]) for settings, _, _ in told} == {(True, False)}
    for _, terms, kinds in map(json.loads, calls):
        assert kinds[0] == kinds[-1] == "text" and set(kinds) == {"text", "RGB"}
        begins = [True, *(pair == ("text", "text") for pair in pairwise(kinds))]
        assert all(term.startswith(("User:", "Assistant:")) for term, first in zip(terms, begins, strict=True) if first)
    identities = [run["settings"]["model"]["identity"] for run in (one, other[0])]
    assert identities[0].startswith("files:") and identities[1].startswith("BAGEL-7B-MoT@0123abc+")
