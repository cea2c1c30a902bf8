"""`yanami publish` and what others then load, over real HTTP from a Hub on the loopback interface."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from tests.hub import OTHER, OWNER, Fault
from tests.hub_support import front, python, stored, yanami
from tests.support import dialogue
from yanami_dataset.builder import write_dataset
from yanami_dataset.hub import repo_id
from yanami_dataset.images import sha256
from yanami_dataset.reader import DialogueFolder
from yanami_dataset.schema import SCENARIOS
from yanami_dataset.tasks import TASKS
from yanami_metric import api

ROOT = Path(__file__).parent.parent


@pytest.fixture
def data(tmp_path):
    """Two dialogues of each scenario."""
    return stored(tmp_path / "data")


def commits(repo, ref="main"):
    return [message for where, message in repo.messages if where == ref]


def puts(hub):
    return [seen for seen in hub.seen if seen.method == "PUT"]


LOAD = """
import sys, json
from datasets import load_dataset
repo, config, streaming = sys.argv[1], sys.argv[2] or None, sys.argv[3] == "stream"
found = load_dataset(repo, config, split=sys.argv[4] if len(sys.argv) > 4 else "test", streaming=streaming)
ids = [row["id"] for row in found]
print(json.dumps([ids, repr(found.features)]))
"""


def test_a_bench_goes_up_in_one_commit_and_loads_alike_four_ways(hub, data, tmp_path):
    done = yanami(hub, tmp_path, "publish", "bench", data, "--license", "cc-by-4.0")
    assert "published: " in done.stdout
    repo = hub.repo("dataset", "yanami/bench")
    assert len(commits(repo)) == 2  # that of the Hub, when the repository is made, and ours
    files = repo.files()
    assert {path.split("/")[1] for path in files if path.startswith("data/")} == set(SCENARIOS)
    card = front(files["README.md"])
    assert (card["license"], card["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert {one["config_name"] for one in card["configs"]} == {"default", *SCENARIOS}
    assert "| all | 8 | 40 | 24 | 16 | 16 | 0 |" in files["README.md"].decode()
    evaluation = yaml.safe_load(files["eval.yaml"])
    assert [task["id"] for task in evaluation["tasks"]] == [task.id for task in TASKS]
    assert {"id": "fusion_sc", "config": "fusion", "split": "test"} in evaluation["tasks"]
    home = tmp_path / "home"
    home.mkdir()
    places = (data, "map"), (data, "stream"), ("yanami/bench", "map"), ("yanami/bench", "stream")
    found = {python(hub, home, LOAD, place, "", how) for place, how in places}
    assert len(found) == 1
    assert any(seen.range for seen in hub.seen)  # a stream reads parts of files
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and OWNER.encode() in path.read_bytes()]
    ids, features = json.loads(found.pop())
    assert len(ids) == 8 and "ClassLabel" in features
    one, _ = json.loads(python(hub, tmp_path / "home", LOAD, "yanami/bench", "fusion", "stream"))
    assert one == ["fusion-0", "fusion-1"]


def test_the_same_again_sends_nothing_and_a_change_replaces(hub, data, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", data)
    first, sent = hub.repo("dataset", "yanami/bench").refs["main"], len(puts(hub))
    assert sent == 4
    yanami(hub, tmp_path, "publish", "bench", data)
    assert (hub.repo("dataset", "yanami/bench").refs["main"], len(puts(hub))) == (first, sent)
    shutil.rmtree(data)
    write_dataset([dialogue("only", "fusion")], data, name="one")
    yanami(hub, tmp_path, "publish", "bench", data)
    repo = hub.repo("dataset", "yanami/bench")
    assert len(commits(repo)) == 3
    assert [path for path in repo.files() if path.startswith("data/")] == ["data/fusion/test-00000.parquet"]
    old = python(hub, tmp_path, "from datasets import load_dataset; import sys\n"
                 "print(len(load_dataset('yanami/bench', revision=sys.argv[1], split='test')))", first)  # fmt: skip
    assert old.strip() == "8"


def test_a_training_set_goes_up_in_batches_and_is_never_there_by_half(hub, data, tmp_path):
    before = {".gitattributes"}
    sent = iter(range(100))  # two are taken, one is cut in its middle, then the Hub says no
    hub.fault = lambda method, path: (
        (None, None, Fault(cut=100), Fault(400))[min(next(sent), 3)] if method == "PUT" else None
    )
    broken = yanami(hub, tmp_path, "publish", "yanami-400k", data, "--batch", 2, code=2)
    assert "answered 400" in broken.stderr and "run the same command again" in broken.stderr
    repo = hub.repo("dataset", "yanami/yanami-400k")
    assert set(repo.files()) == before
    hub.fault = lambda method, path: None
    already = set(hub.lfs)
    assert already
    yanami(hub, tmp_path, "publish", "yanami-400k", data, "--batch", 2)
    assert [pull.status for pull in repo.pulls] == ["merged"]
    assert commits(repo)[-1] == "merge pull request 1"
    assert len(commits(repo, "refs/pr/1")) == 3  # 4 files of data and the card, two a commit
    again = [seen.path.rsplit("/", 1)[1] for seen in puts(hub)]
    assert not already & set(again[again.index(sorted(already)[0]) + 3 :])
    found, _ = json.loads(python(hub, tmp_path, LOAD, "yanami/yanami-400k", "", "map", "train"))
    assert len(found) == 8


def test_a_download_that_is_cut_fails_and_then_succeeds(hub, data, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", data)
    hub.fault = lambda method, path: Fault(cut=50) if path.endswith(".parquet") and method == "GET" else None
    python(hub, tmp_path, LOAD, "yanami/bench", "", "map", fails=True)
    hub.fault = lambda method, path: None
    ids, _ = json.loads(python(hub, tmp_path, LOAD, "yanami/bench", "", "map"))
    assert len(ids) == 8


@pytest.mark.parametrize(
    ("token", "repo", "fault", "message"),
    [
        ("", "yanami/bench", None, r"expected a token, found none|answered 401"),
        ("hf_wrong", "yanami/bench", None, "answered 401.*hf auth login"),
        (OTHER, "yanami/bench", None, "answered 403.*ask for access"),
        (OWNER, "yanami/bench", Fault(404), "answered 404.*check the name"),
        (OWNER, "yanami/bench", Fault(429), "answered 429.*asks to wait"),
        (OWNER, "yanami/bench", Fault(500), "answered 500.*run the same command again"),
        (OWNER, "bench", None, "expected the id of a repository, NAMESPACE/NAME, got 'bench'"),
        (OWNER, "a/b/c", None, "expected the id of a repository"),
    ],
)
def test_what_the_hub_refuses_is_one_message(hub, data, tmp_path, token, repo, fault, message):
    hub.fault = lambda method, path: fault if "/commit/" in path else None
    done = yanami(hub, tmp_path, "publish", "bench", data, "--repo", repo, token=token, code=2)
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr and "hf_wrong" not in done.stderr
    if ("dataset", repo) in hub.repos:
        assert set(hub.repo("dataset", repo).files()) == {".gitattributes"}


def test_private_and_gated_data_need_a_token(hub, data, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", data, "--private")
    repo = hub.repo("dataset", "yanami/bench")
    assert repo.private
    for streaming in ("map", "stream"):
        empty = tmp_path / streaming  # what is in the cache is found without a token
        empty.mkdir()
        assert "doesn't exist" in python(hub, empty, LOAD, "yanami/bench", "", streaming, token="", fails=True)
        assert len(json.loads(python(hub, tmp_path, LOAD, "yanami/bench", "", streaming))[0]) == 8
    repo.private, repo.gated = False, True
    assert "gated" in python(hub, empty, LOAD, "yanami/bench", "", "map", token=OTHER, fails=True)


def test_a_missing_configuration_is_named(hub, data, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", data)
    told = python(hub, tmp_path, LOAD, "yanami/bench", "poetry", "map", fails=True)
    assert "poetry" in told and "'fusion'" in told


def test_a_dry_run_writes_what_would_go_up_and_sends_nothing(hub, data, tmp_path):
    done = yanami(hub, tmp_path, "publish", "bench", data, "--dry-run", tmp_path / "dry", token="")
    assert done.stdout == f"written, not sent: {tmp_path / 'dry'}\n" and hub.seen == []
    yanami(hub, tmp_path, "publish", "bench", data)
    there = hub.repo("dataset", "yanami/bench").files()
    del there[".gitattributes"]
    written = [path for path in (tmp_path / "dry").rglob("*") if path.is_file()]
    assert there == {path.relative_to(tmp_path / "dry").as_posix(): path.read_bytes() for path in written}
    assert (
        "isn't empty" in yanami(hub, tmp_path, "publish", "bench", data, "--dry-run", tmp_path / "dry", code=2).stderr
    )


def located(seed):
    """A photo that says where it was taken."""
    exif, buffer = Image.Exif(), io.BytesIO()
    exif.get_ifd(0x8825)[1], exif[0x010F] = "N", "Jane's phone"
    Image.new("RGB", (4, 3), (seed, 0, 0)).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def photographed(out):
    one = dialogue("photo", "fusion")
    images = (located(9), *one.images[1:])
    info = (replace(one.image_info[0], sha256=sha256(images[0])), *one.image_info[1:])
    write_dataset([replace(one, images=images, image_info=info)], out, name="photo")
    return images


def test_places_are_taken_out_of_images_unless_these_are_released(hub, tmp_path):
    images = photographed(tmp_path / "data")
    for options, same in (((), False), (("--released",), True)):
        out = tmp_path / f"dry{same}"
        yanami(hub, tmp_path, "publish", "bench", tmp_path / "data", "--dry-run", out, *options)
        [found] = DialogueFolder(out)
        assert (found.images == images) == same
        assert found.image_info[0].sha256 == sha256(found.images[0])
        assert (b"Jane" in found.images[0]) == same
        told = (out / "README.md").read_text()
        assert ("it was found in 1)" in told, "byte by byte" in told) == (not same, same)


def test_texts_cannot_change_the_structure_of_a_card(hub, data, tmp_path):
    name = "x\n---\nlicense: mit\nconfigs: []\n# Injected\n[a](http://b) <script>"
    yanami(hub, tmp_path, "publish", "bench", data, "--name", name, "--dry-run", tmp_path / "dry")
    card = (tmp_path / "dry" / "README.md").read_bytes()
    assert front(card)["pretty_name"] == name and front(card)["license"] == "other"
    assert yaml.safe_load((tmp_path / "dry" / "eval.yaml").read_text())["name"] == name
    body = card.decode().split("\n---\n", 1)[1]
    assert not re.search(r"^# Injected", body, re.MULTILINE) and "<script>" not in body


def test_card_and_parquet_come_from_the_same_features(data, tmp_path):
    """With another type for numbers in features.py, of a copy of the package, both change."""
    for package in ("yanami_dataset", "yanami_metric", "loading_scripts", "model_cards"):
        shutil.copytree(ROOT / package, tmp_path / "copy" / package, ignore=shutil.ignore_patterns("__pycache__"))
    features = tmp_path / "copy/yanami_dataset/features.py"
    features.write_text(features.read_text().replace('Value("int32")', 'Value("int64")'))
    for code, wanted in ((ROOT, "int32"), (tmp_path / "copy", "int64")):
        out = tmp_path / wanted
        command = [sys.executable, "-m", "yanami_metric.cli", "publish", "bench", data, "--dry-run", out]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(code)}, cwd=code)
        card = (out / "README.md").read_bytes()
        infos = {one["name"]: one for one in front(card)["dataset_info"][0]["features"]}
        in_card = {one["name"]: one for one in infos["image_info"]["list"]}["turn"]["dtype"]
        in_file = pq.read_schema(next((out / "data").rglob("*.parquet"))).field("image_info").type.value_type
        assert (in_card, str(in_file.field("turn").type)) == (wanted, wanted)
        assert f"turn: {wanted}" in card.decode()


def test_the_mini_bench_takes_no_submissions(hub, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", "mini", "--dry-run", tmp_path / "dry")
    card = (tmp_path / "dry" / "README.md").read_text()
    assert not (tmp_path / "dry" / "eval.yaml").exists()
    assert "# yanami mini bench" in card and "smoke and calibration bench" in card


def test_ids_of_repositories():
    assert repo_id("a/b") == "a/b"
    for wrong in ("a", "a/b/c", "a/../b", "a b/c", "a/b\nc: d", "https://huggingface.co/a/b"):
        with pytest.raises(ValueError, match="NAMESPACE/NAME"):
            repo_id(wrong)


# Runs


@pytest.fixture
def run(data, tmp_path):
    made = api.rollout(str(data), "baseline:copy-last", history=("gt", "self"), out=tmp_path / "run")
    api.score(api.judge(made, "tests.support:ScriptedJudge", "exact"))
    return made.path


AGAIN = """
import sys
from huggingface_hub import snapshot_download
from yanami_metric import Run, api
from yanami_metric.data import open_data
folder = snapshot_download(sys.argv[1], repo_type="dataset", local_dir="again")
run = Run.open(folder)
before = api.score(run)["histories"]["gt"]["vr"]["value"]
api.judge(run, "pixel", "exact")
print(before, sorted(one["images"]["name"] for one in __import__("json").load(open("again/run.json"))["judges"]))
from datasets import load_dataset
print(*(len(load_dataset(sys.argv[1], config, split="train")) for config in ("outputs", "verdicts")))
"""


def test_a_run_goes_up_and_is_judged_again_by_others(hub, data, run, tmp_path):
    yanami(hub, tmp_path, "publish", "bench", data)
    yanami(hub, tmp_path, "publish", "run", run, "--repo", "yanami/copy-last", "--data-repo", "yanami/bench")
    files = hub.repo("dataset", "yanami/copy-last").files()
    assert {path.split("/")[0] for path in files} == {
        ".gitattributes", "README.md", "outputs", "run.json", "scores.json", "verdicts.jsonl",
    }  # fmt: skip
    assert str(tmp_path) not in b"".join(files.values()).decode(errors="replace")
    assert len([path for path in files if path.endswith(".png")]) > 8
    home = tmp_path / "others"
    home.mkdir()
    told = python(hub, home, AGAIN, "yanami/copy-last").splitlines()
    vr = json.loads((run / "scores.json").read_text())["histories"]["gt"]["vr"]["value"]
    assert told[0] == f"{vr} ['pixel', 'scripted']"
    outputs, verdicts = map(int, told[1].split())
    assert outputs == 2 * 8 * 4 and verdicts > 40


def test_a_run_that_is_not_scored_or_names_files_elsewhere_stays_here(hub, run, tmp_path):
    lines = run / "outputs/gt/outputs.jsonl"
    (tmp_path / "secret.png").write_bytes(b"secret")
    good = lines.read_text()
    lines.write_text(re.sub(r'"file": "[^"]+"', '"file": "../secret.png"', good))
    told = yanami(hub, tmp_path, "publish", "run", run, "--repo", "yanami/r", code=2).stderr
    assert "expected the image '../secret.png' in the run folder" in told
    lines.write_text(good)
    (run / "scores.json").unlink()
    assert (
        "run `yanami score` first" in yanami(hub, tmp_path, "publish", "run", run, "--repo", "yanami/r", code=2).stderr
    )
    assert hub.repos == {}


# Spaces


def test_the_metric_is_loaded_from_its_space(hub, tmp_path):
    yanami(hub, tmp_path, "publish", "metric")
    files = hub.repo("space", "yanami/yanami").files()
    assert {"app.py", "requirements.txt", "yanami.py", "README.md", "yanami_metric/metric.py"} <= set(files)
    assert front(files["README.md"])["sdk"] == "gradio"
    assert not [path for path in files if path.endswith(".pyc")]
    told = python(hub, tmp_path, "import evaluate\nprint(evaluate.load('yanami/yanami', data='mini').name)")
    assert "yanami" in told


def test_the_leaderboard_is_a_space(hub, tmp_path):
    yanami(hub, tmp_path, "publish", "space", "--dry-run", tmp_path / "dry", "--bench", "me/bench")
    assert "me/bench" in (tmp_path / "dry" / "README.md").read_text()
    assert (tmp_path / "dry" / "bench.txt").read_text() == "me/bench\n"
    assert (tmp_path / "dry" / "app.py").is_file()


def test_selection_of_a_published_bench(hub, data, tmp_path):
    """What yanami itself reads from the Hub."""
    yanami(hub, tmp_path, "publish", "bench", data)
    code = (
        "from yanami_metric.data import open_data, Selection\n"
        "print(len(open_data('yanami/bench', Selection(limit=4))), open_data('yanami/bench').revision)"
    )
    number, revision = python(hub, tmp_path, code).split()
    assert (number, revision) == ("4", DialogueFolder(data).revision)
