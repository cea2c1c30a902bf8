"""A machine that knows no other Hub than that of tests/hub.py: commands and scripts in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import yaml

from tests.hub import OTHER, OWNER
from tests.support import dialogue
from yanami_dataset.builder import write_dataset
from yanami_dataset.schema import SCENARIOS


def environment(hub, home, token=OWNER):
    """Of a machine that knows this Hub only, and has nothing cached."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE") and name != "HF_TOKEN"}
    more = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    more["HF_MODULES_CACHE"] = str(Path(home) / "modules")
    return kept | more | ({"HF_TOKEN": token} if token else {})


def python(hub, home, code, *arguments, token=OWNER, fails=False):
    """What a script prints, in a process of its own: HF_ENDPOINT is read once, on import."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(hub, home, token), cwd=home, timeout=120
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def yanami(hub, home, *arguments, token=OWNER, code=0):
    command = [sys.executable, "-m", "yanami_metric.cli", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(hub, home, token), cwd=home, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert OWNER not in done.stdout + done.stderr and OTHER not in done.stdout + done.stderr
    return done


def stored(out, number=2, **changes):
    dialogues = [replace(dialogue(f"{s}-{i}", s), **changes) for s in SCENARIOS for i in range(number)]
    write_dataset(dialogues, out, name="small")
    return out


def front(card):
    return yaml.safe_load(re.match(r"---\n(.*?)\n---\n", card.decode(), re.DOTALL)[1])
