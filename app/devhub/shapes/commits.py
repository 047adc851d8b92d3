"""Commits, trees, refs, changed files, contents."""

from __future__ import annotations

import base64
from urllib.parse import quote

from app.devhub.git import GitRepository
from app.devhub.gitobjects import Commit, Entry, FileDiff, Person, Ref, Tag
from app.devhub.hub import Hub
from app.devhub.records import Repository, SignedCommit, User
from app.devhub.shapes.accounts import Json, user
from sandbox.text import sound

UNSIGNED: Json = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


def encoded(path: str) -> str:
    """A path inside a URL; slashes stay."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def object_node(kind: str, sha: str) -> str:
    return base64.b64encode(f"{kind}:{sha}".encode()).decode()


def _url(hub: Hub, repository: Repository, rest: str) -> str:
    return hub.api(f"/repos/{hub.full_name(repository)}{rest}")


def person(found: Person) -> Json:
    return {"name": sound(found.name), "email": sound(found.email), "date": found.date}


def verification(hub: Hub, repository: Repository, sha: str) -> Json:
    """Verified only where the hub itself made the commit for an App; it has no key, so the signature is a marker."""
    signed = hub.store.first(SignedCommit, repository_id=repository.id, sha=sha)
    if signed is None:
        return dict(UNSIGNED)
    return {"verified": True, "reason": "valid", "signature": "devhub", "payload": sha, "verified_at": signed.at}


def git_commit(hub: Hub, repository: Repository, found: Commit) -> Json:
    """A commit as the Git database API shows it."""
    html = hub.web(f"/{hub.full_name(repository)}/commit/")
    return {
        "sha": found.sha,
        "node_id": object_node("Commit", found.sha),
        "url": _url(hub, repository, f"/git/commits/{found.sha}"),
        "html_url": html + found.sha,
        "author": person(found.author),
        "committer": person(found.committer),
        "tree": {"sha": found.tree, "url": _url(hub, repository, f"/git/trees/{found.tree}")},
        "message": sound(found.message).rstrip("\n"),
        "parents": [
            {"sha": sha, "url": _url(hub, repository, f"/git/commits/{sha}"), "html_url": html + sha}
            for sha in found.parents
        ],
        "verification": verification(hub, repository, found.sha),
    }


def commit(hub: Hub, repository: Repository, found: Commit) -> Json:
    """A commit as the repository shows it, with the accounts behind the mail addresses."""
    inner = git_commit(hub, repository, found)
    html = hub.web(f"/{hub.full_name(repository)}/commit/")
    return {
        "sha": found.sha,
        "node_id": inner["node_id"],
        "commit": {
            **{name: inner[name] for name in ("author", "committer", "message", "tree", "url", "verification")},
            "comment_count": 0,
        },
        "url": _url(hub, repository, f"/commits/{found.sha}"),
        "html_url": html + found.sha,
        "comments_url": _url(hub, repository, f"/commits/{found.sha}/comments"),
        "author": _account(hub, found.author),
        "committer": _account(hub, found.committer),
        "parents": [
            {"sha": sha, "url": _url(hub, repository, f"/commits/{sha}"), "html_url": html + sha}
            for sha in found.parents
        ],
    }


def full_commit(hub: Hub, repository: Repository, found: Commit, files: list[FileDiff]) -> Json:
    added, deleted = sum(file.additions for file in files), sum(file.deletions for file in files)
    return {
        **commit(hub, repository, found),
        "stats": {"additions": added, "deletions": deleted, "total": added + deleted},
        "files": [changed_file(hub, repository, found.sha, file) for file in files],
    }


def noreply(account: User) -> str:
    return f"{account.id}+{account.login}@users.noreply.devhub.localhost"


def _account(hub: Hub, found: Person) -> Json | None:
    for account in hub.store.find(User):
        if found.email and found.email in (account.email, noreply(account)):
            return user(hub, account)
    return None


def changed_file(hub: Hub, repository: Repository, head: str, file: FileDiff) -> Json:
    path = encoded(file.path)
    html = hub.web(f"/{hub.full_name(repository)}")
    shape: Json = {
        "sha": file.sha,
        "filename": sound(file.path),
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": f"{html}/blob/{head}/{path}",
        "raw_url": f"{html}/raw/{head}/{path}",
        "contents_url": _url(hub, repository, f"/contents/{path}?ref={head}"),
    }
    if file.patch is not None:
        shape["patch"] = file.patch
    if file.previous is not None:
        shape["previous_filename"] = sound(file.previous)
    return shape


def ref(hub: Hub, repository: Repository, found: Ref) -> Json:
    kind = {"commit": "commits", "tag": "tags", "tree": "trees", "blob": "blobs"}[found.type]
    return {
        "ref": sound(found.name),
        "node_id": object_node("Ref", sound(found.name)),
        "url": _url(hub, repository, f"/git/{encoded(found.name)}"),
        "object": {
            "sha": found.sha,
            "type": found.type,
            "url": _url(hub, repository, f"/git/{kind}/{found.sha}"),
        },
    }


def tree(hub: Hub, repository: Repository, sha: str, entries: list[Entry], *, truncated: bool = False) -> Json:
    return {
        "sha": sha,
        "url": _url(hub, repository, f"/git/trees/{sha}"),
        "tree": [_entry(hub, repository, entry) for entry in entries],
        "truncated": truncated,
    }


def _entry(hub: Hub, repository: Repository, entry: Entry) -> Json:
    shape: Json = {"path": sound(entry.path), "mode": entry.mode, "type": entry.type, "sha": entry.sha}
    if entry.size is not None:
        shape["size"] = entry.size
    if entry.type != "commit":
        shape["url"] = _url(hub, repository, f"/git/{entry.type}s/{entry.sha}")
    return shape


def tag(hub: Hub, repository: Repository, found: Tag) -> Json:
    return {
        "node_id": object_node("Tag", found.sha),
        "tag": found.name,
        "sha": found.sha,
        "url": _url(hub, repository, f"/git/tags/{found.sha}"),
        "message": sound(found.message),
        "tagger": person(found.tagger),
        "object": {
            "sha": found.object,
            "type": found.type,
            "url": _url(hub, repository, f"/git/{found.type}s/{found.object}"),
        },
        "verification": dict(UNSIGNED),
    }


def blob(hub: Hub, repository: Repository, sha: str, content: bytes) -> Json:
    return {
        "sha": sha,
        "node_id": object_node("Blob", sha),
        "size": len(content),
        "url": _url(hub, repository, f"/git/blobs/{sha}"),
        "content": lines_of_base64(content),
        "encoding": "base64",
    }


def lines_of_base64(content: bytes) -> str:
    """Base64 in lines of 60, each ended by a newline, as GitHub sends it."""
    raw = base64.b64encode(content).decode()
    return "".join(raw[at : at + 60] + "\n" for at in range(0, len(raw), 60))


def content(hub: Hub, repository: Repository, git: GitRepository, entry: Entry, revision: str, *, listed: bool) -> Json:
    """A file, folder, link or submodule of the contents API; ``listed``: as an item of a folder, without its bytes."""
    kind = {"120000": "symlink", "160000": "submodule"}.get(entry.mode, "dir" if entry.type == "tree" else "file")
    path = encoded(entry.path)
    url = _url(hub, repository, f"/contents/{path}?ref={encoded(revision)}")
    html = hub.web(f"/{hub.full_name(repository)}/{'tree' if kind == 'dir' else 'blob'}/{encoded(revision)}/{path}")
    git_url = _url(hub, repository, f"/git/{'trees' if kind == 'dir' else 'blobs'}/{entry.sha}")
    raw = hub.web(f"/{hub.full_name(repository)}/raw/{encoded(revision)}/{path}")
    shape: Json = {
        "name": sound(entry.path.rsplit("/", 1)[-1]),
        "path": sound(entry.path),
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": url,
        "html_url": html,
        "git_url": git_url,
        "download_url": None if kind in ("dir", "submodule") else raw,
        "type": kind,
        "_links": {"self": url, "git": git_url, "html": html},
    }
    if listed:
        # Folders list submodules as files, for the sake of old clients.
        return {**shape, "type": "file" if kind == "submodule" else kind}
    if kind == "submodule":
        return {**shape, "submodule_git_url": None}
    bytes_ = git.read_blob(entry.sha)
    if kind == "symlink":
        return {**shape, "target": bytes_.decode("utf-8", "replace")}
    return {**shape, "content": lines_of_base64(bytes_), "encoding": "base64"}
