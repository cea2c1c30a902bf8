"""Telling a dialogue turn by turn: the ledger, the texts and the images shown so far move on together.

A writer of a scenario decides what happens; a story keeps the books. Text turns that every scenario has are here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from yanami_dataset.mini.changes import Change, Limits
from yanami_dataset.mini.checks import choose
from yanami_dataset.mini.draft import DraftSlot, DraftTurn, Unlucky
from yanami_dataset.mini.ledger import Ledger
from yanami_dataset.mini.palette import CELLS, COLOURS
from yanami_dataset.mini.picture import Picture, Topic
from yanami_dataset.mini.probes import a
from yanami_dataset.mini.rules import draw_wish
from yanami_dataset.mini.scene import Scene
from yanami_dataset.mini.wording import done, ordinal, places, sentence, the


@dataclass(frozen=True, slots=True)
class Shown:
    """An image of the dialogue: `phrase` is how later turns call it."""

    turn: int
    scene: Scene
    phrase: str


@dataclass(frozen=True, slots=True)
class Event:
    """A change as it was asked for in a turn, and the change that it overruled."""

    turn: int
    change: Change
    overruled: Change | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A change to draw now: with the change it overrules, and whether its object was only described."""

    change: Change
    overruled: Change | None = None
    described: bool = False


class Story:
    """A dialogue being told.

    Args:
        rng: the source of chance.
        schedule: for each turn whether the assistant draws in it; see `schedule`.
        references: the images that the user sends in turn 0.
        picture: what the dialogue works on.
        limits: its rule and what else limits it.
    """

    def __init__(
        self, rng: Random, schedule: Sequence[bool], references: Sequence[Scene], picture: Picture, limits: Limits
    ) -> None:
        self.rng = rng
        self.schedule = tuple(schedule)
        self.references = tuple(references)
        self.limits = limits
        self.rule = limits.rule
        self.ledger = Ledger(picture, references[-1])
        self.turns: list[DraftTurn] = []
        self.shown: list[Shown] = []
        self.events: list[Event] = []
        self.wish = self.wished = draw_wish(
            rng, limits.rule, {item.kind for scene in references for item in scene.items}
        )
        self.wish_turns = _wish_turns(rng, self.schedule)
        self._ids = 0
        limits.seen.update(item.kind for scene in references for item in scene.items)

    @property
    def turn(self) -> int:
        """The turn that is told next, counted from 0."""
        return len(self.turns)

    @property
    def picture(self) -> Picture:
        """The picture as it is now."""
        return self.ledger.picture

    @property
    def drawing_turns_left(self) -> int:
        """How many turns with a picture are still to come, this one included."""
        return sum(self.schedule[self.turn :])

    def new_id(self) -> str:
        """An id for another object."""
        self._ids += 1
        return f"object {len(self.references[0].items) + self._ids}"

    def open(self, intro: str, rest: str, reply: str, capabilities: Sequence[str] = ()) -> None:
        """Tell turn 0: an introduction, the images, the rule and what else the user says."""
        self.ledger.state(Topic("rule"), self.rule.words)
        for n, scene in enumerate(self.references):
            phrase = "the image I sent" if len(self.references) == 1 else f"the {ordinal(n)} image I sent"
            self.shown.append(Shown(0, scene, phrase))
        wish = self._wish_words()
        said = " ".join(part for part in (rest, wish) if part)
        self._close(f"{intro}\n\n{said}", reply, ["constraint_keeping", *capabilities], images=self.references)

    def tell(self, user: str, reply: str, capabilities: Sequence[str] = ()) -> None:
        """Tell a turn in which the assistant answers in text only."""
        self._close(user, reply, capabilities)

    def draw(self, user: str, stages: Sequence[Sequence[Step]], capabilities: Sequence[str] = ()) -> None:
        """Tell a turn in which the assistant draws one picture for each stage, each of one or more changes."""
        slots = [self._drawn(stage) for stage in stages]
        wish = self._wish_words()
        found = [check.capability for slot in slots for check in slot.checks if check.capability]
        steps = [step for stage in stages for step in stage]
        found += ["reference_resolution"] * any(step.described for step in steps)
        found += ["correction_updating"] * any(step.overruled is not None for step in steps)
        text = f"{user} {wish}" if wish else user
        self._close(text, done(self.rng, len(slots)), [*capabilities, *found], slots=slots)

    def _drawn(self, stage: Sequence[Step]) -> DraftSlot:
        for step in stage:
            self.ledger.apply(step.change, corrected=step.overruled is not None)
            self.events.append(Event(self.turn, step.change, step.overruled))
        overruled = {n: step.overruled for n, step in enumerate(stage) if step.overruled is not None}
        described = "reference_resolution" if any(step.described for step in stage) else None
        checks = choose(self.ledger, self.rng, [step.change for step in stage], overruled, self.rule, described)
        drawn = sum(shown.phrase.endswith("you drew") for shown in self.shown)
        self.shown.append(Shown(self.turn, self.picture.scene, f"the {ordinal(drawn)} picture you drew"))
        return DraftSlot(self.picture.scene, checks)

    def _close(
        self,
        user: str,
        reply: str,
        capabilities: Sequence[str],
        images: Sequence[Scene] = (),
        slots: Sequence[DraftSlot] = (),
    ) -> None:
        known = tuple(dict.fromkeys(capabilities))
        self.turns.append(DraftTurn(user, reply, tuple(images), tuple(slots), known, self.ledger.next_turn()))

    def _wish_words(self) -> str:
        """What the user says about the wish in this turn, if anything."""
        if self.turn == self.wish_turns[0]:
            self.ledger.state(Topic("wish"), self.wish.words)
            wish = self.wish
            return self.rng.choice(
                (
                    f"At the very end I'll want {a(wish.colour)} {wish.shape} in the {wish.cell} cell, but not yet.",
                    f"Something for the very end, not for now: {a(wish.colour)} {wish.shape} in the {wish.cell} cell.",
                    f"Keep in mind: at the very end {a(wish.colour)} {wish.shape} is to go into the {wish.cell} cell.",
                )
            )
        if self.turn == self.wish_turns[1]:
            return self._wish_corrected()
        return ""

    def _wish_corrected(self) -> str:
        old = self.wish
        if self.rng.random() < 0.5:
            banned = self.rule.value if self.rule.kind == "ban" else ""
            known = {item.colour for scene in self.references for item in scene.items if item.shape == old.shape}
            colour = self.rng.choice([name for name in COLOURS if name not in {old.colour, banned} | known])
            self.wish = replace(old, colour=colour)
            text = f"About the {old.shape} for the very end: I've changed my mind, {colour} instead of {old.colour}."
        else:
            taken = self.rule.value if self.rule.kind == "free" else ""
            cell = self.rng.choice([name for name in CELLS if name not in (old.cell, taken)])
            self.wish = replace(old, cell=cell)
            text = (
                f"About the {old.shape} for the very end: it should go to the {cell} cell, not to the {old.cell} one."
            )
        self.ledger.state(Topic("wish"), self.wish.words, corrected=True)
        return text

    def small_talk(self) -> None:
        """Tell a text turn that the scenario doesn't care about: the wish, its correction, or a question."""
        wish = self._wish_words()
        if wish:
            changed = self.turn == self.wish_turns[1]
            reply = self.rng.choice(("Noted.", "All right, I'll remember that.", "Understood, that is for the end."))
            self.tell(wish, reply, ["correction_updating" if changed else "constraint_keeping"])
        else:
            self.tell(*self._queried(), ["context_retrieval"])

    def _queried(self) -> tuple[str, str]:
        """A question about an image shown so far, with its answer."""
        rng = self.rng
        recent = self.picture.scene.items and (rng.random() < 0.6 or len(self.shown) < 2)
        scene, where = (self.picture.scene, "the picture now") if recent else self._older()
        item = rng.choice(scene.items)
        described = [phrase for phrase, it in places(scene).items() if it == item]
        texts = [
            (f"How many objects are there in {where}?", f"There are {len(scene.items)}."),
            (f"In which cell is {the(item)} in {where}?", f"In the {item.cell} cell."),
            (f"Is {the(item)} in {where} small or large?", f"It is {item.size}."),
            (f"What is the background of {where}?", f"It is {scene.background}."),
        ]
        if described:
            texts.append((f"In {where}, what is {rng.choice(described)}?", f"It is {the(item)}."))
        said = " ".join(part.user for part in self.turns[-6:]).lower()
        question, answer = rng.choice([pair for pair in texts if pair[0].lower() not in said] or texts)
        opener = rng.choice(("", "", "Before we go on: ", "A question first: ", "Just to be sure: "))
        return (f"{opener}{question[0].lower()}{question[1:]}" if opener else question), answer

    def _older(self) -> tuple[Scene, str]:
        shown = self.rng.choice(self.shown[:-1] or self.shown)
        return shown.scene, shown.phrase

    def last_steps(self) -> list[Event]:
        """What the last turn with a picture changed."""
        last = max((event.turn for event in self.events), default=-1)
        return [event for event in self.events if event.turn == last]


