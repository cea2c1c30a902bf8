"""The pages that the Hub shows, run as there and clicked through in a real browser."""

import configparser
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browsing import Looked, browser, soon  # noqa: F401 - `browser` is a fixture
from yanami_metric import api, tables
from yanami_metric.data import Selection

ROOT = Path(__file__).parent.parent
SPACES = ("yanami", "leaderboard")
HOSTILE = "<img src=x onerror=\"document.title='taken'\"> **bold** [link](javascript:alert(1)) \u202e$x^2$"


@contextmanager
def served(space, **environment):
    """A page's address while its app runs as a process of its own, and nothing on standard error but warnings."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=ROOT / "loading_scripts" / space,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GRADIO_SERVER_PORT": str(port), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert soon(lambda: process.poll() is not None or answers(url), within=60)
        assert process.poll() is None, process.stderr.read()
        yield url
    finally:
        process.terminate()
        _, complaints = process.communicate(timeout=20)
    assert "Traceback" not in complaints, complaints


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - our own, on this machine
            return reply.status == 200
    except OSError:
        return False


@contextmanager
def visiting(browser, url, **how):  # noqa: F811 - the fixture
    """Look at a page; it may ask nothing of anyone else, and nothing may go wrong in its console."""
    with browser.new_context(viewport={"width": 1280, "height": 900}, **how) as context:
        looked = Looked(context.new_page())
        looked.page.on("request", lambda request: looked.requests.append(request.url))
        looked.page.on("console", lambda said: looked.complaints.append(said.text) if said.type == "error" else None)
        looked.page.on("pageerror", lambda error: looked.complaints.append(str(error)))
        looked.page.goto(url)
        yield looked
    assert looked.complaints == []
    assert {urlsplit(asked).netloc for asked in looked.requests} <= {urlsplit(url).netloc, ""}
    assert {urlsplit(asked).scheme for asked in looked.requests} <= {"http", "data", "blob"}


# The metric's page


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = api.rollout(
        "mini",
        "baseline:copy-last",
        history=("gt", "self"),
        selection=Selection(limit=8),
        out=tmp_path_factory.mktemp("spaces") / "run",
    )
    api.score(api.judge(run))
    return run


@pytest.fixture(scope="module")
def metric():
    with served("yanami") as url:
        yield url


@pytest.fixture
def zipped(run, tmp_path):
    """Makes a zip of the run, after a change to its run.json."""
    import zipfile

    def make(change=lambda settings: None):
        meta = json.loads((run.path / "run.json").read_text())
        change(meta["settings"])
        with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
            archive.writestr("run/run.json", json.dumps(meta))
            for file in run.path.rglob("*.json*"):
                if file.name != "run.json":
                    archive.write(file, f"run/{file.relative_to(run.path)}")
        return tmp_path / "run.zip"

    return make


def upload(page, path):
    page.set_input_files("input[type=file][accept='.zip']", path)
    page.locator(".file-preview").wait_for()
    page.get_by_role("button", name="Score").click()


def value(page, name):
    return page.locator(f"#{name} textarea, #{name} input").first.input_value()


def cells(page, name):
    """The texts of a table by row."""
    rows = {}
    for cell in page.locator(f"#{name} [role=gridcell]").all():
        rows.setdefault(cell.get_attribute("data-row"), []).append(cell.inner_text().strip())
    return list(rows.values())


def test_an_uploaded_run_is_scored(metric, run, zipped, browser):  # noqa: F811
    scores = json.loads((run.path / "scores.json").read_text())
    with visiting(browser, metric) as looked:
        page = looked.page
        upload(page, zipped())
        page.locator("#whole").wait_for(timeout=30_000)
        assert soon(lambda: len(cells(page, "whole")) == 2)
        for row, history in zip(cells(page, "whole"), ("gt", "self"), strict=True):
            entry = scores["histories"][history]
            told = [f"{entry[n]['value']:.2f} ({tables.spread(entry[n])})" for n in ("overall", "vr")]
            assert row[:3] == [history, *told]
            assert row[-1] == "100 %"
        assert [row[:3] for row in cells(page, "parts")][:2] == [["gt", "fusion", "2"], ["gt", "editing", "2"]]
        assert len(cells(page, "parts")) == 8
        assert value(page, "model") == "baseline:copy-last"
        assert value(page, "origin").startswith("recomputed")
        assert value(page, "smoke") == tables.SMOKE
        assert value(page, "notes").splitlines() == tables.notes(scores)
        assert not page.locator("#failed").is_visible()


def test_text_of_an_upload_stays_text(metric, zipped, browser):  # noqa: F811
    def hostile(settings):
        settings["model"] |= {"spec": HOSTILE, "identity": HOSTILE, "options": {HOSTILE: HOSTILE}}
        settings["data"] |= {"name": HOSTILE, "spec": HOSTILE}
        settings["placement"] = HOSTILE

    with visiting(browser, metric) as looked:
        page = looked.page
        upload(page, zipped(hostile))
        page.locator("#whole").wait_for(timeout=30_000)
        page.get_by_role("button", name="What was measured").click()
        shown = HOSTILE.replace("\u202e", "\ufffd")
        assert soon(lambda: any(shown in " ".join(row) for row in cells(page, "facts")))
        assert value(page, "model") == shown
        assert value(page, "origin").startswith("as uploaded, not recomputed")
        assert page.title() == "YANAMI"
        assert page.locator("img[src=x], a[href^=javascript], .katex").count() == 0
        assert not any(url.endswith("/x") for url in looked.requests)


def test_what_cant_be_scored_is_said(metric, zipped, tmp_path, browser):  # noqa: F811
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\x03\x04 <b>no zip</b>")
    with visiting(browser, metric) as looked:
        page = looked.page
        page.get_by_role("button", name="Score").click()
        assert soon(lambda: page.locator("#failed").is_visible())
        assert value(page, "failed") == "Choose a zip of a run folder first."
        upload(page, broken)
        assert soon(lambda: "expected a sound zip of a run folder" in value(page, "failed"))
        assert not page.locator("#whole").is_visible()
        page.get_by_label("Remove").or_(page.get_by_label("Clear")).first.click()
        upload(page, zipped())
        page.locator("#whole").wait_for(timeout=30_000)
        assert not page.locator("#failed").is_visible()


def test_the_page_fits_a_phone_and_the_dark(metric, zipped, browser):  # noqa: F811
    with visiting(browser, metric, color_scheme="dark") as looked:
        page = looked.page
        page.set_viewport_size({"width": 390, "height": 800})
        upload(page, zipped())
        page.locator("#whole").wait_for(timeout=30_000)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        fonts = page.evaluate("[...document.fonts].filter(font => font.status === 'loaded').length")
        assert fonts == 0


# The leaderboard's page


@pytest.fixture
def board(run, tmp_path):
    """The page's address, over the run and one by another judge of a model with a hostile name."""
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    for name in ("run.json", "scores.json"):
        value = json.loads((other / name).read_text())
        value.get("settings", value)["model"]["spec"] = HOSTILE
        judge = value["judges"][0] if "judges" in value else value["judge"]
        judge["images"]["fingerprint"]["version"] = 2
        for entry in value.get("histories", {}).values():
            entry["formula"] = HOSTILE
        (other / name).write_text(json.dumps(value))
    with served("leaderboard", YANAMI_LEADERBOARD_RUNS=os.pathsep.join(map(str, [run.path, other]))) as url:
        yield url


