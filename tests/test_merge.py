"""Shards run apart and merged are the whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from yanami_dataset.errors import RunFolderError
from yanami_metric.api import evaluate, judge, report, rollout, score
from yanami_metric.data import Selection
from yanami_metric.merging import merge
from yanami_metric.runs import Run


def shard(tmp_path, i, n=2, **kwargs):
    chosen = Selection(limit=8, shard=(i, n))
    arguments = {"history": "gt,self", "selection": chosen, "out": tmp_path / f"shard{i}of{n}", **kwargs}
    return rollout("mini", "baseline:copy-last", **arguments)


def test_merged_shards_score_as_the_whole(tmp_path):
    whole = evaluate(
        "mini", "baseline:copy-last", history="gt,self", selection=Selection(limit=8), out=tmp_path / "whole"
    ).scores[0]
    runs = [judge(shard(tmp_path, i)).path for i in range(2)]
    with (runs[0] / "verdicts.jsonl").open("ab") as torn:
        torn.write(b'{"dialogue": "torn')
    merged = Run.open(merge(runs, tmp_path / "merged"))
    assert score(merged) == whole
    assert report(merged).is_file()
    calls = (merged.path / "verdicts.jsonl").read_text().count("\n")
    judge(merged)
    assert (merged.path / "verdicts.jsonl").read_text().count("\n") == calls


def test_what_is_no_full_set_of_shards_is_refused(tmp_path):
    first, second = (shard(tmp_path, i).path for i in range(2))
    with pytest.raises(RunFolderError, match="expected each of the 2 shards once, got 0/2"):
        merge([first], tmp_path / "merged")
    with pytest.raises(RunFolderError, match="got 0/2, 0/2"):
        merge([first, first], tmp_path / "merged")
    other = shard(tmp_path, 1, seed=7, out=tmp_path / "other").path
    with pytest.raises(RunFolderError, match="others in seed"):
        merge([first, other], tmp_path / "merged")
    whole = rollout("mini", "baseline:blank", selection=Selection(limit=4), out=tmp_path / "all").path
    with pytest.raises(RunFolderError, match="expected a run with --shard"):
        merge([whole], tmp_path / "merged")
    with pytest.raises(RunFolderError, match="doesn't exist yet"):
        merge([first, second], tmp_path / "all")
    assert not (tmp_path / "merged").exists()


def test_under_a_launcher_every_rank_takes_its_shard(tmp_path):
    command = [sys.executable, "-m", "yanami_metric.cli", "rollout", "--model", "baseline:blank", "--limit", "8"]
    for rank in range(2):
        env = os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"}
        subprocess.run([*command, "--quiet", "--out", str(tmp_path / "run")], check=True, env=env)
    shards = [tmp_path / f"run-shard{rank}of2" for rank in range(2)]
    data = [json.loads((path / "run.json").read_text())["settings"]["data"] for path in shards]
    assert [one["shard"] for one in data] == [[0, 2], [1, 2]] and sum(one["dialogues"] for one in data) == 8
    done = subprocess.run(
        [sys.executable, "-m", "yanami_metric.cli", "merge", str(tmp_path / "merged"), *map(str, shards)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stdout.strip() == str(tmp_path / "merged")
    merged = Run.open(tmp_path / "merged")
    assert len(merged.data) == 8
