"""`yanami eval` and its stages: rollout, judge, score, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from yanami_metric.cli.console import INCOMPLETE, Json, Quiet, bars, selection
from yanami_metric.cli.options import JudgingOptions, spread
from yanami_metric.cli.wanted import Given, Wanted, census_table, model_options

if TYPE_CHECKING:
    from yanami_metric.api import Evaluation

BASELINES = ["baseline:reference", "baseline:copy-last", "baseline:blank"]
ALL_HISTORIES = "gt,self,last,none"

DataOption = Annotated[str, typer.Option("--data", help="mini, a folder of Parquet files, or a Hub dataset id.")]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="Model spec; repeatable. (default: the three baselines)", show_default=False),
]
History = Annotated[
    str | None,
    typer.Option(
        "--history",
        help=f"Comma-separated from {ALL_HISTORIES}. (default: gt; all four if no model is named)",
    ),
]
Placement = Annotated[
    str | None,
    typer.Option("--placement", help="interleaved, front, concatenate or text_only. (default: the model's)"),
]
MaxImages = Annotated[int | None, typer.Option("--max-images", help="More than this become one labelled grid.")]
Scenarios = Annotated[list[str] | None, typer.Option("--scenario", help="Only this scenario; repeatable.")]
Limit = Annotated[int | None, typer.Option("--limit", help="A seeded sample of N dialogues, even over the scenarios.")]
Shard = Annotated[str | None, typer.Option("--shard", help="i/n: only the i-th of n parts of the dialogues.")]
Seed = Annotated[int, typer.Option("--seed", help="Base seed of the outputs and of the sample.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where runs go. (default: runs/<data>/<model>)")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="NAME=VALUE for the model's call, load.NAME=VALUE for loading; repeatable."),
]
Preset = Annotated[str | None, typer.Option("--preset", help="Settings of a known model; see `yanami models`.")]
ModelTag = Annotated[str | None, typer.Option("--model-tag", help="Names weights that have no identity of their own.")]
TextToImage = Annotated[str | None, typer.Option("--text-to-image", help="Model spec for slots with no image in view.")]
Generations = Annotated[int, typer.Option("--generations", help="Roll each item out so often, with different seeds.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what a run would ask for, and stop.")]
PriceImage = Annotated[float, typer.Option("--price-image", help="With --dry-run: what an image costs.")]
PriceAnswer = Annotated[float, typer.Option("--price-answer", help="With --dry-run: what an answer costs.")]
RunPath = Annotated[Path, typer.Argument(help="A run folder.")]


def rollout(
    model: Annotated[str | None, typer.Option("--model", help="Model spec.")] = None,
    preset: Preset = None,
    data: DataOption = "mini",
    history: Annotated[str, typer.Option("--history", help=f"Comma-separated from {ALL_HISTORIES}.")] = "gt",
    placement: Placement = None,
    max_images: MaxImages = None,
    scenario: Scenarios = None,
    limit: Limit = None,
    shard: Shard = None,
    seed: Seed = 0,
    generations: Generations = 1,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder. (default: runs/<data>/<model>)")] = None,
    set_: Set = None,
    model_tag: ModelTag = None,
    text_to_image: TextToImage = None,
    dry_run: DryRun = False,
    price_image: PriceImage = 0.0,
    price_answer: PriceAnswer = 0.0,
    quiet: Quiet = False,
) -> None:
    """Have a model draw and answer; writes outputs to a run folder."""
    from yanami_metric import api

    wanted = Wanted(data, selection(scenario or [], limit, shard, seed), out)
    options = model_options(set_ or [], model_tag, text_to_image)
    conditions = Given(history, placement, max_images, seed, generations)
    arguments = wanted.arguments(model, preset, options, conditions, alone=True)
    if dry_run:
        typer.echo(census_table(api.plan(**arguments), price_image, price_answer))
        return
    run = api.rollout(**arguments, progress=bars(quiet=quiet))
    if not quiet:
        typer.echo(run.path)


@spread
def eval_(
    data: DataOption = "mini",
    model: Models = None,
    preset: Preset = None,
    history: History = None,
    placement: Placement = None,
    max_images: MaxImages = None,
    scenario: Scenarios = None,
    limit: Limit = None,
    shard: Shard = None,
    seed: Seed = 0,
    generations: Generations = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder; of several models, its parent. (default: runs/<data>/<model>)"),
    ] = None,
    set_: Set = None,
    model_tag: ModelTag = None,
    text_to_image: TextToImage = None,
    *,
    asked: JudgingOptions,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Roll out, judge, score and report. With no arguments: the baselines on the mini bench.

    Running the same command again does only what is missing or failed. Exit code 3: something could not be scored.
    """
    from yanami_metric import api

    named = bool(model or preset)
    models: list[str | None] = [*model] if model else [None] if preset else [*BASELINES]
    wanted = Wanted(data, selection(scenario or [], limit, shard, seed), out)
    options = model_options(set_ or [], model_tag, text_to_image)
    conditions = Given(history or ("gt" if named else ALL_HISTORIES), placement, max_images, seed, generations)
    judging = asked.judging()
    done = [
        api.evaluate(
            judges=asked.judges,
            answer_judge=asked.answer_judge,
            judging=judging,
            progress=bars(quiet=quiet or json_),
            **wanted.arguments(spec, preset, options, conditions, alone=len(models) == 1, local=asked.local_only),
        )
        for spec in models
    ]
    scores = [one for evaluation in done for one in evaluation.scores]
    _print(scores, quiet=quiet, json_=json_)
    if not quiet and not json_:
        _print_rest(done)
    _exit(scores)


def _print_rest(done: list[Evaluation]) -> None:
    """How far judges agree, where there are several, and where the reports are."""
    from yanami_metric.tables import agreement

    for evaluation in done:
        for one, other, found in evaluation.agreements():
            typer.echo(f"{evaluation.run.path}: {agreement(found, one, other)}")
    typer.echo("".join(f"\nreport: {page}" for evaluation in done for page in evaluation.reports))


def merge(
    out: Annotated[Path, typer.Argument(help="A new run folder.", metavar="OUT")],
    runs: Annotated[list[Path], typer.Argument(help="The run folders of all shards.", metavar="RUN...")],
    quiet: Quiet = False,
) -> None:
    """Put the run folders of all shards together; judge, score and report what comes out as usual."""
    from yanami_metric.merging import merge as merged

    merged(runs, out)
    if not quiet:
        typer.echo(out)


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


@spread
def judge(
    run: RunPath,
    asked: JudgingOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and stop.")] = False,
    quiet: Quiet = False,
) -> None:
    """Judge the outputs of a run folder that have no verdict yet."""
    from yanami_metric import api

    opened, judging = api.Run.open(run), asked.judging()
    for name in asked.judges:
        if dry_run:
            estimate = api.estimate(opened, name, asked.answer_judge, judging=judging)
            typer.echo(f"{name}: {estimate.text(judging.prices)}")
        else:
            api.judge(opened, name, asked.answer_judge, judging=judging, progress=bars(quiet=quiet))


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
    dialogues: Annotated[
        int | None, typer.Option("--dialogues", help="How many dialogues can be browsed. (default: all)")
    ] = None,
    inline: Annotated[
        bool, typer.Option("--inline", help="Hold all images in full in the page itself: one large file.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write report.md and report.html of a scored run folder."""
    from yanami_metric import api

    path = api.report(api.Run.open(run), dialogues=dialogues, inline=inline)
    if not quiet:
        typer.echo(path)
