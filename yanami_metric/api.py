"""The public functions: rollout, judge, score, on objects or on what spec strings name.

Each stage takes a run and gives it back with more in its folder, so they can be called in a row, in different
processes, or again after a crash:

    run = rollout("mini", "baseline:copy-last", history=("gt", "self"))
    scores = score(judge(run))
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from yanami_dataset.errors import RunFolderError, SpecError
from yanami_dataset.schema import Dialogue
from yanami_metric.data import EVERYTHING, Data, Selection, open_data, reopen
from yanami_metric.finished import code, is_finished, note_finished
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.history import Settings, observed_in_history, refuse_unsuitable
from yanami_metric.judges import check_judge, open_judge
from yanami_metric.judging import Judges, judge_window
from yanami_metric.loop import Loop
from yanami_metric.models import check_model, open_model
from yanami_metric.records import COUNTS_AS_WRONG, RETRIED, Caps, Judge, Model
from yanami_metric.report import SHOWN
from yanami_metric.reporting import report_name, write_report
from yanami_metric.results import item_verdicts, judge_names, own_images, scores_file
from yanami_metric.rollout import count_items, roll_out
from yanami_metric.run_folder import OutputRecord, RunFolder
from yanami_metric.score import ItemResult, ScMean, summarise, tally

WINDOW = 32  # dialogues at a time: bounds memory, and how far a wave of `self` reaches

COUNTED = ("scored", *COUNTS_AS_WRONG)  # the statuses whose items have a value

T = TypeVar("T")


class Progress:
    """What the stages report; this one says nothing. Subclass it to show or to stop."""

    def start(self, what: str, total: int) -> None:
        """A stage begins; `total` is the number of steps."""

    def step(self, what: str, status: str, *, fresh: bool) -> None:
        """One output or judge call is there; `fresh` if it was made just now."""


@dataclass(frozen=True)
class Run:
    """A run folder and the dialogues it is about.

    Build one with `rollout`, or open one that exists: `Run.open("runs/mini/baseline-blank")`.
    """

    path: Path
    data: Data
    keep: object = field(default=None, repr=False, compare=False)  # a temporary folder lives as long as its run

    @classmethod
    def open(cls, path: str | Path, dialogues: Any = None) -> Run:
        """An existing run folder.

        Args:
            path: the folder.
            dialogues: only needed where the dialogues existed in memory.

        Raises:
            RunFolderError: it is none, or its data has changed.
        """
        with RunFolder(Path(path)) as folder:
            settings = folder.settings["data"]
        return cls(Path(path), reopen(settings) if dialogues is None else open_data(dialogues))


class _Temporary:
    """A folder that is deleted when nobody holds this object any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="yanami-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def default_out(data: Data, model: str, placement: str) -> Path:
    """runs/<data>/<model>/, always the same for the same command."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.") or "model"
    return Path("runs") / data.name / (name if placement == "interleaved" else f"{name}-{placement}")


def rollout(
    dialogues: Any,
    model: str | Model,
    *,
    history: str | Sequence[str] = "gt",
    placement: str = "interleaved",
    max_images: int | None = None,
    seed: int = 0,
    selection: Selection = EVERYTHING,
    options: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Have a model draw every slot and answer every question of some dialogues.

    Args:
        dialogues: "mini", a folder, a Hub id, `Data`, a list of `Dialogue`, or a `datasets.Dataset`.
        model: a spec string, or an object with `caps`, `identity` and `generate` (`records.Model`).
        history: one or more of gt, self, last, none.
        placement: interleaved, front, concatenate or text_only.
        max_images: more images than this are shown as one labelled grid; None: as the model's caps say.
        seed: the base seed; each output's own is derived from it.
        selection: which of the dialogues.
        options: keyword arguments of a `module:Class`.
        out: the run folder; None: a temporary one that goes with the returned object.
        progress: told of every output.

    Raises:
        HistoryError: `gt`, and a dialogue has an earlier slot without an image.
        ModelError: the model can't be used, e.g. a replayed folder lacks outputs.
        RunFolderError: the folder holds a run with other settings.

    >>> run = rollout("mini", "baseline:blank", selection=Selection(limit=1))  # doctest: +SKIP
    """
    data = open_data(dialogues, selection)
    limits = {"placement": placement, "max_images": max_images, "seed": seed}
    plan = _plan(data, model, _histories(history), options, limits, out)
    return _roll_out(plan, progress or Progress())


