"""Markdown as a person sees it on GitHub, and nothing that could do harm."""

from __future__ import annotations

import re
from functools import cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

# What GitHub lets through, as far as our pages need it. No style, no class but a code block's language, no id.
TAGS = frozenset(
    (
        *("a", "b", "blockquote", "br", "code", "del", "details", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("hr", "i", "img", "input", "kbd", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "summary", "sup"),
        *("table", "tbody", "td", "th", "thead", "tr", "ul"),
    )
)
ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "details": {"open"},
    "img": {"src", "alt", "title"},
    "input": {"type", "checked", "disabled"},
    "ol": {"start"},
    "td": {"align"},
    "th": {"align"},
}
_TASK = re.compile(r"<li>(\s*(?:<p>)?)\[([ xX])\] ")


_NUMBER = re.compile(r"(?<![\w&/])#([0-9]{1,9})\b")


@cache
def _parser() -> MarkdownIt:
    # In issues and comments a line end is a line end.
    parser = MarkdownIt("commonmark", {"html": True, "breaks": True}).enable(["table", "strikethrough"])
    parser.core.ruler.push("numbers", _link_numbers)
    return parser


def _link_numbers(state: StateCore) -> None:
    """Let ``#12`` lead to issue 12 of the repository whose path is in ``env``; not in code and not inside links."""
    repository = state.env.get("repository")
    for token in state.tokens if repository else ():
        if token.type == "inline" and token.children and not any(child.type == "link_open" for child in token.children):
            token.children = [part for child in token.children for part in _linked(child, str(repository))]


def _linked(token: Token, repository: str) -> list[Token]:
    if token.type != "text" or not _NUMBER.search(token.content):
        return [token]
    parts = []
    # Splitting at the group leaves text and numbers in turn.
    for position, part in enumerate(_NUMBER.split(token.content)):
        if position % 2 == 0:
            parts.append(Token("text", "", 0, content=part))
            continue
        href = {"href": f"{repository}/issues/{part}"}
        text = Token("text", "", 0, content=f"#{part}")
        parts += [Token("link_open", "a", 1, attrs=dict(href)), text, Token("link_close", "a", -1)]
    return parts


def render(text: str | None, repository: str = "") -> str:
    """Safe HTML of untrusted Markdown. ``repository``: the path that ``#12`` is below."""
    html = _TASK.sub(_box, _parser().render(text or "", {"repository": repository}))
    return nh3.clean(html, tags=set(TAGS), attributes=ATTRIBUTES, link_rel="nofollow noopener noreferrer")


def _box(match: re.Match[str]) -> str:
    checked = "" if match[2] == " " else " checked"
    return f'<li>{match[1]}<input type="checkbox" disabled{checked}> '
