"""Which dialogues a run is about: the mini bench, a folder, a Hub dataset or a list, and a selection of it.

Knows how to find and choose dialogues; what is done with them is for others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from yanami_dataset.errors import DataError, RunFolderError, SpecError
from yanami_dataset.loading import MINI, hub_folder, local_folder
from yanami_dataset.reader import DialogueFolder, DialogueList, Dialogues, open_rows
from yanami_dataset.schema import SCENARIOS, Dialogue

MINI_SOURCE = "yanami-mini"  # the `source` of every dialogue that the package draws


@dataclass(frozen=True, slots=True)
class Selection:
    """Part of a data set.

    Args:
        scenarios: only these; empty: all.
        limit: at most so many dialogues, a seeded sample, even over the scenarios; a smaller one lies inside a larger.
        shard: (i, n): the i-th of n disjoint parts, by a stable hash of the id.
        seed: of the sample.
    """

    scenarios: tuple[str, ...] = ()
    limit: int | None = None
    shard: tuple[int, int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for scenario in self.scenarios:
            if scenario not in SCENARIOS:
                raise SpecError(f"scenario: expected one of {', '.join(SCENARIOS)}, got {scenario!r}")
        if self.limit is not None and self.limit < 1:
            raise SpecError(f"limit: expected 1 or more, got {self.limit}")
        if self.shard is not None and not 0 <= self.shard[0] < self.shard[1]:
            raise SpecError(f"shard: expected i/n with 0 <= i < n, got {self.shard[0]}/{self.shard[1]}")

    def choose(self, ids: Sequence[tuple[str, str]]) -> list[str]:
        """The ids chosen from (id, scenario) pairs, in the order given."""
        groups: dict[str, list[str]] = {}
        for id, scenario in ids:
            if not self.scenarios or scenario in self.scenarios:
                groups.setdefault(scenario, []).append(id)
        chosen = {id for group in groups.values() for id in group}
        if self.limit is not None:
            shuffled = [sorted(groups[scenario], key=self._hash) for scenario in SCENARIOS if scenario in groups]
            rounds = range(max(map(len, shuffled), default=0))
            chosen = set([group[i] for i in rounds for group in shuffled if i < len(group)][: self.limit])
        if self.shard is not None:
            part, parts = self.shard
            chosen = {id for id in chosen if int(hashlib.sha256(id.encode()).hexdigest(), 16) % parts == part}
        return [id for id, _ in ids if id in chosen]

    def _hash(self, id: str) -> bytes:
        return hashlib.sha256(f"{self.seed}|{id}".encode()).digest()

    @property
    def suffix(self) -> str:
        """What it adds to the name of the data.

        >>> Selection(("fusion",), limit=8).suffix
        '-fusion-limit8'
        """
        parts = [*self.scenarios]
        parts += [f"limit{self.limit}"] if self.limit is not None else []
        parts += [f"shard{self.shard[0]}of{self.shard[1]}"] if self.shard is not None else []
        return "".join(f"-{part}" for part in parts)


EVERYTHING = Selection()


@dataclass(frozen=True)
class Data:
    """Dialogues with a name: what a run is about. Iterate over it as often as you like.

    `spec` reopens it ("" for dialogues that exist in memory only); `everything` is the data set before the selection.
    """

    spec: str
    name: str
    everything: Dialogues
    selection: Selection

    @cached_property
    def _chosen(self) -> Dialogues:
        if self.selection == EVERYTHING:
            return self.everything
        return self.everything.select(
            self.selection.choose(list(zip(self.everything.ids(), self.everything.scenarios(), strict=True)))
        )

    def __iter__(self) -> Iterator[Dialogue]:
        return iter(self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def get(self, id: str) -> Dialogue:
        """One dialogue by its id."""
        return self._chosen.get(id)

    def all_ids(self) -> frozenset[str]:
        """The ids of the whole data set, also of those that are not selected."""
        return frozenset(self.everything.ids())

    @property
    def whole(self) -> int:
        """How many dialogues the chosen scenarios have without limit and shard."""
        chosen = self.selection.scenarios or SCENARIOS
        return sum(scenario in chosen for scenario in self.everything.scenarios())

    @property
    def commit(self) -> str | None:
        """The commit of the Hub that the dialogues were read at, 40 hex digits; None for others."""
        path = getattr(self.everything, "path", None)
        name = Path(path).name if path is not None and "/" in self.spec else ""
        return name if re.fullmatch(r"[0-9a-f]{40}", name) else None

    @property
    def revision(self) -> str:
        """64 hex digits that change with the content of the data set."""
        return self.everything.revision

    @cached_property
    def is_mini(self) -> bool:
        """Whether any dialogue is of the mini bench, whose scores mean nothing about YANAMI-Bench."""
        return any(dialogue.source == MINI_SOURCE for dialogue in self)

    @property
    def settings(self) -> dict[str, Any]:
        """What run.json says about the data."""
        chosen = self.selection
        return {
            "spec": self.spec,
            "name": self.name,
            "revision": self.revision,
            "dialogues": len(self),
            "scenarios": list(chosen.scenarios),
            "limit": chosen.limit,
            "shard": list(chosen.shard) if chosen.shard else None,
            "sample_seed": chosen.seed,
        }


def open_data(data: str | Path | Data | Iterable[Any], selection: Selection = EVERYTHING, **mini: Any) -> Data:
    """The dialogues that a spec or an object stands for.

    Args:
        data: "mini", a folder of Parquet files, a Hub dataset id, dialogues, or rows of a `datasets.Dataset`.
        selection: which of them.
        mini: `dialogues`, `turns`, `size` and `seed` of the mini bench.

    Raises:
        SpecError: neither a folder nor the id of a dataset.
        DataError: no dialogues in it, or none left.
    """
    if isinstance(data, Data):
        opened = data if selection == EVERYTHING else Data(data.spec, data.name, data.everything, selection)
    elif isinstance(data, str | Path):
        opened = _by_spec(str(data), selection, mini)
    else:
        opened = Data("", "memory", _in_memory(list(data) if not hasattr(data, "cast_column") else data), selection)
    if not len(opened):
        raise DataError(f"expected at least one dialogue in {opened.name}, got none{_of(opened)}")
    return opened


def _of(data: Data) -> str:
    return f" of {len(data.everything)}; see --scenario and --shard" if len(data.everything) else ""


def _by_spec(spec: str, selection: Selection, mini: dict[str, Any]) -> Data:
    if spec == MINI:
        from yanami_metric.mini import mini_folder

        folder = mini_folder(**mini)
        return Data(str(folder) if mini else MINI, MINI + selection.suffix, DialogueFolder(folder), selection)
    path = local_folder(spec)
    if path is not None:
        return Data(str(path.resolve()), path.resolve().name + selection.suffix, DialogueFolder(path), selection)
    return Data(spec, spec.replace("/", "--") + selection.suffix, DialogueFolder(hub_folder(spec)), selection)


def _in_memory(dialogues: Any) -> DialogueList:
    if all(isinstance(dialogue, Dialogue) for dialogue in dialogues):
        return DialogueList(dialogues)
    return open_rows(dialogues)


def reopen(settings: dict[str, Any]) -> Data:
    """The data of a run folder, from its settings.

    Raises:
        RunFolderError: it existed in memory only, or isn't what it was.
    """
    if not settings["spec"]:
        raise RunFolderError("the dialogues of this run existed in memory only: pass them again in Python")
    shard = settings["shard"]
    selection = Selection(
        tuple(settings["scenarios"]),
        settings["limit"],
        (shard[0], shard[1]) if shard else None,
        settings["sample_seed"],
    )
    data = open_data(settings["spec"], selection)
    if data.revision != settings["revision"]:
        raise RunFolderError(
            f"{settings['spec']}: expected the data of this run, revision {settings['revision'][:12]}, "
            f"got {data.revision[:12]}: it has changed since"
        )
    return data
