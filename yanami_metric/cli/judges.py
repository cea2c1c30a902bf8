"""`yanami calibrate`: how far a judge can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yanami_metric.cli.console import Json, Quiet


def calibrate(
    judge: Annotated[str, typer.Option("--judge", help="Judge of images.")] = "pixel",
    answer_judge: Annotated[str, typer.Option("--answer-judge", help="Judge of answers.")] = "exact",
    judge_set: Annotated[
        list[str] | None,
        typer.Option("--judge-set", help="NAME=VALUE for judges, load.NAME=VALUE for loading; repeatable."),
    ] = None,
    dialogues: Annotated[int, typer.Option("--dialogues", help="Mini dialogues, even over the scenarios.")] = 8,
    size: Annotated[
        list[int] | None, typer.Option("--size", help="Side of the images; repeatable. (default: 256)")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="How often the repeatability part asks the same.")] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Of the mini bench.")] = 1,
    concurrency: Annotated[int, typer.Option("--concurrency", help="Calls in flight.")] = 8,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for table, picture and JSON.")] = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Measure a judge on mini-bench images and answers whose truth is known: what it passes and fails wrongly."""
    import json

    from yanami_metric.asking import Rules
    from yanami_metric.calibrating import Extent, markdown, picture
    from yanami_metric.calibrating import calibrate as measure
    from yanami_metric.cli.wanted import named_values
    from yanami_metric.judges import PLAIN, open_judge
    from yanami_metric.run_folder import write_atomic

    extent = Extent(dialogues, tuple(size or [256]), samples, seed, concurrency)
    options = named_values("--judge-set", judge_set or [])
    images, answers = (open_judge(spec, {} if spec in PLAIN else options) for spec in (judge, answer_judge))
    found = measure(images, answers, extent, Rules())
    if json_:
        typer.echo(json.dumps(found, indent=2))
    elif not quiet:
        typer.echo(markdown(found))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(out / "calibration.json", json.dumps(found, indent=2, allow_nan=False).encode())
        write_atomic(out / "calibration.md", markdown(found).encode())
        picture(found, out / "calibration.png")
