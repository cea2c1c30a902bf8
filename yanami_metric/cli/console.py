"""What the commands share: messages, progress bars, options."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from yanami_metric.api import Progress
    from yanami_metric.data import Selection

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table; errors and exit codes only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, nothing else.")]

INCOMPLETE = 3  # exit code: something could not be scored


def fail(error: Exception) -> NoReturn:
    """Say what is wrong, on standard error, and stop with exit code 2."""
    typer.echo(f"error: {error}", err=True)
    sys.exit(2)


def bars(*, quiet: bool) -> Progress:
    """A progress bar per stage on standard error; silent where that is no terminal."""
    from tqdm import tqdm

    from yanami_metric.api import Progress

    class Bars(Progress):
        def __init__(self) -> None:
            self.bars: dict[str, Any] = {}
            self.counts: dict[str, Counter[str]] = {}

        def start(self, what: str, total: int) -> None:
            self.close(what)
            self.counts[what] = Counter()
            self.bars[what] = tqdm(total=total, desc=what, disable=quiet or None, unit="item", leave=False)

        def step(self, what: str, status: str, *, fresh: bool) -> None:
            counts = self.counts[what]
            counts["made"] += fresh
            counts["failed"] += status not in ("ok", "scored", "missing_output", "model_refused")
            self.bars[what].set_postfix(counts, refresh=False)
            self.bars[what].update()

        def spent(self, what: str, tokens: tuple[int, int], cost: float) -> None:
            price = f", cost {cost:.2f}" if cost else ""
            self.bars[what].set_description(f"{what} ({tokens[0]} + {tokens[1]} tokens{price})", refresh=False)

        def note(self, text: str) -> None:
            if not quiet:
                typer.echo(f"note: {text}", err=True)

        def close(self, what: str) -> None:
            if what in self.bars:
                self.bars.pop(what).close()

    return Bars()


def rank_of_launcher() -> tuple[int, int] | None:
    """(rank, world size) under `torchrun` or `accelerate launch` with several processes, else None."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return (int(rank), int(size)) if rank.isdecimal() and size.isdecimal() and int(size) > 1 else None


def selection(scenarios: list[str], limit: int | None, shard: str | None, seed: int) -> Selection:
    """The selection that the options describe."""
    from yanami_dataset.errors import SpecError
    from yanami_metric.data import Selection

    parts = rank_of_launcher()
    if shard is not None:
        left, _, right = shard.partition("/")
        if not (left.isdecimal() and right.isdecimal()):
            raise SpecError(f"--shard: expected i/n, such as 0/4, got {shard!r}")
        parts = int(left), int(right)
    return Selection(tuple(scenarios), limit, parts, seed)
