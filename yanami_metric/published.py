"""Published figures as data: the model cards, each read and validated. It knows no runs, and renders nothing.

`model_cards/` has a YAML file for each model that the paper, as far as it is at hand, has figures for. Figures are as
printed, a dash is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import SCENARIOS

Table = int | str
"""A table's number, or one of the names that COLUMNS has for figures from the text."""

_DIMENSIONS = ("rr", "cr", "ct", "cu", "dsu")
_REALIZATION = ("dsu", "sc", "vq", "overall")
COLUMNS: dict[Table, tuple[str, ...]] = {
    2: (*SCENARIOS, "overall"),
    3: (*SCENARIOS, "average"),
    4: (
        *("pope", "mme_p", "mmbench"),
        *("single_object", "two_objects", "counting", "color", "position", "attribute", "overall"),
    ),
    5: (
        *("background", "color", "material", "motion", "portrait", "style"),
        *("add", "remove", "replace", "text", "tone", "average"),
    ),
    11: (*SCENARIOS, "average"),
    **{table: columns for n in (12, 14, 16, 18) for table, columns in ((n, _DIMENSIONS), (n + 1, _REALIZATION))},
    20: ("first", "last", "delta"),
    21: ("ck", "cu", "overall"),
    "figure 6b": ("drop",),
    "figure 6c": ("drop",),
    "fine-tuning": ("yanami_bench", "dsu", "gedit_en_full", "geneval", "mmbench", "pope", "mme_p"),
    "best unified model": ("overall", "dsu"),
}
"""What each table has, in the paper's order. Tables 2-5 (but GenEval and GEdit) and 11-19 are on 0-100, 20 and 21 on
0-1; GenEval is on 0-1, GEdit on 0-10, MME-P up to 2000, a drop in points. Names instead of numbers: from the text."""
OTHER_BENCHMARKS = (4, 5)
"""Tables of benchmarks that yanami doesn't measure, and that no judge of the authors' decides."""
TEMPLATE = "template.yaml"
_CARD = ("model", "size", "preset", "source", "judge", "notes", "results")
_RESULT = ("table", "source", "printed_as", "row", "values")


