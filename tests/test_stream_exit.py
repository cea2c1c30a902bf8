"""A process that takes one row of a streamed data set and ends, ends: with row groups of images it may hang forever."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.handmade import edited
from yanami_dataset.builder import write_dataset
from yanami_dataset.images import encode_png

SCRIPT = """
import sys
from datasets import load_dataset
print(next(iter(load_dataset(sys.argv[1], split="test", streaming=True)))["id"])
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    noise = np.random.default_rng(0)
    photos = [encode_png(Image.fromarray(noise.integers(0, 256, (400, 400, 3), dtype=np.uint8))) for _ in range(4)]
    out = tmp_path_factory.mktemp("stream") / "bench"
    several = (edited(f"d{n:03}", "editing", photos[n % 4], photos[n % 3]) for n in range(200))
    # 190 MB in 8 files; the same rows as one file with row groups of 10 hung in 2 processes of 3
    assert write_dataset(several, out, name="Try").total.files == 8
    return out


def ends(bench, times):
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", SCRIPT, str(bench)], capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, b"d000"), done.stderr.decode()[-2000:]


def test_a_stopped_stream_ends(bench):
    ends(bench, 3)


@pytest.mark.slow
def test_a_stopped_stream_ends_every_time(bench):
    ends(bench, 20)
