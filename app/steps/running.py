"""Runs of a job: what each is given, and what is told of it meanwhile."""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial

from agent import config
from agent.types import ChangeSet, ModelEndpoint, RunResult, RunSpec
from app.jobs.types import Word
from app.jobs.workflow import Halted, Work
from app.llm.ledger import RunMeters
from app.llm.run_tokens import issue_token
from app.machine import Machine
from app.progress import Watch
from app.report import Progress
from app.runners.types import Errand, Runner
from app.steps.briefing import own_rules
from app.steps.files import Brief
from app.steps.site import Site

_PROGRESS_S = 5.0
"""Between two edits of the status comment, at least."""


class Runs:
    """The runs of jobs.

    Args:
        questions: carries out runs that only read.
        runner: carries out the others, with code that nobody trusts.
        meters: open runs and what they may spend.
        token_secret: signs the runs' tokens.
    """

    def __init__(
        self,
        site: Site,
        *,
        machine: Machine,
        questions: Runner,
        runner: Runner,
        meters: RunMeters,
        token_secret: str,
    ) -> None:
        self._site = site
        self._machine = machine
        self._questions = questions
        self._runner = runner
        self._meters = meters
        self._token_secret = token_secret
        self._watches: dict[str, Watch] = {}

    def get_ready(self, work: Work) -> None:
        """The job will soon have a run."""
        self._of(work).get_ready(work.job.id)

    def let_go(self, work: Work) -> None:
        """Forget the job, and what waits for its run. Waits for nothing."""
        self._watches.pop(work.job.id, None)
        self._of(work).let_go(work.job.id)

    def _of(self, work: Work) -> Runner:
        return self._questions if work.job.command.word is Word.ASK else self._runner

    async def run(self, work: Work, brief: Brief, number: int, change_set: ChangeSet | None = None) -> RunResult:
        """One run, with the status comment kept up to date meanwhile."""
        spec = await asyncio.to_thread(self._spec, work, brief, number, change_set)
        watch = self._watches[work.job.id] = Watch(time.time())
        before = work.job.usage  # also of a try that came to nothing
        # The minutes are for the run itself to count: here they would go on while it waits for a machine.
        self._meters.open(spec.run_id, spec.budget.model_copy(update={"minutes": None}), before)
        command = work.job.command
        errand = Errand(
            work.job.id,
            command.installation_id,
            command.repository_id,
            spec,
            on_event=watch.see,
            cancelled=work.cancelled,
            spent=partial(self._meters.usage, spec.run_id),
        )
        teller = asyncio.create_task(self._keep_telling(work, brief, watch))
        try:
            result = await self._of(work).run(errand)
        finally:
            teller.cancel()
            await asyncio.wait([teller])  # nothing is told any more once the job goes on
            watch.close()
            spent = self._meters.close(spec.run_id)
            if spent != before:
                await work.save(usage=spent)
        if work.cancelled():
            raise Halted
        if spent == before and change_set is None:  # a result that was there already: the row may not know of it
            await work.save(usage=result.usage)
        return result

    def ended(self, job_id: str) -> Progress:
        """How far the job's runs came."""
        watch = self._watches.get(job_id)
        return watch.close() if watch else Progress()

    def _spec(self, work: Work, brief: Brief, number: int, change_set: ChangeSet | None) -> RunSpec:
        command, settings = work.job.command, self._site.settings
        run_id = f"{work.job.id}-{number}"
        minutes = settings.budget.minutes or 24 * 60.0
        token = issue_token(self._token_secret, run_id, ttl_s=minutes * 60 + 3600)
        model = partial(self._model, self._of(work).model_url, token)
        base_sha = change_set.base_sha if change_set else brief.base_sha
        own = own_rules(self._site, work, brief.rules_sha or base_sha)
        return RunSpec(
            run_id=run_id,
            task=brief.task,
            mode=brief.mode,
            plan=brief.plan,
            kept=brief.kept,
            review=settings.review,
            change_set=change_set,
            git_dir=str(self._site.files.git_dir(work.job.id)),
            base_sha=base_sha,
            rules_sha=brief.rules_sha,
            since_sha=brief.since_sha,
            work_dir=str(self._site.files.attempt(work.job.id, number, work.lease.fence)),
            cache_dir=str(self._site.files.cache),
            search_path=self._machine.search_path,
            registries=self._machine.registries,
            repository=str(command.repository_id),
            budget=config.lowered(settings.budget, own.budget),
            model=model(settings.openai_model),
            fallback=model(settings.openai_fallback_model) if settings.openai_fallback_model else None,
            prices=self._meters.prices,
            embeddings=model(settings.embeddings.model) if settings.embeddings else None,
            rerank=settings.rerank,
            seed=secrets.token_hex(16),
            command_timeout_s=settings.command_timeout_s,
        )

    def _model(self, url: str, token: str, name: str) -> ModelEndpoint:
        """Our own metered endpoint, as a run may use it."""
        limit = self._site.settings.context_tokens
        return ModelEndpoint(base_url=url, api_key=token, model=name, context_tokens=limit)

    async def _keep_telling(self, work: Work, brief: Brief, watch: Watch) -> None:
        """Edit the status comment when there is news; what can't be told now is told later or at the end."""
        facts = self._site.facts(work.job, title=brief.task.title)
        told = Progress()
        while True:
            # Slower with age, so that an hour's job stays far below what GitHub lets an App write in an hour.
            await asyncio.sleep(max(_PROGRESS_S, watch.progress.elapsed_s / 20))
            progress = watch.progress
            if (progress.stages, progress.now) == (told.stages, told.now):
                continue
            told = progress
            try:
                await self._site.tell(work, facts, progress)
            except Exception:  # noqa: S112  # progress is a courtesy: the job itself finds out what is wrong
                continue
