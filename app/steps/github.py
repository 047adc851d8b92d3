"""The steps of a job on GitHub, in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from agent.errors import UserError
from agent.types import Outcome
from app import report
from app.github import Access, Issue, NotFound
from app.jobs.types import Ending, Job, Word
from app.jobs.workflow import Work
from app.report import Closing, Progress
from app.report.words import SHOWN_BY_A_TEST
from app.steps.answering import answer
from app.steps.approving import acknowledge_tests, take_back
from app.steps.asked import asked_for
from app.steps.briefing import Briefing
from app.steps.files import ACCOUNT, PATCH
from app.steps.publishing import PUBLISHED, Publishing
from app.steps.running import Runs
from app.steps.site import Site
from app.steps.undoing import take_back_last


class GitHubSteps:
    """See ``app.jobs.workflow.Steps`` for when each is called."""

    def __init__(self, site: Site, runs: Runs) -> None:
        self._site = site
        self._runs = runs
        self._briefing = Briefing(site)
        self._publishing = Publishing(site, runs)

    async def authorise(self, work: Work) -> Ending | None:
        """The requester's live permission must be write or more; anything else ends the job, in silence where there is
        no status comment yet."""
        command = work.job.command
        repository = self._site.repository(command)
        facts = await repository.facts()
        if facts.archived or facts.disabled:
            return _not_allowed(work, "the repository is archived")
        permission = await repository.permission(command.requester)
        if not permission.may_write:
            return _not_allowed(work, f"{command.requester} has the permission {permission.level!r}; write is needed")
        if permission.user is not None and permission.user.id != command.requester_id:
            return _not_allowed(work, f"{command.requester} is another account now")
        return None

    async def acknowledge(self, work: Work) -> Ending | None:
        command = work.job.command
        issue = await self._site.repository(command).issue(command.number)
        if issue.locked:
            return _silent("the conversation is locked")
        if issue.state != "open":
            return _over(issue)
        await work.check()
        self._runs.get_ready(work)
        on_lines = command.line_comment_id is not None
        comment_id = command.line_comment_id if on_lines else command.comment_id
        if comment_id is not None:
            with suppress(NotFound):  # who deletes a command tidies up; who means to stop says so
                await self._site.repository(command).react("eyes", comment_id, on_lines=on_lines)
        await self._site.tell(work, self._site.facts(work.job, title=issue.title), Progress())
        await self._catch_up(work)
        return None

    async def _catch_up(self, work: Work) -> None:
        """Tell the endings of earlier jobs that GitHub did not let us tell: their comments say that work goes on."""
        repository = self._site.repository(work.job.command, Access.TELL)
        for job in await work.of_issue():
            if job.ending is None or not job.ending.untold or job.artefacts.comment_id is None:
                continue
            closing = await asyncio.to_thread(self._closing, job, job.ending)
            text = report.status_comment(self._site.facts(job, title=""), Progress(), closing)
            await work.check()
            with suppress(UserError):
                await repository.edit_comment(job.artefacts.comment_id, text)
                await work.note_told(job)

    async def prepare(self, work: Work) -> Ending | None:
        brief = self._site.files.brief(work.job.id)
        if brief is None:
            if work.job.command.word is Word.APPROVE and work.job.command.is_pull:
                acknowledged = await acknowledge_tests(self._site, work)
                if acknowledged is not None:
                    return acknowledged
            asked = asked_for(work.job, await work.of_issue())
            if isinstance(asked, Ending):
                return asked
            brief = await self._briefing.make(work, asked)
        for sha in filter(None, (brief.base_sha, brief.rules_sha, brief.since_sha)):
            await self._site.fetch(work, sha)
        await work.save(artefacts=work.job.artefacts.model_copy(update={"base_sha": brief.base_sha}))
        return None

    async def run(self, work: Work) -> Ending | None:
        brief = self._site.files.brief(work.job.id)
        assert brief is not None, "the step before wrote it"
        result = await self._runs.run(work, brief, number=1)
        if result.outcome is Outcome.PLANNED:
            await work.save(artefacts=work.job.artefacts.model_copy(update={"plan": result.plan}))
        if result.outcome in PUBLISHED and result.change_set:
            return None
        return Ending(outcome=result.outcome, reason=result.reason, next_step=result.next_step)

    async def take_back(self, work: Work) -> Ending | None:
        return await take_back(self._site, work)

    async def undo(self, work: Work) -> Ending | None:
        return await take_back_last(self._site, work)

    async def publish(self, work: Work) -> Ending | None:
        return await self._publishing.publish(work)

    async def close_out(self, work: Work, ending: Ending) -> None:
        """Tell the ending in the one status comment, and in short where it was asked on lines."""
        if ending.outcome in SHOWN_BY_A_TEST:
            await self._publishing.keep_patch(work)
        brief = self._site.files.brief(work.job.id)
        facts = self._site.facts(work.job, title=brief.task.title if brief else "", brief=brief)
        closing = await asyncio.to_thread(self._closing, work.job, ending)
        # Who asked on a line, and was told nothing so far, is answered there alone.
        on_a_line = work.job.command.line_comment_id is not None and work.job.artefacts.comment_id is None
        if not (on_a_line and await answer(self._site, work, facts, closing)):
            await self._site.tell(work, facts, self._runs.ended(work.job.id), closing)
            await answer(self._site, work, facts, closing)

    def let_go(self, work: Work) -> None:
        self._runs.let_go(work)

    def _closing(self, job: Job, ending: Ending) -> Closing:
        artefacts, files = job.artefacts, self._site.files
        told = Closing(
            outcome=ending.outcome,
            reason=ending.reason,
            next_step=ending.next_step,
            pull_number=artefacts.pull_number,
            draft=artefacts.draft,
            kept_branch=artefacts.branch or "" if artefacts.pull_number is None else "",
            patch=files.text(job.id, PATCH),
            account=files.text(job.id, ACCOUNT),
        )
        result = files.told_result(job.id)
        if result is None:
            return told
        measured = Closing.from_result(result)
        reason = measured.reason if ending.reason == result.reason else ending.reason
        told = replace(told, reason=reason, answer=measured.answer, plan=measured.plan, places=measured.places)
        return replace(told, verdict=measured.verdict, proven=measured.proven, cost=measured.cost)


def _over(issue: Issue) -> Ending:
    instead = "Open an issue for what is still to be done." if issue.is_merged else "Reopen it, then ask again."
    how = "merged" if issue.is_merged else "closed"
    return Ending(outcome=Outcome.BLOCKED, reason=f"Nothing was begun: it is {how}.", next_step=instead)


def _not_allowed(work: Work, reason: str) -> Ending:
    if work.job.artefacts.comment_id is None:
        return _silent(reason)
    return Ending(
        outcome=Outcome.BLOCKED,
        reason=f"Nothing was published: {reason}.",
        next_step="Whoever may write there can comment `/agent retry`.",
    )


def _silent(reason: str) -> Ending:
    return Ending(outcome=Outcome.BLOCKED, reason=f"Not started: {reason}.", silent=True)
