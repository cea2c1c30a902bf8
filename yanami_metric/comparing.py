"""From judged run folders to a comparison: reads them, refuses what isn't comparable, and lets `paired` compute.

Files: comparison.json, comparison.md, comparison.csv and comparison.html, the page.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS, Dialogue, Slot
from yanami_metric.alike import NotAlikeError, differences
from yanami_metric.analysis.loading import Analysed, load
from yanami_metric.comparison_page import Answered, Asked, Drawn, Failure, ShownDialogue, ShownSlot, html
from yanami_metric.comparison_text import csv, markdown
from yanami_metric.estimates import summed
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.paired import Side, compare
from yanami_metric.records import COUNTS_AS_WRONG, quality_id
from yanami_metric.replies import ItemVerdict
from yanami_metric.results import Current, item_verdicts, judge_names, scores_file
from yanami_metric.run_folder import RunFolder, write_atomic
from yanami_metric.score import LEAVES, Basis
from yanami_metric.tally import DialogueTally

TOP = 12
"""Of how many dialogues the page shows images."""
_SHRUNK, _SERVED = "images as ", "served by "  # what notes of verdicts begin with


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs` found.

    Attributes:
        content: what comparison.json holds: what `paired.compare` returns, and `history`, `mini`, `forced`, `warnings`
            (in what runs differ), `runs` (by name: model, judge, data), `formula_vr`, `sc_mean`, `per_dialogue`,
            `measure` ("vr", "answers" or None: what dialogues are compared by) and `largest` (dialogues by difference).
    """

    content: dict[str, Any]
    runs: tuple[Analysed, ...]

    def markdown(self) -> str:
        """As text for people."""
        return markdown(self.content)

    def json(self) -> str:
        """As text for programs."""
        return json.dumps(self.content, indent=2, allow_nan=False) + "\n"

    def write(self, out: str | Path) -> list[Path]:
        """Write comparison.json, .md, .csv and .html.

        Args:
            out: the folder, made if it isn't there; files of that name in it are replaced.

        Returns:
            The files, the page last.
        """
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"json": self.json(), "md": self.markdown(), "csv": csv(self.content)}
        texts["html"] = html(self.content, _shown(self.runs, self.content))
        for ending, text in texts.items():
            write_atomic(folder / f"comparison.{ending}", text.encode(errors="replace"))
        return [folder / f"comparison.{ending}" for ending in texts]


