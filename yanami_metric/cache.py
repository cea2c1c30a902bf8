"""Verdicts shared between runs: one small file for each fingerprint, so that many processes may use one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from yanami_metric.run_folder import write_atomic


class Cache:
    """A folder of verdicts by the fingerprint of their call. Failures are never kept.

    Args:
        folder: made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, fingerprint: str) -> Path:
        return self.folder / fingerprint[:2] / f"{fingerprint}.json"

    def find(self, fingerprint: str) -> dict[str, Any] | None:
        """What a judge said to this call, as `Bench` keeps it; None if it isn't here."""
        try:
            found: dict[str, Any] = json.loads(self._path(fingerprint).read_bytes())
        except FileNotFoundError:
            return None
        return found

    def keep(self, fingerprint: str, answer: dict[str, Any]) -> None:
        """Keep what a judge said."""
        path = self._path(fingerprint)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(answer).encode())
