"""Knowing at a glance that a run is finished, so that the same command again costs next to nothing.

When nothing is left to do, a run notes what was asked of it and what its folder holds. If both are still so, the stages
need not go through every item again to find that each is there. Anything else, and they do.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from yanami_metric.run_folder import RunFolder

NOTE = "finished.json"


def is_finished(folder: RunFolder, asked: dict[str, Any]) -> bool:
    """Whether the folder notes that all this is done, and holds what it held then.

    Args:
        asked: JSON-able, everything that the results depend on.
    """
    path = folder.path / NOTE
    if not path.is_file():
        return False
    note: dict[str, Any] = json.loads(path.read_text())
    return note == {"asked": _digest(asked), "holds": _digest(_holds(folder.path))}


def note_finished(folder: RunFolder, asked: dict[str, Any]) -> None:
    """Note that all this is done."""
    folder.write_json(NOTE, {"asked": _digest(asked), "holds": _digest(_holds(folder.path))})


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _holds(path: Path) -> list[list[Any]]:
    """Name, size and time of every file but the note itself."""
    stats = [(entry.path, entry.stat()) for entry in _files(str(path)) if entry.name not in (NOTE, ".lock")]
    return sorted([os.path.relpath(name, path), stat.st_size, stat.st_mtime_ns] for name, stat in stats)


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:  # many thousand files: the entries know their kind already
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry


def code() -> str:
    """Changes with the code of this package: what an older one finished is looked at again."""
    import yanami_metric

    return _digest(_holds(Path(yanami_metric.__path__[0])))
