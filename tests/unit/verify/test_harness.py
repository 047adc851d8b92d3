"""One run of the target's tests: what is believed, and what is not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.types import SuiteStatus, TestOutcome
from agent.verify.compare import compare
from agent.verify.flakes import Flakes
from sandbox import Limits
from sandbox.types import End
from tests.unit.verify.conftest import Bench, MakeBench

CALC = "def add(a, b):\n    return a + b\n"
TEST_CALC = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
ADD = {"calc.py": CALC, "test_calc.py": TEST_CALC}


@pytest.fixture(scope="module")
def added(bench: MakeBench) -> Bench:
    return bench(ADD)


def test_a_passing_suite(added: Bench) -> None:
    made = added
    run = made.harness.run(made.base)
    assert (run.status, run.detail) == (SuiteStatus.OK, ""), run.log
    assert run.outcomes == {"test_calc.py::test_add": TestOutcome.PASSED}
    assert run.command == ("python3", "-m", "pytest")
    assert run.exit_code == 0


def test_a_failing_suite_with_every_outcome(bench: MakeBench) -> None:
    made = bench(
        {
            "tests/sub.dir/test_all.py": """
import pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="later")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
@pytest.fixture
def broken(): raise RuntimeError("no fixture")
def test_error(broken): pass
@pytest.mark.parametrize("x", ["a/b", "c::d", "é [1]", "-rf", "x\\ny", "two  blanks"])
def test_case(x): pass
class TestIn:
    class TestDeep:
        def test_deep(self): pass
class Old(unittest.TestCase):
    def test_old(self): pass
@pytest.fixture
def late():
    yield
    raise RuntimeError("late")
def test_teardown(late): pass
""",
            "tests/test_base.py": "class Base:\n    def test_inherited(self): pass\n",
            "tests/test_heir.py": "from test_base import Base\nclass TestHeir(Base):\n    pass\n",
        }
    )
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.FAILING
    file = "tests/sub.dir/test_all.py"
    expected = {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_error": "error",
        "test_teardown": "error",
        "test_case[a/b]": "passed",
        "test_case[c::d]": "passed",
        "test_case[\\xe9 [1]]": "passed",
        "test_case[-rf]": "passed",
        "test_case[x\\ny]": "passed",
        "test_case[two  blanks]": "passed",
        "TestIn::TestDeep::test_deep": "passed",
        "Old::test_old": "passed",
    }
    assert {test: outcome for test, outcome in run.outcomes.items() if test.startswith(file)} == {
        f"{file}::{name}": outcome for name, outcome in expected.items()
    }
    assert run.outcomes["tests/test_heir.py::TestHeir::test_inherited"] is TestOutcome.PASSED
    assert "one is not two" in run.messages[f"{file}::test_fails"]
    assert run.messages.keys() == run.failed
    again = made.harness.run(made.base, sorted(run.outcomes), "again")
    assert again.outcomes == run.outcomes
    some = (f"{file}::test_case[-rf]", f"{file}::TestIn::TestDeep::test_deep")
    assert made.harness.run(made.base, some).outcomes.keys() == set(some)


@pytest.mark.parametrize(
    ("files", "command", "status", "says"),
    [
        ({"mod.py": "x = 1\n"}, "pytest", SuiteStatus.NO_TESTS, "no tests ran"),
        (ADD, "pytest missing", SuiteStatus.NOT_RUN, "exit code 4"),
        (
            {**ADD, "conftest.py": "import missing_module\n"},
            "pytest",
            SuiteStatus.NOT_RUN,
            "exit code 4",
        ),
        ({"test_bad.py": "import missing_module\n"}, "pytest", SuiteStatus.NOT_RUN, "could not be loaded"),
        (ADD, "pytest -m slow", SuiteStatus.NO_TESTS, "no tests ran"),
        (ADD, "pytest --no-such-option", SuiteStatus.NOT_RUN, "exit code 4"),
        (ADD, "no-such-program", SuiteStatus.NOT_RUN, "not found"),
        (ADD, "pytest | cat", SuiteStatus.OK, ""),
    ],
)
def test_no_tests_and_could_not_run_are_neither_passed_nor_failed(
    bench: MakeBench, files: dict[str, str], command: str, status: SuiteStatus, says: str
) -> None:
    made = bench(files, command)
    run = made.harness.run(made.base)
    assert run.status is status
    assert says in run.detail
    assert run.passed == ({"test_calc.py::test_add"} if status is SuiteStatus.OK else set())


def test_a_name_that_stops_the_runner_is_named(bench: MakeBench) -> None:
    """pytest's writer of reports fails for a name that is no UTF-8."""
    made = bench({"test_caf\udce9.py": "def test_a(): pass\n", **ADD})
    run = made.harness.run(made.base)
    assert run.status is not SuiteStatus.OK
    assert "The name of test_caf\ufffd.py is no UTF-8" in run.detail, run.detail
    assert run.model_dump_json()


