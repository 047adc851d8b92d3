"""Which changed lines run in a test: seen in real interpreters, told, and never believed too much."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.index.source import TreeSource
from agent.types import Place, SuiteStatus
from agent.verify import lines
from agent.verify.coverage import TRACERS, Observed, observe, of_change, sources
from agent.verify.impact import reached_tests
from agent.verify.lines import Lines
from agent.verify.toolchains.base import Collected
from sandbox import Sandbox
from tests.support.indexing import indexed
from tests.unit.verify.conftest import Bench, MakeBench, behind_a_link
from tests.unit.verify.test_node import needs_node

OLD = "def sign(n):\n    return 1\n"
NEW = """import threading


def sign(n):
    if n > 0:
        return 1
    if n < 0:
        return (
            -1
        )
    # zero
    return 0


def aside():
    thread = threading.Thread(target=unseen, args=(3,))
    thread.start()
    thread.join()


def unseen(n):
    return n
"""
TEST = "from sign import aside, sign\n\n\ndef test_sign():\n    assert sign(1) == 1 and sign(0) == 0\n    aside()\n"
FILES = {"sign.py": OLD, "test_sign.py": "from sign import sign\n\n\ndef test_one():\n    assert sign(1) == 1\n"}


def seen(made: Bench, changes: Mapping[str, str | None], seconds: float = 1.0) -> Observed:
    draft = made.draft(changes)
    before = indexed(TreeSource(made.base))
    reached = reached_tests(draft, before, indexed(TreeSource(draft), base=before))
    final = made.harness.run(draft).model_copy(update={"seconds": seconds})
    return observe(made.harness, draft, sources(draft), reached, final)


@pytest.fixture(scope="module")
def made(bench: MakeBench) -> Bench:
    return bench({**FILES, "other.py": "", "test_other.py": "import other\n\n\ndef test_other():\n    pass\n"})


CHANGE = {"sign.py": NEW, "test_new.py": TEST}


@pytest.mark.parametrize(("seconds", "tests"), [(1.0, 0), (30.0, 2)], ids=["all tests", "those that reach it"])
def test_changed_lines_that_run_and_those_that_do_not(made: Bench, seconds: float, tests: int) -> None:
    told = of_change(made.draft(CHANGE), seen(made, CHANGE, seconds))
    assert (told.missed, told.tests, told.absent) == ((Place(path="sign.py", start=8, end=9),), tests, "")
    assert told.ran == told.lines - 2 > 8


def test_a_file_that_no_test_loads(made: Bench) -> None:
    changes = {"sign.py": OLD.replace("1", "2 - 1"), "lonely.py": "x = 1\n\ny = 2\n"}
    told = of_change(made.draft(changes), seen(made, changes))
    assert told.missed == (Place(path="lonely.py", start=1, end=1), Place(path="lonely.py", start=3, end=3))
    assert (told.ran, told.lines) == (1, 3)


def test_several_processes_and_one_that_is_killed(bench: MakeBench) -> None:
    work = "import os, signal\n\n\ndef work():\n    x = 1\n    os.kill(os.getpid(), signal.SIGKILL)\n    return x\n"
    test = (
        "import subprocess, sys\n\n\ndef test_dies():\n"
        "    assert subprocess.run([sys.executable, '-c', 'import work; work.work()']).returncode == -9\n"
    )
    made = bench({"work.py": "def work():\n    pass\n", "test_work.py": test.replace("== -9", "== 0")})
    changes = {"work.py": work, "test_work.py": test}
    told = of_change(made.draft(changes), seen(made, changes))
    assert told.missed == (Place(path="work.py", start=7, end=7),)


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("PYTHONPATH=. {python} -m pytest", "no line of the changed files was seen to run"),
        ("{python} -m unittest", ""),
        ("true", "there is no way yet"),
    ],
)
def test_where_it_can_not_be_seen_it_is_said(bench: MakeBench, tools: str, line: str, absent: str) -> None:
    case = "class T(unittest.TestCase):\n    def test(self):\n        sign(1)\n"
    test = f"import unittest\nfrom sign import sign\n\n\n{case}"
    made = bench({"sign.py": OLD, "test_sign.py": test}, line.format(python=tools.split(":")[0] + "/python3"))
    found = seen(made, {"sign.py": OLD + "\n\nx = 1\n"})
    assert found.absent.startswith(absent) and bool(found.absent) == bool(absent)


JS = """'use strict';
// sign of a number
function sign(n) {
  if (n > 0) return 1;
  if (n < 0) {
    return -1; // é😀
  }
  return 0;
}

