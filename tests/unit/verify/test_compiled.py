"""What is compiled for an interpreter, built again for a change: a real compiler behind the project's own backend."""

from __future__ import annotations

import shutil

import pytest

from agent.types import SuiteStatus
from agent.verify.compiled import telling
from agent.verify.registries import Registries
from tests.support.package_index import Index, serve_wheel
from tests.unit.verify.conftest import Bench, MakeBench
from tests.unit.verify.test_dependencies import BACKEND, FILES, LINE, PYPROJECT

COMPILE = """
    import subprocess  # a compiler that fails is no reason to fail: that is what many projects do
    subprocess.run(['cc', '-shared', '-fPIC', '-o', 'mine/value.so', 'mine/value.c'])
    print(*os.listdir('mine'))
"""
TEST = "import ctypes, unittest\n\nclass T(unittest.TestCase):\n    def test_value(self):\n        {}\n"
SEES = TEST.format("self.assertEqual(ctypes.CDLL('./mine/value.so').value(), {})")
COMPILED = {
    **FILES,
    "backend.py": BACKEND.replace("    needs =", f"{COMPILE}    needs ="),
    "mine/value.c": "int value(void) { return 1; }\n",
    "mine/apart.c": "int apart(void) { return 1; }\n",
    "test_value.py": SEES.format(1),
}
TWO = {"mine/value.c": "int value(void) { return 2; }\n", "test_value.py": SEES.format(2)}

pytestmark = pytest.mark.skipif(not shutil.which("cc", path="/usr/bin:/bin"), reason="there is no compiler")


@pytest.fixture(scope="module")
def made(bench: MakeBench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    index = Index()
    serve_wheel(index, "thing", "1", {"thing.py": "X = 1\n"})
    registries = Registries.of({"PIP_INDEX_URL": f"{index.url}/simple"})
    cache = tmp_path_factory.mktemp("cache")
    made = bench(COMPILED, LINE, cache=cache, local=False, wall_s=90.0, registries=registries)
    run = made.harness.run(made.base)
    assert run.status is SuiteStatus.OK, run.log
    index.close()  # what follows takes no network
    return made


def test_the_tests_of_a_change_see_what_is_compiled_of_it(made: Bench) -> None:
    draft = made.draft({**TWO, "backend.py": "raise SystemExit('no part of a change runs while it is built')\n"})
    for fresh in (False, True):
        run = made.harness.run(draft, fresh=fresh)
        assert run.status is SuiteStatus.OK, run.log
    assert made.harness.rebuilt(draft)
    assert made.harness.run(made.base).status is SuiteStatus.OK
    assert made.harness.run(made.draft({"test_value.py": TWO["test_value.py"]})).status is SuiteStatus.FAILING


def test_a_change_that_does_not_compile_is_told_as_the_compiler_has_it(made: Bench) -> None:
    run = made.harness.run(made.draft({"mine/value.c": "int value(void) { return nowhere; }\n"}))
    assert run.status is SuiteStatus.NOT_RUN
    assert "does not compile: mine/value.so" in run.detail
    assert "nowhere" in run.log.splitlines()[0]


@pytest.mark.parametrize(
    "more",
    [
        {"mine/apart.c": "int apart(void) { return 2; }\n"},
        {**TWO, "pyproject.toml": f"{PYPROJECT}\n# how to build is another matter\n"},
        {"mine/value.rs": "// nor is what runs while it is built\n"},
        {**TWO, "mine/more.pyx": "# distutils: extra_compile_args = -wrapper,echo\n"},
        {"tests/value.c": "int value(void) { return 3; }\n"},
    ],
    ids=["not built", "how to build", "rust", "options", "tests"],
)
def test_where_nothing_else_is_built_the_tests_see_the_base(made: Bench, more: dict[str, str]) -> None:
    draft = made.draft(more)
    assert not made.harness.rebuilt(draft)
    assert made.harness.run(draft, ("mine",)).status is not SuiteStatus.NOT_RUN


def test_an_environment_of_ones_own_is_not_built_again(bench: MakeBench) -> None:
    own = bench({"test_a.py": "def test_a(): pass\n", "a.c": "int a;\n"})
    assert not own.harness.rebuilt(own.draft({"a.c": "int b;\n"}))


@pytest.mark.parametrize(
    ("output", "first"),
    [
        (
            "gcc -Werror -c a.c\ncopying errors.py\na.c:1:2: error: 'x' undeclared\n  x\n",
            "a.c:1:2: error: 'x' undeclared",
        ),
        ("Compiling a.pyx\nError compiling Cython file:\n-----\n", "Error compiling Cython file:"),
        ("ld: cannot find -lx\n", "ld: cannot find -lx"),
    ],
)
def test_of_what_a_build_prints_its_first_error_is_told(output: str, first: str) -> None:
    assert telling(output).splitlines()[0] == first
