"""In what runs differ that should agree before their scores are compared: data, judges, prompts, weights. Pure.

It takes mappings in the form of scores.json and knows no files. What is read, all of it may be missing:

    dataset, judge (with its rules), placement, weights, histories   as in scores.json
    drawing_placement, max_images, seed                              as in the settings of run.json
    generations                                                      how many of each item
    images_sent                                                      {codec: calls} in which a judge got images
    served                                                           what servers say about who answered
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yanami_dataset.errors import YanamiError

Scores = Mapping[str, Any]
Named = tuple[str, Scores]

NOT_RECORDED = "not recorded"
_PROMPTLESS = ("pixel", "exact")  # judges that read no prompt, whatever the rules name
_ROLES = {"checks": "images", "quality": "images", "answer": "answers"}


class NotAlikeError(YanamiError, ValueError):
    """Runs were not measured alike, so their scores can't be compared; `differences` has all that differs."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        listed = "\n  ".join(one.text for one in differences if one.stops)
        super().__init__(
            f"expected runs that were measured alike, got runs that differ in:\n  {listed}\n"
            "Judge and score them alike; or compare them all the same with --force (force=True), and the result says so"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that isn't the same in all runs.

    Attributes:
        what: e.g. "judge of images".
        values: (run, what it has there), for each run that it concerns.
        stops: whether it makes the scores incomparable; else it is only to be known.
        detail: more, "" for nothing.
    """

    what: str
    values: tuple[tuple[str, str], ...]
    stops: bool
    detail: str = ""

    @property
    def text(self) -> str:
        """In one line.

        >>> Difference("placement", (("a", "front"), ("b", "interleaved"), ("c", "front")), stops=False).text
        'placement: front (a, c) / interleaved (b)'
        """
        groups: dict[str, list[str]] = defaultdict(list)
        for run, value in self.values:
            groups[value].append(run)
        told = " / ".join(f"{value} ({', '.join(runs)})" for value, runs in groups.items())
        return f"{self.what}: {told}" + (f"; {self.detail}" if self.detail else "")


def differences(runs: Sequence[Named]) -> list[Difference]:
    """In what runs differ, what makes them incomparable first.

    That models differ is why one compares them. So of models only this is told: runs of the same spec with other
    identities, and identities that are missing or nothing but a user's tag.

    Args:
        runs: names, which needn't be unique, and what was measured, as the module says.

    >>> [one.what for one in differences([("a", {"placement": "front"}), ("b", {"placement": "interleaved"})])]
    ['placement of images', 'identity of the model']
    """
    found = []
    for what, read, stops in _ASPECTS:
        values = tuple((name, value) for name, scores in runs if (value := read(scores)) is not None)
        if len({value for _, value in values}) > 1:
            role = what.removeprefix("judge of ")
            found.append(Difference(what, values, stops, _fields(runs, role) if role != what else ""))
    return found + _models(runs)


def digest(fingerprint: Any) -> str:
    """A fingerprint in 12 hex digits, to be compared at a glance.

    >>> digest({"name": "pixel", "version": 1}) == digest({"version": 1, "name": "pixel"})
    True
    """
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:12]


def get(scores: Scores, *path: str) -> Any:
    """What stands at a path of keys, None if nothing does."""
    found: Any = scores
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def listed(values: Any) -> str:
    """A mapping in a line, without what is empty.

    >>> listed({"limit": 8, "shard": None})
    'limit 8'
    """
    pairs = values.items() if isinstance(values, Mapping) else ()
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in pairs if value not in (None, [], {}, ""))


def _text(*path: str) -> Callable[[Scores], str]:
    return lambda scores: str(get(scores, *path) or NOT_RECORDED)


def _plain(*path: str) -> Callable[[Scores], str | None]:
    """As it is; not compared where it is missing, which also means none."""
    return lambda scores: None if get(scores, *path) is None else str(get(scores, *path))


def _judge(role: str) -> Callable[[Scores], str]:
    def read(scores: Scores) -> str:
        name = get(scores, "judge", role, "name") or NOT_RECORDED
        return f"{name} ({digest(get(scores, 'judge', role, 'fingerprint'))})"

    return read


def _fields(runs: Sequence[Named], role: str) -> str:
    """In which fields of their fingerprints judges differ."""
    prints = [get(scores, "judge", role, "fingerprint") or {} for _, scores in runs]
    names = [
        name
        for name in dict.fromkeys(name for one in prints for name in one)
        if len({json.dumps(one.get(name), sort_keys=True) for one in prints}) > 1
    ]
    told = [
        f"{name} {' / '.join(dict.fromkeys(json.dumps(one.get(name), sort_keys=True) for one in prints))}"
        for name in names
    ]
    return f"fingerprints differ in {', '.join(told)}" if told else ""


def _reads_prompt(scores: Scores, role: str) -> bool:
    return get(scores, "judge", role, "name") not in (None, *_PROMPTLESS)


def _prompt(kind: str) -> Callable[[Scores], str | None]:
    def read(scores: Scores) -> str | None:
        if not _reads_prompt(scores, _ROLES[kind]):
            return None
        return str(get(scores, "judge", "rules", "prompts", kind) or NOT_RECORDED)[:12]

    return read


def _rules(scores: Scores) -> str | None:
    """How a judge is asked besides its prompts, where it reads any."""
    rules = get(scores, "judge", "rules") or {}
    asked: dict[str, Any] = {}
    if _reads_prompt(scores, "images"):
        asked |= {"context": rules.get("context"), "checks per call": rules.get("checks_per_call") or "all"}
    if asked or _reads_prompt(scores, "answers"):
        asked["samples"] = rules.get("samples")
    return listed(asked) or None


def _sent(scores: Scores) -> str | None:
    return ", ".join(sorted(get(scores, "images_sent") or ())) or None


def _served(scores: Scores) -> str | None:
    served = get(scores, "served")
    return None if served is None else ", ".join(sorted(served)) or "nothing"


def _weights(scores: Scores) -> str:
    return listed(get(scores, "weights")) or NOT_RECORDED


def _means(scores: Scores) -> str:
    entries = (get(scores, "histories") or {}).values()
    return " and ".join(sorted({f"{entry['sc_mean']}s" for entry in entries})) or NOT_RECORDED


def _selection(scores: Scores) -> str:
    data = get(scores, "dataset") or {}
    chosen = listed({key: data.get(key) for key in ("scenarios", "limit", "shard")})
    seed = f", sample seed {data.get('sample_seed')}" if data.get("limit") is not None else ""
    return f"{data.get('dialogues')} dialogues" + (f", {chosen}{seed}" if chosen else "")


def _max_images(scores: Scores) -> str:
    return str(get(scores, "max_images") or "no limit")


# what, how it is read, whether a difference makes scores incomparable
_ASPECTS: tuple[tuple[str, Callable[[Scores], str | None], bool], ...] = (
    ("data revision", lambda scores: _text("dataset", "revision")(scores)[:12], True),
    ("judge of images", _judge("images"), True),
    ("judge of answers", _judge("answers"), True),
    *((f"prompt of {kind}", _prompt(kind), True) for kind in ("checks", "quality", "answer")),
    ("how judges are asked", _rules, True),
    ("codec of images for the judge", _sent, True),
    ("weights", _weights, True),
    ("SC averaged over", _means, True),
    ("selection", _selection, False),
    ("placement of images", _text("placement"), False),
    ("placement of images when drawing", _plain("drawing_placement"), False),
    ("images before a grid is made", _max_images, False),
    ("base seed", _plain("seed"), False),
    ("generations of each item", _plain("generations"), False),
    ("what the judge's server says", _served, False),
)


def _models(runs: Sequence[Named]) -> list[Difference]:
    """Same spec and another identity; identities that don't say what the weights are."""
    found = []
    by_spec: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, scores in runs:
        by_spec[str(get(scores, "model", "spec"))].append((name, _identity(scores)))
    for spec, identities in by_spec.items():
        if len({identity for _, identity in identities}) > 1:
            found.append(Difference(f"identity of {spec}", tuple(identities), stops=False))
    missing = tuple((name, NOT_RECORDED) for name, scores in runs if not get(scores, "model", "identity"))
    tagged = tuple((name, _identity(scores)) for name, scores in runs if is_tag(scores))
    if missing:
        found.append(Difference("identity of the model", missing, stops=False))
    if tagged:
        found.append(Difference("identity of the model is only a tag of the user's", tagged, stops=False))
    return found


def _identity(scores: Scores) -> str:
    return str(get(scores, "model", "identity") or NOT_RECORDED)


def is_tag(scores: Scores) -> bool:
    """Whether nothing but the user's word says what the weights are; a suffix +… is about options."""
    identity, tag = get(scores, "model", "identity") or "", get(scores, "model", "options", "tag")
    return identity.startswith("tag:") or bool(tag and identity.partition("+")[0] == str(tag))
