"""`evaluate` with a simulated model and a simulated judge that take equally long, 400 dialogues under `gt`.

Prints two ratios:
    overlapped / generation alone     (wanted: at most 1.08)
    one after the other / overlapped  (wanted: at least 1.6)
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support import ScriptedModel, dialogue, reply
from yanami_metric.api import evaluate, judge, rollout, score
from yanami_metric.records import JudgeCall, Output, Reply, Request

PER_OUTPUT = 0.01  # seconds of the model
CALLS_PER_OUTPUT = 6 / 4  # of a dialogue with two slots and two questions
CONCURRENCY = 8


@dataclass
class SlowModel(ScriptedModel):
    """Takes its time over every output."""

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """As the scripted model."""
        time.sleep(PER_OUTPUT * len(requests))
        return super().generate(requests)


class SlowJudge:
    """Takes as long over all calls as the model over all outputs, at CONCURRENCY calls in flight."""

    name, kinds, reads_prompt = "slow", frozenset({"answer", "checks", "quality"}), False
    fingerprint: dict[str, object] = {"judge": "slow"}  # noqa: RUF012 - a judge's fingerprint is read, never changed

    async def judge(self, call: JudgeCall) -> Reply:
        """Pass everything."""
        await asyncio.sleep(PER_OUTPUT * CONCURRENCY / CALLS_PER_OUTPUT)
        return Reply(reply(call))


def main(count: int = 400) -> None:
    """Measure and print."""
    dialogues = [dialogue(f"d{n:03}") for n in range(count)]
    start = time.perf_counter()
    run = rollout(dialogues, SlowModel())
    generated = time.perf_counter() - start
    score(judge(run, SlowJudge(), SlowJudge()))
    in_a_row = time.perf_counter() - start
    start = time.perf_counter()
    done = evaluate(dialogues, SlowModel(), judges=[SlowJudge()], answer_judge=SlowJudge())
    overlapped = time.perf_counter() - start
    json.dumps(done.scores)
    print(f"generation alone {generated:.1f} s, one after the other {in_a_row:.1f} s, overlapped {overlapped:.1f} s")
    print(f"overlapped / generation alone {overlapped / generated:.3f} (wanted: at most 1.08)")
    print(f"one after the other / overlapped {in_a_row / overlapped:.2f} (wanted: at least 1.6)")


if __name__ == "__main__":
    main()
