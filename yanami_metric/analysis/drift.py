"""How images drift over a dialogue, measured on pixels without a judge (**ours**).

Reads the images of runs and of their data; the measures themselves are in `pixels`, what they can't tell is in
`docs/drift.md`. It knows no verdicts: a turn that was drawn wrongly counts like any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from yanami_dataset.errors import DataError, ImageError
from yanami_dataset.images import open_rgb
from yanami_dataset.schema import Dialogue, Slot
from yanami_metric.analysis import pixels
from yanami_metric.analysis.finding import Cell, Chart, Finding, Series, Table, covered, series, spread
from yanami_metric.analysis.loading import Analysed
from yanami_metric.analysis.turns import label, pooled_turns
from yanami_metric.estimates import NOTHING, Estimate, Row, Sample, Scored
from yanami_metric.history import OwnImages
from yanami_metric.records import ImageRef
from yanami_metric.results import own_images
from yanami_metric.run_folder import RunFolder
from yanami_metric.statistics import interval
from yanami_metric.tally import DialogueTally

BASES = ("continued", "first")
"""What an output is compared with: the image it continues, and the first image of the dialogue."""
DISTANCES = ("difference", "ssim", "changed")
LOOKS = ("sharpness", "saturation", "colourfulness", "luma", "contrast")
MEASURES = (*(f"{where}_{name}" for where in ("outside", "whole") for name in DISTANCES), *LOOKS)
MIN_OUTSIDE = 0.01
"""The share of pixels that a turn has to leave alone for anything to be measured outside of what it changes."""
_KEYS = tuple((base, measure) for base in BASES for measure in MEASURES)
_FAINT = 1.0  # added to both sharpnesses of a ratio, so that flat images have one

_Values = dict[tuple[str, str], float]


def drift(
    runs: Sequence[Analysed],
    *,
    histories: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: Callable[[], object] = lambda: None,
) -> Finding:
    """How far outputs are from the image they continue and from the first of the dialogue, by generation turn.

    The image that an output continues is the latest drawn one that its history mode showed (in `gt` a target, else the
    model's own), or the user's latest where none was drawn yet. What a turn changes is estimated: pixels in which its
    target differs from the ground truth of the image it is compared with.

    Args:
        runs: read by `loading.load`; their images are read here, a dialogue at a time.
        histories: only these; None: all.
        resamples: of the bootstrap over dialogues within scenarios.
        seed: of the bootstrap.
        progress: called after each dialogue of each run.

    Returns:
        `values`: by run and history `continued` and `first`, each with `outside_…` and `whole_…` `difference` (mean
        absolute, 0-255), `ssim` (at most 1) and `changed` (% of pixels), and `sharpness` (a ratio), `saturation`,
        `colourfulness`, `luma`, `contrast` (differences); `turns`, the same by generation turn; `counts` of images, and
        of those that were not measured and why. Means over dialogues of means over their images. An estimate's `n` and
        `coverage` are of images that could be measured; `bounds` are null: nothing bounds what is missing.

    Raises:
        DataError: no run has any of the histories.
        RunFolderError: an output names a file outside of its run folder.
    """
    values: dict[str, Any] = {}
    for run in runs:
        chosen = [history for history in run.histories if histories is None or history in histories]
        found = _measured(run, chosen, progress)
        values[run.name] = {
            history: _summary(Sample.of(run.histories[history], resamples, seed), found[history]) for history in chosen
        }
    if not any(values.values()):
        ran = "; ".join(f"{run.name}: {', '.join(run.histories) or 'none'}" for run in runs) or "no runs"
        raise DataError(f"drift: expected runs under {' or '.join(histories or ('any history',))}, got {ran}")
    return _finding(values)


# Which image is compared with which


@dataclass(frozen=True, slots=True)
class _Picture:
    """An image of the dialogue as a history mode has it (None: not available), and the ground truth in its place."""

    shown: ImageRef | None
    truth: ImageRef | None
    drawn: bool


def _pool(dialogue: Dialogue, index: int) -> ImageRef:
    info, images = dialogue.image_info[index], dialogue.images
    return ImageRef(info.sha256, info.width, info.height, lambda: images[index])


def _target(dialogue: Dialogue, slot: Slot) -> ImageRef | None:
    if slot.index is None or dialogue.image_info[slot.index].role != "target":
        return None
    return _pool(dialogue, slot.index)


def _pictures(dialogue: Dialogue, i: int, history: str, own: OwnImages) -> Iterator[_Picture]:
    """The images of message `i`; one that the assistant drew is drawn wherever it is mentioned."""
    if i % 2:
        yield from (_drawn(dialogue, slot, history, own) for slot in dialogue.slots_of(i // 2))
        return
    slots = {slot.index: slot for slot in dialogue.slots}
    for index in (part.index for part in dialogue.messages[i].image_parts if part.index is not None):
        if index in slots:
            yield _drawn(dialogue, slots[index], history, own)
        else:
            given = _pool(dialogue, index)
            yield _Picture(given, given, drawn=False)


def _drawn(dialogue: Dialogue, slot: Slot, history: str, own: OwnImages) -> _Picture:
    if history == "gt" and slot.index is not None:
        shown: ImageRef | None = _pool(dialogue, slot.index)
    else:
        shown = own.get((slot.turn, slot.ordinal))
    return _Picture(shown, _target(dialogue, slot), drawn=True)


def _bases(dialogue: Dialogue, turn: int, history: str, own: OwnImages) -> dict[str, _Picture | None]:
    """What the outputs of a turn are compared with; None where nothing came before."""
    before = [one for i in range(2 * turn) for one in _pictures(dialogue, i, history, own)]
    current = list(_pictures(dialogue, 2 * turn, history, own))
    first = next((one for one in (*before, *current) if one.shown), None)
    if history == "none":
        before, current = [], [one for one in current if not one.drawn]
    elif history == "last":
        before = before[-1:]
    seen = [one for one in (*before, *current) if one.shown]
    latest = ([one for one in seen if one.drawn] or seen)[-1:]
    return {"continued": latest[0] if latest else None, "first": first}


# Measuring


class _Album:
    """The images of one dialogue: each is decoded once, and two are compared once, whatever the history."""

    def __init__(self) -> None:
        self._decoded: dict[str, pixels.Pixels | None] = {}
        self._looks: dict[str, dict[str, float]] = {}
        self._compared: dict[tuple[str | None, ...], tuple[dict[str, float], str]] = {}

    def decoded(self, ref: ImageRef) -> pixels.Pixels | None:
        """None for an image that can't be read."""
        if ref.sha256 not in self._decoded:
            try:
                self._decoded[ref.sha256] = pixels.pixels(open_rgb(ref.read()))
            except (ImageError, OSError):
                self._decoded[ref.sha256] = None
        return self._decoded[ref.sha256]

    def compared(
        self, output: ImageRef, image: pixels.Pixels, base: _Picture | None, target: ImageRef | None
    ) -> tuple[dict[str, float], str]:
        """The measures there are, and why some are missing, if any."""
        if base is None or base.shown is None:
            return {}, "nothing_before"
        before = self.decoded(base.shown)
        if before is None:
            return {}, "unreadable"
        key = tuple(ref.sha256 if ref else None for ref in (output, base.shown, base.truth, target))
        if key not in self._compared:
            after_look, former = self._look(output, image), self._look(base.shown, before)
            looks = {name: after_look[name] - former[name] for name in LOOKS}
            outside, reason = self._outside(base.truth, target, (before.shape[1], before.shape[0]))
            self._compared[key] = looks | _distances(before, image, outside), reason
        return self._compared[key]

    def _look(self, ref: ImageRef, image: pixels.Pixels) -> dict[str, float]:
        """The measures of LOOKS; sharpness as a logarithm, so that differences are ratios."""
        if ref.sha256 not in self._looks:
            plane = pixels.luma(image)
            self._looks[ref.sha256] = {
                "sharpness": math.log(pixels.sharpness(image) + _FAINT),
                "saturation": pixels.saturation(image),
                "colourfulness": pixels.colourfulness(image),
                "luma": float(plane.mean(dtype=np.float64)),
                "contrast": float(plane.std(dtype=np.float64)),
            }
        return self._looks[ref.sha256]

    def _outside(
        self, truth: ImageRef | None, target: ImageRef | None, size: tuple[int, int]
    ) -> tuple[pixels.Mask | None, str]:
        """Where a turn changes nothing, at the size of the image that it is compared with."""
        if truth is None or target is None:
            return None, "no_target"
        pair = [self.decoded(ref) for ref in (truth, target)]
        fits = [pixels.fitted(image, *size) for image in pair if image is not None]
        if len(fits) < 2:
            return None, "unreadable_target"
        outside = pixels.unchanged(*fits)
        return (outside, "") if outside.mean() >= MIN_OUTSIDE else (None, "nothing_outside")


def _distances(before: pixels.Pixels, image: pixels.Pixels, outside: pixels.Mask | None) -> dict[str, float]:
    after = pixels.fitted(image, before.shape[1], before.shape[0])
    planes = {
        "difference": pixels.difference(before, after),
        "ssim": pixels.similarity(before, after),
        "changed": 100.0 * pixels.changed(before, after),
    }
    parts = {"whole": np.ones(before.shape[:2], dtype=np.bool_)} | ({} if outside is None else {"outside": outside})
    return {
        f"{where}_{name}": float(plane[part].mean(dtype=np.float64))
        for where, part in parts.items()
        for name, plane in planes.items()
    }


@dataclass
class _History:
    """What was measured under one history: by dialogue and generation turn (from 1) its images, and how many are due.

    `counts` are of images: `images` in all, `missing` and `unreadable` outputs, and for each of BASES why nothing, or
    nothing outside of what a turn changes, was measured.
    """

    images: dict[str, dict[int, list[_Values]]] = field(default_factory=dict)
    due: dict[str, Counter[int]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def _measured(run: Analysed, histories: Sequence[str], progress: Callable[[], object]) -> dict[str, _History]:
    found = {history: _History() for history in histories}
    with RunFolder(run.run.path) as folder:
        for dialogue in run.run.data if histories else ():
            album = _Album()
            for history, into in found.items():
                for track in folder.tracks(history):
                    own = own_images(folder.current(track, dialogue.id), folder)
                    _measure(dialogue, history, own, album, into)
            progress()
    return found


def _measure(dialogue: Dialogue, history: str, own: OwnImages, album: _Album, into: _History) -> None:
    images = into.images.setdefault(dialogue.id, {})
    due = into.due.setdefault(dialogue.id, Counter())
    for ordinal, turn in enumerate(dialogue.generation_turns, 1):
        bases = _bases(dialogue, turn, history, own)
        for slot in dialogue.slots_of(turn):
            due[ordinal] += 1
            into.counts["images"] += 1
            output = own.get((slot.turn, slot.ordinal))
            image = album.decoded(output) if output else None
            if output is None or image is None:
                into.counts["unreadable" if output else "missing"] += 1
                continue
            found: _Values = {}
            for name, base in bases.items():
                measures, reason = album.compared(output, image, base, _target(dialogue, slot))
                found |= {(name, measure): value for measure, value in measures.items()}
                into.counts[f"{name}: {reason}"] += bool(reason)
            images.setdefault(ordinal, []).append(found)


# Means over dialogues


def _summary(sample: Sample, found: _History) -> dict[str, Any]:
    reached = Counter(turn for due in found.due.values() for turn in due)
    bins = pooled_turns(reached)
    every = [(1, max(reached, default=1)), *bins]

    def rows(one: DialogueTally) -> list[Row]:
        images, due = found.images.get(one.dialogue, {}), found.due.get(one.dialogue, Counter())
        return [row for span in every for row in _rows(images, due, span)]

    means = sample.means(rows)
    parts = [_entries(means[len(_KEYS) * n : len(_KEYS) * (n + 1)]) for n in range(len(every))]
    turns = [
        {
            "turns": [low, high],
            "dialogues": sum(any(low <= t <= high for t in due) for due in found.due.values()),
            **part,
        }
        for (low, high), part in zip(bins, parts[1:], strict=True)
    ]
    return {**parts[0], "turns": turns, "counts": dict(sorted(found.counts.items()))}


def _rows(images: Mapping[int, Sequence[_Values]], due: Mapping[int, int], span: tuple[int, int]) -> list[Row]:
    """A dialogue's mean of each measure over its images in a span of generation turns."""
    some = [image for turn, each in images.items() if span[0] <= turn <= span[1] for image in each]
    asked = sum(number for turn, number in due.items() if span[0] <= turn <= span[1])
    rows = []
    for key in _KEYS:
        values = [image[key] for image in some if key in image]
        mean = (sum(values) / len(values), 1) if values else (0.0, 0)
        rows.append(Row(*mean, asked_units=1, scored=len(values), asked=asked) if asked else NOTHING)
    return rows


def _entries(means: Sequence[Scored]) -> dict[str, dict[str, Estimate]]:
    found: dict[str, dict[str, Estimate]] = {base: {} for base in BASES}
    for (base, measure), mean in zip(_KEYS, means, strict=True):
        found[base][measure] = _entry(mean, measure)
    return found


def _entry(mean: Scored, measure: str) -> Estimate:
    """As `Scored.entry`, for values that are no shares and so have no bounds."""

    def told(value: float) -> float:
        return round(math.exp(value) if measure == "sharpness" else value, 9) + 0.0

    known = not math.isnan(mean.value)
    ends = interval(mean.samples) if known else None
    return Estimate(
        value=told(mean.value) if known else None,
        low=told(ends[0]) if ends else None,
        high=told(ends[1]) if ends else None,
        n=mean.scored,
        coverage=mean.scored / mean.asked if mean.asked else None,
        bounds=[None, None],
    )


# For people


def _finding(values: dict[str, Any]) -> Finding:
    each = [(name, history, found) for name, modes in values.items() for history, found in modes.items()]
    return Finding(
        "drift",
        "Drift of images over a dialogue",
        "ours; SSIM of Wang et al. 2004, colourfulness of Hasler and Suesstrunk 2003",
        values,
        (_apart(each), _by_turn(each), _unmeasured(each)),
        tuple(
            Chart(title, "lines", "generation turn", unit, _curves(each, measure))
            for title, unit, measure in (
                ("Distance from the first image, outside", "0-255", "outside_difference"),
                ("Sharpness against the first image", "ratio", "sharpness"),
            )
        ),
        (
            "Outside: outside of what a turn changes, estimated from targets. Whole: of the whole image, so the change "
            "that was asked for counts as well. A model that rightly changes light, style or colours of everything "
            "drifts by these measures; see docs/drift.md.",
            f"Images are made smaller to a longer side of {pixels.WORKING_SIDE} pixels, and an output then gets the "
            "size of the image it is compared with.",
            "Later generation turns are those of long dialogues only. Read self beside gt, where nothing accumulates.",
        ),
    )


def _apart(each: Sequence[tuple[str, str, Any]]) -> Table:
    header = ("Model", "History", "Against", "Outside: difference", "95 %", "SSIM", "Changed, %", "n", "Coverage",
              "Whole: difference", "SSIM", "Changed, %", "n")  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for name, history, found in each:
        for base in BASES:
            outside, whole = ([found[base][f"{where}_{one}"] for one in DISTANCES] for where in ("outside", "whole"))
            rows.append(
                (name, history, base, outside[0]["value"], spread(outside[0], 2), outside[1]["value"],
                 outside[2]["value"], outside[0]["n"], covered(outside[0]), *(one["value"] for one in whole),
                 whole[0]["n"])
            )  # fmt: skip
    return Table("Distance from the image that an output continues, and from the first", header, tuple(rows), digits=3)


def _by_turn(each: Sequence[tuple[str, str, Any]]) -> Table:
    shown = ("outside_difference", "whole_difference", *LOOKS)
    header = ("Model", "History", "Generation turn", "Outside: difference", "Whole: difference", "Sharpness, ratio",
              "Sharpness, 95 %", "Saturation", "Colourfulness", "Luma", "Contrast", "Dialogues")  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for name, history, found in each:
        for point in found["turns"]:
            cells: list[Cell] = [point["first"][measure]["value"] for measure in shown]
            cells.insert(3, spread(point["first"]["sharpness"], 2))
            rows.append((name, history, label(point), *cells, point["dialogues"]))
    return Table("Against the first image of the dialogue, by generation turn", header, tuple(rows))


def _unmeasured(each: Sequence[tuple[str, str, Any]]) -> Table:
    reasons = ("nothing_before", "no_target", "unreadable_target", "nothing_outside", "unreadable")
    keys = ("images", "missing", "unreadable", *(f"continued: {reason}" for reason in reasons))
    header = ("Model", "History", *(key.replace("_", " ") for key in keys))
    rows = [(name, history, *(found["counts"].get(key, 0) for key in keys)) for name, history, found in each]
    return Table("Images, and what was not measured", header, tuple(rows))


def _curves(each: Sequence[tuple[str, str, Any]], measure: str) -> tuple[Series, ...]:
    return tuple(
        series(
            f"{name}, {history}",
            tuple(float(point["turns"][0]) for point in found["turns"]),
            [point["first"][measure] for point in found["turns"]],
        )
        for name, history, found in each
    )
