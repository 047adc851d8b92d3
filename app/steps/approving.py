"""``/agent approve`` on a pull request whose change to existing tests waits for somebody's word."""

from __future__ import annotations

import asyncio

from agent.types import Outcome
from app import report
from app.jobs.types import Ending
from app.jobs.workflow import Work
from app.steps.asked import awaiting
from app.steps.site import Site


async def acknowledge_tests(site: Site, work: Work) -> Ending | None:
    """A person takes responsibility for what the head commit changed in existing tests; ``None`` where nothing of
    the kind waits, and the approval means something else.

    It holds for exactly what was shown: the findings named in the description, on the commit that is the head.
    """
    command = work.job.command
    repository = site.repository(command)
    pull = await repository.pull(command.number)
    published = await asyncio.to_thread(site.store.published, command.repository_id, command.number)
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
    facts = site.facts(work, title=pull.title)
    check_id = await repository.put_check(sha, report.acknowledged(facts, digest))
    await work.save(artefacts=work.job.artefacts.model_copy(update={"check_run_id": check_id}))
    return Ending(
        outcome=Outcome.UPDATED,
        reason=f"{command.requester} has acknowledged the changes to tests ({digest}) in commit {sha[:12]}. "
        "The pull request is ready.",
        next_step="Review and merge it. A later commit is not covered.",
    )


def _not_as_shown(sha: str) -> Ending:
    return Ending(
        outcome=Outcome.NEEDS_INPUT,
        reason=f"Nothing was acknowledged: the changes to tests were shown for commit {sha[:12]}, and the branch or "
        "the description is another now.",
        next_step="Review what is new, then mark the pull request as ready yourself, or comment `/agent fix …`.",
    )
