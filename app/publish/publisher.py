"""A change set becomes one commit on one branch and one pull request, however often the job is killed on the way.

Nothing here depends on memory: the branch has a name made from the issue, the commit names its job, GitHub keeps one
open pull request a branch, and ids that the job stored are passed in. Each function looks for its own traces first.
Branches only ever move forward by fast-forward; a branch with somebody else's work on top is never touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from agent import paths
from agent.errors import UserError
from agent.types import ChangeSet, FileChange
from app.github import NotFound, Pull, Rejected, Repository, TreeChange
from app.publish import policy
from app.publish.checking import base_entries
from app.publish.policy import Accepted
from app.report.names import JOB_TRAILER

_AT_ONCE = 4
_NAMES = 20
_NO_FORCE = "somebody else's commits are never overwritten"


async def _at_once() -> None:
    """Nothing stands in the way."""


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Proposal:
    """What to publish, with the texts that stand beside it."""

    accepted: Accepted
    job_id: str
    branch: str
    """The bot's own branch: where the work goes, or is kept when it can't go to a person's branch."""
    message: str
    """Commit message; ends with the job's trailer."""
    own_commits: frozenset[str] = frozenset()
    """Commits that earlier jobs of the same issue have published: these may be built upon."""
    ready: Callable[[], Awaitable[None]] = _at_once
    """Called right before a branch is made or moved, the first that others can see; raises to call it off."""


@dataclass(frozen=True)
class PullText:
    """What a pull request says, and the branch that it is proposed to."""

    title: str
    body: str
    base_ref: str
    draft: bool


@dataclass(frozen=True)
class Published:
    """The commit is on ``branch``; the pull request is ``pull_number``."""

    branch: str
    commit_sha: str
    pull_number: int | None
    """``None`` where the branch belongs to a pull request that the caller knows."""
    draft: bool = False


@dataclass(frozen=True)
class Kept:
    """The commit could not go where it was meant to; it is kept on a branch of the bot's own."""

    branch: str
    commit_sha: str
    reason: str


@dataclass(frozen=True)
class Moved:
    """The branch has new commits that don't touch what we changed: test ``change_set`` on them, then update again."""

    head_sha: str
    change_set: ChangeSet


@dataclass(frozen=True)
class Unchanged:
    """There is nothing to publish; nothing was written."""

    reason: str


# ── publishing ───────────────────────────────────────────────────────────────────────────────────────────────────


async def propose(repository: Repository, proposal: Proposal, text: PullText) -> Published | Unchanged:
    """Put the change on the bot's branch and open or update its one pull request.

    An open pull request of the same branch, with nothing but our commits, gets one more commit. Where people have added
    to the branch, or closed its pull request, the next free name is taken.
    """
    tree = await _tree(repository, proposal.accepted)
    if tree is None:
        return _nothing(proposal.accepted)
    branch, commit = await _on_own_branch(repository, proposal, tree)
    return await _pull(repository, branch, commit, text)


async def update(repository: Repository, proposal: Proposal, branch: str) -> Published | Kept | Moved | Unchanged:
    """Add the change to ``branch``, the head of a pull request in this very repository.

    The change was made on ``proposal.accepted.base_sha``. Where the branch has moved since, the answer is ``Moved`` if
    the change still fits; else the work is kept on the bot's own branch.
    """
    base = proposal.accepted.base_sha
    tree = await _tree(repository, proposal.accepted)
    if tree is None:
        return _nothing(proposal.accepted)
    head = await repository.git.branch(branch)
    if head is not None and (done := await _ours(repository, head, proposal, tree)):
        return Published(branch, done, None)
    if head == base:
        commit = await repository.git.create_commit(proposal.message, tree, [base])
        await proposal.ready()
        try:
            if await repository.git.advance_branch(branch, commit.sha):
                return Published(branch, commit.sha, None)
        except Rejected as error:  # protected, or a rule of the repository
            return await _keep(repository, proposal, tree, f"GitHub does not let us move the branch ({error.message})")
        head = await repository.git.branch(branch)  # moved in this very moment
    if head is None:
        return await _keep(repository, proposal, tree, "the branch was deleted while the job ran")
    return await _rebased(repository, proposal, tree, head)


async def _rebased(repository: Repository, proposal: Proposal, tree: str, head: str) -> Kept | Moved:
    accepted = proposal.accepted
    if (await repository.git.compare(accepted.base_sha, head)).status != "ahead":
        return await _keep(repository, proposal, tree, f"the branch was rewritten while the job ran, and {_NO_FORCE}")
    changed = [change.path for change in accepted.changes]
    before = await base_entries(repository, accepted.base_sha, changed)
    after = await base_entries(repository, head, changed)
    if not fits(accepted.changes, before, after):
        return await _keep(
            repository, proposal, tree, f"the branch got other changes to the same files, and {_NO_FORCE}"
        )
    return Moved(head, ChangeSet(base_sha=head, changes=accepted.changes))


def fits(changes: Iterable[FileChange], before: policy.Base, after: policy.Base) -> bool:
    """Whether the changes, made on ``before``, say the same on ``after``: what they touch is what it was. Pure."""
    return all(before.get(change.path) == after.get(change.path) for change in changes)


async def keep(repository: Repository, proposal: Proposal, reason: str) -> Kept | Unchanged:
    """Keep the work on a branch of the bot's own, without a pull request."""
    tree = await _tree(repository, proposal.accepted)
    if tree is None:
        return _nothing(proposal.accepted)
    return await _keep(repository, proposal, tree, reason)


async def _keep(repository: Repository, proposal: Proposal, tree: str, reason: str) -> Kept:
    branch, commit = await _on_own_branch(repository, replace(proposal, own_commits=frozenset()), tree)
    return Kept(branch, commit, reason)


