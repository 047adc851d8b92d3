"""The part of a change that a finding is shown with. Pure."""

from __future__ import annotations

import difflib

from agent.types import HUNK_CHARS
from agent.verify.lines import DIFF_LINES, between


def hunk(old: str, new: str, old_span: tuple[int, int] | None = None, new_span: tuple[int, int] | None = None) -> str:
    """The part of the unified diff that touches one of the spans (first and last line, from 1); all of it without."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > DIFF_LINES:
        return _cut(_middle(before, after))
    groups = difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(3)
    parts = []
    for group in groups:
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        if (old_span or new_span) and not (_touches(old_span, i1, i2) or _touches(new_span, j1, j2)):
            continue
        parts.append(f"@@ -{i1 + 1},{i2 - i1} +{j1 + 1},{j2 - j1} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                parts += [f" {line}" for line in before[a:b]]
            else:
                parts += [f"-{line}" for line in before[a:b]] + [f"+{line}" for line in after[c:d]]
    return _cut("\n".join(parts))


def _middle(before: list[str], after: list[str]) -> str:
    """One hunk between the common head and tail: the time of a real diff grows with the square of the lines."""
    same, old, new = between(before, after)
    head = f"@@ -{same + 1},{len(old)} +{same + 1},{len(new)} @@"
    return "\n".join([head, *(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def _cut(text: str) -> str:
    return text if len(text) <= HUNK_CHARS else f"{text[:HUNK_CHARS]}\n… {len(text) - HUNK_CHARS} characters more"


def _touches(span: tuple[int, int] | None, start: int, end: int) -> bool:
    return span is not None and span[0] <= end and start < span[1]
