"""Runs uploaded as a zip: scored as at home, whoever sent them and whatever is in them."""

import io
import json
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yanami_dataset.errors import DataError, RunFolderError, YanamiError
from yanami_metric import api, tables
from yanami_metric.data import Selection
from yanami_metric.formulas import Weights
from yanami_metric.mini import mini_folder
from yanami_metric.uploads import AS_UPLOADED, RECOMPUTED, Bounds, rescored

SOME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEEDED = ("run.json", "scores.json", "verdicts.jsonl", "outputs/gt/outputs.jsonl", "outputs/self/outputs.jsonl")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = api.rollout(
        "mini",
        "baseline:copy-last",
        history=("gt", "self"),
        selection=Selection(limit=4),
        out=tmp_path_factory.mktemp("uploads") / "run",
    )
    api.score(api.judge(run))
    return run


@pytest.fixture(scope="module")
def files(run):
    return {name: (run.path / name).read_bytes() for name in NEEDED}


@pytest.fixture(scope="module")
def plain(files, tmp_path_factory):
    """The scores of the files as they are."""
    return rescored(written(tmp_path_factory.mktemp("plain") / "run.zip", files.items()))


@pytest.fixture
def zipped(tmp_path):
    return lambda files, name="run.zip": written(tmp_path / name, files.items())


