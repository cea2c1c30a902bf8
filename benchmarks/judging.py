"""Judging over HTTP, against a scripted server in a process of its own that takes 200 ms for each call.

Prints:
    wall        500 images with 20 checks each (1000 calls) through the whole of `api.judge`: time over
                ceil(calls / concurrency) x 200 ms, at 8 and 32 (wanted: at most 1.10) and 128
    CPU         milliseconds per call at 32 at once with three 1024 px images, ours over
                (a) threads that decode, encode and base64 the images of each call and use `requests`, as others do
                    (wanted: at most 1/15)
                (b) `openai.AsyncOpenAI` given ready bytes (wanted: at most 1/5)
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from yanami_dataset.images import encode_png, sha256
from yanami_dataset.schema import Check, Dialogue, ImageInfo, Message, Part, Turn
from yanami_metric import api
from yanami_metric.judges.openai import OpenAIJudge
from yanami_metric.records import Caps, ImageRef, JudgeCall, JudgeItem, Output, Request

LATENCY = 0.2
IMAGES, CHECKS = 500, 20
CPU_CALLS, AT_ONCE, SIDE = 320, 32, 1024


# The server


def serve() -> None:
    """Answer every call after 200 ms; print the port first."""
    from aiohttp import web

    quality = json.dumps({"reason": "r", "score": 7})
    checks = json.dumps({"checks": [{"id": f"c{n}", "reason": "r", "verdict": "pass"} for n in range(CHECKS)]})

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def chat(request: web.Request) -> web.Response:
        start = time.monotonic()
        body = await request.read()
        said = checks if b"criteria, each with an id" in body else quality
        await asyncio.sleep(max(0.0, start + LATENCY - time.monotonic()))
        return web.json_response(
            {
                "choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 900, "completion_tokens": 40},
            }
        )

    async def run() -> None:
        app = web.Application(client_max_size=2**30)
        app.router.add_get("/v1/models", models)
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def server() -> Iterator[str]:
    """The base URL of a server in another process."""
    process = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    process.terminate()
    process.wait()
    process.stdout.close()


# Wall time


class Painter:
    """Draws an image of its own for every slot."""

    caps = Caps(outputs=frozenset({"images"}))
    identity = "painter"

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """A flat colour by the seed, with some noise."""
        return [Output(images=[_noise(seed, 96) for seed in request.seeds]) for request in requests]


def _noise(seed: int, side: int) -> bytes:
    values = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    return encode_png(Image.fromarray(values))


def dialogues(count: int) -> list[Dialogue]:
    """Of one slot each, with a photo before it."""
    return [_dialogue(number) for number in range(count)]


def _dialogue(number: int) -> Dialogue:
    data = _noise(number, 96)
    user = Message("user", (Part("text", f"Edit it, way {number}."), Part("image", index=0)))
    answer = Message("assistant", (Part("image", index=None),))
    checks = tuple(Check(f"c{n}", 0, 0, f"Thing {n} is there.") for n in range(CHECKS))
    info = (ImageInfo("reference", 0, sha256(data), 96, 96),)
    return Dialogue(f"d{number}", "editing", (user, answer), (Turn(),), (data,), info, (), checks, source="benchmark")


def wall(base: str) -> list[tuple[int, float]]:
    """Time over the least possible, by concurrency."""
    with tempfile.TemporaryDirectory() as folder:
        run = api.rollout(dialogues(IMAGES), Painter(), out=Path(folder) / "run")
        found = []
        for concurrency in (8, 32, 128):
            judge = OpenAIJudge(f"m@{base}", tag=str(concurrency))  # another judge: nothing is found again
            start = time.perf_counter()
            api.judge(run, judge, judge, concurrency=concurrency)
            took = time.perf_counter() - start
            calls = 2 * IMAGES
            assert len((run.path / "verdicts.jsonl").read_bytes().splitlines()) == calls * (len(found) + 1)
            found.append((concurrency, took / (math.ceil(calls / concurrency) * LATENCY)))
    return found


# CPU


def photographs() -> list[ImageRef]:
    """Smooth and noisy at once, as JPEG of quality 92: some 500 kB each."""
    found = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        small = Image.fromarray(rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)).resize((SIDE, SIDE), 3)
        noisy = np.asarray(small).astype(np.int16) + rng.normal(0, 12, (SIDE, SIDE, 3)).astype(np.int16)
        buffer = BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, format="JPEG", quality=92)
        found.append(_ref(buffer.getvalue()))
    return found


def _ref(data: bytes) -> ImageRef:
    return ImageRef(sha256(data), SIDE, SIDE, lambda: data)


def shown(number: int, images: Sequence[ImageRef]) -> list[ImageRef]:
    """The three images of a call: a history of two, which many calls share, and a candidate."""
    rng = Random(number)
    return rng.sample(images, 3)


def text(number: int) -> str:
    """What a call says beside its images."""
    return "\n".join(f"- id c{n}: Thing {n} is there, way {number}." for n in range(CHECKS))


def cpu(work: Callable[[], None]) -> float:
    """Milliseconds of CPU of this process per call."""
    start = time.process_time()
    work()
    return (time.process_time() - start) / CPU_CALLS * 1000


def ours(base: str, images: Sequence[ImageRef]) -> None:
    """As yanami asks."""
    judge = OpenAIJudge(f"m@{base}")

    def call(number: int) -> JudgeCall:
        three = tuple(shown(number, images))
        parts = (*(Part("image", index=n) for n in range(3)), Part("text", text(number)))
        items = tuple(JudgeItem(f"c{n}") for n in range(CHECKS))
        message = Message("user", parts)
        return JudgeCall("checks", items, three[-1], rubric="criteria", messages=(message,), images=three, schema={})

    async def run() -> None:
        from yanami_metric.gate import Gate

        gate = Gate(AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                await judge.judge(call(number))

        await asyncio.gather(*map(one, range(CPU_CALLS)))
        await judge.aclose()

    asyncio.run(run())


def _chat(number: int, urls: Sequence[str]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content.append({"type": "text", "text": text(number)})
    messages = [{"role": "system", "content": "criteria"}, {"role": "user", "content": content}]
    return {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 4096}


def with_requests(base: str, images: Sequence[ImageRef]) -> None:
    """As others ask: a pool of threads, each image decoded, encoded and made base64 for each call."""
    import requests

    def url(image: ImageRef) -> str:
        buffer = BytesIO()
        Image.open(BytesIO(image.read())).convert("RGB").save(buffer, format="JPEG")
        return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()

    def one(number: int) -> None:
        payload = _chat(number, [url(image) for image in shown(number, images)])
        requests.post(f"{base}/chat/completions", json=payload, timeout=60).raise_for_status()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(CPU_CALLS)))


def with_openai(base: str, images: Sequence[ImageRef]) -> None:
    """The openai client, given the images' bytes as they are."""
    import openai

    async def run() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        async with openai.AsyncOpenAI(base_url=base, api_key="none") as client:

            async def one(number: int) -> None:
                async with gate:
                    data = [image.read() for image in shown(number, images)]
                    urls = ["data:image/jpeg;base64," + base64.b64encode(each).decode() for each in data]
                    completions: Any = client.chat.completions
                    await completions.create(**_chat(number, urls))

            await asyncio.gather(*map(one, range(CPU_CALLS)))

    asyncio.run(run())


def main() -> None:
    """Measure and print."""
    with server() as base:
        for concurrency, ratio in wall(base):
            wanted = "" if concurrency > 32 else " (wanted: at most 1.10)"
            print(f"wall time / least possible at {concurrency}: {ratio:.3f}{wanted}")
        images = photographs()
        print(f"images of {sum(len(image.read()) for image in images) / len(images) / 1000:.0f} kB")
        own = cpu(lambda: ours(base, images))
        print(f"CPU per call at {AT_ONCE}: ours {own:.2f} ms")
        for name, ask, share in (("requests", with_requests, 15), ("openai", with_openai, 5)):
            try:
                __import__(name)
            except ModuleNotFoundError:
                print(f"{name} is not installed: not compared")
                continue
            theirs = cpu(lambda ask=ask: ask(base, images))  # type: ignore[misc]
            print(f"CPU per call at {AT_ONCE}: {name} {theirs:.2f} ms, ours 1/{theirs / own:.0f} (wanted: 1/{share})")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main()
