"""`yanami agreement`: the paper's human study. Imports nothing heavy before a command runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from yanami_metric.cli.console import Json, Quiet

app = typer.Typer(no_args_is_help=True)

Runs = Annotated[list[Path], typer.Argument(help="Run folders, one for each model.", metavar="RUN...")]


@app.command()
def sample(
    runs: Runs,
    out: Annotated[Path, typer.Option("--out", help="A new folder, to be given to the raters.")],
    instances: Annotated[int, typer.Option("--instances", help="Drawn images to rate, of each run.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample, the order and the letters.")] = 0,
    history: Annotated[
        str | None, typer.Option("--history", help="Whose images: gt, self, last or none. (default: gt)")
    ] = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Draw images for people to rate: a sheet to fill in, a page to look at, no names of models."""
    from yanami_metric import study
    from yanami_metric.runs import Run

    drawn = study.sample([Run.open(run) for run in runs], out, instances=instances, seed=seed, history=history)
    if json_:
        told = {"sheet": str(drawn.sheet), "key": str(drawn.key), "instances": drawn.instances, "rows": drawn.rows}
        typer.echo(json.dumps(told, indent=2))
    elif not quiet:
        typer.echo(f"{drawn.sheet}: {drawn.rows} rows, {sum(drawn.instances.values())} images of {len(runs)} runs")
        typer.echo(f"{drawn.key}: which run each letter is; keep it from the raters")
        for letter, count in drawn.instances.items():
            if count < instances:
                typer.echo(f"run {letter} has only {count} images to rate, {instances} were asked for")


@app.command()
def measure(
    ratings: Annotated[Path, typer.Argument(help="The filled sheet, or a folder of them.", metavar="RATINGS")],
    runs: Runs,
    judge: Annotated[
        str | None, typer.Option("--judge", help="The judge of images to compare. (default: the first)")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The study's key. (default: beside its folder)")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the intervals.")] = 0,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Compare a judge's verdicts with people's: Pearson, Spearman, Kendall and kappa, each with an interval."""
    from yanami_metric import agreeing
    from yanami_metric.runs import Run

    found = agreeing.measure(ratings, [Run.open(run) for run in runs], judge=judge, key=key, seed=seed)
    if json_:
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
    elif not quiet:
        typer.echo(agreeing.markdown(found), nl=False)
