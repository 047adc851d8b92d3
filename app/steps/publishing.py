"""Publishes what a job has made: one commit, and one pull request or the one that it was asked on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from agent.errors import UserError
from agent.types import ChangeSet, Outcome, RunResult
from app import report
from app.github import NotFound, PermissionMissing, Rejected, Repository
from app.jobs.types import Ending, Job
from app.jobs.workflow import Work
from app.publish import (
    Accepted,
    ChangeSetRefused,
    Kept,
    Moved,
    Proposal,
    Published,
    PullText,
    Rules,
    SecretInPatch,
    Unchanged,
    as_patch,
    keep,
    propose,
    review,
    update,
)
from app.report import JobFacts, Review
from app.report.facts import LeftOut
from app.steps.files import ACCOUNT, PATCH, Brief
from app.steps.running import Runs
from app.steps.site import Site

PUBLISHED = frozenset({Outcome.PROPOSED, Outcome.TESTS_FAILING, Outcome.STUCK, Outcome.BUDGET_REACHED})
"""Outcomes whose change is worth a pull request; a draft unless it is proven."""

_REBASES = 3


@dataclass(frozen=True)
class _Lessened:
    """Some of the change may not be published, and what was measured was the whole: test ``change_set`` by itself."""

    change_set: ChangeSet
    left_out: tuple[LeftOut, ...]


class Publishing:
    """Where the branch moved meanwhile, the change is tested again on what is there now."""

    def __init__(self, site: Site, runs: Runs) -> None:
        self._site = site
        self._runs = runs

    async def publish(self, work: Work) -> Ending | None:
        """Check the result as data, then make one commit and one pull request of it."""
        brief = self._site.files.brief(work.job.id)
        assert brief is not None, "the step before wrote it"
        if (await self._site.repository(work.job.command).issue(work.job.command.number)).state != "open":
            return Ending(
                outcome=Outcome.CANCELLED,
                reason="It was closed while the work went on, so nothing was published.",
                next_step="Reopen it and ask again.",
            )
        first = await asyncio.to_thread(self._site.files.result, work.job.id)
        assert first is not None, "there was a run"
        result, left_out = first, tuple[LeftOut, ...]()
        brief = brief.model_copy(update={"plan": first.plan})
        for number in range(2, 3 + _REBASES):
            outcome = await self._published(work, brief, result, left_out)
            match outcome:
                case Moved():
                    await self._site.fetch(work, outcome.head_sha)
                case _Lessened():
                    left_out = outcome.left_out
                case _:
                    return outcome
            result = first.measured_again(await self._runs.run(work, brief, number, outcome.change_set))
            await asyncio.to_thread(self._site.files.keep_told_result, work.job.id, result)
            if result.outcome not in PUBLISHED:
                return Ending(outcome=result.outcome, reason=result.reason, next_step=result.next_step)
        raise UserError("The branch moved again and again while the change was tested", todo="Ask again later")

    async def keep_patch(self, work: Work) -> None:
        """What the status comment shows of a change that goes nowhere. One that may not be shown is left out."""
        repository = self._site.repository(work.job.command)
        result = await asyncio.to_thread(self._site.files.result, work.job.id)
        assert result is not None, "it has named the ending"
        with suppress(ChangeSetRefused, SecretInPatch):
            accepted, _ = await self._reviewed(repository, result, Rules())
            self._site.files.keep_text(work.job.id, PATCH, await as_patch(repository, accepted))

    async def _reviewed(self, repository: Repository, result: RunResult, rules: Rules) -> tuple[Accepted, Review]:
        sentinels = {*self._site.github.secrets(), *self._site.settings.secrets}
        return await review(repository, result.change_set, rules, sentinels)

    async def _published(
        self, work: Work, brief: Brief, result: RunResult, left_out: tuple[LeftOut, ...]
    ) -> Ending | Moved | _Lessened:
        """
        Args:
            left_out: what was taken out of the change before.
        """
        command = work.job.command
        repository, workflows = await self._site.publishing(command)
        base_ref = brief.base_ref if brief.head_branch else await _base_now(repository, brief)
        brief = brief.model_copy(update={"base_ref": base_ref or brief.base_ref})
        facts = self._site.facts(work.job, title=brief.task.title, brief=brief)
        accepted, checked = await self._reviewed(repository, result, Rules(may_write_workflows=workflows))
        if not accepted.changes and not accepted.held_back:
            return Ending(outcome=Outcome.NO_CHANGE, reason="The change leaves every file as it was.")
        if accepted.held_back and accepted.changes and result.outcome is Outcome.PROPOSED:
            return _Lessened(ChangeSet(base_sha=accepted.base_sha, changes=accepted.changes), checked.left_out)
        checked = replace(checked, left_out=(*left_out, *checked.left_out))
        await work.check()
        proposal = Proposal(
            accepted=accepted,
            job_id=work.job.id,
            branch=await self._branch(work, facts),
            message=report.commit_message(result, facts),
            own_commits=await asyncio.to_thread(self._site.store.commits, command.repository_id, command.number),
            ready=work.check,
        )
        if brief.head_branch is not None:
            return await self._to_pull(work, repository, brief, result, facts, proposal, checked)
        text = PullText(
            title=report.pr_title(facts),
            body=await asyncio.to_thread(report.pr_body, result, facts, checked),
            base_ref=brief.base_ref,
            draft=not result.proven,
        )
        if base_ref is None:
            return await self._as_patch(work, repository, accepted, f"The branch {brief.base_ref!r} is gone.")
        try:
            made = await propose(repository, proposal, text)
        except (Rejected, PermissionMissing) as error:  # a rule of the repository, or less is granted than before
            return await self._as_patch(work, repository, accepted, error.reason, error.todo)
        if isinstance(made, Unchanged):
            return Ending(outcome=Outcome.NO_CHANGE, reason=f"Nothing to propose: {made.reason}.")
        if made.draft and not text.draft:
            made = replace(made, draft=not await self._ready_now(work, repository, made))
        return await self._made(work, repository, result, facts, made)

    async def _branch(self, work: Work, facts: JobFacts) -> str:
        """That of an earlier job of the issue, whose pull request is to be brought up to date though the issue has
        another title now; else one named by the title."""
        earlier = (job.artefacts for job in await work.of_issue() if job.sequence < work.job.sequence)
        known = next((made.branch for made in earlier if made.branch and made.pull_number is not None), None)
        return report.branch_name(facts) if known is None or facts.is_pull else known

    async def _ready_now(self, work: Work, repository: Repository, made: Published) -> bool:
        """Turn the draft that an earlier job left into a pull request that is ready, now that the change is proven.
        A draft that a person made stays one."""
        assert made.pull_number is not None, "it was proposed"
        command = work.job.command
        published = await self._of_pull(work, made.pull_number)
        earlier = next((job for job in published if job.command.number == command.number), None)
        if earlier is None or not earlier.artefacts.draft:
            return False
        pull = await repository.pull(made.pull_number)
        if pull.head.sha != made.commit_sha:
            return False
        await work.check()
        if await repository.set_draft(pull, draft=False) == made.commit_sha:
            return True
        await repository.set_draft(pull, draft=True)  # a commit came in this very moment
        return False

    async def _to_pull(
        self,
        work: Work,
        repository: Repository,
        brief: Brief,
        result: RunResult,
        facts: JobFacts,
        proposal: Proposal,
        checked: Review,
    ) -> Ending | Moved:
        """Add the change to the pull request's own branch, or keep it where that can't be."""
        assert brief.head_branch is not None
        if brief.from_fork:
            reason = "The pull request comes from a fork, and nothing is ever pushed to a fork."
            instead = "Apply the patch to the fork's branch."
            return await self._as_patch(work, repository, proposal.accepted, reason, instead)
        made = await _onto(repository, proposal, brief.head_branch, result)
        match made:
            case Moved():
                return made
            case Unchanged():
                return Ending(outcome=Outcome.NO_CHANGE, reason=f"Nothing to add: {made.reason}.")
            case Kept():
                await self._save_made(work, made.branch, made.commit_sha, None)
                return Ending(
                    outcome=Outcome.BLOCKED if result.outcome is Outcome.PROPOSED else result.outcome,
                    reason=f"The change could not go to {brief.head_branch!r}: {made.reason}. See {made.branch!r}.",
                    next_step="Merge or cherry-pick the kept branch, or ask again on the new state.",
                )
        made = replace(made, draft=(await repository.pull(work.job.command.number)).draft)
        account = await asyncio.to_thread(report.account, result, facts, checked)
        self._site.files.keep_text(work.job.id, ACCOUNT, account)
        return await self._made(work, repository, result, facts, made)

    async def _as_patch(
        self, work: Work, repository: Repository, accepted: Accepted, reason: str, next_step: str = ""
    ) -> Ending:
        """The ending that hands the work over where it can't be put on a branch."""
        self._site.files.keep_text(work.job.id, PATCH, await as_patch(repository, accepted))
        told = f"{reason} The patch is below."
        return Ending(outcome=Outcome.BLOCKED, reason=told, next_step=next_step or "Apply the patch by hand.")

    async def _made(
        self, work: Work, repository: Repository, result: RunResult, facts: JobFacts, made: Published
    ) -> Ending:
        number = made.pull_number if made.pull_number is not None else work.job.command.number
        waits = report.acknowledgeable(result.evidence)
        await self._save_made(work, made.branch, made.commit_sha, number, waits, draft=made.draft)
        untold = await self._checked(work, repository, result, facts, made.commit_sha)
        before = [job for job in await self._of_pull(work, number) if job.id != work.job.id]
        reason = f"{result.reason} {untold}".rstrip()
        told = Ending(outcome=result.outcome, reason=reason, next_step=result.next_step)
        if result.outcome is not Outcome.PROPOSED or not (facts.is_pull or before):
            return told
        told = told.model_copy(update={"outcome": Outcome.UPDATED})
        if any(job.artefacts.commit_sha == made.commit_sha for job in before):
            nothing_new = "The pull request holds this very change already, so there is no new commit."
            told = told.model_copy(update={"reason": nothing_new, "next_step": "Review the pull request."})
        return told

    async def _checked(self, work: Work, repository: Repository, result: RunResult, facts: JobFacts, sha: str) -> str:
        """Show beside the commit what was measured. The pull request stands without it: then returns what is in the
        way."""
        check = await asyncio.to_thread(report.check_run, result, facts)
        try:
            check_id = await repository.checks.put(sha, check, known_id=work.job.artefacts.check_run_id)
        except (Rejected, PermissionMissing) as error:
            return f"It has no check run: {error.reason}"
        await work.save(artefacts=work.job.artefacts.model_copy(update={"check_run_id": check_id}))
        return ""

    async def _of_pull(self, work: Work, number: int) -> Sequence[Job]:
        """The jobs that have published to a pull request, newest first."""
        return await asyncio.to_thread(self._site.store.published, work.job.command.repository_id, number)

    async def _save_made(
        self,
        work: Work,
        branch: str,
        commit_sha: str,
        pull_number: int | None,
        to_acknowledge: str = "",
        *,
        draft: bool = False,
    ) -> None:
        made = {
            "branch": branch,
            "commit_sha": commit_sha,
            "pull_number": pull_number,
            "draft": draft,
            "to_acknowledge": to_acknowledge,
        }
        await work.save(artefacts=work.job.artefacts.model_copy(update=made))


