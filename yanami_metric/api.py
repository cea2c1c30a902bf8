"""The public functions: rollout, judge, score, report, evaluate, on objects or on what spec strings name.

Each stage takes a run and gives it back with more in its folder, so they can be called in a row, in different
processes, or again after a crash:

    run = rollout("mini", "baseline:copy-last", history=("gt", "self"))
    scores = score(judge(run))
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError
from yanami_dataset.schema import Dialogue
from yanami_metric.asking import Judges
from yanami_metric.between import judges_agree
from yanami_metric.comparing import Comparison, compare_runs
from yanami_metric.costs import Estimate
from yanami_metric.data import EVERYTHING, Selection, open_data
from yanami_metric.finished import code, is_finished, note_finished
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.judging import Bench
from yanami_metric.loop import Loop
from yanami_metric.models import Opened, opened
from yanami_metric.panel import Judging, entry
from yanami_metric.planning import Conditions, Plan, histories, take_census
from yanami_metric.records import RETRIED, Judge, Model
from yanami_metric.reporting import report_name, write_report
from yanami_metric.results import own_images, scores_file
from yanami_metric.rollout import Rollout
from yanami_metric.run_folder import OutputRecord, RunFolder
from yanami_metric.runs import Progress, Run, Temporary, windows
from yanami_metric.score import ScMean
from yanami_metric.scoring import Scoring, chosen_judges, unscored, write_scores

__all__ = [
    "Comparison",
    "Evaluation",
    "Judging",
    "Progress",
    "Run",
    "compare_runs",
    "estimate",
    "evaluate",
    "judge",
    "plan",
    "predictions",
    "report",
    "rollout",
    "score",
    "unscored",
]


AHEAD = 4  # windows that may wait for their judges: bounds memory where judging is slower than rolling out


def plan(
    dialogues: Any,
    model: str | Model | Opened,
    *,
    history: str | Sequence[str] = "gt",
    placement: str | None = None,
    max_images: int | None = None,
    seed: int = 0,
    generations: int = 1,
    selection: Selection = EVERYTHING,
    options: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> Plan:
    """Decide on a rollout without beginning it; `planning.take_census` counts what it will ask for.

    Args and errors are those of `rollout`.
    """
    data = open_data(dialogues, selection)
    conditions = Conditions(histories(history), placement, max_images, seed, generations)
    keep = Temporary() if out is None else None
    return Plan(data, opened(model, data, options), conditions, keep.path if keep else Path(out or ""), keep)


def rollout(
    dialogues: Any,
    model: str | Model | Opened,
    *,
    history: str | Sequence[str] = "gt",
    placement: str | None = None,
    max_images: int | None = None,
    seed: int = 0,
    generations: int = 1,
    selection: Selection = EVERYTHING,
    options: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Have a model draw every slot and answer every question of some dialogues.

    Args:
        dialogues: "mini", a folder, a Hub id, `Data`, a list of `Dialogue`, or a `datasets.Dataset`.
        model: a spec string, an object with `caps`, `identity` and `generate` (`records.Model`), or a pipeline of
            diffusers or transformers.
        history: one or more of gt, self, last, none.
        placement: interleaved, front, concatenate or text_only; None: as the model's caps say.
        max_images: more images than this are shown as one labelled grid; None: as the model's caps say.
        seed: the base seed; each output's own is derived from it.
        generations: how many times each item is rolled out, with different seeds.
        selection: which of the dialogues.
        options: of the model a spec string names, see `models.open_model`.
        out: the run folder; None: a temporary one that goes with the returned object.
        progress: told of every output.

    Raises:
        HistoryError: `gt`, and a dialogue has an earlier slot without an image.
        ModelError: the model can't be used, e.g. a replayed folder lacks outputs.
        RunFolderError: the folder holds a run with other settings.

    >>> run = rollout("mini", "baseline:blank", selection=Selection(limit=1))  # doctest: +SKIP
    """
    planned = plan(
        dialogues,
        model,
        history=history,
        placement=placement,
        max_images=max_images,
        seed=seed,
        generations=generations,
        selection=selection,
        options=options,
        out=out,
    )
    return _roll_out(planned, progress or Progress())


