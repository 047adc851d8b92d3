"""The few fields of GitHub's answers that we use, as frozen values. Text fields are untrusted; null text is empty."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _text(value: object) -> object:
    return "" if value is None else value


Text = Annotated[str, BeforeValidator(_text)]


class Seen(BaseModel):
    """Base of everything read from GitHub: unknown fields are ignored, since GitHub adds new ones."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Account(Seen):
    """A person, bot or organisation."""

    login: str
    id: int
    type: str = "User"

    @property
    def is_bot(self) -> bool:
        return self.type == "Bot"


GHOST = Account(login="ghost", id=0)
"""Stands for a deleted account, which GitHub shows as null."""
Author = Annotated[Account, BeforeValidator(lambda value: GHOST if value is None else value)]


class RepositoryFacts(Seen):
    id: int
    full_name: str
    default_branch: str
    archived: bool = False
    disabled: bool = False
    clone_url: str


class Permission(Seen):
    """What a person may do, now. ``level`` is one of ``admin``, ``write``, ``read``, ``none``."""

    level: str = Field(alias="permission")
    user: Account | None = None

    @property
    def may_write(self) -> bool:
        return self.level in ("admin", "write")


class AppFacts(Seen):
    """The App as its own settings page has it."""

    id: int
    slug: str = ""
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()


class Issue(Seen):
    number: int
    title: Text
    body: Text = ""
    state: str
    locked: bool = False
    user: Author = GHOST
    pull_request: dict[str, Any] | None = Field(None, repr=False)

    @property
    def is_pull(self) -> bool:
        return self.pull_request is not None

    @property
    def is_merged(self) -> bool:
        return bool(self.pull_request and self.pull_request.get("merged_at"))


class MadeBy(Seen):
    """The App through which something was written."""

    id: int


class Comment(Seen):
    id: int
    body: Text = ""
    user: Author = GHOST
    author_association: str = "NONE"
    created_at: str
    app: MadeBy | None = Field(None, alias="performed_via_github_app")


class LineComment(Comment):
    """A comment on lines of a pull request's difference, or on a whole file of it."""

    path: str
    diff_hunk: Text = ""
    """The part of the difference down to the line."""
    line: int | None = None
    """The last line that it is about, in the newest version; ``None`` where it is about the file, or is outdated."""
    start_line: int | None = None
    original_line: int | None = None
    """In the version that it was written on."""
    side: str | None = None
    """``LEFT``: of the state before the change."""
    review_id: int | None = Field(None, alias="pull_request_review_id")
    thread: int | None = Field(None, alias="in_reply_to_id")
    """The first comment of the conversation that this one goes on with."""

    @property
    def first(self) -> int:
        """The comment that its conversation began with."""
        return self.thread or self.id


class _Repo(Seen):
    id: int
    full_name: str


class Side(Seen):
    """Head or base of a pull request. ``repo`` is None when the fork was deleted."""

    ref: str
    sha: str
    repo: _Repo | None = None


class Pull(Seen):
    number: int
    node_id: str = ""
    title: Text
    body: Text = ""
    state: str
    merged_at: str | None = None
    draft: bool = False
    user: Author = GHOST
    head: Side
    base: Side

    def from_fork(self, repository_id: int) -> bool:
        """Whether the head lives elsewhere, or nowhere any more: then it can't be pushed to."""
        return self.head.repo is None or self.head.repo.id != repository_id


class Commit(Seen):
    """A commit of the Git database. ``tree`` and ``parents`` are ids."""

    sha: str
    tree: Annotated[str, BeforeValidator(lambda v: v["sha"] if isinstance(v, dict) else v)]
    parents: Annotated[
        tuple[str, ...], BeforeValidator(lambda v: tuple(p["sha"] if isinstance(p, dict) else p for p in v))
    ]
    message: Text = ""


class TreeEntry(Seen):
    path: str
    mode: str
    type: str
    sha: str


class Tree(Seen):
    sha: str
    entries: tuple[TreeEntry, ...] = Field(alias="tree")
    truncated: bool = False


def _flat(value: object) -> object:
    """A commit as the repository shows it, in the form of the Git database."""
    return {**value["commit"], **value} if isinstance(value, dict) and "commit" in value else value


class Compared(Seen):
    """``head`` against ``base``: ``status`` is ``identical``, ``ahead``, ``behind`` or ``diverged``."""

    status: str
    commits: tuple[Annotated[Commit, BeforeValidator(_flat)], ...] = ()
    """The first hundred commits that ``head`` has and ``base`` has not, oldest first."""
    merge_base: Annotated[Commit, BeforeValidator(_flat)] | None = Field(None, validation_alias="merge_base_commit")
    """Where ``head`` left ``base``."""


class CheckState(Seen):
    id: int
    external_id: Text = ""
    output: dict[str, Any] = Field(default_factory=dict, repr=False)

    @property
    def annotations(self) -> int:
        return int(self.output.get("annotations_count") or 0)


class Installation(Seen):
    id: int
    permissions: dict[str, str] = Field(default_factory=dict)


class Token(Seen):
    """An installation token. Never shown."""

    value: str = Field(alias="token", repr=False)
    expires_at: str
    repositories: tuple[_Repo, ...] = ()


class WorkflowState(Seen):
    """Where a run of a workflow stands."""

    status: str | None = None
    conclusion: str | None = None
    html_url: str = ""

    @property
    def over(self) -> bool:
        return self.status == "completed"
