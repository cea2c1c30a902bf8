"""Output -> Verdict: what to ask of which judge, and what became of it. Knows nothing of models and scores.

A verdict is found again by the fingerprint of its call, which holds everything that may change the answer. Equal calls
(the same picture under two history modes) are asked once; failures are asked again next time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from yanami_dataset.schema import Dialogue, Slot
from yanami_metric.history import Settings, Storyteller
from yanami_metric.records import RETRIED, ImageRef, Judge, JudgeCall, JudgeItem, Reply, quality_id
from yanami_metric.replies import ItemVerdict, Unparsed, parse
from yanami_metric.results import own_images
from yanami_metric.run_folder import OutputRecord, RunFolder

QUALITY_PROBE = '{"predicate": "quality"}'


@dataclass(frozen=True, slots=True)
class Judges:
    """Who judges what: `images` the checks and the quality of what was drawn, `answers` the answers to questions."""

    images: Judge
    answers: Judge

    @property
    def name(self) -> str:
        """The name of the judge of images, which scores are filed under."""
        return self.images.name


@dataclass(frozen=True, slots=True)
class Task:
    """One call to make: which judge, what, and what it is about."""

    judge: Judge
    call: JudgeCall
    track: str
    dialogue: str
    record: OutputRecord
    slot: int | None

    @property
    def fingerprint(self) -> str:
        """A hash over all that may change the answer: judge, items, what is judged and what is shown with it."""
        call = self.call
        content = [
            self.judge.fingerprint,
            call.kind,
            [[item.id, item.text, item.probe] for item in call.items],
            _image(call.candidate),
            [call.answer, call.reference, call.choices],
            [asdict(message) for message in call.context],
            [_image(image) for image in call.context_images],
            call.sample,
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _image(image: ImageRef | None) -> list[Any] | None:
    # as stored: no codec of ours, so the encoded bytes and the size are all there is to say
    return None if image is None else [image.sha256, image.width, image.height, image.labels]


def tasks(
    dialogue: Dialogue, track: str, current: dict[tuple[int, str | None], OutputRecord], folder: RunFolder, by: Judges
) -> Iterator[Task]:
    """Every call to make about one dialogue in one track: of outputs that exist and are usable."""
    own = own_images(current, folder)
    for question in dialogue.questions:
        record = current.get((question.turn, question.id))
        if record is not None and record.status == "ok":
            call = JudgeCall(
                "answer",
                (JudgeItem(question.id, question.question),),
                answer=record.text,
                reference=question.answer,
                choices=question.choices,
            )
            yield Task(by.answers, call, track, dialogue.id, record, None)
    for slot in dialogue.slots:
        record = current.get((slot.turn, None))
        candidate = own.get((slot.turn, slot.ordinal))
        if record is not None and candidate is not None:
            for call in image_calls(dialogue, slot, candidate, own if by.images.sees_context else None):
                yield Task(by.images, call, track, dialogue.id, record, slot.ordinal)


def image_calls(
    dialogue: Dialogue,
    slot: Slot,
    candidate: ImageRef,
    own: dict[tuple[int, int], ImageRef | None] | None,
) -> Iterator[JudgeCall]:
    """The calls about one drawn image: all its checks in one, and its quality.

    A judge of checks sees the dialogue if `own`, what the run had drawn, is given; a judge of quality never does.
    """
    checks = dialogue.checks_of(slot)
    if checks:
        items = tuple(JudgeItem(check.id, check.criterion, check.probe) for check in checks)
        context, images = Storyteller(dialogue, Settings(), own).context(slot.turn) if own is not None else ((), ())
        yield JudgeCall("checks", items, candidate, context=context, context_images=images)
    probe = QUALITY_PROBE if any(check.probe for check in checks) else None
    yield JudgeCall("quality", (JudgeItem(quality_id(slot), "How good does the image look?", probe),), candidate)


async def judge_window(
    dialogues: Sequence[Dialogue],
    tracks: Sequence[str],
    folder: RunFolder,
    by: Judges,
    *,
    concurrency: int = 8,
    on_verdict: Callable[[dict[str, Any], bool], None] = lambda verdict, fresh: None,
) -> None:
    """Have a verdict on everything that some dialogues' outputs can be judged for.

    Args:
        dialogues: one window.
        tracks: history modes, and their further generations, whose outputs are judged.
        folder: where verdicts go, and where those that exist already are found.
        by: the judges.
        concurrency: calls in flight.
        on_verdict: called with each line of verdicts.jsonl and whether it was made just now.
    """
    bench = _Bench(folder, asyncio.Semaphore(concurrency), on_verdict)
    calls = [
        bench.settle(
            dialogue,
            [
                task
                for track in tracks
                for task in tasks(dialogue, track, folder.current(track, dialogue.id), folder, by)
            ],
        )
        for dialogue in dialogues
    ]
    await asyncio.gather(*calls)


class _Bench:
    """Asks judges, and remembers what they said."""

    def __init__(
        self, folder: RunFolder, gate: asyncio.Semaphore, on_verdict: Callable[[dict[str, Any], bool], None]
    ) -> None:
        self.folder, self.gate, self.on_verdict = folder, gate, on_verdict

    async def settle(self, dialogue: Dialogue, todo: Sequence[Task]) -> None:
        """Give every task of one dialogue its line, asking each distinct question once."""
        known: dict[str, dict[str, Any]] = {}
        present: set[tuple[str, str, str, str]] = set()
        for line in self.folder.verdicts.of(dialogue.id):
            if not any(item["status"] in RETRIED for item in line["items"]):
                known[line["fingerprint"]] = line
                present.add((line["judge"], line["track"], line["output"], line["fingerprint"]))
        groups: dict[str, list[Task]] = {}
        for task in todo:
            groups.setdefault(task.fingerprint, []).append(task)
        await asyncio.gather(
            *(self._group(print_, group, known.get(print_), present) for print_, group in groups.items())
        )

    async def _group(
        self,
        fingerprint: str,
        group: Sequence[Task],
        line: dict[str, Any] | None,
        present: set[tuple[str, str, str, str]],
    ) -> None:
        fresh = line is None
        answer = line or await self._ask(group[0])
        for i, task in enumerate(group):
            about = (task.judge.name, task.track, task.record.key, fingerprint)
            verdict = _line(task, fingerprint, answer, reused=i > 0 or not fresh)
            if about not in present:
                self.folder.verdicts.append(verdict)
            self.on_verdict(verdict, fresh)

    async def _ask(self, task: Task) -> dict[str, Any]:
        async with self.gate:
            start = time.perf_counter()
            reply, items = await ask(task.judge, task.call)
        return {
            "items": [asdict(item) for item in items],
            "raw": [reply.text] if reply else [],
            "tokens": [reply.input_tokens, reply.output_tokens] if reply else [None, None],
            "seconds": round(time.perf_counter() - start, 4),
        }


async def ask(judge: Judge, call: JudgeCall) -> tuple[Reply | None, list[ItemVerdict]]:
    """Ask once. What goes wrong is a status of every item, never a value."""
    if call.kind not in judge.kinds:
        what = f"the judge {judge.name} is not made for {call.kind}"
        return None, [ItemVerdict(item.id, "not_judgeable", None, what) for item in call.items]
    try:
        reply = await judge.judge(call)
    except Exception as error:  # noqa: BLE001 - foreign code; the error is the status, and the run goes on
        what = f"{type(error).__name__}: {error}"
        return None, [ItemVerdict(item.id, "transport_error", None, what) for item in call.items]
    try:
        return reply, parse(call.kind, call.items, reply.text)
    except Unparsed as error:
        return reply, [ItemVerdict(item.id, "unparsed", None, str(error)) for item in call.items]


def _line(task: Task, fingerprint: str, answer: dict[str, Any], *, reused: bool) -> dict[str, Any]:
    """A line of verdicts.jsonl; `reused` says that its call was paid for by another line."""
    return {
        "dialogue": task.dialogue,
        "track": task.track,
        "turn": task.record.turn,
        "slot": task.slot,
        "question": task.record.question,
        "kind": task.call.kind,
        "output": task.record.key,
        "candidate": task.call.candidate.sha256 if task.call.candidate else None,
        "judge": task.judge.name,
        "fingerprint": fingerprint,
        "reused": reused,
        **{name: answer[name] for name in ("items", "raw", "tokens", "seconds")},
    }
