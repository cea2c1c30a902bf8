"""`yanami watch`: each checkpoint of a training that appears in a folder, evaluated in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from yanami_metric.cli.console import INCOMPLETE, Quiet
from yanami_metric.cli.options import JudgingOptions, seconds, spread
from yanami_metric.cli.run import DataOption, History, Limit, MaxImages, Placement, Preset, Scenarios, Seed, Set


@spread
def watch(
    checkpoints: Annotated[Path, typer.Argument(help="The folder that checkpoints appear in.")],
    template: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]",
            help="Run this instead of yanami eval, e.g. under torchrun; {checkpoint}, {out} and {step} are filled in.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model spec with {checkpoint}, e.g. diffusers:{checkpoint}.")
    ] = None,
    preset: Preset = None,
    data: DataOption = "mini",
    history: History = None,
    placement: Placement = None,
    max_images: MaxImages = None,
    scenario: Scenarios = None,
    limit: Limit = None,
    seed: Seed = 0,
    set_: Set = None,
    *,
    asked: JudgingOptions,
    every: Annotated[str, typer.Option("--every", help="Look so often: 30s, 5m.")] = "30s",
    settle: Annotated[
        str,
        typer.Option("--settle", help="A checkpoint is complete if it hasn't changed so long, or has a marker file."),
    ] = "10s",
    once: Annotated[bool, typer.Option("--once", help="Stop after those that are there.")] = False,
    trackers: Annotated[
        str, typer.Option("--trackers", help="trackio, wandb, tensorboard with commas; auto: what is installed.")
    ] = "none",
    project: Annotated[str, typer.Option("--project", help="Of Trackio and Weights & Biases.")] = "yanami",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the runs go. (default: runs/watch/<folder's name>)")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Evaluate each checkpoint that appears in a folder, once; the same command goes on where it was stopped.

    With --once, exit code 3 says that a checkpoint failed.
    """
    from yanami_dataset.errors import SpecError
    from yanami_metric.training.trackers import open_trackers
    from yanami_metric.training.watching import Watch, eval_command

    if not template and not (model or preset):
        raise SpecError("expected --model with {checkpoint} in it, or a command after --")
    named: dict[str, Any] = {
        "--model": model,
        "--preset": preset,
        "--data": data,
        "--history": history,
        "--placement": placement,
        "--max-images": max_images,
        "--scenario": scenario,
        "--limit": limit,
        "--seed": seed,
        "--set": set_,
    }
    options = [part for name, value in named.items() for part in _option(name, value)]
    where = out or Path("runs") / "watch" / checkpoints.resolve().name
    name = checkpoints.resolve().name
    failed = Watch(
        checkpoints,
        where,
        template or eval_command([*options, *_judging(asked)]),
        open_trackers(trackers, project=project, name=name, folder=where / "tensorboard"),
        seconds(settle),
        (lambda line: None) if quiet else typer.echo,
    ).run(seconds(every), once=once)
    if failed:
        raise typer.Exit(INCOMPLETE)


def _judging(asked: JudgingOptions) -> Iterator[str]:
    """The options as another `yanami` takes them: those that aren't as they are anyway."""
    for field in fields(asked):
        value = getattr(asked, field.name)
        if value != field.default:
            yield from _option(f"--{field.name.replace('_', '-')}", value)


def _option(name: str, value: Any) -> Iterator[str]:
    if value is True:
        yield name
    elif isinstance(value, list):
        for one in value:
            yield from _option(name, one)
    elif value is not None and value is not False:
        yield from (name, str(value))
