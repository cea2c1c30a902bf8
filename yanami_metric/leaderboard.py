"""The leaderboard: results that were submitted to the Hub, and runs on this machine, by one judge at a time.

Ranks have intervals. Models whose overall has DSU in it are never ranked with those whose overall hasn't.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yanami_dataset.errors import RunFolderError, SpecError
from yanami_dataset.hub import repo_id, telling
from yanami_dataset.tasks import SCORES
from yanami_metric import tables
from yanami_metric.alike import NOT_RECORDED, get
from yanami_metric.estimates import Scored
from yanami_metric.paired import ranks
from yanami_metric.scoring import read_scores
from yanami_metric.submission import judge_name, judged_by, unpacked

DRAWS = 4000
_Z = 1.959964  # a 95 % interval is this many standard errors wide to each side


@dataclass(frozen=True)
class Result:
    """One model's results by one judge.

    Attributes:
        model: its repository, or the run's folder.
        source: "Hub", or "this machine".
        judge: of images and of answers, with fingerprints.
        formula: of overall.
        values: by score (value, low, high), in points; ends are None where nobody told them.
        remarks: what a reader has to know of it, e.g. that it was forced.
    """

    model: str
    source: str
    judge: str
    formula: str
    values: Mapping[str, tuple[float, float | None, float | None]]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """A table of results that can be ranked together."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Board:
    """What a leaderboard shows.

    Attributes:
        judges: there are results of, the one with most results first.
        judge: whose results these are; "" where there are none.
        groups: VR of all models, then overall by formula.
        notes: what a reader has to know.
    """

    judges: tuple[str, ...]
    judge: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...]


def board(
    repo: str | None = None,
    local: Sequence[str | Path] = (),
    judge: str | None = None,
    *,
    history: str = "gt",
    endpoint: str | None = None,
) -> Board:
    """The leaderboard of a bench.

    Args:
        repo: the data set on the Hub whose results are read; None: none.
        local: scored run folders beside them.
        judge: one of `Board.judges`; None: the one with most results.
        history: the history mode of the results.
        endpoint: of the Hub; None: as the environment says.

    Raises:
        HubError: the Hub can't be reached, or has no such data set.
        SpecError: no results of that judge.
        RunFolderError: a folder that is no scored run under that history.
    """
    results = [*(_hub(repo, history, endpoint) if repo else ()), *(_run(Path(path), history) for path in local)]
    return arranged(results, judge)


def arranged(results: Iterable[Result], judge: str | None = None) -> Board:
    """Results as tables; see `board`."""
    found = list(results)
    judges = tuple(name for name, _ in sorted(Counter(one.judge for one in found).items(), key=lambda p: (-p[1], p[0])))
    if judge is not None and judge not in judges:
        raise SpecError(f"judge: expected one of {'; '.join(judges) or 'none, as there are no results'}, got {judge!r}")
    chosen = judge if judge is not None else next(iter(judges), "")
    shown = [one for one in found if one.judge == chosen]
    groups = [_group("VR, which all models have that draw", shown, "vr")]
    for formula in sorted({one.formula for one in shown if "overall" in one.values}):
        alike = [one for one in shown if one.formula == formula]
        groups.append(_group(f"Overall = {formula}", alike, "overall"))
    notes = [
        "Scores are points from 0 to 100 with 95 % intervals.",
        "Ranks have 95 % intervals, from the intervals of scores as if models were drawn independently (ours): wider "
        "than those of runs compared on the same dialogues, see yanami compare.",
        *(f"{len(found) - len(shown)} results are of other judges." for _ in [0] if len(found) > len(shown)),
        *(f"{one.model}: {remark}." for one in shown for remark in one.remarks),
    ]
    return Board(judges, chosen, tuple(group for group in groups if group.rows), tuple(notes))


