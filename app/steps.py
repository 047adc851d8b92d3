"""What a job does to the world: GitHub, git, the runner, the publisher. Each step may run more than once.

A repeated step finds its own traces: ids in the job's row, the brief and the result in the job's folder, and on GitHub
itself the marker, the branch and the commit that names its job.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from agent import config
from agent.errors import UserError
from agent.files import replace_file
from agent.git import Git
from agent.tree import BaseTree
from agent.types import BROKEN_OFF, ChangeSet, Mode, ModelEndpoint, Outcome, Plan, RunResult, RunSpec, Task, Value
from app import report
from app.github import Access, GitHubApp, Issue, NotFound, Repository
from app.jobs.store import JobStore
from app.jobs.types import Command, Ending, Job, Word
from app.jobs.workflow import Halted, Work
from app.llm.ledger import RunMeters
from app.llm.run_tokens import issue_token
from app.machine import Machine
from app.places import BRIEF, Places
from app.progress import Watch
from app.publish import (
    Kept,
    Moved,
    Proposal,
    Published,
    PullText,
    Rules,
    Unchanged,
    as_patch,
    keep,
    propose,
    review,
    update,
)
from app.report import Closing, JobFacts, Progress, Review, status
from app.settings import Settings
from app.webhooks.events import issue_of

Runner = Callable[[RunSpec, Callable[[dict[str, object]], None], Callable[[], bool]], RunResult]

PUBLISHED = frozenset({Outcome.PROPOSED, Outcome.TESTS_FAILING, Outcome.STUCK, Outcome.BUDGET_REACHED})
"""Outcomes whose change is worth a pull request; a draft unless it is proven."""

_TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
_REBASES = 3
_PATCH, _ACCOUNT = "change.patch", "account.md"
_RESULT = "result.json"
"""Of a change that was tested again."""
_CHECKOUT_BYTES = 4 * 1024**3


class Brief(Value):
    """What a job works on, fixed when it starts, so that a repeated run sees the same."""

    task: Task
    base_ref: str
    """Branch that the pull request will be made against, or whose head the work is added to."""
    base_sha: str
    rules_sha: str | None = None
    """See ``RunSpec.rules_sha``."""
    head_branch: str | None = None
    """The pull request's own branch, when the job works on one."""
    from_fork: bool = False
    mode: Mode = "work"
    plan: Plan | None = None
    """See ``RunSpec.plan``."""
    kept: ChangeSet | None = None
    """See ``RunSpec.kept``."""


_MODES: Mapping[Word, Mode] = {Word.ASK: "ask", Word.PLAN: "plan", Word.REVISE: "plan"}
"""The rest is work."""


@dataclass(frozen=True)
class Asked:
    """What a job is about, once earlier jobs have been looked at."""

    word: Word
    request: str
    planned: Job | None = None
    """The job whose plan is approved or revised."""
    broken_off: Job | None = None
    """The job whose work is gone on with."""


@dataclass(frozen=True)
class _Start:
    """What a job begins with; ``None`` for what is taken as it is now."""

    base_sha: str | None = None
    plan: Plan | None = None
    kept: ChangeSet | None = None
    task: Task | None = None


