"""Judged run folders as the analyses take them: names, what the model can do, and tallies by history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError
from yanami_metric.run_folder import RunFolder
from yanami_metric.runs import Run
from yanami_metric.score import Basis
from yanami_metric.scoring import chosen_judges, tallied
from yanami_metric.tally import DialogueTally


@dataclass(frozen=True)
class Analysed:
    """A judged run, read.

    Attributes:
        name: what it is called beside others, unique among those read together.
        run: its folder and dialogues.
        settings: as run.json has them.
        judge: the judges whose verdicts count, an entry of run.json's `judges`.
        basis: what its scores are made of.
        histories: the tallies of its dialogues by history.
    """

    name: str
    run: Run
    settings: Mapping[str, Any]
    judge: Mapping[str, Any]
    basis: Basis
    histories: Mapping[str, Sequence[DialogueTally]]

    @property
    def is_mini(self) -> bool:
        """Whether it is about the mini bench."""
        return self.run.data.is_mini


def load(paths: Sequence[str | Path], judge: str | None = None) -> list[Analysed]:
    """Read runs.

    Args:
        paths: run folders.
        judge: the judge of images whose verdicts count; None: the first that was asked, in each run.

    Raises:
        RunFolderError: a folder that is none, that nobody judged, or that is given twice.
    """
    places = [Path(path).resolve() for path in paths]
    if twice := [str(path) for path, count in Counter(places).items() if count > 1]:
        raise RunFolderError(f"expected each run once, got {', '.join(twice)} twice")
    names = _names(places)
    return [_load(path, name, judge) for path, name in zip(places, names, strict=True)]


def _load(path: Path, name: str, judge: str | None) -> Analysed:
    run = Run.open(path)
    with RunFolder(path) as folder:
        entry = chosen_judges(folder, judge)
        outputs = folder.settings["model"]["caps"]["outputs"]
        basis = Basis(can_answer="text" in outputs, can_draw="images" in outputs)
        return Analysed(name, run, folder.settings, entry, basis, tallied(run.data, folder, entry))


def _names(places: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart.

    >>> _names([Path("/runs/a/m"), Path("/runs/b/m"), Path("/runs/b/n")])
    ['a/m', 'b/m', 'n']
    """
    names = []
    for place in places:
        for length in range(1, len(place.parts) + 1):
            name = "/".join(place.parts[-length:])
            if sum(other.parts[-length:] == place.parts[-length:] for other in places) == 1:
                break
        names.append(name)
    return names
