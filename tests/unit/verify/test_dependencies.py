"""What is shared between trees, and what never is. Real package clients, with a registry on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.types import SuiteStatus, TestRun
from agent.verify.registries import Registries
from agent.verify.store import Store
from agent.verify.toolchains import setup_line
from agent.verify.toolchains.go import prepare as prepare_go
from agent.verify.toolchains.node import prepare as prepare_node
from agent.verify.toolchains.python_needs import needed, needed_to_build
from agent.verify.toolchains.python_setup import read_by
from tests.support.package_index import Index, serve_npm, serve_wheel
from tests.support.snapshot import Snapshot
from tests.unit.verify.conftest import Bench, MakeBench

# Builds what it is told to by the project's own files, and leaves something behind if they say so.
BACKEND = """
import os, pathlib, re, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    version = re.search('[0-9.]+', pathlib.Path('mine/__init__.py').read_text())[0]
    needs = pathlib.Path('needs.txt').read_text().split()
    if pathlib.Path('poison').exists():
        (site,) = pathlib.Path('/environment/venv/lib').glob('python3*/site-packages')
        (site / 'poison.py').write_text('')
        for path in site.rglob('thing.py'):
            path.write_text('X = "poison"')
    name = f'mine-{version}.dist-info'
    with zipfile.ZipFile(f'{folder}/mine-{version}-py3-none-any.whl', 'w') as archive:
        archive.writestr('mine.pth', os.getcwd())
        requires = ''.join(f'Requires-Dist: {need}\\n' for need in needs)
        archive.writestr(f'{name}/METADATA', f'Metadata-Version: 2.1\\nName: mine\\nVersion: {version}\\n{requires}')
        archive.writestr(f'{name}/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')
        archive.writestr(f'{name}/RECORD', '')
    return f'mine-{version}-py3-none-any.whl'
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = 'backend'
backend-path = ['.']
[project]
name = 'mine'
dynamic = ['version']
dependencies = ['thing']
"""
TEST = """
import importlib.metadata, importlib.util, unittest
import mine, thing

class Tests(unittest.TestCase):
    def test_it(self):
        self.assertEqual(importlib.metadata.version('mine'), mine.VERSION)
        self.assertEqual(thing.X, 1)
        self.assertIsNone(importlib.util.find_spec('poison'))
"""
FILES: Mapping[str, str] = {
    "pyproject.toml": PYPROJECT,
    "backend.py": BACKEND,
    "needs.txt": "thing",
    "mine/__init__.py": "VERSION = '1.0'\n",
    "test_it.py": TEST,
}


@pytest.fixture
def python_index(index: Index) -> Index:
    serve_wheel(index, "thing", "1", {"thing.py": "X = 1\n"})
    return index


class Commits:
    """One repository's trees, one after the other, with one cache."""

    def __init__(self, bench: MakeBench, cache: Path, **options: Any) -> None:
        self._make = bench
        self._options = {"cache": cache, "local": False, "wall_s": 90.0, **options}

    def test(self, files: Mapping[str, str], line: str) -> tuple[Bench, TestRun]:
        made = self._make(files, line, **self._options)
        run = made.harness.run(made.base)
        made.harness.close()
        return made, run


@pytest.fixture
def commits(bench: MakeBench, python_index: Index, machine_cache: Path, tmp_path: Path) -> Commits:
    registries = Registries.of({"PIP_INDEX_URL": f"{python_index.url}/simple"})
    return Commits(bench, machine_cache, registries=registries, repository=str(tmp_path))


LINE = "python -m unittest -v"


def set_up(made: Bench) -> list[tuple[str, ...]]:
    """The commands of its set-up."""
    return [event["argv"] for event in made.events.events if event.get("text") == "set-up command"]


