"""What the commands share: messages, progress bars, options."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
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
        bar: Any = None

        def start(self, what: str, total: int) -> None:
            self.close()
            self.bar = tqdm(total=total, desc=what, disable=quiet or None, unit="item", leave=False)
            self.made = self.failed = 0

        def step(self, what: str, status: str, *, fresh: bool) -> None:
            self.made += fresh
            self.failed += status not in ("ok", "scored", "missing_output", "model_refused")
            self.bar.set_postfix(made=self.made, failed=self.failed, refresh=False)
            self.bar.update()

        def close(self) -> None:
            if self.bar is not None:
                self.bar.close()

    return Bars()


def selection(scenarios: list[str], limit: int | None, shard: str | None, seed: int) -> Selection:
    """The selection that the options describe."""
    from yanami_dataset.errors import SpecError
    from yanami_metric.data import Selection

    parts = None
    if shard is not None:
        left, _, right = shard.partition("/")
        if not (left.isdecimal() and right.isdecimal()):
            raise SpecError(f"--shard: expected i/n, such as 0/4, got {shard!r}")
        parts = int(left), int(right)
    return Selection(tuple(scenarios), limit, parts, seed)


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE pairs as a dictionary; a value is read as JSON where it is JSON, else as text."""
    from yanami_dataset.errors import SpecError

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SpecError(f"--set: expected NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
