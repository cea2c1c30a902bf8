"""Rollouts with a scripted model: what is asked, what is stored, what is never asked twice."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from PIL import Image

from tests.strategies import colour_png
from tests.support import ScriptedModel, dialogue
from yanami_dataset.errors import HistoryError, ModelError, RunFolderError, SpecError
from yanami_dataset.images import sha256
from yanami_metric.api import rollout
from yanami_metric.data import Selection
from yanami_metric.records import HISTORIES, Caps, Output
from yanami_metric.run_folder import OutputRecord, RunFolder

ONE_BY_ONE = Caps()
DIALOGUES = [dialogue("d1"), dialogue("d/2"), dialogue("D1", draws=3)]


def records(run, history="gt") -> dict[tuple[str, int, str | None], OutputRecord]:
    with RunFolder(run.path) as folder:
        return {(d.id, *item): record for d in run.data for item, record in folder.current(history, d.id).items()}


def lines(run, history="gt") -> int:
    return len((run.path / "outputs" / history / "outputs.jsonl").read_text().splitlines())


def test_every_slot_and_question_has_one_output_with_its_image_on_disk(tmp_path):
    model = ScriptedModel()
    run = rollout(DIALOGUES, model, history=HISTORIES, out=tmp_path / "run")
    for history in HISTORIES:
        found = records(run, history)
        assert len(found) == sum(len(d.questions) + len(d.slots) for d in DIALOGUES) == 13
        assert {record.status for record in found.values()} == {"ok"}
        for record in found.values():
            for image in record.images:
                data = (run.path / image.file).read_bytes()
                assert (sha256(data), image.width, image.height) == (image.sha256, 4, 3)
    files = [image.file for record in records(run).values() for image in record.images]
    assert len({file.lower() for file in files}) == len(files)  # d1 and D1 would be one file on some disks


def test_the_same_command_again_asks_nothing(tmp_path):
    first, again = ScriptedModel(), ScriptedModel()
    rollout(DIALOGUES, first, history=HISTORIES, out=tmp_path / "run")
    run = rollout(DIALOGUES, again, history=HISTORIES, out=tmp_path / "run")
    assert len(first.requests) == 4 * 13 and again.requests == []
    assert lines(run) == 13


def test_self_shows_the_model_its_own_image_and_gt_the_target(tmp_path):
    model = ScriptedModel()
    run = rollout([dialogue()], model, history="gt,self", out=tmp_path / "run")
    second = {r.images[1].sha256: r for r in model.requests if r.expects == "images" and len(r.images) == 2}
    own = records(run, "self")["d1", 1, None].images[0]
    assert second.keys() == {dialogue().image_info[1].sha256, own.sha256}


def test_batches_are_as_large_as_the_model_takes(tmp_path):
    model = ScriptedModel(caps=Caps(max_batch=4))
    rollout([dialogue("a"), dialogue("b")], model, history="gt", out=tmp_path / "run")
    assert model.batches == [4, 4]
    model.batches.clear()
    rollout([dialogue("a"), dialogue("b")], model, history="self", out=tmp_path / "run")
    assert model.batches == [4, 2, 2]  # first slots and questions, second slots, questions about them


@pytest.mark.parametrize(
    ("output", "status", "reason"),
    [
        (Output(), "missing_output", "no image"),
        (Output(images=[None]), "missing_output", "no image"),
        (Output(images=[b"not an image"]), "missing_output", "image 0: expected an image"),
        (Output(images=[colour_png(5)[:-20]]), "missing_output", "image 0"),
        (Output(images=[[1, 2]]), "missing_output", "expected encoded bytes or a PIL image from the model, got list"),
        (Output(status="model_refused", reason="policy"), "model_refused", "policy"),
        (Output(status="great"), "generation_error", "expected a status of"),
        ("no output", "generation_error", "expected 1 Output objects from generate(), got ['str']"),
    ],
)
def test_what_goes_wrong_is_a_status_with_a_reason(tmp_path, output, status, reason):
    model = ScriptedModel(lambda request: output if request.expects == "images" else None)
    record = records(rollout([dialogue()], model, out=tmp_path / "run"))["d1", 1, None]
    assert record.status == status and reason in record.reason
    assert not any(record.images)


def test_a_blank_answer_is_missing(tmp_path):
    model = ScriptedModel(lambda request: Output(text=" \n") if request.expects == "text" else None)
    assert records(rollout([dialogue()], model, out=tmp_path / "run"))["d1", 0, "q-first"].status == "missing_output"


def test_more_images_than_asked_are_kept_but_are_not_the_output(tmp_path):
    images = [Image.new("RGB", (8, 9), "red"), colour_png(7)]
    model = ScriptedModel(lambda request: Output(images=images) if request.expects == "images" else None)
    record = records(rollout([dialogue()], model, out=tmp_path / "run"))["d1", 1, None]
    assert (record.images[0].width, record.images[0].height) == (8, 9)
    assert [extra.sha256 for extra in record.extras] == [sha256(colour_png(7))]


def test_an_error_is_tried_again_and_nothing_else_is(tmp_path):
    def fails(request):
        if request.turn == 3 and request.expects == "images":
            raise RuntimeError("out of memory")

    run = rollout(DIALOGUES, ScriptedModel(fails, Caps(max_batch=3)), out=tmp_path / "run")
    failed = {key for key, record in records(run).items() if record.status == "generation_error"}
    assert failed == {(d.id, 3, None) for d in DIALOGUES}
    again = ScriptedModel()
    run = rollout(DIALOGUES, again, out=tmp_path / "run")
    assert {(r.dialogue, r.turn, r.question) for r in again.requests} == failed
    assert {record.status for record in records(run).values()} == {"ok"}


def test_after_an_error_self_waits_rather_than_going_on_without_the_image(tmp_path):
    failing = ScriptedModel(
        lambda r: Output(status="generation_error", reason="5xx") if (r.turn, r.expects) == (1, "images") else None
    )
    run = rollout([dialogue()], failing, history="self", out=tmp_path / "run")
    after = records(run, "self")["d1", 3, None]
    assert (after.status, after.reason) == ("generation_error", "turn 1 of this dialogue failed: 5xx")
    undisturbed = rollout([dialogue()], ScriptedModel(), history="self", out=tmp_path / "other")
    run = rollout([dialogue()], ScriptedModel(), history="self", out=tmp_path / "run")
    assert {k: r.key for k, r in records(run, "self").items()} == {
        k: r.key for k, r in records(undisturbed, "self").items()
    }


def test_a_lost_image_file_is_made_again(tmp_path):
    run = rollout([dialogue()], ScriptedModel(), out=tmp_path / "run")
    image = records(run)["d1", 1, None].images[0]
    (run.path / image.file).unlink()
    again = ScriptedModel()
    rollout([dialogue()], again, out=tmp_path / "run")
    assert [(r.turn, r.question) for r in again.requests] == [(1, None)]
    assert sha256((run.path / image.file).read_bytes()) == image.sha256


def test_a_model_that_only_draws_is_asked_no_questions(tmp_path):
    model = ScriptedModel(caps=Caps(outputs=frozenset({"images"})))
    rollout([dialogue()], model, out=tmp_path / "run")
    assert {request.expects for request in model.requests} == {"images"}


def test_what_a_model_cannot_take_is_unsupported(tmp_path):
    few = ScriptedModel(caps=Caps(max_images=1))
    run = rollout([dialogue(draws=3)], few, out=tmp_path / "few")
    assert {len(request.images) for request in few.requests} == {1}  # a grid
    needs = ScriptedModel(caps=Caps(min_images=2))
    run = rollout([dialogue()], needs, out=tmp_path / "needs")
    assert records(run)["d1", 1, None].status == "unsupported"
    assert "needs at least 2 images, 1 are shown" in records(run)["d1", 1, None].reason


def test_gt_is_refused_before_anything_runs_where_a_target_is_missing(tmp_path):
    model = ScriptedModel()
    with pytest.raises(HistoryError, match=r"'d2'.*--history self"):
        rollout([dialogue(), dialogue("d2", targets=False)], model, out=tmp_path / "run")
    assert model.requests == [] and not (tmp_path / "run").exists()
    rollout([dialogue("d2", targets=False)], model, history="self,last,none", out=tmp_path / "run")


def test_other_settings_are_refused_with_the_difference(tmp_path):
    rollout([dialogue()], ScriptedModel(), out=tmp_path / "run")
    with pytest.raises(RunFolderError, match="seed: the folder has 0, asked for is 1"):
        rollout([dialogue()], ScriptedModel(), seed=1, out=tmp_path / "run")
    with pytest.raises(RunFolderError, match=r"model\.identity: the folder has 'scripted/1'"):
        rollout([dialogue()], ScriptedModel(identity="scripted/2"), out=tmp_path / "run")
    with pytest.raises(RunFolderError, match=r"data\.revision"):
        rollout([dialogue("other")], ScriptedModel(), out=tmp_path / "run")


def test_order_batches_and_shards_change_no_seed_and_no_key(tmp_path):
    def keys(name, dialogues, caps=ONE_BY_ONE, shard=None):
        run = rollout(
            dialogues, ScriptedModel(caps=caps), history="self", out=tmp_path / name, selection=Selection(shard=shard)
        )
        return {key: (record.key, record.images) for key, record in records(run, "self").items()}

    whole = keys("whole", DIALOGUES)
    assert keys("reversed", DIALOGUES[::-1], Caps(max_batch=8)) == whole
    parts = [keys(f"part{i}", DIALOGUES, shard=(i, 2)) for i in range(2)]
    assert parts[0] | parts[1] == whole and not parts[0].keys() & parts[1].keys()


def test_a_second_writer_is_refused(tmp_path):
    run = rollout([dialogue()], ScriptedModel(), out=tmp_path / "run")
    with RunFolder(run.path, writable=True), pytest.raises(RunFolderError, match="another process is writing"):
        rollout([dialogue()], ScriptedModel(), out=tmp_path / "run")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (object(), "caps: expected"),
        (
            ScriptedModel(caps=Caps(outputs=frozenset({"video"}))),
            "caps.outputs: expected 'text' and/or 'images', got video",
        ),
        (ScriptedModel(identity=""), "identity: expected a string"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, model, message):
    with pytest.raises(ModelError, match=message):
        rollout([dialogue()], model, out=tmp_path / "run")


@pytest.mark.parametrize("spec", ["baseline:magic", "replay:", "gpt", "no.such.module:Class", "json:NoClass"])
def test_what_names_no_model_is_refused(tmp_path, spec):
    with pytest.raises(SpecError, match="model"):
        rollout([dialogue()], spec, out=tmp_path / "run")


def test_the_baselines_do_what_they_say(tmp_path):
    two = replace(
        dialogue(),
        images=(*dialogue().images[:2], colour_png(9)),
        image_info=(*dialogue().image_info[:2], replace(dialogue().image_info[2], sha256=sha256(colour_png(9)))),
    )
    runs = {
        n: rollout([two], f"baseline:{n}", history=HISTORIES, out=tmp_path / n)
        for n in ("reference", "copy-last", "blank")
    }
    reference, copied, blank = (records(runs[n]) for n in runs)
    assert [reference["d1", t, None].images[0].sha256 for t in (1, 3)] == [i.sha256 for i in two.image_info[1:]]
    assert [copied["d1", t, None].images[0].sha256 for t in (1, 3)] == [i.sha256 for i in two.image_info[:2]]
    assert [records(runs["copy-last"], "self")["d1", t, None].images[0].sha256 for t in (1, 3)] == [
        two.image_info[0].sha256
    ] * 2
    assert records(runs["copy-last"], "none")["d1", 1, None].status == "missing_output"
    assert reference["d1", 0, "q-first"].text == "a cat"
    assert copied["d1", 0, "q-first"].text == "What is it?"
    assert blank["d1", 0, "q-first"].status == "missing_output"
    with Image.open(runs["blank"].path / blank["d1", 1, None].images[0].file) as image:
        assert (image.size, image.getcolors()) == ((4, 3), [(12, (255, 255, 255))])


def test_run_json_says_what_was_run(tmp_path):
    run = rollout([dialogue()], ScriptedModel(), history="gt", placement="front", seed=3, out=tmp_path / "run")
    settings = json.loads((run.path / "run.json").read_text())["settings"]
    assert settings["model"]["identity"] == "scripted/1"
    assert settings["data"]["revision"] == run.data.revision
    assert (settings["placement"], settings["seed"]) == ("front", 3)
