"""The blocks of docs/training.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs" / "training.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


def test_it_is_short():
    assert len(DOCS.read_text().splitlines()) < 110


def test_python(tmp_path):
    found = blocks("python")
    assert len(found) == 4
    (tmp_path / "page.py").write_text("\n".join(found))
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "50", "100", "0", "1.0", "[1.0,"]
    assert lines[3].endswith("yanami/gt/images") and lines[5].endswith(", 0.0]")
    assert list((tmp_path / "tensorboard").glob("events.*"))


def test_shell(tmp_path):
    found = blocks("shell")
    assert len(found) == 1
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euc", found[0]]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    runs = tmp_path / "runs" / "watch" / "checkpoints"
    assert (runs / "checkpoint-500" / "report.html").is_file() and list((runs / "tensorboard").glob("events.*"))
