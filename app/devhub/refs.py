"""What happens when a branch or tag moves: rules first, then events, then pull requests follow."""

from __future__ import annotations

import re

from app.devhub import issues, pulls
from app.devhub.auth import LEVELS, Actor, granted, permission_of
from app.devhub.errors import Refused
from app.devhub.events import announce
from app.devhub.git import EMPTY_TREE
from app.devhub.gitobjects import ZERO, Commit, FileDiff
from app.devhub.hub import Hub
from app.devhub.records import Issue, Pull, Repository
from app.devhub.shapes.accounts import Json
from sandbox.text import sound

HEADS = "refs/heads/"
TAGS = "refs/tags/"
WORKFLOWS = ".github/workflows/"


def may_write_workflows(actor: Actor) -> bool:
    """People may; an App needs the permission."""
    return actor.installation is None or granted(actor, "workflows:write")


def may_pass_protection(hub: Hub, repository: Repository, actor: Actor) -> bool:
    level = permission_of(hub.store, repository, actor.user)
    return actor.app is None and LEVELS.get(level or "", 0) >= LEVELS["admin"]


def workflow_refusal(path: str) -> str:
    """GitHub's words."""
    return f"refusing to allow a GitHub App to create or update workflow `{path}` without `workflows` permission"


def check(hub: Hub, repository: Repository, actor: Actor, ref: str, new: str) -> None:
    """Refuse a move over the REST API that the repository's rules forbid. A push is judged by its hook."""
    branch = ref.removeprefix(HEADS)
    if branch in repository.protected and not may_pass_protection(hub, repository, actor):
        raise Refused(422, f"Cannot update this protected ref: {ref}")
    if new == ZERO or may_write_workflows(actor):
        return
    git = hub.git(repository)
    old = git.ref(ref)
    start = old.sha if old else git.merge_base(new, f"{HEADS}{repository.default_branch}")
    for file in git.diff(start or EMPTY_TREE, new):
        if file.path.startswith(WORKFLOWS) and file.status != "removed":
            raise Refused(403, workflow_refusal(file.path))


def moved(hub: Hub, repository: Repository, actor: Actor, ref: str, before: str, after: str) -> None:
    """A ref has moved (``ZERO``: was or is not there): tell the Apps and let pull requests follow."""
    repository = hub.store.change(repository, pushed_at=hub.stamp())
    if ref.startswith((HEADS, TAGS)):
        _announce(hub, repository, actor, ref, before, after)
    if ref.startswith(HEADS):
        _follow(hub, repository, actor, ref.removeprefix(HEADS), before, after)


def merge_pull(
    hub: Hub,
    pull: Pull,
    actor: Actor,
    *,
    title: str | None = None,
    message: str | None = None,
    expected: str | None = None,
) -> str:
    """Merge a pull request with a merge commit; the answer is its id. ``expected``: what the head must be."""
    repository = hub.store.get(Repository, pull.repository_id)
    git, ref = hub.git(repository), f"{HEADS}{pull.base_ref}"
    if expected and expected != pull.head_sha:
        raise Refused(409, "Head branch was modified. Review and try the merge again.")
    tip = git.ref(ref)
    if tip is None:
        raise Refused(405, "Pull Request is not mergeable")
    sha = pulls.merge_commit(hub, pull, actor, tip=tip.sha, title=title, message=message)
    check(hub, repository, actor, ref, sha)
    if not git.set_ref(ref, sha, tip.sha):
        raise Refused(409, "Base branch was modified. Review and try the merge again.")
    moved(hub, repository, actor, ref, tip.sha, sha)
    if pull.base_ref == repository.default_branch:
        for issue in _closed_by(hub, pull):
            issues.close(hub, issue, actor)
    return sha


_CLOSING = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):? #(\d{1,9})\b", re.IGNORECASE)
"""GitHub's documentation, "Linking a pull request to an issue using a keyword"."""


