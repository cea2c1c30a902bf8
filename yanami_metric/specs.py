"""What specs of models and of judges share: options, and `module:Class` for those of one's own."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from yanami_dataset.errors import SpecError

LOAD = "load."  # prefix of the options that go to loading
SECRETS = {"api_key", "apikey", "key", "token", "hf_token", "access_token", "secret", "password", "authorization"}


def refuse_secrets(names: Iterable[str]) -> None:
    """Refuse options that hold keys by their names.

    Raises:
        SpecError: there is one.
    """
    for name in names:
        if name.rpartition(".")[2].lower() in SECRETS:
            raise SpecError(f"{name}: keys come from the environment, as options are written to run.json")


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options for loading, without their prefix, and those of the call.

    >>> split_options({"load.dtype": "bfloat16", "temperature": 0})
    ({'dtype': 'bfloat16'}, {'temperature': 0})
    """
    load = {name.removeprefix(LOAD): value for name, value in options.items() if name.startswith(LOAD)}
    return load, {name: value for name, value in options.items() if not name.startswith(LOAD)}


def construct(spec: str, what: str, options: Mapping[str, Any]) -> Any:
    """An object of the class that `module:Class` names; all options go to its constructor.

    Raises:
        SpecError: no such class, or its constructor doesn't take the options.
    """
    named = {name.removeprefix(LOAD): value for name, value in options.items()}
    made = load_class(spec, what)
    try:
        inspect.signature(made).bind(**named)
    except TypeError as error:
        raise SpecError(f"{spec}: its constructor doesn't take the options {', '.join(named)} ({error})") from error
    return made(**named)


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
