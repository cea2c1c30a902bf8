"""The sheet that people fill in: one row of a CSV file for each item to be rated.

    instance, run, dialogue, track, turn, slot, kind, item, criterion, candidate, rater, rating

`kind` is checks or quality, `run` a letter that hides the model, `candidate` the SHA-256 of the image. People fill in
`rater` and `rating`: pass or fail (or 1, 0) for a check, 0 to 10 for a quality, not_judgeable for what they can't tell.
Files are UTF-8 with a byte order mark, which spreadsheets need; cells that a spreadsheet would run as a formula begin
with an apostrophe, taken away again on reading. Knows no run and no judge.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NoReturn

from yanami_dataset.errors import SourceError

KINDS = ("checks", "quality")
NOT_JUDGEABLE = "not_judgeable"
OPTIONAL = ("instance", "criterion", "candidate", "rater")

_CHECKS = {"pass": 1.0, "1": 1.0, "fail": 0.0, "0": 0.0}
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?")
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the sheet. `file` and `line` say where it was read; the first row below the header is line 2."""

    instance: str
    run: str
    dialogue: str
    track: str
    turn: int
    slot: int
    kind: str
    item: str
    criterion: str = ""
    candidate: str = ""
    rater: str = ""
    rating: str = ""
    file: str = ""
    line: int = 0

    @property
    def where(self) -> str:
        """The place in the file."""
        return f"{self.file}, row {self.line}"

    @property
    def value(self) -> float | None:
        """The rating as a number: 1 or 0 of a check, 0 to 10 of a quality; None where the rater couldn't tell.

        Raises:
            SourceError: anything else, also an empty cell.
        """
        said = self.rating.strip().lower()
        if said == NOT_JUDGEABLE:
            return None
        if self.kind == "checks":
            if said not in _CHECKS:
                _refuse(self.file, self.line, "rating", f"pass, fail, 1, 0 or {NOT_JUDGEABLE}", self.rating)
            return _CHECKS[said]
        score = float(said) if _NUMBER.fullmatch(said) else math.inf
        if score > 10:
            _refuse(self.file, self.line, "rating", f"a number from 0 to 10 or {NOT_JUDGEABLE}", self.rating)
        return score


COLUMNS = tuple(field.name for field in fields(Row) if field.name not in ("file", "line"))


def sheet(rows: Iterable[Row]) -> bytes:
    """The CSV file of some rows."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows([harmless(str(getattr(row, name))) for name in COLUMNS] for row in rows)
    return text.getvalue().encode("utf-8-sig")


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; `as_meant` undoes it.

    >>> harmless("=1+1"), harmless("It is a cat."), as_meant(harmless("=1+1"))
    ("'=1+1", 'It is a cat.', '=1+1')
    """
    return f"'{cell}" if cell.startswith((*_DANGEROUS, "'")) else cell


def as_meant(cell: str) -> str:
    """A cell without the apostrophe that `harmless` put before it."""
    return cell[1:] if cell.startswith("'") else cell


def read_ratings(path: Path) -> list[Row]:
    """The rows of a CSV file, or of all those in a folder, empty ratings included.

    A file whose `rater` cells are all empty is that of the rater it is named after (`ann.csv`). Columns are found by
    their names, in any order; comma, semicolon or tab separate them. `instance`, `criterion` and `candidate` may lack.

    Raises:
        SourceError: no such file, or one that is no such sheet; names file, row, column and value.
    """
    files = sorted(path.glob("*.csv")) if path.is_dir() else [path]
    if not files:
        raise SourceError(f"{path}: expected CSV files in this folder, found none")
    return [row for file in files for row in _file(file)]


def _file(path: Path) -> list[Row]:
    try:
        text = path.read_bytes().decode("utf-8-sig")  # as it is: read_text would change line ends in cells
    except FileNotFoundError:
        raise SourceError(f"{path}: expected a CSV file of ratings, found no such file") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: expected UTF-8 text, got {error}; save it as CSV UTF-8") from None
    header, _, _ = text.partition("\n")
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = list(reader)
    except csv.Error as error:
        raise SourceError(f"{path}, line {reader.line_num}: expected CSV, got {error}") from None
    names = [name.strip() for name in lines[0]] if lines else []
    _check_header(path, names)
    rows = [_row(path, number, names, cells) for number, cells in enumerate(lines[1:], 2) if any(cells)]
    return _named(path, rows)


def _check_header(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in names and name not in OPTIONAL]
    if missing:
        raise SourceError(f"{path}, row 1: expected the columns {', '.join(missing)}, got {', '.join(names) or 'none'}")
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise SourceError(f"{path}, row 1: expected each column once, got {twice[0]} twice")


def _row(path: Path, line: int, names: Sequence[str], cells: Sequence[str]) -> Row:
    if len(cells) != len(names):
        raise SourceError(f"{path}, row {line}: expected {len(names)} cells, got {len(cells)}")
    found = {name: as_meant(cell) for name, cell in zip(names, cells, strict=True) if name in COLUMNS}
    if found["kind"] not in KINDS:
        _refuse(str(path), line, "kind", " or ".join(KINDS), found["kind"])
    numbers = {name: _whole(path, line, name, found[name]) for name in ("turn", "slot")}
    texts = {name: found.get(name, "") for name in COLUMNS if name not in numbers}
    texts["rater"] = texts["rater"].strip()
    row = Row(**texts, **numbers, file=str(path), line=line)  # type: ignore[arg-type]  # mypy sees one type for both
    _ = row.value if row.rating.strip() else None  # refused now, whatever the row is about
    return row


def _whole(path: Path, line: int, name: str, cell: str) -> int:
    if not (cell.strip().isascii() and cell.strip().isdecimal()):
        _refuse(str(path), line, name, "a whole number", cell)
    return int(cell)


def _refuse(file: str, line: int, column: str, expected: str, got: str) -> NoReturn:
    raise SourceError(f"{file}, row {line}, column {column}: expected {expected}, got {got[:80]!r}")


def _named(path: Path, rows: Sequence[Row]) -> list[Row]:
    """With the file's name as the rater where the file names none."""
    rated = [row for row in rows if row.rating.strip()]
    if any(row.rater for row in rated):
        for row in rated:
            if not row.rater:
                _refuse(row.file, row.line, "rater", "the name of who rated this, as in other rows", row.rater)
        return list(rows)
    return [replace(row, rater=path.stem) for row in rows]
