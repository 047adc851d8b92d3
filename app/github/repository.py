"""One repository through the eyes of the App's installation."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from agent.errors import BugError, UserError
from agent.git import blob_id
from app.github.api import Api, path
from app.github.errors import AnswerLost, NotFound, Rejected
from app.github.models import (
    CheckState,
    Comment,
    Commit,
    Compared,
    Issue,
    LineComment,
    Permission,
    Pull,
    RepositoryFacts,
    Tree,
    WorkflowState,
)
from app.report.check import Annotation, CheckRun

T = TypeVar("T")


@dataclass(frozen=True)
class TreeChange:
    """One entry of a new tree. ``sha`` is the blob's id; ``None`` deletes the path."""

    path: str
    mode: str
    sha: str | None


class Repository:
    """All that we read and write in one repository. Made by ``GitHubApp.repository``.

    Writes that make something new look for an earlier trace first, and again after a lost answer: so a call can be
    repeated, by us or by a job that was killed in the middle, and makes one thing.

    Raises, each method: the errors of ``app.github.errors``; ``RetryLater`` where waiting helps.
    """

    def __init__(self, api: Api, repository_id: int, app_id: int, name: Callable[[bool], Awaitable[str]]) -> None:
        self.id = repository_id
        self._api = api
        self._app_id = app_id
        self._name = name

    async def _url(self, template: str, **parts: str | int) -> str:
        return path("/repos/{repo}" + template, repo=await self._name(False), **parts)

    async def _once(self, find: Callable[[], Awaitable[T | None]], make: Callable[[], Awaitable[T]]) -> T:
        """What ``find`` finds, else what ``make`` makes; after a lost answer ``find`` decides again."""
        if (found := await find()) is not None:
            return found
        for pause in self._api.backoff_s:
            try:
                return await make()
            except AnswerLost:
                # What was written a moment ago may not be listed yet.
                await asyncio.sleep(pause)
            if (found := await find()) is not None:
                return found
        return await make()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def facts(self) -> RepositoryFacts:
        """The repository as it is now.

        Raises:
            UserError: another repository answers under this name.
        """
        for renew in (False, True):  # somebody else may have taken the name that we knew
            url = path("/repos/{repo}", repo=await self._name(renew))
            try:
                facts = RepositoryFacts.model_validate(await self._api.get(url, "read the repository"))
            except NotFound:
                if renew:
                    raise
                continue
            if facts.id == self.id:
                return facts
        raise UserError(
            "The repository was renamed or transferred and its name belongs to another one now",
            todo="Ask again in the repository where the issue is now",
        )

    async def permission(self, login: str) -> Permission:
        """What ``login`` may do now; ``none`` for somebody GitHub does not know."""
        url = await self._url("/collaborators/{login}/permission", login=login)
        try:
            return Permission.model_validate(await self._api.get(url, "read a person's permission"))
        except NotFound:
            return Permission.model_validate({"permission": "none"})

    async def issue(self, number: int) -> Issue:
        """An issue, or a pull request seen as one."""
        url = await self._url("/issues/{number}", number=number)
        return Issue.model_validate(await self._api.get(url, "read an issue"))

    async def comments(self, number: int, *, since: datetime | None = None) -> tuple[Comment, ...]:
        """The comments of an issue or pull request, oldest first; ``since`` counts changes too."""
        url = await self._url("/issues/{number}/comments", number=number)
        stamp = {"since": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if since else {}
        return tuple(Comment.model_validate(c) for c in await self._api.pages(url, "read comments", **stamp))

    async def pull(self, number: int) -> Pull:
        url = await self._url("/pulls/{number}", number=number)
        return Pull.model_validate(await self._api.get(url, "read a pull request"))

    async def line_comments(self, number: int) -> tuple[LineComment, ...]:
        """All comments on lines of a pull request, oldest first."""
        url = await self._url("/pulls/{number}/comments", number=number)
        return tuple(LineComment.model_validate(c) for c in await self._api.pages(url, "read comments on lines"))

    async def pulls_from(self, branch: str) -> tuple[Pull, ...]:
        """Pull requests of any state whose head is ``branch`` of this repository, newest first."""
        owner = (await self.facts()).full_name.split("/")[0]  # GitHub redirects the path, not the filter
        found = await self._api.pages(
            await self._url("/pulls"), "look for pull requests", head=f"{owner}:{branch}", state="all"
        )
        pulls = [Pull.model_validate(item) for item in found]
        # GitHub ignores a filter that it can't read, and then lists everything.
        return tuple(p for p in pulls if p.head.ref == branch and not p.from_fork(self.id))

    # ── comments and reactions ───────────────────────────────────────────────────────────────────────────────────

    async def upsert_comment(
        self, number: int, marker: str, body: str, *, known_id: int | None = None, since: datetime | None = None
    ) -> int:
        """Write or edit the one comment of ours that begins with ``marker``; returns its id.

        Args:
            known_id: the id from an earlier call. A comment that a person deleted is written anew.
            since: no such comment can be older, to spare reading a long conversation.
        """
        if not body.startswith(marker):
            raise BugError("A comment does not begin with its marker")

        async def find() -> int | None:
            ours = (c for c in await self.comments(number, since=since) if self._ours(c) and c.body.startswith(marker))
            return next((comment.id for comment in ours), None)

        async def make() -> int:
            url = await self._url("/issues/{number}/comments", number=number)
            answer = await self._api.send("POST", url, "write a comment", json={"body": body})
            made.append(int(answer["id"]))
            return made[0]

        made: list[int] = []
        if known_id is not None and await self._edit_comment(known_id, body):
            return known_id
        found = await self._once(find, make)
        if not made:
            await self._edit_comment(found, body)
        return found

    def _ours(self, comment: Comment) -> bool:
        return comment.app is not None and comment.app.id == self._app_id

    async def _edit_comment(self, comment_id: int, body: str) -> bool:
        url = await self._url("/issues/comments/{id}", id=comment_id)
        try:
            await self._api.send("PATCH", url, "edit a comment", json={"body": body})
        except NotFound:
            return False
        return True

    async def react(self, content: str, comment_id: int, *, on_lines: bool = False) -> None:
        """Add a reaction (``eyes``, ``+1``, …) to a comment; twice is as good as once.

        Args:
            on_lines: the comment is one on lines of a pull request.
        """
        kind = "pulls" if on_lines else "issues"
        url = await self._url(f"/{kind}/comments/{{id}}/reactions", id=comment_id)
        await self._api.send("POST", url, "add a reaction", json={"content": content}, harmless=True)

    async def answer_on_lines(self, number: int, first: int, body: str) -> None:
        """Add to a conversation on lines of a pull request. ``AnswerLost``: look for it before it is said again.

        Args:
            first: the comment that the conversation began with.
        """
        url = await self._url("/pulls/{number}/comments/{id}/replies", number=number, id=first)
        await self._api.send("POST", url, "answer a comment", json={"body": body})

    async def ask_for_review(self, number: int, login: str) -> None:
        """Ask somebody for a review of a pull request; twice is as good as once.

        Raises:
            Rejected: among others for who wrote it, and who has no access to the repository.
        """
        url = await self._url("/pulls/{number}/requested_reviewers", number=number)
        await self._api.send("POST", url, "ask for a review", json={"reviewers": [login]}, harmless=True)

    # ── check runs ───────────────────────────────────────────────────────────────────────────────────────────────

    async def put_check(self, head_sha: str, check: CheckRun, *, known_id: int | None = None) -> int:
        """Make or update a job's check run on a commit; returns its id. No annotation is lost or doubled."""
        state = await self._check(head_sha, check, known_id)
        url = await self._url("/check-runs/{id}", id=state.id)
        batches = list(check.batches(state.annotations)) or [()]
        for position, batch in enumerate(batches):
            body = _output(check, batch)
            if position == len(batches) - 1:
                body |= {"status": "completed", "conclusion": check.conclusion}
            # Each update appends its annotations, so it is not repeated unseen.
            await self._api.send("PATCH", url, "update a check run", json=body, harmless=not batch)
        return state.id

    async def _check(self, head_sha: str, check: CheckRun, known_id: int | None) -> CheckState:
        async def find() -> CheckState | None:
            url = await self._url("/commits/{sha}/check-runs", sha=head_sha)
            found = await self._api.pages(
                url, "look for check runs", key="check_runs", check_name=check.name, filter="all", app_id=self._app_id
            )
            states = [CheckState.model_validate(item) for item in found]
            return next((s for s in states if s.external_id == check.external_id), None)

        async def make() -> CheckState:
            body = {
                "name": check.name,
                "head_sha": head_sha,
                "external_id": check.external_id,
                "status": "in_progress",
                **_output(check, ()),
            }
            url = await self._url("/check-runs")
            return CheckState.model_validate(await self._api.send("POST", url, "make a check run", json=body))

        if known_id is not None:
            url = await self._url("/check-runs/{id}", id=known_id)
            try:
                return CheckState.model_validate(await self._api.get(url, "read a check run"))
            except NotFound:
                pass
        return await self._once(find, make)

    # ── git data ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def branch(self, name: str) -> str | None:
        """The commit that a branch points to, or ``None``."""
        url = await self._url("/git/ref/heads/{name}", name=name)
        try:
            answer = await self._api.get(url, "read a branch")
        except NotFound:
            return None
        return str(answer["object"]["sha"])

    async def create_branch(self, name: str, sha: str) -> str:
        """Make a branch; returns where it points afterwards, which is elsewhere when somebody was faster."""

        async def make() -> str:
            url = await self._url("/git/refs")
            try:
                answer = await self._api.send(
                    "POST", url, "make a branch", json={"ref": f"refs/heads/{name}", "sha": sha}
                )
            except Rejected as error:
                if "already exists" in error.message and (there := await self.branch(name)) is not None:
                    return there
                raise
            return str(answer["object"]["sha"])

        return await self._once(lambda: self.branch(name), make)

    async def advance_branch(self, name: str, sha: str) -> bool:
        """Move a branch forward to ``sha``; false when that is no fast-forward or the branch is gone. Never forced."""
        url = await self._url("/git/refs/heads/{name}", name=name)
        try:
            await self._api.send("PATCH", url, "move a branch", json={"sha": sha, "force": False})
        except (NotFound, Rejected) as error:
            text = error.why.lower()
            if isinstance(error, NotFound) or "fast forward" in text or "does not exist" in text:
                return False
            raise
        return True

    async def commit(self, sha: str) -> Commit:
        url = await self._url("/git/commits/{sha}", sha=sha)
        return Commit.model_validate(await self._api.get(url, "read a commit"))

    async def create_commit(self, message: str, tree: str, parents: Sequence[str]) -> Commit:
        """A commit without author fields: GitHub fills them in with the App's account, and signs it."""
        url = await self._url("/git/commits")
        body = {"message": message, "tree": tree, "parents": list(parents)}
        # A commit that nothing points to is nothing: making it twice does no harm.
        return Commit.model_validate(await self._api.send("POST", url, "make a commit", json=body, harmless=True))

    async def tree(self, sha: str, *, recursive: bool = True) -> Tree:
        url = await self._url("/git/trees/{sha}", sha=sha)
        params: dict[str, str | int] = {"recursive": 1} if recursive else {}
        return Tree.model_validate(await self._api.get(url, "read a tree", **params))

    async def create_tree(self, base_tree: str, changes: Sequence[TreeChange]) -> str:
        """The id of ``base_tree`` with ``changes``."""
        url = await self._url("/git/trees")
        entries = [{"path": c.path, "mode": c.mode, "type": "blob", "sha": c.sha} for c in changes]
        body = {"base_tree": base_tree, "tree": entries}
        return str((await self._api.send("POST", url, "make a tree", json=body, harmless=True))["sha"])

    async def blob(self, sha: str) -> bytes:
        url = await self._url("/git/blobs/{sha}", sha=sha)
        answer = await self._api.get(url, "read a file")
        return base64.b64decode(answer["content"])

    async def create_blob(self, content: bytes) -> str:
        """The id of ``content``, which GitHub now holds.

        Raises:
            BugError: GitHub stored something else.
        """
        url = await self._url("/git/blobs")
        body = {"content": base64.b64encode(content).decode("ascii"), "encoding": "base64"}
        sha = str((await self._api.send("POST", url, "store a file", json=body, harmless=True))["sha"])
        if sha != blob_id(content):
            raise BugError("GitHub stored other bytes than were sent", why=f"blob {sha}")
        return sha

    async def compare(self, base: str, head: str) -> Compared:
        """How commit ``head`` stands to commit ``base``."""
        url = await self._url("/compare/{base}...{head}", base=base, head=head)
        return Compared.model_validate(await self._api.get(url, "compare commits", per_page=100))

    # ── pull requests ────────────────────────────────────────────────────────────────────────────────────────────

    async def open_pull(self, *, branch: str, base: str, title: str, body: str, draft: bool) -> Pull:
        """The open pull request from ``branch``, made if there is none.

        Raises:
            Rejected: among others "No commits between", and drafts where the plan has none.
        """

        async def find() -> Pull | None:
            return next((p for p in await self.pulls_from(branch) if p.state == "open"), None)

        async def make() -> Pull:
            fields = {"title": title, "body": body, "head": branch, "base": base, "draft": draft}
            url = await self._url("/pulls")
            try:
                return Pull.model_validate(await self._api.send("POST", url, "open a pull request", json=fields))
            except Rejected as error:
                if "already exists" in error.message and (there := await find()) is not None:
                    return there
                raise

        return await self._once(find, make)

    async def edit_pull(self, number: int, *, title: str, body: str) -> None:
        url = await self._url("/pulls/{number}", number=number)
        await self._api.send("PATCH", url, "edit a pull request", json={"title": title, "body": body})

    async def close_pull(self, number: int) -> None:
        url = await self._url("/pulls/{number}", number=number)
        await self._api.send("PATCH", url, "close a pull request", json={"state": "closed"})

    async def set_draft(self, pull: Pull, *, draft: bool) -> str:
        """Make a pull request a draft, or ready for review; returns its head at that moment. REST can't do this."""
        name = "convertPullRequestToDraft" if draft else "markPullRequestReadyForReview"
        query = (
            f"mutation($id: ID!) {{ {name}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft headRefOid }} }} }}"
        )
        what = "make a pull request a draft" if draft else "mark a pull request as ready"
        answer = await self._api.graphql(query, {"id": pull.node_id}, what)
        return str(answer[name]["pullRequest"]["headRefOid"])

    # ── workflows ────────────────────────────────────────────────────────────────────────────────────────────────

    async def start_workflow(self, file: str, ref: str, inputs: Mapping[str, str]) -> int | None:
        """Start the workflow ``file`` on the branch ``ref``; the number of its run, where this GitHub tells it.

        Repeated after a lost answer it may start two runs: what they do has to bear that.
        """
        url = await self._url("/actions/workflows/{file}/dispatches", file=file)
        what, body = f"start the workflow {file}", {"ref": ref, "inputs": dict(inputs)}
        try:
            told = await self._api.send("POST", url, what, json={**body, "return_run_details": True}, harmless=True)
        except Rejected as error:
            if "return_run_details" not in error.message:  # servers that do not know it yet
                raise
            told = await self._api.send("POST", url, what, json=body, harmless=True)
        return int(told["workflow_run_id"]) if told else None

    async def workflow_state(self, run_id: int) -> WorkflowState:
        url = await self._url("/actions/runs/{id}", id=run_id)
        return WorkflowState.model_validate(await self._api.get(url, "look at the workflow's run"))

    async def cancel_workflow(self, run_id: int) -> None:
        """Have GitHub end the run; one that has ended stays as it is."""
        url = await self._url("/actions/runs/{id}/cancel", id=run_id)
        with suppress(Rejected):
            await self._api.send("POST", url, "cancel the workflow's run", harmless=True)


def _output(check: CheckRun, batch: Sequence[Annotation]) -> dict[str, Any]:
    annotations = [
        {
            "path": a.path,
            "start_line": a.line,
            "end_line": a.line,
            "annotation_level": a.level,
            "title": a.title,
            "message": a.message,
        }
        for a in batch
    ]
    return {"output": {"title": check.title, "summary": check.summary, "annotations": annotations}}
