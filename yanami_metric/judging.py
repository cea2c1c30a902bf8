"""Output -> Verdict: asking judges, and what became of it. Knows nothing of models and scores.

A verdict is found again by the fingerprint of its call, which holds everything that may change the answer. Equal calls
(the same picture under two history modes) are asked once; failures are asked again next time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from yanami_dataset.errors import YanamiError
from yanami_dataset.schema import Dialogue
from yanami_metric.asking import Judges, Rules, Task, tasks
from yanami_metric.cache import Cache
from yanami_metric.costs import Budget, Prices
from yanami_metric.gate import Gate
from yanami_metric.records import RETRIED, Judge, JudgeCall, JudgeError, Reply
from yanami_metric.replies import ItemVerdict, Unparsed, parse
from yanami_metric.run_folder import RunFolder

Line = dict[str, Any]

_KEPT = 4000  # characters of a raw reply that are shown back to a judge in the repeat request


class TooManyFailuresError(YanamiError):
    """Judging was stopped: so many calls failed that the rest hardly would go better."""


@dataclass
class Bench:
    """Asks judges about the dialogues of a run, and writes down what they say.

    Args:
        folder: where verdicts go, and where those that exist already are found.
        by: the judges.
        rules: how they are asked.
        concurrency: calls in flight; fewer while a judge says that its server has too much to do.
        retry: statuses of verdicts that are asked again although they are final, e.g. ("refused",).
        cache: verdicts of other runs, found by fingerprint.
        max_failures: stop after so many failed calls; None: never.
        budget: what calls cost, and when it is enough.
        on_verdict: called with each line of verdicts.jsonl and whether it was made just now.
    """

    folder: RunFolder
    by: Judges
    rules: Rules = field(default_factory=Rules)
    concurrency: int = 8
    retry: tuple[str, ...] = ()
    cache: Cache | None = None
    max_failures: int | None = None
    on_verdict: Callable[[Line, bool], None] = lambda verdict, fresh: None
    budget: Budget = field(default_factory=lambda: Budget(Prices()))
    failures: int = 0

    def __post_init__(self) -> None:
        self._gate = Gate(self.concurrency)
        for judge in (self.by.images, self.by.answers):
            if hasattr(judge, "on_pressure"):
                judge.on_pressure = self._gate.pressure

    async def judge(self, dialogues: Sequence[Dialogue], tracks: Sequence[str]) -> None:
        """Have a verdict on everything that the outputs of some dialogues, a window, can be judged for.

        Args:
            dialogues: the window.
            tracks: history modes, and their further generations, whose outputs are judged.

        Raises:
            TooManyFailuresError: as `max_failures` says.
            BudgetSpentError: as `budget` says.
        """
        await _together(self._settle(dialogue, list(self._tasks(dialogue, tracks))) for dialogue in dialogues)

    def _tasks(self, dialogue: Dialogue, tracks: Sequence[str]) -> Iterable[Task]:
        for track in tracks:
            current = self.folder.current(track, dialogue.id)
            yield from tasks(dialogue, track, current, self.folder, self.by, self.rules)

    async def _settle(self, dialogue: Dialogue, todo: Sequence[Task]) -> None:
        """Give every task of one dialogue its line, asking each distinct question once."""
        lines, groups = self._final(dialogue), _grouped(todo)
        known = {line["fingerprint"]: line for line in lines}
        present = {(line["judge"], line["track"], line["output"], line["fingerprint"]) for line in lines}
        await _together(self._group(each, group, known.get(each), present) for each, group in groups.items())

    def todo(self, dialogues: Iterable[Dialogue], tracks: Sequence[str]) -> Iterator[JudgeCall]:
        """The calls that `judge` would make of a judge, each once; one that needs no reply is none."""
        for dialogue in dialogues:
            known = {line["fingerprint"] for line in self._final(dialogue)}
            for fingerprint, group in _grouped(self._tasks(dialogue, tracks)).items():
                first = group[0]
                if first.call.kind in first.judge.kinds and fingerprint not in known and not self._cached(fingerprint):
                    yield first.call

    def _final(self, dialogue: Dialogue) -> list[Line]:
        """The verdicts of a dialogue that are there and not to be asked for again."""
        return [line for line in self.folder.verdicts.of(dialogue.id) if self._is_final(line)]

    def _is_final(self, line: Line) -> bool:
        return not any(item["status"] in (*RETRIED, *self.retry) for item in line["items"])

    def _cached(self, fingerprint: str) -> Line | None:
        line = self.cache.find(fingerprint) if self.cache else None
        return line if line and self._is_final(line) else None

    async def _group(
        self, fingerprint: str, group: Sequence[Task], line: Line | None, present: set[tuple[str, str, str, str]]
    ) -> None:
        answer = line or self._cached(fingerprint)
        fresh = answer is None
        if answer is None:
            answer = await self._ask(group[0])
            if self.cache and not any(item["status"] in RETRIED for item in answer["items"]):
                self.cache.keep(fingerprint, answer)
        for i, task in enumerate(group):
            about = (task.judge.name, task.track, task.record.key, fingerprint)
            verdict = _line(task, fingerprint, answer, reused=i > 0 or not fresh)
            if about not in present:
                self.folder.verdicts.append(verdict)
            self.on_verdict(verdict, fresh and i == 0)

    async def _ask(self, task: Task) -> Line:
        async with self._gate:
            if self.max_failures is not None and self.failures >= self.max_failures:
                raise TooManyFailuresError(
                    f"{self.failures} judge calls failed, as many as --max-failures allows; what was judged is kept"
                )
            self.budget.check()
            start = time.perf_counter()
            replies, items = await ask(task.judge, task.call)
        self.failures += any(item.status in RETRIED for item in items)
        tokens = _total(reply.input_tokens for reply in replies), _total(reply.output_tokens for reply in replies)
        if replies and task.judge.reads_prompt:
            self.budget.add(tokens)
        return {
            "items": [{"id": i.id, "status": i.status, "value": i.value, "reason": i.reason} for i in items],
            "raw": [reply.text for reply in replies],
            "notes": [reply.note for reply in replies if reply.note],
            "tokens": list(tokens),
            "seconds": round(time.perf_counter() - start, 4),
        }


def _grouped(todo: Iterable[Task]) -> dict[str, list[Task]]:
    """Tasks by what they ask."""
    groups: dict[str, list[Task]] = {}
    for task in todo:
        groups.setdefault(task.fingerprint, []).append(task)
    return groups


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; if one fails, stop the others and wait until they have."""
    running = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*running)
    except BaseException:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


