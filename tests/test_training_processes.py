"""An evaluation under several processes: the same numbers as in one, calls in lockstep, and nobody waits for ever."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training_worker import SETTINGS, Editor, fails_once
from yanami_metric.run_folder import RunFolder
from yanami_metric.training.curves import FAILED
from yanami_metric.training.inloop import InLoop

ROOT = Path(__file__).parent.parent


def together(folder, what, size=2):
    """What each of several processes got."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.training_worker", str(folder), what]
    running = [
        subprocess.Popen(command, cwd=ROOT, env=os.environ | shared | {"RANK": str(rank)}, stderr=subprocess.PIPE)
        for rank in range(size)
    ]
    try:
        said = [one.communicate(timeout=100)[1].decode() for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [0] * size, said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)], said


@pytest.fixture(scope="module")
def alone():
    in_loop = InLoop(**SETTINGS)
    return in_loop.evaluate(Editor(), 1), in_loop.evaluate(Editor(fails_once), 1)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_numbers_are_those_of_one_process_and_all_are_called_alike(alone, tmp_path, size):
    ranks, _ = together(tmp_path, "works", size)
    for rank in ranks:
        assert rank["scores"] == [alone[0]] * 2 and rank["scores"][0][FAILED] == 0
        assert rank["same"] and rank["total"] == size
        assert rank["calls"] == ranks[0]["calls"], "not in lockstep"
        assert {batch for _, _, batch in rank["calls"]} == {1}
    single = Editor()
    InLoop(**SETTINGS).evaluate(single, 1)
    assert len(single.calls) / size <= len(ranks[0]["calls"]) / 2 < len(single.calls) / size + 30


def test_an_item_that_fails_in_one_process_is_unscored_and_nobody_hangs(alone, tmp_path):
    ranks, _ = together(tmp_path, "fails")
    assert [rank["scores"] for rank in ranks] == [[alone[1]] * 2] * 2
    assert ranks[0]["calls"] == ranks[1]["calls"]
    scores = ranks[0]["scores"][0]
    assert scores[FAILED] == 0 and 0 < scores["yanami/gt/unscored"] < scores["yanami/self/unscored"]
    with RunFolder(tmp_path / "runs-fails" / "step-00000002") as folder:
        record = folder.current("gt", "mini-editing-0000")[2, None]
        assert (record.status, record.reason) == ("generation_error", "RuntimeError: this item fails")


def test_a_judge_that_breaks_stops_no_process(tmp_path):
    ranks, said = together(tmp_path, "judge")
    assert [rank["scores"] for rank in ranks] == [[{FAILED: 1}] * 2] * 2
    assert ranks[0]["total"] == 2 and "this judge is broken" in said[0] and "this judge is broken" not in said[1]
