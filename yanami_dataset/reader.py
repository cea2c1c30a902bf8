"""Reading dialogues back: a Parquet folder with pyarrow alone, or rows that are in memory.

Text is parsed one row group at a time and image bytes are read when they are asked for, so memory stays flat whatever
the size of the data. A folder is read without importing `datasets`, which takes seconds.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar, overload

from yanami_dataset import parquet
from yanami_dataset.errors import DataError, SourceError, SpecError
from yanami_dataset.features import from_row
from yanami_dataset.parquet import Group
from yanami_dataset.schema import SCENARIOS, Dialogue, validate

_KEPT_IMAGES = 2  # row groups: at most 2 x 64 MB of what the builder writes
_KEPT_TEXTS = 8

T = TypeVar("T")


class Dialogues(Protocol):
    """Dialogues with an id each, in stored order."""

    def ids(self) -> tuple[str, ...]:
        """The ids in stored order."""
        ...

    def scenarios(self) -> tuple[str, ...]:
        """The scenario of each, in the same order; no dialogue is parsed for it."""
        ...

    def get(self, id: str) -> Dialogue:
        """One dialogue; DataError where there is none of that id."""
        ...

    def select(self, ids: Iterable[str]) -> Dialogues:
        """Only these dialogues, in stored order; DataError for an id that isn't there."""
        ...

    @property
    def revision(self) -> str:
        """64 hex digits that change with the content of the data."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Dialogue]: ...


class DialogueList:
    """Dialogues in memory.

    Raises:
        DataError: an id that comes twice.

    >>> dialogues = DialogueList([Dialogue("a", "fusion", (), ()), Dialogue("b", "editing", (), ())])
    >>> dialogues.select(["b"]).ids()
    ('b',)
    """

    def __init__(self, dialogues: Iterable[Dialogue]) -> None:
        self._dialogues: dict[str, Dialogue] = {}
        for dialogue in dialogues:
            if dialogue.id in self._dialogues:
                raise DataError(f"expected unique dialogue ids, got {dialogue.id!r} twice")
            self._dialogues[dialogue.id] = dialogue

    def ids(self) -> tuple[str, ...]:
        """The ids in stored order."""
        return tuple(self._dialogues)

    def scenarios(self) -> tuple[str, ...]:
        """The scenario of each, in the same order."""
        return tuple(dialogue.scenario for dialogue in self)

    def get(self, id: str) -> Dialogue:
        """One dialogue; DataError where there is none of that id."""
        _known([id], self._dialogues, "the dialogues")
        return self._dialogues[id]

    def select(self, ids: Iterable[str]) -> DialogueList:
        """Only these dialogues, in stored order; DataError for an id that isn't there."""
        wanted = _known(ids, self._dialogues, "the dialogues")
        return DialogueList(dialogue for id, dialogue in self._dialogues.items() if id in wanted)

    @cached_property
    def revision(self) -> str:
        """A hash over all text, and over the images by the hashes in `image_info`."""
        digest = hashlib.sha256()
        for dialogue in self:
            digest.update(repr(replace(dialogue, images=())).encode())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._dialogues)

    def __iter__(self) -> Iterator[Dialogue]:
        return iter(self._dialogues.values())


def open_rows(rows: Iterable[Mapping[str, Any]]) -> DialogueList:
    """The dialogues of a `datasets.Dataset` (decoding is switched off) or of undecoded rows, all in memory.

    Raises:
        DataError: a row that isn't one of `features()`, a broken invariant, an id that comes twice.
    """
    if hasattr(rows, "cast_column"):  # a decoded image has lost its bytes
        from datasets import Image, List

        rows = rows.cast_column("images", List(Image(decode=False)))
    dialogues = [from_row(row) for row in rows]
    for dialogue in dialogues:
        validate(dialogue)
    return DialogueList(dialogues)


