"""Python projects whose configured command is ``python -m unittest``, and Django's ``manage.py test``, the same runner:
its verbose text.

unittest itself only on request: a project found by its files runs under pytest, which runs the same tests and writes a
real report. Django's tests want its own runner, which makes their databases, unless the project configures pytest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files, matching
from agent.verify.files import text as text_of
from agent.verify.report import Entry, Report, Unreadable
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import Canary, Collected, Invocation, Step, TestPlan, shell, spoken
from agent.verify.toolchains.python_pytest import CANARY, ENV, INSTALLED, wants_django
from agent.verify.toolchains.python_setup import steps
from agent.verify.verdict import GENERIC_EXITS, Exit
from sandbox.text import clean

__all__ = ["INSTALLED"]

NAME: Final = "python-unittest"
PROGRAMS: Final = ("python3",)
EXITS: Final[Mapping[int, Exit]] = {**GENERIC_EXITS, 1: Exit.FAILURES, 5: Exit.NO_TESTS}

_DJANGO: Final = r"(?:python[\d.]*\s+)?(?:[\w.-]+/)*(?:manage\.py\s+test|runtests\.py)"
_OWN_SCRIPT: Final = re.compile(r"(?:[\w.-]+/)*runtests\.py")
"""Django's, and that of projects around it, which have the same options where they have that one."""
_LINE: Final = re.compile(
    r"^(?P<name>\w+) \((?P<place>[\w.]+)\)(?:\n(?!\w+ \([\w.]+\)).*?)? \.\.\. (?:.*?)"
    r"(?P<result>ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$",
    re.MULTILINE,
)
_RESULTS: Final[Mapping[str, TestOutcome]] = {
    "ok": TestOutcome.PASSED,
    "FAIL": TestOutcome.FAILED,
    "ERROR": TestOutcome.ERROR,
    "expected failure": TestOutcome.XFAILED,
    "unexpected success": TestOutcome.FAILED,
}


def detect(files: Files) -> TestPlan | None:
    if not wants_django(files):
        return None
    first = not any(matching(files, "test_*.py", "tests.py"))
    return TestPlan(NAME, "python3 manage.py test", "manage.py runs Django's tests", first=first)


def resolve(line: str, files: Files) -> str | None:
    script = _OWN_SCRIPT.search(line)
    if script and "--noinput" not in text_of(files, script[0].removeprefix("./")):
        return None
    return line if _calls(line) else None


def _calls(line: str) -> tuple[shell_line.Call, ...]:
    return shell_line.calls(line, "unittest") or shell_line.calls(line, _DJANGO)


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    found = _calls(plan.line)
    ours = " -v -b" if shell_line.calls(plan.line, "unittest") else " -v 2 -b --noinput"
    names = tuple(dict.fromkeys(test for test in selection if "::" not in test and "/" not in test))
    discovers = any("discover" in plan.line[call.words_from : call.end] for call in found)  # its names are no imports
    wanted = names if len(names) == len(set(selection)) and not discovers else ()

    if wanted and _OWN_SCRIPT.search(plan.line):
        ours += " --parallel=1"  # its processes can't hand over the failure of a part of a test

    def reporting(_number: int, old: str) -> str:
        return (f'{ours} "$@"' if wanted else f"{old.rstrip()}{ours}") + (" " if old.endswith(" ") else "")

    own_exit = len(found) == 1 and found[0].last
    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, found, reporting), *wanted),
        env=ENV,
        exits=EXITS if own_exit else GENERIC_EXITS,
        shown=spoken(shell_line.rewrite(plan.line, found, lambda _n, old: "" if wanted else old.rstrip()), wanted),
    )


def read(collected: Collected, files: Files) -> Report | None:
    text = clean(collected.output)
    summed = re.findall(r"(?m)^Ran (\d+) tests? in [\d.]+s$", text)
    if not summed:
        return None
    entries = list(_entries(_PARTS.sub(_folded, text)))
    if len(entries) < sum(map(int, summed)):
        raise Unreadable(f"unittest ran {summed[-1]} tests, but its lines name {len(entries)}")
    return report.build(entries)


_PARTS: Final = re.compile(
    r"^(\w+ \([\w.]+\)(?:\n(?!\w+ \([\w.]+\)).*?)? \.\.\. )\n"
    r"((?:  \w+ \([\w.]+\) .*?(?:\n.*?)? \.\.\. (?:FAIL|ERROR)\n)+)",
    re.MULTILINE,
)
"""A test some ``subTest`` of which fails: the lines of these stand below its own, which has no result."""


def _folded(test: re.Match[str]) -> str:
    return test[1] + ("FAIL" if re.search(r" \.\.\. FAIL$", test[2], re.MULTILINE) else "ERROR") + "\n"


def _entries(text: str) -> Iterator[Entry]:
    for match in _LINE.finditer(text):
        result = match["result"]
        outcome = TestOutcome.SKIPPED if result.startswith("skipped") else _RESULTS[result]
        place = match["place"]
        test = place if place.endswith(f".{match['name']}") else f"{place}.{match['name']}"
        failed_import = test.startswith("unittest.loader._FailedTest.")
        name = test.removeprefix("unittest.loader._FailedTest.")
        message = _message(text, match["name"]) if outcome in (TestOutcome.FAILED, TestOutcome.ERROR) else ""
        yield Entry(name, outcome, message, collecting=failed_import)


def _message(text: str, name: str) -> str:
    found = re.search(rf"(?ms)^(?:FAIL|ERROR): {re.escape(name)} .*?\n-{{20,}}\n(.*?)\n\n(?:={{20,}}|-{{20,}})", text)
    return found.group(1).strip() if found else ""


def prepare(files: Files) -> tuple[Step, ...]:
    return steps(files, runner="")


def probe(plan: TestPlan) -> tuple[str, ...]:
    wanted = "unittest" if shell_line.calls(plan.line, "unittest") else "django"
    return shell(f"python3 -c 'import {wanted}'")


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    """A module beside the test's own. None where the first failure ends the run: it might be the canary's."""
    parts = test.split(".")
    held = ((end, path) for end in range(len(parts), 0, -1) for path in matching(files, "/".join(parts[:end]) + ".py"))
    end, path = next(held, (0, ""))
    if not end or re.search(r"\s(-\w*f\w*|--failfast)(\s|$)", plan.line):
        return None
    module = ".".join([*parts[: end - 1], f"test_{token}"])
    prefix, place = f"{module}.T{token}.", str(PurePosixPath(path).with_name(f"test_{token}.py"))
    content = CANARY.format(token=token).encode()
    return Canary(place, content, f"{prefix}test_sings", f"{prefix}test_falls_silent", module)
