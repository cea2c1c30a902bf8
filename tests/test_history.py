"""What a model is shown: never a current or later target, under labels that agree with the images."""

from __future__ import annotations

import re
from dataclasses import replace
from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.strategies import colour_png, dialogues
from yanami_dataset.errors import HistoryError, SpecError
from yanami_dataset.images import sha256
from yanami_dataset.schema import Dialogue, Message, Part, Turn
from yanami_metric.grid import GAP, compose, grid, with_label
from yanami_metric.history import (
    NOT_AVAILABLE,
    NOT_SHOWN,
    Settings,
    Storyteller,
    observed_in_history,
    refuse_unsuitable,
    seed_of,
)
from yanami_metric.records import HISTORIES, PLACEMENTS, ImageRef, Request

OWN = 20_000  # own images have colours from here on


def ref(number: int) -> ImageRef:
    data = colour_png(number)
    return ImageRef(sha256(data), 4, 3, lambda: data)


def own_images(dialogue: Dialogue, missing: set[tuple[int, int]]) -> dict[tuple[int, int], ImageRef | None]:
    slots = [(slot.turn, slot.ordinal) for slot in dialogue.slots]
    return {slot: None if slot in missing else ref(OWN + i) for i, slot in enumerate(slots)}


def colours(data: bytes) -> set[tuple[int, ...]]:
    with Image.open(BytesIO(data)) as image:
        return {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 14) or []}


def requests_of(dialogue: Dialogue, mode: Settings, own) -> list[tuple[Request, int]]:
    """Every request with the first turn whose targets it must not show."""
    teller = Storyteller(dialogue, mode, own)
    drawn = [(teller.draw(turn), turn) for turn in dialogue.generation_turns]
    return drawn + [(teller.ask(question), question.turn + 1) for question in dialogue.questions]


any_setting = st.builds(
    Settings,
    history=st.sampled_from(HISTORIES),
    placement=st.sampled_from(PLACEMENTS),
    max_images=st.sampled_from([None, 1, 3]),
)


@settings(max_examples=150, deadline=None)
@given(dialogue=dialogues(max_turns=4), mode=any_setting, data=st.data())
def test_no_target_is_ever_shown_before_its_time(dialogue, mode, data):
    slots = [(slot.turn, slot.ordinal) for slot in dialogue.slots]
    missing = data.draw(st.sets(st.sampled_from(slots))) if slots else set()
    own = own_images(dialogue, missing)
    for request, first_hidden in requests_of(dialogue, mode, own):
        hidden = {
            i
            for i, info in enumerate(dialogue.image_info)
            if info.role != "reference" and (mode.history != "gt" or info.turn >= first_hidden)
        }
        shown = set().union(*(colours(image.read()) for image in request.images)) if request.images else set()
        assert not shown & set().union(*(colours(dialogue.images[i]) for i in hidden), set())
        assert not {image.sha256 for image in request.images} & {dialogue.image_info[i].sha256 for i in hidden}
        too_late = {(s.turn, s.ordinal) for s in dialogue.slots if s.turn >= first_hidden}
        assert not shown & set().union(*(colours(own[s].read()) for s in too_late if own[s]), set())


@settings(max_examples=100, deadline=None)
@given(dialogue=dialogues(max_turns=4, roles=("target", "observed")), placement=st.sampled_from(PLACEMENTS[:3]))
def test_gt_shows_every_earlier_image_once_and_mentions_agree_with_labels(dialogue, placement):
    teller = Storyteller(dialogue, Settings("gt", placement))
    for turn in dialogue.generation_turns:
        request = teller.draw(turn)
        mentions = [p.index for m in dialogue.messages[: 2 * turn + 1] for p in m.image_parts]
        order = list(dict.fromkeys(mentions))
        by_label = [label for image in request.images for label in image.labels]
        assert by_label == list(range(1, len(order) + 1))
        texts = [p.text for m in request.messages for p in m.content if p.type == "text"]
        numbers = [int(found[1]) for text in texts if (found := re.fullmatch(r"\[?Image (\d+)[\]:]", text))]
        if placement != "interleaved" and len(order) > 0:  # captions come first, then a mention each
            numbers = numbers[len(order) :] if placement == "front" or len(order) == 1 else numbers
        assert [order[number - 1] for number in numbers] == mentions
        if placement != "concatenate" or len(order) < 2:
            assert [image.sha256 for image in request.images] == [dialogue.image_info[i].sha256 for i in order]
            parts = [p for m in request.messages for p in m.content]
            captions = [a.text for a, b in pairwise(parts) if b.type == "image"]
            assert captions == [f"Image {label}:" for label in by_label]


