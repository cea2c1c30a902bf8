"""Counting and scoring against a plain second implementation, and what must hold whatever is scored."""

import json
import random
import time
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS, Check, Dialogue, Message, Part, Question, Turn, validate
from yanami_metric.records import COUNTS_AS_WRONG, STATUSES, quality_id
from yanami_metric.score import SC_MEANS, ItemResult, Weights, overall, summarise, tally

BOTH = {"can_answer": True, "can_draw": True}
UNSCORED = [status for status in STATUSES if status not in ("scored", *COUNTS_AS_WRONG)]
UNDEFINED = {"value": None, "low": None, "high": None, "n": 0, "coverage": None, "bounds": [None, None]}


def make(id_, scenario="editing", images=(2, 3), questions=(1, 1, 1, 1), capability=1):
    """A dialogue with one image per turn, so many atomic checks on each, and so many questions per dimension."""
    messages = [
        message
        for _ in images
        for message in (Message("user", (Part("text", "Draw."),)), Message("assistant", (Part("image"),)))
    ]
    checks = [Check(f"c{t}-{n}", t, 0, "?") for t, number in enumerate(images) for n in range(number)]
    checks += [Check(f"k{n}", 0, 0, "?", "capability", "constraint_keeping") for n in range(capability)]
    asked = [
        Question(f"q-{d}-{n}", d, 0, "?", "a") for d, k in zip(DIMENSIONS, questions, strict=True) for n in range(k)
    ]
    turns = tuple(Turn() for _ in images)
    return Dialogue(id_, scenario, tuple(messages), turns, questions=tuple(asked), checks=tuple(checks))


def items(dialogue):
    return (
        [("answer", question.id) for question in dialogue.questions]
        + [("checks", check.id) for check in dialogue.checks]
        + [("quality", quality_id(slot)) for slot in dialogue.slots]
    )


def answered(dialogue, rng, share=0.6):
    """Every item scored, at random."""
    return {
        key: ItemResult("scored", rng.randint(0, 10) if key[0] == "quality" else int(rng.random() < share))
        for key in items(dialogue)
    }


def bench(number=3, seed=0, **shape):
    rng = random.Random(seed)
    dialogues = [make(f"{s}-{i}", s, **shape) for s in SCENARIOS for i in range(number)]
    return [(dialogue, answered(dialogue, rng)) for dialogue in dialogues]


def score(rows, **options):
    options = {**BOTH, "resamples": 50, **options}
    result = summarise([tally(dialogue, results) for dialogue, results in rows], **options)
    json.dumps(result, allow_nan=False)
    return result


def estimates(node):
    """Every Estimate in a result, with its path."""
    if isinstance(node, dict):
        if "bounds" in node:
            yield (), node
            return
        for key, child in node.items():
            yield from (((key, *path), estimate) for path, estimate in estimates(child))


def plainly(rows, sc_mean="dialogue"):
    """Overall once more, straight from the definition, for data in which everything is scored."""
    scores = []
    for scenario in SCENARIOS:
        group = [(dialogue, results) for dialogue, results in rows if dialogue.scenario == scenario]
        dsu = fmean(
            fmean(r["answer", q.id].value for d, r in group for q in d.questions if q.dimension == dimension)
            for dimension in DIMENSIONS
        )
        by_image = [
            [[r["checks", c.id].value for c in d.checks_of(slot) if c.kind == "atomic"] for slot in d.slots]
            for d, r in group
        ]
        sc = {
            "dialogue": fmean(fmean(v for image in images for v in image) for images in by_image),
            "image": fmean(fmean(image) for images in by_image for image in images),
            "check": fmean(v for images in by_image for image in images for v in image),
        }[sc_mean]
        vq = fmean(fmean(r["quality", quality_id(slot)].value / 10 for slot in d.slots) for d, r in group)
        scores.append(100 * (0.40 * dsu + 0.36 * sc + 0.24 * vq))
    return fmean(scores)


@pytest.mark.parametrize("sc_mean", SC_MEANS)
def test_equals_the_definition(sc_mean):
    rows = bench(4)
    validate(rows[0][0])
    result = score(rows, sc_mean=sc_mean)
    assert result["overall"]["value"] == pytest.approx(plainly(rows, sc_mean))
    assert result["sc_mean"] == sc_mean
    assert result["overall"]["coverage"] == 1
    assert result["overall"]["bounds"] == pytest.approx([result["overall"]["value"]] * 2)


