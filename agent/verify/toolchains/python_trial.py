"""Twisted's trial: the text of its reporter ``bwverbose``, a line for each test."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files
from agent.verify.report import Entry, Report, Unreadable
from agent.verify.toolchains import python_own, shell_line
from agent.verify.toolchains.base import Canary, Collected, Invocation, Step, TestPlan, shell, spoken
from agent.verify.toolchains.python_pytest import ENV, INSTALLED, own_runner
from agent.verify.toolchains.python_setup import steps
from agent.verify.toolchains.python_unittest import canary_module
from agent.verify.verdict import GENERIC_EXITS, Exit
from sandbox.text import clean

__all__ = ["INSTALLED"]

NAME: Final = "python-trial"
PROGRAMS: Final = ("python3",)
EXITS: Final[Mapping[int, Exit]] = {**GENERIC_EXITS, 1: Exit.FAILURES}

_TRIAL: Final = r"(?:twisted\.)?trial"
_OURS: Final = " --reporter=bwverbose --temp-directory=/tmp/trial"
_OTHERS: Final = re.compile(r"(?<!\S)(--reporter[= ]|--temp-directory[= ]|--jobs[= ]|-j ?)\S+\s*")
"""Of a call: what would take the place of ours, and several processes, whose lines are not in one order."""
_WORST_FIRST: Final[Mapping[str, TestOutcome]] = {
    "ERROR": TestOutcome.ERROR,
    "FAILURE": TestOutcome.FAILED,
    "SUCCESS!?!": TestOutcome.FAILED,
    "TODO": TestOutcome.XFAILED,
    "SKIPPED": TestOutcome.SKIPPED,
    "OK": TestOutcome.PASSED,
}
_RESULT: Final = [rf"\[{re.escape(result)}\]" for result in _WORST_FIRST]
_RESULTS: Final = rf"((?:{'|'.join(_RESULT)})+)"
_FIRST: Final = "".join(f"(?<!{result})" for result in _RESULT)  # a row of them is tried from its first one alone
_TEST: Final = r"\w+(?:\.\w+)+"
_LINE: Final = re.compile(
    rf"^({_TEST}) \.\.\. (?:{_RESULTS}|(?:(?!^{_TEST} \.\.\. ).)*?{_FIRST}{_RESULTS}$)", re.MULTILINE | re.DOTALL
)
"""A test's result follows its name, or ends a line of what the test has printed."""
_BLOCK: Final = re.compile(r"(?ms)^={79}\n\[(?:FAIL|ERROR)\]\n(.*?)(?=^[=-]{79}$)")
"""What went wrong, and below an empty line the tests of which it is said."""


def detect(files: Files) -> TestPlan | None:
    own = own_runner(files)
    return TestPlan(NAME, own.line, own.reason) if own and own.runner == python_own.TRIAL else None


def resolve(line: str, files: Files) -> str | None:
    return line if shell_line.calls(line, _TRIAL) else None


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """Files are given as such, tests by their dotted names."""
    found = shell_line.calls(plan.line, _TRIAL)
    folder = shell_line.entered(plan.line)
    every = (posixpath.relpath(t, folder or ".") if "/" in t or t.endswith(".py") else t for t in selection)
    wanted = tuple(dict.fromkeys(every))

    def kept(old: str) -> str:
        reactor = re.search(r"(?<!\S)--reactor[= ]\w+(?!\S)", old)
        return (f" {reactor[0]}" if reactor else "") if wanted else old

    def reporting(_number: int, old: str) -> str:
        """Options stand before names; the last of a kind counts."""
        rest = _OTHERS.sub("", kept(old))
        return "".join((_OURS, rest, ' "$@"' if wanted else ""))

    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, found, reporting), *wanted),
        env=ENV,
        exits=EXITS if shell_line.is_all(found) else GENERIC_EXITS,
        shown=spoken(shell_line.rewrite(plan.line, found, lambda _number, old: kept(old)), wanted),
    )


def read(collected: Collected, files: Files) -> Report | None:
    text = clean(collected.output)
    summed = re.findall(r"(?m)^Ran (\d+) tests in [\d.]+s$", text)
    if not summed:
        return None
    entries = list(_entries(text))
    if len(entries) < sum(map(int, summed)):
        raise Unreadable(f"trial ran {summed[-1]} tests, but its lines name {len(entries)}")
    return report.build(entries)


def _entries(text: str) -> Iterator[Entry]:
    messages = dict(_messages(text))
    for match in _LINE.finditer(text):
        said = set(re.findall(r"\[([^\]]+)\]", match[2] or match[3]))
        outcome = next(outcome for word, outcome in _WORST_FIRST.items() if word in said)
        test = match[1]
        message = messages.get(test, "")
        yield Entry(test, outcome, message, collecting=_is_loading(message))


def _messages(text: str) -> Iterator[tuple[str, str]]:
    for block in _BLOCK.finditer(text):
        message, _, tests = block[1].strip().rpartition("\n\n")
        yield from ((test, message) for test in tests.split())


def _is_loading(message: str) -> bool:
    """Whether it is no test that failed, but a module that could not be loaded."""
    return re.search(r", in (loadPackage|loadByName|loadModule)$", message, re.MULTILINE) is not None


def prepare(files: Files) -> tuple[Step, ...]:
    return steps(files, runner="twisted")


def probe(plan: TestPlan) -> tuple[str, ...]:
    return shell("python3 -m twisted.trial --version")


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    return canary_module(files, test, token)
