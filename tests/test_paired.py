"""Runs compared: differences of the same dialogues, p-values beside scipy's, families, ranks, edges."""

import json
import math
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric.estimates import Scored
from yanami_metric.formulas import Weights
from yanami_metric.paired import Side, compare, ranks
from yanami_metric.score import HEADLINES, Basis, summarise
from yanami_metric.statistics import exchanged_sums, holm
from yanami_metric.tally import Count, DialogueTally, ImageTally
from yanami_metric.widths import beside_full, note

NONE = Count()
BOTH = Basis(can_answer=True, can_draw=True)
DRAWS = Basis(can_answer=False, can_draw=True)
ANSWERS = Basis(can_answer=True, can_draw=False)


def make(id_, scenario, passed, quality, right=(1, 1, 1, 1)):
    """A dialogue of one image with four checks, and two questions per dimension."""
    image = ImageTally(0, 0, Count(4, 4, float(passed)), Count(1, 1, quality / 10))
    return DialogueTally(id_, scenario, tuple(Count(2, 2, float(n)) for n in right), (image,), (NONE,) * 6, ())


def run(seed, number=10, better=0, scenarios=SCENARIOS):
    rng = np.random.default_rng(seed)
    return [
        make(
            f"{s}-{i}", s, rng.integers(better, 5), rng.integers(2 * better, 11), tuple(map(int, rng.integers(0, 3, 4)))
        )
        for s in scenarios
        for i in range(number)
    ]


def unscored(one):
    """The same dialogue with its image neither checked nor rated."""
    [image] = one.images
    return replace(one, images=(replace(image, checks=Count(4), quality=Count(1)),))


def found(runs, bases=None, **options):
    names = "abcdef"[: len(runs)]
    bases = bases or [BOTH] * len(runs)
    sides = {name: Side(one, basis) for name, one, basis in zip(names, runs, bases, strict=True)}
    result = compare(sides, **{"resamples": 200, "permutations": 500, **options})
    json.dumps(result, allow_nan=False)
    return result


def pair(result, score="vr", scenario=None, a="a", b="b"):
    key = {"a": a, "b": b, "scenario": scenario, "score": score}
    [one] = [one for one in result["pairs"] if key.items() <= one.items()]
    return one


def shares(tallies, scenario):
    return np.array([one.checks.share for one in tallies if one.scenario == scenario])


def test_differences_are_those_of_the_scores_when_all_is_scored():
    one, other = run(1), run(2)
    result = found([one, other])
    scores = [summarise(side, can_answer=True, can_draw=True, resamples=200) for side in (one, other)]
    for name in HEADLINES:
        assert result["scores"]["a"][name] == scores[0][name]
        whole = pair(result, name)["difference"]
        assert whole["value"] == pytest.approx(scores[0][name]["value"] - scores[1][name]["value"])
        assert whole["low"] < whole["value"] < whole["high"]
        for scenario in SCENARIOS:
            values = [score["scenarios"][scenario][name]["value"] for score in scores]
            assert pair(result, name, scenario)["difference"]["value"] == pytest.approx(values[0] - values[1])
    assert result["dialogues"] == 40
    assert result["scenarios"] == dict.fromkeys(SCENARIOS, 10)
    assert len(result["pairs"]) == 5 * 5


def test_the_interval_of_a_difference_is_paired():
    """Two runs whose dialogues differ a lot among themselves and hardly between the runs."""
    rng = np.random.default_rng(3)
    one = [make(f"{s}-{i}", s, 3 * rng.integers(0, 2), 5) for s in SCENARIOS for i in range(30)]
    other = [make(t.dialogue, t.scenario, t.checks.gained + (i % 3 == 0), 5) for i, t in enumerate(one)]
    result = found([one, other])
    width = {name: (e := result["scores"][name]["sc"])["high"] - e["low"] for name in "ab"}
    difference = pair(result, "sc")["difference"]
    assert difference["high"] - difference["low"] < min(width.values()) / 2
    paired = [shares(one, "fusion"), shares(other, "fusion")]
    peer = stats.bootstrap(
        paired,
        lambda a, b, axis: (a - b).mean(axis),
        paired=True,
        n_resamples=9999,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    ours = pair(found([one, other], resamples=9999), "sc", "fusion")["difference"]
    assert (ours["low"], ours["high"]) == pytest.approx((100 * peer.low, 100 * peer.high), abs=0.5)


def mean_difference(a, b, axis):
    return (a - b).mean(axis)


@pytest.mark.parametrize("seed", range(4))
def test_p_agrees_with_scipy_s_exact_test(seed):
    one, other = run(10 + seed, 9, better=1), run(20 + seed, 9)
    samples = shares(one, "editing"), shares(other, "editing")
    peer = stats.permutation_test(samples, mean_difference, permutation_type="samples", n_resamples=np.inf)
    p = pair(found([one, other], permutations=20_000, resamples=0), "sc", "editing")["p"]
    assert p == pytest.approx(peer.pvalue, abs=4 * math.sqrt(0.25 / 20_000))


def test_p_over_all_scenarios_is_that_of_the_macro_mean():
    """By hand: every exchange of two dialogues in each of four scenarios of which the one has more."""
    one, other = run(5, 2), run(6, 2)
    each = [shares(one, s) - shares(other, s) for s in SCENARIOS]
    signs = np.array(list(product((1, -1), repeat=8)))
    every = np.abs(signs @ np.concatenate(each)) / 8
    exact = np.mean(every >= every[0] - 1e-12)
    p = pair(found([one, other], permutations=20_000, resamples=0), "sc")["p"]
    assert p == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 20_000))