def test_every_scenario_composes_as_the_formula_says():
    for entry in score(bench())["scenarios"].values():
        parts = {name: entry[name]["value"] for name in ("dsu", "sc", "vq")}
        assert entry["overall"]["value"] == pytest.approx(overall(**parts))
        assert entry["vr"]["value"] == pytest.approx(overall(None, parts["sc"], parts["vq"]))
        assert entry["dsu"]["value"] == pytest.approx(fmean(e["value"] for e in entry["dimensions"].values()))
        assert entry["dialogues"] == 3


def test_items_are_counted_in_the_scores_they_belong_to():
    entry = score(bench(3))["scenarios"]["fusion"]
    assert {name: entry[name]["n"] for name in ("dsu", "sc", "vq", "vr", "overall")} == {
        "dsu": 12,
        "sc": 15,
        "vq": 6,
        "vr": 21,
        "overall": 33,
    }


def test_capability_checks_are_in_no_score():
    rows = bench()
    flipped = [
        (dialogue, {key: ItemResult("scored", 0) if key[1].startswith("k") else r for key, r in results.items()})
        for dialogue, results in rows
    ]
    before, after = score(rows), score(flipped)
    assert before["overall"] == after["overall"]
    assert after["capability_checks"]["constraint_keeping"] == {"asked": 12, "scored": 12, "passed": 0}
    assert before["capability_checks"]["constraint_keeping"]["passed"] > 0


hidden = st.tuples(st.integers(0, 2**32), st.floats(0, 1), st.sampled_from(SC_MEANS))


@settings(max_examples=60, deadline=None)
@given(hidden)
def test_hiding_verdicts_never_puts_the_truth_outside_the_bounds(draw):
    seed, share, sc_mean = draw
    rng = random.Random(seed)
    rows = bench(2, seed)
    partly = [
        (dialogue, {key: r if rng.random() > share else ItemResult(rng.choice(UNSCORED)) for key, r in results.items()})
        for dialogue, results in rows
    ]
    truth = dict(estimates(score(rows, sc_mean=sc_mean, resamples=0)))
    for path, estimate in estimates(score(partly, sc_mean=sc_mean, resamples=0)):
        low, high = estimate["bounds"]
        assert low - 1e-9 <= truth[path]["value"] <= high + 1e-9, path
        if estimate["value"] is not None:
            assert low - 1e-9 <= estimate["value"] <= high + 1e-9, path


@settings(max_examples=30, deadline=None)
@given(hidden)
def test_bounds_are_the_values_with_all_unscored_wrong_or_right(draw):
    seed, share, sc_mean = draw
    rng = random.Random(seed)
    rows = [
        (dialogue, {key: result for key, result in results.items() if rng.random() > share})
        for dialogue, results in bench(2, seed)
    ]

    def filled(right):
        value = {"answer": right, "checks": right, "quality": 10 * right}
        full = [
            (dialogue, {key: results.get(key, ItemResult("scored", value[key[0]])) for key in items(dialogue)})
            for dialogue, results in rows
        ]
        return dict(estimates(score(full, sc_mean=sc_mean, resamples=0)))

    lowest, highest = filled(0), filled(1)
    for path, estimate in estimates(score(rows, sc_mean=sc_mean, resamples=0)):
        assert estimate["bounds"] == pytest.approx([lowest[path]["value"], highest[path]["value"]]), path


def test_what_never_got_a_verdict_counts_as_asked():
    dialogue, results = bench(1)[0]
    results = {key: result for key, result in results.items() if key[0] != "quality"}
    entry = score([(dialogue, results)])
    assert entry["statuses"]["quality"] == {"not_judged": 2}
    assert entry["scenarios"]["fusion"]["vq"] == {**UNDEFINED, "coverage": 0.0, "bounds": [0, 100]}


def test_faults_make_overall_null_but_leave_its_bounds():
    rows = [
        (dialogue, {k: ItemResult("transport_error") if k[0] == "answer" else r for k, r in results.items()})
        for dialogue, results in bench()
    ]
    result = score(rows)
    assert result["overall"]["value"] is result["overall"]["low"] is result["dsu"]["value"] is None
    assert result["overall"]["bounds"][0] == pytest.approx(0.6 * result["vr"]["value"])
    assert result["overall"]["bounds"][1] == pytest.approx(40 + 0.6 * result["vr"]["value"])
    assert result["vr"]["value"] is not None
    # the same verdicts of a model that can't answer: the formula changes by caps, not by outcome
    mute = score(rows, can_answer=False)
    assert mute["overall"] == mute["vr"] == result["vr"]
    assert (mute["formula"], result["formula"]) == ("0.6 SC + 0.4 VQ", "0.4 DSU + 0.36 SC + 0.24 VQ")
    assert mute["dsu"] == UNDEFINED
    assert list(mute["statuses"]) == ["checks", "quality"]


