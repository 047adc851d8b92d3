"""Issues, comments and pull requests as somebody who looks at them sees them, for whoever asks from Python."""

from __future__ import annotations

from dataclasses import dataclass

from app.devhub import issues
from app.devhub.gitobjects import FileDiff
from app.devhub.hub import Hub
from app.devhub.records import Comment, Issue, Pull, Reaction, User
from app.devhub.shapes import pulls as shapes


@dataclass(frozen=True)
class SeenComment:
    id: int
    author: str
    body: str
    created_at: str
    updated_at: str
    reactions: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenIssue:
    """An issue or the issue side of a pull request."""

    id: int
    number: int
    author: str
    title: str
    body: str | None
    state: str
    labels: tuple[str, ...]
    reactions: tuple[str, ...]


@dataclass(frozen=True)
class SeenPull:
    id: int
    number: int
    author: str
    title: str
    body: str | None
    state: str
    labels: tuple[str, ...]
    draft: bool
    merged: bool
    head_ref: str
    head_sha: str
    base_ref: str
    commits: tuple[str, ...]
    files: tuple[FileDiff, ...]


def issue(hub: Hub, found: Issue) -> SeenIssue:
    return SeenIssue(
        id=found.id,
        number=found.number,
        author=_login(hub, found.user_id),
        title=found.title,
        body=found.body,
        state=found.state,
        labels=tuple(label.name for label in issues.labels_of(hub, found)),
        reactions=_reactions(hub, "issues", found.id),
    )


def comments(hub: Hub, on: Issue) -> list[SeenComment]:
    """Oldest first."""
    return [
        SeenComment(
            found.id,
            _login(hub, found.user_id),
            found.body,
            found.created_at,
            found.updated_at,
            _reactions(hub, "comments", found.id),
        )
        for found in hub.store.find(Comment, issue_id=on.id)
    ]


def pull(hub: Hub, found: Pull) -> SeenPull:
    side = issue(hub, hub.store.get(Issue, found.issue_id))
    return SeenPull(
        id=found.id,
        number=found.number,
        author=side.author,
        title=side.title,
        body=side.body,
        state=side.state,
        labels=side.labels,
        draft=found.draft,
        merged=found.merged_at is not None,
        head_ref=found.head_ref,
        head_sha=found.head_sha,
        base_ref=found.base_ref,
        commits=tuple(shapes.commits_of(hub, found)),
        files=tuple(shapes.files_of(hub, found)),
    )


def _login(hub: Hub, user_id: int) -> str:
    return hub.store.get(User, user_id).login


def _reactions(hub: Hub, subject: str, id: int) -> tuple[str, ...]:
    return tuple(found.content for found in hub.store.find(Reaction, subject=subject, subject_id=id))
