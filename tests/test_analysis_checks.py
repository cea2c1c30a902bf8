"""Capabilities, kinds of checks and how errors go on, against plain second implementations."""

import json
from collections import defaultdict
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yanami_dataset.schema import CAPABILITIES, SCENARIOS
from yanami_metric.analysis.checks import capabilities, errors, kinds
from yanami_metric.analysis.writing import text
from yanami_metric.tally import CheckTally, Count, DialogueTally, ImageTally, total

FEW = {"resamples": 30}
NONE = Count()
OUTCOMES = (1, 0, None)  # passed, failed, unscored


def count(outcome, top=1.0):
    return Count(1, 0) if outcome is None else Count(1, 1, outcome / top)


def make(id_, turns, scenario="editing", kind="atomic"):
    """A tally of generation turns, each a list of (criterion, outcome); turns 0, 2, 4, ... draw."""
    each = [
        CheckTally(f"c{t}-{n}", 2 * t, 0, kind, None, criterion, "", count(outcome))
        for t, checks in enumerate(turns)
        for n, (criterion, outcome) in enumerate(checks)
    ]
    return DialogueTally(id_, scenario, (NONE,) * 4, (), (NONE,) * 6, (), tuple(each))


CHECK = st.tuples(st.sampled_from("abc"), st.sampled_from(OUTCOMES))
TURNS = st.lists(st.lists(CHECK, min_size=1, max_size=3, unique_by=lambda check: check[0]), max_size=4)
DIALOGUES = st.lists(st.tuples(TURNS, st.sampled_from(SCENARIOS)), min_size=1, max_size=6)


def failures(dialogues):
    """By condition the outcomes of checks, plainly."""
    found = defaultdict(list)
    for turns, _ in dialogues:
        for n in range(1, len(turns)):
            former = [outcome for _, outcome in turns[n - 1]]
            for criterion, outcome in turns[n]:
                if outcome is None:
                    continue
                if None not in former:
                    found["after_failure" if 0 in former else "after_success"].append(1 - outcome)
                same = [o for other, o in turns[n - 1] if other == criterion]
                if same and same[0] is not None:
                    found["again_after_success" if same[0] else "again_after_failure"].append(1 - outcome)
    return found


@settings(max_examples=150, deadline=None)
@given(DIALOGUES)
def test_errors_equal_the_definition(dialogues):
    tallies = [make(f"d{n}", *one) for n, one in enumerate(dialogues)]
    finding = errors({"m": {"self": tallies, "gt": tallies}}, **FEW)
    json.dumps(finding.values, allow_nan=False)
    assert "nan" not in text(finding)
    found, plain = finding.values["m"]["self"], failures(dialogues)
    for same in ("", "again_"):
        chances = [
            fmean(plain[f"{same}{key}"]) if plain[f"{same}{key}"] else None
            for key in ("after_failure", "after_success")
        ]
        for key, chance in zip(("after_failure", "after_success"), chances, strict=True):
            entry = found[f"{same}{key}"]
            assert entry["value"] == (None if chance is None else pytest.approx(100 * chance))
            assert entry["n"] == len(plain[f"{same}{key}"])
            if chance is not None:
                assert entry["bounds"][0] - 1e-9 <= entry["value"] <= entry["bounds"][1] + 1e-9
        if None in chances:
            assert found[f"{same}difference"]["value"] is None
            assert found[f"{same}ratio"]["value"] is None
        else:
            assert found[f"{same}difference"]["value"] == pytest.approx(100 * (chances[0] - chances[1]))
            expected = pytest.approx(chances[0] / chances[1]) if chances[1] else None
            assert found[f"{same}ratio"]["value"] == expected
            assert finding.values["m"]["excess"][f"{same}difference"]["value"] == 0


