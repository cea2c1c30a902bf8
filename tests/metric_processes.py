"""One of two processes that score a model together: each adds its share of the dialogues. For tests/test_metric.py.

python -m tests.metric_processes DATA OUT PROCESS
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import evaluate

from yanami_metric import Selection

warnings.simplefilter("error")


def main(data: str, out: str, process: str) -> None:
    number = int(process)
    metric = evaluate.load("yanami", data=data, num_process=2, process_id=number, experiment_id="two", cache_dir=out)
    share = metric.rollout("baseline:copy-last", selection=Selection(shard=(number, 2)))
    for one in reversed(share):
        metric.add(prediction=one, reference=one["id"])
    scores = metric.compute()
    (Path(out) / f"{process}.json").write_text(json.dumps({"added": len(share), "scores": scores}))


if __name__ == "__main__":
    main(*sys.argv[1:])