def _roll_out(planned: Plan, progress: Progress) -> Run:
    ready = _Ready(planned, progress)
    with RunFolder(planned.path, planned.described, writable=True) as folder:
        for _ in ready.windows(folder):
            pass
    return Run(planned.path, planned.data, planned.keep)


class _Ready:
    """A rollout that nothing speaks against: found out before there is a run folder."""

    def __init__(self, planned: Plan, progress: Progress) -> None:
        self.planned, self.progress = planned, progress
        self.models = planned.models()
        self.census = take_census(planned)
        for note in [*planned.notes(), *self.census.notes()]:
            progress.note(note)

    def windows(self, folder: RunFolder) -> Iterator[list[Dialogue]]:
        """Roll out window by window; each is yielded when all its outputs are there."""
        unsupported = sum(map(Counter.total, self.census.unsupported.values()))
        self.progress.start("rollout", self.census.calls + unsupported)
        settings = self.planned.settings
        rollouts = [Rollout(self.models[one.history], folder, one, self._tell) for one in settings]
        try:
            for window in windows(self.planned.data):
                for each in rollouts:
                    each.run(window)
                yield window
        finally:
            close: Callable[[], None] = getattr(self.planned.model, "close", lambda: None)
            close()

    def _tell(self, record: OutputRecord, fresh: bool) -> None:
        self.progress.step("rollout", record.status, fresh=fresh)