def test_another_commit_with_the_same_needs_uses_no_network(commits: Commits, python_index: Index) -> None:
    """The version comes from a source file: the project itself is installed for each tree."""
    first, run = commits.test(FILES, LINE)
    assert (run.status, first.harness.environment.source) == (SuiteStatus.OK, "installed"), run.log
    assert "/files/thing-1-py3-none-any.whl" in python_index.asked
    python_index.close()

    second, run = commits.test({**FILES, "mine/__init__.py": "VERSION = '1.1'\n"}, LINE)
    assert (run.status, second.harness.environment.source) == (SuiteStatus.OK, "installed"), run.log
    assert len([argv for argv in set_up(second) if "install" in argv]) == 1
    assert second.harness.environment.notes == ()

    again, run = commits.test(FILES, LINE)
    assert (run.status, again.harness.environment.source) == (SuiteStatus.OK, "cached"), run.log


@pytest.mark.parametrize(
    "changes",
    [
        ({"requirements.txt": "more0\n"}, {"requirements.txt": "-r more/needs.txt\n", "more/needs.txt": "more1\n"}),
        # The second is known to the build alone.
        ({"pyproject.toml": PYPROJECT.replace("'thing'", "'thing', 'more0'")}, {"needs.txt": "thing more1"}),
    ],
    ids=["requirements", "project"],
)
def test_a_commit_that_needs_more_gets_it(
    commits: Commits, python_index: Index, changes: tuple[Mapping[str, str], ...]
) -> None:
    for number, changed in enumerate(changes):
        name = f"more{number}"
        serve_wheel(python_index, name, "1", {f"{name}.py": "X = 1\n"})
        _, run = commits.test({**FILES, **changed, "test_it.py": TEST.replace("mine", f"{name}, mine", 1)}, LINE)
        assert (run.status, run.detail) == (SuiteStatus.OK, ""), run.log


def test_what_a_proposed_change_leaves_behind_reaches_no_other_tree(commits: Commits) -> None:
    """Its build changes files of a dependency and adds a module; the tests of a later tree see neither."""
    commits.test(FILES, LINE)
    _, run = commits.test({**FILES, "poison": ""}, LINE)
    assert run.status is SuiteStatus.FAILING, run.log

    _, run = commits.test({**FILES, "mine/__init__.py": "VERSION = '1.2'\n"}, LINE)
    assert run.status is SuiteStatus.OK, run.log


def test_a_bare_environment_is_made_once_for_all_repositories(bench: MakeBench, machine_cache: Path) -> None:
    """No more than that: what one repository installs is not there in the next one."""
    leave = "touch $(echo /environment/venv/lib/python3*/site-packages)/left.py"
    first, second = (
        bench({"test_it.py": ""}, LINE, setup=(setup,), local=False, cache=machine_cache, repository=setup)
        for setup in (leave, ":")
    )
    for made in (first, second):
        made.harness.setup()
    assert not any("venv" in argv for argv in set_up(second))
    assert not list(Path(second.harness.environment.mounts[-1].source).rglob("left.py"))
    assert list(Path(first.harness.environment.mounts[-1].source).rglob("left.py"))


# ── npm ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PACKAGE = '{"name": "mine", "scripts": {"test": "node --test"}, "dependencies": {"thing": "1.0.0"}}'
NODE = {
    "package.json": PACKAGE,
    "a.test.js": "require('node:test').test('a', () => { require('thing'); });\n",
    "src/secret.js": "",
}


def node(bench: MakeBench, index: Index, cache: Path) -> Commits:
    path = os.environ["PATH"]
    return Commits(bench, cache, path=path, registries=Registries.of({"npm_config_registry": index.url}))


