"""Scores and all analyses but drift of one run from its verdicts, for 400 and 10,000 dialogues.

The 400 are mini dialogues (128 px) under two history modes; the 10,000 are these again under other ids.
Imports are not counted. Prints seconds, and fails beyond 2 s for 400, or where a dialogue
of 10,000 costs over 1.5 times what one of 400 does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from yanami_dataset.builder import write_dataset
from yanami_dataset.schema import Dialogue
from yanami_metric import api
from yanami_metric.mini import mini_folder

FEW, MANY, HISTORIES = 400, 10_000, ("gt", "self")

MEASURED = """
import sys, time
from pathlib import Path
import scipy.stats
from yanami_metric.analysis import checks, loading, modes, turns
from yanami_metric.score import summarise

start = time.perf_counter()
[one] = loading.load([Path(sys.argv[1])], None)
read = time.perf_counter()
for tallies in one.histories.values():
    summarise(tallies, can_answer=True, can_draw=True)
scored = time.perf_counter()
found = {one.name: one.histories}
turns.first_last({one.name: one.histories["gt"]})
turns.by_turn({one.name: one.histories["gt"]})
modes.differences(found, {one.name: one.basis}, "drop")
checks.capabilities(found)
checks.kinds(found)
checks.errors(found)
print(read - start, scored - read, time.perf_counter() - scored)
"""


def seconds(run: Path) -> tuple[float, ...]:
    """Of reading verdicts, scores and analyses; the best of three processes."""
    command = [sys.executable, "-c", MEASURED, str(run)]
    times = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(3)]
    return min((tuple(map(float, each)) for each in times), key=sum)


def copied(data: Path, times: int) -> Iterator[Dialogue]:
    """The dialogues of a folder so many times."""
    for k in range(times):
        for dialogue in api.open_data(data):
            yield replace(dialogue, id=f"{dialogue.id}-{k}", images=tuple(dialogue.images))


def copy_lines(source: Path, out: Path, times: int) -> None:
    """JSON Lines about other ids."""
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    out.parent.mkdir(parents=True)
    with out.open("w") as file:
        for k in range(times):
            file.writelines(json.dumps({**line, "dialogue": f"{line['dialogue']}-{k}"}) + "\n" for line in lines)


def multiplied(run: Path, data: Path, out: Path, times: int) -> Path:
    """A run about the same dialogues so many times, without the images of its outputs: nothing here reads them."""
    write_dataset(copied(data, times), out / "data", name="copies")
    copies = api.open_data(out / "data")
    folder = out / "run"
    for history in HISTORIES:
        copy_lines(run / f"outputs/{history}/outputs.jsonl", folder / f"outputs/{history}/outputs.jsonl", times)
    copy_lines(run / "verdicts.jsonl", out / "verdicts/verdicts.jsonl", times)
    (out / "verdicts/verdicts.jsonl").rename(folder / "verdicts.jsonl")
    meta = json.loads((run / "run.json").read_text())
    meta["settings"]["data"] = copies.settings
    (folder / "run.json").write_text(json.dumps(meta))
    return folder


def main() -> None:
    """Measure, print, and fail if it is too slow."""
    data = mini_folder(dialogues=FEW, size=128)
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder) / "few"
        api.judge(api.rollout(data, "baseline:copy-last", history=HISTORIES, out=few))
        many = multiplied(few, data, Path(folder) / "many", MANY // FEW)
        times = {FEW: seconds(few), MANY: seconds(many)}
    for dialogues, (read, scores, analyses) in times.items():
        print(f"{dialogues:,} dialogues: verdicts {read:.2f} s, scores {scores:.2f} s, analyses {analyses:.2f} s")
    few_total, many_total = sum(times[FEW]), sum(times[MANY])
    ratio = many_total / few_total * FEW / MANY
    print(f"{FEW}: {few_total:.2f} s (wanted: at most 2); a dialogue of {MANY:,} costs {ratio:.2f} x (wanted: about 1)")
    if few_total > 2 or ratio > 1.5:
        sys.exit("too slow")


if __name__ == "__main__":
    main()
