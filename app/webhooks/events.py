"""The few fields of GitHub's deliveries that we use.

Tolerant of everything else: GitHub adds fields at any time, and a full model of its payloads refuses about a third of
its own examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints

from app.ascii_json import encode

Id = Annotated[int, Strict(), Field(ge=1, lt=2**63)]
Text = Annotated[str, Strict(), StringConstraints(max_length=1_000_000)]
Name = Annotated[str, Strict(), StringConstraints(min_length=1, max_length=300)]
Flag = Annotated[bool, Strict()]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Account(_Part):
    login: Name
    id: Id
    type: Name = "User"


class Repository(_Part):
    id: Id
    full_name: Name
    archived: Flag = False
    disabled: Flag = False


class Installation(_Part):
    id: Id


class Label(_Part):
    name: Name


class Issue(_Part):
    number: Id
    title: Text = ""
    body: Text | None = None
    state: Name
    locked: Flag = False
    pull_request: dict[str, object] | None = None
    """Present when the issue is a pull request."""

    @property
    def is_pull(self) -> bool:
        return self.pull_request is not None


class App(_Part):
    id: Id


class Comment(_Part):
    id: Id
    body: Text
    user: Account
    performed_via_github_app: App | None = None


class Envelope(_Part):
    """What every delivery that can become a command has."""

    action: Name
    sender: Account
    repository: Repository
    issue: Issue
    installation: Installation | None = None

    @property
    def subject(self) -> Issue:
        """What the delivery is about."""
        return self.issue


_KEPT = tuple(name for name in Issue.model_fields if name != "pull_request")


class _AboutIssue(_Part):
    issue: Issue


def excerpt(payload: object) -> bytes:
    """What is kept of a delivery: the issue or pull request as it stood when it was sent. Its author may have changed
    it since."""
    issue = payload.get("issue", payload.get("pull_request")) if isinstance(payload, Mapping) else None
    kept = {name: issue[name] for name in _KEPT if name in issue} if isinstance(issue, Mapping) else None
    return encode({"issue": kept})


def issue_of(excerpt: bytes) -> Issue:
    return _AboutIssue.model_validate_json(excerpt).issue


class LabelChanged(Envelope):
    label: Label


class CommentCreated(Envelope):
    comment: Comment


class Pull(_Part):
    number: Id
    state: Name
    locked: Flag = False
    draft: Flag = False
    body: Text | None = None
    user: Account | None = None
    """``None`` where the account is gone."""
    is_pull: ClassVar = True


class PullChanged(_Part):
    """Something has happened to a pull request: a commit, a review, its end."""

    sender: Account
    repository: Repository
    pull_request: Pull
    installation: Installation | None = None

    @property
    def subject(self) -> Pull:
        """What the delivery is about."""
        return self.pull_request


class PullLabelChanged(PullChanged):
    label: Label


class Review(_Part):
    id: Id
    body: Text | None = None
    state: Name
    user: Account | None = None


class ReviewSubmitted(PullChanged):
    review: Review


class LineCommented(PullChanged):
    """Somebody has commented on lines of a pull request, in a review or without one."""

    comment: Comment
