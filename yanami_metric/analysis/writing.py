"""A finding as files and as text: JSON, Markdown, CSV and a picture. All text in it may be anybody's."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.analysis.finding import Cell, Chart, Finding, Series, Table
from yanami_metric.run_folder import write_atomic
from yanami_metric.tables import DASH, SMOKE, render

NO_FIGURE = "no figure: pictures need matplotlib: pip install 'yanami[plots]'"
# Okabe and Ito's colours, told apart by everybody, and marks and hatches besides: one more than colours, so that the
# eighth series has the first colour with another mark
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
_MARKS = "osD^vPXh"
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")


def write(finding: Finding, out: Path, *, mini: bool = False) -> list[Path]:
    """Write `<name>.json`, `.md`, `.csv` (one for each table) and, where matplotlib is installed, `.png`.

    Args:
        finding: what was found.
        out: the folder, made if it isn't there.
        mini: whether it is about the mini bench, which the files then say.

    Returns:
        The files; without a picture where matplotlib is missing.

    Raises:
        SpecError: `out`, or what is above it, is a file.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise SpecError(f"expected a folder for the files of an analysis, got a file at or above {out}") from error
    told = {"name": finding.name, "title": finding.title, "source": finding.source, "mini": mini}
    content = {**told, "notes": list(finding.notes), "values": finding.values}
    files = {
        f"{finding.name}.json": json.dumps(content, indent=2, allow_nan=False) + "\n",
        f"{finding.name}.md": text(finding, mini=mini),
    }
    for number, table in enumerate(finding.tables, 1):
        files[f"{finding.name}{'' if number == 1 else f'-{number}'}.csv"] = comma_separated(table)
    written = []
    for name, content_ in files.items():
        write_atomic(out / name, content_.encode(errors="replace"))
        written.append(out / name)
    drawn = picture(finding)
    if drawn is not None:
        write_atomic(out / f"{finding.name}.png", drawn)
        written.append(out / f"{finding.name}.png")
    return written


def text(finding: Finding, *, mini: bool = False) -> str:
    """A finding as Markdown."""
    blocks = [f"# {finding.title}", f"Source of the formula: {finding.source}."]
    if mini:
        blocks.append(f"> **{SMOKE}**")
    for table in finding.tables:
        blocks += [
            f"## {table.title}",
            render([table.header, *([cell(c, table.digits) for c in r] for r in table.rows)]),
        ]
    blocks.append("\n".join(f"- {_harmless_line(note)}" for note in finding.notes))
    return "\n\n".join(blocks) + "\n"


def _harmless_line(note: str) -> str:
    """A note without markup, escaped as cells are: names of runs are in it."""
    return render([[note]]).splitlines()[0].removeprefix("| ").removesuffix(" |")


def cell(value: Cell, digits: int) -> str:
    """A cell as text.

    >>> cell(1.5, 2), cell(None, 2), cell(3, 2), cell("a", 2)
    ('1.50', '–', '3', 'a')
    """
    if value is None:
        return DASH
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def comma_separated(table: Table) -> str:
    """A table as CSV, numbers in full. Text that a spreadsheet would run as a formula is quoted with an apostrophe.

    >>> print(comma_separated(Table("t", ("Model", "VR"), (("=1+1", 65.021), ("b", None)))), end="")
    Model,VR
    '=1+1,65.021
    b,
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_harmless, table.header))
    writer.writerows([_harmless(value) for value in row] for row in table.rows)
    return buffer.getvalue()


def _harmless(value: Cell) -> Cell:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def picture(finding: Finding) -> bytes | None:
    """The charts of a finding as a PNG; None without charts or without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return None
    charts = [chart for chart in finding.charts if any(map(_points, chart.series))]
    if not charts:
        return None
    figure = Figure(figsize=(7.5 * len(charts), 4.4), layout="constrained")
    for axes, chart in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        (_bars if chart.kind == "bars" else _lines)(axes, chart)
        axes.set(title=_plain(chart.title), xlabel=_plain(chart.x_label), ylabel=_plain(chart.y_label))
        if chart.limits:
            axes.set_ylim(*chart.limits)
        axes.legend(fontsize="small")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _points(one: Series) -> list[int]:
    """Where a series has a value. Without any it isn't drawn: in a legend it would have the wrong colour."""
    return [i for i, y in enumerate(one.y) if y is not None]


def _plain(label: str) -> str:
    """Without what matplotlib reads into labels: mathematics between dollar signs, and that a legend is to leave out
    what starts with an underscore.
    """
    return (" " if label.startswith("_") else "") + label.replace("$", r"\$")


def _lines(axes: Any, chart: Chart) -> None:
    for number, one in enumerate(chart.series):
        if not (points := _points(one)):
            continue
        colour, x = _COLOURS[number % len(_COLOURS)], [one.x[i] for i in points]
        mark = _MARKS[number % len(_MARKS)]
        axes.plot(x, [one.y[i] for i in points], marker=mark, color=colour, label=_plain(one.label))
        known = [i for i in points if one.low and one.low[i] is not None]
        ends = [[side[i] for i in known] for side in (one.low, one.high)]
        axes.fill_between([one.x[i] for i in known], *ends, color=colour, alpha=0.18, linewidth=0)
    axes.xaxis.get_major_locator().set_params(integer=True)  # turns


def _bars(axes: Any, chart: Chart) -> None:
    names = list(dict.fromkeys(str(x) for one in chart.series for x in one.x))
    width = 0.8 / max(1, len(chart.series))
    for number, one in enumerate(chart.series):
        if not (points := _points(one)):
            continue
        place = [names.index(str(one.x[i])) + (number - (len(chart.series) - 1) / 2) * width for i in points]
        heights = [one.y[i] for i in points]
        axes.bar(
            place, heights, width, color=_COLOURS[number % len(_COLOURS)], hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor="white", label=_plain(one.label),
        )  # fmt: skip
        known = [
            (p, one.low[i], one.high[i])
            for p, i in zip(place, points, strict=True)
            if one.low and one.low[i] is not None
        ]
        axes.vlines(
            [p for p, _, _ in known], [low for _, low, _ in known], [high for _, _, high in known], color="#333"
        )
    axes.axhline(0, color="#333", linewidth=0.6)
    axes.set_xticks(range(len(names)), [_plain(name.replace("_", " ")) for name in names], rotation=25, ha="right")
