"""What of an issue's text a person sees on GitHub: HTML comments are not shown there, but a model would read them.

In code they are shown, and stay. What is code is told strictly: where it is in doubt, a comment goes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from markdown_it import MarkdownIt

_CODE_OR_COMMENT: Final = re.compile(r"(?<![`\\])(?P<ticks>`++)[^`\n|]*+(?P=ticks)(?!`)|<!--")
_END: Final = "-->"


def visible(text: str) -> str:
    """``text`` without its HTML comments. Markdown of GitHub; line ends become ``\\n``."""
    if "<!--" not in text:
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    lines, shown, at = text.split("\n"), list[str](), 0
    for token in _blocks().parse(text):
        if token.type in ("html_block", "inline") and token.map and token.map[0] >= at:
            start, end = token.map
            shown += [*lines[at:start], _without_comments("\n".join(lines[start:end]), html=token.type == "html_block")]
            at = end
    return "\n".join([*shown, *lines[at:]])


@cache
def _blocks() -> MarkdownIt:
    # Inline parsing is the expensive part of hostile Markdown.
    return MarkdownIt("commonmark", {"html": True}).enable("table").disable("inline")


def _without_comments(block: str, *, html: bool) -> str:
    """One paragraph or block of HTML; in the latter nothing is code, and a comment may be open to its end."""
    kept: list[str] = []
    at = looked = plain = 0
    while match := _CODE_OR_COMMENT.search(block, looked):
        if match["ticks"]:
            # After a "<" it may begin within a tag; then only its ticks are passed over.
            is_code = not html and "<" not in block[plain : match.start()]
            looked = match.end() if is_code else match.end("ticks")
            plain = looked if is_code else plain
            continue
        end = block.find(_END, match.start() + 2)
        if end < 0 and not html:
            break
        kept.append(block[at : match.start()])
        at = looked = plain = len(block) if end < 0 else end + len(_END)
    return "".join([*kept, block[at:]])
