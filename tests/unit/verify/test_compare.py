"""Test ids before against after."""

from __future__ import annotations

import pytest

from agent.types import SuiteStatus, TestOutcome, TestRun
from agent.verify import integrity
from agent.verify.compare import compare, wandering, without_wandering
from tests.unit.verify.conftest import MakeBench

PASSED, FAILED, ERROR, SKIPPED = TestOutcome.PASSED, TestOutcome.FAILED, TestOutcome.ERROR, TestOutcome.SKIPPED
XFAILED = TestOutcome.XFAILED


def run(**outcomes: TestOutcome) -> TestRun:
    named = {name.replace("__", "::").replace("_py", ".py"): outcome for name, outcome in outcomes.items()}
    return TestRun(command=("t",), status=SuiteStatus.FAILING, outcomes=named)


def test_every_way_from_before_to_after() -> None:
    before = run(a=PASSED, b=PASSED, c=PASSED, d=FAILED, e=FAILED, f=FAILED, g=SKIPPED, h=SKIPPED, k=PASSED, l=XFAILED)
    after = run(
        a=PASSED, b=FAILED, c=SKIPPED, d=PASSED, e=ERROR, g=PASSED, h=FAILED, i=PASSED, j=FAILED, k=XFAILED, l=PASSED
    )
    found = compare(before, after)
    assert found.regressed == ("b",)
    assert found.lost == ("c", "f", "k")
    assert found.fixed == ("d",)
    assert found.still_failing == ("e",)
    assert found.added == ("g", "i")
    assert found.added_failing == ("h", "j")
    assert not found.clean


def test_a_flake_is_no_regression() -> None:
    found = compare(run(a=PASSED, b=PASSED), run(a=FAILED, b=PASSED), flaky=["a", "unknown"])
    assert (found.flaky, found.regressed, found.lost, found.clean) == (("a",), (), (), True)


def test_a_file_that_loads_again_is_repaired_and_not_lost() -> None:
    found = compare(run(x_py=ERROR), run(x_py__a=PASSED, x_py__b=FAILED))
    assert (found.fixed, found.lost, found.added, found.added_failing) == (("x.py",), (), ("x.py::a",), ("x.py::b",))


def test_a_file_that_loads_no_more_loses_its_tests() -> None:
    found = compare(run(x_py__a=PASSED), run(x_py=ERROR))
    assert (found.lost, found.added_failing) == (("x.py::a",), ("x.py",))


def ids(*names: str, **outcomes: TestOutcome) -> TestRun:
    return TestRun(command=("t",), status=SuiteStatus.OK, outcomes={**dict.fromkeys(names, PASSED), **outcomes})


def test_ids_that_are_other_ones_in_every_run_are_not_lost() -> None:
    before = ids("a.py::t[0x1]", "a.py::t[0x2]", "a.py::u[1]", "a.py::v")
    again = ids("a.py::t[0x3]", "a.py::t[0x4]", "a.py::u[1]", "a.py::v")
    after = ids("a.py::t[0x5]", "a.py::t[0x6]", "a.py::new")
    found = compare(before, after)
    strays = wandering(found.lost, before, again, after)
    assert strays == {"a.py::t[0x1]", "a.py::t[0x2]"}
    settled = without_wandering(found, strays)
    assert settled.lost == ("a.py::u[1]", "a.py::v"), "ids that the base reports again are lost"
    assert settled.added == ("a.py::new",), "and what only has another name is not new"


def test_a_wandering_test_that_runs_less_often_is_lost() -> None:
    before, again = ids("a.py::t[0x1]", "a.py::t[0x2]"), ids("a.py::t[0x3]", "a.py::t[0x4]")
    after = ids("a.py::t[0x5]")
    assert not wandering(compare(before, after).lost, before, again, after)


@pytest.mark.parametrize(
    ("weakened", "kind"),
    [
        (None, "test_deleted"),
        ("import pytest\n\n@pytest.mark.skip\ndef test_add():\n    assert 1 + 1 == 3\n", "test_skipped"),
        ("def test_add():\n    pass\n", "test_emptied"),
        ("def check_add():\n    assert 1 + 1 == 3\n", "test_renamed"),
    ],
)
def test_a_failing_test_that_is_weakened_is_never_plain_success(
    bench: MakeBench, weakened: str | None, kind: str
) -> None:
    made = bench({"test_a.py": "def test_add():\n    assert 1 + 1 == 3\n", "test_b.py": "def test_b():\n    pass\n"})
    before = made.harness.run(made.base)
    draft = made.draft({"test_a.py": weakened})
    after = made.harness.run(draft)
    assert after.status is SuiteStatus.OK
    findings = integrity.check(made.workspace.base, draft, None)
    assert [finding.kind for finding in findings] == [kind]
    found = compare(before, after)
    if kind == "test_emptied":
        assert found.fixed == ("test_a.py::test_add",)
    else:
        assert found.lost == ("test_a.py::test_add",)
        assert not found.clean
