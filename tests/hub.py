"""A Hub on the loopback interface: repositories in memory, real HTTP, for tests of whatever talks to huggingface.co.

    with Hub() as hub:
        ...  # hub.url for HF_ENDPOINT (before huggingface_hub is imported, so in a subprocess), hub.repos, hub.seen

It speaks as much of the protocol as huggingface_hub 2 and datasets 5 use to create, upload (LFS, no Xet), commit, open
and merge pull requests, list, and read with ranges. What the real Hub checks beyond that (quotas, card schemas, who may
evaluate) it doesn't.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

OWNER = "hf_owner"  # the token of a user who may do everything
OTHER = "hf_other"  # of one who may read what is public


@dataclass(frozen=True)
class Fault:
    """What happens instead of an answer: a status, or the connection is cut after so many bytes (of what comes in, for
    an upload; of what goes out, for a download)."""

    status: int = 500
    cut: int | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A request, and how many bytes of body went out."""

    method: str
    path: str
    authorization: str
    sent: int
    range: str = ""


@dataclass
class Pull:
    """A pull request."""

    number: int
    title: str
    status: str = "draft"


@dataclass
class Repo:
    """Branches and pull requests as names of commits; a commit is a whole tree: path -> (content, whether LFS)."""

    kind: str
    id: str
    private: bool = False
    gated: bool = False
    created: dict[str, Any] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    trees: dict[str, dict[str, tuple[bytes, bool]]] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)  # (ref, summary)
    pulls: list[Pull] = field(default_factory=list)

    def commit(self, ref: str, tree: dict[str, tuple[bytes, bool]], summary: str) -> str:
        oid = sha1(repr((self.id, len(self.trees), sorted((p, sha1(c)) for p, (c, _) in tree.items()))).encode())
        self.trees[oid] = tree
        self.refs[ref] = oid
        self.messages.append((ref, summary))
        return oid

    def tree(self, revision: str) -> tuple[str, dict[str, tuple[bytes, bool]]] | None:
        oid = self.refs.get(revision, revision)
        return (oid, self.trees[oid]) if oid in self.trees else None

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """What a test wants to see."""
        found = self.tree(revision)
        assert found is not None
        return {path: content for path, (content, _) in found[1].items()}


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def git_oid(content: bytes) -> str:
    return sha1(b"blob %d\0" % len(content) + content)


class Hub:
    """The server; `fault` may be set to answer requests otherwise, `latency` is waited before each answer."""

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self.users = {OWNER: "yanami", OTHER: "somebody"}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.seen: list[Seen] = []
        self.fault: Callable[[str, str], Fault | None] = lambda method, path: None
        hub = self

        class Bound(_Handler):
            home = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def repo(self, kind: str, id: str) -> Repo:
        return self.repos[kind, id]

    def add(self, kind: str, id: str, files: dict[str, bytes] | None = None, **options: Any) -> Repo:
        """A repository that is there already."""
        repo = self.repos[kind, id] = Repo(kind, id, **options)
        repo.commit("main", {path: (data, path.endswith(".parquet")) for path, data in (files or {}).items()}, "first")
        return repo


