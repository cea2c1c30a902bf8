"""docs/load.md and docs/submit.md, as they stand, against a Hub on the loopback interface."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.hub_support import environment, python, stored, yanami
from tests.test_repository import blocks as fenced
from yanami_dataset import load_bench
from yanami_dataset.errors import DataError, HubError, SpecError
from yanami_dataset.loading import ShadowWarning
from yanami_dataset.schema import DIMENSIONS, Question
from yanami_metric.data import open_data

DOCS = Path(__file__).parent.parent / "docs"
BIN = Path(sys.executable).parent


def blocks(page, language):
    return fenced((DOCS / page).read_text(), language)


@pytest.fixture
def bench(hub, tmp_path):
    """A published bench with all dimensions, and the folder that it was published from."""
    questions = tuple(Question(f"q{n}", name, 0, "What is it?", "a cat") for n, name in enumerate(DIMENSIONS))
    data = stored(tmp_path / "my-bench", questions=questions)
    yanami(hub, tmp_path, "publish", "bench", data)
    return data


def shell(text, hub, home, **more):
    """Run the lines of a block as a shell would, stopping at the first that fails."""
    variables = environment(hub, home) | more
    variables["PATH"] = f"{BIN}{os.pathsep}{variables['PATH']}"
    done = subprocess.run(["bash", "-euc", text], capture_output=True, text=True, env=variables, cwd=home, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_load(hub, bench, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    told = python(hub, home, "\n".join(blocks("load.md", "python")))
    assert told.splitlines()[0].startswith("fusion-0 3 fusion-0: my cat")
    assert told.splitlines()[1] == "fusion-0 [1, 3]"
    assert told.splitlines()[2].startswith("2 ")


def test_without_a_network_what_was_fetched_is_found(hub, bench, tmp_path):
    """The two blocks of the page: one with the Hub, one when it is gone."""
    fetch, use = blocks("load.md", "")
    hub.add("model", "org/model", {"config.json": b"{}"})
    home = tmp_path / "shared"
    home.mkdir()
    fetched = shell(fetch.replace("/shared/huggingface", str(home)), hub, home)
    assert "snapshots" in fetched
    seen = len(hub.seen)
    hub.__exit__()
    lines = use.replace("/shared/huggingface", str(home)).replace(
        "baseline:copy-last", "baseline:copy-last --judge exact"
    )
    variables = environment(hub, home) | {"HF_MODULES_CACHE": str(home / "modules")}
    variables["PATH"] = f"{BIN}{os.pathsep}{variables['PATH']}"
    told = subprocess.run(["bash", "-uc", lines], capture_output=True, text=True, env=variables, cwd=home, timeout=300)
    assert "baseline:copy-last" in told.stdout, told.stderr
    code = (
        "from yanami_dataset import load_bench\nimport evaluate, os\n"
        "print(len(load_bench('yanami/bench')), evaluate.load('yanami', data='yanami/bench').name)"
    )
    offline = {f"HF_{name}_OFFLINE": "1" for name in ("HUB", "DATASETS", "EVALUATE")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=variables | offline, cwd=home, timeout=120
    )
    assert done.stdout.split()[0] == "8", done.stderr
    assert len(hub.seen) == seen


def test_the_page_submit(hub, bench, tmp_path):
    """All commands of the page in their order; the judge of the local bench is a scripted one."""
    hub.add("model", "yanami/painter", {"README.md": b"# Painter\n"})
    hub.add("dataset", "yanami/training")
    hub.add("dataset", "yanami/painter-run")
    text = (
        "".join(blocks("submit.md", "")).replace("me/", "yanami/").replace("yanami/bench --model", "my-bench --model")
    )
    text = text.replace("--model baseline:copy-last", "--model baseline:copy-last --judge tests.support:ScriptedJudge")
    text = text.replace("yanami submit runs/mine", "yanami submit runs/mine --revision " + "a" * 40)
    text = text.replace("my-training-set", "my-bench").replace(
        "yanami judge run --judge pixel", "yanami judge run --judge pixel || test $? = 3"
    )
    told = shell(text, hub, tmp_path, PYTHONPATH=str(DOCS.parent))
    assert "submitted: " in told and "published: " in told and "yanami/painter" in told
    assert "## YANAMI" in hub.repo("model", "yanami/painter").files()["README.md"].decode()
    assert hub.repo("dataset", "yanami/training").pulls[0].status == "merged"
    assert {"yanami/yanami", "yanami/leaderboard"} == {id for kind, id in hub.repos if kind == "space"}
    assert (tmp_path / "look-first" / "eval.yaml").is_file()


# load_bench


def test_a_folder_that_hides_the_hub_is_told(hub, bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bench, tmp_path / "yanami" / "bench")
    for load in (load_bench, open_data):
        with pytest.warns(ShadowWarning, match="'yanami/bench' is a folder here"):
            assert len(load("yanami/bench")) == 8
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(load("./yanami/bench")) == 8
            assert len(load(tmp_path / "yanami" / "bench")) == 8


def test_load_bench_refuses_what_makes_no_sense(bench, tmp_path):
    assert load_bench(bench, "fusion").ids() == ("fusion-0", "fusion-1")
    with pytest.raises(SpecError, match="expected scenarios of"):
        load_bench(bench, "poetry")
    with pytest.raises(SpecError, match="with 'mini' only"):
        load_bench(bench, dialogues=4)
    with pytest.raises(SpecError, match="a revision of a data set on the Hub only"):
        load_bench(bench, revision="main")
    with pytest.raises(SpecError, match=r"expected 'mini', an existing folder or the Hub id"):
        load_bench("no such thing")
    with pytest.raises(HubError, match="reading yanami/bench"):
        load_bench("yanami/bench")  # this process is offline, and has nothing cached
    only = stored(tmp_path / "some", 1)
    shutil.rmtree(only / "data" / "fusion")
    with pytest.raises(DataError, match="expected dialogues of fusion"):
        load_bench(only, "fusion")


def test_a_revision_of_the_hub(hub, bench, tmp_path):
    first = hub.repo("dataset", "yanami/bench").refs["main"]
    shutil.rmtree(bench)
    stored(bench, 1)
    yanami(hub, tmp_path, "publish", "bench", bench)
    code = (
        "import sys\nfrom yanami_dataset import load_bench\n"
        "print(len(load_bench('yanami/bench')), len(load_bench('yanami/bench', revision=sys.argv[1])))"
    )
    home = tmp_path / "home"
    home.mkdir()
    assert python(hub, home, code, first).split() == ["4", "8"]
