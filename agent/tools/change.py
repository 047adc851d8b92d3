"""The end that all changing tools share."""

from __future__ import annotations

from agent.edit.text import Text, shown
from agent.tools import show
from agent.tools.base import ToolContext, ToolResult
from agent.types import FileMode


def changed(
    context: ToolContext, path: str, before: bytes | None, after: bytes, mode: FileMode | None = None
) -> ToolResult:
    """The draft with ``after`` at ``path``, and a line that says which lines are new.

    Raises:
        EditRefused: the file would no longer parse.
    """
    context.syntax(path, before, after)
    draft = context.draft.with_file(path, after, mode)
    text = shown(Text.decode(after).text)
    if before is None:
        return ToolResult(f"{path} made, {len(show.lines_of(text))} lines", draft=draft)
    where = show.changed_lines(shown(Text.decode(before).text), text)
    lines = f"now line{'' if where.isdigit() else 's'} {where}" if where else "lines removed"
    return ToolResult(f"{path} changed, {lines}", draft=draft)
