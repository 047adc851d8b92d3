"""Reports of runners that are not installed everywhere, as those write them."""

from __future__ import annotations

import json

import pytest

from agent.types import Commands, SuiteStatus, TestOutcome, TestRun
from agent.verify import junit
from agent.verify.report import Report, Unreadable
from agent.verify.toolchains import TOOLCHAINS, detect
from agent.verify.toolchains.base import Collected
from agent.verify.toolchains.python_pytest import Naming
from tests.support.snapshot import Snapshot
from tests.unit.verify.conftest import MakeBench


def read(toolchain: str, output: str = "", files: tuple[str, ...] = (), **reports: str) -> Report:
    named = {name.replace("_", "-").replace("--", "."): text.encode() for name, text in reports.items()}
    tree = Snapshot(dict.fromkeys(files, b""))
    found = TOOLCHAINS[toolchain].read(Collected(named, output.encode(), ("/v",)), tree)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (("go.mod", "a_test.go"), "go test ./..."),
        (("Cargo.toml", "src/lib.rs"), "cargo test --workspace"),
        (("pom.xml", "src/test/java/ATest.java"), "mvn -B test"),
        (("build.gradle", "gradlew", "src/test/java/ATest.java"), "./gradlew test --continue"),
        (("phpunit.xml.dist",), "phpunit"),
        (("tests/ATest.php", "src/A.php"), "phpunit tests"),
        (("Gemfile", "spec/a_spec.rb"), "bundle exec rspec"),
        (("bin/rails", "test/a_test.rb"), "bin/rails test"),
        (
            ("test/a_test.rb",),
            "ruby -Ilib -Itest -e 'Dir[\"./test/**/{*_test,test_*}.rb\"].sort.each { |file| require file }'",
        ),
    ],
)
def test_detection(files: tuple[str, ...], line: str) -> None:
    tree = Snapshot(dict.fromkeys(files, b""))
    plan = detect(tree, Commands())
    assert (plan.line, plan.absent) == (line, "")
    assert detect(tree, Commands(test=line)).toolchain == plan.toolchain
    call = TOOLCHAINS[plan.toolchain].invoke(plan, tree, (), "/v")
    assert call.argv[:2] == ("/bin/sh", "-c")


def test_a_folder_whose_name_is_a_command_is_not_made_part_of_one() -> None:
    tree = Snapshot(dict.fromkeys(("te'; touch harm; 'st/a_test.rb",), b""))
    plan = detect(tree, Commands())
    assert (plan.line, plan.absent != "") == ("", True)


