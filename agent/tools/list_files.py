from __future__ import annotations

from collections import Counter

from agent.errors import ToolRefusal
from agent.paths import canonical
from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.tools.guard import local


class List(Arguments):
    path: str = ""


def run(context: ToolContext, arguments: List) -> ToolResult:
    asked = local(context, arguments.path).strip()
    folder = "" if asked in ("", ".", "./", "/") or asked == context.view else canonical(asked) + "/"
    files: list[str] = []
    folders: Counter[str] = Counter()
    for path in context.draft.paths():
        if path.startswith(folder):
            name, slash, _ = path[len(folder) :].partition("/")
            if slash:
                folders[name] += 1
            else:
                files.append(name)
    if not files and not folders:
        if folder.rstrip("/") in context.draft:
            raise ToolRefusal(f"{folder.rstrip('/')} is a file", todo="Use read")
        raise ToolRefusal(f"There is no folder {asked}", todo="List the folder above it")
    entries = [f"{name}/ ({count})" for name, count in sorted(folders.items())] + sorted(files)
    shown = [show.visible(entry) for entry in entries[: context.limits.entries]]
    more = len(entries) - len(shown)
    return ToolResult("\n".join(shown) + (f"\n[{more} more; list a folder below, or use search]" if more else ""))


TOOL = Tool("list", "Files and folders of one folder; empty: the root.", List, run)