class GitHubSteps:
    """The steps of a job on GitHub; see ``app.jobs.workflow.Steps`` for when each is called.

    Args:
        endpoint: where runs reach the model endpoint of this very server.
        runner: carries out a RunSpec; blocks.
        meters: open runs and what they may spend.
        token_secret: signs the runs' tokens.
        progress_s: seconds between two edits of the status comment.
    """

    def __init__(
        self,
        settings: Settings,
        github: GitHubApp,
        store: JobStore,
        *,
        places: Places,
        machine: Machine,
        endpoint: str,
        runner: Runner,
        meters: RunMeters,
        token_secret: str,
        progress_s: float = 5.0,
    ) -> None:
        self._settings = settings
        self._github = github
        self._store = store
        self._places = places
        self._machine = machine
        self._endpoint = endpoint
        self._runner = runner
        self._meters = meters
        self._token_secret = token_secret
        self._progress_s = progress_s
        self._watches: dict[str, Watch] = {}

    # ── authorise, acknowledge ──

    async def authorise(self, work: Work) -> Ending | None:
        """The requester's live permission must be write or more; anything else ends the job in silence."""
        command = work.job.command
        repository = self._repository(command)
        facts = await repository.facts()
        if facts.archived or facts.disabled:
            return _silent("the repository is archived")
        permission = await repository.permission(command.requester)
        if not permission.may_write:
            return _silent(f"{command.requester} has the permission {permission.level!r}; write is needed")
        if permission.user is not None and permission.user.id != command.requester_id:
            return _silent(f"{command.requester} is another account now")
        return None

    async def acknowledge(self, work: Work) -> Ending | None:
        command = work.job.command
        issue = await self._repository(command).issue(command.number)
        if issue.locked:
            return _silent("the conversation is locked")
        if issue.state != "open":
            return _silent("it is closed")
        await work.check()
        if command.comment_id is not None:
            with suppress(NotFound):  # who deletes a command tidies up; who means to stop says so
                await self._repository(command).react("eyes", comment_id=command.comment_id)
        await self._tell(work, self._facts(work, title=issue.title), Progress())
        return None

    # ── prepare ──

    async def prepare(self, work: Work) -> Ending | None:
        brief = self._stored_brief(work)
        if brief is None:
            if work.job.command.word is Word.APPROVE and work.job.command.is_pull:
                acknowledged = await self._acknowledge_tests(work)
                if acknowledged is not None:
                    return acknowledged
            asked = asked_for(work.job, await work.of_issue())
            if isinstance(asked, Ending):
                return asked
            brief = await self._make_brief(work, asked)
        for sha in filter(None, (brief.base_sha, brief.rules_sha)):
            await self._fetch(work, sha)
        await work.save(artefacts=work.job.artefacts.model_copy(update={"base_sha": brief.base_sha}))
        return None

    async def _acknowledge_tests(self, work: Work) -> Ending | None:
        """A person takes responsibility for what the head commit changed in existing tests; ``None`` where nothing of
        the kind waits, and the approval means something else.

        It holds for exactly what was shown: the findings named in the description, on the commit that is the head.
        """
        command = work.job.command
        repository = self._repository(command)
        pull = await repository.pull(command.number)
        published = await asyncio.to_thread(self._store.published, command.repository_id, command.number)
        meant = awaiting(work.job, published, await work.of_issue())
        if meant is None:
            return None
        digest, sha = meant.artefacts.to_acknowledge, str(meant.artefacts.commit_sha)
        if pull.head.sha != sha or digest not in pull.body:
            return _not_as_shown(sha)
        await work.check()
        if pull.draft and await repository.set_draft(pull, draft=False) != sha:
            await repository.set_draft(pull, draft=True)  # a commit came in this very moment
            return _not_as_shown(sha)
        facts = self._facts(work, title=pull.title)
        check_id = await repository.put_check(sha, report.acknowledged(facts, digest))
        await work.save(artefacts=work.job.artefacts.model_copy(update={"check_run_id": check_id}))
        return Ending(
            outcome=Outcome.UPDATED,
            reason=f"{command.requester} has acknowledged the changes to tests ({digest}) in commit {sha[:12]}. "
            "The pull request is ready.",
            next_step="Review and merge it. A later commit is not covered.",
        )

    async def _make_brief(self, work: Work, asked: Asked) -> Brief:
        command = work.job.command
        repository = self._repository(command)
        issue = await repository.issue(command.number)
        start = self._start(asked, issue)
        task = start.task or await self._task(repository, work, issue, asked.request)
        if issue.is_pull:
            pull = await repository.pull(command.number)
            base_ref, ref = pull.base.ref, f"refs/pull/{pull.number}/head"
            head_branch, from_fork = pull.head.ref, pull.from_fork(repository.id)
        else:
            base_ref = (await repository.facts()).default_branch
            ref, head_branch, from_fork = f"refs/heads/{base_ref}", None, False
        base_sha = await self._fetch(work, start.base_sha or ref)
        rules_sha = await self._fetch(work, f"refs/heads/{base_ref}") if issue.is_pull else None
        mode = _MODES.get(asked.word, "work")
        own = await asyncio.to_thread(self._own, work, rules_sha or base_sha)
        if mode == "work" and start.plan is None and own.plan.approval:
            mode = "plan"
        brief = Brief(
            task=task,
            base_ref=base_ref,
            base_sha=base_sha,
            rules_sha=rules_sha,
            head_branch=head_branch,
            from_fork=from_fork,
            mode=mode,
            plan=start.plan,
            kept=start.kept,
        )
        replace_file(self._places.job(work.job.id) / BRIEF, brief.model_dump_json().encode())
        return brief

    def _own(self, work: Work, base_sha: str) -> config.RepositoryConfig:
        """What the repository says about itself at a commit."""
        with Git(self._git_dir(work)) as git:
            return config.of_tree(BaseTree.load(git, base_sha))

    def _start(self, asked: Asked, issue: Issue) -> _Start:
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
        brief = self._brief_of(planned.id)
        task = None if brief is None else _with_request(brief.task, asked.request)
        return _Start(planned.artefacts.base_sha, planned.artefacts.plan, task=task)

    def _left(self, job: Job) -> RunResult | None:
        """The unfinished work of an earlier job, when this machine has it."""
        try:
            result = self._result_of(job.id, 1)
        except FileNotFoundError:
            return None
        return result if result.plan and result.change_set else None

    def _stored_brief(self, work: Work) -> Brief | None:
        return self._brief_of(work.job.id)

    def _brief_of(self, job_id: str) -> Brief | None:
        try:
            return Brief.model_validate_json((self._places.job(job_id) / BRIEF).read_bytes())
        except FileNotFoundError:
            return None

    def _brief(self, work: Work) -> Brief:
        brief = self._stored_brief(work)
        assert brief is not None, "the step before wrote it"
        return brief

    async def _task(self, repository: Repository, work: Work, issue: Issue, request: str) -> Task:
        """The issue as it was when somebody asked, and what people who may command us said before.

        Its author may be anybody, and could change it between the label and now: nobody has seen that yet.
        """
        command = work.job.command
        delivery = await asyncio.to_thread(self._store.delivery, work.job.delivery_id)
        then = issue_of(delivery.body) if delivery else None
        asked = datetime.fromtimestamp(work.job.created_at, UTC)
        said = [
            comment.body
            for comment in await repository.comments(command.number)
            if comment.author_association in _TRUSTED
            and not comment.user.is_bot
            and comment.id != command.comment_id
            and datetime.fromisoformat(comment.created_at) <= asked
            and not comment.body.lstrip().startswith("/agent")
        ]
        return Task(
            title=then.title if then and then.title else issue.title,
            body=(then.body or "") if then and then.title else issue.body,
            request=request,
            comments=tuple(said[-20:]),
            number=issue.number,
        )

    async def _fetch(self, work: Work, ref: str) -> str:
        """Bring ``ref`` into the job's own bare repository. The token never gets near a run."""
        command = work.job.command
        access = await self._github.git_access(command.installation_id, command.repository_id)
        basic = base64.b64encode(f"{access.username}:{access.token}".encode()).decode()

        def fetch() -> str:
            with Git.init(self._git_dir(work)) as git:
                return git.fetch(
                    access.url,
                    ref,
                    header=f"Authorization: Basic {basic}",
                    max_bytes=_CHECKOUT_BYTES,
                    cancelled=work.cancelled,
                )

        return await asyncio.to_thread(fetch)

    def _git_dir(self, work: Work) -> Path:
        return self._places.job(work.job.id) / "repository.git"

    # ── run ──

    async def run(self, work: Work) -> Ending | None:
        brief = self._brief(work)
        result = await self._run(work, brief, number=1)
        if result.outcome is Outcome.PLANNED:
            await work.save(artefacts=work.job.artefacts.model_copy(update={"plan": result.plan}))
        if result.outcome in PUBLISHED and result.change_set:
            return None
        return Ending(outcome=result.outcome, reason=result.reason, next_step=result.next_step)

    async def _run(self, work: Work, brief: Brief, number: int, change_set: ChangeSet | None = None) -> RunResult:
        """One run on the local runner, with the status comment kept up to date meanwhile."""
        spec = await asyncio.to_thread(self._spec, work, brief, number, change_set)
        watch = self._watches[work.job.id] = Watch(time.time())
        self._meters.open(spec.run_id, spec.budget, work.job.usage if number > 1 else None)
        teller = asyncio.create_task(self._keep_telling(work, watch))
        try:
            result = await asyncio.to_thread(self._runner, spec, watch.see, work.cancelled)
        finally:
            teller.cancel()
            await asyncio.wait([teller])  # nothing is told any more once the job goes on
            watch.close()
            self._meters.close(spec.run_id)
        if work.cancelled():
            raise Halted
        if change_set is None:  # testing a change that is there asks no model: the row keeps what the work has cost
            await work.save(usage=result.usage)
        return result

    def _spec(self, work: Work, brief: Brief, number: int, change_set: ChangeSet | None) -> RunSpec:
        command, settings = work.job.command, self._settings
        run_id = f"{work.job.id}-{number}"
        minutes = settings.budget.minutes or 24 * 60.0
        token = issue_token(self._token_secret, run_id, ttl_s=minutes * 60 + 3600)
        base_sha = change_set.base_sha if change_set else brief.base_sha
        own = self._own(work, brief.rules_sha or base_sha)
        return RunSpec(
            run_id=run_id,
            task=brief.task,
            mode=brief.mode,
            plan=brief.plan,
            kept=brief.kept,
            review=settings.review,
            change_set=change_set,
            git_dir=str(self._git_dir(work)),
            base_sha=base_sha,
            rules_sha=brief.rules_sha,
            work_dir=str(self._places.attempt(work.job.id, number, work.lease.fence)),
            cache_dir=str(self._places.cache),
            search_path=self._machine.search_path,
            registries=self._machine.registries,
            repository=str(command.repository_id),
            budget=config.lowered(settings.budget, own.budget),
            model=self._model(settings.openai_model, token),
            fallback=self._model(settings.openai_fallback_model, token) if settings.openai_fallback_model else None,
            prices=self._meters.prices,
            embeddings=self._model(settings.embeddings.model, token) if settings.embeddings else None,
            rerank=settings.rerank,
            seed=secrets.token_hex(16),
            command_timeout_s=settings.command_timeout_s,
        )

    def _model(self, name: str, token: str) -> ModelEndpoint:
        """Our own metered endpoint, as a run may use it."""
        limit = self._settings.context_tokens
        return ModelEndpoint(base_url=self._endpoint, api_key=token, model=name, context_tokens=limit)

    async def _keep_telling(self, work: Work, watch: Watch) -> None:
        """Edit the status comment when there is news; what can't be told now is told later or at the end."""
        facts = self._facts(work, title=self._brief(work).task.title)
        told = Progress()
        while True:
            # Slower with age, so that an hour's job stays far below what GitHub lets an App write in an hour.
            await asyncio.sleep(max(self._progress_s, watch.progress.elapsed_s / 20))
            progress = watch.progress
            if (progress.stages, progress.now) == (told.stages, told.now):
                continue
            told = progress
            try:
                await self._tell(work, facts, progress)
            except Exception:  # noqa: S112  # progress is a courtesy: the job itself finds out what is wrong
                continue

    # ── publish ──

    async def publish(self, work: Work) -> Ending | None:
        """Check the result as data, then make one commit and one pull request of it."""
        brief = self._brief(work)
        if (await self._repository(work.job.command).issue(work.job.command.number)).state != "open":
            return Ending(
                outcome=Outcome.CANCELLED,
                reason="It was closed while the work went on, so nothing was published.",
                next_step="Reopen it and ask again.",
            )
        first = result = self._result(work, 1)
        brief = brief.model_copy(update={"plan": first.plan})
        for number in range(2, 2 + _REBASES):
            outcome = await self._published(work, brief, result)
            if not isinstance(outcome, Moved):
                return outcome
            await self._fetch(work, outcome.head_sha)
            result = first.measured_again(await self._run(work, brief, number, outcome.change_set))
            replace_file(self._places.job(work.job.id) / _RESULT, result.model_dump_json().encode())
            if result.outcome not in PUBLISHED:
                return Ending(outcome=result.outcome, reason=result.reason, next_step=result.next_step)
        raise UserError("The branch moved again and again while the change was tested", todo="Ask again later")

    def _result(self, work: Work, number: int) -> RunResult:
        return self._result_of(work.job.id, number)

    def _told_result(self, work: Work) -> RunResult:
        """What the ending speaks of: the last measuring, where the branch moved and the change was tested again."""
        try:
            return RunResult.model_validate_json((self._places.job(work.job.id) / _RESULT).read_bytes())
        except FileNotFoundError:
            return self._result(work, 1)

    def _result_of(self, job_id: str, number: int) -> RunResult:
        return RunResult.model_validate_json((self._places.run(job_id, number) / "result.json").read_bytes())

    async def _published(self, work: Work, brief: Brief, result: RunResult) -> Ending | Moved:
        command = work.job.command
        facts = self._facts(work, title=brief.task.title, brief=brief)
        granted = await self._github.installation(command.installation_id)
        workflows = granted.permissions.get("workflows") == "write"
        repository = self._repository(command, Access.WRITE_WORKFLOWS if workflows else Access.WRITE)
        rules = Rules(may_write_workflows=workflows)
        sentinels = {*self._github.secrets(), *self._settings.secrets}
        accepted, checked = await review(repository, result.change_set, rules, sentinels)
        if not accepted.changes and not accepted.held_back:
            return Ending(outcome=Outcome.NO_CHANGE, reason="The change leaves every file as it was.")
        await work.check()
        proposal = Proposal(
            accepted=accepted,
            job_id=work.job.id,
            branch=report.branch_name(facts),
            message=report.commit_message(result, facts),
            own_commits=await asyncio.to_thread(self._store.commits, command.repository_id, command.number),
            ready=work.check,
        )
        if brief.head_branch is not None:
            return await self._to_pull(work, repository, brief, result, facts, proposal, checked)
        text = PullText(
            title=report.pr_title(facts),
            body=report.pr_body(result, facts, checked),
            base_ref=brief.base_ref,
            draft=result.outcome is not Outcome.PROPOSED or not result.evidence.proven,
        )
        made = await propose(repository, proposal, text)
        if isinstance(made, Unchanged):
            return Ending(outcome=Outcome.NO_CHANGE, reason=f"Nothing to propose: {made.reason}.")
        return await self._made(work, repository, result, facts, made)

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
            patch = await as_patch(repository, proposal.accepted)
            replace_file(self._places.job(work.job.id) / _PATCH, patch.encode("utf-8", "surrogateescape"))
            return Ending(
                outcome=Outcome.BLOCKED,
                reason="The pull request comes from a fork, and nothing is ever pushed to a fork. The patch is below.",
                next_step="Apply the patch to the fork's branch.",
            )
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
        account = report.account(result, facts, checked)
        replace_file(self._places.job(work.job.id) / _ACCOUNT, account.encode("utf-8", "surrogateescape"))
        return await self._made(work, repository, result, facts, made)

    async def _made(
        self, work: Work, repository: Repository, result: RunResult, facts: JobFacts, made: Published
    ) -> Ending:
        number = made.pull_number if made.pull_number is not None else work.job.command.number
        waits = result.evidence.integrity_digest if result.evidence.holds else ""
        await self._save_made(work, made.branch, made.commit_sha, number, waits)
        check = report.check_run(result, facts)
        check_id = await repository.put_check(made.commit_sha, check, known_id=work.job.artefacts.check_run_id)
        await work.save(artefacts=work.job.artefacts.model_copy(update={"check_run_id": check_id}))
        outcome = result.outcome
        if outcome is Outcome.PROPOSED and made.updated and facts.is_pull:
            outcome = Outcome.UPDATED
        return Ending(outcome=outcome, reason=result.reason, next_step=result.next_step)

    async def _save_made(
        self, work: Work, branch: str, commit_sha: str, pull_number: int | None, to_acknowledge: str = ""
    ) -> None:
        made = {
            "branch": branch,
            "commit_sha": commit_sha,
            "pull_number": pull_number,
            "to_acknowledge": to_acknowledge,
        }
        await work.save(artefacts=work.job.artefacts.model_copy(update=made))

    # ── close out ──

    async def close_out(self, work: Work, ending: Ending) -> None:
        """Tell the ending in the one status comment."""
        brief = self._stored_brief(work)
        facts = self._facts(work, title=brief.task.title if brief else "", brief=brief)
        watch = self._watches.pop(work.job.id, None)
        await self._tell(work, facts, watch.close() if watch else Progress(), self._closing(work, ending))

    def _closing(self, work: Work, ending: Ending) -> Closing:
        artefacts = work.job.artefacts
        folder = self._places.job(work.job.id)
        told = Closing(
            outcome=ending.outcome,
            reason=ending.reason,
            next_step=ending.next_step,
            pull_number=artefacts.pull_number,
            kept_branch=artefacts.branch or "" if artefacts.pull_number is None else "",
            patch=_text(folder / _PATCH),
            account=_text(folder / _ACCOUNT),
        )
        try:
            result = self._told_result(work)
        except FileNotFoundError:
            return told
        measured = Closing.from_result(result)
        draft = artefacts.pull_number is not None and not result.evidence.proven
        told = replace(told, answer=measured.answer, plan=measured.plan, places=measured.places)
        return replace(told, verdict=measured.verdict, cost=measured.cost, draft=draft)

    # ── shared ──

    async def _tell(self, work: Work, facts: JobFacts, progress: Progress, closing: Closing | None = None) -> None:
        """Write the status comment, which is found again by its stored id, else by its marker."""
        command = work.job.command
        await work.check()
        comment_id = await self._repository(command).upsert_comment(
            command.number,
            status.marker(facts),
            report.status_comment(facts, progress, closing),
            known_id=work.job.artefacts.comment_id,
            since=datetime.fromtimestamp(work.job.created_at - 3600, UTC),
        )
        if comment_id != work.job.artefacts.comment_id:
            await work.save(artefacts=work.job.artefacts.model_copy(update={"comment_id": comment_id}))

    def _repository(self, command: Command, access: Access = Access.WRITE) -> Repository:
        return self._github.repository(command.installation_id, command.repository_id, access)

    def _facts(self, work: Work, *, title: str, brief: Brief | None = None) -> JobFacts:
        command = work.job.command
        return JobFacts(
            job_id=work.job.id,
            repository=command.repository,
            number=command.number,
            is_pull=command.is_pull,
            title=title,
            requester=command.requester,
            command=command.word,
            web_url=self._settings.github_web_url,
            base_ref=brief.base_ref if brief else "",
            base_sha=brief.base_sha if brief else "",
            model=self._settings.openai_model,
        )