CARGO = """\
   Compiling demo v0.1.0 (/v)
     Running unittests src/lib.rs (target/debug/deps/demo-8348ca7a80742723)

running 3 tests
test tests::ig ... ignored, later
test tests::pan - should panic ... ok
test tests::bad ... FAILED

failures:

---- tests::bad stdout ----

assertion `left == right` failed: no

failures:
    tests::bad

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.15s

     Running tests/it.rs (target/debug/deps/it-a69063779ff8c574)

running 1 test
test integ ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests demo

running 1 test
test src/lib.rs - add (line 1) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def test_cargo() -> None:
    found = read("rust", CARGO, ("src/lib.rs",))
    assert found.outcomes == {
        "src/lib.rs::tests::ig": "skipped",
        "src/lib.rs::tests::pan": "passed",
        "src/lib.rs::tests::bad": "failed",
        "it:tests/it.rs::integ": "passed",
        "doc:demo::src/lib.rs - add (line 1)": "passed",
    }
    assert "left == right" in found.messages["src/lib.rs::tests::bad"]
    for forged in (
        CARGO.replace("test integ ... ok", "test integ ... ok\ntest made_up ... ok"),
        CARGO.split("\ntest result")[0],
    ):
        with pytest.raises(Unreadable):
            read("rust", forged, ("src/lib.rs",))
    broken = "error[E0425]: cannot find function `twice` in crate `demo`\n --> tests/it.rs:1:25\n"
    found = read("rust", broken)
    assert (found.uncollected, found.messages["tests/it.rs"]) == (
        {"tests/it.rs"},
        "cannot find function `twice` in crate `demo`",
    )


def test_go() -> None:
    events = [
        {"Action": "run", "Package": "ex/calc", "Test": "TestA"},
        {"Action": "output", "Package": "ex/calc", "Test": "TestA/x", "Output": "    a_test.go:5: no\n"},
        {"Action": "fail", "Package": "ex/calc", "Test": "TestA/x"},
        {"Action": "fail", "Package": "ex/calc", "Test": "TestA"},
        {"Action": "pass", "Package": "ex/calc", "Test": "TestB"},
        {"Action": "skip", "Package": "ex/calc", "Test": "TestC"},
        {"Action": "fail", "Package": "ex/calc"},
        {"Action": "output", "Package": "ex/bad", "Output": "FAIL\tex/bad [build failed]\n"},
        {"Action": "fail", "Package": "ex/bad"},
        {"Action": "pass", "Package": "ex/none"},
    ]
    output = "# ex/bad [ex/bad.test]\n./b_test.go:4:2: undefined: Twice\n"
    found = read("go", output, go_0__json="\n".join(map(json.dumps, events)))
    assert found.outcomes == {
        "ex/calc::TestA/x": "failed",
        "ex/calc::TestA": "failed",
        "ex/calc::TestB": "passed",
        "ex/calc::TestC": "skipped",
        "ex/bad": "error",
    }
    assert found.uncollected == {"ex/bad"}
    assert "undefined: Twice" in found.messages["ex/bad"]
    with pytest.raises(Unreadable):
        read("go", go_0__json="no json")
    plan = detect(Snapshot({"go.mod": b"", "a_test.go": b""}), Commands())
    call = TOOLCHAINS["go"].invoke(plan, Snapshot({}), ("ex/calc::TestA/x", "ex/calc::TestB"), "/v")
    assert call.argv[3:] == ("sh", "-run", "^(TestA|TestB)$", "ex/calc")
    assert call.argv[2].partition("\n")[2].startswith("go test -json -count=1")


def test_a_selected_file_of_go_is_its_tests_in_its_package() -> None:
    tree = Snapshot(
        {
            "go.mod": b"",
            "in/a_test.go": b"package in\n\nfunc TestA(t *testing.T) {}\nfunc helper() {}\nfunc ExampleB() {}\n",
            "main_test.go": b"package main\n\nfunc TestMain(m *testing.M) {}\n",
            "shared_test.go": b"package main\n",
        }
    )

    def selected(*selection: str) -> tuple[str, ...]:
        return TOOLCHAINS["go"].invoke(detect(tree, Commands()), tree, selection, "/v").argv[4:]

    assert selected("in/a_test.go") == ("-run", "^(TestA|ExampleB)$", "./in")
    assert selected("in/a_test.go", "ex::TestC") == ("-run", "^(TestA|ExampleB|TestC)$", "./in", "ex")
    assert selected("in/a_test.go", "shared_test.go") == ("./in", "."), "all of a package that only helps others"


def test_surefire_phpunit_and_rspec() -> None:
    xml = (
        '<testsuite name="ATest"><testcase classname="ex.ATest" name="adds"/>'
        '<testcase classname="ex.ATest" name="fails"><failure message="no">trace</failure></testcase></testsuite>'
    )
    assert read("java", java_1__xml=xml, java_2__xml=xml).outcomes == {
        "ex.ATest::adds": "passed",
        "ex.ATest::fails": "failed",
    }
    xml = (
        '<testsuites><testsuite name="ATest" file="/v/tests/ATest.php"><testcase name="testA" class="ATest"/>'
        '<testcase name="testB with data set #1"><skipped/></testcase></testsuite></testsuites>'
    )
    found = read("php", phpunit_0__xml=xml, files=("tests/ATest.php",))
    assert found.outcomes == {"tests/ATest.php::testA": "passed", "tests/ATest.php::testB with data set #1": "skipped"}
    assert not found.unexplained
    example = {"file_path": "./spec/a_spec.rb", "full_description": "A adds", "status": "failed"}
    content = {"examples": [{**example, "exception": {"class": "E", "message": "no"}}], "summary": {}}
    assert read("ruby", rspec_0__json=json.dumps(content)).outcomes == {"spec/a_spec.rb::A adds": "failed"}
    with pytest.raises(Unreadable):
        read("ruby", rspec_0__json="[]")
    with pytest.raises(Unreadable):
        endless = {**content, "summary": {"errors_outside_of_examples_count": float("inf")}}
        read("ruby", rspec_0__json=json.dumps(endless))


@pytest.mark.parametrize(
    ("files", "toolchain", "line"),
    [
        (
            {"phpunit.xml": "", "composer.json": '{"require-dev": {"phpunit/phpunit": "^9"}}'},
            "php",
            "vendor/bin/phpunit",
        ),
        ({"Pest.php": "", "composer.json": '{"require-dev": {"pestphp/pest": "^2"}}'}, "php", "vendor/bin/pest"),
        ({"CMakeLists.txt": "project(a)\nadd_subdirectory(t)\n", "t/CMakeLists.txt": "add_test(a b)"}, "ctest", ""),
        ({"package.json": '{"scripts": {"test": "bun test --coverage"}}'}, "deno-bun", "bun test --coverage"),
        ({"deno.jsonc": "{ // ours\n}", "a_test.ts": ""}, "deno-bun", "deno test -A"),
        ({"deno.json": '{"tasks": {"test": "deno test -R src"}}', "a_test.ts": ""}, "deno-bun", "deno test -R src"),
        ({"a.test.ts": 'import { test } from "bun:test";'}, "deno-bun", "bun test"),
    ],
)
def test_detection_by_what_files_hold(files: dict[str, str], toolchain: str, line: str) -> None:
    tree = Snapshot({path: content.encode() for path, content in files.items()})
    plan = detect(tree, Commands())
    assert plan.toolchain == toolchain
    assert plan.line == (line or "cmake -S . -B build && cmake --build build && ctest --test-dir build")
    assert detect(tree, Commands(test=plan.line)).toolchain == toolchain


def selected(files: tuple[str, ...], *selection: str, test: str = "") -> tuple[str, ...]:
    tree = Snapshot(dict.fromkeys(files, b""))
    plan = detect(tree, Commands(test=test))
    return TOOLCHAINS[plan.toolchain].invoke(plan, tree, selection, "/v").argv[4:]


def test_what_a_selection_becomes() -> None:
    files = ("pom.xml", "core/src/test/java/ex/ATest.java", "core/src/test/java/ex/Helper.java")
    assert selected(files, files[1], "ex.BTest::adds") == ("-Dtest=ex.ATest,ex.BTest",)
    assert selected(files, files[1], files[2]) == (), "a helper has no tests of its own, and others may need it"
    assert selected(("build.gradle", "ATest.kt"), "ATest.kt") == ("--tests", "ATest")
    cmake = "cd b && ctest"
    assert selected((), "Suite.adds (1)", "b", test=cmake) == ("-R", r"^(Suite\.adds \(1\)|b)$")
    assert selected(("t/a.c",), "t/a.c", test=cmake) == ()
    assert selected(("a_test.ts",), "a_test.ts::adds", test="deno test src") == ("./a_test.ts",)


def test_what_does_not_compile() -> None:
    output = (
        "[INFO] BUILD\n[ERROR] /v/src/test/java/ex/ATest.java:[11,29] cannot find symbol\n"
        "  symbol:   method twice(int)\n  location: class ex.Calc\n"
        "/v/src/test/java/BTest.java:9: error: cannot find symbol\n    Calc.half(2)\n        ^\n"
        "  symbol:   method half(int)\n"
        "e: file:///v/src/test/kotlin/ex/CTest.kt:7:14 Unresolved reference: thrice\n"
    )
    found = read("java", output)
    assert found.uncollected == {"ex.ATest", "BTest", "ex.CTest"}
    assert found.messages["ex.ATest"].endswith("ATest.java: cannot find symbol: method twice(int), class ex.Calc")
    assert found.messages["BTest"].endswith("cannot find symbol: method half(int)")
    xml = (
        '<testsuite><testcase name="a" status="run"/><testcase name="b" status="notrun">'
        '<skipped message="Unable to find executable"/></testcase><testcase name="c" status="disabled"/>'
        '<testcase name="d" status="fail"><failure message=""/><system-out>said 3</system-out></testcase></testsuite>'
    )
    found = read("ctest", "/v/t/b.c:3:5: error: 'twice' undeclared\n", ctest_0__xml=xml, built="2\n")
    build = "part of the test command: the build"
    assert found.outcomes == {build: "failed", "a": "passed", "b": "error", "c": "skipped", "d": "failed"}
    assert "'twice' undeclared" in found.messages["b"]
    assert found.messages["d"] == "said 3"
    assert read("ctest", ctest_0__xml=xml).outcomes.keys() == set("abcd"), "a line of one's own has no such part"


def test_deno_and_bun() -> None:
    xml = (
        '<testsuites><testsuite name="./a_test.ts"><testcase name="adds" classname="./a_test.ts"/>'
        '<testcase name="steps &gt; in" classname="./a_test.ts"><failure message="no"/></testcase>'
        "</testsuite></testsuites>"
    )
    found = read("deno-bun", files=("a_test.ts",), deno_0__xml=xml)
    assert found.outcomes == {"a_test.ts::adds": "passed", "a_test.ts::steps > in": "failed"}
    output = (
        "TS2305 [ERROR]: Module '\"file:///v/calc.ts\"' has no exported member 'twice'.\n"
        "import { twice }\n         ~~~~~\n    at file:///v/in/b_test.ts:1:10\n"
    )
    assert read("deno-bun", output).uncollected == {"in/b_test.ts"}
    xml = '<testsuite><testcase name="adds" classname="math" file="a.test.ts"/></testsuite>'
    output = "b.test.ts:\nerror: Cannot find module './gone' from '/v/b.test.ts'\n\na.test.ts:\nerror: printed\n"
    found = read("deno-bun", output, ("a.test.ts",), bun_0__xml=xml)
    assert found.outcomes == {"a.test.ts::math > adds": "passed", "b.test.ts": "error"}
    assert found.unexplained == {"b.test.ts"}


def test_minitest() -> None:
    text = (
        "ATest#test_a = 0.00 s = .\nATest#test_b = 0.01 s = F\na word::and more#test_0001_adds [it] = 0.01 s = E\n\n"
        "  1) Failure:\nATest#test_b [test/a.rb:3]:\nExpected: 1\n  Actual: 2\n\n"
        "  2) Error:\na word::and more#test_0001_adds [it]:\nNameError: no `x'\n    test/b.rb:9:in `block'\n\n"
        "3 runs, 2 assertions, 1 failures, 1 errors, 0 skips\n"
    )
    found = read("ruby", text)
    second = "a word::and more::test_0001_adds [it]"
    assert found.outcomes == {"ATest::test_a": "passed", "ATest::test_b": "failed", second: "error"}
    assert found.messages == {
        "ATest::test_b": "test/a.rb:3\nExpected: 1\n  Actual: 2",
        second: "NameError: no `x'\n    test/b.rb:9:in `block'",
    }
    with pytest.raises(Unreadable):
        read("ruby", text.replace("3 runs", "4 runs"))


def test_half_characters_of_a_report_lose_nothing(bench: MakeBench) -> None:
    fails = "test('adds \\ud800', () => { throw new Error('no \\udfff'); });\n"
    made = bench({"a.test.mjs": f"import test from 'node:test';\n{fails}test('b', () => {{}});\n"}, "node --test")
    run = made.harness.run(made.base)
    assert run.outcomes == {"a.test.mjs::adds \ufffd": TestOutcome.FAILED, "a.test.mjs::b": TestOutcome.PASSED}
    assert "Error: no" in run.messages["a.test.mjs::adds \ufffd"]
    assert TestRun.model_validate_json(run.model_dump_json()) == run
    assert made.harness.shown(made.base, ("caf\udce9.test.mjs",))[-1] == "caf\ufffd.test.mjs"


# As Django does: the runner of unittest, its labels, and what its options are called.
MANAGE = """
import argparse, sys, unittest
parser = argparse.ArgumentParser()  # DJANGO_SETTINGS_MODULE
parser.add_argument("labels", nargs="*")
parser.add_argument("-v", type=int, choices=range(4), default=1), parser.add_argument("-b", action="store_true")
parser.add_argument("--noinput", action="store_true", required=True)
asked = parser.parse_args(sys.argv[2:])
suite = unittest.defaultTestLoader
found = suite.loadTestsFromNames(asked.labels) if asked.labels else suite.discover(".", "test*.py")
print(f"Found {found.countTestCases()} test(s).")
result = unittest.TextTestRunner(verbosity=asked.v, buffer=asked.b).run(found)
raise SystemExit(not result.wasSuccessful())
"""


def test_the_runner_of_django(bench: MakeBench) -> None:
    case = "import unittest\n\nclass T(unittest.TestCase):\n    def test_{0}(self):\n        self.assertTrue({1})\n"
    files = {"manage.py": MANAGE, "django.py": "", "shop/__init__.py": "", "shop/tests.py": case.format("a", True)}
    made = bench({**files, "shop/test_b.py": case.format("b", False)})
    assert made.harness.run(made.base).outcomes == {
        "shop.tests.T.test_a": TestOutcome.PASSED,
        "shop.test_b.T.test_b": TestOutcome.FAILED,
    }
    some = ("shop.tests.T.test_a",)
    assert made.harness.run(made.base, some).passed == set(some)
    assert made.harness.shown(made.base, some) == ("python3", "manage.py", "test", *some)


def test_a_test_whose_line_something_else_has_begun() -> None:
    said = "  Applying shop.0002_tags...test_a (shop.tests.T.test_a) ... ok\ntest_b (shop.tests.T.test_b) ... ok\n"
    found = read("python-unittest", f"{said}\n{'-' * 70}\nRan 2 tests in 0.1s\n\nOK\n")
    assert found.outcomes == dict.fromkeys(("shop.tests.T.test_a", "shop.tests.T.test_b"), TestOutcome.PASSED)


def test_failures_of_unittest_are_told_by_their_names() -> None:
    told = [
        f"{'=' * 70}\nFAIL: {name} (m.T.{name})\nWhat it is.\n{'-' * 70}\nTraceback:\n\n{name} != 1\n"
        for name in ("a", "b")
    ]
    lines = "".join(f"{name} (m.T.{name})\nWhat it is. ... FAIL\n" for name in ("a", "b"))
    found = read("python-unittest", "\n".join((lines, *told, f"{'-' * 70}\nRan 2 tests in 0.1s\n")))
    assert found.messages == {"m.T.a": "Traceback:\n\na != 1", "m.T.b": "Traceback:\n\nb != 1"}


@pytest.mark.parametrize(
    ("toolchain", "said"),
    [
        ("python-unittest", "a (b) ... FAIL\n" * 60_000 + "Ran 1 test in 0.1s\n"),
        ("python-unittest", "a (b)\n" + " ... " * 200_000 + "\na (b) ... ok\nRan 1 test in 0.1s\n"),
        (
            "rust",
            "running 50000 tests\n"
            + "test a ... FAILED\n" * 50_000
            + "\ntest result: FAILED. 0 passed; 50000 failed; 0 ignored;\n",
        ),
    ],
)
def test_output_of_any_content_is_read_in_bounded_time(toolchain: str, said: str) -> None:
    assert read(toolchain, said) is not None


def test_a_name_of_any_length_is_looked_up_in_bounded_time() -> None:
    case = junit.Case("a." * 500_000, "t", "", TestOutcome.PASSED, "", "")
    assert Naming(frozenset({"a/a.py"}), "").node_id(case) == f"a/a.py::{'::'.join('a' * 499_998)}::::t"


# As trial 26 prints it; paths and all but the last lines of traces are left out.
TRIAL = """pk.tests.test_a.A.test_bad ... [FAILURE]
pk.tests.test_a.A.test_ok ... hello
[OK]
pk.tests.test_a.A.test_warns ... [OK]/pk/a.py:1: UserWarning: not yet
pk.tests.test_a.B.test_skip ... [SKIPPED]
pk.tests.test_a.B.test_todo ... [TODO]
pk.tests.test_a.B.test_two ... [FAILURE][ERROR]
pk.tests.test_b ... [ERROR]

