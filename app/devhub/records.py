"""What the hub keeps: one frozen record a row. Times are ``2030-01-31T12:00:00Z``; ids are given by the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of every record. ``FIRST_ID`` differs by kind, so that an id of one kind is never right for another."""

    FIRST_ID: ClassVar[int] = 1

    id: int = 0


@dataclass(frozen=True, kw_only=True)
class User(Record):
    """A person, an organisation, or the bot account of an App."""

    FIRST_ID: ClassVar[int] = 1001

    login: str
    type: str = "User"
    name: str | None = None
    email: str | None = None
    created_at: str


@dataclass(frozen=True, kw_only=True)
class App(Record):
    FIRST_ID: ClassVar[int] = 301

    slug: str
    name: str
    owner_id: int
    bot_id: int
    public_key: str
    webhook_url: str
    webhook_secret: str
    permissions: Mapping[str, str]
    events: tuple[str, ...]
    created_at: str


@dataclass(frozen=True, kw_only=True)
class Installation(Record):
    FIRST_ID: ClassVar[int] = 40_001

    app_id: int
    account_id: int
    permissions: Mapping[str, str]
    events: tuple[str, ...]
    repository_ids: tuple[int, ...] | None = None
    """``None``: all repositories of the account."""
    suspended_at: str | None = None
    created_at: str


@dataclass(frozen=True, kw_only=True)
class Token(Record):
    """A token of an installation or of a person; kept as SHA-256 of the token."""

    digest: str
    installation_id: int | None = None
    user_id: int | None = None
    permissions: Mapping[str, str]
    repository_ids: tuple[int, ...] | None = None
    expires_at: float | None = None
    """Seconds since the epoch; ``None``: never."""


@dataclass(frozen=True, kw_only=True)
class Repository(Record):
    FIRST_ID: ClassVar[int] = 700_001

    owner_id: int
    name: str
    description: str | None = None
    private: bool = True
    default_branch: str = "main"
    archived: bool = False
    fork_of_id: int | None = None
    protected: tuple[str, ...] = ()
    """Branches that only people with admin rights may move."""
    created_at: str
    pushed_at: str


@dataclass(frozen=True, kw_only=True)
class FormerName(Record):
    """What a repository was called before; leads to it as long as no other has the name."""

    full_name: str
    """Lower case."""
    repository_id: int


@dataclass(frozen=True, kw_only=True)
class FormerIssue(Record):
    """An issue that was deleted, or transferred to another repository."""

    repository_id: int
    number: int
    now_id: int | None = None
    """The issue that it is now; ``None``: deleted."""


@dataclass(frozen=True, kw_only=True)
class Collaborator(Record):
    repository_id: int
    user_id: int
    permission: str
    """One of ``read``, ``triage``, ``write``, ``maintain``, ``admin``."""


@dataclass(frozen=True, kw_only=True)
class Label(Record):
    FIRST_ID: ClassVar[int] = 50_001

    repository_id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class Issue(Record):
    """An issue, or the issue side of a pull request."""

    FIRST_ID: ClassVar[int] = 2_000_001

    repository_id: int
    number: int
    user_id: int
    app_id: int | None = None
    title: str
    body: str | None = None
    state: str = "open"
    state_reason: str | None = None
    is_pull: bool = False
    locked: bool = False
    lock_reason: str | None = None
    label_ids: tuple[int, ...] = ()
    assignee_ids: tuple[int, ...] = ()
    created_at: str
    updated_at: str
    closed_at: str | None = None
    closed_by_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Comment(Record):
    FIRST_ID: ClassVar[int] = 3_000_001

    repository_id: int
    issue_id: int
    user_id: int
    app_id: int | None = None
    body: str
    created_at: str
    updated_at: str


@dataclass(frozen=True, kw_only=True)
class Reaction(Record):
    FIRST_ID: ClassVar[int] = 80_001

    subject: str
    """``issues``, ``comments`` or ``pulls/comments``: as in the path."""
    subject_id: int
    user_id: int
    content: str
    created_at: str