def judge(
    run: Run,
    judge: str | Judge = "pixel",
    answer_judge: str | Judge = "exact",
    *,
    judging: Judging | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Run:
    """Have everything in a run judged that can be judged and has no verdict yet.

    Args:
        run: from `rollout` or `Run.open`.
        judge: of checks and quality; a spec string or an object (`records.Judge`).
        answer_judge: of answers to questions.
        judging: how they are asked.
        progress: told of every call.
        how: instead of `judging`, its arguments.

    Raises:
        SpecError: no such judge.
        ModelError: a judge can't be used, e.g. its server has no such model.
        TooManyFailuresError: as `max_failures` says.
        BudgetSpentError: as `max_cost` says.
    """
    ask, progress = judging or Judging(**how), progress or Progress()
    by = ask.open(judge, answer_judge)
    with RunFolder(run.path, writable=True) as folder, Loop() as loop:
        tracks = _tracks(folder)
        ask.check([by], progress, lambda: ask.is_needed(folder, by, run.data, tracks))
        bench = ask.bench(folder, by, run.data, len(tracks), progress, loop)
        _judge_windows(loop, [bench], windows(run.data), tracks)
    return run


def estimate(
    run: Run, judge: str | Judge = "pixel", answer_judge: str | Judge = "exact", *, judging: Judging | None = None
) -> Estimate:
    """What `judge` would ask for, without asking anybody.

    Args:
        run: from `rollout` or `Run.open`.
        judge: as for `judge`.
        answer_judge: as for `judge`.
        judging: as for `judge`.
    """
    how = judging or Judging()
    with RunFolder(run.path) as folder:
        return how.estimate(folder, how.open(judge, answer_judge), run.data, _tracks(folder))


def _tracks(folder: RunFolder) -> list[str]:
    tracks = [track for history in folder.histories for track in folder.tracks(history)]
    if not tracks:
        raise RunFolderError(f"{folder.path}: expected outputs to judge, found none; run the rollout first")
    return tracks


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
    how = Scoring(weights, sc_mean, resamples, seed)
    with RunFolder(run.path) as folder:
        return write_scores(run.data, folder, chosen_judges(folder, judge), how)


def report(run: Run, *, judge: str | None = None, dialogues: int | None = None, inline: bool = False) -> Path:
    """Write report.md and report.html of a scored run, and return the path of the page.

    Args:
        run: scored.
        judge: the name of the judge of images; None: the first that was asked.
        dialogues: how many can be browsed, an even sample over the scenarios; None: all.
        inline: hold all images in full in the page itself; else originals lie beside it, in `report-images/`.
    """
    with RunFolder(run.path) as folder:
        return write_report(run.data, folder, chosen_judges(folder, judge), dialogues, inline=inline)


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

    def agreements(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The names of the first judge and each further one, and how far they agree (`between.judges_agree`)."""
        first, *others = [one["judge"] for one in self.scores]
        with RunFolder(self.run.path) as folder:
            return [
                (first["images"]["name"], other["images"]["name"], judges_agree(self.run.data, folder, first, other))
                for other in others
            ]


def evaluate(
    dialogues: Any,
    model: str | Model | Opened,
    *,
    judges: Sequence[str | Judge] = ("pixel",),
    answer_judge: str | Judge = "exact",
    judging: Judging | None = None,
    progress: Progress | None = None,
    **conditions: Any,
) -> Evaluation:
    """All stages: rollout, every judge, scores, reports. A run that is finished is not gone through again.

    The dialogues of a window are judged while those of the next are rolled out.

    Args:
        dialogues: as for `rollout`.
        model: as for `rollout`.
        judges: of images; the scores by the first are in scores.json.
        answer_judge: of answers.
        judging: how judges are asked.
        progress: told of every output and judge call.
        conditions: the other arguments of `rollout`.

    Raises:
        ModelError: a model or a judge can't be used, known before anything is rolled out.
    """
    planned = plan(dialogues, model, **conditions)
    judging, progress = judging or Judging(), progress or Progress()
    by = [judging.open(one, answer_judge) for one in judges]
    # as run.json has them: tuples are lists there
    entries = [json.loads(json.dumps(entry(one, judging.rules))) for one in by]
    tracks = [one.track for one in planned.settings]
    asked = {"settings": planned.described, "judges": entries, "tracks": tracks, "code": code()}
    run = Run(planned.path, planned.data, planned.keep)
    if not judging.retry and (planned.path / "run.json").is_file():
        with RunFolder(planned.path, planned.described) as folder:
            if is_finished(folder, asked):
                return _finished(run, folder, entries)
    judging.check(by, progress)
    ready = _Ready(planned, progress)
    with RunFolder(planned.path, planned.described, writable=True) as folder:
        _overlapped(ready, folder, by, judging)
        scores = tuple(write_scores(run.data, folder, one, Scoring()) for one in entries)
        reports = tuple(write_report(run.data, folder, one) for one in entries)
        if not any(status in RETRIED for one in scores for status in unscored(one)):
            note_finished(folder, asked)
    return Evaluation(run, scores, reports)


def _overlapped(ready: _Ready, folder: RunFolder, by: Sequence[Judges], judging: Judging) -> None:
    """Roll out a window while those before it are judged."""
    tracks = [one.track for one in ready.planned.settings]
    with Loop() as loop:
        data, progress = ready.planned.data, ready.progress
        benches = [judging.bench(folder, one, data, len(tracks), progress, loop) for one in by]
        _judge_windows(loop, benches, ready.windows(folder), tracks)


def _judge_windows(loop: Loop, benches: Sequence[Bench], some: Iterable[list[Dialogue]], tracks: Sequence[str]) -> None:
    """Judge windows of dialogues, the next ones while those before still wait for replies."""
    waiting: deque[Future[None]] = deque()
    for window in some:
        waiting.extend(loop.submit(bench.judge(window, tracks)) for bench in benches)
        while len(waiting) > AHEAD * len(benches):
            waiting.popleft().result()
    for judged in waiting:
        judged.result()


def _finished(run: Run, folder: RunFolder, entries: Sequence[Mapping[str, Any]]) -> Evaluation:
    files = [scores_file(folder, one) for one in entries]
    scores = tuple(json.loads((folder.path / name).read_text()) for name in files)
    return Evaluation(run, scores, tuple(folder.path / report_name(name) for name in files))
