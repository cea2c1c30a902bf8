"""Models and adapters: `open_model` turns a spec string into one (the protocol is `records.Model`).

baseline:reference | baseline:copy-last | baseline:blank      built in
replay:<folder>                                               outputs made elsewhere
diffusers:<id or folder>                                      a pipeline of diffusers
transformers:<id or folder>                                   a model of transformers
openai:<model>@<base url>                                     an OpenAI-compatible server
command:<argv>                                                a program in another environment
module:Class                                                  anyone's own
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from yanami_dataset.errors import ModelError, SpecError
from yanami_metric.models.baseline import Blank, CopyLast, Lookup, Reference
from yanami_metric.models.replay import Replay
from yanami_metric.records import PLACEMENTS, Caps, Model
from yanami_metric.specs import construct, refuse_secrets, split_options

RESERVED = ("tag", "shorten", "text_to_image")  # options that are the adapter's own, not the model's


@dataclass(frozen=True)
class Opened:
    """A model with what run.json says of it: its spec and options."""

    model: Model
    spec: str
    options: dict[str, Any] = field(default_factory=dict)


def opened(model: Any, data: Lookup, options: Mapping[str, Any] | None = None) -> Opened:
    """Whatever a user may pass as a model: a spec string, a Model, a pipeline of diffusers or transformers.

    Raises:
        SpecError: an unknown spec, or options that it doesn't take.
        ModelError: the object is no model, e.g. because it has no `caps`.
    """
    if isinstance(model, Opened):
        return model
    if isinstance(model, str):
        return Opened(open_model(model, data, options), model, dict(options or {}))
    if options:
        raise SpecError(f"options are for spec strings, got {', '.join(options)} with a {type(model).__name__}")
    name = f"{type(model).__module__}:{type(model).__qualname__}"
    return Opened(check_model(_wrapped(model), name), name)  # its options are in its identity


def open_model(spec: str, data: Lookup, options: Mapping[str, Any] | None = None) -> Model:
    """The model a spec string names.

    Args:
        spec: as in this module's docstring.
        data: what it will be rolled out over; only the oracle `baseline:reference` looks into them.
        options: `load.NAME` goes to loading, `tag` names weights that have no identity of their own, `shorten` lets
            too long prompts be cut from their oldest text, `text_to_image` is the spec of the model for slots with no
            image in view; every other NAME goes to the model's call. For `module:Class` all go to its constructor.

    Raises:
        SpecError: an unknown spec, or options that it doesn't take.
        ModelError: the object is no model, e.g. because it has no `caps`.
    """
    options = dict(options or {})
    refuse_secrets(options)
    scheme, _, rest = spec.partition(":")
    if scheme == "baseline" or (scheme == "replay" and rest):
        if options:
            raise SpecError(f"{spec}: takes no options, got {', '.join(options)}")
        return _baseline(spec, data) if scheme == "baseline" else Replay(rest)
    if scheme in ADAPTERS and rest:
        return check_model(_adapter(scheme, rest, data, options), spec)
    if scheme == "replay" or scheme in ADAPTERS or not rest:
        raise _unknown(spec)
    return check_model(_own(spec, options), spec)


def _own(spec: str, options: dict[str, Any]) -> Any:
    """An object of a class of the user's."""
    tag = options.pop("tag", None)
    model = construct(spec, "model", options)
    if tag is not None:
        model.identity = " ".join(filter(None, [getattr(model, "identity", None), tag]))
    return model


def _unknown(spec: str) -> SpecError:
    return SpecError(
        "expected a model spec: baseline:reference, baseline:copy-last, baseline:blank, replay:<folder>, "
        f"{', '.join(f'{name}:<…>' for name in ADAPTERS)} or module:Class, got {spec!r}"
    )


def _baseline(spec: str, data: Lookup) -> Model:
    if spec == "baseline:reference":
        return Reference(data)
    if spec == "baseline:copy-last":
        return CopyLast()
    if spec == "baseline:blank":
        return Blank()
    raise _unknown(spec)


def _adapter(scheme: str, rest: str, data: Lookup, options: dict[str, Any]) -> Any:
    own = {name: options.pop(name) for name in RESERVED if name in options}
    if "text_to_image" in own:
        own["text_to_image"] = open_model(own["text_to_image"], data)
    load, call = split_options(options)
    try:
        return ADAPTERS[scheme]()(rest, load=load, call=call, **own)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise SpecError(f"{scheme}: doesn't take the options {', '.join(own)}: {error}") from error


def _diffusers() -> Any:
    from yanami_metric.models.diffusers import DiffusersModel

    return DiffusersModel


def _transformers() -> Any:
    from yanami_metric.models.transformers import TransformersModel

    return TransformersModel


def _openai() -> Any:
    from yanami_metric.models.openai import OpenAIModel

    return OpenAIModel


def _command() -> Any:
    from yanami_metric.models.command import CommandModel

    return CommandModel


ADAPTERS: dict[str, Callable[[], Any]] = {
    "diffusers": _diffusers,
    "transformers": _transformers,
    "openai": _openai,
    "command": _command,
}


def _wrapped(model: Any) -> Any:
    """A pipeline of diffusers or transformers in its adapter; anything else as it is."""
    if isinstance(getattr(model, "caps", None), Caps):
        return model
    one = model[0] if isinstance(model, tuple) and model else model  # (model, processor) of transformers
    libraries = {kind.__module__.partition(".")[0] for kind in type(one).__mro__}
    for library, adapter in (("diffusers", _diffusers), ("transformers", _transformers)):
        if library in libraries:
            return adapter()(model)
    return model


def check_model(model: Any, name: str) -> Model:
    """The object itself, if it fulfils the Model protocol.

    Raises:
        ModelError: naming what is missing and what was found.
    """
    faults = []
    caps = getattr(model, "caps", None)
    if not isinstance(caps, Caps):
        faults.append(f"caps: expected yanami_metric.Caps(...), got {caps!r}")
    else:
        if not caps.outputs or caps.outputs - {"text", "images"}:
            faults.append(
                f"caps.outputs: expected 'text' and/or 'images', got {', '.join(sorted(caps.outputs)) or 'none'}"
            )
        for name_, value in (("placement", caps.placement), ("drawing_placement", caps.drawing_placement)):
            if value not in PLACEMENTS and not (value is None and name_ == "drawing_placement"):
                faults.append(f"caps.{name_}: expected one of {', '.join(PLACEMENTS)}, got {value!r}")
    identity = getattr(model, "identity", None)
    if not isinstance(identity, str) or not identity:
        faults.append(f"identity: expected a string that says what the weights are, got {identity!r}")
    if not callable(getattr(model, "generate", None)):
        faults.append("generate: expected a method generate(requests) -> outputs, found none")
    elif inspect.iscoroutinefunction(model.generate):
        faults.append("generate: expected an ordinary method, got a coroutine")
    if faults:
        raise ModelError(f"{name} can't be used as a model:\n  " + "\n  ".join(faults))
    return model  # type: ignore[no-any-return]
