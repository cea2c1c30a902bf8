"""What a user wants throughout: the rule, stated early, and the wish for the very end, corrected on the way.

A rule is a constraint that every later picture has to obey. A wish is never drawn, so no image gives its value away.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from yanami_dataset.mini import probes
from yanami_dataset.mini.palette import CELLS, COLOURS, SHAPES
from yanami_dataset.mini.picture import Picture
from yanami_dataset.mini.probes import Probe
from yanami_dataset.mini.scene import Item


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint of one `kind`.

    keep: the object `who` keeps its colour, shape, size and place (where the view changes not its place: `fixed` is
    False); ban: no object has the colour `value`; free: no object has its centre in the cell `value`.
    `value` is also what the user names: for keep colour and shape.
    """

    kind: str
    value: str
    who: str = ""
    fixed: bool = True

    def allows(self, before: Picture, after: Picture, *, moves: bool = False) -> bool:
        """Whether a change obeys the rule; `moves` is True for a change of the view, which moves everything."""
        if self.kind == "ban":
            return all(item.colour != self.value for item in after.scene.items)
        if self.kind == "free":
            return all(item.cell != self.value for item in after.scene.items)
        kept, now = before.find(self.who), after.find(self.who)
        if kept is None or now is None:
            return kept is None
        return (kept.kind, kept.radius) == (now.kind, now.radius) and (moves or (kept.x, kept.y) == (now.x, now.y))

    def probe(self, picture: Picture, anchor: Item) -> Probe | None:
        """The rule as a statement on the picture; None as long as the object to keep isn't in it."""
        if self.kind == "ban":
            return probes.absent(anchor, colour=self.value)
        if self.kind == "free":
            return probes.empty(self.value, anchor)
        item = picture.find(self.who)
        if item is None:
            return None
        return probes.cell(item) if self.fixed else probes.size(item)

    @property
    def words(self) -> str:
        """The rule as a fact."""
        return {
            "keep": f"the {self.value} must never be changed",
            "ban": f"no object may be {self.value}",
            "free": f"the {self.value} cell stays free",
        }[self.kind]

    def phrase(self, rng: Random, thing: str = "") -> str:
        """The rule as the user states it, without a capital; `thing` is the object to keep if its name won't do."""
        thing = thing or f"the {self.value}"
        kept = "its colour, its size and its place" if self.fixed else "its colour, its shape and its size"
        return rng.choice(
            {
                "keep": (
                    f"whatever I ask for later, never change {thing}: {kept} stay as they are.",
                    f"one rule for everything that follows: {thing} is not to be touched; {kept} stay.",
                ),
                "ban": (
                    f"one rule for everything that follows: no object in a picture you draw may be {self.value}.",
                    f"whatever I ask for later, nothing you draw may be {self.value}.",
                ),
                "free": (
                    f"one rule for everything that follows: no object may have its centre in the {self.value} cell.",
                    f"whatever I ask for later, keep the {self.value} cell free, no object may be centred there.",
                ),
            }[self.kind]
        )


@dataclass(frozen=True, slots=True)
class Wish:
    """An object that the user wants at the very end, by its colour, shape and cell."""

    colour: str
    shape: str
    cell: str

    @property
    def words(self) -> str:
        """The wish as a fact."""
        return f"at the very end {probes.a(self.colour)} {self.shape} is to come into the {self.cell} cell"


def draw_wish(rng: Random, rule: Rule, known: Collection[tuple[str, str]]) -> Wish:
    """A wish that doesn't contradict the rule, for an object of none of the known kinds."""
    colours = [name for name in COLOURS if (rule.kind, rule.value) != ("ban", name)]
    colour, shape = rng.choice([(c, s) for c in colours for s in SHAPES if (c, s) not in known])
    cell = rng.choice([name for name in CELLS if (rule.kind, rule.value) != ("free", name)])
    return Wish(colour, shape, cell)


def draw_rule(rng: Random, picture: Picture, kinds: Sequence[str], *, fixed: bool = True) -> Rule:
    """A rule of one of the kinds that the picture obeys."""
    scene, kind = picture.scene, rng.choice(kinds)
    if kind == "ban":
        unused = [name for name in COLOURS if all(item.colour != name for item in scene.items)]
        return Rule("ban", rng.choice(unused))
    if kind == "free":
        unused = [name for name in CELLS if all(item.cell != name for item in scene.items)]
        return Rule("free", rng.choice(unused))
    touching = {who for pair in picture.overlaps for who in pair}
    who = rng.choice([who for who in picture.ids if who not in touching])
    return Rule("keep", picture.item(who).name, who, fixed)
