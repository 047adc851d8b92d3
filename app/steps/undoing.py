"""``/agent undo``: what the last job has put on the branch of a pull request is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.types import Outcome
from app import report
from app.github import Pull, Rejected, Repository
from app.jobs.types import Ending, Job
from app.jobs.workflow import Work
from app.publish.undo import Closed, NotUndone, Restored, Undoing, undo
from app.report.facts import PULL_MARK
from app.steps.asked import standing
from app.steps.site import Site


async def take_back_last(site: Site, work: Work) -> Ending:
    """Take back the last job that published to the pull request and whose work stands.

    Nothing is done twice: what is about to be taken back is kept first, and the commit that does it names the job.
    """
    command = work.job.command
    if not command.is_pull:
        return _refused("it takes back work on a pull request, and this is an issue", "Comment on the pull request.")
    repository, _ = await site.publishing(command)
    pull = await repository.pull(command.number)
    published = await asyncio.to_thread(site.store.published, command.repository_id, command.number)
    stands = standing(published)
    if not stands:
        return _refused("no job of ours has left a commit here that still stands", "Use `git revert`.")
    sha = str(stands[0].artefacts.commit_sha)
    if pull.state != "open":
        return _closed(work, pull, sha) if work.job.artefacts.undone else _over(pull)
    await work.save(artefacts=work.job.artefacts.model_copy(update={"undone": sha, "pull_number": pull.number}))
    ours = pull.user.is_bot and pull.body.startswith(PULL_MARK)
    message = report.undo_message(site.facts(work.job, title=pull.title), sha)
    match await undo(repository, pull, Undoing(sha, work.job.id, message, ours, work.check)):
        case Closed():
            return _closed(work, pull, sha)
        case NotUndone(reason, instead):
            await work.save(artefacts=work.job.artefacts.model_copy(update={"undone": ""}))
            return _refused(reason, instead)
        case Restored(commit_sha):
            return await _restored(work, repository, pull, stands, commit_sha, ours=ours)


async def _restored(
    work: Work, repository: Repository, pull: Pull, stands: Sequence[Job], commit_sha: str, *, ours: bool
) -> Ending:
    """Tell it in the description, and make the pull request a draft where the work that stands now was one."""
    draft, last = pull.draft, stands[0]
    sha = str(last.artefacts.commit_sha)
    below = next((job for job in stands if job.artefacts.commit_sha != sha), None)
    if below is not None and below.artefacts.draft and not draft:
        try:
            await repository.set_draft(pull, draft=True)
            draft = True
        except Rejected:  # no drafts in private repositories on GitHub's free plan
            pass
    if ours:
        body = report.with_undone(pull.body, sha, commit_sha)
        if body != pull.body:
            await work.check()
            await repository.edit_pull(pull.number, title=pull.title, body=body)
    made = {"branch": pull.head.ref, "commit_sha": commit_sha, "draft": draft}
    await work.save(artefacts=work.job.artefacts.model_copy(update=made))
    return Ending(
        outcome=Outcome.UPDATED,
        reason=f"Commit {sha[:12]} (`{last.command.word.value}`, asked by {last.command.requester}) is taken back by "
        f"commit {commit_sha[:12]}: the files are as they were before it.",
        next_step="Comment `/agent fix …` with what should be different.",
    )


def _closed(work: Work, pull: Pull, sha: str) -> Ending:
    return Ending(
        outcome=Outcome.UPDATED,
        reason=f"Without commit {sha[:12]} nothing is left of this pull request, so it is closed. "
        f"The branch {pull.head.ref!r} is kept.",
        next_step="Delete the branch, or reopen the pull request to have the work back.",
    )


def _over(pull: Pull) -> Ending:
    if pull.merged_at:
        return _refused("it is merged", "Use the button “Revert” of the pull request.")
    return _refused("it is closed", "Reopen it first.")


def _refused(reason: str, instead: str) -> Ending:
    return Ending(outcome=Outcome.BLOCKED, reason=f"Nothing was taken back: {reason}.", next_step=instead)
