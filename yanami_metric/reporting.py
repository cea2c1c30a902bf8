"""From a run folder to report.md and report.html: reads, and lets `tables` and `report` speak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from yanami_dataset.errors import RunFolderError
from yanami_dataset.schema import Dialogue, Slot
from yanami_metric import tables
from yanami_metric.analysis.turns import by_turn
from yanami_metric.asking import Surroundings, answer_call, image_calls
from yanami_metric.data import Data
from yanami_metric.formulas import Weights
from yanami_metric.prompts import KINDS, SEPARATOR, Prompt
from yanami_metric.records import JudgeCall
from yanami_metric.report import sample, write
from yanami_metric.report_data import (
    ReportAnswer,
    ReportCall,
    ReportDialogue,
    ReportHistory,
    ReportImage,
    ReportItem,
)
from yanami_metric.results import Current, item_verdicts, judge_names, own_images, scores_file
from yanami_metric.run_folder import RunFolder, StoredImage, write_atomic
from yanami_metric.scoring import tallied


def write_report(
    data: Data, folder: RunFolder, entry: Mapping[str, Any], shown: int | None = None, *, inline: bool = False
) -> Path:
    """Write both reports of a scored run; return the path of the page.

    Args:
        data: the dialogues of the run.
        folder: where it is, and where the reports go.
        entry: the judges whose scores are reported, an entry of run.json's `judges`.
        shown: how many dialogues can be browsed, an even sample over the scenarios; None: all.
        inline: hold all images in full in the page itself instead of beside it.
    """
    name = scores_file(folder, entry)
    if not (folder.path / name).is_file():
        raise RunFolderError(f"{folder.path}: expected {name} to report, found none; run `yanami score` first")
    scores = json.loads((folder.path / name).read_text())
    path = folder.path / report_name(name)
    write_atomic(path.with_suffix(".md"), tables.markdown(scores).encode(errors="replace"))
    chosen = sample({dialogue.id: dialogue.scenario for dialogue in data}, shown)
    curve = by_turn(tallied(data, folder, entry), weights=_weights(scores))
    reading = _Reading(data, folder, entry)
    write(
        path,
        scores,
        reading.dialogues(chosen),
        shown=len(chosen),
        total=len(data),
        images=_images(data, chosen, len(folder.histories)),
        charts=[chart for chart in curve.charts if chart.x_label == "generation turn"],
        chart_notes=curve.notes,
        rubrics={kind: prompt.rubric for kind, prompt in reading.prompts.items()},
        inline=inline,
    )
    return path


def report_name(scores: str) -> str:
    """The page that goes with a file of scores.

    >>> report_name("scores.json"), report_name("scores.a-exact.json")
    ('report.html', 'report.a-exact.html')
    """
    return scores.removesuffix(".json").replace("scores", "report", 1) + ".html"


def _weights(scores: tables.Scores) -> Weights:
    return Weights(**scores["weights"])


def _images(data: Data, chosen: Sequence[str], histories: int) -> int:
    """How many images the page will have at most."""
    wanted = set(chosen)
    return sum(len(one.image_info) + histories * len(one.slots) for one in data if one.id in wanted)


class _Reading:
    """What a run folder says about its dialogues, one at a time."""

    def __init__(self, data: Data, folder: RunFolder, entry: Mapping[str, Any]) -> None:
        self._data, self._folder, self._entry = data, folder, entry
        self._names = judge_names(entry)
        self.prompts = dict(_prompts(folder, entry))

    def dialogues(self, chosen: Sequence[str]) -> Iterator[ReportDialogue]:
        """The chosen dialogues, as they are wanted."""
        for id in chosen:
            dialogue, lines = self._data.get(id), self._folder.verdicts.of(id)
            histories = {name: self._history(dialogue, name, lines) for name in self._folder.histories}
            yield ReportDialogue(dialogue, histories)

    def _history(self, dialogue: Dialogue, history: str, lines: Sequence[Mapping[str, Any]]) -> ReportHistory:
        current = self._folder.current(history, dialogue.id)
        verdicts = item_verdicts(dialogue, history, current, lines, self._entry)
        items = {key: ReportItem(v.status, v.value, v.reason) for key, v in verdicts.items()}
        return ReportHistory(
            {(slot.turn, slot.ordinal): image for slot, image in self._drawn(dialogue, current)},
            _answers(current),
            items,
            list(self._calls(dialogue, history, current, lines)),
        )

    def _drawn(self, dialogue: Dialogue, current: Current) -> Iterator[tuple[Slot, ReportImage]]:
        for slot in dialogue.slots:
            if record := current.get((slot.turn, None)):
                status = record.slot_status(slot.ordinal)
                stored = record.images[slot.ordinal] if status == "ok" else None
                if stored is None:
                    yield slot, ReportImage(None, status, record.reason)
                else:
                    read = self._folder.image(stored).read
                    yield slot, ReportImage(read, digest=stored.sha256, file=self._link(stored))

    def _link(self, stored: StoredImage) -> str:
        """The address of an output relative to the page, "" for a record that names a file elsewhere."""
        root = self._folder.path.resolve()
        path = (root / stored.file).resolve()
        return quote(path.relative_to(root).as_posix()) if path.is_relative_to(root) else ""

    def _calls(
        self, dialogue: Dialogue, history: str, current: Current, lines: Sequence[Mapping[str, Any]]
    ) -> Iterator[ReportCall]:
        """The calls about the present outputs, the latest of each, in the order they were first made."""
        latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        keys = {record.key for record in current.values()}
        for line in lines:
            if line["track"] == history and line["output"] in keys and line["judge"] == self._names[line["kind"]]:
                asked = tuple(item["id"] for item in line["items"])
                latest[line["output"], line["kind"], line["sample"], asked] = line
        prompts = self._prompts(dialogue, current) if self.prompts else {}
        for (_, kind, number, asked), line in latest.items():
            yield ReportCall(
                kind=kind,
                judge=line["judge"],
                turn=line["turn"],
                slot=line["slot"],
                question=line["question"],
                items=asked,
                raw=tuple(line["raw"]),
                sample=number,
                prompt=prompts.get((kind, asked)),
                fingerprint=line["fingerprint"],
                notes=tuple(line["notes"]),
            )

    def _prompts(self, dialogue: Dialogue, current: Current) -> dict[tuple[str, tuple[str, ...]], str]:
        """By kind and items what a judge was shown, rendered again from the prompt files that the run kept."""
        own = own_images(current, self._folder)
        found: dict[tuple[str, tuple[str, ...]], str] = {}
        for question in dialogue.questions:
            if record := current.get((question.turn, question.id)):
                self._render(found, answer_call(question, record.text), None)
        for slot in dialogue.slots:
            if candidate := own.get((slot.turn, slot.ordinal)):
                around = Surroundings(dialogue, slot, own)
                for call in image_calls(dialogue, slot, candidate, self._entry["rules"]["checks_per_call"]):
                    self._render(found, call, around)
        return found

    def _render(
        self, found: dict[tuple[str, tuple[str, ...]], str], call: JudgeCall, around: Surroundings | None
    ) -> None:
        prompt = self.prompts.get(call.kind)
        if prompt is None:
            return
        context = self._entry["rules"]["context"]
        seen = around if call.kind == "checks" else None
        history = seen.history() if seen and context != "candidate" else ((), ())
        messages, _ = prompt.render(call, history, seen.target() if seen and context == "target" else None)
        parts = [part.text or "[image]" for message in messages for part in message.content]
        found[call.kind, tuple(item.id for item in call.items)] = "\n\n".join(parts)


def _prompts(folder: RunFolder, entry: Mapping[str, Any]) -> Iterator[tuple[str, Prompt]]:
    """The prompts that these judges read, by kind of call; a run keeps none for a judge that reads none."""
    for kind in KINDS:
        path = folder.path / "prompts" / f"{kind}-{entry['rules']['prompts'].get(kind, '')[:12]}.md"
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            rubric, _, body = text.partition(SEPARATOR)
            yield kind, Prompt(kind, text, rubric.strip(), body)


def _answers(current: Current) -> dict[str, ReportAnswer]:
    return {
        question: ReportAnswer(record.text, record.status, record.reason)
        for (_, question), record in current.items()
        if question is not None
    }
