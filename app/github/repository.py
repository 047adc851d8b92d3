"""One repository through the eyes of the App's installation: what people see of it, and the way to the rest."""

from __future__ import annotations

from datetime import UTC, datetime

from agent.errors import BugError, UserError
from app.github.api import path
from app.github.checks import Checks
from app.github.errors import NotFound, Rejected
from app.github.gitdata import GitData
from app.github.models import Comment, Issue, LineComment, Permission, Pull, RepositoryFacts
from app.github.place import Place
from app.github.workflows import Workflows


class Repository:
    """All that we read and write in one repository. Made by ``GitHubApp.repository``.

    Issues, comments and pull requests are here; ``git``, ``checks`` and ``workflows`` have the rest.

    Writes that make something new look for an earlier trace first, and again after a lost answer: so a call can be
    repeated, by us or by a job that was killed in the middle, and makes one thing.

    Raises, each method: the errors of ``app.github.errors``; ``RetryLater`` where waiting helps.
    """

    def __init__(self, place: Place) -> None:
        self.id = place.id
        self.git = GitData(place)
        self.checks = Checks(place)
        self.workflows = Workflows(place)
        self._place = place

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def facts(self) -> RepositoryFacts:
        """The repository as it is now.

        Raises:
            UserError: another repository answers under this name.
        """
        for renew in (False, True):  # somebody else may have taken the name that we knew
            url = path("/repos/{repo}", repo=await self._place.name(renew))
            try:
                facts = RepositoryFacts.model_validate(await self._place.api.get(url, "read the repository"))
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
        url = await self._place.url("/collaborators/{login}/permission", login=login)
        try:
            return Permission.model_validate(await self._place.api.get(url, "read a person's permission"))
        except NotFound:
            return Permission.model_validate({"permission": "none"})

    async def issue(self, number: int) -> Issue:
        """An issue, or a pull request seen as one."""
        url = await self._place.url("/issues/{number}", number=number)
        return Issue.model_validate(await self._place.api.get(url, "read an issue"))

    async def comments(self, number: int, *, since: datetime | None = None) -> tuple[Comment, ...]:
        """The comments of an issue or pull request, oldest first; ``since`` counts changes too."""
        url = await self._place.url("/issues/{number}/comments", number=number)
        stamp = {"since": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if since else {}
        return tuple(Comment.model_validate(c) for c in await self._place.api.pages(url, "read comments", **stamp))

    async def pull(self, number: int) -> Pull:
        url = await self._place.url("/pulls/{number}", number=number)
        return Pull.model_validate(await self._place.api.get(url, "read a pull request"))

    async def line_comments(self, number: int) -> tuple[LineComment, ...]:
        """All comments on lines of a pull request, oldest first."""
        url = await self._place.url("/pulls/{number}/comments", number=number)
        return tuple(LineComment.model_validate(c) for c in await self._place.api.pages(url, "read comments on lines"))

    async def pulls_from(self, branch: str) -> tuple[Pull, ...]:
        """Pull requests of any state whose head is ``branch`` of this repository, newest first."""
        owner = (await self.facts()).full_name.split("/")[0]  # GitHub redirects the path, not the filter
        found = await self._place.api.pages(
            await self._place.url("/pulls"), "look for pull requests", head=f"{owner}:{branch}", state="all"
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
            url = await self._place.url("/issues/{number}/comments", number=number)
            answer = await self._place.api.send("POST", url, "write a comment", json={"body": body})
            made.append(int(answer["id"]))
            return made[0]

        made: list[int] = []
        if known_id is not None and await self.edit_comment(known_id, body):
            return known_id
        found = await self._place.once(find, make)
        if not made:
            await self.edit_comment(found, body)
        return found

    def _ours(self, comment: Comment) -> bool:
        return comment.app is not None and comment.app.id == self._place.app_id

    async def edit_comment(self, comment_id: int, body: str) -> bool:
        """False where a person has deleted it."""
        url = await self._place.url("/issues/comments/{id}", id=comment_id)
        try:
            await self._place.api.send("PATCH", url, "edit a comment", json={"body": body})
        except NotFound:
            return False
        return True

    async def react(self, content: str, comment_id: int, *, on_lines: bool = False) -> None:
        """Add a reaction (``eyes``, ``+1``, …) to a comment; twice is as good as once.

        Args:
            on_lines: the comment is one on lines of a pull request.
        """
        kind = "pulls" if on_lines else "issues"
        url = await self._place.url(f"/{kind}/comments/{{id}}/reactions", id=comment_id)
        await self._place.api.send("POST", url, "add a reaction", json={"content": content}, harmless=True)

    async def answer_on_lines(self, number: int, first: int, body: str) -> None:
        """Add to a conversation on lines of a pull request. ``AnswerLost``: look for it before it is said again.

        Args:
            first: the comment that the conversation began with.
        """
        url = await self._place.url("/pulls/{number}/comments/{id}/replies", number=number, id=first)
        await self._place.api.send("POST", url, "answer a comment", json={"body": body})

    async def ask_for_review(self, number: int, login: str) -> None:
        """Ask somebody for a review of a pull request; twice is as good as once.

        Raises:
            Rejected: among others for who wrote it, and who has no access to the repository.
        """
        url = await self._place.url("/pulls/{number}/requested_reviewers", number=number)
        await self._place.api.send("POST", url, "ask for a review", json={"reviewers": [login]}, harmless=True)

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
            url = await self._place.url("/pulls")
            try:
                return Pull.model_validate(await self._place.api.send("POST", url, "open a pull request", json=fields))
            except Rejected as error:
                if "already exists" in error.message and (there := await find()) is not None:
                    return there
                raise

        return await self._place.once(find, make)

    async def edit_pull(self, number: int, *, title: str, body: str) -> None:
        url = await self._place.url("/pulls/{number}", number=number)
        await self._place.api.send("PATCH", url, "edit a pull request", json={"title": title, "body": body})

    async def close_pull(self, number: int) -> None:
        url = await self._place.url("/pulls/{number}", number=number)
        await self._place.api.send("PATCH", url, "close a pull request", json={"state": "closed"})

    async def set_draft(self, pull: Pull, *, draft: bool) -> str:
        """Make a pull request a draft, or ready for review; returns its head at that moment. REST can't do this."""
        name = "convertPullRequestToDraft" if draft else "markPullRequestReadyForReview"
        query = (
            f"mutation($id: ID!) {{ {name}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft headRefOid }} }} }}"
        )
        what = "make a pull request a draft" if draft else "mark a pull request as ready"
        answer = await self._place.api.graphql(query, {"id": pull.node_id}, what)
        return str(answer[name]["pullRequest"]["headRefOid"])
