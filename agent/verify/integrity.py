"""Finds changes that could make the tests say less than before, hunk by hunk. Pure; runs nothing.

The model may add tests. Whatever else touches what is tested, how it is run or what its exit status means is a
finding, and a change with findings is never ready by itself: a person has to acknowledge exactly that part.

======================  ==============================================================================================
kind                    what was found
======================  ==============================================================================================
test_deleted            a test, a test file, or data of one is gone
test_renamed            a test is still there under another name or in another file, or is not collected any more
test_skipped            a new skip, expected failure, or the like, on an existing test
test_emptied            no assertion is left
assertion_removed       fewer assertions than before
assertion_loosened      an assertion says less: a part instead of a value, a truth value instead of either
always_true             an assertion that holds whatever the code does
early_return            the test can end before its last assertion
failure_swallowed       a failed assertion is caught
parameters_removed      fewer cases
test_shadowed           a second definition of the same name hides a test
test_changed            an existing test is different, or what it is about: an import, a fixture, a line put into it
collection_changed      another set of tests is collected
config_changed          configuration of the runner, of coverage or of a linter is different
ci_changed              a workflow of the continuous integration is different
exit_status_hook        code that can change a test's outcome or the runner's exit status
runner_shadowed         a file that is imported in place of the runner or at every start of the interpreter
aware_of_tests          source that finds out whether it is being tested
unreadable              a test file that can't be understood any more
======================  ==============================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from agent.git import GITLINK
from agent.plan import leave
from agent.tree import BaseTree, Draft
from agent.types import IntegrityFinding, Plan
from agent.verify import other_tests, python_code, python_tests, settings, sources, surroundings
from agent.verify.hooks import hooks
from agent.verify.hunks import hunk
from agent.verify.paths import is_ci, is_test, is_test_config
from agent.verify.python_tests import Module, Problem

__all__ = ["check", "is_test", "is_test_config"]


def check(base: BaseTree, draft: Draft, plan: Plan | None) -> tuple[IntegrityFinding, ...]:
    """Everything in ``draft`` that makes the tests of ``base`` say less, ordered by path.

    Args:
        plan: what one of its steps names and gives the task's reason for is excused. It is a finding all the same: a
            person has to look at it.
    """
    added = _added_tests(base, draft)
    findings: dict[IntegrityFinding, None] = {}
    for path in sorted(draft.edits):
        old, new, excused = _old(base, path), _new(draft, path), bool(leave(plan, path))
        for problem in _problems(path, old, new, added, base):
            shown = hunk(old or "", new or "", problem.old, problem.new)
            findings[_finding(problem, path, shown, excused=excused)] = None
    return tuple(findings)


def _finding(problem: Problem, path: str, shown: str, *, excused: bool) -> IntegrityFinding:
    return IntegrityFinding(kind=problem.kind, path=path, detail=problem.detail, hunk=shown, excused=excused)


def given_up(draft: Draft, plan: Plan | None, lost: Iterable[str]) -> frozenset[str]:
    """Those of ``lost`` that went with a change to their own file which the plan gives the task's reason for.

    Ids that name no file (a Go package, a Java class) belong to the file that declares a test of that name.
    """
    base = draft.base
    named = [path for path in draft.edits if path in base.entries and is_test(path) and leave(plan, path)]
    declared = {name for path in named for name in _declared(path, _old(base, path) or "")}

    def gone_with_its_file(test: str) -> bool:
        holder = test.partition("::")[0]
        return holder in named if holder in base.entries else not declared.isdisjoint(_NAME_PARTS.split(test))

    return frozenset(filter(gone_with_its_file, lost))


_NAME_PARTS: Final = re.compile(r"::|[./#\[]| > ")


def _declared(path: str, source: str) -> Iterable[str]:
    """Names of the tests in a file, without the classes around them."""
    if path.endswith(".py"):
        module = python_tests.parse(source.encode())
        return (name.rpartition("::")[2] for name in (module.tests if module else ()))
    return other_tests.declared(path, source) if other_tests.knows(path) else ()


def _problems(
    path: str, old: str | None, new: str | None, added: Mapping[str, str], base: BaseTree
) -> Iterator[Problem]:
    if old is None and (shadowed := sources.shadowed(path)):
        yield Problem("runner_shadowed", shadowed)
    if is_ci(path):
        if old is not None:  # a new one takes nothing away; whether it may be published is asked later
            yield Problem("ci_changed", "a continuous-integration workflow is changed")
    elif is_test_config(path):
        yield from _of_config(path, old, new, base)
    elif is_test(path):
        yield from _of_test(path, old, new, added)
    elif new is not None:
        yield from sources.problems(path, old, new)


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_test(path: str, old: str | None, new: str | None, added: Mapping[str, str]) -> Iterator[Problem]:
    if path.endswith(".py"):
        yield from _of_python(old, new, added)
    elif other_tests.knows(path):
        yield from other_tests.compare(path, old, new)
    elif old is not None and new is None:
        yield Problem("test_deleted", "a file that tests use is gone")
    elif old is not None:
        yield Problem("test_changed", "data that existing tests use is changed")


def _of_python(old: str | None, new: str | None, added: Mapping[str, str]) -> Iterator[Problem]:
    before = python_tests.parse(old.encode()) if old is not None else Module()
    after = python_tests.parse(new.encode()) if new is not None else Module()
    if after is None:
        yield Problem("unreadable", "the test file is no valid Python any more")
    else:
        before = before or Module()  # was broken before: whatever is there now says more
        yield from python_tests.compare(before, after, added)
        yield from python_tests.vacuous(after, before.tests)
        yield from _around(old, new)
    yield from _hooks(old, new)


def _hooks(old: str | None, new: str | None) -> Iterator[Problem]:
    return (Problem("exit_status_hook", text) for text in hooks(new or "", known=old))


def _around(old: str | None, new: str | None) -> Iterator[Problem]:
    try:
        yield from surroundings.problems(old, new or "")
    except RecursionError:
        yield Problem("unreadable", "the file is nested too deeply to be read")


def _added_tests(base: BaseTree, draft: Draft) -> Mapping[str, str]:
    """Normalised source → ``path::name``, for collected tests that were not in the same file before."""
    found: dict[str, str] = {}
    for path in draft.edits:
        new = _new(draft, path)
        module = (
            python_tests.parse(new.encode()) if new is not None and path.endswith(".py") and is_test(path) else None
        )
        if module is not None:
            old = python_tests.parse((_old(base, path) or "").encode()) or Module()
            known = {body.source for body in old.tests.values()}
            found |= {b.source: f"{path}::{name}" for name, b in module.tests.items() if b.source not in known}
    return found


# ── what configures them ─────────────────────────────────────────────────────────────────────────────────────────


def _of_config(path: str, old: str | None, new: str | None, base: BaseTree) -> Iterator[Problem]:
    name = path.rsplit("/", 1)[-1]
    if name == "conftest.py":
        yield from _of_conftest(path, old, new, base)
    elif name in ("sitecustomize.py", "usercustomize.py") or name.endswith(".pth"):
        yield Problem("runner_shadowed", f"{name} runs at every start of the interpreter")
    else:
        yield from settings.problems(path, old, new)


_ON_EVERY_TEST: Final = re.compile(r"autouse|collect_ignore|pytest_plugins|pytestmark")


def _of_conftest(path: str, old: str | None, new: str | None, base: BaseTree) -> Iterator[Problem]:
    """Fixtures may be added; whatever is there already, and whatever acts on tests unasked, is a finding."""
    if new is None:
        yield Problem("config_changed", "conftest.py is gone")
        return
    before, after = python_code.statements((old or "").encode()) or (), python_code.statements(new.encode())
    if after is None:
        yield Problem("unreadable", "conftest.py is no valid Python any more")
        return
    if any(statement not in after for statement in before):
        yield Problem("config_changed", "existing parts of conftest.py are changed")
    yield from _hooks(old, new)
    for statement in after:
        if statement not in before and _ON_EVERY_TEST.search(statement):
            yield Problem("collection_changed", f"acts on every test: `{statement[:120]}`")
    yield from _around(old, new)
    for name in _taken(surroundings.fixtures(new) - surroundings.fixtures(old or ""), path, base):
        yield Problem("collection_changed", f"existing tests get this fixture `{name}` in place of theirs")


def _taken(names: Collection[str], path: str, base: BaseTree) -> list[str]:
    """Those of a conftest's new fixtures that a test below it asks for already."""
    if not names:
        return []
    folder = path.rpartition("conftest.py")[0]
    below = [p for p in base.paths() if p.startswith(folder) and p.endswith(".py") and is_test(p)]
    asked = re.compile(rf"\bdef \w+\([^)]*\b({'|'.join(map(re.escape, sorted(names)))})\b")
    return sorted({found[1] for p in below for found in asked.finditer(_old(base, p) or "")})


def _old(base: BaseTree, path: str) -> str | None:
    entry = base.entries.get(path)
    return None if entry is None or entry.mode == GITLINK else base.content(path).decode("utf-8", "replace")


def _new(draft: Draft, path: str) -> str | None:
    file = draft.edits[path]
    return None if file is None else file.content.decode("utf-8", "replace")