@dataclass(frozen=True)
class _Plan:
    """A rollout, decided on but not begun."""

    data: Data
    model: Model
    settings: dict[str, Settings]  # by history
    described: dict[str, Any]  # as run.json has it
    path: Path
    keep: _Temporary | None


def _plan(
    data: Data,
    model: str | Model,
    histories: Sequence[str],
    options: Mapping[str, Any] | None,
    limits: Mapping[str, Any],
    out: str | Path | None,
) -> _Plan:
    opened = open_model(model, data, options) if isinstance(model, str) else check_model(model, type(model).__name__)
    most = limits["max_images"] if limits["max_images"] is not None else opened.caps.max_images or None
    settings = {h: Settings(h, limits["placement"], most, limits["seed"]) for h in histories}
    keep = _Temporary() if out is None else None
    described = _run_settings(data, model, opened, options, settings[histories[0]])
    return _Plan(data, opened, settings, described, keep.path if keep else Path(out or ""), keep)


def _roll_out(plan: _Plan, progress: Progress) -> Run:
    models = _prepared(plan.model, plan.data, tuple(plan.settings))
    total = _check(plan.data, tuple(plan.settings), plan.model.caps)
    with RunFolder(plan.path, plan.described, writable=True) as folder:
        progress.start("rollout", total)

        def tell(record: OutputRecord, fresh: bool) -> None:
            progress.step("rollout", record.status, fresh=fresh)

        for window in _windows(plan.data):
            for history, settings in plan.settings.items():
                roll_out(window, models[history], folder, settings, tell)
    return Run(plan.path, plan.data, plan.keep)