def compare_runs(
    paths: Sequence[str | Path],
    *,
    history: str = "gt",
    judge: str | None = None,
    force: bool = False,
    top: int = TOP,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare judged runs on the dialogues that they share.

    Scores are counted anew from the verdicts, with the weights and the mean of SC of each run's scores.json; where
    those differ and `force` is given, with those of the first run for all.

    Args:
        paths: two or more run folders.
        history: the history mode that is compared.
        judge: the judge of images whose verdicts count; None: the first that was asked, in each run.
        force: compare also what isn't comparable; the result says so.
        top: how many dialogues, those with the largest differences, are shown in full.
        resamples: of the bootstrap; 0 for no intervals.
        seed: of bootstrap and permutations.

    Raises:
        NotAlikeError: judges, their prompts, the codec of images, data or weights differ.
        RunFolderError: a folder that is none, that nobody judged, or that is given twice.
        DataError: a run without that history mode, or no shared dialogue.
        SpecError: fewer than two runs, or a negative number.
    """
    if top < 0:
        raise SpecError(f"top: expected 0 or more dialogues to show, got {top}")
    runs = load(paths, judge)
    measured = [(one.name, measured_how(one, history)) for one in runs]
    warnings = sorted(differences(measured), key=lambda one: not one.stops)
    if not force and any(one.stops for one in warnings):
        raise NotAlikeError(warnings)
    weights, sc_mean = _means(measured[0][1], history)
    runs = [replace(one, basis=replace(one.basis, weights=weights, sc_mean=sc_mean)) for one in runs]
    found = compare({o.name: Side(o.histories[history], o.basis) for o in runs}, resamples=resamples, seed=seed)
    per_dialogue = list(_per_dialogue(runs, history))
    measure = _measure([one.basis for one in runs])
    content = {
        "schema": 1,
        "history": history,
        "mini": any(one.is_mini for one in runs),
        "forced": force,
        "warnings": [{**asdict(one), "values": dict(one.values), "text": one.text} for one in warnings],
        "runs": {one.name: _described(one, scores) for one, (_, scores) in zip(runs, measured, strict=True)},
        "formula_vr": weights.formula(with_dsu=False),
        "sc_mean": sc_mean,
        **found,
        "measure": measure,
        "largest": _largest(per_dialogue, measure, top),
        "per_dialogue": per_dialogue,
    }
    return Comparison(content, tuple(runs))


def default_out(paths: Sequence[str | Path]) -> Path:
    """`comparison` beside the runs if they lie in one folder, else here.

    >>> default_out(["/runs/mini/a", "/runs/mini/b"]).as_posix(), default_out(["/x/a", "/y/b"]).as_posix()
    ('/runs/mini/comparison', 'comparison')
    """
    parents = {Path(path).resolve().parent for path in paths}
    return parents.pop() / "comparison" if len(parents) == 1 else Path("comparison")


def measured_how(one: Analysed, history: str) -> dict[str, Any]:
    """What was measured and how, in the form that `alike` takes.

    Raises:
        DataError: a run without that history mode.
    """
    if history not in one.histories:
        ran = ", ".join(one.histories) or "none"
        raise DataError(f"{one.run.path}: expected a run under history {history}, got one under {ran}; see --history")
    with RunFolder(one.run.path) as folder:
        file = folder.path / scores_file(folder, one.judge)
        scores = json.loads(file.read_text()) if file.is_file() else {}
        sc_mean = next((entry["sc_mean"] for entry in scores.get("histories", {}).values()), "dialogue")
        settings = {key: one.settings.get(key) for key in ("placement", "drawing_placement", "max_images", "seed")}
        return {
            **settings,
            "model": one.settings["model"],
            "dataset": one.settings["data"],
            "judge": one.judge,
            "weights": scores.get("weights", asdict(DEFAULT)),
            "histories": {history: {"sc_mean": sc_mean}},
            "generations": len(folder.tracks(history)),
            **_noted(one, folder, history),
        }


def _noted(one: Analysed, folder: RunFolder, history: str) -> dict[str, Any]:
    """As what a judge got images, and who answered, by the notes of the verdicts that count."""
    names, tracks = judge_names(one.judge), folder.tracks(history)
    sent: Counter[str] = Counter()
    served: set[str] = set()
    for tally in one.histories[history]:
        for line in folder.verdicts.of(tally.dialogue):
            if line["track"] not in tracks or line["judge"] != names[line["kind"]]:
                continue
            told = [piece for note in line["notes"] for piece in note.split("; ")]
            served |= {piece.removeprefix(_SERVED) for piece in told if piece.startswith(_SERVED)}
            if line["kind"] != "answer":
                codecs = {piece.removeprefix(_SHRUNK) for piece in told if piece.startswith(_SHRUNK)}
                sent.update(codecs or {"as stored"})
    return {"images_sent": dict(sorted(sent.items())), "served": sorted(served)}


def _means(scores: Mapping[str, Any], history: str) -> tuple[Weights, Any]:
    return Weights(**scores["weights"]), scores["histories"][history]["sc_mean"]


def _described(one: Analysed, scores: Mapping[str, Any]) -> dict[str, Any]:
    """A run in comparison.json."""
    model, data = scores["model"], scores["dataset"]
    return {
        "model": model["spec"],
        "identity": model["identity"],
        "options": model["options"],
        "can_answer": one.basis.can_answer,
        "can_draw": one.basis.can_draw,
        "formula": one.basis.weights.formula(with_dsu=one.basis.can_answer),
        "data": data["name"],
        "revision": data["revision"],
        "placement": scores["placement"],
        "judge": scores["judge"],
        "images_sent": scores["images_sent"],
        "served": scores["served"],
        "generations": scores["generations"],
    }


def _measure(bases: Sequence[Basis]) -> str | None:
    """What dialogues are compared by: VR where two runs draw, else answers where two answer."""
    if sum(one.can_draw for one in bases) > 1:
        return "vr"
    return "answers" if sum(one.can_answer for one in bases) > 1 else None


def _per_dialogue(runs: Sequence[Analysed], history: str) -> Iterator[dict[str, Any]]:
    """VR and answers of every shared dialogue, by scenario and id."""
    tallies = [{one.dialogue: one for one in run.histories[history]} for run in runs]
    shared = set(tallies[0]).intersection(*tallies)
    for id_ in sorted(shared, key=lambda id_: (SCENARIOS.index(tallies[0][id_].scenario), id_)):
        found = {run.name: of_dialogue(each[id_], run.basis) for run, each in zip(runs, tallies, strict=True)}
        yield {
            "dialogue": id_,
            "scenario": tallies[0][id_].scenario,
            **{measure: {name: one[measure] for name, one in found.items()} for measure in ("vr", "answers")},
        }


def of_dialogue(one: DialogueTally, basis: Basis) -> dict[str, float | None]:
    """VR and the share of right answers of one dialogue, in points (**ours**).

    VR has the shares of SC and VQ that it has in scores; None where either has nothing scored. `answers` is over all
    questions of the dialogue, as it rarely asks about all four dimensions that DSU needs.

    >>> from yanami_metric.tally import Count, ImageTally
    >>> image = ImageTally(0, 0, checks=Count(2, 2, 1.0), quality=Count(1, 1, 0.8))
    >>> of_dialogue(DialogueTally("d", "editing", (Count(),) * 4, (image,), (), ()), Basis(True, True))
    {'vr': 62.0, 'answers': None}
    """
    rows = dict(zip(LEAVES, basis.rows(one), strict=True))
    parts = [(share, rows[name]) for name, share in basis.weights.shares(with_dsu=False).items() if share]
    answers = summed(rows[name] for name in DIMENSIONS)
    known = all(row.units for _, row in parts)
    return {
        "vr": round(sum(100 * share * row.gained / row.units for share, row in parts), 9) if known else None,
        "answers": round(100 * answers.gained / answers.units, 9) if answers.units else None,
    }


def _largest(per_dialogue: Sequence[Mapping[str, Any]], measure: str | None, top: int) -> list[dict[str, Any]]:
    """The dialogues whose runs are furthest apart; those without a difference are none."""
    found = []
    if measure is None:
        return []
    for one in per_dialogue:
        known = [value for value in one[measure].values() if value is not None]
        if len(known) > 1 and (apart := round(max(known) - min(known), 9)) > 0:
            where = {"dialogue": one["dialogue"], "scenario": one["scenario"]}
            found.append({**where, "range": apart, "values": one[measure]})
    return sorted(found, key=lambda one: (-one["range"], one["dialogue"]))[:top]


@dataclass(frozen=True)
class _Seen:
    """What one run did in one dialogue; of several generations the first."""

    dialogue: Dialogue
    folder: RunFolder
    current: Current
    verdicts: Mapping[tuple[str, str], ItemVerdict]

    @classmethod
    def read(cls, run: Analysed, folder: RunFolder, history: str, id_: str) -> _Seen:
        dialogue, current = run.run.data.get(id_), folder.current(history, id_)
        return cls(
            dialogue, folder, current, item_verdicts(dialogue, history, current, folder.verdicts.of(id_), run.judge)
        )

    def drawn(self, turn: int, ordinal: int) -> Drawn:
        record = self.current.get((turn, None))
        slots = [slot for slot in self.dialogue.slots_of(turn) if slot.ordinal == ordinal]
        if record is None or not slots:
            return Drawn(None, "missing", "this run has no such output")
        status = record.slot_status(ordinal)
        stored = record.images[ordinal] if status == "ok" else None
        checks = [check for check in self.dialogue.checks_of(slots[0]) if check.kind == "atomic"]
        marks = [(check.criterion, self._mark("checks", check.id)) for check in checks]
        values = [_value(mark) for _, mark in marks]
        return Drawn(
            data=self.folder.image(stored).read() if stored else None,
            status=status,
            reason=record.reason,
            quality=_value(self._mark("quality", quality_id(slots[0]))),
            passed=values.count(1.0),
            judged=sum(value is not None for value in values),
            asked=len(values),
            failures=tuple(
                Failure(criterion, mark.status, mark.reason) for criterion, mark in marks if _value(mark) != 1
            ),
        )

    def answered(self, question: str, turn: int) -> Answered:
        record = self.current.get((turn, question))
        mark = self._mark("answer", question)
        text, status = (record.text, record.status) if record else (None, "missing")
        return Answered(text, status, _value(mark), mark.reason)

    def _mark(self, kind: str, id_: str) -> ItemVerdict:
        return self.verdicts.get((kind, id_), ItemVerdict(id_, "not_judged", None, ""))


def _value(mark: ItemVerdict) -> float | None:
    """The value where it counts."""
    if mark.status in COUNTS_AS_WRONG:
        return 0.0
    return mark.value if mark.status == "scored" else None


def _shown(runs: Sequence[Analysed], content: Mapping[str, Any]) -> Iterator[ShownDialogue]:
    """The dialogues on which runs differ most, read one at a time."""
    with ExitStack() as stack:
        folders = [stack.enter_context(RunFolder(one.run.path)) for one in runs]
        for entry in content["largest"]:
            seen = {
                run.name: _Seen.read(run, folder, content["history"], entry["dialogue"])
                for run, folder in zip(runs, folders, strict=True)
            }
            dialogue = next(iter(seen.values())).dialogue
            answers = content["measure"] == "answers"
            yield ShownDialogue(
                entry,
                tuple(_slot(dialogue, slot, seen) for slot in dialogue.slots) if not answers else (),
                tuple(_asked(dialogue, seen)) if answers else (),
            )


def _slot(dialogue: Dialogue, slot: Slot, seen: Mapping[str, _Seen]) -> ShownSlot:
    user = dialogue.user(slot.turn).content
    target = None if slot.index is None else dialogue.images[slot.index]
    return ShownSlot(
        turn=slot.turn,
        text="\n".join(part.text or "" for part in user if part.type == "text"),
        images=tuple(dialogue.images[part.index] for part in user if part.index is not None),
        target=target,
        target_is=dialogue.image_info[slot.index].role if slot.index is not None else "",
        outputs={name: one.drawn(slot.turn, slot.ordinal) for name, one in seen.items()},
    )


def _asked(dialogue: Dialogue, seen: Mapping[str, _Seen]) -> Iterator[Asked]:
    for question in dialogue.questions:
        answers = {name: one.answered(question.id, question.turn) for name, one in seen.items()}
        yield Asked(question.turn, question.question, question.answer, answers)