@given(dialogue=dialogues(roles=("target",), min_slots=1))
def test_self_shows_own_images_where_gt_shows_targets(dialogue):
    own = own_images(dialogue, set())
    index = {slot.index: (slot.turn, slot.ordinal) for slot in dialogue.slots}
    for turn in dialogue.generation_turns:
        truth = Storyteller(dialogue, Settings("gt")).draw(turn)
        mine = Storyteller(dialogue, Settings("self"), own).draw(turn)
        by_hash = {info.sha256: i for i, info in enumerate(dialogue.image_info)}
        swapped = [own[index[by_hash[i.sha256]]] if by_hash[i.sha256] in index else i for i in truth.images]
        assert [image.sha256 for image in mine.images] == [image.sha256 for image in swapped]
        assert (mine.messages, mine.seeds, mine.size) == (truth.messages, truth.seeds, truth.size)


def story() -> Dialogue:
    """A photo, a drawing, talk, and a drawing that the user shows again, before the last slot."""
    messages = (
        Message("user", (Part("text", "my cat"), Part("image", index=0))),
        Message("assistant", (Part("text", "here"), Part("image"))),
        Message("user", (Part("text", "nice"),)),
        Message("assistant", (Part("text", "thanks"),)),
        Message("user", (Part("text", "again"), Part("image", index=0))),
        Message("assistant", (Part("image"),)),
    )
    data = colour_png(1)
    from yanami_dataset.schema import ImageInfo

    info = (ImageInfo("reference", 0, sha256(data), 4, 3),)
    return Dialogue("d", "editing", messages, (Turn(),) * 3, (data,), info)


def flat(request: Request) -> list[list[str]]:
    return [[part.text or f"<{part.index}>" for part in message.content] for message in request.messages]


def test_the_modes_word_for_word():
    own = {(0, 0): ref(OWN)}
    draw = {mode: Storyteller(story(), Settings(mode), own).draw(2) for mode in ("self", "last", "none")}
    assert flat(draw["self"]) == [
        ["my cat", "Image 1:", "<0>"],
        ["here", "Image 2:", "<1>"],
        ["nice"],
        ["thanks"],
        ["again", "[Image 1]"],
    ]
    assert [message.role for message in draw["self"].messages] == ["user", "assistant"] * 2 + ["user"]
    assert flat(draw["last"]) == [["Image 1:", "<0>"], ["again", "Image 2:", "<1>"]]
    assert draw["last"].images[0].sha256 == ref(OWN).sha256
    assert flat(draw["none"]) == [["again", "Image 1:", "<0>"]]


def test_a_missing_own_image_is_said_without_a_number():
    teller = Storyteller(story(), Settings("self", "front"), {(0, 0): None})
    assert flat(teller.draw(2))[:2] == [["Image 1:", "<0>", "my cat", "[Image 1]"], ["here", NOT_AVAILABLE]]


def test_text_only_shows_nothing():
    request = Storyteller(story(), Settings("self", "text_only"), {(0, 0): None}).draw(2)
    assert request.images == ()
    assert flat(request)[:2] == [["my cat", NOT_SHOWN], ["here", NOT_AVAILABLE]]


def test_more_images_than_allowed_become_a_grid():
    own = {(0, 0): ref(OWN)}
    one = Storyteller(story(), Settings("self", max_images=1), own).draw(2)
    assert [image.labels for image in one.images] == [(1, 2)]
    assert flat(one)[0] == ["Images 1 to 2, labelled in one picture:", "<0>", "my cat", "[Image 1]"]
    two = Storyteller(story(), Settings("self", max_images=2), own).draw(2)
    assert [image.labels for image in two.images] == [(1,), (2,)]


