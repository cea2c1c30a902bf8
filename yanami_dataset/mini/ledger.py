"""The state of a dialogue: the picture as it is now, and every fact that was stated and still holds.

What a turn says, the checks on its images, the questions and their answers are all taken from here, so that they agree
after any number of turns. Not here: what may be changed (`changes`), or how anything is phrased.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from yanami_dataset.mini.changes import Change
from yanami_dataset.mini.picture import Picture, Topic, statement, words
from yanami_dataset.mini.probes import Probe, holds
from yanami_dataset.mini.scene import Item, Scene
from yanami_dataset.schema import StateOp

SPOKEN = ("rule", "wish", "step")  # facts that no picture shows


@dataclass(frozen=True, slots=True)
class Fact:
    """A stated fact: the turn that last stated it, its words, and whether it corrects an earlier statement."""

    since: int
    text: str
    corrected: bool = False


@dataclass(slots=True)
class Ledger:
    """All that holds at this point of a dialogue.

    `first` is the last reference image: what a system that only ever copies would show for ever.
    """

    picture: Picture
    first: Scene
    facts: dict[Topic, Fact] = field(default_factory=dict)
    turn: int = 0
    ops: list[StateOp] = field(default_factory=list)

    def next_turn(self) -> tuple[StateOp, ...]:
        """Close the turn: return its operations in their order and start the next one."""
        done, self.ops = tuple(self.ops), []
        self.turn += 1
        return done

    def state(self, topic: Topic, text: str, *, corrected: bool = False) -> None:
        """Establish a fact, or update it where the topic is known."""
        self.ops.append(StateOp("update" if topic in self.facts else "establish", topic.key, text))
        self.facts[topic] = Fact(self.turn, text, corrected)

    def maintain(self, topic: Topic) -> None:
        """Note that a fact of an earlier turn has to hold in this one too."""
        if self.facts[topic].since < self.turn:
            self.ops.append(StateOp("maintain", topic.key, self.facts[topic].text))

    def invalidate(self, topic: Topic) -> None:
        """Drop a fact that no longer holds."""
        self.ops.append(StateOp("invalidate", topic.key, self.facts.pop(topic).text))

    def apply(self, change: Change, *, corrected: bool = False) -> None:
        """Make a change of the picture: state what it asserts, drop what it makes untrue.

        A known fact that the change doesn't concern keeps its turn; only its words follow the picture.
        """
        self.picture = change.after
        for topic in [topic for topic in self.facts if topic.about not in SPOKEN]:
            if statement(self.picture, topic, self.picture.scene.items[0]) is None:
                self.invalidate(topic)
            else:
                self.facts[topic] = replace(self.facts[topic], text=words(self.picture, topic))
        for topic in change.asserts:
            self.state(topic, words(self.picture, topic), corrected=corrected)

    def is_news(self, probe: Probe) -> bool:
        """Whether a statement is false of the last reference image."""
        return not holds(self.first, probe)

    def anchor(self, rng: Random, avoid: Iterable[Item] = ()) -> Item:
        """An object for a negative statement to name, if possible one that the last reference image doesn't show."""
        avoid = tuple(avoid)
        items = [item for item in self.picture.scene.items if item not in avoid] or list(self.picture.scene.items)
        news = [item for item in items if self.first.find(*item.kind) is None]
        return rng.choice(news or items)

    def carried(self, rng: Random) -> list[tuple[Topic, Probe]]:
        """The visible facts of earlier turns with what they say now, in a random order."""
        known = [topic for topic, fact in self.facts.items() if topic.about not in SPOKEN and fact.since < self.turn]
        stated = ((topic, statement(self.picture, topic, self.anchor(rng))) for topic in known)
        found = [(topic, probe) for topic, probe in stated if probe is not None]
        rng.shuffle(found)
        return found
