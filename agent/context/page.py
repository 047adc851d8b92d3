"""Text within a budget of tokens: whole lines, numbered, and what is cut says so."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agent.context.fence import fence
from agent.model.tokens import estimate_tokens


def line(number: int, text: str) -> str:
    """One line as a model is shown it."""
    return f"{number:>5} {text.rstrip()}"


def numbered(lines: Sequence[str], numbers: Iterable[int]) -> str:
    """Lines with their numbers, which count from 1; a gap in ``numbers`` shows as ``…``."""
    out: list[str] = []
    before = 0
    for number in numbers:
        if before and number > before + 1:
            out.append("…")
        out.append(line(number, lines[number - 1]))
        before = number
    return "\n".join(out)


def cut(text: str, tokens: int) -> str:
    """``text``, or where it is too long its beginning, in whole lines, with a note; '' when not even that fits."""
    if estimate_tokens(text) <= tokens:
        return text
    note = "\n[… cut here to fit]"
    lines = text.split("\n")
    kept = bisect(range(1, len(lines) + 1), tokens, key=lambda many: estimate_tokens("\n".join(lines[:many]) + note))
    return "\n".join(lines[:kept]) + note if kept else ""


@dataclass
class Page:
    """Text that grows up to a bound.

    Args:
        budget: tokens.
        seed: the run's secret, from which the fences are made.
    """

    budget: int
    seed: str
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)

    @property
    def left(self) -> float:
        """Tokens, less what joins the next part to the others."""
        return self.budget - estimate_tokens(self.text) - 4

    def fits(self, part: str) -> bool:
        """Whether the page is within its budget with ``part`` too."""
        return estimate_tokens("\n\n".join([*self.parts, part])) <= self.budget

    def add(self, part: str, share: float) -> None:
        """Put ``part`` on the page, cut to ``share`` of the budget; nothing where not even its beginning fits."""
        allowed = int(min(self.budget * share, self.left))
        part = cut(part, allowed)
        if part and self.fits(part):
            self.parts.append(part)

    def frame(self, kind: str, label: str) -> int:
        """Tokens that a fence takes by itself."""
        return estimate_tokens(fence(kind, label, "", self.seed)) + 4

    def add_fenced(self, kind: str, label: str, text: str, share: float) -> None:
        """The same for text from elsewhere, in a fence, which counts towards its share."""
        text = cut(text, int(min(self.budget * share, self.left)) - self.frame(kind, label)) if text else ""
        part = fence(kind, label, text, self.seed)
        if text and self.fits(part):
            self.parts.append(part)
