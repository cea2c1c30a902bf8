"""The four questions of a dialogue, with answers that only its history gives.

A question is dropped where the last turn says its answer, or where the last image would give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from yanami_dataset.mini.draft import DraftQuestion, Unlucky
from yanami_dataset.mini.palette import CELLS, COLOURS, SHAPES
from yanami_dataset.mini.scene import Scene
from yanami_dataset.mini.story import Event, Shown, Story
from yanami_dataset.mini.wording import places, the

_Proposal = tuple[str, str]  # question, answer


def ask_all(story: Story) -> tuple[DraftQuestion, ...]:
    """One question for each dimension, asked after one of the last turns.

    Raises:
        Unlucky: for some dimension no question is left whose answer isn't given away.
    """
    return tuple(_ask(story, dimension, propose) for dimension, propose in _PROPOSERS.items())


def _ask(story: Story, dimension: str, propose: Callable[[Story, int], list[_Proposal]]) -> DraftQuestion:
    last = len(story.turns) - 1
    late = [last, last, *range(max(2, last - max(1, last // 3)), last)]
    story.rng.shuffle(late)
    for turn in late:
        said = f"{story.turns[turn].user} {story.turns[turn].reply}"
        fitting = [pair for pair in propose(story, turn) if pair[1] not in said]
        if fitting:
            question, answer = story.rng.choice(fitting)
            return DraftQuestion(dimension, turn, f"{question} {_form(story.rng, answer)}", answer)
    raise Unlucky


def _form(rng: Random, answer: str) -> str:
    """What form the answer has to have, with an example that isn't the answer."""
    if answer in CELLS:
        row, column = rng.choice([cell for cell in CELLS if cell != answer]).split(" ")
        return f'Answer with row and column, such as "{row} {column}".'
    if answer in COLOURS:
        return f'Answer with one colour, such as "{rng.choice([colour for colour in COLOURS if colour != answer])}".'
    kinds = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES if f"{colour} {shape}" != answer]
    return f'Answer with colour and shape, such as "{rng.choice(kinds)}".'


def _until(story: Story, turn: int) -> tuple[list[Shown], Scene]:
    """The images shown up to a turn except the last one, and that last one."""
    shown = [image for image in story.shown if image.turn <= turn]
    return shown[:-1], shown[-1].scene


def _which_object(story: Story, turn: int) -> list[_Proposal]:
    """Reference resolution: an object of an earlier image by its description."""
    earlier, last = _until(story, turn)
    here = {phrase: item.kind for phrase, item in places(last).items()}
    found = [
        (f"In {image.phrase}, what colour and shape is {phrase}?", item)
        for image in earlier
        for phrase, item in places(image.scene).items()
        if here.get(phrase) != item.kind
    ]
    gone = [(question, item) for question, item in found if last.find(*item.kind) is None]
    return [(question, item.name) for question, item in gone or found]


def _where_it_was(story: Story, turn: int) -> list[_Proposal]:
    """Context retrieval: where an object was that has been moved or removed since, or what colour it had."""
    earlier, last = _until(story, turn)
    found = []
    for image in earlier:
        for item in image.scene.items:
            now = last.find(*item.kind)
            if now is None or now.cell != item.cell:
                found.append((f"In which cell is {the(item)} in {image.phrase}?", item.cell))
    return found + [
        (f"Where was the {name} just before I had it removed?", cell) for name, cell in _removed(story, turn, last)
    ]


def _removed(story: Story, turn: int, last: Scene) -> Iterator[_Proposal]:
    """The objects that were removed once and for all, with their last cells."""
    items = [e.change.before.item(e.change.who) for e in story.events if e.change.verb == "remove" and e.turn <= turn]
    for item in items:
        if [other.kind for other in items].count(item.kind) == 1 and last.find(*item.kind) is None:
            yield item.name, item.cell


def _the_rule(story: Story, turn: int) -> list[_Proposal]:
    """Constraint tracking: what the user asked to be kept."""
    questions = {
        "keep": (
            "Which object did I ask you never to change?",
            "There is one object that has to stay as it is, whatever I ask for. Which one?",
        ),
        "ban": (
            "Which colour did I rule out for the objects you draw?",
            "Which colour may no object that you draw have?",
        ),
        "free": (
            "Which cell did I want to stay free of objects?",
            "In which cell may no object ever have its centre?",
        ),
    }
    return [(question, story.rule.value) for question in questions[story.rule.kind]]


def _the_correction(story: Story, turn: int) -> list[_Proposal]:
    """Correction and updating: the final value of the wish, or of a corrected change that isn't visible any more."""
    found = []
    wish, first = story.wish, story.wished
    added = f"At the very end I want a {wish.shape} to be added."
    if story.wish_turns[1] < turn:
        if wish.colour != first.colour:
            found += [(f"{added} What colour should it have, as things stand?", wish.colour)] * 2
        else:
            found += [(f"{added} Into which cell should it go, as things stand?", wish.cell)] * 2
    fixes = [event for event in story.events if event.overruled is not None and event.turn < turn]
    return found + [pair for event in fixes for pair in _settled(story, turn, event, fixes)]


def _alike(fix: Event, event: Event) -> bool:
    """Whether two corrections would be described in the same words."""
    one, other = (each.change.after.item(each.change.who) for each in (fix, event))
    if fix.change.verb != event.change.verb:
        return False
    return one.kind == other.kind if event.change.verb == "move" else one.shape == other.shape


def _settled(story: Story, turn: int, event: Event, fixes: list[Event]) -> Iterator[_Proposal]:
    """The value that one correction settled on, where the last image shows another one."""
    change, last = event.change, _until(story, turn)[1]
    corrected = change.after.item(change.who)
    now = last.find(*corrected.kind)
    if sum(_alike(fix, event) for fix in fixes) > 1:
        return
    if change.verb == "move" and (now is None or now.cell != change.value):
        yield f"I once corrected myself about where {the(corrected)} goes. Which cell did I mean?", change.value
    elif change.verb == "recolour" and now is None:
        yield f"I once corrected myself about the colour of a {corrected.shape}. Which colour did I mean?", change.value


_PROPOSERS: dict[str, Callable[[Story, int], list[_Proposal]]] = {
    "reference_resolution": _which_object,
    "context_retrieval": _where_it_was,
    "constraint_tracking": _the_rule,
    "correction_updating": _the_correction,
}