def test_a_change_may_bring_the_first_tests_of_a_project(bench: MakeBench) -> None:
    files = {"calc.py": ADD["calc.py"]}
    made = bench(files)
    before, after = (made.harness.run(made.draft(more)) for more in ({}, {"test_calc.py": ADD["test_calc.py"]}))
    assert (before.status, after.status) == (SuiteStatus.NO_TESTS, SuiteStatus.OK)
    assert after.passed == {"test_calc.py::test_add"}


def test_where_nothing_could_run_first_tests_a_project_without_any_is_no_failed_set_up(bench: MakeBench) -> None:
    made = bench({"calc.py": "", "Gemfile": ""}, setup=("echo no way >&2; exit 3",), local=False)
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.NO_TESTS
    assert "nothing could run new ones" in run.detail and "no way" in run.detail


def test_nor_is_a_project_without_tests_whose_runner_fails(bench: MakeBench, tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text('#!/bin/sh\n[ "$1" != test ] || { echo does not compile; exit 1; }\n')
    for path in (go, go.parent, tmp_path):
        path.chmod(0o755)
    made = bench({"go.mod": "module p\n"}, path=f"{go.parent}:/usr/bin:/bin")
    for draft in (made.base, made.draft({"p.go": "package p\n"})):
        run = made.harness.run(draft)
        assert (run.status, "nothing could run new ones" in run.detail) == (SuiteStatus.NO_TESTS, True)


GO = 'package {0}\n\nimport "testing"\n\nfunc Test{1}(t *testing.T) {{}}\n'


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed here")
@pytest.mark.parametrize("root", ["", "go.mod"])
def test_the_modules_of_a_go_workspace(bench: MakeBench, root: str) -> None:
    use = "use (\n\t.\n\t./b\n)\n" if root else "use ./b\n"
    files = {"go.work": f"go 1.19\n\n{use}", "b/go.mod": "module ex/b\n", "b/b_test.go": GO.format("b", "B")}
    made = bench({**files, **({root: "module ex/a\n", "a_test.go": GO.format("a", "A")} if root else {})})
    assert made.harness.run(made.base).passed == {"ex/b::TestB", *(["ex/a::TestA"] if root else [])}
    assert made.harness.run(made.base, ("b/b_test.go",)).passed == {"ex/b::TestB"}


def test_one_file_that_does_not_load_hides_no_other(bench: MakeBench) -> None:
    made = bench({**ADD, "test_bad.py": "import missing_module\n"})
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.FAILING
    assert run.outcomes == {"test_calc.py::test_add": TestOutcome.PASSED, "test_bad.py": TestOutcome.ERROR}
    assert "missing_module" in run.messages["test_bad.py"]


PLACE = "/report/pytest-0.xml"
SUITE = "<testsuites><testsuite name='pytest'>{}</testsuite></testsuites>"
FORGED = SUITE.format("<testcase classname='test_calc' name='test_add' file='test_calc.py'/>")
MADE_UP = SUITE.format("<testcase classname='made.up' name='test_x' file='made/up.py'/>")
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuites>&b;</testsuites>'
IMPORTS = "import atexit, os, pathlib, signal\n"


def written(report: str, then: str = "os._exit(0)") -> str:
    return f"pathlib.Path('{PLACE}').write_text({report!r})\n{then}\n"


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("os._exit(0)\n", SuiteStatus.INCONSISTENT, "no report"),
        ("os.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)\n", SuiteStatus.NOT_RUN, "signal 9"),
        (
            f"atexit.register(lambda: (pathlib.Path('{PLACE}').write_text({FORGED!r}), os._exit(1)))\nassert False\n",
            SuiteStatus.INCONSISTENT,
            "no failure",
        ),
        (written(FORGED, f"os.utime('{PLACE}', (1, 1))\nos._exit(0)"), SuiteStatus.INCONSISTENT, "older"),
        (written(BOMB), SuiteStatus.INCONSISTENT, "entities"),
        (
            written("<testsuites>", f"os.truncate('{PLACE}', 70 * 2**20)\nos._exit(0)"),
            SuiteStatus.INCONSISTENT,
            "larger",
        ),
        (f"os.symlink('/etc/passwd', '{PLACE}')\nos._exit(0)\n", SuiteStatus.INCONSISTENT, "no report"),
        (written("{}"), SuiteStatus.INCONSISTENT, "well-formed"),
        (written(MADE_UP), SuiteStatus.INCONSISTENT, "no file explains"),
    ],
    ids=["leaves", "kills", "forges", "old", "bomb", "huge", "link", "damaged", "unknown"],
)
def test_a_report_that_contradicts_the_process_is_not_believed(
    added: Bench, code: str, status: SuiteStatus, says: str
) -> None:
    made = added
    indented = "".join(f"    {line}\n" for line in code.splitlines())
    draft = made.draft({"test_calc.py": f"{IMPORTS}def test_add():\n{indented}"})
    run = made.harness.run(draft, fresh=True)
    assert (run.status, says in run.detail) == (status, True), run.detail
    assert run.status is not SuiteStatus.OK


