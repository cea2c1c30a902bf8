"""A run folder that somebody uploaded as a zip: scored anew where possible, else shown as it is and labelled so.

Whoever made the zip is taken to mean harm. Nothing is unpacked under a name from the zip: the few files that scores
need (run.json, outputs.jsonl of each track, verdicts.jsonl, a scores file) are read through bounds, checked field by
field, and only what was checked is written to a temporary folder or given back. What run.json says about data opens
nothing but the mini bench and Hub data sets that the caller named: no file of this machine, no address.

That verdicts are what a judge said can't be seen from a zip; the result says so.
"""

from __future__ import annotations

import io
import json
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from yanami_dataset.errors import RunFolderError, YanamiError
from yanami_dataset.schema import DIMENSIONS, SCENARIOS
from yanami_metric.data import Data, reopen
from yanami_metric.formulas import DEFAULT, Weights
from yanami_metric.records import HISTORIES, OUTPUT_STATUSES, STATUSES
from yanami_metric.results import scores_file
from yanami_metric.run_folder import OutputRecord, RunFolder, StoredImage
from yanami_metric.score import HEADLINES, SC_MEANS, ScMean
from yanami_metric.scoring import Scoring, chosen_judges, write_scores
from yanami_metric.shapes import Between, Each, Maybe, Text, parsed, read, shown

RECOMPUTED = "recomputed from the uploaded verdicts; that a judge gave them can't be checked here"
AS_UPLOADED = "as uploaded, not recomputed"

_TRACK = re.compile(rf"outputs/((?:{'|'.join(HISTORIES)})(?:-g[1-9][0-9]{{0,2}})?)/outputs\.jsonl")
_SCORES = re.compile(r"scores(\.[A-Za-z0-9._-]+)?\.json")
_ENTRY = b"PK\x01\x02"  # how each entry of a zip's directory begins


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a zip is read, at most.

    Attributes:
        entries: files and folders in it.
        total: bytes of all that is read, unpacked.
        ratio: unpacked bytes for each byte of the zip, beyond `free` bytes.
        document: bytes of a JSON file.
        line: bytes of a line of a JSON Lines file.
    """

    entries: int = 200_000
    total: int = 2 << 30
    ratio: int = 200
    free: int = 64 << 20
    document: int = 4 << 20
    line: int = 16 << 20


BOUNDS = Bounds()


def rescored(
    path: str | Path,
    *,
    weights: Weights = DEFAULT,
    sc_mean: ScMean = "dialogue",
    judge: str | None = None,
    hubs: Collection[str] = (),
    bounds: Bounds = BOUNDS,
) -> dict[str, Any]:
    """The scores of an uploaded run folder, in the form of scores.json.

    They are computed from its outputs and verdicts if its data is the mini bench or one of `hubs`, and is still what it
    was. Otherwise they are those of its own scores file, field by field as that has them; weights and `sc_mean` then
    change nothing.

    Args:
        path: the zip; the run folder is its top level or one folder in it. Images needn't be in it.
        weights: of DSU, SC and VQ.
        sc_mean: what SC is averaged over.
        judge: the name of the judge of images whose verdicts count; None: the first that was asked.
        hubs: ids of Hub data sets that may be opened; they are downloaded unless in the cache.
        bounds: how much is read.

    Returns:
        What scores.json holds, and `facts`: {"Scores": RECOMPUTED, or AS_UPLOADED and why}.

    Raises:
        RunFolderError: it is no zip, not of a run folder, or beyond the bounds.
        DataError: a file in it isn't what it should be, or there is a verdict about something that wasn't asked.
    """
    with Upload.opened(Path(path), bounds) as upload, tempfile.TemporaryDirectory(prefix="yanami-upload-") as place:
        run = upload.document("run.json", _RUN)
        (Path(place) / "run.json").write_text(json.dumps(run))
        with RunFolder(Path(place)) as folder:
            entry = _chosen(folder, judge)
            data, why = _data(run["settings"]["data"], hubs)
            if data is None:
                scores = _as_uploaded(upload, run["settings"], entry, scores_file(folder, entry))
                return {**scores, "facts": {"Scores": f"{AS_UPLOADED}: {why}"}}
            _unpack(upload, folder)
            scores = write_scores(data, folder, entry, Scoring(weights, sc_mean))
            return {**scores, "facts": {"Scores": RECOMPUTED}}


def _chosen(folder: RunFolder, judge: str | None) -> dict[str, Any]:
    try:
        return chosen_judges(folder, judge)
    except RunFolderError as error:
        raise RunFolderError(str(error).replace(str(folder.path), "the uploaded run")) from None


def _data(settings: Mapping[str, Any], hubs: Collection[str]) -> tuple[Data | None, str]:
    """The data of a run if it may be opened and is what it was; else why not."""
    spec = settings["spec"]
    if spec != "mini" and spec not in hubs:
        return None, f"the data of this run ({shown(spec)}) isn't opened here"
    try:
        return reopen(dict(settings)), ""
    except YanamiError as error:
        return None, str(error)


def _as_uploaded(upload: Upload, settings: Mapping[str, Any], judge: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A scores file, with what run.json says of model, data and judge: one truth, not two."""
    scores: dict[str, Any] = upload.document(name, _SCORES_JSON)
    if not scores["histories"]:
        raise RunFolderError(f"the zip, {name}: expected scores of a history mode, found none")
    for entry in scores["histories"].values():
        _check_intervals(entry, name)
        entry["formula"] = Weights(**entry["weights"]).formula(with_dsu=entry["can_answer"])
    mini = scores["dataset"]["mini"] or settings["data"]["spec"] == "mini"
    return {
        **scores,
        "model": settings["model"],
        "dataset": {**settings["data"], "of": scores["dataset"]["of"], "mini": mini},
        "judge": judge,
        "placement": settings["placement"],
    }


