"""Agreement with people: the numbers against scipy and by hand, the sheet, and a whole study from run folders."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support import ScriptedJudge, ScriptedModel, dialogue
from yanami_dataset.builder import write_dataset
from yanami_dataset.errors import DataError, RunFolderError, SourceError, SpecError
from yanami_dataset.schema import SCENARIOS, Check
from yanami_metric import agreeing, study
from yanami_metric.agreement import Instance, Rating, measure
from yanami_metric.api import judge, rollout
from yanami_metric.cli.agreement import app
from yanami_metric.coefficients import (
    SCORES,
    VERDICTS,
    Draws,
    Pair,
    agreement,
    estimates,
    found,
    kappa,
    kendall,
    pearson,
    spearman,
)
from yanami_metric.ratings import COLUMNS, Row, as_meant, harmless, read_ratings, sheet
from yanami_metric.records import JudgeCall, Output
from yanami_metric.runs import Run

FEW = settings(max_examples=40, deadline=None)
VALUES = st.sampled_from([0.0, 1.0, 2.5, 7.0, 10.0])
PAIRED = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12)
SCIPY = {
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: scipy.stats.kendalltau(x, y).statistic,
}


def pairs_of(values, per_dialogue=2) -> list[Pair]:
    """Pairs in dialogues of some pairs each, in two scenarios."""
    return [Pair(f"d{i // per_dialogue}", SCENARIOS[i // per_dialogue % 2], x, y) for i, (x, y) in enumerate(values)]


# Coefficients


def test_kappa_of_a_table_worked_by_hand():
    # 20 both pass, 5 and 10 disagree, 15 both fail: 0.7 observed; by chance 25/50 * 30/50 + 25/50 * 20/50 = 0.5
    table = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    x, y = zip(*table, strict=True)
    assert kappa(x, y) == pytest.approx((0.7 - 0.5) / (1 - 0.5)) == 0.4
    assert agreement(x, y) == pytest.approx(0.7)
    # 45, 15, 25, 15 of 100: 0.6 observed; by chance 0.6 * 0.7 + 0.4 * 0.3 = 0.54
    table = [(1, 1)] * 45 + [(1, 0)] * 15 + [(0, 1)] * 25 + [(0, 0)] * 15
    assert kappa(*zip(*table, strict=True)) == pytest.approx(0.06 / 0.46)
    assert kappa([1, 1, 0], [1, 1, 1]) == 0  # one always says the same: no better than chance
    assert kappa([1, 0], [0, 1]) == -1


def test_correlations_worked_by_hand():
    assert pearson([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 5)
    assert spearman([1, 2, 3, 4], [10, 30, 20, 400]) == pytest.approx(4 / 5)
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx((5 - 1) / 6)
    # one tie in y: (5 - 0) / sqrt(6 * 5)
    assert kendall([1, 2, 3, 4], [1, 2, 2, 4]) == pytest.approx(5 / np.sqrt(30))


@pytest.mark.parametrize("x", [[], [1.0], [2.0, 2.0, 2.0]])
def test_what_is_not_defined_is_none(x):
    y = list(range(len(x)))
    for coefficient in (pearson, spearman, kendall):
        assert coefficient(x, y) is None and coefficient(y, x) is None
    assert kappa(x, x) is None
    assert (agreement(x, x) is None) is (not x)


@FEW
@given(PAIRED, st.integers(0, 3))
def test_every_resample_is_what_scipy_gives_for_it(values, seed):
    pairs = pairs_of(values)
    draws = Draws(((pair.scenario, pair.dialogue) for pair in pairs), resamples=5, seed=seed)
    cells, counts = draws.counts(pairs)
    assert (counts.sum(axis=1) > 0).all()
    results = found(pairs, [*SCORES, *VERDICTS], draws)
    for row, times in enumerate(counts.astype(int)):
        x, y = np.repeat(cells.x, times), np.repeat(cells.y, times)
        varied = len(set(x)) > 1 and len(set(y)) > 1
        for name in SCORES:
            expected = SCIPY[name](x, y) if varied else np.nan
            assert results[name].samples[row] == pytest.approx(expected, abs=1e-9, nan_ok=True)
        by_hand = kappa(list(x), list(y))
        assert results["kappa"].samples[row] == pytest.approx(np.nan if by_hand is None else by_hand, nan_ok=True)
        assert results["agreement"].samples[row] == pytest.approx((x == y).mean())


@FEW
@given(PAIRED)
def test_values_are_scipys_symmetric_and_in_range(values):
    x, y = zip(*values, strict=True)
    for coefficient in (pearson, spearman, kendall, kappa, agreement):
        value = coefficient(x, y)
        assert value == (None if value is None else pytest.approx(coefficient(y, x)))
        assert value is None or -1 - 1e-9 <= value <= 1 + 1e-9
        assert coefficient(x, x) in (None, pytest.approx(1))
    for name, coefficient in (("pearson", pearson), ("spearman", spearman), ("kendall", kendall)):
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert coefficient(x, y) == pytest.approx(SCIPY[name](x, y))


@FEW
@given(PAIRED, st.randoms())
def test_intervals_hold_their_ends_in_order_and_depend_on_no_order(values, rng):
    pairs = pairs_of(values)
    shuffled = rng.sample(pairs, len(pairs))
    result = estimates(pairs, [*SCORES, *VERDICTS])
    assert estimates(shuffled, [*SCORES, *VERDICTS]) == result
    json.dumps(result, allow_nan=False)
    for one in result.values():
        assert one["n"] == len(pairs)
        assert one["low"] is None or one["low"] <= one["high"]


def test_dialogues_are_drawn_not_pairs():
    rng = random.Random(1)
    values = [(rng.random(), rng.random()) for _ in range(12)]
    once = pairs_of(values, 1)
    tenfold = once * 10
    one, ten = estimates(once, SCORES), estimates(tenfold, SCORES)
    for name in SCORES:
        assert (ten[name]["low"], ten[name]["high"]) == pytest.approx((one[name]["low"], one[name]["high"]))
        assert (ten[name]["n"], ten[name]["dialogues"]) == (120, 12)
    apart = [Pair(f"{i}", pair.scenario, pair.x, pair.y) for i, pair in enumerate(tenfold)]
    assert estimates(apart, SCORES)["pearson"]["high"] < ten["pearson"]["high"]


def test_one_dialogue_of_a_scenario_says_nothing_about_the_spread():
    pairs = [Pair(f"d{i}", "editing", i, i % 3) for i in range(6)]
    assert estimates(pairs, ["pearson"])["pearson"]["low"] is not None
    pairs.append(Pair("alone", "fusion", 1, 1))
    alone = estimates(pairs, ["pearson"])["pearson"]
    assert alone["value"] is not None and (alone["low"], alone["high"]) == (None, None)


# A study as numbers


def image(number: int, run: str = "A") -> Instance:
    return Instance(run, "gt", f"d{number}", SCENARIOS[number % 2], 1, 0)


def scores(rater: str, values, judged) -> list[Rating]:
    return [
        Rating(rater, image(i), "quality", "t1-s0", value, says)
        for i, (value, says) in enumerate(zip(values, judged, strict=True))
    ]


def test_a_study_worked_by_hand():
    judged = [2.0, 4.0, 6.0, 8.0]
    ratings = scores("ann", [2, 4, 6, 8], judged) + scores("bob", [4, 2, 8, 6], judged)
    result = measure(ratings, resamples=50)
    assert result["raters"]["ann"]["quality"]["pearson"]["value"] == 1
    # means of the raters 3, 3, 7, 7 beside 2, 4, 6, 8: r = 16 / sqrt(20 * 16)
    assert result["overall"]["quality"]["pearson"]["value"] == pytest.approx(16 / np.sqrt(320))
    assert result["overall"]["quality"]["pearson"]["n"] == 4
    # ann and bob: two of six pairs of images are in the other order
    [between] = result["between_raters"]["pairs"]
    assert between["raters"] == ["ann", "bob"]
    assert between["quality"]["kendall"]["value"] == pytest.approx((4 - 2) / 6)
    assert result["between_raters"]["mean"]["quality"]["kendall"] == {
        **{name: between["quality"]["kendall"][name] for name in ("value", "low", "high")},
        "rater_pairs": 1,
    }
    assert result["scenarios"]["fusion"]["quality"]["pearson"]["n"] == 2
    assert result["overall"]["checks"]["kappa"] == {"value": None, "low": None, "high": None, "n": 0, "dialogues": 0}


def test_checks_are_pooled_and_their_shares_averaged():
    def checks(rater: str, number: int, values: str, judged: str) -> list[Rating]:
        return [
            Rating(rater, image(number), "checks", f"c{i}", float(value), None if says == "-" else float(says))
            for i, (value, says) in enumerate(zip(values, judged, strict=True))
        ]

    ratings = checks("ann", 0, "1100", "1000") + checks("bob", 0, "1010", "1000")
    ratings += checks("ann", 1, "0011", "0011") + checks("bob", 1, "01", "1-") + checks("ann", 2, "11", "11")
    result = measure(ratings, resamples=0)
    # pairs with the judge: ann 3 of 4, 4 of 4, 2 of 2; bob 3 of 4, 0 of 1
    assert result["overall"]["checks"]["agreement"]["value"] == pytest.approx(12 / 15)
    assert result["overall"]["checks"]["agreement"]["n"] == 15
    # images: (0.5, 0.25), ann 0.5 and bob 0 beside 0.5 and 1, (1, 1)
    x, y = [0.5, 0.25, 1.0], [0.25, 0.75, 1.0]
    assert result["overall"]["pass_share"]["pearson"]["value"] == pytest.approx(scipy.stats.pearsonr(x, y).statistic)
    # between raters the judge doesn't matter: 4 checks of the first image, 2 of the second
    [between] = result["between_raters"]["pairs"]
    assert between["checks"]["agreement"] == {**between["checks"]["agreement"], "n": 6, "value": 3 / 6}


def test_the_mean_over_pairs_of_raters_is_over_those_that_are_defined():
    ratings = scores("a", [1, 2, 3, 4], [1, 2, 3, 4]) + scores("b", [1, 2, 4, 3], [None] * 4)
    ratings += scores("c", [5, 5, 5, 5], [1, 2, 3, 4])
    result = measure(ratings)
    mean = result["between_raters"]["mean"]["quality"]["pearson"]
    assert (mean["value"], mean["rater_pairs"]) == (pytest.approx(0.8), 1)
    assert result["raters"]["c"]["quality"]["pearson"]["value"] is None
    assert result["raters"]["b"]["quality"]["pearson"]["n"] == 0


def test_a_rater_rates_an_item_once():
    with pytest.raises(DataError, match="two of quality 't1-s0' by 'ann'"):
        measure(scores("ann", [1], [1]) * 2)


RATINGS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cem"]),
        st.integers(0, 5),
        st.sampled_from(["c0", "c1", "quality"]),
        st.integers(0, 1),
        st.sampled_from([0.0, 1.0, None]),
    ),
    max_size=30,
    unique_by=lambda one: one[:3],
)


@FEW
@given(RATINGS, st.randoms())
def test_any_study_gives_json_without_nan_whatever_the_order(drawn, rng):
    ratings = [
        Rating(rater, image(number), "quality" if item == "quality" else "checks", item, value, judged)
        for rater, number, item, value, judged in drawn
    ]
    result = measure(ratings, resamples=20)
    json.dumps(result, allow_nan=False)
    assert measure(rng.sample(ratings, len(ratings)), resamples=20) == result
    same = measure([replace(one, judged=one.value) for one in ratings], resamples=0)["overall"]
    values = [entry["value"] for part in same.values() for entry in part.values()]
    assert all(value in (None, pytest.approx(1)) for value in values)


# The sheet

HEADER = "run,dialogue,track,turn,slot,kind,item,rater,rating"


@FEW
@given(st.lists(st.text(max_size=12).filter(lambda text: "\x00" not in text), min_size=12, max_size=12))
def test_no_cell_is_a_formula_and_all_come_back(tmp_path_factory, cells):
    row = Row(*cells[:4], 3, 0, "checks", *cells[7:10], rater=cells[10].strip(), rating="pass")
    data = sheet([row])
    [_, written] = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in written)
    file = tmp_path_factory.mktemp("sheet") / "ratings.csv"
    file.write_bytes(data)
    [read] = read_ratings(file)
    expected = replace(row, file=str(file), line=2, rater=row.rater or "ratings")
    assert read == expected


def test_apostrophes_are_kept():
    for cell in ("'", "''", "'=1", "it's", "=1"):
        assert as_meant(harmless(cell)) == cell


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"row 1: expected the columns run, dialogue, .* got none"),
        ("run,dialogue\n", r"row 1: expected the columns track, turn, slot, kind, item, rating, got run, dialogue"),
        (HEADER + ",run\n", r"row 1: expected each column once, got run twice"),
        (HEADER + "\nA,d,gt,0,0,checks,c0,ann\n", r"row 2: expected 9 cells, got 8"),
        (HEADER + "\nA,d,gt,x,0,checks,c0,ann,pass\n", r"row 2, column turn: expected a whole number, got 'x'"),
        (HEADER + "\nA,d,gt,0,-1,checks,c0,ann,pass\n", r"row 2, column slot: expected a whole number, got '-1'"),
        (HEADER + "\nA,d,gt,0,0,answer,c0,ann,pass\n", r"column kind: expected checks or quality, got 'answer'"),
        (HEADER + "\nA,d,gt,0,0,checks,c0,ann,good\n", r"row 2, column rating: expected pass, fail, .* got 'good'"),
        (HEADER + "\nA,d,gt,0,0,checks,c0,ann,7\n", r"column rating: expected pass, fail, 1, 0 .* got '7'"),
        (HEADER + "\nA,d,gt,0,0,quality,t0-s0,ann,11\n", r"column rating: expected a number from 0 to 10 .* got '11'"),
        (HEADER + "\nA,d,gt,0,0,quality,t0-s0,ann,nan\n", r"got 'nan'"),
        (HEADER + "\nA,d,gt,0,0,quality,t0-s0,ann,8/10\n", r"got '8/10'"),
        (HEADER + "\nA,d,gt,0,0,quality,t0-s0,ann,-3\n", r"got '-3'"),
        (
            HEADER + "\n\nA,d,gt,0,0,quality,q,ann,3\nA,d,gt,0,0,checks,c,,1\n",
            r"row 4, column rater: expected the name",
        ),
        (HEADER + '\nA,"d,gt\n', r"line \d: expected CSV, got "),
    ],
)
def test_what_is_wrong_with_a_sheet_is_said_with_its_place(tmp_path, text, message):
    file = tmp_path / "ratings.csv"
    file.write_text(text)
    with pytest.raises(SourceError, match=f"^{re.escape(str(file))}, .*{message}"):
        read_ratings(file)


def test_a_sheet_may_come_from_any_spreadsheet(tmp_path):
    lines = [
        ";".join(reversed(COLUMNS)),
        "Pass;;s;It is, a cat.;c0;checks;0;1;gt;d1;A;1",
        "",
        " 7.5 ;;s;;t1-s0;quality;0;1;gt;d1;A;1",
    ]
    (tmp_path / "ann.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    (tmp_path / "bob.csv").write_text(HEADER.replace(",", "\t") + "\nA\td1\tgt\t1\t0\tchecks\tc0\t\tNOT_judgeable\n")
    rows = read_ratings(tmp_path)
    assert [(row.rater, row.line, row.value) for row in rows] == [("ann", 2, 1.0), ("ann", 4, 7.5), ("bob", 2, None)]
    assert rows[0].criterion == "It is, a cat."
    with pytest.raises(SourceError, match="found no such file"):
        read_ratings(tmp_path / "cem.csv")
    (tmp_path / "cem.csv").write_bytes("é".encode("latin-1"))
    with pytest.raises(SourceError, match="save it as CSV UTF-8"):
        read_ratings(tmp_path)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SourceError, match="found none"):
        read_ratings(tmp_path / "nothing")


# A whole study

DRAWS = 2


def noted(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def opinion(call: JudgeCall) -> str:
    """A verdict for each check and a quality, by the image."""
    seen = call.candidate.sha256 if call.candidate else ""
    if call.kind == "checks":
        verdicts = [
            {"id": item.id, "reason": "judged so", "verdict": "pass" if noted(seen + item.id) % 3 else "fail"}
            for item in call.items
        ]
        return json.dumps({"checks": verdicts})
    return json.dumps({"reason": "judged so", "score": noted(seen) % 11}) if call.kind == "quality" else ""


def benched(id: str, scenario: str):
    made = dialogue(id, scenario, draws=DRAWS)
    text, about = '=HYPERLINK("http://x") <b>', ("capability", "constraint_keeping")
    more = tuple(Check(f"=k{check.id}", check.turn, 0, text, *about) for check in made.checks)
    return replace(made, checks=(*made.checks, *more))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Run]:
    """Two judged runs over twelve dialogues on disk, three of each scenario."""
    root = tmp_path_factory.mktemp("study")
    dialogues = [benched(f"d-{scenario}-{i}", scenario) for scenario in SCENARIOS for i in range(3)]
    write_dataset(dialogues, root / "data", name="tests")
    made = []
    for name in ("secret-one", "secret-two"):
        model = ScriptedModel(identity=name)
        run = rollout(str(root / "data"), model, out=root / name, history="gt,self", seed=len(made))
        judge(run, ScriptedJudge(opinion), ScriptedJudge(opinion))
        made.append(run)
    return made


def filled(drawn: study.Sample, out, fill) -> None:
    """Write a copy of the sheet with `fill(row)` as its ratings."""
    text = drawn.sheet.read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({**row, "rating": fill(row)} for row in rows)


def as_the_judge(row) -> str:
    if row["kind"] == "quality":
        return str(noted(row["candidate"]) % 11)
    return "pass" if noted(row["candidate"] + as_meant(row["item"])) % 3 else "fail"


def test_a_sample_is_even_seeded_and_a_smaller_one_lies_inside(runs, tmp_path):
    few = study.sample(runs, tmp_path / "few", instances=8)
    more = study.sample(runs[::-1], tmp_path / "more", instances=16)
    other = study.sample(runs, tmp_path / "other", instances=8, seed=1)

    def images(drawn):
        return {(row.run, row.dialogue, row.turn, row.slot) for row in read_ratings(drawn.sheet)}

    assert few.instances == {"A": 8, "B": 8} and few.rows == 2 * 8 * 3
    assert images(few) < images(more)
    assert images(other) != images(few)
    a, b = ({one[1:] for one in images(few) if one[0] == letter} for letter in "AB")
    assert a == b  # the models are rated on the same
    for scenario in SCENARIOS:
        assert sum(scenario in one[0] for one in a) == 2
    key, again = (json.loads(drawn.key.read_text())["runs"] for drawn in (few, more))
    assert key == again and {entry["run"] for entry in key.values()} == {"secret-one", "secret-two"}
    everything = study.sample(runs, tmp_path / "all")
    assert everything.instances == {"A": 24, "B": 24}


def test_raters_see_dialogue_candidate_and_criteria_and_nothing_else(runs, tmp_path):
    drawn = study.sample(runs, tmp_path / "study", instances=6)
    folder = tmp_path / "study"
    page, table = (folder / "index.html").read_text(), drawn.sheet.read_text(encoding="utf-8-sig")
    assert drawn.key == tmp_path / "study-key.json"  # not in the folder that raters get
    assert sorted(path.name for path in folder.iterdir()) == ["images", "index.html", "ratings.csv"]
    for text in (page, table):
        assert "secret" not in text and "scripted" not in text and "judged so" not in text
    assert "<b>" not in page.replace("<b>checks</b>", "").replace("<b>quality</b>", "")
    assert '"\'=HYPERLINK(""http://x"") <b>"' in table
    shown = set(re.findall(r'src="([^"]+)"', page))
    assert shown == {f"images/{path.name}" for path in (folder / "images").iterdir()}
    rows = read_ratings(drawn.sheet)
    assert {row.candidate[:20] for row in rows} <= {path.stem for path in (folder / "images").iterdir()}
    assert all(row.rater == "ratings" and row.rating == "" for row in rows)
    # no target of the turn itself or a later one is shown
    data = {one.id: one for one in runs[0].data}
    for section in page.split("<section")[1:]:
        number = re.search(r'id="i(\d+)"', section)[1]
        row = next(row for row in rows if row.instance == number)
        targets = [info for info in data[row.dialogue].image_info if info.role == "target"]
        later = [info.sha256[:20] for info in targets if info.turn >= row.turn]
        assert later and not any(name in section for name in later)
        assert row.candidate[:20] in section.split('class="candidate"')[1]


def test_raters_who_say_what_the_judge_says_agree_and_others_less(runs, tmp_path):
    drawn = study.sample(runs, tmp_path / "study", instances=20)
    answers = tmp_path / "answers"
    answers.mkdir()
    filled(drawn, answers / "ann.csv", as_the_judge)
    rng = random.Random(0)

    def wavering(row) -> str:
        if rng.random() < 0.6:
            return as_the_judge(row)
        return str(rng.randint(0, 10)) if row["kind"] == "quality" else rng.choice(["pass", "fail"])

    filled(drawn, answers / "bob.csv", wavering)
    result = agreeing.measure(answers, runs, key=drawn.key, resamples=200)
    ann, bob = result["raters"]["ann"], result["raters"]["bob"]
    for part in ("checks", "quality", "pass_share"):
        for name, one in ann[part].items():
            assert (one["value"], one["low"], one["high"]) == (1, 1, 1), (part, name)
            assert bob[part][name]["low"] < bob[part][name]["value"] < bob[part][name]["high"] < 1
    assert result["rows"] == {"all": 240, "rated": 240, "compared": 240} and result["unpaired"] == {}
    assert ann["checks"]["kappa"]["n"] == 80 and ann["quality"]["pearson"]["n"] == 40
    assert result["between_raters"]["mean"]["checks"]["kappa"]["value"] == bob["checks"]["kappa"]["value"]
    assert sorted(result["scenarios"]) == sorted(SCENARIOS)
    assert result["notes"] == []
    # one file of all rows, and the runs in another order, are the same study
    rows = read_ratings(answers)
    (tmp_path / "study" / "all.csv").write_bytes(sheet(rows))
    again = agreeing.measure(tmp_path / "study" / "all.csv", runs[::-1], resamples=200)
    assert {name: again[name] for name in ("overall", "raters", "between_raters")} == {
        name: result[name] for name in ("overall", "raters", "between_raters")
    }


def test_what_cant_be_compared_is_counted_by_reason(runs, tmp_path):
    drawn = study.sample(runs, tmp_path / "study", instances=12)
    rows = [replace(row, rating=as_the_judge(asdict(row))) for row in read_ratings(drawn.sheet)]
    checks = [i for i, row in enumerate(rows) if row.kind == "checks"]
    changes = {
        "unknown_run": {"run": "Z"},
        "unknown_dialogue": {"dialogue": "nobody"},
        "unknown_track": {"track": "../gt"},
        "unknown_item": {"item": "c99"},
        "another_image_now": {"candidate": "0" * 64},
        "not_rated": {"rating": " "},
        "rater_could_not_tell": {"rating": "not_judgeable"},
    }
    for place, change in zip(checks, changes.values(), strict=False):
        rows[place] = replace(rows[place], **change)
    sheet_file = tmp_path / "study" / "filled.csv"
    sheet_file.write_bytes(sheet(rows))
    result = agreeing.measure(sheet_file, runs, resamples=0)
    assert result["unpaired"] == {
        reason: {"rows": 1, "first": f"{sheet_file}, row {place + 2}"}
        for place, reason in sorted(zip(checks, changes, strict=False), key=lambda one: one[1])
    }
    assert result["rows"] == {"all": 72, "rated": 71, "compared": 72 - len(changes)}


def test_what_the_judge_could_not_score_still_counts_between_raters(tmp_path):
    write_dataset([benched(f"d{i}", "editing") for i in range(4)], tmp_path / "data", name="tests")
    run = rollout(str(tmp_path / "data"), ScriptedModel(), out=tmp_path / "run")
    silent = ScriptedJudge(lambda call: "I'd say 7" if call.kind == "quality" else opinion(call))
    drawn = study.sample([run], tmp_path / "study")
    with pytest.raises(RunFolderError, match="nothing was judged yet"):
        agreeing.measure(drawn.sheet, [run])
    judge(run, silent, silent)
    rows = [row for name in ("ann", "bob") for row in read_ratings(drawn.sheet) for row in [replace(row, rater=name)]]
    values = [str(place % 7) if row.kind == "quality" else "pass" for place, row in enumerate(rows)]
    (tmp_path / "study" / "ratings.csv").write_bytes(
        sheet(replace(row, rating=value) for row, value in zip(rows, values, strict=True))
    )
    result = agreeing.measure(tmp_path / "study", [run], resamples=0)
    assert result["unpaired"] == {"judge_unparsed": {"rows": 16, "first": f"{drawn.sheet}, row 4"}}
    assert result["overall"]["quality"]["pearson"]["n"] == 0
    assert result["between_raters"]["pairs"][0]["quality"]["pearson"]["n"] == 8


def test_contradictions_and_the_wrong_key_are_errors(runs, tmp_path):
    drawn = study.sample(runs[:1], tmp_path / "study", instances=2)
    rows = [replace(row, rating="1") for row in read_ratings(drawn.sheet)]
    twice = tmp_path / "study" / "twice.csv"
    twice.write_bytes(sheet([*rows, rows[0]]))
    with pytest.raises(SourceError, match=rf"row {len(rows) + 2}, column rater: expected one rating of .* row 2 has"):
        agreeing.measure(twice, runs[:1])
    with pytest.raises(RunFolderError, match=r"the key .* doesn't name it"):
        agreeing.measure(drawn.sheet, runs)
    bad = tmp_path / "key.json"
    bad.write_text("{}")
    with pytest.raises(SourceError, match="expected the key"):
        agreeing.measure(drawn.sheet, runs[:1], key=bad)
    with pytest.raises(RunFolderError, match="expected a judge among scripted"):
        agreeing.measure(drawn.sheet, runs[:1], judge="nobody")
    # without a key the sheet names run folders
    drawn.key.unlink()
    named = tmp_path / "study" / "named.csv"
    named.write_bytes(sheet(replace(row, run="secret-one") for row in rows))
    assert agreeing.measure(named, runs, resamples=0)["rows"]["compared"] == len(rows)


def test_a_sample_is_refused_where_it_would_overwrite_or_mean_nothing(runs, tmp_path):
    with pytest.raises(SpecError, match="expected 1 or more, got 0"):
        study.sample(runs, tmp_path / "a", instances=0)
    with pytest.raises(SpecError, match="different runs"):
        study.sample([runs[0], runs[0]], tmp_path / "a")
    with pytest.raises(SpecError, match="different runs, got none"):
        study.sample([], tmp_path / "a")
    with pytest.raises(RunFolderError, match="expected outputs of history 'last', found"):
        study.sample(runs, tmp_path / "a", history="last")
    assert not (tmp_path / "a").exists()
    study.sample(runs, tmp_path / "a", instances=1, history="self")
    with pytest.raises(SpecError, match="no ratings are overwritten"):
        study.sample(runs, tmp_path / "a", instances=1)


def test_images_that_were_not_drawn_are_not_rated(tmp_path):
    write_dataset([benched(f"d{i}", "editing") for i in range(2)], tmp_path / "data", name="tests")
    shy = ScriptedModel(lambda request: Output(status="model_refused") if request.turn == 1 else None)
    run = rollout(str(tmp_path / "data"), shy, out=tmp_path / "run")
    drawn = study.sample([run], tmp_path / "study")
    assert drawn.instances == {"A": 2} and {row.turn for row in read_ratings(drawn.sheet)} == {3}
    nothing = ScriptedModel(lambda request: Output(status="model_refused"), identity="other")
    run = rollout(str(tmp_path / "data"), nothing, out=tmp_path / "nothing")
    with pytest.raises(RunFolderError, match="expected images to rate"):
        study.sample([run], tmp_path / "study-2")


def test_the_command_on_the_mini_bench(tmp_path):
    from yanami_metric.data import open_data

    data = open_data("mini", dialogues=8, size=128, seed=3)
    folders = []
    for name in ("copy-last", "blank"):
        run = rollout(data, f"baseline:{name}", out=tmp_path / name)
        judge(run, "pixel", "exact")
        folders.append(str(run.path))
    command = CliRunner()
    arguments = ["sample", *folders, "--out", str(tmp_path / "study"), "--instances", "12"]
    done = command.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "ratings.csv: " in done.output and "keep it from the raters" in done.output
    assert command.invoke(app, arguments).exit_code != 0  # nothing is overwritten

    rows = read_ratings(tmp_path / "study" / "ratings.csv")
    rated = [
        replace(row, rater=name, rating="7" if row.kind == "quality" else ("pass", "fail")[(i + shift) % 5 == 0])
        for shift, name in enumerate(("ann", "bob"))
        for i, row in enumerate(rows)
    ]
    (tmp_path / "study" / "ratings.csv").write_bytes(sheet(rated))
    done = command.invoke(app, ["measure", str(tmp_path / "study" / "ratings.csv"), *folders, "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.output)
    assert result["overall"]["quality"]["pearson"]["value"] is None  # everybody always said 7
    assert -1 < result["overall"]["checks"]["kappa"]["value"] < 1
    assert any("mini bench" in note for note in result["notes"])
    assert result["rows"]["compared"] == len(rated)
    done = command.invoke(app, ["measure", str(tmp_path / "study" / "ratings.csv"), *folders, "--judge", "pixel"])
    for words in (
        "| Checks | Kappa | Agreement | Pairs |",
        "| rater ann |",
        "ann and bob",
        "mean over pairs of raters",
    ):
        assert words in done.output
