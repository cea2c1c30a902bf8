"""What several tests need: a model and a judge that are scripted, and small dialogues."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.strategies import colour_png
from yanami_dataset.images import sha256
from yanami_dataset.schema import Check, Dialogue, ImageInfo, Message, Part, Question, Turn
from yanami_metric.records import Caps, JudgeCall, Output, Reply, Request


def dialogue(id: str = "d1", scenario: str = "editing", draws: int = 2, *, targets: bool = True) -> Dialogue:
    """A photo, then `draws` turns with one slot each, a talking turn between them, two questions, a check a slot."""
    data = [colour_png(0)]
    info = [ImageInfo("reference", 0, sha256(data[0]), 4, 3)]
    messages = [Message("user", (Part("text", f"{id}: my cat"), Part("image", index=0))), _says("A cat.")]
    for n in range(draws):
        if targets:
            data.append(colour_png(n + 1))
            info.append(ImageInfo("target", 2 * n + 1, sha256(data[-1]), 4, 3))
        index = len(data) - 1 if targets else None
        messages += [_asks(f"Draw {n}."), Message("assistant", (Part("image", index=index),))]
        messages += [_asks("Good?"), _says("Yes.")]
    turns = len(messages) // 2
    questions = (
        Question("q-first", "context_retrieval", 0, "What is it?", "a cat"),
        Question("q-last", "correction_updating", turns - 1, "How many?", str(draws)),
    )
    checks = tuple(Check(f"c{n}", 2 * n + 1, 0, "It is a cat.") for n in range(draws))
    return Dialogue(
        id, scenario, tuple(messages), (Turn(),) * turns, tuple(data), tuple(info), questions, checks, source="tests"
    )


def _asks(text: str) -> Message:
    return Message("user", (Part("text", text),))


def _says(text: str) -> Message:
    return Message("assistant", (Part("text", text),))


@dataclass
class ScriptedModel:
    """Draws an image of its own for every slot and answers "a cat", unless `script` says something else."""

    script: Callable[[Request], Output | None] = lambda request: None
    caps: Caps = field(default_factory=Caps)
    identity: str = "scripted/1"
    requests: list[Request] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        self.batches.append(len(requests))
        self.requests += requests
        return [self._output(request) for request in requests]

    def _output(self, request: Request) -> Output:
        scripted = self.script(request)
        if scripted is not None:
            return scripted
        if request.expects == "text":
            return Output(text="a cat")
        return Output(images=[colour_png(1000 + seed % 30_000) for seed in request.seeds])


@dataclass
class ScriptedJudge:
    """Passes everything and finds every image a 7, unless `script` says something else."""

    script: Callable[[JudgeCall], str | None] = lambda call: None
    name: str = "scripted"
    kinds: frozenset[str] = frozenset({"answer", "checks", "quality"})
    reads_prompt: bool = False
    version: int = 1
    calls: list[JudgeCall] = field(default_factory=list)

    @property
    def fingerprint(self) -> dict[str, object]:
        return {"judge": "scripted", "version": self.version}

    async def judge(self, call: JudgeCall) -> Reply:
        self.calls.append(call)
        return Reply(self.script(call) or reply(call))


def reply(call: JudgeCall, *, passes: bool = True, score: float = 7) -> str:
    """A well-formed reply to any call."""
    if call.kind == "checks":
        verdict = "pass" if passes else "fail"
        return json.dumps({"checks": [{"id": item.id, "reason": "r", "verdict": verdict} for item in call.items]})
    if call.kind == "quality":
        return json.dumps({"reason": "r", "score": score})
    return json.dumps({"reason": "r", "verdict": "correct" if call.answer == call.reference else "incorrect"})
