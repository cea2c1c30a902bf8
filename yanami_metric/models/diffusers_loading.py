"""Where a pipeline of diffusers comes from: a folder, the Hub, or an object; and what its weights are.

Weights are read when they are first needed, so a dry run or a finished run doesn't read them; tokenizers, to measure
prompts, are read alone. Only safetensors are read, and no code from a repository runs. Knows no requests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from yanami_dataset.errors import MissingExtraError, ModelError, SpecError
from yanami_metric.models.identity import folder_identity, options_suffix, snapshot_identity, tensors_identity

OFFLOADS = ("model", "sequential")
_REFUSED = ("trust_remote_code", "custom_pipeline", "custom_revision", "use_safetensors", "torch_dtype")
# where a model lies and runs, not what it is
_WHERE_ONLY = ("device", "offload", "device_map", "max_memory", "low_cpu_mem_usage", "cache_dir", "local_files_only")
_DENOISERS = ("transformer", "transformer_2", "unet")


@dataclass(frozen=True)
class Source:
    """A pipeline that can be loaded, or is.

    Args:
        kind: its class.
        identity: what the weights are, with the loading options that change outputs.
        folder: where the files are; "" for an object.
        load: loading options.
        ready: the object itself, where it is loaded already.
    """

    kind: type
    identity: str
    folder: str = ""
    load: Mapping[str, Any] = field(default_factory=dict)
    ready: Any = None

    @cached_property
    def pipeline(self) -> Any:
        """The pipeline; slow the first time.

        Raises:
            ModelError: it can't be loaded.
        """
        return self.ready if self.ready is not None else _loaded(self)

    @cached_property
    def _parts(self) -> dict[str, Any]:
        return {}

    def component(self, name: str) -> Any:
        """One component; of a pipeline that isn't loaded yet only this one is read.

        Raises:
            ModelError: there is none of that name, or it can't be loaded.
        """
        if self.ready is not None or "pipeline" in self.__dict__:
            return getattr(self.pipeline, name, None)
        if name not in self._parts:
            self._parts[name] = _component(self.folder, name)
        return self._parts[name]

    def close(self) -> None:
        """Let go of a pipeline that we loaded."""
        self.__dict__.pop("pipeline", None)


def open_source(source: Any, load: Mapping[str, Any], tag: str | None) -> Source:
    """The pipeline that a folder, a Hub id or an object is.

    Args:
        source: a path or id, or a `DiffusionPipeline`.
        load: `dtype` (by name; by default bfloat16 on a GPU, else float32), `device` (by default a GPU if there is
            one, that of LOCAL_RANK), `offload` (model or sequential), `compile` (true), `attention` (a backend's name),
            `lora` (a folder, file or Hub id), `revision`, `variant`; others go to `from_pretrained`. None with objects.
        tag: the user's name for weights; takes the place of what would be found out.

    Raises:
        MissingExtraError: torch or diffusers isn't installed.
        ModelError: nothing there, or no pipeline.
        SpecError: options that make no sense.
    """
    try:
        import diffusers  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"pipelines of diffusers need {error.name}: pip install 'yanami[models]'") from error
    if isinstance(source, str | Path):
        return _named(str(source), _checked(load), tag)
    if load:
        raise SpecError(f"load: expected no options with a pipeline that is loaded already, got {', '.join(load)}")
    return _object(source, tag)


def _checked(load: Mapping[str, Any]) -> dict[str, Any]:
    """The options with dtype and device filled in."""
    for name in _REFUSED:
        if name in load:
            why = (
                "see load.dtype"
                if name == "torch_dtype"
                else "only safetensors are read, and no code from repositories"
            )
            raise SpecError(f"load.{name}: not taken; {why}")
    if load.get("offload") not in (None, *OFFLOADS):
        raise SpecError(f"load.offload: expected one of {', '.join(OFFLOADS)}, got {load['offload']!r}")
    device = str(load.get("device") or _default_device())
    dtype = str(load.get("dtype") or ("float32" if device.startswith("cpu") else "bfloat16"))
    _dtype(dtype)  # refuses an unknown one
    return {**load, "device": device, "dtype": dtype}


def _default_device() -> str:
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    rank = int(os.environ.get("LOCAL_RANK", 0))
    return f"cuda:{rank % torch.cuda.device_count()}"


def _dtype(name: str) -> Any:
    import torch

    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise SpecError(f"load.dtype: expected the name of a float type such as bfloat16 or float32, got {name!r}")
    return dtype


def _named(source: str, load: dict[str, Any], tag: str | None) -> Source:
    folder, identity = _located(source, load)
    lora = _lora(load.get("lora"))
    changes = {name: value for name, value in load.items() if name not in (*_WHERE_ONLY, "revision", "lora")}
    if lora:
        load["lora"] = lora
        changes["lora"] = folder_identity(lora)
    identity = f"tag:{tag}" if tag else identity
    return Source(_class_in(folder), identity + options_suffix(changes), folder, load)


def _located(source: str, load: Mapping[str, Any]) -> tuple[str, str]:
    """Where the files are, and what they are."""
    if Path(source).is_dir():
        return source, folder_identity(source)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise ModelError(f"diffusers: expected a folder or a Hub id such as org/model, got {source!r}")
    from diffusers import DiffusionPipeline
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    kept = {name: load[name] for name in ("revision", "variant", "cache_dir", "token") if name in load}
    try:
        folder = DiffusionPipeline.download(source, use_safetensors=True, **kept)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise ModelError(f"diffusers: no folder {source!r} here, and the Hub gives none: {error}") from error
    return str(folder), snapshot_identity(source, str(folder))


def _lora(lora: str | None) -> str:
    if not lora or Path(lora).exists():
        return lora or ""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return snapshot_download(lora, allow_patterns=["*.safetensors", "*.json"])
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(f"load.lora: no file or folder {lora!r} here, and the Hub gives none: {error}") from error


def _index(folder: str) -> dict[str, Any]:
    path = Path(folder) / "model_index.json"
    if not path.is_file():
        raise ModelError(f"diffusers: expected a pipeline, which has a model_index.json, in {folder}; found none")
    try:
        index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: expected JSON, got {error}") from error
    return index


def _class_in(folder: str) -> type:
    import diffusers

    name = _index(folder).get("_class_name")
    if not isinstance(name, str) or not isinstance(kind := getattr(diffusers, name, None), type):
        raise ModelError(
            f"{folder}: expected a pipeline class of diffusers {diffusers.__version__}, got {name!r}; load it yourself "
            "and pass the object if it is your own"
        )
    return kind


def _component(folder: str, name: str) -> Any:
    import transformers

    library, kind = _index(folder).get(name) or (None, None)
    if library != "transformers" or not isinstance(kind, str) or not hasattr(transformers, kind):
        raise ModelError(f"{folder}: expected a {name} of transformers to measure prompts, got {kind!r} of {library!r}")
    try:
        return getattr(transformers, kind).from_pretrained(Path(folder) / name)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder}: its {name} can't be loaded: {error}") from error


def _loaded(source: Source) -> Any:
    import diffusers

    kind: Any = diffusers.DiffusionPipeline  # whose methods are partly untyped
    load = dict(source.load)
    device, dtype, offload = load.pop("device"), _dtype(load.pop("dtype")), load.pop("offload", None)
    compiled, attention, lora = load.pop("compile", False), load.pop("attention", None), load.pop("lora", None)
    load.pop("revision", None)
    try:
        with _no_bars():
            pipeline = kind.from_pretrained(source.folder, dtype=dtype, use_safetensors=True, **load)
        if lora:
            pipeline.load_lora_weights(lora)
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{source.folder}: can't be loaded (only safetensors are): {error}") from error
    if offload == "model":
        pipeline.enable_model_cpu_offload(device=device)
    elif offload == "sequential":
        pipeline.enable_sequential_cpu_offload(device=device)
    elif "device_map" not in load:
        pipeline.to(device)
    for denoiser in filter(None, (getattr(pipeline, name, None) for name in _DENOISERS)):
        if attention:
            denoiser.set_attention_backend(attention)
        if compiled:
            denoiser.compile()
    return pipeline


@contextmanager
def _no_bars() -> Iterator[None]:
    """Loading without progress bars, which would mix with ours."""
    from diffusers.utils import logging as of_diffusers
    from transformers.utils import logging as of_transformers

    shown = [library for library in (of_diffusers, of_transformers) if library.is_progress_bar_enabled()]
    for library in shown:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in shown:
            library.enable_progress_bar()


def _object(pipeline: Any, tag: str | None) -> Source:
    import diffusers
    import torch

    kind: Any = diffusers.DiffusionPipeline
    if not isinstance(pipeline, kind):
        raise ModelError(f"expected a pipeline of diffusers, a folder or a Hub id, got {type(pipeline).__name__}")
    if tag:
        return Source(type(pipeline), f"tag:{tag}", ready=pipeline)
    modules = {name: part for name, part in pipeline.components.items() if isinstance(part, torch.nn.Module)}
    tensors = (
        (f"{name}.{key}", tensor) for name, module in modules.items() for key, tensor in module.state_dict().items()
    )
    configs = {name: _config(part) for name, part in pipeline.components.items()}
    return Source(type(pipeline), tensors_identity(tensors, [type(pipeline).__name__, configs]), ready=pipeline)


def _config(part: Any) -> Any:
    """What a component is beside its weights; neither paths nor versions."""
    config: Any = getattr(part, "config", None)
    entries = dict(config.to_dict() if hasattr(config, "to_dict") else config or {})
    kept = {name: value for name, value in entries.items() if not name.startswith("_") and "version" not in name}
    return [type(part).__name__, kept]
