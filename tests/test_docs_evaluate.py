"""docs/evaluate.md: its blocks run as they stand, offline and in a folder of their own."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_repository import blocks

TEXT = (Path(__file__).parent.parent / "docs" / "evaluate.md").read_text(encoding="utf-8")
PYTHON, SHELL = blocks(TEXT, "python"), blocks(TEXT, "")
NAMED = {block.splitlines()[0].removeprefix("# "): block for block in PYTHON if re.match(r"# \w+\.py\n", block)}


def shell(text, folder):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page's files are and its first command was run."""
    found = tmp_path_factory.mktemp("page")
    for name, block in NAMED.items():
        (found / name).write_text(block)
    assert shell(SHELL[0], found).stdout.strip().endswith("yanami.py")
    return found


def numbers(text):
    return [float(word) for word in text.split()]


def test_the_page_has_what_is_tested():
    assert (len(PYTHON), len(SHELL), list(NAMED)) == (5, 2, ["share.py"])
    assert len(TEXT.splitlines()) < 90


def test_python_of_the_page_runs_in_a_row(folder):
    code = "".join(block for block in PYTHON if block not in NAMED.values())
    lines = [numbers(line) for line in shell(f'python - <<"END"\n{code}\nEND', folder).stdout.splitlines()]
    blank, copied, (overall, low, high, speed), (paper, evenly) = lines
    assert blank == [0, 0, 1]
    assert copied[0] == paper > 0 and evenly != paper
    assert 0 < low <= overall <= high < 90 and speed > 0


@pytest.mark.slow
def test_the_processes_of_the_page(folder):
    from yanami_metric import api
    from yanami_metric.metric import flat

    printed = sorted(shell(SHELL[1], folder).stdout.splitlines())
    scores = api.evaluate("mini", "baseline:copy-last").scores[0]
    assert printed[0] == "None" and len(printed) == 2
    assert ast.literal_eval(printed[1]) == flat(scores["histories"]["gt"])
