"""Starting: `yanami --help` beside `import typer`, and importing both packages beside `import datasets`.

Medians of alternating fresh processes. Fails beyond ratios of 4 and 1.2.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

PAIRS = {
    "import typer": ([sys.executable, "-c", "import typer"], 4.0),
    "yanami --help": ([str(Path(sys.executable).with_name("yanami")), "--help"], None),
    "import datasets": ([sys.executable, "-c", "import datasets"], 1.2),
    "import yanami_dataset, yanami_metric": ([sys.executable, "-c", "import yanami_dataset, yanami_metric"], None),
}
"""What is measured: each that has a limit is what the one after it is compared with."""


def main(rounds: int = 15) -> None:
    """Measure, print, and fail beyond a limit."""
    seconds: dict[str, list[float]] = {name: [] for name in PAIRS}
    for _ in range(rounds):
        for name, (command, _) in PAIRS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    slow = False
    for (peer, (_, limit)), (name, _) in pairwise(PAIRS.items()):
        if limit is not None:
            ratio = medians[name] / medians[peer]
            slow |= ratio > limit
            print(f"{peer} {1000 * medians[peer]:.0f} ms, {name} {1000 * medians[name]:.0f} ms: ratio {ratio:.2f}")
            print(f"(wanted: at most {limit:g})")
    if slow:
        sys.exit("too slow")


if __name__ == "__main__":
    main()
