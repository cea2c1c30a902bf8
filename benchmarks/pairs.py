"""Intact and minimally broken scenes with the probe that tells them apart, and how a judge does on their images.

Used by `pixel_judge.py` beside it and by `tests/test_pixel_pairs.py`. Most scenes have overlaps.
"""

from __future__ import annotations

import io
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from yanami_dataset.errors import DataError
from yanami_dataset.images import open_rgb
from yanami_dataset.mini import probes
from yanami_dataset.mini.breaking import break_scene
from yanami_dataset.mini.palette import CELLS, COLOURS, SHAPES
from yanami_dataset.mini.render import render
from yanami_dataset.mini.scene import Scene, pairs, random_scene
from yanami_metric.judges.pixel import Picture, decide, extract

Probe = Mapping[str, Any]

SIZES = (128, 256, 512, 1024)
CODECS = ("png", "jpeg", "png+noise", "jpeg+noise")  # JPEG of quality 75, Gaussian noise of 4/255
PREDICATES = ("present", "absent", "cell", "empty", "relation", "size", "in_front", "count", "background")


@dataclass(frozen=True)
class Group:
    """A scene and, for each predicate that can be said there, a true probe and a scene of which it is false."""

    seed: int
    scene: Scene
    broken: dict[str, tuple[Probe, Scene]]
    unbreakable: int


def make_group(seed: int) -> Group:
    """Draw a scene and one pair for every predicate."""
    rng = Random(seed)
    count = rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 5, 6])
    scene = random_scene(rng, count, overlaps=min(count // 2, rng.choice([0, 1, 1, 1, 2])))
    broken: dict[str, tuple[Probe, Scene]] = {}
    unbreakable = 0
    for predicate in PREDICATES:
        probe = true_probe(scene, predicate, rng)
        if probe is None:
            continue
        try:
            broken[predicate] = probe, break_scene(scene, probe, rng)
        except DataError:
            unbreakable += 1
    return Group(seed, scene, broken, unbreakable)


def true_probe(scene: Scene, predicate: str, rng: Random) -> Probe | None:
    """A random probe of that predicate that is true of the scene, None if there is none."""
    candidates = [probe for probe in _candidates(scene, predicate, rng) if probes.holds(scene, probe)]
    return rng.choice(candidates) if candidates else None


def _candidates(scene: Scene, predicate: str, rng: Random) -> Iterator[Probe]:
    item, colour, shape = rng.choice(scene.items), rng.choice(list(COLOURS)), rng.choice(SHAPES)
    match predicate:
        case "present":
            yield probes.present(item)
        case "absent":
            yield probes.absent(item, colour=colour)
            yield probes.absent(item, shape=shape)
            yield probes.absent(item, colour=item.colour, shape=shape)
            yield probes.absent(item, colour=colour, shape=item.shape)
        case "cell":
            yield probes.cell(item)
        case "empty":
            yield from (probes.empty(place, item) for place in CELLS)
        case "relation":
            for other in scene.items:
                yield from (probes.relation(item, other, word) for word in probes.relations(item, other))
        case "size":
            yield probes.size(item)
        case "in_front":
            yield from (probes.in_front(front, back) for front, back in pairs(scene))
        case "count":
            for wanted in ({}, {"colour": item.colour}, {"shape": item.shape}):
                yield probes.count(sum(probes.matches(other, wanted) for other in scene.items), **wanted)
        case "background":
            yield probes.background(scene.background, item)


def encoded(scene: Scene, size: int, codec: str, seed: int) -> bytes:
    """The image of a scene as a file, with what the codec of CODECS does to it."""
    image = render(scene, size)
    if codec.endswith("noise"):
        noise = 4 * np.random.default_rng(seed).standard_normal((size, size, 3), dtype=np.float32)
        image = Image.fromarray(np.clip(np.rint(np.asarray(image) + noise), 0, 255).astype(np.uint8))
    buffer = io.BytesIO()
    if codec.startswith("jpeg"):
        image.save(buffer, "JPEG", quality=75)
    else:
        image.save(buffer, "PNG", compress_level=0)  # quick; the pixels are the same at every level
    return buffer.getvalue()


@dataclass
class Tally:
    """How often the judge was right, by (predicate, size, codec): [pairs, intact ones passed, broken ones failed]."""

    cells: dict[tuple[str, int, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    images: int = 0
    misread: int = 0  # scenes of which the judge failed a true probe: the mini bench would draw them again
    groups: int = 0
    unbreakable: int = 0
    seconds: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)

    def add(self, group: Group, size: int, codec: str) -> None:
        """Show the judge the images of a group, the intact one once."""
        intact = self._see(group.scene, size, codec, group.seed)
        passed = {predicate: decide(intact, probe) for predicate, (probe, _) in group.broken.items()}
        for n, (predicate, (probe, scene)) in enumerate(group.broken.items(), 1):
            held, reason = decide(self._see(scene, size, codec, group.seed + 1000 * n), probe)
            cell = self.cells[predicate, size, codec]
            for i, right in enumerate((True, passed[predicate][0], not held)):
                cell[i] += right
            if not passed[predicate][0]:
                self.errors.append(f"{group.seed} {size} {codec} intact {probe}: {passed[predicate][1]}")
            if held:
                self.errors.append(f"{group.seed} {size} {codec} broken {probe}: {reason}")
        self.groups += 1
        self.unbreakable += group.unbreakable
        self.misread += not all(held for held, _ in passed.values())

    def _see(self, scene: Scene, size: int, codec: str, seed: int) -> Picture:
        data = encoded(scene, size, codec, seed)
        start = time.process_time()
        picture = extract(open_rgb(data))
        self.seconds[size].append(time.process_time() - start)
        self.images += 1
        return picture

    def agreement(self, **where: str | int) -> tuple[int, float, float]:
        """Pairs, share of intact ones passed and of broken ones failed; `where` may name predicate, size and codec."""
        wanted = (where.get("predicate"), where.get("size"), where.get("codec"))
        rows = [row for key, row in self.cells.items() if all(w in (None, k) for w, k in zip(wanted, key, strict=True))]
        total, passed, failed = (sum(row[i] for row in rows) for i in range(3))
        return total, passed / max(total, 1), failed / max(total, 1)

    def lines(self) -> Iterator[str]:
        """A table by predicate, then size and codec, and what images cost."""
        yield f"{'':24}{'pairs':>7}{'intact passed':>15}{'broken failed':>15}"
        for predicate in PREDICATES:
            yield _line(predicate, self.agreement(predicate=predicate))
        for size in SIZES:
            for codec in CODECS:
                yield _line(f"{size} {codec}", self.agreement(size=size, codec=codec))
        yield _line("all", self.agreement())
        yield f"scenes of which a true probe failed (to be drawn again): {self.misread} of {self.groups}"
        yield f"probes for which no broken scene was found: {self.unbreakable}"
        for size, seconds in sorted(self.seconds.items()):
            yield f"{size:5} px: {1000 * float(np.median(seconds)):.1f} ms an image (median), decoding included"


def _line(name: str, figures: tuple[int, float, float]) -> str:
    total, passed, failed = figures
    return f"{name:24}{total:7}{passed:15.2%}{failed:15.2%}" if total else f"{name:24}{total:7}"


def run(seeds: Iterable[int], sizes: tuple[int, ...] = SIZES) -> Tally:
    """Judge one group for each seed, going through sizes and codecs in turn."""
    tally = Tally()
    for n, seed in enumerate(seeds):
        tally.add(make_group(seed), sizes[n % len(sizes)], CODECS[n // len(sizes) % len(CODECS)])
    return tally
