"""`yanami analyze` on real runs, and what it writes."""

import io
import json
import re
from dataclasses import replace

import pytest
from PIL import Image
from typer.testing import CliRunner

from yanami_dataset.errors import RunFolderError, SpecError, YanamiError
from yanami_metric import api
from yanami_metric.analysis.finding import Chart, Finding, Series, Table
from yanami_metric.analysis.loading import load
from yanami_metric.analysis.writing import picture, text, write
from yanami_metric.cli import app
from yanami_metric.data import Selection
from yanami_metric.tables import SMOKE

NAMES = ("first-last", "turns", "drop", "need", "adds", "gap", "capabilities", "checks", "errors", "drift")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Eight mini dialogues under all four histories, judged."""
    folder = tmp_path_factory.mktemp("runs") / "copied"
    found = api.rollout(
        "mini", "baseline:copy-last", history=("gt", "self", "last", "none"), selection=Selection(limit=8), out=folder
    )
    api.judge(found)
    return found.path


def analyze(*arguments):
    return CliRunner().invoke(app, ["analyze", *map(str, arguments)], env={"COLUMNS": "80"})


def test_all_writes_what_applies_and_names_the_rest(run):
    done = analyze("all", run, "--resamples", 20)
    assert done.exit_code == 0, done.output
    assert "left out: gap: gap: expected two or more runs" in done.stderr
    for name in NAMES:
        files = {path.suffix for path in (run / "analysis").glob(f"{name}.*")}
        assert files == (set() if name == "gap" else {".json", ".md", ".csv", ".png"})
        if files:
            told = json.loads((run / "analysis" / f"{name}.json").read_text())
            assert told["mini"]
            assert told["source"]
            assert SMOKE in (run / "analysis" / f"{name}.md").read_text()
            with Image.open(run / "analysis" / f"{name}.png") as image:
                image.load()
                assert image.format == "PNG"
    assert "# History drop" in done.stdout
    assert not list((run / "analysis").glob(".*"))


def test_json_is_json_alone_and_quiet_says_nothing(run, tmp_path):
    done = analyze("adds", run, "--json", "--resamples", 20, "--out", tmp_path)
    assert set(json.loads(done.stdout)) == {"copied"}
    assert json.loads(done.stdout) == json.loads((tmp_path / "adds.json").read_text())["values"]
    done = analyze("adds", run, "--quiet", "--resamples", 20, "--out", tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["gap", "RUN"], SpecError, "two or more runs"),
        (["drop", "/nowhere"], RunFolderError, "expected a run folder"),
        (["drop", "RUN", "RUN"], RunFolderError, "each run once"),
        (["drop", "RUN", "--judge", "nobody"], RunFolderError, "nobody"),
        (["drop", "RUN", "--resamples", 1, "--out", "FILE"], SpecError, "got a file at or above"),
        (["drop", "RUN", "--resamples", 1, "--out", "FILE/below"], SpecError, "got a file at or above"),
    ],
)
def test_what_is_wrong_is_one_message(run, tmp_path, arguments, error, message):
    file = tmp_path / "file"
    file.touch()
    done = analyze(*(str(one).replace("RUN", str(run)).replace("FILE", str(file)) for one in arguments))
    assert isinstance(done.exception, error)
    assert isinstance(done.exception, YanamiError)  # which `main` prints, with exit code 2
    assert message in str(done.exception)


@pytest.mark.parametrize("option", ["--seed", "--resamples", "--minimum"])
def test_numbers_below_what_they_may_be_are_refused(run, option):
    done = analyze("drop", run, option, -1)
    assert (done.exit_code, option in done.stderr) == (2, True)


def test_help_leads_to_every_table_of_the_paper():
    shown = analyze("--help").stdout
    assert all(len(line) <= 80 for line in shown.splitlines())
    for words in (
        "Table 20, Figure 6b: first-last",
        "Table 21: gap",
        "Figure 6c: drop",
        "Tables 2, 3, 11-19",
        "Tables 4, 5",
    ):
        assert re.search(rf"^ {words}", shown, re.MULTILINE), words
    assert "Tables 6-10" in shown
    assert all(f"│ {name} " in shown or f"  {name} " in shown for name in (*NAMES, "all"))


def test_runs_are_named_and_know_what_the_model_does(run):
    [one] = load([run])
    assert (one.name, one.is_mini, one.judge["images"]["name"]) == ("copied", True, "pixel")
    assert (one.basis.can_answer, one.basis.can_draw) == (True, True)
    assert {len(tallies) for tallies in one.histories.values()} == {8}


def made(labels, kind="lines"):
    """A finding about runs of these names; the last one has nothing scored."""
    lines = [Series(label, (1.0, 2.0), (1.0, 2.0), (0.5, 1.0), (2.0, 3.0)) for label in labels[:-1]]
    lines.append(Series(labels[-1], (1.0, 2.0), (None, None), (None, None), (None, None)))
    rows = tuple((label, 1.0) for label in labels)
    chart = Chart("c", kind, "x", "y", tuple(lines))
    notes = tuple(f"{label}: a note." for label in labels)
    return Finding("made", "Made", "ours", {}, (Table("t", ("Model", "VR"), rows),), (chart,), notes)


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_odd_names_are_drawn_without_warnings(kind):
    for labels in (["_alone"], ["$x$ and $\\frac$", "_y"]):
        with Image.open(io.BytesIO(drawn([*labels, ""], kind, count=len(labels)))) as image:
            image.load()
            assert image.format == "PNG"
    assert picture(made(["empty"], kind)) is None


def drawn(labels, kind="lines", *, count=None):
    """The picture of `made`, or of its first series alone."""
    finding = made(labels, kind)
    kept = replace(finding.charts[0], series=finding.charts[0].series[:count])
    found = picture(replace(finding, charts=(kept,)))
    assert found is not None
    return found


def test_what_is_unscored_is_not_in_the_picture():
    assert drawn(["a", "b", "empty"]) == drawn(["a", "b", "empty"], count=2)


def test_the_eighth_series_does_not_look_like_the_first():
    high, low, nothing = ((y, y) for y in (9.0, 1.0, None))
    pictures = [
        picture(Finding("m", "M", "ours", {}, (), (Chart("c", "lines", "x", "y", (
            Series("m", (1.0, 2.0), first), *(Series("m", (1.0, 2.0), nothing) for _ in range(6)),
            Series("m", (1.0, 2.0), eighth),
        )),)))
        for first, eighth in ((high, low), (low, high))
    ]  # fmt: skip
    assert pictures[0] != pictures[1]


def test_names_are_no_markup():
    shown = text(made(["<img src=x>", "![a](b)", "empty"]))
    assert "<img" not in shown
    assert "![a](b)" not in shown
    assert r"- !\[a\](b): a note." in shown


def test_formulas_of_spreadsheets_and_several_tables(tmp_path):
    finding = made(["=1+1", "@x", "empty"])
    finding = Finding(
        **{k: getattr(finding, k) for k in ("name", "title", "source", "values")}, tables=finding.tables * 2
    )
    files = write(finding, tmp_path / "new" / "folder")
    assert [path.name for path in files] == ["made.json", "made.md", "made.csv", "made-2.csv"]
    assert files[2].read_text().splitlines() == ["Model,VR", "'=1+1,1.0", "'@x,1.0", "empty,1.0"]
