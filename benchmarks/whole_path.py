"""Rolling out and judging the mini bench, 400 dialogues x 4 histories with `baseline:copy-last`, and doing it again.

Prints two ratios:
    outside    time outside drawing, decoding, encoding and the pixel judge, over all time (wanted: at most 20 %)
    again      the same command when nothing is left to do, over the first time, both as fresh processes with the
               bench in the cache (wanted: at most 5 %)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from yanami_dataset.images import open_rgb
from yanami_metric import api
from yanami_metric.judges.exact import ExactJudge
from yanami_metric.judges.pixel import PixelJudge
from yanami_metric.mini import mini_folder
from yanami_metric.models.baseline import CopyLast
from yanami_metric.records import HISTORIES, JudgeCall, Output, Reply, Request


class TimedModel(CopyLast):
    """Copy-last, with a clock: its time is that of drawing."""

    seconds = 0.0

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """As copy-last."""
        start = time.perf_counter()
        outputs = super().generate(requests)
        self.seconds += time.perf_counter() - start
        return outputs


class TimedJudge(PixelJudge):
    """The pixel judge, with a clock."""

    seconds = 0.0

    async def judge(self, call: JudgeCall) -> Reply:
        """As the pixel judge."""
        start = time.perf_counter()
        reply = await super().judge(call)
        self.seconds += time.perf_counter() - start
        return reply


def decoding(folder: Path) -> float:
    """Seconds to decode each distinct stored image once, as a rollout does before it keeps one."""
    distinct = {file.read_bytes() for file in folder.glob("outputs/*/images/*")}
    start = time.perf_counter()
    for data in distinct:
        open_rgb(data)
    return time.perf_counter() - start


def outside(data: Path, out: Path) -> float:
    """The share of time outside."""
    model, judge = TimedModel(), TimedJudge()
    start = time.perf_counter()
    run = api.rollout(data, model, history=HISTORIES, out=out)
    rolled_out = time.perf_counter() - start
    api.judge(run, judge, ExactJudge())
    total = time.perf_counter() - start
    inside = {"drawing": model.seconds, "decoding": decoding(out), "pixel judge": judge.seconds}
    print(
        f"rollout {rolled_out:.1f} s, judging {total - rolled_out:.1f} s; "
        + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in inside.items())
    )
    return 1 - sum(inside.values()) / total


def timed_eval(data: Path, out: Path) -> float:
    """Seconds of `yanami eval` in a fresh process."""
    command = [str(Path(sys.executable).with_name("yanami")), "eval", "--model", "baseline:copy-last", "--quiet"]
    start = time.perf_counter()
    subprocess.run([*command, "--history", ",".join(HISTORIES), "--data", str(data), "--out", str(out)], check=True)
    return time.perf_counter() - start


def main(dialogues: int = 400) -> None:
    """Measure and print."""
    data = mini_folder(dialogues=dialogues)
    with tempfile.TemporaryDirectory() as folder:
        print(f"outside {outside(data, Path(folder) / 'timed'):.1%} (wanted: at most 20 %)")
        first, again = (timed_eval(data, Path(folder) / "run") for _ in range(2))
    print(f"first {first:.1f} s, again {again:.2f} s: again / first {again / first:.1%} (wanted: at most 5 %)")


if __name__ == "__main__":
    main()
