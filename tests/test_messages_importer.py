import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from tests.bad_messages import BAD, animation, assistant, bomb, data_uri, says, shows, text, user
from tests.strategies import colour_png, dialogues
from yanami_dataset.errors import DataError, ImageError, SourceError, SpecError
from yanami_dataset.images import check_images, sha256
from yanami_dataset.importers.messages import read
from yanami_dataset.importers.sources import ImageSources
from yanami_dataset.reader import DialogueFolder
from yanami_dataset.schema import Check, Part, Question, StateOp, Turn

A, B, C = colour_png(1), colour_png(2, 5, 5), colour_png(3)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    for name, data in {"a.png": A, "b.png": B, "c.png": C}.items():
        (tmp_path / "images" / name).write_bytes(data)
    return tmp_path


def write(folder, *lines, name="logs.jsonl"):
    path = folder / name
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" if isinstance(line, dict) else line for line in lines))
    return path


def one(folder, line, **options):
    (dialogue,) = read(write(folder, {"scenario": "editing", **line}), **options)
    check_images(dialogue)
    return dialogue


EXPECTED = (
    (Part("text", "Make it darker."), Part("image", index=0)),
    (Part("text", "Done."), Part("image", index=1)),
    (Part("text", "Now back to"), Part("image", index=0), Part("text", "please, and keep"), Part("image", index=1)),
    (Part("image", index=2),),
)
ROLES = ("reference", "target", "target")
LIST = ["images/a.png", "images/b.png", "images/a.png", "images/b.png", "images/c.png"]

TAGS = [
    user("Make it darker.<image>"),
    assistant("Done. <image>"),
    user("Now back to\n<image>\nplease, and keep <image>"),
    assistant("<image>"),
]
PLACEHOLDERS = [
    user(text("Make it darker."), {"type": "image"}),
    assistant(text("Done."), {"type": "image", "image": None}),
    user(text("Now back to"), {"type": "image"}, text("please, and keep"), {"type": "image", "text": None}),
    assistant({"type": "image"}),
]


def with_sources(name):
    parts = {"image": lambda i: {"type": "image", "image": LIST[i]}}
    parts["path"] = lambda i: {"type": "image", "path": LIST[i]}
    parts["openai"] = lambda i: {"type": "image_url", "image_url": {"url": data_uri((A, B, A, B, C)[i])}}
    parts["string"] = lambda i: {"type": "image_url", "image_url": LIST[i]}
    part = parts[name]
    return [
        user(text("Make it darker."), part(0)),
        assistant(text("Done."), part(1)),
        user(text("Now back to"), part(2), text("please, and keep"), part(3)),
        assistant(part(4)),
    ]


ENCODED = [{"path": LIST[0]}, {"bytes": base64.b64encode(B).decode()}, {"url": data_uri(A)}, data_uri(B), LIST[4]]


@pytest.mark.parametrize(
    "line",
    [
        {"messages": TAGS, "images": LIST},
        {"messages": TAGS, "images": ENCODED},
        {"messages": PLACEHOLDERS, "images": LIST},
        {"messages": PLACEHOLDERS, "images": [{"bytes": None, "path": path} for path in LIST]},
        {"messages": with_sources("image")},
        {"messages": with_sources("path"), "images": []},
        {"messages": with_sources("openai"), "images": None},
        {"messages": with_sources("string")},
    ],
)
def test_every_shape_gives_the_same_dialogue(folder, line):
    dialogue = one(folder, line, assistant_images="target")
    assert tuple(message.content for message in dialogue.messages) == EXPECTED
    assert dialogue.images == (A, B, C)
    assert tuple(info.role for info in dialogue.image_info) == ROLES
    assert [(i.turn, i.sha256, i.width, i.height) for i in dialogue.image_info] == [
        (0, sha256(A), 4, 3),
        (0, sha256(B), 5, 5),
        (1, sha256(C), 4, 3),
    ]
    assert dialogue.id == "logs-1"
    assert dialogue.source == "logs.jsonl, line 1"
    assert dialogue.turns == (Turn(), Turn())


def test_all_else_that_a_line_may_say(folder):
    line = {
        "id": 7,
        "scenario": "fusion",
        "messages": [{"role": "system", "content": "Be brief."}, *TAGS],
        "images": [
            {"path": LIST[0], "source": "a museum", "license": "cc0-1.0"},
            {"path": LIST[1], "role": "observed"},
            *LIST[2:],
        ],
        "turns": [{"capabilities": ["constraint_keeping"], "state": [{"op": "update", "key": "k", "fact": "f"}]}, {}],
        "questions": [
            {"dimension": "context_retrieval", "turn": 1, "question": "Which?", "answer": "it", "images": [0]}
        ],
        "checks": [{"turn": 1, "criterion": "It is light.", "probe": {"predicate": "quality"}}],
        "source": "a study",
        "extra": {"worker": 3},
        "language": "en",
    }
    dialogue = one(folder, line, assistant_images="target", scenario="editing")
    assert (dialogue.id, dialogue.scenario, dialogue.source) == ("7", "fusion", "a study")
    assert json.loads(dialogue.extra) == {"worker": 3, "language": "en", "system": "Be brief."}
    assert tuple(message.content for message in dialogue.messages) == EXPECTED
    assert [i.role for i in dialogue.image_info] == ["reference", "observed", "target"]
    assert [(i.source, i.license) for i in dialogue.image_info][:2] == [("a museum", "cc0-1.0"), ("images/b.png", "")]
    assert dialogue.turns == (Turn(("constraint_keeping",), (StateOp("update", "k", "f"),)), Turn())
    assert dialogue.questions == (Question("q1", "context_retrieval", 1, "Which?", "it", (), (0,)),)
    assert dialogue.checks == (Check("c1", 1, 0, "It is light.", probe='{"predicate": "quality"}'),)


