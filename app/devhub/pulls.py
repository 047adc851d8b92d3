"""What happens to pull requests: opened, changed, followed, merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.devhub import issues
from app.devhub.auth import Actor, permission_of
from app.devhub.errors import Refused, invalid, known
from app.devhub.events import announce
from app.devhub.gitobjects import Person
from app.devhub.hub import Hub
from app.devhub.records import Issue, Pull, Repository
from app.devhub.shapes import commits as commit_shapes
from app.devhub.shapes import pulls as shapes
from app.devhub.shapes.accounts import user


def numbered(hub: Hub, repository: Repository, number: int) -> Pull:
    """The pull request with this number; 404 without one."""
    return known(hub.store.first(Pull, repository_id=repository.id, number=number))


def issue_of(hub: Hub, pull: Pull) -> Issue:
    return hub.store.get(Issue, pull.issue_id)


def _tell(hub: Hub, pull: Pull, actor: Actor, action: str, **parts: Any) -> None:
    repository = hub.store.get(Repository, pull.repository_id)
    announce(
        hub,
        "pull_request",
        action,
        repository,
        actor.user,
        lambda: {"number": pull.number, "pull_request": shapes.pull(hub, pull), **parts},
    )


def open_pull(
    hub: Hub,
    base: Repository,
    actor: Actor,
    *,
    title: str,
    head: str,
    base_ref: str,
    body: str | None = None,
    draft: bool = False,
    maintainer_can_modify: bool = True,
) -> Pull:
    """Open a pull request. ``head`` is a branch, or ``owner:branch`` of a fork."""
    issues.check_title(title, "PullRequest")
    issues.check_body(body, "PullRequest")
    sides = _sides(hub, base, head, base_ref)
    number = issues.next_number(hub, base)
    _take_over_head(hub, base, sides, number)
    now = hub.stamp()
    issue = hub.store.add(
        Issue(
            repository_id=base.id,
            number=number,
            user_id=actor.user.id,
            app_id=actor.app_id,
            title=title,
            body=body,
            is_pull=True,
            created_at=now,
            updated_at=now,
        )
    )
    pull = hub.store.add(
        Pull(
            repository_id=base.id,
            issue_id=issue.id,
            number=number,
            head_repository_id=sides.source.id,
            head_ref=sides.head_ref,
            head_sha=sides.head_sha,
            base_ref=base_ref,
            base_sha=sides.base_sha,
            draft=draft,
            maintainer_can_modify=maintainer_can_modify and sides.source.id != base.id,
        )
    )
    _tell(hub, pull, actor, "opened")
    return pull


@dataclass(frozen=True)
class _Sides:
    """The two branches of a pull request, as they stand."""

    source: Repository
    """Where the head branch is: the repository itself, or a fork."""
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str


def _sides(hub: Hub, base: Repository, head: str, base_ref: str) -> _Sides:
    source, head_ref = _source(hub, base, head)
    base_sha = hub.git(base).resolve(f"refs/heads/{base_ref}")
    head_sha = hub.git(source).resolve(f"refs/heads/{head_ref}")
    if base_sha is None:
        raise invalid("PullRequest", "base")
    if head_sha is None:
        raise invalid("PullRequest", "head")
    _refuse_duplicate(hub, base, source, head_ref, base_ref)
    return _Sides(source, head_ref, head_sha, base_ref, base_sha)


def _take_over_head(hub: Hub, base: Repository, sides: _Sides, number: int) -> None:
    """Bring the head's commits into the repository that they are proposed to; refused where they are there already."""
    git, there = hub.git(base), f"refs/pull/{number}/head"
    git.fetch(hub.git(sides.source).path, f"refs/heads/{sides.head_ref}", there)
    if git.is_ancestor(sides.head_sha, sides.base_sha):
        git.delete_ref(there)
        raise _refused(f"No commits between {sides.base_ref} and {sides.head_ref}")


def _source(hub: Hub, base: Repository, head: str) -> tuple[Repository, str]:
    """The repository and the branch behind ``branch`` or ``owner:branch``."""
    owner, colon, branch = head.partition(":")
    if not colon or owner.lower() == hub.owner(base).login.lower():
        return base, branch if colon else head
    account = hub.user(owner)
    forks = hub.store.find(Repository, fork_of_id=base.id, owner_id=account.id) if account else []
    if not forks:
        raise invalid("PullRequest", "head")
    return forks[0], branch


def _refuse_duplicate(hub: Hub, base: Repository, source: Repository, head_ref: str, base_ref: str) -> None:
    same = {"repository_id": base.id, "head_repository_id": source.id, "head_ref": head_ref, "base_ref": base_ref}
    if any(issue_of(hub, pull).state == "open" for pull in hub.store.find(Pull, **same)):
        raise _refused(f"A pull request already exists for {hub.owner(source).login}:{head_ref}.")


def _refused(message: str) -> Refused:
    return Refused(
        422, "Validation Failed", errors=({"resource": "PullRequest", "code": "custom", "message": message},)
    )