def test_node_modules_are_shared_by_trees_with_the_same_package_files(
    bench: MakeBench, index: Index, tmp_path: Path
) -> None:
    """They are made where there is nothing else of the repository, as an install script sees."""
    serve_npm(
        index, "thing", {"postinstall": "find $INIT_CWD -path '*/node_modules' -prune -o -type f -print > seen.txt"}
    )
    commits = node(bench, index, tmp_path / "cache")
    first, run = commits.test(NODE, "npm test")
    assert (run.status, first.harness.environment.source) == (SuiteStatus.OK, "installed"), run.log
    (seen,) = (tmp_path / "cache").rglob("seen.txt")
    assert seen.read_text().split() == ["/workspace/package.json"]
    index.close()

    second, run = commits.test({**NODE, "src/secret.js": "x"}, "npm test")
    assert (run.status, second.harness.environment.source) == (SuiteStatus.OK, "cached"), run.log


def test_node_modules_that_would_hide_files_of_a_tree_are_not_shared(
    bench: MakeBench, index: Index, tmp_path: Path
) -> None:
    serve_npm(index, "thing", {})
    commits = node(bench, index, tmp_path / "cache")
    commits.test(NODE, "npm test")
    files = {**NODE, "node_modules/own/index.js": "", "a.test.js": NODE["a.test.js"].replace("'thing'", "'own'")}

    _, run = commits.test(files, "npm test")

    assert run.status is SuiteStatus.OK, run.log


NPM = """#!/bin/sh
# Brings what is asked for into the folder that follows --prefix: a manager that installs one package.
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/bin" && for last; do :; done
printf '#!/bin/sh\\nmkdir -p node_modules && echo %s > node_modules/by\\n' "$last" > "$2/bin/${last%%@*}"
chmod 755 "$2/bin/${last%%@*}"
"""


def test_a_package_manager_that_is_not_there_is_brought_by_npm(bench: MakeBench, tmp_path: Path) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(NPM)
    for path in (npm, npm.parent, tmp_path):
        path.chmod(0o755)
    config = {
        "packageManager": "pnpm@10.1.2+sha1.ab",
        "devDependencies": {"a": "1"},
        "scripts": {"test": "node --test"},
    }
    files = {"package.json": json.dumps(config), "pnpm-lock.yaml": "lockfileVersion: '9.0'\n"}
    made = bench(files, local=False, path=f"{npm.parent}:/usr/bin:/bin", repository="pnpm", cache=tmp_path / "cache")
    found = made.harness.aside(made.base, "cat node_modules/by; command -v pnpm", made.harness.limits).finished
    assert found.output.decode().split() == ["pnpm@10.1.2", "/environment/node/bin/pnpm"]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"pnpm-lock.yaml": "lockfileVersion: '6.0'\n"}, "pnpm@8"),
        ({"pnpm-lock.yaml": "lockfileVersion: 5.4\n"}, "pnpm@7"),
        ({"pnpm-lock.yaml": "what is this\n"}, "pnpm@latest"),
        ({"yarn.lock": "# THIS IS AN AUTOGENERATED FILE.\n# yarn lockfile v1\n"}, "yarn@1"),
        ({"yarn.lock": "__metadata:\n  version: 8\n"}, "@yarnpkg/cli-dist@4"),
        ({"yarn.lock": "", "manager": "yarn@4.5.0"}, "@yarnpkg/cli-dist@4.5.0"),
        ({"yarn.lock": "", "manager": "yarn@1.22.22"}, "yarn@1.22.22"),
        ({"yarn.lock": "", "manager": "yarn@10.0.0"}, "@yarnpkg/cli-dist@10.0.0"),
        ({"yarn.lock": "__metadata:\n", "manager": "yarn@file:../evil"}, "@yarnpkg/cli-dist@4"),
        ({"pnpm-lock.yaml": "lockfileVersion: '9.0'\n", "manager": "pnpm@10.1.2-$(id)"}, "pnpm@10"),
    ],
)
def test_the_package_manager_is_the_one_that_wrote_the_lock_file(files: Mapping[str, str], wanted: str) -> None:
    config = {"packageManager": files.get("manager", ""), "devDependencies": {"a": "1"}}
    tree = {"package.json": json.dumps(config), **{name: text for name, text in files.items() if name != "manager"}}
    brought, install = prepare_node(Snapshot({path: text.encode() for path, text in tree.items()}))
    assert brought.argv[-1] == wanted
    assert brought.offline == (install.argv[0], "--version")