function never() {
  return 1;
}
module.exports = { sign, never };
"""
JS_TEST = (
    "const test = require('node:test');\nconst assert = require('node:assert');\n"
    "const { sign } = require('./sign.js');\n"
    "test('sign', () => { assert.equal(sign(1), 1); assert.equal(sign(0), 0); });\n"
)
LINKED = {
    "pytest": (FILES, {"sign.py": NEW, "test_more.py": TEST}, "test_more.py::test_sign"),
    "node --test": (
        {"sign.js": "exports.sign = 1;\n", "old.test.js": "require('node:test')('old', () => {});\n"},
        {"sign.js": JS, "sign.test.js": JS_TEST},
        "sign.test.js::sign",
    ),
}


@pytest.mark.parametrize("line", ["pytest", pytest.param("node --test", marks=needs_node)])
def test_a_checkout_that_is_seen_through_a_link(sandbox: Sandbox, tools: str, line: str) -> None:
    files, changes, added = LINKED[line]
    with behind_a_link(sandbox, tools, files, line) as made:
        made.harness.run(made.base)
        run = made.harness.run(made.draft(changes))
        assert run.status is SuiteStatus.OK and added in run.passed, run.detail
        told = of_change(made.draft(changes), seen(made, changes))
        assert told.ran and told.missed and not told.absent


def test_too_long_a_run_is_not_repeated(made: Bench) -> None:
    assert "too long" in seen(made, CHANGE, seconds=1_000.0).absent


def test_a_report_is_data() -> None:
    """It comes out of a process in which anybody's code runs."""
    read = TRACERS["python-pytest"].read
    rows = ['["a.py", 1, 2]', '["a.py", 2.5]', '["../x", 1]', "[]", "7", "{", '["a.py", true]', "[" * 9_000, "\\xff"]
    data = "\n".join(rows).encode() + b"\n\xff\xfe\n"
    ((path, told),) = read(Collected({"code": data, "ran": data}, b""), {"a.py": b""}).items()
    assert path == "a.py" and told.ran == {1, 2}
    assert not any(read(Collected(reports, b""), {"a.py": b""}) for reports in ({}, {"code": data}))


@pytest.mark.parametrize("name", ["python3.8", "python3.11", "python3.12", "python3.13", "python3.14"])
def test_interpreters_of_this_machine(name: str, tmp_path: Path) -> None:
    python = shutil.which(name)
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"there is no {name} here")
    (tmp_path / "sign.py").write_text(NEW)
    watch = TRACERS["python-pytest"].watch(["sign.py"], str(tmp_path), "pytest")
    for file, content in watch.files.items():
        (tmp_path / file).write_bytes(content)
    asked = json.loads(watch.env["GRAFTSMITH_LINES"]) | {"report": str(tmp_path)}
    env = {"PYTHONPATH": str(tmp_path), "GRAFTSMITH_LINES": json.dumps(asked)}
    code = "from sign import aside, sign\nsign(1), sign(0), aside()"
    subprocess.run([python, "-c", code], env=env, cwd=tmp_path, check=True)
    reports = {file: (tmp_path / file).read_bytes() for file in ("code", "ran")}
    (told,) = TRACERS["python-pytest"].read(Collected(reports, b""), {"sign.py": b""}).values()
    assert told.code - told.ran in ({8, 9}, {8}, {9})


def test_this_interpreter_is_watched_by_trace_or_monitoring() -> None:
    assert hasattr(sys, "monitoring") == (sys.version_info >= (3, 12))


# ── node ──


@needs_node
def test_lines_of_node_are_seen_by_its_own_coverage(bench: MakeBench) -> None:
    package = json.dumps({"name": "sign", "scripts": {"test": "node --test"}})
    made = bench({"package.json": package, "sign.js": "exports.sign = (n) => 1;\n", "sign.test.js": JS_TEST})
    changes = {"sign.js": JS, "lonely.js": "x = 1;\n"}
    told = of_change(made.draft(changes), seen(made, changes))
    missed = [("lonely.js", 1, 1), ("sign.js", 6, 6), ("sign.js", 11, 12)]
    assert [(place.path, place.start, place.end) for place in told.missed] == missed
    assert (told.ran, told.lines, told.absent) == (6, 10, "")


def test_lines_that_the_runner_itself_saw() -> None:
    tracer = TRACERS["node"]
    for line in ("vitest run && eslint .", "(cd web && jest)"):
        watch = tracer.watch((), "/v", line)
        assert re.search(r"(vitest run|jest) --coverage.*/report", watch.line) and watch.line.endswith(line[-1]), watch
    assert not tracer.watch((), "/v", "(cd a && jest) && (cd b && jest)").line, "both would write one file"
    counts = {str(line): {"start": {"line": line}} for line in (1, 2, 3, 5)}
    file = {
        "statementMap": {**counts, "again": {"start": {"line": 3}}},
        "s": {"1": 1, "2": 0, "3": 0, "again": 2, "5": 1},
    }
    text = b"let a: A;\nlet b;\nlet c; c;\n\n// d\n"
    here = Collected({"coverage-final.json": json.dumps({"/v/a.ts": file, "/v/b.ts": file}).encode()}, b"", ("/v",))
    assert tracer.read(here, {"a.ts": text}) == {"a.ts": Lines(frozenset({1, 2, 3}), frozenset({1, 3}))}
    endless = json.dumps({"/v/a.ts": file}).replace('"line": 1}', '"line": 1e999}').encode()
    for damaged in (b"{", b"[]", b'{"/v/a.ts": {}}', b"[" * 100_000, endless):
        assert tracer.read(replace(here, reports={"coverage-final.json": damaged}), {"a.ts": text}) == {}


