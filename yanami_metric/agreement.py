"""Agreement of a judge with people, and of people with each other: a human study as numbers. Pure: knows no files.

The paper had four raters for 100 instances (drawn images) of each model, and reports Pearson above 0.80 between judge
and people; over what, it doesn't say. Ours: what is paired and averaged here, kappa and pass shares, the bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np

from yanami_dataset.errors import DataError
from yanami_metric.coefficients import SCORES, VERDICTS, Draws, Found, Pair, found
from yanami_metric.statistics import LEVEL

PARTS = {"checks": VERDICTS, "quality": SCORES, "pass_share": SCORES}
"""What is compared, and by which coefficients."""

RESAMPLES = 1000


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """A drawn image that was rated, with the scenario of its dialogue; `run` is any name that tells runs apart."""

    run: str
    track: str
    dialogue: str
    scenario: str
    turn: int
    slot: int


@dataclass(frozen=True, slots=True)
class Rating:
    """What one person said of one item: 1 or 0 of a check, 0 to 10 of a quality. `judged`: the judge, None: nothing."""

    rater: str
    instance: Instance
    kind: Literal["checks", "quality"]
    item: str
    value: float
    judged: float | None = None


def measure(ratings: Iterable[Rating], *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """The agreement of a judge with people.

    Compared are the judge's verdict on a check with each rater's (`checks`: the pairs of all raters pooled), the
    judge's quality of an image with the mean over its raters (`quality`), and the share of an image's checks that the
    judge passes with the mean over raters of the shares that they pass (`pass_share`, capability checks included).

    Args:
        ratings: in any order, which doesn't change the result. Those without a `judged` value count between raters.
        resamples: of the bootstrap over dialogues within scenarios; 0 for no intervals.
        seed: of the bootstrap.

    Returns:
        `overall`, `scenarios` and `raters` (by name), each `PARTS` by coefficient, a `coefficients.Estimate`;
        `between_raters`: the same for each pair of raters, and the mean over these pairs (with `rater_pairs`, of how
        many the coefficient is defined); and `interval`.

    Raises:
        DataError: one rater rated an item twice.

    >>> image = Instance("a", "gt", "d1", "editing", 0, 0)
    >>> found = measure([Rating("ann", image, "checks", f"c{i}", i % 2, i % 2) for i in range(4)])
    >>> found["overall"]["checks"]["kappa"]["value"]
    1.0
    """
    ordered = sorted(ratings, key=_identity)
    _refuse_twice(ordered)
    draws = Draws(((one.instance.scenario, one.instance.dialogue) for one in ordered), resamples, seed)
    judged = [_Two(one, one.value, one.judged) for one in ordered if one.judged is not None]
    scenarios = sorted({one.instance.scenario for one in ordered})
    raters = sorted({one.rater for one in ordered})
    return {
        "overall": _entries(_compared(judged, draws)),
        "scenarios": {
            name: _entries(_compared([two for two in judged if two.of.instance.scenario == name], draws))
            for name in scenarios
        },
        "raters": {
            name: _entries(_compared([two for two in judged if two.of.rater == name], draws)) for name in raters
        },
        "between_raters": _between(ordered, raters, draws),
        "interval": {
            "method": "percentile bootstrap over dialogues within scenarios",
            "level": LEVEL,
            "resamples": resamples,
            "seed": seed,
        },
    }


def _identity(one: Rating) -> tuple[Any, ...]:
    return one.rater, one.instance, one.kind, one.item


def _refuse_twice(ordered: Sequence[Rating]) -> None:
    for one, following in pairwise(ordered):
        if _identity(one) == _identity(following):
            raise DataError(
                f"expected one rating of an item by a rater, got two of {one.kind} {one.item!r} by {one.rater!r} in "
                f"run {one.instance.run!r}, dialogue {one.instance.dialogue!r}"
            )


@dataclass(frozen=True, slots=True)
class _Two:
    """Two values for what was rated: a rater's, and the judge's or another rater's."""

    of: Rating
    x: float
    y: float


Parts = Mapping[str, Mapping[str, Found]]


def _compared(both: Sequence[_Two], draws: Draws) -> dict[str, dict[str, Found]]:
    checks = [two for two in both if two.of.kind == "checks"]
    quality = [two for two in both if two.of.kind == "quality"]
    pairs = {
        "checks": [_pair(two.of.instance, two.x, two.y) for two in checks],
        "quality": _by_image((two.of.instance, two.x, two.y) for two in quality),
        "pass_share": _by_image(_shares(checks)),
    }
    return {part: found(pairs[part], names, draws) for part, names in PARTS.items()}


def _pair(instance: Instance, x: float, y: float) -> Pair:
    # rounded: equal means must be equal, whatever the order they were added in
    return Pair(instance.dialogue, instance.scenario, round(x, 9), round(y, 9))


def _shares(checks: Iterable[_Two]) -> list[tuple[Instance, float, float]]:
    """For each image and rater the two shares of checks passed, over the same checks."""
    groups: dict[tuple[Instance, str], list[_Two]] = {}
    for two in checks:
        groups.setdefault((two.of.instance, two.of.rater), []).append(two)
    return [
        (instance, sum(two.x for two in group) / len(group), sum(two.y for two in group) / len(group))
        for (instance, _), group in groups.items()
    ]


def _by_image(values: Iterable[tuple[Instance, float, float]]) -> list[Pair]:
    """The means over raters."""
    groups: dict[Instance, list[tuple[float, float]]] = {}
    for instance, x, y in values:
        groups.setdefault(instance, []).append((x, y))
    return [
        _pair(instance, sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for instance, group in groups.items()
    ]


def _between(ordered: Sequence[Rating], raters: Sequence[str], draws: Draws) -> dict[str, Any]:
    by_rater = {name: {_identity(one)[1:]: one for one in ordered if one.rater == name} for name in raters}
    pairs: dict[tuple[str, str], Parts] = {}
    for a, b in combinations(raters, 2):
        shared = [key for key in by_rater[a] if key in by_rater[b]]
        both = [_Two(by_rater[a][key], by_rater[a][key].value, by_rater[b][key].value) for key in shared]
        pairs[a, b] = _compared(both, draws)
    return {
        "method": "mean over pairs of raters",
        "mean": {
            part: {name: _mean([parts[part][name] for parts in pairs.values()]) for name in names}
            for part, names in PARTS.items()
        },
        "pairs": [{"raters": list(names), **_entries(parts)} for names, parts in pairs.items()],
    }


def _mean(each: Sequence[Found]) -> dict[str, Any]:
    """The mean of what is defined, resample by resample."""
    defined = [(one.value, one) for one in each if one.value is not None]
    if not defined:
        return {"value": None, "low": None, "high": None, "rater_pairs": 0}
    value = sum(value for value, _ in defined) / len(defined)
    samples = np.mean([one.samples for _, one in defined], axis=0)
    entry = Found(value, samples, 0, 0, all(one.spread for _, one in defined)).entry()
    return {"value": entry["value"], "low": entry["low"], "high": entry["high"], "rater_pairs": len(defined)}


def _entries(parts: Parts) -> dict[str, Any]:
    return {part: {name: one.entry() for name, one in coefficients.items()} for part, coefficients in parts.items()}
