"""How many calls are under way at a time: fewer while a server has too much to do. Knows no judge and no server."""

from __future__ import annotations

import asyncio
from collections import deque


class Gate:
    """An asynchronous context for a call: at most `limit` are inside at a time, others wait in the order they came.

    `limit` starts at `most`, halves when a call inside reports pressure, and grows by one, up to `most`, after as many
    calls in a row without any as it lets in. Calls that were inside when it halved say nothing new by reporting
    pressure too: one burst of refusals halves once.

    Args:
        most: calls at a time, 1 or more.
    """

    def __init__(self, most: int) -> None:
        self.most = self.limit = most
        self.inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halvings = 0  # so far
        self._seen: dict[asyncio.Task[object] | None, int] = {}  # how many of them each call inside knows of
        self._pressed: set[asyncio.Task[object] | None] = set()
        self._clean = 0

    async def __aenter__(self) -> Gate:
        if self.inside >= self.limit or self._waiting:
            await self._turn()
        else:
            self.inside += 1
        self._seen[asyncio.current_task()] = self._halvings
        return self

    async def __aexit__(self, *_: object) -> None:
        task = asyncio.current_task()
        self.inside -= 1
        clean = task not in self._pressed and self._seen[task] == self._halvings
        del self._seen[task]
        self._pressed.discard(task)
        if clean:
            self._recover()
        self._let_in()

    def pressure(self) -> None:
        """Report, from inside a call, that the server has too much to do."""
        task = asyncio.current_task()
        if self._seen.get(task, self._halvings) == self._halvings:
            self.limit = max(1, self.limit // 2)
            self._halvings += 1
            self._clean = 0
        if task in self._seen:
            self._seen[task] = self._halvings
            self._pressed.add(task)

    def _recover(self) -> None:
        self._clean += 1
        if self.limit < self.most and self._clean >= self.limit:
            self.limit += 1
            self._clean = 0

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # let in, and given up before it could run
                self.inside -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        while self._waiting and self.inside < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)
