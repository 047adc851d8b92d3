"""Takes back what a job has put on the branch of a pull request, by one more commit that restores the files before it.

Only what stands at the head is taken back, so that nobody else's work is: the branch moves forward, never by force.
What a job that was killed on the way has done already is found again by the trailer of its commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.github import Commit, Pull, Rejected, Repository
from app.report.names import JOB_TRAILER


@dataclass(frozen=True)
class Restored:
    """The files are as they were before; ``commit_sha`` says so on the branch."""

    commit_sha: str


@dataclass(frozen=True)
class Closed:
    """The pull request held nothing else, so it is closed. Its branch is as it was."""


@dataclass(frozen=True)
class NotUndone:
    """Nothing was changed."""

    reason: str
    instead: str
    """What a person can do."""


@dataclass(frozen=True)
class Undoing:
    """What is to be taken back.

    Args:
        commit_sha: the commit of an earlier job.
        job_id: who takes it back.
        message: of the new commit; ends with the job's trailer.
        ours: the pull request is the bot's own: nothing is left of it without its first commit.
        ready: called right before the first change that others can see; raises to call it off.
    """

    commit_sha: str
    job_id: str
    message: str
    ours: bool
    ready: Callable[[], Awaitable[None]]


async def undo(repository: Repository, pull: Pull, undoing: Undoing) -> Restored | Closed | NotUndone:
    """Take ``undoing.commit_sha`` back from ``pull``, an open pull request of this very repository."""
    sha, branch = undoing.commit_sha, pull.head.ref
    head = await repository.git.branch(branch)
    if head is None:
        return NotUndone(f"the branch {branch!r} is gone", "Restore it, then ask again.")
    since = await repository.git.compare(sha, head)
    own = next((commit for commit in since.commits if _names(undoing.job_id, commit)), None)
    if own is not None:
        return Restored(own.sha)
    if since.status not in ("identical", "ahead"):
        return NotUndone(f"the commit {sha[:12]} is not on the branch any more", "Look at what the branch holds now.")
    commit, standing = await repository.git.commit(sha), await repository.git.commit(head)
    if len(commit.parents) != 1:
        return NotUndone(
            f"the commit {sha[:12]} brought the base branch in as well, which must stay",
            "Close the pull request, or comment `/agent fix …` with what should be different.",
        )
    if standing.tree != commit.tree:
        return NotUndone(
            f"other commits came after {sha[:12]}, and they are not touched",
            f"Take it back by hand on the branch: `git revert {sha}`, then `git push`.",
        )
    (before,) = commit.parents
    if undoing.ours and (await repository.git.compare(pull.base.ref, before)).status in ("identical", "behind"):
        await undoing.ready()
        await repository.close_pull(pull.number)
        return Closed()
    restored = await repository.git.create_commit(undoing.message, (await repository.git.commit(before)).tree, [head])
    await undoing.ready()
    return await _moved(repository, branch, restored.sha)


async def _moved(repository: Repository, branch: str, sha: str) -> Restored | NotUndone:
    try:
        if await repository.git.advance_branch(branch, sha):
            return Restored(sha)
    except Rejected as error:  # protected, or a rule of the repository
        return NotUndone(f"GitHub does not let us move the branch ({error.message})", "Take it back by hand.")
    return NotUndone("somebody pushed to the branch in this very moment", "Look at the new commit, then ask again.")


def _names(job_id: str, commit: Commit) -> bool:
    return commit.message.rstrip().rsplit("\n", 1)[-1].strip() == f"{JOB_TRAILER}: {job_id}"
