"""`yanami data`: bring dialogues in and look at them. Imports nothing heavy before a command runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yanami_metric.cli.console import Json, Quiet

if TYPE_CHECKING:
    from yanami_dataset.builder import Summary

app = typer.Typer(no_args_is_help=True)

SHOWN = 10  # of what was left out


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="The file to import.", metavar="IN")],
    out: Annotated[Path, typer.Argument(help="A new folder for the data set.", metavar="OUT")],
    format: Annotated[str, typer.Option(help="The format of IN: messages (chat logs as JSON Lines).")],
    assistant_images: Annotated[
        str | None, typer.Option(help="What images of the assistant are: target (ground truth) or observed.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="The scenario of lines that name none.")] = None,
    name: Annotated[str | None, typer.Option(help="The name on the card; OUT's by default.")] = None,
    split: Annotated[str, typer.Option(help="The split that the rows are.")] = "test",
    license: Annotated[str, typer.Option(help="The licence on the card, as the Hub abbreviates it.")] = "other",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad dialogues out and list them.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write foreign dialogues as a data set that `datasets` and yanami read."""
    from yanami_dataset.builder import write_dataset
    from yanami_dataset.errors import DataError, SpecError
    from yanami_dataset.importers import messages

    if format != "messages":
        raise SpecError(f"--format: expected messages, got {format!r}")
    from tqdm import tqdm

    skipped: list[DataError] = []
    dialogues = messages.read(
        source,
        assistant_images=assistant_images,  # type: ignore[arg-type]  # checked there
        scenario=scenario,
        on_bad=skipped.append if skip_bad else None,
    )
    # None: no bar where standard error is no terminal; the delay spares short imports one
    with tqdm(desc="import", unit=" dialogues", disable=quiet or None, delay=1, leave=False) as bar:
        summary = write_dataset(
            dialogues,
            out,
            name=name or out.resolve().name,
            split=split,
            license=license,
            skip_bad=skip_bad,
            skipped=skipped,
            progress=bar.update,
        )
    if as_json:
        typer.echo(json.dumps(_as_json(summary), ensure_ascii=False))
    elif not quiet:
        typer.echo(_as_text(summary))


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A data set folder.")],
    id: Annotated[str | None, typer.Argument(help="A dialogue; without it the first, and a list of ids.")] = None,
) -> None:
    """Print one dialogue: its turns, state, questions and checks."""
    from yanami_dataset.reader import DialogueFolder
    from yanami_dataset.show import show as rendered
    from yanami_dataset.show import visible

    dialogues = DialogueFolder(path)
    ids = dialogues.ids()
    typer.echo(rendered(dialogues.get(ids[0] if id is None else id)))
    if id is None and len(ids) > 1:
        more = f" and {len(ids) - SHOWN - 1} more" if len(ids) > SHOWN + 1 else ""
        typer.echo(f"\n{len(ids)} dialogues; others: {visible(', '.join(ids[1 : SHOWN + 1]))}{more}")


def _as_json(summary: Summary) -> dict[str, object]:
    scenarios = {scenario: asdict(share) for scenario, share in summary.scenarios.items()}
    return {"out": str(summary.out), "scenarios": scenarios, "skipped": list(summary.skipped)}


def _as_text(summary: Summary) -> str:
    from yanami_dataset.show import visible

    total = summary.total
    lines = [f"{summary.out}: dialogues {total.dialogues}, images {total.images}, {total.disk_bytes / 1e6:.1f} MB"]
    lines += [f"  {scenario}: {share.dialogues}" for scenario, share in summary.scenarios.items()]
    if summary.skipped:
        lines.append(f"left out {len(summary.skipped)}:")
        lines += [f"  {visible(reason)}" for reason in summary.skipped[:SHOWN]]
        if len(summary.skipped) > SHOWN:
            lines.append(f"  and {len(summary.skipped) - SHOWN} more; --json lists all")
    return "\n".join(lines)


@app.command()
def mini(
    out: Annotated[Path, typer.Argument(help="A new folder for the data set.", metavar="OUT")],
    dialogues: Annotated[int, typer.Option(help="How many.")] = 100,
    turns: Annotated[int | None, typer.Option(help="Turns of each dialogue. (default: 6 to 8)")] = None,
    size: Annotated[int, typer.Option(help="Side of the images in pixels, 128 to 1024.")] = 256,
    seed: Annotated[int, typer.Option(help="Another seed gives other dialogues.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw a mini bench: scenes of coloured shapes whose state is known exactly. No YANAMI-Bench score comes of it."""
    from yanami_metric.mini import draw_mini

    summary, tally = draw_mini(out, dialogues=dialogues, turns=turns, size=size, seed=seed, quiet=quiet or as_json)
    rejected = {"proposed": tally.proposed, "rejected": tally.rejected}
    if as_json:
        typer.echo(json.dumps(_as_json(summary) | {"targets": rejected}, ensure_ascii=False))
    elif not quiet:
        typer.echo(_as_text(summary))
        typer.echo(
            f"  targets the pixel judge misread, drawn anew: {tally.rejected} of {tally.proposed} ({tally.share:.1%})"
        )
