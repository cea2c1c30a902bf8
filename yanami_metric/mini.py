"""The mini bench as the metric uses it: every target accepted by the pixel judge, drawn once and kept.

Here, because the generator is data and must not know the judge.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yanami_dataset.builder import Summary
    from yanami_dataset.mini.bench import Tally

DIALOGUES = 100
SIZE = 256  # pixels a side


def cache_folder() -> Path:
    """Where yanami keeps what it made: $YANAMI_CACHE, else ~/.cache/yanami."""
    return Path(os.environ.get("YANAMI_CACHE") or Path.home() / ".cache" / "yanami")


def mini_folder(
    *, dialogues: int = DIALOGUES, turns: int | None = None, size: int = SIZE, seed: int = 0, quiet: bool = False
) -> Path:
    """The folder of a mini bench, from the cache or drawn now (with a progress bar, unless `quiet`).

    Args:
        dialogues: how many.
        turns: turns of each; None: 6 to 8.
        size: side of the images in pixels.
        seed: another seed gives other dialogues.
        quiet: no progress bar.
    """
    from filelock import FileLock

    content = json.dumps([_code(), dialogues, turns, size, seed])
    folder = cache_folder() / "mini" / hashlib.sha256(content.encode()).hexdigest()[:16]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.is_dir():
                draw_mini(folder, dialogues=dialogues, turns=turns, size=size, seed=seed, quiet=quiet)
    return folder


def _code() -> str:
    """A hash over the code that decides what is drawn and accepted, so that a new version draws anew."""
    import yanami_dataset
    import yanami_metric

    folders = [Path(yanami_dataset.__path__[0]) / "mini", Path(yanami_metric.__path__[0]) / "judges" / "pixel"]
    digest = hashlib.sha256()
    for file in sorted(file for folder in folders for file in folder.glob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def draw_mini(
    out: Path, *, dialogues: int, turns: int | None, size: int, seed: int, quiet: bool = False
) -> tuple[Summary, Tally]:
    """Draw a mini bench into a new folder.

    Returns:
        What was written, and how many targets were proposed and rejected because the pixel judge misread them.
    """
    from tqdm import tqdm

    from yanami_dataset.builder import write_dataset
    from yanami_dataset.mini.bench import Tally, generate

    tally = Tally()
    drawn = generate(dialogues=dialogues, turns=turns, size=size, seed=seed, accept=_acceptance(), tally=tally)
    with tqdm(total=dialogues, desc="drawing the mini bench", disable=quiet or None, delay=1, leave=False) as bar:
        summary = write_dataset(drawn, out, name="yanami mini", license="apache-2.0", progress=bar.update)
    return summary, tally


def _acceptance() -> Callable[[bytes, Sequence[str]], bool]:
    """Whether the pixel judge passes all checks of an image and gives it full quality."""
    from yanami_dataset.images import open_rgb
    from yanami_metric.judges.pixel import decide, extract

    def accept(data: bytes, probes: Sequence[str]) -> bool:
        seen = extract(open_rgb(data))
        return seen.quality == 10 and all(decide(seen, json.loads(probe))[0] for probe in probes)

    return accept
