"""Results as the Hub takes them: entries of `.eval_results/*.yaml` in a model's repository, and a section of its card.

Strings and values; `submit` alone talks to the Hub. The Hub's parser checks nothing, so `check` does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from yanami_dataset.errors import SpecError
from yanami_dataset.hub import repo_id, telling
from yanami_dataset.plain import plain_line
from yanami_dataset.tasks import TASKS
from yanami_metric import tables
from yanami_metric.alike import NOT_RECORDED, Scores, digest, get, is_tag

BEGIN, END = "<!-- begin: yanami results -->", "<!-- end: yanami results -->"
FAILURES = 0.01
"""The share of items that may be unscored in a result that is submitted (**ours**)."""
_SAFE = " /:.,@+-()%"
_NOTES = 1000  # characters
_FIELDS = {"dataset", "value", "date", "source", "notes"}


@dataclass(frozen=True)
class Submission:
    """What goes up.

    Attributes:
        entries: of the file, as the Hub's format has them.
        file: its path in the repository of the model.
        section: of the model's card, between BEGIN and END.
        forced: what spoke against it and was overruled.
    """

    entries: list[dict[str, Any]]
    file: str
    section: str
    forced: tuple[str, ...]

    def yaml(self) -> str:
        """The file."""
        import yaml

        return yaml.safe_dump(self.entries, sort_keys=False, allow_unicode=True, width=1000)

    def card(self, readme: str) -> str:
        """A card with the section in it: in place of an older one, else at its end."""
        if BEGIN in readme and END in readme.partition(BEGIN)[2]:
            before, _, rest = readme.partition(BEGIN)
            return before + self.section + rest.partition(END)[2]
        return readme.rstrip("\n") + ("\n\n" if readme.strip() else "") + self.section + "\n"


def prepare(
    scores: Scores,
    *,
    bench: str,
    history: str = "gt",
    date: str,
    revision: str | None = None,
    source: str | None = None,
    failures: float = FAILURES,
    force: bool = False,
) -> Submission:
    """A submission of a scored run.

    Args:
        scores: what scores.json holds.
        bench: the data set on the Hub whose tasks they are.
        history: the history mode; `gt` is the main setting.
        date: of the evaluation, ISO 8601.
        revision: the commit of the data set; None: as the run read it from the Hub.
        source: an address where more is to be found, such as the published run.
        failures: the share of items that may be unscored.
        force: submit all the same what is incomplete or unclear; the notes say so. A mini bench never.

    Raises:
        SpecError: a mini bench; or, without `force`, a run that isn't whole, has too many failures, or lacks what
            says who judged, and which weights.
    """
    if tables.is_mini(scores):
        raise SpecError("a run on the mini bench can't be submitted: it says nothing about YANAMI-Bench")
    if history not in scores["histories"]:
        raise SpecError(f"history: expected one of {', '.join(scores['histories'])}, got {history!r}")
    entry = scores["histories"][history]
    against = tuple(_against(scores, entry, failures))
    if against and not force:
        listed = "\n  ".join(against)
        raise SpecError(
            f"expected a whole run to submit, but:\n  {listed}\nmend that, or use --force, which the notes will say"
        )
    commit = revision or get(scores, "dataset", "commit")
    notes = {
        "history": history,
        "images_judge": judge_name(scores, "images"),
        "answers_judge": judge_name(scores, "answers"),
        "identity": str(get(scores, "model", "identity") or NOT_RECORDED),
        "data": str(get(scores, "dataset", "revision") or NOT_RECORDED)[:12],
        "dialogues": f"{get(scores, 'dataset', 'dialogues')}/{get(scores, 'dataset', 'of')}",
        **({"forced": "; ".join(against)} if against else {}),
    }
    entries = [
        _entry(task.id, value, notes, entry, bench=bench, commit=commit, date=date, source=source)
        for task in TASKS
        if (value := _estimate(entry, task.scenario, task.score)) is not None and value["value"] is not None
    ]
    check(entries)
    name = "yanami" if history == "gt" else f"yanami-{history}"
    return Submission(entries, f".eval_results/{name}.yaml", _section(scores, entry, notes, bench), against)


def _against(scores: Scores, entry: Mapping[str, Any], failures: float) -> list[str]:
    """What speaks against a submission."""
    found = []
    dialogues, whole = get(scores, "dataset", "dialogues"), get(scores, "dataset", "of")
    part = [key for key in ("scenarios", "limit", "shard") if get(scores, "dataset", key)]
    if part or dialogues != whole:
        found.append(f"it is on {dialogues} of {whole} dialogues" + (f" (see --{', --'.join(part)})" if part else ""))
    counts = [sum(kinds.values()) for kinds in entry["statuses"].values()]
    wrong = {"missing_output", "model_refused", "scored"}
    unscored = sum(n for kinds in entry["statuses"].values() for status, n in kinds.items() if status not in wrong)
    if sum(counts) == 0 or unscored / sum(counts) > failures:
        found.append(f"{unscored} of {sum(counts)} items are unscored, more than {100 * failures:g} %")
    for role in ("images", "answers"):
        if not get(scores, "judge", role, "fingerprint"):
            found.append(f"nothing says which judge of {role} it was")
    if not get(scores, "model", "identity"):
        found.append("nothing says which weights it was")
    elif is_tag(scores):
        found.append("only a tag of yours says which weights it was")
    return found


def judge_name(scores: Scores, role: str) -> str:
    """A judge by name and fingerprint, its prompts included."""
    fingerprint = get(scores, "judge", role, "fingerprint")
    name = get(scores, "judge", role, "name") or NOT_RECORDED
    prompts = get(scores, "judge", "rules", "prompts")
    return f"{name} ({digest([fingerprint, prompts])})" if fingerprint else str(name)


def judged_by(images: str, answers: str) -> str:
    """Both judges as one line, by which results are told apart.

    >>> judged_by("a (12)", "b (34)")
    'a (12), answers: b (34)'
    """
    return f"{images}, answers: {answers}"


def _estimate(entry: Mapping[str, Any], scenario: str | None, score: str) -> Mapping[str, Any] | None:
    part = entry if scenario is None else entry["scenarios"].get(scenario)
    return None if part is None else part[score]


def _entry(
    task: str,
    value: Mapping[str, Any],
    notes: Mapping[str, str],
    entry: Mapping[str, Any],
    *,
    bench: str,
    commit: str | None,
    date: str,
    source: str | None,
) -> dict[str, Any]:
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    told = {**notes, "coverage": f"{value['coverage']:.4f}"}
    if value["low"] is not None:
        told |= {"low": f"{value['low']:.2f}", "high": f"{value['high']:.2f}"}
    if task.endswith("overall"):
        told["formula"] = str(entry["formula"])
    [found] = eval_result_entries_to_yaml(
        [
            EvalResultEntry(
                dataset_id=bench,
                task_id=task,
                value=round(float(value["value"]), 2),
                dataset_revision=commit,
                date=date,
                source_url=source,
                source_name="yanami run" if source else None,
                notes=packed(told),
            )
        ]
    )
    return found


def packed(notes: Mapping[str, str]) -> str:
    """Notes as one line that `unpacked` reads again, whatever they say.

    >>> packed({"history": "gt", "judge": "a; b=c"})
    'history=gt; judge=a%3B b%3Dc'
    """
    # a percent sign stays readable but where it would be read as an escape
    line = "; ".join(f"{key}={quote(value, safe=_SAFE.replace('%', ''))}" for key, value in notes.items())
    return line[:_NOTES]


def unpacked(notes: str | None) -> dict[str, str]:
    """The notes of a result by name; empty for one that somebody else wrote.

    >>> unpacked(packed({"history": "gt", "judge": "a; b=c"})), unpacked("no-tools"), unpacked(None)
    ({'history': 'gt', 'judge': 'a; b=c'}, {}, {})
    """
    pairs = [part.partition("=") for part in (notes or "").split("; ")]
    return {key.strip(): unquote(value) for key, sign, value in pairs if sign}


def check(entries: Sequence[Mapping[str, Any]]) -> None:
    """Whether entries are what the Hub's format and this bench's tasks have.

    Raises:
        SpecError: naming the entry, what was expected and what came.
    """
    known = {task.id for task in TASKS}
    if not entries:
        raise SpecError("expected at least one result, got none: nothing was scored")
    for n, entry in enumerate(entries):
        task = get(entry, "dataset", "task_id")
        rules = {
            "the fields " + ", ".join(sorted(_FIELDS)): set(entry) <= _FIELDS,
            "a known task": task in known,
            "each task once": [get(one, "dataset", "task_id") for one in entries].count(task) == 1,
            "a value of 0 to 100": _is_score(entry.get("value")),
            "a commit of 40 hex digits": re.fullmatch(r"[0-9a-f]{40}", get(entry, "dataset", "revision") or "0" * 40),
            "a date, ISO 8601, as text": re.fullmatch(r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?", str(entry.get("date"))),
            "an https address as source": re.fullmatch(
                r"https://[^\s\"'<>]+", get(entry, "source", "url") or "https://none"
            ),
            f"notes in one line of at most {_NOTES} characters": len(notes := str(entry.get("notes", ""))) <= _NOTES
            and notes.isprintable(),
        }
        repo_id(str(get(entry, "dataset", "id")))
        if broken := [rule for rule, holds in rules.items() if not holds]:
            raise SpecError(f"result {n} ({task}): expected {'; '.join(broken)}, got {dict(entry)}")


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 100


def _section(scores: Scores, entry: Mapping[str, Any], notes: Mapping[str, str], bench: str) -> str:
    header = ["", *tables.TITLES.values()]
    parts = [("all", entry), *((name, entry["scenarios"][name]) for name in entry["scenarios"])]
    rows = [[name, *(_cell(part[key]) for key in tables.TITLES)] for name, part in parts]
    images, answers = plain_line(notes["images_judge"]), plain_line(notes["answers_judge"])
    told = [
        f"Multi-turn dialogues of [{bench}](https://huggingface.co/datasets/{bench}), history {notes['history']}; "
        "0-100 with 95 % intervals.",
        f"Judge of images: {images}; of answers: {answers}. Scores of other judges can't be compared with these.",
        f"Overall = {plain_line(entry['formula'])}.",
    ]
    if "forced" in notes:
        told.append(f"**Submitted although: {plain_line(notes['forced'])}.**")
    return "\n\n".join([BEGIN, "## YANAMI", tables.render([header, *rows]), *told, END])


def _cell(estimate: Mapping[str, Any]) -> str:
    ends = tables.spread(estimate)
    return tables.number(estimate["value"]) + (f" ({ends})" if ends else "")


def submit(submission: Submission, model: str, *, create_pr: bool = False) -> str:
    """Write results and card section into a model's repository, in one commit, and return its address.

    Args:
        submission: see `prepare`.
        model: the repository, NAMESPACE/NAME, which has to be there.
        create_pr: open a pull request instead, as one does for models of others.

    Raises:
        HubError: see `yanami_dataset.hub.telling`.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import EntryNotFoundError

    api = HfApi()
    with telling(f"submitting to {repo_id(model)}"):
        try:
            found = api.hf_hub_download(model, "README.md", force_download=True)
            readme = Path(found).read_text(encoding="utf-8")
        except EntryNotFoundError:
            readme = ""
        operations = [
            CommitOperationAdd(submission.file, submission.yaml().encode()),
            CommitOperationAdd("README.md", submission.card(readme).encode()),
        ]
        made = api.create_commit(
            model, operations, commit_message="Results on YANAMI, by yanami submit", create_pr=create_pr
        )
    return str(made.pr_url or made.commit_url)
