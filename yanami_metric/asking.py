"""What to ask a judge about the outputs of one dialogue: calls with all that the judge needs to see. Asks nobody."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_dataset.schema import Check, Dialogue, Question, Slot
from yanami_metric.history import Settings, Storyteller
from yanami_metric.prompts import Prompt, load_prompts
from yanami_metric.records import ImageRef, Judge, JudgeCall, JudgeItem, quality_id
from yanami_metric.replies import schema
from yanami_metric.results import Current, own_images
from yanami_metric.run_folder import OutputRecord, RunFolder

QUALITY_PROBE = '{"predicate": "quality"}'
CONTEXTS = ("candidate", "history", "target")


@dataclass(frozen=True, slots=True)
class Rules:
    """How judges are asked.

    Args:
        context: what a judge of checks sees besides the candidate: nothing (`candidate`), the dialogue up to the
            request (`history`), or that and the target (`target`). A judge of quality sees the candidate alone.
        checks_per_call: None: all checks of an image in one call.
        samples: how often each question is asked; a majority decides checks and answers (a tie fails), quality is the
            mean.
        prompts: of judges that read one, by kind of call.
    """

    context: str = "history"
    checks_per_call: int | None = None
    samples: int = 1
    prompts: Mapping[str, Prompt] = field(default_factory=load_prompts)

    def __post_init__(self) -> None:
        if self.context not in CONTEXTS:
            raise SpecError(f"judge context: expected one of {', '.join(CONTEXTS)}, got {self.context!r}")
        for name in ("checks_per_call", "samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SpecError(f"{name}: expected 1 or more, got {value}")

    def described(self) -> dict[str, Any]:
        """As run.json has them, prompts by their hashes."""
        prompts = {kind: prompt.hash for kind, prompt in self.prompts.items()}
        return {
            "context": self.context,
            "checks_per_call": self.checks_per_call,
            "samples": self.samples,
            "prompts": prompts,
        }


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
        content: list[Any] = [self.judge.fingerprint, call.kind, call.sample]
        if self.judge.reads_prompt:
            content += [[item.id for item in call.items], call.rubric, [asdict(message) for message in call.messages]]
            content += [_image(image) for image in call.images]
        else:
            content += [[[item.id, item.text, item.probe] for item in call.items], _image(call.candidate)]
            content += [call.answer, call.reference, call.choices]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _image(image: ImageRef | None) -> list[Any] | None:
    # as stored: no codec of ours, so the encoded bytes and the size are all there is to say
    return None if image is None else [image.sha256, image.width, image.height, image.labels]


def tasks(
    dialogue: Dialogue, track: str, current: Current, folder: RunFolder, by: Judges, rules: Rules
) -> Iterator[Task]:
    """Every call to make about one dialogue in one track: of outputs that exist and are usable."""
    own = own_images(current, folder)
    for question in dialogue.questions:
        record = current.get((question.turn, question.id))
        if record is not None and record.status == "ok":
            for call in _sampled(rendered(answer_call(question, record.text), by.answers, rules), rules):
                yield Task(by.answers, call, track, dialogue.id, record, None)
    for slot in dialogue.slots:
        record = current.get((slot.turn, None))
        candidate = own.get((slot.turn, slot.ordinal))
        if record is not None and candidate is not None:
            for plain in image_calls(dialogue, slot, candidate, rules.checks_per_call):
                call = rendered(plain, by.images, rules, Surroundings(dialogue, slot, own))
                for sample in _sampled(call, rules):
                    yield Task(by.images, sample, track, dialogue.id, record, slot.ordinal)


def answer_call(question: Question, answer: str | None) -> JudgeCall:
    """The call about an answer to a question, not rendered yet."""
    item = JudgeItem(question.id, question.question)
    return JudgeCall("answer", (item,), answer=answer, reference=question.answer, choices=question.choices)


def image_calls(
    dialogue: Dialogue, slot: Slot, candidate: ImageRef, per_call: int | None = None
) -> Iterator[JudgeCall]:
    """The calls about one drawn image, not rendered yet: its checks, `per_call` in each or all in one, its quality."""
    checks = dialogue.checks_of(slot)
    step = per_call or max(1, len(checks))
    for start in range(0, len(checks), step):
        yield JudgeCall("checks", _items(checks[start : start + step]), candidate)
    probe = QUALITY_PROBE if any(check.probe for check in checks) else None
    yield JudgeCall("quality", (JudgeItem(quality_id(slot), "How well is the image made?", probe),), candidate)


def _items(checks: Sequence[Check]) -> tuple[JudgeItem, ...]:
    return tuple(JudgeItem(check.id, check.criterion, check.probe) for check in checks)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a drawn image stands; `own` is what the run had drawn, shown where there is no ground truth."""

    dialogue: Dialogue
    slot: Slot
    own: Mapping[tuple[int, int], ImageRef | None]

    def history(self) -> tuple[Any, Any]:
        """Messages and images up to the request."""
        return Storyteller(self.dialogue, Settings(), self.own).context(self.slot.turn)

    def target(self) -> ImageRef | None:
        """The ground truth of the slot, if there is one."""
        index = self.slot.index
        if index is None or self.dialogue.image_info[index].role != "target":
            return None
        info, images = self.dialogue.image_info[index], self.dialogue.images
        return ImageRef(info.sha256, info.width, info.height, lambda: images[index])


def rendered(call: JudgeCall, judge: Judge, rules: Rules, around: Surroundings | None = None) -> JudgeCall:
    """The call with its prompt, for a judge that reads one."""
    if not judge.reads_prompt or call.kind not in judge.kinds:
        return call
    prompt = rules.prompts[call.kind]
    seen = call.kind == "checks" and around is not None
    history = around.history() if seen and around and rules.context != "candidate" else ((), ())
    target = around.target() if seen and around and rules.context == "target" else None
    messages, images = prompt.render(call, history, target)
    return replace(call, rubric=prompt.rubric, messages=messages, images=images, schema=schema(call.kind, call.items))


def _sampled(call: JudgeCall, rules: Rules) -> Iterator[JudgeCall]:
    for sample in range(rules.samples):
        yield replace(call, sample=sample)
