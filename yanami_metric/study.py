"""`yanami agreement sample`: draws from run folders what people are to rate, and lays it out for them.

A study is a folder for the raters (index.html, ratings.csv, images/) and a key beside it (`<folder>-key.json`) that
says which run each letter hides. What they say is read in `agreeing`; the sheet is `ratings`'.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError, SpecError
from yanami_dataset.images import media_type
from yanami_dataset.schema import Dialogue, Slot
from yanami_metric.asking import Surroundings
from yanami_metric.data import Selection
from yanami_metric.ratings import Row, sheet
from yanami_metric.records import ImageRef, quality_id
from yanami_metric.results import own_images
from yanami_metric.run_folder import RunFolder, write_atomic
from yanami_metric.runs import Run

SHEET = "ratings.csv"
INSTANCES = 100
"""Drawn for each run; the paper's number."""

QUALITY = "How well is the image made, whatever it shows?"


@dataclass(frozen=True, slots=True)
class Sample:
    """What was drawn: the sheet, the key (not for raters), how many instances of each run by letter, and rows."""

    sheet: Path
    key: Path
    instances: dict[str, int]
    rows: int


def sample(
    runs: Sequence[Run], out: str | Path, *, instances: int = INSTANCES, seed: int = 0, history: str | None = None
) -> Sample:
    """Draw the instances to rate: drawn images with their checks and quality, even over the scenarios.

    Runs over the same dialogues give the same instances where each drew an image, a smaller sample lies inside a
    larger one, and the instances of all runs are mixed. Raters see no model, no judge and no target. The paper says
    100 instances for each model; all else is ours.

    Args:
        runs: with outputs; they need not be judged.
        out: a new folder, for the raters.
        instances: of each run, or fewer where it has fewer images.
        seed: of the sample, the order and the letters.
        history: whose images are rated; None: `gt`, or the first mode that a run has.

    Raises:
        SpecError: no instances asked for, a run given twice, or a folder with something in it.
        RunFolderError: a run without images under that history mode.
    """
    out = Path(out)
    if instances < 1:
        raise SpecError(f"instances: expected 1 or more, got {instances}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SpecError(f"{out}: expected a new or empty folder, so that no ratings are overwritten")
    letters = _letters(runs, seed)
    with ExitStack() as stack:
        parts = [_Part(letter, run, stack.enter_context(RunFolder(run.path))) for letter, run in letters.items()]
        cards = [card for part in parts for card in part.choose(instances, seed, history)]
        cards.sort(key=lambda card: card.place(seed))
        images = out / "images"
        images.mkdir(parents=True, exist_ok=True)
        shown = [card.shown(number, images) for number, card in enumerate(cards, 1)]
    rows = [row for one in shown for row in one["rows"]]
    write_atomic(out / "index.html", _page(shown).encode())
    write_atomic(out / SHEET, sheet(rows))
    key = key_file(out)
    write_atomic(key, json.dumps(_key(letters, instances, seed), indent=2, allow_nan=False).encode() + b"\n")
    counts = {letter: sum(card.part.letter == letter for card in cards) for letter in letters}
    return Sample(out / SHEET, key, counts, len(rows))


# The key


def key_file(out: Path) -> Path:
    """Where the key of a study is: beside its folder, as the folder is what raters are given.

    >>> key_file(Path("study")).name
    'study-key.json'
    """
    whole = out.resolve()
    return whole.with_name(f"{whole.name}-key.json")


def identity_of(run: Run) -> str:
    """What tells a run from others, wherever its folder is: 64 hex digits over its settings."""
    with RunFolder(run.path) as folder:
        return hashlib.sha256(json.dumps(folder.settings, sort_keys=True).encode()).hexdigest()


def _letters(runs: Sequence[Run], seed: int) -> dict[str, Run]:
    """A letter for each run, in an order that says nothing."""
    identities = {identity_of(run): run for run in runs}
    if not runs or len(identities) < len(runs):
        paths = ", ".join(str(run.path) for run in runs) or "none"
        raise SpecError(f"expected one or more different runs, got {paths}")
    shuffled = sorted(identities, key=lambda identity: _hash(seed, identity))
    return {_letter(place): identities[identity] for place, identity in enumerate(shuffled)}


def _letter(place: int) -> str:
    """A, B, … Z, AA, AB, …

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', 'AA')
    """
    rest = place // 26
    return (_letter(rest - 1) if rest else "") + chr(65 + place % 26)


def _key(letters: Mapping[str, Run], instances: int, seed: int) -> dict[str, Any]:
    runs = {}
    for letter, run in letters.items():
        with RunFolder(run.path) as folder:
            model = folder.settings["model"]["spec"]
        runs[letter] = {"run": run.path.resolve().name, "model": model, "identity": identity_of(run)}
    return {"schema": 1, "instances": instances, "seed": seed, "runs": runs}


def _hash(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps(parts).encode()).digest()


# The instances


@dataclass(frozen=True)
class _Part:
    """A run of the study, opened."""

    letter: str
    run: Run
    folder: RunFolder

    def choose(self, instances: int, seed: int, history: str | None) -> list[_Card]:
        histories = self.folder.histories
        track = history or next(iter(histories), "gt")
        if track not in histories:
            raise RunFolderError(f"{self.run.path}: expected outputs of history {track!r}, found {histories}")
        cards: dict[str, _Card] = {}
        scenarios = []
        for dialogue in self.run.data:
            for slot in self._drawn(dialogue, track):
                id = json.dumps([dialogue.id, slot.turn, slot.ordinal])  # the same in every run
                cards[id] = _Card(self, track, dialogue.id, slot)
                scenarios.append((id, dialogue.scenario))
        if not cards:
            raise RunFolderError(f"{self.run.path}: expected images to rate under history {track!r}, found none")
        return [cards[id] for id in Selection(limit=instances, seed=seed).choose(scenarios)]

    def _drawn(self, dialogue: Dialogue, track: str) -> Iterator[Slot]:
        own = own_images(self.folder.current(track, dialogue.id), self.folder)
        return (slot for slot in dialogue.slots if own.get((slot.turn, slot.ordinal)) is not None)


@dataclass(frozen=True)
class _Card:
    """A drawn image to rate; its dialogue is read when it is shown."""

    part: _Part
    track: str
    dialogue: str
    slot: Slot

    def place(self, seed: int) -> bytes:
        """Where it stands in the sheet."""
        return _hash(seed, self.part.letter, self.dialogue, self.slot.turn, self.slot.ordinal)

    def shown(self, number: int, images: Path) -> dict[str, Any]:
        """What the page shows of it, and its rows; the images are copied."""
        dialogue = self.part.run.data.get(self.dialogue)
        folder = self.part.folder
        own = own_images(folder.current(self.track, self.dialogue), folder)
        messages, refs = Surroundings(dialogue, self.slot, own).history()
        candidate = own[self.slot.turn, self.slot.ordinal]
        assert candidate is not None  # chosen for it  # noqa: S101
        return {
            "instance": number,
            "run": self.part.letter,
            "messages": [
                {
                    "role": message.role,
                    "parts": [
                        {"text": part.text, "file": None if part.index is None else _copied(refs[part.index], images)}
                        for part in message.content
                    ],
                }
                for message in messages
            ],
            "candidate": _copied(candidate, images),
            "rows": list(self._rows(number, dialogue, candidate)),
        }

    def _rows(self, number: int, dialogue: Dialogue, candidate: ImageRef) -> Iterator[Row]:
        items = [("checks", check.id, check.criterion) for check in dialogue.checks_of(self.slot)]
        for kind, item, text in [*items, ("quality", quality_id(self.slot), QUALITY)]:
            yield Row(
                instance=str(number),
                run=self.part.letter,
                dialogue=self.dialogue,
                track=self.track,
                turn=self.slot.turn,
                slot=self.slot.ordinal,
                kind=kind,
                item=item,
                criterion=" ".join(text.split()),
                candidate=candidate.sha256,
            )


def _copied(image: ImageRef, images: Path) -> str:
    data = image.read()
    name = f"{image.sha256[:20]}.{media_type(data).rpartition('/')[2]}"
    if not (images / name).exists():
        write_atomic(images / name, data)
    return f"images/{name}"


def _page(cards: Sequence[Mapping[str, Any]]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("yanami_metric"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("agreement.html.j2").render(cards=cards)
