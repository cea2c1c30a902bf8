from dataclasses import replace
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.handmade import edited
from tests.strategies import dialogues
from yanami_dataset.schema import Message, Part
from yanami_dataset.show import show, visible

EXPECTED = """\
d1 (editing, 1 turn, 2 images)
source: by hand

turn 0 (constraint_keeping)
  user: Make it darker, d1. [image 1: reference 4x3]
  assistant: Done. [image 2: target 4x3]
  state: establish light = dark
  check c1 (slot 0, atomic, constraint_keeping): The image is darker.
  question q1 (context_retrieval, with images 1): Which image came first? [light | dark]
    answer: the light one"""


def test_a_dialogue_as_text():
    assert show(edited()) == EXPECTED


@given(dialogues())
def test_every_dialogue_shows_its_images_and_questions(dialogue):
    text = show(dialogue)
    mentions = sum(len(message.image_parts) for message in dialogue.messages)
    assert text.count("[image ") >= mentions
    assert all(question.id in text for question in dialogue.questions)


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J", "\x9b31m", "\r", "\b", "\x07", "\u202e", "\u2066", "\x00", "\u2028", "\ufeff"]
)
def test_nothing_steers_the_terminal(hostile):
    base = edited()
    dialogue = replace(
        base,
        id="d" + hostile,
        source=hostile,
        extra=hostile,
        messages=(Message("user", (Part("text", "a" + hostile + "b"),)), base.messages[1]),
        questions=(replace(base.questions[0], id=hostile, question=hostile, answer=hostile, choices=(hostile,)),),
        checks=(replace(base.checks[0], criterion=hostile),),
    )
    text = show(dialogue)
    assert hostile not in text
    assert hostile.encode("unicode_escape").decode() in text


@given(st.text())
def test_what_is_visible_stays(text):
    plain = visible(text)
    assert all(char.isprintable() or category(char) == "Zs" or char in "\n\t\u200d" for char in plain)
    assert visible("déjà 中文 🙂 a-b") == "déjà 中文 🙂 a-b"
