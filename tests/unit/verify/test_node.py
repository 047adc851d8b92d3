"""JavaScript: node's own test runner for real, the reports of others as they write them."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.types import Commands, SuiteStatus, TestOutcome
from agent.verify.compare import compare
from agent.verify.flakes import Flakes
from agent.verify.proof import prove
from agent.verify.report import PART, Unreadable, gist
from agent.verify.toolchains import detect, joined, node, packages
from agent.verify.toolchains.base import Collected
from tests.support.snapshot import Snapshot
from tests.unit.verify.conftest import MakeBench

needs_node = pytest.mark.skipif(
    shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None, reason="no node here"
)

PACKAGE = json.dumps({"name": "calc", "scripts": {"test": "node --test"}})
TESTS = """
const { test, describe, it } = require('node:test');
const assert = require('node:assert');
const { add } = require('./calc.js');
test('adds', () => assert.equal(add(1, 2), 3));
test('outer', async (t) => { await t.test('inner "é"', () => {}); });
describe('suite', () => {
  it('works', () => {});
  it.skip('later', () => {});
  it.todo('known', () => { throw new Error('x'); });
});
"""


@needs_node
def test_whatever_a_test_throws_is_reported(bench: MakeBench) -> None:
    thrown = (
        "const { test } = require('node:test');\nconst assert = require('node:assert');\n"
        "test('odd', () => { throw Object.create(null); });\n"
        "test('handler', () => assert.equal(Object.assign(Object.create(null), { f() {} }), null));\n"
        "test('fine', () => {});\n"
    )
    made = bench(
        {"test/a.test.js": thrown, "test/b.test.js": TESTS.replace("./calc.js", "os")}, "node --test test/*.test.js"
    )
    seen = made.harness.run(made.base, ("test/a.test.js",))
    assert seen.outcomes == {
        "test/a.test.js::odd": TestOutcome.FAILED,
        "test/a.test.js::handler": TestOutcome.FAILED,
        "test/a.test.js::fine": TestOutcome.PASSED,
    }


@needs_node
def test_a_case_that_is_put_among_others_is_proven(bench: MakeBench) -> None:
    """Cases have numbers, so that the last one looks new."""
    cases = (
        "const { test } = require('node:test'), fs = require('fs'), calc = require('./calc.js');\n"
        "fs.readdirSync('test/data').sort().forEach((name, number) => test(`case ${number}`, () => {\n"
        "  const [a, b, sum] = JSON.parse(fs.readFileSync(`test/data/${name}`));\n"
        "  require('node:assert').equal(calc.add(a, b), sum);\n}));\n"
    )
    wrong = "exports.add = (a, b) => a > 5 ? 0 : a + b;\n"
    files = {"package.json": PACKAGE, "calc.js": wrong, "cases.test.js": cases, "test/data/b.json": "[1, 2, 3]"}
    made = bench(files)
    draft = made.draft({"calc.js": "exports.add = (a, b) => a + b;\n", "test/data/a.json": "[6, 2, 8]"})
    before, after = made.harness.run(made.base), made.harness.run(draft)
    (proof,) = prove(made.harness, draft, before, after)
    assert (proof.test.rpartition("::")[2], proof.holds) == ("case 0", True)
    idle = made.draft({"test/data/a.json": "[4, 2, 6]"})
    (proof,) = prove(made.harness, idle, before, made.harness.run(idle))
    assert (proof.test.rpartition("::")[2], proof.guards) == ("case 1", True)


@needs_node
def test_a_change_is_proven_with_the_own_runner_of_node(bench: MakeBench) -> None:
    wrong = {"package.json": PACKAGE, "calc.js": "exports.add = (a, b) => a - b;\n", "calc.test.js": TESTS}
    made = bench({**wrong, "broken.test.js": "require('./nowhere.js')\n"}, "npm test")
    before = made.harness.run(made.base)
    assert before.status is SuiteStatus.FAILING
    assert before.outcomes == {
        "calc.test.js::adds": TestOutcome.FAILED,
        'calc.test.js::outer > inner "é"': TestOutcome.PASSED,
        "calc.test.js::outer": TestOutcome.PASSED,
        "calc.test.js::suite > works": TestOutcome.PASSED,
        "calc.test.js::suite > later": TestOutcome.SKIPPED,
        "calc.test.js::suite > known": TestOutcome.XFAILED,
        "broken.test.js": TestOutcome.ERROR,
    }
    assert before.command == ("node", "--test")
    draft = made.draft(
        {
            "calc.js": "exports.add = (a, b) => a + b;\nexports.twice = (a) => a + a;\n",
            "twice.test.js": "const { twice } = require('./calc.js');\n"
            "require('node:test')('twice', () => require('node:assert').equal(twice(2), 4));\n",
        }
    )
    after = made.harness.run(draft)
    assert compare(before, after).clean
    proofs = prove(made.harness, draft, before, after)
    assert {p.test: (p.on_base, p.on_head) for p in proofs} == {
        "calc.test.js::adds": ("failed", "passed"),
        "twice.test.js::twice": ("failed", "passed"),
    }
    assert proofs[1].command == ("node", "--test", "twice.test.js")


@needs_node
def test_a_file_that_reports_by_itself_is_one_test(bench: MakeBench) -> None:
    """Such as those of tape: points on standard output, and an exit code."""
    points = (
        "const ok = require('../calc.js').add(1, 2) === 3;\n"
        "console.log(`TAP version 13\\n${ok ? '' : 'not '}ok 1 adds\\n1..1`);\nprocess.exitCode = ok ? 0 : 1;\n"
    )
    files = {"calc.js": "exports.add = (a, b) => a - b;\n", "test/old.js": "console.log('ok 1 old');\n"}
    made = bench(files, "node --test test/")
    baseline = made.harness.run(made.base)
    assert baseline.outcomes == {"test/old.js": TestOutcome.PASSED}
    draft = made.draft({"calc.js": "exports.add = (a, b) => a + b;\n", "test/new.js": points})
    (proof,) = prove(made.harness, draft, baseline, made.harness.run(draft))
    assert (proof.test, proof.on_base, proof.on_head) == ("test/new.js", "failed", "passed")
    assert "not ok 1 adds" in made.harness.run(made.draft({"test/new.js": points})).messages["test/new.js"]
    worse = made.harness.run(made.draft({"test/old.js": "require('./nowhere.js')\n"}))
    assert compare(baseline, worse).regressed == ("test/old.js",)
    assert "Cannot find module" in worse.messages["test/old.js"]


@needs_node
def test_a_test_script_that_is_a_stub_is_no_failing_suite(bench: MakeBench) -> None:
    stub = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
    for command in ("", "npm test"):
        made = bench({"package.json": stub}, command)
        run = made.harness.run(made.base)
        assert run.status is SuiteStatus.NO_TESTS
        assert "no tests defined" in run.detail


@needs_node
def test_a_watcher_gets_no_terminal(bench: MakeBench) -> None:
    watcher = (
        "if (process.stdin.isTTY || process.env.CI !== 'true') setInterval(() => {}, 1000);"
        "else console.log('3 passed');"
    )
    made = bench({"package.json": json.dumps({"scripts": {"test": "node w.js"}}), "w.js": watcher}, "npm test")
    run = made.harness.run(made.base)
    assert (run.status, run.structured, run.log) == (SuiteStatus.OK, False, "3 passed\n")


@needs_node
def test_leaving_early_is_not_success(bench: MakeBench) -> None:
    made = bench({"package.json": PACKAGE, "a.test.js": "process.kill(process.ppid, 'SIGKILL')\n"}, "npm test")
    assert made.harness.run(made.base).status is SuiteStatus.NOT_RUN


JEST = {
    "testResults": [
        {
            "name": "/v/a.test.js",
            "status": "failed",
            "message": "",
            "assertionResults": [
                {"ancestorTitles": ["outer"], "title": "ok", "status": "passed", "failureMessages": []},
                {"ancestorTitles": ["outer"], "title": "bad", "status": "failed", "failureMessages": ["\x1b[31mno"]},
                {"ancestorTitles": [], "title": "sk", "status": "pending", "failureMessages": []},
            ],
        },
        {"name": "/v/b.test.js", "status": "failed", "message": "Cannot find module 'nope'", "assertionResults": []},
    ]
}
MOCHA = {
    "tests": [
        {"title": "ok", "fullTitle": "outer ok", "file": "/v/a.test.js", "err": {}},
        {
            "title": "bad",
            "fullTitle": "outer bad",
            "file": "/v/a.test.js",
            "err": {"stack": "Error: no", "message": "no"},
        },
        {"title": "sk", "fullTitle": "outer sk", "file": "/v/a.test.js", "err": {}},
    ],
    "pending": [{"title": "sk", "fullTitle": "outer sk", "file": "/v/a.test.js", "err": {}}],
    "failures": [],
}
TREE = Snapshot(
    {"a.test.js": b"", "b.test.js": b"", "package.json": b'{"scripts": {"test": "npm run unit", "unit": "jest src"}}'}
)


def test_reports_of_jest_and_mocha() -> None:
    found = node.read(Collected({"jest-0.json": json.dumps(JEST).encode()}, b"", ("/v",)), TREE)
    assert found is not None
    assert found.outcomes == {
        "a.test.js::outer > ok": "passed",
        "a.test.js::outer > bad": "failed",
        "a.test.js::sk": "skipped",
        "b.test.js": "error",
    }
    assert found.uncollected == {"b.test.js"}
    assert found.messages["a.test.js::outer > bad"] == "no"
    found = node.read(Collected({"mocha-0.json": json.dumps(MOCHA).encode()}, b"", ("/v",)), TREE)
    assert found is not None
    assert list(found.outcomes.values()) == ["passed", "failed", "skipped"]
    for damaged in (b"{", b"[]", b'{"testResults": 3}', b'{"testResults": [{}]}', b"[" * 100_000):
        with pytest.raises(Unreadable):
            node.read(Collected({"jest-0.json": damaged}, b"", ("/v",)), TREE)


def test_the_runner_behind_a_script_is_found_and_told_to_report() -> None:
    plan = detect(TREE, Commands(test="npm test"))
    assert (plan.toolchain, plan.line) == ("node", "jest src")
    call = node.invoke(plan, TREE, (), "/v")
    assert "jest src --ci --no-watchAll --json --outputFile=/report/jest-0.json" in call.argv[2]
    call = node.invoke(plan, TREE, ("a.test.js::outer > ok",), "/v")
    assert call.argv[3:] == ("sh", "./a.test.js")
    assert "--runTestsByPath" in call.argv[2]


# ── several programs joined ──

LINT = "const fs = require('fs');\nconst bad = fs.readFileSync('calc.js', 'utf8').includes('var ');\n"
LINT += "console.log(bad ? 'no var in calc.js' : 'clean');\nprocess.exitCode = bad ? 3 : 0;\n"
JOINED = {
    "package.json": json.dumps(
        {"scripts": {"test": "npm run lint && npm run unit", "lint": "node lint.js", "unit": "node --test"}}
    ),
    "lint.js": LINT,
    "calc.js": "exports.add = (a, b) => a - b;\n",
    "calc.test.js": TESTS,
}
LINTED = f"{PART}node lint.js"


@needs_node
def test_each_program_of_a_joined_script_has_a_word_of_its_own(bench: MakeBench) -> None:
    made = bench({**JOINED, "calc.js": "var x;\nexports.add = (a, b) => a - b;\n"}, "npm test")
    before = made.harness.run(made.base)
    assert before.status is SuiteStatus.FAILING, before.detail
    assert (before.outcomes[LINTED], before.outcomes["calc.test.js::suite > works"]) == ("failed", "passed")
    assert before.messages[LINTED] == "no var in calc.js\nexit code 3" and "no var in calc.js" in before.log
    assert before.exit_code == 3

    right = made.draft({"calc.js": "exports.add = (a, b) => a + b;\n"})
    after = made.harness.run(right, fresh=True)
    assert after.status is SuiteStatus.OK and compare(before, after).fixed == ("calc.test.js::adds", LINTED)
    (proof,) = prove(made.harness, right, before, after)
    assert (proof.test, proof.holds) == ("calc.test.js::adds", True), "a linter that is content proves nothing"
    assert proof.command == ("node", "--test", "calc.test.js")


@needs_node
def test_a_program_that_gets_worse_is_a_regression(bench: MakeBench) -> None:
    made = bench(JOINED, "npm test")
    before = made.harness.run(made.base)
    assert before.outcomes[LINTED] == "passed"
    worse = made.draft({"calc.js": "var x;\nexports.add = (a, b) => a + b;\n"})
    after = made.harness.run(worse, fresh=True)
    said = compare(before, after, Flakes(made.harness).among(worse, before, after))
    assert (said.regressed, said.fixed) == ((LINTED,), ("calc.test.js::adds",))


@needs_node
def test_a_part_whose_exit_code_and_report_disagree_is_no_verdict(bench: MakeBench) -> None:
    lying = {
        "jest.sh": JEST_STAND_IN,
        "package.json": json.dumps({"scripts": {"test": "node --test a.test.js && jest"}}),
    }
    setup = ("mkdir -p node_modules/.bin && cp jest.sh node_modules/.bin/jest && chmod +x node_modules/.bin/jest",)
    for status, says in ((0, SuiteStatus.OK), (1, SuiteStatus.INCONSISTENT)):
        files = {**lying, "a.test.js": TESTS.replace("./calc.js", "./c.js"), "c.js": "exports.add = () => 3;\n"}
        made = bench({**files, "status": str(status)}, "npm test", setup=setup, path="/usr/bin:/bin:/usr/local/bin")
        run = made.harness.run(made.base)
        assert run.status is says, (run.detail, run.log)
        assert ("'jest' ended with exit code 1" in run.detail) == bool(status)
        if says is SuiteStatus.OK:
            assert {"a.test.js::adds", "b.test.js::of jest"} <= run.passed


JEST_STAND_IN = """#!/bin/sh
for word; do case "$word" in --outputFile=*) out="${word#--outputFile=}";; esac; done
test -n "$out" || exit 0
printf '{"testResults": [{"name": "%s/b.test.js", "status": "passed", "assertionResults":' "$PWD" > "$out"
printf '[{"ancestorTitles": [], "title": "of jest", "status": "passed"}]}]}' >> "$out"
exit "$(cat status)"
"""


SPREAD = ("eslint .", "(cd a && tsc)", "(cd a && mocha)", "(cd 'b c' && jest || true)")


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("eslint . && tsc && mocha", ("eslint .", "tsc", "mocha")),
        ("npx eslint 'a && b' && NODE_ENV=test mocha", ("npx eslint 'a && b'", "NODE_ENV=test mocha")),
        ("cross-env CI=1 ./node_modules/.bin/jest && prettier -c .", None),
        ("mocha", ()),
        ("cd sub && mocha", ()),
        ("eslint . || true && mocha", ()),
        ("eslint . ; mocha", ()),
        ("eslint . && mocha | tee log", ()),
        ("eslint . && mocha > log", ()),
        ("eslint . && (mocha)", ()),
        ("eslint . && mocha $(cat files)", ()),
        ("eslint . && mocha &", ()),
        ("eslint . && mocha 'open", ()),
        ("eslint . && &&", ()),
        ("rm -rf dist && mocha", ()),
        ("(cd a && rm -rf dist && mocha)", None),
        ("eslint . && (cd a && tsc && mocha) && (cd 'b c' && jest || true)", SPREAD),
        ("eslint . && (cd ../a && mocha)", ()),
        ("(cd a && mocha) ; (cd b && mocha)", ()),
        ("(cd a && mocha", ()),
        ("rm x && (cd a && mocha)", ()),
        ("", ()),
    ],
)
def test_only_plain_lines_of_known_programs_are_taken_apart(line: str, parts: tuple[str, ...] | None) -> None:
    whole = (line,) if line.startswith("(") else tuple(part.strip() for part in line.split("&&"))
    expected = whole if parts is None else parts
    assert joined.split(line) == expected


@given(st.text(alphabet="ab &'\";|\\$`()#\n", max_size=30))
def test_what_is_taken_apart_is_the_line(middle: str) -> None:
    line = f"eslint {middle} && mocha"
    parts = joined.split(line)
    assert not parts or (
        [part.strip() for part in parts] == list(parts) and "".join(" && ".join(parts).split()) == "".join(line.split())
    )


def test_scripts_that_call_scripts_are_followed() -> None:
    scripts = {
        "test": "npm run lint && npm run -s unit",
        "prelint": "echo first",
        "lint": "eslint .",
        "postlint": "echo last",
        "unit": "yarn again",
        "again": "npm run unit && mocha",
        "pretest": "npm run build",
        "build": "tsc",
    }
    files = Snapshot({"package.json": json.dumps({"scripts": scripts}).encode()})
    assert node.resolve("npm test", files) == ("tsc && echo first && eslint . && echo last && npm run unit && mocha"), (
        "a circle is left as it is"
    )


@pytest.mark.parametrize(
    ("reports", "says"),
    [
        ({"part-0.end": b'0 {"of": 2, "line": "eslint .", "runner": ""}'}, "did not come to its end"),
        ({"part-1.end": b'0 {"of": 2, "line": "eslint .", "runner": ""}'}, "did not come to its end"),
        ({"part-0.end": b'x {"of": 1, "line": "a", "runner": ""}'}, "can't be read"),
        ({"part-0.end": b"0 {"}, "can't be read"),
        ({"part-0.end": b"0 []"}, "can't be read"),
        ({"part-0.end": b'1 {"of": 1, "line": "jest", "runner": "jest"}'}, "wrote no report"),
    ],
)
def test_parts_that_make_no_sense_are_refused(reports: dict[str, bytes], says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        node.read(Collected(reports, b"", ("/v",)), Snapshot({}))


@pytest.mark.parametrize(
    "line",
    ["npx jest", "yarn jest --ci", "yarn run jest", "pnpm vitest run", "pnpm exec vitest run", "rc-test", "craco test"],
)
def test_the_runner_behind_a_package_manager_is_asked_for_its_report(line: str) -> None:
    tree = Snapshot({"package.json": json.dumps({"scripts": {"test": line}}).encode()})
    plan = detect(tree, Commands())
    assert plan.line == line
    assert "outputFile" in node.invoke(plan, tree, (), "/v").argv[2]


def test_a_failure_of_vitest_tells_the_difference_and_no_frame_of_its_own() -> None:
    frames = (
        "    at /v/p/a.test.ts:3:1\n    at runTest (file:///v/node_modules/r/index.js:1:2)\n    at node:internal/x:1:1"
    )
    one = {
        "ancestorTitles": ["a"],
        "title": "b",
        "status": "failed",
        "failureMessages": [f"Error: not equal\n{frames}"],
    }
    told = {"testResults": [{"name": "/v/p/a.test.ts", "status": "failed", "assertionResults": [one]}]}
    same = "".join(f"    {n},\n" for n in range(30))
    output = (
        "\x1b[31m FAIL \x1b[39m a.test.ts > a > c\n FAIL  a.test.ts > a > b\nError: not equal\n\n"
        "- Expected\n+ Received\n\n"
        f"  [\n{same}-   1\n+   2\n{same}  ]\n\n ❯ a.test.ts:3:1\n FAIL  a.test.ts > a > d\nlost"
    )
    found = node.read(Collected({"vitest-0.json": json.dumps(told).encode()}, output.encode(), ("/v",)), Snapshot({}))
    assert found is not None
    (message,) = found.messages.values()
    assert message == (
        "Error: not equal\n- Expected\n+ Received\n…\n    28,\n    29,\n-   1\n+   2\n    0,\n    1,\n…\n"
        "    at /v/p/a.test.ts:3:1"
    )
    assert gist(message) == "Error: not equal"


# ── several packages ──


def _manifest(test: str = "", **more: object) -> str:
    return json.dumps({**more, "scripts": {"test": test} if test else {}})


def _test_of(name: str, claim: str, calc: str = ".") -> str:
    return (
        f"const {{ test }} = require('node:test'), {{ ok }} = require('node:assert'), c = require('{calc}/calc.js');\n"
        f"test('{name}', () => ok({claim}));\n"
    )


PACKAGES = {
    "package.json": _manifest("npm run test --workspaces --if-present", workspaces=["packages/*", "!packages/old"]),
    "packages/calc/package.json": _manifest("node --test"),
    "packages/calc/calc.js": "exports.add = (a, b) => a - b;\n",
    "packages/calc/calc.test.js": _test_of("zero", "c.add(1, 0) === 1"),
    "packages/docs/package.json": _manifest(),
    "packages/lame/package.json": _manifest("node --no-such-option --test"),
    "packages/new/package.json": _manifest('echo "Error: no test specified" && exit 1'),
    "packages/odd/package.json": _manifest("node check.js"),
    "packages/odd/check.js": "process.exitCode = require('../calc/calc.js').add(0, 0) ? 3 : 0;\n",
    "packages/old/package.json": _manifest("jest"),
    "packages/use/package.json": _manifest("node lint.js && node --test test/"),
    "packages/use/lint.js": "",
    "packages/use/test/use.test.js": _test_of("uses", "c.add(2, 0) < 3", "../../calc"),
}
CALC, USE = "packages/calc/calc.test.js::zero", "packages/use/test/use.test.js::uses"
LAME = f"{PART}(cd packages/lame && node --no-such-option --test)"
ODD = f"{PART}(cd packages/odd && node check.js)"
USE_LINT = f"{PART}(cd packages/use && node lint.js)"


@needs_node
def test_each_package_of_a_repository_reports_its_tests(bench: MakeBench) -> None:
    made = bench(PACKAGES)
    before = made.harness.run(made.base)
    well = dict.fromkeys((CALC, USE, ODD, USE_LINT), TestOutcome.PASSED)
    assert before.outcomes == {**well, LAME: "failed"}, before.detail

    sums = {"packages/calc/test/sums.test.js": _test_of("sums", "c.add(1, 2) === 3", "..")}
    right = made.draft({"packages/calc/calc.js": "exports.add = (a, b) => a + b;\n", **sums})
    after = made.harness.run(right, fresh=True)
    (proof,) = prove(made.harness, right, before, after)
    assert (proof.test, proof.holds) == ("packages/calc/test/sums.test.js::sums", True)
    assert proof.command == ("sh", "-c", "(cd packages/calc && node --test test/sums.test.js)")
    assert compare(before, after).clean

    worse = made.draft({"packages/calc/calc.js": "exports.add = (a, b) => a + b + 1;\n"})
    said = compare(before, made.harness.run(worse, fresh=True))
    assert said.regressed == (CALC, USE, ODD), "also in packages that the change doesn't touch"
    chosen = made.harness.run(worse, (USE,))
    assert chosen.outcomes == {USE: "failed", USE_LINT: "passed"}
    without = made.harness.run(made.draft({path: None for path in PACKAGES if "/odd/" in path}))
    assert without.outcomes == {CALC: "passed", USE: "passed", USE_LINT: "passed", LAME: "failed"}, without.detail


def test_a_selection_is_given_to_the_packages_that_hold_it() -> None:
    tree = Snapshot(
        {
            "package.json": b'{"scripts": {"test": "pnpm -r run build && pnpm -r test"}}',
            "pnpm-workspace.yaml": b"# all\npackages:\n  - 'apps/**'  # nested\n\n  - lib\nother:\n  - not\n",
            "apps/x/y/package.json": b'{"scripts": {"test": "vitest run src", "build": "tsc"}}',
            "apps/x/y/src/a.test.ts": b"",
            "lib/package.json": b'{"scripts": {"test": "mocha", "pretest": "tsc"}}',
            "lib/b.test.js": b"",
            "not/package.json": b'{"scripts": {"test": "jest"}}',
        }
    )
    plan = detect(tree, Commands())
    assert plan.line == "pnpm -r run build && (cd apps/x/y && vitest run src) && (cd lib && tsc && mocha)"
    bare = Snapshot({**{path: tree.read(path) for path in tree.paths()}, "package.json": b'{"private": true}'})
    assert detect(bare, Commands()).line == plan.line.removeprefix("pnpm -r run build && "), "the root may have none"
    root, in_apps, in_lib = re.split(r"(?=\(cd )", node.probe(plan)[2])
    assert ".bin:$PATH" in root, "what a package doesn't have itself is found in the root"
    assert "vitest --version" in in_apps and "mocha --version" in in_lib
    call = node.invoke(plan, tree, ("apps/x/y/src/a.test.ts::a",), "/v")
    assert call.argv[3:] == ("sh", "./src/a.test.ts")
    assert "( pnpm -r run build )" in call.argv[2], "tests may need what is built for them"
    assert "vitest run --watch=false" in call.argv[2] and "mocha" not in call.argv[2]
    call = node.invoke(plan, tree, ("lib/b.test.js", "apps/x/y/src/a.test.ts"), "/v")
    assert call.argv[3:] == ("sh", "./src/a.test.ts"), "what is given to mocha would be run besides its own"
    assert call.shown == ("sh", "-c", "(cd apps/x/y && vitest run src/a.test.ts) && (cd lib && mocha)")
    assert "--reporter-option" in node.invoke(plan, tree, ("strange.js",), "/v").argv[2], "nothing holds it"


MANY = {
    "package.json": b'{"workspaces": ["apps/*", "libs/*"]}',
    "turbo.json": b'{"tasks": {"test": {"dependsOn": ["^build"]}, "e2e": {"dependsOn": ["web#build"]}}}',
    "lerna.json": b'{"packages": ["libs/*"]}',
    "apps/web/package.json": b'{"name": "web", "dependencies": {"@x/ui": "*"}}',
    "apps/api/package.json": b'{"name": "api"}',
    "libs/ui/package.json": b'{"name": "@x/ui", "devDependencies": {"@x/lib": "*", "@x/ui": "*"}}',
    "libs/lib/package.json": b'{"name": "@x/lib", "dependencies": {"@x/ui": "*"}}',
}
AS_NAMED, BY_NEED = "api web lib ui", "api lib ui web"


@pytest.mark.parametrize(
    ("call", "script", "where"),
    [
        ("npm test --workspaces", "test", AS_NAMED),
        ("npm -ws t", "test", AS_NAMED),
        ("npm run test:unit -ws --if-present", "test:unit", AS_NAMED),
        ("npm run check --workspaces", "check", AS_NAMED),
        ("npm test -w apps/web", "test", "web"),
        ("npm run test --workspace=web --workspace @x/ui", "test", "web ui"),
        ("npm test -w apps/no", "", ""),
        ("npm test --workspaces --include-workspace-root", "", ""),
        ("npm test --workspaces -- --ci", "", ""),
        ("npm ci --workspaces", "", ""),
        ("npm test", "", ""),
        ("pnpm -r test", "test", BY_NEED),
        ("pnpm --recursive --stream --workspace-concurrency=1 run test", "test", BY_NEED),
        ("pnpm -r --no-sort test", "test", AS_NAMED),
        ("pnpm --filter @x/* test", "test", "ui lib"),
        ("pnpm -F ./apps/* -F @x/ui run test", "test", "api ui web"),
        ("pnpm --filter=web... test", "", ""),
        ("pnpm --filter '!web' test", "", ""),
        ("pnpm -r exec vitest", "", ""),
        ("yarn workspaces run test", "test", AS_NAMED),
        ("yarn workspaces foreach -Apt run test", "test", BY_NEED),
        ("yarn workspaces foreach --no-private run test", "", ""),
        ("yarn workspaces list", "", ""),
        ("yarn workspace @x/ui test", "test", "ui"),
        ("turbo run test", "turbo run build; test", AS_NAMED),
        ("npx turbo run lint test --filter=web", "turbo run lint build; test", "web"),
        ("pnpm turbo test --affected", "", ""),
        ("turbo run e2e", "", ""),
        ("nx run-many -t test", "test", AS_NAMED),
        ("npx nx run-many --target=test --all --parallel=3", "test", AS_NAMED),
        ("nx affected -t test", "", ""),
        ("lerna run test --scope @x/ui", "test", "ui"),
        ("lerna run test", "test", "ui lib"),
        ("", "", ""),
    ],
)
def test_lines_that_run_a_script_of_packages_are_told_from_others(call: str, script: str, where: str) -> None:
    found = packages.spread(call, Snapshot(MANY))
    told = "; ".join(filter(None, [found.before, found.script])) if found else ""
    assert (told, " ".join(f.rpartition("/")[2] for f in found.folders) if found else "") == (script, where)


@pytest.mark.parametrize("more", ["apps/web/project.json", "apps/web/nx.json"])
def test_what_a_task_runner_is_told_beside_the_scripts_is_left_to_it(more: str) -> None:
    assert packages.spread("nx run-many -t test", Snapshot({**MANY, more: b"{}"})) is None
    assert packages.spread("nx run-many -t test", Snapshot({**MANY, "nx.json": b'{"plugins": ["@nx/jest"]}'})) is None


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["b", "./a/"], ["b", "a"]),
        (["*"], ["a", "b"]),
        (["{a,b}", "x/*"], ["a", "b", "x/y"]),
        (["**", "!x/**", "!b"], ["a"]),
        (["x/**/z"], ["x/y/z"]),
        (["x/y/**"], ["x/y", "x/y/z"]),
        (["?", "../*", "", "{,}", "[", 7], ["a", "b"]),
        (["**/" * 40 + "no", "*a" * 40, "{a,b}" * 40], []),
    ],
)
def test_packages_are_those_that_the_patterns_name(patterns: list[object], found: list[str]) -> None:
    folders = ("a", "b", "x/y", "x/y/z", "node_modules/c", "/".join("d" * 60))
    manifests = {f"{folder}/package.json": b"{}" for folder in folders}
    root = json.dumps({"workspaces": patterns}).encode()
    kept = packages.folders(Snapshot({"package.json": root, **manifests}))
    assert [folder for folder in kept if not folder.startswith("d")] == found
