"""Models in a program of their own: whole rollouts with programs that answer, die, hang, flood and lie."""

from __future__ import annotations

import ast
import gc
import json
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.strategies import colour_png
from tests.support import dialogue
from yanami_dataset.errors import ModelError, SpecError
from yanami_dataset.images import sha256
from yanami_metric.api import rollout
from yanami_metric.models import open_model, serve
from yanami_metric.models.child import Child
from yanami_metric.models.command import KEPT, CommandModel
from yanami_metric.records import Output, Request
from yanami_metric.run_folder import RunFolder

# What most programs share: the protocol by hand, and an image that depends on what was shown and on the seed.
PRELUDE = """
import hashlib, json, os, struct, sys, time, zlib
log = open(os.environ["PROGRAM_LOG"], "a")
def note(text): log.write(text + "\\n"); log.flush()
note("start")
def png(seed):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\\0" + bytes([seed % 251, seed // 251 % 251, 9]) * 4
    head = struct.pack(">IIBBBBB", 4, 3, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * 3)) + chunk(b"IEND", b"")
    return b"\\x89PNG\\r\\n\\x1a\\n" + body
def read(): line = sys.stdin.readline(); return json.loads(line) if line else sys.exit(0)
def write(answer): print(json.dumps(answer))
hello = read()
def greet(**caps): write({"protocol": 1, "caps": {"outputs": ["text", "images"], **caps}, "identity": "program/1"})
names = iter(range(10 ** 9))
def draw(request):
    if request["expects"] == "text": return {"id": request["id"], "text": "a cat"}
    images = []
    for seed in request["seeds"]:
        images.append(str(next(names)) + ".png")
        open(os.path.join(hello["output_folder"], images[-1]), "wb").write(png(seed))
    return {"id": request["id"], "images": images}
"""
CORRECT = """
greet()
while True: write(draw(read()))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a program and returns the command that runs it; `program.log()` are the notes that it made."""
    log = tmp_path / "log"
    monkeypatch.setenv("PROGRAM_LOG", str(log))

    def write(code: str) -> list[str]:
        path = tmp_path / "program.py"
        path.write_text(PRELUDE + textwrap.dedent(code))
        return [sys.executable, str(path)]

    write.log = lambda: log.read_text().split("\n")[:-1]
    return write


