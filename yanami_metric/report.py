"""The report of a run: one HTML page that anybody can open anywhere, with what the scores are made of.

Scores and charts stand in the page as they are; a script of its own browses the dialogues, whose data are blocks of
JSON. The page loads nothing but, on a click, the original of an image that lies beside it, and its own policy forbids
the browser everything else, other scripts included. All text of models, judges and data is escaped. It is written
piece by piece, so memory holds some dialogues however many there are. It knows no run folder: the caller reads that
and passes what is here; nor does it compute scores.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yanami_dataset.errors import SpecError
from yanami_dataset.schema import SCENARIOS
from yanami_metric import tables
from yanami_metric.analysis.finding import Chart, series
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.records import COUNTS_AS_WRONG
from yanami_metric.report_charts import svg
from yanami_metric.report_data import Block, ReportDialogue, clip, embedded
from yanami_metric.thumbnails import Pictures

if TYPE_CHECKING:
    from jinja2 import Environment

_WAITING = 12  # dialogues whose images are in the making while others are read: enough for all cores, little memory


def sample(scenarios: Mapping[str, str], limit: int | None) -> list[str]:
    """The ids of at most `limit` dialogues, evenly over scenarios and within each, always the same ones.

    Args:
        scenarios: the scenario of every dialogue by its id.
        limit: how many ids to return at most; 0 for none, None for all, as they come.

    >>> sample({"e1": "editing", "e2": "editing", "e3": "editing", "f1": "fusion"}, limit=3)
    ['f1', 'e1', 'e2']
    """
    if limit is None:
        return list(scenarios)
    if limit < 0:
        raise SpecError(f"limit: expected 0 or more dialogues to show, got {limit}")
    groups = [sorted(id_ for id_, name in scenarios.items() if name == scenario) for scenario in SCENARIOS]
    share = [0] * len(groups)
    for _ in range(min(limit, sum(map(len, groups)))):
        open_ = [i for i, group in enumerate(groups) if share[i] < len(group)]
        share[min(open_, key=lambda i: share[i])] += 1
    return [group[k * len(group) // n] for group, n in zip(groups, share, strict=True) for k in range(n)]


def write(
    path: Path,
    scores: tables.Scores,
    dialogues: Iterable[ReportDialogue],
    *,
    shown: int,
    total: int,
    images: int = 0,
    charts: Sequence[Chart] = (),
    chart_notes: Sequence[str] = (),
    rubrics: Mapping[str, str] | None = None,
    inline: bool = False,
) -> None:
    """Write the page, replacing an older one in one step, and the originals of images beside it.

    Args:
        path: the HTML file; originals go to `report-images/` in its folder.
        scores: as in scores.json, see `tables`.
        dialogues: those to show, read one at a time, so they may be made on the fly.
        shown: how many those are.
        total: how many dialogues the run has.
        images: about how many images they have; the more, the smaller are the copies in the page.
        charts: besides the scores by scenario.
        chart_notes: what a reader of them has to know.
        rubrics: the system message of judges that read a prompt, by kind of call.
        inline: hold every image in full in the page itself.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with Pictures(path.parent, images, inline=inline) as pictures:
            values = _summary(scores, charts, chart_notes) | {"shown": shown, "total": total}
            page = {"histories": list(values["histories"]), "rubrics": {k: clip(v) for k, v in (rubrics or {}).items()}}
            values["page"] = page | {"scenarios": SCENARIOS, "dash": tables.DASH}
            # models and judges also say halves of characters: those become question marks
            with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
                file.writelines(_pieces(values, dialogues, pictures, _weights(scores)))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _pieces(
    values: dict[str, Any], dialogues: Iterable[ReportDialogue], pictures: Pictures, weights: Weights
) -> Iterator[str]:
    from markupsafe import Markup

    environment = _environment()
    index: list[dict[str, Any]] = []

    def blocks() -> Iterator[str]:
        for block in _ahead(Block(one, pictures, weights) for one in dialogues):
            index.append(block.entry)
            yield Markup(embedded(block.value()))  # noqa: S704 - escaped for where it stands

    script, *_ = environment.loader.get_source(environment, "report.js") if environment.loader else ("",)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html.j2").generate(
        values
        | {
            "page": Markup(embedded(values["page"])),  # noqa: S704 - likewise
            "index": lambda: Markup(embedded(index)),  # noqa: S704 - likewise; asked for when all blocks are made
            "blocks": blocks(),
            "script": Markup(script),  # noqa: S704 - ours, and what the page's policy lets run
            "script_hash": f"sha256-{digest}",
            # 'self' is the page's folder behind a server; from a file some browsers know that by its scheme only
            "sources": "data:" if pictures.inline else "'self' file: data:",
            "side": pictures.side,
            "inline": pictures.inline,
        }
    )


