"""The paper's tables as Markdown, CSV and LaTeX. Names in them may be anybody's, so each format escapes them."""

from __future__ import annotations

from collections.abc import Sequence

from yanami_metric.analysis.finding import Cell, Table
from yanami_metric.analysis.writing import comma_separated
from yanami_metric.paper_tables import Column, Entry, Group, PaperTable, cell
from yanami_metric.tables import DASH, render

FORMATS = ("markdown", "csv", "latex")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # else an option of the \\ before it
    "]": "{]}",
    "*": "{*}",
    DASH: "--",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}


def markdown(table: PaperTable) -> str:
    """A table as Markdown, its groups one below the other."""
    blocks = [f"## {table.title}"]
    if table.banner:
        blocks.append(f"> **{table.banner}**")
    for group in table.groups:
        if group.caption:
            blocks.append(f"### {group.caption}")
        blocks.append(render([_header(table), *(_row(table, entry) for entry in group.entries)]))
    if table.notes:
        blocks.append("\n".join(f"- {_one_line(note)}" for note in table.notes))
    return "\n\n".join(blocks) + "\n"


def csv(table: PaperTable) -> str:
    """A table as CSV, figures as rounded; a dash is empty, an interval is two columns of its own.

    A column `Group` tells the groups apart where there are several. The banner is a column too, as CSV has no notes.
    """
    with_group = len(table.groups) > 1
    ends = [f"{column.title} {end}" for column in table.columns for end in ("low", "high")]
    header = [*_header(table)[: 1 + table.with_size], *(column.title for column in table.columns)]
    header += [*(ends if table.with_intervals else ()), *(["Source"] if table.with_source else ())]
    header += [*(["Group"] if with_group else ()), *(["Note"] if table.banner else ())]
    rows = []
    for group in table.groups:
        for entry in group.entries:
            row: list[Cell] = [entry.model, *([entry.size] if table.with_size else ())]
            row += [_number(entry.values.get(column.key), column) for column in table.columns]
            if table.with_intervals:
                row += [
                    _number(end, column)
                    for column in table.columns
                    for end in entry.intervals.get(column.key, (None, None))
                ]
            row += [*([entry.source] if table.with_source else ()), *([group.caption] if with_group else ())]
            rows.append((*row, *([table.banner] if table.banner else ())))
    return comma_separated(Table(table.title, tuple(header), tuple(rows)))


def latex(table: PaperTable) -> str:
    """A table as LaTeX for booktabs: the best figure of a group is bold, the second underlined; notes are comments."""
    width = 1 + table.with_size + len(table.columns) + table.with_source
    shape = "l" * (1 + table.with_size) + "r" * len(table.columns) + "l" * table.with_source
    title = " ".join([f"{table.title}.", table.banner]).strip()
    lines = [r"% needs \usepackage{booktabs}", *(f"% {_one_line(note)}" for note in table.notes)]
    lines += [r"\begin{table}", r"\centering", rf"\caption{{{escaped(title)}}}", rf"\begin{{tabular}}{{{shape}}}"]
    lines += [r"\toprule", _line([escaped(title) for title in _header(table)])]
    for group in table.groups:
        lines.append(r"\midrule")
        if group.caption:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escaped(group.caption)}}}}} \\")
        lines += _latex_rows(table, group)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX shows as it is, on one line.

    >>> print(escaped("100 % of my_model [dev]"))
    100 \\% of my\\_model {[}dev{]}
    """
    return "".join(_LATEX.get(mark, mark) for mark in _one_line(text))


def _latex_rows(table: PaperTable, group: Group) -> list[str]:
    marks = {column.key: _marked(group.entries, column) for column in table.columns}
    rows = []
    for place, entry in enumerate(group.entries):
        names = [entry.model, *([entry.size or DASH] if table.with_size else ())]
        cells = [escaped(name) for name in names]
        for column in table.columns:
            figure = escaped(cell(entry.values.get(column.key), column.digits))
            if figure.startswith("-") and figure != "--":
                figure = f"${figure}$"  # a minus, not a hyphen
            if command := marks[column.key].get(place):
                figure = rf"\{command}{{{figure}}}"
            ends = _ends(entry, column) if table.with_intervals else ""
            cells.append(figure + (rf" {{\scriptsize {escaped(ends)}}}" if ends else ""))
        rows.append(_line([*cells, *([escaped(entry.source)] if table.with_source else ())]))
    return rows


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _marked(entries: Sequence[Entry], column: Column) -> dict[int, str]:
    """By place in the group the command of the best and the second figure, as rounded; ties share a place."""
    figures = {
        place: figure
        for place, entry in enumerate(entries)
        if (figure := _number(entry.values.get(column.key), column)) is not None
    }
    if len(figures) < 2:  # the best of one says nothing
        return {}
    order = sorted(set(figures.values()), reverse=not column.lower)
    commands = dict(zip(order, ("textbf", "underline"), strict=False))
    return {place: commands[figure] for place, figure in figures.items() if figure in commands}


def _number(value: float | None, column: Column) -> float | None:
    return None if value is None else float(cell(value, column.digits))


def _header(table: PaperTable) -> list[str]:
    titles = [column.title for column in table.columns]
    return ["Model", *(["Size"] if table.with_size else ()), *titles, *(["Source"] if table.with_source else ())]


def _row(table: PaperTable, entry: Entry) -> list[str]:
    cells = [entry.model, *([entry.size or DASH] if table.with_size else ())]
    for column in table.columns:
        ends = _ends(entry, column) if table.with_intervals else ""
        cells.append(" ".join([cell(entry.values.get(column.key), column.digits), ends]).strip())
    return [*cells, *([entry.source] if table.with_source else ())]


def _ends(entry: Entry, column: Column) -> str:
    """An interval as text, "" where there is none."""
    ends = entry.intervals.get(column.key)
    return f"({cell(ends[0], column.digits)}, {cell(ends[1], column.digits)})" if ends else ""


def _one_line(text: str) -> str:
    return "".join(mark for mark in " ".join(text.split()) if mark.isprintable())