def _histories(history: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple(history.split(",")) if isinstance(history, str) else tuple(history)
    if not names or len(set(names)) != len(names):
        raise SpecError(f"history: expected one or more different modes, got {history!r}")
    for name in names:
        Settings(name)  # refuses an unknown one
    return names


def _prepared(model: Model, data: Data, histories: Sequence[str]) -> dict[str, Model]:
    """A model that wants to see the dialogues first (a replay, to compare its manifest) says so by `prepare`."""
    prepare: Callable[[Data, str], Model] | None = getattr(model, "prepare", None)
    return {history: prepare(data, history) if prepare else model for history in histories}


def _check(data: Data, histories: Sequence[str], caps: Caps) -> int:
    """Refuse what can't run before anything does; return how many outputs there will be."""
    total = 0
    for dialogue in data:
        for history in histories:
            refuse_unsuitable(dialogue, history)
        total += len(histories) * count_items(dialogue, caps)
    return total


def _run_settings(
    data: Data, model: str | Model, opened: Model, options: Mapping[str, Any] | None, settings: Settings
) -> dict[str, Any]:
    caps = asdict(opened.caps)
    del caps["max_batch"]  # how many at a time is not what is run
    return {
        "model": {
            "spec": model if isinstance(model, str) else f"{type(model).__module__}:{type(model).__qualname__}",
            "identity": opened.identity,
            "options": dict(options or {}),
            "caps": {**caps, "outputs": sorted(caps["outputs"])},
        },
        "data": data.settings,
        "placement": settings.placement,
        "max_images": settings.max_images,
        "seed": settings.seed,
    }


def _windows(items: Iterable[T]) -> Iterator[list[T]]:
    source = iter(items)
    while window := list(islice(source, WINDOW)):
        yield window


def judge(
    run: Run,
    judge: str | Judge = "pixel",
    answer_judge: str | Judge = "exact",
    *,
    concurrency: int = 8,
    progress: Progress | None = None,
) -> Run:
    """Have everything in a run judged that can be judged and has no verdict yet.

    Args:
        run: from `rollout` or `Run.open`.
        judge: of checks and quality; a spec string or an object (`records.Judge`).
        answer_judge: of answers to questions.
        concurrency: calls in flight.
        progress: told of every call.

    Raises:
        SpecError: no such judge.
    """
    by = Judges(_judge(judge), _judge(answer_judge))
    progress = progress or Progress()
    with RunFolder(run.path, writable=True) as folder, Loop() as loop:
        histories = folder.histories
        if not histories:
            raise RunFolderError(f"{run.path}: expected outputs to judge, found none; run the rollout first")
        folder.add_judges(_entry(by))
        progress.start("judge", len(histories) * sum(len(d.questions) + 2 * len(d.slots) for d in run.data))

        def tell(line: dict[str, Any], fresh: bool) -> None:
            progress.step("judge", line["items"][0]["status"], fresh=fresh)

        for window in _windows(run.data):
            loop.run(judge_window(window, histories, folder, by, concurrency=concurrency, on_verdict=tell))
    return run


def _judge(judge: str | Judge) -> Judge:
    return open_judge(judge) if isinstance(judge, str) else check_judge(judge, type(judge).__name__)


def _entry(by: Judges) -> dict[str, Any]:
    return {
        "images": {"name": by.images.name, "fingerprint": by.images.fingerprint},
        "answers": {"name": by.answers.name, "fingerprint": by.answers.fingerprint},
    }


def score(
    run: Run,
    *,
    judge: str | None = None,
    weights: Weights = DEFAULT,
    sc_mean: ScMean = "dialogue",
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Turn a run's verdicts into scores, and write them to its scores.json.

    Args:
        run: judged, or partly: what has no verdict lowers coverage and widens the bounds.
        judge: the name of the judge of images whose verdicts count; None: the first that was asked.
        weights: of DSU, SC and VQ.
        sc_mean: what SC is averaged over: dialogue, image or check.
        resamples: bootstrap resamples for the intervals.
        seed: of the bootstrap.

    Returns:
        What scores.json holds.
    """
    with RunFolder(run.path) as folder:
        entry = chosen_judges(folder, judge)
        caps = folder.settings["model"]["caps"]["outputs"]
        tallies = _tallies(run.data, folder, entry)
        histories = {
            history: {
                **summarise(
                    tallies[history],
                    can_answer="text" in caps,
                    can_draw="images" in caps,
                    weights=weights,
                    sc_mean=sc_mean,
                    resamples=resamples,
                    seed=seed,
                ),
                "observed_images_in_history": sum(map(observed_in_history, run.data)) if history == "gt" else 0,
            }
            for history in folder.histories
        }
        scores = _scores(run.data, folder, entry, weights, histories)
        folder.write_json(scores_file(folder, entry), scores)
    return scores


def chosen_judges(folder: RunFolder, judge: str | None) -> dict[str, Any]:
    """The first entry of run.json's judges, or that of the named judge of images.

    Raises:
        RunFolderError: nobody has judged, or not that one.
    """
    if not folder.judges:
        raise RunFolderError(f"{folder.path}: expected verdicts, but nothing was judged yet; run `yanami judge` first")
    for entry in folder.judges:
        if judge in (None, entry["images"]["name"]):
            return dict(entry)
    names = ", ".join(entry["images"]["name"] for entry in folder.judges)
    raise RunFolderError(f"{folder.path}: expected a judge among {names}, got {judge!r}")


def _tallies(data: Data, folder: RunFolder, entry: dict[str, Any]) -> dict[str, list[Any]]:
    tallies: dict[str, list[Any]] = {history: [] for history in folder.histories}
    for dialogue in data:
        lines = folder.verdicts.of(dialogue.id)
        for history, found in tallies.items():
            current = folder.current(history, dialogue.id)
            verdicts = item_verdicts(dialogue, history, current, lines, judge_names(entry))
            found.append(tally(dialogue, {key: ItemResult(v.status, v.value) for key, v in verdicts.items()}))
    return tallies


def _scores(
    data: Data, folder: RunFolder, entry: dict[str, Any], weights: Weights, histories: dict[str, Any]
) -> dict[str, Any]:
    return {
        "schema": 1,
        "model": folder.settings["model"],
        "dataset": {**folder.settings["data"], "mini": data.is_mini},
        "judge": entry,
        "placement": folder.settings["placement"],
        "weights": asdict(weights),
        "histories": histories,
    }


def unscored(scores: Mapping[str, Any]) -> dict[str, int]:
    """How many items could not be scored, by status, over all histories of a scores.json.

    An image or an answer that the model owes is scored: it counts as wrong.
    """
    counts: Counter[str] = Counter()
    for history in scores["histories"].values():
        for statuses in history["statuses"].values():
            counts.update({status: n for status, n in statuses.items() if status not in COUNTED})
    return dict(counts)


def report(run: Run, *, judge: str | None = None, dialogues: int = SHOWN) -> Path:
    """Write report.md and report.html of a scored run, and return the path of the page.

    Args:
        run: scored.
        judge: the name of the judge of images; None: the first that was asked.
        dialogues: how many are shown in full, an even sample over the scenarios.
    """
    with RunFolder(run.path) as folder:
        return write_report(run.data, folder, chosen_judges(folder, judge), dialogues)


def predictions(run: Run, history: str = "gt") -> list[dict[str, Any]]:
    """What a run drew and answered under one history mode, as `evaluate.load("yanami")` takes it.

    Returns:
        One dict per dialogue: `id`, `images` (encoded bytes in slot order, None for a missing one) and `answers` (in
        question order, None for a missing one; None altogether for a model that doesn't answer in text).

    Raises:
        RunFolderError: there are no outputs of that history mode.
    """
    with RunFolder(run.path) as folder:
        if history not in folder.histories:
            raise RunFolderError(f"{run.path}: expected outputs of history {history!r}, found {folder.histories}")
        answers = "text" in folder.settings["model"]["caps"]["outputs"]
        return [_prediction(folder, history, dialogue, answers=answers) for dialogue in run.data]


def _prediction(folder: RunFolder, history: str, dialogue: Dialogue, *, answers: bool) -> dict[str, Any]:
    current = folder.current(history, dialogue.id)
    own = own_images(current, folder)
    images = [own.get((slot.turn, slot.ordinal)) for slot in dialogue.slots]
    texts = [record.text if (record := current.get((q.turn, q.id))) else None for q in dialogue.questions]
    return {
        "id": dialogue.id,
        "images": [image.read() if image else None for image in images],
        "answers": texts if answers else None,
    }


@dataclass(frozen=True)
class Evaluation:
    """A finished `evaluate`: the run, and for each judge its scores and the path of its report."""

    run: Run
    scores: tuple[dict[str, Any], ...]
    reports: tuple[Path, ...]


def evaluate(
    dialogues: Any,
    model: str | Model,
    *,
    history: str | Sequence[str] = "gt",
    judges: Sequence[str | Judge] = ("pixel",),
    answer_judge: str | Judge = "exact",
    placement: str = "interleaved",
    max_images: int | None = None,
    seed: int = 0,
    selection: Selection = EVERYTHING,
    options: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """All stages in a row: rollout, every judge, scores, reports. A run that is finished is not gone through again.

    Args are those of `rollout` and `judge`; `judges` are of images, the first one's scores are in scores.json.
    """
    data = open_data(dialogues, selection)
    limits = {"placement": placement, "max_images": max_images, "seed": seed}
    plan = _plan(data, model, _histories(history), options, limits, out)
    opened = [Judges(_judge(one), _judge(answer_judge)) for one in judges]
    asked = {"settings": plan.described, "histories": list(plan.settings), "judges": list(map(_entry, opened))}
    asked["code"] = code()
    if (plan.path / "run.json").is_file():
        with RunFolder(plan.path, plan.described) as folder:
            if is_finished(folder, asked):
                return _finished(Run(plan.path, data, plan.keep), folder, opened)
    run = _roll_out(plan, progress or Progress())
    for by in opened:
        judge(run, by.images, by.answers, progress=progress)
    scores = tuple(score(run, judge=by.name) for by in opened)
    reports = tuple(report(run, judge=by.name) for by in opened)
    if not any(status in RETRIED for one in scores for status in unscored(one)):
        with RunFolder(run.path, writable=True) as folder:
            note_finished(folder, asked)
    return Evaluation(run, scores, reports)


def _finished(run: Run, folder: RunFolder, opened: Sequence[Judges]) -> Evaluation:
    files = [scores_file(folder, chosen_judges(folder, by.name)) for by in opened]
    scores = tuple(json.loads((folder.path / name).read_text()) for name in files)
    return Evaluation(run, scores, tuple(folder.path / report_name(name) for name in files))