async def _onto(
    repository: Repository, proposal: Proposal, branch: str, result: RunResult
) -> Published | Kept | Moved | Unchanged:
    """Add the change to a person's branch. What a person has to decide about first is kept on one of our own."""
    if branch == (await repository.facts()).default_branch:
        return await keep(repository, proposal, "it is the default branch, which only pull requests change")
    if result.outcome is not Outcome.PROPOSED:
        return await keep(repository, proposal, f"it is not proven ({result.reason.rstrip('.')})")
    if result.evidence.integrity:
        return await keep(repository, proposal, "existing tests were changed, and a person has to look at that first")
    return await update(repository, proposal, branch)


def asked_for(job: Job, of_issue: Sequence[Job]) -> Asked | Ending:
    """What ``job`` is about: words that speak of earlier jobs are resolved. Pure.

    What somebody asked who had no right to is not taken up on the authority of somebody who has.

    Args:
        of_issue: the jobs of the same issue, newest first.
    """
    word, request, broken_off = job.command.word, job.command.request, None
    heard = (other for other in of_issue if other.ending is None or not other.ending.silent)
    earlier = [other for other in heard if other.sequence < job.sequence]
    if word is Word.RETRY:
        last = next((other.command for other in earlier if other.command.word is not Word.RETRY), None)
        if last is None:
            return _nothing("to do again", "/agent fix …")
        word, request = last.word, _joined(last.request, request)
        ending = earlier[0].ending
        broken_off = earlier[0] if ending and ending.outcome in BROKEN_OFF else None
    planned = None
    if word in (Word.APPROVE, Word.REVISE):
        # Only a plan that stood there when the person wrote can be the one that was meant.
        asked_at = job.created_at
        shown = (o for o in earlier if o.artefacts.plan and o.finished_at is not None and o.finished_at <= asked_at)
        planned = next(shown, None)
        if planned is None and broken_off is None:
            return _nothing(f"to {word.value}: there is no plan", "/agent plan …")
    return Asked(word, request, planned, broken_off)


