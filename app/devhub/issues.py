"""What happens to issues: opened, changed, labelled, commented on. Pull requests have all of this too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.devhub.auth import LEVELS, Actor, permission_of
from app.devhub.errors import Moved, Refused, invalid, known
from app.devhub.events import announce
from app.devhub.hub import Hub
from app.devhub.records import Comment, FormerIssue, Issue, Label, Pull, Reaction, Repository, User
from app.devhub.shapes import issues as shapes
from app.devhub.shapes import pulls as pull_shapes
from app.devhub.shapes.accounts import Json
from app.devhub.shapes.accounts import repository as repository_shape

BODY_LIMIT = 65_536
"""Characters of a title's or comment's text that GitHub takes."""
TITLE_LIMIT = 256


def check_body(text: str | None, resource: str) -> None:
    """Refuse a text that is too long."""
    if text is not None and len(text) > BODY_LIMIT:
        raise invalid(resource, "body", "custom", f"body is too long (maximum is {BODY_LIMIT} characters)")


def check_title(title: str, resource: str) -> None:
    if not title.strip():
        raise invalid(resource, "title", "missing_field")
    if len(title) > TITLE_LIMIT:
        raise invalid(resource, "title", "custom", f"title is too long (maximum is {TITLE_LIMIT} characters)")


def writable(repository: Repository) -> None:
    if repository.archived:
        raise Refused(403, "Repository was archived so is read-only.")


def numbered(hub: Hub, repository: Repository, number: int) -> Issue:
    """The issue or pull request with this number; 404 without one, 410 or a redirect where it was there before."""
    found = hub.store.first(Issue, repository_id=repository.id, number=number)
    if found is not None:
        return found
    former = known(hub.store.first(FormerIssue, repository_id=repository.id, number=number))
    if former.now_id is None:
        raise Refused(410, "This issue was deleted")
    now = hub.store.get(Issue, former.now_id)
    raise Moved(f"/repositories/{now.repository_id}/issues/{now.number}")


def transfer(hub: Hub, issue: Issue, actor: Actor, to: Repository) -> Issue:
    """Move an issue to another repository of the same owner; labels stay behind."""
    number, was = next_number(hub, to), issue
    tell(hub, issue, actor, "transferred", changes=_transferred(hub, issue, to, number))
    issue = touch(hub, issue, repository_id=to.id, number=number, label_ids=())
    for found in hub.store.find(Comment, issue_id=issue.id):
        hub.store.change(found, repository_id=to.id)
    hub.store.add(FormerIssue(repository_id=was.repository_id, number=was.number, now_id=issue.id))
    return issue


def _transferred(hub: Hub, issue: Issue, to: Repository, number: int) -> Json:
    new = {**shapes.issue(hub, issue), "number": number}
    return {"new_issue": new, "new_repository": repository_shape(hub, to)}


def delete(hub: Hub, issue: Issue, actor: Actor) -> None:
    """For good, with what was said there."""
    tell(hub, issue, actor, "deleted")
    for found in hub.store.find(Comment, issue_id=issue.id):
        hub.store.remove(found)
    hub.store.remove(issue)
    hub.store.add(FormerIssue(repository_id=issue.repository_id, number=issue.number))


def next_number(hub: Hub, repository: Repository) -> int:
    taken = [issue.number for issue in hub.store.find(Issue, repository_id=repository.id)]
    taken += [former.number for former in hub.store.find(FormerIssue, repository_id=repository.id)]
    return max(taken, default=0) + 1


def open_issue(
    hub: Hub,
    repository: Repository,
    actor: Actor,
    *,
    title: str,
    body: str | None = None,
    labels: Iterable[str] = (),
    assignees: Iterable[str] = (),
) -> Issue:
    """Open an issue; its labels are announced one by one afterwards, as GitHub does."""
    check_title(title, "Issue")
    check_body(body, "Issue")
    now = hub.stamp()
    issue = hub.store.add(
        Issue(
            repository_id=repository.id,
            number=next_number(hub, repository),
            user_id=actor.user.id,
            app_id=actor.app_id,
            title=title,
            body=body,
            assignee_ids=tuple(found.id for login in assignees if (found := hub.user(login))),
            created_at=now,
            updated_at=now,
        )
    )
    wanted = [label_named(hub, repository, name) for name in labels]
    issue = hub.store.change(issue, label_ids=tuple(dict.fromkeys(label.id for label in wanted)))
    tell(hub, issue, actor, "opened")
    for label in wanted:
        tell(hub, issue, actor, "labeled", label=shapes.label(hub, label))
    return issue


def tell(hub: Hub, issue: Issue, actor: Actor, action: str, **parts: Any) -> None:
    """Announce an action on an issue, or on the pull request that it is a side of."""
    repository = hub.store.get(Repository, issue.repository_id)
    kind = "pull_request" if issue.is_pull else "issues"
    announce(hub, kind, action, repository, actor.user, lambda: {**_about(hub, issue), **parts})


def _about(hub: Hub, issue: Issue) -> Json:
    pull = hub.store.first(Pull, issue_id=issue.id)
    if pull is None:
        return {"issue": _in_event(hub, issue)}
    return {"number": issue.number, "pull_request": pull_shapes.pull(hub, pull)}


def _in_event(hub: Hub, issue: Issue) -> Json:
    """Events do not say who closed an issue; their sender does."""
    return {name: value for name, value in shapes.issue(hub, issue).items() if name != "closed_by"}


def touch(hub: Hub, issue: Issue, **new: Any) -> Issue:
    return hub.store.change(issue, updated_at=hub.stamp(), **new)


def edit(hub: Hub, issue: Issue, actor: Actor, *, title: str | None = None, body: str | None = None) -> Issue:
    """Change title or text."""
    resource = "PullRequest" if issue.is_pull else "Issue"
    if title is not None:
        check_title(title, resource)
    check_body(body, resource)
    old = {"title": issue.title, "body": issue.body}
    new = {name: value for name, value in (("title", title), ("body", body)) if value not in (None, old[name])}
    if not new:
        return issue
    issue = touch(hub, issue, **new)
    # GitHub leaves the old text out when there was none.
    changes = {name: {"from": old[name] or ""} for name in new}
    tell(hub, issue, actor, "edited", changes=changes)
    return issue


def close(hub: Hub, issue: Issue, actor: Actor, reason: str | None = "completed") -> Issue:
    if issue.state == "closed":
        return issue
    why = None if issue.is_pull else reason or "completed"
    issue = touch(hub, issue, state="closed", state_reason=why, closed_at=hub.stamp(), closed_by_id=actor.user.id)
    tell(hub, issue, actor, "closed")
    return issue


def reopen(hub: Hub, issue: Issue, actor: Actor) -> Issue:
    if issue.state == "open":
        return issue
    why = None if issue.is_pull else "reopened"
    issue = touch(hub, issue, state="open", state_reason=why, closed_at=None, closed_by_id=None)
    tell(hub, issue, actor, "reopened")
    return issue


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────────


def find_label(hub: Hub, repository: Repository, name: str) -> Label | None:
    found = hub.store.find(Label, repository_id=repository.id)
    return next((label for label in found if label.name.lower() == name.lower()), None)


def label_named(hub: Hub, repository: Repository, name: str) -> Label:
    """The label of this name, made if there is none: GitHub does that when a label is put on an issue."""
    if not name.strip():
        raise invalid("Label", "name", "missing_field")
    return find_label(hub, repository, name) or hub.store.add(Label(repository_id=repository.id, name=name))


def add_labels(hub: Hub, issue: Issue, actor: Actor, names: Iterable[str]) -> Issue:
    """Put labels on; one that is there already is no event."""
    repository = hub.store.get(Repository, issue.repository_id)
    for label in [label_named(hub, repository, name) for name in names]:
        if label.id not in issue.label_ids:
            issue = touch(hub, issue, label_ids=(*issue.label_ids, label.id))
            tell(hub, issue, actor, "labeled", label=shapes.label(hub, label))
    return issue


def remove_labels(hub: Hub, issue: Issue, actor: Actor, labels: Iterable[Label]) -> Issue:
    for label in labels:
        issue = touch(hub, issue, label_ids=tuple(id for id in issue.label_ids if id != label.id))
        tell(hub, issue, actor, "unlabeled", label=shapes.label(hub, label))
    return issue


def labels_of(hub: Hub, issue: Issue) -> list[Label]:
    return [hub.store.get(Label, id) for id in issue.label_ids]


def set_labels(hub: Hub, issue: Issue, actor: Actor, names: Iterable[str]) -> Issue:
    """Make the labels exactly these."""
    wanted = list(names)
    lower = {name.lower() for name in wanted}
    gone = [label for label in labels_of(hub, issue) if label.name.lower() not in lower]
    return add_labels(hub, remove_labels(hub, issue, actor, gone), actor, wanted)


# ── comments and reactions ───────────────────────────────────────────────────────────────────────────────────────


def comment(hub: Hub, issue: Issue, actor: Actor, body: str) -> Comment:
    repository = hub.store.get(Repository, issue.repository_id)
    _check_comment(body)
    if issue.locked and not _may_write(hub, repository, actor):
        raise Refused(403, "Unable to create comment because issue is locked.")
    now = hub.stamp()
    made = hub.store.add(
        Comment(
            repository_id=repository.id,
            issue_id=issue.id,
            user_id=actor.user.id,
            app_id=actor.app_id,
            body=body,
            created_at=now,
            updated_at=now,
        )
    )
    touch(hub, issue)
    _tell_comment(hub, made, actor, "created")
    return made


def edit_comment(hub: Hub, found: Comment, actor: Actor, body: str) -> Comment:
    _check_comment(body)
    old = found.body
    found = hub.store.change(found, body=body, updated_at=hub.stamp())
    _tell_comment(hub, found, actor, "edited", changes={"body": {"from": old}})
    return found


def delete_comment(hub: Hub, found: Comment, actor: Actor) -> None:
    hub.store.remove(found)
    _tell_comment(hub, found, actor, "deleted")


def _check_comment(body: str) -> None:
    if not body.strip():
        raise invalid("IssueComment", "body", "custom", "Body cannot be blank")
    check_body(body, "IssueComment")


def _may_write(hub: Hub, repository: Repository, actor: Actor) -> bool:
    level = permission_of(hub.store, repository, actor.user)
    return actor.app is None and LEVELS.get(level or "", 0) >= LEVELS["write"]


def _tell_comment(hub: Hub, found: Comment, actor: Actor, action: str, **parts: Any) -> None:
    issue = hub.store.get(Issue, found.issue_id)
    announce(
        hub,
        "issue_comment",
        action,
        hub.store.get(Repository, found.repository_id),
        actor.user,
        lambda: {"issue": _in_event(hub, issue), "comment": shapes.comment(hub, found), **parts},
    )


def react(hub: Hub, subject: str, subject_id: int, user: User, content: str) -> tuple[Reaction, bool]:
    """Give a reaction; the second time the first one is the answer, and the flag is false."""
    if content not in shapes.REACTIONS:
        raise invalid("Reaction", "content")
    same: dict[str, Any] = {
        "subject": subject,
        "subject_id": subject_id,
        "user_id": user.id,
        "content": content,
    }
    given = hub.store.first(Reaction, **same)
    return (given, False) if given else (hub.store.add(Reaction(**same, created_at=hub.stamp())), True)
