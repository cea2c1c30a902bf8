"""A comparison as one HTML page that anybody can open anywhere. Pure: it gets what comparison.json holds, and images.

The page loads nothing and has no scripts; its own policy forbids the browser everything else. All text is escaped.
Charts are inline SVG: what is told by colour is also told by shape or place.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import ImageError
from yanami_dataset.images import open_rgb, sha256
from yanami_metric import comparison_text as text
from yanami_metric.alike import digest, listed
from yanami_metric.analysis.finding import spread
from yanami_metric.analysis.writing import cell
from yanami_metric.tables import SMOKE, TITLES, number

if TYPE_CHECKING:
    from jinja2 import Environment

_SIDE = 224  # pixels: what a thumbnail is scaled down to
_LONGEST = 1500  # characters of one text
_SCATTERS = 6
_POINTS = 2000  # of one scatter: the page stays small however many dialogues there are
_NAME = 32  # characters of a name in a chart
SHAPES = {"fusion": "circle", "editing": "square", "modeling": "triangle", "reasoning": "diamond"}
_OUTLINES = {
    "circle": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "square": "M-4.5-4.5h9v9h-9z",
    "triangle": "M0-6l5.5 10h-11z",
    "diamond": "M0-6.5l6 6.5l-6 6.5l-6-6.5z",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that an image didn't pass, or that has no score: its status and the judge's reason."""

    criterion: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a run drew for a slot: encoded bytes, or None and why.

    `quality` is 0-10, None where it isn't scored; `passed` of `judged` of `asked` atomic checks.
    """

    data: bytes | None
    status: str
    reason: str = ""
    quality: float | None = None
    passed: int = 0
    judged: int = 0
    asked: int = 0
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownSlot:
    """A slot: the user's message of its turn, the image that the data has for it (`target_is` its role), the runs'."""

    turn: int
    text: str
    images: tuple[bytes, ...]
    target: bytes | None
    target_is: str
    outputs: Mapping[str, Drawn]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a run answered, or None and why; `right` is 1 or 0, None where it isn't scored."""

    text: str | None
    status: str
    right: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its reference answer and what the runs answered."""

    turn: int
    question: str
    reference: str
    answers: Mapping[str, Answered]


@dataclass(frozen=True, slots=True)
class ShownDialogue:
    """A dialogue in full: its `entry` in `largest`, and its slots or its questions, whichever it is compared by."""

    entry: Mapping[str, Any]
    slots: tuple[ShownSlot, ...]
    questions: tuple[Asked, ...]


def html(content: Mapping[str, Any], dialogues: Iterable[ShownDialogue]) -> str:
    """The page, as the text of an HTML file.

    Args:
        content: as in comparison.json.
        dialogues: those to show, read one at a time.
    """
    thumbnails = Thumbnails()
    return (
        _environment(thumbnails)
        .get_template("compare.html.j2")
        .render(
            names=list(content["runs"]),
            content=content,
            smoke=SMOKE if content["mini"] else "",
            tables=[*text.score_tables(content), text.scenario_table(content)],
            whole=forest(text.differences(content, whole=True)),
            parts={
                scenario: forest([one for one in text.differences(content, whole=False) if one["scenario"] == scenario])
                for scenario in content["scenarios"]
            },
            scatters=scatters(content),
            shapes={name: shape for name, shape in SHAPES.items() if name in content["scenarios"]},
            dialogues=dialogues,
            measure=text.MEASURES.get(content["measure"] or "", ""),
            notes=text.notes(content),
            facts={name: _facts(run) for name, run in content["runs"].items()},
        )
    )


def _facts(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured in a run, and with what."""
    judge = run["judge"]
    judges = [
        (f"Judge of {role}", f"{judge[role]['name']} ({digest(judge[role]['fingerprint'])})")
        for role in ("images", "answers")
    ]
    found = [
        ("Model", run["model"]),
        ("Identity", run["identity"] or "not recorded"),
        ("Options", listed(run["options"])),
        ("Data", f"{run['data']}, revision {run['revision'][:12]}"),
        ("Placement", run["placement"]),
        *judges,
        ("Images for the judge", ", ".join(f"{codec}: {n} calls" for codec, n in run["images_sent"].items())),
        ("Generations", str(run["generations"])),
    ]
    return [(label, value) for label, value in found if value]


