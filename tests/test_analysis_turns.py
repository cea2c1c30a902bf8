"""First and last generation turn and the curve over turns, against plain second implementations and at the edges."""

import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_score import UNSCORED, answered, bench, make
from yanami_dataset.schema import SCENARIOS
from yanami_metric.analysis.turns import by_turn, first_last, pooled_turns
from yanami_metric.score import ItemResult, tally

FEW = {"resamples": 20}
SCORES = ("first", "last", "delta")


def realized(dialogue, results, turn):
    """VR of a turn with one image, from what was judged."""
    checks = [results["checks", c.id].value for c in dialogue.checks if c.kind == "atomic" and c.turn == turn]
    return 0.6 * fmean(checks) + 0.4 * results["quality", f"t{turn}-s0"].value / 10


def losing(rows, seed, share):
    """The same rows with some items unscored."""
    rng = random.Random(seed)
    return [
        (d, {key: ItemResult(rng.choice(UNSCORED)) if rng.random() < share else r for key, r in results.items()})
        for d, results in rows
    ]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0, 0.4), images=st.sampled_from([(1, 2), (2, 0, 1, 3)]))
def test_first_and_last_are_over_the_dialogues_in_which_both_are_scored(seed, share, images):
    rows = losing(bench(2, seed, images=images), seed, share)
    found = first_last({"m": [tally(*row) for row in rows]}, **FEW).values["m"]
    last = len(images) - 1
    kept = []
    for dialogue, results in rows:
        scored = {key: r for key, r in results.items() if r.status == "scored"}
        sides = []
        for turn in (0, last):
            checks = [c.id for c in dialogue.checks if c.kind == "atomic" and c.turn == turn]
            passed = [scored["checks", c].value for c in checks if ("checks", c) in scored]
            quality = scored.get(("quality", f"t{turn}-s0"))
            sides.append(0.6 * fmean(passed) + 0.04 * quality.value if passed and quality else None)
        if None not in sides:
            kept.append(sides)
    if kept:
        first, end = (fmean(side) for side in zip(*kept, strict=True))
        assert [found[key]["value"] for key in SCORES] == pytest.approx([first, end, end - first])
    else:
        assert [found[key]["value"] for key in SCORES] == [None] * 3
    for key in SCORES:
        low, high = found[key]["bounds"]
        assert -1 <= low <= high <= 1


def test_scenarios_may_be_missing_and_models_stand_side_by_side():
    rows = [row for row in bench(6) if row[0].scenario in SCENARIOS[:2]]
    some = [tally(*row) for row in rows]
    finding = first_last({"a": some, "b": some[:5]}, **FEW)
    assert [row[0] for row in finding.tables[0].rows] == ["a", "b"]
    assert finding.values["a"]["first"]["value"] == pytest.approx(fmean(realized(*row, 0) for row in rows))
    assert finding.values["b"]["dialogues"] == 5


def test_an_image_without_atomic_checks_has_no_vr():
    dialogues = [make(f"d{n}", images=(0, 2, 3, 0)) for n in range(5)]
    rows = [(one, answered(one, random.Random(n))) for n, one in enumerate(dialogues)]
    some = [tally(*row) for row in rows]
    assert first_last({"m": some}, **FEW).values["m"]["first"]["value"] == pytest.approx(
        fmean(realized(*row, 1) for row in rows)
    )
    values = by_turn({"m": some}, **FEW).values["m"]
    assert [point["turns"] for point in values["generation"]] == [[1, 1], [2, 2]]
    assert [point["turns"] for point in values["position"]] == [[2, 2], [3, 3]]


def test_the_curve_is_the_mean_of_each_turn():
    rows = bench(3, images=(2, 1, 4))
    points = by_turn({"m": [tally(*row) for row in rows]}, **FEW).values["m"]["position"]
    for turn, point in enumerate(points):
        assert point["vr"]["value"] == pytest.approx(100 * fmean(realized(*row, turn) for row in rows))
        assert point["vr"]["value"] == pytest.approx(0.6 * point["sc"]["value"] + 0.4 * point["vq"]["value"])
        assert point["vr"]["low"] <= point["vr"]["value"] <= point["vr"]["high"]
        assert point["dialogues"] == len(rows)


def test_a_first_turn_at_which_few_draw_leaves_the_curve_whole():
    shapes = [(1, 2, 2)] * 2 + [(0, 2, 2)] * 6
    dialogues = [make(f"d{n}", images=shape) for n, shape in enumerate(shapes)]
    some = [tally(one, answered(one, random.Random(n))) for n, one in enumerate(dialogues)]
    points = by_turn({"m": some}, **FEW).values["m"]["position"]
    assert [(point["turns"], point["dialogues"]) for point in points] == [([1, 1], 2), ([2, 2], 8), ([3, 3], 8)]


@given(st.dictionaries(st.integers(1, 12), st.integers(1, 9)))
def test_only_the_end_is_pooled_and_no_turn_is_lost(reached):
    bins = pooled_turns(reached)
    assert all(sum(low <= turn <= high for low, high in bins) == 1 for turn in reached)
    assert all(low == high for low, high in bins[:-1])
    if bins and bins[-1][0] < bins[-1][1]:
        assert all(number < 5 for turn, number in reached.items() if turn >= bins[-1][0])


@pytest.mark.parametrize("images", [(), (2,), (0, 0)])
def test_without_two_generation_turns_there_is_no_number(images):
    dialogue = make("d", images=images)
    one = {"m": [tally(dialogue, answered(dialogue, random.Random(0)))]}
    assert first_last(one, **FEW).values["m"]["delta"]["bounds"] == [None, None]
    assert len(by_turn(one, **FEW).values["m"]["position"]) == sum(map(bool, images))


def test_what_is_unscored_throughout_has_bounds_only():
    some = {"m": [tally(dialogue, {}) for dialogue, _ in bench(2)]}
    found = first_last(some, **FEW).values["m"]
    assert (found["delta"]["value"], found["delta"]["bounds"], found["delta"]["coverage"]) == (None, [-1, 1], 0)
    assert all(p["vr"]["value"] is None for p in by_turn(some, **FEW).values["m"]["generation"])
    assert by_turn({"m": []}, **FEW).values["m"] == {"generation": [], "position": []}