class DialogueFolder:
    """The dialogues of a folder of Parquet files (or of one file), read lazily, safe to share between threads.

    Any Parquet with the columns of `features.COLUMNS` will do, of one or more row groups. `scenarios` narrows it down.

    Raises:
        SourceError: no folder, no Parquet in it, a broken file, missing columns, other label names, a link out of it.
        SpecError: a scenario that is none.
        DataError: an id that comes twice; in iteration and `get`, a row that breaks an invariant.
    """

    def __init__(self, path: Path | str, scenarios: Sequence[str] | None = None) -> None:
        for scenario in scenarios or ():
            if scenario not in SCENARIOS:
                raise SpecError(f"expected scenarios of {', '.join(SCENARIOS)}, got {scenario!r}")
        self.path = Path(path)
        self._files = parquet.files_of(self.path)
        self._texts: _Cache[list[Dialogue]] = _Cache(_KEPT_TEXTS)
        self._images: _Cache[Any] = _Cache(_KEPT_IMAGES)
        self._entries: dict[str, tuple[Group, int, str]] = {}
        for file in self._files:
            self._index(file, scenarios)

    def _index(self, file: Path, scenarios: Sequence[str] | None) -> None:
        for group, row, id, scenario in parquet.index(file):
            if scenarios is not None and scenario not in scenarios:
                continue
            if id in self._entries:
                first = self._entries[id][0].file
                raise DataError(f"{file}: expected unique dialogue ids, got {id!r} again (first in {first})")
            self._entries[id] = (group, row, scenario)

    def ids(self) -> tuple[str, ...]:
        """The ids in stored order: files by name, rows as they come."""
        return tuple(self._entries)

    def scenarios(self) -> tuple[str, ...]:
        """The scenario of each, in the same order; no dialogue is parsed for it."""
        return tuple(scenario for _, _, scenario in self._entries.values())

    def get(self, id: str) -> Dialogue:
        """One dialogue; DataError where there is none of that id."""
        _known([id], self._entries, str(self.path))
        group, row, _ = self._entries[id]
        return self._texts.get(group, lambda: self._parse(group))[row]

    def select(self, ids: Iterable[str]) -> DialogueFolder:
        """Only these dialogues, in stored order; DataError for an id that isn't there."""
        wanted = _known(ids, self._entries, str(self.path))
        selected = copy(self)
        selected._entries = {id: entry for id, entry in self._entries.items() if id in wanted}
        return selected

    @cached_property
    def revision(self) -> str:
        """A hash over every file's name, size and all columns but the images', which count by their hashes.

        It is that of the whole folder, whatever is selected.
        """
        digest = hashlib.sha256()
        for file in self._files:
            name = file.name if file == self.path else file.relative_to(self.path).as_posix()
            digest.update(f"{name}\0{file.stat().st_size}\0".encode())
            for chunk in parquet.text_bytes(file):
                digest.update(chunk)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Dialogue]:
        return map(self.get, self._entries)

    def _parse(self, group: Group) -> list[Dialogue]:
        rows, counts = parquet.text_rows(group)
        try:
            dialogues = [from_row(row, self._lazy(group, i, counts[i])) for i, row in enumerate(rows)]
            for dialogue in dialogues:
                validate(dialogue)
        except DataError as error:
            raise SourceError(f"{group.file}: {error}") from error
        return dialogues

    def _lazy(self, group: Group, row: int, count: int) -> _LazyImages:
        def read(i: int) -> bytes:
            column = self._images.get(group, lambda: parquet.image_column(group))
            data = column[row].values.field("bytes")[i].as_py()
            if data is None:
                raise DataError(f"{group.file}: image {i} of row {row} has no bytes: embed the images in the data")
            return bytes(data)

        return _LazyImages(count, read)


class _LazyImages(Sequence[bytes]):
    """The encoded images of a dialogue; equal to any sequence of the same bytes."""

    def __init__(self, count: int, read: Callable[[int], bytes]) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, i: int) -> bytes: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, i: int | slice) -> bytes | tuple[bytes, ...]:
        if isinstance(i, slice):
            return tuple(self._read(j) for j in range(self._count)[i])
        return self._read(range(self._count)[i])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return f"<{self._count} images>"

    def __reduce__(self) -> tuple[type, tuple[tuple[bytes, ...]]]:
        return tuple, (tuple(self),)  # in another process the bytes themselves


class _Cache(Generic[T]):
    """The last few row groups."""

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, Lock()
        self._kept: OrderedDict[Group, T] = OrderedDict()

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self._size,)  # another process reads for itself

    def get(self, group: Group, read: Callable[[], T]) -> T:
        with self._lock:  # held while reading: two threads that want one group read it once
            if group not in self._kept:
                if len(self._kept) >= self._size:
                    self._kept.popitem(last=False)
                self._kept[group] = read()
            self._kept.move_to_end(group)
            return self._kept[group]


def _known(ids: Iterable[str], known: Mapping[str, object], where: str) -> set[str]:
    wanted = set(ids)
    if lacking := sorted(wanted - known.keys()):
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise DataError(
            f"expected ids of {where}, which has {len(known)}, got {', '.join(map(repr, lacking[:3]))}{more}"
        )
    return wanted
