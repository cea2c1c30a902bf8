"""YANAMI as an `evaluate.Metric` and an `evaluate` evaluator: a thin adapter over rollout, judge and score.

The only module that imports `evaluate`, which takes some ten seconds where transformers is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import datasets
import evaluate

from yanami_dataset.errors import DataError, ImageError, SpecError
from yanami_metric import api
from yanami_metric.data import Data, open_data
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.given import Given, checked, image_bytes, predicted
from yanami_metric.records import Judge

_DESCRIPTION = (
    "Dialogue-state understanding (DSU), state consistency (SC) and visual quality (VQ) of a model in dialogues."
)
_INPUTS = """
Args:
    predictions: one per dialogue, a dict of
        `id`: the dialogue's id;
        `images`: the images of its slots in their order (PIL, encoded bytes or a path), None for a missing one; None
            for a model that doesn't draw;
        `answers`: the answers to its questions in their order; None for a model that doesn't answer in text;
        `faults`: optional, as `rollout` gives them: what failed for no fault of the model's.
    references: the dialogues' ids, in the same order.
    judge: of images; a spec string or an object. Default: that of loading, else "pixel".
    answer_judge: of answers. Default: that of loading, else "exact".
    weights: `yanami_metric.Weights`, or a dict of its fields.

Returns:
    A flat dict on the 0-100 scale: `overall`, `vr`, `dsu`, `sc`, `vq`, the same by scenario (`fusion_overall`, …) and
    by question dimension (`fusion_reference_resolution`, …), `overall_low` and `overall_high` (95 % interval),
    `coverage` (share of scored items, 0-1) and `unscored` (items). None for what is undefined, e.g. `overall` on fewer
    than four scenarios.
"""
_PART = 16  # predictions written at a time: an Arrow array holds 2 GB
_NAMES = ("yanami", "yanami/yanami")


class Yanami(evaluate.Metric):  # type: ignore[misc]
    """The metric. `evaluate.load("yanami", data=…)`, with `data` as for `yanami_metric.rollout`.

    Args:
        data: "mini", a folder, a Hub id, dialogues or a `datasets.Dataset`: what the predictions are about.
        judge: of images, where `compute` names none.
        answer_judge: of answers, where `compute` names none.
        weights: where `compute` names none.
    """

    def __init__(
        self,
        *args: Any,
        data: Any = "mini",
        judge: str | Judge = "pixel",
        answer_judge: str | Judge = "exact",
        weights: Weights | Mapping[str, float] = DEFAULT,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._opened: Data | None = None
        self._asked_for = data
        self._judge, self._answer_judge, self._weights = judge, answer_judge, _weights(weights)

    def _info(self) -> evaluate.MetricInfo:
        image = datasets.Image(decode=False)  # the bytes as they are: nothing is encoded again
        text = datasets.Value("string")
        fault = {"turn": datasets.Value("int32"), "question": text, "status": text, "reason": text}
        prediction = {
            "id": text,
            "images": datasets.List(image),
            "answers": datasets.List(text),
            "faults": datasets.List(fault),
        }
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="YANAMI: A Large-Scale Multimodal Dataset and Benchmark for Multiturn Stateful Interaction, "
            "arXiv 2611.05280",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": prediction, "references": text}),
        )

    @property
    def dialogues(self) -> Data:
        """What the predictions are about."""
        if self._opened is None:
            self._opened = open_data(self._asked_for)
        return self._opened

    def rollout(self, model_or_pipeline: Any, history: str = "gt", **conditions: Any) -> list[dict[str, Any]]:
        """Have a model draw and answer over the metric's dialogues.

        Args:
            model_or_pipeline: a spec string, an object with `caps`, `identity` and `generate`, or a pipeline of
                diffusers or transformers.
            history: one of gt, self, last, none.
            conditions: the other arguments of `yanami_metric.rollout`, e.g. `seed`, `out` or `selection`.

        Returns:
            Predictions for `compute` and `add_batch`; their `id`s are the references. One in which something failed
            has `faults`, so that they score as the rollout does.

        Raises:
            SpecError: several history modes or generations.
            ModelError, HistoryError, RunFolderError: as `yanami_metric.rollout`.
        """
        if not isinstance(history, str) or "," in history:
            raise SpecError(f"history: expected one mode at a time, got {history!r}; roll out once for each")
        if conditions.get("generations", 1) != 1:
            raise SpecError("generations: expected 1, as a prediction holds one; yanami_metric.evaluate takes several")
        return predicted(api.rollout(self.dialogues, model_or_pipeline, history=history, **conditions), history)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add the prediction for one dialogue and its id.

        Raises:
            DataError: not of the form described below.
        """
        # evaluate.combine hands them over by their plural names
        one = {"predictions": prediction, "references": reference} | kwargs
        self.add_batch(**{name: [value] for name, value in one.items()})

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add predictions and their dialogues' ids.

        Raises:
            DataError: not of the form described below; nothing is added then.
        """
        rows = [_row(prediction, at) for at, prediction in enumerate(checked(predictions, references))]
        for start in range(0, max(1, len(rows)), _PART):
            part = slice(start, start + _PART)
            super().add_batch(predictions=rows[part], references=list(references[part]), **kwargs)

    def compute(
        self, *, predictions: Any = None, references: Any = None, **kwargs: Any
    ) -> dict[str, float | int | None] | None:
        """Score what is handed over here and what was added before.

        With several processes each adds its share and calls this; process 0 returns the scores, the others None.

        Raises:
            DataError: no predictions, or they don't fit the dialogues.
            SpecError, ModelError: a judge that doesn't exist or can't be used.
        """
        if predictions is not None or references is not None:
            self.add_batch(predictions=predictions, references=references)
        elif self.writer is None:
            if self.num_process == 1:
                raise DataError("expected at least one prediction, got none: add some, or hand them to compute")
            self.add_batch(predictions=[], references=[])  # the others wait for this process
        try:
            return super().compute(**kwargs)  # type: ignore[no-any-return]
        finally:
            self._let_go()

    def _enforce_nested_string_type(self, schema: Any, obj: Any) -> None:
        """Nothing: `checked` looked at every prediction. evaluate's own looks at the first, and fails on None in it."""

    def _let_go(self) -> None:
        """Free the cache files, which evaluate keeps locked where scoring raised."""
        self.data = None
        paths, locks = getattr(self, "file_paths", None), getattr(self, "filelocks", None)
        for path, lock in zip(paths or (), locks or (), strict=True):
            if lock is not None and lock.is_locked:
                Path(path).unlink(missing_ok=True)
                lock.release()
        self.file_paths = self.filelocks = None

    def _compute(
        self,
        *,
        predictions: Sequence[Mapping[str, Any]],
        references: Sequence[str],
        judge: str | Judge | None = None,
        answer_judge: str | Judge | None = None,
        weights: Weights | Mapping[str, float] | None = None,
    ) -> dict[str, float | int | None]:
        judge = self._judge if judge is None else judge
        answer_judge = self._answer_judge if answer_judge is None else answer_judge
        chosen = self._weights if weights is None else _weights(weights)
        given = Given(self.dialogues, list(map(_plain, predictions)), references)
        # History "none" only names the folder: the outputs are there already, whatever they were made under.
        run = api.rollout(given.data, given, history="none")
        return flat(api.score(api.judge(run, judge, answer_judge), weights=chosen)["histories"]["none"])


