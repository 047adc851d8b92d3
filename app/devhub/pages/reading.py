"""The pages that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.responses import RedirectResponse, Response

from app.devhub import checks, issues, pulls, refs
from app.devhub.errors import Refused, known, not_found
from app.devhub.git import EMPTY_TREE
from app.devhub.gitobjects import Entry
from app.devhub.pages import views
from app.devhub.pages.markdown import render
from app.devhub.pages.visit import SAFE, Visit, repository_facts
from app.devhub.records import CheckRun, Issue, Label, Repository, User
from app.devhub.shapes import pulls as shapes
from app.devhub.shapes.commits import encoded
from sandbox.text import sound

SUGGESTED_LABEL = "agent"
TEXT = "text/plain; charset=utf-8"


def home(visit: Visit) -> Response:
    found = visit.hub.store.find(Repository)
    return visit.show("home.html", repositories=[repository_facts(visit.hub, repository) for repository in found])


def repository(visit: Visit) -> Response:
    """The files at the top of the default branch, and the readme."""
    repository = visit.repository()
    git = visit.hub.git(repository)
    head = git.resolve(f"{refs.HEADS}{repository.default_branch}")
    entries = _sorted(git.tree(head)) if head else []
    readme = next((entry for entry in entries if entry.path.lower() == "readme.md"), None)
    text = git.read_blob(readme.sha).decode("utf-8", "replace") if readme else ""
    return visit.show_in_repository(
        "repository.html",
        branch=repository.default_branch,
        branches=len(git.refs(refs.HEADS)),
        last=views.commit(visit.hub, repository, head) if head else None,
        items=_items(visit, repository.default_branch, entries),
        readme=render(text),
        clone_url=visit.hub.web(f"/{visit.hub.full_name(repository)}.git"),
    )


# ── issues and pull requests ─────────────────────────────────────────────────────────────────────────────────────


def list_issues(visit: Visit) -> Response:
    return _list(visit, is_pull=False)


def list_pulls(visit: Visit) -> Response:
    return _list(visit, is_pull=True)


def _list(visit: Visit, *, is_pull: bool) -> Response:
    found = visit.hub.store.find(Issue, repository_id=visit.repository().id, is_pull=is_pull)
    lines = [views.line(visit.hub, issue) for issue in reversed(found)]
    return visit.show_in_repository("list.html", kind="pulls" if is_pull else "issues", lines=lines)


def new_issue(visit: Visit) -> Response:
    return visit.show_in_repository("new_issue.html")


def issue(visit: Visit) -> Response:
    found = visit.issue()
    if found.is_pull:
        return RedirectResponse(views.line(visit.hub, found).path)
    return visit.show_in_repository("issue.html", **_thread(visit, found))


def _thread(visit: Visit, issue: Issue) -> dict[str, Any]:
    """What the pages of an issue and of a pull request have in common."""
    known = visit.hub.store.find(Label, repository_id=issue.repository_id)
    on = {label.name for label in issues.labels_of(visit.hub, issue)}
    return {
        "line": views.line(visit.hub, issue),
        "posts": views.conversation(visit.hub, issue),
        "others": sorted(({label.name for label in known} | {SUGGESTED_LABEL}) - on),
        "locked": issue.locked,
    }


def pull(visit: Visit) -> Response:
    hub, repository, issue = visit.hub, visit.repository(), visit.issue()
    pull = pulls.numbered(hub, repository, issue.number)
    return visit.show_in_repository(
        "pull.html",
        **_thread(visit, issue),
        head=pull.head_ref,
        base=pull.base_ref,
        commits=views.commits(hub, pull),
        checks=views.checks(hub, repository, pull.head_sha),
        files=views.files(shapes.files_of(hub, pull)),
        mergeable=views.mergeable(hub, pull),
        reviewers=views.reviewers(hub, pull),
        on=_chosen_line(visit),
    )


def _chosen_line(visit: Visit) -> dict[str, Any] | None:
    """The line of the difference that somebody wants to comment on."""
    query = visit.request.query_params
    line = query.get("line", "")
    if not (line.isascii() and line.isdigit()):
        return None
    return {"path": query.get("on", ""), "side": "LEFT" if query.get("side") == "LEFT" else "RIGHT", "line": int(line)}


def diff(visit: Visit) -> Response:
    pull = pulls.numbered(visit.hub, visit.repository(), visit.part("number"))
    return Response(shapes.patch_of(visit.hub, pull), media_type=TEXT, headers=SAFE)


def check(visit: Visit) -> Response:
    run = known(visit.hub.store.first(CheckRun, id=visit.part("id"), repository_id=visit.repository().id))
    return visit.show_in_repository("check.html", check=views.check(run), sha=run.head_sha)


# ── commits and files ────────────────────────────────────────────────────────────────────────────────────────────


def commit(visit: Visit) -> Response:
    repository = visit.repository()
    git = visit.hub.git(repository)
    sha = known(git.resolve(visit.part("sha")))
    found = git.commit(sha)
    return visit.show_in_repository(
        "commit.html",
        commit=views.commit(visit.hub, repository, sha),
        message=sound(found.message).partition("\n")[2].strip(),
        files=views.files(git.diff(found.parents[0] if found.parents else EMPTY_TREE, sha)),
    )


def tree(visit: Visit) -> Response:
    """A folder; the top one is the repository's own page."""
    revision, path, entry = _at(visit, "tree")
    entries = _sorted(visit.hub.git(visit.repository()).tree(entry.sha, prefix=f"{path}/"))
    return visit.show_in_repository("tree.html", path=path, items=_items(visit, revision, entries))