def test_output_is_clean_text_and_the_raw_bytes_are_kept(bench: MakeBench) -> None:
    made = bench(
        {
            "test_noise.py": (
                "import os\n"
                "def test_noise():\n"
                "    os.write(1, b'ok \\xff\\xfe\\x80\\n' + b'a' * 65535 + '\\u00e9'.encode() + b'\\n\\0"
                "\\x1b[31mFAILED\\x1b[0m \\x1b]8;;https://example.invalid\\x1b\\\\link\\x1b]8;;\\x1b\\\\\\n1%\\r2%\\r100%\\n')\n"
                "    assert False, '\\x1b[31mred\\0'\n"
            )
        },
        "pytest -s",
    )
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.FAILING
    for text in (run.log, *run.messages.values()):
        assert not {"\x1b", "\0", "\r"} & set(text)
    assert "FAILED link" in run.log
    assert "\n100%\n" in run.log
    raw = Path(run.log_file).read_bytes()
    assert b"ok \xff\xfe\x80\n" in raw
    assert "é".encode() in raw
    assert b"\x1b[31mFAILED" in raw


def test_a_runner_that_waits_for_a_terminal_does_not_hang(bench: MakeBench) -> None:
    code = (
        "import os, sys, time\n"
        "while sys.stdin.isatty() or os.environ.get('CI') != 'true': time.sleep(1)\n"
        "assert sys.stdin.read() == ''\nprint('3 passed')\n"
    )
    made = bench({"w.py": code}, "python3 w.py")
    run = made.harness.run(made.base)
    assert (run.status, run.structured, run.log) == (SuiteStatus.OK, False, "3 passed\n")


def test_a_runner_that_never_ends_is_named(bench: MakeBench) -> None:
    made = bench(ADD, "sleep 60", wall_s=0.5)
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.TIMED_OUT
    assert "watch mode?" in run.detail


def test_a_stale_bytecode_never_runs(added: Bench) -> None:
    made = added
    assert made.harness.run(made.base).status is SuiteStatus.OK
    broken = made.harness.run(made.draft({"calc.py": CALC.replace("+", "-")}))
    assert broken.failed == {"test_calc.py::test_add"}
    assert made.harness.run(made.base).status is SuiteStatus.OK