def _closed_by(hub: Hub, pull: Pull) -> list[Issue]:
    """The issues that the description of a pull request says it closes."""
    numbers = {int(number) for number in _CLOSING.findall(pulls.issue_of(hub, pull).body or "")}
    named = (hub.store.first(Issue, repository_id=pull.repository_id, number=number) for number in sorted(numbers))
    return [issue for issue in named if issue is not None and not issue.is_pull]


def _announce(hub: Hub, repository: Repository, actor: Actor, ref: str, before: str, after: str) -> None:
    made_or_gone = "create" if before == ZERO else "delete" if after == ZERO else None
    if made_or_gone:
        kind = "branch" if ref.startswith(HEADS) else "tag"
        name = ref.removeprefix(HEADS).removeprefix(TAGS)
        about: Json = {"ref": sound(name), "ref_type": kind, "pusher_type": "user"}
        if made_or_gone == "create":
            about |= {"master_branch": repository.default_branch, "description": repository.description}
        announce(hub, made_or_gone, None, repository, actor.user, lambda: about)
    announce(hub, "push", None, repository, actor.user, lambda: _push(hub, repository, actor, ref, before, after))


def _push(hub: Hub, repository: Repository, actor: Actor, ref: str, before: str, after: str) -> Json:
    git = hub.git(repository)
    known = before if before != ZERO else git.resolve(f"{HEADS}{repository.default_branch}")
    tip = git.resolve(after) if after != ZERO else None
    new = git.log(tip, since=known)[:20][::-1] if tip and known and known != tip else []
    html = hub.web(f"/{hub.full_name(repository)}")
    return {
        "ref": sound(ref),
        "before": before,
        "after": after,
        "created": before == ZERO,
        "deleted": after == ZERO,
        "forced": bool(before != ZERO and tip and not git.is_ancestor(before, tip)),
        "base_ref": None,
        "compare": f"{html}/compare/{before[:12]}...{after[:12]}",
        "commits": [_pushed(hub, repository, git.commit(sha)) for sha in new],
        "head_commit": _pushed(hub, repository, git.commit(tip)) if tip else None,
        "pusher": {"name": actor.user.login, "email": actor.user.email},
    }


def _pushed(hub: Hub, repository: Repository, commit: Commit) -> Json:
    files = hub.git(repository).diff(commit.parents[0] if commit.parents else EMPTY_TREE, commit.sha)
    people = {
        name: {"name": sound(person.name), "email": sound(person.email), "date": person.date}
        for name, person in (("author", commit.author), ("committer", commit.committer))
    }
    return {
        "id": commit.sha,
        "tree_id": commit.tree,
        "distinct": True,
        "message": sound(commit.message),
        "timestamp": commit.committer.date,
        "url": hub.web(f"/{hub.full_name(repository)}/commit/{commit.sha}"),
        **people,
        "added": _paths(files, "added", "renamed", "copied"),
        "removed": _paths(files, "removed", "renamed"),
        "modified": _paths(files, "modified", "changed"),
    }


def _paths(files: list[FileDiff], *status: str) -> list[str]:
    """Paths of the files that changed in these ways; a rename takes the old name away."""
    old = "removed" in status
    return [sound((old and file.previous) or file.path) for file in files if file.status in status]


def _follow(hub: Hub, repository: Repository, actor: Actor, branch: str, before: str, after: str) -> None:
    for pull in hub.store.find(Pull, head_repository_id=repository.id, head_ref=branch, merged_at=None):
        issue = hub.store.get(Issue, pull.issue_id)
        if issue.state == "open" and after == ZERO:
            issues.close(hub, issue, actor)
        elif issue.state == "open":
            pulls.synchronize(hub, pull, actor, before, after)
    if after != ZERO:
        for pull in hub.store.find(Pull, repository_id=repository.id, base_ref=branch, merged_at=None):
            pulls.follow_base(hub, pull, actor, after)
