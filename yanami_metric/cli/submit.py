"""`yanami submit` and `yanami leaderboard`. Imports nothing heavy before a command runs."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer

from yanami_metric.cli.console import Json, Quiet

Judge = Annotated[str | None, typer.Option("--judge", help="Whose verdicts count. (default: the first)")]


def submit(
    run: Annotated[Path, typer.Argument(help="A scored run folder.", metavar="RUN")],
    model: Annotated[str, typer.Option("--model-id", help="The model's repository, NAMESPACE/NAME.")],
    bench: Annotated[str, typer.Option("--bench", help="The data set whose tasks they are.")] = "yanami/bench",
    history: Annotated[str, typer.Option("--history", help="gt is the main setting.")] = "gt",
    judge: Judge = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="The data set's commit. (default: as the run read it)")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="An address where the run is published.")] = None,
    failures: Annotated[float, typer.Option("--failures", min=0, max=1, help="Share that may be unscored.")] = 0.01,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go up, and send nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Submit what is incomplete or unclear; the notes say so.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Submit a run: results for the leaderboard, and a section of the model's card."""
    from datetime import datetime

    from yanami_dataset.hub import repo_id
    from yanami_metric import submission
    from yanami_metric.scoring import read_scores

    repo_id(model), repo_id(bench)
    file, scores = read_scores(run, judge)
    date = datetime.fromtimestamp(file.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    prepared = submission.prepare(
        scores, bench=bench, history=history, date=date, revision=revision, source=source, failures=failures,
        force=force,
    )  # fmt: skip
    if dry_run:
        typer.echo(f"# {prepared.file}\n{prepared.yaml()}\n# a section of README.md\n{prepared.section}")
        return
    url = submission.submit(prepared, model, create_pr=create_pr)
    if not quiet:
        typer.echo(f"submitted: {url}")


def leaderboard(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Scored run folders.", metavar="RUN...", show_default=False)
    ] = None,
    repo: Annotated[str | None, typer.Option("--repo", help="The data set on the Hub whose results to read.")] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="One of those that are listed. (default: with most results)")
    ] = None,
    history: Annotated[str, typer.Option("--history", help="gt is the main setting.")] = "gt",
    json_: Json = False,
) -> None:
    """Rank results on the Hub and runs on this machine, by one judge at a time."""
    from dataclasses import asdict

    from yanami_dataset.errors import SpecError
    from yanami_metric.leaderboard import board, markdown

    if not runs and repo is None:
        raise SpecError("yanami leaderboard: expected --repo NAMESPACE/NAME, run folders, or both, got neither")
    found = board(repo, runs or [], judge, history=history)
    if json_:
        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
    else:
        typer.echo(markdown(found), nl=False)
        for other in found.judges:
            if other != found.judge:
                typer.echo(f'there are also results of --judge "{other}"', err=True)