def test_p_is_near_those_of_other_paired_tests():
    one, other = run(7, 150), run(8, 150)
    a, b = shares(one, "fusion"), shares(other, "fusion")
    p = pair(found([one, other], permutations=5000, resamples=0), "sc", "fusion")["p"]
    assert p == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=0.03)
    assert p == pytest.approx(stats.wilcoxon(a, b).pvalue, abs=0.1)
    better = run(9, 150, better=2)
    assert pair(found([better, other], resamples=0), "sc", "fusion")["p"] == pytest.approx(1 / 501)


def test_p_is_uniform_where_runs_are_alike():
    runs = 200
    p = [pair(found([run(s, 8), run(1000 + s, 8)], resamples=0, permutations=199, seed=s))["p"] for s in range(runs)]
    for level in (0.05, 0.2, 0.5, 0.8):
        error = math.sqrt(level * (1 - level) / runs)
        assert np.mean(np.array(p) <= level) == pytest.approx(level, abs=4 * error)


def test_a_dialogue_unscored_on_one_side_counts_on_neither():
    one, other = run(1), run(2)
    some = {t.dialogue for t in one[::3]}
    partly = [unscored(t) if t.dialogue in some else t for t in one]
    result = found([partly, other], permutations=500)
    kept = [[t for t in side if t.dialogue not in some] for side in (one, other)]
    without = found(kept)
    for name in ("vr", "sc", "vq"):
        for scenario in (None, *SCENARIOS):
            seen, wanted = pair(result, name, scenario), pair(without, name, scenario)
            assert seen["difference"]["value"] == pytest.approx(wanted["difference"]["value"])
            low, high = seen["difference"]["bounds"]
            assert low < pair(found([one, other]), name, scenario)["difference"]["value"] < high
            assert seen["difference"]["coverage"] < 1
    assert pair(result, "dsu") == pair(found([one, other]), "dsu")  # questions were all scored


def test_only_what_all_have_is_compared():
    one, other, third = run(1, 6), run(2, 5), run(3, 8)
    result = found([one, other, third])
    assert (result["dialogues"], result["left_out"]) == (20, {"a": 4, "b": 0, "c": 12})
    cut = [t for t in one if not t.dialogue.endswith("-5")]
    assert pair(result) == {**pair(found([cut, other])), "p_holm": pair(result)["p_holm"]}
    assert [(p["a"], p["b"]) for p in result["pairs"] if p["score"] == "vr" and p["scenario"] is None] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_order_of_tallies_does_not_matter_and_a_seed_decides():
    one, other = run(1), run(2)
    assert found([one, other]) == found([one[::-1], other[3:] + other[:3]])
    again = found([one, other], seed=1)
    assert pair(again)["difference"]["value"] == pair(found([one, other]))["difference"]["value"]
    assert pair(again)["p"] != pair(found([one, other]))["p"]


def test_changing_sides_changes_the_sign():
    one, other = run(1), run(2)
    there, back = pair(found([one, other])), pair(found([other, one]))
    assert there["difference"]["value"] == -back["difference"]["value"]
    assert (there["difference"]["low"], there["p"]) == (-back["difference"]["high"], back["p"])


def test_identical_runs():
    result = found([run(1), run(1)])
    for one in result["pairs"]:
        assert (one["difference"]["value"], one["difference"]["low"], one["difference"]["high"]) == (0, 0, 0)
        assert one["p"] == one["p_holm"] == 1
    assert result["ranks"]["vr"] == {name: {"rank": 1, "low": 1, "high": 1} for name in "ab"}


