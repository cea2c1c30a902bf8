"""`yanami publish`: data sets, runs and Spaces to the Hub. Imports nothing heavy before a command runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from yanami_metric.cli.console import Quiet

if TYPE_CHECKING:
    from yanami_dataset.hub import Kind

app = typer.Typer(no_args_is_help=True)

Repo = Annotated[str, typer.Option("--repo", help="Where on the Hub, NAMESPACE/NAME; made if it isn't there.")]
Private = Annotated[bool, typer.Option("--private", help="If it is made.")]
DryRun = Annotated[
    Path | None, typer.Option("--dry-run", help="Write what would go up to this new folder, and send nothing.")
]
License = Annotated[str, typer.Option("--license", help="As the Hub abbreviates it.")]
Name = Annotated[str | None, typer.Option("--name", help="The title on the card.")]
Released = Annotated[
    bool,
    typer.Option(
        "--released",
        help="The images are of a set that is out already: keep their bytes. Else EXIF (places!) and other metadata "
        "are taken out.",
    ),
]
Data = Annotated[str, typer.Argument(help="A data set folder, or 'mini'.", metavar="DATA")]


@app.command()
def bench(
    data: Data,
    repo: Repo = "yanami/bench",
    private: Private = False,
    dry_run: DryRun = None,
    name: Name = None,
    license: License = "other",
    released: Released = False,
    quiet: Quiet = False,
) -> None:
    """A bench, in one commit: Parquet, a card of what is in it, eval.yaml."""
    _data("bench", data, repo, dry_run, name, license, None, private=private, released=released, quiet=quiet)


@app.command("yanami-400k")
def training_set(
    data: Data,
    repo: Repo = "yanami/yanami-400k",
    private: Private = False,
    dry_run: DryRun = None,
    name: Name = None,
    license: License = "other",
    released: Released = False,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Files a commit.")] = 50,
    quiet: Quiet = False,
) -> None:
    """A training set, in batches to a pull request that is merged when everything is there."""
    _data("yanami-400k", data, repo, dry_run, name, license, batch, private=private, released=released, quiet=quiet)


@app.command()
def run(
    path: Annotated[Path, typer.Argument(help="A scored run folder.", metavar="RUN")],
    repo: Annotated[str, typer.Option("--repo", help="Where on the Hub, NAMESPACE/NAME; made if it isn't there.")],
    private: Private = False,
    dry_run: DryRun = None,
    license: License = "other",
    data_repo: Annotated[str | None, typer.Option("--data-repo", help="Where its dialogues are on the Hub.")] = None,
    quiet: Quiet = False,
) -> None:
    """A finished run as a data set: outputs, verdicts and scores, so that others can judge it again."""
    from yanami_dataset.hub import repo_id
    from yanami_metric.publishing import run_release

    repo_id(repo)
    _send(
        lambda out: run_release(path, out, repo, license=license, data_repo=data_repo),
        repo, "dataset", dry_run, private=private, quiet=quiet,
    )  # fmt: skip


@app.command()
def metric(
    repo: Repo = "yanami/yanami", private: Private = False, dry_run: DryRun = None, quiet: Quiet = False
) -> None:
    """The Space that `evaluate.load("yanami/yanami")` finds, with an app that scores an uploaded run."""
    _space("metric", repo, dry_run, "yanami/bench", private=private, quiet=quiet)


@app.command()
def space(
    repo: Repo = "yanami/leaderboard",
    bench: Annotated[str, typer.Option("--bench", help="The data set that it is about.")] = "yanami/bench",
    private: Private = False,
    dry_run: DryRun = None,
    quiet: Quiet = False,
) -> None:
    """The Space that shows the leaderboard."""
    _space("space", repo, dry_run, bench, private=private, quiet=quiet)


def _data(
    kind: str,
    spec: str,
    repo: str,
    dry_run: Path | None,
    name: str | None,
    license: str,
    batch: int | None,
    *,
    private: bool,
    released: bool,
    quiet: bool,
) -> None:
    from tqdm import tqdm

    from yanami_dataset.publishing import write_release
    from yanami_metric.data import open_data
    from yanami_metric.publishing import data_card

    data = open_data(spec)
    card = data_card(kind, repo, name=name, license=license, mini=data.is_mini)

    def write(out: Path) -> None:
        with tqdm(total=len(data), desc="write", unit="dialogue", disable=quiet or None, delay=1, leave=False) as bar:
            write_release(data, out, card, released=released, progress=bar.update)

    _send(write, repo, "dataset", dry_run, private=private, quiet=quiet, batch=batch)


def _space(kind: str, repo: str, dry_run: Path | None, bench: str, *, private: bool, quiet: bool) -> None:
    from importlib.metadata import PackageNotFoundError, version

    from yanami_dataset.errors import MissingExtraError
    from yanami_metric.publishing import space_release

    try:
        gradio = version("gradio")
    except PackageNotFoundError as error:
        raise MissingExtraError(
            "the version of gradio that the Space runs with: pip install 'yanami[space]'"
        ) from error
    _send(
        lambda out: space_release(kind, out, gradio=gradio, bench=bench),
        repo, "space", dry_run, private=private, quiet=quiet, space_sdk="gradio",
    )  # fmt: skip


def _send(
    write: Callable[[Path], object], repo: str, kind: Kind, dry_run: Path | None, *, quiet: bool, **how: Any
) -> None:
    from yanami_dataset.hub import upload

    if dry_run is not None:
        write(dry_run)
        if not quiet:
            typer.echo(f"written, not sent: {dry_run}")
        return
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # documented there

    if quiet:
        disable_progress_bars()
    with tempfile.TemporaryDirectory(prefix="yanami-") as temporary:
        out = Path(temporary) / "release"
        write(out)
        url = upload(out, repo, kind, **how)
    if not quiet:
        typer.echo(f"published: {url}")