async def ask(judge: Judge, call: JudgeCall) -> tuple[list[Reply], list[ItemVerdict]]:
    """Ask, once more if the reply can't be used. What goes wrong is a status of every item, never a value."""
    if call.kind not in judge.kinds:
        return [], _all(call, "not_judgeable", f"the judge {judge.name} is not made for {call.kind}")
    replies: list[Reply] = []
    fault = ""
    for attempt in range(2 if judge.reads_prompt else 1):
        if attempt:
            call = replace(call, last=replies[-1].text[:_KEPT], fault=fault)
        try:
            replies.append(await judge.judge(call))
        except JudgeError as error:
            return replies, _all(call, error.status, str(error))
        except Exception as error:  # noqa: BLE001 - foreign code; the error is the status, and the run goes on
            return replies, _all(call, "transport_error", f"{type(error).__name__}: {error}")
        try:
            return replies, parse(call.kind, call.items, replies[-1].text)
        except Unparsed as error:
            fault = str(error)
    return replies, _all(call, "unparsed", fault)


def _all(call: JudgeCall, status: str, reason: str) -> list[ItemVerdict]:
    return [ItemVerdict(item.id, status, None, reason) for item in call.items]


def _line(task: Task, fingerprint: str, answer: Line, *, reused: bool) -> Line:
    """A line of verdicts.jsonl; `reused` says that its call was paid for by another line."""
    return {
        "dialogue": task.dialogue,
        "track": task.track,
        "turn": task.record.turn,
        "slot": task.slot,
        "question": task.record.question,
        "kind": task.call.kind,
        "sample": task.call.sample,
        "output": task.record.key,
        "candidate": task.call.candidate.sha256 if task.call.candidate else None,
        "judge": task.judge.name,
        "fingerprint": fingerprint,
        "reused": reused,
        **{name: answer[name] for name in ("items", "raw", "notes", "tokens", "seconds")},
    }
