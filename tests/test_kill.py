"""kill -9 at any point, then the same command again: the same scores, and nothing finished is done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

COMMAND = [
    sys.executable,
    "-m",
    "yanami_metric.cli",
    "eval",
    "--model",
    "baseline:copy-last",
    "--history",
    "gt,self",
    "--limit",
    "8",
    "--quiet",
    "--out",
]


def eval_(out: Path) -> None:
    subprocess.run([*COMMAND, str(out)], check=True, env=os.environ)


def killed(out: Path, when) -> bool:
    """Run until `when()` holds, then kill -9; False if it ended before."""
    process = subprocess.Popen([*COMMAND, str(out)], env=os.environ)
    while process.poll() is None:
        if when():
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.001)
    assert process.returncode == 0
    return False


def lines(out: Path) -> list[dict]:
    files = [*out.glob("outputs/*/outputs.jsonl"), *out.glob("verdicts.jsonl")]
    return [
        {"file": str(file), **json.loads(line)}
        for file in files
        for line in file.read_bytes().split(b"\n")
        if line.endswith(b"}")
    ]


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    eval_(tmp_path / "whole")
    whole = lines(tmp_path / "whole")
    expected = (tmp_path / "whole" / "scores.json").read_bytes()
    out = tmp_path / "run"
    kills = 0
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.97):  # outputs first, then verdicts
        kills += killed(out, lambda share=share: len(lines(out)) >= share * len(whole))
    assert kills >= 3
    eval_(out)
    assert (out / "scores.json").read_bytes() == expected
    done = lines(out)
    assert len(done) == len(whole)
    outputs = Counter((line["file"], line["key"]) for line in done if "key" in line)
    calls = Counter((line["track"], line["output"], line["fingerprint"]) for line in done if "fingerprint" in line)
    assert max(outputs.values()) == max(calls.values()) == 1


@pytest.mark.slow
def test_killed_at_many_moments(tmp_path):
    """By the clock rather than by what is on disk: also while starting, scoring and reporting."""
    start = time.monotonic()
    eval_(tmp_path / "whole")
    took = time.monotonic() - start
    expected = (tmp_path / "whole" / "scores.json").read_bytes()
    for n in range(12):
        out = tmp_path / f"run{n}"
        for share in (n / 12, (n + 0.5) / 12):
            end = time.monotonic() + share * took
            killed(out, lambda end=end: time.monotonic() > end)
        eval_(out)
        assert (out / "scores.json").read_bytes() == expected, n
        assert (out / "report.html").is_file()
