"""What of a change set may leave, looked at against the repository; nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from agent import paths, secrets
from agent.errors import UserError
from agent.types import ChangeSet, FileChange
from app.github import Repository
from app.publish import patch as patches
from app.publish import policy
from app.publish.policy import Accepted, BaseEntry, Rules
from app.report.facts import LeftOut, Review


class SecretInPatch(UserError):
    """The change holds what looks like a secret. Nothing is published."""

    code = "secret_in_patch"


async def review(
    repository: Repository, change_set: ChangeSet, rules: Rules, sentinels: Collection[str] = ()
) -> tuple[Accepted, Review]:
    """Check a change set against the repository; nothing is written.

    Args:
        sentinels: exact values of our own that must never be published.

    Raises:
        ChangeSetRefused: see ``policy.check``.
        SecretInPatch: new secrets in the contents or paths.
    """
    base = await base_entries(repository, change_set.base_sha, [change.path for change in change_set.changes])
    # Not on the event loop: a change set may hold megabytes.
    accepted = await asyncio.to_thread(policy.check, change_set, base, rules)
    for change in accepted.changes:
        await _refuse_secrets(repository, change, base.get(change.path), sentinels)
    left_out = [await _left_out(repository, held, base, sentinels) for held in accepted.held_back]
    return accepted, Review(tuple(left_out), accepted.remarks, accepted.deleted, accepted.added)


async def base_entries(repository: Repository, base_sha: str, changed: Iterable[str]) -> dict[str, BaseEntry]:
    """The base commit's tree as the policy wants it: whole, or around ``changed`` where GitHub cuts the listing."""
    root = (await repository.git.commit(base_sha)).tree
    tree = await repository.git.tree(root)
    if not tree.truncated:
        return {e.path: BaseEntry(e.mode, e.sha) for e in tree.entries if e.type != "tree"}
    wanted = {folder for path in changed for folder in paths.parents(path)}
    found: dict[str, BaseEntry] = {}
    waiting = [("", root)]
    while waiting:
        folder, sha = waiting.pop()
        for entry in (await repository.git.tree(sha, recursive=False)).entries:
            path = f"{folder}{entry.path}"
            if entry.type != "tree":
                found[path] = BaseEntry(entry.mode, entry.sha)
            elif path in wanted:
                waiting.append((f"{path}/", entry.sha))
            else:
                # A folder that is not opened still has a name that a new one could clash with.
                found[f"{path}/."] = BaseEntry(policy.FILE, entry.sha)
    return found


async def _refuse_secrets(
    repository: Repository, change: FileChange, entry: BaseEntry | None, sentinels: Collection[str]
) -> None:
    hits = await asyncio.to_thread(_hits, change, sentinels)
    if hits and entry is not None and change.content is not None:
        # What stands in the repository already is not ours to leak; only what is new counts.
        known = change.model_copy(update={"content": await repository.git.blob(entry.sha)})
        there = await asyncio.to_thread(_hits, known, ())
        hits = {value: hit for value, hit in hits.items() if value not in there}
    if hits:
        hit = min(hits.values(), key=lambda h: h.line)
        raise SecretInPatch(
            "The change holds what looks like a secret, so nothing was published",
            why=f"{hit.name} in {change.path!r}, line {hit.line}",
            todo="Remove it or use a placeholder such as 'xxxx', then ask again",
        )


def _hits(change: FileChange, sentinels: Collection[str]) -> Mapping[str, secrets.Hit]:
    texts = (change.path, *secrets.as_text(change.content or b""))
    return {hit.value: hit for text in texts for hit in secrets.find(text, sentinels)}


async def _left_out(
    repository: Repository, held: policy.HeldBack, base: dict[str, BaseEntry], sentinels: Collection[str]
) -> LeftOut:
    shown = await _patch(repository, held.change, base)
    return LeftOut(held.change.path, held.reason, await asyncio.to_thread(secrets.redact, shown, sentinels))


async def _patch(repository: Repository, change: FileChange, base: dict[str, BaseEntry]) -> str:
    entry = base.get(change.path)
    before = await repository.git.blob(entry.sha) if entry else None
    mode = entry.mode if entry and change.content is None else change.mode
    made = partial(patches.patch, mode=mode, old_mode=entry.mode if entry else "")
    return await asyncio.to_thread(made, change.path, before, change.content)


async def as_patch(repository: Repository, accepted: Accepted) -> str:
    """The change as one patch, for where nothing may be pushed: a fork's branch."""
    base = await base_entries(repository, accepted.base_sha, [change.path for change in accepted.changes])
    return "".join([await _patch(repository, change, base) for change in accepted.changes])