def _group(title: str, results: Sequence[Result], score: str) -> Group:
    known = {n: one.values[score] for n, one in enumerate(results) if score in one.values}
    found = ranks({str(n): _scored(value, n) for n, value in known.items()})
    order = sorted(known, key=lambda n: (found[str(n)]["rank"] or 0, results[n].model))
    others = [name for name in SCORES if name not in (score, "overall")]
    header = ("Rank", "95 %", "Model", tables.TITLES[score], "95 %", *(tables.TITLES[name] for name in others), "From")
    rows = []
    for n in order:
        rank, (value, low, high) = found[str(n)], known[n]
        ends = tables.DASH if low is None or high is None else f"{low:.1f}–{high:.1f}"
        places = tables.DASH if low is None else f"{rank['low']}–{rank['high']}"
        cells = [tables.number(results[n].values[name][0] if name in results[n].values else None) for name in others]
        rows.append(
            (str(rank["rank"]), places, results[n].model, tables.number(value), ends, *cells, results[n].source)
        )
    return Group(title, header, tuple(rows))


def _scored(value: tuple[float, float | None, float | None], seed: int) -> Scored:
    """A score with draws of the spread that its interval tells; without an interval as if it were certain."""
    mean, low, high = value
    spread = 0.0 if low is None or high is None else (high - low) / (2 * _Z)
    draws = mean + spread * np.random.default_rng([seed]).standard_normal(DRAWS)
    return Scored(mean, mean, mean, draws, 1, 1)


# Where results are from


def _hub(repo: str, history: str, endpoint: str | None) -> Iterator[Result]:
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint)
    with telling(f"reading the leaderboard of {repo_id(repo)}"):
        models = dict.fromkeys(one.model_id for one in api.get_dataset_leaderboard(repo, base_model_only=False))
        for model in models:
            entries = api.model_info(model, expand=["evalResults"]).eval_results or []
            yield from _of_entries(model, [one for one in entries if one.dataset_id == repo], history)


def _of_entries(model: str, entries: Sequence[Any], history: str) -> Iterator[Result]:
    """A model may have results by several judges, and under several history modes."""
    by_judge: dict[str, dict[str, tuple[Any, dict[str, str]]]] = {}
    for entry in entries:
        notes = unpacked(entry.notes)
        if entry.task_id in SCORES and _number(entry.value) is not None and notes.get("history", "gt") == history:
            name = judged_by(notes.get("images_judge", NOT_RECORDED), notes.get("answers_judge", NOT_RECORDED))
            by_judge.setdefault(name, {})[entry.task_id] = entry, notes
    for name, found in by_judge.items():
        told: dict[str, str] = {}
        for _, notes in found.values():
            told |= notes
        values = {
            task: (float(entry.value), _number(notes.get("low")), _number(notes.get("high")))
            for task, (entry, notes) in found.items()
        }
        remarks = (f"submitted although {told['forced']}",) if "forced" in told else ()
        yield Result(model, "Hub", name, told.get("formula", NOT_RECORDED), values, remarks)


def _number(value: Any) -> float | None:
    """A score in points, None for what is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number <= 100 else None


def _run(path: Path, history: str) -> Result:
    _, scores = read_scores(path)
    if history not in scores["histories"]:
        raise RunFolderError(f"{path}: expected scores of history {history}, got {', '.join(scores['histories'])}")
    entry = scores["histories"][history]
    values = {
        name: (entry[name]["value"], entry[name]["low"], entry[name]["high"])
        for name in SCORES
        if entry[name]["value"] is not None
    }
    judges = judged_by(*(judge_name(scores, role) for role in ("images", "answers")))
    remarks: tuple[str, ...] = (
        ("of the mini bench, which says nothing about YANAMI-Bench",) if tables.is_mini(scores) else ()
    )
    partial = get(scores, "dataset", "dialogues"), get(scores, "dataset", "of")
    if partial[0] != partial[1]:
        remarks += (f"on {partial[0]} of {partial[1]} dialogues",)
    return Result(tables.model_name(scores), "this machine", judges, str(entry["formula"]), values, remarks)


def markdown(found: Board) -> str:
    """A board as text for people; names of others are shown as they are."""
    blocks = [f"Judge: {found.judge or NOT_RECORDED}"]
    for group in found.groups:
        blocks += [f"## {group.title}", tables.render([list(group.header), *map(list, group.rows)])]
    blocks.append("\n".join(f"- {line}" for line in found.notes))
    return "\n\n".join(blocks) + "\n"
