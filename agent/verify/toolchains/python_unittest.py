"""Python projects whose configured command is ``python -m unittest``, and Django's tests, which have the same runner:
its verbose text.

unittest itself only on request: a project found by its files runs under pytest, which runs the same tests and writes a
real report. Django's tests want its own runner, which makes their databases, unless the project configures pytest.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files, matching
from agent.verify.files import text as text_of
from agent.verify.report import Entry, Report, Unreadable
from agent.verify.toolchains import python_own, shell_line
from agent.verify.toolchains.base import Canary, Collected, Invocation, Step, TestPlan, shell, spoken
from agent.verify.toolchains.python_pytest import CANARY, ENV, INSTALLED, own_runner
from agent.verify.toolchains.python_setup import steps
from agent.verify.verdict import GENERIC_EXITS, Exit
from sandbox.text import clean

__all__ = ["INSTALLED"]

NAME: Final = "python-unittest"
PROGRAMS: Final = ("python3",)
EXITS: Final[Mapping[int, Exit]] = {**GENERIC_EXITS, 1: Exit.FAILURES, 5: Exit.NO_TESTS}

_PYTHON: Final = r"(?:python[\d.]*\s+)?(?:[\w.-]+/)*"
_MANAGED: Final = rf"django\s+test|{_PYTHON}manage\.py\s+test"
_SCRIPT: Final = rf"{_PYTHON}[\w-]*test[\w-]*\.py"
"""Django's own ``runtests.py``, and those of projects around it that take the same options."""
_LINE: Final = re.compile(
    r"^(?:[^\n(]*\.\.\. ?)?(?P<name>\w+) \((?P<place>[\w.]+)\)(?:\n(?!\w+ \([\w.]+\)).{0,1000}?)? \.\.\. (?:.*?)"
    r"(?P<result>ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$",
    re.MULTILINE,
)
"""A test; before it may stand what something else has begun to say (``Applying 0008_tags...``)."""
_RESULTS: Final[Mapping[str, TestOutcome]] = {
    "ok": TestOutcome.PASSED,
    "FAIL": TestOutcome.FAILED,
    "ERROR": TestOutcome.ERROR,
    "expected failure": TestOutcome.XFAILED,
    "unexpected success": TestOutcome.FAILED,
}


def detect(files: Files) -> TestPlan | None:
    own = own_runner(files)
    if own is None or own.runner != python_own.DJANGO:
        return None
    first = not any(matching(files, "test_*.py", "tests.py"))
    return TestPlan(NAME, own.line, own.reason, first=first)


def resolve(line: str, files: Files) -> str | None:
    scripts = [] if shell_line.calls(line, rf"unittest|{_MANAGED}") else shell_line.calls(line, _SCRIPT)
    folder = shell_line.entered(line)
    named = [posixpath.normpath(posixpath.join(folder, _program(line, call))) for call in scripts]
    known = all(python_own.takes_djangos_options(text_of(files, path)) for path in named)
    return line if known and _calls(line) else None


def _program(line: str, call: shell_line.Call) -> str:
    """The script, or the last word of what stands for one."""
    words = line[call.start : call.words_from].split()
    return next((word for word in words if word.endswith(".py")), words[-1])


def _calls(line: str) -> tuple[shell_line.Call, ...]:
    found = (shell_line.calls(line, program) for program in ("unittest", _MANAGED, _SCRIPT))
    return next(filter(None, found), ())


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    found = _calls(plan.line)
    ours = " -v -b" if shell_line.calls(plan.line, "unittest") else " -v 2 -b --noinput"
    wanted = _wanted(plan.line, found, selection)

    if wanted and shell_line.calls(plan.line, _SCRIPT):
        ours += " --parallel=1"  # its processes can't hand over the failure of a part of a test

    def kept(old: str) -> str:
        return _settings(old) if wanted else old

    def reporting(_number: int, old: str) -> str:
        return "".join((kept(old), ours, ' "$@"' if wanted else ""))

    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, found, reporting), *wanted),
        env=ENV,
        exits=EXITS if shell_line.is_all(found) else GENERIC_EXITS,
        shown=spoken(shell_line.rewrite(plan.line, found, lambda _n, old: kept(old)), wanted),
    )