def test_errors_that_go_on_exceed_those_of_hard_dialogues():
    """In gt a hard dialogue fails by itself; in self a failure is passed on to the next turn as well."""
    easy, hard = [[("a", 1)], [("a", 1)], [("a", 1)]], [[("a", 0)], [("a", 1)], [("a", 0)]]
    gt = [make(f"{s}-{n}", hard if n % 2 else easy, s) for s in SCENARIOS for n in range(6)]
    passed_on = [[("a", 0)], [("a", 0)], [("a", 0)]]
    own = [make(f"{s}-{n}", passed_on if n % 2 else easy, s) for s in SCENARIOS for n in range(6)]
    found = errors({"m": {"gt": gt, "self": own, "last": own}}, resamples=200).values["m"]
    # gt: after a failure 12 checks pass; after a success 12 of 36 fail
    assert found["gt"]["after_failure"]["value"] == 0
    assert found["gt"]["after_success"]["value"] == pytest.approx(100 / 3)
    assert found["self"]["difference"]["value"] == 100
    assert found["self"]["ratio"]["value"] is None  # nothing fails after a success: no finite ratio
    assert found["excess"]["difference"]["value"] == pytest.approx(100 + 100 / 3)
    assert found["excess"]["difference"]["low"] > 100
    assert found["last"] == found["self"]


def test_the_ratio_has_an_interval_where_its_divisor_is_never_nothing():
    mixed = [[("a", 0)], [("a", 0), ("b", 0)], [("c", 1)], [("d", 1), ("e", 0)]]
    tallies = [make(f"{s}-{n}", mixed, s) for s in SCENARIOS for n in range(5)]
    ratio = errors({"m": {"self": tallies}}, **FEW).values["m"]["self"]["ratio"]
    # after a failure: a, b fail, c passes; after a success: d passes, e fails
    assert ratio["value"] == ratio["low"] == ratio["high"] == pytest.approx((2 / 3) / (1 / 2))
    assert ratio["n"] == 5 * 20
    assert ratio["bounds"] == pytest.approx([ratio["value"]] * 2)


def test_capability_checks_are_neither_condition_nor_outcome():
    tallies = [make("d", [[("a", 0)], [("a", 0)]], kind="capability")]
    found = errors({"m": {"self": tallies}}, **FEW).values["m"]["self"]
    assert found["after_failure"]["bounds"] == [None, None]


def test_a_criterion_asked_twice_in_a_turn_has_failed_if_either_has():
    tallies = [make("d", [[("a", 0), ("a", 1)], [("a", 0)]])]
    found = errors({"m": {"self": tallies}}, **FEW).values["m"]["self"]
    assert (found["again_after_failure"]["n"], found["again_after_success"]["n"]) == (1, 0)


def test_without_self_or_gt_there_is_no_excess():
    tallies = [make("d", [[("a", 0)], [("a", 0)]])]
    assert "excess" not in errors({"m": {"self": tallies}}, **FEW).values["m"]
    assert errors({"m": {}}, **FEW).values == {"m": {}}


# By capability and kind


def exercised(id_, scenario, images, labelled, own):
    """`images`: (capabilities, passed of 4, quality); `labelled`: (capability, outcome) of atomic checks."""
    pictures = tuple(
        ImageTally(n, 0, Count(4, 4, float(passed)), count(quality, 10), tuple(names))
        for n, (names, passed, quality) in enumerate(images)
    )
    each = tuple(
        CheckTally(f"c{n}", 0, 0, "atomic", capability, "?", "colour" if n % 2 else "", count(outcome))
        for n, (capability, outcome) in enumerate(labelled)
    )
    counts = tuple(total(map(count, own.get(name, ()))) for name in CAPABILITIES)
    return DialogueTally(id_, scenario, (NONE,) * 4, pictures, counts, (), each)