def test_one_dimension_without_a_verdict_makes_dsu_null():
    rows = [
        (dialogue, {key: r for key, r in results.items() if "correction" not in key[1]})
        for dialogue, results in bench()
    ]
    entry = score(rows)["scenarios"]["modeling"]
    assert entry["dsu"]["value"] is None
    assert entry["dsu"]["coverage"] == 0.75
    assert entry["dsu"]["bounds"][1] - entry["dsu"]["bounds"][0] == pytest.approx(25)
    assert entry["overall"]["value"] is None


def test_a_model_that_cannot_draw_has_dsu_only():
    result = score(bench(), can_draw=False)
    assert result["dsu"]["value"] is not None
    assert result["overall"] == result["vr"] == result["sc"] == result["vq"] == UNDEFINED
    assert list(result["statuses"]) == ["answer"]


@pytest.mark.parametrize("questions", [(0, 0, 0, 0), (1, 1, 1, 0)])
def test_data_without_questions_has_no_overall(questions):
    result = score(bench(questions=questions))
    assert result["dsu"] == result["overall"] == UNDEFINED
    assert result["vr"]["value"] is not None
    assert score(bench(questions=questions), can_answer=False)["overall"]["value"] is not None


def test_data_without_checks_has_no_overall():
    result = score(bench(images=(0, 0), capability=0))
    assert result["sc"] == result["vr"] == result["overall"] == UNDEFINED
    assert result["vq"]["value"] is not None
    assert result["dsu"]["value"] is not None


def test_images_without_checks_of_their_own_do_not_count_for_sc():
    rows = bench(images=(2, 0))
    assert score(rows, sc_mean="image")["sc"]["value"] == pytest.approx(score(rows)["sc"]["value"])


def test_fewer_scenarios_have_no_overall():
    rows = [(dialogue, results) for dialogue, results in bench() if dialogue.scenario != "fusion"]
    result = score(rows)
    assert result["overall"] == result["vr"] == UNDEFINED
    assert sorted(result["scenarios"]) == ["editing", "modeling", "reasoning"]
    assert result["scenarios"]["editing"] == score(bench())["scenarios"]["editing"]


def test_nothing_at_all():
    result = score([])
    assert result["overall"] == UNDEFINED
    assert result["scenarios"] == {}
    assert result["dialogues"] == 0


@pytest.mark.parametrize("status", UNSCORED)
def test_all_failed_is_null_and_not_zero(status):
    rows = [(dialogue, {key: ItemResult(status) for key in items(dialogue)}) for dialogue, _ in bench()]
    for path, estimate in estimates(score(rows)):
        assert estimate == {**UNDEFINED, "coverage": 0.0, "bounds": [0.0, 100.0]}, path


def test_a_model_that_gave_nothing_has_zero_with_full_coverage():
    rows = [(dialogue, {key: ItemResult("missing_output", 0) for key in items(dialogue)}) for dialogue, _ in bench()]
    result = score(rows)
    assert (result["overall"]["value"], result["overall"]["coverage"]) == (0, 1)
    assert result["without_refusals"] == {"overall": result["overall"], "vr": result["vr"], "n_refused": 0}


def test_refusals_count_as_wrong_and_are_shown_apart():
    rows = bench(4)
    refused = [
        (
            dialogue,
            {k: ItemResult("model_refused", 0) if "t0" in k[1] or "c0" in k[1] else r for k, r in results.items()},
        )
        for dialogue, results in rows
    ]
    without = [
        (dialogue, {k: r for k, r in results.items() if "t0" not in k[1] and "c0" not in k[1]})
        for dialogue, results in rows
    ]
    result, reference = score(refused), score(without)
    assert result["without_refusals"]["n_refused"] == 16 * 3
    assert result["without_refusals"]["overall"]["value"] == pytest.approx(reference["overall"]["value"])
    assert result["without_refusals"]["overall"]["coverage"] == 1
    assert result["overall"]["value"] < result["without_refusals"]["overall"]["value"]
    assert result["statuses"]["quality"] == {"scored": 16, "model_refused": 16}


