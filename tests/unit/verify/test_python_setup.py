"""What is installed for a Python project, and in which order."""

from __future__ import annotations

import shlex

import pytest

from agent.verify.toolchains.poetry import bounds
from agent.verify.toolchains.python_needs import extras, groups, poetry_groups, requirement_files
from agent.verify.toolchains.python_setup import steps
from tests.support.snapshot import Snapshot


def installed(files: dict[str, bytes]) -> list[tuple[str, ...]]:
    """The arguments of each ``pip install``; those of the project are on one shell line."""
    made = steps(Snapshot(files), "pytest")
    calls = [shlex.split(step.argv[2]) if step.argv[0] == "/bin/sh" else list(step.argv) for step in made]
    return [tuple(argv[argv.index("--quiet") + 1 :]) for argv in calls if "--quiet" in argv]


def test_the_project_takes_the_place_of_its_own_release_that_a_requirement_brought() -> None:
    made = installed({"pyproject.toml": b"[project]\nname = 'x'\n", "requirements/tests.txt": b"sphinx\n"})
    assert made[0] == ("-r", "requirements/tests.txt")
    assert made[-1][:3] == ("-e", ".", "||")


def test_a_project_whose_needs_can_not_be_had_is_installed_alone_and_the_failure_is_told() -> None:
    made = installed({"pyproject.toml": b"[project]\nname = 'x'\noptional-dependencies = {test = ['absent']}\n"})
    assert made[-1][:3] == ("-e", ".[test]", "||")
    less = " ".join(made[-1][3:])
    assert less.index("--quiet -e . ||") < less.index("--no-deps"), "what it needs itself before nothing"
    assert made[-1][-7:] == ("--quiet", "--no-deps", "-e", ".;", "exit", "1;", "}")


@pytest.mark.parametrize("content", [b"a = " + b"[" * 5_000, b"a = ", b"\xff", b"a = " + b"1" * 5_000, b"a." * 400_000])
def test_a_project_file_that_nobody_can_read_asks_for_nothing(content: bytes) -> None:
    assert installed({"pyproject.toml": content}) == [("--", "pytest")]


def test_tables_that_are_none_ask_for_nothing() -> None:
    odd = b"project = 3\ntool = 4\nbuild-system = 5\ndependency-groups = 6\n"
    assert installed({"pyproject.toml": odd})[-1][:3] == ("-e", ".", "||")


@pytest.mark.parametrize(
    "declared",
    [
        {"setup.cfg": b"[metadata]\ndescription = y\nname = my.pkg\n"},
        {"pyproject.toml": b"[project]\nname = 'my.pkg'\n"},
        {"pyproject.toml": b"[tool.poetry]\nname = 'my.pkg'\n"},
        {"setup.py": b"Extension(NAME)\nsetup(name='my.pkg')\n"},
    ],
)
def test_the_version_is_given_under_the_projects_own_name(declared: dict[str, bytes]) -> None:
    """Other tables have names too: sections of a changelog, entry points, other files' sections."""
    others = {
        "pyproject.toml": b"[[tool.towncrier.type]]\n  name = 'Deprecations and Removals'\n",
        "setup.cfg": b"[metadata]\ndescription = z\n[options.entry_points]\nname = other\n",
        "setup.py": b"import setuptools_scm\n",
    }
    files = {name: content + declared.get(name, b"") for name, content in others.items()}
    if "setup.cfg" in declared:
        files["setup.cfg"] = declared["setup.cfg"] + others["setup.cfg"].replace(b"[metadata]\n", b"[options]\n")
    made = steps(Snapshot(files), "pytest")
    assert made[-1].env["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_PKG"] == "999.0"


def test_what_developers_need_is_left_out_where_the_needs_of_tests_are_named() -> None:
    both = Snapshot(
        {
            "pyproject.toml": b"[project]\nname = 'x'\n[project.optional-dependencies]\ntests = ['a']\ndev = ['b']\n"
            b"[dependency-groups]\ntest = ['c']\ndev = ['d']\n",
            "requirements.txt": b"e\n",
            "requirements/tests.txt": b"f\n",
            "requirements/dev.txt": b"g\n",
        }
    )
    assert extras(both) == ("tests",)
    assert groups(both) == ("c",)
    assert requirement_files(both) == ("requirements.txt", "requirements/tests.txt")
    assert requirement_files(Snapshot({"requirements-dev.txt": b"g\n"})) == ("requirements-dev.txt",)