def written(path, entries):
    """A zip of (name or ZipInfo, content) pairs, in this order."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def edited(files, name, change):
    """The files with one JSON file changed by a function on what it holds."""
    value = json.loads(files[name])
    change(value)
    return {**files, name: json.dumps(value).encode()}


def of(scores):
    return scores["facts"]["Scores"]


# Scores


def test_the_scores_are_those_of_the_folder(run, tmp_path):
    shutil.make_archive(str(tmp_path / "run"), "zip", run.path.parent, "run")  # images and all, in a folder
    scores, own = rescored(tmp_path / "run.zip"), json.loads((run.path / "scores.json").read_text())
    assert of(scores) == RECOMPUTED
    for name in ("histories", "dataset", "judge", "placement", "weights"):
        assert scores[name] == own[name]
    assert tables.is_mini(scores)


def test_weights_mean_and_judge_are_those_asked_for(run, files, zipped):
    path = zipped(files)
    how = {"weights": Weights(dsu=0.5, sc=0.5, vq=0.5), "sc_mean": "check"}
    try:
        assert rescored(path, **how)["histories"] == api.score(run, **how)["histories"]
    finally:
        api.score(run)
    assert rescored(path, judge="pixel")["histories"] == rescored(path)["histories"]
    with pytest.raises(RunFolderError, match="the uploaded run: expected a judge among pixel, got 'other'"):
        rescored(path, judge="other")


def test_claimed_scores_of_the_mini_bench_count_for_nothing(files, plain, zipped):
    def claim(scores):
        scores["histories"]["gt"]["vr"]["value"] = 99.5

    lie = zipped(edited(files, "scores.json", claim), "lie.zip")
    assert rescored(lie) == plain
    assert rescored(zipped({name: files[name] for name in files if name != "scores.json"})) == plain


def test_a_verdict_changes_the_scores(files, zipped):
    lines = [json.loads(line) for line in files["verdicts.jsonl"].splitlines()]
    for line in lines:
        line["items"] = [{**item, "value": 1.0, "status": "scored"} for item in line["items"]]
    better = {**files, "verdicts.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines)}
    scores = rescored(zipped(better))["histories"]["gt"]
    assert (scores["sc"]["value"], scores["dsu"]["value"], scores["vq"]["value"]) == (100, 100, 10)


def test_unjudged_items_are_unscored_not_wrong(files, zipped):
    scores = rescored(zipped({**files, "verdicts.jsonl": b""}))["histories"]["gt"]
    assert scores["vr"]["value"] is None
    assert scores["vr"]["bounds"] == [0, 100]


def test_a_torn_last_line_is_left_out(files, plain, zipped):
    torn = {**files, "verdicts.jsonl": files["verdicts.jsonl"] + b'{"dialogue": "x'}
    assert rescored(zipped(torn)) == plain


# What is opened


@pytest.mark.filterwarnings("ignore:'org/data' is a folder here")  # it stands in for a data set on the Hub
@pytest.mark.parametrize("spec", ["folder", "relative", "unknown/data-set", "/etc/passwd", "https://example.org/x", ""])
def test_nothing_but_the_mini_bench_is_opened(spec, files, zipped, tmp_path, monkeypatch):
    if spec == "folder":
        spec = str(mini_folder())
    elif spec == "relative":
        shutil.copytree(mini_folder(), tmp_path / "org" / "data")
        monkeypatch.chdir(tmp_path)
        spec = "org/data"

    def elsewhere(run):
        run["settings"]["data"]["spec"] = spec

    def claim(scores):
        scores["histories"]["gt"]["vr"]["value"] = 99.5
        scores["dataset"]["mini"] = False

    path = zipped(edited(edited(files, "run.json", elsewhere), "scores.json", claim))
    scores = rescored(path)
    assert of(scores).startswith(AS_UPLOADED)
    assert scores["histories"]["gt"]["vr"]["value"] == 99.5
    if spec == "org/data":  # the caller may name what is opened
        named = rescored(path, hubs=["org/data"])
        assert of(named) == RECOMPUTED
        assert named["histories"]["gt"]["vr"]["value"] < 99


def test_another_mini_bench_is_shown_as_uploaded_and_still_called_one(files, zipped):
    def older(run):
        run["settings"]["data"]["revision"] = "0" * 64

    def claim(scores):
        scores["dataset"] |= {"mini": False, "name": "YANAMI-Bench"}
        scores["model"]["spec"] = "another"

    scores = rescored(zipped(edited(edited(files, "run.json", older), "scores.json", claim)))
    assert of(scores).startswith(f"{AS_UPLOADED}: mini: expected the data of this run, revision 000000000000")
    assert tables.is_mini(scores)
    assert (scores["dataset"]["name"], tables.model_name(scores)) == ("mini-limit4", "baseline:copy-last")


def test_a_formula_that_the_weights_dont_give_is_not_shown(files, zipped):
    def elsewhere(run):
        run["settings"]["data"]["spec"] = "elsewhere"

    def claim(scores):
        scores["histories"]["gt"]["formula"] = "<b>all right</b>"

    scores = rescored(zipped(edited(edited(files, "run.json", elsewhere), "scores.json", claim)))
    assert scores["histories"]["gt"]["formula"] == "0.4 DSU + 0.36 SC + 0.24 VQ"


def test_images_that_are_named_are_not_read(files, plain, zipped):
    lines = [json.loads(line) for line in files["outputs/gt/outputs.jsonl"].splitlines()]
    for line in lines:
        line["images"] = [image and {**image, "file": "../../../../etc/passwd"} for image in line["images"]]
    other = {**files, "outputs/gt/outputs.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines)}
    assert rescored(zipped(other)) == plain


# Zips that mean harm


def link(name):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def packed(name, method):
    entry = zipfile.ZipInfo(name)
    entry.compress_type = method
    return entry


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("/run.json", "a path inside"),
        ("../run.json", "a path inside"),
        ("outputs/../../x", "a path inside"),
        ("outputs\\gt\\outputs.jsonl", "a path inside"),
        ("C:/x", "a path inside"),
        (link("outputs/gt/images"), "no links"),
        (packed("x", zipfile.ZIP_LZMA), "stored or deflated"),
        (packed("x", zipfile.ZIP_BZIP2), "stored or deflated"),
    ],
)
def test_what_an_honest_zip_has_not_is_refused(entry, expected, files, tmp_path):
    path = written(tmp_path / "run.zip", [*files.items(), (entry, b"x")])
    with pytest.raises(RunFolderError, match=expected):
        rescored(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(files, tmp_path):
    path = written(tmp_path / "run.zip", [*files.items(), ("run.json", b"{}")])
    with pytest.raises(RunFolderError, match=r"'run.json': expected each name once"):
        rescored(path)


def test_encrypted_files_are_refused(files, zipped):
    path = zipped(files)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(RunFolderError, match="without encryption"):
        rescored(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip", b"PK\x05\x06" + 18 * b"\xff"])
def test_what_is_no_zip_is_refused(content, tmp_path):
    path = tmp_path / "run.zip"
    path.write_bytes(content)
    with pytest.raises(RunFolderError, match="the zip: expected"):
        rescored(path)


def test_one_run_folder_is_expected(files, zipped):
    with pytest.raises(RunFolderError, match=r"expected one run folder .* got none"):
        rescored(zipped({"a/b/run.json": b"{}", "__MACOSX/._run.json": b""}, "deep.zip"))
    with pytest.raises(RunFolderError, match=r"expected one run folder .* got 'a/', 'b/'"):
        rescored(zipped({"a/run.json": b"{}", "b/run.json": b"{}"}, "two.zip"))
    with pytest.raises(RunFolderError, match=r"expected outputs/<history>/outputs.jsonl"):
        rescored(zipped({"run.json": files["run.json"]}))
    inside = {f"x/{name}": data for name, data in files.items()} | {"__MACOSX/x/._run.json": b""}
    assert of(rescored(zipped(inside))) == RECOMPUTED


def test_every_byte_is_counted(files, zipped):
    path = zipped(files)
    for bounds, expected in (
        (Bounds(entries=4), "at most 4 entries, got"),
        (Bounds(total=10_000), "unpacks to too many bytes"),
        (Bounds(free=10_000, ratio=1), "unpacks to too many bytes"),
        (Bounds(document=100), "run.json: expected less"),
        (Bounds(line=200), "lines of at most 200 bytes"),
    ):
        with pytest.raises(RunFolderError, match=expected):
            rescored(path, bounds=bounds)


def test_a_bomb_is_stopped_at_the_bound(files, zipped):
    bomb = zipped({**files, "verdicts.jsonl": b" " * (80 << 20)})
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(RunFolderError, match="lines of at most"):
        rescored(bomb)
    with pytest.raises(RunFolderError, match="unpacks to too many bytes"):
        rescored(bomb, bounds=Bounds(line=1 << 30))


def test_a_size_that_lies_is_no_help(files, zipped):
    path = zipped(files)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(YanamiError):
        rescored(path)


# Contents that mean harm


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", b"[]"),
        ("run.json", b"\xff"),
        ("run.json", b"[" * 100_000),
        ("run.json", b"{}"),
        ("verdicts.jsonl", b'{"dialogue": NaN}\n'),
        ("verdicts.jsonl", b"{}\n"),
        ("outputs/gt/outputs.jsonl", b"null\n"),
    ],
)
def test_damaged_files_are_named(name, content, files, zipped):
    with pytest.raises(DataError, match=f"the zip, {name}"):
        rescored(zipped({**files, name: content}))


def test_values_out_of_range_are_no_scores(files, zipped):
    for value in (11, -1, 1e999, True, "1"):
        lines = [json.loads(line) for line in files["verdicts.jsonl"].splitlines()]
        lines[0]["items"][0]["value"] = value
        text = "\n".join(map(json.dumps, lines)).replace("Infinity", "1e999") + "\n"
        with pytest.raises(DataError, match=r"verdicts.jsonl, line 1"):
            rescored(zipped({**files, "verdicts.jsonl": text.encode()}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=10), part, max_size=3),
    max_leaves=8,
)


def places(value, path=()):
    """The path of every value inside a value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@SOME
