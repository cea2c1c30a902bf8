"""Spec strings of the form `module:Class`, for models and judges of one's own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from yanami_dataset.errors import SpecError


def load_class(spec: str, what: str) -> Any:
    """The class (or function) that `module:Class` names; modules in the working directory are found too.

    Raises:
        SpecError: no such module, or no such name in it.
    """
    module_name, _, name = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` has it; a console script's path starts at its own folder
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SpecError(f"{what} {spec!r}: can't import {module_name!r} ({error})") from error
    if not hasattr(module, name):
        raise SpecError(
            f"{what} {spec!r}: expected a class {name!r} in {module.__name__} ({module.__file__}), found none"
        )
    return getattr(module, name)
