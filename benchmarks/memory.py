"""Peak memory of rolling out, judging and scoring 100 and 4,000 mini dialogues (128 px), each in a fresh process.

Prints: the ratio of the peaks (wanted: about 1, memory doesn't grow with the data).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from yanami_metric.mini import mini_folder

MEASURED = """
import json, resource, sys
from yanami_metric import api
run = api.rollout(sys.argv[1], "baseline:copy-last", history=("gt", "self"), out=sys.argv[2])
api.score(api.judge(run))
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
"""


def peak(dialogues: int) -> float:
    """Peak resident memory in MiB."""
    data = mini_folder(dialogues=dialogues, size=128)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", MEASURED, str(data), str(Path(folder) / "run")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def main() -> None:
    """Measure and print."""
    few, many = peak(100), peak(4000)
    print(f"100 dialogues {few:.0f} MiB, 4,000 dialogues {many:.0f} MiB: ratio {many / few:.2f} (wanted: about 1)")


if __name__ == "__main__":
    main()
