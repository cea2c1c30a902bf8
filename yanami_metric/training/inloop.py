"""Scores of a model while it is trained: `InLoop`, for any training loop.

    in_loop = InLoop(limit=16, every=500, trackers="auto")
    for step in range(10_000):
        ...
        in_loop.evaluate(pipeline, step)

The only place in yanami where exceptions of judging and tracking are caught: an evaluation never stops a training.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric import api
from yanami_metric.data import Data, Selection, open_data
from yanami_metric.history import refuse_unsuitable
from yanami_metric.models import Opened, check_model, open_model
from yanami_metric.panel import Judging
from yanami_metric.planning import Conditions, histories
from yanami_metric.records import Caps, Judge, Model
from yanami_metric.run_folder import RunFolder
from yanami_metric.training.curves import FAILED, ROWS, curves, pictures
from yanami_metric.training.lockstep import Borrowed, Leading, Processes, Together, follow, is_distributed
from yanami_metric.training.trackers import Tracker, known, open_trackers
from yanami_metric.training.undisturbed import undisturbed

if TYPE_CHECKING:
    from PIL.Image import Image

Scores = dict[str, float | None]
"""`yanami/gt/vr`, `yanami/gt/vr_low`, … (see `curves.curves`), and `yanami/failed`: 1 if something failed, else 0."""

LIMIT = 16
log = logging.getLogger("yanami")


class InLoop:
    """Evaluates a model in training on a fixed part of a data set, and logs scores and pictures.

    The dialogues are chosen once, so that curves are over the same ones. Wrong arguments raise here.

    Args:
        data: as for `api.rollout`.
        limit: so many dialogues, a seeded sample even over the scenarios; None: all. Below 4 some scores are undefined.
        selection: another part, instead of `limit`.
        history: one or more of gt, self, last, none.
        judge: of images, a spec string or an object.
        answer_judge: of answers.
        judging: how judges are asked.
        options: for pipelines and pairs (model, processor), arguments of their call, e.g. `num_inference_steps`.
        placement: as for `api.rollout`; so are `max_images` and `seed`.
        max_images: as for `api.rollout`.
        seed: of what is drawn.
        trackers: as `trackers.open_trackers` takes them; only the first of several processes logs.
        every: evaluate at multiples of it only; None: whenever called.
        rows: dialogues in the picture.
        out: keep each evaluation's run folder as `out/step-00000500`; None: none is kept.

    Raises:
        SpecError: an unknown history, judge or tracker, or both a limit and a selection.
        DataError: no dialogues.
        HistoryError: `gt`, and a dialogue has an earlier slot without an image.
        MissingExtraError: a tracker isn't installed.
    """

    def __init__(
        self,
        data: Any = "mini",
        *,
        limit: int | None = LIMIT,
        selection: Selection | None = None,
        history: str | Sequence[str] = "gt",
        judge: str | Judge = "pixel",
        answer_judge: str | Judge = "exact",
        judging: Judging | None = None,
        options: Mapping[str, Any] | None = None,
        placement: str | None = None,
        max_images: int | None = None,
        seed: int = 0,
        trackers: str | Tracker | Sequence[str | Tracker] = (),
        every: int | None = None,
        rows: int = ROWS,
        out: str | Path | None = None,
    ) -> None:
        if selection is not None and limit not in (None, LIMIT):
            raise SpecError(f"expected a limit or a selection, got both: {limit} and {selection}")
        if every is not None and every < 1:
            raise SpecError(f"every: expected 1 or more steps, got {every}")
        Conditions(histories(history), placement, max_images, seed)  # refuses what is unknown
        self.every, self.out, self._rows = every, None if out is None else Path(out), rows
        self._conditions: dict[str, Any] = {
            "history": histories(history),
            "placement": placement,
            "max_images": max_images,
            "seed": seed,
        }
        self._options = dict(options or {})
        judging = judging or Judging()
        self._by = judging.open(judge, answer_judge)
        self._judging = replace(judging, options={})  # theirs, now that they are open
        self._trackers = open_trackers(trackers)
        self.data = _fixed(open_data(data, selection or Selection(limit=limit)), histories(history))
        self._together: Together | None = None

    def is_due(self, step: int) -> bool:
        """Whether `evaluate` would evaluate at this step."""
        return self.every is None or step % self.every == 0

    def evaluate(self, model: Any, step: int) -> Scores | None:
        """Roll out, judge, score and log; under several processes all of them must call it, at the same steps.

        The model is in eval mode meanwhile and computes no gradients; modes and random numbers are put back (see
        `undisturbed`). Under torch.distributed each process asks the model equally often, one request at a time, and an
        item that fails in one is that item's status; all get the same scores. A model that is sharded must not raise
        between its collective calls.

        Args:
            model: an object with `caps`, `identity` and `generate` (`records.Model`), a pipeline of diffusers or
                transformers, a pair (model, processor), or a spec string.
            step: of the training.

        Returns:
            The scores; only `{"yanami/failed": 1}` where rolling out, judging or scoring failed, which is logged as a
            warning with its traceback; None where no evaluation is due.

        Raises:
            ModelError: the object is no model.
            SpecError: options that the pipeline doesn't take.
        """
        if not self.is_due(step):
            return None
        processes = self._processes()
        with undisturbed(model):
            asked = self._model(model, step, processes)
            if processes.rank:
                follow(asked, processes)
                return processes.tell(Scores())
            return processes.tell(self._lead(asked, step, processes))

    def _processes(self) -> Processes:
        if not is_distributed():
            return Processes()
        self._together = self._together or Together()
        return self._together

    def _model(self, model: Any, step: int, processes: Processes) -> Model:
        """The model behind whatever is trained; adapters made here don't hash weights, which change anyway."""
        if isinstance(model, str):
            return open_model(model, self.data, self._options)
        kind = type(model).__name__
        if isinstance(getattr(model, "caps", None), Caps):
            if self._options:
                raise SpecError(f"options are for pipelines, got {', '.join(self._options)} with {kind}")
            return check_model(model, kind)
        parts = model if isinstance(model, tuple) else (model,)
        libraries = {base.__module__.partition(".")[0] for part in parts for base in type(part).__mro__}
        made: Any
        if "diffusers" in libraries and not isinstance(model, tuple):
            from yanami_metric.models.diffusers import DiffusersModel

            # alone in its call a sample can't be tried again by one process
            alone = {"declare.max_batch": 1} if processes.size > 1 else {}
            made = DiffusersModel(model, call={**self._options, **alone}, tag=f"step {step}")
        elif "transformers" in libraries:
            from yanami_metric.models.transformers import TransformersModel

            made = TransformersModel(model, call=self._options, tag=f"step {step}")
        else:
            made = model
        return check_model(made, kind)

    def _lead(self, model: Model, step: int, processes: Processes) -> Scores:
        """What the first process does, or the only one. Whatever fails here stops no training."""
        images: dict[str, Image] = {}
        try:
            run = self._rolled_out(model, step, processes)
            api.judge(run, self._by.images, self._by.answers, judging=self._judging)
            scores: Scores = {**curves(api.score(run)), FAILED: 0.0}
            with RunFolder(run.path) as folder:
                images = pictures(run.data, folder, self._rows) if self._trackers else {}
        except Exception:
            log.warning("yanami: the evaluation at step %d failed; the training goes on", step, exc_info=True)
            scores = {FAILED: 1.0}
        for tracker in self._trackers:
            try:
                tracker.log(known(scores), images, step)
            except Exception:
                name = type(tracker).__name__
                log.warning("yanami: %s failed at step %d; the training goes on", name, step, exc_info=True)
                scores[FAILED] = 1.0
        return scores

    def _rolled_out(self, model: Model, step: int, processes: Processes) -> api.Run:
        kept = None if self.out is None else self.out / f"step-{step:08d}"
        if processes.size == 1:
            return self._roll_out(Borrowed(model), kept)
        leading = Leading(model, processes)
        try:
            return self._roll_out(leading, kept)
        finally:
            leading.stop()

    def _roll_out(self, model: Model, kept: Path | None) -> api.Run:
        if kept is not None and (kept / "run.json").is_file():
            shutil.rmtree(kept)  # of a training that was here before and goes on from an earlier checkpoint
        spec = f"in training:{model.identity}"
        return api.rollout(self.data, Opened(model, spec), out=kept, **self._conditions)


def _fixed(data: Data, modes: Sequence[str]) -> Data:
    """The data, if it suits; a scenario that is missing is told, as it leaves scores undefined."""
    for dialogue in data:
        for history in modes:
            refuse_unsuitable(dialogue, history)
    missing = sorted(set(SCENARIOS) - {dialogue.scenario for dialogue in data})
    if missing:
        log.warning("yanami: no dialogue is of %s, so the means over all scenarios are undefined", ", ".join(missing))
    return data
