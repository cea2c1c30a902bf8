"""`yanami install-metric`: put the metric's loading script where `evaluate.load("yanami")` looks without a network.

evaluate finds $HF_HOME/modules/evaluate_modules/metrics/evaluate-metric--yanami/<hash>/yanami.py.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import yanami_metric
from yanami_metric.run_folder import write_atomic

SCRIPT = "yanami.py"


def install() -> Path:
    """Install the loading script for this user; return its path."""
    data = _script().read_bytes()
    modules = Path(os.environ.get("HF_MODULES_CACHE") or _home() / "modules") / "evaluate_modules"
    folder = modules / "metrics" / "evaluate-metric--yanami" / hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    for package in (modules, modules / "metrics", folder.parent, folder):
        (package / "__init__.py").touch()
    write_atomic(folder / SCRIPT, data)
    return folder / SCRIPT


def _script() -> Path:
    package = Path(yanami_metric.__path__[0])
    # a wheel has loading_scripts inside the package, a checkout beside it
    homes = [package / "loading_scripts", package.parent / "loading_scripts"]
    return next(home for home in homes if home.is_dir()) / "yanami" / SCRIPT


def _home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser()
