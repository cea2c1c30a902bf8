"""What a history is worth, against plain second implementations and at the edges."""

import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_analysis_turns import losing, realized
from tests.test_score import answered, bench, make, plainly
from yanami_dataset.schema import DIMENSIONS, SCENARIOS
from yanami_metric.analysis.modes import WHAT, differences
from yanami_metric.estimates import Sample
from yanami_metric.score import HEADLINES, Basis, ItemResult, scored, tally
from yanami_metric.statistics import interval

BOTH = Basis(can_answer=True, can_draw=True)


def counted(rows):
    return [tally(*row) for row in rows]


def between(these, those, what="drop", basis=BOTH, **how):
    """The values of one model under two modes."""
    modes = dict(zip(WHAT[what][0], (these, those), strict=True))
    return differences({"m": modes}, {"m": basis}, what, **{"resamples": 50, **how}).values["m"]


def estimates(node):
    if isinstance(node, dict) and "bounds" in node:
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from estimates(child)


@pytest.mark.parametrize("what", WHAT)
def test_each_is_the_difference_of_the_scores(what):
    rows, others = bench(3, seed=1), bench(3, seed=2)
    found = between(counted(rows), counted(others), what)
    assert found["overall"]["value"] == pytest.approx(plainly(rows) - plainly(others))
    assert found["overall"]["value"] == pytest.approx(
        fmean(found["scenarios"][scenario]["overall"]["value"] for scenario in SCENARIOS)
    )
    for turn, point in enumerate(found["turns"]):
        expected = fmean(realized(*row, turn) for row in rows) - fmean(realized(*row, turn) for row in others)
        assert point["vr"]["value"] == pytest.approx(100 * expected)


def test_draws_are_paired():
    some, others = counted(bench(4, seed=1)), counted(bench(4, seed=2))
    found = between(some, others, seed=3)
    one, other = (scored(Sample.of(side, 50, 3), BOTH).whole for side in (some, others))
    for name in HEADLINES:
        ends = interval(100 * (one[name].samples - other[name].samples))
        assert (found[name]["low"], found[name]["high"]) == pytest.approx(ends)
    apart = np.random.default_rng(0).permutation(other["vr"].samples)
    assert not np.allclose(interval(one["vr"].samples - apart), interval(one["vr"].samples - other["vr"].samples))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0, 1))
def test_a_mode_without_itself_is_nothing_whatever_is_scored(seed, share):
    some = counted(losing(bench(2, seed), seed, share))
    for one in estimates(between(some, some)):
        assert one["value"] in (0, None)
        assert one["low"] in (0, None)
        assert one["high"] in (0, None)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), share=st.floats(0, 0.5))
def test_the_other_way_round_is_the_opposite(seed, share):
    some, others = (counted(losing(bench(2, s), s, share)) for s in (seed, seed + 1))
    for one, other in zip(estimates(between(some, others)), estimates(between(others, some)), strict=True):
        assert (one["n"], one["coverage"]) == (other["n"], other["coverage"])
        assert one["bounds"] == [None if end is None else pytest.approx(-end) for end in reversed(other["bounds"])]
        assert one["value"] == (None if other["value"] is None else pytest.approx(-other["value"]))


def test_what_one_mode_leaves_unscored_counts_in_neither():
    rows, others = bench(4, seed=1), bench(4, seed=2)
    for dialogue, results in others[::4]:
        results |= {("checks", c.id): ItemResult("transport_error") for c in dialogue.checks}
    found = between(counted(rows), counted(others))
    kept = [number for number in range(len(rows)) if number % 4]
    sides = (counted([side[number] for number in kept]) for side in (rows, others))
    one, other = (scored(Sample.of(side, 0), BOTH).whole["sc"].value for side in sides)
    assert found["sc"]["value"] == pytest.approx(100 * (one - other))
    assert found["sc"]["coverage"] == pytest.approx(1 - 0.5 / 4)
    assert found["sc"]["bounds"][0] < found["sc"]["value"] < found["sc"]["bounds"][1]
    assert found["vq"]["coverage"] == 1


def test_only_shared_dialogues_count_and_their_order_does_not():
    some, others = counted(bench(4, seed=1)), counted(bench(4, seed=2))
    assert between(some, list(reversed(others))) == between(some, others)
    found = between(some[1:], others)
    assert (found["dialogues"], found) == (len(some) - 1, between(some[1:], others[1:]))


def test_what_a_model_cannot_do_is_in_no_difference():
    some, others = counted(bench(2, seed=1)), counted(bench(2, seed=2))
    mute = between(some, others, basis=Basis(can_answer=False, can_draw=True))
    assert mute["overall"] == mute["vr"]
    assert (mute["dsu"]["bounds"], mute["formula"]) == ([None, None], "0.6 SC + 0.4 VQ")
    blind = between(some, others, basis=Basis(can_answer=True, can_draw=False))
    assert (blind["vr"]["bounds"], blind["overall"]["bounds"], blind["turns"]) == ([None, None], [None, None], [])
    assert blind["dsu"]["value"] == pytest.approx(
        fmean(found[d]["value"] for found in blind["scenarios"].values() for d in DIMENSIONS)
    )


def test_a_missing_scenario_leaves_the_whole_undefined():
    some, others = (counted([row for row in bench(2, s) if row[0].scenario != "editing"]) for s in (1, 2))
    found = between(some, others)
    assert (found["overall"]["bounds"], list(found["scenarios"])) == ([None, None], ["fusion", "modeling", "reasoning"])
    assert found["scenarios"]["fusion"]["overall"]["value"] is not None


@pytest.mark.parametrize("images", [(), (2,), (0,), (2, 2)])
def test_one_dialogue_has_no_interval(images):
    dialogue = make("d", "fusion", images=images)
    some = [[tally(dialogue, answered(dialogue, random.Random(seed)))] for seed in (1, 2)]
    assert all(one["low"] is None for one in estimates(between(*some)))
    assert all(one["value"] is None for one in estimates(between([tally(dialogue, {})], some[1])))


def test_a_run_under_one_of_the_modes_is_named():
    some = counted(bench(1))
    runs = {"a": {"gt": some, "self": some}, "b": {"gt": some}}
    finding = differences(runs, {"a": BOTH, "b": BOTH}, "drop", resamples=0)
    assert list(finding.values) == ["a"]
    assert "b was not run under both gt and self." in finding.notes
