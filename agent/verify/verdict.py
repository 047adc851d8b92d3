"""The verdict on one run of the tests: the exit code and the report must tell the same story. Pure.

Neither alone is believed. Code under test can leave with ``os._exit(0)`` before a failure is reported, and it can
write a report of its own; where the two disagree nothing is concluded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from agent.types import SuiteStatus, TestOutcome
from agent.verify.files import from_root
from agent.verify.report import Report
from sandbox.text import clean
from sandbox.types import End, Finished


class Exit(Enum):
    """What a runner means by an exit code."""

    CLEAN = "no test failed"
    FAILURES = "tests failed"
    NO_TESTS = "no tests were found"
    BROKEN = "the tests could not run"


GENERIC_EXITS: Final[Mapping[int, Exit]] = {0: Exit.CLEAN}
"""For wrappers (make, shell lines, npm scripts): anything but 0 is a failure of some kind."""

_NOT_FOUND: Final[Mapping[int, str]] = {
    126: "the test command is not executable (exit code 126)",
    127: "the test command was not found (exit code 127)",
}

Verdict = tuple[SuiteStatus, str]


def of_run(
    finished: Finished,
    exits: Mapping[int, Exit],
    report: Report | None,
    unreadable: str,
    *,
    reports: bool,
    views: Sequence[str],
) -> Verdict:
    """The verdict from all that is known.

    Args:
        exits, report, unreadable: see ``structured``.
        reports: whether the runner was to write a report; else the exit code stands alone where there is none.
        views: where the checkout is; see ``files.from_root``.
    """
    settled = of_process(finished, views)
    if settled is not None:
        return settled
    code = finished.exit_code if finished.exit_code is not None else -1
    if report is None and not unreadable and not reports:
        return unstructured(code)
    return structured(code, exits, report, unreadable)


def of_process(finished: Finished, views: Sequence[str] = ()) -> Verdict | None:
    """The verdict where the process itself settles it, before any report is read.

    Args:
        views: where the checkout is; see ``files.from_root``.
    """
    match finished.end:
        case End.TIMED_OUT | End.HUNG:
            how = "hung, with no output and hardly any work," if finished.end is End.HUNG else "did not end"
            last = _stuck(clean(finished.output), views)
            limit = f"after {finished.seconds:.0f} s"
            return SuiteStatus.TIMED_OUT, f"the tests {how} and were stopped {limit}: timed out. {last}"
        case End.OUT_OF_MEMORY:
            return SuiteStatus.OUT_OF_MEMORY, "the tests were killed because they used more memory than allowed"
        case End.OUT_OF_ROOM:
            return SuiteStatus.NOT_RUN, "the tests were stopped because they left too little room on the disk"
        case End.CANCELLED:
            return SuiteStatus.NOT_RUN, "the run was cancelled"
        case End.SIGNALLED:
            return SuiteStatus.NOT_RUN, f"the test runner was killed by signal {finished.signal}"
        case End.EXITED:
            return None


def _stuck(output: str, views: Sequence[str]) -> str:
    """Where it stood, as far as the runner or the interpreter says so."""
    running = ["".join(match.groups("")) for match in map(_RUNNING.match, output.split("\n")) if match]
    frames = [(from_root(path, views), line, name) for path, line, name in _FRAME.findall(_last_dump(output))]
    own = [(path, line, name) for path, line, name in frames if not path.startswith(("/", "<"))]
    tests = [frame for frame in own if frame[2].startswith("test")]
    places = [f"{path}:{line} ({name})" for path, line, name in dict.fromkeys((*tests[:1], *own[:1]))]
    if places or running:
        return f"It stood in {', at '.join(places or running[-3:])}"
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return f"The last that it printed: {last[:200]}" if last else "It had printed nothing (watch mode?)"


def endless(output: str, views: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Files of the checkout and lines, the innermost first, at which Python stood when nothing more was said: its stack
    is the end of the output. Nothing where it went on since."""
    dump = _last_dump(output)
    if not dump or re.search(r"(?m)^(?!Thread|Current thread|Extension modules|  ).*\S", dump):
        return ()
    frames = ((from_root(path, views), int(line)) for path, line, _ in _FRAME.findall(dump))
    return tuple((path, line) for path, line in frames if path[:1] not in "/<")


