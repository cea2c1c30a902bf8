"""Presets: settings of the models that the paper evaluates, a YAML file for each, named after the model.

A preset says which adapter the model needs, where it wants images, and what goes to its call, each with its source:
Table 9 of the paper where that has it, else where it was found, or "ours". It is data; nothing here runs a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.records import PLACEMENTS

FOLDER = Path(__file__).parent
PAPER = "paper, Table 9"
SOURCES = (
    PAPER,
    "the pipeline's default",
    "the pipeline's documentation",
    "its repository",
    "ours",
)
"""Where a setting may be from."""


@dataclass(frozen=True)
class Preset:
    """The settings of one model.

    Args:
        name: the file's, without its ending.
        description: what the model is.
        spec: a model's spec string; `command:<argv>` where the program that runs the model has to be filled in.
        placement: where images stand in what the model is given, one of PLACEMENTS; None: as its adapter has it.
        max_images: more images than this are shown as one grid; None: no limit of the preset's.
        load: options for loading.
        call: options for the model's call.
        sources: one of SOURCES for the settings, named `spec`, `placement`, `max_images`, `load.NAME`, `call.NAME`.
        paper: `settings` and `visual_input` as Table 9 words them; empty for a model that isn't in it.
        notes: what else is to be known.

    Raises:
        SpecError: a setting of the wrong kind, or a source of something that isn't set.
    """

    name: str
    description: str
    spec: str
    placement: str | None = None
    max_images: int | None = None
    load: Mapping[str, Any] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise SpecError(f"preset {self.name}:\n  " + "\n  ".join(faults))

    @property
    def adapter(self) -> str:
        """The kind of adapter, e.g. "diffusers"."""
        return self.spec.partition(":")[0]

    @property
    def is_template(self) -> bool:
        """Whether the spec has a part to be filled in."""
        return "<" in self.spec

    @property
    def options(self) -> dict[str, Any]:
        """All options as `--set` names them: those for loading as `load.NAME`.

        >>> load_preset("omnigen2").options
        {'num_inference_steps': 50, 'text_guidance_scale': 4.0, 'align_res': False}
        """
        return {**{f"load.{name}": value for name, value in self.load.items()}, **self.call}

    def _faults(self) -> Iterator[str]:
        for name in ("description", "spec"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                yield f"{name}: expected a text, got {getattr(self, name)!r}"
        if self.placement is not None and self.placement not in PLACEMENTS:
            yield f"placement: expected one of {', '.join(PLACEMENTS)}, got {self.placement!r}"
        if self.max_images is not None and (type(self.max_images) is not int or self.max_images < 1):
            yield f"max_images: expected a whole number of 1 or more, or null, got {self.max_images!r}"
        yield from _mapping_faults("load", self.load, Any)
        yield from _mapping_faults("call", self.call, Any)
        yield from _mapping_faults("sources", self.sources, str)
        yield from _mapping_faults("paper", self.paper, str)
        if not isinstance(self.notes, tuple) or not all(isinstance(note, str) for note in self.notes):
            yield f"notes: expected a list of texts, got {self.notes!r}"
        if isinstance(self.sources, Mapping) and isinstance(self.load, Mapping) and isinstance(self.call, Mapping):
            yield from self._source_faults()

    def _source_faults(self) -> Iterator[str]:
        known = {
            "spec",
            "placement",
            "max_images",
            *(f"load.{n}" for n in self.load),
            *(f"call.{n}" for n in self.call),
        }
        for name, source in self.sources.items():
            if name not in known:
                yield f"sources: expected settings among {', '.join(sorted(known))}, got {name!r}"
            elif source not in SOURCES:
                yield f"sources.{name}: expected one of {'; '.join(SOURCES)}, got {source!r}"


def preset_names() -> list[str]:
    """The names of the presets that come with yanami.

    >>> preset_names()[:2]
    ['bagel', 'emu3.5']
    """
    return sorted(path.name.removesuffix(".yaml") for path in FOLDER.glob("*.yaml"))


def load_preset(name: str) -> Preset:
    """A preset by its name, or from a file of one's own, whose path ends in .yaml.

    Raises:
        SpecError: no such preset or file, or something in it that a preset doesn't have.

    >>> load_preset("bagel").call["cfg_text_scale"]
    4.0
    """
    import yaml

    if not name.endswith(".yaml") and name not in preset_names():
        raise SpecError(
            f"expected a preset among {', '.join(preset_names())}, or the path of a .yaml file, got {name!r}"
        )
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SpecError(f"preset {name}: expected a YAML file in UTF-8 at {path}: {error}") from error
    needed = {"description", "spec"}
    others = {one.name for one in fields(Preset)} - needed - {"name"}
    if not isinstance(found, dict) or not needed <= set(found) <= needed | others:
        got = ", ".join(map(str, found)) if isinstance(found, dict) else type(found).__name__
        expected = f"description and spec, and other keys among {', '.join(sorted(others))}"
        raise SpecError(f"preset {name}: expected {expected}, got {got}")
    given = {key: value for key, value in found.items() if value is not None}
    notes = given.pop("notes", [])
    return Preset(path.name.removesuffix(".yaml"), notes=tuple(notes) if isinstance(notes, list) else notes, **given)


def _mapping_faults(name: str, value: Any, kind: Any) -> Iterator[str]:
    fits = isinstance(value, Mapping) and all(
        isinstance(key, str) and (kind is Any or isinstance(one, kind)) for key, one in value.items()
    )
    if not fits:
        yield f"{name}: expected names with values{'' if kind is Any else ' that are texts'}, got {value!r}"
