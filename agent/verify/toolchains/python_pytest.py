"""Python projects tested with pytest (which runs unittest classes too).

The report is pytest's own JUnit XML in its first family, the only one that names files. A plugin of ours would give
node ids directly, but it had to be importable in the target's interpreter: ``PYTHONPATH=src pytest``, ``python -I`` and
``-E`` take that away, and it would run in the same untrusted process anyway.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from agent.types import TestOutcome
from agent.verify import junit, report
from agent.verify.files import Files, from_root, matching, text
from agent.verify.report import Entry, Report
from agent.verify.toolchains import python_own, shell_line
from agent.verify.toolchains.base import (
    REPORTS,
    VENV,
    Canary,
    Collected,
    Invocation,
    Step,
    TestPlan,
    fits,
    shell,
    spoken,
)
from agent.verify.toolchains.python_own import Own
from agent.verify.toolchains.python_setup import steps
from agent.verify.verdict import GENERIC_EXITS, Exit

NAME: Final = "python-pytest"
PROGRAMS: Final = ("python3",)
EXITS: Final[Mapping[int, Exit]] = {
    0: Exit.CLEAN,
    1: Exit.FAILURES,
    2: Exit.BROKEN,
    3: Exit.BROKEN,
    4: Exit.BROKEN,
    5: Exit.NO_TESTS,
}
INSTALLED: Final[Mapping[str, str]] = {"VIRTUAL_ENV": VENV}
PYTEST: Final = r"pytest|py\.test"

# The bytecode cache compares whole seconds and sizes: a quick edit of the same length would run the old code.
ENV: Final[Mapping[str, str]] = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}

_CONFIGURED: Final = (
    ("pytest.ini", r"(?m)^\[pytest\]"),
    (".pytest.ini", r"(?m)^\[pytest\]"),
    ("pytest.toml", r"."),
    ("pyproject.toml", r"(?m)^\[tool\.pytest\b"),
    ("tox.ini", r"(?m)^\[pytest\]"),
    ("setup.cfg", r"(?m)^\[tool:pytest\]"),
)

_LONG_S: Final = 60
"""Seconds of one test after which its stack is printed; it goes on."""

_PROJECT: Final = re.compile(r"[^/]+\.py|pyproject\.toml|setup\.cfg|requirements[\w-]*\.txt")

_ADDED: Final = re.compile(r"(?ms)^\s*addopts\s*=.*?(?=^[^\s\]]|\Z)")
"""What a configuration adds to every call of pytest."""


def detect(files: Files) -> TestPlan | None:
    if own_runner(files):
        return None
    reason = _reason(files)
    found = reason or ("it is a Python project" if any(map(_PROJECT.fullmatch, files.paths())) else "")
    return TestPlan(toolchain=NAME, line="python3 -m pytest", reason=found, first=not reason) if found else None


def own_runner(files: Files) -> Own | None:
    """What the tests want in pytest's place, unless the project configures that."""
    return None if _configured(files) else python_own.find(files)


def _configured(files: Files) -> str:
    for name, pattern in _CONFIGURED:
        if re.search(pattern, text(files, name)):
            return f"{name} configures pytest"
    for path in matching(files, "conftest.py"):
        return f"{path} is there"
    return ""


def _reason(files: Files) -> str:
    if said := _configured(files):
        return said
    for path in matching(files, "test_*.py", "*_test.py", "tests.py"):
        return "; ".join(filter(None, (f"{path} looks like a test file", python_own.unread(files))))
    return ""


def resolve(line: str, files: Files) -> str | None:
    return line if shell_line.calls(line, PYTEST) else None


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    found = shell_line.calls(plan.line, PYTEST)
    left_out = () if selection else tuple(f"--deselect={test}" for test in plan.without)
    if not found:
        options = shlex.join((*_options(files, plan.line), *left_out, f"--junitxml={REPORTS}/pytest-0.xml"))
        return Invocation(shell(plan.line), {**ENV, "PYTEST_ADDOPTS": options}, GENERIC_EXITS, shown=spoken(plan.line))

    folder = shell_line.entered(plan.line)

    def selected(old: str) -> str:
        return shell_line.without_paths(old, lambda word: _names_path(word, folder, files)) if selection else old

    def reporting(number: int, old: str) -> str:
        ours = shlex.join((*_options(files, plan.line), *left_out, f"--junitxml={REPORTS}/pytest-{number}.xml"))
        return f'{selected(old)} {ours} "$@"'

    script = shell_line.rewrite(plan.line, found, reporting)
    wanted = _wanted(selection)
    return Invocation(
        argv=shell(script, *(f"{view}/{test}" for test in wanted)),  # absolute: a leading `-` or a `cd` changes nothing
        env=ENV,
        exits=EXITS if shell_line.is_all(found) else GENERIC_EXITS,
        shown=_shown(plan.line, found, selected, _seen_from(folder, wanted)),
    )


def _shown(
    line: str, found: Sequence[shell_line.Call], selected: Callable[[str], str], wanted: Sequence[str]
) -> tuple[str, ...]:
    if shell_line.is_all(found):
        return spoken(shell_line.rewrite(line, found, lambda _number, old: selected(old)), wanted)
    ids = "".join(f" {shlex.quote(test)}" for test in wanted)
    return spoken(shell_line.rewrite(line, found, lambda _number, old: selected(old) + ids))