def _nothing(accepted: Accepted) -> Unchanged:
    if accepted.held_back and not accepted.changes:
        told = "; ".join(f"{held.change.path}: {held.reason}" for held in accepted.held_back)
        return Unchanged(f"every change had to be left out ({told})")
    return Unchanged("the files are the same as before")


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _tree(repository: Repository, accepted: Accepted) -> str | None:
    """The id of the base's tree with the changes; ``None`` when that is the base's own."""
    if not accepted.changes:
        return None
    base = (await repository.git.commit(accepted.base_sha)).tree
    gate = asyncio.Semaphore(_AT_ONCE)

    async def entry(change: FileChange) -> TreeChange:
        async with gate:
            sha = None if change.content is None else await repository.git.create_blob(change.content)
        return TreeChange(change.path, change.mode, sha)

    # Not a task group: it would wrap the error that says who must act.
    entries = await asyncio.gather(*map(entry, accepted.changes))
    tree = await repository.git.create_tree(base, entries)
    return None if tree == base else tree


async def _on_own_branch(repository: Repository, proposal: Proposal, tree: str) -> tuple[str, str]:
    """The bot's branch with our commit at its head: branch name and commit."""
    stem = await _possible(repository, proposal.branch)
    for number in range(1, _NAMES + 1):
        name = stem if number == 1 else f"{stem}-{number}"
        if commit := await _placed(repository, proposal, tree, name):
            return name, commit
    raise UserError(
        "No name is left for a branch",
        why=f"{proposal.branch} and {_NAMES - 1} more like it are in use",
        todo="Delete old branches of this issue",
    )


async def _possible(repository: Repository, name: str) -> str:
    """``name``, or one without folders: where a branch ``agent`` is, git has no room for ``agent/x``."""
    taken = [folder for folder in paths.parents(name) if await repository.git.branch(folder) is not None]
    return name.replace("/", "-") if taken else name


async def _placed(repository: Repository, proposal: Proposal, tree: str, name: str) -> str | None:
    """Our commit at the head of branch ``name``, or ``None`` where the branch is somebody else's."""
    base = proposal.accepted.base_sha
    head = await repository.git.branch(name)
    if head is None:
        commit = await repository.git.create_commit(proposal.message, tree, [base])
        await proposal.ready()
        head = await repository.git.create_branch(name, commit.sha)
        if head == commit.sha:
            return head
    if done := await _ours(repository, head, proposal, tree):
        return done
    if head not in proposal.own_commits or not await _is_open(repository, name):
        return None
    # A further job of the same issue: one more commit on top, and the base too where that has moved on.
    behind = (await repository.git.compare(base, head)).status in ("ahead", "identical")
    if behind and (await repository.git.commit(head)).tree == tree:
        return head  # it says the same: a commit without a change would only make noise
    commit = await repository.git.create_commit(proposal.message, tree, [head] if behind else [head, base])
    await proposal.ready()
    return commit.sha if await repository.git.advance_branch(name, commit.sha) else None


async def _ours(repository: Repository, head: str, proposal: Proposal, tree: str) -> str | None:
    """This job's own commit below ``head``, from before a crash: it names the job and holds exactly this tree."""
    trailer = f"{JOB_TRAILER}: {proposal.job_id}"
    try:
        compared = await repository.git.compare(proposal.accepted.base_sha, head)
    except NotFound:
        return None  # nothing in common
    mine = (c for c in compared.commits if c.tree == tree and c.message.rstrip().rsplit("\n", 1)[-1].strip() == trailer)
    return next((commit.sha for commit in mine), None)


async def _is_open(repository: Repository, branch: str) -> bool:
    return any(pull.state == "open" for pull in await repository.pulls_from(branch))


async def _pull(repository: Repository, branch: str, commit: str, text: PullText) -> Published | Unchanged:
    pulls = await repository.pulls_from(branch)
    there = next((pull for pull in pulls if pull.state == "open"), None)
    # A pull request that a person closed or merged after our commit was made is an answer; it is not asked again.
    there = there or next((pull for pull in pulls if pull.head.sha == commit), None)
    if there is None:
        return await _open(repository, branch, commit, text)
    if (
        there.state == "open"
        and (there.title, there.body) != (text.title, text.body)
        and _is_bots(there.body, text.body)
    ):
        await repository.edit_pull(there.number, title=text.title, body=text.body)
    if there.state == "open" and text.draft and not there.draft:
        return Published(branch, commit, there.number, draft=await _draft_again(repository, there))
    return Published(branch, commit, there.number, draft=there.draft)


async def _draft_again(repository: Repository, pull: Pull) -> bool:
    """What was ready is not with this commit; whoever approved it has not seen it."""
    try:
        await repository.set_draft(pull, draft=True)
    except Rejected:  # no drafts in private repositories on GitHub's free plan
        return False
    return True


def _is_bots(body: str, ours: str) -> bool:
    """Whether a body begins with our marker: a description that a person wrote stays theirs."""
    marker = ours.split("\n", 1)[0]
    return body.replace("\r\n", "\n").split("\n", 1)[0] == marker


async def _open(repository: Repository, branch: str, commit: str, text: PullText) -> Published | Unchanged:
    fields = {"branch": branch, "base": text.base_ref, "title": text.title, "body": text.body}
    draft = text.draft
    try:
        pull = await repository.open_pull(**fields, draft=draft)
    except Rejected as error:
        if "no commits between" in error.message.lower():
            return Unchanged("the base branch already holds the same change")
        if not draft or "draft" not in error.message.lower():
            raise
        # Private repositories on GitHub's free plan have no drafts; the body says that it is not proven.
        draft = False
        pull = await repository.open_pull(**fields, draft=draft)
    return Published(branch, commit, pull.number, draft=pull.draft)
