"""What can be said of a change without running its tests: syntax, and the linters and type checkers that the target
itself configures. Only what the base does not have already counts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from agent.edit.syntax import PARSERS, Parser, Problem, no_longer
from agent.index.index import Index
from agent.tree import Draft
from agent.types import Check, Finding
from agent.verify.files import Files, text
from agent.verify.harness import Harness
from agent.verify.toolchains.base import shell
from sandbox.text import clean
from sandbox.types import End, Finished

SHOWN: Final = 20
"""Findings of one tool that are kept; a change with more has one cause, and the first ones show it."""
_MESSAGE_CHARS: Final = 400
_LINTER_S: Final = 180.0
"""One tool on one tree; what takes longer says nothing that is worth the wait between two edits."""


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
    whole: bool = False
    """It reads the whole project, and so sees what a change breaks in other files."""


_AT: Final = r"^(?:vet: )?(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:?)?\s*"
_NODE: Final = 'PATH="$PWD/node_modules/.bin:$PATH" '
_PYRIGHT: Final = (
    r"^\s*(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\d+ - error: (?P<message>.*?)(?: \((?P<rule>report\w+)\))?$"
)
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
        "pyright",
        _NODE + 'pyright "$@"',
        (".py", ".pyi"),
        (("pyrightconfig.json", "."), ("pyproject.toml", r"(?m)^\[tool\.pyright\]")),
        _PYRIGHT,
    ),
    Linter(
        "basedpyright",
        'basedpyright "$@"',
        (".py", ".pyi"),
        (("pyproject.toml", r"(?m)^\[tool\.basedpyright\]"),),
        _PYRIGHT,
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
        _NODE + "tsc --noEmit --pretty false -p .",
        (".ts", ".tsx", ".mts", ".cts"),
        (("tsconfig.json", "."),),
        r"^(?P<path>[^\s(][^(\n]*)\((?P<line>\d+),\d+\): error (?P<rule>TS\d+): (?P<message>.*)$",
        whole=True,
    ),
    Linter("go vet", "go vet ./...", (".go",), (("go.mod", "."),), _AT + r"(?P<message>.*)$", whole=True),
    Linter(
        "clippy",
        "cargo clippy --offline --all-targets --message-format short",
        (".rs",),
        (("clippy.toml", "."), (".clippy.toml", "."), ("Cargo.toml", r"(?m)^\[(workspace\.)?lints\.clippy")),
        _AT + r"(?P<rule>warning|error(?:\[E\d+\])?): (?P<message>.*)$",
        whole=True,
    ),
)


# ── syntax ───────────────────────────────────────────────────────────────────────────────────────────────────────


def syntax(draft: Draft, before: Index, after: Index) -> Check:
    """Changed files that can't be parsed any more, while the base's could be.

    A new file counts too where the parser is the language's own: a grammar may lag behind its language.

    Args:
        before, after: the base and ``draft``.
    """
    found = []
    for path, file in sorted(draft.edits.items()):
        if file is None:
            continue
        parse = PARSERS.get(path.rsplit(".", 1)[-1])
        error = _parsed(parse, draft, path) if parse else _by_grammar(path, before, after)
        if error is not None:
            found.append(Finding(path=path, line=error.line, rule="", message=error.message[:_MESSAGE_CHARS]))
    return _check("syntax", "syntax", found)


def _parsed(parse: Parser, draft: Draft, path: str) -> Problem | None:
    error = parse(draft.content(path))
    known = error is not None and path in draft.base.entries and parse(draft.base.content(path)) is not None
    return None if known else error


def _by_grammar(path: str, before: Index, after: Index) -> Problem | None:
    old, new = before.record(path), after.record(path)
    if old is None or new is None or old.broken or old.note or not new.broken:
        return None
    return Problem(new.broken, no_longer(new.language))


# ── linters ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Said:
    """What a tool said of some files of one tree."""

    findings: tuple[Finding, ...] = ()
    silent: str = ""


@dataclass(frozen=True)
class Linters:
    """The linters and type checkers that the base configures. What they say of the base is asked once.

    Args:
        said: question → what a tool has against the base; what is asked is added.
    """

    harness: Harness
    base: Draft
    said: MutableMapping[str, tuple[Finding, ...]] = field(default_factory=dict)

    def check(self, draft: Draft) -> tuple[Check, ...]:
        """One check for each tool that has to do with the changed files."""
        paths = {path for path, file in draft.edits.items() if file is not None}
        concerned = (
            (linter, tuple(sorted(path for path in paths if path.endswith(linter.suffixes))))
            for linter in LINTERS
            if _is_configured(linter, self.base.base)
        )
        return tuple(self._compared(linter, draft, changed) for linter, changed in concerned if changed)

    def _compared(self, linter: Linter, draft: Draft, changed: tuple[str, ...]) -> Check:
        after = _run(linter, self.harness, draft, changed)
        if not after.findings:
            return _check("static", linter.name, (), after.silent)
        before = self._of_base(linter, tuple(path for path in changed if path in self.base))
        allowed = Counter(map(_key, before))
        new = []
        for finding in after.findings:
            if allowed[_key(finding)] > 0:
                allowed[_key(finding)] -= 1
            else:
                new.append(finding)
        return _check("static", linter.name, new)

    def _of_base(self, linter: Linter, paths: tuple[str, ...]) -> tuple[Finding, ...]:
        if not paths and not linter.whole:
            return ()
        question = "\n".join((linter.name, *(() if linter.whole else paths)))
        if question not in self.said:
            said = _run(linter, self.harness, self.base, paths, fresh=True)
            if said.silent:
                return said.findings
            self.said[question] = said.findings
        return self.said[question]


def _is_configured(linter: Linter, files: Files) -> bool:
    return any(re.search(pattern, text(files, name)) for name, pattern in linter.configured)


def _key(finding: Finding) -> tuple[str, str, str]:
    """Equal for the same complaint in another place of the file: lines move, and messages count them."""
    return finding.path, finding.rule, re.sub(r"\d+", "0", finding.message)


def _run(linter: Linter, harness: Harness, draft: Draft, paths: Sequence[str], *, fresh: bool = False) -> _Said:
    finished = harness.command(draft, shell(linter.command, *(f"./{path}" for path in paths)), _LINTER_S, fresh=fresh)
    silent = _silent(finished)
    if silent or finished.exit_code == 0:
        return _Said(silent=silent)
    view = harness.workspace.spec.view
    output = clean(finished.output)
    found = tuple(read(linter, output, view))
    if not found:
        return _Said(silent=f"it ended with exit code {finished.exit_code} and named no line")
    return _Said(found if linter.whole else tuple(finding for finding in found if finding.path in paths))


def _silent(finished: Finished) -> str:
    """Why a tool said nothing; empty when it did."""
    if finished.end is not End.EXITED:
        return f"it was stopped: {finished.end.value.replace('_', ' ')}"
    missing = finished.exit_code != 0 and _MISSING.search(finished.output)
    return "it is not installed" if missing or finished.exit_code in (126, 127) else ""


_MISSING: Final = re.compile(
    rb"(?m)^\S+: No module named \w+\s*$|^error: no such command: |is not installed for the toolchain"
)


def read(linter: Linter, output: str, view: str) -> Iterator[Finding]:
    """What a linter's output holds, with paths below the checkout ``view``; nothing where it says something else."""
    return _of_eslint(output, view) if linter.name == "eslint" else _of_lines(linter, output, view)


def _of_lines(linter: Linter, output: str, view: str) -> Iterator[Finding]:
    for match in re.finditer(linter.pattern, output, re.MULTILINE):
        groups = match.groupdict()
        yield _finding(groups["path"], view, int(groups["line"]), groups.get("rule") or "", groups["message"])


def _of_eslint(output: str, view: str) -> Iterator[Finding]:
    try:
        for file in json.loads(output[output.index("[") :]):
            for said in (message for message in file["messages"] if message["severity"] > 1):  # 1 is a warning
                line, rule = int(said.get("line") or 0), str(said["ruleId"] or "")
                yield _finding(str(file["filePath"]), view, line, rule, str(said["message"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # a crash of the tool itself, on the base too


def _finding(path: str, view: str, line: int, rule: str, message: str) -> Finding:
    inside = path.removeprefix(f"{view}/").removeprefix("./")
    return Finding(path=inside, line=line, rule=rule.strip(":"), message=message[:_MESSAGE_CHARS])


def _check(level: Literal["syntax", "static"], tool: str, found: Sequence[Finding], silent: str = "") -> Check:
    return Check(level=level, tool=tool, found=tuple(found[:SHOWN]), more=max(0, len(found) - SHOWN), silent=silent)
