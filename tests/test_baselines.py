"""What the default mini bench says of the baselines: the oracle is perfect, doing nothing pays less and less."""

from __future__ import annotations

import pytest

from yanami_dataset.schema import SCENARIOS
from yanami_metric.api import evaluate, score
from yanami_metric.data import Selection, open_data
from yanami_metric.records import HISTORIES


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The three baselines over the whole default bench, all histories."""
    out = tmp_path_factory.mktemp("runs")
    names = ("reference", "copy-last", "blank")
    return {n: evaluate("mini", f"baseline:{n}", history=HISTORIES, out=out / n) for n in names}


def value(runs, name, history, score, scenario=None):
    entry = runs[name].scores[0]["histories"][history]
    return (entry["scenarios"][scenario] if scenario else entry)[score]["value"]


def test_the_reference_is_perfect_everywhere(runs):
    for history in HISTORIES:
        for scenario in (None, *SCENARIOS):
            for name in ("overall", "vr", "dsu", "sc", "vq"):
                assert value(runs, "reference", history, name, scenario) == 100, (history, scenario, name)


def test_copying_pays_less_under_its_own_history_in_each_scenario(runs):
    for scenario in (None, *SCENARIOS):
        gt, own = (value(runs, "copy-last", history, "overall", scenario) for history in ("gt", "self"))
        assert own < gt < 100, scenario


def test_a_blank_earns_nothing_and_less_than_copying(runs):
    for history in HISTORIES:
        assert value(runs, "blank", history, "vq") == 0
        assert value(runs, "blank", history, "sc") <= 2
    for history in ("gt", "self"):
        assert value(runs, "blank", history, "overall") < value(runs, "copy-last", history, "overall")


def test_order_and_shards_change_no_score(runs, tmp_path):
    data = open_data("mini", Selection(limit=16))
    whole = evaluate(data, "baseline:copy-last", history="self", out=tmp_path / "whole").scores[0]
    turned = evaluate(list(data)[::-1], "baseline:copy-last", history="self", out=tmp_path / "turned").scores[0]
    assert turned["histories"] == whole["histories"]
    parts = [
        evaluate(
            "mini",
            "baseline:copy-last",
            history="self",
            selection=Selection(limit=16, shard=(i, 3)),
            out=tmp_path / f"{i}",
        )
        for i in range(3)
    ]
    counts = [part.scores[0]["histories"]["self"]["statuses"] for part in parts]
    total = {kind: sum(count[kind]["scored"] for count in counts) for kind in ("answer", "checks", "quality")}
    assert total == {kind: count["scored"] for kind, count in whole["histories"]["self"]["statuses"].items()}
    lines = {
        (line.split('"key": "')[1][:64], line.split('"sha256": "')[-1][:64])
        for part in parts
        for line in (part.run.path / "outputs/self/outputs.jsonl").read_text().splitlines()
    }
    assert lines == {
        (line.split('"key": "')[1][:64], line.split('"sha256": "')[-1][:64])
        for line in (tmp_path / "whole/outputs/self/outputs.jsonl").read_text().splitlines()
    }


def test_a_smaller_sample_lies_inside_a_larger_and_is_even_over_scenarios():
    data = open_data("mini")
    small, large = (open_data(data, Selection(limit=n)) for n in (8, 20))
    assert {d.id for d in small} < {d.id for d in large}
    assert sorted(d.scenario for d in small) == sorted(SCENARIOS * 2)
    other = open_data(data, Selection(limit=8, seed=1))
    assert {d.id for d in other} != {d.id for d in small}


def test_scores_may_be_weighted_and_averaged_otherwise(runs):
    run = runs["copy-last"].run
    before = (run.path / "scores.json").read_bytes()
    by_check = score(run, sc_mean="check", resamples=0)["histories"]["gt"]["sc"]["value"]
    assert by_check != value(runs, "copy-last", "gt", "sc")
    (run.path / "scores.json").write_bytes(before)
