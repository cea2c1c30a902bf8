"""`YanamiCallback`: an evaluation whenever the Trainer of transformers evaluates, or every so many steps.

The only module here that imports transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from yanami_metric.training.curves import PREFIX
from yanami_metric.training.inloop import InLoop
from yanami_metric.training.trackers import known


class YanamiCallback(TrainerCallback):
    """Evaluates the model of a Trainer.

    With an `every` of the `InLoop` it does so every so many steps, else whenever the Trainer evaluates. Scores go to
    the trackers of the `InLoop` and, if the callback was `attach`ed, through `Trainer.log` to its own trackers and
    history. When the Trainer evaluates they are also in its metrics, as `eval_yanami/gt/vr` and so on, so that
    `metric_for_best_model="yanami/gt/vr"` works; an evaluation that failed is never the best.

    Args:
        in_loop: what is evaluated, and how.
        adapt: makes what `InLoop.evaluate` takes of the Trainer's model and processing class; None: the pair of both,
            or the model alone if it has `caps`.
    """

    def __init__(self, in_loop: InLoop, adapt: Callable[[Any, Any], Any] | None = None) -> None:
        self.in_loop, self._adapt = in_loop, adapt
        self._trainer: Any = None

    def attach(self, trainer: Any) -> YanamiCallback:
        """Add this callback to a Trainer, so that scores go through its log too; returns itself."""
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate, if not by steps; scores join the Trainer's metrics."""
        if self.in_loop.every is not None:
            return
        metrics = kwargs["metrics"]
        metrics.update({f"eval_{name}": value for name, value in self._evaluate(state, kwargs).items()})
        best = f"eval_{(args.metric_for_best_model or '').removeprefix('eval_')}"
        if best.startswith(f"eval_{PREFIX}/") and best not in metrics:
            # the Trainer stops where it misses its metric, and takes whatever isn't greater than the best for worse
            metrics[best] = float("nan")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate, if by steps and this is one."""
        if self.in_loop.every is not None and self.in_loop.is_due(state.global_step):
            self._evaluate(state, kwargs)

    def _evaluate(self, state: Any, given: dict[str, Any]) -> dict[str, float]:
        model, processing = given["model"], given.get("processing_class")
        if self._adapt is not None:
            model = self._adapt(model, processing)
        elif not hasattr(model, "caps"):
            model = (model, processing)
        scores = known(self.in_loop.evaluate(model, state.global_step) or {})
        if self._trainer is not None and scores:
            self._trainer.log(dict(scores))
        return scores