@given(name=st.sampled_from(NEEDED), at=st.integers(0, 10_000), other=JSON)
def test_what_gets_through_can_be_shown(name, at, other, files):
    """Any value anywhere in any file, replaced by any JSON: an error of ours, or scores that every table takes."""
    if name == "scores.json":
        files = edited(files, "run.json", lambda run: run["settings"]["data"].update(spec="elsewhere"))
    lines = files[name].splitlines() if name.endswith(".jsonl") else [files[name]]
    value = json.loads(lines[0])
    found = list(places(value))[1:]
    *parents, last = found[at % len(found)]
    part = value
    for key in parents:
        part = part[key]
    part[last] = other
    changed = {**files, name: b"\n".join([json.dumps(value).encode(), *lines[1:]]) + b"\n"}
    shown_or_refused(changed.items())


def shown_or_refused(entries):
    with tempfile.TemporaryDirectory() as folder:
        try:
            scores = rescored(written(Path(folder) / "run.zip", entries))
        except YanamiError:
            return None
        json.dumps(scores, allow_nan=False)
        text = tables.markdown(scores)
        text.encode()
        return scores


NAMES = st.one_of(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=30),
    st.lists(st.sampled_from(["..", ".", "", "run.json", "outputs", "gt", "~", "x", "C:", "\\"]), min_size=1).map(
        "/".join
    ),
).filter(lambda name: name and name not in NEEDED)


@SOME
@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(name=NAMES, content=st.binary(max_size=20))
def test_a_name_changes_nothing_or_is_refused(name, content, files, plain, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.chdir(home)
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    path = written(tmp_path / "named.zip", [*files.items(), (name, content)])
    try:
        scores = rescored(path)
    except RunFolderError:
        pass
    else:
        assert scores == plain
    assert list(home.iterdir()) == []
    assert {one.name for one in tmp_path.iterdir()} <= {"home", "named.zip"}


@SOME
@given(draw=st.data())
def test_any_damage_is_an_error_of_ours_or_harmless(draw, files):
    buffer = io.BytesIO()
    written(buffer, files.items())
    data = bytearray(buffer.getvalue())
    directory = data.index(b"PK\x01\x02")
    for at in draw.draw(st.lists(st.integers(0, len(data) - 1) | st.integers(directory, len(data) - 1), max_size=4)):
        data[at] = draw.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.zip"
        path.write_bytes(data[: draw.draw(st.just(len(data)) | st.integers(0, len(data)))])
        try:
            json.dumps(rescored(path), allow_nan=False)
        except YanamiError as error:
            assert folder not in str(error)
