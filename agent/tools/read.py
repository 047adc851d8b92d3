from __future__ import annotations

from pydantic import AliasChoices, Field

from agent.errors import ToolRefusal
from agent.tools import show
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.guard import there


class Read(Arguments):
    path: Path
    start: int = Field(1, ge=1, validation_alias=AliasChoices("start", "start_line", "line_start"))
    end: int | None = Field(None, ge=1, validation_alias=AliasChoices("end", "end_line", "line_end"))


def run(context: ToolContext, arguments: Read) -> ToolResult:
    path = there(context, arguments.path)
    lines = show.lines_of(show.text_of(context, path))
    if not lines:
        return ToolResult(f"{path} is empty")
    last = min(arguments.end or len(lines), len(lines))
    if arguments.start > last:
        raise ToolRefusal(f"{path} has {len(lines)} lines", todo="Give start and end within them")
    text, shown = show.numbered(lines, arguments.start, last, context.limits)
    whole = arguments.start == 1 and shown == len(lines)
    head = path if whole else f"{path}, lines {arguments.start}-{shown} of {len(lines)}"
    more = f"\n[cut; go on with start={shown + 1}, or use outline to find the part you need]" if shown < last else ""
    return ToolResult(f"{head}\n{text}{more}")


TOOL = Tool("read", "Lines of a file as `number|text`.", Read, run)
