"""Intervals beside a closed form, and how often they hold the truth: simulated runs whose true scores are known."""

import math

import numpy as np
import pytest

from yanami_dataset.schema import SCENARIOS
from yanami_metric.estimates import Sample, equal
from yanami_metric.score import Basis, scored, summarise
from yanami_metric.statistics import interval
from yanami_metric.tally import Count, DialogueTally, ImageTally

NONE = Count()
DRAWS = Basis(can_answer=False, can_draw=True)
RATES = (0.2, 0.5, 0.8)


def make(id_, scenario, passed, quality):
    image = ImageTally(0, 0, Count(4, 4, float(passed)), Count(1, 1, quality))
    return DialogueTally(id_, scenario, (NONE,) * 4, (image,), (NONE,) * 6, ())


# what a dialogue can come to, made once: 0-4 checks passed x quality 0-10
POOL = {s: [make("", s, passed, tenths / 10) for passed in range(5) for tenths in range(11)] for s in SCENARIOS}


def simulated(rate, number, rng):
    """Dialogues of all scenarios, each with its own ease around the rate: it drives checks and quality alike."""
    groups = {}
    for scenario in SCENARIOS:
        ease = rng.beta(4 * rate, 4 * (1 - rate), size=number)
        places = 11 * rng.binomial(4, ease) + rng.binomial(10, ease)
        groups[scenario] = [POOL[scenario][place] for place in places]
    return groups


def covered(rate, number, simulations, resamples):
    """Share of intervals of VR over four scenarios that hold the true one, which is the rate."""
    rng = np.random.default_rng([int(100 * rate), number])
    hits = 0
    for seed in range(simulations):
        sample = Sample(simulated(rate, number, rng), resamples, seed)
        low, high = interval(scored(sample, DRAWS).whole["vr"].samples)
        hits += low <= rate <= high
    return hits / simulations


@pytest.mark.slow
@pytest.mark.parametrize("number", [25, 100])
@pytest.mark.parametrize("rate", RATES)
def test_95_percent_intervals_hold_the_truth_in_93_to_97_percent(rate, number):
    """`number` dialogues in each of four scenarios."""
    assert 0.93 <= covered(rate, number, 2000, 1000) <= 0.97


@pytest.mark.parametrize("rate", RATES)
def test_intervals_hold_the_truth_about_as_often_as_they_say(rate):
    assert 0.91 <= covered(rate, 25, 300, 300) <= 0.99


def test_samples_have_the_variance_of_a_mean():
    """The bootstrap variance of a mean is var / n, of a macro mean the sum of these / 16, exactly but for the draws."""
    rng = np.random.default_rng(1)
    sizes = dict(zip(SCENARIOS, (30, 50, 80, 120), strict=True))
    tallies = [make(f"{s}-{i}", s, rng.integers(0, 5), 0.5) for s, number in sizes.items() for i in range(number)]
    scores = scored(Sample.of(tallies, 40_000), DRAWS)
    variances = []
    for scenario, number in sizes.items():
        values = [one.checks.share for one in tallies if one.scenario == scenario]
        variances.append(np.var(values) / number)
        assert np.std(scores.parts[scenario]["sc"].samples) == pytest.approx(math.sqrt(variances[-1]), rel=0.015)
    assert np.std(scores.whole["sc"].samples) == pytest.approx(math.sqrt(sum(variances)) / 4, rel=0.015)


@pytest.mark.parametrize("rate", RATES)
def test_the_interval_of_a_share_is_that_of_the_binomial(rate):
    """Dialogues right or wrong: 1.96 sqrt(p (1 - p) / n) to each side, and half of that for the mean of four."""
    number = 400
    tallies = [make(f"{s}-{i}", s, 4 * (i < rate * number), 0.5) for s in SCENARIOS for i in range(number)]
    half = 100 * 1.96 * math.sqrt(rate * (1 - rate) / number)
    entry = summarise(tallies, can_answer=False, can_draw=True, resamples=20_000)
    for found, wanted in ((entry["scenarios"]["editing"]["sc"], half), (entry["sc"], half / 2)):
        assert found["value"] == pytest.approx(100 * rate)
        assert found["high"] - found["low"] == pytest.approx(2 * wanted, rel=0.05)
    [mean] = Sample.of(tallies, 20_000).means(lambda one: [equal(one.checks)])
    assert np.std(mean.samples) == pytest.approx(math.sqrt(rate * (1 - rate) / (4 * number)), rel=0.02)
