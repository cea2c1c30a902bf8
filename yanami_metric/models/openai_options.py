"""The options of `openai:` models.

Options for loading (`load.NAME`): `key_env`, the variable with the API key (null: none is sent); `concurrency`, calls
at a time; `check=false` for servers that take names they don't list; and all of `http.Policy`.

Options of the call:

    draw               "none" (the default), "images" or "chat"
    answer             false: the model can't answer in text
    sizes              what the images API is asked for: the nearest of a list of "<width>x<height>" (the default is
                       what OpenAI takes), "exact" for the size asked for, null for none
    seed               true: each output's own seed is sent; only say so if the server honours it
    max_images         the most images of one call
    assistant_images   "keep" (the default), or "user": the images of assistant messages stand in the next user
                       message, under their label, for servers that refuse them in the former
    image_field        the form field of images to edit; by default "image" for one and "image[]" for several
    drawing            {…} of a drawing call's body; `drawing.NAME` for a single one
    NAME               anything else is a field of the body of chat calls, e.g. temperature
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from yanami_dataset.errors import SpecError
from yanami_metric.http_server import Connection

OPENAI_SIZES = ("1024x1024", "1536x1024", "1024x1536")
_OURS = ("model", "messages", "prompt", "image", "n", "stream", "tools")  # fields that are no options


def read_connection(base: str, options: Mapping[str, Any]) -> tuple[Connection, int]:
    """The options for loading, as this module's docstring has them: how the server is reached, and calls at a time.

    Raises:
        SpecError: an unknown option, a value that makes no sense, or a variable that is named and not set.
    """
    rest = dict(options)
    concurrency = rest.pop("concurrency", 8)
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise SpecError(f"load.concurrency: expected a whole number of 1 or more, got {concurrency!r}")
    return Connection.read(base, rest, ("concurrency",)), concurrency


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of the call, as this module's docstring has them.

    Raises:
        SpecError: a value that makes no sense.
    """

    draw: str = "none"
    answer: bool = True
    sizes: str | Sequence[str] | None = OPENAI_SIZES
    seed: bool = False
    max_images: int | None = None
    assistant_images: str = "keep"
    image_field: str | None = None
    drawing: Mapping[str, Any] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> CallOptions:
        """From the options as a user gives them."""
        known = {f.name for f in fields(cls)} - {"chat"}
        own = {name: value for name, value in options.items() if name in known}
        dotted = {k.removeprefix("drawing."): v for k, v in options.items() if k.startswith("drawing.")}
        chat = {k: v for k, v in options.items() if k not in known and not k.startswith("drawing.")}
        drawing = own.get("drawing", {})
        if not isinstance(drawing, Mapping):
            raise SpecError(f"drawing: expected fields as an object, got {drawing!r}")
        return cls(**{**own, "drawing": {**drawing, **dotted}, "chat": chat})

    def __post_init__(self) -> None:
        for name, allowed in (("draw", ("none", "images", "chat")), ("assistant_images", ("keep", "user"))):
            if getattr(self, name) not in allowed:
                raise SpecError(f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in ("answer", "seed"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"{name}: expected true or false, got {getattr(self, name)!r}")
        if not self.answer and self.draw == "none":
            raise SpecError("answer=false and draw=none leave the model nothing to do; set draw=images or draw=chat")
        if ours := [name for name in (*self.chat, *self.drawing) if name in _OURS]:
            raise SpecError(f"{', '.join(ours)}: set by yanami itself, expected other fields of the call")
        for size in () if isinstance(self.sizes, str) else self.sizes or ():
            if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", str(size)):
                raise SpecError(f"sizes: expected <width>x<height>, got {size!r}")
        if isinstance(self.sizes, str) and self.sizes != "exact":
            raise SpecError(
                f"sizes: expected a list such as {json.dumps(OPENAI_SIZES)}, exact or null, got {self.sizes!r}"
            )

    @property
    def outputs(self) -> frozenset[str]:
        """What the model can be asked for."""
        return frozenset({"text"} if self.answer else ()) | frozenset({"images"} if self.draw != "none" else ())

    def size(self, asked: tuple[int, int] | None) -> str | None:
        """The size to ask the images API for: of the sizes the nearest in shape, then in area.

        >>> CallOptions().size((640, 400)), CallOptions(sizes="exact").size((640, 400)), CallOptions().size(None)
        ('1536x1024', '640x400', None)
        """
        if asked is None or not self.sizes:
            return None
        if isinstance(self.sizes, str):
            return f"{asked[0]}x{asked[1]}"

        def distance(size: str) -> tuple[float, float]:
            width, height = map(int, size.split("x"))
            shape = abs(math.log(width / height * asked[1] / asked[0]))
            return round(shape, 6), abs(math.log(width * height / asked[0] / asked[1]))

        return min(self.sizes, key=distance)
