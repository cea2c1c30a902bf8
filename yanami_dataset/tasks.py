"""The tasks of the bench by their ids: what a leaderboard on the Hub can rank by. The one place that names them."""

from __future__ import annotations

from typing import NamedTuple

from yanami_dataset.schema import SCENARIOS

SCORES = ("overall", "vr", "dsu", "sc", "vq")


class Task(NamedTuple):
    """One number of a result.

    Attributes:
        id: as the Hub knows it.
        config: the configuration of the data set that it is measured on.
        scenario: None for all four.
        score: one of SCORES.
    """

    id: str
    config: str
    scenario: str | None
    score: str


TASKS: tuple[Task, ...] = (
    *(Task(score, "default", None, score) for score in SCORES),
    *(Task(f"{scenario}_{score}", scenario, scenario, score) for scenario in SCENARIOS for score in SCORES),
)
"""The headline first: `overall`, then `vr`, which every model that draws has, the components, and all by scenario."""
