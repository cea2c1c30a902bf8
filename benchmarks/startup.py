"""How long `yanami --help` takes beside `python -c "import typer"`: medians of alternating fresh processes.

Prints: ratio (wanted: at most 4).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "yanami --help": [str(Path(sys.executable).with_name("yanami")), "--help"],
}


def main(rounds: int = 15) -> None:
    """Measure and print."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:15} {1000 * median:6.0f} ms")
    print(f"ratio {medians['yanami --help'] / medians['import typer']:.2f} (wanted: at most 4)")


if __name__ == "__main__":
    main()