def test_overall_is_compared_within_one_formula_only():
    result = found([run(1), run(2), run(3)], [BOTH, DRAWS, BOTH])
    overall = [(one["a"], one["b"]) for one in result["pairs"] if one["score"] == "overall" and not one["scenario"]]
    assert overall == [("a", "c")]
    assert [(group["formula"], list(group["ranks"])) for group in result["ranks"]["overall"]] == [
        ("0.4 DSU + 0.36 SC + 0.24 VQ", ["a", "c"]),
        ("0.6 SC + 0.4 VQ", ["b"]),
    ]
    assert sorted(result["ranks"]["vr"]) == ["a", "b", "c"]
    assert pair(result, "dsu")["difference"]["bounds"] == [None, None]
    assert pair(result, "dsu")["p"] is pair(result, "dsu")["p_holm"] is None
    assert pair(result, "vr")["p"] is not None


def test_a_run_that_only_answers_beside_one_that_draws():
    result = found([run(1), run(2)], [ANSWERS, BOTH])
    assert pair(result, "vr")["difference"]["value"] is pair(result, "vr")["p"] is None
    assert pair(result, "dsu")["difference"]["value"] is not None
    assert list(result["ranks"]["vr"]) == ["b"]


@pytest.mark.parametrize("other", [replace(BOTH, sc_mean="check"), replace(BOTH, weights=Weights(0.4, 0.5, 0.5))])
def test_other_means_are_not_compared(other):
    with pytest.raises(SpecError, match=r"whose VR is the same mean, got a .*; b .*; score them alike"):
        found([run(1), run(2)], [BOTH, other])


def test_another_weight_of_dsu_is_another_formula():
    result = found([run(1), run(2)], [BOTH, replace(BOTH, weights=Weights(dsu=0.5))])
    assert {one["score"] for one in result["pairs"]} == {"vr", "dsu", "sc", "vq"}


def test_missing_scenarios():
    result = found([run(1, scenarios=SCENARIOS[:2]), run(2)])
    assert list(result["scenarios"]) == list(SCENARIOS[:2])
    assert pair(result)["difference"]["value"] is pair(result)["p"] is pair(result)["p_holm"] is None
    assert pair(result, scenario=SCENARIOS[0])["p"] is not None
    assert result["ranks"]["vr"] == {}


def test_one_dialogue_has_a_difference_and_nothing_more():
    result = found([run(1, 1), run(2, 1)])
    for scenario in (None, *SCENARIOS):
        one = pair(result, scenario=scenario)
        assert one["difference"]["value"] is not None
        assert one["difference"]["low"] is one["p"] is one["p_holm"] is None
    assert {rank["low"] for rank in result["ranks"]["vr"].values()} == {None}


def test_neither_resamples_nor_permutations():
    one = pair(found([run(1), run(2)], resamples=0))
    assert one["difference"]["low"] is None
    assert one["p"] is not None
    one = pair(found([run(1), run(2)], permutations=0))
    assert one["difference"]["low"] is not None
    assert one["p"] is None


def test_what_cannot_be_compared():
    with pytest.raises(DataError, match=r"none that all of them have \(a has 8, b has 4\)"):
        found([run(1, 4, scenarios=SCENARIOS[:2]), run(2, 4, scenarios=SCENARIOS[2:3])])
    with pytest.raises(SpecError, match="two or more runs to compare, got 1"):
        found([run(1)])
    with pytest.raises(DataError, match="'fusion-0': expected one scenario in all runs, got editing and fusion"):
        found([run(1), [replace(one, scenario="editing") for one in run(2)]])
    with pytest.raises(DataError, match="got a second"):
        found([run(1) + run(1), run(2)])
    with pytest.raises(SpecError, match="0 or more permutations, got -1"):
        found([run(1), run(2)], permutations=-1)


def test_families_of_corrected_p():
    result = found([run(seed, better=seed % 2) for seed in range(4)])
    for name in HEADLINES:
        for family in (
            [one for one in result["pairs"] if one["score"] == name and one["scenario"] is None],
            [one for one in result["pairs"] if one["score"] == name and one["scenario"] is not None],
        ):
            assert len(family) in (6, 24)
            assert [one["p_holm"] for one in family] == holm([one["p"] for one in family])


def test_holm_by_hand():
    """Five hypotheses: 5 x 0.005, 4 x 0.01, 3 x 0.03, then 2 x 0.04 = 0.08 raised to 0.09, and 1 x 0.5."""
    assert holm([0.03, 0.005, 0.5, None, 0.01, 0.04]) == pytest.approx([0.09, 0.025, 0.5, None, 0.04, 0.09])
    assert holm([]) == []
    assert holm([None]) == [None]