async def _base_now(repository: Repository, brief: Brief) -> str | None:
    """What to propose the change to: where the branch is gone, the default branch if that goes on from the same commit,
    as it does after it was renamed."""
    if await repository.git.branch(brief.base_ref) is not None:
        return brief.base_ref
    now = (await repository.facts()).default_branch
    try:
        goes_on = (await repository.git.compare(brief.base_sha, now)).status in ("ahead", "identical")
    except NotFound:
        return None
    return now if goes_on else None


async def _onto(
    repository: Repository, proposal: Proposal, branch: str, result: RunResult
) -> Published | Kept | Moved | Unchanged:
    """Add the change to a person's branch. What a person has to decide about first is kept on one of our own."""
    if branch == (await repository.facts()).default_branch:
        return await keep(repository, proposal, "it is the default branch, which only pull requests change")
    if result.outcome is not Outcome.PROPOSED:
        return await keep(repository, proposal, f"it was not accepted ({result.reason.rstrip('.')})")
    if result.evidence.touches_tests:
        return await keep(repository, proposal, "existing tests were changed, and a person has to look at that first")
    if result.evidence.partial:
        return await keep(repository, proposal, "only a part of the tests was run, and a person has to know that first")
    if result.evidence.unbuilt:
        return await keep(repository, proposal, "the tests did not see all of it, and a person has to know that first")
    return await update(repository, proposal, branch)
