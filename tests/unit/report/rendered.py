"""A rendered Markdown text, looked at the way GitHub's filters look at it: by text nodes outside code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from markdown_it import MarkdownIt

_VOID = {"br", "hr", "img", "input"}
_MENTION = re.compile(r"(?<![A-Za-z0-9])@[A-Za-z0-9]")
_REFERENCE = re.compile(r"#\d|\bGH-\d", re.I)
_BARE_LINK = re.compile(r"(?:https?|ftp)://\w|www\.\w", re.I)


@dataclass
class Rendered(HTMLParser):
    """Headings, links, images, code and live text of a Markdown document."""

    source: str
    headings: list[str] = field(default_factory=list)
    hrefs: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(self.source)
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        if re.fullmatch(r"h\d", tag):
            self.headings.append("")
        if tag == "code":
            self.codes.append("")
        for name, value in attrs:
            if name in ("href", "src"):
                self.hrefs.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if "code" in self.open:
            self.codes[-1] += data
        elif "a" not in self.open:
            self.texts.append(data)
        if self.open and re.fullmatch(r"h\d", self.open[-1]):
            self.headings[-1] += data

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def mentions(self) -> list[str]:
        return [found for text in self.texts for found in _MENTION.findall(text)]

    @property
    def references(self) -> list[str]:
        return [found for text in self.texts for found in _REFERENCE.findall(text)]

    @property
    def bare_links(self) -> list[str]:
        return [found for text in self.texts for found in _BARE_LINK.findall(text)]
