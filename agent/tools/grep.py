from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from pydantic import AliasChoices, Field

from agent import grep
from agent.errors import ToolRefusal, UserError
from agent.git import Match
from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.tools.guard import local

_FEW = 4
"""So many matches are shown with the lines around them, which is what would be read next."""
_AROUND = 3
_MOST_AROUND = 20
_LINES = 200
"""No more are asked for at once: each is sent again with every later call."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_WORDS = 10


_GLOB = AliasChoices("glob", "path", "include", "file_pattern")
_PATTERN = re.compile(r"\\\S|\.[*+]|\w\|\w|\[[^\]]{1,50}\][*+]|^\^|\$$")
"""What plain text seldom has."""


class Grep(Arguments):
    text: str = Field(min_length=1, validation_alias=AliasChoices("text", "pattern", "query"))
    regex: bool = False
    ignore_case: bool = False
    glob: str = Field("", description="such as `*.rst` or `src/**/*.py`", validation_alias=_GLOB)
    around: int | None = Field(None, ge=0)


def run(context: ToolContext, arguments: Grep) -> ToolResult:
    if "\n" in arguments.text or "\0" in arguments.text:
        raise ToolRefusal("grep looks at single lines", todo="Give one line of the text")
    globs = [_below(context, local(context, glob).removeprefix("./")) for glob in _without_braces(arguments.glob)]
    try:
        each = [
            grep.search(
                context.draft,
                arguments.text,
                regex=arguments.regex,
                ignore_case=arguments.ignore_case,
                glob=glob if "/" in glob or not glob else f"**/{glob}",
            )
            for glob in globs
        ]
    except UserError as error:
        raise ToolRefusal("The pattern does not work", why=error.why, todo="Use regex=false for plain text") from error
    found = tuple(dict.fromkeys(match for matches in each for match in matches))
    if not found:
        where = f" in {arguments.glob}" if arguments.glob else ""
        plain = not arguments.regex and _PATTERN.search(arguments.text)
        return ToolResult(f"No line holds it{where}.{' It was taken as plain text: see `regex`.' if plain else ''}")
    around = arguments.around
    if around is None:
        around = _AROUND if len(found) <= _FEW else 0
    fits = (_LINES // min(len(found), context.limits.matches) - 1) // 2
    return ToolResult(_listing(context, found, min(around, _MOST_AROUND, fits)))


def _below(context: ToolContext, glob: str) -> str:
    """Of a folder, everything that is in it."""
    folder = glob.rstrip("/")
    return f"{folder}/**" if folder and context.draft.is_folder(folder) else glob


def _without_braces(glob: str) -> list[str]:
    """What a shell would make of ``{a,b}``, which git does not know and models write."""
    inside = _BRACES.search(glob)
    if inside is None:
        return [glob]
    words = inside[1].split(",")[:_MOST_WORDS]
    return [glob[: inside.start()] + word + glob[inside.end() :] for word in words]


def _listing(context: ToolContext, found: Sequence[Match], around: int) -> str:
    limits = context.limits
    out: list[str] = []
    shown = _from_each(found, limits.matches)
    for path, matches in groupby(shown, key=lambda match: match.path):
        out.append(show.visible(path))
        if around:
            out += _with_lines_around(context, path, [match.line for match in matches], around)
        else:
            out += [f"{match.line}|{show.line(match.text, limits)}" for match in matches]
    if len(found) > len(shown):
        more = (
            f"at least {grep.MOST - len(shown)} more" if len(found) >= grep.MOST else f"{len(found) - len(shown)} more"
        )
        out.append(f"[{more} matches, in {len({match.path for match in found})} files; narrow it by glob]")
    text = "\n".join(out)
    return text if len(text) <= limits.result_chars else _listing(context, found, around // 2)


def _from_each(found: Sequence[Match], most: int) -> list[Match]:
    """As many of each file as there is room for: no file goes unseen because another has more."""
    sizes = Counter(match.path for match in found)
    each = max((n for n in range(1, most + 1) if sum(min(n, size) for size in sizes.values()) <= most), default=1)
    taken = Counter[str]()
    out: list[Match] = []
    for match in found:
        taken[match.path] += 1
        if taken[match.path] <= each or len(found) <= most:
            out.append(match)
    return out[:most]


def _with_lines_around(context: ToolContext, path: str, matched: list[int], around: int) -> Iterator[str]:
    lines = show.lines_of(show.text_of(context, path))
    last = 0
    for number in sorted({n for line in matched for n in range(line - around, line + around + 1)}):
        if 1 <= number <= len(lines):
            if last and number > last + 1:
                yield "…"
            yield f"{number}|{show.line(lines[number - 1], context.limits)}"
            last = number


TOOL = Tool(
    "grep",
    "Lines that hold a text, or match an extended regex, with `around` lines around each.",
    Grep,
    run,
)
