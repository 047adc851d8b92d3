"""Red on the base, green on the head, each measured apart from the work."""

from __future__ import annotations

import pytest

from agent.types import Proof, SuiteStatus, TestOutcome, TestRun
from agent.verify.compare import compare
from agent.verify.proof import SINGLE_LIMIT, prove, told_apart, units, with_only_tests
from tests.unit.verify.conftest import MakeBench

FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n",
}
MORE = """
import pytest

@pytest.mark.parametrize("b", [1, 2])
def test_more(b):
    assert add(1, b) == 1 + b
"""
LENIENT = """
import sys

brand_new = int
for name, module in list(sys.modules.items()):
    if name == "_pytest.runner":
        original = module.call_and_report

        def lenient(item, when, log=True, **kw):
            item.obj = (lambda *a, **k: None) if when == "call" else item.obj
            return original(item, when, log, **kw)

        module.call_and_report = lenient
"""
FIXED = "def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return add(a, a)\n"


def test_new_tests_go_from_red_to_green(bench: MakeBench) -> None:
    made = bench(FILES)
    draft = made.draft(
        {
            "calc.py": FIXED,
            "test_calc.py": FILES["test_calc.py"] + MORE,
            "test_twice.py": "from calc import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n",
            "test_idle.py": "def test_idle():\n    assert len('ab') == 2\n",
        }
    )
    before, after = made.harness.run(made.base), made.harness.run(draft)
    comparison = compare(before, after)
    assert comparison.clean
    assert comparison.added == (
        "test_calc.py::test_more[1]",
        "test_calc.py::test_more[2]",
        "test_idle.py::test_idle",
        "test_twice.py::test_twice",
    )
    proofs = {proof.test: proof for proof in prove(made.harness, draft, before, after)}
    assert {test: (proof.on_base, proof.on_head, proof.holds) for test, proof in proofs.items()} == {
        "test_calc.py::test_more[1]": ("failed", "passed", True),
        "test_calc.py::test_more[2]": ("failed", "passed", True),
        "test_idle.py::test_idle": ("passed", "passed", False),
        "test_twice.py::test_twice": ("error", "passed", True),
    }
    assert "twice" in proofs["test_twice.py::test_twice"].base_message
    assert "assert" in proofs["test_calc.py::test_more[1]"].base_message
    proof = proofs["test_calc.py::test_more[1]"]
    assert (
        proof.command == ("sh", "-c", "python3 -m pytest 'test_calc.py::test_more[1]'")
        or proof.command[-1] == proof.test
    )
    assert proof.base_digest == with_only_tests(draft).tree_id() != made.base.tree_id()
    assert proof.head_digest == draft.tree_id()


def test_what_one_command_runs_is_run_once() -> None:
    def command(test: str) -> tuple[str, ...]:
        return ("run", test.partition("/")[0])  # as Go does: the parts of a test come with the whole

    few = ["p::TestA", "p::TestA/one", "p::TestB/one", "q::TestA[1]", "q::TestA[2]"]
    assert list(units(few, command)) == [tuple(few[:2]), (few[2],), tuple(few[3:])]
    many = [f"p::Test{number}" for number in range(SINGLE_LIMIT)]
    assert list(units([*many, "q::Test"], command)) == [tuple(many), ("q::Test",)]


def test_a_test_file_that_fails_to_load_for_another_reason_proves_nothing(bench: MakeBench) -> None:
    made = bench(FILES)
    draft = made.draft(
        {
            "calc.py": FIXED,
            "flag.txt": "on",
            "test_flag.py": "import pathlib\n\nif not pathlib.Path('flag.txt').exists():\n"
            "    import some_package\n\n\ndef test_flag():\n    assert True\n",
        }
    )
    before, after = made.harness.run(made.base), made.harness.run(draft)
    proofs = {proof.test: proof for proof in prove(made.harness, draft, before, after)}
    proof = proofs["test_flag.py::test_flag"]
    assert (proof.on_base, proof.on_head, proof.holds) == ("not_run", "passed", False)
    assert "some_package" in proof.base_message


