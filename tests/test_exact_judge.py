"""The exact judge: what says the same is right, nothing else is, and nothing is searched for in an answer."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yanami_dataset.errors import SpecError
from yanami_metric.judges import open_judge
from yanami_metric.judges.exact import ExactJudge, matches, normalise
from yanami_metric.records import Judge, JudgeCall, JudgeItem

CHOICES = ("blue star", "red circle", "green cross")
ITEM = JudgeItem("q1", "Which one?")


@pytest.mark.parametrize(
    "answer",
    ["red circle", "Red Circle.", "  the red\ncircle ", "A red circle!", "“Red circle”", "red-circle", "ＲＥＤ circle"],
)
def test_the_same_in_other_words_of_form_is_right(answer):
    assert matches(answer, "red circle")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  ",
        "...",
        "not a red circle",
        "red circle or blue star",
        "circle",
        "red",
        "red circles",
        "It is red circle",
    ],
)
def test_anything_else_is_wrong(answer):
    assert not matches(answer, "red circle")
    assert not matches(answer, "red circle", CHOICES)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1.5", "15"), ("-3", "3"), ("10:30", "1030"), ("5 %", "5"), ("1/2", "12"), ("1,000", "1000"), ("C++", "C")],
)
def test_marks_that_carry_meaning_are_kept(one, other):
    assert not matches(one, other)
    assert matches(f" {one}.", one)


def test_a_minus_is_a_minus_in_any_dress():
    assert matches("\u22123", "-3")


def test_an_article_is_one_only_before_another_word():
    assert matches("an orange", "Orange")
    assert not matches("a", "the")
    assert not matches("A. Smith", "Smith")


@pytest.mark.parametrize(
    "answer",
    ["B", "b", "B.", "(b)", "(B).", "B)", "B:", "B) red circle", "(b) a red circle.", "b. Red Circle", "red circle"],
)
def test_a_choice_by_letter_or_text(answer):
    assert matches(answer, "red circle", CHOICES)
    assert matches(answer, "B", CHOICES)


@pytest.mark.parametrize(
    "answer",
    ["A", "D", "B or C", "BC", "B) blue star", "A) red circle", "A red star", "B red circle", "not B", "(b", "Z"],
)
def test_another_choice_or_an_unclear_one_is_wrong(answer):
    assert not matches(answer, "red circle", CHOICES)


def test_a_letter_that_is_also_a_text_is_unclear():
    assert not matches("A", "B", ["B", "A"])  # the text of the second, the letter of the first
    assert not matches("A", "second", ["second", "a"])
    assert matches("A", "first", ["first", "b"])


def test_a_reference_outside_of_the_choices_is_compared_as_text():
    assert matches("The dog", "dog", CHOICES)
    assert not matches("A", "dog", CHOICES)


@given(st.text())
def test_any_text_is_handled_and_equals_itself(text):
    plain = normalise(text)
    assert plain == " ".join(plain.split())
    assert matches(text, text) == bool(plain)


def test_replies_are_the_json_of_answers():
    judge = ExactJudge()
    assert isinstance(judge, Judge)
    assert judge.fingerprint == {"judge": "exact", "version": 1}
    reply = _ask(judge, "not a red circle")
    assert reply == {"reason": "answer 'not a red circle', reference 'red circle'", "verdict": "incorrect"}
    assert _ask(judge, "RED CIRCLE")["verdict"] == "correct"
    assert "'blue star'" in _ask(judge, "b", choices=CHOICES)["reason"]


def _ask(judge, answer, **more):
    call = JudgeCall("answer", (ITEM,), answer=answer, reference="red circle", **more)
    return json.loads(asyncio.run(judge.judge(call)).text)


def test_calls_that_are_none_of_its_business_are_refused():
    with pytest.raises(SpecError, match="expected a call of kind answer"):
        asyncio.run(ExactJudge().judge(JudgeCall("checks", (ITEM,))))
    with pytest.raises(SpecError, match="None and 'red circle'"):
        asyncio.run(ExactJudge().judge(JudgeCall("answer", (ITEM,), reference="red circle")))


def test_it_is_opened_by_its_name():
    assert isinstance(open_judge("exact"), ExactJudge)
