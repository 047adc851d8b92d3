"""The linters and type checkers that are known: when a tree configures one, how it is asked, and what it says. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent.types import Finding
from agent.verify.files import Files, from_root, text

MESSAGE_CHARS: Final = 400


@dataclass(frozen=True)
class Linter:
    """A tool, when a tree configures it, and how it names what it finds."""

    name: str
    command: str
    """Shell line that has it look at single files, for which ``"$@"`` stands; empty where it can't."""
    suffixes: tuple[str, ...]
    configured: tuple[tuple[str, str], ...]
    """File name and a pattern in it; any of them is enough."""
    pattern: str
    """Named groups ``path``, ``line``, ``message`` and, where the tool has it, ``rule``."""
    project: str = ""
    """Shell line that has it read the whole project, so that it sees what a change breaks in other files. Empty for
    tools that judge each file by itself."""
    names_files: str = ""
    """Pattern in what configures it: it knows itself what the project is. Else ``"$@"`` in ``project`` is ``.``."""
    gave_up: frozenset[int] = frozenset()
    """Exit codes that say that it did not look at everything."""
    warns: bool = False
    """It ends with 0 also where it found something."""


_AT: Final = r"^(?:vet: )?(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:){0,3}\s*"
# What the target sets for its own eyes (another format, source lines, repairs on the spot) is set back.
_MYPY: Final = "python3 -m mypy --no-error-summary --show-error-codes --no-pretty --cache-dir=/tmp/mypy"
_NODE: Final = 'PATH="$PWD/node_modules/.bin:$PATH" '
_TSC: Final = r"^(?P<path>[^\s(][^(\n]*)\((?P<line>\d+),\d+\): error (?P<rule>TS\d+): (?P<message>.*)$"
_TS: Final = (".ts", ".tsx", ".mts", ".cts")
_PYRIGHT: Final = (
    r"^\s*(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\d+ - error: "
    r"(?P<message>.*?)(?:(?:\n[ \u00a0]{4}.*)*? \((?P<rule>report\w+)\))?$"
)
"""The rule stands at the end of the last line of what it has to say."""
LINTERS: Final = (
    Linter(
        "ruff",
        'python3 -m ruff check --no-cache --no-fix --no-fix-only --output-format concise -- "$@"',
        (".py", ".pyi"),
        (("ruff.toml", "."), (".ruff.toml", "."), ("pyproject.toml", r"(?m)^\[tool\.ruff")),
        _AT + r"(?P<rule>[A-Z]+\d+|invalid-syntax:?|SyntaxError:) (?P<message>.*)$",
    ),
    Linter(
        "flake8",
        'python3 -m flake8 --format=default -- "$@"',
        (".py",),
        ((".flake8", "."), ("setup.cfg", r"(?m)^\[flake8\]"), ("tox.ini", r"(?m)^\[flake8\]")),
        _AT + r"(?P<rule>[A-Z]+\d+) (?P<message>.*)$",
    ),
    Linter(
        "mypy",
        f'{_MYPY} -- "$@"',
        (".py", ".pyi"),
        (
            ("mypy.ini", "."),
            (".mypy.ini", "."),
            ("setup.cfg", r"(?m)^\[mypy\]"),
            ("pyproject.toml", r"(?m)^\[tool\.mypy\]"),
        ),
        _AT + r"error: (?P<message>.*?)(?:\s+\[(?P<rule>[\w-]+)\])?$",
        project=f'{_MYPY} "$@"',
        names_files=r"(?ms)^\[(?:tool\.)?mypy\][^\[]*?^\s*(?:files|packages|modules)\s*=",
        gave_up=frozenset({2}),
    ),
    Linter(
        "pyright",
        _NODE + 'pyright "$@"',
        (".py", ".pyi"),
        (("pyrightconfig.json", "."), ("pyproject.toml", r"(?m)^\[tool\.pyright\]")),
        _PYRIGHT,
        project=_NODE + "pyright",
    ),
    Linter(
        "basedpyright",
        'basedpyright "$@"',
        (".py", ".pyi"),
        (("pyproject.toml", r"(?m)^\[tool\.basedpyright\]"),),
        _PYRIGHT,
        project="basedpyright",
    ),
    Linter(
        "eslint",
        _NODE + 'eslint --format json -- "$@"',
        (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"),
        tuple(
            (name, ".")
            for name in (
                *("eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts"),
                *(".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yml", ".eslintrc.yaml"),
            )
        ),
        "",
    ),
    Linter(
        "tsc",
        "",
        _TS,
        (("tsconfig.json", r'(?s)\A(?!.*"references"\s*:).'),),
        _TSC,
        project=_NODE + "tsc --noEmit --pretty false -p .",
    ),
    # Such a file often names other projects and no file of its own; only a build looks at them.
    Linter(
        "tsc",
        "",
        _TS,
        (("tsconfig.json", r'"references"\s*:'),),
        _TSC,
        project=_NODE + "tsc --build --pretty false",
    ),
    Linter("go vet", "", (".go",), (("go.mod", "."),), _AT + r"(?P<message>.*)$", project="go vet ./..."),
    Linter(
        "clippy",
        "",
        (".rs",),
        (("clippy.toml", "."), (".clippy.toml", "."), ("Cargo.toml", r"(?m)^\[(workspace\.)?lints\.clippy")),
        _AT + r"(?P<rule>warning|error(?:\[E\d+\])?): (?P<message>.*)$",
        project="cargo clippy --offline --workspace --all-targets --message-format short",
        warns=True,
    ),
)


def is_configured(linter: Linter, files: Files) -> bool:
    """Whether the tree has it look at its files."""
    return any(re.search(pattern, text(files, name)) for name, pattern in linter.configured)


def read(linter: Linter, output: str, *views: str) -> Iterator[Finding]:
    """What a linter's output holds; nothing where it says something else.

    Args:
        views: where the checkout is; see ``files.from_root``.
    """
    return _of_eslint(output, views) if linter.name == "eslint" else _of_lines(linter, output, views)


def _of_lines(linter: Linter, output: str, views: Sequence[str]) -> Iterator[Finding]:
    for match in re.finditer(linter.pattern, output, re.MULTILINE):
        groups = match.groupdict()
        yield _finding(groups["path"], views, int(groups["line"]), groups.get("rule") or "", groups["message"])


def _of_eslint(output: str, views: Sequence[str]) -> Iterator[Finding]:
    try:
        for file in json.loads(output[output.index("[") :]):
            for said in (message for message in file["messages"] if message["severity"] > 1):  # 1 is a warning
                line, rule = int(said.get("line") or 0), str(said["ruleId"] or "")
                yield _finding(str(file["filePath"]), views, line, rule, str(said["message"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return  # a crash of the tool itself, on the base too


def _finding(path: str, views: Sequence[str], line: int, rule: str, message: str) -> Finding:
    return Finding(path=from_root(path, views), line=line, rule=rule.strip(":"), message=message[:MESSAGE_CHARS])
