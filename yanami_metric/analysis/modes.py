"""What a history is worth: the difference between two history modes on the same dialogues. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from yanami_dataset.errors import DataError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.analysis.finding import Cell, Chart, Finding, Table, covered, series, spread
from yanami_metric.analysis.turns import drawn_turns, label, pooled_turns, realization
from yanami_metric.estimates import NOTHING, Row, Sample, Scored, blank, ordered
from yanami_metric.score import HEADLINES, LEAVES, Basis, combined
from yanami_metric.tally import DialogueTally

Runs = Mapping[str, Mapping[str, Sequence[DialogueTally]]]

WHAT: dict[str, tuple[tuple[str, str], str, str]] = {
    "drop": (("gt", "self"), "History drop: what drawing on one's own images costs", "arXiv 2611.05280, Figure 6c"),
    "need": (("gt", "none"), "History need: what is lost without any history", "ours"),
    "adds": (("self", "last"), "What holding the conversation adds to editing the latest image", "ours"),
}
"""By name of the analysis: the two modes, a title, and where it is from."""


def differences(
    runs: Runs,
    bases: Mapping[str, Basis],
    what: Literal["drop", "need", "adds"],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Finding:
    """One history mode minus another, in points, over the dialogues that both have.

    A dialogue in which some score has nothing scored in one of the modes counts for that score in neither, so that a
    difference is never one between different dialogues; bounds are over all.

    Args:
        runs: by model, then by history, the tallies.
        bases: by model, what its scores are made of.
        what: drop (gt - self), need (gt - none) or adds (self - last).
        resamples: of the bootstrap over dialogues within scenarios, the same for both modes.
        seed: of the bootstrap.

    Returns:
        `values`: by model `overall`, `vr`, `dsu`, `sc`, `vq` (over all four scenarios), `scenarios` (the same in each),
        `turns` (a list: VR by generation turn), `dialogues` and `formula`.

    Raises:
        DataError: no model was run under both modes.
    """
    (one, other), title, source = WHAT[what]
    both = {name: found for name, found in runs.items() if one in found and other in found}
    if not both:
        ran = "; ".join(f"{name}: {', '.join(found) or 'none'}" for name, found in runs.items())
        raise DataError(f"{what}: expected runs under both {one} and {other}, got {ran}")
    values = {
        name: _differences(found[one], found[other], bases[name], resamples, seed) for name, found in both.items()
    }
    notes = [
        f"{one} - {other}, in points, over dialogues that both modes have. A dialogue that one of them leaves unscored "
        "counts in neither; bounds are over all."
    ]
    notes += [f"{name} was not run under both {one} and {other}." for name in runs if name not in both]
    notes += [f"{name}: overall is {found['formula']}." for name, found in values.items()]
    return Finding(
        what, title, source, values, tuple(_tables(values)), tuple(_charts(values, f"{one} - {other}")), tuple(notes)
    )


def _differences(
    these: Sequence[DialogueTally], those: Sequence[DialogueTally], basis: Basis, resamples: int, seed: int
) -> dict[str, Any]:
    partner = {tally.dialogue: tally for tally in those}
    shared = [tally for tally in these if tally.dialogue in partner]
    sample = Sample(ordered(shared), resamples, seed)

    def rows(tally: DialogueTally) -> list[Row]:
        mine, theirs = basis.rows(tally), basis.rows(partner[tally.dialogue])
        return [row for pair in zip(mine, theirs, strict=True) for row in blank(pair)]

    sides: tuple[dict[str, dict[str, Scored]], ...] = ({}, {})
    for scenario, means in sample.by_scenario(rows).items():
        for side, found in enumerate(sides):
            found[scenario] = basis.of_scenario(means[side::2])
    whole, rest = (combined(side) for side in sides)
    return {
        **{name: (whole.whole[name] - rest.whole[name]).entry() for name in HEADLINES},
        "scenarios": {
            scenario: {name: (scores[name] - rest.parts[scenario][name]).entry() for name in (*HEADLINES, *LEAVES[:4])}
            for scenario, scores in whole.parts.items()
        },
        "turns": _by_turn(sample, partner, basis),
        "dialogues": len(shared),
        "formula": basis.weights.formula(with_dsu=basis.can_answer),
    }


def _by_turn(sample: Sample, partner: Mapping[str, DialogueTally], basis: Basis) -> list[dict[str, Any]]:
    turns = {one.dialogue: (drawn_turns(one), drawn_turns(partner[one.dialogue])) for one in sample.tallies}
    reached: dict[int, int] = {}
    for mine, theirs in turns.values():
        for place in range(1, min(len(mine), len(theirs)) + 1):
            reached[place] = reached.get(place, 0) + 1
    bins = pooled_turns(reached) if basis.can_draw else []

    def rows(one: DialogueTally) -> list[Row]:
        found: list[Row] = []
        for low, high in bins:
            sides = [[image for turn in side[low - 1 : high] for image in turn] for side in turns[one.dialogue]]
            found += blank([realization(images, basis.weights) if images else NOTHING for images in sides])
        return found

    means = sample.means(rows) if bins else []
    return [
        {
            "turns": [low, high],
            "dialogues": reached[low],
            "vr": (means[2 * i] - means[2 * i + 1]).entry(),
        }
        for i, (low, high) in enumerate(bins)
    ]


def _tables(values: Mapping[str, Any]) -> list[Table]:
    header = (
        "Model",
        "Scenario",
        "Overall",
        "Overall, 95 %",
        "VR",
        "VR, 95 %",
        "DSU",
        "SC",
        "VQ",
        "Dialogues",
        "Coverage",
    )
    rows: list[tuple[Cell, ...]] = []
    for name, found in values.items():
        for scenario, scores in (("all", found), *found["scenarios"].items()):
            overall, vr = scores["overall"], scores["vr"]
            best = overall if overall["coverage"] is not None else vr
            rows.append(
                (name, scenario, overall["value"], spread(overall), vr["value"], spread(vr),
                 *(scores[key]["value"] for key in ("dsu", "sc", "vq")), scores.get("dialogues"),
                 covered(best))
            )  # fmt: skip
    turns = [
        (name, label(point), point["vr"]["value"], spread(point["vr"]), point["dialogues"], covered(point["vr"]))
        for name, found in values.items()
        for point in found["turns"]
    ]
    return [
        Table("Points, over all scenarios and in each", header, tuple(rows)),
        Table(
            "Points of VR by generation turn",
            ("Model", "Generation turn", "VR", "VR, 95 %", "Dialogues", "Coverage"),
            tuple(turns),
        ),
    ]


def _charts(values: Mapping[str, Any], label_: str) -> list[Chart]:
    scenarios = [s for s in SCENARIOS if any(s in found["scenarios"] for found in values.values())]
    bars = tuple(
        series(name, tuple(s for s in scenarios if s in found["scenarios"]),
               [found["scenarios"][s]["vr"] for s in scenarios if s in found["scenarios"]])
        for name, found in values.items()
    )  # fmt: skip
    lines = tuple(
        series(name, tuple(float(point["turns"][0]) for point in found["turns"]), [p["vr"] for p in found["turns"]])
        for name, found in values.items()
    )
    return [
        Chart(f"VR, {label_}, by scenario", "bars", "", "points", bars),
        Chart(f"VR, {label_}, by generation turn", "lines", "generation turn", "points", lines),
    ]
