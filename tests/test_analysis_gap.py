"""The understanding-realization gap against a plain second implementation, and where it must refuse."""

import json
import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import CAPABILITIES, DIMENSIONS, SCENARIOS
from yanami_metric.analysis.gap import PARTS, gap
from yanami_metric.analysis.writing import text
from yanami_metric.tally import Count, DialogueTally

NONE = Count()
FEW = {"resamples": 50}


def make(id_, scenario="editing", *, right=(1, 1), checks=((3, 3, 2), (2, 2, 1))):
    """A tally whose two questions are answered `right` (None: unscored) and whose capability checks are counts."""
    questions, capabilities = [NONE] * 4, [NONE] * 6
    for (capability, dimension), one, count in zip(PARTS.items(), right, checks, strict=True):
        questions[DIMENSIONS.index(dimension)] = Count(1, 0) if one is None else Count(1, 1, float(one))
        capabilities[CAPABILITIES.index(capability)] = Count(*count)
    return DialogueTally(id_, scenario, tuple(questions), (), tuple(capabilities), ())


@st.composite
def models(draw):
    """Two or three models on the same dialogues, anything right, wrong or unscored."""
    dialogues = [(f"d{n}", draw(st.sampled_from(SCENARIOS))) for n in range(draw(st.integers(1, 8)))]
    asked = [[draw(st.integers(0, 3)) for _ in PARTS] for _ in dialogues]

    def one(id_, scenario, numbers):
        counts = []
        for number in numbers:
            scored = draw(st.integers(0, number))
            counts.append((number, scored, float(draw(st.integers(0, scored)))))
        right = [draw(st.sampled_from((1, 1, 1, 0, None))) for _ in PARTS]
        return make(id_, scenario, right=right, checks=counts)

    return {
        name: [one(*dialogue, numbers) for dialogue, numbers in zip(dialogues, asked, strict=True)]
        for name in "abc"[: draw(st.integers(2, 3))]
    }


def understood(models, capability):
    """Tallies by model, a tuple for each dialogue whose question all answer and that has checks."""
    question, checks = DIMENSIONS.index(PARTS[capability]), CAPABILITIES.index(capability)
    return [
        same
        for same in zip(*models.values(), strict=True)
        if all(one.questions[question] == Count(1, 1, 1.0) for one in same) and same[0].capabilities[checks].asked
    ]


def plainly(models, capability):
    """By model the gap once more, straight from the definition; None where nothing is left."""
    failed = {name: [] for name in models}
    for same in understood(models, capability):
        counts = [one.capabilities[CAPABILITIES.index(capability)] for one in same]
        if all(count.scored for count in counts):
            for name, count in zip(models, counts, strict=True):
                failed[name].append(1 - count.gained / count.scored)
    return {name: fmean(shares) if shares else None for name, shares in failed.items()}


@settings(max_examples=150, deadline=None)
@given(models())
def test_equals_the_definition(given_models):
    if not all(understood(given_models, capability) for capability in PARTS):
        with pytest.raises(DataError, match=r"got 0|none scored"):
            gap(given_models, minimum=1)
        return
    found = gap(given_models, minimum=1, **FEW)
    json.dumps(found.values, allow_nan=False)
    assert "nan" not in text(found)
    for capability in PARTS:
        for name, value in plainly(given_models, capability).items():
            entry = found.values["models"][name][capability]
            assert entry["value"] == (None if value is None else pytest.approx(value))
            if value is not None:
                assert 0 <= entry["bounds"][0] <= entry["bounds"][1] <= 1
                assert 0 < entry["coverage"] <= 1
    for entries in found.values["models"].values():
        parts = [entries[capability]["value"] for capability in PARTS]
        overall = None if None in parts else pytest.approx(sum(parts) / 2)
        assert entries["overall"]["value"] == overall
    for pair in found.values["differences"]:
        one, other = (found.values["models"][pair[side]] for side in ("one", "other"))
        for key in (*PARTS, "overall"):
            if one[key]["value"] is not None and other[key]["value"] is not None:
                assert pair[key]["value"] == pytest.approx(one[key]["value"] - other[key]["value"])


def test_the_mean_is_over_dialogues_and_not_over_checks():
    one = make("d1", checks=((1, 1, 0.0), (1, 1, 0.0)))
    other = make("d2", checks=((9, 9, 9.0), (9, 9, 9.0)))
    found = gap({"a": [one, other], "b": [one, other]}, minimum=2, **FEW).values["models"]["a"]
    assert found["overall"]["value"] == 0.5


def test_the_subset_is_spelled_out():
    every = [make(f"{s}-{n}", s) for s in SCENARIOS for n in range(6)]
    unasked = make("unasked", checks=((0, 0, 0.0), (2, 2, 1.0)))
    mine = [*every, unasked, make("mine")]
    theirs = [*every[1:], make(every[0].dialogue, every[0].scenario, right=(0, 1)), unasked, make("theirs")]
    found = gap({"a": mine, "b": theirs}, **FEW).values["subsets"]
    keeping, updating = found["constraint_keeping"], found["correction_updating"]
    assert (keeping["shared"], keeping["asked"], keeping["understood"]) == (25, 24, 23)
    assert keeping["by_scenario"] == {"editing": 6, "fusion": 5, "modeling": 6, "reasoning": 6}
    assert (updating["asked"], updating["understood"]) == (25, 25)