def test_roles_on_the_part_win_over_the_option(folder):
    part = {"type": "image", "image": "images/b.png", "role": "target"}
    line = {"messages": [user("Draw."), assistant(part, {"type": "image", "image": "images/c.png"})]}
    dialogue = one(folder, line, assistant_images="observed")
    assert [info.role for info in dialogue.image_info] == ["target", "observed"]


@pytest.mark.parametrize(
    ("content", "images"),
    [
        ("<image>", None),
        ([{"type": "image"}], None),
        ([{"type": "image", "image": None}], []),
        ([{"type": "image_url", "image_url": None}], None),
        ("<image>", [None]),
        ([{"type": "image"}], [{"path": None, "bytes": None}]),
    ],
)
def test_a_slot_without_ground_truth(folder, content, images):
    line = {"messages": [user("Draw a cat."), {"role": "assistant", "content": content}], "images": images}
    dialogue = one(folder, line)  # nothing to declare
    assert dialogue.assistant(0).content == (Part("image"),)
    assert dialogue.images == ()


def test_an_undo_repeats_bytes_and_a_mention_is_of_the_latest(folder):
    part = {"type": "image", "image": "images/a.png"}
    turn = [user(text("Undo."), part), assistant(part)]
    dialogue = one(folder, {"messages": turn * 3}, assistant_images="target")
    assert [info.role for info in dialogue.image_info] == ["reference", "target", "target", "target"]
    assert [message.image_parts[0].index for message in dialogue.messages] == [0, 1, 1, 2, 2, 3]


def test_a_literal_tag_in_a_text_part_is_text(folder):
    dialogue = one(folder, {"messages": [user(text("What does <image> mean?")), assistant("A tag.")]})
    assert dialogue.user(0).content == (Part("text", "What does <image> mean?"),)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dialogues(scenarios=("editing",), asked=False))
def test_any_dialogue_survives_as_a_chat_log(folder, dialogue):
    def part(value):
        if value.type == "text":
            return text(value.text)
        if value.index is None:
            return {"type": "image"}
        info = dialogue.image_info[value.index]
        role = {} if info.turn * 2 > mentions[0] or mentions[0] % 2 == 0 else {"role": info.role}
        return {"type": "image", "image": data_uri(dialogue.images[value.index]), **role}

    mentions, messages = [0], []
    for i, message in enumerate(dialogue.messages):
        mentions[0] = i
        messages.append({"role": message.role, "content": [part(value) for value in message.content]})
    again = one(folder, {"id": dialogue.id, "messages": messages})
    assert again.messages == dialogue.messages
    assert again.images == dialogue.images
    assert [i.role for i in again.image_info] == [i.role for i in dialogue.image_info]


# what is refused, and what is said: the table is bad_messages.py


@pytest.fixture
def hostile(folder):
    (folder.parent / "secret.png").write_bytes(A)
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "text.png").write_bytes(b"<html>")
    (folder / "zero.png").write_bytes(b"")
    (folder / "cut.png").write_bytes(A[:40])
    (folder / "bomb.png").write_bytes(bomb())
    (folder / "moves.gif").write_bytes(animation())
    return folder


def says_bad(line):
    return isinstance(line, dict) and line["id"] == "bad"


def lines_around(bad):
    return [{**says(), "id": "good"}, bad, {**shows("images/a.png"), "id": "last"}]


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(hostile, name):
    line, expected = BAD[name]
    path = write(hostile, *lines_around(line))
    with pytest.raises(SourceError) as error:
        list(read(path, scenario="editing"))
    message = str(error.value)
    assert message.startswith(f"{path}, line 2")
    if says_bad(line) and name != "half a surrogate":  # that line has no id yet
        assert ", dialogue 'bad': " in message
    assert expected in message
    assert len(message) < 600


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_left_out_when_asked(hostile, name):
    line, expected = BAD[name]
    problems = []
    found = read(write(hostile, *lines_around(line)), scenario="editing", on_bad=problems.append)
    assert [dialogue.id for dialogue in found] == ["good", "last"]
    assert len(problems) == 1
    assert expected in str(problems[0])


def test_no_scenario_tells_both_ways(folder):
    with pytest.raises(
        SourceError, match=r"scenario: expected fusion \| editing .* in the line or by --scenario, got none"
    ):
        list(read(write(folder, says())))


