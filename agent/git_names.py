"""What may be named to git: refs, ids and addresses, refused by default. Pure."""

from __future__ import annotations

import re

from agent.errors import BugError, UserError
from agent.git_errors import RefMissing

_PROTOCOLS = frozenset({"https", "http", "file"})
_SHA1 = re.compile(r"^[0-9a-f]{40}$")
_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def valid_ref(name: str) -> bool:
    """Whether ``name`` is a full ref name that git accepts (``git check-ref-format NAME``)."""
    parts = name.split("/")
    return (
        len(parts) > 1
        and not _REF_FORBIDDEN.search(name)
        and not name.endswith(".")
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    )


def source(ref: str) -> str:
    """A full ref name, ``HEAD`` or a commit id, as a fetch may name it."""
    if _SHA1.match(ref) or ref == "HEAD" or (ref.startswith("refs/") and valid_ref(ref)):
        return ref
    raise RefMissing(f"{ref!r} is not a full ref name or a commit id", todo="Name a branch that exists")


def protocol(url: str) -> str:
    """That of an address which may be fetched from."""
    scheme, found, rest = url.partition("://")
    if not found or scheme not in _PROTOCOLS or not rest or any(c.isspace() or not c.isprintable() for c in url):
        raise UserError(
            "This address is not one we fetch from", why=f"Only {', '.join(sorted(_PROTOCOLS))} URLs are used"
        )
    return scheme


def object_id(sha: str) -> str:
    """An id that git gave us."""
    if not _SHA1.match(sha):
        raise BugError(f"{sha!r} is not an object id")
    return sha
