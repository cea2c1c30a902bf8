"""Means over dialogues on their way to a result: value, bounds and bootstrap samples, carried together.

Everything that yanami averages is a ratio of sums over dialogues, or a linear mix of such ratios. So one rule carries
values, resamples and bounds upwards, and what is undefined stays undefined. It knows counts, not what they mean; no
models, histories or files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

import numpy as np

from yanami_dataset.errors import DataError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.collecting import uncollected
from yanami_metric.statistics import FloatArray, interval, ratio, resampled_ratios, resampled_sums
from yanami_metric.tally import Count, DialogueTally


class Estimate(TypedDict):
    """A mean as it stands in results, by default on the 0-100 scale.

    `value` is null where nothing of some part was scored; `low` and `high` are its 95 % interval, null where
    a part of it was scored in fewer than two dialogues. `n` is the number of scored items in it, `coverage` that number
    over the items asked, `bounds` what the value would be if everything unscored were wrong, and if it were right.
    A score that isn't defined at all (the model can't do it, the data doesn't ask for it, a scenario is missing) is
    null throughout, with n = 0 and bounds [null, null].
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    coverage: float | None
    bounds: list[float | None]


class Row(NamedTuple):
    """What one dialogue puts into a mean: the mean is the sum of `gained` over the sum of `units`.

    `lowest` and `highest` are `gained` if all that isn't scored were wrong, or right; the units are `asked_units` then.
    `scored` and `asked` count items. A dialogue that has nothing to say is all zeros.
    """

    gained: float = 0.0
    units: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    asked_units: float = 0.0
    scored: float = 0.0
    asked: float = 0.0


NOTHING = Row()


def equal(count: Count) -> Row:
    """A dialogue (or an image) that weighs the same whatever its number of items.

    >>> equal(Count(asked=4, scored=2, gained=1.0))
    Row(gained=0.5, units=1, lowest=0.25, highest=0.75, asked_units=1, scored=2, asked=4)
    """
    if not count.asked:
        return NOTHING
    share = (count.share, 1) if count.scored else (0.0, 0)
    return Row(*share, count.lowest, count.highest, 1, count.scored, count.asked)


def pooled(count: Count) -> Row:
    """A dialogue whose every item weighs the same.

    >>> pooled(Count(asked=4, scored=2, gained=1.0))
    Row(gained=1.0, units=2, lowest=1.0, highest=3.0, asked_units=4, scored=2, asked=4)
    """
    highest = count.gained + count.asked - count.scored
    return Row(count.gained, count.scored, count.gained, highest, count.asked, count.scored, count.asked)


def summed(rows: Iterable[Row]) -> Row:
    """The sum of rows; `NOTHING` for none."""
    kept = list(rows)
    return Row(*map(sum, zip(*kept, strict=True))) if kept else NOTHING


def blank(rows: Sequence[Row]) -> list[Row]:
    """Rows of one dialogue that are to be compared: unless all are scored none has a value; bounds and counts stay.

    >>> [row.units for row in blank([Row(1.0, 1), Row(0.0, 0)])]
    [0, 0]
    """
    if all(row.units for row in rows):
        return list(rows)
    return [row._replace(gained=0.0, units=0) for row in rows]


@dataclass(frozen=True, slots=True)
class Scored:
    """A mean of shares, 0-1: NaN bounds mean undefined, a NaN value alone means that nothing was scored.

    `low` and `high` are its bounds, `samples` its bootstrap; those of one `Sample`, and of equal dialogues, are paired.
    """

    value: float
    low: float
    high: float
    samples: FloatArray = field(repr=False)
    scored: int
    asked: int

    @classmethod
    def undefined(cls, resamples: int) -> Scored:
        """What nothing asks for."""
        return cls(math.nan, math.nan, math.nan, np.full(resamples, math.nan), 0, 0)

    def __sub__(self, other: Scored) -> Scored:
        """The difference, resample by resample; its bounds are the furthest apart that both allow."""
        return Scored(
            self.value - other.value,
            self.low - other.high,
            self.high - other.low,
            self.samples - other.samples,
            self.scored + other.scored,
            self.asked + other.asked,
        )

    def entry(self, scale: float = 100.0) -> Estimate:
        """As results have it, times `scale`."""
        if math.isnan(self.low):
            return Estimate(value=None, low=None, high=None, n=0, coverage=None, bounds=[None, None])
        ends = None if math.isnan(self.value) else interval(self.samples)
        return Estimate(
            value=None if math.isnan(self.value) else _rounded(scale * self.value),
            low=None if ends is None else _rounded(scale * ends[0]),
            high=None if ends is None else _rounded(scale * ends[1]),
            n=self.scored,
            coverage=self.scored / self.asked,
            bounds=[_rounded(scale * self.low), _rounded(scale * self.high)],
        )


def _rounded(value: float) -> float:
    return round(float(value), 9) + 0.0  # without the noise of adding floats: never 100.00000000000001, nor -0.0