NAMES = st.sampled_from(CAPABILITIES)
EXERCISED = st.lists(
    st.tuples(
        st.sampled_from(SCENARIOS),
        st.lists(st.tuples(st.sets(NAMES, max_size=3), st.integers(0, 4), st.none() | st.integers(0, 10)), max_size=3),
        st.lists(st.tuples(st.none() | NAMES, st.sampled_from(OUTCOMES)), max_size=4),
        st.dictionaries(NAMES, st.lists(st.sampled_from(OUTCOMES), max_size=3), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


def mean_of_shares(groups):
    """The mean over dialogues of the share passed of what is scored, in percent."""
    kept = [[value for value in group if value is not None] for group in groups]
    shares = [fmean(group) for group in kept if group]
    return pytest.approx(100 * fmean(shares)) if shares else None


@settings(max_examples=100, deadline=None)
@given(EXERCISED)
def test_capabilities_equal_the_definition(dialogues):
    tallies = [exercised(f"d{n}", *one) for n, one in enumerate(dialogues)]
    finding = capabilities({"m": {"gt": tallies}}, **FEW)
    json.dumps(finding.values, allow_nan=False)
    assert list(finding.values["m"]["gt"]) == list(CAPABILITIES)
    for name, found in finding.values["m"]["gt"].items():
        groups = {
            "capability_checks": [own.get(name, ()) for *_, own in dialogues],
            "atomic_checks": [[o for capability, o in some if capability == name] for _, _, some, _ in dialogues],
            "sc": [[passed / 4 for names, passed, _ in images if name in names] for _, images, *_ in dialogues],
            "vq": [
                [None if q is None else q / 10 for names, _, q in images if name in names]
                for _, images, *_ in dialogues
            ],
        }
        for key, group in groups.items():
            assert found[key]["value"] == mean_of_shares(group), (name, key)
            asked, scored = sum(map(len, group)), sum(value is not None for one in group for value in one)
            times = 4 if key == "sc" else 1
            assert found[key]["n"] == times * scored
            assert found[key]["coverage"] == (scored / asked if asked else None)


@settings(max_examples=100, deadline=None)
@given(EXERCISED)
def test_kinds_equal_the_definition(dialogues):
    tallies = [exercised(f"d{n}", *one) for n, one in enumerate(dialogues)]
    finding = kinds({"m": {"gt": tallies}}, **FEW)
    json.dumps(finding.values, allow_nan=False)
    found = finding.values["m"]["gt"]
    every = {"atomic": lambda n: True, "probe: colour": lambda n: n % 2 == 1}
    for kind, counts in every.items():
        groups = {
            f"d{d}": (scenario, [o for n, (_, o) in enumerate(some) if counts(n)])
            for d, (scenario, _, some, _) in enumerate(dialogues)
        }
        if not any(group for _, group in groups.values()):
            assert kind not in found
            continue
        assert found[kind]["value"] == mean_of_shares([group for _, group in groups.values()])
        for scenario in {one[0] for one in groups.values()}:
            inside = [group for of, group in groups.values() if of == scenario]
            assert found[kind]["scenarios"][scenario]["value"] == mean_of_shares(inside)
    assert set(found) <= set(every)


def test_tables_and_charts_tell_what_values_do():
    tallies = [exercised("d", "fusion", [({"context_retrieval"}, 3, 8)], [("context_retrieval", 1)], {})] * 1
    finding = capabilities({"m": {"gt": tallies, "self": tallies}}, **FEW)
    [row] = [r for r in finding.tables[0].rows if r[:3] == ("m", "self", "context_retrieval")]
    assert row[3:] == (None, None, 0, 100.0, 75.0, 80.0, "100 %")
    assert [one.label for one in finding.charts[0].series] == ["m, gt", "m, self"]
    assert finding.charts[0].series[0].y[CAPABILITIES.index("context_retrieval")] == 75.0
    table = kinds({"m": {"gt": tallies}}, **FEW).tables[0]
    assert table.header == ("Model", "History", "Kind", "Passed", "95 %", "n", "Coverage", "fusion")
    assert table.rows == (("m", "gt", "atomic", 100.0, None, 1, "100 %", 100.0),)


def test_nothing_asked_or_nothing_scored_gives_no_numbers():
    empty = [DialogueTally("d", "fusion", (NONE,) * 4, (), (NONE,) * 6, ())]
    unscored = [exercised("d", "fusion", [], [("context_retrieval", None)], {"context_retrieval": [None]})]
    assert kinds({"m": {"gt": empty}}, **FEW).values == {"m": {"gt": {}}}
    found = capabilities({"m": {"gt": unscored}}, **FEW).values["m"]["gt"]["context_retrieval"]["atomic_checks"]
    assert found == {"value": None, "low": None, "high": None, "n": 0, "coverage": 0, "bounds": [0, 100]}
    for tallies in (empty, unscored, []):
        for find in (capabilities, kinds, errors):
            json.dumps(find({"m": {"gt": tallies, "self": tallies}}, **FEW).values, allow_nan=False)