@pytest.mark.parametrize(
    ("changed", "shared"),
    [
        ({}, True),
        ({"package.json": PACKAGE.replace('"test"', '"prepare": "make", "test"')}, False),
        ({"package.json": PACKAGE.replace("1.0.0", "file:./thing")}, False),
        ({"package.json": PACKAGE.replace('"name"', '"workspaces": ["a"], "name"')}, False),
        ({"binding.gyp": "{}"}, False),
    ],
)
def test_npm_is_told_to_read_no_more_than_it_needs(changed: Mapping[str, str], shared: bool) -> None:
    (step,) = prepare_node(Snapshot({path: text.encode() for path, text in {**NODE, **changed}.items()}))
    assert (step.reads is not None) == shared


@pytest.mark.parametrize(
    ("module", "shared"), [(b"module a\n", True), (b"module a\nreplace b => ../b\n", False)], ids=["plain", "replaced"]
)
def test_go_reads_its_module_files(module: bytes, shared: bool) -> None:
    (step,) = prepare_go(Snapshot({"go.mod": module}))
    assert (step.reads is not None) == shared


# ── what Python's files tell ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a==1 # why\nb[c]>=2; python_version < '4'\n--index-url https://x.invalid\n", {"r.txt"}),
        (
            "-r more/r.txt\n-c limits.txt\na==1 \\\n  --hash=sha256:00\n",
            {"r.txt", "more/r.txt", "limits.txt", "more/x.txt"},
        ),
        ("a @ https://x.invalid/a.whl\n", {"r.txt"}),
        ("-e .\n", None),
        ("./local\n", None),
        ("a-1.0-py3-none-any.whl\n", None),
        ("a @ file:///workspace/a\n", None),
        ("--find-links wheels\n", None),
        ("$HOME/a\n", None),
    ],
)
def test_files_that_a_requirements_file_leads_to(text: str, read: set[str] | None) -> None:
    files = Snapshot(
        {"r.txt": text.encode(), "more/r.txt": b"-r x.txt\n", "more/x.txt": b"y\n", "limits.txt": b"z<1\n"}
    )
    assert read_by(files, "r.txt") == read


PEP_621 = b"""[project]
name = 'x'
dependencies = ['a']
optional-dependencies = {test = ['b', 'x[more]'], more = ['c']}
"""
SETUP_CFG = b"""[options]
install_requires =
    a>=1 # why
    b
[options.extras_require]
test =
    c
"""
PLACES = b"[project]\ndependencies = ['a @ file:./a', './b', '-e .', 'c @ git+https://h.invalid/c']"


