"""Self-History in wavefronts, all dialogues side by side, beside one dialogue after the other, with a tiny pipeline.

Prints: the ratio of their times, medians of alternating runs (wanted: above 1).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import tiny_diffusers as tiny
from tests.support import dialogue
from yanami_dataset.schema import Dialogue
from yanami_metric.api import rollout
from yanami_metric.models.diffusers import DiffusersModel


def seconds(model: DiffusersModel, parts: list[list[Dialogue]]) -> float:
    """Of rolling out part after part."""
    start = time.perf_counter()
    for part in parts:
        rollout(part, model, history="self")
    return time.perf_counter() - start


def main(rounds: int = 5, count: int = 8) -> None:
    """Measure and print."""
    dialogues = [dialogue(f"d{n}", draws=3) for n in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        model = DiffusersModel(tiny.pix2pix(Path(folder) / "pix2pix"), call=tiny.PIX2PIX_CALL)
        seconds(model, [dialogues[:1]])  # loads it
        times = [(seconds(model, [dialogues]), seconds(model, [[one] for one in dialogues])) for _ in range(rounds)]
    together, apart = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"side by side {together:.2f} s, one after the other {apart:.2f} s")
    print(f"ratio {apart / together:.2f} (wanted: above 1)")


if __name__ == "__main__":
    main()