def _check_intervals(entry: Mapping[str, Any], name: str) -> None:
    if "low" in entry and (entry["low"] is None) != (entry["high"] is None):
        raise RunFolderError(f"the zip, {name}: expected both ends of an interval or none, got {dict(entry)}")
    for part in entry.values():
        if isinstance(part, Mapping):
            _check_intervals(part, name)


def _unpack(upload: Upload, folder: RunFolder) -> None:
    """Write outputs and verdicts anew, with nothing in them but what scores are made of."""
    found = [match for name in upload.files if (match := _TRACK.fullmatch(name))]
    if not found:
        raise RunFolderError("the zip: expected outputs/<history>/outputs.jsonl in the run folder, found none")
    for match in found:
        target = folder.path / "outputs" / match[1]
        target.mkdir(parents=True)
        with (target / "outputs.jsonl").open("w") as file:
            for line in upload.records(match[0], _OUTPUT):
                images = tuple(image and StoredImage(**image) for image in line["images"])
                file.write(json.dumps(OutputRecord(**{**line, "images": images}).line()) + "\n")
    with (folder.path / "verdicts.jsonl").open("w") as file:
        for line in upload.records("verdicts.jsonl", _VERDICT):
            file.write(json.dumps(line) + "\n")


# The zip


class Upload:
    """The files of a run folder in a zip, read through bounds; `files` are their names in the folder."""

    def __init__(self, archive: zipfile.ZipFile, size: int, bounds: Bounds) -> None:
        self._archive, self._bounds = archive, bounds
        self._left = min(bounds.total, max(bounds.free, bounds.ratio * size))
        with _readable():
            self.files = _run_folder(_checked(archive.infolist(), bounds))

    @classmethod
    @contextmanager
    def opened(cls, path: Path, bounds: Bounds) -> Iterator[Upload]:
        """A zip, until the block ends.

        Raises:
            RunFolderError: it is none, or not of a run folder.
        """
        with path.open("rb") as file:
            _count_entries(file, bounds.entries)
            with _readable():
                archive = zipfile.ZipFile(file)
            with archive:
                yield cls(archive, path.stat().st_size, bounds)

    def document(self, name: str, shape: Any) -> Any:
        """A JSON file, checked against a shape."""
        if name not in self.files:
            raise RunFolderError(f"the zip: expected {name} in the run folder, found none")
        data = b"".join(self._lines(name, self._bounds.document))
        return read(parsed(data, f"the zip, {name}"), shape, f"the zip, {name}")

    def records(self, name: str, shape: Any) -> Iterator[Any]:
        """The lines of a JSON Lines file, checked against a shape; none if there is no such file.

        A last line without an end was torn by a crash, and is left out as everywhere else.
        """
        if name not in self.files:
            return
        for number, line in enumerate(self._lines(name), 1):
            if line.endswith(b"\n"):
                where = f"the zip, {name}, line {number}"
                yield read(parsed(line, where), shape, where)

    def _lines(self, name: str, most: int | None = None) -> Iterator[bytes]:
        """The lines of a file; every byte is counted when it is there, whatever the zip says about sizes."""
        left, longest = self._left if most is None else min(most, self._left), self._bounds.line
        with _readable(name), self._archive.open(self.files[name]) as raw, io.BufferedReader(raw) as file:  # type: ignore[type-var]
            while line := file.readline(longest + 1):
                left -= len(line)
                self._left -= len(line)
                if left < 0 or len(line) > longest:
                    what = f"lines of at most {longest} bytes" if left >= 0 else "less: it unpacks to too many bytes"
                    raise RunFolderError(f"the zip, {name}: expected {what}")
                yield line


