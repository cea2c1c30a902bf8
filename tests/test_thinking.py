"""What counts as thinking and what as the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yanami_metric.thinking import split_thinking


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("", None, ""),
        (" red \n", None, "red"),
        ("<think>a</think>b", "a", "b"),
        ("<think>\na\n</think>\n\nb\n", "a", "b"),
        ("<think>\n\n</think>\n\nb", None, "b"),  # thinking switched off
        ("a</think>b", "a", "b"),  # the chat template opened it
        ("</think>b", None, "b"),
        ("<think>a", "a", ""),  # cut off
        ("a <think> b", "a  b", ""),
        ("<think>", None, ""),
        ("<think>a</think>", "a", ""),
        ("<think>a</think>b<think>c</think>d", "abc", "d"),
        ("<think>a</think>b<think>c", "abc", ""),
        ("<think>I use <think> here</think>b", "I use  here", "b"),
        ("<think><think>a</think>b</think>c", "ab", "c"),
        ("<thinking>a</thinking>b", "a", "b"),
        ("<seed:think>a</seed:think>b", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("◁think▷a◁/think▷b", "a", "b"),
        ("I think > 3 < 5 [think]", None, "I think > 3 < 5 [think]"),
    ],
)
def test_thinking_is_what_comes_before_the_last_closing_tag(text, thinking, answer):
    assert split_thinking(text) == (thinking, answer)


@given(st.lists(st.sampled_from(["<think>", "</think>", "[THINK]", "[/THINK]", "a", " ", "◁/think▷"])).map("".join))
def test_no_tag_is_ever_left_in_an_answer(text):
    thinking, answer = split_thinking(text)
    assert all(split_thinking(part or "")[0] is None for part in (thinking, answer))
    assert answer == answer.strip() and thinking != ""