def _row(prediction: Mapping[str, Any], place: int) -> dict[str, Any]:
    """A prediction as it is written to evaluate's cache: all fields, images as bytes."""
    images = prediction["images"]
    try:
        stored = None if images is None else [{"bytes": image_bytes(image), "path": None} for image in images]
    except ImageError as error:
        raise ImageError(f"prediction {place} ({prediction['id']!r}): {error}") from error
    return {**{name: prediction.get(name) for name in ("id", "images", "answers", "faults")}, "images": stored}


def _plain(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of `_row`."""
    images = prediction["images"]
    return {**prediction, "images": None if images is None else [image and image["bytes"] for image in images]}


def _weights(weights: Weights | Mapping[str, float]) -> Weights:
    if isinstance(weights, Weights):
        return weights
    try:
        return Weights(**weights)
    except TypeError as error:
        raise SpecError(f"weights: expected the fields dsu, sc and vq, got {', '.join(weights)}") from error


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


_INTERVALS = "the scores have intervals already (overall_low, overall_high)"
_ONLY_DIALOGUES = "the data are dialogues, which have no such column"
_ITS_OWN = "the model brings its own; give a spec string or a finished pipeline"
# arguments of evaluate's own evaluators, and why they would have no effect here
_REFUSED = {
    "subset": "select dialogues with selection=yanami_metric.Selection(…)",
    "split": "load the split yourself and pass it as data, or select with selection=yanami_metric.Selection(…)",
    "tokenizer": _ITS_OWN,
    "feature_extractor": _ITS_OWN,
    "device": "put the pipeline on its device, or give a spec string with options={'load.device': …}",
    "confidence_level": _INTERVALS,
    "n_resamples": _INTERVALS,
    "random_state": f"{_INTERVALS}; seed is that of the rollout",
    "input_column": _ONLY_DIALOGUES,
    "second_input_column": _ONLY_DIALOGUES,
    "label_column": _ONLY_DIALOGUES,
    "label_mapping": _ONLY_DIALOGUES,
    "generation_kwargs": "set them on the pipeline, or give a spec string with options={…}",
}


class YanamiEvaluator(evaluate.Evaluator):  # type: ignore[misc]
    """An evaluator as `evaluate` has them for other tasks: model and dialogues in, scores and timing out.

    `evaluate.evaluator("yanami")` can't find it, as evaluate's tasks are a fixed list: make one yourself.
    """

    def __init__(self, task: str = "yanami", default_metric_name: str = "yanami") -> None:
        # not evaluate's own, which refuses to start without transformers: a spec string needs none
        self.task, self.default_metric_name = task, default_metric_name

    def compute(
        self,
        model_or_pipeline: Any = None,
        data: Any = None,
        *,
        metric: str | Yanami | None = None,
        strategy: str = "simple",
        history: str = "gt",
        judge: str | Judge | None = None,
        answer_judge: str | Judge | None = None,
        weights: Weights | Mapping[str, float] | None = None,
        **conditions: Any,
    ) -> dict[str, float | int | None]:
        """Roll a model out over dialogues and score it.

        Args:
            model_or_pipeline: as for `Yanami.rollout`.
            data: as for `Yanami`; None: the dialogues of the metric that is given.
            metric: None or "yanami", or one that is loaded, whose dialogues must be the same.
            strategy: only "simple": intervals are in the scores anyway.
            history: one of gt, self, last, none.
            judge: as for `Yanami.compute`; so are `answer_judge` and `weights`.
            answer_judge: see `judge`.
            weights: see `judge`.
            conditions: the other arguments of `yanami_metric.rollout`.

        Returns:
            What `Yanami.compute` returns, with `total_time_in_seconds`, `samples_per_second` and `latency_in_seconds`
            of the rollout, where a sample is a dialogue.

        Raises:
            SpecError: an argument that evaluate's evaluators have and this one can't honour.
            DataError: the metric is about other dialogues.
        """
        self._refuse(model_or_pipeline, strategy, conditions)
        loaded = self.prepare_metric(metric, data)
        start = perf_counter()
        found = loaded.rollout(model_or_pipeline, history, **conditions)
        timing: dict[str, float] = self._compute_time_perf(start, perf_counter(), len(found))
        how = {"judge": judge, "answer_judge": answer_judge, "weights": weights}
        return {**(loaded.compute(**self.predictions_processor(found), **how) or {}), **timing}

    @staticmethod
    def _refuse(model: Any, strategy: str, conditions: dict[str, Any]) -> None:
        if model is None:
            raise SpecError("model_or_pipeline: expected a spec string, a model or a pipeline, got None")
        if strategy != "simple":
            raise SpecError(f"strategy: expected 'simple', got {strategy!r}: {_INTERVALS}")
        for name, why in _REFUSED.items():
            if conditions.pop(name, None) is not None:
                raise SpecError(f"{name}: can't be used with YanamiEvaluator: {why}")

    def load_data(self, data: Any, subset: None = None, split: None = None) -> Data:
        """Open dialogues, whatever `data` of `Yanami` may be."""
        self._refuse("", "simple", {"subset": subset, "split": split})
        return open_data(data)

    def prepare_metric(self, metric: str | Yanami | None, data: Any = None) -> Yanami:
        """The metric for some dialogues.

        Args:
            metric: as for `compute`.
            data: as for `compute`.

        Raises:
            SpecError: another metric, one of several processes, or neither metric nor data.
            DataError: a loaded metric about other dialogues.
        """
        if metric is None or (isinstance(metric, str) and metric in _NAMES):
            if data is None:
                raise SpecError("data: expected 'mini', a folder, a Hub id or dialogues, got None")
            return Yanami(data=self.load_data(data))
        if not isinstance(metric, Yanami):
            raise SpecError(f"metric: expected 'yanami' or evaluate.load('yanami', data=…), got {metric!r:.80}")
        if metric.num_process > 1:
            raise SpecError(
                "metric: expected one of a single process, got one of several; use its rollout with "
                "selection=yanami_metric.Selection(shard=(process_id, num_process)), add_batch and compute"
            )
        if data is not None:
            _refuse_others(metric.dialogues, self.load_data(data))
        return metric

    def predictions_processor(self, predictions: Sequence[Mapping[str, Any]], *_: Any) -> dict[str, Any]:
        """What `Yanami.compute` takes, from what `Yanami.rollout` gave."""
        return {"predictions": predictions, "references": [one["id"] for one in predictions]}


def _refuse_others(own: Data, data: Data) -> None:
    """Dialogues are the same if text and image hashes are, wherever they come from."""
    if own is data:
        return
    one, other = ({dialogue.id: replace(dialogue, images=()) for dialogue in each} for each in (own, data))
    if wrong := sorted(id for id in one.keys() | other.keys() if one.get(id) != other.get(id)):
        raise DataError(
            f"expected a metric about the same dialogues as data ({data.name}, {len(data)} dialogues), got one about "
            f"{own.name} ({len(own)} dialogues): {wrong[0]!r} differs; pass data alone, or load the metric with it"
        )
