"""The bootstrap against scipy's, and what it must do at the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from yanami_dataset.errors import SpecError
from yanami_metric.statistics import interval, ratio, resampled_ratios


def draw(values, units=None, resamples=4000, seed=3, **options):
    values = np.asarray(values, dtype=float).reshape(len(values), -1)
    units = np.ones_like(values) if units is None else np.asarray(units, dtype=float).reshape(values.shape)
    return resampled_ratios(values, units, resamples, np.random.default_rng(seed), **options)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_agrees_with_scipy_on_a_mean(level):
    values = np.random.default_rng(1).beta(2, 5, size=80)
    ours = interval(draw(values, resamples=20_000), level)
    peer = stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=level,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    width = peer.high - peer.low
    assert ours == pytest.approx((peer.low, peer.high), abs=0.03 * width)


def test_agrees_with_scipy_on_a_ratio_of_sums():
    rng = np.random.default_rng(4)
    asked = rng.integers(1, 9, size=60).astype(float)
    passed = rng.binomial(asked.astype(int), 0.6).astype(float)

    def share(passed, asked, axis):
        return passed.sum(axis) / asked.sum(axis)

    peer = stats.bootstrap(
        (passed, asked), share, paired=True, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    ours = interval(draw(passed, asked, resamples=20_000))
    assert ours == pytest.approx((peer.low, peer.high), abs=0.03 * (peer.high - peer.low))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    hits = 0
    for seed in range(200):
        low, high = interval(draw(rng.binomial(1, 0.7, size=100), resamples=400, seed=seed))
        hits += low <= 0.7 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_memory_bound_does_not_change_the_result():
    values = np.random.default_rng(6).random((37, 3))
    whole = draw(values, resamples=101)
    for cells in (1, 37 * 10):
        assert np.allclose(whole, draw(values, resamples=101, cells=cells), rtol=1e-12)


def test_a_seed_decides_everything():
    values = np.random.default_rng(7).random(20)
    assert np.array_equal(draw(values), draw(values))
    assert not np.array_equal(draw(values), draw(values, seed=4))


def test_columns_stay_paired():
    values = np.random.default_rng(8).random(30)
    samples = draw(np.column_stack([values, 1 - values]))
    assert np.allclose(samples.sum(axis=1), 1)


def test_one_dialogue_has_no_spread_to_speak_of():
    assert np.isnan(draw([0.5])).all()
    assert np.isnan(draw([0.5, 0.0, 0.0], units=[1, 0, 0])).all()
    assert interval(draw([0.5])) is None


def test_resamples_without_units_are_left_out():
    samples = draw([0.25, 0.25, 0, 0, 0, 0], units=[1, 1, 0, 0, 0, 0])
    assert 0 < np.isnan(samples).sum() < len(samples)
    assert interval(samples) == (0.25, 0.25)


def test_no_resamples_or_no_dialogues():
    assert draw([0.5, 0.5], resamples=0).shape == (0, 1)
    assert np.isnan(resampled_ratios(np.zeros((0, 2)), np.zeros((0, 2)), 3, np.random.default_rng(0))).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12), st.integers(0, 99))
def test_shares_stay_shares(pairs, seed):
    gained, units = np.array([(min(a, b), max(a, b)) for a, b in pairs], dtype=float).T
    samples = draw(gained, units, resamples=50, seed=seed)
    defined = samples[~np.isnan(samples)]
    assert ((defined >= 0) & (defined <= 1)).all()


def test_ratio_is_nan_only_where_there_are_no_units():
    assert ratio(np.array([3.0, 0.0, 0.0]), np.array([4.0, 2.0, 0.0])) == pytest.approx([0.75, 0, np.nan], nan_ok=True)


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((3, 2), (3, 1))])
def test_refuses_shapes_that_do_not_agree(shapes):
    with pytest.raises(SpecError, match=r"same shape \(dialogues, columns\)"):
        resampled_ratios(np.ones(shapes[0]), np.ones(shapes[1]), 10, np.random.default_rng(0))


def test_refuses_what_makes_no_sense():
    with pytest.raises(SpecError, match="0 or more resamples"):
        draw([1, 2], resamples=-1)
    with pytest.raises(SpecError, match=r"between 0 and 1, got 95"):
        interval(np.ones(3), 95)
