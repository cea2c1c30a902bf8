"""Bounds of dialogues of any shape, weights and caps, and of differences. Those of one plain shape: test_score.py."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yanami_dataset.schema import SCENARIOS
from yanami_metric.formulas import Weights
from yanami_metric.paired import Side, compare
from yanami_metric.score import HEADLINES, SC_MEANS, Basis, summarise
from yanami_metric.tally import Count, DialogueTally, ImageTally

WEIGHTS = st.builds(lambda dsu, sc: Weights(dsu, sc, 1 - sc), st.floats(0, 1), st.floats(0, 1))
BASES = st.builds(
    lambda caps, weights, sc_mean: Basis(*caps, weights, sc_mean),
    st.sampled_from([(True, True), (False, True), (True, False)]),
    WEIGHTS,
    st.sampled_from(SC_MEANS),
)
SEEDS = st.integers(0, 2**32)
SHARES = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])


def complete(rng, asked):
    return Count(asked, asked, float(sum(rng.random() < 0.6 for _ in range(asked))))


def dialogue(rng, number, scenario):
    """Zero to three items in every place, so some dialogues say nothing to some scores."""
    images = tuple(
        ImageTally(turn, 0, complete(rng, rng.randint(0, 3)), Count(1, 1, rng.randint(0, 10) / 10))
        for turn in range(rng.randint(1, 3))
    )
    questions = tuple(complete(rng, rng.randint(0, 3)) for _ in range(4))
    return DialogueTally(f"d{number}", scenario, questions, images, (Count(),) * 6, ())


def bench(seed, number=2):
    rng = random.Random(seed)
    return [dialogue(rng, f"{s}-{i}", s) for s in SCENARIOS for i in range(number)]


def mapped(one, change):
    """A dialogue with all its counts changed."""
    images = tuple(replace(i, checks=change(i.checks), quality=change(i.quality)) for i in one.images)
    return replace(one, questions=tuple(map(change, one.questions)), images=images)


def hidden(tallies, seed, share):
    """Each verdict forgotten with that chance."""
    rng = random.Random(seed)

    def hide(count):
        if count.asked == 1:  # a quality may be any part of 1
            return count if rng.random() >= share else Count(1)
        passed = [n < count.gained for n in range(count.asked)]
        kept = [one for one in passed if rng.random() >= share]
        return Count(count.asked, len(kept), float(sum(kept)))

    return [mapped(one, hide) for one in tallies]


def filled(tallies, value):
    """Each item without a verdict given that one, 0 or 1."""
    return [mapped(one, lambda c: Count(c.asked, c.asked, c.gained + value * (c.asked - c.scored))) for one in tallies]


def scores(tallies, basis):
    """HEADLINES over the whole and by scenario."""
    options = {"can_answer": basis.can_answer, "can_draw": basis.can_draw, "sc_mean": basis.sc_mean}
    entry = summarise(tallies, weights=basis.weights, resamples=0, **options)
    return {
        (scenario, name): part[name]
        for scenario, part in ((None, entry), *entry["scenarios"].items())
        for name in HEADLINES
    }


@settings(max_examples=80, deadline=None)
@given(SEEDS, SHARES, BASES)
def test_unscored_as_failed_and_as_passed_are_the_bounds_whatever_is_asked(seed, share, basis):
    partly = hidden(bench(seed), seed, share)
    lowest, highest = (scores(filled(partly, value), basis) for value in (0, 1))
    for where, estimate in scores(partly, basis).items():
        low, high = estimate["bounds"]
        assert low == pytest.approx(lowest[where]["value"], abs=1e-8), where
        assert high == pytest.approx(highest[where]["value"], abs=1e-8), where
        if estimate["value"] is not None:
            assert low - 1e-8 <= estimate["value"] <= high + 1e-8, where


@settings(max_examples=80, deadline=None)
@given(SEEDS, SHARES, BASES)
def test_the_truth_of_a_complete_run_stays_within_whatever_is_asked(seed, share, basis):
    whole = bench(seed)
    truth = scores(whole, basis)
    for where, estimate in scores(hidden(whole, seed, share), basis).items():
        low, high = estimate["bounds"]
        if truth[where]["value"] is None:
            assert (low, high) == (None, None), where
        else:
            assert low - 1e-8 <= truth[where]["value"] <= high + 1e-8, where


@settings(max_examples=40, deadline=None)
@given(SEEDS, BASES)
def test_another_verdict_never_widens_the_bounds(seed, basis):
    rng = random.Random(seed)
    partly = hidden(bench(seed), seed, 0.6)
    reveal = random.Random(seed + 1)

    def one_more(count):
        if count.scored == count.asked or reveal.random() < 0.5:
            return count
        return replace(count, scored=count.scored + 1, gained=count.gained + rng.randint(0, 1))

    before = scores(partly, basis)
    for where, estimate in scores([mapped(one, one_more) for one in partly], basis).items():
        if estimate["bounds"][0] is not None:
            assert before[where]["bounds"][0] <= estimate["bounds"][0] + 1e-8, where
            assert estimate["bounds"][1] <= before[where]["bounds"][1] + 1e-8, where


@settings(max_examples=40, deadline=None)
@given(SEEDS, SHARES, SHARES, BASES)
def test_the_true_difference_of_two_runs_stays_within_its_bounds(seed, share, other_share, basis):
    one = bench(seed)
    rng = random.Random(seed + 1)  # another run of the same dialogues: as many items, other verdicts
    other = [mapped(t, lambda c: complete(rng, c.asked)) for t in one]

    def differences(a, b):
        sides = {"a": Side(a, basis), "b": Side(b, basis)}
        pairs = compare(sides, resamples=0, permutations=0)["pairs"]
        return {(p["scenario"], p["score"]): p["difference"] for p in pairs}

    truth = differences(one, other)
    seen = differences(hidden(one, seed, share), hidden(other, seed + 2, other_share))
    for where, estimate in seen.items():
        low, high = estimate["bounds"]
        if truth[where]["value"] is None:
            assert (low, high) == (None, None), where
        else:
            assert low - 1e-8 <= truth[where]["value"] <= high + 1e-8, where
