"""What the diffusers adapter costs beside the pipeline itself, and what batches gain, with tiny pipelines.

Prints, for a class with several images and one with a single image: the median of the paired differences between
`DiffusersModel.generate` and the bare call on the same inputs (wanted: at most 3 % or 2 ms), and for classes that batch
the time of GT-History one by one over the time in batches of 8 (wanted: above 1).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import tiny_diffusers as tiny
from tests.support import dialogue
from yanami_dataset.images import open_rgb
from yanami_dataset.schema import Dialogue
from yanami_metric.api import rollout
from yanami_metric.data import open_data
from yanami_metric.history import Settings, Storyteller
from yanami_metric.models.diffusers import DiffusersModel
from yanami_metric.models.diffusers_calls import fitted
from yanami_metric.records import Request

ROUNDS = 60
CALLS = {"klein": tiny.KLEIN_CALL, "kontext": tiny.KONTEXT_CALL, "pix2pix": tiny.PIX2PIX_CALL}
LONG = {"max_sequence_length": 512}  # a tiny tokenizer counts letters


def call_of(name: str) -> dict[str, Any]:
    return CALLS[name] | (LONG if "max_sequence_length" in CALLS[name] else {})


def first_request(dialogues: list[Dialogue], model: DiffusersModel) -> Request:
    """The first generation turn that the class's tokenizer takes whole."""
    settings = Settings("gt", "front", model.caps.max_images)
    drawn = [Storyteller(d, settings).draw(d.generation_turns[0], model.identity) for d in dialogues]
    return next(request for request in drawn if not model.unsupported(request))


def bare(model: DiffusersModel, request: Request) -> Callable[[], Any]:
    """The call that a user would write, with images that are decoded already."""
    import torch

    pipeline = model._source.pipeline
    flat = model._prompter.flat(request, 0)
    images = [open_rgb(ref.read()) for ref in flat.images]
    takes, size = model.takes, fitted(request.size or (64, 64), model.takes)
    arguments = dict(model._call)
    if "height" in model._accepts:
        arguments |= {"width": size[0], "height": size[1]}
    arguments[takes.image] = images if takes.list == "shared_flat" else images[0]

    def call() -> Any:
        generator = torch.Generator("cpu").manual_seed(request.seeds[0])
        return pipeline(prompt=flat.text, generator=generator, **arguments).images[0]

    return call


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def overhead(name: str, folder: Path, dialogues: list[Dialogue]) -> None:
    model = DiffusersModel(getattr(tiny, name)(folder), call=call_of(name))
    request = first_request(dialogues, model)
    call = bare(model, request)
    model._source.pipeline.set_progress_bar_config(disable=True)
    assert model.generate([request])[0].images[0].tobytes() == call().tobytes()  # the same work
    pairs = []
    for i in range(ROUNDS):
        fresh = replace(request, key=f"{request.key}-{i}")  # no prompt is remembered
        jobs = [("bare", call), ("adapter", partial(model.generate, [fresh]))]
        seconds = {job: timed(work) for job, work in (jobs if i % 2 else jobs[::-1])}
        pairs.append((seconds["bare"], seconds["adapter"]))
    alone = statistics.median(a for a, _ in pairs)
    more = statistics.median(b - a for a, b in pairs)
    print(f"{name:8} bare {1000 * alone:6.1f} ms, adapter {1000 * more:+5.2f} ms, {100 * more / alone:+.1f} %")


def batching(name: str, folder: Path, dialogues: list[Dialogue]) -> None:
    getattr(tiny, name)(folder)
    seconds: dict[int, list[float]] = {1: [], 8: []}
    for _ in range(3):
        for size, times in seconds.items():
            model = DiffusersModel(folder, call=call_of(name), shorten=True, declare={"max_batch": size})
            model._source.pipeline  # noqa: B018 - loads it
            times.append(timed(partial(rollout, dialogues, model)))
    one, eight = (statistics.median(times) for times in seconds.values())
    print(f"{name:8} GT-History one by one {one:5.2f} s, in batches of 8 {eight:5.2f} s, ratio {one / eight:.2f}")


def main() -> None:
    import torch
    from diffusers.utils import logging

    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    mini = list(open_data("mini", dialogues=8, size=128, seed=0))
    small = [dialogue(f"d{i}") for i in range(16)]  # two slots each, images of one size
    with tempfile.TemporaryDirectory() as folder:
        for name in ("klein", "kontext", "pix2pix"):
            overhead(name, Path(folder, name), mini)
        for name in ("kontext", "pix2pix"):
            batching(name, Path(folder, name), small)


if __name__ == "__main__":
    main()
