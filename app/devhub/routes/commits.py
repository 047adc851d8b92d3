"""The repository's content: commits, branches, comparisons, files."""

from __future__ import annotations

from app.devhub.errors import Refused, known, not_found
from app.devhub.git import EMPTY_TREE
from app.devhub.hub import Hub
from app.devhub.records import Repository
from app.devhub.rest import Answer, Call, Page, read
from app.devhub.shapes import commits as shapes
from app.devhub.shapes.accounts import Json
from sandbox.text import sound

REPO = "/repos/{owner}/{repo}"
DIFF = "application/vnd.github.diff; charset=utf-8"


def list_commits(call: Call) -> Page:
    """Newest first, from ``sha`` (the default branch), of ``path``."""
    if not call.git.refs():
        raise Refused(409, "Git Repository is empty.")
    start = known(call.git.resolve(call.query.get("sha") or call.repository.default_branch))
    found = call.git.log(start, path=call.query.get("path"))
    return Page(found, lambda sha: shapes.commit(call.hub, call.repository, call.git.commit(sha)))


def get_commit(call: Call) -> Answer:
    sha = call.commit(call.path["ref"])
    commit = call.git.commit(sha)
    start = commit.parents[0] if commit.parents else EMPTY_TREE
    if "diff" in call.accept:
        return Answer(call.git.patch(start, sha), type=DIFF)
    if "sha" in call.accept:
        return Answer(sha.encode(), type="application/vnd.github.sha; charset=utf-8")
    return Answer(shapes.full_commit(call.hub, call.repository, commit, call.git.diff(start, sha)))


# ── branches ─────────────────────────────────────────────────────────────────────────────────────────────────────


def list_branches(call: Call) -> Page:
    names = [ref.name.removeprefix("refs/heads/") for ref in call.git.refs("refs/heads/")]
    wanted = call.query.get("protected")
    kept = [name for name in names if wanted in (None, str(name in call.repository.protected).lower())]
    return Page(kept, lambda name: _branch(call, name))


def _branch(call: Call, name: str) -> Json:
    sha = call.git.resolve(f"refs/heads/{name}")
    assert sha is not None
    url = call.hub.api(f"/repos/{call.hub.full_name(call.repository)}/commits/{sha}")
    return {
        "name": sound(name),
        "commit": {"sha": sha, "url": url},
        "protected": name in call.repository.protected,
    }


def get_branch(call: Call) -> Answer:
    name = call.path["branch"]
    ref = call.git.ref(f"refs/heads/{name}")
    if ref is None:
        raise Refused(404, "Branch not found")
    return Answer(_full_branch(call.hub, call.repository, name, ref.sha))


def _full_branch(hub: Hub, repository: Repository, name: str, sha: str) -> Json:
    path = f"{hub.full_name(repository)}/branches/{shapes.encoded(name)}"
    protected = name in repository.protected
    protection = hub.api(f"/repos/{path}/protection")
    return {
        "name": sound(name),
        "commit": shapes.commit(hub, repository, hub.git(repository).commit(sha)),
        "_links": {"self": hub.api(f"/repos/{path}"), "html": hub.web(f"/{hub.full_name(repository)}/tree/{name}")},
        "protected": protected,
        "protection": {"url": protection, "enabled": protected},
        "protection_url": protection,
    }


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────────────────────


def compare(call: Call) -> Answer:
    """``base...head``, from where the two parted; commits oldest first."""
    base, dots, head = call.path["basehead"].partition("...")
    git = call.git
    one, two = git.resolve(base), git.resolve(head)
    start = git.merge_base(one, two) if dots and one and two else None
    if one is None or two is None or start is None:
        raise not_found()
    if "diff" in call.accept:
        return Answer(git.patch(start, two), type=DIFF)
    ahead = git.log(two, since=one)[::-1]
    behind = git.count(two, one)
    html = call.hub.web(f"/{call.hub.full_name(call.repository)}/compare/{call.path['basehead']}")

    def commit(sha: str) -> Json:
        return shapes.commit(call.hub, call.repository, git.commit(sha))

    return Answer(
        {
            "url": call.hub.api(f"/repos/{call.hub.full_name(call.repository)}/compare/{call.path['basehead']}"),
            "html_url": html,
            "permalink_url": html,
            "diff_url": f"{html}.diff",
            "patch_url": f"{html}.patch",
            "base_commit": commit(one),
            "merge_base_commit": commit(start),
            "status": _standing(len(ahead), behind),
            "ahead_by": len(ahead),
            "behind_by": behind,
            "total_commits": len(ahead),
            "commits": [commit(sha) for sha in ahead[:250]],
            "files": [shapes.changed_file(call.hub, call.repository, two, file) for file in git.diff(start, two)[:300]],
        }
    )


def _standing(ahead: int, behind: int) -> str:
    if ahead and behind:
        return "diverged"
    return "ahead" if ahead else "behind" if behind else "identical"


# ── contents ─────────────────────────────────────────────────────────────────────────────────────────────────────


def get_contents(call: Call) -> Answer:
    revision = call.query.get("ref") or call.repository.default_branch
    sha = call.git.resolve(revision)
    path = call.path.get("path", "").strip("/")
    if sha is None:
        raise Refused(404, f"No commit found for the ref {revision}")
    if not path:
        return _folder(call, call.git.commit(sha).tree, "", revision)
    entry = known(call.git.at(sha, path))
    if entry.type == "tree":
        return _folder(call, entry.sha, f"{path}/", revision)
    if "raw" in call.accept and entry.type == "blob":
        return Answer(call.git.read_blob(entry.sha), type="application/vnd.github.raw; charset=utf-8")
    return Answer(shapes.content(call.hub, call.repository, call.git, entry, revision, listed=False))


def _folder(call: Call, tree: str, prefix: str, revision: str) -> Answer:
    entries = call.git.tree(tree, prefix=prefix)
    return Answer(
        [shapes.content(call.hub, call.repository, call.git, entry, revision, listed=True) for entry in entries]
    )


def get_readme(call: Call) -> Answer:
    revision = call.query.get("ref") or call.repository.default_branch
    sha = call.git.resolve(revision)
    names = [entry for entry in call.git.tree(sha) if entry.path.lower().split(".")[0] == "readme"] if sha else []
    if not names:
        raise not_found()
    return Answer(shapes.content(call.hub, call.repository, call.git, names[0], revision, listed=False))


OPERATIONS = (
    read(f"{REPO}/commits", list_commits, "contents"),
    read(f"{REPO}/commits/{{ref:path}}", get_commit, "contents"),
    read(f"{REPO}/branches", list_branches, "contents"),
    read(f"{REPO}/branches/{{branch:path}}", get_branch, "contents"),
    read(f"{REPO}/compare/{{basehead:path}}", compare, "contents"),
    read(f"{REPO}/contents", get_contents, "contents"),
    read(f"{REPO}/contents/{{path:path}}", get_contents, "contents"),
    read(f"{REPO}/readme", get_readme, "contents"),
)
