"""The yanami command. Nobody imports it, and it imports nothing heavy before a command runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import yanami_metric.cli.agreement as agreement_commands
import yanami_metric.cli.analyze as analyze_commands
import yanami_metric.cli.compare as compare_commands
import yanami_metric.cli.data as data_commands
import yanami_metric.cli.judges as judges_commands
import yanami_metric.cli.models as models_commands
import yanami_metric.cli.publish as publish_commands
import yanami_metric.cli.run as run_commands
import yanami_metric.cli.submit as submit_commands
import yanami_metric.cli.table as table_commands
import yanami_metric.cli.watch as watch_commands
from yanami_metric.cli.console import fail

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Roll models out over multi-turn image-text dialogues, judge what they draw and answer, and score it.",
)
app.add_typer(data_commands.app, name="data", help="Make, import and look at dialogues.")
app.add_typer(analyze_commands.app, name="analyze", help="What runs say beyond their scores; which table is which.")
app.add_typer(publish_commands.app, name="publish", help="Data sets, runs and Spaces to the Hub.")
app.add_typer(agreement_commands.app, name="agreement", help="Compare a judge with people.")
for command in (
    run_commands.eval_,
    run_commands.rollout,
    run_commands.judge,
    run_commands.score,
    run_commands.report,
    run_commands.merge,
    compare_commands.compare,
    table_commands.table,
    submit_commands.submit,
    submit_commands.leaderboard,
    watch_commands.watch,
    models_commands.models,
    judges_commands.calibrate,
):
    app.command(command.__name__.strip("_"))(command)


@app.command("install-metric")
def install_metric(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Make `evaluate.load("yanami")` work offline on this machine."""
    from yanami_metric.install import install

    path = install()
    if not quiet:
        typer.echo(f'evaluate.load("yanami") now finds {path}')


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        from yanami_dataset import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command; what is wrong with data, options or folders is one message and exit code 2."""
    from yanami_dataset.errors import YanamiError

    try:
        app()
    except YanamiError as error:
        fail(error)
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here")
