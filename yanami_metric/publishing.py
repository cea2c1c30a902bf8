"""What goes up to the Hub beside data sets: a finished run, the Spaces of metric and leaderboard.

It writes folders and sends nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yanami_dataset
import yanami_metric
from yanami_dataset.errors import ImageError, RunFolderError, SpecError
from yanami_dataset.hub import repo_id
from yanami_dataset.images import inspect, sha256
from yanami_dataset.plain import plain_line
from yanami_dataset.publishing import Card
from yanami_dataset.stripping import stripped
from yanami_metric import tables
from yanami_metric.run_folder import RunFolder

_COPIED = ("verdicts.jsonl", "prompts/*", "scores*.json", "report*.md")
_SKIPPED = {"__pycache__"}


def scripts() -> Path:
    """The folder `loading_scripts`: inside the package in a wheel, beside it in a checkout."""
    package = Path(yanami_metric.__path__[0])
    return next(home for home in (package / "loading_scripts", package.parent / "loading_scripts") if home.is_dir())


def data_card(kind: str, repo: str, *, name: str | None, license: str, mini: bool) -> Card:
    """The card of `bench` or `yanami-400k`, of loading_scripts/<kind>/card.yaml.

    A mini bench has no eval.yaml, so no result of it can be submitted, and says what it is.
    """
    import yaml

    texts = yaml.safe_load((scripts() / kind / "card.yaml").read_text(encoding="utf-8"))
    split, fields = texts.pop("split"), texts.pop("fields")
    framework = texts.pop("evaluation_framework", None)
    texts |= _paper()
    if mini:
        texts["description"] = f"{tables.SMOKE} {texts['description']}"
        texts["made"] = "Drawn by the package yanami itself: scenes of coloured shapes whose state is known exactly."
        framework = None
    template = (scripts() / "dataset_card.md.j2").read_text(encoding="utf-8")
    title = name or ("yanami mini bench" if mini else {"bench": "YANAMI-Bench", "yanami-400k": "YANAMI-400K"}[kind])
    return Card(title, repo_id(repo), split, license, texts, template, fields, framework)


def _paper() -> dict[str, str]:
    return {
        "title": "YANAMI: A Large-Scale Multimodal Dataset and Benchmark for Multiturn Stateful Interaction",
        "authors": "Wang, Shengyu and Nong, Tengyue and Liu, Junming and Peng, Haosong and Li, Siyu and Lei, Ruiqi and "
        "Huo, Fushuo and Pan, Yuhao and Fan, Yunfeng and Wang, Ding and Cheng, Nan and Wang, Haozhao and Xu, Wenchao",
    }


# A run


def run_release(path: Path, out: Path, repo: str, *, license: str, data_repo: str | None = None) -> None:
    """Write a scored run as a data set: its outputs, verdicts and scores, so that others can judge it again.

    Metadata are taken out of images, and local paths out of run.json. What is left resumes as any run folder does.

    Args:
        path: the run folder.
        out: a new folder.
        repo: where it is to go, for the card.
        license: of the outputs, as the Hub abbreviates it.
        data_repo: the id of the dialogues on the Hub; None: as the run knows them, if that isn't a local folder.

    Raises:
        RunFolderError: not scored, or an output names a file that isn't there.
        SpecError: `out` is there and not empty.
    """
    if out.exists() and any(out.iterdir()):
        raise SpecError(f"expected a new folder to write to, got {out}, which isn't empty: choose another or delete it")
    if not (path / "scores.json").is_file():
        raise RunFolderError(f"{path}: expected a finished run, found no scores.json: run `yanami score` first")
    out.mkdir(parents=True, exist_ok=True)
    with RunFolder(path) as folder:
        cleaned = _outputs(folder, out)
        meta = _public(json.loads((path / "run.json").read_text(encoding="utf-8")))
        if data_repo is not None:
            meta["settings"]["data"]["spec"] = repo_id(data_repo)
        _write_json(out / "run.json", meta)
    for pattern in _COPIED:
        for file in sorted(path.glob(pattern)):
            (out / file.relative_to(path)).parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".json":
                _write_json(out / file.relative_to(path), _public(json.loads(file.read_text(encoding="utf-8"))))
            else:
                shutil.copyfile(file, out / file.relative_to(path))
    scores = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    spec = meta["settings"]["data"]["spec"]
    (out / "README.md").write_text(_run_card(scores, repo, license, spec, cleaned), encoding="utf-8")


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _public(value: Any, key: str = "") -> Any:
    """The same without local paths: of a path only its last part is told, of the path of the data nothing."""
    if isinstance(value, Mapping):
        return {name: _public(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_public(inner, key) for inner in value]
    if isinstance(value, str):
        scheme, path = (re.match(r"([a-z]+:)?(.*)", value, re.DOTALL) or ["", "", value]).group(1, 2)  # type: ignore[union-attr]
        if path.startswith(("/", "~", "./", "../")) and "\n" not in path:
            return "" if key == "spec" and not scheme else f"{scheme or ''}{Path(path).name}"
    return value


def _outputs(folder: RunFolder, out: Path) -> int:
    """Copy outputs and their images, without metadata; return how many images had some."""
    cleaned = 0
    for history in folder.histories:
        for track in folder.tracks(history):
            place = out / "outputs" / track
            (place / "images").mkdir(parents=True)
            with (place / "outputs.jsonl").open("w", encoding="utf-8") as file:
                for line in _lines(folder.path / "outputs" / track / "outputs.jsonl"):
                    for image in filter(None, (*line["images"], *line["extras"])):
                        cleaned += _take(folder.path, image, out)
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return cleaned


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are whole: a torn last one is of a killed run."""
    with path.open("rb") as file:
        yield from (json.loads(line) for line in file if line.endswith(b"\n"))