def forest(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Differences as rows of a forest plot in `groups` by score; the ends of the axis are `limit` points."""
    found = (one["difference"][key] for one in pairs for key in ("value", "low", "high"))
    limit = _nice(max((abs(end) for end in found if end is not None), default=1.0))
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in pairs:
        row = {
            "a": one["a"],
            "b": one["b"],
            "value": one["difference"]["value"],
            "spread": spread(one["difference"]),
            "p": text.p_value(one["p"]),
            "p_holm": text.p_value(one["p_holm"]),
            "x": {key: _place(one["difference"][key], limit) for key in ("value", "low", "high")},
        }
        groups.setdefault(TITLES[one["score"]], []).append(row)
    return {"groups": groups, "limit": limit}


def _nice(value: float) -> int:
    """The least of 1, 2, 5, 10, 20, 50, 100, … that isn't smaller.

    >>> _nice(0.3), _nice(12.0), _nice(50.0)
    (1, 20, 50)
    """
    power: int = 10 ** int(math.log10(max(value, 1)))
    return next((power * step for step in (1, 2, 5) if power * step >= value), 10 * power)


def _place(value: float | None, limit: float) -> float | None:
    """From -limit … limit to 0 … 200."""
    return None if value is None else round(100 + 96 * value / limit, 2)


def scatters(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first run against each other one, a point a dialogue; at most six."""
    first, *others = content["runs"]
    found = []
    for other in others[:_SCATTERS]:
        runs = [content["runs"][name] for name in (first, other)]
        measure = next(
            (name for name, can in (("vr", "can_draw"), ("answers", "can_answer")) if all(run[can] for run in runs)),
            None,
        )
        if measure is not None:
            found.append(_scatter(content, first, other, measure))
    return found


def _scatter(content: Mapping[str, Any], a: str, b: str, measure: str) -> dict[str, Any]:
    known = [
        (one, one[measure][a], one[measure][b])
        for one in content["per_dialogue"]
        if one[measure][a] is not None and one[measure][b] is not None
    ]
    step = max(1, math.ceil(len(known) / _POINTS))
    points = [
        {
            "x": round(40 + 2.8 * x, 2),
            "y": round(300 - 2.8 * y, 2),
            "shape": SHAPES[one["scenario"]],
            "title": f"{one['dialogue']} ({one['scenario']}): {number(x, 1)} in {a}, {number(y, 1)} in {b}",
        }
        for one, x, y in known[::step]
    ]
    return {
        "a": a,
        "b": b,
        "measure": text.MEASURES[measure],
        "points": points,
        "total": len(known),
        "higher": sum(x > y for _, x, y in known),
        "lower": sum(x < y for _, x, y in known),
        "equal": sum(x == y for _, x, y in known),
    }


class Thumbnails:
    """Small copies of images as data: URIs, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}

    def of(self, data: bytes) -> str:
        """A data: URI; "" for bytes that don't decode."""
        key = sha256(data)
        if key not in self._made:
            self._made[key] = self._make(data)
        return self._made[key]

    @staticmethod
    def _make(data: bytes) -> str:
        try:
            image = open_rgb(data)
        except ImageError:
            return ""
        image.thumbnail((_SIDE, _SIDE))
        buffer = BytesIO()
        image.save(buffer, format="WEBP", quality=85)
        return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _environment(thumbnails: Thumbnails) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("yanami_metric"),
        autoescape=True,  # always: by the file's ending, jinja2 would leave .j2 alone
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cell": cell,
        "number": number,
        "thumbnail": thumbnails.of,
        "outline": _OUTLINES.__getitem__,
        "clip": lambda value: _clipped(value, _LONGEST),
        "short": lambda value: _clipped(value, _NAME),
        "words": lambda value: str(value).replace("_", " "),
    }
    return environment


def _clipped(value: str, longest: int) -> str:
    """
    >>> _clipped("abcdef", 4), _clipped("abc", 4)
    ('abc…', 'abc')
    """
    return value if len(value) <= longest else f"{value[: longest - 1]}…"
