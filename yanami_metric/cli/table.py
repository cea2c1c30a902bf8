"""`yanami table`: the paper's tables from runs and published figures. Imports nothing heavy before a command runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from yanami_metric.paper_tables import Entry

Runs = dict[str, dict[str, Any]]


def table(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run folders.", metavar="RUN...", show_default=False)
    ] = None,
    number: Annotated[int, typer.Option("--table", help="2 to 5 or 11 to 21, as the paper counts.")] = 2,
    format_: Annotated[str, typer.Option("--format", help="markdown, csv or latex (booktabs).")] = "markdown",
    published: Annotated[bool, typer.Option("--published", help="With the paper's rows.")] = False,
    history: Annotated[str, typer.Option("--history", help="The history mode of the runs.")] = "gt",
    intervals: Annotated[bool, typer.Option("--intervals", help="With 95 % intervals.")] = False,
    vr: Annotated[
        bool, typer.Option("--vr", help="With VR, which all models have, where there is an overall.")
    ] = False,
    judge: Annotated[str | None, typer.Option("--judge", help="Whose verdicts count. (default: the first)")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The file. (default: standard output)")] = None,
) -> None:
    """Print a table in the paper's shape: one's own runs, the published rows, or both.

    Tables 2, 3 and 11 to 19 are from scores.json, 20 and 21 from the verdicts. 4 and 5 are of other benchmarks and have
    published rows only; docs/other-benchmarks.md says how to rerun them.
    """
    from yanami_dataset.errors import SpecError
    from yanami_metric import paper_text
    from yanami_metric.paper_tables import OTHERS, known, paper_table
    from yanami_metric.paper_tables import published as published_entries
    from yanami_metric.published import OTHER_BENCHMARKS

    if format_ not in paper_text.FORMATS:
        raise SpecError(f"--format: expected one of {', '.join(paper_text.FORMATS)}, got {format_!r}")
    known(number)
    paths, others = runs or [], number in OTHER_BENCHMARKS
    if paths and others:
        raise SpecError(f"--table {number}: expected no runs, got {len(paths)}: {OTHERS}")
    if not paths and not published and not others:
        raise SpecError("yanami table: expected run folders, or --published for the paper's rows, got neither")
    found, measured = _own(number, paths, history, judge) if paths else ([], {})
    entries = (published_entries(number) if published or others else []) + found
    made = paper_table(number, entries, measured, intervals=intervals, vr=vr)
    text: str = getattr(paper_text, format_)(made)
    if format_ == "csv":  # which has no place for them
        for note in made.notes:
            typer.echo(f"note: {note}", err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        from yanami_metric.run_folder import write_atomic

        write_atomic(out, text.encode(errors="replace"))


def _own(number: int, paths: list[Path], history: str, judge: str | None) -> tuple[list[Entry], Runs]:
    """The rows of runs, and by name what was measured."""
    if number in (20, 21):
        return _of_tallies(number, paths, history, judge)
    from yanami_metric.paper_tables import own
    from yanami_metric.scoring import read_scores

    measured = _named(paths, [read_scores(path, judge)[1] for path in paths])
    return [own(number, name, scores, history) for name, scores in measured.items()], measured


def _of_tallies(number: int, paths: list[Path], history: str, judge: str | None) -> tuple[list[Entry], Runs]:
    from yanami_dataset.errors import DataError
    from yanami_metric import paper_tables
    from yanami_metric.analysis.gap import gap
    from yanami_metric.analysis.loading import load
    from yanami_metric.analysis.turns import first_last

    loaded = load(paths, judge)
    told = [
        {"model": o.settings["model"], "dataset": {**o.settings["data"], "mini": o.is_mini}, "judge": dict(o.judge)}
        for o in loaded
    ]
    measured = _named(paths, told)
    tallies = {}
    for name, one in zip(measured, loaded, strict=True):
        if history not in one.histories:
            ran = ", ".join(one.histories) or "none"
            raise DataError(f"{one.run.path}: expected a run under history {history}, got one under {ran}")
        tallies[name] = one.histories[history]
    if number == 20:
        return paper_tables.first_last(first_last(tallies).values, measured, history), measured
    return paper_tables.gap(gap(tallies).values, measured, history), measured


def _named(paths: list[Path], scores: list[dict[str, Any]]) -> Runs:
    """By the model's spec, or by the folder where several runs are of one spec."""
    from yanami_dataset.errors import SpecError
    from yanami_metric.tables import model_name

    specs = [model_name(one) for one in scores]
    names = [spec if specs.count(spec) == 1 else str(path) for spec, path in zip(specs, paths, strict=True)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SpecError(f"expected each run once, got {', '.join(twice)} twice")
    return dict(zip(names, scores, strict=True))
