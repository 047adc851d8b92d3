"""Syntax and linters: only what the change brings is told."""

from __future__ import annotations

from agent.verify.static import Finding, check, syntax
from tests.unit.verify.conftest import MakeBench

# Stands in for a linter that the target brings along: the real ones are looked for by `python3 -m NAME`.
FLAKE8 = """
import sys
from pathlib import Path
found = [
    f"{path}:{n}:1: W1 no print on line {n}"
    for path in sys.argv[2:] for n, line in enumerate(Path(path).read_text().splitlines(), 1) if "print" in line
]
print("\\n".join(found))
raise SystemExit(bool(found))
"""


def test_broken_syntax_of_each_kind(bench: MakeBench) -> None:
    made = bench({"a.py": "x = 1\n", "old.py": "x = (\n", "c.json": "{}", "d.toml": "a = 1\n"})
    draft = made.draft(
        {
            "a.py": "x = 1\ny = (\n",
            "old.py": "x = (((\n",
            "new.py": "def f(:\n",
            "c.json": '{"a": }',
            "d.toml": "a = \n",
            "fine.py": "x = 1\n",
            "deep.json": "[" * 100_000,
        }
    )
    found = syntax(draft)
    assert [(finding.path, finding.line) for finding in found] == [
        ("a.py", 2),
        ("c.json", 1),
        ("d.toml", 1),
        ("deep.json", 0),
        ("new.py", 1),
    ]
    assert check(made.harness, draft) == found


def test_only_new_findings_of_configured_linters_count(bench: MakeBench) -> None:
    made = bench({".flake8": "[flake8]\n", "flake8.py": FLAKE8, "a.py": "x = 1\nprint(x)\n", "b.py": "print(2)\n"})
    draft = made.draft({"a.py": "# moved\n\nx = 1\nprint(x)\n", "c.py": "y = 1\nprint(y)\n"})
    assert check(made.harness, draft) == (Finding("flake8", "c.py", 2, "W1", "no print on line 2"),)
    assert check(made.harness, made.draft({"a.py": "x = 2\nprint(x)\n"})) == ()
    assert [f.line for f in check(made.harness, made.draft({"a.py": "print(1)\nprint(2)\n"}))] == [2]


def test_a_linter_that_is_not_installed_is_passed_over(bench: MakeBench) -> None:
    made = bench({"mypy.ini": "[mypy]\n", "ruff.toml": "x = 1\n", "a.py": "x = 1\n"})
    assert check(made.harness, made.draft({"a.py": "x: str = 1\n"})) == ()
