"""Renaming changes whole words that surely mean the symbol, and names the lines of the others."""

from __future__ import annotations

import pytest

from agent.edit import renamed
from agent.edit.rename import Meaning

FUNCTION = Meaning("total", owners=("calc",))
METHOD = Meaning("total", member=True)
VARIABLE = Meaning("total", variable=True)


@pytest.mark.parametrize(
    ("before", "after", "meaning"),
    [
        ("from calc import total, other\n", "from calc import new, other\n", FUNCTION),
        ("x = total(total(1))\n", "x = new(new(1))\n", FUNCTION),
        ("calc.total(1)\n", "calc.new(1)\n", FUNCTION),
        ("total_of = subtotal + totals\n", "total_of = subtotal + totals\n", FUNCTION),
        ("def total(a):\r\n    pass\r\n", "def new(a):\r\n    pass\r\n", FUNCTION),
        ("if total == 1: pass\n", "if new == 1: pass\n", FUNCTION),
        ("items.map(total)\n", "items.map(new)\n", FUNCTION),
        ("self.total(x.total)\n", "self.new(x.new)\n", METHOD),
        ("    def total(self):\n", "    def new(self):\n", METHOD),
        ("func (c *Calc) total() {\n", "func (c *Calc) new() {\n", METHOD),
        ("p->total(); A::total();\n", "p->new(); A::new();\n", METHOD),
        ("total = 1\nprint(total)\n", "new = 1\nprint(new)\n", VARIABLE),
        ("total " * 5_000, "new " * 5_000, FUNCTION),  # would take minutes if each use looked at the whole line
    ],
)
def test_sure_uses(before: str, after: str, meaning: Meaning) -> None:
    result = renamed(before.encode(), meaning, "new")
    assert result.content == after.encode()
    assert result.undecided == ()


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("other.total(1)", FUNCTION),
        ("f(total=1)", FUNCTION),
        ("total = 3", FUNCTION),
        ("    total = 3", FUNCTION),
        ("def f(total: int = 3):", FUNCTION),
        ("row['total']", FUNCTION),
        ('getattr(x, "total")', METHOD),
        ("total(1)", METHOD),
        ("    total = 3", VARIABLE),
    ],
)
def test_doubtful_uses_stay(line: str, meaning: Meaning) -> None:
    result = renamed(f"a\r\n{line}\r\n".encode(), meaning, "new")
    assert (result.content, result.changed, result.undecided) == (f"a\r\n{line}\r\n".encode(), 0, (2,))
