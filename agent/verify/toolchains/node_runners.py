"""Which of JavaScript's test runners a shell line calls, and how that call is made to write a report. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import quote

from agent.verify.files import names_path
from agent.verify.toolchains import joined, shell_line
from agent.verify.toolchains.base import REPORTS
from agent.verify.toolchains.node_reports import REPORTER

LOCAL: Final = 'export PATH="$PWD/node_modules/.bin:$PATH"\n'
FIRST: Final = f"graftsmith_reporter={shlex.quote(f'data:text/javascript,{quote(REPORTER)}')}\n{LOCAL}"
"""Once, and not with each call: a line can call node for each of a hundred packages."""


@dataclass(frozen=True)
class Called:
    """A runner, and where a line calls it."""

    runner: str
    """``node``, ``jest``, ``vitest`` or ``mocha``."""
    calls: tuple[shell_line.Call, ...]


_HANDS_ON: Final = {
    "react-scripts": r"\s+test\b",
    "craco": r"\s+test\b",
    "react-app-rewired": r"\s+test\b",
    "kcd-scripts": r"\s+test\b",
    "rc-test": "",
}
"""Programs that call jest and hand their options on to it → what comes behind them then."""


def called(line: str) -> Called | None:
    """The runner that a line calls; ``None`` where it is none of those."""
    for name in ("jest", "vitest", "mocha"):
        found = shell_line.calls(line, rf"{name}(?:\.js)?|_{name}")
        if found:
            return Called(name, found)
    wrapped = [
        call
        for program, word in _HANDS_ON.items()
        for call in shell_line.calls(line, program)
        if re.match(word, line[call.words_from : call.end])
    ]
    if wrapped:
        return Called("jest", tuple(wrapped))
    own = [c for c in shell_line.calls(line, "node") if re.search(r"(^|\s)--test(\s|$)", line[c.words_from : c.end])]
    return Called("node", tuple(own)) if own else None


def parts(line: str) -> tuple[joined.Part, ...]:
    """The programs of a line that can be taken apart and of which at least one reports its tests; else nothing."""
    known = [(call, called(call)) for call in joined.split(line)]
    found = tuple(joined.Part(call, it.runner if it and len(it.calls) == 1 else "") for call, it in known)
    return found if any(part.runner for part in found) else ()


def reporting(
    line: str,
    known: Called,
    instead_of: Collection[str],
    arguments: str = ' "$@"',
    first: int = 0,
) -> tuple[str, str]:
    """The line with its calls of a runner made to write reports about ``arguments``; the same for a person.

    Args:
        instead_of: files and what is in folders that need not be named any more, because a selection is.
        arguments: what follows the call's own, as the shell reads it.
        first: number of the first report.
    """

    def selected(old: str) -> str:
        return shell_line.without_paths(old, lambda word: _names_tests(word, instead_of)) if instead_of else old

    def told(number: int, old: str) -> str:
        options = _options(known.runner, first + number, selected(old), bool(instead_of))
        return options + arguments

    script = shell_line.rewrite(line, known.calls, told)
    return script, shell_line.rewrite(line, known.calls, lambda _n, old: selected(old))


def _names_tests(word: str, paths: Collection[str]) -> bool:
    return names_path(word, paths) or any(fnmatchcase(p, word.removeprefix("./").rstrip("/")) for p in paths)


def _options(runner: str, number: int, old: str, selecting: bool) -> str:
    """The call's arguments with those that make it write a report."""
    place = f"{REPORTS}/{runner}-{number}.json"
    if runner == "node":
        ours = f'--test-reporter="$graftsmith_reporter" --test-reporter-destination={place}'
        ours += " --test-reporter=spec --test-reporter-destination=stdout"
        return f" {ours}{old}"  # before the file names, as node wants it
    more = {
        # Not `=false`, which programs that hand options on may take for a word.
        "jest": ["--ci", "--no-watchAll", "--json", f"--outputFile={place}"],
        "vitest": ["--watch=false", "--reporter=default", "--reporter=json", f"--outputFile.json={place}"],
        "mocha": ["--reporter", "json", "--reporter-option", f"output={place}"],
    }[runner]
    if runner == "jest" and selecting:
        more.append("--runTestsByPath")
    return f"{old} {shlex.join(more)}"