def test_no_file_and_an_empty_one(folder):
    with pytest.raises(SourceError, match="No such file"):
        list(read(folder / "nowhere.jsonl"))
    with pytest.raises(SourceError, match="Is a directory"):
        list(read(folder))
    for content in (b"", b"\n  \n"):
        with pytest.raises(SourceError, match="expected a dialogue a line, got an empty file"):
            list(read(write(folder, content), on_bad=print))


def test_options_are_checked_at_once(folder):
    with pytest.raises(SpecError, match="target or observed, got 'maybe'"):
        read(folder / "x", assistant_images="maybe")
    with pytest.raises(SpecError, match="got 'painting'"):
        read(folder / "x", scenario="painting")


def test_a_byte_order_mark_and_blank_lines_are_fine(folder):
    path = write(folder, b"\xef\xbb\xbf", says(), b"\n", {**says(), "id": "other"})
    assert [d.id for d in read(path, scenario="fusion")] == ["bad", "other"]


def test_an_id_of_a_bad_line_is_free_again(hostile):
    problems = []
    path = write(hostile, shows("zero.png"), says())
    assert [d.id for d in read(path, scenario="fusion", on_bad=problems.append)] == ["bad"]
    assert isinstance(problems[0].__cause__.__cause__ or problems[0].__cause__, DataError)


def test_an_enormous_file_is_not_read(folder):
    path = folder / "huge.png"
    with path.open("wb") as stream:
        stream.truncate(300 * 2**20)  # sparse
    with pytest.raises(
        SourceError, match=r"expected an image of at most 268,435,456 bytes, got 'huge.png' of 314,572,800"
    ):
        ImageSources(folder).read("huge.png")


def test_images_are_read_from_a_folder_behind_a_link(folder, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "data"
    link.symlink_to(folder)
    path = write(folder, shows("images/a.png"))
    assert len(list(read(link / path.name, scenario="fusion"))) == 1


# the command


def invoke(*args):
    from yanami_metric.cli.data import app

    return CliRunner().invoke(app, [str(arg) for arg in args])


def imported(path, out, *more):
    return invoke("import", "--format", "messages", path, out, "--scenario", "editing", *more)


@pytest.mark.parametrize("name", ["no JSON", "undeclared", "truncated", "enormous", "duplicate id", "parent"])
def test_a_failed_import_leaves_nothing(hostile, name):
    before = sorted(hostile.iterdir())
    path = write(hostile, *lines_around(BAD[name][0]))
    result = imported(path, hostile / "out")
    assert isinstance(result.exception, SourceError)
    assert BAD[name][1] in str(result.exception)
    assert sorted(hostile.iterdir()) == sorted([*before, path])


def test_importing_with_everything_bad_left_out(hostile):
    fine = {"undeclared", "undeclared too"}  # declared by the option
    lines = {name: {**line, "id": name} if says_bad(line) else line for name, (line, _) in BAD.items()}
    path = write(hostile, {**says(), "id": "good"}, *lines.values())
    result = imported(path, hostile / "out", "--skip-bad", "--json", "--assistant-images", "target", "--quiet")
    summary = json.loads(result.stdout)
    assert summary["scenarios"]["editing"]["dialogues"] == 3
    assert set(DialogueFolder(hostile / "out").ids()) == {"good", *fine}
    expected = [expected for name, (_, expected) in BAD.items() if name not in fine]
    assert len(summary["skipped"]) == len(expected)
    assert all(piece in reason for piece, reason in zip(expected, summary["skipped"], strict=True))


def test_import_and_show(folder):
    path = write(folder, {"id": "d1", "messages": TAGS, "images": LIST}, {**says(), "id": "d2"})
    result = imported(path, folder / "out", "--assistant-images", "target")
    assert result.exit_code == 0
    assert "dialogues 2, images 3" in result.stdout
    assert DialogueFolder(folder / "out").get("d1").images == (A, B, C)
    shown = invoke("show", folder / "out")
    assert "[image 2: target 5x5]" in shown.stdout
    assert "2 dialogues; others: d2" in shown.stdout
    assert invoke("show", folder / "out", "d2").stdout.startswith("d2 (editing, 1 turn, 0 images)")
    assert "got 'd9'" in str(invoke("show", folder / "out", "d9").exception)
    again = imported(path, folder / "out", "--assistant-images", "target", "--quiet")
    assert isinstance(again.exception, SpecError)
    assert isinstance(invoke("import", "--format", "csv", path, folder / "x").exception, SpecError)


def test_the_text_of_the_summary_is_short_and_harmless(hostile):
    lines = [{**shows("zero.png"), "id": f"\x1b[2J{n}"} for n in range(15)]
    result = imported(write(hostile, says(), *lines), hostile / "out", "--skip-bad")
    assert "left out 15:" in result.stdout
    assert "and 5 more; --json lists all" in result.stdout
    assert "\x1b" not in result.stdout


def test_image_errors_are_data_errors():
    assert issubclass(ImageError, DataError)
