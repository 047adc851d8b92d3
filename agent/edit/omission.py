"""Marks that stand for code left out ("… rest unchanged …"): written into a file they would delete that code."""

from __future__ import annotations

import re
from collections import Counter

from agent.edit.match import EditRefused
from agent.paths import is_prose

_LONGEST = 300
"""Characters of a mark; what finds one takes the square of a line's length, or the cube of its blanks."""
_DOTS = r"(?:\.{3,}|…)"
_LEFT = r"(?:rest|remaining|remainder|existing|unchanged|omitted|same as)"
_CODE = (
    r"(?:code|file|class|module|methods?|functions?|implementation|imports?|tests?|body|logic|lines?|content"
    r"|definitions?)"
)
_LEADER = r"(?:#+|//+|/\*+|\*|<!--+|--+|;+|%+|\{/\*|\{#)"
_TRAILER = r"\s*(?:\*/\}?|--+>|#\})?\s*$"
_COMMENT = re.compile(rf"^\s*{_LEADER}\s*(?P<body>.*?){_TRAILER}")
_BODY = re.compile(
    rf"^[\[(]?\s*{_DOTS}\s*[\])]?$"  # ...
    rf"|^[\[(]?\s*{_DOTS}.*\b(?:{_LEFT}|previous|original|other|keep|here|{_CODE})\b"  # ... other methods ...
    rf"|^(?:the )?(?:{_LEFT}|(?:previous|original|other) {_CODE})\b.*{_DOTS}\s*[\])]?$"  # rest of the class ...
    rf"|\b(?:rest|remainder) of (?:the |this )?{_CODE}(?: \w+)? (?:is |are |remains? |stays? )*(?:the )?"
    r"(?:unchanged|same|as before|as is)\b"
    rf"|\b(?:existing|previous|original|other|remaining) {_CODE} (?:is |are |remains? |stays? |goes )*"
    r"(?:here|unchanged|omitted|as before)\b"
    r"|^(?:unchanged|omitted|same as before)\.?$",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"^\s*[\[(<]?\s*{_DOTS}[\w\s,…]*\b(?:rest|remaining|unchanged|omitted|existing)\b[\w\s,.…\])>]*$", re.IGNORECASE
)


def check(path: str, before: str, after: str) -> None:
    """Refuse ``after`` when it holds an omission mark that ``before`` did not hold.

    Args:
        before: the whole text that is replaced, or of the file; empty for a new file.
        after: what takes its place.

    Raises:
        EditRefused: with the mark.
    """
    known = Counter(line.strip() for line in before.split("\n"))
    for line in after.split("\n"):
        bare = line.strip()
        if not _is_mark(path, line):
            continue
        known[bare] -= 1
        if known[bare] < 0:
            raise EditRefused(
                f"The new text leaves code out: {bare[:120]!r}",
                why="The line would be written into the file as it is, and the code that it stands for would be lost",
                todo="Give the complete text, or make a smaller edit that does not span what stays the same",
            )


def _is_mark(path: str, line: str) -> bool:
    line = " ".join(line.split())
    if len(line) > _LONGEST:
        return False
    if _BARE.match(line):
        return True
    comment = _COMMENT.match(line)
    if comment is None:
        return False
    in_prose = is_prose(path)  # '#' is a heading and '*' a list there, and dots are dots
    return bool(_BODY.search(comment["body"])) and (not in_prose or line.lstrip().startswith("<!--"))