@pytest.fixture
def model():
    """Makes models that are closed in the end."""
    made = []

    def make(*arguments, **options):
        made.append(CommandModel(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def records(run, history="gt"):
    with RunFolder(run.path) as folder:
        return {(d.id, *item): record for d in run.data for item, record in folder.current(history, d.id).items()}


def request(expects="images", *, seeds=(7,), images=(), messages=()):
    return Request("k" * 64, "d1", 0, messages, images, expects, len(seeds), seeds)


def gone(pid: int) -> bool:
    """Whether a process has ended, or does within three seconds."""
    for _ in range(60):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":  # an orphan that the first process hasn't reaped yet
            return True
        time.sleep(0.05)
    return False


# What works


def test_a_program_draws_and_answers(program, model, tmp_path):
    run = rollout([dialogue("d1"), dialogue("d2")], model(program(CORRECT)), history="gt,self", out=tmp_path / "run")
    for history in ("gt", "self"):
        found = records(run, history)
        assert len(found) == 8 and {record.status for record in found.values()} == {"ok"}
        assert found["d1", 0, "q-first"].text == "a cat"
        assert len({record.images[0].sha256 for record in found.values() if record.images}) == 4
    assert program.log() == ["start"]
    with RunFolder(run.path) as folder:
        assert folder.settings["model"]["identity"] == "program/1"


def test_the_spec_string_and_its_options_reach_the_program(program):
    argv = program('note(json.dumps([hello["load"], hello["call"], hello["protocol"]]))\ngreet(max_images=3)')
    opened = open_model(f"command:{argv[0]} '{argv[1]}'", None, {"load.dtype": "bf16", "steps": 50, "tag": "epoch-3"})
    assert program.log()[1:] == ['[{"dtype": "bf16"}, {"steps": 50}, 1]']
    assert opened.identity.startswith("program/1 epoch-3+") and opened.caps.max_images == 3  # and its options
    opened.close()


def test_the_request_has_everything_and_the_images_are_the_bytes_of_the_data(program, model, tmp_path):
    see = """
    greet(outputs=["images"])
    while True:
        r = read()
        shown = [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in r["images"]]
        named = [os.path.basename(path) for path in r["images"]]
        note(json.dumps([r["messages"], r["labels"], r["expects"], r["count"], r["size"], r["more"], shown, named]))
        write(draw(r))
    """
    one = dialogue()
    rollout([one], model(program(see)), out=tmp_path / "run")
    first = min(map(json.loads, program.log()[1:]), key=lambda line: len(line[0]))
    messages, labels, expects, count, size, more, shown, named = first
    assert messages[0]["content"][1:] == [{"type": "text", "text": "Image 1:"}, {"type": "image", "index": 0}]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert (labels, expects, count, size, more) == ([[1]], "images", 1, [4, 3], 0)
    assert shown == [one.image_info[0].sha256] and named == [f"{shown[0]}.png"]


def test_self_shows_the_program_its_own_image(program, model, tmp_path):
    see = """
    greet(outputs=["images"])
    while True:
        r = read()
        note(" ".join(hashlib.sha256(open(path, "rb").read()).hexdigest() for path in r["images"]))
        write(draw(r))
    """
    run = rollout([dialogue()], model(program(see)), history="self", out=tmp_path / "run")
    own = records(run, "self")["d1", 1, None].images[0].sha256
    assert program.log()[2] == f"{dialogue().image_info[0].sha256} {own}"


def test_answers_to_a_batch_may_come_in_any_order(program, model, tmp_path):
    turned = """
    greet(max_batch=3)
    while True:
        batch = [read()]
        while batch[-1]["more"]: batch.append(read())
        note(str(len(batch)))
        for r in reversed(batch): write(draw(r))
    """
    dialogues = [dialogue("d1"), dialogue("d2")]
    turned_run = rollout(dialogues, model(program(turned)), out=tmp_path / "turned")
    assert program.log()[1:] == ["3", "3", "2"]
    straight = rollout(dialogues, model(program(CORRECT)), out=tmp_path / "straight")
    hashes = [{k: r.images[0].sha256 for k, r in records(run).items() if r.images} for run in (turned_run, straight)]
    assert hashes[0] == hashes[1] and len(hashes[0]) == 4


def test_long_requests_and_long_answers_pass_both_ways_at_once(program, model):
    from yanami_dataset.schema import Message, Part

    long = Message("user", (Part("text", "long " * 400_000),))
    echo = """
    greet(max_batch=4)
    while True:
        r = read()
        sys.stderr.write("e" * 200_000)
        write({"id": r["id"], "text": r["messages"][0]["content"][0]["text"]})
    """
    outputs = model(program(echo)).generate([request("text", messages=(long,))] * 4)
    assert [output.text == "long " * 400_000 for output in outputs] == [True] * 4


def test_statuses_thinking_and_missing_images_are_the_program_s_own(program, model, tmp_path):
    says = """
    greet()
    while True:
        r = read()
        if r["expects"] == "text": write({"id": r["id"], "text": "4", "thinking": "2 + 2", "reason": None})
        elif len(r["images"]) == 1: write({"id": r["id"], "status": "model_refused", "reason": "policy"})
        else: write({"id": r["id"], "images": [None]})
    """
    found = records(rollout([dialogue()], model(program(says)), out=tmp_path / "run"))
    assert (found["d1", 0, "q-first"].text, found["d1", 0, "q-first"].thinking) == ("4", "2 + 2")
    assert (found["d1", 1, None].status, found["d1", 1, None].reason) == ("model_refused", "policy")
    assert found["d1", 3, None].status == "missing_output"


# What goes wrong: always an output with a reason, and the run goes on

FAULTS = {
    "dies": ("print('no more', file=sys.stderr); os._exit(3)", "ended with exit code 3"),
    "is killed": ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
    "raises": ("raise RuntimeError('no more')", "RuntimeError: no more"),
    "hangs": ("time.sleep(600)", "was silent for 1 seconds"),
    "prints": ("print('Loading weights: 50 %')", "wrote something else than a JSON object on standard output: b'Load"),
    "prints a list": ("print('[' * 100_000)", "wrote something else than a JSON object"),
    "wrong id": ("write({'id': 'who?', 'text': 'x'})", "answered what it was not asked: id 'who?'"),
    "no id": ("write({'text': 'x'})", "answered what it was not asked: id 'None'"),
    "a line without end": ("sys.stdout.write('x' * 100_000_000)", "wrote a line of more than 16,777,216 bytes"),
    "closes its output": ("os.close(1); time.sleep(600)", "closed its standard output"),
    "half a line": ("sys.stdout.write('{\"id\"'); sys.stdout.flush(); os._exit(0)", "ended with exit code 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_that_fails_costs_one_output_and_is_started_again(program, model, tmp_path, fault):
    does, reason = FAULTS[fault]
    argv = program(f"""
    greet()
    while True:
        r = read()
        if r["expects"] == "images" and len(r["images"]) == 2:
            {does}
        else: write(draw(r))
    """)
    found = records(rollout([dialogue()], model(argv, timeout=1), out=tmp_path / "run"))
    failed = found.pop(("d1", 3, None))
    assert failed.status == "generation_error" and reason in failed.reason
    assert len(failed.reason) < 2000
    assert {record.status for record in found.values()} == {"ok"}
    assert program.log() == ["start", "start"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("'images': ['../in/x.png']", "/in/x.png' lies outside the output folder"),
        ("'images': ['/etc/passwd']", "'/etc/passwd' lies outside the output folder"),
        ("'images': [link()]", "lies outside the output folder"),
        ("'images': ['none.png']", "there is no file 'none.png' in the output folder"),
        ("'images': ['']", "there is no file 'out'"),
        ("'images': ['a\\0b']", "can't be used"),
        ("'images': ['x' * 5000]", "can't be used"),
        ("'images': 'x.png'", "expected images to be a list of file names or null, got 'x.png'"),
        ("'image': 'x.png'", "expected keys among id, images, text, thinking, status, reason, got image"),
        ("'text': 3", "expected text to be a string or null, got '3'"),
        ("'status': 'fine'", "expected a status of ok, missing_output"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_output_and_the_program_runs_on(program, model, tmp_path, answer, reason):
    (tmp_path / "outside.png").write_bytes(colour_png(1))
    argv = program(f"""
    greet()
    def link():
        os.symlink({str(tmp_path / "outside.png")!r}, os.path.join(hello["output_folder"], "link.png"))
        return "link.png"
    while True:
        r = read()
        write({{"id": r["id"], {answer}}} if r["expects"] == "images" and len(r["images"]) == 1 else draw(r))
    """)
    found = records(rollout([dialogue()], model(argv), out=tmp_path / "run"))
    failed = found.pop(("d1", 1, None))
    assert failed.status == "generation_error" and reason in failed.reason
    assert {record.status for record in found.values()} == {"ok"}
    assert program.log() == ["start"] and (tmp_path / "outside.png").exists()


def test_one_file_for_two_requests_of_a_batch_is_refused(program, model):
    argv = program("""
    greet(max_batch=2)
    while True:
        r = read()
        open(os.path.join(hello["output_folder"], "out.png"), "wb").write(png(r["seeds"][0]))
        write({"id": r["id"], "images": ["out.png"] * r["count"]})
    """)
    drawing = model(argv)
    first, second = drawing.generate([request(), request()])
    assert first.status == "ok" and "named for another request" in second.reason
    assert drawing.generate([request(seeds=(1, 1))])[0].images == drawing.generate([request(seeds=(1, 1))])[0].images


def test_of_a_batch_that_fails_only_the_bad_request_is_lost(program, model):
    argv = program("""
    greet(max_batch=4)
    while True:
        r = read()
        if r["seeds"] == [13]: os._exit(1)
        write(draw(r))
    """)
    outputs = model(argv).generate([request(seeds=(seed,)) for seed in (11, 12, 13, 14)])
    assert [output.status for output in outputs] == ["ok", "ok", "generation_error", "ok"]
    assert len({output.images[0] for output in outputs if output.images}) == 3


def test_a_batch_that_cannot_be_sent_whole_leaves_nothing_that_is_taken_for_the_next(program, model):
    from yanami_metric.records import ImageRef

    def unreadable():
        raise OSError("the disk is gone")

    drawing = model(program(CORRECT))
    with pytest.raises(OSError, match="the disk is gone"):
        drawing.generate([request(), request(images=(ImageRef("0" * 64, 4, 3, unreadable),))])
    expected = model(program(CORRECT)).generate([request(seeds=(9,))])
    assert drawing.generate([request(seeds=(9,))]) == expected


def test_it_is_not_started_for_ever(program, model):
    argv = program("greet()\nread()\nprint('out of memory', file=sys.stderr)\nos._exit(1)")
    dying = model(argv, restarts=2)
    reasons = [dying.generate([request()])[0].reason for _ in range(6)]
    assert program.log() == ["start"] * 3
    assert all("failed 3 times in a row" in reason and "out of memory" in reason for reason in reasons[3:])
    assert len(reasons[-1]) == len(reasons[3])


def test_another_model_in_its_place_is_noticed(program, model):
    argv = program("""
    write({"protocol": 1, "caps": {"outputs": ["text"]}, "identity": open(os.environ["PROGRAM_LOG"]).read()})
    read(); os._exit(1)
    """)
    changing = model(argv)
    assert "exit code 1" in changing.generate([request()])[0].reason
    assert "was started again and says" in changing.generate([request()])[0].reason


# Nothing is left behind


def test_nothing_of_a_program_survives_it(program, model):
    spawns = """
    import subprocess
    note(str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid))
    note(str(os.getpid()))
    greet()
    while True:
        r = read()
        note(hello["output_folder"])
        if r["expects"] == "images": time.sleep(600)
        write(draw(r))
    """
    hanging = model(program(spawns), timeout=0.5)
    hanging.generate([request()])
    assert gone(int(program.log()[1])) and gone(int(program.log()[2]))
    assert hanging.generate([request("text")])[0].text == "a cat"
    hanging.close()
    _, _, _, folder, _, child, own, _ = program.log()
    assert gone(int(child)) and gone(int(own)) and not Path(folder).parent.exists()


def test_a_model_that_nobody_holds_is_ended(program):
    argv = program("note(hello['output_folder'])\nnote(str(os.getpid()))\ngreet()\nread()")
    forgotten = CommandModel(argv)
    del forgotten
    gc.collect()
    _, folder, pid = program.log()
    assert gone(int(pid)) and not Path(folder).parent.exists()


def test_closing_lets_it_end_by_itself_and_using_it_again_starts_it(program, model):
    argv = program("greet()\nfor line in sys.stdin: write(draw(json.loads(line)))\nnote('bye')")
    polite = model(argv)
    polite.close()
    assert program.log() == ["start", "bye"]
    assert polite.generate([request("text")])[0].text == "a cat"
    polite.close()
    polite.close()
    assert program.log() == ["start", "bye"] * 2


def test_images_do_not_pile_up(program, model):
    from yanami_metric.records import ImageRef

    argv = program("""
    greet()
    while True:
        r = read()
        inputs = os.listdir(os.path.dirname(r["images"][0]))
        note(f"{len(inputs)} {len(os.listdir(hello['output_folder']))} {all(map(os.path.exists, r['images']))}")
        write(draw(r))
    """)
    reads = []

    def image(number):
        data = colour_png(number)
        return ImageRef(sha256(data), 4, 3, lambda: reads.append(number) or data)

    drawing = model(argv)
    for numbers in (range(KEPT + 2), [1, 5]):
        drawing.generate([request(images=tuple(image(number) for number in numbers))])
    assert program.log()[1:] == [f"{KEPT + 2} 0 True", f"{KEPT + 1} 0 True"]
    assert reads == [*range(KEPT + 2), 1]  # each written once; those not used for longest are written anew


# What is refused before anything runs


@pytest.mark.parametrize(
    ("hello", "message"),
    [
        ("sys.exit('no weights')", "ended with exit code 1; the end of its standard error:\nno weights"),
        ("time.sleep(600)", "was silent for 1 seconds"),
        ("print('Hi!')", "something else than a JSON object on standard output: b'Hi!'"),
        ("write({})", 'caps: expected an object with at least "outputs", got None'),
        ("write({'protocol': 2})", "protocol: expected 1, got 2"),
        ("greet(outputs=['sound'])", 'caps.outputs: expected a list of "text" and/or "images", got [\'sound\']'),
        ("greet(max_image=3)", "caps.max_image: expected one of outputs, placement, interleaved"),
        ("greet(max_images=True)", "caps.max_images: expected a whole number of 0 or more, or null, got True"),
        ("greet(max_batch=0)", "caps.max_batch: expected a whole number of 1 or more, got 0"),
        ("greet(placement='behind')", "caps.placement: expected one of interleaved, front"),
        ("greet(seeded='yes')", "caps.seeded: expected true or false, got 'yes'"),
        ("write({'protocol': 1, 'caps': {'outputs': ['text']}})", "or give them a name with --model-tag NAME"),
        ("write({'protocol': 1, 'caps': {'outputs': ['text']}, 'identity': ''})", "identity: expected a string"),
    ],
)
def test_a_hello_that_cannot_be_used_says_what_to_mend(program, hello, message):
    with pytest.raises(ModelError) as error:
        CommandModel(program(hello + "\nread()"), start_timeout=1)
    assert message in str(error.value) and "command:" in str(error.value)


def test_a_tag_names_weights_that_have_no_other_name(program, model):
    argv = program("write({'protocol': 1, 'caps': {'outputs': ['text']}})\nread()")
    assert model(argv, tag="epoch-3").identity == "epoch-3"


@pytest.mark.parametrize(
    ("argv", "options", "error", "message"),
    [
        ("", {}, SpecError, "expected a program and its arguments, got ''"),
        ("<argv>", {}, SpecError, "name the one that runs the model, e.g. --model 'command:"),
        ("'open", {}, SpecError, "No closing quotation"),
        ("no-such-program-anywhere --x", {}, ModelError, "can't be started: [Errno 2]"),
        ("cat", {"call": {"steps": {1}}}, SpecError, "expected call options that are JSON"),
        ("cat", {"load": {"timeout": "long"}}, SpecError, "expected timeout to be a number of 0 or more, got 'long'"),
    ],
)
def test_a_command_that_makes_no_sense(argv, options, error, message):
    with pytest.raises(error) as raised:
        CommandModel(argv, **options)
    assert message in str(raised.value)


def test_the_times_can_be_set_by_options(program, model):
    set_up = model(program(CORRECT), load={"timeout": 3, "start_timeout": 60, "restarts": 0, "dtype": "bf16"})
    assert (set_up.timeout, set_up.start_timeout, set_up.restarts) == (3, 60, 0)
    assert set_up.load == {"dtype": "bf16"}


# The process itself


def test_a_child_whose_grandchild_holds_the_pipes_has_ended_all_the_same():
    child = Child(["sh", "-c", "echo last words; sleep 600 & exit 7"])
    assert child.line(10) == b"last words"
    start = time.monotonic()
    with pytest.raises(Exception, match="exit code 7"):
        child.line(60)
    assert time.monotonic() - start < 30


def test_lines_are_told_apart_however_they_arrive():
    child = Child(["sh", "-c", "printf 'a\\nb'; sleep 0.3; printf 'c\\n\\nlast\\n'; cat >&2"])
    assert [child.line(10) for _ in range(4)] == [b"a", b"bc", b"", b"last"]
    child.send(b"noted")
    fault = child.fault("was in the way")
    child.stop()
    assert str(fault).startswith("the program was in the way")


# The helper for the other side

SERVED = """
import os, sys
from serve import Output, options, serve
given = options()
print("Loading weights: 50 %")
os.system("echo a library in C prints too")
from PIL import Image
def generate(requests):
    print("drawing", len(requests))
    return [answer(request) for request in requests]
def answer(request):
    if request.expects == "text":
        return Output(text=" ".join([request.messages[-1].role, request.messages[-1].text, *map(str, given["call"])]))
    if len(request.images) == 2:
        return Output(images=[request.images[-1].read(), request.images[0].path, None, Image.new("RGB", (5, 6))])
    if request.seeds[0] == 13:
        raise MemoryError("too many")
    return Output(status="model_refused", reason="policy") if not request.count else Output(images=[b"x", object()])
serve(generate, caps={"outputs": ["text", "images"], "max_batch": 8}, identity="served/1")
"""


@pytest.fixture
def served(tmp_path):
    """A program of the helper's, copied beside it into a folder that knows nothing of yanami."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(serve.__file__, folder / "serve.py")

    def write(code=SERVED):
        (folder / "program.py").write_text(code)
        return [sys.executable, str(folder / "program.py")]

    return write


def test_the_helper_serves_a_function(served, model):
    from yanami_dataset.schema import Message, Part
    from yanami_metric.records import ImageRef

    data = [colour_png(1), colour_png(2)]
    images = tuple(ImageRef(sha256(one), 4, 3, lambda one=one: one, (i + 1,)) for i, one in enumerate(data))
    asks = (Message("user", (Part("text", "Which"), Part("image", index=0), Part("text", "one?"))),)
    serving = model(served(), call={"steps": 4})
    assert serving.identity.startswith("served/1+") and serving.caps.max_batch == 8  # and its options
    text, drawn = serving.generate([request("text", images=images[:1], messages=asks), request(images=images)])
    assert text == Output(images=[], text="user Which one? steps")
    assert drawn.images[:3] == [data[1], data[0], None] and drawn.images[3].startswith(b"\x89PNG")


def test_what_the_helped_function_raises_is_the_output_of_one_request(served, model):
    bad, good, unsaved = model(served()).generate([request(seeds=(13,)), request("text"), request()])
    assert (bad.status, bad.reason) == ("generation_error", "MemoryError: too many")
    assert unsaved.status == "generation_error" and "an image can't be saved: AttributeError" in unsaved.reason
    assert good.status == "generation_error"  # it asks for the last message of none


def test_the_helper_needs_nothing_newer_than_python_3_8():
    source = Path(serve.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {
        "__future__",
        "collections.abc",
        "json",
        "os",
        "pathlib",
        "shutil",
        "sys",
        "traceback",
        "typing",
    }
    called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "attr")}
    assert not called & {"removeprefix", "removesuffix", "is_relative_to", "hardlink_to", "walk"}
    assert not any(
        keyword.arg == "strict" for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords
    )


def test_the_helper_says_when_nobody_of_yanami_is_there(served):
    done = subprocess.run(served(), input=b"hello\n", capture_output=True, check=False)
    assert done.returncode == 1 and done.stdout == b""
    done = subprocess.run(served(), input=b"", capture_output=True, check=False)
    assert b"expected a hello of yanami, protocol 1, got None" in done.stderr