def synchronize(hub: Hub, pull: Pull, actor: Actor, before: str, after: str) -> None:
    """The head branch has moved."""
    assert pull.head_repository_id is not None
    source = hub.git(hub.store.get(Repository, pull.head_repository_id))
    base = hub.git(hub.store.get(Repository, pull.repository_id))
    base.fetch(source.path, f"refs/heads/{pull.head_ref}", f"refs/pull/{pull.number}/head")
    pull = hub.store.change(pull, head_sha=after)
    issues.touch(hub, issue_of(hub, pull))
    _tell(hub, pull, actor, "synchronize", before=before, after=after)


def follow_base(hub: Hub, pull: Pull, actor: Actor, tip: str) -> None:
    """The base branch has moved; if it has all of the head now, the pull request is merged."""
    issue = issue_of(hub, pull)
    if issue.state != "open":
        return
    if hub.git(hub.store.get(Repository, pull.repository_id)).is_ancestor(pull.head_sha, tip):
        _merged(hub, pull, actor, tip)
    else:
        hub.store.change(pull, base_sha=tip)


def _merged(hub: Hub, pull: Pull, actor: Actor, sha: str) -> None:
    pull = hub.store.change(pull, merged_at=hub.stamp(), merged_by_id=actor.user.id, merge_commit_sha=sha)
    issues.close(hub, issue_of(hub, pull), actor)


def change(
    hub: Hub,
    pull: Pull,
    actor: Actor,
    *,
    title: str | None = None,
    body: str | None = None,
    state: str | None = None,
    base_ref: str | None = None,
) -> Pull:
    """Change title, text, state or base of a pull request."""
    issue = issues.edit(hub, issue_of(hub, pull), actor, title=title, body=body)
    if base_ref is not None and base_ref != pull.base_ref:
        pull = _change_base(hub, pull, base_ref)
    if state == "closed":
        issues.close(hub, issue, actor)
    elif state == "open" and issue.state == "closed":
        _reopen(hub, pull, issue, actor)
    return hub.store.get(Pull, pull.id)


def set_draft(hub: Hub, pull: Pull, actor: Actor, *, draft: bool) -> Pull:
    """Make a pull request a draft, or ready for review."""
    if issue_of(hub, pull).state != "open":
        raise Refused(422, "Pull request is closed")
    if pull.draft == draft:
        return pull
    pull = hub.store.change(pull, draft=draft)
    _tell(hub, pull, actor, "converted_to_draft" if draft else "ready_for_review")
    return pull


def ask_for_review(hub: Hub, pull: Pull, actor: Actor, logins: Iterable[str]) -> Pull:
    """Ask people for a review; all of them or none."""
    repository = hub.store.get(Repository, pull.repository_id)
    author = issue_of(hub, pull).user_id
    asked = [found for login in logins if (found := hub.user(login))]
    if any(found.id == author for found in asked):
        raise Refused(422, "Review cannot be requested from pull request author.")
    outside = [found for found in asked if found.type != "User" or permission_of(hub.store, repository, found) is None]
    if outside or not asked:
        raise Refused(
            422,
            "Reviews may only be requested from collaborators. One or more of the users or teams you specified is "
            f"not a collaborator of the {hub.full_name(repository)} repository.",
        )
    for found in asked:
        if found.id not in pull.reviewer_ids:
            pull = hub.store.change(pull, reviewer_ids=(*pull.reviewer_ids, found.id))
            _tell(hub, pull, actor, "review_requested", requested_reviewer=user(hub, found))
    return pull


def _change_base(hub: Hub, pull: Pull, base_ref: str) -> Pull:
    sha = hub.git(hub.store.get(Repository, pull.repository_id)).resolve(f"refs/heads/{base_ref}")
    if sha is None:
        raise invalid("PullRequest", "base")
    return hub.store.change(pull, base_ref=base_ref, base_sha=sha)


def _reopen(hub: Hub, pull: Pull, issue: Issue, actor: Actor) -> None:
    source = hub.store.get(Repository, pull.head_repository_id) if pull.head_repository_id else None
    if pull.merged_at or source is None or hub.git(source).ref(f"refs/heads/{pull.head_ref}") is None:
        raise invalid("PullRequest", "state", "custom", "state cannot be changed. The branch was deleted or merged.")
    issues.reopen(hub, issue, actor)


def merge_commit(hub: Hub, pull: Pull, actor: Actor, *, tip: str, title: str | None, message: str | None) -> str:
    """Make the commit that merges a pull request into ``tip``, the head of its base branch; the branch stays."""
    issue, git = issue_of(hub, pull), hub.git(hub.store.get(Repository, pull.repository_id))
    tree = git.merge(tip, pull.head_sha)
    if issue.state != "open" or pull.draft or tree is None:
        raise Refused(405, "Pull Request is not mergeable")
    author = author_of(hub, actor)
    subject = title or f"Merge pull request #{pull.number} from {pull.head_ref}"
    return git.write_commit(
        tree=tree,
        parents=[tip, pull.head_sha],
        author=author,
        committer=author,
        message=f"{subject}\n\n{message or issue.title}",
    )


def author_of(hub: Hub, actor: Actor) -> Person:
    """How commits that the hub makes for somebody are signed."""
    email = actor.user.email or commit_shapes.noreply(actor.user)
    return Person(actor.user.name or actor.user.login, email, hub.stamp())
