"""One repository of the stand-in from Python: what people do there, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.devhub import auth, checks, events, identity, issues, people, pulls, refs, reviews, seen
from app.devhub.gitobjects import ZERO, Person, TreeChange, text
from app.devhub.hub import Hub
from app.devhub.records import (
    Artifact,
    CheckRun,
    Collaborator,
    Comment,
    Issue,
    Pull,
    Repository,
    Review,
    ReviewComment,
    User,
    WorkflowRun,
)
from app.devhub.seen import SeenComment, SeenIssue, SeenPull
from app.devhub.shapes import accounts

Files = Mapping[str, bytes | str | None]
"""Path to content; ``None`` takes the file away."""


class Repo:
    """One repository, and what people do there. ``by`` is a login; it defaults to the owner."""

    def __init__(self, hub: Hub, id: int) -> None:
        self._hub = hub
        self.id = id

    @classmethod
    def create(cls, hub: Hub, owner: str, name: str, *, private: bool, default_branch: str) -> Repo:
        """Make an empty repository of an account that is made if need be."""
        now = hub.stamp()
        record = Repository(
            owner_id=people.user(hub, owner).id,
            name=name,
            private=private,
            default_branch=default_branch,
            created_at=now,
            pushed_at=now,
        )
        made = cls(hub, hub.store.add(record).id)
        hub.git(made.record).init(default_branch)
        return made

    @property
    def record(self) -> Repository:
        return self._hub.store.get(Repository, self.id)

    @property
    def full_name(self) -> str:
        return self._hub.full_name(self.record)

    @property
    def clone_url(self) -> str:
        return self._hub.web(f"/{self.full_name}.git")

    def _actor(self, by: str | None) -> auth.Actor:
        return auth.Actor(people.user(self._hub, by) if by else self._hub.owner(self.record))

    def change(self, **new: object) -> None:
        """Change fields of the record: ``archived=True``, ``name="new-name"``, ``private=False``."""
        self._hub.store.change(self.record, **new)

    def rename(self, name: str, *, by: str | None = None) -> None:
        """Give the repository another name; the old one leads to it."""
        with self._hub.store.transaction():
            old = self.record
            people.keep_name(self._hub, old)
            self.change(name=name)
            self._announce("renamed", {"repository": {"name": {"from": old.name}}}, by)

    def transfer(self, owner: str) -> None:
        """Give the repository to another account."""
        with self._hub.store.transaction():
            old = self._hub.owner(self.record)
            people.keep_name(self._hub, self.record)
            self.change(owner_id=people.user(self._hub, owner).id)
            kind = "organization" if old.type == "Organization" else "user"
            self._announce("transferred", {"owner": {"from": {kind: accounts.user(self._hub, old)}}}, owner)

    def _announce(self, action: str, changes: Mapping[str, object], by: str | None) -> None:
        sender = self._actor(by).user
        events.announce(self._hub, "repository", action, self.record, sender, lambda: {"changes": changes})

    def permit(self, login: str, permission: str | None) -> None:
        """Give a person ``read``, ``triage``, ``write``, ``maintain`` or ``admin``; ``None`` takes it away."""
        with self._hub.store.transaction():
            key = {"repository_id": self.id, "user_id": people.user(self._hub, login).id}
            found = self._hub.store.first(Collaborator, **key)
            if found:
                self._hub.store.remove(found)
            if permission:
                self._hub.store.add(Collaborator(**key, permission=permission))

    def protect(self, *branches: str) -> None:
        """Only people with admin rights may move these branches."""
        self.change(protected=branches)

    def fork(self, owner: str) -> Repo:
        """A fork with all branches."""
        with self._hub.store.transaction():
            own = self.record
            made = Repo.create(self._hub, owner, own.name, private=own.private, default_branch=own.default_branch)
            made.change(fork_of_id=self.id)
            self._hub.git(made.record).fetch(self._hub.git(self.record).path, "refs/heads/*", "refs/heads/*")
        return made

    def remove(self) -> None:
        """Delete the repository, as its owner; pull requests from it stay without a head repository."""
        with self._hub.store.transaction():
            for pull in self._hub.store.find(Pull, head_repository_id=self.id):
                self._hub.store.change(pull, head_repository_id=None)
            self._hub.store.remove(self.record)

    # ── git ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(
        self,
        files: Files,
        *,
        branch: str | None = None,
        message: str = "Change files",
        by: str | None = None,
        modes: Mapping[str, str] | None = None,
    ) -> str:
        """Commit files on a branch, made from the default branch if it is new; the answer is the commit's id.

        ``modes``: path to git mode, for links (``120000``, the content is the target) and executables (``100755``).
        """
        with self._hub.store.transaction():
            git = self._hub.git(self.record)
            parent = self._parent(branch)
            kept = {
                path: raw.encode() if isinstance(raw, str) else raw for path, raw in files.items() if raw is not None
            }
            with self._hub.scratch() as scratch:
                ids = dict(zip(kept, git.write_blobs(list(kept.values()), scratch), strict=True))
                changes = [TreeChange(path, (modes or {}).get(path, "100644"), ids.get(path)) for path in files]
                tree = git.write_tree(parent, changes, scratch)
            return self._commit_tree(tree, parent, branch, message, by)

    def commit_folder(self, folder: Path) -> str:
        """Commit all files of a folder to the default branch."""
        with self._hub.store.transaction():
            with self._hub.scratch() as scratch:
                tree = self._hub.git(self.record).write_folder(folder.absolute(), scratch)
            return self._commit_tree(tree, self._parent(None), None, "Initial commit", None)

    def _parent(self, branch: str | None) -> str | None:
        git = self._hub.git(self.record)
        known = git.ref(f"{refs.HEADS}{branch}") if branch else None
        return known.sha if known else git.resolve(f"{refs.HEADS}{self.record.default_branch}")

    def _commit_tree(self, tree: str, parent: str | None, branch: str | None, message: str, by: str | None) -> str:
        git, actor = self._hub.git(self.record), self._actor(by)
        author: Person = pulls.author_of(self._hub, actor)
        sha = git.write_commit(
            tree=tree, parents=[parent] if parent else [], author=author, committer=author, message=message
        )
        self.set_branch(branch or self.record.default_branch, sha, by=by)
        return sha

    def set_branch(self, branch: str, sha: str, *, by: str | None = None) -> None:
        """Move or make a branch, by force if need be: what a person's push does."""
        with self._hub.store.transaction():
            name, before = f"{refs.HEADS}{branch}", self.branches().get(branch, ZERO)
            self._hub.git(self.record).set_ref(name, sha)
            refs.moved(self._hub, self.record, self._actor(by), name, before, sha)

    def delete_branch(self, branch: str) -> None:
        with self._hub.store.transaction():
            name, before = f"{refs.HEADS}{branch}", self.branches()[branch]
            self._hub.git(self.record).delete_ref(name)
            refs.moved(self._hub, self.record, self._actor(None), name, before, ZERO)

    def branches(self) -> dict[str, str]:
        """Name to commit id."""
        return {ref.name.removeprefix(refs.HEADS): ref.sha for ref in self._hub.git(self.record).refs(refs.HEADS)}

    def log(self, revision: str) -> list[str]:
        """Commit ids, newest first."""
        git = self._hub.git(self.record)
        return git.log(git.resolve(revision) or revision)

    def message(self, sha: str) -> str:
        return self._hub.git(self.record).commit(sha).message

    def read(self, path: str, revision: str | None = None) -> bytes:
        """A file of a branch (the default one), tag or commit; ``KeyError`` without one."""
        git = self._hub.git(self.record)
        commit = git.resolve(revision or self.record.default_branch)
        entry = git.at(commit, path) if commit else None
        if entry is None:
            raise KeyError(path)
        return git.read_blob(entry.sha)

    def files(self, revision: str | None = None) -> dict[str, str]:
        """Path to mode of everything that is not a folder."""
        git = self._hub.git(self.record)
        commit = git.resolve(revision or self.record.default_branch)
        found = git.tree(commit, recursive=True) if commit else []
        return {entry.path: entry.mode for entry in found if entry.type != "tree"}

    def patch(self, base: str, head: str) -> str:
        git = self._hub.git(self.record)
        return text(git.patch(git.resolve(base) or base, git.resolve(head) or head))

    # ── issues ───────────────────────────────────────────────────────────────────────────────────────────────────

    def open_issue(
        self, title: str, body: str | None = None, *, by: str | None = None, labels: tuple[str, ...] = ()
    ) -> int:
        """Open an issue; the answer is its number."""
        with self._hub.store.transaction():
            issue = issues.open_issue(self._hub, self.record, self._actor(by), title=title, body=body, labels=labels)
            return issue.number

    def add_label(self, number: int, *names: str, by: str | None = None) -> None:
        with self._hub.store.transaction():
            issues.add_labels(self._hub, self._issue(number), self._actor(by), names)

    def remove_label(self, number: int, name: str, *, by: str | None = None) -> None:
        with self._hub.store.transaction():
            label = issues.label_named(self._hub, self.record, name)
            issues.remove_labels(self._hub, self._issue(number), self._actor(by), [label])

    def comment(self, number: int, body: str, *, by: str | None = None) -> int:
        """Comment on an issue or a pull request; the answer is the comment's id."""
        with self._hub.store.transaction():
            return issues.comment(self._hub, self._issue(number), self._actor(by), body).id

    def edit_comment(self, comment_id: int, body: str, *, by: str | None = None) -> None:
        with self._hub.store.transaction():
            issues.edit_comment(self._hub, self._hub.store.get(Comment, comment_id), self._actor(by), body)

    def delete_comment(self, comment_id: int, *, by: str | None = None) -> None:
        with self._hub.store.transaction():
            issues.delete_comment(self._hub, self._hub.store.get(Comment, comment_id), self._actor(by))

    def close_issue(self, number: int, *, by: str | None = None) -> None:
        """Close an issue, or a pull request without merging it."""
        with self._hub.store.transaction():
            issues.close(self._hub, self._issue(number), self._actor(by))

    def reopen_issue(self, number: int, *, by: str | None = None) -> None:
        with self._hub.store.transaction():
            issues.reopen(self._hub, self._issue(number), self._actor(by))

    def lock(self, number: int) -> None:
        """Let only collaborators comment."""
        issues.touch(self._hub, self._issue(number), locked=True)

    def transfer_issue(self, number: int, to: Repo, *, by: str | None = None) -> int:
        """Move an issue to another repository of the same owner; the answer is its number there."""
        with self._hub.store.transaction():
            return issues.transfer(self._hub, self._issue(number), self._actor(by), to.record).number

    def delete_issue(self, number: int, *, by: str | None = None) -> None:
        with self._hub.store.transaction():
            issues.delete(self._hub, self._issue(number), self._actor(by))

    def _issue(self, number: int) -> Issue:
        return issues.numbered(self._hub, self.record, number)

    def issue(self, number: int) -> SeenIssue:
        return seen.issue(self._hub, self._issue(number))

    def comments(self, number: int) -> list[SeenComment]:
        """Comments on an issue or a pull request, oldest first."""
        return seen.comments(self._hub, self._issue(number))

    # ── pull requests ────────────────────────────────────────────────────────────────────────────────────────────

    def open_pull(
        self,
        title: str,
        *,
        head: str,
        base: str | None = None,
        body: str | None = None,
        by: str | None = None,
        draft: bool = False,
        maintainer_can_modify: bool = True,
    ) -> int:
        """Open a pull request from ``branch`` or ``owner:branch``; the answer is its number."""
        with self._hub.store.transaction():
            pull = pulls.open_pull(
                self._hub,
                self.record,
                self._actor(by),
                title=title,
                head=head,
                base_ref=base or self.record.default_branch,
                body=body,
                draft=draft,
                maintainer_can_modify=maintainer_can_modify,
            )
            return pull.number

    def merge_pull(self, number: int, *, by: str | None = None) -> str:
        """Merge with a merge commit; the answer is its id."""
        with self._hub.store.transaction():
            return refs.merge_pull(self._hub, self._pull(number), self._actor(by))

    def pull(self, number: int) -> SeenPull:
        return seen.pull(self._hub, self._pull(number))

    def _pull(self, number: int) -> Pull:
        return pulls.numbered(self._hub, self.record, number)

    def pulls(self) -> list[SeenPull]:
        """All pull requests, open and closed, oldest first."""
        return [seen.pull(self._hub, found) for found in self._hub.store.find(Pull, repository_id=self.id)]

    def review(
        self, number: int, body: str, *, event: str = "COMMENT", lines: Sequence[tuple[str, int, str]] = (), by: str
    ) -> int:
        """Review a pull request; the answer is the review's id.

        Args:
            event: ``COMMENT``, ``APPROVE`` or ``REQUEST_CHANGES``.
            lines: path, line of the new version, and what is said there.
        """
        with self._hub.store.transaction():
            pull, actor = self._pull(number), self._actor(by)
            review = reviews.submit(self._hub, pull, actor, event=event, body=body, commit_id=None)
            for path, line, words in lines:
                place = reviews.Place(path, line)
                reviews.comment(self._hub, pull, actor, body=words, place=place, commit_id=None, review=review)
            return review.id

    def comment_on_line(self, number: int, path: str, line: int, body: str, *, by: str) -> int:
        """Comment on a line of a pull request outside of a review; the answer is the comment's id."""
        with self._hub.store.transaction():
            pull, place = self._pull(number), reviews.Place(path, line)
            return reviews.comment(self._hub, pull, self._actor(by), body=body, place=place, commit_id=None).id

    def reviewers(self, number: int) -> list[str]:
        """Logins of those who have been asked for a review and have not given it."""
        return [self._hub.store.get(User, id).login for id in self._pull(number).reviewer_ids]

    def line_comments(self, number: int) -> list[ReviewComment]:
        """Comments on lines of a pull request, oldest first."""
        return self._hub.store.find(ReviewComment, pull_id=self._pull(number).id)

    def reviews(self, number: int) -> list[Review]:
        return self._hub.store.find(Review, pull_id=self._pull(number).id)

    # ── checks and workflows ─────────────────────────────────────────────────────────────────────────────────────

    def checks(self, sha: str | None = None) -> list[CheckRun]:
        """Check runs of a commit, or of all commits, oldest first."""
        wanted = {"repository_id": self.id} | ({"head_sha": sha} if sha else {})
        return self._hub.store.find(CheckRun, **wanted)

    def workflow_runs(self) -> list[WorkflowRun]:
        return self._hub.store.find(WorkflowRun, repository_id=self.id)

    def identity_of(self, run_id: int) -> dict[str, str]:
        """The variables by which a job of the run gets its identity token."""
        return identity.environment(self._hub, run_id)

    def finish_workflow_run(
        self, run_id: int, conclusion: str, artifacts: Mapping[str, Mapping[str, bytes]] | None = None
    ) -> list[Artifact]:
        """End a dispatched run, as GitHub Actions would; ``artifacts``: name to files."""
        with self._hub.store.transaction():
            return checks.finish_run(self._hub, run_id, conclusion, artifacts or {})