@dataclass(frozen=True, slots=True)
class Result:
    """A model's row of one table.

    Attributes:
        table: a key of COLUMNS.
        source: the paper and where in it.
        printed_as: the model's name there.
        row: its place there, from 1; None where it isn't known.
        values: by column; None is a dash.
    """

    table: Table
    source: str
    printed_as: str
    row: int | None
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Card:
    """What is published about one model.

    Attributes:
        name: the file's, without its ending.
        model: what it is called in the paper's main tables, or wherever it stands.
        size: as printed; None where none is.
        preset: the settings in `yanami_metric.presets`, if there are some.
        source: the publication.
        judge: who judged YANAMI's scores.
        notes: what was decided by us, e.g. that two names are one model.
        results: its rows.
    """

    name: str
    model: str
    size: str | None
    preset: str | None
    source: str
    judge: str
    notes: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def has_dsu(self) -> bool:
        """Whether a DSU is published for it, so that its overall has one in it."""
        return any(
            value is not None
            for result in self.results
            for key, value in result.values.items()
            if key == "dsu" or result.table in (3, 11)
        )


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
        table: a key of COLUMNS.
        model: its name as printed there.
        size: as printed; None where none is.
        values: by column, in the paper's order; None is a dash.
        source: the paper and where in it.
        judge: who judged; None for the benchmarks of OTHER_BENCHMARKS.
        has_dsu: whether the model's overall has DSU in it.
        card: the name of its card.
    """

    table: Table
    model: str
    size: str | None
    values: Mapping[str, float | None]
    source: str
    judge: str | None
    has_dsu: bool
    card: str


def cards() -> list[Card]:
    """All cards that come with yanami, sorted by name.

    Raises:
        DataError: a card that isn't as it should be, with its file and field.

    >>> [card.name for card in cards()][:3]
    ['anyedit', 'bagel', 'bagel-yanami-400k']
    """
    return list(_cards())


@lru_cache(maxsize=1)
def _cards() -> tuple[Card, ...]:
    found = {file.name: file for file in folder().iterdir() if file.name.endswith(".yaml")}
    names = sorted(found.keys() - {TEMPLATE}, key=lambda name: name.removesuffix(".yaml"))
    return tuple(parse(name, found[name].read_text(encoding="utf-8")) for name in names)


def folder() -> Traversable:
    """Where the cards are: inside the package in a wheel, beside it in a checkout."""
    package = files("yanami_metric")
    inside = package / "model_cards"
    return inside if inside.is_dir() else Path(str(package)).parent / "model_cards"


def rows(table: Table | str) -> list[PublishedRow]:
    """The published rows of a table in the paper's order; "2" is 2.

    Raises:
        SpecError: a table that nothing is published of here.
        DataError: a faulty card.

    >>> [(row.model, row.values["overall"]) for row in rows(2)][:2]
    [('GPT-Image-2', 83.05), ('Nano Banana 2', 80.93)]
    """
    key: Table = int(table) if isinstance(table, str) and table.isdecimal() else table
    if key not in COLUMNS:
        raise SpecError(f"expected a table among {', '.join(map(str, COLUMNS))}, got {table!r}")
    found = [(result, card) for card in cards() for result in card.results if result.table == key]
    found.sort(key=lambda pair: (pair[0].row or math.inf, pair[1].name))
    return [
        PublishedRow(
            key,
            result.printed_as,
            card.size,
            {name: result.values[name] for name in COLUMNS[key]},
            result.source,
            None if key in OTHER_BENCHMARKS else card.judge,
            card.has_dsu,
            card.name,
        )
        for result, card in found
    ]


def parse(file: str, text: str) -> Card:
    """A card from the text of its file.

    Args:
        file: its name, for messages.
        text: YAML.

    Raises:
        DataError: naming the file and each faulty field.
    """
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"model card {file}: expected YAML: {error}") from error
    if faults := list(_faults(found)):
        raise DataError(f"model card {file}:\n  " + "\n  ".join(faults))
    given = {**found, "notes": tuple(found["notes"]), "results": tuple(Result(**one) for one in found["results"])}
    return Card(file.removesuffix(".yaml"), **given)


def _faults(found: Any) -> Iterator[str]:
    if wrong := _keys("card", found, _CARD):
        yield wrong
        return
    yield from _texts("", found, needed=("model", "source", "judge"), optional=("size", "preset"))
    yield from _preset(found["preset"])
    if not isinstance(found["notes"], list) or not all(isinstance(note, str) for note in found["notes"]):
        yield f"notes: expected a list of texts, got {found['notes']!r}"
    results = found["results"]
    if not isinstance(results, list) or not results:
        yield f"results: expected a list with at least one table's row, got {results!r}"
        return
    seen = []
    for place, one in enumerate(results):
        yield from _result_faults(f"results[{place}]", one)
        if isinstance(one, dict) and (table := one.get("table")) is not None:
            if table in seen:
                yield f"results[{place}].table: expected each table once, got {table!r} again"
            seen.append(table)


def _preset(name: Any) -> Iterator[str]:
    from yanami_metric.presets import preset_names

    if isinstance(name, str) and name not in preset_names():
        yield f"preset: expected one of {', '.join(preset_names())}, or null, got {name!r}"


def _result_faults(where: str, one: Any) -> Iterator[str]:
    if wrong := _keys(where, one, _RESULT):
        yield wrong
        return
    yield from _texts(f"{where}.", one, needed=("source", "printed_as"), optional=())
    row = one["row"]
    if row is not None and (type(row) is not int or row < 1):
        yield f"{where}.row: expected its place in the table, from 1, or null, got {row!r}"
    table = one["table"]
    if type(table) not in (int, str) or table not in COLUMNS:
        yield f"{where}.table: expected one of {', '.join(map(str, COLUMNS))}, got {table!r}"
        return
    if wrong := _keys(f"{where}.values", one["values"], COLUMNS[table]):
        yield wrong
        return
    for name, value in one["values"].items():
        if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
            yield f"{where}.values.{name}: expected a number, or null for a dash, got {value!r}"


def _keys(where: str, found: Any, expected: tuple[str, ...]) -> str | None:
    if isinstance(found, dict) and set(found) == set(expected):
        return None
    got = ", ".join(map(str, found)) if isinstance(found, dict) else repr(found)
    return f"{where}: expected {', '.join(expected)}, got {got}"


def _texts(
    where: str, found: Mapping[str, Any], *, needed: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[str]:
    for name in (*needed, *optional):
        value = found[name]
        if not (isinstance(value, str) and value.strip()) and not (name in optional and value is None):
            yield f"{where}{name}: expected a text{' or null' if name in optional else ''}, got {value!r}"
