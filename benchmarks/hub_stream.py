"""The first dialogue of a stream from the Hub, cold, over HTTP on the loopback interface with 30 ms latency a request.

A fresh process with an empty cache calls `load_dataset(…, streaming=True)` and takes one dialogue. Fails where it reads
more than the metadata and one file of data. Prints the time beside that of pyarrow, which is told the address of that
file and reads its first row group from the same server: both in fresh processes, the imports not counted, alternating,
the better of three.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the Hub of the tests

from tests.hub import Hub
from yanami_metric.mini import mini_folder

LATENCY, DIALOGUES = 0.03, 200
STREAM = """
import time
from datasets import load_dataset
start = time.perf_counter()
row = next(iter(load_dataset("yanami/bench", "fusion", split="test", streaming=True).decode(False)))
print(time.perf_counter() - start, row["id"])
"""
PLAIN = """
import io, os, time
import pyarrow.parquet as pq
from huggingface_hub.utils import get_session
start = time.perf_counter()
address = os.environ["HF_ENDPOINT"] + "/datasets/yanami/bench/resolve/main/data/fusion/test-00000.parquet"
data = get_session().get(address).content
row = pq.ParquetFile(io.BytesIO(data)).read_row_group(0).slice(0, 1).to_pylist()[0]
print(time.perf_counter() - start, row["id"])
"""


def run(code: str, hub: Hub) -> tuple[float, str]:
    """Seconds and the id, in a process that has nothing cached."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": home, "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=home
        )
    seconds, id = done.stdout.split()
    return float(seconds), id


def main() -> None:
    """Measure, print, and fail where too much is read."""
    folder = mini_folder(dialogues=DIALOGUES)
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    with Hub(latency=LATENCY) as hub:
        hub.add("dataset", "yanami/bench", files)
        run(STREAM, hub)
        seen = list(hub.seen)
        times = [(run(STREAM, hub), run(PLAIN, hub)) for _ in range(3)]
    data = {one.path for one in seen if one.path.endswith(".parquet")}
    sent, one_file = sum(one.sent for one in seen), len(files["data/fusion/test-00000.parquet"])
    metadata = sum(one.sent for one in seen if one.path not in data)
    print(
        f"{len(seen)} requests, {sent:,} bytes: {metadata:,} of metadata, {sent - metadata:,} of data "
        f"(one file has {one_file:,}, all {sum(map(len, files.values())):,})"
    )
    stream, plain = (min(one[side][0] for one in times) for side in (0, 1))
    print(f"first dialogue after {stream:.2f} s, plain pyarrow {plain:.2f} s: ratio {stream / plain:.1f}")
    if len(data) > 1 or sent - metadata > 1.1 * one_file or len(seen) > 30:
        sys.exit("reads more than the metadata and one file")


if __name__ == "__main__":
    main()