def test_dependency_groups_are_written_out() -> None:
    """pip before 25.1 has no ``--group``."""
    declared = b"[dependency-groups]\ntest = ['a', {include-group = 'Type_Checks'}, {include-group = 'test'}]\n"
    declared += b"type-checks = ['b>1', {include-group = 'absent'}, 3]\n"
    assert groups(Snapshot({"pyproject.toml": declared})) == ("a", "b>1")


def test_poetry_groups_are_written_out() -> None:
    declared = b"""
[tool.poetry.dev-dependencies]
pytest = "^7.2.0"
mypy = "^0.990"
tool = {git = "https://example.org/tool.git"}
typed = [{version = "~1.4", python = "<3.8"}, {version = "*", python = "^3.8", extras = ["fast"]}]
spare = {version = "1", optional = true}
odd = {version = "1.2", extras = 3, markers = "sys_platform == 'linux'"}
"""
    assert poetry_groups(Snapshot({"pyproject.toml": declared})) == (
        "pytest>=7.2.0,<8",
        "mypy>=0.990,<0.991",
        "typed>=1.4,<1.5 ; python_version < '3.8'",
        "typed[fast] ; python_version >= '3.8' and python_version < '4'",
        "odd==1.2 ; (sys_platform == 'linux')",
    )


def test_poetry_group_for_tests_comes_before_the_one_for_developers() -> None:
    declared = b"[tool.poetry.group.test.dependencies]\na = '*'\n[tool.poetry.group.dev.dependencies]\nb = '*'\n"
    assert poetry_groups(Snapshot({"pyproject.toml": declared})) == ("a",)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("^1.2.3", ">=1.2.3 <2"),
        ("^0.2.3", ">=0.2.3 <0.3"),
        ("^0.0.3", ">=0.0.3 <0.0.4"),
        ("^0", ">=0 <1"),
        ("~1.2.3", ">=1.2.3 <1.3"),
        ("~1", ">=1 <2"),
        ("*", ""),
        ("1.2.*", "==1.2.*"),
        ("2.1", "==2.1"),
        ("=2.1", "==2.1"),
        (">= 1.2, < 1.5", ">=1.2 <1.5"),
        ("~=1.4", "~=1.4"),
        ("!=1.5", "!=1.5"),
        ("^2.0 || ^3.0", ""),
        ("^" + "9" * 5000, ">=" + "9" * 5000 + " <1000000000"),
        ("", ""),
    ],
)
def test_constraints_of_poetry_become_those_of_pip(constraint: str, expected: str) -> None:
    assert " ".join(operator + version for operator, version in bounds(constraint)) == expected


@pytest.mark.parametrize(
    "declared",
    [
        b"[dependency-groups]\ntest = 3\n",
        b'[dependency-groups]\ntest = ["a\\u0000b", "' + b"x" * 200_000 + b'"]\n',
        b"[tool]\npoetry = 3\n",
        b"[tool.poetry]\ngroup = []\ndev-dependencies = 'x'\n",
        b"[tool.poetry.group]\ntest = 1\n",
        b'[tool.poetry.dev-dependencies]\n"a\\u0000" = "*"\nb = 3\nc = [[["1"]]]\n',
    ],
)
def test_what_is_declared_wrongly_is_never_an_argument(declared: bytes) -> None:
    for argv in installed({"pyproject.toml": declared}):
        assert all(word.isprintable() and len(word) < 1000 for word in argv)


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("CHANGELOG.rst", b"=====\nChanges\n=====\n\npluggy 1.5.0 (2024-04-19)\n====\n\npluggy 1.4.0\n", "1.5.0"),
        ("CHANGELOG.md", b"# Changes\n\n## [Unreleased]\n\n## [23.2.0](https://example.org) - 2023-12-31\n", "23.2.0"),
        ("NEWS.txt", b"News\n\nv2.1 of 1 May\n", "2.1"),
        ("PKG-INFO", b"Metadata-Version: 2.1\nVersion: 4.5\n", "4.5"),
        ("docs/changes.md", b"## 9.9\n", "999.0"),
        ("CHANGES", b"Needs 3 files and 12 months.\n", "999.0"),
    ],
)
def test_the_version_is_the_last_one_that_the_tree_tells_of(path: str, content: bytes, expected: str) -> None:
    made = steps(Snapshot({"pyproject.toml": b"[tool.setuptools_scm]\n[project]\nname='x'\n", path: content}), "pytest")
    assert made[-1].env["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_X"] == expected
