"""One canonical spelling for every path that a change may touch, and refusal of every other.

Pure. The tools use it on what the model asks for, the publisher on what a runner sends back: a path is fit for a
commit when ``canonical(path) == path``. Equal to or stricter than git's own rule for tree entries.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from agent.errors import ToolRefusal

MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255

# Code points that HFS+ leaves out when it compares names (git's utf8.c: next_hfs_char).
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
# Signs that turn the reading direction: a name that holds one shows something other than it is.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DRIVE = re.compile(r"^[A-Za-z]:([\\/]|$)")


_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\..*)?", re.IGNORECASE)


class PathRefused(ToolRefusal):
    """The path can't be part of a change, whatever the tree holds."""


def canonical(path: str) -> str:
    """``path`` relative to the root of the repository, without ``.`` parts and doubled slashes.

    Raises:
        PathRefused: empty, absolute, leaves the repository, reaches git's own folder under any disguise, or holds
            characters that no file name in a change may hold.
    """
    _check_characters(path)
    if path.startswith(("/", "~/")) or path == "~" or _DRIVE.match(path):
        raise PathRefused(f"{path!r} is an absolute path", todo="Use a path relative to the root of the repository")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise PathRefused(f"{path!r} names no file", todo="Give the file's path relative to the root of the repository")
    for part in parts:
        _check_part(part, path)
    clean = "/".join(parts)
    if len(clean.encode()) > MAX_PATH_BYTES:
        raise PathRefused(f"The path is longer than {MAX_PATH_BYTES} bytes", todo="Choose a shorter one")
    return clean


def _check_characters(path: str) -> None:
    for char in path:
        if char in _BIDI or unicodedata.category(char) in _UNPRINTABLE:
            raise PathRefused(
                f"{path!r} holds a character that file names in a change may not hold (U+{ord(char):04X})",
                todo="Use a name of plain printable characters",
            )
    if "\\" in path:
        raise PathRefused(f"{path!r} holds a backslash", todo="Separate folders by '/'")


def _check_part(part: str, path: str) -> None:
    if part == "..":
        raise PathRefused(f"{path!r} holds '..'", todo="Spell the path out from the root of the repository")
    if is_git_folder(part):
        raise PathRefused(f"{path!r} reaches into git's own folder", todo="Change only files of the project itself")
    if len(part.encode()) > MAX_NAME_BYTES:
        raise PathRefused(f"A name in the path is longer than {MAX_NAME_BYTES} bytes", todo="Choose a shorter one")


def check_new_name(path: str) -> None:
    """Refuse a new file or folder whose name Windows can't hold: the commit could not be checked out there any more.
    (Microsoft, "Naming Files, Paths, and Namespaces".)

    Args:
        path: canonical; its last part is the name.

    Raises:
        PathRefused: a device, an alternate stream, or a name that ends in a dot or a space.
    """
    name = path.rsplit("/", 1)[-1]
    if ":" in name or name.endswith((" ", ".")) or _DEVICE.fullmatch(name):
        raise PathRefused(f"{path!r} is a name that Windows can't hold", todo="Choose another one")


def is_git_folder(name: str) -> bool:
    """Whether some file system would take ``name`` for ``.git``: case, HFS+ ignorables, NTFS tails and short names."""
    seen = name.translate(_HFS_IGNORED).casefold()
    stem = seen.split(":", 1)[0].rstrip(" .")
    return stem in (".git", "git~1")


def is_prose(path: str) -> bool:
    """Whether a file is written for people, by the ending of its name."""
    return path.lower().endswith((".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc"))


def folded(path: str) -> str:
    """Equal for two paths that a case-insensitive or normalising file system would take for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def parents(path: str) -> Iterator[str]:
    """The folders above ``path``, outermost first, without the root."""
    cut = path.find("/")
    while cut != -1:
        yield path[:cut]
        cut = path.find("/", cut + 1)


def link_stays_inside(path: str, target: str) -> bool:
    """Whether a symbolic link at ``path`` leads to somewhere in the same tree, by its text alone.

    ``..`` counts only at the front of ``target``, where it climbs over real folders: behind a name that may itself be
    a link it could lead anywhere.
    """
    if not target or target.startswith("/") or "\0" in target:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbed = 0
    while climbed < len(parts) and parts[climbed] == "..":
        climbed += 1
    rest = parts[climbed:]
    return climbed <= path.count("/") and ".." not in rest and not any(map(is_git_folder, rest))