{0}
[SKIPPED]
why

pk.tests.test_a.B.test_skip
{0}
[FAIL]
Traceback (most recent call last):
builtins.AssertionError: 1 != 2

pk.tests.test_a.A.test_bad
pk.tests.test_a.B.test_two
{0}
[ERROR]
Traceback (most recent call last):
  File "runner.py", line 591, in loadPackage
builtins.ModuleNotFoundError: No module named 'nothing_here'

pk.tests.test_b
{1}
Ran 7 tests in 0.013s

FAILED (skips=1, expectedFailures=1, failures=2, errors=2, successes=2)
""".format("=" * 79, "-" * 79)


def test_trial() -> None:
    found = read("python-trial", TRIAL)
    assert {test.removeprefix("pk.tests."): outcome.value for test, outcome in found.outcomes.items()} == {
        "test_a.A.test_bad": "failed",
        "test_a.A.test_ok": "passed",
        "test_a.A.test_warns": "passed",
        "test_a.B.test_skip": "skipped",
        "test_a.B.test_todo": "xfailed",
        "test_a.B.test_two": "error",
        "test_b": "error",
    }
    assert "1 != 2" in found.messages["pk.tests.test_a.A.test_bad"]
    assert found.uncollected == {"pk.tests.test_b"}
    with pytest.raises(Unreadable):
        read("python-trial", TRIAL.replace("Ran 7", "Ran 8"))
    tree = Snapshot({})
    plan = detect(tree, Commands(test="cd src && trial -j4 --reactor=poll pk"))
    call = TOOLCHAINS[plan.toolchain].invoke(plan, tree, ("src/pk/tests/test_a.py", "pk.tests.test_a.A.test_ok"), "/v")
    assert call.argv[2] == 'cd src && trial --reporter=bwverbose --temp-directory=/tmp/trial --reactor=poll "$@"'
    whole = TOOLCHAINS[plan.toolchain].invoke(plan, tree, (), "/v").argv[2]
    assert whole == "cd src && trial --reporter=bwverbose --temp-directory=/tmp/trial --reactor=poll pk"
    assert call.argv[4:] == ("pk/tests/test_a.py", "pk.tests.test_a.A.test_ok")


def test_unittest_for_real(bench: MakeBench) -> None:
    made = bench(
        {
            "test_old.py": "import unittest\n\nclass T(unittest.TestCase):\n"
            "    def test_a(self):\n        print('noise')\n"
            '    def test_b(self):\n        "With words."\n        self.assertEqual(1, 2)\n'
            "    @unittest.skip('x')\n    def test_c(self): pass\n"
            "    @unittest.expectedFailure\n    def test_d(self): self.fail()\n"
            '    def test_e(self):\n        "In parts."\n        for n in (1, 2, 3):\n'
            "            with self.subTest(n=n): self.assertEqual(n, 1)\n",
            "test_bad.py": "import nowhere\n",
        },
        "python3 -m unittest",
    )
    run = made.harness.run(made.base)
    assert made.plan.toolchain == "python-unittest"
    assert run.outcomes == {
        "test_old.T.test_a": TestOutcome.PASSED,
        "test_old.T.test_b": TestOutcome.FAILED,
        "test_old.T.test_c": TestOutcome.SKIPPED,
        "test_old.T.test_d": TestOutcome.XFAILED,
        "test_old.T.test_e": TestOutcome.FAILED,
        "test_bad": TestOutcome.ERROR,
    }
    assert run.status is SuiteStatus.FAILING
    assert "1 != 2" in run.messages["test_old.T.test_b"]
    assert "2 != 1" in run.messages["test_old.T.test_e"]
    assert made.harness.run(made.base, ("test_old.T.test_a",)).outcomes == {"test_old.T.test_a": TestOutcome.PASSED}
