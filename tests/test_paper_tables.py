"""Every published row, recomputed from per-question records that were made to match it, and printed as the paper does.

No exception is needed: the paper's figures are rounded from figures that it doesn't print, and for each cell, also the
four averages that end in half a cell of rounded ones (54.775, 42.555, 83.045, 51.125) and Table 20's -0.068 beside
0.703 and 0.634, there are such figures. The records of Tables 2-19, of 20 and of 21 are separate sets of dialogues.
"""

import csv as csv_module
import io
import itertools
import json
import math
import re
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support import ScriptedJudge, ScriptedModel, dialogue
from tests.test_published_cards import PUBLISHED, expected
from yanami_dataset.builder import write_dataset
from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS, Check, Dialogue, Message, Part, Question, Turn, validate
from yanami_metric import api, paper_tables, paper_text
from yanami_metric.analysis.gap import gap
from yanami_metric.analysis.turns import first_last
from yanami_metric.cli import app
from yanami_metric.data import Selection
from yanami_metric.paper_tables import Entry, cell, own, paper_table, published
from yanami_metric.published import COLUMNS
from yanami_metric.records import Caps, quality_id
from yanami_metric.score import summarise
from yanami_metric.tables import SMOKE
from yanami_metric.tally import ItemResult, tally

CHECKS = 50  # of a dialogue, half on each of its images: SC over 100 dialogues comes in steps of 0.02
RIGHT, WRONG = ItemResult("scored", 1), ItemResult("scored", 0)
ASK, DRAW = Message("user", (Part("text", "Draw it."),)), Message("assistant", (Part("image"),))
QUESTIONS = tuple(Question(name, name, 1, "Which one?", "that one") for name in DIMENSIONS)


def made(id, scenario, checks, draws=2):
    return Dialogue(id, scenario, (ASK, DRAW) * draws, (Turn(),) * draws, questions=QUESTIONS, checks=tuple(checks))


