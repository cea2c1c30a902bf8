"""What the tests of the diffusers adapter share: tiny models, dialogues with pictures, requests, comparisons."""

from __future__ import annotations

import functools
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests import tiny_diffusers as tiny
from tests.support import dialogue
from yanami_dataset.images import encode_png, open_rgb, sha256
from yanami_dataset.schema import Message, Part
from yanami_metric.models.diffusers import DiffusersModel
from yanami_metric.records import ImageRef, Request
from yanami_metric.run_folder import RunFolder


@pytest.fixture(scope="module", autouse=True)
def few_threads():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # for what is so small, more only wait for each other
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of each tiny pipeline, made when first asked for."""
    root = tmp_path_factory.mktemp("pipelines")
    return functools.cache(lambda name: getattr(tiny, name)(root / name))


@functools.cache
def picture(number: int, side: int = 64) -> bytes:
    """A pattern that differs much from that of any other number."""
    y, x = np.mgrid[0:side, 0:side]
    rng = np.random.default_rng(number)
    first, second = rng.integers(0, 256, (2, 3))
    stripes = ((x * (number % 3 + 1) + y * (number % 2)) % side < side // 3)[..., None]
    return encode_png(Image.fromarray(np.where(stripes, first, second).astype(np.uint8)))


def pictured(number: int = 0, id: str = "d1", draws: int = 2, **changed: int):
    """A dialogue whose images are pictures; `image_1=7` puts picture 7 in the place of image 1."""
    plain = dialogue(id, draws=draws)
    images = [picture(changed.get(f"image_{i}", 10 * number + i)) for i in range(len(plain.images))]
    info = [
        replace(info, sha256=sha256(data), width=64, height=64)
        for info, data in zip(plain.image_info, images, strict=True)
    ]
    return replace(plain, images=tuple(images), image_info=tuple(info), questions=())


def klein(folders, **options) -> DiffusersModel:
    return DiffusersModel(folders("klein"), call=tiny.KLEIN_CALL | options.pop("call", {}), **options)


def kontext(folders, **options) -> DiffusersModel:
    return DiffusersModel(folders("kontext"), call=tiny.KONTEXT_CALL | options.pop("call", {}), **options)


def pix2pix(folders, **options) -> DiffusersModel:
    return DiffusersModel(folders("pix2pix"), call=tiny.PIX2PIX_CALL | options.pop("call", {}), **options)


def drawn(run, history="gt") -> dict[tuple[str, int], bytes]:
    """The image of each turn, as encoded."""
    with RunFolder(run.path) as folder:
        return {
            (d.id, turn): folder.image(record.images[0]).read()
            for d in run.data
            for (turn, _), record in folder.current(history, d.id).items()
        }


def records(run, history="gt"):
    with RunFolder(run.path) as folder:
        return {(d.id, turn): record for d in run.data for (turn, _), record in folder.current(history, d.id).items()}


def request(text="Make it red.", images=(), count=1, size=(64, 64), seed=7, key=None) -> Request:
    refs = tuple(
        ImageRef(sha256(data), *open_rgb(data).size, lambda data=data: data, labels=(i,))
        for i, data in enumerate(images, 1)
    )
    parts = (Part("text", text), *(Part("image", index=i) for i in range(len(refs))))
    made = Message("user", parts)
    key = key or f"{text} {[ref.sha256 for ref in refs]} {count} {size}"
    return Request(key, "d", 0, (made,), refs, "images", count, tuple(range(seed, seed + count)), size=size)


def pixels(image) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(image)) if isinstance(image, bytes) else image).astype(int)


def distance(first, second) -> int:
    """The largest difference of a value, 0 to 255."""
    return int(np.abs(pixels(first) - pixels(second)).max())


def watched(pipeline, act=lambda call, arguments: call(**arguments)):
    """The pipeline with every call's arguments written down in `seen`; `act` may do something else than calling."""
    kind = type(pipeline)
    seen = []

    @functools.wraps(kind.__call__)
    def __call__(self, **arguments):
        seen.append(arguments)
        return act(functools.partial(kind.__call__, self), arguments)

    pipeline.__class__ = type(kind.__name__, (kind,), {"__call__": __call__, "__module__": kind.__module__})
    return pipeline, seen
