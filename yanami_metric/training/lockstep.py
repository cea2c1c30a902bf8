"""Asking one model in several processes that train it together, in lockstep: a sharded model hangs otherwise.

The first process rolls out; the others only serve it. It tells all of them what is to be asked next, each asks its
share of it, and the first gets all outputs. Shares are padded, so every process calls the model as often as the others
and for the same kind of output, whatever the history mode; what the padding brought is thrown away. Nothing is tried
again by one process alone, and what a model raises is the status of that item. Knows requests and outputs, no dialogues
and no judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from yanami_dataset.errors import ImageError
from yanami_metric.records import Model, Output, Request
from yanami_metric.rollout import encoded, unsupported

PATIENCE = timedelta(hours=12)  # the others wait while the first asks judges, which may be slow
PIECE = 64  # requests that are told at a time, at least: bounds memory

T = TypeVar("T")


class Processes:
    """This process alone. `rank` is 0 to `size` - 1; the first leads."""

    rank, size = 0, 1

    def tell(self, value: T) -> T:
        """What the first process says, in each of them."""
        return value

    def gather(self, value: T) -> list[T]:
        """What each process says, by rank, in the first of them; nothing in the others."""
        return [value]


class Together(Processes):
    """The processes of torch.distributed. Every one of them must make one of these, and the same calls of it.

    They talk over a gloo group of their own: the trainer's may give up before a judge has answered.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def tell(self, value: T) -> T:
        """What the first process says, in each of them."""
        import torch.distributed as dist

        told: list[Any] = [value]
        dist.broadcast_object_list(told, src=0, group=self._group)
        return told[0]  # type: ignore[no-any-return]

    def gather(self, value: T) -> list[T]:
        """What each process says, by rank, in the first of them; nothing in the others."""
        import torch.distributed as dist

        said: list[Any] = [] if self.rank else [None] * self.size
        dist.gather_object(value, None if self.rank else said, dst=0, group=self._group)
        return said


def is_distributed() -> bool:
    """Whether several processes train together; torch isn't imported to find out."""
    import sys

    if "torch" not in sys.modules:
        return False
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class Borrowed:
    """A model that belongs to somebody else: it is asked, and not closed when a rollout is over."""

    def __init__(self, model: Model) -> None:
        self.model, self.caps, self.identity = model, model.caps, model.identity

    def unsupported(self, request: Request) -> str:
        """The model's own word."""
        return unsupported(self.model, request)

    def generate(self, requests: Sequence[Request]) -> Sequence[Output]:
        """As the model does."""
        return self.model.generate(requests)


class Leading(Borrowed):
    """The model as the first of several processes has it: whatever is asked of it, all of them are asked."""

    def __init__(self, model: Model, processes: Processes) -> None:
        super().__init__(model)
        self.processes = processes
        self.caps = replace(model.caps, max_batch=max(PIECE, 4 * processes.size))

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """One output per request, in order; never raises for what the model does."""
        outputs: dict[int, Output] = {}
        for alike in _alike(requests):
            asked = self.processes.tell([_packed(requests[i]) for i in alike])
            outputs.update(zip(alike, share(self.model, asked, self.processes), strict=True))
        return [outputs[i] for i in range(len(requests))]

    def stop(self) -> None:
        """Let the other processes go on; must be called once, whatever happened."""
        self.processes.tell(None)


def follow(model: Model, processes: Processes) -> None:
    """What the other processes do until the first one has asked everything."""
    nothing: list[Request] | None = None
    while (asked := processes.tell(nothing)) is not None:
        share(model, asked, processes)


def share(model: Model, requests: Sequence[Request], processes: Processes) -> list[Output]:
    """The outputs for all requests, in the first process; each asks for as many as the others, one at a time."""
    rank, size, count = processes.rank, processes.size, len(requests)
    rounds = -(-count // size)
    mine = [_ask(model, requests[(k * size + rank) % count]) for k in range(rounds)]
    by_rank = processes.gather(mine)
    return [by_rank[i % size][i // size] for i in range(count)] if by_rank else []


def _alike(requests: Sequence[Request]) -> Iterator[list[int]]:
    """Positions of requests for which a model makes the same calls within: as many outputs, of one kind."""
    groups: dict[tuple[str, int, bool], list[int]] = {}
    for i, request in enumerate(requests):
        groups.setdefault((request.expects, request.count, bool(request.images)), []).append(i)
    yield from groups.values()


def _ask(model: Model, request: Request) -> Output:
    try:
        (output,) = model.generate([request])
        return replace(output, **_images(output))
    except Exception as error:  # noqa: BLE001 - foreign code; the error is the output, and the others wait for us
        return Output(status="generation_error", reason=f"{type(error).__name__}: {error}")


def _images(output: Output) -> dict[str, Any]:
    """The images of an output as bytes, which any process can read; what is none is missing, as in a rollout."""
    images: list[bytes | None] = []
    faults = [output.reason] if output.reason else []
    for ordinal, image in enumerate(output.images):
        try:
            images.append(None if image is None else encoded(image))
        except ImageError as error:
            images.append(None)
            faults.append(f"image {ordinal}: {error}")
    return {"images": images, "reason": "; ".join(faults)}


@dataclass(frozen=True, slots=True)
class _Bytes:
    """An image's bytes as something to be called, which a closure over a file can't be in another process."""

    data: bytes

    def __call__(self) -> bytes:
        return self.data


def _packed(request: Request) -> Request:
    return replace(request, images=tuple(replace(image, read=_Bytes(bytes(image.read()))) for image in request.images))
