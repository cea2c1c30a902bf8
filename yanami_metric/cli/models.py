"""`yanami models`: which adapters there are and what is known of classes and presets."""

from __future__ import annotations

import json
from typing import Any

import typer

from yanami_metric.cli.console import Json


def models(json_: Json = False) -> None:
    """List adapters, the pipeline classes that are known with what they can do, and presets."""
    known = _known()
    if json_:
        typer.echo(json.dumps(known, indent=2))
        return
    for title, entries in known.items():
        typer.echo(f"{title}:")
        width = max(map(len, entries))
        for name, about in entries.items():
            typer.echo(f"  {name:{width}}  {about}")


def _known() -> dict[str, dict[str, Any]]:
    from yanami_metric.models import ADAPTERS
    from yanami_metric.models.diffusers_table import CLASSES
    from yanami_metric.presets import load_preset, preset_names

    adapters = {name: _first_line(adapter().__doc__) for name, adapter in ADAPTERS.items()}
    return {
        "adapters": {
            "baseline": "reference (the oracle), copy-last (changes nothing), blank (draws nothing)",
            "replay": "Outputs from a folder.",
            **adapters,
            "module:Class": "A class of one's own.",
        },
        "pipeline classes of diffusers": {name: entry.summary for name, entry in CLASSES.items()},
        "presets": {name: load_preset(name).description for name in preset_names()},
    }


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
