"""From a judged run folder to its scores.json: reads, and lets `tally` and `score` count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from yanami_dataset.errors import RunFolderError
from yanami_metric.between import sample_spread
from yanami_metric.collecting import uncollected
from yanami_metric.data import Data
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.history import observed_in_history
from yanami_metric.records import COUNTS_AS_WRONG
from yanami_metric.results import item_verdicts, scores_file
from yanami_metric.run_folder import RunFolder
from yanami_metric.score import ItemResult, ScMean, summarise
from yanami_metric.tally import DialogueTally, tally

COUNTED = ("scored", *COUNTS_AS_WRONG)  # the statuses whose items have a value


@dataclass(frozen=True)
class Scoring:
    """How verdicts become scores; see `score.summarise`."""

    weights: Weights = DEFAULT
    sc_mean: ScMean = "dialogue"
    resamples: int = 1000
    seed: int = 0


def write_scores(data: Data, folder: RunFolder, entry: Mapping[str, Any], how: Scoring) -> dict[str, Any]:
    """Score a run by one set of judges, write the result to its file, and return it."""
    caps = folder.settings["model"]["caps"]["outputs"]
    abilities: dict[str, Any] = {"can_answer": "text" in caps, "can_draw": "images" in caps}
    tallies = _tallies(data, folder, entry)
    observed = sum(map(observed_in_history, data))
    found = {}
    for history in folder.histories:
        tracks = [tallies[track] for track in folder.tracks(history)]
        found[history] = summarise(map(_sum, zip(*tracks, strict=True)), **abilities, **_arguments(how))
        found[history]["observed_images_in_history"] = observed if history == "gt" else 0
        if entry["rules"]["samples"] > 1:
            found[history]["judge_samples"] = sample_spread(data, folder, history, entry)
        if len(tracks) > 1:
            found[history]["generations"] = _spread(tracks, abilities, how)
    scores = {
        "schema": 1,
        "model": folder.settings["model"],
        "dataset": {**folder.settings["data"], "of": data.whole, "commit": data.commit, "mini": data.is_mini},
        "judge": entry,
        "placement": folder.settings["placement"],
        "weights": asdict(how.weights),
        "histories": found,
    }
    folder.write_json(scores_file(folder, entry), scores)
    return scores


def _arguments(how: Scoring) -> dict[str, Any]:
    return {"weights": how.weights, "sc_mean": how.sc_mean, "resamples": how.resamples, "seed": how.seed}


def tallied(data: Data, folder: RunFolder, entry: Mapping[str, Any]) -> dict[str, list[DialogueTally]]:
    """By history, the tally of every dialogue over all its generations, in the order of the data.

    Args:
        data: the dialogues of the run.
        folder: where its outputs and verdicts are.
        entry: the judges that count, an entry of run.json's `judges`; see `chosen_judges`.
    """
    found = _tallies(data, folder, entry)
    return {
        history: list(map(_sum, zip(*(found[track] for track in folder.tracks(history)), strict=True)))
        for history in folder.histories
    }


def _tallies(data: Data, folder: RunFolder, entry: Mapping[str, Any]) -> dict[str, list[DialogueTally]]:
    tallies: dict[str, list[DialogueTally]] = {
        track: [] for history in folder.histories for track in folder.tracks(history)
    }
    with uncollected():
        for dialogue in data:
            lines = folder.verdicts.of(dialogue.id)
            for track, found in tallies.items():
                current = folder.current(track, dialogue.id)
                verdicts = item_verdicts(dialogue, track, current, lines, entry)
                found.append(tally(dialogue, {key: ItemResult(v.status, v.value) for key, v in verdicts.items()}))
    return tallies


def _sum(generations: tuple[DialogueTally, ...]) -> DialogueTally:
    """A dialogue over its generations: all items of all of them, so a mean is a mean over generations too."""
    total = generations[0]
    for one in generations[1:]:
        total = total + one
    return total


def _spread(tracks: list[list[DialogueTally]], abilities: dict[str, Any], how: Scoring) -> dict[str, Any]:
    """The headline of each generation, and their standard deviation: what another seed would change."""
    plain = Scoring(how.weights, how.sc_mean, resamples=0)
    each = [summarise(tallies, **abilities, **_arguments(plain)) for tallies in tracks]
    found: dict[str, Any] = {"count": len(tracks)}
    for name in ("overall", "vr", "dsu", "sc", "vq"):
        values = [one[name]["value"] for one in each]
        found[name] = {"values": values, "sd": _deviation(values)}
    return found


def _deviation(values: list[float | None]) -> float | None:
    """The sample standard deviation; None where a generation has no value.

    >>> _deviation([1.0, 3.0]), _deviation([1.0, None])
    (1.4142135623730951, None)
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    mean = sum(known) / len(known)
    return float((sum((value - mean) ** 2 for value in known) / (len(known) - 1)) ** 0.5)


def chosen_judges(folder: RunFolder, judge: str | None) -> dict[str, Any]:
    """The first entry of run.json's judges, or the latest one of the named judge of images.

    Raises:
        RunFolderError: nobody has judged, or not that one.
    """
    if not folder.judges:
        raise RunFolderError(f"{folder.path}: expected verdicts, but nothing was judged yet; run `yanami judge` first")
    if judge is None:
        return dict(folder.judges[0])
    for entry in reversed(folder.judges):
        if judge == entry["images"]["name"]:
            return dict(entry)
    names = ", ".join(entry["images"]["name"] for entry in folder.judges)
    raise RunFolderError(f"{folder.path}: expected a judge among {names}, got {judge!r}")


def unscored(scores: Mapping[str, Any]) -> dict[str, int]:
    """How many items could not be scored, by status, over all histories of a scores.json.

    An image or an answer that the model owes is scored: it counts as wrong.
    """
    counts: Counter[str] = Counter()
    for history in scores["histories"].values():
        for statuses in history["statuses"].values():
            counts.update({status: n for status, n in statuses.items() if status not in COUNTED})
    return dict(counts)


def read_scores(path: Path, judge: str | None = None) -> tuple[Path, dict[str, Any]]:
    """The file of a run's scores, and what it holds.

    Args:
        path: the run folder.
        judge: the judge of images; None: the first that was asked.

    Raises:
        RunFolderError: no run folder, or one that isn't scored.
    """
    with RunFolder(path) as folder:
        file = path / scores_file(folder, chosen_judges(folder, judge))
    if not file.is_file():
        raise RunFolderError(f"{path}: expected {file.name}, got none; run `yanami score` first")
    return file, json.loads(file.read_text(encoding="utf-8"))
