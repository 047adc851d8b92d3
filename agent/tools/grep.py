from __future__ import annotations

from itertools import groupby

from pydantic import AliasChoices, Field

from agent.errors import ToolRefusal, UserError
from agent.git import Match
from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult


class Grep(Arguments):
    text: str = Field(min_length=1, validation_alias=AliasChoices("text", "pattern", "query"))
    regex: bool = False
    ignore_case: bool = False
    glob: str = Field("", description="such as `src/**/*.py`")


def run(context: ToolContext, arguments: Grep) -> ToolResult:
    if "\n" in arguments.text or "\0" in arguments.text:
        raise ToolRefusal("grep looks at single lines", todo="Give one line of the text")
    tree = context.draft.tree_id()
    try:
        found = list(
            context.draft.base.git.grep(
                tree,
                arguments.text,
                regex=arguments.regex,
                ignore_case=arguments.ignore_case,
                glob=arguments.glob.removeprefix("./"),
            )
        )
    except UserError as error:
        raise ToolRefusal("The pattern does not work", why=error.why, todo="Use regex=false for plain text") from error
    if not found:
        where = f" in {arguments.glob}" if arguments.glob else ""
        return ToolResult(f"No line holds it{where}.")
    return ToolResult(_listing(context, found))


def _listing(context: ToolContext, found: list[Match]) -> str:
    limits = context.limits
    out: list[str] = []
    shown = found[: limits.matches]
    for path, matches in groupby(shown, key=lambda match: match.path):
        out.append(show.visible(path))
        out += [f"{match.line}|{show.line(match.text, limits)}" for match in matches]
    if len(found) > len(shown):
        files = len({match.path for match in found})
        out.append(f"[{len(found) - len(shown)} more matches, {files} files in all; narrow it by glob]")
    return "\n".join(out)


TOOL = Tool("grep", "Lines that hold a text, or match an extended regular expression.", Grep, run)