@given(st.lists(st.none() | st.floats(0, 1), max_size=12))
def test_holm_keeps_order_and_never_lowers(p_values):
    adjusted = holm(p_values)
    assert [p is None for p in p_values] == [p is None for p in adjusted]
    known = sorted((p, q) for p, q in zip(p_values, adjusted, strict=True) if p is not None)
    assert [q for _, q in known] == sorted(q for _, q in known)
    assert all(p <= q <= min(1, len(known) * p) + 1e-15 for p, q in known)
    if known:
        assert known[0][1] == min(1, len(known) * known[0][0])  # Bonferroni's, for the smallest


def test_ranks_follow_the_draws():
    """Rank 1 to 3 by hand: b beats c in nine resamples of ten, nobody beats a."""
    b = np.full(1000, 0.5)
    c = np.where(np.arange(1000) % 10 == 0, 0.6, 0.4)
    values = {"c": (0.4, c), "a": (0.9, np.full(1000, 0.9)), "b": (0.5, b)}
    found = ranks({name: Scored(value, value, value, samples, 1, 1) for name, (value, samples) in values.items()})
    assert found == {
        "c": {"rank": 3, "low": 2, "high": 3},
        "a": {"rank": 1, "low": 1, "high": 1},
        "b": {"rank": 2, "low": 2, "high": 3},
    }


def test_ranks_where_something_is_undefined():
    some = np.where(np.arange(100) < 10, np.nan, 0.5)
    sides = {"a": (0.5, some), "b": (0.6, np.full(100, 0.6)), "c": (math.nan, np.full(100, math.nan))}
    found = ranks({name: Scored(value, 0.0, 1.0, samples, 1, 1) for name, (value, samples) in sides.items()})
    assert found == {"a": {"rank": 2, "low": 2, "high": 2}, "b": {"rank": 1, "low": 1, "high": 1}}
    assert ranks({}) == {}


def test_equal_scores_share_the_better_rank():
    result = found([run(1), run(1), run(2, better=2), run(3)])
    by_name = result["ranks"]["vr"]
    assert by_name["c"]["rank"] == 1
    assert by_name["a"] == by_name["b"]
    assert {rank["rank"] for rank in by_name.values()} <= {1, 2, 3, 4}
    for rank in by_name.values():
        assert rank["low"] <= rank["rank"] <= rank["high"]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 99))
def test_exchanges_sum_what_is_kept_in_any_memory(dialogues, columns, seed):
    differences = np.random.default_rng(seed).integers(-5, 6, (dialogues, columns)).astype(float)
    whole = exchanged_sums(differences, 60, np.random.default_rng(seed))
    parts = exchanged_sums(differences, 60, np.random.default_rng(seed), cells=1)
    assert np.array_equal(whole, parts)
    assert (whole <= np.maximum(differences, 0).sum(axis=0)).all()
    assert (whole >= np.minimum(differences, 0).sum(axis=0)).all()


def test_fast_enough_for_two_full_runs():
    one, other = run(1, 100), run(2, 100)
    started = time.perf_counter()
    compare({"a": Side(one, BOTH), "b": Side(other, BOTH)})
    assert time.perf_counter() - started < 1.5  # takes about 0.15 s where nothing else runs


def test_a_part_of_the_bench_foretells_the_width_over_all_of_it():
    few, many = run(1, 25), run(2, 100)
    widths = []
    for one in (few, many):
        vr = summarise(one, can_answer=True, can_draw=True, resamples=2000)["vr"]
        widths.append(vr["high"] - vr["low"])
    assert beside_full(widths[0], len(few), len(many)) == pytest.approx(widths[1], rel=0.2)
    line = note("gt", summarise(few, can_answer=True, can_draw=True, resamples=2000), 400)
    assert line == (
        f"gt: with 100 of 400 dialogues the interval of VR is {widths[0]:.1f} points wide; "
        f"over all 400 it would be about {widths[0] / 2:.1f}."
    )


def test_no_note_where_there_is_nothing_to_say():
    options = {"can_answer": True, "resamples": 100}
    full = summarise(run(1, 2), can_draw=True, **options)
    assert note("gt", full, 8) is None
    assert note("gt", summarise(run(1, 1), can_draw=True, **options), 400) is None
    alike = [make(f"{s}-{i}", s, 4, 10) for s in SCENARIOS for i in range(3)]
    assert note("gt", summarise(alike, can_draw=True, **options), 400) is None
    assert "interval of DSU is" in note("gt", summarise(run(1, 5), can_draw=False, **options), 400)
    with pytest.raises(SpecError, match="1 or more dialogues, got 0 of 400"):
        beside_full(3.0, 0, 400)
