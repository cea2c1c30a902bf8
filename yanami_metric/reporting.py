"""From a run folder to report.md and report.html: reads, and lets `tables` and `report` speak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError
from yanami_dataset.schema import Dialogue
from yanami_metric import tables
from yanami_metric.data import Data
from yanami_metric.report import (
    SHOWN,
    ReportAnswer,
    ReportDialogue,
    ReportHistory,
    ReportImage,
    ReportItem,
    html,
    sample,
)
from yanami_metric.results import item_verdicts, scores_file
from yanami_metric.run_folder import OutputRecord, RunFolder, write_atomic


def write_report(data: Data, folder: RunFolder, entry: Mapping[str, Any], shown: int = SHOWN) -> Path:
    """Write both reports of a scored run; return the path of the page.

    Args:
        data: the dialogues of the run.
        folder: where it is, and where the reports go.
        entry: the judges whose scores are reported, an entry of run.json's `judges`.
        shown: how many dialogues are shown in full, an even sample over the scenarios.
    """
    name = scores_file(folder, entry)
    if not (folder.path / name).is_file():
        raise RunFolderError(f"{folder.path}: expected {name} to report, found none; run `yanami score` first")
    scores = json.loads((folder.path / name).read_text())
    path = folder.path / report_name(name)
    write_atomic(path.with_suffix(".md"), tables.markdown(scores).encode(errors="replace"))
    chosen = sample({dialogue.id: dialogue.scenario for dialogue in data}, shown)
    page = html(scores, _shown(data, folder, entry, chosen), total=len(data))
    write_atomic(path, page.encode(errors="replace"))  # models and judges also say halves of characters
    return path


def report_name(scores: str) -> str:
    """The page that goes with a file of scores.

    >>> report_name("scores.json"), report_name("scores.a-exact.json")
    ('report.html', 'report.a-exact.html')
    """
    return scores.removesuffix(".json").replace("scores", "report", 1) + ".html"


def _shown(data: Data, folder: RunFolder, entry: Mapping[str, Any], chosen: Sequence[str]) -> Iterator[ReportDialogue]:
    for id in chosen:
        dialogue, lines = data.get(id), folder.verdicts.of(id)
        histories = {}
        for history in folder.histories:
            current = folder.current(history, id)
            verdicts = item_verdicts(dialogue, history, current, lines, entry)
            items = {key: ReportItem(v.status, v.value, v.reason) for key, v in verdicts.items()}
            histories[history] = ReportHistory(_images(dialogue, folder, current), _answers(current), items)
        yield ReportDialogue(dialogue, histories)


def _images(
    dialogue: Dialogue, folder: RunFolder, current: Mapping[tuple[int, str | None], OutputRecord]
) -> dict[tuple[int, int], ReportImage]:
    found = {}
    for slot in dialogue.slots:
        if record := current.get((slot.turn, None)):
            status = record.slot_status(slot.ordinal)
            stored = record.images[slot.ordinal] if status == "ok" else None
            data = folder.image(stored).read() if stored else None
            found[slot.turn, slot.ordinal] = ReportImage(data, status, record.reason)
    return found


def _answers(current: Mapping[tuple[int, str | None], OutputRecord]) -> dict[str, ReportAnswer]:
    return {
        question: ReportAnswer(record.text, record.status, record.reason)
        for (_, question), record in current.items()
        if question is not None
    }
