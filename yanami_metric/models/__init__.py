"""Models and adapters: `open_model` turns a spec string into one (the protocol is `records.Model`).

baseline:reference | baseline:copy-last | baseline:blank      built in
replay:<folder>                                               outputs made elsewhere
module:Class                                                  anyone's own; options go to its constructor
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from yanami_dataset.errors import ModelError, SpecError
from yanami_metric.models.baseline import Blank, CopyLast, Lookup, Reference
from yanami_metric.models.replay import Replay
from yanami_metric.records import Caps, Model
from yanami_metric.specs import load_class

BASELINES = ("reference", "copy-last", "blank")


def open_model(spec: str, dialogues: Lookup, options: Mapping[str, Any] | None = None) -> Model:
    """The model a spec string names.

    Args:
        spec: as in this module's docstring.
        dialogues: what it will be rolled out over; only the oracle `baseline:reference` looks into them.
        options: keyword arguments of the constructor.

    Raises:
        SpecError: an unknown spec, or options that it doesn't take.
        ModelError: the object is no model, e.g. because it has no `caps`.
    """
    options = dict(options or {})
    scheme, _, rest = spec.partition(":")
    builtin: dict[str, Callable[[], Model]] = {
        "baseline:reference": lambda: Reference(dialogues),
        "baseline:copy-last": CopyLast,
        "baseline:blank": Blank,
    }
    if spec in builtin or (scheme == "replay" and rest):
        if options:
            raise SpecError(f"{spec}: takes no options, got {', '.join(options)}")
        return builtin[spec]() if spec in builtin else Replay(rest)
    if scheme in ("baseline", "replay") or not rest:
        raise SpecError(f"expected a model spec: {', '.join(builtin)}, replay:<folder> or module:Class, got {spec!r}")
    return check_model(load_class(spec, "model")(**options), spec)


def check_model(model: Any, name: str) -> Model:
    """The object itself, if it fulfils the Model protocol.

    Raises:
        ModelError: naming what is missing and what was found.
    """
    faults = []
    if not isinstance(getattr(model, "caps", None), Caps):
        faults.append(f"caps: expected yanami_metric.Caps(...), got {getattr(model, 'caps', None)!r}")
    elif unknown := model.caps.outputs - {"text", "images"} or (not model.caps.outputs and {"nothing"}):
        faults.append(f"caps.outputs: expected 'text' and/or 'images', got {', '.join(sorted(unknown))}")
    if not isinstance(getattr(model, "identity", None), str) or not model.identity:
        faults.append(
            f"identity: expected a string that says what the weights are, got {getattr(model, 'identity', None)!r}"
        )
    if not callable(getattr(model, "generate", None)):
        faults.append("generate: expected a method generate(requests) -> outputs, found none")
    elif inspect.iscoroutinefunction(model.generate):
        faults.append("generate: expected an ordinary method, got a coroutine")
    if faults:
        raise ModelError(f"{name} can't be used as a model:\n  " + "\n  ".join(faults))
    return model  # type: ignore[no-any-return]
