"""The result of an analysis: values for programs, tables and charts for people. It knows no runs, files or plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from yanami_metric.estimates import Estimate
from yanami_metric.tables import percent

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


def series(label: str, x: tuple[str | float, ...], found: Sequence[Estimate]) -> Series:
    """Estimates as a series with intervals."""
    return Series(label, x, *(tuple(one[key] for one in found) for key in ("value", "low", "high")))


def spread(estimate: Estimate, digits: int = 1) -> str | None:
    """An interval as text, None where there is none.

    >>> spread(Estimate(value=-1.0, low=-2.5, high=0.5, n=9, coverage=1.0, bounds=[-1.0, -1.0]))
    '-2.5 to 0.5'
    """
    if estimate["low"] is None or estimate["high"] is None:
        return None
    return f"{estimate['low']:.{digits}f} to {estimate['high']:.{digits}f}"


def covered(estimate: Estimate) -> str | None:
    """Coverage as a percentage, None where nothing is asked."""
    return None if estimate["coverage"] is None else percent(estimate["coverage"])
