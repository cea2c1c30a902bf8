"""Dialogues by name: from the Hub, a folder, or drawn by the package itself.

Rows come from `datasets.load_dataset`, which needs nothing of yanami. `load_bench` adds what that can't: the checked
objects of `schema`, and the mini bench by its name.
"""

from __future__ import annotations

import re
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from yanami_dataset.errors import DataError, SpecError
from yanami_dataset.hub import telling
from yanami_dataset.reader import DialogueFolder

MINI = "mini"
_REPO = re.compile(r"[\w.-]+/[\w.-]+")


class ShadowWarning(UserWarning):
    """A folder of this name lies in the working directory, so nothing of the Hub is read."""


def load_bench(
    path: str | Path = "yanami/bench",
    name: str | None = None,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    **mini: Any,
) -> DialogueFolder:
    """Dialogues as objects, validated as they are read; images are read when they are asked for.

    Args:
        path: a data set on the Hub, a folder, or "mini".
        name: a scenario; None: all.
        revision: a commit, branch or tag of the data set on the Hub.
        token: of the Hub; None: the one of this machine.
        mini: `dialogues`, `turns`, `size` and `seed` of the mini bench.

    Raises:
        HubError: the Hub can't be reached, or has no such data set, or not for this token.
        DataError: no Parquet files there, or none of that scenario.
        SpecError: neither a folder nor the id of a data set; or an argument that doesn't fit.

    >>> bench = load_bench("mini", "fusion", dialogues=4, size=128)
    >>> bench.ids(), len(bench.get("mini-fusion-0000").slots) >= 2
    (('mini-fusion-0000',), True)
    """
    folder = local_folder(path)
    if mini and str(path) != MINI:
        raise SpecError(f"load_bench: expected {', '.join(mini)} with 'mini' only, got {str(path)!r}")
    if folder is not None and revision is not None:
        raise SpecError(f"load_bench: expected a revision of a data set on the Hub only, got {revision!r} of {folder}")
    if str(path) == MINI:
        folder = mini_folder(**mini)
    scenarios = [name] if name is not None else None
    found = DialogueFolder(folder or hub_folder(str(path), revision=revision, token=token), scenarios)
    if not len(found):
        raise DataError(f"expected dialogues of {name} in {path}, found none")
    return found


def local_folder(path: str | Path) -> Path | None:
    """The folder that a path names, None where there is none; warns where it hides a data set on the Hub."""
    if str(path) == MINI or not Path(path).exists():
        return None
    if isinstance(path, str) and _REPO.fullmatch(path):
        warnings.warn(
            f"{path!r} is a folder here, {Path(path).resolve()}, so it is read and not the data set of that name on "
            f"the Hub; write ./{path} if that is meant, or work elsewhere (load_dataset and evaluate.load do the same, "
            "without a word)",
            ShadowWarning,
            stacklevel=3,
        )
    return Path(path)


def mini_folder(**mini: Any) -> Path:
    """The mini bench; which package draws it is said in the installation, as the data know no judge."""
    drawn = list(entry_points(group="yanami.data", name=MINI))
    if not drawn:
        raise SpecError("mini: expected yanami to be installed (`pip install .`), found its files only")
    found: Path = drawn[0].load()(**mini)
    return found


def hub_folder(repo: str, *, revision: str | None = None, token: str | bool | None = None) -> Path:
    """A data set of the Hub in the local cache, downloaded as far as it isn't there.

    Raises:
        HubError: see `hub.telling`.
        SpecError: not the id of a data set.
    """
    from huggingface_hub import snapshot_download

    if not _REPO.fullmatch(repo):
        raise SpecError(
            f"data: expected 'mini', an existing folder or the Hub id of a dataset (NAME/NAME), got {repo!r}"
        )
    with telling(f"reading {repo}"):
        patterns = ["*.parquet", "README.md"]
        return Path(
            snapshot_download(repo, repo_type="dataset", revision=revision, token=token, allow_patterns=patterns)
        )