def test_gt_refuses_an_empty_earlier_slot_and_says_what_fits():
    with pytest.raises(HistoryError, match=r"'d'.*turn 0, slot 0 has none; use --history self, last or none"):
        refuse_unsuitable(story(), "gt")
    for history in ("self", "last", "none"):
        refuse_unsuitable(story(), history)
    last_only = replace(story(), messages=story().messages[:2], turns=story().turns[:1])
    refuse_unsuitable(last_only, "gt")


@given(dialogue=dialogues(roles=("target", "observed")))
def test_observed_images_in_history_are_counted(dialogue):
    shown = {p.index for t in dialogue.generation_turns[-1:] for m in dialogue.messages[: 2 * t] for p in m.image_parts}
    observed = [i for i in shown if dialogue.image_info[i].role == "observed"]
    assert observed_in_history(dialogue) == len(observed)


def test_a_question_comes_after_its_turn_and_alone_in_none():
    from yanami_dataset.schema import Question

    question = Question("q", "context_retrieval", 0, "What is it?", "cat", choices=("cat", "dog"))
    asked = replace(story(), questions=(question,))
    own = {(0, 0): ref(OWN)}
    text = "What is it?\nA. cat\nB. dog"
    assert flat(Storyteller(asked, Settings("none"), own).ask(question)) == [[text]]
    seen = Storyteller(asked, Settings("self"), own).ask(question)
    assert flat(seen) == [["my cat", "Image 1:", "<0>"], ["here", "Image 2:", "<1>"], [text]]
    assert seen.images[1].sha256 == ref(OWN).sha256


def test_seeds_pair_the_modes_and_keys_tell_them_apart():
    own = {(0, 0): ref(OWN)}
    requests = [Storyteller(story(), Settings(mode), own).draw(2) for mode in ("self", "last", "none")]
    assert len({request.seeds for request in requests}) == 1
    assert len({request.key for request in requests}) == 3
    assert Storyteller(story(), Settings("self", seed=1), own).draw(2).seeds != requests[0].seeds
    assert Storyteller(story(), Settings("self"), own).draw(2, "weights b").key != requests[0].key
    assert seed_of(0, "d", 2, 0) == requests[0].seeds[0]
    assert seed_of(0, "d", 2, 0, sample=1) != seed_of(0, "d", 2, 0)


@pytest.mark.parametrize("wrong", [{"history": "all"}, {"placement": "middle"}, {"max_images": 0}])
def test_unknown_settings_are_refused(wrong):
    with pytest.raises(SpecError, match=next(iter(wrong))):
        Settings(**wrong)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_a_grid_shows_image_k_in_cell_k_under_label_k(count):
    images = [with_label(big(i), i + 1) for i in range(count)]
    whole = grid(images)
    with Image.open(BytesIO(whole.read())) as drawn:
        assert drawn.size == (whole.width, whole.height)
        pixels = drawn.convert("RGB")
        cells = [cell(pixels, i, count) for i in range(count)]
    for i, (band, inside) in enumerate(cells):
        assert inside == colours(images[i].read()).pop()
        others = [band for j, (band, _) in enumerate(cells) if j != i]
        assert band not in others and label_band(i + 1) == band


def big(number: int) -> ImageRef:
    data = colour_png(number, 200, 200)
    return ImageRef(sha256(data), 200, 200, lambda: data)


def cell(pixels: Image.Image, i: int, count: int) -> tuple[bytes, tuple[int, ...]]:
    """The label's band of a cell, and the colour in the middle of its image."""
    columns = next(n for n in range(1, 10) if n * n >= count)
    x, y = GAP + (i % columns) * (200 + GAP), GAP + (i // columns) * (224 + GAP)
    return pixels.crop((x, y, x + 200, y + 24)).tobytes(), pixels.getpixel((x + 100, y + 124))


def label_band(label: int) -> bytes:
    """The band of a label, taken from a grid of its own."""
    data = compose([with_label(big(0), label), with_label(big(1), label + 1)])
    with Image.open(BytesIO(data)) as drawn:
        return cell(drawn.convert("RGB"), 0, 2)[0]
