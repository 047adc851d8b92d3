"""What the pages show: records turned into values that a template only has to print."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.devhub import issues, pulls
from app.devhub.gitobjects import FileDiff, Row, rows
from app.devhub.hub import Hub
from app.devhub.pages.markdown import render
from app.devhub.records import (
    CheckRun,
    Comment,
    Issue,
    Label,
    Pull,
    Reaction,
    Repository,
    Review,
    ReviewComment,
    User,
)
from app.devhub.shapes import pulls as shapes
from app.devhub.shapes.commits import verification
from sandbox.text import sound

EMOJI = {"+1": "👍", "-1": "👎", "laugh": "😄", "confused": "😕", "heart": "❤️", "hooray": "🎉"}
EMOJI |= {"rocket": "🚀", "eyes": "👀"}
LINES = 2_000
"""Lines of a file's difference that are shown."""


@dataclass(frozen=True)
class Chip:
    """A label."""

    name: str
    color: str


@dataclass(frozen=True)
class Post:
    """Something that somebody wrote. ``anchor`` is where links to it lead, as on GitHub."""

    anchor: str
    author: str
    bot: bool
    html: str
    at: str
    note: str = ""
    edited: bool = False
    reactions: tuple[tuple[str, int], ...] = ()
    replies: tuple[Post, ...] = ()


@dataclass(frozen=True)
class Reviewer:
    """``state``: what is asked of a person, or what came of it."""

    login: str
    state: str


@dataclass(frozen=True)
class File:
    path: str
    previous: str | None
    status: str
    additions: int
    deletions: int
    rows: tuple[Row, ...]
    cut: bool


@dataclass(frozen=True)
class Check:
    id: int
    name: str
    state: str
    """``success``, ``failure``, ``neutral`` or ``running``."""
    word: str
    title: str
    html: str


@dataclass(frozen=True)
class Line:
    """An issue or a pull request in a list."""

    number: int
    path: str
    title: str
    state: str
    author: str
    at: str
    labels: tuple[Chip, ...]
    comments: int


@dataclass(frozen=True)
class CommitLine:
    sha: str
    subject: str
    author: str
    at: str
    verified: bool = False


def chips(found: Iterable[Label]) -> tuple[Chip, ...]:
    return tuple(
        Chip(label.name, label.color if re.fullmatch("[0-9a-fA-F]{6}", label.color) else "ededed") for label in found
    )


def state(hub: Hub, issue: Issue) -> str:
    """``open``, ``draft``, ``closed`` or ``merged``."""
    pull = hub.store.first(Pull, issue_id=issue.id) if issue.is_pull else None
    if pull and pull.merged_at:
        return "merged"
    return "draft" if pull and pull.draft and issue.state == "open" else issue.state


def line(hub: Hub, issue: Issue) -> Line:
    repository = hub.store.get(Repository, issue.repository_id)
    kind = "pull" if issue.is_pull else "issues"
    return Line(
        number=issue.number,
        path=f"/{hub.full_name(repository)}/{kind}/{issue.number}",
        title=issue.title,
        state=state(hub, issue),
        author=hub.store.get(User, issue.user_id).login,
        at=issue.created_at,
        labels=chips(issues.labels_of(hub, issue)),
        comments=len(hub.store.find(Comment, issue_id=issue.id)),
    )


# ── conversations ────────────────────────────────────────────────────────────────────────────────────────────────


def conversation(hub: Hub, issue: Issue) -> list[Post]:
    """The first text and everything said since, oldest first."""
    where = f"/{hub.full_name(hub.store.get(Repository, issue.repository_id))}"
    first = _post(hub, where, issue.id, issue.user_id, issue.body, issue.created_at, "issues")
    later = [
        _post(hub, where, found.id, found.user_id, found.body, found.created_at, "comments", edited=found.updated_at)
        for found in hub.store.find(Comment, issue_id=issue.id)
    ]
    pull = hub.store.first(Pull, issue_id=issue.id)
    reviewed = _reviewed(hub, where, pull) if pull else []
    return [first, *sorted(reviewed + later, key=lambda post: post.at)]  # of one second: what is answered, then answers


