"""What a run says about one dialogue: its outputs and verdict lines, joined. Pure.

Every item the dialogue asks for gets one result: that of its output if the output is not to be judged, else of the
latest verdict of the judges in question about the present output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yanami_dataset.schema import Dialogue
from yanami_metric.records import COUNTS_AS_WRONG, ImageRef, quality_id
from yanami_metric.replies import ItemVerdict
from yanami_metric.run_folder import OutputRecord, RunFolder

Current = Mapping[tuple[int, str | None], OutputRecord]


def item_verdicts(
    dialogue: Dialogue, track: str, current: Current, lines: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]
) -> dict[tuple[str, str], ItemVerdict]:
    """By (kind, item id) what became of each item; items that nobody has judged yet are absent.

    Args:
        dialogue: what is asked.
        track: the history mode, or a further generation of it.
        current: the latest outputs of this dialogue there.
        lines: the dialogue's lines of verdicts.jsonl.
        entry: the judges that count, an entry of run.json's `judges`.
    """
    names, samples = judge_names(entry), entry["rules"]["samples"]
    judged: dict[tuple[str, str, str], dict[int, ItemVerdict]] = {}
    for line in lines:
        if line["track"] == track and line["judge"] == names[line["kind"]] and line["sample"] < samples:
            for item in line["items"]:
                judged.setdefault((line["output"], line["kind"], item["id"]), {})[line["sample"]] = ItemVerdict(**item)
    found = {}
    for kind, id, record, status in _asked(dialogue, current):
        if status != "ok":
            found[kind, id] = ItemVerdict(id, status, 0.0 if status in COUNTS_AS_WRONG else None, record.reason)
        elif len(verdicts := judged.get((record.key, kind, id), {})) == samples:
            found[kind, id] = decide(kind, list(verdicts.values()))
    return found


def decide(kind: str, samples: Sequence[ItemVerdict]) -> ItemVerdict:
    """One verdict of several samples: the majority for checks and answers (a tie fails), the mean for quality.

    A sample without a value leaves the item without one: the others are no substitute.

    >>> yes, no = ItemVerdict("c", "scored", 1.0), ItemVerdict("c", "scored", 0.0)
    >>> decide("checks", [yes, no, yes]).value, decide("checks", [yes, no]).value
    (1.0, 0.0)
    """
    for verdict in samples:
        if verdict.value is None:
            return verdict
    if len(samples) == 1:
        return samples[0]
    mean = sum(verdict.value or 0.0 for verdict in samples) / len(samples)
    value = mean if kind == "quality" else float(mean > 0.5)
    told = "; ".join(f"{verdict.value:g}: {verdict.reason}" for verdict in samples)
    return ItemVerdict(samples[0].id, "scored", value, f"{len(samples)} samples: {told}")


def _asked(dialogue: Dialogue, current: Current) -> Iterator[tuple[str, str, OutputRecord, str]]:
    """(kind, item id, output, its status) of every item whose output exists."""
    for question in dialogue.questions:
        if record := current.get((question.turn, question.id)):
            yield "answer", question.id, record, record.status
    for slot in dialogue.slots:
        if record := current.get((slot.turn, None)):
            status = record.slot_status(slot.ordinal)
            yield "quality", quality_id(slot), record, status
            for check in dialogue.checks_of(slot):
                yield "checks", check.id, record, status


def own_images(current: Current, folder: RunFolder) -> dict[tuple[int, int], ImageRef | None]:
    """By (turn, ordinal) the usable images that a model drew; None for one that is missing."""
    return {
        (turn, ordinal): folder.image(image) if image else None
        for (turn, question), record in current.items()
        if question is None and record.status == "ok"
        for ordinal, image in enumerate(record.images)
    }


def judge_names(entry: Mapping[str, Any]) -> dict[str, str]:
    """The judge's name for each kind of call, from an entry of run.json's judges."""
    images, answers = entry["images"]["name"], entry["answers"]["name"]
    return {"checks": images, "quality": images, "answer": answers}


def scores_file(folder: RunFolder, entry: Mapping[str, Any]) -> str:
    """scores.json for the first judges of a run, scores.<judges>.json for others, numbered if asked in another way."""
    if folder.judges[0] == entry:
        return "scores.json"
    names = [_file_name(one) for one in folder.judges]
    place = folder.judges.index(dict(entry))
    count = names[: place + 1].count(names[place])
    return f"scores.{names[place]}{f'.{count}' if count > 1 else ''}.json"


def _file_name(entry: Mapping[str, Any]) -> str:
    name = "-".join(entry[role]["name"] for role in ("images", "answers"))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)
