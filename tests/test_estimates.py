"""Means on their way up: paired draws, differences, bounds, and what stays undefined."""

import math

import numpy as np
import pytest
from scipy import stats

from yanami_dataset.errors import DataError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.estimates import NOTHING, Row, Sample, Scored, equal, mix, pooled, summed
from yanami_metric.tally import Count, DialogueTally

NONE = Count()


def make(id_, scenario, *counts):
    """A tally whose questions carry the counts."""
    return DialogueTally(id_, scenario, tuple(counts) + (NONE,) * (4 - len(counts)), (), (NONE,) * 6, ())


def bench(number=12, seed=0):
    rng = np.random.default_rng(seed)
    return [
        make(f"{s}-{i}", s, Count(5, 5, float(rng.integers(0, 6))), Count(4, 4, float(rng.integers(0, 5))))
        for s in SCENARIOS
        for i in range(number)
    ]


def both(one):
    return [equal(one.questions[0]), pooled(one.questions[1])]


def test_means_over_all_dialogues_weigh_each_the_same():
    tallies = bench(3) + [make(f"more-{i}", "fusion", Count(5, 5, 5.0), Count(4, 4, 0.0)) for i in range(20)]
    first, second = Sample.of(tallies, 10).means(both)
    assert first.value == pytest.approx(np.mean([one.questions[0].share for one in tallies]))
    gained = sum(one.questions[1].gained for one in tallies)
    assert second.value == pytest.approx(gained / (4 * len(tallies)))
    assert (first.scored, first.asked) == (5 * len(tallies), 5 * len(tallies))


def test_dialogues_are_drawn_within_scenarios():
    """Where a scenario has no spread of its own, the whole has none either, however far apart scenarios are."""
    tallies = [make(f"{s}-{i}", s, Count(1, 1, float(s == "fusion"))) for s in SCENARIOS for i in range(5)]
    [mean] = Sample.of(tallies, 200).means(lambda one: [equal(one.questions[0])])
    assert np.ptp(mean.samples) == 0
    assert mean.entry()["low"] == mean.entry()["high"] == 25


def test_the_interval_of_a_stratified_mean_agrees_with_scipy():
    tallies = bench(40)
    groups = [[one.questions[0].share for one in tallies if one.scenario == s] for s in SCENARIOS]

    def mean(*parts, axis):
        return sum(part.sum(axis=axis) for part in parts) / 160

    peer = stats.bootstrap(
        [np.array(group) for group in groups], mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    found = Sample.of(tallies, 9999).means(both)[0].entry(scale=1)
    width = peer.high - peer.low
    assert (found["low"], found["high"]) == pytest.approx((peer.low, peer.high), abs=0.04 * width)


def test_equal_dialogues_are_drawn_alike_so_a_difference_is_paired():
    tallies = bench()
    shifted = [make(one.dialogue, one.scenario, *one.questions[:2]) for one in reversed(tallies)]
    one, same = Sample.of(tallies, 100).means(both)[0], Sample.of(shifted, 100).means(both)[0]
    entry = (one - same).entry()
    assert (entry["value"], entry["low"], entry["high"]) == (0, 0, 0)
    other = Sample.of(tallies, 100, seed=1).means(both)[0]
    assert np.ptp((one - other).samples) > 0


def test_a_scenario_is_drawn_as_in_the_whole():
    sample = Sample.of(bench(), 50)
    whole = sample.by_scenario(both)["editing"]
    alone = sample.only("editing").by_scenario(both)["editing"]
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(whole, alone, strict=True))


def test_the_bounds_of_a_difference_are_the_furthest_that_both_allow():
    a = Scored(0.6, 0.5, 0.7, np.zeros(1), 8, 10)
    b = Scored(0.4, 0.2, 0.5, np.zeros(1), 7, 10)
    entry = (a - b).entry()
    assert entry["bounds"] == [0, 50]
    assert (entry["value"], entry["n"], entry["coverage"]) == (20, 15, 0.75)


def test_rows_count_what_is_scored_and_bound_the_rest():
    assert summed([]) == NOTHING
    assert equal(Count()) == NOTHING
    assert summed([equal(Count(2, 0)), equal(Count(2, 2, 1.0))]) == Row(0.5, 1, 0.5, 1.5, 2, 2, 4)
    [mean] = Sample.of([make("a", "fusion", Count(4, 0))], 5).means(lambda one: [equal(one.questions[0])])
    assert mean.entry() == {"value": None, "low": None, "high": None, "n": 0, "coverage": 0, "bounds": [0, 100]}


def test_one_dialogue_has_no_interval_and_none_no_mean():
    [mean] = Sample.of([make("a", "fusion", Count(2, 2, 1.0))], 5).means(lambda one: [equal(one.questions[0])])
    assert (mean.entry()["value"], mean.entry()["low"]) == (50, None)
    assert Sample.of([], 5).means(both) == []
    [nothing] = Sample.of([make("a", "fusion")], 5).means(lambda one: [equal(one.questions[0])])
    assert nothing.entry()["bounds"] == [None, None]


def test_what_has_no_weight_has_no_say():
    undefined = Scored.undefined(3)
    half = Scored(0.5, 0.5, 0.5, np.full(3, 0.5), 1, 1)
    assert mix([(1.0, half), (0.0, undefined)]).value == 0.5
    assert math.isnan(mix([(0.5, half), (0.5, undefined)]).value)


def test_a_dialogue_comes_once_and_from_a_known_scenario():
    with pytest.raises(DataError, match="got a second"):
        Sample.of([make("a", "fusion"), make("a", "fusion")])
    with pytest.raises(DataError, match="got 'cooking'"):
        Sample.of([make("a", "cooking")])