def _ahead(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks in order, some begun before those in front of them are taken."""
    waiting: deque[Block] = deque()
    for block in blocks:
        waiting.append(block)
        if len(waiting) > _WAITING:
            yield waiting.popleft()
    yield from waiting


def _summary(scores: tables.Scores, charts: Sequence[Chart], notes: Sequence[str]) -> dict[str, Any]:
    """All that stands in the page whether scripts run or not."""
    drawn = [svg(chart) for chart in (*_by_scenario(scores), *charts)]
    return {
        "model": tables.model_name(scores),
        "mini": tables.is_mini(scores),
        "histories": tables.histories(scores),
        "statuses": _statuses(scores),
        "notes": tables.notes(scores),
        "facts": tables.facts(scores),
        "charts": [chart for chart in drawn if chart],
        "chart_notes": notes,
        "smoke": tables.SMOKE,
        "titles": tables.TITLES,
        "dimension_titles": tables.DIMENSION_TITLES,
        "history_notes": tables.HISTORY_NOTES,
        "scenarios": _scenarios(scores),
    }


def _scenarios(scores: tables.Scores) -> list[str]:
    return [name for name in SCENARIOS if any(name in one["scenarios"] for one in scores["histories"].values())]


def _by_scenario(scores: tables.Scores) -> list[Chart]:
    """VR and DSU as bars, a group for each scenario, a bar for each history."""
    names = tuple(_scenarios(scores))
    charts = []
    for key in ("vr", "dsu"):
        bars = []
        for history, entry in tables.histories(scores).items():
            there = tuple(name for name in names if name in entry["scenarios"])
            bars.append(series(history, there, [entry["scenarios"][name][key] for name in there]))
        charts.append(Chart(f"{tables.TITLES[key]} by scenario", "bars", "", tables.TITLES[key], tuple(bars), (0, 100)))
    return charts


def _weights(scores: tables.Scores) -> Weights:
    """Those of the scores: a dialogue's VR in the list is made by them too."""
    return next((Weights(**entry["weights"]) for entry in scores["histories"].values()), DEFAULT)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("yanami_metric"),
        autoescape=True,  # always: by the file's ending, jinja2 would leave .j2 alone
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": tables.number,
        "percent": tables.percent,
        "spread": tables.spread,
        "clip": clip,
        "words": lambda text: str(text).replace("_", " "),
    }
    return environment


def _statuses(scores: tables.Scores) -> list[dict[str, Any]]:
    """Rows of (history, kind) with each status, its number, its share and whether it is scored, wrong or unscored."""
    rows = []
    for history, entry in tables.histories(scores).items():
        for kind, counts in entry["statuses"].items():
            asked = sum(counts.values())
            parts = [
                {"status": name, "number": number, "share": number / asked, "mark": _tone(name)}
                for name, number in counts.items()
            ]
            if parts:
                rows.append({"history": history, "kind": kind, "asked": asked, "parts": parts})
    return rows


def _tone(status: str) -> str:
    if status == "scored":
        return "yes"
    return "no" if status in COUNTS_AS_WRONG else "open"
