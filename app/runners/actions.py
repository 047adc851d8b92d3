"""Runs carried out by GitHub Actions, in a workflow of the target repository that fetches them at our door.

The workflow's run holds no secret of the repository and can't write to it; the model is reached through our endpoint.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.errors import GraftsmithError, OperatorError, RetryLater, UserError
from agent.record import keep_spec
from agent.types import RunResult
from app.github import Access, GitHubApp, NotFound, Rejected, Repository
from app.runners.door import Door, Expected, RemoteRun
from app.runners.local import emptied, kept_result
from app.runners.types import Errand, longest_s

FOLDER = ".github/workflows"


@dataclass(frozen=True)
class Waits:
    """How long what is waited for, in seconds.

    Args:
        queued: until a machine takes the workflow up: GitHub's, or one of the repository's own.
        silent: between two words of a runner, which speaks every few seconds.
        ask: silence after which GitHub is asked what became of the workflow's run.
        stopped: until a run that is to end has ended.
        look: between two looks whether it is to end.
    """

    queued: float = 1800.0
    silent: float = 180.0
    ask: float = 20.0
    stopped: float = 20.0
    look: float = 1.0


class ActionsRunner:
    """See ``Runner``.

    Args:
        door: where the workflows come to.
        public_url: our address, as they reach it.
        workflow: name of the workflow's file, which must be on the repository's default branch.
    """

    def __init__(
        self, github: GitHubApp, door: Door, *, public_url: str, workflow: str, waits: Waits | None = None
    ) -> None:
        self._github = github
        self._door = door
        self._public_url = public_url
        self._workflow = workflow
        self._waits = waits or Waits()

    @property
    def model_url(self) -> str:
        return f"{self._public_url}/llm/v1"

    def get_ready(self, job_id: str) -> None:
        """A workflow is started when there is something to carry out: its minutes are paid for."""

    def let_go(self, job_id: str) -> None:
        """Nothing of a job is left in this process."""

    async def run(self, errand: Errand) -> RunResult:
        spec, folder = errand.spec, Path(errand.spec.work_dir)
        stored = kept_result(folder)
        if stored is not None:
            return stored
        emptied(folder)
        keep_spec(folder, spec)
        ids = (errand.installation_id, errand.repository_id)
        branch = (await self._github.repository(*ids, Access.READ).facts()).default_branch
        with self._door.opened(RemoteRun(spec, errand.on_event, errand.cancelled, errand.spent)) as run:
            repository = self._github.repository(*ids, Access.ACTIONS)
            number = await self._started(repository, branch, spec.run_id)
            workflow = f"{FOLDER}/{self._workflow}"
            run.expected = Expected(errand.repository_id, workflow, f"refs/heads/{branch}", number)
            errand.on_event({"kind": "waits", "what": "a machine of GitHub Actions"})
            try:
                return await self._brought(run, repository, number)
            except GraftsmithError:
                if number is not None:  # nobody waits for it any more
                    with suppress(GraftsmithError):
                        await repository.workflows.cancel(number)
                raise

    async def _started(self, repository: Repository, branch: str, run_id: str) -> int | None:
        try:
            return await repository.workflows.start(self._workflow, branch, {"run": run_id})
        except (NotFound, Rejected) as error:
            raise OperatorError(
                f"GitHub Actions can't start {FOLDER}/{self._workflow} on {branch}",
                why=error.why,
                todo="Put the workflow there as docs/operating.md shows it, and switch Actions on for the repository",
            ) from error

    async def _brought(self, run: RemoteRun, repository: Repository, number: int | None) -> RunResult:
        """The result, once the runner has brought it."""
        began = asked = time.monotonic()
        while run.result is None:
            await run.news(self._waits.look)
            now = time.monotonic()
            quiet = now - (run.heard_at or began)
            self._check_time(run, quiet, now - began)
            if number is not None and min(quiet, now - asked) > self._waits.ask:
                asked = now
                over = await _over(repository, number)
                if over is not None and run.result is None:  # it may have come while GitHub was asked
                    raise over
        return run.result

    def _check_time(self, run: RemoteRun, quiet: float, age: float) -> None:
        """
        Raises:
            OperatorError, RetryLater: nothing more can be expected.
        """
        waits, waiting = self._waits, run.heard_at is None
        stopped = run.stopped_s()
        if stopped is not None and (waiting or stopped > waits.stopped):
            raise RetryLater("The run was stopped before its runner could end it")
        if waiting and quiet > waits.queued:
            raise OperatorError(
                f"No runner of GitHub Actions has taken the run up within {waits.queued / 60:.0f} minutes",
                todo="See on the repository's Actions page what its workflow waits for",
            )
        if not waiting and quiet > waits.silent:
            raise RetryLater(f"The runner of GitHub Actions has said nothing for {waits.silent / 60:.0f} minutes")
        if age > waits.queued + longest_s(run.spec):
            raise RetryLater("The run on GitHub Actions did not end when its time was over")


async def _over(repository: Repository, number: int) -> OperatorError | UserError | None:
    """What to say where the workflow's run has ended; ``None`` while it goes on."""
    try:
        state = await repository.workflows.state(number)
    except RetryLater:
        return None
    if not state.over:
        return None
    if state.conclusion == "cancelled":
        return UserError("Somebody has cancelled the workflow's run on GitHub Actions", todo="Comment `/agent retry`")
    return OperatorError(
        f"The workflow's run on GitHub Actions ended as {state.conclusion or 'unknown'} without a result",
        todo=f"Its log says why: {state.html_url}",
    )