@lru_cache(maxsize=1)
def bench():
    """100 dialogues of each scenario with two images, 25 atomic checks each, and a question of each dimension."""
    checks = [Check(f"c{n}", n // 25, 0, "It is so.") for n in range(CHECKS)]
    found = {scenario: [made(f"{scenario}-{n}", scenario, checks) for n in range(100)] for scenario in SCENARIOS}
    validate(found["fusion"][0])
    return found


def quality(value):
    return ItemResult("scored", value)


def answered(dialogues, dimensions):
    """Answers of which so many per cent are right, by dimension."""
    return [
        {("answer", name): RIGHT if n < right else WRONG for name, right in zip(DIMENSIONS, dimensions, strict=True)}
        for n in range(len(dialogues))
    ]


def drawn(dialogues, passed, mean):
    """Checks of which `passed` are passed over 100 dialogues, and images of `mean` quality, both unevenly."""
    found = []
    for n, one in enumerate(dialogues):
        right = passed // 100 + (n < passed % 100) + (2 if n % 2 else -2)
        results = {("checks", check.id): RIGHT if k < right else WRONG for k, check in enumerate(one.checks)}
        for slot, off in zip(one.slots, (0.3, -0.3), strict=True):
            results["quality", quality_id(slot)] = quality(mean / 10 + off)
        found.append(results)
    return found


def parts(row, overall):
    """Checks passed and a mean quality that are printed as SC and VQ and make this overall, nearest to the printed."""
    around = sorted(
        range(round(row["sc"] * CHECKS) - 5, round(row["sc"] * CHECKS) + 6), key=lambda n: abs(n / CHECKS - row["sc"])
    )
    for passed in around:
        vq = (overall - 0.6 * passed / CHECKS) / 0.4
        if cell(passed / CHECKS, 1) == f"{row['sc']:.1f}" and cell(vq, 1) == f"{row['vq']:.1f}":
            return passed, vq
    raise AssertionError(f"no SC and VQ make {row}")


def run(model, histories, **judge):
    """A scores.json."""
    return {
        "model": {"spec": model, "identity": f"{model}/1", "options": {}},
        "dataset": {"name": "bench", "revision": "r1", "mini": False, "limit": None, "shard": None, "scenarios": []},
        "judge": {role: {"name": "some-judge", "fingerprint": {"v": 1}, **judge} for role in ("images", "answers")},
        "histories": histories,
    }


def scores(model, results, *, can_answer):
    tallies = [tally(one, found) for s in SCENARIOS for one, found in zip(bench()[s], results[s], strict=True)]
    return run(model, {"gt": summarise(tallies, can_answer=can_answer, can_draw=True, resamples=0)})


@lru_cache(maxsize=1)
def runs():
    """By model a scores.json, from records made to match: what draws and doesn't answer, and what only answers."""
    found = {}
    for whole in PUBLISHED["overall"]:
        overall = {scenario: whole[scenario] for scenario in SCENARIOS}
        if cell(sum(overall.values()) / 4, 2) != f"{whole['overall']:.2f}":  # half a cell that the paper rounds down
            overall["editing"] -= 0.004
        results = {}
        for scenario in SCENARIOS:
            row = next(r for r in PUBLISHED["realization"][scenario] if r["model"] == whole["model"])
            results[scenario] = drawn(bench()[scenario], *parts(row, overall[scenario]))
        found[whole["model"]] = scores(whole["model"], results, can_answer=False)
    for whole in PUBLISHED["dsu_average"]:
        results = {scenario: answered(bench()[scenario], dims(whole, scenario)) for scenario in SCENARIOS}
        found[whole["model"]] = scores(whole["model"], results, can_answer=True)
    return found


def dims(whole, scenario):
    """The printed dimensions, or four whole numbers with the printed mean where only that is printed."""
    for row in PUBLISHED["dimensions"][scenario]:
        if row["model"] == whole["model"]:
            return [row[key] for key in ("rr", "cr", "ct", "cu")]
    total = round(4 * whole[scenario])
    return [total // 4 + (n < total % 4) for n in range(4)]


@lru_cache(maxsize=1)
def turns():
    """By model the tallies behind Table 20; a dialogue with one image is there too, and must not count."""
    checks = [Check(f"c{n}", n // 25, 0, "It is so.") for n in range(CHECKS)]
    two = [made(f"two-{n}", "editing", checks) for n in range(20)]
    one = Dialogue("one", "editing", (ASK, DRAW), (Turn(),), checks=(Check("c", 0, 0, "It is so."),))
    found = {}
    for row in PUBLISHED["first_last"]:
        digits = {"first": row["first"], "last": row["last"]}
        steps = [n / 10_000 for n in sorted(range(-4, 5), key=abs)]
        first, last = next(
            (digits["first"] + a, digits["last"] + b)
            for a, b in itertools.product(steps, steps)
            if cell(digits["last"] + b - digits["first"] - a, 3) == f"{row['delta']:.3f}"
        )
        found[row["model"]] = [tally(d, realized(d, first, last)) for d in two] + [tally(one, realized(one, 0.0, 0.0))]
    return found


def realized(one, *targets):
    """Results of a dialogue whose images have these VR."""
    results = {}
    for slot, vr in zip(one.slots, targets, strict=False):
        checks = one.checks_of(slot)
        right = int(vr * len(checks))
        results |= {("checks", check.id): RIGHT if k < right else WRONG for k, check in enumerate(checks)}
        results["quality", quality_id(slot)] = quality((vr - 0.6 * right / len(checks)) / 0.4 * 10)
    return results


HALF = 160  # dialogues with 8 checks of each capability, and as many with 9: shares come in steps of 1/72 of 1/320


@lru_cache(maxsize=1)
def understood():
    """By model the tallies behind Table 21: 320 dialogues that all understand, 80 that one of them doesn't."""
    data = []
    for n in range(400):
        many = 8 if n < HALF else 9
        checks = [
            Check(f"{name}-{k}", 1, 0, "It is so.", "capability", name)
            for name in ("constraint_keeping", "correction_updating")
            for k in range(many)
        ]
        data.append(made(f"{n:03}", SCENARIOS[n % 4], checks))
    found = {}
    for place, row in enumerate(PUBLISHED["gap"]):
        failing = dict(zip(("constraint_keeping", "correction_updating"), failures(row), strict=True))
        found[row["model"]] = [
            tally(one, keeps(one, n, failing, wrong=n >= 2 * HALF and n % 6 == place)) for n, one in enumerate(data)
        ]
    return found


def failures(row):
    """(failed of 8, failed of 9) for CK and CU, over all dialogues, so that both and their mean are as printed."""

    def near(printed):
        return [
            (a, b)
            for a in range(int(printed * 8 * HALF) - 9, int(printed * 8 * HALF) + 10)
            for b in range(int(printed * 9 * HALF) - 12, int(printed * 9 * HALF) + 13)
            if cell(share(a, b), 4) == f"{printed:.4f}"
        ]

    return next(
        (ck, cu)
        for ck, cu in itertools.product(near(row["ck"]), near(row["cu"]))
        if cell((share(*ck) + share(*cu)) / 2, 4) == f"{row['overall']:.4f}"
    )


def share(a, b):
    return (a / 8 + b / 9) / (2 * HALF)


def keeps(one, n, failing, *, wrong):
    results = {("answer", name): WRONG if wrong else RIGHT for name in DIMENSIONS}
    for capability, of in failing.items():
        total, place = of[n >= HALF], n % HALF
        failed = total // HALF + (place < total % HALF) if n < 2 * HALF else 0  # the others would be perfect
        checks = [check for check in one.checks if check.capability == capability]
        results |= {("checks", check.id): WRONG if k < failed else RIGHT for k, check in enumerate(checks)}
    return results


def own_entries(table):
    if table == 20:
        measured = {name: run(name, {}) for name in turns()}
        return paper_tables.first_last(first_last(turns(), resamples=0).values, measured), measured
    if table == 21:
        measured = {name: run(name, {}) for name in understood()}
        return paper_tables.gap(gap(understood(), resamples=0).values, measured), measured
    names = [row["model"] for row in expected()[table]]
    return [own(table, name, runs()[name]) for name in names], {name: runs()[name] for name in names}


def printed(table, text):
    """By model the cells of a Markdown table by title."""
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    header, rows = lines[0], lines[1:]
    return {row[0].replace("\\", ""): dict(zip(header[1:], row[1:], strict=True)) for row in rows}


TITLES = {"rr": "RR", "cr": "CR", "ct": "CT", "cu": "CU", "ck": "CK", "dsu": "DSU", "sc": "SC", "vq": "VQ"}


def digits(table, key):
    return {20: 3, 21: 4}.get(table) or (1 if key in ("rr", "cr", "ct", "cu", "sc", "vq") else 2)


@pytest.mark.parametrize("table", [2, 3, *range(11, 22)])
def test_every_published_row_comes_out_of_records(table):
    entries, measured = own_entries(table)
    found = printed(table, paper_text.markdown(paper_table(table, entries, measured)))
    wanted = {
        row["model"]: {
            TITLES.get(key, key.capitalize()): "–" if value is None else f"{value:.{digits(table, key)}f}"
            for key, value in row.items()
            if key not in ("model", "size")
        }
        for row in expected()[table]
    }
    assert len(wanted) == (3 if table == 3 else 6)
    for row in found.values():
        assert row.pop("Size", "–") == "–"  # no run knows its size
    assert found == wanted


@pytest.mark.parametrize("table", paper_tables.NUMBERS)
def test_published_rows_print_as_they_are_given(table):
    found = printed(table, paper_text.markdown(paper_table(table, published(table))))
    for row, cells in zip(expected()[table], found.values(), strict=True):
        figures = [text for title, text in cells.items() if title not in ("Size", "Source")]
        given = [row[key] for key in COLUMNS[table]]
        assert [None if text == "–" else float(text) for text in figures] == given
        assert cells["Source"].startswith("published") and ("judge" in cells["Source"]) == (table not in (4, 5))


def test_what_draws_and_what_answers_are_two_groups_and_vr_is_in_both_on_request():
    answers = scores("Both", {s: with_both(s) for s in SCENARIOS}, can_answer=True)
    entries = [own(2, "Both", answers), own(2, "Qwen-Edit", runs()["Qwen-Edit"])]
    made = paper_table(2, entries, {"Both": answers, "Qwen-Edit": runs()["Qwen-Edit"]}, vr=True)
    assert [(group.caption, [e.model for e in group.entries]) for group in made.groups] == [
        ("Overall with DSU", ["Both"]),
        ("Overall without DSU (VR)", ["Qwen-Edit"]),
    ]
    text = paper_text.markdown(made)
    assert "### Overall with DSU" in text and "the paper has no such column" in text
    both, alone = line_of(text, "Both"), line_of(text, "Qwen-Edit")
    assert both == ["–", *["70.00"] * 4, "70.00", "50.00"]  # 0.4 x 100 + 0.6 x 50
    assert alone[-2:] == ["42.55", "42.55"]
    assert paper_table(2, entries).columns[-1].title == "Overall"
    rows = list(csv_module.DictReader(io.StringIO(paper_text.csv(made))))
    assert [row["Group"] for row in rows] == [group.caption for group in made.groups]
    text = paper_text.latex(made)
    assert text.count("\\midrule") == 2 and text.count(r"\multicolumn{8}{l}{\emph{Overall") == 2
    assert "textbf" not in text  # nobody is best across the two


def with_both(scenario):
    """All answers right, half of everything else."""
    dialogues = bench()[scenario]
    return [a | d for a, d in zip(answered(dialogues, [100] * 4), drawn(dialogues, 2500, 50), strict=True)]


def line_of(text, name):
    return next(line[2:-2].split(" | ")[1:] for line in text.splitlines() if line.startswith(f"| {name} |"))


def test_published_groups_follow_whether_a_dsu_is_published():
    answers = scores("Both", {s: with_both(s) for s in SCENARIOS}, can_answer=True)
    made = paper_table(2, [own(2, "Both", answers), *published(2)], {"Both": answers}, vr=True)
    assert [len(group.entries) for group in made.groups] == [1, 6]
    assert all(entry.values["vr"] == entry.values["overall"] for entry in made.groups[1].entries)


def test_rows_beside_published_ones_say_who_judged_and_that_it_was_another():
    measured = {"Show-o2": runs()["Show-o2"]}
    made = paper_table(3, [own(3, "Show-o2", runs()["Show-o2"]), *published(3)], measured)
    assert [entry.is_published for entry in made.groups[0].entries] == [True, True, True, False]
    text = paper_text.markdown(made)
    assert re.search(r"\| Show-o2 \| 74\.00 .* \| this run; judge: some-judge \([0-9a-f]{12}\) \|", text)
    assert "published; judge: the authors' (Qwen-3.8-Flash-Next)" in text
    assert (
        "Show-o2: judged by some-judge, not by the authors' judge (Qwen-3.8-Flash-Next): not comparable." in made.notes
    )
    theirs = run("m", runs()["Show-o2"]["histories"], name="openai:qwen-3.8-flash-next")
    notes = paper_table(3, [own(3, "m", theirs), *published(3)], {"m": theirs}).notes
    assert "m: a judge of the authors' name; its prompts and settings need not be theirs." in notes
    assert not any("not by the authors'" in note for note in notes)


def test_two_judges_are_both_named():
    one = run("m", runs()["Show-o2"]["histories"])
    one["judge"]["answers"] = {"name": "exact", "fingerprint": {}}
    assert re.search(r"judge: some-judge \(\w+\), exact \(\w+\) for answers$", own(3, "m", one).source)


def test_the_mini_bench_is_never_beside_published_rows():
    one = run("m", runs()["Show-o2"]["histories"])
    one["dataset"]["mini"] = True
    entry = own(3, "m", one)
    with pytest.raises(SpecError, match="no run on the mini bench beside published figures, got m") as error:
        paper_table(3, [entry, *published(3)], {"m": one})
    assert SMOKE in str(error.value)
    for text in (paper_text.markdown, paper_text.latex, paper_text.csv):
        assert SMOKE in text(paper_table(3, [entry], {"m": one}))


def test_what_differs_from_the_papers_setting_is_noted():
    one = run("m", {"self": summarise([], can_answer=True, can_draw=True, resamples=0, sc_mean="image")})
    one["dataset"] |= {"limit": 8, "scenarios": ["editing"]}
    one["histories"]["self"]["weights"] = {"dsu": 0.5, "sc": 0.6, "vq": 0.4}
    notes = own(2, "m", one, "self").notes
    for told in (
        "under history self",
        "limit 8; scenarios ['editing']",
        "weights were set",
        "SC is averaged over images",
    ):
        assert any(told in note for note in notes), told
    whole = run("m", {"gt": runs()["Show-o2"]["histories"]["gt"]})
    whole["dataset"]["scenarios"] = [*SCENARIOS]
    assert own(3, "m", whole).notes == ()
    assert own(2, "m", whole).notes == ("m: only 0.0 % of what one of its figures is over could be scored.",)


def test_runs_that_were_not_measured_alike_are_told():
    other = run("b", runs()["Show-o2"]["histories"], fingerprint={"v": 2})
    measured = {"a": run("a", runs()["Show-o2"]["histories"]), "b": other}
    notes = paper_table(3, [own(3, name, one) for name, one in measured.items()], measured).notes
    assert any(note.startswith("Not measured alike: judge of images: some-judge (") for note in notes)


def test_missing_scenarios_and_scores_are_dashes_and_never_nan():
    part = [
        tally(one, found)
        for one, found in zip(bench()["editing"], answered(bench()["editing"], [100] * 4), strict=True)
    ]
    one = run("m", {"gt": summarise(part, can_answer=True, can_draw=False, resamples=0)})
    assert line_of(paper_text.markdown(paper_table(3, [own(3, "m", one)], {"m": one})), "m") == [
        *("–", "100.00", "–", "–", "–")
    ]
    for table in (2, 12, 13, 15):
        made = paper_table(table, [own(table, "m", one)], {"m": one}, intervals=True)
        for text in (paper_text.markdown(made), paper_text.latex(made), paper_text.csv(made)):
            assert not re.search(r"\bnan\b|None", text, re.IGNORECASE)
    assert line_of(paper_text.markdown(paper_table(12, [own(12, "m", one)], {"m": one})), "m") == ["–"] * 6


def entry(model="m", **values):
    return Entry(model, None, "here", {key: values.get(key) for key in ("first", "last", "delta")})


HOSTILE = r"\input{x} a_b & 100% $x$ #1 {y} ~^ <b>|*[z]" + "\n\\\\ next"


def test_latex_has_the_shape_of_booktabs_and_escapes_names():
    entries = [
        Entry("a", None, "s", {"first": 0.5, "last": 0.25, "delta": -0.25}, {"first": (0.4, 0.6)}),
        entry(HOSTILE, first=0.4, last=0.25),
        entry("c", first=0.3, last=0.1, delta=-0.2),
    ]
    lines = paper_text.latex(paper_table(20, entries, intervals=True)).splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    order = [r"\begin{table}", r"\centering", r"\begin{tabular}{lrrr}", r"\toprule", r"\midrule", r"\bottomrule"]
    places = [lines.index(line) for line in (*order, r"\end{tabular}", r"\end{table}")]
    assert places == sorted(places)
    assert rows[0] == r"Model & First & Last & Delta \\"
    assert rows[1] == r"a & \textbf{0.500} {\scriptsize (0.400, 0.600)} & \textbf{0.250} & \underline{$-0.250$} \\"
    assert rows[2] == (
        r"\textbackslash{}input\{x\} a\_b \& 100\% \$x\$ \#1 \{y\} \textasciitilde{}\textasciicircum{} "
        r"\textless{}b\textgreater{}\textbar{}{*}{[}z{]} \textbackslash{}\textbackslash{} next "
        r"& \underline{0.400} & \textbf{0.250} & -- \\"
    )
    assert rows[3].endswith(r"0.300 & \underline{0.100} & \textbf{$-0.200$} \\")
    assert len(rows) == 4


def test_lower_is_better_in_table_21():
    text = paper_text.latex(paper_table(21, published(21)))
    assert r"Emu3.5 & \textbf{0.3765} & \underline{0.3889} & \underline{0.3827}" in text
    assert r"BAGEL + YANAMI-400K & \underline{0.4158} & \textbf{0.3270} & \textbf{0.3714}" in text


@given(st.text(max_size=30))
def test_no_name_breaks_out_of_a_latex_row(name):
    text = paper_text.escaped(name)
    assert "\n" not in text
    bare = re.sub(r"\\[&%$#_{}]|\\text[a-z]+\{\}|\{[\[\]*]\}", "", text)
    assert not re.search(r"[\\&%$#_{}~^<>|\[\]*]", bare)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_csv_names_are_no_formulas_and_negative_figures_are_numbers(name):
    text = paper_text.csv(paper_table(20, [entry(name, first=0.5, delta=-0.0685), entry("b")]))
    rows = list(csv_module.reader(io.StringIO(text)))
    assert rows[1] == [f"'{name}", "0.5", "", "-0.069"]
    assert rows[2] == ["b", "", "", ""]


def test_csv_has_intervals_as_columns():
    one = Entry("m", None, "s", {"first": 0.5, "last": None}, {"first": (0.40004, 0.6)})
    rows = list(csv_module.DictReader(io.StringIO(paper_text.csv(paper_table(20, [one], intervals=True)))))
    assert (rows[0]["First low"], rows[0]["First high"], rows[0]["Last low"]) == ("0.4", "0.6", "")


@given(st.floats(-1000, 1000), st.integers(1, 4))
def test_cells_are_within_half_a_unit(value, places):
    text = cell(value, places)
    assert len(text.partition(".")[2]) == places
    assert abs(float(text) - value) <= 0.5 * 10**-places + 1e-8
    assert not (text.startswith("-") and float(text) == 0)
    assert math.copysign(1, float(text)) == math.copysign(1, value) or float(text) == 0


def test_what_there_is_no_table_or_no_score_of_is_refused():
    with pytest.raises(SpecError, match=r"expected a table among 2, 3, 4, 5, 11, .*, got 6"):
        paper_table(6, [entry()])
    with pytest.raises(SpecError, match="table 20: expected at least one row"):
        paper_table(20, [])
    with pytest.raises(SpecError, match=r"an overall for VR .*, got 20"):
        paper_table(20, [entry()], vr=True)
    with pytest.raises(SpecError, match=r"2, 3, 11 to 19\), got 20"):
        own(20, "m", runs()["Show-o2"])
    with pytest.raises(DataError, match="m: expected scores under history self, got some under gt"):
        own(2, "m", runs()["Show-o2"], "self")


# The command, on real runs


def yanami(*arguments):
    return CliRunner().invoke(app, ["table", *map(str, arguments)])


def small():
    """24 dialogues with all that Tables 20 and 21 need; "a cat" is right everywhere."""
    questions = tuple(replace(one, answer="a cat") for one in QUESTIONS)
    checks = tuple(
        Check(name, 1, 0, "It is so.", "capability", name) for name in ("constraint_keeping", "correction_updating")
    )
    found = [dialogue(f"{scenario}-{n}", scenario) for scenario in SCENARIOS for n in range(6)]
    return [replace(one, questions=questions, checks=one.checks + checks) for one in found]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Runs on a folder of small dialogues and on the mini bench, judged and scored."""
    folder = tmp_path_factory.mktemp("runs")
    write_dataset(small(), folder / "data", name="small")
    for name, caps in (("both", Caps()), ("again", Caps()), ("drawer", Caps(outputs=frozenset({"images"})))):
        model = ScriptedModel(caps=caps, identity=f"{name}/1")
        api.evaluate(folder / "data", model, judges=[ScriptedJudge()], answer_judge=ScriptedJudge(), out=folder / name)
    api.evaluate("mini", "baseline:copy-last", selection=Selection(limit=4), out=folder / "mini")
    return folder


def test_the_command_prints_runs_and_published_rows(judged):
    done = yanami(judged / "both", judged / "drawer", "--table", 19, "--published", "--vr", "--intervals")
    assert done.exit_code == 0, done.output
    with_dsu, without = done.stdout.split("### Overall without DSU (VR)")
    assert with_dsu.count("this run; judge: scripted (") == without.count("this run; judge: scripted (") == 1
    assert without.count("published; judge") == 6
    assert "88.00 (88.00, 88.00)" in without  # all checks passed, all images a 7
    assert str(judged / "both").replace("_", "\\_") in with_dsu  # the spec alone is that of both runs


def test_tables_20_and_21_are_made_of_verdicts(judged, tmp_path):
    out = tmp_path / "turns.csv"
    done = yanami(judged / "both", "--table", 20, "--format", "csv", "--out", out)
    assert done.exit_code == 0, done.output
    assert done.stdout == "" and "note: " in done.stderr
    assert out.read_text() == f"Model,First,Last,Delta\n{spec_of(judged / 'both')},0.88,0.88,0.0\n"
    done = yanami(judged / "both", judged / "again", "--table", 21, "--published")
    assert done.exit_code == 0, done.output
    figures = [line for line in done.stdout.splitlines() if "this run" in line]
    assert len(figures) == 2 and all("| 0.0000 | 0.0000 | 0.0000 |" in line for line in figures)
    assert "that of the runs is another than the paper's" in done.stdout
    refused = yanami(judged / "both", judged / "drawer", "--table", 21)
    assert isinstance(refused.exception, DataError) and "gap, constraint_keeping" in str(refused.exception)


def spec_of(path):
    return json.loads((path / "scores.json").read_text())["model"]["spec"]


def test_other_benchmarks_have_published_rows_only(judged):
    for table, model in ((4, "MetaQuery-XL"), (5, "Step1X-Edit-v1p2")):
        done = yanami("--table", table)
        assert done.exit_code == 0 and model in done.stdout and "docs/other-benchmarks.md" in done.stdout
    refused = yanami(judged / "both", "--table", 4)
    assert isinstance(refused.exception, SpecError) and "other-benchmarks.md" in str(refused.exception)


def test_published_rows_need_no_run():
    done = yanami("--table", 2, "--published", "--format", "latex")
    assert done.exit_code == 0 and r"\toprule" in done.stdout and "FLUX.2 {[}dev{]}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", 2], "run folders, or --published"),
        (["--table", 7, "--published"], "expected a table among 2, 3"),
        (["--published", "--format", "html"], "--format: expected one of markdown, csv, latex, got 'html'"),
        (["mini", "--published"], "no run on the mini bench beside published figures"),
        (["both", "both"], "expected each run once"),
        (["both", "--history", "self"], "expected scores under history self, got some under gt"),
        (["both", "--table", 20, "--history", "self"], "expected a run under history self, got one under gt"),
        (["both", "--judge", "nobody"], "expected a judge among scripted, got 'nobody'"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(judged, arguments, message):
    done = yanami(*(judged / str(one) if one in ("mini", "both") else one for one in arguments))
    assert message in str(done.exception)


def test_a_run_without_scores_is_told_to_be_scored(judged, tmp_path):
    made = api.rollout("mini", "baseline:blank", selection=Selection(limit=4), out=tmp_path / "run")
    api.judge(made)
    assert "run `yanami score` first" in str(yanami(made.path, "--table", 2).exception)
    done = yanami(judged / "mini", "--table", 2)
    assert SMOKE in done.stdout and "on a part of the data only (limit 4)" in done.stdout
