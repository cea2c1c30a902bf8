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


def opening_tag(prompt: str) -> str:
    """The tag that a prompt ends with if its template has opened the thinking already, else "".

    >>> opening_tag("<|assistant|>\\n<think>\\n"), opening_tag("<think>\\n\\n</think>\\n\\n")
    ('<think>', '')
    """
    tags = list(_TAG.finditer(prompt.rstrip()))
    ends_with_one = bool(tags) and not any(tags[-1].groups()) and tags[-1].end() == len(prompt.rstrip())
    return tags[-1].group() if ends_with_one else ""


def is_tag(token: str) -> bool:
    """Whether a token is a tag of thinking text.

    >>> is_tag("[/THINK]"), is_tag("</s>")
    (True, False)
    """
    return _TAG.fullmatch(token) is not None