def _settings(old: str) -> str:
    """Of a call's arguments what no selection takes the place of."""
    return "".join(f" {shlex.quote(found[0])}" for found in re.finditer(r"(?<!\S)--settings[= ][\w.]+(?!\S)", old))


def _wanted(line: str, found: Sequence[shell_line.Call], selection: Sequence[str]) -> tuple[str, ...]:
    """The selection as dotted names; nothing where a part of it has none, since then everything has to run."""
    if any("discover" in line[call.words_from : call.end] for call in found):
        return ()  # the names of what is found so are no imports
    root = _imported_from(line, found)
    names = [_dotted(test, root) for test in dict.fromkeys(selection)]
    return tuple(names) if all(names) else ()


def _imported_from(line: str, found: Sequence[shell_line.Call]) -> str | None:
    """The folder of the script, or where it is called; ``None`` for unittest, whose modules may be installed ones."""
    if shell_line.calls(line, "unittest"):
        return None
    program = _program(line, found[0])
    place = posixpath.dirname(program) if program.endswith(".py") else ""
    return posixpath.normpath(posixpath.join(shell_line.entered(line), place))


def _dotted(test: str, root: str | None) -> str:
    if "/" not in test and not test.endswith(".py"):
        return "" if "::" in test else test
    inside = "" if root is None else posixpath.relpath(test, root)
    return inside.removesuffix(".py").replace("/", ".") if re.fullmatch(r"(?!\.)[\w/]+\.py", inside) else ""


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
    messages = dict(reversed(list(_messages(text))))
    for match in _LINE.finditer(text):
        result = match["result"]
        outcome = TestOutcome.SKIPPED if result.startswith("skipped") else _RESULTS[result]
        place = match["place"]
        test = place if place.endswith(f".{match['name']}") else f"{place}.{match['name']}"
        failed_import = test.startswith("unittest.loader._FailedTest.")
        name = test.removeprefix("unittest.loader._FailedTest.")
        message = messages.get(match["name"], "") if outcome in (TestOutcome.FAILED, TestOutcome.ERROR) else ""
        yield Entry(name, outcome, message, collecting=failed_import)


_TOLD: Final = re.compile(r"(?:FAIL|ERROR): (\w+) ")
_RULE: Final = re.compile(r"-{20,}|={20,}")


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """(test, why) of each failure that is told below the run: under a rule, up to a blank line and the next rule."""
    name, told = "", list[str]()
    for line in text.split("\n"):
        rule = _RULE.match(line) is not None
        if not told:
            head = _TOLD.match(line)
            name, told = (name, [line]) if name and rule else (head[1] if head else name, told)
        elif rule and not told[-1]:
            yield name, "\n".join(told[1:]).strip()
            name, told = "", []
        else:
            told.append(line)


def prepare(files: Files) -> tuple[Step, ...]:
    return steps(files, runner="")


def probe(plan: TestPlan) -> tuple[str, ...]:
    wanted = "unittest" if shell_line.calls(plan.line, "unittest") else "django"
    return shell(f"python3 -c 'import {wanted}'")


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    """None where the first failure ends the run: it might be the canary's."""
    return None if re.search(r"\s(-\w*f\w*|--failfast)(\s|$)", plan.line) else canary_module(files, test, token)


def canary_module(files: Files, test: str, token: str) -> Canary | None:
    """A module beside the one of a test with a dotted name."""
    parts = test.split(".")
    held = ((end, path) for end in range(len(parts), 0, -1) for path in matching(files, "/".join(parts[:end]) + ".py"))
    end, path = next(held, (0, ""))
    if not end:
        return None
    module = ".".join([*parts[: end - 1], f"test_{token}"])
    prefix, place = f"{module}.T{token}.", str(PurePosixPath(path).with_name(f"test_{token}.py"))
    content = CANARY.format(token=token).encode()
    return Canary(place, content, f"{prefix}test_sings", f"{prefix}test_falls_silent", module)
