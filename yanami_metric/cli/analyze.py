"""`yanami analyze`: what runs say beyond their scores. Imports nothing heavy before a command runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from yanami_metric.cli.console import Json, Quiet

if TYPE_CHECKING:
    from yanami_metric.analysis.finding import Finding
    from yanami_metric.analysis.loading import Analysed

EPILOG = """
The paper's tables and figures:

Tables 2, 3, 11-19 (scores by scenario): `yanami table RUN... --table 2`, and in every report.

Table 20, Figure 6b: first-last; in the paper's shape `yanami table RUN... --table 20`.

Table 21: gap; in the paper's shape `yanami table RUN RUN... --table 21`.

Figure 6c: drop.

Tables 4, 5 (other benchmarks): `yanami table --table 4`; docs/other-benchmarks.md says how to rerun them.

Tables 6-10 describe data and settings; Table 9's are presets (`yanami models`).
"""

app = typer.Typer(no_args_is_help=True, epilog=EPILOG, rich_markup_mode=None)

Runs = Annotated[list[Path], typer.Argument(help="Judged run folders.", metavar="RUN...")]
Judge = Annotated[str | None, typer.Option("--judge", help="Whose verdicts count. (default: the first)")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Where files go. (default: RUN/analysis, of several ./analysis)")
]
Resamples = Annotated[int, typer.Option("--resamples", min=0, help="Of the bootstrap.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap.")]
Minimum = Annotated[int, typer.Option("--minimum", min=1, help="Dialogues that each shared subset of gap needs.")]


@dataclass(frozen=True)
class _How:
    """The options of a command."""

    resamples: int
    seed: int
    minimum: int
    quiet: bool

    @property
    def bootstrap(self) -> dict[str, Any]:
        return {"resamples": self.resamples, "seed": self.seed}


Find = Callable[["list[Analysed]", _How], "Finding"]


def _first_last(runs: list[Analysed], how: _How) -> Finding:
    from yanami_metric.analysis.turns import first_last

    return first_last(_of_history(runs, "gt"), **how.bootstrap)


def _turns(runs: list[Analysed], how: _How) -> Finding:
    from yanami_metric.analysis.turns import by_turn

    curves = {
        f"{one.name}, {history}" if len(one.histories) > 1 else one.name: tallies
        for one in runs
        for history, tallies in one.histories.items()
    }
    return by_turn(curves, **how.bootstrap)


def _gap(runs: list[Analysed], how: _How) -> Finding:
    from yanami_metric.alike import differences
    from yanami_metric.analysis.gap import gap
    from yanami_metric.comparing import measured_how

    found = gap(_of_history(runs, "gt"), minimum=how.minimum, **how.bootstrap)
    unlike = differences([(one.name, measured_how(one, "gt")) for one in runs])
    notes = tuple(f"Not measured alike: {one.text}." for one in unlike if one.stops)
    return replace(found, notes=(*notes, *found.notes))


def _modes(what: str) -> Find:
    def find(runs: list[Analysed], how: _How) -> Finding:
        from yanami_metric.analysis.modes import differences

        chosen: Any = what
        return differences(_all(runs), {one.name: one.basis for one in runs}, chosen, **how.bootstrap)

    return find


def _checks(what: str) -> Find:
    def find(runs: list[Analysed], how: _How) -> Finding:
        from yanami_metric.analysis import checks

        found: Finding = getattr(checks, what)(_all(runs), **how.bootstrap)
        return found

    return find


def _drift(runs: list[Analysed], how: _How) -> Finding:
    from tqdm import tqdm

    from yanami_metric.analysis.drift import drift

    total = sum(len(one.run.data) for one in runs)
    with tqdm(total=total, desc="drift", unit="dialogue", disable=how.quiet or None, leave=False) as bar:
        return drift(runs, progress=bar.update, **how.bootstrap)


def _all(runs: list[Analysed]) -> dict[str, Any]:
    return {one.name: one.histories for one in runs}


def _of_history(runs: list[Analysed], history: str) -> dict[str, Any]:
    from yanami_dataset.errors import DataError

    for one in runs:
        if history not in one.histories:
            ran = ", ".join(one.histories) or "none"
            raise DataError(f"{one.run.path}: expected a run under history {history}, got one under {ran}")
    return {one.name: one.histories[history] for one in runs}


ANALYSES: dict[str, tuple[str, Find]] = {
    "first-last": ("VR of the first and last generation turn (Table 20, Figure 6b).", _first_last),
    "turns": ("Scores by generation turn and turn number, with the curve (ours).", _turns),
    "drop": ("History drop, gt - self (Figure 6c).", _modes("drop")),
    "need": ("History need, gt - none (ours).", _modes("need")),
    "adds": ("What holding the conversation adds, self - last (ours).", _modes("adds")),
    "gap": ("Understanding-realization gap of two or more runs (Table 21).", _gap),
    "capabilities": ("Scores by capability (ours).", _checks("capabilities")),
    "checks": ("Share passed by kind of check (ours).", _checks("kinds")),
    "errors": ("How one failed turn brings the next (ours).", _checks("errors")),
    "drift": ("How far images get from what they continue, in pixels (ours; docs/drift.md).", _drift),
}


def _command(name: str) -> Callable[..., None]:
    def command(
        runs: Runs,
        judge: Judge = None,
        out: Out = None,
        resamples: Resamples = 1000,
        seed: Seed = 0,
        minimum: Minimum = 20,
        quiet: Quiet = False,
        json_: Json = False,
    ) -> None:
        from yanami_metric.analysis.loading import load

        how = _How(resamples, seed, minimum, quiet)
        loaded = load(runs, judge)
        found = _every(loaded, how) if name == "all" else [ANALYSES[name][1](loaded, how)]
        folder = out or (runs[0] / "analysis" if len(runs) == 1 else Path("analysis"))
        _write(found, folder, mini=any(one.is_mini for one in loaded), quiet=quiet, json_=json_)

    command.__doc__ = ANALYSES[name][0] if name in ANALYSES else "All that apply."
    return command


def _every(runs: list[Analysed], how: _How) -> list[Finding]:
    """Each analysis that applies; what doesn't is said."""
    from yanami_dataset.errors import DataError, SpecError

    found = []
    for name, (_, find) in ANALYSES.items():
        try:
            found.append(find(runs, how))
        except (DataError, SpecError) as error:
            if not how.quiet:
                typer.echo(f"left out: {name}: {error}", err=True)
    return found


def _write(found: list[Finding], out: Path, *, mini: bool, quiet: bool, json_: bool) -> None:
    from yanami_metric.analysis.writing import NO_FIGURE, text, write

    written = [(finding, write(finding, out, mini=mini)) for finding in found]
    if json_:
        values = {finding.name: finding.values for finding in found}
        typer.echo(json.dumps(values if len(found) != 1 else found[0].values, indent=2, allow_nan=False))
    elif not quiet:
        for finding, files in written:
            typer.echo(text(finding, mini=mini))
            typer.echo(f"written: {', '.join(map(str, files))}\n")
    if not quiet and any(finding.charts for finding in found):
        import importlib.util

        if importlib.util.find_spec("matplotlib") is None:
            typer.echo(NO_FIGURE, err=True)


for _name in (*ANALYSES, "all"):
    app.command(_name)(_command(_name))