_DUMP: Final = re.compile(r"(?m)\bTimeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!$")
"""What Python's faulthandler writes above the stacks of all threads."""
_FRAME: Final = re.compile(r'(?m)^  File "([^"\n]+)", line (\d+) in (\S+)$')
_RUNNING: Final = re.compile(
    r"^test (\S+) has been running for over \d+ seconds$|^\s+((?:Test|Fuzz)\w+) \(\d[\dhms.]*\)$"
)
"""cargo's and Go's word."""


def _last_dump(output: str) -> str:
    dumps = _DUMP.split(output)
    return dumps[-1] if len(dumps) > 1 else ""


def _of_shell(exit_code: int) -> Verdict | None:
    if exit_code in _NOT_FOUND:
        return SuiteStatus.NOT_RUN, _NOT_FOUND[exit_code]
    if 128 < exit_code <= 192:  # how a shell says that its command was killed
        return SuiteStatus.NOT_RUN, f"the test runner was killed by signal {exit_code - 128}"
    return None


def unstructured(exit_code: int) -> Verdict:
    """The verdict from an exit code alone: for commands that write no report that we can read."""
    never_ran = _of_shell(exit_code)
    if never_ran:
        return never_ran
    if exit_code == 0:
        return SuiteStatus.OK, ""
    return SuiteStatus.FAILING, f"the test command ended with exit code {exit_code}; it writes no report of its tests"


def structured(exit_code: int, exits: Mapping[int, Exit], report: Report | None, unreadable: str = "") -> Verdict:
    """The verdict from both.

    Args:
        exits: what the runner's exit codes mean; a code that is not in it counts as failures.
        report: ``None`` when there is none.
        unreadable: why the report can't be used, when it is there but damaged.
    """
    said = exits.get(exit_code, Exit.FAILURES)
    if said is Exit.BROKEN:
        return SuiteStatus.NOT_RUN, _broken(exit_code, report)
    if unreadable:
        return SuiteStatus.INCONSISTENT, f"exit code {exit_code}, but {unreadable}"
    if report is not None and report.internal:
        return SuiteStatus.NOT_RUN, f"the test runner failed itself: {report.internal[:300]}"
    match said:
        case Exit.CLEAN:
            return _clean(report)
        case Exit.NO_TESTS:
            return _no_tests(exit_code, report)
        case _:
            return _failures(exit_code, report)


def _clean(report: Report | None) -> Verdict:
    if report is None:
        return SuiteStatus.INCONSISTENT, (
            "exit code 0, but the runner wrote no report: it was left before its end, or the command does not run it"
        )
    if report.failed:
        return SuiteStatus.INCONSISTENT, f"exit code 0, but the report counts {len(report.failed)} failed tests"
    if not report.outcomes:
        return SuiteStatus.NO_TESTS, "no tests ran"
    return SuiteStatus.OK, ""


def _no_tests(exit_code: int, report: Report | None) -> Verdict:
    ran = [] if report is None else [t for t, o in report.outcomes.items() if o is not TestOutcome.SKIPPED]
    if ran:
        return SuiteStatus.INCONSISTENT, f"exit code {exit_code} says no tests, but the report holds {len(ran)}"
    return SuiteStatus.NO_TESTS, "no tests ran: none was found, or all were deselected"


def _failures(exit_code: int, report: Report | None) -> Verdict:
    if report is None or not report.outcomes:
        # Only without a report: some runners leave with the number of failed tests.
        return _of_shell(exit_code) or (
            SuiteStatus.NOT_RUN,
            f"the test command ended with exit code {exit_code} before any test ran",
        )
    if not report.failed:
        return SuiteStatus.INCONSISTENT, (
            f"exit code {exit_code}, but the report shows no failure "
            "(a coverage threshold, a second command, or a hook that changes the exit status?)"
        )
    if report.uncollected == report.outcomes.keys():
        return SuiteStatus.NOT_RUN, f"no test ran: {len(report.uncollected)} test files could not be loaded"
    return SuiteStatus.FAILING, ""


def _broken(exit_code: int, report: Report | None) -> str:
    if report is not None and report.uncollected:
        return f"no test ran (exit code {exit_code}): {len(report.uncollected)} test files could not be loaded"
    return f"the tests could not run (exit code {exit_code}): a wrong command or path, or a configuration that fails"
