"""The result of an analysis: values for programs, tables and charts for people. It knows no runs, files or plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Cell = str | int | float | None
"""A cell of a table: text, a count, a number that is shown with `Table.digits` decimals, or None, shown as a dash."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `rows` have as many cells as `header`; floats are shown with `digits` decimals."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 2


@dataclass(frozen=True, slots=True)
class Series:
    """A line or a group of bars: `y` (None: nothing there) at each `x`; `low` and `high` are the interval, if any."""

    label: str
    x: tuple[str | float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of series: `lines` over numbers, `bars` over names. `limits` fixes the y axis."""

    title: str
    kind: Literal["lines", "bars"]
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What an analysis found.

    Attributes:
        name: of its files, e.g. "turns".
        title: one line.
        source: where the formula comes from: a table of the paper, inferred, or ours.
        values: ready for JSON; every mean an `estimates.Estimate`, with n, coverage and bounds.
        tables: for people.
        charts: for people.
        notes: what a reader has to know: what was left out, limits of the measure.
    """

    name: str
    title: str
    source: str
    values: dict[str, Any]
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = field(default=())