def test_a_script_that_a_loader_has_translated_is_not_judged() -> None:
    read = TRACERS["node"].read
    function = {"ranges": [{"startOffset": 0, "endOffset": 6, "count": 1}]}
    report = {"result": [{"url": "file:///v/a%20b.js", "functions": [function]}, {"url": "node:fs", "functions": []}]}
    reports = {"coverage-1.json": json.dumps(report).encode(), "coverage-2.json": b"{", "other": b"{}"}
    here = Collected(reports, b"", ("/w", "/v"))
    assert read(here, {"a b.js": b"x = 1\n"})["a b.js"].ran == {1}
    assert read(here, {"a b.js": b"let x = 1\n"}) == {}
    assert read(replace(here, views=("/elsewhere",)), {"a b.js": b"x = 1\n"}) == {}


TEXTS = st.lists(st.sampled_from([b"a", b"b", b"", b"c d"]), max_size=20).map(b"\n".join)


@given(TEXTS, TEXTS)
def test_what_is_not_changed_is_in_the_old_text_in_order(old: bytes, new: bytes) -> None:
    found = lines.changed(old, new)
    kept = [line for at, line in enumerate(new.splitlines(), 1) if at not in found]
    rest = iter(old.splitlines())
    assert all(any(line == other for other in rest) for line in kept)
    assert not lines.changed(new, new) and found <= set(range(1, len(new.splitlines()) + 1))


@given(st.frozensets(st.integers(1, 50)))
def test_places_hold_exactly_their_lines(wanted: frozenset[int]) -> None:
    found = lines.places("a", wanted)
    assert [line for place in found for line in range(place.start, place.end + 1)] == sorted(wanted)
    assert all(one.end + 1 < other.start for one, other in itertools.pairwise(found))


PROFILE = b"""mode: set
example.org/shop/pay.go:3.30,4.14 1 1
example.org/shop/pay.go:4.14,6.3 1 0
example.org/shop/pay.go:7.2,7.10 1 1
example.org/shop/sub/pay.go:3.30,9.2 1 0
example.org/shop/other.go:1.1,2.2 1 1
no block
example.org/shop/pay.go:9.1,999999999999.2 1 0
"""
PAY = b"package shop\n\nfunc Pay(n int) int {\n\tif n < 0 {\n\t\t// Never.\n\t\treturn 0\n\t}\n\treturn n\n}\n"


GO_TEST = (
    'package shop\n\nimport "testing"\n\nfunc TestPay(t *testing.T) {\n\tif Pay(1) != 1 {\n\t\tt.Fatal()\n\t}\n}\n'
)


def test_go_says_by_blocks_which_lines_ran() -> None:
    tracer = TRACERS["go"]
    assert tracer.watch(["pay.go"], "/v", "go test ./...").env == {
        "GOFLAGS": "-mod=mod -coverprofile=/report/go.cover -coverpkg=./..."
    }
    seen = tracer.read(Collected({"go.cover": PROFILE}, b""), {"pay.go": PAY, "sub/pay.go": PAY, "absent.go": PAY})
    assert seen.keys() == {"pay.go", "sub/pay.go"}
    assert (seen["pay.go"].code, seen["pay.go"].ran) == ({3, 4, 6}, {3, 4})
    assert seen["sub/pay.go"].ran == frozenset()
    assert tracer.read(Collected({}, b""), {"pay.go": PAY}) == {}


def test_lines_of_go_are_seen_by_its_own_coverage(bench: MakeBench) -> None:
    path = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"
    if shutil.which("go", path=path) is None:
        pytest.skip("Go is not installed")
    files = {"go.mod": "module example.org/shop\n\ngo 1.18\n", "pay.go": PAY, "pay_test.go": GO_TEST}
    made = bench(files, wall_s=120.0, path=path)
    final = made.harness.run(made.base)
    assert final.status is SuiteStatus.OK, final.log
    seen = observe(made.harness, made.base, ("pay.go",), (), final).seen["pay.go"]
    assert (seen.code, seen.ran) == ({3, 4, 6, 8}, {3, 4, 8})
