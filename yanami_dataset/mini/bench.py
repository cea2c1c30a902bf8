"""Drawing the mini bench: any number of dialogues, one after the other, each independent of how many are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.mini import editing, fusion, modeling, reasoning
from yanami_dataset.mini.draft import Draft, Unlucky, finish
from yanami_dataset.mini.probes import holds
from yanami_dataset.mini.render import check_size
from yanami_dataset.schema import SCENARIOS, Dialogue, validate

LEAST_TURNS, MOST_TURNS = 4, 100
DEFAULT_TURNS = (6, 8)  # drawn between these where no number is given
Accept = Callable[[bytes, Sequence[str]], bool]

_WRITERS: dict[str, Callable[[Random, int], Draft]] = {
    "fusion": fusion.write,
    "editing": editing.write,
    "modeling": modeling.write,
    "reasoning": reasoning.write,
}
_ATTEMPTS = 200


@dataclass(slots=True)
class Tally:
    """How many target images were proposed, and how many of them `accept` rejected."""

    proposed: int = 0
    rejected: int = 0

    @property
    def share(self) -> float:
        """The share of rejections, 0 to 1; 0 where nothing was proposed."""
        return self.rejected / self.proposed if self.proposed else 0.0


def generate(
    *,
    dialogues: int = 100,
    turns: int | None = None,
    size: int = 256,
    seed: int = 0,
    accept: Accept | None = None,
    tally: Tally | None = None,
) -> Iterator[Dialogue]:
    """Draw the mini bench, dialogue by dialogue; the scenarios take turns.

    Args:
        dialogues: how many, at least 1. The first n are the same whatever the number.
        turns: turns of each dialogue, 4 to 100; by default 6 to 8, drawn for each.
        size: side of the images in pixels, 128 to 1024. It changes no scene.
        seed: another seed gives other dialogues.
        accept: is given each target image (PNG) with the probes on it (JSON); where it returns False the whole
            dialogue is drawn anew. It is asked for nothing but the images of slots.
        tally: is told how many images were proposed and rejected.

    Raises:
        SpecError: an argument is out of its range (when called, not when iterated).
        DataError: `accept` rejects everything.

    >>> [dialogue.id for dialogue in generate(dialogues=2, size=128)]
    ['mini-fusion-0000', 'mini-editing-0000']
    """
    if dialogues < 1:
        raise SpecError(f"dialogues: expected at least 1, got {dialogues}")
    check_turns(turns)
    check_size(size)
    tally = tally or Tally()
    return (dialogue(n, turns=turns, size=size, seed=seed, accept=accept, tally=tally) for n in range(dialogues))


def check_turns(turns: int | None) -> None:
    """Raise SpecError unless dialogues of that many turns can be written."""
    if turns is not None and not LEAST_TURNS <= turns <= MOST_TURNS:
        raise SpecError(f"turns: expected {LEAST_TURNS} to {MOST_TURNS}, got {turns}")


def dialogue(
    number: int, *, turns: int | None, size: int, seed: int, accept: Accept | None = None, tally: Tally | None = None
) -> Dialogue:
    """Draw the dialogue at position `number` (from 0) of the bench; see `generate`, which checks the arguments.

    Raises:
        DataError: nothing acceptable was found.
    """
    for attempt in range(_ATTEMPTS):
        found = draft(number, turns=turns, seed=seed, attempt=attempt)
        if found is None:
            continue
        name = f"mini-{found.scenario}-{number // len(SCENARIOS):04d}"
        extra = {"attempt": attempt, "seed": seed, "size": size, "turns": len(found.turns)}
        drawn = finish(found, name, size, extra)
        if accept is None or _accepted(drawn, accept, tally or Tally()):
            validate(drawn)
            return drawn
    raise DataError(f"mini dialogue {number} with seed {seed}: none of {_ATTEMPTS} drafts was possible and accepted")


def draft(number: int, *, turns: int | None, seed: int, attempt: int) -> Draft | None:
    """Write the dialogue at a position with its scenes; None where this attempt leads nowhere.

    Raises:
        DataError: a check doesn't hold on its own target, which would be a fault of a writer.
    """
    scenario = SCENARIOS[number % len(SCENARIOS)]
    name = f"yanami-mini/{seed}/{number}/{attempt}"
    # Drawn apart, so that asking for the number that comes out gives the same dialogue.
    count = Random(f"{name}/turns").randint(*DEFAULT_TURNS) if turns is None else turns
    rng = Random(name)
    try:
        written = _WRITERS[scenario](rng, count)
    except Unlucky:
        return None
    for turn, part in enumerate(written.turns):
        for slot in part.slots:
            for check in slot.checks:
                if not holds(slot.scene, check.probe):
                    raise DataError(f"mini dialogue {number}, turn {turn}: {check.probe} doesn't hold on its target")
    return written


def _accepted(drawn: Dialogue, accept: Accept, tally: Tally) -> bool:
    """Whether every target is accepted; counts the images until the first that isn't."""
    for slot in drawn.slots:
        if slot.index is None:
            continue
        tally.proposed += 1
        probes = [check.probe for check in drawn.checks_of(slot) if check.probe is not None]
        if not accept(drawn.images[slot.index], probes):
            tally.rejected += 1
            return False
    return True