def _reviewed(hub: Hub, where: str, pull: Pull) -> list[Post]:
    reviews = [
        _post(
            hub,
            where,
            found.id,
            found.user_id,
            found.body,
            found.submitted_at or "",
            note=_REVIEWED.get(found.state, "reviewed"),
        )
        for found in hub.store.find(Review, pull_id=pull.id)
        if found.body or found.state in _REVIEWED
    ]
    remarks = hub.store.find(ReviewComment, pull_id=pull.id)
    threads = [
        replace(
            _remark(hub, where, first, f"on {first.path}" + (f", line {first.line}" if first.line else "")),
            replies=tuple(_remark(hub, where, one, "answered") for one in remarks if one.in_reply_to_id == first.id),
        )
        for first in remarks
        if first.in_reply_to_id is None
    ]
    return reviews + threads


def _remark(hub: Hub, where: str, found: ReviewComment, note: str) -> Post:
    subject, edited = "pulls/comments", found.updated_at
    return _post(hub, where, found.id, found.user_id, found.body, found.created_at, subject, note, edited)


_REVIEWED = {"APPROVED": "approved these changes", "CHANGES_REQUESTED": "asked for changes"}


def reviewers(hub: Hub, pull: Pull) -> list[Reviewer]:
    """Everybody who was asked for a review or has given one, with the last that is known."""
    made = hub.store.find(Review, pull_id=pull.id)
    given = {review.user_id: _REVIEWED.get(review.state, "reviewed") for review in made}
    known = given | dict.fromkeys(pull.reviewer_ids, "is asked for a review")
    author = pulls.issue_of(hub, pull).user_id
    return [Reviewer(hub.store.get(User, id).login, state) for id, state in known.items() if id != author]


_ANCHORS = {"": "pullrequestreview-", "comments": "issuecomment-", "issues": "issue-", "pulls/comments": "discussion_r"}
"""Subject of a post → what its anchor begins with."""


def _post(
    hub: Hub,
    where: str,
    id: int,
    user_id: int,
    body: str | None,
    at: str,
    subject: str = "",
    note: str = "",
    edited: str = "",
) -> Post:
    author = hub.store.get(User, user_id)
    given = [found.content for found in hub.store.find(Reaction, subject=subject, subject_id=id)] if subject else []
    return Post(
        anchor=f"{_ANCHORS[subject]}{id}",
        author=author.login.removesuffix("[bot]"),
        bot=author.type == "Bot",
        html=render(body, where) if body else "<p><em>No description provided.</em></p>",
        at=at,
        note=note,
        edited=edited not in ("", at),
        reactions=tuple((EMOJI[content], given.count(content)) for content in dict.fromkeys(given)),
    )


# ── pull requests ────────────────────────────────────────────────────────────────────────────────────────────────


def checks(hub: Hub, repository: Repository, sha: str) -> list[Check]:
    """The newest run of each name on a commit."""
    found = hub.store.find(CheckRun, repository_id=repository.id, head_sha=sha)
    return [check(run) for run in {(run.app_id, run.name): run for run in found}.values()]


def check(run: CheckRun) -> Check:
    words = {"success": "success", "failure": "failure", "timed_out": "failure", "action_required": "failure"}
    if run.status != "completed":
        kind, word = "running", run.status.replace("_", " ")
    else:
        kind, word = words.get(run.conclusion or "", "neutral"), (run.conclusion or "").replace("_", " ")
    texts = "\n\n".join(part for part in (run.summary, run.text) if part)
    return Check(run.id, run.name, kind, word, run.title or "", render(texts) if texts else "")


def commits(hub: Hub, pull: Pull) -> list[CommitLine]:
    repository = hub.store.get(Repository, pull.repository_id)
    return [commit(hub, repository, sha) for sha in shapes.commits_of(hub, pull)]


def commit(hub: Hub, repository: Repository, sha: str) -> CommitLine:
    found = hub.git(repository).commit(sha)
    return CommitLine(
        sha=sha,
        subject=sound(found.message).split("\n", 1)[0],
        author=sound(found.author.name),
        at=found.author.date,
        verified=bool(verification(hub, repository, sha)["verified"]),
    )


def files(found: Iterable[FileDiff]) -> list[File]:
    return [
        File(
            path=sound(file.path),
            previous=sound(file.previous) if file.previous else None,
            status=file.status,
            additions=file.additions,
            deletions=file.deletions,
            rows=tuple(itertools.islice(rows(file.patch or ""), LINES)),
            cut=(file.patch or "").count("\n") > LINES,
        )
        for file in found
    ]


def mergeable(hub: Hub, pull: Pull) -> bool:
    issue = pulls.issue_of(hub, pull)
    return issue.state == "open" and not pull.draft and bool(shapes.pull(hub, pull)["mergeable"])
