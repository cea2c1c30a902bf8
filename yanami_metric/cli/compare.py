"""`yanami compare`: runs side by side. Imports nothing heavy before a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yanami_metric.cli.console import Json, Quiet


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more judged run folders.", metavar="RUN RUN...")],
    history: Annotated[str, typer.Option("--history", help="The history mode that is compared.")] = "gt",
    judge: Annotated[
        str | None, typer.Option("--judge", help="The judge whose verdicts count. (default: the first)")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where files go. (default: comparison beside runs of one folder, else here)"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compare what isn't comparable, and say so.")] = False,
    top: Annotated[int, typer.Option("--top", help="Dialogues shown in full: the largest differences.")] = 12,
    resamples: Annotated[int, typer.Option("--resamples", help="Of the bootstrap.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Of bootstrap and permutations.")] = 0,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Compare judged runs on the dialogues they share: differences, intervals, p-values, ranks, and a page.

    Runs whose judges, prompts, data or weights differ are refused; exit code 2.
    """
    from yanami_metric.comparing import compare_runs, default_out

    found = compare_runs(runs, history=history, judge=judge, force=force, top=top, resamples=resamples, seed=seed)
    files = found.write(out or default_out(runs))
    if json_:
        typer.echo(found.json(), nl=False)
    elif not quiet:
        typer.echo(found.markdown())
        typer.echo(f"written: {', '.join(map(str, files))}")
