"""How wide the intervals of a run on part of a bench are, beside what those over all of it would be.

Pure: it knows entries of scores.json, no files, and nothing of how the part was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from yanami_dataset.errors import SpecError


def beside_full(width: float, dialogues: int, full: int) -> float:
    """The width that an interval over `dialogues` would have over `full` (**inferred**: the square-root law).

    It takes the part to be like the whole, in its mix of scenarios too. With few dialogues it is rather too low: a
    bootstrap over n of them finds their spread too small, by the root of (n - 1) / n on average.

    Raises:
        SpecError: a number of dialogues below 1.

    >>> beside_full(20.0, 100, 400)
    10.0
    """
    if dialogues < 1 or full < 1:
        raise SpecError(f"expected 1 or more dialogues, got {dialogues} of {full}")
    return width * math.sqrt(dialogues / full)


def note(history: str, entry: Mapping[str, Any], full: int) -> str | None:
    """One line on how wide the interval of VR is, and would be over all dialogues; DSU for a model that can't draw.

    Args:
        history: names the entry.
        entry: of `histories` in scores.json.
        full: how many dialogues the bench has.

    Returns:
        None where the entry is over the full bench or there is no interval, and for one without any width: dialogues
        that are all alike say nothing about the spread of others.

    >>> print(note("gt", {"can_draw": True, "dialogues": 100, "vr": {"low": 40.0, "high": 50.0}}, 400))
    gt: with 100 of 400 dialogues the interval of VR is 10.0 points wide; over all 400 it would be about 5.0.
    """
    score = "vr" if entry["can_draw"] else "dsu"
    dialogues = entry["dialogues"]
    width = _width(entry[score])
    if not width or dialogues >= full:
        return None
    return (
        f"{history}: with {dialogues} of {full} dialogues the interval of {score.upper()} is {width:.1f} points wide; "
        f"over all {full} it would be about {beside_full(width, dialogues, full):.1f}."
    )


def _width(estimate: Mapping[str, Any]) -> float | None:
    low, high = estimate["low"], estimate["high"]
    return None if low is None or high is None else high - low