def _seen_from(folder: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """The ids as a person has to write them there."""
    parts = (test.partition("::") for test in wanted)
    return tuple(f"{posixpath.relpath(file, folder or '.')}{colons}{rest}" for file, colons, rest in parts)


def _options(files: Files, line: str) -> tuple[str, ...]:
    """Options that the verdict needs. ``-p no:cacheprovider`` is not one: it turns ``--lf`` in ``addopts`` and a
    ``cache_dir`` under ``--strict-config`` into usage errors."""
    said = "\n".join((line, *(text(files, name) for name, _ in _CONFIGURED)))
    options = ["-o", "junit_family=xunit1", "--maxfail=0", "--continue-on-collection-errors", "--color=no"]
    if "faulthandler" not in said:  # a test that hangs is named by its stack
        options += ["-o", f"faulthandler_timeout={_LONG_S}"]
    if "no:cacheprovider" not in said:
        options += ["-o", "cache_dir=/tmp/pytest-cache"]
    added = "\n".join(match for name, _ in _CONFIGURED for match in _ADDED.findall(text(files, name)))
    if "--cov" in line + added:
        # A threshold says nothing of a selection, and its exit status would look like a contradiction.
        # Where only tox, say, has the option, the plugin need not be there.
        options.append("--no-cov")
    return tuple(options)


def _names_path(word: str, folder: str, files: Files) -> bool:
    path = posixpath.normpath(posixpath.join(folder, word.split("::", 1)[0]))
    known = files.paths()
    return path in known or path == "." or any(p.startswith(f"{path}/") for p in known)


def _wanted(selection: Sequence[str]) -> tuple[str, ...]:
    return tuple(selection) if fits(selection) else tuple(dict.fromkeys(s.split("::", 1)[0] for s in selection))


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"pytest-\d+\.xml")
    if not found:
        return None
    naming = Naming.of(files.paths(), collected)
    return report.merge(_report(junit.cases(data), naming) for data in found)


def _report(cases: Iterable[junit.Case], naming: Naming) -> Report:
    internal = ""
    entries = []
    for case in cases:
        if (case.classname, case.name) == ("pytest", "internal"):
            internal = case.message or "internal error"
            continue
        collecting = case.kind == "collection failure" or (not case.classname and case.outcome is TestOutcome.ERROR)
        entries.append(Entry(naming.node_id(case), case.outcome, case.message, collecting))
    return report.unexplained_by(report.build(entries, internal), naming.paths)


@dataclass(frozen=True)
class Naming:
    """Turns JUnit's dotted names back into node ids that pytest accepts.

    pytest writes ``a/b/test_c.py::T::test_d[x]`` as class ``a.b.test_c.T`` and name ``test_d[x]``. Where the file
    name ends is found by asking the tree. Ids come out relative to the tree, whatever pytest took for its root.
    """

    paths: frozenset[str]
    root: str
    """pytest's root directory below the tree, with a final ``/``; empty when it is the tree."""

    @classmethod
    def of(cls, paths: Iterable[str], collected: Collected | None = None) -> Naming:
        found = re.search(rb"(?m)^rootdir: ([^\n,]+)", collected.output) if collected else None
        place = found.group(1).decode("utf-8", "replace").strip() if found else ""
        inside = from_root(f"{place}/", collected.views if collected else ())
        return cls(frozenset(paths), "" if inside.startswith("/") else inside)

    @cached_property
    def _dotted(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for path in self.paths:
            if path.startswith(self.root):
                key = path[len(self.root) :].replace("/", ".").removesuffix(".py")
                found[key] = (*found.get(key, ()), path)
        return found

    @cached_property
    def _deepest(self) -> int:
        return 1 + max((name.count(".") for name in self._dotted), default=0)

    def node_id(self, case: junit.Case) -> str:
        """The id of the case; its dotted form where no file of the tree explains it."""
        if not case.classname:
            return self._choose(self._dotted.get(case.name, ()), case.file) or case.file or case.name
        named, parts = f"{self.root}{case.file}", case.classname.split(".")
        longest = min(len(parts), self._deepest)  # a report may name what is no path, and never ends
        prefixes = ((".".join(parts[:end]), parts[end:]) for end in range(longest, 0, -1))
        options = [(path, rest) for prefix, rest in prefixes for path in self._dotted.get(prefix, ())]
        if not options:
            return f"{case.classname}::{case.name}"
        # `a.b.C` may be class C in a/b.py or the file a/b/C.py: the file that the report names decides. For an
        # inherited test it names the base class's file; then the longest name wins.
        path, classes = next((option for option in options if option[0] == named), options[0])
        return "::".join((path, *classes, case.name))

    def _choose(self, candidates: Sequence[str], file: str) -> str:
        named = f"{self.root}{file}"
        return named if named in candidates else min(candidates, default="")


def prepare(files: Files) -> tuple[Step, ...]:
    return steps(files, runner="pytest")


CANARY: Final = """import unittest


class T{token}(unittest.TestCase):
    def test_sings(self):
        pass

    def test_falls_silent(self):
        self.assertEqual("{token}", "")
"""


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    """A ``TestCase`` in the same folder: under the same hooks, and collected whatever names the project prefers."""
    file = test.partition("::")[0]
    if not file.endswith(".py"):
        return None
    path = str(PurePosixPath(file).with_name(f"test_{token}.py"))
    prefix = f"{path}::T{token}::"
    content = CANARY.format(token=token).encode()
    return Canary(path, content, f"{prefix}test_sings", f"{prefix}test_falls_silent", path)


def probe(plan: TestPlan) -> tuple[str, ...]:
    """Whether the line's own interpreter finds pytest; a wrapper is probed by the interpreter on the path."""
    found = shell_line.calls(plan.line, PYTEST)
    if not found:
        return shell("python3 -m pytest --version")
    return shell(shell_line.rewrite(plan.line[: found[0].end], found[:1], lambda _number, _old: " --version"))
