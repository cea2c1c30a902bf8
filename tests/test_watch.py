"""`yanami watch`: checkpoints that appear are evaluated once, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from tests.test_training import Kept
from yanami_dataset.errors import RunFolderError, SpecError
from yanami_metric.cli.options import JudgingOptions
from yanami_metric.cli.watch import watch
from yanami_metric.training.watching import INCOMPLETE, Watch, eval_command, signature, step_of

# a model whose weights are a file of a checkpoint: what it draws, and how it fails
MODEL = """
import os, sys
from pathlib import Path
from yanami_metric import Caps, Output


class Checkpoint:
    caps = Caps(outputs=frozenset({"images"}), min_images=1)

    def __init__(self, folder):
        self.weights = Path(folder, "weights.txt").read_text()
        self.identity = self.weights
        if self.weights == "killed":
            os._exit(9)
        if self.weights == "bad":
            sys.exit("these weights are bad")

    def generate(self, requests):
        blank = self.weights == "blank"
        return [Output(images=[None if blank else r.images[-1].read()] * r.count) for r in requests]
"""
ASK = ["--model", "watched_model:Checkpoint", "--set", "folder={checkpoint}", "--limit", "4"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "watched_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    return tmp_path


def checkpoint(place, name, weights, marker="trainer_state.json"):
    folder = place / "checkpoints" / name
    folder.mkdir(exist_ok=True)
    (folder / "weights.txt").write_text(weights)
    if marker:
        (folder / marker).write_text("{}")
    return folder


def watching(place, trackers=(), settle=0.5, command=None):
    told = []
    made = Watch(
        place / "checkpoints", place / "runs", command or eval_command(ASK), trackers, settle=settle, tell=told.append
    )
    return made, told


def test_each_is_evaluated_once_and_logged_under_its_step(place):
    checkpoint(place, "checkpoint-1000", "copies")
    checkpoint(place, "checkpoint-500", "blank", marker="")
    (place / "checkpoints" / "latest").symlink_to("checkpoint-1000")
    (place / "checkpoints" / "tmp-checkpoint-1500").mkdir()
    kept = Kept()
    watched, told = watching(place, [kept])
    assert watched.run(0.1, once=True) == 0
    logged = {step: scalars for step, scalars, _ in kept.logged}
    assert set(logged) == {500, 1000} and logged[500]["yanami/gt/sc"] == 0 < logged[1000]["yanami/gt/sc"]
    assert all(list(images) == ["yanami/gt/images"] for _, _, images in kept.logged)
    assert sorted(path.name for path in (place / "runs").iterdir()) == [
        "checkpoint-1000",
        "checkpoint-500",
        "watch.json",
    ]
    assert "checkpoint-500: gt overall 0.0, vr 0.0" in "\n".join(told)
    again, told = watching(place, [kept])
    assert again.run(0.1, once=True) == 0 and told == [] and len(kept.logged) == 2
    checkpoint(place, "checkpoint-1500", "copies")
    assert again.run(0.1, once=True) == 0 and kept.logged[-1][0] == 1500 and len(kept.logged) == 3


def test_one_that_fails_is_told_and_tried_again_only_when_it_changes(place):
    checkpoint(place, "checkpoint-1", "killed")
    checkpoint(place, "checkpoint-2", "bad")
    checkpoint(place, "checkpoint-3", "blank")
    kept = Kept()
    watched, told = watching(place, [kept])
    assert watched.run(0.1, once=True) == 2 and [step for step, _, _ in kept.logged] == [3]
    failures = [line for line in told if "failed" in line]
    assert "checkpoint-1: failed with exit code 9" in failures[0] and "these weights are bad" in failures[1]
    count = len(told)
    assert watched.run(0.1, once=True) == 2 and len(told) == count
    checkpoint(place, "checkpoint-2", "copies")
    assert watched.run(0.1, once=True) == 1 and [step for step, _, _ in kept.logged] == [3, 2]


def test_it_waits_until_a_checkpoint_is_complete(place):
    folder = checkpoint(place, "checkpoint-7", "bad", marker="")
    stop = time.monotonic() + 2

    def write():
        while time.monotonic() < stop:
            with (folder / "more.bin").open("ab") as file:
                file.write(b"x" * 100)
            time.sleep(0.1)
        (folder / "weights.txt").write_text("copies")

    writer = threading.Thread(target=write)
    writer.start()
    watched, told = watching(place, settle=1.0)
    assert watched.run(0.1, once=True) == 0
    writer.join()
    assert (folder / "more.bin").stat().st_size > 500 and len(told) == 2


def test_runs_of_another_command_are_refused_and_so_is_nonsense(place):
    checkpoint(place, "checkpoint-7", "copies")
    watched, _ = watching(place)
    watched.run(0.1, once=True)
    with pytest.raises(RunFolderError, match="another command"):
        watching(place, command=eval_command([*ASK, "--history", "self"]))
    with pytest.raises(SpecError, match="folder of checkpoints"):
        Watch(place / "nothing", place / "runs", eval_command(ASK))
    with pytest.raises(SpecError, match=r"\{checkpoint\}"):
        watching(place, command=eval_command(["--model", "baseline:blank"]))


def test_one_without_a_step_is_scored_and_not_logged(place):
    checkpoint(place, "final", "copies")
    kept = Kept()
    watched, told = watching(place, [kept])
    assert watched.run(0.1, once=True) == 0 and kept.logged == [] and "nothing is logged" in told[-1]
    assert (place / "runs" / "final" / "scores.json").is_file()


def test_a_tracker_that_fails_ends_nothing(place):
    class Failing:
        def log(self, scalars, images, step):
            raise OSError("disk full")

    checkpoint(place, "checkpoint-7", "copies")
    watched, told = watching(place, [Failing()])
    assert watched.run(0.1, once=True) == 0 and "Failing failed: OSError: disk full" in told[-1]


@pytest.mark.parametrize(
    ("name", "step"),
    [("checkpoint-500", 500), ("checkpoint_0", 0), ("epoch3-ema2", 3), ("step=12", 12), ("a1-b2", 2), ("final", None)],
)
def test_steps(name, step):
    assert step_of(name) == step


def test_a_signature_changes_with_content(tmp_path):
    (tmp_path / "a").write_text("1")
    before = signature(tmp_path)
    assert before == signature(tmp_path) != ()
    (tmp_path / "b").write_text("")
    assert signature(tmp_path) != before


def test_options_of_judges_are_named_as_their_fields():
    for name, hint in get_type_hints(JudgingOptions, include_extras=True).items():
        assert hint.__metadata__[0].default == f"--{name.replace('_', '-')}"


app = typer.Typer()
app.command("watch")(watch)
app.command("other")(lambda: None)


def command(*arguments):
    return CliRunner().invoke(app, ["watch", "checkpoints", *map(str, arguments)])


def test_the_command(place):
    checkpoint(place, "checkpoint-5", "copies")
    more = ["--once", "--out", "runs", "--trackers", "tensorboard", "--samples", "1", "--judge-context", "candidate"]
    done = command(*ASK, *more)
    assert done.exit_code == 0 and "checkpoint-5: gt overall" in done.output, done.output
    assert list((place / "runs" / "tensorboard").glob("events.*"))
    noted = json.loads((place / "runs" / "watch.json").read_text())
    assert noted["done"] == {"checkpoint-5": 5}
    assert noted["command"][noted["command"].index("--judge-context") + 1] == "candidate"
    assert "--samples" not in noted["command"]  # as it is anyway
    checkpoint(place, "checkpoint-6", "bad")
    assert command(*ASK, *more).exit_code == INCOMPLETE


def test_a_command_of_ones_own(place):
    checkpoint(place, "checkpoint-5", "copies")
    own = [sys.executable, "-m", "yanami_metric.cli", "eval", "-q", "--out", "{out}", *ASK, "--model-tag", "at {step}"]
    done = command("--once", "--out", "runs", "--", *own)
    assert done.exit_code == 0, done.output
    run = json.loads((place / "runs" / "checkpoint-5" / "run.json").read_text())
    assert run["settings"]["model"]["identity"] == "copies at 5"
    assert isinstance(command("--once").exception, SpecError)


def test_ctrl_c_ends_the_process_too(place):
    checkpoint(place, "checkpoint-5", "copies")
    pid = place / "pid"
    sleeper = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(100) # {{checkpoint}}"
    code = (
        "from pathlib import Path; from yanami_metric.training.watching import Watch; import sys; "
        f"Watch(Path('checkpoints'), Path('runs'), [sys.executable, '-c', {sleeper!r}]).run(0.1)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    watched = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, env=environment)
    try:
        stop = time.monotonic() + 60
        while not (pid.is_file() and pid.read_text()) and time.monotonic() < stop:
            time.sleep(0.1)
        watched.send_signal(signal.SIGINT)
        _, said = watched.communicate(timeout=30)
    finally:
        watched.kill()
    assert b"KeyboardInterrupt" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
