from __future__ import annotations

from itertools import groupby

from agent.index.graph import Certainty, Reference
from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult


class References(Arguments):
    name: str


def run(context: ToolContext, arguments: References) -> ToolResult:
    found = [use for use in context.index.references(arguments.name) if use.path in context.draft]
    if not found:
        return ToolResult(f"No use of {arguments.name!r} found outside its definition. grep finds it in strings too.")
    shown = found[: context.limits.matches]
    out: list[str] = []
    for path, uses in groupby(shown, key=lambda use: use.path):
        out.append(path)
        lines = show.lines_of(show.text_of(context, path))
        out += [_use(context, lines, use) for use in uses]
    if len(found) > len(shown):
        out.append(f"[{len(found) - len(shown)} more]")
    return ToolResult("\n".join(out))


def _use(context: ToolContext, lines: list[str], use: Reference) -> str:
    text = lines[use.line - 1].strip() if use.line <= len(lines) else ""
    doubt = "" if use.certainty is Certainty.RESOLVED else " (by name only)"
    return f"{use.line}|{show.line(text, context.limits)}{doubt}{show.moved(context, use.path)}"


TOOL = Tool("references", "Uses of a function, class or method.", References, run)
