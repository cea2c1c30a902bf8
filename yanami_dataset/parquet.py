"""Parquet files of dialogues, one row group at a time, with pyarrow alone.

`ParquetFile.read_row_group` is used throughout: a process that stops early ends (a stopped scan over many row groups of
images may not, apache/arrow#45214). Knows columns, not what a dialogue is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import SourceError
from yanami_dataset.features import COLUMNS, LABELS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_TEXT_COLUMNS = [name for name in COLUMNS if name != "images"]
_BUFFER = 2**20  # bytes read at a time: half the memory and a third of the time of reading a column whole


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a file: what is read at once."""

    file: Path
    number: int


def files_of(path: Path) -> list[Path]:
    """The Parquet files of a folder by name, at any depth, or the one file that `path` is.

    Raises:
        SourceError: there is none, or one is a link that leads out of the folder.
    """
    if not path.exists():
        raise SourceError(f"expected a folder of Parquet files, got {path}, which doesn't exist")
    if path.is_file():
        return [path]
    files = [file for file in sorted(path.rglob("*.parquet")) if not _hidden(file.relative_to(path))]
    if not files:
        raise SourceError(f"expected a folder of Parquet files, got {path} with none: import or build a data set first")
    home = path.resolve()
    if home.parent.name == "snapshots":  # the Hub's cache: snapshots/<commit>/<file> links to blobs/<hash> beside it
        home = home.parent.parent
    for file in files:
        if not file.resolve().is_relative_to(home):
            raise SourceError(f"expected files inside {path}, got {file}, a link to {file.resolve()}")
    return files


def index(file: Path) -> list[tuple[Group, int, str, str]]:
    """Group, row within it, id and scenario of every dialogue of a file.

    Raises:
        SourceError: no Parquet, columns are missing, labels have other names.
    """
    found = []
    with _opened(file) as parquet:
        _check_schema(file, parquet.schema_arrow)
        for number in range(parquet.num_row_groups):
            table = parquet.read_row_group(number, columns=["id", "scenario"])
            ids, scenarios = (column.to_pylist() for column in table.columns)
            for row, (id, scenario) in enumerate(zip(ids, scenarios, strict=True)):
                found.append((Group(file, number), row, id, _scenario(file, id, scenario)))
    return found


def text_rows(group: Group) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of a group without their images, and how many images each has."""
    with _opened(group.file) as parquet:
        leaves = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
        # of an image only the small field is read: the lengths of the lists without their bytes
        small = [leaf for leaf in leaves if leaf.startswith("images.") and leaf.endswith(".path")]
        table = parquet.read_row_group(group.number, columns=[*_TEXT_COLUMNS, *small])
    counts = [len(images or ()) for images in table.column("images").to_pylist()]
    return table.select(_TEXT_COLUMNS).to_pylist(), counts


def image_column(group: Group) -> pa.ChunkedArray:
    """The images of a group: a list of structs with `bytes` per row."""
    with _opened(group.file) as parquet:
        return parquet.read_row_group(group.number, columns=["images"]).column("images")


def text_bytes(file: Path) -> Iterator[bytes]:
    """The stored bytes of all columns but the images'."""
    with _opened(file) as parquet, file.open("rb") as stream:
        metadata = parquet.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for chunk in map(group.column, range(group.num_columns)):
                if not chunk.path_in_schema.startswith("images."):
                    stream.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                    yield stream.read(chunk.total_compressed_size)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


@contextmanager
def _opened(file: Path) -> Iterator[pq.ParquetFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, buffer_size=_BUFFER) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{file}: expected a whole Parquet file of dialogues, got an unreadable one: {error}"
        ) from error


def _check_schema(file: Path, schema: pa.Schema) -> None:
    import pyarrow as pa

    if lacking := [name for name in COLUMNS if name not in schema.names]:
        raise SourceError(f"{file}: expected the columns {', '.join(COLUMNS)}, got none named {', '.join(lacking)}")
    images = schema.field("images").type
    element = images.value_type if pa.types.is_list(images) else None
    if element is None or not pa.types.is_struct(element) or {"bytes", "path"} - {f.name for f in element}:
        raise SourceError(f"{file}: expected images as lists of {{bytes, path}}, got {images}")
    declared = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    for path, names in _labels("", declared.get("info", {}).get("features", {})):
        if names != list(LABELS.get(path, names)):
            raise SourceError(
                f"{file}: expected the labels {', '.join(LABELS[path])} for {path}, got {', '.join(names)}"
            )


def _labels(path: str, feature: Any) -> Iterator[tuple[str, list[str]]]:
    """Dotted column and names of every ClassLabel in a file's features."""
    if not isinstance(feature, dict):
        return
    if feature.get("_type") == "ClassLabel":
        yield path, feature["names"]
    elif isinstance(feature.get("_type"), str):
        yield from _labels(path, feature.get("feature"))
    else:
        for name, inner in feature.items():
            yield from _labels(f"{path}.{name}" if path else name, inner)


def _scenario(file: Path, id: str, value: Any) -> str:
    names = LABELS["scenario"]
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    if value in names:
        return str(value)
    raise SourceError(f"{file}: dialogue {id!r}: expected a scenario of {', '.join(names)}, got {value!r}")
