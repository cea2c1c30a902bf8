"""The report of 400 dialogues: how long it takes to build, how large it is, and when Chromium first paints it.

400 mini dialogues whose outputs are all different and full of noise, which compresses badly: some 2,000 images of the
bench and 1,600 outputs. Fails beyond 15 s of building (a fresh process of `yanami report`), 30 MB without `--inline`
(the page alone; originals lie beside it), or 1 s to the first contentful paint.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from yanami_metric import api
from yanami_metric.mini import mini_folder
from yanami_metric.records import Caps, Output, Request

DIALOGUES, SECONDS, MEGABYTES, PAINT = 400, 15, 30, 1000
CHROMIUM = Path("/usr/bin/chromium")


class Noisy:
    """What it was shown last, with the noise of a poor camera."""

    caps = Caps(outputs=frozenset({"images"}))
    identity = "benchmarks/report.py"

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """An image for each seed."""
        return [Output(images=[noisy(request, seed) for seed in request.seeds]) for request in requests]


def noisy(request: Request, seed: int) -> bytes:
    """A PNG."""
    with Image.open(io.BytesIO(request.images[-1].read())) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.int16)
    noise = np.random.default_rng(seed).integers(-24, 25, pixels.shape, dtype=np.int16)
    buffer = io.BytesIO()
    Image.fromarray((pixels + noise).clip(0, 255).astype(np.uint8)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def first_paint(page: Path, times: int = 3) -> list[float]:
    """Milliseconds from the start of loading to the first contentful paint, each in a new browser."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        for _ in range(times):
            browser = playwright.chromium.launch(
                executable_path=str(CHROMIUM) if CHROMIUM.exists() else None, args=["--no-sandbox", "--disable-gpu"]
            )
            opened = browser.new_page()
            opened.goto(page.as_uri())
            opened.wait_for_function("performance.getEntriesByName('first-contentful-paint').length === 1")
            found.append(opened.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            if opened.locator("#y-title").inner_text() == "":
                sys.exit("the report shows no dialogue")
            browser.close()
    return found


def main() -> None:
    """Measure, print, and fail if it is too slow or too large."""
    data = mini_folder(dialogues=DIALOGUES)
    with tempfile.TemporaryDirectory() as folder:
        run = api.judge(api.rollout(data, Noisy(), history="gt", out=folder))
        api.score(run)
        start = time.perf_counter()
        subprocess.run([str(Path(sys.executable).with_name("yanami")), "report", folder, "--quiet"], check=True)
        seconds = time.perf_counter() - start
        megabytes = (Path(folder) / "report.html").stat().st_size / 1e6
        paints = sorted(first_paint(Path(folder) / "report.html"))
        outputs = len(list((Path(folder) / "outputs").glob("*/images/*")))
    pool = sum(len(dialogue.images) for dialogue in api.open_data(data))
    print(f"{DIALOGUES} dialogues, {pool:,} images of the bench, {outputs:,} outputs")
    print(f"built in {seconds:.1f} s (wanted: at most {SECONDS}), {megabytes:.1f} MB (wanted: at most {MEGABYTES})")
    print(f"first paint {', '.join(f'{ms:.0f}' for ms in paints)} ms (wanted: at most {PAINT})")
    if seconds > SECONDS or megabytes > MEGABYTES or paints[1] > PAINT:
        sys.exit("too slow or too large")


if __name__ == "__main__":
    main()
