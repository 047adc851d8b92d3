"""What a report needs to know beside the run's result."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from app.addresses import PUBLIC

PRODUCT = "Graftsmith"
PULL_MARK = "<!-- graftsmith:pull "
"""How the description of a pull request of ours begins, unseen."""


@dataclass(frozen=True)
class JobFacts:
    """One job, as the reader knows it. ``title`` and ``requester`` are untrusted text."""

    job_id: str
    repository: str
    """``owner/name``."""
    number: int
    is_pull: bool = False
    title: str = ""
    requester: str = ""
    command: str = "fix"
    web_url: str = PUBLIC.web
    base_ref: str = ""
    base_sha: str = ""
    model: str = ""

    @property
    def repository_url(self) -> str:
        return f"{self.web_url}/{quote(self.repository)}"

    @property
    def links(self) -> tuple[str, ...]:
        """Where others' text may link to: code of this very repository, never its issues (closing words)."""
        return tuple(f"{self.repository_url}/{kind}/" for kind in ("blob", "tree", "commit", "compare"))

    def comment_url(self, comment_id: int) -> str:
        """A comment on the issue or pull request itself."""
        kind = "pull" if self.is_pull else "issues"
        return f"{self.repository_url}/{kind}/{self.number}#issuecomment-{comment_id}"

    def blob_url(self, path: str, ref: str) -> str:
        return f"{self.repository_url}/blob/{quote(ref)}/{quote(path, errors='surrogateescape')}"


@dataclass(frozen=True)
class LeftOut:
    """A change that was not published, and why. ``patch`` is a unified diff."""

    path: str
    reason: str
    patch: str = ""


@dataclass(frozen=True)
class Remark:
    """Something in the published change that a reviewer should look at."""

    path: str
    detail: str


@dataclass(frozen=True)
class Review:
    """What the checks before publishing found."""

    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[Remark, ...] = ()
    deleted: frozenset[str] = field(default_factory=frozenset)
    added: frozenset[str] = field(default_factory=frozenset)


NO_FINDINGS = Review()