def schedule(rng: Random, turns: int) -> list[bool]:
    """In which turns the assistant draws: never in the first, at least three times, with text turns between.

    >>> schedule(Random(0), 4)
    [False, True, True, True]
    """
    drawing = min(turns - 1, max(3, round(turns * rng.uniform(0.5, 0.62))))
    last = rng.random() < 0.75 or drawing == turns - 1
    between = range(1, turns - 1)
    chosen = set(rng.sample(between, drawing - last)) | ({turns - 1} if last else set())
    return [turn in chosen for turn in range(turns)]


def _wish_turns(rng: Random, schedule: Sequence[bool]) -> tuple[int, int]:
    """The turns in which the wish is stated and in which it is corrected; both before the last turn."""
    text = [turn for turn in range(1, len(schedule) - 1) if not schedule[turn]]
    if len(text) >= 2:
        first, second = sorted(rng.sample(text, 2))
        return first, second
    return 0, text[0] if text else len(schedule) - 2


def must(change: Change | None) -> Change:
    """The change, or Unlucky where none was possible."""
    if change is None:
        raise Unlucky
    return change


def opening(rng: Random, rule_words: str) -> str:
    """How turn 0 ends: the grid, the rule, and that nothing is to be drawn yet."""
    grid = rng.choice(
        (
            "I divide pictures into a 3x3 grid of cells, from top left to bottom right.",
            "When I say cell I mean one of the nine cells of a 3x3 grid, from top left to bottom right.",
            "Think of a 3x3 grid over each picture; its cells go from top left to bottom right.",
        )
    )
    wait = rng.choice(("Don't draw anything yet.", "No picture yet, please.", "Wait with drawing until I ask."))
    return f"{grid} {sentence(rule_words)} {wait}"