def test_the_leaderboard_shows_one_judge_at_a_time_and_names_as_text(board, run, browser):  # noqa: F811
    overall = json.loads((run.path / "scores.json").read_text())["histories"]["gt"]["overall"]["value"]
    shown = HOSTILE.replace("\u202e", "\ufffd")
    with visiting(browser, board) as looked:
        page = looked.page
        page.locator("#group-1").wait_for(timeout=30_000)
        assert "Overall = 0.4 DSU + 0.36 SC + 0.24 VQ" in page.locator("#group-1").inner_text()
        first = models(page)
        [row] = cells(page, "group-1")
        assert f"{overall:.2f}" in row
        assert "1 results are of other judges" in value(page, "notes")
        page.locator("#judge input").click()
        options = page.get_by_role("option")
        assert options.count() == 2
        options.nth(1).click()
        assert soon(lambda: models(page) not in ([], first))
        assert first + models(page) in (["baseline:copy-last", shown], [shown, "baseline:copy-last"])
        assert f"Overall = {shown}" in page.locator("#group-1").inner_text()
        assert page.title() == "YANAMI leaderboard"
        assert page.locator("img[src=x], a[href^=javascript], .katex").count() == 0
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_timeout(500)
        assert soon(lambda: len(first + models(page)) == 2)


def models(page):
    return [row[2] for row in cells(page, "group-0")]


def test_the_leaderboard_says_what_it_cant_show(tmp_path, browser):  # noqa: F811
    with served("leaderboard", YANAMI_LEADERBOARD_RUNS=str(tmp_path)) as url, visiting(browser, url) as looked:
        notes = looked.page.locator("#notes")
        notes.wait_for(timeout=30_000)
        assert "There is no board to show" in notes.inner_text()
        assert str(tmp_path) in value(looked.page, "notes")


# Both


@pytest.mark.parametrize("space", SPACES)
def test_pages_need_neither_evaluate_nor_a_model_library(space):
    code = "import sys, app; print(sorted({'evaluate', 'torch', 'transformers', 'diffusers'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "loading_scripts" / space,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("space", SPACES)
def test_requirements_are_those_of_the_package_and_gradio(space):
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    wanted = config["options"]["install_requires"].split() + config["options.extras_require"]["space"].split()
    lines = (ROOT / "loading_scripts" / space / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == wanted
