"""Writing a data set: dialogues in any order -> Parquet with embedded image bytes, and the card that `datasets` reads.

Memory stays flat (a file's worth per scenario), every dialogue is checked, and what is at the target is whole: it is
written beside it and renamed at the end. Knows no source format.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import DataError, InvariantError, SpecError
from yanami_dataset.features import features, to_row
from yanami_dataset.images import check_images
from yanami_dataset.schema import SCENARIOS, Dialogue, validate

if TYPE_CHECKING:
    import pyarrow as pa
    from huggingface_hub import DatasetCardData

MAX_ROWS = 25
"""Dialogues per file. A file is one row group: what a reader holds, what the first example of a stream waits for."""

MAX_BYTES = 64 * 2**20
"""Image bytes after which a file is closed."""

DEFAULT = "default"


@dataclass(slots=True)
class Share:
    """What a configuration holds; sizes in bytes, in memory (`arrow_bytes`) and on disk."""

    dialogues: int = 0
    images: int = 0
    files: int = 0
    arrow_bytes: int = 0
    disk_bytes: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written where, per scenario, and what was left out (one reason each)."""

    out: Path
    scenarios: dict[str, Share]
    skipped: tuple[str, ...] = ()

    @property
    def total(self) -> Share:
        """All scenarios together."""
        return sum(self.scenarios.values(), Share())


def write_dataset(
    dialogues: Iterable[Dialogue],
    out: Path,
    *,
    name: str,
    split: str = "test",
    license: str = "other",
    skip_bad: bool = False,
    skipped: list[DataError] | None = None,
    progress: Callable[[int], object] | None = None,
) -> Summary:
    """Write dialogues to the folder `out`, to be read with `datasets.load_dataset(out)` or `reader.DialogueFolder`.

    One configuration per scenario that occurs, plus `default` with all. Every dialogue is validated and its images are
    decoded; the first bad one raises, or is left out with `skip_bad`. `skipped` is where an importer collects its own,
    so that the summary lists all. `progress` is called with 1 after each dialogue.

    Raises:
        SpecError: `out` is there and not empty.
        DataError: a dialogue breaks an invariant, an id comes twice, nothing is left. Nothing is written then.
    """
    out = out.resolve()
    _check_target(out)
    left_out: list[DataError] = [] if skipped is None else skipped
    existing = next(parent for parent in out.parents if parent.exists())
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=existing) as temporary:
        folder = Path(temporary) / "data set"  # inside, so that it gets the permissions of any new folder
        folder.mkdir()
        writer = _Writer(folder, split)
        for dialogue in dialogues:
            try:
                writer.add(dialogue)
            except DataError as error:
                if not skip_bad:
                    raise
                left_out.append(error)
            if progress is not None:
                progress(1)
        writer.close()
        _check_left(writer, left_out)
        _write_card(folder, name, split, license, writer.shares)
        out.parent.mkdir(parents=True, exist_ok=True)
        folder.replace(out)
    return Summary(out, writer.shares, tuple(map(str, left_out)))


def _check_target(out: Path) -> None:
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        what = "a file" if out.is_file() else "a folder that isn't empty"
        raise SpecError(f"expected a new folder to write to, got {out}, {what}: choose another or delete it")


def _check_left(writer: _Writer, left_out: list[DataError]) -> None:
    if not writer.shares:
        why = f": all {len(left_out)} were left out, the first for: {left_out[0]}" if left_out else ""
        raise DataError(f"expected at least one dialogue to write, got none{why}")


@dataclass(slots=True)
class _Open:
    """The rows of a scenario that wait for their file."""

    rows: list[pa.Table] = field(default_factory=list)
    images: int = 0
    bytes: int = 0


