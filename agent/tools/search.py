from __future__ import annotations

from agent.context.search import search as ranked
from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult

_FUNCTIONS = 10
_FILES = 10


class Search(Arguments):
    query: str


def run(context: ToolContext, arguments: Search) -> ToolResult:
    found = ranked(context.index, arguments.query, k=_FILES, meaning=context.meaning)
    alive = context.draft
    functions = [hit for hit in found.functions if hit.path in alive][:_FUNCTIONS]
    named = {hit.path for hit in functions}
    files = [hit.path for hit in found.files if hit.path in alive and hit.path not in named]
    lines = [f"{hit.path}:{hit.start}-{hit.end} {hit.name}{show.moved(context, hit.path)}" for hit in functions] + files
    if not lines:
        return ToolResult("Nothing found. Try other words, or grep for exact text.")
    return ToolResult("\n".join(show.visible(line) for line in lines))


TOOL = Tool(
    "search", "Functions and files that some words are about, best first. For exact text use grep.", Search, run
)
