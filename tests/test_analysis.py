"""The analyses against plain second implementations, and at the edges."""

import json
import random
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from typer.testing import CliRunner

from tests.test_score import answered, bench, make
from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS, Check
from yanami_metric import api
from yanami_metric.analysis.checks import capabilities, errors, kinds
from yanami_metric.analysis.gap import gap
from yanami_metric.analysis.modes import differences
from yanami_metric.analysis.turns import by_turn, first_last
from yanami_metric.analysis.writing import comma_separated, text
from yanami_metric.cli import app
from yanami_metric.data import Selection
from yanami_metric.paired import Side, compare
from yanami_metric.score import Basis, ItemResult
from yanami_metric.statistics import holm
from yanami_metric.tally import tally

BOTH = Basis(can_answer=True, can_draw=True)
FEW = {"resamples": 50}


def tallies(number=6, seed=0, images=(2, 3)):
    return [tally(dialogue, results) for dialogue, results in bench(number, seed, images=images)]


def realized(image):
    return 0.6 * image.checks.share + 0.4 * image.quality.share


def estimates(node):
    if isinstance(node, dict):
        if "bounds" in node:
            yield node
        for child in node.values():
            yield from estimates(child)
    elif isinstance(node, list):
        for child in node:
            yield from estimates(child)


def test_first_and_last_turn_are_means_over_dialogues():
    some = tallies()
    found = first_last({"m": some}, **FEW).values["m"]
    first, last = fmean(realized(one.images[0]) for one in some), fmean(realized(one.images[-1]) for one in some)
    assert found["first"]["value"] == pytest.approx(first)
    assert found["delta"]["value"] == pytest.approx(last - first)
    assert found["dialogues"] == len(some)


def test_a_dialogue_with_one_generation_turn_has_no_first_and_last():
    found = first_last({"m": tallies(images=(2,))}, **FEW).values["m"]
    assert (found["dialogues"], found["delta"]["value"]) == (0, None)


def test_an_unscored_first_turn_leaves_the_dialogue_out_of_both_means():
    rows = bench(3)
    for dialogue, results in rows[::2]:
        results["quality", "t0-s0"] = ItemResult("transport_error")
        assert dialogue.slots
    kept = [tally(*row) for row in rows[1::2]]
    found = first_last({"m": [tally(*row) for row in rows]}, **FEW).values["m"]
    assert found["last"]["value"] == pytest.approx(fmean(realized(one.images[-1]) for one in kept))
    assert found["first"]["coverage"] < 1
    assert found["first"]["bounds"][0] <= found["first"]["value"] <= found["first"]["bounds"][1]


def test_turns_that_few_dialogues_reach_are_pooled():
    long = make("long", "fusion", images=(1,) * 6)
    some = [*tallies(2, images=(1, 1)), tally(long, answered(long, random.Random(1)))]
    points = by_turn({"m": some}, **FEW).values["m"]["generation"]
    assert [point["turns"] for point in points] == [[1, 1], [2, 2], [3, 6]]
    assert [point["dialogues"] for point in points] == [9, 9, 1]
    assert points[0]["vr"]["value"] == pytest.approx(100 * fmean(realized(one.images[0]) for one in some))


def test_a_mode_without_itself_is_nothing():
    some = tallies()
    found = differences({"m": {"gt": some, "self": some}}, {"m": BOTH}, "drop", **FEW).values["m"]
    assert all(one["value"] == one["low"] == one["high"] == 0 for one in estimates(found))


def test_the_drop_is_the_difference_of_the_scores():
    gt, own = tallies(seed=1), tallies(seed=2)
    found = differences({"m": {"gt": gt, "self": own}}, {"m": BOTH}, "drop", **FEW).values["m"]

    def sc(some):
        return fmean(100 * fmean(one.checks.share for one in some if one.scenario == s) for s in SCENARIOS)

    assert found["sc"]["value"] == pytest.approx(sc(gt) - sc(own))
    with pytest.raises(DataError, match="under both self and last"):
        differences({"m": {"gt": gt, "self": own}}, {"m": BOTH}, "adds")


def test_the_gap_is_over_what_all_understand():
    rows = {name: bench(8, seed=seed, capability=3) for seed, name in enumerate("ab")}
    for name, some in rows.items():
        for number, (dialogue, results) in enumerate(some):
            for question in dialogue.questions:
                results["answer", question.id] = ItemResult("scored", int(not (name == "a" and number % 4 == 0)))
            more = [Check(f"u{n}", 0, 0, "?", "capability", "correction_updating") for n in range(2)]
            object.__setattr__(dialogue, "checks", (*dialogue.checks, *more))
            results |= {("checks", check.id): ItemResult("scored", n % 2) for n, check in enumerate(more)}
    models = {name: [tally(*row) for row in some] for name, some in rows.items()}
    found = gap(models, minimum=20, **FEW)
    kept = [one for number, one in enumerate(models["b"]) if number % 4]
    assert found.values["subsets"]["constraint_keeping"]["understood"] == len(kept) == 24
    assert found.values["models"]["b"]["correction_updating"]["value"] == 0.5
    keeping = fmean(1 - one.capabilities[4].share for one in kept)
    assert found.values["models"]["b"]["constraint_keeping"]["value"] == pytest.approx(keeping)
    assert found.values["models"]["b"]["overall"]["value"] == pytest.approx((keeping + 0.5) / 2)
    with pytest.raises(DataError, match="at least 25 dialogues that every model understands, got 24"):
        gap(models, minimum=25)
    with pytest.raises(SpecError, match="two or more"):
        gap({"b": models["b"]})


