"""A scored run as what a tracker takes: numbers under flat names, and a picture. Reads; asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from yanami_dataset.schema import Dialogue, Slot
from yanami_metric.data import Data
from yanami_metric.run_folder import OutputRecord, RunFolder
from yanami_metric.scoring import unscored

if TYPE_CHECKING:
    from PIL.Image import Image

PREFIX = "yanami"
FAILED = f"{PREFIX}/failed"
ROWS = 8
SIDE, STRIP, GAP = 160, 14, 4  # pixels of a cell, of the text over it, between cells
_HEADLINES = ("overall", "vr", "dsu", "sc", "vq")


def curves(scores: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers of a scores.json under flat names.

    Returns:
        For each history h, `yanami/h/vr` with `_low` and `_high` (95 % interval), 0-100; so too sc, vq, dsu, overall;
        `yanami/h/<scenario>/vr`, sc and vq; `yanami/h/coverage` (share of scored items, 0-1) and `yanami/h/unscored`
        (items). None for what is undefined, such as dsu of a model that doesn't answer.
    """
    found: dict[str, float | None] = {}
    for history, entry in scores["histories"].items():
        at = f"{PREFIX}/{history}"
        for name in _HEADLINES:
            found[f"{at}/{name}"] = entry[name]["value"]
            found |= {f"{at}/{name}_{end}": entry[name][end] for end in ("low", "high")}
        for scenario, part in entry["scenarios"].items():
            found |= {f"{at}/{scenario}/{name}": part[name]["value"] for name in ("vr", "sc", "vq")}
        asked = sum(sum(counts.values()) for counts in entry["statuses"].values())
        missing = sum(unscored({"histories": {history: entry}}).values())
        found[f"{at}/coverage"] = 1 - missing / asked if asked else None
        found[f"{at}/unscored"] = float(missing)
    return found


def pictures(data: Data, folder: RunFolder, rows: int = ROWS) -> dict[str, Image]:
    """By `yanami/<history>/images`, target and output of the last slot of the first dialogues that draw."""
    drawing = list(islice((dialogue for dialogue in data if dialogue.slots), rows))
    if not drawing:
        return {}
    return {f"{PREFIX}/{history}/images": _grid(drawing, folder, history) for history in folder.histories}


def _grid(dialogues: list[Dialogue], folder: RunFolder, track: str) -> Image:
    from PIL import Image, ImageDraw

    height = SIDE + STRIP + GAP
    canvas = Image.new("RGB", (2 * (SIDE + GAP) + GAP, height * len(dialogues) + GAP), "white")
    draw = ImageDraw.Draw(canvas)
    for row, dialogue in enumerate(dialogues):
        slot, top = dialogue.slots[-1], GAP + row * height
        record = folder.current(track, dialogue.id).get((slot.turn, None))
        draw.text((GAP, top), f"{dialogue.id}  turn {slot.turn}: target, output", fill="black")
        for column, cell in enumerate((_target(dialogue, slot), _output(record, slot, folder))):
            place = (GAP + column * (SIDE + GAP), top + STRIP)
            if isinstance(cell, bytes):
                canvas.paste(_small(cell), place)
            else:
                draw.rectangle((*place, place[0] + SIDE - 1, place[1] + SIDE - 1), fill="lightgray")
                draw.text((place[0] + 6, place[1] + SIDE // 2), cell, fill="black")
    return canvas


def _small(data: bytes) -> Image:
    from PIL import ImageOps

    from yanami_dataset.images import open_rgb

    return ImageOps.pad(open_rgb(data), (SIDE, SIDE), color="lightgray")


def _target(dialogue: Dialogue, slot: Slot) -> bytes | str:
    if slot.index is None or dialogue.image_info[slot.index].role != "target":
        return "no target"
    return bytes(dialogue.images[slot.index])


def _output(record: OutputRecord | None, slot: Slot, folder: RunFolder) -> bytes | str:
    """The image drawn for a slot, or in words why there is none."""
    if record is None:
        return "not asked"
    image = record.images[slot.ordinal] if slot.ordinal < len(record.images) else None
    return folder.image(image).read() if image is not None else record.slot_status(slot.ordinal)
