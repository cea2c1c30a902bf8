"""`yanami install-metric`: put the metric's loading script where `evaluate.load("yanami")` looks without a network.

evaluate finds $HF_HOME/modules/evaluate_modules/metrics/evaluate-metric--yanami/<hash>/yanami.py.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from yanami_metric.publishing import scripts
from yanami_metric.run_folder import write_atomic

SCRIPT = "yanami.py"


def install() -> Path:
    """Install the loading script for this user; return its path."""
    data = (scripts() / "yanami" / SCRIPT).read_bytes()
    modules = Path(os.environ.get("HF_MODULES_CACHE") or _home() / "modules") / "evaluate_modules"
    folder = modules / "metrics" / "evaluate-metric--yanami" / hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    for package in (modules, modules / "metrics", folder.parent, folder):
        (package / "__init__.py").touch()
    write_atomic(folder / SCRIPT, data)
    return folder / SCRIPT


def _home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser()
