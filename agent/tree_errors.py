"""Why a path of a tree can't be worked on, with what to do instead. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.errors import ToolRefusal
from agent.git import GITLINK, LINK
from agent.listing import listed

_SHOWN = 8


class NotFound(ToolRefusal):
    """There is no such file."""


class NotAFile(ToolRefusal):
    """The path is a folder, a symbolic link, or inside a submodule."""


class Binary(ToolRefusal):
    """The file is no text, or too large to be treated as such."""


class CaseTwin(ToolRefusal):
    """Another path differs only in case; on some systems both would be the same file."""


def no_regular_file(path: str, mode: str) -> NotAFile:
    """There is a link or a submodule of git's ``mode`` at ``path``."""
    return NotAFile(f"{path} is not a regular file: {_kind(mode, path)}", todo=_instead(mode))


def unreachable(path: str, above: str, mode: str) -> NotAFile:
    """What is no folder stands at ``above``, and ``path`` would lie in it."""
    return NotAFile(f"{path} is not reachable: {_kind(mode, above)}", todo=_instead(mode))


def spelled_otherwise(path: str, twins: Sequence[str]) -> CaseTwin:
    """``path`` would be new beside others that differ in case alone."""
    return CaseTwin(
        f"{path} does not exist, but {named(twins)} {'does' if len(twins) == 1 else 'do'}",
        why="The names differ only in upper and lower case",
        todo="Use the existing spelling, or another name",
    )


def missing(path: str, twins: Sequence[str], same_name: Sequence[str], near: Sequence[str]) -> ToolRefusal:
    """There is nothing at ``path``.

    Args:
        twins: paths that differ from it in case alone.
        same_name: files of its name in other folders.
        near: files beside it that are called alike.
    """
    if twins:
        return CaseTwin(f"{path} does not exist, but {named(twins)} does", todo="Use the existing spelling")
    if same_name:
        return NotFound(f"{path} does not exist", why=f"There is {named(same_name)}", todo="Use the full path")
    meant = f"You may mean {near[0]}; else use" if near else "Use"
    return NotFound(f"{path} does not exist", todo=f"{meant} list or search to find it")


def named(paths: Iterable[str]) -> str:
    """Some of them, in a sentence."""
    return listed([name if len(name) <= 200 else f"{name[:200]}…" for name in paths], _SHOWN)


def _kind(mode: str, path: str) -> str:
    if mode == GITLINK:
        return f"{path} is a submodule, and everything below it is inside a submodule"
    return f"{path} is a symbolic link" if mode == LINK else f"{path} is a file"


def _instead(mode: str) -> str:
    if mode == GITLINK:
        return "Change the submodule's own repository instead"
    return "Work on the file that it points to, by its real path" if mode == LINK else "Choose another path"