def _sorted(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.type != "tree", entry.path))


def _items(visit: Visit, revision: str, entries: list[Entry]) -> list[tuple[str, str]]:
    """What stands in a folder: name and where it leads; a submodule leads nowhere."""
    here = f"/{visit.hub.full_name(visit.repository())}"
    made = []
    for entry in entries:
        name = sound(entry.path.rsplit("/", 1)[-1])
        to = f"{here}/{entry.type}/{encoded(revision)}/{encoded(entry.path)}"
        made.append((f"{name}/" if entry.type == "tree" else name, "" if entry.type == "commit" else to))
    return made


def blob(visit: Visit) -> Response:
    path, content = _content(visit)
    text = None if b"\0" in content[:8000] else content.decode("utf-8", "replace")
    return visit.show_in_repository("blob.html", path=path, text=text)


def raw(visit: Visit) -> Response:
    return Response(_content(visit)[1], media_type=TEXT, headers=SAFE)


def _content(visit: Visit) -> tuple[str, bytes]:
    _, path, entry = _at(visit, "blob")
    return path, visit.hub.git(visit.repository()).read_blob(entry.sha)


def _at(visit: Visit, type: str) -> tuple[str, str, Entry]:
    """Revision, path and what is there, behind ``revision/path``; a revision may have slashes itself."""
    git, parts = visit.hub.git(visit.repository()), visit.part("rest").split("/")
    for cut in range(1, len(parts)):
        revision, path = "/".join(parts[:cut]), "/".join(parts[cut:])
        sha = git.resolve(revision)
        entry = git.at(sha, path) if sha else None
        if entry and entry.type == type:
            return revision, path, entry
    raise not_found()


# ── files of ours ────────────────────────────────────────────────────────────────────────────────────────────────


def style(visit: Visit) -> Response:
    return Response(Path(__file__).with_name("style.css").read_bytes(), media_type="text/css")


def avatar(visit: Visit) -> Response:
    """A letter on a colour."""
    user = known(visit.hub.store.first(User, id=visit.part("id")))
    hue, letter = user.id * 67 % 360, user.login[:1].upper()
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" rx="20" '
        f'fill="hsl({hue} 45% 45%)"/><text x="20" y="27" font-family="sans-serif" font-size="20" fill="#fff" '
        f'text-anchor="middle">{letter if letter.isalnum() else "?"}</text></svg>'
    )
    return Response(svg, media_type="image/svg+xml", headers=SAFE)


def artifact(visit: Visit) -> Response:
    query = visit.request.query_params
    until = query.get("until", "")
    number = int(until) if until.isascii() and until.isdigit() else 0
    found = checks.downloaded(visit.hub, visit.part("id"), number, query.get("key", ""))
    if found is None:
        raise Refused(403, "The link is wrong or no longer good.")
    return Response(found.content, media_type="application/zip")


REPO = "/{owner}/{repo}"
ISSUE = f"{REPO}/issues/{{number:int}}"
PULL = f"{REPO}/pull/{{number:int}}"

PAGES = {
    "/": home,
    "/_devhub/style.css": style,
    "/_devhub/avatar/{id:int}.svg": avatar,
    f"{checks.DOWNLOADS}{{id:int}}": artifact,
    REPO: repository,
    f"{REPO}/issues": list_issues,
    f"{REPO}/issues/new": new_issue,
    f"{REPO}/pulls": list_pulls,
    ISSUE: issue,
    f"{PULL}.diff": diff,
    PULL: pull,
    f"{REPO}/runs/{{id:int}}": check,
    f"{REPO}/commit/{{sha:path}}": commit,
    f"{REPO}/tree/{{rest:path}}": tree,
    f"{REPO}/blob/{{rest:path}}": blob,
    f"{REPO}/raw/{{rest:path}}": raw,
}