class _Writer:
    """Sorts dialogues by scenario and writes a file whenever one is full."""

    def __init__(self, folder: Path, split: str) -> None:
        self.shares: dict[str, Share] = {}
        self._folder, self._split = folder, split
        self._schema: pa.Schema = features().arrow_schema
        self._open: dict[str, _Open] = {}
        self._ids: set[str] = set()

    def add(self, dialogue: Dialogue) -> None:
        validate(dialogue)
        if dialogue.id in self._ids:
            raise InvariantError(dialogue.id, ["id: expected one that no other dialogue has, got it a second time"])
        check_images(dialogue)
        row, size = self._row(dialogue), sum(map(len, dialogue.images))
        self._ids.add(dialogue.id)
        waiting = self._open.setdefault(dialogue.scenario, _Open())
        if waiting.rows and (len(waiting.rows) >= MAX_ROWS or waiting.bytes + size > MAX_BYTES):
            self._flush(dialogue.scenario)
            waiting = self._open[dialogue.scenario] = _Open()
        waiting.rows.append(row)
        waiting.images += len(dialogue.images)
        waiting.bytes += size

    def _row(self, dialogue: Dialogue) -> pa.Table:
        """One row; here and not later, so that what doesn't fit the columns is told of its dialogue."""
        import pyarrow as pa

        try:
            return pa.Table.from_pylist([to_row(dialogue)], schema=self._schema)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError, TypeError) as error:
            raise InvariantError(dialogue.id, [f"expected values that fit the columns, got {error}"]) from error

    def close(self) -> None:
        for scenario in list(self._open):
            self._flush(scenario)
        self.shares = {scenario: self.shares[scenario] for scenario in SCENARIOS if scenario in self.shares}

    def _flush(self, scenario: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        waiting = self._open.pop(scenario)
        share = self.shares.get(scenario, Share())
        file = self._folder / "data" / scenario / f"{self._split}-{share.files:05d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        table = pa.concat_tables(waiting.rows)
        # Image bytes don't compress, and a dictionary of them is built for nothing. Several row groups in a file make a
        # stream that is stopped early hang at exit (apache/arrow#45214).
        pq.write_table(table, file, row_group_size=len(table), compression="NONE", use_dictionary=False)
        written = Share(len(table), waiting.images, 1, table.nbytes, file.stat().st_size)
        self.shares[scenario] = share + written


def _write_card(folder: Path, name: str, split: str, license: str, shares: dict[str, Share]) -> None:
    fields = {"license": license, "pretty_name": name, "task_categories": ["any-to-any"], "tags": ["yanami"]}
    card = card_data(fields, split, shares)
    (folder / "README.md").write_text(f"---\n{card.to_yaml()}\n---\n\n{_body(name, split, shares)}", encoding="utf-8")


def card_data(fields: Mapping[str, Any], split: str, shares: Mapping[str, Share]) -> DatasetCardData:
    """The metadata of a card: configurations and features as `datasets` reads them, and other fields.

    Args:
        fields: of `huggingface_hub.DatasetCardData`.
        split: the only one.
        shares: what was written of each scenario, see `Summary`.
    """
    from huggingface_hub import DatasetCardData

    card = DatasetCardData(**fields)
    _add_configurations(card, split, shares)
    _add_infos(card, split, shares)
    return card


def _add_configurations(card: DatasetCardData, split: str, shares: Mapping[str, Share]) -> None:
    from datasets.utils.metadata import MetadataConfigs

    paths = {DEFAULT: f"data/*/{split}-*.parquet"}
    paths |= {scenario: f"data/{scenario}/{split}-*.parquet" for scenario in shares}
    configurations = {config: {"data_files": [{"split": split, "path": path}]} for config, path in paths.items()}
    MetadataConfigs(configurations).to_dataset_card_data(card)


def _add_infos(card: DatasetCardData, split: str, shares: Mapping[str, Share]) -> None:
    from datasets import DatasetInfo, SplitDict, SplitInfo
    from datasets.info import DatasetInfosDict

    infos = DatasetInfosDict()
    for config, share in {DEFAULT: sum(shares.values(), Share()), **shares}.items():
        splits = SplitDict()
        splits.add(SplitInfo(split, num_bytes=share.arrow_bytes, num_examples=share.dialogues))
        infos[config] = DatasetInfo(
            features=features(),
            splits=splits,
            config_name=config,
            download_size=share.disk_bytes,
            dataset_size=share.arrow_bytes,
        )
    infos.to_dataset_card_data(card)


def _body(name: str, split: str, shares: dict[str, Share]) -> str:
    rows = "\n".join(f"| {scenario} | {share.dialogues} | {share.images} |" for scenario, share in shares.items())
    return f"""# {name}

Multi-turn image-text dialogues in the columns of [yanami](https://arxiv.org/abs/2611.05280): one row is one dialogue,
image bytes are embedded, and one configuration per scenario reads only its own files.

| scenario | dialogues | images |
|---|---|---|
{rows}

```python
from datasets import load_dataset

dialogues = load_dataset("path/of/this/folder", "{next(iter(shares))}", split="{split}")
```
"""