def _take(root: Path, image: dict[str, Any], out: Path) -> bool:
    """Copy an image of a record, which is changed where the image is; whether it is."""
    source = (root / image["file"]).resolve()
    if not source.is_relative_to(root.resolve()) or not source.is_file():
        raise RunFolderError(f"{root}: expected the image {image['file']!r} in the run folder, found none")
    data = source.read_bytes()
    try:
        clean = stripped(data)
    except ImageError as error:
        raise RunFolderError(f"{source}: {error}") from error
    if clean != data:
        facts = inspect(clean)
        image |= {"sha256": sha256(clean), "width": facts.width, "height": facts.height}
    (out / image["file"]).write_bytes(clean)
    return bool(clean != data)


def _run_card(scores: Mapping[str, Any], repo: str, license: str, data: str, cleaned: int) -> str:
    from huggingface_hub import DatasetCardData

    configs = [
        {"config_name": "outputs", "data_files": "outputs/*/outputs.jsonl", "default": True},
        {"config_name": "verdicts", "data_files": "verdicts.jsonl"},
    ]
    title = f"{tables.model_name(scores)} in yanami dialogues"
    card = DatasetCardData(license=license, pretty_name=title, tags=["yanami", "yanami-run"], configs=configs)
    told = f"they were found in {cleaned:,} images" if cleaned else "no image had any"
    # its headings one level deeper, without the first, which is the model's name
    text = tables.markdown(scores).split("\n", 1)[1].strip().replace("\n## ", "\n### ")
    values = {
        "title": plain_line(title),
        "mini": tables.is_mini(scores),
        "smoke": tables.SMOKE,
        "repo": repo,
        "data": data,
        "scores": text,
        "metadata": f"EXIF, XMP and comments were taken out of the images before publishing ({told}).",
    }
    return f"---\n{card.to_yaml()}\n---\n\n{_rendered('run_card.md.j2', values)}"


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined

    # no HTML: the values are escaped for Markdown
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
    text = (scripts() / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(values) + "\n"


# Spaces


def space_release(kind: str, out: Path, *, gradio: str, bench: str = "yanami/bench") -> None:
    """Write a Space: its app, requirements and card, and the packages themselves, which are on no index yet.

    Args:
        kind: `metric` or `space` (the leaderboard).
        out: a new folder.
        gradio: the version that the Hub is to run it with.
        bench: the data set that the leaderboard is about.
    """
    import yaml

    if out.exists() and any(out.iterdir()):
        raise SpecError(f"expected a new folder to write to, got {out}, which isn't empty: choose another or delete it")
    source = {"metric": "yanami", "space": "leaderboard"}[kind]
    shutil.copytree(scripts() / source, out, dirs_exist_ok=True, ignore=_ignored)
    for package in (yanami_dataset, yanami_metric):
        shutil.copytree(package.__path__[0], out / package.__name__, ignore=_ignored)
    for folder in ("loading_scripts", "model_cards"):
        home = scripts().parent / folder
        if not (out / "yanami_metric" / folder).exists() and home.is_dir():
            shutil.copytree(home, out / "yanami_metric" / folder, ignore=_ignored)
    titles = {"metric": "YANAMI", "space": "YANAMI leaderboard"}
    front = {"title": titles[kind], "sdk": "gradio", "sdk_version": gradio, "app_file": "app.py", "pinned": False}
    front |= {"tags": ["evaluate", "metric"] if kind == "metric" else ["leaderboard"], "license": "apache-2.0"}
    body = {"metric": _METRIC, "space": _BOARD.format(bench=repo_id(bench))}[kind]
    (out / "README.md").write_text(f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}", encoding="utf-8")
    if kind == "space":
        (out / "bench.txt").write_text(f"{bench}\n", encoding="utf-8")


def _ignored(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name in _SKIPPED or name.endswith((".pyc", ".egg-info"))}


_METRIC = """# YANAMI

Scores of models that hold a conversation in words and pictures: DSU (dialogue-state understanding), SC (state
consistency), VQ (visual quality), each 0-100. With the package `yanami` installed:

```python
import evaluate

yanami = evaluate.load("yanami/yanami", data="yanami/bench")
scores = yanami.compute(predictions=predictions, references=[one["id"] for one in predictions])
```

The app scores a run folder that you upload. The packages `yanami_dataset` and `yanami_metric` lie beside it.
"""

_BOARD = """# YANAMI leaderboard

Results that were submitted for [{bench}](https://huggingface.co/datasets/{bench}) with `yanami submit`: one
judge at a time, models with and without answers in text apart, ranks with intervals. bench.txt, or
the variable YANAMI_LEADERBOARD_REPO, says which bench.
"""
