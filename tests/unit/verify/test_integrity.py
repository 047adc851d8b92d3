"""Ways in which a change makes the tests say less, each one found and shown with its hunk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest

from agent.git import Git
from agent.tree import BaseTree, Draft
from agent.types import IntegrityFinding, Plan, PlanStep
from agent.verify.integrity import check, given_up, is_test, is_test_config
from tests.support.repository import Repository

Files = Mapping[str, str | None]


def plan(test_changes: str = "", *files: str) -> Plan:
    steps = (
        PlanStep(id="1", objective="o", files=files, test_changes=test_changes),
        PlanStep(id="2", objective="o", files=("test_other.py",)),
    )
    return Plan(intent="bug_fix", summary="s", steps=steps)


class Changes:
    def __init__(self, repository: Repository, git: Git) -> None:
        self._repository, self._git = repository, git

    def __call__(self, before: Files, after: Files, test_changes: str = "") -> tuple[IntegrityFinding, ...]:
        draft = self.draft(before, after)
        return check(draft.base, draft, plan(test_changes, *after))

    def draft(self, before: Files, after: Files) -> Draft:
        self._repository.commit({path: text for path, text in before.items() if text is not None})
        draft = BaseTree.load(self._git, self._git.fetch(self._repository.url, "refs/heads/main")).draft()
        for path, text in after.items():
            draft = draft.without(path) if text is None else draft.with_file(path, text.encode())
        return draft


@pytest.fixture
def findings(origin: Repository, git: Git) -> Changes:
    return Changes(origin, git)


def kinds(found: Iterable[IntegrityFinding]) -> set[str]:
    return {finding.kind for finding in found}


HEAD = "import pytest, unittest, contextlib\nfrom calc import add\n\n"
TEST = "def test_add():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n"
CASES = "@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\ndef test_cases(a, b):\n    assert add(a, b) == a + b\n"
CLASS = "class TestAdd(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(add(1, 1), 2)\n"


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (TEST, "", {"test_deleted"}),
        (TEST, TEST.replace("test_add", "check_add"), {"test_renamed"}),
        (TEST, "@pytest.mark.skip\n" + TEST, {"test_skipped"}),
        (TEST, "@pytest.mark.xfail(reason='x')\n" + TEST, {"test_skipped"}),
        (TEST, "@unittest.skipIf(True, 'x')\n" + TEST, {"test_skipped"}),
        (TEST, "pytestmark = pytest.mark.skip\n" + TEST, {"test_skipped", "collection_changed"}),
        (TEST, "pytest.skip('x', allow_module_level=True)\n" + TEST, {"test_skipped", "collection_changed"}),
        (TEST, TEST.replace("():\n", "():\n    pytest.skip('later')\n"), {"test_skipped"}),
        (TEST, "def test_add():\n    pass\n", {"test_emptied"}),
        (TEST, "def test_add():\n    add(1, 2)\n", {"test_emptied"}),
        (TEST, "def test_add():\n    assert add(1, 2) == 3\n", {"assertion_removed"}),
        (TEST, TEST.replace("== 3", "in (3, -1)"), {"assertion_loosened"}),
        (TEST, TEST.replace("add(1, 2) == 3", "add(1, 2)"), {"assertion_loosened"}),
        (TEST, TEST.replace("add(1, 2) == 3", "add(1, 2) == 3 or True"), {"assertion_loosened", "always_true"}),
        (TEST, TEST.replace("add(1, 2) == 3", "True"), {"assertion_loosened", "always_true"}),
        (TEST, TEST.replace("add(1, 2) == 3", "(add(1, 2) == 3, 'm')"), {"always_true"}),
        (TEST, TEST.replace("():\n", "():\n    return\n"), {"test_emptied"}),
        (TEST, TEST.replace("():\n", "():\n    if add:\n        return\n"), {"early_return"}),
        (
            TEST,
            "def test_add():\n    try:\n        assert add(1, 2) == 3\n        assert add(0, 0) == 0\n"
            "    except Exception:\n        pass\n",
            {"failure_swallowed"},
        ),
        (
            TEST,
            "def test_add():\n    with contextlib.suppress(AssertionError):\n        assert add(1, 2) == 3\n"
            "        assert add(0, 0) == 0\n",
            {"failure_swallowed"},
        ),
        (
            TEST,
            "def test_add():\n    if False:\n        assert add(1, 2) == 3\n        assert add(0, 0) == 0\n",
            {"test_emptied"},
        ),
        (
            TEST,
            "def test_add():\n    def inner():\n        assert add(1, 2) == 3\n        assert add(0, 0) == 0\n",
            {"test_emptied"},
        ),
        (TEST, TEST + "\ndef test_add():\n    assert add\n", {"test_shadowed", "assertion_removed"}),
        (TEST, TEST + "\ntest_add = None\n", {"collection_changed"}),
        (TEST, TEST + "\ndel test_add\n", {"collection_changed"}),
        (TEST, TEST + "\ntest_add.__test__ = False\n", {"collection_changed"}),
        (TEST, TEST.replace("== 3", "== -1"), {"test_changed"}),
        (CASES, CASES.replace(", (3, 4)", ""), {"parameters_removed"}),
        (CASES, CASES.replace("[(1, 2), (3, 4)]", "load()"), {"parameters_removed"}),
        (CASES, CASES.replace("(3, 4)", "pytest.param(3, 4, marks=pytest.mark.skip)"), {"test_skipped"}),
        (CLASS, CLASS.replace("(unittest.TestCase)", "").replace("TestAdd", "Add"), {"test_renamed"}),
        (CLASS, CLASS.replace("    def", "    __test__ = False\n    def"), {"collection_changed"}),
        (CLASS, CLASS.replace("class", "@unittest.skip('x')\nclass"), {"test_skipped"}),
        (CLASS, CLASS.replace("assertEqual(add(1, 1), 2)", "assertTrue(add(1, 1))"), {"assertion_loosened"}),
        (
            "def test_bad():\n    with pytest.raises(ValueError):\n        add(None, 1)\n",
            "def test_bad():\n    with pytest.raises(Exception):\n        add(None, 1)\n",
            {"assertion_loosened"},
        ),
        (
            "def check(x):\n    assert x == 3\n\ndef test_add():\n    check(add(1, 2))\n",
            "def check(x):\n    pass\n\ndef test_add():\n    check(add(1, 2))\n",
            {"test_emptied"},
        ),
        (TEST, "def test_add(:\n", {"unreadable"}),
        (TEST, TEST + "\nimport os\nos._exit(0)\n", {"exit_status_hook", "collection_changed"}),
        (TEST, TEST + "\npytest.fail = print\n", {"exit_status_hook", "collection_changed"}),
        (TEST, TEST + "\ndef setup_module():\n    pass\n", {"collection_changed"}),
        (TEST, "from fake import add\n" + TEST, {"test_changed"}),
    ],
)
def test_python_tests_that_say_less(findings: Changes, old: str, new: str, kinds: set[str]) -> None:
    found = findings({"tests/test_calc.py": HEAD + old}, {"tests/test_calc.py": HEAD + new})
    assert {finding.kind for finding in found} == kinds
    assert all(finding.path == "tests/test_calc.py" and finding.hunk.startswith("@@ ") for finding in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TEST, TEST + "\ndef test_more():\n    assert add(2, 2) == 4\n"),
        (TEST, "# a comment\n" + TEST.replace("    assert add(1", "\n    assert  add(1")),
        (CASES, CASES.replace("(3, 4)]", "(3, 4)]").replace("import", "import")),
        (CLASS, CLASS + "\n    def test_two(self):\n        self.assertEqual(add(1, 2), 3)\n"),
        (
            TEST,
            "import sys\nfrom unittest import mock\n\n"
            + TEST
            + "\ndef test_new():\n    with mock.patch('sys.exit'):\n        assert add(1, 1) == 2\n",
        ),
    ],
)
def test_python_tests_that_say_no_less(findings: Changes, old: str, new: str) -> None:
    assert findings({"tests/test_calc.py": HEAD + old}, {"tests/test_calc.py": HEAD + new}) == ()


@pytest.mark.parametrize("mark", ["pytestmark = pytest.mark.anyio", "class TestX:\n    pytestmark = pytest.mark.slow"])
def test_a_mark_for_new_tests_alone_takes_nothing_away(findings: Changes, mark: str) -> None:
    assert findings({}, {"tests/test_new.py": f"{HEAD}{mark}\n\n{TEST}"}) == ()


def test_a_moved_test_is_not_gone(findings: Changes) -> None:
    (found,) = findings({"test_a.py": HEAD + TEST}, {"test_a.py": None, "tests/test_b.py": HEAD + TEST})
    assert (found.kind, found.detail) == ("test_renamed", "`test_add` is `tests/test_b.py::test_add` now")
    assert "-def test_add():" in found.hunk


def test_a_test_under_another_name_is_told_from_one_whose_double_stays(findings: Changes) -> None:
    renamed = TEST.replace("test_add", "test_sum")
    (found,) = findings({"test_a.py": HEAD + TEST}, {"test_a.py": HEAD + renamed})
    assert (found.kind, found.detail) == ("test_renamed", "`test_add` is called `test_sum` now")
    (found,) = findings({"test_a.py": HEAD + TEST + "\n" + renamed}, {"test_a.py": HEAD + renamed})
    assert found.kind == "test_deleted"


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ({"test_a.py": HEAD + TEST.replace("== 3", "== 4")}, "test_changed"),
        ({"test_a.py": HEAD + "@pytest.mark.skip\n" + TEST}, "test_skipped"),
        ({"test_a.py": None}, "test_deleted"),
        ({"conftest.py": "X = 2\n"}, "config_changed"),
        ({".github/workflows/ci.yml": "on: pull_request\n"}, "ci_changed"),
        ({"sitecustomize.py": "x = 1\n"}, "runner_shadowed"),
        ({"pytest/__init__.py": ""}, "runner_shadowed"),
        ({"calc.py": "import os\nif 'PYTEST_CURRENT_TEST' in os.environ:\n    x = 1\n"}, "aware_of_tests"),
    ],
)
def test_only_what_a_step_names_with_a_reason_is_excused_and_it_is_shown_all_the_same(
    findings: Changes, after: Files, kind: str
) -> None:
    before = {"test_a.py": HEAD + TEST, "conftest.py": "X = 1\n", ".github/workflows/ci.yml": "on: push\n"}
    draft = findings.draft(before, after)
    (path,) = after
    for said, excused in (
        (plan("the issue asks for it", path), True),
        (plan("the issue asks for it", "test_other.py"), False),
        (plan("  ", path), False),
        (None, False),
    ):
        found = check(draft.base, draft, said)
        assert {one.kind for one in found} == {kind}
        assert all(one.excused is excused for one in found)
        # A new empty file has no line to show; the finding names it.
        assert all(one.hunk.startswith("@@ ") for one in found) or path == "pytest/__init__.py"


def test_a_reason_for_one_file_gives_up_the_tests_of_that_file_alone(findings: Changes) -> None:
    go = 'package calc\n\nfunc TestSum(t *testing.T) { t.Run("zero", f) }\n'
    before = dict.fromkeys(("test_a.py", "test_other.py", "tests/test_c.py"), HEAD + TEST) | {"sub/calc_test.go": go}
    draft = findings.draft(before, {"test_a.py": None, "test_other.py": None, "sub/calc_test.go": None})
    lost = {
        "test_a.py::test_add",
        "test_a.py::TestInherited::test_more[1]",
        "test_other.py::test_add",
        "tests/test_c.py::test_add",
        "example.com/calc/sub::TestSum/zero",
        "example.com/calc/sub::TestOther",
    }
    assert given_up(draft, plan("it is asked for", "test_a.py", "conftest.py"), lost) == {
        "test_a.py::test_add",
        "test_a.py::TestInherited::test_more[1]",
    }
    assert given_up(draft, plan("it is asked for", "sub/calc_test.go"), lost) == {"example.com/calc/sub::TestSum/zero"}
    assert given_up(draft, plan("", "test_a.py"), lost) == given_up(draft, None, lost) == frozenset()


def test_the_hunk_shows_the_test_and_nothing_else(findings: Changes) -> None:
    many = "".join(f"def test_{n}():\n    assert add({n}, 1) == {n} + 1\n\n\n" for n in range(20))
    (found,) = findings(
        {"test_a.py": HEAD + many},
        {"test_a.py": HEAD.replace("import", "import sys, ", 1) + many.replace("add(15, 1) == 15", "add(15, 1) >= 15")},
    )
    assert "-    assert add(15, 1) == 15 + 1\n+    assert add(15, 1) >= 15 + 1" in found.hunk
    assert "import sys" not in found.hunk


@pytest.mark.parametrize(
    ("path", "old", "new", "kinds"),
    [
        ("pytest.ini", "[pytest]\n", "[pytest]\naddopts = --deselect x\n", {"config_changed"}),
        (
            "pyproject.toml",
            "[project]\nname = 'a'\n",
            "[project]\nname = 'a'\n[tool.pytest.ini_options]\naddopts = '-k x'\n",
            {"config_changed"},
        ),
        ("pyproject.toml", "[project]\nname = 'a'\n", "[project]\nname = 'a'\ndependencies = ['x']\n", set()),
        ("pyproject.toml", "project = 3\ntool = 4\n", "project = {entry-points = 5}\n", set()),
        ("pyproject.toml", "[project]\nname = 'a'\n", "a = " + "[" * 5_000, {"config_changed"}),
        ("package.json", "{}", "[" * 100_000, {"config_changed"}),
        (
            "pyproject.toml",
            "[tool.coverage.report]\nfail_under = 90\n",
            "[tool.coverage.report]\nfail_under = 9\n",
            {"config_changed"},
        ),
        (
            "setup.cfg",
            "[metadata]\nname = a\n",
            "[metadata]\nname = a\n[tool:pytest]\naddopts = -x\n",
            {"config_changed"},
        ),
        ("setup.cfg", "[metadata]\nname = a\n", "[metadata]\nname = b\n", set()),
        ("tox.ini", "[tox]\n", "[tox]\nskipsdist = true\n", {"config_changed"}),
        ("runtests.py", "main()\n", "print('Ran 1 test in 0.1s')\n", {"config_changed"}),
        ("manage.py", "main()\n", "print('Ran 1 test in 0.1s')\n", {"config_changed"}),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', {"config_changed"}),
        (
            "package.json",
            '{"scripts": {"test": "jest"}}',
            '{"scripts": {"test": "jest"}, "dependencies": {"a": "1"}}',
            set(),
        ),
        ("Makefile", "test:\n\tpytest\nbuild:\n\tcc\n", "test:\n\tpytest || true\nbuild:\n\tcc\n", {"config_changed"}),
        ("Makefile", "test:\n\tpytest\nbuild:\n\tcc\n", "test:\n\tpytest\nbuild:\n\tgcc\n", set()),
        (".github/workflows/ci.yml", "on: push\n", "on: never\n", {"ci_changed"}),
        (".github/workflows/ci.yml", None, "on: push\n", set()),
        ("sitecustomize.py", None, "import os\n", {"runner_shadowed"}),
        ("pytest.py", None, "def main(): return 0\n", {"runner_shadowed"}),
        ("src/unittest/__init__.py", None, "\n", {"runner_shadowed"}),
        ("re.py", None, "\n", {"runner_shadowed"}),
        ("pkg/re.py", None, "\n", set()),
        ("conftest.py", None, "import pytest\n\n@pytest.fixture\ndef x():\n    return 1\n", set()),
        ("conftest.py", None, "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n", {"exit_status_hook"}),
        ("conftest.py", "X = 1\n", "X = 2\n", {"config_changed"}),
        ("conftest.py", "X = 1\n", "X = 1\ncollect_ignore = ['test_a.py']\n", {"collection_changed"}),
        ("calc.py", "x = 1\n", "import os\nx = 'PYTEST_CURRENT_TEST' in os.environ\n", {"aware_of_tests"}),
        ("shop/settings.py", "x = 1\n", "x = 1\nTEST_RUNNER = 'shop.runner.Quiet'\n", {"aware_of_tests"}),
        ("calc.py", "x = 1\n", "import os\nos._exit(0)\n", {"exit_status_hook"}),
        ("calc.py", "x = 1\n", "import atexit\natexit.register(print)\n", set()),
        ("calc.py", "x = 1\n", "from os import _exit\n_exit(0)\n", {"exit_status_hook"}),
        ("calc.py", "x = 1\n", "import os\ngetattr(os, '_exit')(0)\n", {"exit_status_hook"}),
        ("setup.py", "setup()\n", "setup(entry_points={'pytest11': ['x = calc']})\n", {"exit_status_hook"}),
        ("pyproject.toml", "", "[tool.poetry.plugins.pytest11]\nx = 'calc'\n", {"config_changed"}),
        ("conftest.py", None, "import calc\ncalc.add = print\n", {"collection_changed"}),
        ("conftest.py", "import calc\n", "import calc\ncalc.add = print\n", {"collection_changed"}),
        ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest\n.IGNORE:\n", {"config_changed"}),
        ("tsconfig.build.json", '{"strict": true}', "{}", {"config_changed"}),
        (".npmrc", None, "node-options=--require ./x.js\n", {"config_changed"}),
        ("scripts/test.sh", "pytest\n", "pytest || true\n", {"config_changed"}),
        (".cargo/config.toml", "a = 1\n", "a = 2\n", {"config_changed"}),
        ("go.mod", "module a\n", "module a\nreplace x => ./x\n", {"config_changed"}),
        ("go.mod", "module a\n", "module a\nrequire x v1.0.0\n", set()),
        (
            "package.json",
            '{"scripts": {"test": "npm run unit", "unit": "jest"}}',
            '{"scripts": {"test": "npm run unit", "unit": "true"}}',
            {"config_changed"},
        ),
        ("package.json", "{}", '{"devDependencies": {"jest": "file:./fake"}}', {"config_changed"}),
        ("__mocks__/fs.js", None, "module.exports = {}\n", {"runner_shadowed"}),
        ("a.js", "x\n", "process.exitCode = 0\n", {"exit_status_hook"}),
        ("a.js", "x\n", "process.exit(2)\n", set()),
        ("src/lib.rs", "x\n", "if cfg!(test) { return 3; }\n", {"aware_of_tests"}),
        ("tests/data/expected.json", "1\n", "2\n", {"test_changed"}),
        ("tests/data/expected.json", None, "2\n", set()),
        ("tests/data/expected.json", "1\n", None, {"test_deleted"}),
    ],
)
def test_what_decides_how_tests_run(
    findings: Changes, path: str, old: str | None, new: str | None, kinds: set[str]
) -> None:
    found = findings({"README": "x", path: old}, {path: new})
    assert {finding.kind for finding in found} == kinds


@pytest.mark.parametrize(
    ("path", "old", "new", "kinds"),
    [
        (
            "a.test.js",
            "it('adds', () => {\n  expect(add(1)).toBe(2)\n})\n",
            "it.skip('adds', () => {\n  expect(add(1)).toBe(2)\n})\n",
            {"test_skipped", "test_changed"},
        ),
        (
            "a.test.js",
            "it('adds', () => {\n  expect(add(1)).toBe(2)\n})\n",
            "it('adds', () => {\n})\n",
            {"assertion_removed", "test_changed"},
        ),
        (
            "a.test.js",
            "it('adds', () => {})\n",
            "xit('adds', () => {})\n",
            {"test_skipped", "test_changed", "test_deleted"},
        ),
        (
            "a.test.js",
            "it('adds', () => {})\n",
            "it('adds', () => {})\nit.only('b', () => {})\n",
            {"collection_changed"},
        ),
        ("a.test.js", "it('adds', () => {})\n", "it('adds', () => {})\nit('b', () => {})\n", set()),
        (
            "a_test.go",
            "func TestA(t *testing.T) {\n}\n",
            "func TestA(t *testing.T) {\n\tt.Skip()\n}\n",
            {"test_skipped"},
        ),
        (
            "a_test.go",
            "func TestA(t *testing.T) {\n}\n",
            "func testA(t *testing.T) {\n}\n",
            {"test_deleted", "test_changed"},
        ),
        (
            "tests/a.rs",
            "#[test]\nfn a() { assert_eq!(1, 1); }\n",
            "#[test]\n#[ignore]\nfn a() { assert_eq!(1, 1); }\n",
            {"test_skipped"},
        ),
        (
            "ATest.java",
            "@Test\nvoid adds() { assertEquals(1, 1); }\n",
            "@Disabled\n@Test\nvoid adds() { assertEquals(1, 1); }\n",
            {"test_skipped"},
        ),
        ("spec/a_spec.rb", "it 'adds' do\nend\n", None, {"test_deleted"}),
        ("__snapshots__/a.snap", "x\n", "y\n", {"test_changed"}),
        ("main_test.go", None, "func TestMain(m *testing.M) {\n\tos.Exit(0)\n}\n", {"exit_status_hook"}),
        ("new.test.js", None, "it.only('b', () => {})\n", {"collection_changed"}),
        ("new.test.js", None, f"{'f();' * 2_000}it.only('b', f)\n", {"collection_changed"}),
        (
            "a.test.js",
            f"{'f();' * 2_000}\n",
            f"{'f();' * 2_000}process.exit(0)\n",
            {"exit_status_hook", "test_changed"},
        ),
        ("a.test.js", f"{'f();' * 50_000}x()\n", f"{'f();' * 50_000}y()\n", {"test_changed"}),
    ],
)
def test_other_languages(findings: Changes, path: str, old: str | None, new: str | None, kinds: set[str]) -> None:
    assert {finding.kind for finding in findings({"README": "x", path: old}, {path: new})} == kinds


def test_a_fixture_nearer_to_existing_tests_takes_the_place_of_theirs(findings: Changes) -> None:
    fixture = "import pytest\n\n@pytest.fixture\ndef {name}():\n    return 1\n"
    before = {"a/test_a.py": "def test_a(tmp_path, client):\n    assert client\n"}
    (found,) = findings(before, {"a/conftest.py": fixture.format(name="client")})
    assert (found.kind, "`client`" in found.detail) == ("collection_changed", True)
    assert findings(before, {"b/conftest.py": fixture.format(name="client")}) == ()
    assert findings(before, {"a/conftest.py": fixture.format(name="server")}) == ()


def test_hostile_files_cost_no_time_and_no_crash(findings: Changes) -> None:
    deep = "x = " + "(" * 150 + "1" + ")" * 150 + "\n" + "y = " + "+".join(["1"] * 20_000) + "\n"
    data = "".join(f"{n}\n" for n in range(50_000))
    mini = "it('" * 200_000
    found = findings(
        {"test_a.py": HEAD + TEST, "tests/d.txt": data, "a.test.js": "it('a', () => {})\n", "b.py": "x = 1\n"},
        {
            "test_a.py": HEAD + TEST + deep,
            "tests/d.txt": "new\n" + data[100:],
            "a.test.js": "it('a', () => {})\n" + mini,
            "b.py": deep,
        },
    )
    assert {(finding.path, finding.kind) for finding in found} >= {("tests/d.txt", "test_changed")}


def test_paths_of_tests_and_of_what_configures_them() -> None:
    tests = ["test_a.py", "a/tests/b.txt", "a_test.go", "src/a.test.ts", "spec/a_spec.rb", "src/test/java/ATest.java"]
    others = ["a.py", "src/contest.py", "src/pkg/testing/helpers.py", "latest.py", "protest/a.py", "docs/testing.md"]
    assert [path for path in tests + others if is_test(path)] == tests
    configured = [
        "conftest.py",
        "a/pytest.ini",
        "package.json",
        ".github/workflows/a.yml",
        "Makefile",
        "sitecustomize.py",
    ]
    assert [path for path in [*configured, "a.py", "README.md"] if is_test_config(path)] == configured


def test_scripts_that_call_each_other_are_followed_in_bounded_time(findings: Changes) -> None:
    scripts = {"test": "run s0", **{f"s{n}": f"run s{n + 1}" for n in range(4_000)}}
    found = findings({"package.json": "{}"}, {"package.json": json.dumps({"scripts": scripts})})
    assert {problem.kind for problem in found} == {"config_changed"} and len(found) == 51


@pytest.mark.parametrize(
    "line",
    [
        "_ = setattr(pkg, 'add', fake)",
        "class TestX:\n    pkg.add = fake",
        "pkg.__dict__['add'] = fake",
        "vars(pkg).update(add=fake)",
        "exec('pkg.add = fake')",
        "sys.modules['pkg'] = fake",
        "mock.patch('pkg.add', fake).start()",
        "for change in [setattr]:\n    change(pkg, 'add', fake)",
        "match 1:\n    case 1:\n        pkg.add = fake",
        "[setattr(pkg, 'add', fake) for _ in '1']",
        "for pkg.add in [fake]:\n    pass",
        "with nullcontext(fake) as pkg.add:\n    pass",
        "(pkg.add,) = [fake]",
    ],
)
def test_a_new_file_that_reaches_into_others_as_it_is_imported_is_found(findings: Changes, line: str) -> None:
    (found,) = findings(
        {}, {"tests/test_new.py": f"import pkg\n\n{line}\n\n\ndef test_x():\n    assert pkg.add(1, 1) == 2\n"}
    )
    assert (found.kind, found.path) == ("collection_changed", "tests/test_new.py")


@pytest.mark.parametrize(
    "source",
    [
        "import os\n\nos.environ['A'] = 'b'\nCASES = {'a': 1}\nCASES.update(b=2)\nCASES['c'] = 3\n",
        "class Fake:\n    value = 1\n\n    def __init__(self):\n        self.value = 2\n",
        "def fake(x):\n    x.y = 1\n\n\nadd = lambda thing: setattr(thing, 'x', 1)\n",
        "if __name__ == '__main__':\n    import sys\n\n    sys.stdout = None\n",
    ],
)
def test_a_new_file_may_set_up_what_is_its_own(findings: Changes, source: str) -> None:
    assert not findings({}, {"tests/test_new.py": f"{source}\n\ndef test_x():\n    assert f(1) == 2\n"})


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tests/conftest.py", "from pkg.hooks import p as pytest_collection_modifyitems\n"),
        ("tests/conftest.py", "pytest_runtest_makereport = lambda item, call: None\n"),
        ("tests/conftest.py", "globals()['pytest_collection_modifyitems'] = lambda items: items.clear()\n"),
        ("pkg.py", "class A(int):\n    __eq__ = lambda self, other: True\n"),
        ("pkg.py", "class A(int):\n    def __eq__(self, other):\n        'Equal.'\n        return not False\n"),
        ("pkg.py", "import unittest as u\nT = u.TestCase\nT.assertEqual = lambda *a: None\n"),
    ],
)
def test_what_decides_outcomes_is_found_in_any_spelling(findings: Changes, path: str, source: str) -> None:
    assert "exit_status_hook" in kinds(findings({}, {path: source}))


@pytest.mark.parametrize(
    "line",
    [
        "T = 'PYTEST' in str(os.environ)",
        "T = any(name.startswith('PYTEST') for name in os.environ)",
        "T = bool({'pytest'} & set(sys.modules))",
        "T = 'pytest' in sys.argv[0]",
        "T = sys.argv[0].endswith('pytest')",
        "T = 'pytest' not in set(sys.modules)",
    ],
)
def test_looking_for_the_runner_is_found_in_any_spelling(findings: Changes, line: str) -> None:
    assert kinds(findings({}, {"pkg.py": f"{line}\n"})) == {"aware_of_tests"}


@pytest.mark.parametrize(
    "line", ["run(['pytest', '-q'])", "extras = ['pytest']", "def __eq__(self, other): return self.a is True"]
)
def test_naming_the_runner_is_nothing(findings: Changes, line: str) -> None:
    assert not findings({}, {"pkg.py": f"{line}\n"})


def test_a_compiled_module_shadows_the_runner_too(findings: Changes) -> None:
    for name in ("pytest.pyc", "unittest.cpython-311-x86_64-linux-gnu.so", "tests/pluggy.pyd"):
        assert kinds(findings({}, {name: "x"})) == {"runner_shadowed"}


def test_a_mark_that_moves_to_another_test_is_found(findings: Changes) -> None:
    one, other = (f"func Test{n}(t *testing.T) {{\n\tif f() != 1 {{\n\t\tt.Error()\n\t}}\n}}\n" for n in "AB")
    skipped = "{\n\tt.Skip()\n"
    found = findings(
        {"a_test.go": one.replace("{\n", skipped, 1) + other}, {"a_test.go": one + other.replace("{\n", skipped, 1)}
    )
    assert "test_changed" in kinds(found)
