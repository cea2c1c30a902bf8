"""YANAMI as an `evaluate.Metric`: a thin adapter over rollout, judge and score.

The only module that imports `evaluate`, which takes some ten seconds where transformers is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import datasets
import evaluate

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import Dialogue
from yanami_metric import api
from yanami_metric.data import Data, open_data
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.records import Caps, Judge, Output, Request

_DESCRIPTION = (
    "Dialogue-state understanding (DSU), state consistency (SC) and visual quality (VQ) of a model in dialogues."
)
_INPUTS = """
Args:
    predictions: one per dialogue, a dict of
        `id`: the dialogue's id;
        `images`: the images of its slots in their order (PIL, encoded bytes or a path), None for a missing one;
        `answers`: the answers to its questions in their order; None for a model that doesn't answer in text.
    references: the dialogues' ids, in the same order.
    judge: of images; a spec string or an object. Default: "pixel".
    answer_judge: of answers. Default: "exact".
    weights: `yanami_metric.Weights`, or a dict of its fields.

Returns:
    A flat dict on the 0-100 scale: `overall`, `vr`, `dsu`, `sc`, `vq`, the same by scenario (`fusion_overall`, …) and
    by question dimension (`fusion_reference_resolution`, …), `overall_low` and `overall_high` (95 % interval),
    `coverage` (share of scored items, 0-1) and `unscored` (items). None for what is undefined, e.g. `overall` on fewer
    than four scenarios.
"""


class Yanami(evaluate.Metric):  # type: ignore[misc]
    """The metric. `evaluate.load("yanami", data=…)`, with `data` as for `yanami_metric.rollout`.

    Args:
        data: "mini", a folder, a Hub id, dialogues or a `datasets.Dataset`: what the predictions are about.
    """

    def __init__(self, *args: Any, data: Any = "mini", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opened: Data | None = None
        self._asked_for = data

    def _info(self) -> evaluate.MetricInfo:
        image = datasets.Image(decode=False)  # the bytes as they are: nothing is encoded again
        prediction = {
            "id": datasets.Value("string"),
            "images": datasets.List(image),
            "answers": datasets.List(datasets.Value("string")),
        }
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="YANAMI: A Large-Scale Multimodal Dataset and Benchmark for Multiturn Stateful Interaction, "
            "arXiv 2611.05280",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": prediction, "references": datasets.Value("string")}),
        )

    @property
    def dialogues(self) -> Data:
        """What the predictions are about."""
        if self._opened is None:
            self._opened = open_data(self._asked_for)
        return self._opened

    def _compute(
        self,
        *,
        predictions: Sequence[Mapping[str, Any]],
        references: Sequence[str],
        judge: str | Judge = "pixel",
        answer_judge: str | Judge = "exact",
        weights: Weights | Mapping[str, float] = DEFAULT,
    ) -> dict[str, float | int | None]:
        given = Given(self.dialogues, predictions, references)
        if isinstance(weights, Mapping):
            weights = _weights(weights)
        # History "self" only names the folder: the outputs are there already, whatever they were made under.
        run = api.rollout(given.dialogues, given, history="self")
        return flat(api.score(api.judge(run, judge, answer_judge), weights=weights)["histories"]["self"])


def _weights(weights: Mapping[str, float]) -> Weights:
    try:
        return Weights(**weights)
    except TypeError as error:
        raise SpecError(f"weights: expected the fields dsu, sc and vq, got {', '.join(weights)}") from error


class Given:
    """Predictions as a model: it gives what was handed over.

    Raises:
        DataError: ids that don't agree, or not one image a slot and one answer a question.
    """

    def __init__(self, data: Data, predictions: Sequence[Mapping[str, Any]], references: Sequence[str]) -> None:
        ids = [prediction["id"] for prediction in predictions]
        if ids != list(references):
            wrong = next((pair for pair in zip(ids, references, strict=False) if pair[0] != pair[1]), None)
            raise DataError(f"expected predictions and references with the same ids in the same order, got {wrong}")
        if unknown := sorted(set(ids) - data.all_ids()):
            raise DataError(f"expected ids of {data.name} ({len(data)} dialogues), got {', '.join(unknown[:5])}")
        self.dialogues = [data.get(id) for id in ids]
        self.identity = "predictions"
        answering = any(prediction["answers"] is not None for prediction in predictions)
        self.caps = Caps(outputs=frozenset({"text", "images"} if answering else {"images"}), seeded=False)
        self._outputs: dict[tuple[str, int | str], Output] = {}
        for dialogue, prediction in zip(self.dialogues, predictions, strict=True):
            self._outputs.update(self._take(dialogue, prediction))

    def _take(
        self, dialogue: Dialogue, prediction: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str, int | str], Output]]:
        images = _one_each(dialogue.id, "image", "slot", prediction["images"], len(dialogue.slots))
        drawn = dict(zip(dialogue.slots, map(_bytes, images), strict=True))
        for turn in dialogue.generation_turns:
            yield (dialogue.id, turn), Output(images=[drawn[slot] for slot in dialogue.slots_of(turn)])
        if "text" in self.caps.outputs:
            answers = _one_each(dialogue.id, "answer", "question", prediction["answers"], len(dialogue.questions))
            for question, answer in zip(dialogue.questions, answers, strict=True):
                yield (dialogue.id, question.id), Output(text=answer)

    def generate(self, requests: Sequence[Request]) -> list[Output]:
        """What was handed over for each request."""
        return [self._outputs[request.dialogue, request.question or request.turn] for request in requests]


def _one_each(dialogue: str, what: str, per: str, given: Sequence[Any] | None, count: int) -> Sequence[Any]:
    if given is None or len(given) != count:
        got = "none" if given is None else str(len(given))
        raise DataError(f"dialogue {dialogue!r}: expected {count} {what}s, one per {per} (None if missing), got {got}")
    return given


def _bytes(image: Mapping[str, Any] | None) -> bytes | None:
    if image is None:
        return None
    if image["bytes"] is None:
        raise DataError(f"expected the bytes of an image, got the path {image['path']!r}: read the file first")
    return bytes(image["bytes"])


def flat(history: Mapping[str, Any]) -> dict[str, float | int | None]:
    """The scores of one history of a scores.json under flat names, as evaluate's tools expect them."""
    names = ("overall", "vr", "dsu", "sc", "vq")
    found: dict[str, float | int | None] = {name: history[name]["value"] for name in names}
    for scenario, entry in history["scenarios"].items():
        found |= {f"{scenario}_{name}": entry[name]["value"] for name in names}
        found |= {f"{scenario}_{name}": score["value"] for name, score in entry["dimensions"].items()}
    total = sum(sum(counts.values()) for counts in history["statuses"].values())
    unscored = sum(api.unscored({"histories": {"": history}}).values())
    found |= {"overall_low": history["overall"]["low"], "overall_high": history["overall"]["high"]}
    return found | {"coverage": 1 - unscored / total if total else None, "unscored": unscored}
