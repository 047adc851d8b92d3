"""Makes the brief of a job: what it works on, fixed when it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from agent import config
from agent.git import Git
from agent.tree import BaseTree
from agent.types import ChangeSet, Mode, Plan, RunResult, Task
from app.github import Issue, NotFound, Repository
from app.jobs.types import Command, Job, Word
from app.jobs.workflow import Work
from app.report.facts import PULL_MARK
from app.steps.asked import Asked, joined, of_our_pull, standing
from app.steps.files import Brief
from app.steps.remarks import is_heard, remarks, told
from app.steps.site import Site
from app.steps.visible import visible
from app.webhooks.events import issue_of

_MODES: Mapping[Word, Mode] = {Word.ASK: "ask", Word.PLAN: "plan", Word.REVISE: "plan"}
"""The rest is work."""


@dataclass(frozen=True)
class _Start:
    """What a job begins with; ``None`` for what is taken as it is now."""

    base_sha: str | None = None
    plan: Plan | None = None
    kept: ChangeSet | None = None
    task: Task | None = None


class Briefing:
    """Reads the issue, and what earlier jobs have left."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def make(self, work: Work, asked: Asked) -> Brief:
        command = work.job.command
        repository = self._site.repository(command)
        issue = await repository.issue(command.number)
        request = joined(visible(asked.request), await _remarks(repository, asked.command))
        start = self._start(asked, request, issue)
        task = start.task or await self._task(repository, work, issue, request)
        if issue.is_pull:
            pull = await repository.pull(command.number)
            base_ref, ref = pull.base.ref, f"refs/pull/{pull.number}/head"
            head_branch, from_fork = pull.head.ref, pull.from_fork(repository.id)
        else:
            base_ref = (await repository.facts()).default_branch
            ref, head_branch, from_fork = f"refs/heads/{base_ref}", None, False
        base_sha = await self._site.fetch(work, start.base_sha or ref)
        rules_sha = await self._site.fetch(work, f"refs/heads/{base_ref}") if issue.is_pull else None
        mode = _MODES.get(asked.word, "work")
        own = await asyncio.to_thread(own_rules, self._site, work, rules_sha or base_sha)
        if mode == "work" and start.plan is None and own.plan.approval:
            mode = "plan"
        brief = Brief(
            task=task,
            base_ref=base_ref,
            base_sha=base_sha,
            rules_sha=rules_sha,
            since_sha=await self._left_at(work, repository, rules_sha, base_sha) if rules_sha else None,
            head_branch=head_branch,
            from_fork=from_fork,
            mode=mode,
            plan=start.plan,
            kept=start.kept,
        )
        self._site.files.keep_brief(work.job.id, brief)
        return brief

    async def _left_at(self, work: Work, repository: Repository, rules_sha: str, head_sha: str) -> str | None:
        """Where a pull request left its base branch; ``None`` where they have nothing in common."""
        try:
            left = (await repository.git.compare(rules_sha, head_sha)).merge_base
        except NotFound:
            return None
        return None if left is None else await self._site.fetch(work, left.sha)

    def _start(self, asked: Asked, request: str, issue: Issue) -> _Start:
        """What earlier jobs have left to begin with."""
        # Work on a pull request stands in its branch already.
        left = self._left(asked.broken_off) if asked.broken_off and not issue.is_pull else None
        if left is not None:
            return _Start(left.change_set.base_sha, left.plan, left.change_set)
        planned = asked.planned
        if planned is None:
            return _Start()
        if asked.word is Word.REVISE:
            return _Start(plan=planned.artefacts.plan)
        # What was approved is the plan of one commit for one text: the branch may have moved on, and the issue's author
        # may have changed the text since.
        brief = self._site.files.brief(planned.id)
        task = None if brief is None else _with_request(brief.task, request)
        return _Start(planned.artefacts.base_sha, planned.artefacts.plan, task=task)

    def _left(self, job: Job) -> RunResult | None:
        """The unfinished work of an earlier job, when this machine has it."""
        result = self._site.files.result(job.id)
        return result if result and result.plan and result.change_set else None

    async def _task(self, repository: Repository, work: Work, issue: Issue, request: str) -> Task:
        """The issue as it was when somebody asked, and what people who may command us said before.

        Its author may be anybody, and could change it between the label and now: nobody has seen that yet.
        """
        command = work.job.command
        delivery = await asyncio.to_thread(self._site.store.delivery, work.job.delivery_id)
        then = issue_of(delivery.excerpt) if delivery else None
        asked = datetime.fromtimestamp(work.job.created_at, UTC)
        comments = [
            comment
            for comment in await repository.comments(command.number)
            if comment.id == command.comment_id
            or (is_heard(comment) and datetime.fromisoformat(comment.created_at) <= asked)
        ]
        said = [text for comment in comments if (text := told(comment))]
        task = Task(
            title=then.title if then and then.title else issue.title,
            body=(then.body or "") if then and then.title else issue.body,
            request=request,
            comments=tuple(said[-20:]),
            number=issue.number,
        )
        if issue.is_pull and issue.user.is_bot and task.body.startswith(PULL_MARK):
            return of_our_pull(task, await asyncio.to_thread(self._published, work))
        return task.model_copy(update={"body": visible(task.body)})

    def _published(self, work: Work) -> list[tuple[Task, str]]:
        """Task and summary of each job that published to the pull request, oldest first, as far as this machine has
        them."""
        files, command = self._site.files, work.job.command
        jobs = reversed(standing(self._site.store.published(command.repository_id, command.number)))
        found = [(files.brief(job.id), files.result(job.id)) for job in jobs]
        return [(brief.task, result.summary) for brief, result in found if brief and result]


def own_rules(site: Site, work: Work, sha: str) -> config.RepositoryConfig:
    """What the repository says about itself at a commit."""
    with Git(site.files.git_dir(work.job.id)) as git:
        return config.of_tree(BaseTree.load(git, sha))


def _with_request(task: Task, request: str) -> Task:
    return task.model_copy(update={"request": joined(task.request, request)})


async def _remarks(repository: Repository, command: Command) -> str:
    """What was said on lines of the pull request together with ``command``."""
    if command.review_id is None and command.line_comment_id is None:
        return ""
    return remarks(command, await repository.line_comments(command.number))