def test_a_model_that_refused_everything_has_no_score_without_refusals():
    rows = [(dialogue, {key: ItemResult("model_refused") for key in items(dialogue)}) for dialogue, _ in bench()]
    result = score(rows)
    assert result["overall"]["value"] == 0
    assert result["without_refusals"]["overall"] == UNDEFINED


def test_neither_order_nor_shards_change_a_digit():
    tallies = [tally(dialogue, results) for dialogue, results in bench(5)]
    whole = summarise(tallies, **BOTH, resamples=100)
    shuffled = random.Random(1).sample(tallies, len(tallies))
    assert summarise(tallies[1::3] + tallies[::3] + tallies[2::3], **BOTH, resamples=100) == whole
    assert summarise(iter(shuffled), **BOTH, resamples=100) == whole
    assert summarise(tallies, **BOTH, resamples=100, seed=1)["overall"]["low"] != whole["overall"]["low"]


def test_intervals_hold_the_value_and_narrow_with_data():
    few, many = score(bench(5), resamples=500), score(bench(60), resamples=500)
    for result in (few, many):
        assert result["overall"]["low"] < result["overall"]["value"] < result["overall"]["high"]
    width = [result["overall"]["high"] - result["overall"]["low"] for result in (few, many)]
    assert width[1] < width[0] / 2


def test_one_dialogue_per_scenario_has_no_interval():
    result = score(bench(1))
    assert result["overall"]["value"] is not None
    assert result["overall"]["low"] is result["overall"]["high"] is None


def test_weights_are_applied_and_written_down():
    result = score(bench(), weights=Weights(dsu=0, sc=1, vq=0))
    assert result["overall"]["value"] == pytest.approx(result["sc"]["value"])
    assert result["weights"] == {"dsu": 0, "sc": 1, "vq": 0}


@pytest.mark.parametrize(
    "wrong", [{"dsu": 1.4}, {"dsu": float("nan")}, {"sc": 0.6, "vq": 0.6}, {"sc": -0.1, "vq": 1.1}]
)
def test_weights_that_make_no_sense(wrong):
    with pytest.raises(SpecError, match="weights"):
        Weights(**wrong)


def test_scores_out_of_range_are_refused():
    with pytest.raises(SpecError, match=r"sc: expected a score from 0 to 100, got 100\.5"):
        overall(None, 100.5, 1)


@pytest.mark.parametrize(
    ("key", "result", "message"),
    [
        (("quality", "t0-s0"), ItemResult("scored", 11), "0 to 10 for a scored item, got 11"),
        (("quality", "t0-s0"), ItemResult("scored", float("nan")), "0 to 10 for a scored item, got nan"),
        (("checks", "c0-0"), ItemResult("scored", 0.5), "expected 0 or 1 for a scored item, got 0.5"),
        (("checks", "c0-0"), ItemResult("scored"), "expected 0 or 1 for a scored item, got None"),
        (("checks", "c0-0"), ItemResult("passed", 1), "got 'passed'"),
        (("checks", "c9-9"), ItemResult("scored", 1), "another revision of the data"),
    ],
)
def test_results_that_cannot_be_counted(key, result, message):
    with pytest.raises(DataError, match=r"dialogue 'd1'.*") as error:
        tally(make("d1"), {key: result})
    assert message in str(error.value)


def test_a_dialogue_counts_once():
    one = tally(make("d1"), {})
    with pytest.raises(DataError, match="'d1': expected one tally per dialogue"):
        summarise([one, one], **BOTH)


def test_unknown_mean_or_scenario():
    with pytest.raises(SpecError, match="sc_mean: expected one of dialogue, image, check, got 'turn'"):
        summarise([], **BOTH, sc_mean="turn")
    with pytest.raises(DataError, match="expected a scenario of fusion"):
        summarise([tally(make("d1", "poetry"), {})], **BOTH)


def test_fast_enough_for_a_full_bench():
    rows = bench(100, images=(5, 5, 5, 5, 5))
    started = time.perf_counter()
    for _ in range(4):
        summarise([tally(dialogue, results) for dialogue, results in rows], **BOTH)
    assert time.perf_counter() - started < 3  # takes about 0.5 s where nothing else runs