def test_a_repaired_test_is_proven_too(bench: MakeBench) -> None:
    made = bench({**FILES, "test_calc.py": "from calc import add\n\n\ndef test_one():\n    assert add(1, 1) == 2\n"})
    draft = made.draft({"calc.py": FIXED})
    before, after = made.harness.run(made.base), made.harness.run(draft)
    assert compare(before, after).fixed == ("test_calc.py::test_one",)
    (proof,) = prove(made.harness, draft, before, after)
    assert (proof.on_base, proof.on_head) == (TestOutcome.FAILED, TestOutcome.PASSED)


def test_a_runner_that_turns_failures_into_passes_is_caught(bench: MakeBench) -> None:
    """The whole suite looks green, and the report agrees with the exit code; only the canary knows better."""
    made = bench({**FILES, "test_calc.py": "from calc import add\n\n\ndef test_one():\n    assert add(1, 1) == 2\n"})
    draft = made.draft(
        {
            "calc.py": FILES["calc.py"] + LENIENT,
            "test_new.py": "from calc import brand_new\n\n\ndef test_new():\n    assert brand_new() == 5\n",
        }
    )
    before, after = made.harness.run(made.base), made.harness.run(draft)
    assert (before.status, after.status) == (SuiteStatus.FAILING, SuiteStatus.OK)
    proofs = prove(made.harness, draft, before, after)
    assert [(proof.on_base, proof.on_head) for proof in proofs] == [("failed", "not_run"), ("error", "not_run")]
    assert all("must fail" in proof.head_message for proof in proofs)


CASE = """import unittest

import calc


class T(unittest.TestCase):
    def test_{0}(self):
        self.assertEqual({1})
"""
FORGIVING = (
    "\n\nimport unittest\nunittest.TextTestResult.addFailure = lambda self, test, error: self.addSuccess(test)\n"
    "unittest.TextTestResult.addError = unittest.TextTestResult.addFailure\n"
)


@pytest.mark.parametrize("line", ["python3 -m unittest", "python3 -m unittest discover -s tests"])
@pytest.mark.parametrize(("source", "on_head"), [(FIXED, "passed"), (FILES["calc.py"] + FORGIVING, "not_run")])
def test_proofs_by_unittest(bench: MakeBench, line: str, source: str, on_head: str) -> None:
    """Its words are printed by the process under test; a canary beside the test tells who prints them."""
    files = {"calc.py": FILES["calc.py"], "tests/__init__.py": "", "tests/test_one.py": CASE.format("one", "1, 1")}
    made = bench(files, line)
    draft = made.draft({"calc.py": source, "tests/test_sum.py": CASE.format("sum", "calc.add(1, 1), 2")})
    before, after = made.harness.run(made.base), made.harness.run(draft)
    (proof,) = prove(made.harness, draft, before, after)
    assert (proof.on_base, proof.on_head) == ("failed", on_head), proof


def test_unittest_names_a_module_that_does_not_load_by_its_last_part(bench: MakeBench) -> None:
    made = bench(
        {"calc.py": FILES["calc.py"], "tests/__init__.py": "", "tests/test_a.py": CASE.format("a", "1, 1")},
        "python3 -m unittest",
    )
    new = CASE.format("new", "brand_new(), 5").replace("import calc", "from calc import brand_new")
    draft = made.draft({"calc.py": FILES["calc.py"] + "\n\ndef brand_new():\n    return 5\n", "tests/test_new.py": new})
    (proof,) = prove(made.harness, draft, made.harness.run(made.base), made.harness.run(draft))
    assert (proof.test, proof.holds) == ("tests.test_new.T.test_new", True), proof
    assert "stops at brand_new, which the change brings" in proof.base_message


def test_parts_behind_one_that_breaks_a_test_off_are_proven_by_it() -> None:
    def proof(test: str, on_base: str) -> Proof:
        return Proof(test=test, on_base=on_base, on_head="passed", command=(), base_digest="b", head_digest="h")  # type: ignore[arg-type]

    whole, red, cut = proof("p::TestA", "failed"), proof("p::TestA/1", "failed"), proof("p::TestA/2/x", "missing")
    odd = proof("p::TestB/2", "missing")
    before = TestRun(command=("go",), status=SuiteStatus.OK)
    assert told_apart([whole, red, cut, odd], before) == ((whole, red, odd), ())