@contextmanager
def _readable(name: str = "") -> Iterator[None]:
    """Whatever the libraries say about a zip that isn't sound, as one error."""
    try:
        yield
    except YanamiError:
        raise
    except (
        *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
        *(NotImplementedError, OSError, OverflowError, RuntimeError, ValueError),
    ) as error:
        where = f"the zip, {name}" if name else "the zip"
        raise RunFolderError(f"{where}: expected a sound zip of a run folder, got: {shown(str(error))}") from None


def _count_entries(file: io.BufferedReader, most: int) -> None:
    """Refuse a directory that is too long before anything is made of it. Counts rather too many than too few."""
    found, before = 0, b""
    while block := file.read(1 << 20):
        found += (before + block).count(_ENTRY)
        before = block[1 - len(_ENTRY) :]
    if found > most:
        raise RunFolderError(f"the zip: expected at most {most} entries, got about {found}")
    file.seek(0)


def _checked(entries: list[zipfile.ZipInfo], bounds: Bounds) -> dict[str, zipfile.ZipInfo]:
    """The files in a zip by name; anything that an honest zip of a run folder doesn't have is refused."""
    if len(entries) > bounds.entries:
        raise RunFolderError(f"the zip: expected at most {bounds.entries} entries, got {len(entries)}")
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name, kind = entry.orig_filename, stat.S_IFMT(entry.external_attr >> 16)
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name[:2] or "\0" in name:
            _refuse(entry, "a path inside the run folder, with / between names")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            _refuse(entry, "files and folders only, no links or devices")
        if entry.flag_bits & 0x2041:  # encrypted, in any of its ways
            _refuse(entry, "files without encryption")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            _refuse(entry, "files that are stored or deflated")
        if name in found:
            _refuse(entry, "each name once")
        found[name] = entry
    return {name: entry for name, entry in found.items() if not name.endswith("/")}


def _refuse(entry: zipfile.ZipInfo, expected: str) -> NoReturn:
    raise RunFolderError(f"the zip, {shown(entry.orig_filename)}: expected {expected}")