def mix(parts: Iterable[tuple[float, Scored]]) -> Scored:
    """The weighted sum of (weight, mean) pairs; what has no weight has no say, and what is undefined makes it so."""
    kept = [(share, part) for share, part in parts if share > 0]
    return Scored(
        value=sum(share * part.value for share, part in kept),
        low=sum(share * part.low for share, part in kept),
        high=sum(share * part.high for share, part in kept),
        samples=np.sum([share * part.samples for share, part in kept], axis=0),
        scored=sum(part.scored for _, part in kept),
        asked=sum(part.asked for _, part in kept),
    )


def ordered(tallies: Iterable[DialogueTally]) -> dict[str, list[DialogueTally]]:
    """By scenario, those that there are, sorted by id: sums and draws then depend on no order.

    Raises:
        DataError: a dialogue counted twice, or an unknown scenario.
    """
    groups: dict[str, list[DialogueTally]] = {name: [] for name in SCENARIOS}
    seen: set[str] = set()
    for one in tallies:
        if one.dialogue in seen:
            raise DataError(
                f"dialogue {one.dialogue!r}: expected one tally per dialogue, got a second; do shards overlap?"
            )
        if one.scenario not in groups:
            expected = ", ".join(SCENARIOS)
            raise DataError(f"dialogue {one.dialogue!r}: expected a scenario of {expected}, got {one.scenario!r}")
        seen.add(one.dialogue)
        groups[one.scenario].append(one)
    return {name: sorted(group, key=lambda one: one.dialogue) for name, group in groups.items() if group}


@dataclass(frozen=True)
class Sample:
    """Dialogues in their scenarios, and how they are drawn: equal dialogues are drawn alike for equal seeds.

    Args:
        tallies: one per dialogue, in any order.
        resamples: of the bootstrap; 0 for no intervals.
        seed: of the bootstrap.
    """

    groups: Mapping[str, Sequence[DialogueTally]]
    resamples: int = 1000
    seed: int = 0

    @classmethod
    def of(cls, tallies: Iterable[DialogueTally], resamples: int = 1000, seed: int = 0) -> Sample:
        """A sample of tallies in any order; errors as of `ordered`."""
        return cls(ordered(tallies), resamples, seed)

    def only(self, scenario: str) -> Sample:
        """The part of one scenario, drawn as in the whole."""
        return replace(self, groups={scenario: self.groups.get(scenario, ())})

    @property
    def tallies(self) -> list[DialogueTally]:
        """All of them, by scenario and id."""
        return [one for group in self.groups.values() for one in group]

    def by_scenario(self, rows: Callable[[DialogueTally], Sequence[Row]]) -> dict[str, list[Scored]]:
        """Means within each scenario.

        Args:
            rows: what a dialogue puts into each of the means, always as many.
        """
        found = {}
        for scenario, group in self.groups.items():
            table = _table(group, rows)
            found[scenario] = _means(table, self._ratios(scenario, table, self.resamples))
        return found

    def means(self, rows: Callable[[DialogueTally], Sequence[Row]]) -> list[Scored]:
        """Means over all dialogues, each counting the same in whatever scenario; drawn within scenarios.

        Args:
            rows: what a dialogue puts into each of the means, always as many.
        """
        tables = {scenario: _table(group, rows) for scenario, group in self.groups.items() if group}
        if not tables:
            return []
        gained, units = (
            np.sum([self._sums(scenario, table[:, :, column]) for scenario, table in tables.items()], axis=0)
            for column in (0, 1)
        )
        whole = np.concatenate(list(tables.values()))
        samples = ratio(gained, units)
        samples[:, (whole[:, :, 1] > 0).sum(axis=0) < 2] = np.nan
        return _means(whole, samples)

    def _rng(self, scenario: str) -> np.random.Generator:
        # a scenario's draws don't depend on which others are there
        return np.random.default_rng([self.seed, SCENARIOS.index(scenario)])

    def _ratios(self, scenario: str, table: FloatArray, resamples: int) -> FloatArray:
        return resampled_ratios(table[:, :, 0], table[:, :, 1], resamples, self._rng(scenario))

    def _sums(self, scenario: str, values: FloatArray) -> FloatArray:
        return resampled_sums(values, self.resamples, self._rng(scenario))


def _table(group: Sequence[DialogueTally], rows: Callable[[DialogueTally], Sequence[Row]]) -> FloatArray:
    """Dialogues x means x the fields of a row."""
    with uncollected():
        table = np.array([rows(one) for one in group], dtype=np.float64)
    return table.reshape(len(group), -1, len(Row._fields))


def _means(table: FloatArray, samples: FloatArray) -> list[Scored]:
    gained, units, low, high, asked_units, scored, asked = table.sum(axis=0).T
    value, low, high = ratio(gained, units), ratio(low, asked_units), ratio(high, asked_units)
    return [
        Scored(value[i], low[i], high[i], samples[:, i], int(scored[i]), int(asked[i]))
        if asked[i]
        else Scored.undefined(len(samples))
        for i in range(len(asked))
    ]
