"""Running asynchronous judges and models from ordinary code, also where an event loop runs already (a notebook)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """One event loop in a thread of its own, for as long as the context lasts.

    >>> async def answer() -> int:
    ...     return 42
    >>> with Loop() as loop:
    ...     loop.run(answer())
    42
    """

    def __init__(self) -> None:
        self._ending: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def at_end(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something when the context ends, after all that still ran was stopped."""
        self._ending.append(work)

    def __enter__(self) -> Loop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="yanami-loop", daemon=True)
        self._thread.start()
        return self

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the result of a coroutine."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and go on; the future holds its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def __exit__(self, *_: object) -> None:
        self.run(_end_others())  # after Ctrl-C there are calls in flight, whose connections want closing
        for work in self._ending:
            self.run(work())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
