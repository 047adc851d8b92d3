"""The exit code and the report have to tell the same story; where they don't, nothing is concluded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent.types import SuiteStatus, TestOutcome
from agent.verify.report import Entry, Report, build
from agent.verify.verdict import Exit, endless, of_process, structured, unstructured
from sandbox.types import End, Finished

EXITS: Mapping[int, Exit] = {0: Exit.CLEAN, 1: Exit.FAILURES, 2: Exit.BROKEN, 5: Exit.NO_TESTS}
PASSED = Entry("t.py::a", TestOutcome.PASSED)
FAILED = Entry("t.py::b", TestOutcome.FAILED, "no")
SKIPPED = Entry("t.py::c", TestOutcome.SKIPPED)
UNLOADED = Entry("t.py", TestOutcome.ERROR, "no module", collecting=True)
NOTHING = build(())
OK, FAILING, NO_TESTS = SuiteStatus.OK, SuiteStatus.FAILING, SuiteStatus.NO_TESTS
NOT_RUN, INCONSISTENT = SuiteStatus.NOT_RUN, SuiteStatus.INCONSISTENT


@pytest.mark.parametrize(
    ("exit_code", "report", "status"),
    [
        (0, build([PASSED]), OK),
        (0, build([SKIPPED]), OK),
        (0, NOTHING, NO_TESTS),
        (0, None, INCONSISTENT),
        (0, build([PASSED, FAILED]), INCONSISTENT),
        (1, build([PASSED, FAILED]), FAILING),
        (1, build([PASSED, UNLOADED]), FAILING),
        (1, build([UNLOADED]), NOT_RUN),
        (1, build([PASSED]), INCONSISTENT),
        (1, NOTHING, NOT_RUN),
        (1, None, NOT_RUN),
        (2, build([PASSED, FAILED]), NOT_RUN),
        (2, build([UNLOADED]), NOT_RUN),
        (2, None, NOT_RUN),
        (5, None, NO_TESTS),
        (5, build([SKIPPED]), NO_TESTS),
        (5, build([PASSED]), INCONSISTENT),
        (77, build([FAILED]), FAILING),
        (77, None, NOT_RUN),
        (126, None, NOT_RUN),
        (127, None, NOT_RUN),
        (137, None, NOT_RUN),
        (137, build([FAILED]), FAILING),
    ],
)
def test_what_is_concluded_from_both(exit_code: int, report: Report | None, status: SuiteStatus) -> None:
    said, why = structured(exit_code, EXITS, report)
    assert said is status
    assert bool(why) == (status not in (OK, FAILING))


@pytest.mark.parametrize("exit_code", [0, 1, 5])
def test_a_damaged_report_and_a_runner_that_failed_conclude_nothing(exit_code: int) -> None:
    assert structured(exit_code, EXITS, None, "the report is damaged")[0] is INCONSISTENT
    status, why = structured(exit_code, EXITS, build([PASSED], internal="plugin crashed"))
    assert status is NOT_RUN and "plugin crashed" in why


@pytest.mark.parametrize(
    ("exit_code", "status", "says"),
    [
        (0, OK, ""),
        (1, FAILING, "exit code 1"),
        (127, NOT_RUN, "not found"),
        (126, NOT_RUN, "not executable"),
        (137, NOT_RUN, "signal 9"),
    ],
)
def test_without_a_report_the_exit_code_is_all_there_is(exit_code: int, status: SuiteStatus, says: str) -> None:
    said, why = unstructured(exit_code)
    assert said is status and says in why


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("", "nothing (watch mode?)"),
        ("a\nWatching for changes\n\n", "The last that it printed: Watching for changes"),
        ("test slow::one has been running for over 60 seconds\n", "It stood in slow::one"),
        ("panic: test timed out after 1m0s\nrunning tests:\n\tTestSlow (1m0s)\n", "It stood in TestSlow"),
        (
            "Timeout (0:01:00)!\nThread 0x1 (most recent call first):\n"
            '  File "/usr/lib/python3/threading.py", line 5 in wait\n'
            '  File "/v/lib/a.py", line 3 in take\n  File "/v/tests/test_a.py", line 9 in test_take\n',
            "It stood in tests/test_a.py:9 (test_take), at lib/a.py:3 (take)",
        ),
    ],
)
def test_where_a_run_stood_is_told(printed: str, told: str) -> None:
    finished = Finished(End.HUNG, None, None, printed.encode(), len(printed), 300.0)
    status, detail = of_process(finished, ("/v",)) or ("", "")
    assert (status, told in detail) == (SuiteStatus.TIMED_OUT, True), detail
    stack = (("lib/a.py", 3), ("tests/test_a.py", 9)) if "Thread" in printed else ()
    assert endless(printed, ("/v",)) == stack
    assert endless(f"{printed}.. [50%]\n", ("/v",)) == (), "it went on"
