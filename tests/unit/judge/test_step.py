"""When a step counts as done."""

from __future__ import annotations

from typing import Any

from agent import judge
from agent.tree import BaseTree
from agent.types import PlanStep, SuiteStatus, TestOutcome, TestRun
from tests.unit.judge.test_judge import run

STEP = PlanStep(id="1", objective="o", files=("src/calc.py",), new_files=("src/new.py",))
OLD, OWN = "tests/test_calc.py::test_old", "tests/test_calc.py::test_own"


def failing(*tests: str) -> TestRun:
    return run(SuiteStatus.FAILING, outcomes=dict.fromkeys(tests, TestOutcome.FAILED), messages={OWN: "assert 1"})


def judged(base: BaseTree, tests: TestRun | None = None, *named: str, files: Any = None) -> str:
    draft = base.draft()
    for path, content in (files or {"src/new.py": b"a = 1\n"}).items():
        draft = draft.with_file(path, content)
    return "\n".join(judge.of_step(STEP, draft, tests, named, failing(OLD)))


def test_its_files_are_there_and_parse(base: BaseTree) -> None:
    assert judged(base) == ""
    assert "makes src/new.py, and it is not there" in judged(base, files={"src/calc.py": b"a = 1\n"})
    assert "does not parse: line 1" in judged(base, files={"src/new.py": b"a = ("})


def test_its_own_tests_pass(base: BaseTree) -> None:
    assert judged(base, run(), "tests/test_calc.py") == ""
    text = judged(base, failing(OLD, OWN), "tests/test_calc.py")
    assert (OWN in text, OLD in text, "assert 1" in text) == (True, False, True)


def test_what_failed_before_must_pass_when_it_is_named(base: BaseTree) -> None:
    assert judged(base, failing(OLD), "tests/test_calc.py") == ""
    assert OLD in judged(base, failing(OLD), OLD)


def test_tests_that_say_nothing_show_nothing(base: BaseTree) -> None:
    assert "could not be judged: no such file" in judged(base, run(SuiteStatus.NOT_RUN, detail="no such file"), "x")
    assert "1 failed" in judged(base, run(SuiteStatus.FAILING, structured=False, log="1 failed"), "x")
