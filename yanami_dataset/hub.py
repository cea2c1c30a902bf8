"""Sending a folder to the Hub so that nothing is ever published half.

A repository gets either one commit, or, where there is too much for one, commits to a pull request that is merged when
everything is there. The same call again sends only what isn't there yet. The token is the one of the machine (`hf auth
login`, HF_TOKEN); it is passed to huggingface_hub alone, and never written or printed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from yanami_dataset.errors import HubError, SpecError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Kind = Literal["model", "dataset", "space"]
_OURS = (".gitattributes",)  # files of the Hub's own, which stay
_ADVICE = {
    401: "log in with `hf auth login`, or set HF_TOKEN to a token that may write",
    403: "ask for access, or use a token that may write there",
    404: "check the name, and whether the token may see it",
    409: "another change came between: run the same command again",
    412: "another change came between: run the same command again",
    429: "the Hub asks to wait: run the same command again later",
}
_AGAIN = "run the same command again, what is there already isn't sent again"


def repo_id(text: str) -> str:
    """The id of a repository, checked.

    Raises:
        SpecError: not NAMESPACE/NAME in the Hub's letters.

    >>> repo_id("yanami/bench")
    'yanami/bench'
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # it is documented there

    try:
        validate_repo_id(text)
    except HFValidationError as error:
        raise SpecError(f"expected the id of a repository, NAMESPACE/NAME, got {text!r}: {error}") from error
    if text.count("/") != 1:
        raise SpecError(f"expected the id of a repository, NAMESPACE/NAME, got {text!r}")
    return text


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Faults of the Hub and of the way to it as HubError, with what to do.

    Args:
        what: was tried, e.g. "publishing yanami/bench".
    """
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        # huggingface_hub wraps what goes wrong in a thread of an upload
        told = _told(error) or (_told(error.__cause__) if error.__cause__ else None)
        if told is None:
            raise
        raise HubError(f"{what}: {told}") from error


def _told(error: BaseException) -> str | None:
    """What went wrong and what to do; None for what is none of the Hub's faults."""
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    # the base of all errors of whichever HTTP library this huggingface_hub uses
    transport: type[Exception] = HfHubHTTPError.__bases__[0]
    if isinstance(error, LocalTokenNotFoundError):
        return f"expected a token, found none: {_ADVICE[401]}"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code if error.response is not None else 0
        said = " ".join((error.server_message or str(error).splitlines()[0]).split())
        return f"the Hub answered {status or 'with an error'}: {said}; {_ADVICE.get(status, _AGAIN)}"
    if isinstance(error, (transport, ConnectionError, TimeoutError)):
        return f"the Hub couldn't be reached ({type(error).__name__}: {error}); nothing is published half: {_AGAIN}"
    return None


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a folder by their paths in a repository; SpecError where a link leads out of it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise SpecError(f"{path}: expected a file, got a link")
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = path
    return found


def upload(
    folder: Path, repo: str, kind: Kind, *, private: bool = False, batch: int | None = None, **create: Any
) -> str:
    """Make a repository hold exactly what a folder holds.

    Args:
        folder: what is to be there.
        repo: its id; made where there is none.
        kind: of repository.
        private: if it is made.
        batch: files a commit, through a pull request that is merged at the end; None: all in one commit.
        create: more of `HfApi.create_repo`.

    Returns:
        The address of what was committed.

    Raises:
        HubError: see `telling`.
    """
    from huggingface_hub import HfApi

    api, files = HfApi(), files_of(folder)
    with telling(f"publishing {repo}"):
        api.create_repo(repo_id(repo), repo_type=kind, private=private, exist_ok=True, **create)
        if batch is None:
            return _commit(api, repo, kind, files, "main", f"yanami: {len(files)} files", prune=True)
        return _in_batches(api, repo, kind, files, batch)


def _commit(
    api: HfApi, repo: str, kind: Kind, files: Mapping[str, Path], revision: str, message: str, *, prune: bool
) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    there = set(api.list_repo_files(repo, repo_type=kind, revision=revision)) if prune else set()
    operations: list[Any] = [CommitOperationAdd(path, file) for path, file in files.items()]
    operations += [CommitOperationDelete(path) for path in sorted(there - files.keys()) if path not in _OURS]
    return str(
        api.create_commit(repo, operations, commit_message=message, repo_type=kind, revision=revision).commit_url
    )


def _in_batches(api: HfApi, repo: str, kind: Kind, files: Mapping[str, Path], batch: int) -> str:
    """Data first, the card and what isn't data last: with the card the new content becomes readable."""
    title = f"yanami: {len(files)} files, {_digest(files)}"
    request = next(
        (one for one in api.get_repo_discussions(repo, repo_type=kind) if _is_open(one) and one.title == title), None
    ) or api.create_pull_request(repo, title, repo_type=kind)
    revision = f"refs/pr/{request.num}"
    there = {one.path: one for one in api.list_repo_tree(repo, recursive=True, repo_type=kind, revision=revision)}
    missing = [path for path, file in files.items() if not _same(there.get(path), file)]
    missing.sort(key=lambda path: (path.endswith((".md", ".yaml")), path))
    for start in range(0, len(missing), batch):
        part = {path: files[path] for path in missing[start : start + batch]}
        _commit(api, repo, kind, part, revision, f"files {start + 1} to {start + len(part)}", prune=False)
    url = (
        _commit(api, repo, kind, {}, revision, "what isn't in it any more", prune=True) if _stale(there, files) else ""
    )
    _check(api, repo, kind, files, revision)
    if request.status == "draft":
        api.change_discussion_status(repo, request.num, new_status="open", repo_type=kind)
    api.merge_pull_request(repo, request.num, repo_type=kind)
    return url or str(request.url)


def _is_open(request: Any) -> bool:
    return request.is_pull_request and request.status in ("open", "draft")


def _stale(there: Mapping[str, Any], files: Mapping[str, Path]) -> bool:
    return any(hasattr(one, "size") and path not in files and path not in _OURS for path, one in there.items())


def _check(api: HfApi, repo: str, kind: Kind, files: Mapping[str, Path], revision: str) -> None:
    there = {one.path: one for one in api.list_repo_tree(repo, recursive=True, repo_type=kind, revision=revision)}
    if wrong := [path for path, file in files.items() if not _same(there.get(path), file)]:
        raise HubError(
            f"publishing {repo}: expected all {len(files)} files in {revision} before it is merged, "
            f"{len(wrong)} are missing or differ: {', '.join(wrong[:3])}; run the same command again"
        )


def _same(remote: Any, file: Path) -> bool:
    """Whether the Hub has this file, by the hash that it tells: SHA-256 for large files, git's for others."""
    if remote is None or getattr(remote, "size", None) != file.stat().st_size:
        return False
    data = file.read_bytes()
    if remote.lfs is not None:
        return bool(remote.lfs.sha256 == hashlib.sha256(data).hexdigest())
    return bool(remote.blob_id == hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())


def _digest(files: Mapping[str, Path]) -> str:
    """Names what is sent, so that a second call finds the pull request of the first."""
    told = hashlib.sha256()
    for path, file in files.items():
        told.update(f"{path}\0{file.stat().st_size}\0".encode())
        told.update(hashlib.sha256(file.read_bytes()).digest())
    return told.hexdigest()[:16]
