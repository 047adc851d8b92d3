"""Where jobs do their work: what all steps share."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.git import Git
from agent.git_errors import AccessDenied
from app import report
from app.github import Access, GitHubApp, Repository
from app.jobs.store import JobStore
from app.jobs.types import Command, Job
from app.jobs.workflow import Work
from app.report import Closing, JobFacts, Progress, status
from app.settings import Settings
from app.steps.files import Brief, Files

_CHECKOUT_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class Site:
    """GitHub, the database and the disk, as the steps of a job use them."""

    settings: Settings
    github: GitHubApp
    store: JobStore
    files: Files

    def repository(self, command: Command, access: Access = Access.WRITE) -> Repository:
        return self.github.repository(command.installation_id, command.repository_id, access)

    async def publishing(self, command: Command) -> tuple[Repository, bool]:
        """The repository with all that may be written to it; whether workflows are part of that."""
        granted = await self.github.installation(command.installation_id, command.repository_id)
        workflows = granted.permissions.get("workflows") == "write"
        return self.repository(command, Access.WRITE_WORKFLOWS if workflows else Access.WRITE), workflows

    def facts(self, job: Job, *, title: str, brief: Brief | None = None) -> JobFacts:
        command = job.command
        return JobFacts(
            job_id=job.id,
            repository=self.github.name_of(command.repository_id) or command.repository,
            number=command.number,
            is_pull=command.is_pull,
            title=title,
            requester=command.requester,
            command=command.word,
            web_url=self.settings.github.web,
            base_ref=brief.base_ref if brief else "",
            base_sha=brief.base_sha if brief else "",
            model=self.settings.openai_model,
        )

    async def fetch(self, work: Work, ref: str) -> str:
        """Bring ``ref`` into the job's own bare repository. The token never gets near a run."""
        try:
            return await self._fetched(work, ref, renew=False)
        except AccessDenied:  # a token that ended early is worth one new one
            return await self._fetched(work, ref, renew=True)

    async def _fetched(self, work: Work, ref: str, *, renew: bool) -> str:
        command = work.job.command
        access = await self.github.git_access(command.installation_id, command.repository_id, renew=renew)
        basic = base64.b64encode(f"{access.username}:{access.token}".encode()).decode()

        def fetch() -> str:
            with Git.init(self.files.git_dir(work.job.id)) as git:
                return git.fetch(
                    access.url,
                    ref,
                    header=f"Authorization: Basic {basic}",
                    max_bytes=_CHECKOUT_BYTES,
                    cancelled=work.cancelled,
                )

        return await asyncio.to_thread(fetch)

    async def tell(self, work: Work, facts: JobFacts, progress: Progress, closing: Closing | None = None) -> None:
        """Write the status comment, which is found again by its stored id, else by its marker."""
        command = work.job.command
        await work.check()
        # Where the App lacks another permission, that is what has to be told.
        comment_id = await self.repository(command, Access.TELL).upsert_comment(
            command.number,
            status.marker(facts),
            report.status_comment(facts, progress, closing),
            known_id=work.job.artefacts.comment_id,
            since=datetime.fromtimestamp(work.job.created_at - 3600, UTC),
        )
        if comment_id != work.job.artefacts.comment_id:
            await work.save(artefacts=work.job.artefacts.model_copy(update={"comment_id": comment_id}))
