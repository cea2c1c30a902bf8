"""yanami_metric: rollout, judge, score, report.

    from yanami_metric.api import judge, rollout, score

    run = rollout("mini", "baseline:copy-last", history=("gt", "self"))
    print(score(judge(run))["histories"]["gt"]["overall"])

The functions are in `yanami_metric.api`, as `yanami_metric.score` and others are modules; the nouns are here too,
imported when they are first used, so that the command starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yanami_metric.data import Data, Selection, open_data
    from yanami_metric.formulas import Weights
    from yanami_metric.records import Caps, Judge, JudgeCall, JudgeItem, Model, Output, Reply, Request
    from yanami_metric.runs import Progress, Run

_HOMES = {
    "runs": ("Progress", "Run"),
    "data": ("Data", "Selection", "open_data"),
    "formulas": ("Weights",),
    "records": ("Caps", "Judge", "JudgeCall", "JudgeItem", "Model", "Output", "Reply", "Request"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Caps",
    "Data",
    "Judge",
    "JudgeCall",
    "JudgeItem",
    "Model",
    "Output",
    "Progress",
    "Reply",
    "Request",
    "Run",
    "Selection",
    "Weights",
    "open_data",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"yanami_metric.{_HOME[name]}"), name)
    raise AttributeError(f"module 'yanami_metric' has no attribute {name!r}")
