"""Predictions: what a model drew and answered, as data that someone hands over. Knows nothing of `evaluate`.

A prediction is a dict for one dialogue:

`id`        the dialogue's id
`images`    one image per slot in slot order, None for a missing one; None altogether for a model that doesn't draw
`answers`   one text per question in question order, None for a missing one; None altogether for a model that doesn't
            answer in text
`faults`    optional: what became of outputs that are not the model's doing, or that it refused. Dicts of `turn`,
            `question` (its id, None for the turn's images), `status` (FAULTS) and `reason`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from yanami_dataset.errors import DataError, ImageError, SpecError
from yanami_dataset.schema import Dialogue
from yanami_metric import api
from yanami_metric.data import EVERYTHING, Data
from yanami_metric.records import Caps, Output, Request
from yanami_metric.rollout import encoded
from yanami_metric.run_folder import OutputRecord, RunFolder
from yanami_metric.runs import Run

FIELDS = ("id", "images", "answers")
FAULTS = ("generation_error", "unsupported", "model_refused")  # what a missing image or answer alone can't say
_FAULT_FIELDS = ("turn", "question", "status", "reason")

Key = tuple[str, int, str | None]  # dialogue, turn, question id or None for the turn's images


def predicted(run: Run, history: str = "gt") -> list[dict[str, Any]]:
    """What a run drew and answered under one history mode, as predictions that score as the run itself does.

    Raises:
        RunFolderError: there are no outputs of that history mode.
        SpecError: the run has several generations, and predictions can hold one.
    """
    found = api.predictions(run, history)
    with RunFolder(run.path) as folder:
        if len(tracks := folder.tracks(history)) > 1:
            raise SpecError(f"{run.path}: expected one generation to take predictions from, got {len(tracks)}")
        draws = "images" in folder.settings["model"]["caps"]["outputs"]
        for prediction in found:
            if not draws:
                prediction["images"] = None
            records = folder.current(history, prediction["id"]).values()
            if faults := [_fault(record) for record in records if record.status in FAULTS]:
                prediction["faults"] = faults
    return found


def _fault(record: OutputRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _FAULT_FIELDS}


def checked(predictions: Any, references: Any) -> list[Mapping[str, Any]]:
    """The predictions themselves, if they have the form of predictions and one reference each.

    Whether they fit the dialogues is for `Given`: here nothing is opened.

    Raises:
        DataError: saying what was expected, what came, and which prediction it was.
    """
    for name, value in (("predictions", predictions), ("references", references)):
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
            raise DataError(f"{name}: expected a list, one per dialogue, got {_kind(value)}")
    if len(predictions) != len(references):
        raise DataError(
            f"expected one reference (the dialogue's id) per prediction, got {len(predictions)} predictions and "
            f"{len(references)} references"
        )
    for place, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        if fault := _form(prediction):
            raise DataError(f"prediction {place}: {fault}")
        if not isinstance(reference, str):
            raise DataError(f"reference {place}: expected a dialogue's id, got {_kind(reference)}")
    return list(predictions)


def _form(prediction: Any) -> str:
    if not isinstance(prediction, Mapping):
        return f"expected a dict of {', '.join(FIELDS)}, got {_kind(prediction)}"
    if set(prediction) - {"faults"} != set(FIELDS):
        return f"expected the fields {', '.join(FIELDS)} (and optionally faults), got {', '.join(map(str, prediction))}"
    if not isinstance(prediction["id"], str):
        return f"id: expected a string, got {_kind(prediction['id'])}"
    for name in ("images", "answers", "faults"):
        value = prediction.get(name)
        if value is not None and not isinstance(value, list | tuple):
            return f"{name}: expected a list or None, got {_kind(value)}"
    if wrong := [one for one in prediction["answers"] or () if one is not None and not isinstance(one, str)]:
        return f"answers: expected texts, None for a missing one, got {_kind(wrong[0])}"
    return next(filter(None, map(_fault_form, prediction.get("faults") or ())), "")


def _fault_form(fault: Any) -> str:
    if not isinstance(fault, Mapping) or set(fault) != set(_FAULT_FIELDS):
        return f"faults: expected dicts of {', '.join(_FAULT_FIELDS)}, got {fault!r}"
    return "" if fault["status"] in FAULTS else f"faults: expected one of {', '.join(FAULTS)}, got {fault['status']!r}"


def image_bytes(image: Any) -> bytes | None:
    """The encoded bytes of an image: bytes as they are, a file's, a PIL image's as PNG, None for a missing one.

    Raises:
        ImageError: anything else, or no such file.

    >>> image_bytes({"bytes": b"...", "path": None})
    b'...'
    """
    from PIL.Image import Image

    if image is None:
        return None
    if isinstance(image, Mapping) and set(image) == {"bytes", "path"}:
        image = image["path"] if image["bytes"] is None else image["bytes"]
    if isinstance(image, bytes | Image):
        return encoded(image)
    if not isinstance(image, str | Path):
        raise ImageError(f"expected an image as PIL image, encoded bytes or path, got {_kind(image)}")
    try:
        return Path(image).read_bytes()
    except OSError as error:
        raise ImageError(
            f"expected an image file, got {str(image)!r}: {error}; None stands for a missing one"
        ) from error


class Given:
    """Predictions as a model: it gives what was handed over.

    Args:
        data: the dialogues that the predictions are about, or more.
        predictions: images as encoded bytes.
        references: the same ids in the same order.

    Raises:
        DataError: none, ids that don't agree, that come twice or aren't in the data, or not one image a slot and one
            answer a question.
    """

    def __init__(self, data: Data, predictions: Sequence[Mapping[str, Any]], references: Sequence[str]) -> None:
        ids = [prediction["id"] for prediction in predictions]
        _refuse_ids(data, ids, list(references))
        self.data = Data("", data.name, data.everything.select(ids), EVERYTHING)
        self.identity = "predictions"
        can = {"images": "images", "text": "answers"}
        outputs = frozenset(what for what, name in can.items() if any(one[name] is not None for one in predictions))
        if not outputs:
            raise DataError("expected images or answers, got None for both in all predictions: nothing to score")
        self.caps = Caps(outputs=outputs, seeded=False)
        self._outputs: dict[Key, Output] = {}
        for prediction in predictions:
            self._take(self.data.get(prediction["id"]), prediction)

    def _take(self, dialogue: Dialogue, prediction: Mapping[str, Any]) -> None:
        outputs = dict(self._given(dialogue, prediction))
        for fault in prediction.get("faults") or ():
            key = dialogue.id, fault["turn"], fault["question"]
            if key not in outputs:
                where = f"turn {fault['turn']}, question {fault['question']!r}"
                raise DataError(f"dialogue {dialogue.id!r}: expected faults of what it asks for, got one of {where}")
            outputs[key] = Output(status=fault["status"], reason=fault["reason"] or "")
        self._outputs |= outputs

    def _given(self, dialogue: Dialogue, prediction: Mapping[str, Any]) -> Iterator[tuple[Key, Output]]:
        if "images" in self.caps.outputs:
            images = _one_each(dialogue.id, "image", "slot", prediction["images"], len(dialogue.slots))
            drawn = dict(zip(dialogue.slots, images, strict=True))
            for turn in dialogue.generation_turns:
                yield (dialogue.id, turn, None), Output(images=[drawn[slot] for slot in dialogue.slots_of(turn)])
        if "text" in self.caps.outputs:
            answers = _one_each(dialogue.id, "answer", "question", prediction["answers"], len(dialogue.questions))
            for question, answer in zip(dialogue.questions, answers, strict=True):
                yield (dialogue.id, question.turn, question.id), Output(text=answer)

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """What was handed over for each request."""
        return [self._outputs[request.dialogue, request.turn, request.question] for request in requests]


def _refuse_ids(data: Data, ids: Sequence[str], references: Sequence[str]) -> None:
    if not ids:
        raise DataError("expected at least one prediction, got none: add some, or hand them to compute")
    if len(ids) != len(references):
        raise DataError(f"expected one reference per prediction, got {len(ids)} and {len(references)}")
    for place, (id, reference) in enumerate(zip(ids, references, strict=True)):
        if id != reference:
            raise DataError(
                "expected predictions and references with the same ids in the same order, "
                f"got a prediction for {id!r} with the reference {reference!r} (number {place})"
            )
    if twice := [id for id, count in Counter(ids).items() if count > 1]:
        raise DataError(f"expected one prediction per dialogue, got {_some(twice)} twice; was a share added twice?")
    known = data.selection.choose(list(zip(data.everything.ids(), data.everything.scenarios(), strict=True)))
    if unknown := sorted(set(ids) - set(known)):
        raise DataError(
            f"expected ids of {data.name} ({len(known)} dialogues), got {_some(unknown)}; "
            "load the metric with the data that the predictions are about"
        )


def _one_each(dialogue: str, what: str, per: str, given: Sequence[Any] | None, count: int) -> Sequence[Any]:
    if len(given or ()) != count:
        got = "none" if given is None else str(len(given))
        raise DataError(f"dialogue {dialogue!r}: expected {count} {what}s, one per {per} (None if missing), got {got}")
    return given or ()


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    return ", ".join(map(repr, ids[:5])) + more


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
