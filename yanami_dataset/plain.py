"""Text of others as Markdown that shows it as it is."""

from __future__ import annotations


def plain_line(text: object) -> str:
    r"""One line without markup, whatever the text says.

    >>> print(plain_line("a\n# b <script> [c](d)"))
    a # b &lt;script> \[c\](d)
    """
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    for mark in "\\`*_[]|":
        line = line.replace(mark, f"\\{mark}")
    return line
