"""Thinking text apart from the answer: it is kept beside an answer and never judged as one. Pure; knows no model."""

from __future__ import annotations

import re

# <think> (DeepSeek, Qwen, …), <thinking>, <seed:think> (Seed-OSS), [THINK] (Magistral), ◁think▷ (Kimi-VL)
_TAG = re.compile(r"<(/?)(?:seed:)?think(?:ing)?>|\[(/?)THINK\]|◁(/?)think▷")


def split_thinking(text: str) -> tuple[str | None, str]:
    """Split what a model said into (thinking, answer), both without tags and outer white space.

    The answer is what follows the last closing tag; the opening one may be missing, as chat templates put it into the
    prompt. Thinking that was opened and not closed means that there is no answer: the model was cut off before it.

    Returns:
        thinking: None where there is none. answer: "" where there is none.

    >>> split_thinking("<think>two reds, so…</think> red")
    ('two reds, so…', 'red')
    >>> split_thinking("<think>two reds, so")
    ('two reds, so', '')
    >>> split_thinking("red")
    (None, 'red')
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return None, text.strip()
    last = tags[-1]
    unclosed = not any(last.groups())
    end = len(text) if unclosed else last.start()
    answer = "" if unclosed else text[last.end() :]
    return _TAG.sub("", text[:end]).strip() or None, answer.strip()
