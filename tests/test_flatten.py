"""The renderer for models that take one prompt, word for word."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import colour_png, dialogues
from yanami_dataset.errors import ModelError
from yanami_dataset.images import sha256
from yanami_dataset.schema import Message, Part
from yanami_metric.history import NOT_AVAILABLE, Seen, Settings, Shown, Storyteller, place
from yanami_metric.models.flatten import HISTORY, flatten
from yanami_metric.records import HISTORIES, ImageRef, Request


def ref(number: int) -> ImageRef:
    data = colour_png(number)
    return ImageRef(sha256(data), 4, 3, lambda: data)


CAT, DRAWN, HAT = Seen((0,), ref(0)), Seen((1, 0), ref(1)), Seen((2,), ref(2))
VIEW = [
    Shown("user", ("My cat", CAT, "is old.")),
    Shown("assistant", ("I see.",)),
    Shown("user", ("Make it red.",)),
    Shown("assistant", (DRAWN,)),
    Shown("user", ("Give", CAT, "this hat:", HAT)),
]


def request(view=VIEW, placement="interleaved", max_images=None) -> Request:
    messages, images = place(view, placement, max_images)
    return Request("key", "d", 2, messages, images, "images", 1, (7,))


EXPECTED = """\
Give [Image 1] this hat: [Image 3]

The dialogue so far:
User: My cat [Image 1] is old.
Assistant: I see.
User: Make it red.
Assistant: [Image 2]"""


@pytest.mark.parametrize("placement", ["interleaved", "front"])
def test_the_prompt_word_for_word(placement):
    flat = flatten(request(placement=placement))
    assert flat.text == EXPECTED
    assert [image.sha256 for image in flat.images] == [seen.ref.sha256 for seen in (CAT, DRAWN, HAT)]
    assert flat.dropped == 0


def test_a_grid_is_explained_and_its_images_keep_their_labels():
    flat = flatten(request(placement="concatenate"))
    instruction, history = EXPECTED.split("\n\n")
    note = "Images 1 to 3 are in one picture, each under its label."
    assert flat.text == f"{instruction}\n\n{note}\n\n{history}"
    assert [image.labels for image in flat.images] == [(1, 2, 3)]


def test_without_images_mentions_say_so():
    flat = flatten(request(placement="text_only"))
    assert flat.text == re.sub(r"\[Image \d\]", "[image not shown]", EXPECTED) and flat.images == ()
    missing = [*VIEW[:3], Shown("assistant", (Seen((1, 0), None),)), *VIEW[4:]]
    flat = flatten(request(missing))
    assert NOT_AVAILABLE in flat.text
    assert [image.sha256 for image in flat.images] == [CAT.ref.sha256, HAT.ref.sha256]
    assert flat.text.startswith("Give [Image 1] this hat: [Image 2]\n")


def test_an_instruction_alone_is_the_prompt():
    assert flatten(request([Shown("user", ("Draw a cat.",))])).text == "Draw a cat."
    assert flatten(request([Shown("user", (CAT, "Make it red."))])).text == "[Image 1] Make it red."


def test_placeholders_stand_once_for_each_image_after_the_instruction():
    flat = flatten(request(), placeholder=lambda k: f"<img><|image_{k}|></img>")
    instruction, notes, history = flat.text.split("\n\n")
    assert notes.splitlines() == [f"Image {k}: <img><|image_{k}|></img>" for k in (1, 2, 3)]
    assert f"{instruction}\n\n{history}" == EXPECTED
    grid = flatten(request(placement="concatenate"), placeholder=lambda k: f"<{k}>")
    assert "Images 1 to 3 are in one picture, each under its label. <1>\n" in grid.text


@pytest.mark.parametrize("placement", ["interleaved", "front"])
def test_a_models_own_name_for_images_is_used_in_every_mention(placement):
    flat = flatten(request(placement=placement), tag=lambda k: f"Picture {k}")
    assert flat.text == re.sub(r"\[Image (\d)\]", r"Picture \1", EXPECTED)
    grid = flatten(request(placement="concatenate"), tag=lambda k: f"Picture {k}")
    assert "[Image 3]" in grid.text and "Picture" not in grid.text  # there is only one picture


def test_which_of_several_images_is_to_be_drawn_is_said():
    several = replace(request([Shown("user", ("Three steps.",))]), count=3)
    assert flatten(several, ordinal=1).text == "Three steps.\n\nDraw image 2 of the 3 asked for."
    assert flatten(several).text == flatten(replace(several, count=1), ordinal=0).text == "Three steps."


def test_images_without_labels_are_numbered_by_position():
    plain = Message("user", (Part("text", "Mix"), Part("image", index=0), Part("image", index=1)))
    made = Request("key", "d", 0, (plain,), (ref(0), ref(1)), "images", 1, (7,))
    assert flatten(made).text == "Mix [Image 1] [Image 2]"


def words(text: str) -> int:
    return len(text.split())


def test_the_oldest_text_is_left_out_first_and_counted():
    whole = words(EXPECTED)
    shorter = flatten(request(), limit=whole - 1, count_tokens=words)
    assert shorter.dropped == 1
    assert shorter.text == EXPECTED.replace("User: My cat [Image 1] is old.\n", "")
    assert len(shorter.images) == 3  # text was too long, not the images
    alone = flatten(request(), limit=7, count_tokens=words)
    assert (alone.text, alone.dropped) == ("Give [Image 1] this hat: [Image 3]", 4)
    assert flatten(request(), limit=whole, count_tokens=words).dropped == 0


def test_an_instruction_that_does_not_fit_is_refused():
    with pytest.raises(ModelError, match="the current instruction alone has 7 tokens, the model takes at most 6"):
        flatten(request(), limit=6, count_tokens=words)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_dialogue_in_any_mode_keeps_instruction_and_labels(data):
    dialogue = data.draw(dialogues())
    history = data.draw(st.sampled_from(HISTORIES))
    placement = data.draw(st.sampled_from(["interleaved", "front"]))
    for turn in dialogue.generation_turns:
        if history == "gt" and any(slot.index is None for slot in dialogue.slots):
            continue
        made = Storyteller(dialogue, Settings(history, placement)).draw(turn)
        full = flatten(made)
        labels = {int(number) for number in re.findall(r"\[Image (\d+)\]", full.text)}
        assert labels == set(range(1, len(full.images) + 1))
        assert [image.labels for image in full.images] == [(k,) for k in sorted(labels)]
        alone = words(full.text.split(f"\n\n{HISTORY}")[0])
        limit = data.draw(st.integers(alone, words(full.text)))
        cut = flatten(made, limit=limit, count_tokens=words)
        assert words(cut.text) <= limit
        assert cut.text.split(f"\n\n{HISTORY}")[0] == full.text.split(f"\n\n{HISTORY}")[0]
        assert cut.images == full.images
