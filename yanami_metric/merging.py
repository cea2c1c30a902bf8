"""Putting the run folders of shards together: what several processes rolled out becomes one run.

Lines are copied as they are: keys, seeds and fingerprints are content, so nothing in them knows of shards.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError
from yanami_metric.data import reopen
from yanami_metric.run_folder import RunFolder


def merge(runs: Sequence[Path], out: Path) -> Path:
    """Make one run folder of all shards of a run; `out` must not exist yet.

    Raises:
        RunFolderError: the folders are not all the shards of one run: what differs or is missing is named.
    """
    if out.exists():
        raise RunFolderError(f"{out}: expected a folder that doesn't exist yet")
    settings = _whole([_settings(run) for run in runs], runs)
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    with RunFolder(temporary, settings, writable=True) as merged:
        for run in runs:
            with RunFolder(run) as shard:
                for judges in shard.judges:
                    merged.add_judges(judges)
            _take(run, temporary)
    (temporary / ".lock").unlink(missing_ok=True)
    temporary.rename(out)
    return out


def _settings(run: Path) -> dict[str, Any]:
    with RunFolder(run) as folder:
        return folder.settings


def _whole(all_settings: Sequence[dict[str, Any]], runs: Sequence[Path]) -> dict[str, Any]:
    """The settings of the whole run, from those of all its shards."""
    shards = [settings["data"]["shard"] for settings in all_settings]
    for run, shard in zip(runs, shards, strict=True):
        if shard is None:
            raise RunFolderError(f"{run}: expected a run with --shard, got one over all dialogues")
    count = shards[0][1]
    if sorted(shards) != [[i, count] for i in range(count)]:
        found = ", ".join(f"{i}/{n}" for i, n in sorted(shards))
        raise RunFolderError(f"expected each of the {count} shards once, got {found}")
    plain = [_without_shard(settings) for settings in all_settings]
    for run, settings in zip(runs, plain, strict=True):
        if settings != plain[0]:
            names = [name for name in settings if settings[name] != plain[0][name]]
            raise RunFolderError(f"{run}: expected the settings of {runs[0]}, got others in {', '.join(names)}")
    whole = dict(plain[0]["data"], dialogues=0, name="")
    data = reopen(whole)
    return {**plain[0], "data": data.settings}


def _without_shard(settings: dict[str, Any]) -> dict[str, Any]:
    data = {**settings["data"], "shard": None}
    del data["dialogues"], data["name"]
    return {**settings, "data": data}


def _take(run: Path, into: Path) -> None:
    """Copy outputs, images and verdicts of one shard."""
    for file in sorted(run.rglob("*")):
        name = file.relative_to(run)
        if not file.is_file() or not (name.parts[0] == "outputs" or name.name == "verdicts.jsonl"):
            continue
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        if name.suffix == ".jsonl":
            with file.open("rb") as lines, (into / name).open("ab") as target:
                target.writelines(line for line in lines if line.endswith(b"\n"))  # a torn last line stays behind
        else:
            shutil.copyfile(file, into / name)
