"""What jobs keep on disk beside their runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.files import replace_file
from agent.types import ChangeSet, Mode, Plan, RunResult, Task, Value
from app.places import BRIEF, Places
from app.runners.local import result_of

PATCH, ACCOUNT = "change.patch", "account.md"
_RESULT = "result.json"
"""Of a change that was tested again."""


class Brief(Value):
    """What a job works on, fixed when it starts, so that a repeated run sees the same."""

    task: Task
    base_ref: str
    """Branch that the pull request will be made against, or whose head the work is added to."""
    base_sha: str
    rules_sha: str | None = None
    """See ``RunSpec.rules_sha``."""
    since_sha: str | None = None
    """See ``RunSpec.since_sha``."""
    head_branch: str | None = None
    """The pull request's own branch, when the job works on one."""
    from_fork: bool = False
    mode: Mode = "work"
    plan: Plan | None = None
    """See ``RunSpec.plan``."""
    kept: ChangeSet | None = None
    """See ``RunSpec.kept``."""


@dataclass(frozen=True)
class Files(Places):
    """The values in the folders of jobs; fields that a later version has added are passed over."""

    def git_dir(self, job_id: str) -> Path:
        return self.job(job_id) / "repository.git"

    def brief(self, job_id: str) -> Brief | None:
        content = self._content(self.job(job_id) / BRIEF)
        return None if content is None else Brief.model_validate_json(content, extra="ignore")

    def keep_brief(self, job_id: str, brief: Brief) -> None:
        replace_file(self.job(job_id) / BRIEF, brief.model_dump_json().encode())

    def result(self, job_id: str) -> RunResult | None:
        """Of the job's own run; those after it only measure the same change again."""
        return result_of(self.run(job_id, 1))

    def told_result(self, job_id: str) -> RunResult | None:
        """What the ending speaks of: the last measuring, where the branch moved and the change was tested again."""
        content = self._content(self.job(job_id) / _RESULT)
        return self.result(job_id) if content is None else RunResult.model_validate_json(content, extra="ignore")

    def keep_told_result(self, job_id: str, result: RunResult) -> None:
        replace_file(self.job(job_id) / _RESULT, result.model_dump_json().encode())

    def text(self, job_id: str, name: str) -> str:
        """``PATCH`` or ``ACCOUNT``; empty where there is none."""
        return (self._content(self.job(job_id) / name) or b"").decode(errors="replace")

    def keep_text(self, job_id: str, name: str, text: str) -> None:
        replace_file(self.job(job_id) / name, text.encode("utf-8", "surrogateescape"))

    @staticmethod
    def _content(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
