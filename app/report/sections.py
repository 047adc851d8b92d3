"""A text of several parts that must not get too long: GitHub refuses more than 65,536 characters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.report import markdown as md

_TOLD = 300
"""Bytes that it takes to say what was left out."""
ALWAYS = 9


@dataclass(frozen=True)
class Section:
    """One part. The lower ``keep``, the sooner it is left out when there is no room; ``ALWAYS`` stays."""

    text: str
    keep: int = ALWAYS
    name: str = ""


def fitting(sections: Sequence[Section], limit: int, last: Section) -> list[Section]:
    """The sections, ``last`` at the end; what must go for the rest to fit is named where the reader will see it."""
    kept = [section for section in sections if section.text]
    gone: list[str] = []
    while md.size(joined([*kept, last])) > limit - _TOLD * bool(gone):
        least = min((s for s in kept if s.keep < ALWAYS), key=lambda s: s.keep, default=None)
        if least is None:
            break
        kept.remove(least)
        gone.append(least.name)
    if gone:
        kept.append(Section(f"*Left out here, because the text has a size limit: {', '.join(gone)}.*"))
    return [*kept, last]


def joined(sections: Sequence[Section], limit: int | None = None) -> str:
    """One text; with ``limit`` cut there, whatever comes of its Markdown: what is refused tells nobody anything."""
    text = "\n\n".join(section.text for section in sections if section.text) + "\n"
    return text if limit is None else md.head(text, limit)
