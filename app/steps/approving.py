"""``/agent approve`` on a pull request whose change to existing tests waits for somebody's word, and what becomes of
that word when another commit comes."""

from __future__ import annotations

import asyncio

from agent.types import Outcome
from app import report
from app.github import Rejected
from app.jobs.types import Ending
from app.jobs.workflow import Work
from app.steps.asked import awaiting, overtaken
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
    # Kept first: a commit that comes right after must find what it overtakes.
    await work.save(artefacts=work.job.artefacts.model_copy(update={"acknowledged": sha}))
    if pull.draft and await repository.set_draft(pull, draft=False) != sha:
        await repository.set_draft(pull, draft=True)  # a commit came in this very moment
        await work.save(artefacts=work.job.artefacts.model_copy(update={"acknowledged": ""}))
        return _not_as_shown(sha)
    facts = site.facts(work.job, title=pull.title)
    check_id = await repository.checks.put(sha, report.acknowledged(facts, digest))
    await work.save(artefacts=work.job.artefacts.model_copy(update={"check_run_id": check_id}))
    return Ending(
        outcome=Outcome.UPDATED,
        reason=f"{command.requester} has acknowledged the changes to tests ({digest}) in commit {sha[:12]}. "
        "The pull request is ready.",
        next_step="Review and merge it. A later commit is not covered, and makes it a draft again.",
    )


async def take_back(site: Site, work: Work) -> Ending:
    """Somebody has pushed: what was acknowledged for the commit before does not hold for theirs.

    Done once for each acknowledgement.
    """
    command, artefacts = work.job.command, work.job.artefacts
    repository = site.repository(command)
    pull = await repository.pull(command.number)
    sha = artefacts.acknowledged  # of this job's own first try
    if not sha:
        if pull.state != "open" or pull.draft:
            return _nothing_to_take_back()
        sha = overtaken(work.job, pull.head.sha, await work.of_issue(), await work.of_lane())
        if not sha:
            return _nothing_to_take_back()
        update = {"acknowledged": sha, "pull_number": pull.number, "draft": True}
        await work.save(artefacts=artefacts.model_copy(update=update))
    await work.check()
    try:
        await repository.set_draft(pull, draft=True)
        now = "so the pull request is a draft again"
    except Rejected:  # no drafts in private repositories on GitHub's free plan
        now = "and GitHub does not let us make the pull request a draft"
    return Ending(
        outcome=Outcome.UPDATED,
        reason=f"{command.requester} has pushed to it. The changes to tests were acknowledged in commit {sha[:12]}, "
        f"which is not the head any more, {now}.",
        next_step="Review what is new, then mark the pull request as ready yourself, or go back to that commit and "
        "comment `/agent approve`.",
    )


def _nothing_to_take_back() -> Ending:
    return Ending(outcome=Outcome.NO_CHANGE, reason="The commit overtakes no acknowledgement.", silent=True)


def _not_as_shown(sha: str) -> Ending:
    return Ending(
        outcome=Outcome.NEEDS_INPUT,
        reason=f"Nothing was acknowledged: the changes to tests were shown for commit {sha[:12]}, and the branch or "
        "the description is another now.",
        next_step="Review what is new, then mark the pull request as ready yourself, or comment `/agent fix …`.",
    )