@dataclass(frozen=True, kw_only=True)
class Pull(Record):
    """The pull side of a pull request; title, body, state and labels are on its issue."""

    FIRST_ID: ClassVar[int] = 4_000_001

    repository_id: int
    issue_id: int
    number: int
    head_repository_id: int | None
    """``None``: the fork was deleted."""
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    maintainer_can_modify: bool = False
    reviewer_ids: tuple[int, ...] = ()
    """Who has been asked for a review and has not given it."""
    merged_at: str | None = None
    merged_by_id: int | None = None
    merge_commit_sha: str | None = None


@dataclass(frozen=True, kw_only=True)
class Review(Record):
    FIRST_ID: ClassVar[int] = 5_000_001

    pull_id: int
    user_id: int
    body: str
    state: str
    commit_id: str
    submitted_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReviewComment(Record):
    FIRST_ID: ClassVar[int] = 6_000_001

    repository_id: int
    pull_id: int
    review_id: int
    user_id: int
    app_id: int | None = None
    path: str
    line: int | None = None
    side: str = "RIGHT"
    start_line: int | None = None
    start_side: str | None = None
    subject_type: str = "line"
    commit_id: str
    diff_hunk: str
    position: int | None = None
    """Lines below the file's first ``@@``."""
    in_reply_to_id: int | None = None
    body: str
    created_at: str
    updated_at: str


@dataclass(frozen=True, kw_only=True)
class CheckRun(Record):
    FIRST_ID: ClassVar[int] = 8_000_001

    repository_id: int
    app_id: int
    head_sha: str
    name: str
    status: str = "queued"
    conclusion: str | None = None
    external_id: str = ""
    details_url: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: tuple[Mapping[str, Any], ...] = ()
    actions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Status(Record):
    FIRST_ID: ClassVar[int] = 90_001

    repository_id: int
    sha: str
    state: str
    context: str = "default"
    description: str | None = None
    target_url: str | None = None
    user_id: int
    created_at: str


@dataclass(frozen=True, kw_only=True)
class SignedCommit(Record):
    """A commit that GitHub made itself, for an App, and therefore signed."""

    repository_id: int
    sha: str
    at: str


@dataclass(frozen=True, kw_only=True)
class Workflow(Record):
    FIRST_ID: ClassVar[int] = 110_001

    repository_id: int
    path: str
    created_at: str


@dataclass(frozen=True, kw_only=True)
class WorkflowRun(Record):
    FIRST_ID: ClassVar[int] = 9_000_001

    repository_id: int
    workflow_id: int
    run_number: int
    event: str
    ref: str
    head_sha: str
    inputs: Mapping[str, Any]
    status: str = "queued"
    conclusion: str | None = None
    user_id: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, kw_only=True)
class Artifact(Record):
    FIRST_ID: ClassVar[int] = 120_001

    repository_id: int
    run_id: int
    name: str
    content: bytes
    """The zip archive."""
    digest: str
    created_at: str
    expires_at: str


@dataclass(frozen=True, kw_only=True)
class Delivery(Record):
    """One webhook request: waiting (``delivered_at`` is ``None``) or made. A redelivery is a new record, same GUID."""

    FIRST_ID: ClassVar[int] = 10_000_001

    app_id: int
    guid: str
    event: str
    action: str | None = None
    installation_id: int | None = None
    repository_id: int | None = None
    payload: bytes
    redelivery: bool = False
    url: str = ""
    status: str = ""
    status_code: int = 0
    request_headers: Mapping[str, str]
    response_headers: Mapping[str, str]
    response_body: str = ""
    duration: float = 0.0
    delivered_at: str | None = None


KINDS: tuple[type[Record], ...] = (
    User,
    App,
    Installation,
    Token,
    Repository,
    FormerName,
    FormerIssue,
    Collaborator,
    Label,
    Issue,
    Comment,
    Reaction,
    Pull,
    Review,
    ReviewComment,
    CheckRun,
    Status,
    SignedCommit,
    Workflow,
    WorkflowRun,
    Artifact,
    Delivery,
)
