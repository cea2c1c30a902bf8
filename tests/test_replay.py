"""Outputs made elsewhere: found by the manifest, compared with the dialogues before anything runs."""

from __future__ import annotations

import json

import pytest

from tests.strategies import colour_png
from tests.support import dialogue
from yanami_dataset.errors import ModelError
from yanami_metric.api import rollout
from yanami_metric.data import Selection
from yanami_metric.run_folder import RunFolder

DIALOGUES = [dialogue("d1"), dialogue("d2")]


def complete() -> list[dict]:
    lines = []
    for n, d in enumerate(DIALOGUES):
        lines += [{"dialogue": d.id, "turn": t, "images": [f"sub/{n}-{t}.png"]} for t in d.generation_turns]
        lines += [{"dialogue": d.id, "question": q.id, "text": q.answer} for q in d.questions]
    return lines


def write(folder, lines, *, files=True):
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = [name for line in lines for name in line.get("images", ()) if name] if files else []
    for n, name in enumerate(names):
        (folder / name).write_bytes(colour_png(500 + n))
    return f"replay:{folder}"


def test_outputs_are_those_of_the_folder(tmp_path):
    run = rollout(DIALOGUES, write(tmp_path / "out", complete()), history="gt,self", out=tmp_path / "run")
    with RunFolder(run.path) as folder:
        for history in ("gt", "self"):
            second = folder.current(history, "d2")[3, None]
            assert (run.path / second.images[0].file).read_bytes() == colour_png(503)
            assert folder.current(history, "d2")[0, "q-first"].text == "a cat"


def test_missing_null_and_refused_outputs_say_so(tmp_path):
    lines = complete()
    lines[0] = {"dialogue": "d1", "turn": 1, "images": [None]}
    lines[1] = {"dialogue": "d1", "turn": 3, "status": "model_refused", "reason": "policy"}
    run = rollout(DIALOGUES, write(tmp_path / "out", lines), out=tmp_path / "run")
    with RunFolder(run.path) as folder:
        records = folder.current("gt", "d1")
    assert records[1, None].status == "missing_output"
    assert (records[3, None].status, records[3, None].reason) == ("model_refused", "policy")


def test_a_line_of_one_history_counts_there_only(tmp_path):
    own = {"dialogue": "d1", "turn": 1, "images": ["sub/own.png"], "history": "self"}
    run = rollout(DIALOGUES, write(tmp_path / "out", [*complete(), own]), history="gt,self", out=tmp_path / "run")
    with RunFolder(run.path) as folder:
        hashes = {h: folder.current(h, "d1")[1, None].images[0].sha256 for h in ("gt", "self")}
    assert hashes["gt"] != hashes["self"]


def test_a_model_that_answered_nothing_at_all_is_one_that_draws(tmp_path):
    drawn = [line for line in complete() if "turn" in line]
    run = rollout(DIALOGUES, write(tmp_path / "out", drawn), out=tmp_path / "run")
    with RunFolder(run.path) as folder:
        assert folder.settings["model"]["caps"]["outputs"] == ["images"]


def test_part_of_the_dialogues_needs_no_other_manifest(tmp_path):
    rollout(DIALOGUES, write(tmp_path / "out", complete()), selection=Selection(limit=1), out=tmp_path / "run")


def test_missing_and_extra_outputs_are_listed_together(tmp_path):
    lines = [*complete()[1:], {"dialogue": "d9", "turn": 0, "images": []}, {"dialogue": "d2", "turn": 2, "images": []}]
    with pytest.raises(ModelError) as error:
        rollout(DIALOGUES, write(tmp_path / "out", lines), out=tmp_path / "run")
    text = str(error.value)
    assert "manifest.jsonl can't be used" in text
    assert "missing: dialogue 'd1', turn 1, history 'gt'" in text
    assert "extra: dialogue 'd9', turn 0" in text and "extra: dialogue 'd2', turn 2" in text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"dialogue": "d1", "turn": 1, "images": ["../out.png"]}, "line 1: '../out.png' lies outside the folder"),
        ({"dialogue": "d1", "turn": 1, "images": ["/etc/passwd"]}, "lies outside the folder"),
        ({"dialogue": "d1", "turn": 1, "images": ["none.png"]}, "line 1: 'none.png' is missing"),
        ({"dialogue": "d1", "turn": 1, "images": ["broken.png"]}, "'broken.png' is unreadable"),
        ({"dialogue": "d1", "turn": 1, "images": ["link.png"]}, "lies outside the folder"),
        ({"dialogue": "d1", "turn": 1, "question": "q"}, "either a turn (a number) or a question (an id)"),
        ({"dialogue": "d1", "turn": 1, "image": "x"}, "expected keys among"),
        ({"turn": 1}, "expected an object with a dialogue id"),
        ({"dialogue": "d1", "turn": 1, "images": "x.png"}, "expected images to be a list of file names or null"),
        ({"dialogue": "d1", "turn": 1, "status": "fine"}, "expected a status of"),
        ({"dialogue": "d1", "turn": 1, "history": "all"}, "expected a history of"),
        ({"dialogue": "d1", "question": "q", "text": 3}, "expected text to be a string"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, line, message):
    folder = tmp_path / "out"
    spec = write(folder, [line], files=False)
    (folder / "broken.png").write_bytes(colour_png(1)[:40])
    (tmp_path / "outside.png").write_bytes(colour_png(1))
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(ModelError) as error:
        rollout(DIALOGUES, spec, out=tmp_path / "run")
    assert message in str(error.value)


def test_a_second_line_no_json_and_no_manifest(tmp_path):
    spec = write(tmp_path / "out", [complete()[0]] * 2)
    with pytest.raises(ModelError, match="line 2: a second line for dialogue 'd1', turn 1"):
        rollout(DIALOGUES, spec, out=tmp_path / "run")
    (tmp_path / "out" / "manifest.jsonl").write_bytes(b"\xff{}\n")
    with pytest.raises(ModelError, match="line 1: expected JSON in UTF-8"):
        rollout(DIALOGUES, spec, out=tmp_path / "run")
    with pytest.raises(ModelError, match=r"expected a manifest at .*found none"):
        rollout(DIALOGUES, f"replay:{tmp_path}", out=tmp_path / "run")


def test_other_files_under_the_same_names_are_another_model(tmp_path):
    from yanami_metric.models.replay import Replay

    spec = write(tmp_path / "out", complete())
    before = Replay(spec.partition(":")[2]).identity
    assert Replay(spec.partition(":")[2]).identity == before
    (tmp_path / "out" / "sub" / "0-1.png").write_bytes(colour_png(9))
    assert Replay(spec.partition(":")[2]).identity != before
