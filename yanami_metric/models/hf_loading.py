"""Where a transformers model comes from: a folder, the Hub, or objects; and what its weights are.

Weights are read when they are first needed, so a dry run or a finished run doesn't read them. Only safetensors are
read, and code from a repository runs only if the user sets `load.trust_remote_code`. Knows no requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from yanami_dataset.errors import MissingExtraError, ModelError, SpecError
from yanami_metric.models.identity import folder_identity, options_suffix, snapshot_identity, tensors_identity

PROCESSOR = "processor."  # prefix of the loading options that only the processor gets
_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken"]
_OTHER_FORMATS = ["original/*", "consolidated*"]  # the same weights again
_CHANGES_OUTPUTS = ("dtype", "quantization_config", "trust_remote_code")


@dataclass(frozen=True)
class Source:
    """A model that can be loaded, or is.

    Args:
        config: its configuration.
        processor: text and images -> tensors; has `tokenizer` and, for images, `image_processor`.
        kinds: the names of its class and of the classes that is derived from.
        identity: what the weights are.
        weights: gives the model; slow the first time.
        generate: options of `generate` that came with it, from a pipeline.
        owned: whether we loaded it, and may let it go.
    """

    config: Any
    processor: Any
    kinds: tuple[str, ...]
    identity: str
    weights: Callable[[], Any]
    generate: Mapping[str, Any] = field(default_factory=dict)
    owned: bool = False


def open_source(source: Any, load: Mapping[str, Any], tag: str | None) -> Source:
    """The model that a folder, a Hub id, a pipeline or a (model, processor) pair is.

    Args:
        source: a path or id, or objects.
        load: options of `from_pretrained`, with `device` ("cuda", "cpu", …; by default a GPU if there is one);
            `processor.NAME` goes to the processor alone. Empty with objects.
        tag: the user's name for weights; takes the place of what would be found out.

    Raises:
        MissingExtraError: torch or transformers isn't installed.
        ModelError: nothing there, no safetensors, or nothing that answers about images.
        SpecError: options that make no sense.
    """
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"transformers models need {error.name}: pip install 'yanami[models]'") from error
    if isinstance(source, str | Path):
        return _named(str(source), dict(load), tag)
    if load:
        raise SpecError(f"load: expected no options with a model that is loaded already, got {', '.join(load)}")
    return _objects(source, tag)


def _named(source: str, load: dict[str, Any], tag: str | None) -> Source:
    import transformers

    auto: Any = transformers  # whose from_pretrained methods are partly untyped
    if load.get("use_safetensors") is False:
        raise SpecError("load.use_safetensors: expected true, got false; other formats of weights can run code")
    load = {"trust_remote_code": False, **load}
    suffix = options_suffix({k: v for k, v in load.items() if v and (k in _CHANGES_OUTPUTS or k.startswith(PROCESSOR))})
    folder, identity = _located(source, load, tag)
    if not any(Path(folder).rglob("*.safetensors")):
        raise ModelError(f"{source}: expected weights in safetensors, found none; other formats can run code")
    load.pop("revision", None)
    both = {name: load[name] for name in ("trust_remote_code", "subfolder") if name in load}
    for_processor = {name.removeprefix(PROCESSOR): load.pop(name) for name in list(load) if name.startswith(PROCESSOR)}
    try:
        config = auto.AutoConfig.from_pretrained(folder, **both)
        processor = auto.AutoProcessor.from_pretrained(folder, **both, **for_processor)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{source}: expected a model of transformers with its processor: {error}") from error
    if getattr(processor, "tokenizer", None) is None:
        raise ModelError(
            f"{source}: expected a processor with a tokenizer, got {type(processor).__name__}; is "
            f"a processor_config.json or preprocessor_config.json missing?"
        )
    weights = partial(_weights, source, folder, config, load)
    return Source(config, processor, _kinds_of_config(source, config), identity + suffix, weights, owned=True)


def _located(source: str, load: Mapping[str, Any], tag: str | None) -> tuple[str, str]:
    """Where the files are, and what they are."""
    if Path(source).is_dir():
        return source, _tagged(tag) or folder_identity(source)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise ModelError(f"transformers: expected a folder or a Hub id such as org/model, got {source!r}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    files = [*_FILES, "*.py"] if load["trust_remote_code"] else _FILES
    try:
        folder = snapshot_download(
            source, revision=load.get("revision"), allow_patterns=files, ignore_patterns=_OTHER_FORMATS
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(f"transformers: no folder {source!r} here, and the Hub gives none: {error}") from error
    return folder, _tagged(tag) or snapshot_identity(source, folder)


def _tagged(tag: str | None) -> str:
    return f"tag:{tag}" if tag else ""


def _kinds_of_config(source: str, config: Any) -> tuple[str, ...]:
    from transformers import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    if type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        kinds: Any = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING[type(config)]
        return _names(kinds[0] if isinstance(kinds, tuple) else kinds)
    if "AutoModelForImageTextToText" in (getattr(config, "auto_map", None) or {}):
        return tuple(config.architectures or ())
    raise ModelError(
        f"{source}: expected a model that takes images and text (image-text-to-text), got {type(config).__name__}; "
        f"load it yourself and pass (model, processor) if it is one"
    )


def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.__name__ for each in kind.__mro__)


def _weights(source: str, folder: str, config: Any, load: Mapping[str, Any]) -> Any:
    import torch
    from transformers import AutoModelForImageTextToText

    options: dict[str, Any] = {"dtype": "auto", **load, "use_safetensors": True}
    device = options.pop("device", None)
    try:
        model: Any = AutoModelForImageTextToText.from_pretrained(folder, config=config, **options)
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{source}: can't be loaded: {error}") from error
    if device or not {"device_map", "quantization_config"} & set(options):
        model = model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return model.eval()


def _objects(source: Any, tag: str | None) -> Source:
    if isinstance(source, tuple) and len(source) == 2:
        model, processor, generate = *source, {}
    else:
        model, processor = getattr(source, "model", None), getattr(source, "processor", None)
        generate = _settings_of(source)
    if not hasattr(model, "generate") or getattr(processor, "tokenizer", None) is None:
        raise ModelError(
            "expected a pipeline of transformers for image-text-to-text or any-to-any, or a pair (model, processor) "
            f"whose model has generate() and whose processor has a tokenizer, got {type(source).__name__} with model "
            f"{type(model).__name__} and processor {type(processor).__name__}"
        )
    identity = _tagged(tag) or tensors_identity(model.state_dict().items(), _what_else(model, processor))
    return Source(model.config, processor, _names(type(model)), identity, lambda: model, generate)


def _settings_of(pipeline: Any) -> dict[str, Any]:
    """The options of `generate` that a pipeline was made with, which it has no public name for."""
    given = {**getattr(pipeline, "_generate_kwargs", {})}
    given |= getattr(pipeline, "_forward_params", {}).get("generate_kwargs", {})
    config = given.pop("generation_config", None)
    in_config = {} if config is None else config.to_diff_dict()
    in_config.pop("transformers_version", None)
    return {**in_config, **given}


def _what_else(model: Any, processor: Any) -> dict[str, Any]:
    """What makes an output beside the weights; neither paths nor versions."""
    config = {k: v for k, v in model.config.to_dict().items() if k not in ("_name_or_path", "transformers_version")}
    return {"config": config, "processor": type(processor).__name__, "template": processor.chat_template}
