"""Git's own objects in one repository: commits, trees, files, and the branches that lead to them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from agent.errors import BugError
from agent.git import blob_id
from app.github.errors import NotFound, Rejected
from app.github.models import Commit, Compared, Tree
from app.github.place import Place


@dataclass(frozen=True)
class TreeChange:
    """One entry of a new tree. ``sha`` is the blob's id; ``None`` deletes the path."""

    path: str
    mode: str
    sha: str | None


class GitData:
    """What is made here is seen by nobody before a branch leads to it."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def branch(self, name: str) -> str | None:
        """The commit that a branch points to, or ``None``."""
        url = await self._place.url("/git/ref/heads/{name}", name=name)
        try:
            answer = await self._place.api.get(url, "read a branch")
        except NotFound:
            return None
        return str(answer["object"]["sha"])

    async def create_branch(self, name: str, sha: str) -> str:
        """Make a branch; returns where it points afterwards, which is elsewhere when somebody was faster."""

        async def make() -> str:
            url = await self._place.url("/git/refs")
            try:
                answer = await self._place.api.send(
                    "POST", url, "make a branch", json={"ref": f"refs/heads/{name}", "sha": sha}
                )
            except Rejected as error:
                if "already exists" in error.message and (there := await self.branch(name)) is not None:
                    return there
                raise
            return str(answer["object"]["sha"])

        return await self._place.once(lambda: self.branch(name), make)

    async def advance_branch(self, name: str, sha: str) -> bool:
        """Move a branch forward to ``sha``; false when that is no fast-forward or the branch is gone. Never forced."""
        url = await self._place.url("/git/refs/heads/{name}", name=name)
        try:
            await self._place.api.send("PATCH", url, "move a branch", json={"sha": sha, "force": False})
        except (NotFound, Rejected) as error:
            text = error.why.lower()
            if isinstance(error, NotFound) or "fast forward" in text or "does not exist" in text:
                return False
            raise
        return True

    async def commit(self, sha: str) -> Commit:
        url = await self._place.url("/git/commits/{sha}", sha=sha)
        return Commit.model_validate(await self._place.api.get(url, "read a commit"))

    async def create_commit(self, message: str, tree: str, parents: Sequence[str]) -> Commit:
        """A commit without author fields: GitHub fills them in with the App's account, and signs it."""
        url = await self._place.url("/git/commits")
        body = {"message": message, "tree": tree, "parents": list(parents)}
        # A commit that nothing points to is nothing: making it twice does no harm.
        return Commit.model_validate(await self._place.api.send("POST", url, "make a commit", json=body, harmless=True))

    async def tree(self, sha: str, *, recursive: bool = True) -> Tree:
        url = await self._place.url("/git/trees/{sha}", sha=sha)
        params: dict[str, str | int] = {"recursive": 1} if recursive else {}
        return Tree.model_validate(await self._place.api.get(url, "read a tree", **params))

    async def create_tree(self, base_tree: str, changes: Sequence[TreeChange]) -> str:
        """The id of ``base_tree`` with ``changes``."""
        url = await self._place.url("/git/trees")
        entries = [{"path": c.path, "mode": c.mode, "type": "blob", "sha": c.sha} for c in changes]
        body = {"base_tree": base_tree, "tree": entries}
        return str((await self._place.api.send("POST", url, "make a tree", json=body, harmless=True))["sha"])

    async def blob(self, sha: str) -> bytes:
        url = await self._place.url("/git/blobs/{sha}", sha=sha)
        answer = await self._place.api.get(url, "read a file")
        return base64.b64decode(answer["content"])

    async def create_blob(self, content: bytes) -> str:
        """The id of ``content``, which GitHub now holds.

        Raises:
            BugError: GitHub stored something else.
        """
        url = await self._place.url("/git/blobs")
        body = {"content": base64.b64encode(content).decode("ascii"), "encoding": "base64"}
        sha = str((await self._place.api.send("POST", url, "store a file", json=body, harmless=True))["sha"])
        if sha != blob_id(content):
            raise BugError("GitHub stored other bytes than were sent", why=f"blob {sha}")
        return sha

    async def compare(self, base: str, head: str) -> Compared:
        """How commit ``head`` stands to commit ``base``."""
        url = await self._place.url("/compare/{base}...{head}", base=base, head=head)
        return Compared.model_validate(await self._place.api.get(url, "compare commits", per_page=100))