def test_columns_are_those_of_the_paper():
    every = [make(f"d{n}") for n in range(20)]
    table = gap({"a": every, "b": every}, **FEW).tables[0]
    assert table.header[:4] == ("Model", "CK", "CU", "Overall")
    assert table.rows[0][1:4] == (pytest.approx(1 / 3), 0.5, pytest.approx(5 / 12))
    assert table.digits == 4


def test_a_dialogue_that_is_unscored_in_one_model_counts_for_none():
    rng = random.Random(0)
    every = [make(f"d{n}", checks=((4, 4, rng.randint(0, 4)), (2, 2, 1.0))) for n in range(20)]
    lost = [make(one.dialogue, checks=((4, 0, 0.0), (2, 2, 1.0))) if n < 5 else one for n, one in enumerate(every)]
    found = gap({"a": every, "b": lost}, **FEW).values["models"]
    index = CAPABILITIES.index("constraint_keeping")
    expected = fmean(1 - one.capabilities[index].share for one in every[5:])
    for name in "ab":
        assert found[name]["constraint_keeping"]["value"] == pytest.approx(expected)
    assert found["a"]["constraint_keeping"]["bounds"][0] == pytest.approx(
        fmean(1 - one.capabilities[index].share for one in every)
    )
    low, high = found["b"]["constraint_keeping"]["bounds"]
    assert high - low == pytest.approx(5 / 20)
    assert found["b"]["constraint_keeping"]["coverage"] == 60 / 80


def test_equal_models_differ_by_exactly_nothing():
    every = [make(f"{s}-{n}", s, checks=((4, 4, n % 5), (3, 3, n % 4))) for s in SCENARIOS for n in range(8)]
    [pair] = gap({"a": every, "b": every}, resamples=200).values["differences"]
    assert (pair["one"], pair["other"]) == ("a", "b")
    for key in (*PARTS, "overall"):
        assert pair[key]["value"] == pair[key]["low"] == pair[key]["high"] == 0


def test_both_subsets_are_drawn_together():
    """What one part gains in a dialogue the other loses, so the overall has no spread, unless draws are apart."""
    keeping = [make(f"d{n}", checks=((4, 4, n % 5), (4, 4, 4 - n % 5))) for n in range(25)]
    found = gap({"a": keeping, "b": keeping}, resamples=200).values["models"]["a"]
    assert found["overall"]["low"] == pytest.approx(0.5)
    assert found["overall"]["high"] == pytest.approx(0.5)
    assert found["constraint_keeping"]["low"] < 0.45
    # and dialogues that only one part understands are no twins of those that the other does
    apart = [make(f"k{n:02}", checks=((4, 4, n % 5), (0, 0, 0.0))) for n in range(25)]
    apart += [make(f"u{n:02}", checks=((0, 0, 0.0), (4, 4, 4 - n % 5))) for n in range(25)]
    overall = gap({"a": apart, "b": apart}, resamples=200).values["models"]["a"]["overall"]
    assert overall["high"] - overall["low"] > 0.1


@pytest.mark.parametrize("right", [(0, 1), (1, 0), (None, 1)])
def test_too_few_understood_are_refused_with_the_counts(right):
    good, bad = ([make(f"d{n}", right=r) for n in range(30)] for r in ((1, 1), right))
    dimension = "constraint_tracking" if right[0] != 1 else "correction_updating"
    with pytest.raises(DataError, match=dimension) as caught:
        gap({"good": good, "bad": good[:10] + bad[10:]})
    assert "at least 20 dialogues that every model understands, got 10" in str(caught.value)
    assert "30 are shared" in str(caught.value)
    assert "good 30, bad 10" in str(caught.value)
    assert gap({"good": good, "bad": good[:10] + bad[10:]}, minimum=10, **FEW).values["minimum"] == 10


def test_a_model_that_answers_nothing_is_named():
    good, mute = ([make(f"d{n}", right=r) for n in range(30)] for r in ((1, 1), (None, None)))
    with pytest.raises(DataError, match="got none scored of painter: leave out models that can't answer"):
        gap({"good": good, "painter": mute})


def test_no_checks_no_dialogues_and_one_model_are_refused():
    bare = [make(f"d{n}", checks=((0, 0, 0.0), (0, 0, 0.0))) for n in range(30)]
    with pytest.raises(DataError, match="0 of them ask"):
        gap({"a": bare, "b": bare})
    with pytest.raises(DataError, match="0 are shared"):
        gap({"a": bare[:10], "b": bare[10:]})
    with pytest.raises(SpecError, match="two or more runs"):
        gap({"a": bare})
    with pytest.raises(SpecError, match="minimum of 1 or more"):
        gap({"a": bare, "b": bare}, minimum=0)


def test_one_dialogue_has_a_value_and_no_interval():
    found = gap({"a": [make("d")], "b": [make("d")]}, minimum=1, **FEW).values["models"]["a"]["overall"]
    assert found["value"] == pytest.approx(5 / 12)
    assert (found["low"], found["high"]) == (None, None)


def test_all_checks_unscored_give_bounds_only():
    some = [make(f"d{n}", checks=((2, 0, 0.0), (2, 2, 1.0))) for n in range(20)]
    found = gap({"a": some, "b": some}, **FEW).values["models"]["a"]["constraint_keeping"]
    assert found == {"value": None, "low": None, "high": None, "n": 0, "coverage": 0, "bounds": [0, 1]}
