"""One of several processes that train together: `python -m tests.training_worker FOLDER WHAT`, as torchrun starts it.

Writes what it got as FOLDER/<rank>.json, and in which order the model was called.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from io import BytesIO
from pathlib import Path

from PIL import Image

from yanami_metric import Caps, Output
from yanami_metric.training.inloop import InLoop

SETTINGS = {"limit": 5, "history": ("gt", "self"), "trackers": "none"}


class Editor:
    """Draws the last image it is shown, marked by the seed; answers with how many images it saw. Notes its calls."""

    caps = Caps(max_batch=4)
    identity = "editor/1"

    def __init__(self, fault=None):
        self.fault, self.calls = fault, []

    def generate(self, requests):
        self.calls += [(request.expects, request.count, len(requests)) for request in requests]
        return [self.one(request) for request in requests]

    def one(self, request):
        if self.fault and self.fault(request):
            raise RuntimeError("this item fails")
        if request.expects == "text":
            return Output(text=str(len(request.images)))
        with Image.open(BytesIO(request.images[-1].read())) as image:
            drawn = [image.convert("RGB") for _ in range(request.count)]
        for one, seed in zip(drawn, request.seeds, strict=True):
            one.putpixel((0, 0), (seed % 256, seed // 256 % 256, 0))
        return Output(images=drawn)


class Broken:
    """A judge that can't say any more what it is, once it was opened."""

    name, kinds, reads_prompt, reads = "broken", frozenset({"checks", "quality"}), False, 0

    @property
    def fingerprint(self):
        self.reads += 1
        if self.reads > 1:
            raise RuntimeError("this judge is broken")
        return {}

    async def judge(self, call):
        raise AssertionError


def fails_once(request):
    return request.dialogue == "mini-editing-0000" and request.turn == 2 and request.expects == "images"


def main(folder, what):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    model = Editor(fails_once if what == "fails" else None)
    in_loop = InLoop(**SETTINGS, judge=Broken() if what == "judge" else "pixel", out=folder / f"runs-{what}")
    torch.manual_seed(rank)
    before = torch.get_rng_state()
    scores = [in_loop.evaluate(model, step) for step in (1, 2)]
    same = bool((before == torch.get_rng_state()).all())
    total = torch.ones(1)
    dist.all_reduce(total)  # the training's own talk goes on
    told = {"scores": scores, "calls": model.calls, "same": same, "total": total.item()}
    (folder / f"{rank}.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    assert os.environ["WORLD_SIZE"]
    main(Path(sys.argv[1]), sys.argv[2])
