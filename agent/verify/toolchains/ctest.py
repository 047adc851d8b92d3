"""C, C++ and whatever else CMake builds: the JUnit XML of ``ctest``, which has it since CMake 3.21.

What can't be compiled is told twice: the build is a part of its own that fails, with the compiler's words, and so does
each test whose program it would have made. The others run all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent.types import TestOutcome
from agent.verify import junit, report
from agent.verify.files import Files, matching, text
from agent.verify.report import PART, Entry, Report
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import REPORTS, Collected, Invocation, Step, TestPlan, shell, spoken
from agent.verify.verdict import GENERIC_EXITS
from sandbox.text import clean

NAME: Final = "ctest"
PROGRAMS: Final = ("cmake", "ctest", "cc", "c++", "make", "ninja")
INSTALLED: Final[Mapping[str, str]] = {}
_LINE: Final = "cmake -S . -B build && cmake --build build && ctest --test-dir build"
_BUILT: Final = "built"
"""Name of the report that holds the build's exit code."""
# Not in `build`: that may be a person's own, seen read-only. Where an old build can't be brought up to date, its
# programs are those of another tree, and go; what then can't be made is missing and not stale.
_SCRIPT: Final = f"""to=.graftsmith-build/cmake
made() {{ cmake -S . -B $to && cmake --build $to; }}
export CMAKE_BUILD_PARALLEL_LEVEL=$(nproc)
[ ! -d $to ] || made || rm -rf $to
export MAKEFLAGS=-k
made; built=$?
echo $built > {REPORTS}/{_BUILT}
[ -f $to/CMakeCache.txt ] || exit $built
ctest --test-dir $to --output-junit {REPORTS}/ctest-0.xml --timeout 600 "$@"; code=$?
[ $built -eq 0 ] || exit $built
exit $code
"""
_TESTS: Final = re.compile(r"(?im)^[ \t]*(enable_testing|include[ \t]*\([ \t]*CTest|add_test|\w*discover_tests)\b")
_COMPILER: Final = re.compile(r"(?m)^.*(?:\berror\b|undefined reference|CMake Error).*$", re.IGNORECASE)
_NOT_BUILT: Final = "Unable to find executable"


def detect(files: Files) -> TestPlan | None:
    if "CMakeLists.txt" not in files.paths():
        return None
    found = next((p for p in matching(files, "CMakeLists.txt", "*.cmake") if _TESTS.search(text(files, p))), "")
    return TestPlan(NAME, _LINE, f"{found} has tests") if found else None


def resolve(line: str, files: Files) -> str | None:
    return line if shell_line.calls(line, NAME) else None


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """Selected tests run by their exact names; a file runs all, since none says which tests are in it."""
    names = tuple(dict.fromkeys(test for test in selection if not test.startswith(PART)))
    by_name = names and not any(name in files.paths() for name in names)
    wanted = ("-R", f"^({'|'.join(map(_literal, names))})$") if by_name else ()
    shown = spoken(plan.line, wanted)
    if plan.line == _LINE:
        return Invocation(shell(_SCRIPT, *wanted), exits=GENERIC_EXITS, shown=shown)

    def reporting(number: int, old: str) -> str:
        return f'{old} --output-junit {REPORTS}/ctest-{number}.xml "$@"'

    found = shell_line.calls(plan.line, NAME)
    return Invocation(shell(shell_line.rewrite(plan.line, found, reporting), *wanted), exits=GENERIC_EXITS, shown=shown)


def _literal(name: str) -> str:
    return re.sub(r"([][.*+?()^$|\\])", r"\\\1", name)


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"ctest-\d+\.xml")
    built = collected.reports.get(_BUILT, b"0").strip()
    if not found and built == b"0":
        return None
    errors = "\n".join(_COMPILER.findall(clean(collected.output))) if built != b"0" else ""
    entries = [Entry(f"{PART}the build", TestOutcome.FAILED if errors or built != b"0" else TestOutcome.PASSED, errors)]
    return report.build([*(entries if _BUILT in collected.reports else ()), *_tests(found, errors)])


def _tests(found: Sequence[bytes], errors: str) -> Iterator[Entry]:
    for case in junit.cases(*found):
        if case.message.startswith(_NOT_BUILT):
            yield Entry(case.name, TestOutcome.ERROR, f"{case.message}\n{errors}".strip(), collecting=True)
        else:
            yield Entry(case.name, case.outcome, case.message)


def prepare(files: Files) -> tuple[Step, ...]:
    return ()


def probe(plan: TestPlan) -> tuple[str, ...]:
    return shell("cmake --version && ctest --version")