class _Handler(BaseHTTPRequestHandler):
    home: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    # Requests

    def _answer(self) -> None:
        self.parts = urlsplit(self.path)
        self.query = parse_qs(self.parts.query)
        fault = self.home.fault(self.command, self.path)
        self._cut: int | None = None
        length = int(self.headers.get("Content-Length") or 0)
        if fault and fault.cut is not None and length:
            self.rfile.read(min(length, fault.cut))
            self._note(0)
            self.close_connection = True
            self.connection.close()
            return
        self.body = (
            self._chunked() if "chunked" in (self.headers.get("Transfer-Encoding") or "") else self.rfile.read(length)
        )
        time.sleep(self.home.latency)
        if fault and fault.cut is None:
            self._json({"error": "as the test wants it"}, fault.status, fault.headers)
            return
        self._cut = fault.cut if fault else None
        for method, pattern, act in ROUTES:
            match = re.fullmatch(pattern, self.parts.path)
            if match and (method == self.command or (method == "GET" and self.command == "HEAD")):
                act(self, *[unquote(group) if group is not None else None for group in match.groups()])
                return
        self._json({"error": f"no such route: {self.command} {self.path}"}, 404)

    def _chunked(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    # Answers

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _send(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = b"" if self.command == "HEAD" else body
        if self._cut is not None:
            sent = sent[: self._cut]
            self.close_connection = True
        self._note(len(sent))
        self.wfile.write(sent)
        if self._cut is not None:
            self.wfile.flush()
            self.connection.close()

    def _note(self, sent: int) -> None:
        authorization = self.headers.get("Authorization") or ""
        self.home.seen.append(Seen(self.command, self.path, authorization, sent, self.headers.get("Range") or ""))

    def _error(self, status: int, code: str, message: str) -> None:
        self._json({"error": message}, status, {"X-Error-Code": code, "X-Error-Message": message})

    # Who may what

    def _user(self) -> str | None:
        return self.home.users.get((self.headers.get("Authorization") or "").removeprefix("Bearer "))

    def _repo(self, kind: str, id: str, *, write: bool = False, content: bool = False) -> Repo | None:
        """The repository if the user may; else the answer is sent."""
        repo = self.home.repos.get((kind, id))
        user = self._user()
        if self.headers.get("Authorization") and user is None:
            self._json({"error": "Invalid credentials in Authorization header"}, 401)
        elif repo is None or (repo.private and user != "yanami"):
            self._error(401 if user is None else 404, "RepoNotFound", "Repository not found")
        elif repo.gated and content and user != "yanami":
            self._error(401 if user is None else 403, "GatedRepo", f"Access to {id} is restricted")
        elif write and user is None:
            self._json({"error": "Unauthorized"}, 401)
        else:
            return repo
        return None

    def _at(self, kind: str, id: str, revision: str | None) -> tuple[Repo, str, dict[str, tuple[bytes, bool]]] | None:
        repo = self._repo(kind, id, content=True)
        if repo is None:
            return None
        found = repo.tree(revision or "main")
        if found is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repo, *found

    # Routes

    def whoami(self) -> None:
        user = self._user()
        if user is None:
            self._json({"error": "Invalid username or password."}, 401)
        else:
            self._json({"type": "user", "name": user, "orgs": [], "auth": {"accessToken": {"role": "write"}}})

    def create(self) -> None:
        asked = json.loads(self.body)
        user = self._user()
        if user is None:
            self._json({"error": "Unauthorized"}, 401)
            return
        kind, id = asked.get("type", "model"), f"{asked.get('organization') or user}/{asked['name']}"
        if (kind, id) in self.home.repos:
            self._json({"error": "You already created this repo", "url": f"{self.home.url}/{id}"}, 409)
            return
        if (asked.get("organization") or user) != user:
            self._json({"error": "You don't have the rights to create a repo under this namespace"}, 403)
            return
        repo = self.home.repos[kind, id] = Repo(
            kind, id, private=bool(asked.get("private")) or asked.get("visibility") == "private", created=asked
        )
        repo.commit("main", {".gitattributes": (b"*.parquet filter=lfs\n", False)}, "initial commit")
        prefix = "" if kind == "model" else f"{kind}s/"
        self._json({"url": f"{self.home.url}/{prefix}{id}", "name": id})

    def valid_yaml(self) -> None:
        front = re.match(r"---\n(.*?)\n---", json.loads(self.body)["content"], re.DOTALL)
        try:
            yaml.safe_load(front[1] if front else "")
        except yaml.YAMLError as error:
            self._json({"errors": [{"message": str(error)}]}, 400)
        else:
            self._json({})

    def info(self, kind: str, id: str, revision: str | None) -> None:
        found = self._at(kind, id, revision)
        if found:
            repo, oid, tree = found
            value = {"id": id, "modelId": id, "sha": oid, "private": repo.private, "gated": repo.gated and "manual"}
            value |= {"tags": [], "siblings": [{"rfilename": path} for path in sorted(tree)], "disabled": False}
            value["evalResults"] = [result for _, result in results(tree)]
            self._json(value)

    def listing(self, kind: str, id: str, revision: str, path: str | None) -> None:
        found = self._at(kind, id, revision)
        if found:
            _, _, tree = found
            path = (path or "").strip("/")
            below = {name: file for name, file in tree.items() if not path or name.startswith(path + "/")}
            if path and not below:
                self._error(404, "EntryNotFound", f"{path} not found")
            else:
                recursive = self.query.get("recursive", ["false"])[0].lower() == "true"
                self._json(entries(below, path, recursive=recursive))

    def paths_info(self, kind: str, id: str, revision: str) -> None:
        found = self._at(kind, id, revision)
        if found:
            form = "json" in (self.headers.get("Content-Type") or "")
            paths = json.loads(self.body)["paths"] if form else parse_qs(self.body.decode()).get("paths", [])
            paths = [paths] if isinstance(paths, str) else paths
            all_entries = entries(found[2], "", recursive=True)
            self._json([one for one in all_entries if one["path"] in paths])

    def refs(self, kind: str, id: str) -> None:
        if repo := self._repo(kind, id):
            named = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": oid} for n, oid in repo.refs.items()]
            self._json({"branches": [one for one in named if "/" not in one["name"]], "tags": [], "converts": []})

    def commits(self, kind: str, id: str, revision: str) -> None:
        if found := self._at(kind, id, revision):
            told = [m for ref, m in found[0].messages if ref == revision][::-1]
            date = "2026-01-01T00:00:00.000Z"
            self._json([{"id": found[1], "title": m, "message": "", "date": date, "authors": []} for m in told])

    def preupload(self, kind: str, id: str, revision: str) -> None:
        if repo := self._repo(kind, id, write=True):
            tree = (repo.tree(revision) or ("", {}))[1]
            files = []
            for file in json.loads(self.body)["files"]:
                lfs = file["path"].endswith((".parquet", ".zip", ".png")) or file["size"] > 10_000_000
                there = tree.get(file["path"])
                oid = None if there is None else hashlib.sha256(there[0]).hexdigest() if lfs else git_oid(there[0])
                mode = "lfs" if lfs else "regular"
                files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
            self._json({"files": files})

    def lfs_batch(self, prefix: str | None, id: str) -> None:
        if self._repo((prefix or "models/")[:-2], id, write=True):
            objects = []
            for one in json.loads(self.body)["objects"]:
                actions = {"upload": {"href": f"{self.home.url}/lfs/{one['oid']}"}}
                objects.append(one if one["oid"] in self.home.lfs else {**one, "actions": actions})
            self._json({"transfer": "basic", "objects": objects})

    def lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            self._json({"error": "wrong content"}, 400)
        else:
            self.home.lfs[oid] = self.body
            self._send(b"", 200, {})

    def commit(self, kind: str, id: str, revision: str) -> None:
        repo = self._repo(kind, id, write=True)
        if repo is None:
            return
        pull = "create_pr" in self.query
        if not pull and self._user() != "yanami":
            self._json({"error": "you may open a pull request"}, 403)
            return
        found = repo.tree(revision)
        if found is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        tree, summary = dict(found[1]), ""
        for line in self.body.decode().splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "header":
                summary = value["summary"]
                if value.get("parentCommit") not in (None, found[0]):
                    self._json({"error": "A commit has happened since. Please refresh and try again."}, 412)
                    return
            elif item["key"] == "file":
                tree[value["path"]] = (base64.b64decode(value["content"]), False)
            elif item["key"] == "lfsFile":
                tree[value["path"]] = (self.home.lfs[value["oid"]], True)
            else:
                path = value["path"].rstrip("/")
                tree = {p: c for p, c in tree.items() if p != path and not p.startswith(path + "/")}
        url = None
        if pull:
            revision = self._open(repo, summary)
            url = f"{self.home.url}/{'' if kind == 'model' else kind + 's/'}{id}/discussions/{repo.pulls[-1].number}"
        oid = repo.commit(revision, tree, summary)
        told = {"success": True, "commitOid": oid, "commitUrl": f"{self.home.url}/{id}/commit/{oid}"}
        self._json({**told, "pullRequestUrl": url, "hookOutput": ""})

    def _open(self, repo: Repo, title: str) -> str:
        number = len(repo.pulls) + 1
        repo.pulls.append(Pull(number, title))
        repo.refs[f"refs/pr/{number}"] = repo.refs["main"]
        return f"refs/pr/{number}"

    def discussions(self, kind: str, id: str) -> None:
        repo = self._repo(kind, id, write=self.command == "POST")
        if repo and self.command == "POST":
            self._open(repo, json.loads(self.body)["title"])
            self._json({"num": repo.pulls[-1].number})
        elif repo:
            self._json(
                {"discussions": [described(repo, one) for one in repo.pulls], "count": len(repo.pulls), "start": 0}
            )

    def discussion(self, kind: str, id: str, number: str) -> None:
        if repo := self._repo(kind, id):
            self._json(described(repo, repo.pulls[int(number) - 1]))

    def merge(self, kind: str, id: str, number: str) -> None:
        if repo := self._repo(kind, id, write=True):
            repo.pulls[int(number) - 1].status = "merged"
            oid = repo.refs[f"refs/pr/{number}"]
            repo.refs["main"] = oid
            repo.messages.append(("main", f"merge pull request {number}"))
            self._json({"newCommitId": oid, "event": {}})

    def state(self, kind: str, id: str, number: str) -> None:
        if repo := self._repo(kind, id, write=True):
            repo.pulls[int(number) - 1].status = json.loads(self.body)["status"]
            event = {"id": "e", "type": "status-change", "createdAt": "2026-01-01T00:00:00.000Z", "data": {}}
            event["data"] = {"status": repo.pulls[int(number) - 1].status}
            self._json({"newStatus": event | {"author": {"name": "yanami"}}})

    def resolve(self, prefix: str | None, id: str, revision: str, path: str) -> None:
        found = self._at((prefix or "models/")[:-2], id, revision)
        if found is None:
            return
        _, oid, tree = found
        if path not in tree:
            self._error(404, "EntryNotFound", f"{path} not found")
            return
        content, lfs = tree[path]
        etag = f'"{hashlib.sha256(content).hexdigest() if lfs else git_oid(content)}"'
        headers = {
            "ETag": etag,
            "X-Repo-Commit": oid,
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        if lfs:
            headers |= {"X-Linked-Etag": etag, "X-Linked-Size": str(len(content))}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted is None:
            self._send(content, 200, headers)
            return
        start, stop = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
        headers["Content-Range"] = f"bytes {start}-{stop}/{len(content)}"
        self._send(content[start : stop + 1], 206, headers)

    def leaderboard(self, id: str) -> None:
        if self._repo("dataset", id) is None:
            return
        found = []
        for (kind, model), repo in self.home.repos.items():
            if kind == "model" and not repo.private:
                for path, result in results(repo.trees[repo.refs["main"]]):
                    if result["dataset"]["id"] == id and result["dataset"]["task_id"] == self._first_task(id):
                        found.append((result["value"], model, path, result))
        found.sort(key=lambda one: -one[0])
        author = {"type": "user", "name": "somebody", "fullname": "Some Body", "avatarUrl": "", "isPro": False}
        self._json(
            [
                {"rank": n, "modelId": model, "value": value, "filename": path, "verified": False, "author": author}
                | {"source": result.get("source"), "notes": result.get("notes")}
                for n, (value, model, path, result) in enumerate(found, 1)
            ]
        )

    def _first_task(self, id: str) -> str:
        tree = self.home.repos["dataset", id].files()
        return str(yaml.safe_load(tree["eval.yaml"])["tasks"][0]["id"]) if "eval.yaml" in tree else ""


def results(tree: dict[str, tuple[bytes, bool]]) -> list[tuple[str, dict[str, Any]]]:
    """What the Hub reads of `.eval_results/*.yaml`."""
    files = sorted(path for path in tree if re.fullmatch(r"\.eval_results/[^/]+\.yaml", path))
    return [(path, one) for path in files for one in yaml.safe_load(tree[path][0])]


def entries(tree: dict[str, tuple[bytes, bool]], path: str, *, recursive: bool) -> list[dict[str, Any]]:
    """As the listing of a tree has them: files, and the folders above them."""
    found, folders = [], set()
    for name, (content, lfs) in sorted(tree.items()):
        inner = name[len(path) :].strip("/") if path else name
        prefix = f"{path}/" if path else ""
        steps = inner.split("/")
        folders |= {prefix + "/".join(steps[:n]) for n in range(1, len(steps) if recursive else min(2, len(steps)))}
        if recursive or len(steps) == 1:
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": git_oid(content)}
            if lfs:
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            found.append(entry)
    return [{"type": "directory", "path": one, "oid": "0" * 40, "size": 0} for one in sorted(folders)] + found


def described(repo: Repo, pull: Pull) -> dict[str, Any]:
    date = "2026-01-01T00:00:00.000Z"
    told = {"num": pull.number, "title": pull.title, "status": pull.status, "isPullRequest": True, "createdAt": date}
    told |= {
        "author": {"name": "yanami"},
        "repo": {"name": repo.id, "type": repo.kind},
        "events": [],
        "numReactionUsers": 0,
    }
    changes = {"base": "refs/heads/main", "mergeCommitId": None}
    return told | {"changes": changes, "filesWithConflicts": [], "diffUrl": None, "pinned": False, "topReactions": []}


_KIND = r"/api/(model|dataset|space)s/([^/]+/[^/]+)"
ROUTES: list[tuple[str, str, Callable[..., None]]] = [
    ("GET", r"/api/whoami-v2", _Handler.whoami),
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", r"/api/validate-yaml", _Handler.valid_yaml),
    ("GET", r"/api/datasets/([^/]+/[^/]+)/leaderboard", _Handler.leaderboard),
    ("GET", _KIND + r"(?:/revision/([^/]+))?", _Handler.info),
    ("GET", _KIND + r"/tree/([^/]+)(?:/(.*))?", _Handler.listing),
    ("POST", _KIND + r"/paths-info/([^/]+)", _Handler.paths_info),
    ("GET", _KIND + r"/refs", _Handler.refs),
    ("GET", _KIND + r"/commits/([^/]+)", _Handler.commits),
    ("POST", _KIND + r"/preupload/([^/]+)", _Handler.preupload),
    ("POST", _KIND + r"/commit/([^/]+)", _Handler.commit),
    ("GET", _KIND + r"/discussions", _Handler.discussions),
    ("POST", _KIND + r"/discussions", _Handler.discussions),
    ("GET", _KIND + r"/discussions/(\d+)", _Handler.discussion),
    ("POST", _KIND + r"/discussions/(\d+)/merge", _Handler.merge),
    ("POST", _KIND + r"/discussions/(\d+)/status", _Handler.state),
    ("POST", r"/(datasets/|spaces/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("PUT", r"/lfs/([0-9a-f]{64})", _Handler.lfs_put),
    ("GET", r"/(datasets/|spaces/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", _Handler.resolve),
]