def test_tests_that_flip_when_run_alone_are_flaky(bench: MakeBench) -> None:
    made = bench(
        {
            "test_order.py": "import os\n\ndef test_a():\n    os.environ['A'] = '1'\n\n"
            "def test_b():\n    assert True\n\ndef test_c():\n    assert True\n"
        }
    )
    before = made.harness.run(made.base)
    draft = made.draft(
        {
            "test_order.py": "import os\n\ndef test_a():\n    os.environ['A'] = '1'\n\n"
            "def test_b():\n    assert 'A' not in os.environ\n\ndef test_c():\n    assert False\n"
        }
    )
    after = made.harness.run(draft)
    assert after.failed == {"test_order.py::test_b", "test_order.py::test_c"}
    flaky = Flakes(made.harness).among(draft, before, after)
    comparison = compare(before, after, flaky)
    assert comparison.flaky == ("test_order.py::test_b",)
    assert comparison.regressed == ("test_order.py::test_c",)


def test_what_fails_by_now_without_the_change_too_is_flaky(bench: MakeBench) -> None:
    """A test that has an hour, so to say, and one that the change breaks in a way of its own."""
    late = "import pathlib, sys\n\ndef test_{0}():\n    assert {1}, {2}\n"
    files = {
        "test_a.py": "import sys\nsys.early = True\n\ndef test_early(): pass\n",
        "test_late.py": late.format("late", "hasattr(sys, 'early')", "f'too late: {id(sys)}'"),
        "test_other.py": late.format("other", "hasattr(sys, 'early')", "pathlib.Path('why.txt').read_text()"),
        "why.txt": "alone",
    }
    made = bench(files)
    before = made.harness.run(made.base)
    draft = made.draft({"test_a.py": "def test_early(): pass\n", "why.txt": "broken"})
    after = made.harness.run(draft)
    assert after.failed == {"test_late.py::test_late", "test_other.py::test_other"}
    flakes = Flakes(made.harness)
    for _ in range(2):
        assert flakes.among(draft, before, after) == ("test_late.py::test_late",)
    asked = [event["selection"] for event in made.events.events if event.get("name") == "again"]
    assert asked.count(("test_late.py::test_late", "test_other.py::test_other")) == 1, "the base says it once"


def test_a_test_that_hangs_is_named_and_not_waited_for(bench: MakeBench) -> None:
    hangs = "import threading\n\ndef wait():\n    threading.Event().wait()\n\ndef test_b():\n    wait()\n"
    soon = "[pytest]\nfaulthandler_timeout = 1\n"
    made = bench({"pytest.ini": soon, "test_a.py": "def test_a(): pass\n", "test_b.py": hangs}, wall_s=600.0)
    made.harness.limits = replace(made.harness.limits, quiet_s=2.0)
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.TIMED_OUT
    assert "hung" in run.detail and "It stood in test_b.py:7 (test_b), at test_b.py:4 (wait)" in run.detail, run.detail


def test_a_selection_is_never_an_option(added: Bench) -> None:
    made = added
    run = made.harness.run(made.base, ("--collect-only",))
    assert (run.status, "no test id" in run.detail) == (SuiteStatus.NOT_RUN, True)
    assert made.harness.run(made.base, ("test_calc.py::nothing",)).status is SuiteStatus.NOT_RUN


def test_a_command_aside_works_on_a_copy(bench: MakeBench) -> None:
    target = bench({"a.py": "a = 1\n", "b.py": "b = 1\n", "test_a.py": "def test_a(): pass\n"})
    draft = target.draft({"a.py": "a = 2\n"})
    line = "cat a.py; echo 'a = 3' > a.py; rm b.py; touch new.py; exit 3"
    for _ in range(2):
        done = target.harness.aside(draft, line, Limits(wall_s=20.0))
        assert (done.finished.exit_code, done.finished.output) == (3, b"a = 2\n"), "each time on the draft as it is"
        assert done.altered == ("a.py", "b.py")
    assert target.harness.aside(draft, "touch -c a.py; ls", Limits(wall_s=20.0)).altered == ()
    assert target.harness.run(draft).status is SuiteStatus.OK


def test_a_command_aside_is_stopped_in_time_and_has_no_network(bench: MakeBench) -> None:
    target = bench({"test_a.py": "def test_a(): pass\n"})
    slow = target.harness.aside(target.base, "echo begun; sleep 60", Limits(wall_s=1.0)).finished
    assert (slow.end, slow.output) == (End.TIMED_OUT, b"begun\n")
    probe = "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 2)\" 2>&1 | tail -1"
    assert b"unreachable" in target.harness.aside(target.base, probe, Limits(wall_s=20.0)).finished.output