def test_errors_are_counted_by_the_turn_before():
    some = tallies()
    found = errors({"m": {"self": some, "gt": some}}, **FEW).values["m"]
    after = {True: [], False: []}
    for one in some:
        first, second = ([c for c in one.each if c.kind == "atomic" and c.turn == turn] for turn in (0, 1))
        after[any(not c.count.gained for c in first)] += [1 - c.count.gained for c in second]
    assert found["self"]["after_failure"]["value"] == pytest.approx(100 * fmean(after[True]))
    assert found["self"]["after_success"]["value"] == pytest.approx(100 * fmean(after[False]))
    assert found["excess"]["difference"]["value"] == 0


def test_checks_by_kind_and_capability():
    some = tallies()
    by_kind = kinds({"m": {"gt": some}}, **FEW).values["m"]["gt"]
    assert by_kind["atomic"]["value"] == pytest.approx(100 * fmean(one.checks.share for one in some))
    by_capability = capabilities({"m": {"gt": some}}, **FEW).values["m"]["gt"]
    assert by_capability["constraint_keeping"]["capability_checks"]["value"] == by_kind["capability"]["value"]
    assert by_capability["context_retrieval"]["capability_checks"]["bounds"] == [None, None]


def test_runs_are_compared_on_what_they_share():
    a, b = tallies(8, seed=1), tallies(8, seed=2)
    found = compare({"a": Side(a, BOTH), "b": Side(b[3:], BOTH)}, resamples=50, permutations=50)
    assert (found["dialogues"], found["left_out"]) == (29, {"a": 3, "b": 0})
    same = compare({"a": Side(a, BOTH), "b": Side(a, BOTH)}, resamples=50, permutations=50)
    assert all(one["difference"]["value"] == 0 and one["p"] == 1 for one in same["pairs"])
    mute = compare({"a": Side(a, BOTH), "b": Side(b, Basis(False, True))}, resamples=50, permutations=50)
    assert "overall" not in {one["score"] for one in mute["pairs"]}
    assert len(mute["ranks"]["overall"]) == 2
    json.dumps(mute, allow_nan=False)
    with pytest.raises(DataError, match="share dialogues"):
        compare({"a": Side(a[:3], BOTH), "b": Side(b[3:], BOTH)})


def test_the_permutation_test_agrees_with_scipy():
    a, b = tallies(30, seed=3), tallies(30, seed=4)

    found = compare({"a": Side(a, BOTH), "b": Side(b, BOTH)}, resamples=100, permutations=4000)
    [one] = [p for p in found["pairs"] if p["score"] == "sc" and p["scenario"] == "editing"]
    x, y = (np.array([t.checks.share for t in side if t.scenario == "editing"]) for side in (a, b))
    peer = stats.permutation_test(
        (x, y), lambda x, y, axis: np.mean(x, axis) - np.mean(y, axis), permutation_type="samples", vectorized=True,
        n_resamples=4000, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert one["difference"]["value"] == pytest.approx(100 * peer.statistic)
    assert one["p"] == pytest.approx(peer.pvalue, abs=0.03)


def test_holms_correction():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([None, 0.8, 0.7]) == [None, 1.0, 1.0]


def test_one_dialogue_and_no_verdicts_give_no_numbers():
    dialogue = make("d", "fusion")
    for results in ({}, answered(dialogue, random.Random(0))):
        one = {"m": {"gt": [tally(dialogue, results)], "self": [tally(dialogue, results)]}}
        plain = {"m": one["m"]["gt"]}
        findings = [first_last(plain, **FEW), by_turn(plain, **FEW), capabilities(one, **FEW), kinds(one, **FEW)]
        findings += [errors(one, **FEW), differences(one, {"m": BOTH}, "drop", **FEW)]
        for finding in findings:
            json.dumps(finding.values, allow_nan=False)
            assert all(found["low"] is None for found in estimates(finding.values))
            assert "| nan" not in text(finding)
            assert "None" not in text(finding)
    assert len(DIMENSIONS) == 4


def test_the_command_writes_a_table_a_figure_and_json(tmp_path: Path):
    run = api.rollout(
        "mini", "baseline:copy-last", history=("gt", "self"), selection=Selection(limit=8), out=tmp_path / "r"
    )
    api.judge(run)
    done = CliRunner().invoke(app, ["analyze", "drop", str(run.path), "--resamples", "50"])
    assert done.exit_code == 0, done.output
    assert "not YANAMI-Bench scores" in done.output
    folder = run.path / "analysis"
    values = json.loads((folder / "drop.json").read_text())["values"]
    assert values["r"]["vr"]["value"] > 0
    assert (folder / "drop.csv").read_text().startswith("Model,Scenario,Overall")
    with Image.open(folder / "drop.png") as picture:
        assert picture.size[0] > 600
    for name in ("first-last", "turns", "capabilities", "checks", "errors", "all"):
        assert CliRunner().invoke(app, ["analyze", name, str(run.path), "--quiet", "--resamples", "20"]).exit_code == 0
    assert "table" not in comma_separated(first_last({"=1+1": tallies()}, **FEW).tables[0]).splitlines()[1]
    assert comma_separated(first_last({"=1+1": tallies()}, **FEW).tables[0]).splitlines()[1].startswith("'=1+1")
