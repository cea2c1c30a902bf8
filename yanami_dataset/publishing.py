"""A data set as it goes up to the Hub: Parquet, a card whose numbers come from the rows, eval.yaml for a bench.

It writes a folder and sends nothing; `hub.upload` does that. Texts of a card that no data can tell are the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yanami_dataset.builder import Summary, card_data, write_dataset
from yanami_dataset.features import features
from yanami_dataset.hub import repo_id
from yanami_dataset.images import inspect, sha256
from yanami_dataset.plain import plain_line
from yanami_dataset.schema import SCENARIOS, Dialogue
from yanami_dataset.stripping import stripped
from yanami_dataset.tasks import TASKS

if TYPE_CHECKING:
    from datasets import Features

COUNTED = ("dialogues", "turns", "images", "questions", "atomic checks", "capability checks")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True)
class Card:
    """What a card says beside what is counted.

    Attributes:
        name: the title.
        repo: NAMESPACE/NAME.
        split: of all rows.
        license: as the Hub abbreviates it.
        texts: `description`, `made`, `title` and `authors` of the paper, `limits` (a list).
        fields: more of `huggingface_hub.DatasetCardData`.
        framework: of eval.yaml; None: no bench, no eval.yaml.
        template: of the text, in Jinja's language.
    """

    name: str
    repo: str
    split: str
    license: str
    texts: Mapping[str, Any]
    template: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    framework: str | None = None


class Counting:
    """Dialogues on their way through: stripped of metadata unless they are `released`, and counted by scenario."""

    def __init__(self, *, released: bool) -> None:
        self._released = released
        self.counts: dict[str, Counter[str]] = {}
        self.stripped = 0

    def through(self, dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
        """The same dialogues, as they are to be written."""
        for given in dialogues:
            one = given if self._released else self._strip(given)
            found = self.counts.setdefault(one.scenario, Counter())
            kinds = Counter(check.kind for check in one.checks)
            numbers = (1, len(one.turns), len(one.images), len(one.questions), kinds["atomic"], kinds["capability"])
            found.update(dict(zip(COUNTED, numbers, strict=True)))
            yield one

    def _strip(self, dialogue: Dialogue) -> Dialogue:
        images = tuple(map(stripped, dialogue.images))
        changed = [i for i, (old, new) in enumerate(zip(dialogue.images, images, strict=True)) if old != new]
        if not changed:
            return dialogue
        self.stripped += len(changed)
        info = list(dialogue.image_info)
        for i in changed:
            facts = inspect(images[i])
            info[i] = replace(info[i], sha256=sha256(images[i]), width=facts.width, height=facts.height)
        return replace(dialogue, images=images, image_info=tuple(info))


def write_release(
    dialogues: Iterable[Dialogue],
    out: Path,
    card: Card,
    *,
    released: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Summary:
    """Write exactly what is to go up into a new folder.

    Args:
        dialogues: in any order.
        out: the folder.
        card: see `Card`.
        released: the images are of a set that is out already, so their bytes, and with them their hashes, must stay;
            else metadata (EXIF with places and cameras, XMP, comments) are taken out of each, without encoding it anew.
        progress: called with 1 after each dialogue.

    Raises:
        SpecError: `out` is there and not empty.
        DataError: a dialogue breaks an invariant, or an image is broken.
    """
    counting = Counting(released=released)
    summary = write_dataset(
        counting.through(dialogues), out, name=card.name, split=card.split, license=card.license, progress=progress
    )
    fields = {
        **card.fields,
        "license": card.license,
        "pretty_name": card.name,
        "size_categories": [_size(summary.total.dialogues)],
    }
    metadata = card_data(fields, card.split, summary.scenarios)
    text = _text(card, counting, released=released)
    (out / "README.md").write_text(f"---\n{metadata.to_yaml()}\n---\n\n{text}", encoding="utf-8")
    if card.framework is not None:
        (out / "eval.yaml").write_text(eval_yaml(card, list(summary.scenarios)), encoding="utf-8")
    return summary


def eval_yaml(card: Card, scenarios: Sequence[str]) -> str:
    """`eval.yaml`: the tasks that models can submit results of, those of the scenarios that there are."""
    import yaml

    tasks = [task for task in TASKS if task.scenario is None or task.scenario in scenarios]
    content = {
        "name": card.name,
        "description": card.texts["description"],
        "evaluation_framework": card.framework,
        "tasks": [{"id": task.id, "config": task.config, "split": card.split} for task in tasks],
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _size(rows: int) -> str:
    return next((name for bound, name in _SIZES if rows < bound), "1M<n<10M")


def _text(card: Card, counting: Counting, *, released: bool) -> str:
    from jinja2 import Environment, StrictUndefined

    # no HTML: the values are escaped for Markdown, each on one line
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
    plain = {
        key: [plain_line(one) for one in v] if isinstance(v, list) else plain_line(v) for key, v in card.texts.items()
    }
    values = {
        **plain,
        "name": plain_line(card.name),
        "license": plain_line(card.license),
        "repo": repo_id(card.repo),
        "split": card.split,
        "scenarios": [name for name in SCENARIOS if name in counting.counts],
        "tasks": card.framework is not None,
        "statistics": statistics(counting.counts),
        "features": columns(features()),
        "metadata": _metadata(counting, released=released),
    }
    return environment.from_string(card.template).render(values) + "\n"


def _metadata(counting: Counting, *, released: bool) -> str:
    if released:
        return "Image files are as they were released, byte by byte, with whatever metadata they hold."
    told = f"it was found in {counting.stripped:,}" if counting.stripped else "none had any"
    return (
        "EXIF (places, cameras, times), XMP and comments were taken out of image files before publishing "
        f"({told}); pixels and colour profiles are untouched."
    )


def statistics(counts: Mapping[str, Mapping[str, int]]) -> str:
    """By scenario and in all, as a Markdown table.

    >>> print(statistics({"fusion": {"dialogues": 2, "turns": 7}}))
    | scenario | dialogues | turns | images | questions | atomic checks | capability checks |
    |---|---:|---:|---:|---:|---:|---:|
    | fusion | 2 | 7 | 0 | 0 | 0 | 0 |
    | all | 2 | 7 | 0 | 0 | 0 | 0 |
    """
    total: Counter[str] = Counter()
    for found in counts.values():
        total.update(found)
    rows = [(name, counts[name]) for name in SCENARIOS if name in counts] + [("all", total)]
    lines = ["| scenario | " + " | ".join(COUNTED) + " |", "|---|" + "---:|" * len(COUNTED)]
    lines += [f"| {name} | " + " | ".join(f"{found.get(key, 0):,}" for key in COUNTED) + " |" for name, found in rows]
    return "\n".join(lines)


def columns(of: Features) -> str:
    """Columns and their types as a Markdown table, from the features."""
    lines = ["| column | type |", "|---|---|"]
    return "\n".join(lines + [f"| `{name}` | `{_type(value)}` |" for name, value in of.items()])


def _type(value: Any) -> str:
    from datasets import ClassLabel, List, Value

    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_type(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, List):
        return f"List({_type(value.feature)})"
    if isinstance(value, ClassLabel):
        return f"ClassLabel({', '.join(value.names)})"
    return str(value.dtype) if isinstance(value, Value) else type(value).__name__
