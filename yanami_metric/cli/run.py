"""`yanami eval` and its stages: rollout, judge, score, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from yanami_metric.cli.console import INCOMPLETE, Json, Quiet, bars, selection, settings

if TYPE_CHECKING:
    from yanami_metric.data import Data

BASELINES = ["baseline:reference", "baseline:copy-last", "baseline:blank"]
ALL_HISTORIES = "gt,self,last,none"

DataOption = Annotated[str, typer.Option("--data", help="mini, a folder of Parquet files, or a Hub dataset id.")]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="Model spec; repeatable. (default: the three baselines)", show_default=False),
]
JudgeOption = Annotated[list[str] | None, typer.Option("--judge", help="Judge of images; repeatable. (default: pixel)")]
AnswerJudge = Annotated[str, typer.Option("--answer-judge", help="Judge of answers.")]
History = Annotated[
    str | None,
    typer.Option(
        "--history",
        help=f"Comma-separated from {ALL_HISTORIES}. (default: gt; all four if no model is named)",
    ),
]
Placement = Annotated[str, typer.Option("--placement", help="interleaved, front, concatenate or text_only.")]
MaxImages = Annotated[int | None, typer.Option("--max-images", help="More than this become one labelled grid.")]
Scenarios = Annotated[list[str] | None, typer.Option("--scenario", help="Only this scenario; repeatable.")]
Limit = Annotated[int | None, typer.Option("--limit", help="A seeded sample of N dialogues, even over the scenarios.")]
Shard = Annotated[str | None, typer.Option("--shard", help="i/n: only the i-th of n parts of the dialogues.")]
Seed = Annotated[int, typer.Option("--seed", help="Base seed of the outputs and of the sample.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where runs go. (default: runs/<data>/<model>)")]
Set = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE: an option of a module:Class model.")]
RunPath = Annotated[Path, typer.Argument(help="A run folder.")]


def rollout(
    model: Annotated[str, typer.Option("--model", help="Model spec.")],
    data: DataOption = "mini",
    history: Annotated[str, typer.Option("--history", help=f"Comma-separated from {ALL_HISTORIES}.")] = "gt",
    placement: Placement = "interleaved",
    max_images: MaxImages = None,
    scenario: Scenarios = None,
    limit: Limit = None,
    shard: Shard = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder.")] = None,
    set_: Set = None,
    quiet: Quiet = False,
) -> None:
    """Have a model draw and answer; writes outputs to a run folder."""
    from yanami_metric import api
    from yanami_metric.data import open_data

    chosen = open_data(data, selection(scenario or [], limit, shard, seed))
    run = api.rollout(
        chosen,
        model,
        history=history,
        placement=placement,
        max_images=max_images,
        seed=seed,
        options=settings(set_ or []),
        out=out or api.default_out(chosen, model, placement),
        progress=bars(quiet=quiet),
    )
    if not quiet:
        typer.echo(run.path)


def eval_(
    data: DataOption = "mini",
    model: Models = None,
    judge: JudgeOption = None,
    answer_judge: AnswerJudge = "exact",
    history: History = None,
    placement: Placement = "interleaved",
    max_images: MaxImages = None,
    scenario: Scenarios = None,
    limit: Limit = None,
    shard: Shard = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder; of several models, its parent. (default: runs/<data>/<model>)"),
    ] = None,
    set_: Set = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Roll out, judge, score and report. With no arguments: the baselines on the mini bench.

    Running the same command again does only what is missing or failed. Exit code 3: something could not be scored.
    """
    from yanami_metric import api
    from yanami_metric.data import open_data

    models = model or BASELINES
    chosen = open_data(data, selection(scenario or [], limit, shard, seed))
    done = [
        api.evaluate(
            chosen,
            spec,
            history=history or ("gt" if model else ALL_HISTORIES),
            judges=judge or ["pixel"],
            answer_judge=answer_judge,
            placement=placement,
            max_images=max_images,
            seed=seed,
            options=settings(set_ or []),
            out=_folder(chosen, spec, placement, out, alone=len(models) == 1),
            progress=bars(quiet=quiet or json_),
        )
        for spec in models
    ]
    scores = [one for evaluation in done for one in evaluation.scores]
    _print(scores, quiet=quiet, json_=json_)
    if not quiet and not json_:
        typer.echo("".join(f"\nreport: {page}" for evaluation in done for page in evaluation.reports))
    _exit(scores)


def _folder(data: Data, spec: str, placement: str, out: Path | None, *, alone: bool) -> Path:
    from yanami_metric.api import default_out

    usual = default_out(data, spec, placement)
    if out is None:
        return usual
    return out if alone else out / usual.name


def _print(scores: list[dict[str, Any]], *, quiet: bool, json_: bool) -> None:
    from yanami_metric.tables import comparison

    if json_:
        typer.echo(json.dumps(scores if len(scores) > 1 else scores[0], indent=2))
    elif not quiet:
        typer.echo(comparison([(entry["model"]["spec"], entry) for entry in scores]))


def _exit(scores: list[dict[str, Any]]) -> None:
    """Exit code 3, and why, if anything could not be scored."""
    from yanami_metric.api import unscored

    missing: dict[str, int] = {}
    for entry in scores:
        for status, number in unscored(entry).items():
            missing[status] = missing.get(status, 0) + number
    if missing:
        listed = ", ".join(f"{number} {status}" for status, number in sorted(missing.items()))
        hint = "; give --judge and --answer-judge that can" if "not_judgeable" in missing else ""
        typer.echo(f"not everything could be scored: {listed}{hint}", err=True)
        raise typer.Exit(INCOMPLETE)


def judge(
    run: RunPath,
    judge: JudgeOption = None,
    answer_judge: AnswerJudge = "exact",
    quiet: Quiet = False,
) -> None:
    """Judge the outputs of a run folder that have no verdict yet."""
    from yanami_metric import api

    opened, progress = api.Run.open(run), bars(quiet=quiet)
    for name in judge or ["pixel"]:
        api.judge(opened, name, answer_judge, progress=progress)


def score(
    run: RunPath,
    judge: Annotated[
        str | None, typer.Option("--judge", help="The judge whose verdicts count. (default: the first)")
    ] = None,
    sc_mean: Annotated[
        str, typer.Option("--sc-mean", help="SC is averaged over: dialogue, image or check.")
    ] = "dialogue",
    dsu_weight: Annotated[
        float, typer.Option("--dsu-weight", help="Share of DSU in overall (0.40 is inferred).")
    ] = 0.40,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Turn the verdicts of a run folder into scores.json."""
    from yanami_metric import api
    from yanami_metric.formulas import Weights

    scores = api.score(api.Run.open(run), judge=judge, weights=Weights(dsu=dsu_weight), sc_mean=cast(Any, sc_mean))
    _print([scores], quiet=quiet, json_=json_)
    _exit([scores])


def report(
    run: RunPath,
    dialogues: Annotated[int, typer.Option("--dialogues", help="How many dialogues are shown in full.")] = 24,
    quiet: Quiet = False,
) -> None:
    """Write report.md and report.html of a scored run folder."""
    from yanami_metric import api

    path = api.report(api.Run.open(run), dialogues=dialogues)
    if not quiet:
        typer.echo(path)
