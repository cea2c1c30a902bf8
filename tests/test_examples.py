"""The examples run as they stand."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_load_dataset_rollout_compute():
    script = EXAMPLES / "evaluate_mini.py"
    assert len(script.read_text().splitlines()) <= 60
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=os.environ)
    scores = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    gt, own = (ast.literal_eval(scores[history]) for history in ("gt", "self"))
    assert 0 < own["overall"] < gt["overall"] < 100 and gt["vq"] == 100
