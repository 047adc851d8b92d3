"""What can be said of a change without running its tests: syntax, and the linters and type checkers that the target
itself configures. Only what the base does not have already counts.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.tree import Draft
from agent.verify.files import Files, text
from agent.verify.harness import Harness
from agent.verify.toolchains.base import shell
from sandbox.text import clean
from sandbox.types import End, Finished


@dataclass(frozen=True)
class Finding:
    """One new complaint about a file of the change."""

    tool: str
    path: str
    line: int
    rule: str
    message: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Equal for the same complaint in another place of the file: lines move, and messages count them."""
        return self.tool, self.path, self.rule, re.sub(r"\d+", "0", self.message)


@dataclass(frozen=True)
class Linter:
    """A tool, when a tree configures it, and how it names what it finds."""

    name: str
    command: str
    """Shell line; ``"$@"`` stands for the changed files."""
    suffixes: tuple[str, ...]
    configured: tuple[tuple[str, str], ...]
    """File name and a pattern in it; any of them is enough."""
    pattern: str
    """Named groups ``path``, ``line``, ``message`` and, where the tool has it, ``rule``."""


_AT: Final = r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:?)?\s*"
LINTERS: Final = (
    Linter(
        "ruff",
        'python3 -m ruff check --no-cache --output-format concise -- "$@"',
        (".py", ".pyi"),
        (("ruff.toml", "."), (".ruff.toml", "."), ("pyproject.toml", r"(?m)^\[tool\.ruff")),
        _AT + r"(?P<rule>[A-Z]+\d+|invalid-syntax:?|SyntaxError:) (?P<message>.*)$",
    ),
    Linter(
        "flake8",
        'python3 -m flake8 -- "$@"',
        (".py",),
        ((".flake8", "."), ("setup.cfg", r"(?m)^\[flake8\]"), ("tox.ini", r"(?m)^\[flake8\]")),
        _AT + r"(?P<rule>[A-Z]+\d+) (?P<message>.*)$",
    ),
    Linter(
        "mypy",
        'python3 -m mypy --no-error-summary --show-error-codes --cache-dir=/tmp/mypy -- "$@"',
        (".py", ".pyi"),
        (
            ("mypy.ini", "."),
            (".mypy.ini", "."),
            ("setup.cfg", r"(?m)^\[mypy\]"),
            ("pyproject.toml", r"(?m)^\[tool\.mypy\]"),
        ),
        _AT + r"error: (?P<message>.*?)(?:\s+\[(?P<rule>[\w-]+)\])?$",
    ),
    Linter(
        "eslint",
        'PATH="$PWD/node_modules/.bin:$PATH" eslint --format json -- "$@"',
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
        'PATH="$PWD/node_modules/.bin:$PATH" tsc --noEmit --pretty false -p .',
        (".ts", ".tsx", ".mts", ".cts"),
        (("tsconfig.json", "."),),
        r"^(?P<path>[^\s(][^(\n]*)\((?P<line>\d+),\d+\): error (?P<rule>TS\d+): (?P<message>.*)$",
    ),
    Linter("go vet", "go vet ./...", (".go",), (("go.mod", "."),), _AT + r"(?P<message>.*)$"),
    Linter(
        "clippy",
        "cargo clippy --offline --all-targets --message-format short",
        (".rs",),
        (("clippy.toml", "."), (".clippy.toml", "."), ("Cargo.toml", r"(?m)^\[(workspace\.)?lints\.clippy")),
        _AT + r"(?P<rule>warning|error(?:\[E\d+\])?): (?P<message>.*)$",
    ),
)


def check(harness: Harness, draft: Draft) -> tuple[Finding, ...]:
    """New findings in the changed files, cheapest first; linters only where the syntax is right.

    A tool that the base configures but that is not installed is passed over.
    """
    wrong = syntax(draft)
    if wrong:
        return wrong
    base = draft.base.draft()
    return tuple(
        finding
        for linter in LINTERS
        if _is_configured(linter, draft.base)
        for finding in _new(linter, harness, base, draft)
    )


# ── syntax ───────────────────────────────────────────────────────────────────────────────────────────────────────


def syntax(draft: Draft) -> tuple[Finding, ...]:
    """Changed files that can't be parsed any more, while the base's could be, or that are new. Pure."""
    found = []
    for path, file in sorted(draft.edits.items()):
        parse = _PARSERS.get(path.rsplit(".", 1)[-1])
        if file is None or parse is None:
            continue
        error = parse(file.content)
        before = draft.base.content(path) if path in draft.base.entries else None
        if error is not None and (before is None or parse(before) is None):
            found.append(Finding("syntax", path, error[0], "", error[1]))
    return tuple(found)


Problem = tuple[int, str]


def _python(data: bytes) -> Problem | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the source is warned of is the linters' business
            ast.parse(data)
    except SyntaxError as error:
        return error.lineno or 0, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 0, str(error) or type(error).__name__
    return None


def _json(data: bytes) -> Problem | None:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except (ValueError, RecursionError) as error:
        return 0, str(error) or type(error).__name__
    return None


def _toml(data: bytes) -> Problem | None:
    try:
        tomllib.loads(data.decode("utf-8"))
    except ValueError as error:  # of TOML and of UTF-8
        line = re.search(r"line (\d+)", str(error))
        return int(line.group(1)) if line else 0, str(error)
    return None


_PARSERS: Final[Mapping[str, Callable[[bytes], Problem | None]]] = {
    "py": _python,
    "json": _json,
    "toml": _toml,
}


# ── linters ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_configured(linter: Linter, files: Files) -> bool:
    return any(re.search(pattern, text(files, name)) for name, pattern in linter.configured)


def _new(linter: Linter, harness: Harness, base: Draft, draft: Draft) -> Iterator[Finding]:
    changed = [p for p, f in sorted(draft.edits.items()) if f is not None and p.endswith(linter.suffixes)]
    if not changed:
        return
    after = _findings(linter, harness, draft, changed)
    if not after:
        return
    before = _findings(linter, harness, base, [path for path in changed if path in base])
    allowed = Counter(finding.key for finding in before)
    for finding in after:
        if allowed[finding.key] > 0:
            allowed[finding.key] -= 1
        else:
            yield finding


def _findings(linter: Linter, harness: Harness, draft: Draft, paths: Sequence[str]) -> tuple[Finding, ...]:
    if not paths:
        return ()
    finished = harness.command(draft, shell(linter.command, *(f"./{path}" for path in paths)))
    if finished.end is not End.EXITED or finished.exit_code in (None, 0, 126, 127):
        return ()
    found = (
        _of_eslint(finished, harness.workspace.spec.view)
        if linter.name == "eslint"
        else _of_lines(linter, clean(finished.output))
    )
    return tuple(finding for finding in found if finding.path in set(paths))


def _of_lines(linter: Linter, output: str) -> Iterator[Finding]:
    for match in re.finditer(linter.pattern, output, re.MULTILINE):
        groups = match.groupdict()
        path = groups["path"].removeprefix("./")
        yield Finding(linter.name, path, int(groups["line"]), (groups.get("rule") or "").strip(":"), groups["message"])


def _of_eslint(finished: Finished, view: str) -> Iterator[Finding]:
    try:
        for file in json.loads(finished.output[finished.output.index(b"[") :]):
            for message in file["messages"]:
                path = str(file["filePath"]).removeprefix(f"{view}/")
                yield Finding("eslint", path, int(message.get("line", 0)), str(message["ruleId"]), message["message"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # a crash of the tool itself, on the base too