def awaiting(job: Job, published: Sequence[Job], of_issue: Sequence[Job]) -> Job | None:
    """The job whose changes to tests an approval on its pull request can mean: the last that published there, when it
    had done so before the person wrote, and no plan has been made since. Pure.

    Args:
        published: finished jobs that published to the pull request, newest first.
        of_issue: the jobs of the pull request itself, newest first.
    """
    last = published[0] if published else None
    if last is None or not last.artefacts.to_acknowledge:
        return None
    if last.finished_at is None or last.finished_at > job.created_at:
        return None
    planned_since = any(o.artefacts.plan and last.sequence < o.sequence < job.sequence for o in of_issue)
    return None if planned_since else last


def _not_as_shown(sha: str) -> Ending:
    return Ending(
        outcome=Outcome.NEEDS_INPUT,
        reason=f"Nothing was acknowledged: the changes to tests were shown for commit {sha[:12]}, and the branch or "
        "the description is another now.",
        next_step="Review what is new, then mark the pull request as ready yourself, or comment `/agent fix …`.",
    )


def _with_request(task: Task, request: str) -> Task:
    return task.model_copy(update={"request": _joined(task.request, request)})


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _nothing(what: str, instead: str) -> Ending:
    return Ending(
        outcome=Outcome.NEEDS_INPUT,
        reason=f"There is nothing {what} here yet.",
        next_step=f"Comment `{instead}` first.",
    )


def _silent(reason: str) -> Ending:
    return Ending(outcome=Outcome.BLOCKED, reason=f"Not started: {reason}.", silent=True)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