@pytest.mark.parametrize(
    ("file", "content", "wanted"),
    [
        ("pyproject.toml", PEP_621, "a b c"),
        ("setup.py", b"setup(install_requires=['a'], extras_require={'test': ['b']})", "a b"),
        (
            "setup.py",
            b"N = ['a']\nE = {'test': ['b']}\nsetup(install_requires=N, extras_require=E)",
            "a b",
        ),
        ("setup.py", b"setup(install_requires=read())", ""),
        ("setup.cfg", SETUP_CFG, "a>=1 b c"),
        ("setup.cfg", b"[options]\ninstall_requires = file: r.txt\n", ""),
        ("pyproject.toml", b"[tool.poetry.dependencies]\npython = '^3.9'\na = '^1.2'\n", "a>=1.2,<2"),
        ("pyproject.toml", PLACES, "c"),
        ("pyproject.toml", b"project = 1", ""),
        ("pyproject.toml", b"[project]\ndependencies = 1\noptional-dependencies = {test = 3}", ""),
    ],
)
def test_what_a_project_says_it_needs(file: str, content: bytes, wanted: str) -> None:
    assert [word.split(" @")[0] for word in needed(Snapshot({file: content}), ("test",))] == wanted.split()


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("pip install -r r.txt -q pytest 'x[y]>=2'", {"r.txt", "more.txt"}),
        ("python -m pip install -U pytest==8.1", set()),
        ("pip install -c more.txt x", {"more.txt"}),
        ("npm ci --no-audit", {"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"}),
        ("pip install -r $FILE", None),
        ("pip install x && make", None),
        ("pip install x > log", None),
        ("pip install ./sub", None),
        ("pip install -r local.txt", None),
        ("pip install --target lib x", None),
        ("npm ci && npm run build", None),
        ("npm run build", None),
        ("pip download x", None),
        ("make", None),
        ("pip install 'x", None),
        ("X=1 pip install x", None),
    ],
)
def test_set_up_lines_that_are_understood(line: str, reads: set[str] | None) -> None:
    files = Snapshot({"r.txt": b"-r more.txt\n", "more.txt": b"a\n", "local.txt": b"-e .\n", "package.json": b"{}"})
    (step,) = setup_line.steps(line, files)
    assert step.argv[2] == line
    assert step.reads == reads


@pytest.mark.parametrize("line", ["pip install -e .", "pip3 install '.[test]' -r r.txt"])
def test_a_set_up_line_that_installs_the_project_is_tried_offline(line: str) -> None:
    files = Snapshot({"pyproject.toml": PEP_621, "r.txt": b"a\n"})
    needs, builders, project = setup_line.steps(line, files)
    assert needs.ahead and builders.ahead and project.argv[2] == line
    assert needs.argv[-1] == ("c" if "test" in line else "a")
    assert project.offline[2] == f"{line} --no-index --find-links /environment/.wheels"


def test_what_builds_a_project() -> None:
    hatch = Snapshot({"pyproject.toml": b"[build-system]\nrequires=['hatchling']\nbuild-backend='hatchling.build'"})
    assert needed_to_build(hatch) == ("hatchling", "editables")
    assert needed_to_build(Snapshot({"setup.py": b""})) == ("setuptools>=40.8.0", "wheel")


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────────


def make(store: Store, key: str, size: int) -> None:
    with store.making() as making:
        making.environment.mkdir()
        (making.environment / "data").write_bytes(b"x" * size)
        store.keep(making, key, {"key": key})


def kept(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def test_what_was_used_least_goes_first_and_never_what_is_in_use(tmp_path: Path) -> None:
    root, mine, other = tmp_path / "store", Store(tmp_path / "store", 3_000_000), Store(tmp_path / "store", 3_000_000)
    for number, key in enumerate("abc"):
        make(mine, key, 900_000)
        os.utime(root / key / "done.json", (number, number))
    mine.close()
    assert other.find("a") is not None
    os.utime(root / "a" / "done.json", (0, 0))

    make(mine, "d", 900_000)

    assert kept(root) == {"a", "c", "d"}
    other.close()
    make(mine, "e", 900_000)
    assert kept(root) == {"c", "d", "e"}
    mine.close()


def test_the_first_to_be_ready_wins_and_what_fails_leaves_nothing(tmp_path: Path) -> None:
    root, store = tmp_path / "store", Store(tmp_path / "store")
    with store.making() as slow:
        slow.environment.mkdir()
        make(Store(root), "a", 1)
        place = store.keep(slow, "a", {"key": "slow"})
    assert place.record["key"] == "a" and (place.environment / "data").exists()
    with pytest.raises(RuntimeError), store.making() as broken:
        broken.environment.mkdir()
        raise RuntimeError
    assert kept(root) == {"a"} and store.find("b") is None
    old = root / ".making-old"
    old.mkdir()
    os.utime(old, (0, 0))
    make(store, "b", 1)
    assert kept(root) == {"a", "b"}
    store.close()
