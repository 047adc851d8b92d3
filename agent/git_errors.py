"""What can go wrong with git, told from what it says. Pure."""

from __future__ import annotations

import re
from pathlib import Path

from agent.errors import BugError, GraftsmithError, OperatorError, RetryLater, UserError
from agent.secrets import REDACTED
from sandbox.types import End, Finished


class NotARepository(UserError):
    """The folder is no git repository that we can use."""


class RefMissing(UserError):
    """The branch, tag or commit is not there."""


class RepositoryTooLarge(UserError):
    """The repository is above a limit: its files, their bytes, or what a fetch may bring."""


class ObjectMissing(UserError):
    """An object that the commit needs is not in the repository: a partial clone or a damaged store."""


class AccessDenied(OperatorError):
    """The other side refused our credentials, or hides that the repository exists."""


def missing(blob: str) -> ObjectMissing:
    """An object that a commit names is not there."""
    return ObjectMissing(
        f"Object {blob} is missing",
        why="The repository is a partial clone, or damaged",
        todo="Fetch it completely (git fetch --refetch) and try again",
    )


def first_line(stderr: bytes) -> str:
    """What git itself gives as the reason."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return told[0].split(":", 1)[-1].strip()[:300] if told else "git gave no reason"


_NO_ROOM = re.compile(rb"No space left on device|Disk quota exceeded")
_INCOMPLETE = re.compile(
    r"Not a valid object name|bad object|[Uu]nable to (read|parse)|could not (read|parse)|missing blob"
    r"|not a tree object|corrupt|inflate|garbage at end of|object file .* is empty",
    re.IGNORECASE,
)


def no_room(finished: Finished) -> bool:
    """Whether the disk is full, or the user's quota is used up."""
    return not finished.ok and bool(_NO_ROOM.search(finished.stderr))


def local_error(command: str, finished: Finished, git_dir: Path) -> GraftsmithError:
    """Why a command in a repository of our own failed."""
    stderr = finished.stderr.decode(errors="replace")
    why = first_line(finished.stderr)
    if "not a git repository" in stderr:
        return NotARepository(f"{git_dir} is not a git repository", why=why)
    if _INCOMPLETE.search(stderr):
        return ObjectMissing("The commit is not complete in the repository", why=why, todo="Fetch it again")
    if finished.end is End.TIMED_OUT:
        return RetryLater(f"git {command} took longer than {finished.seconds:.0f} s")
    return BugError(f"git {command} failed", why=why)


_REMOTE_ERRORS: tuple[tuple[str, type[UserError] | type[OperatorError] | type[RetryLater], str, str], ...] = (
    (
        r"mismatched algorithms|unsupported object format|hash algorithm",
        UserError,
        "The repository uses SHA-256 object ids, which are not supported",
        "Only SHA-1 repositories can be worked on",
    ),
    (
        r"couldn't find remote ref|not our ref|unadvertised object|no such ref",
        RefMissing,
        "The branch or commit does not exist on the other side",
        "It may have been deleted or rewritten meanwhile; where the repository is empty, push a first commit",
    ),
    (
        r"fsck|invalid index-pack|bad tree|hasDot|unpacker error",
        UserError,
        "The repository holds objects that git itself refuses",
        "Run git fsck on it and remove the named objects",
    ),
    (
        r"could not read Username|Authentication failed|terminal prompts disabled|Invalid username"
        r"|returned error: 40[13]",
        AccessDenied,
        "The other side refused access to the repository",
        "Check that the App is installed on it and may read its contents",
    ),
    (
        r"not found|does not appear to be a git repository|not a git repository|does not exist",
        NotARepository,
        "There is no git repository at that address, or access to it is hidden",
        "Check the address and that the App is installed on the repository",
    ),
    (
        r"redirect|returned error: 30[1278]",
        RetryLater,
        "The repository answers from another address now",
        "It was probably renamed: use its new address",
    ),
    (
        r"certificate",
        OperatorError,
        "The other side's certificate is by no authority that this machine trusts",
        "Name a file with the authority's certificate in SSL_CERT_FILE",
    ),
    (
        r"Could not resolve|Failed to connect|Connection (refused|reset|timed out)|returned error: (429|5\d\d)"
        r"|early EOF|hung up|RPC failed|SSL|timed out|protocol error|expected .*(packfile|flush|ref listing)"
        r"|unable to access",  # whatever else the line does: those above say why they were refused
        RetryLater,
        "The connection to the repository failed",
        "It may work later",
    ),
)


def remote_error(finished: Finished, header: str | None) -> GraftsmithError:
    """Why a fetch failed; never with the secret in ``header``."""
    stderr = finished.stderr.decode(errors="replace")
    why = first_line(finished.stderr)
    if header:
        secret = header.split(":", 1)[-1].strip()
        why = why.replace(secret, REDACTED)
    if finished.end is End.TIMED_OUT:
        return RetryLater("Fetching from the repository took too long")
    if finished.end is End.CANCELLED:
        return RetryLater("Fetching from the repository was cancelled")
    for pattern, kind, what, todo in _REMOTE_ERRORS:
        if re.search(pattern, stderr, re.IGNORECASE):
            return kind(what, why=why, todo=todo)
    return UserError("Fetching from the repository failed", why=why)
