"""Whether drawing gets worse within a dialogue: first and last turn, and the curve over turns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from yanami_metric.analysis.finding import Chart, Finding, Table, covered, series, spread
from yanami_metric.estimates import NOTHING, Row, Sample, Scored, blank, equal, summed
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.tally import DialogueTally, ImageTally

Models = Mapping[str, Sequence[DialogueTally]]
MINIMUM = 5
"""Dialogues (**ours**): what comes after the last turn that so many draw at is pooled into one point."""


def drawn_turns(one: DialogueTally) -> list[list[ImageTally]]:
    """The images of each generation turn of a dialogue, in order; those without atomic checks have no VR."""
    turns: dict[int, list[ImageTally]] = {}
    for image in one.images:
        if image.checks.asked:
            turns.setdefault(image.turn, []).append(image)
    return [turns[turn] for turn in sorted(turns)]


def realization(images: Sequence[ImageTally], weights: Weights = DEFAULT) -> Row:
    """VR of one turn, 0-1: the mean over its images of 0.6 SC + 0.4 VQ.

    An image counts where its checks and its quality are both scored at least in part; a turn without such an image is
    unscored. The bounds are over everything asked.

    >>> from yanami_metric.tally import Count
    >>> round(realization([ImageTally(0, 0, Count(2, 2, 1.0), Count(1, 1, 0.8))]).gained, 3)
    0.62
    """
    shares = weights.shares(with_dsu=False)
    parts = [(equal(image.checks), equal(image.quality)) for image in images]
    known = [shares["sc"] * sc.gained + shares["vq"] * vq.gained for sc, vq in parts if sc.units and vq.units]
    low = [shares["sc"] * sc.lowest + shares["vq"] * vq.lowest for sc, vq in parts]
    high = [shares["sc"] * sc.highest + shares["vq"] * vq.highest for sc, vq in parts]
    if not parts:
        return NOTHING
    items = summed([row for pair in parts for row in pair])
    mean = (sum(known) / len(known), 1) if known else (0.0, 0)
    return Row(*mean, sum(low) / len(low), sum(high) / len(high), 1, items.scored, items.asked)


def first_last(models: Models, *, weights: Weights = DEFAULT, resamples: int = 1000, seed: int = 0) -> Finding:
    """VR of the first and the last generation turn, and how far they differ (the paper's Table 20 and Figure 6b).

    Over dialogues with two or more generation turns, each counting the same. That the score is VR is **inferred**.

    Args:
        models: by name the tallies of history `gt`.
        weights: of SC and VQ.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.

    Returns:
        `values`: by model `first`, `last` and `delta` (last - first) on 0-1, and `dialogues`, those with two or more
        generation turns.
    """

    def rows(one: DialogueTally) -> list[Row]:
        turns = drawn_turns(one)
        return blank([realization(turns[0], weights), realization(turns[-1], weights)])

    values: dict[str, Any] = {}
    for name, tallies in models.items():
        kept = [one for one in tallies if len(drawn_turns(one)) > 1]
        means = Sample.of(kept, resamples, seed).means(rows) or [Scored.undefined(resamples)] * 2
        first, last = means
        entries = {"first": first, "last": last, "delta": last - first}
        values[name] = {key: score.entry(scale=1) for key, score in entries.items()} | {"dialogues": len(kept)}
    header = ("Model", "First", "Last", "Delta", "Delta, 95 %", "Dialogues", "Coverage")
    table = [
        (
            name,
            *(found[key]["value"] for key in ("first", "last", "delta")),
            spread(found["delta"], 3),
            found["dialogues"],
            covered(found["delta"]),
        )
        for name, found in values.items()
    ]
    bars = tuple(series(name, ("first", "last"), [found["first"], found["last"]]) for name, found in values.items())
    return Finding(
        "first-last",
        "First and last generation turn",
        "arXiv 2611.05280, Table 20 and Figure 6b; that the score is VR is inferred",
        values,
        (Table("VR (0-1) of the first and the last generation turn", header, tuple(table), digits=3),),
        (Chart("First and last generation turn", "bars", "", "VR, 0-1", bars, (0, 1)),),
        (
            "Over dialogues with two or more generation turns. A dialogue whose first or last turn isn't scored "
            "counts in neither mean; bounds are over all.",
        ),
    )


def by_turn(models: Models, *, weights: Weights = DEFAULT, resamples: int = 1000, seed: int = 0) -> Finding:
    """VR, SC and VQ by generation turn and by turn number (**ours**; the curve behind the paper's Table 20).

    Args:
        models: by name the tallies of one history; several histories of one model may be given as several names.
        weights: of SC and VQ.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.

    Returns:
        `values`: by model `generation` and `position`, each a list of points with `turns` (the first and the last turn
        number in it, from 1), `dialogues`, and `vr`, `sc`, `vq` on 0-100.
    """
    values: dict[str, Any] = {}
    for name, tallies in models.items():
        sample = Sample.of(tallies, resamples, seed)
        values[name] = {
            "generation": _points(sample, lambda one: dict(enumerate(drawn_turns(one), 1)), weights),
            "position": _points(sample, _by_position, weights),
        }
    tables, charts = [], []
    for key, title in (("generation", "generation turn"), ("position", "turn number")):
        rows = [
            (name, label(point), *(point[score]["value"] for score in ("vr", "sc", "vq")), spread(point["vr"], 1),
             point["dialogues"], covered(point["vr"]))
            for name, found in values.items()
            for point in found[key]
        ]  # fmt: skip
        header = ("Model", title.capitalize(), "VR", "SC", "VQ", "VR, 95 %", "Dialogues", "Coverage")
        tables.append(Table(f"By {title}", header, tuple(rows)))
        lines = tuple(
            series(name, tuple(float(point["turns"][0]) for point in found[key]), [p["vr"] for p in found[key]])
            for name, found in values.items()
        )
        charts.append(Chart(f"VR by {title}", "lines", title, "VR", lines, (0, 100)))
    return Finding(
        "turns",
        "Scores by turn",
        "ours",
        values,
        tuple(tables),
        tuple(charts),
        (
            f"The last turns, at each of which fewer than {MINIMUM} dialogues draw, are pooled into one point; an "
            "earlier turn with few stands alone. Later turns are those of long dialogues only, so a curve also shows "
            "which dialogues are long.",
        ),
    )


def _by_position(one: DialogueTally) -> dict[int, list[ImageTally]]:
    return {images[0].turn + 1: images for images in drawn_turns(one)}


def _points(
    sample: Sample, turns_of: Callable[[DialogueTally], Mapping[int, list[ImageTally]]], weights: Weights
) -> list[dict[str, Any]]:
    """A point for each turn number, the last ones pooled where few dialogues get there."""
    turns = {one.dialogue: turns_of(one) for one in sample.tallies}
    reached: dict[int, int] = {}
    for found in turns.values():
        for turn in found:
            reached[turn] = reached.get(turn, 0) + 1
    bins = pooled_turns(reached)

    def rows(one: DialogueTally) -> list[Row]:
        row: list[Row] = []
        for low, high in bins:
            images = [image for turn, some in turns[one.dialogue].items() if low <= turn <= high for image in some]
            row += [
                realization(images, weights),
                _mean([equal(image.checks) for image in images]),
                _mean([equal(image.quality) for image in images]),
            ]
        return row

    means = sample.means(rows) if bins else []
    return [
        {
            "turns": [low, high],
            "dialogues": sum(any(low <= turn <= high for turn in found) for found in turns.values()),
            **{name: means[3 * i + j].entry() for j, name in enumerate(("vr", "sc", "vq"))},
        }
        for i, (low, high) in enumerate(bins)
    ]


def pooled_turns(reached: Mapping[int, int], minimum: int = MINIMUM) -> list[tuple[int, int]]:
    """Turn numbers as (first, last) of each point, given how many dialogues draw at each.

    Only the end is pooled: few dialogues may draw at their very first turn, and most at those after it.

    >>> pooled_turns({1: 9, 2: 8, 3: 4, 5: 1}), pooled_turns({1: 2})
    ([(1, 1), (2, 2), (3, 5)], [(1, 1)])
    >>> pooled_turns({1: 2, 2: 9, 3: 8, 4: 1, 6: 1})
    [(1, 1), (2, 2), (3, 3), (4, 6)]
    """
    order = sorted(reached)
    alone = max((place for place, turn in enumerate(order, 1) if reached[turn] >= minimum), default=0)
    tail = [(order[alone], order[-1])] if order[alone:] else []
    return [(turn, turn) for turn in order[:alone]] + tail


def _mean(rows: Sequence[Row]) -> Row:
    """Images of one turn weigh the same, and a dialogue counts once however many it has."""
    total = summed(rows)
    if not total.asked_units:
        return NOTHING
    share = (total.gained / total.units, 1) if total.units else (0.0, 0)
    low, high = total.lowest / total.asked_units, total.highest / total.asked_units
    return Row(*share, low, high, 1, total.scored, total.asked)


def label(point: Mapping[str, Any]) -> str:
    """A point's turns as text.

    >>> label({"turns": [2, 2]}), label({"turns": [6, 9]})
    ('2', '6-9')
    """
    low, high = point["turns"]
    return str(low) if low == high else f"{low}-{high}"