def _run_folder(files: Mapping[str, zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The files that scores need, by their names in the run folder: the top level of the zip, or one folder in it."""
    runs = [name.removesuffix("run.json") for name in files if re.fullmatch(r"([^/]+/)?run\.json", name)]
    if "" in runs:
        runs = [""]
    if len(runs) != 1:
        got = ", ".join(map(shown, sorted(runs)[:5])) or "none"
        raise RunFolderError(
            f"the zip: expected one run folder (run.json at the top level or in one folder), got {got}"
        )
    inside = {name.removeprefix(runs[0]): entry for name, entry in files.items() if name.startswith(runs[0])}
    return {name: entry for name, entry in inside.items() if _is_needed(name)}


def _is_needed(name: str) -> bool:
    return name in ("run.json", "verdicts.jsonl") or bool(_TRACK.fullmatch(name) or _SCORES.fullmatch(name))


# What is in the files


_COUNT, _SHARE, _POINTS = Between(0, 1 << 53, whole=True), Between(0, 1), Between(0, 100)
_NUMBER = Between(-(1 << 53), 1 << 53, whole=True)
_NAME = Text(100)  # of a judge: part of a file's name

_MODEL = {
    "spec": Text(),
    "identity": (None, Text()),
    "options": object,
    "caps": {"outputs": [frozenset({"images", "text"})]},
}
_DATA = {
    "spec": Text(),
    "name": Text(),
    "revision": Text(),
    "dialogues": _COUNT,
    "scenarios": [frozenset(SCENARIOS)],
    "limit": (None, _COUNT),
    "shard": (None, [_COUNT, _COUNT]),
    "sample_seed": _NUMBER,
}
_JUDGES = {
    **{role: {"name": _NAME, "fingerprint": object} for role in ("images", "answers")},
    "rules": {
        "context": Maybe(object),
        "checks_per_call": Maybe(object),
        "samples": Between(1, 1000, whole=True),
        "prompts": Maybe(object),
    },
}
_RUN = {
    "settings": {"model": _MODEL, "data": _DATA, "placement": Text()},
    "judges": [_JUDGES],
}
_OUTPUT = {
    "dialogue": Text(),
    "turn": _COUNT,
    "question": (None, Text()),
    "key": Text(),
    "status": frozenset(OUTPUT_STATUSES),
    "images": [(None, {"file": Text(), "sha256": Text(), "width": _COUNT, "height": _COUNT})],
}
_VERDICT = {
    "dialogue": Text(),
    "track": Text(),
    "kind": frozenset({"answer", "checks", "quality"}),
    "sample": _COUNT,
    "output": Text(),
    "judge": _NAME,
    "items": [{"id": Text(), "status": frozenset(STATUSES), "value": (None, Between(0, 10))}],
}
_ESTIMATE = {
    "value": (None, _POINTS),
    "low": (None, _POINTS),
    "high": (None, _POINTS),
    "n": _COUNT,
    "coverage": (None, _SHARE),
    "bounds": [(None, _POINTS), (None, _POINTS)],
}
_SCORED = dict.fromkeys(HEADLINES, _ESTIMATE)
_WEIGHTS = {"dsu": _SHARE, "sc": _SHARE, "vq": _SHARE}
_SPREAD = {name: {"sd": (None, _POINTS)} for name in HEADLINES}
_HISTORY = {
    **_SCORED,
    "dialogues": _COUNT,
    "scenarios": Each(SCENARIOS, {**_SCORED, "dimensions": dict.fromkeys(DIMENSIONS, _ESTIMATE), "dialogues": _COUNT}),
    "statuses": Each(("answer", "checks", "quality"), Each(STATUSES, _COUNT)),
    "without_refusals": {"overall": _ESTIMATE, "vr": _ESTIMATE, "n_refused": _COUNT},
    "weights": _WEIGHTS,
    "sc_mean": frozenset(SC_MEANS),
    "can_answer": bool,
    "can_draw": bool,
    "interval": {"method": Text(200), "level": _SHARE, "resamples": _COUNT, "seed": _NUMBER},
    "observed_images_in_history": Maybe(_COUNT),
    "judge_samples": Maybe(
        {
            "count": _COUNT,
            "checks": (None, _SHARE),
            "answer": (None, _SHARE),
            "quality_sd": (None, Between(0, 10)),
        }
    ),
    "generations": Maybe({"count": _COUNT, **_SPREAD}),
}
_SCORES_JSON = {
    "dataset": {"of": _COUNT, "mini": bool},
    "weights": _WEIGHTS,
    "histories": Each(HISTORIES, _HISTORY),
}
