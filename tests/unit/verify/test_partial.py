"""A suite that does not end in its time is measured in part, and that is told."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent import brief, endings, judge
from agent.index.indexer import Indexer
from agent.index.source import TreeSource
from agent.measure import Measure
from agent.tools.base import Claim
from agent.types import Outcome, SuiteStatus, TestOutcome, TestRun
from agent.verify.baseline import Baseline, Shelf
from agent.verify.flakes import Flakes
from agent.verify.partial import PartialBase, Slices, nearest
from agent.verify.static import Linters
from app.commands import display
from app.report import measured, words
from app.terminal import Terminal
from tests.unit.verify.conftest import MakeBench

STOPPED = TestRun(command=("pytest",), status=SuiteStatus.TIMED_OUT, detail="the tests did not end")


@given(st.lists(st.floats(0.1, 300), min_size=1, max_size=40), st.floats(1, 200), st.randoms())
def test_slices_stay_within_their_time_and_lose_no_file(costs: list[float], seconds: float, random: object) -> None:
    """Each file takes its seconds, and each run two for its start."""
    known = {f"test_{number}.py": cost for number, cost in enumerate(costs)}
    spent: list[float] = []

    def run(files: Sequence[str], limit: float) -> TestRun:
        needs = 2 + sum(known[path] for path in files)
        spent.append(min(needs, limit))
        status = SuiteStatus.OK if needs <= limit else SuiteStatus.TIMED_OUT
        return TestRun(
            command=("t",), status=status, seconds=spent[-1], outcomes=dict.fromkeys(files, TestOutcome.PASSED)
        )

    slices = Slices(run, known, seconds)
    slices.measure([*list(known)[::2], "gone.py"])
    first = slices.files
    slices.measure(list(known))
    assert sum(spent) <= seconds
    assert slices.files[: len(first)] == first, "what is measured is not measured again"
    assert len(slices.files) + slices.left == len(known)
    measured = [test for run in slices.runs for test in run.outcomes]
    assert sorted(measured) == sorted(slices.files)


def test_the_nearest_come_first() -> None:
    reached = ["geometry/tests/test_a.py", "pk/solvers/test_b.py", "pk/util/tests/test_c.py", "z/test_misc.py"]
    assert nearest(reached, ["pk/util/misc.py"]) == [reached[3], reached[2], reached[1], reached[0]]


def test_the_files_that_end_are_compared_and_the_others_counted(bench: MakeBench) -> None:
    files = {f"test_{name}.py": f"def test_{name}():\n    assert {name!r} != 'c'\n" for name in "abcd"}
    files["test_slow.py"] = "import time\n\n\ndef test_slow():\n    time.sleep(600)\n"
    made = bench({**files, "conftest.py": ""}, "pytest", wall_s=20)
    part = PartialBase(made.harness, made.base, STOPPED)
    draft = made.draft({"test_new.py": "def test_new(): pass\n", "test_d.py": None})
    chosen = part.selection(draft, ["test_slow.py", "test_a.py", "test_d.py"])
    assert "test_slow.py" not in chosen and {"test_a.py", "test_new.py"} <= {*chosen} and "test_d.py" not in chosen
    assert part.run is not None and part.run.outcomes["test_a.py::test_a"] is TestOutcome.PASSED
    assert part.run.outcomes.keys() == {f"{path}::{path[:-3]}" for path in part.told.files}
    assert part.told.left == 5 - len(part.told.files) and part.told.short.endswith("of 5 test files")
    assert part.told.why == STOPPED.detail and "part of it" in part.run.detail
    assert made.harness.run(draft, chosen).outcomes.keys() == {f"{path}::{path[:-3]}" for path in chosen}


def test_a_change_that_only_a_part_of_the_tests_speaks_for_is_never_ready(bench: MakeBench) -> None:
    calc = "def add(a, b):\n    return a - b\n"
    test = "from calc import add\n\n\ndef test_{0}():\n    assert add({1}, {0}) == {2}\n"
    files = {f"tests/test_other_{number}.py": "def test_it(): pass\n" for number in range(12)}
    made = bench({**files, "calc.py": calc, "tests/test_near.py": test.format(0, 1, 1), "conftest.py": ""}, "pytest")
    baseline = Baseline(made.harness, made.base, Shelf(made.repository.path.parent))
    baseline.run = STOPPED
    assert baseline.go_by_parts() and "ran out of time" in baseline.run.detail
    assert "part of it" in brief.test_report(baseline.run, "s", baseline=True), "the model is told"
    with Indexer(Path(made.spec.work_dir) / "index") as indexer:
        before = indexer.index(TreeSource(made.base))
        linters = Linters(made.harness, made.base, baseline.said)
        stage = lambda _stage: nullcontext()  # noqa: E731
        measure = Measure(made.harness, linters, indexer, before, baseline, Flakes(made.harness), made.events, stage)
        draft = made.draft({"calc.py": calc.replace("-", "+"), "tests/test_new.py": test.format(2, 1, 3)})
        evidence = measure(draft, None, to_the_end=False)
    assert evidence.partial is not None and evidence.final is not None
    assert "tests/test_near.py" in evidence.partial.files and evidence.partial.left == 13 - len(evidence.partial.files)
    assert {"tests/test_near.py::test_0", "tests/test_new.py::test_2"} <= evidence.final.passed
    assert judge.of_claim(Claim.DONE, evidence, None, draft.edits) == ()
    ending = endings.accepted(Claim.DONE, evidence)
    assert (ending.outcome, len(evidence.turned), evidence.proven) == (Outcome.PROPOSED, 1, False)
    assert "nothing is known of the others" in ending.reason and "GRAFTSMITH_COMMAND_TIMEOUT" in ending.next_step
    assert f"only {evidence.partial.short} were run" in words.verdict(evidence)
    assert f"Only {evidence.partial.short} were run" in measured.tests(evidence)
    terminal = io.StringIO()
    display.evidence(Terminal(file=terminal), evidence)
    assert "not run: all but" in " ".join(terminal.getvalue().split())


def test_a_run_of_all_tests_that_says_nothing_of_them_is_no_part(bench: MakeBench) -> None:
    made = bench({"test_a.py": "def test_a(): pass\n"}, "sh -c 'exit 1'")
    assert PartialBase(made.harness, made.base, STOPPED).run is None, "no test by name"
    whole = Baseline(made.harness, made.base, Shelf(made.repository.path.parent))
    assert not whole.go_by_parts() and whole.partial is None
    assert whole.selection(made.base, lambda: ["test_a.py"]) == ()
