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

import difflib
import itertools
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from agent import toml
from agent.git import GITLINK
from agent.plan import leave
from agent.tree import BaseTree, Draft
from agent.types import HUNK_CHARS, IntegrityFinding, Plan
from agent.verify import inside, other_tests, python_tests, surroundings
from agent.verify.hooks import hooks
from agent.verify.paths import is_ci, is_test, is_test_config
from agent.verify.python_tests import Module, Problem

__all__ = ["check", "is_test", "is_test_config"]

_DIFF_LINES: Final = 6_000


def check(base: BaseTree, draft: Draft, plan: Plan | None) -> tuple[IntegrityFinding, ...]:
    """Everything in ``draft`` that makes the tests of ``base`` say less, ordered by path.

    Args:
        plan: what one of its steps names and gives the task's reason for is excused. It is a finding all the same: a
            person has to look at it.
    """
    added = _added_tests(base, draft)
    findings: list[IntegrityFinding] = []
    for path in sorted(draft.edits):
        old = _old(base, path)
        new = _new(draft, path)
        findings += _check_file(path, old, new, added, base)
    return tuple(
        finding.model_copy(update={"excused": bool(leave(plan, finding.path))}) for finding in dict.fromkeys(findings)
    )


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


def _check_file(
    path: str, old: str | None, new: str | None, added: Mapping[str, str], base: BaseTree
) -> Iterator[IntegrityFinding]:
    shadowing = _shadows(path) if old is None else ""
    if shadowing:
        yield _finding("runner_shadowed", path, shadowing, old, new)
    if is_ci(path):
        if old is not None:  # a new one takes nothing away; whether it may be published is asked later
            yield _finding("ci_changed", path, "a continuous-integration workflow is changed", old, new)
    elif is_test_config(path):
        yield from _check_config(path, old, new, base)
    elif is_test(path):
        yield from _check_test(path, old, new, added)
    elif new is not None:
        yield from _check_source(path, old, new)


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_test(path: str, old: str | None, new: str | None, added: Mapping[str, str]) -> Iterator[IntegrityFinding]:
    if path.endswith(".py"):
        problems = _python_problems(old, new, added)
    elif other_tests.knows(path):
        problems = other_tests.compare(path, old, new)
    else:
        problems = _data_problems(old, new)
    for problem in problems:
        yield _finding(problem.kind, path, problem.detail, old, new, problem)
    if new is not None and path.endswith(".py"):
        yield from (_finding("exit_status_hook", path, text, old, new) for text in hooks(new, known=old))


def _python_problems(old: str | None, new: str | None, added: Mapping[str, str]) -> Iterator[Problem]:
    before = python_tests.parse(old.encode()) if old is not None else Module()
    after = python_tests.parse(new.encode()) if new is not None else Module()
    if after is None:
        yield Problem("unreadable", "", "the test file is no valid Python any more", None, None)
        return
    before = before or Module()  # was broken before: whatever is there now says more
    yield from python_tests.compare(before, after, added)
    yield from python_tests.vacuous(after, before.tests)
    yield from _around(old, new)


def _around(old: str | None, new: str | None) -> Iterator[Problem]:
    try:
        yield from surroundings.problems(old, new or "")
    except RecursionError:
        yield Problem("unreadable", "", "the file is nested too deeply to be read", None, None)


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


def _data_problems(old: str | None, new: str | None) -> Iterator[Problem]:
    if old is not None and new is None:
        yield Problem("test_deleted", "", "a file that tests use is gone", None, None)
    elif old is not None:
        yield Problem("test_changed", "", "data that existing tests use is changed", None, None)


# ── what configures them ─────────────────────────────────────────────────────────────────────────────────────────

_PYPROJECT: Final = (
    *("pytest", "coverage", "tox", "nox", "hatch.envs", "ruff", "mypy", "pyright", "basedpyright", "pylint", "flake8"),
    *("unittest", "cibuildwheel", "poe", "taskipy", "pdm.scripts", "rye.scripts", "ty", "interrogate", "mutmut"),
)
_SETUP_CFG: Final = re.compile(r"tool:pytest|pytest|coverage(:.*)?|flake8.*|mypy.*|pylint.*|aliases|testenv.*|tool:.*")
_PACKAGE_SCRIPTS: Final = re.compile(r"test|check|lint|cover|typecheck|ci|verify", re.IGNORECASE)
_PACKAGE_KEYS: Final = (
    *("jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "eslintConfig", "lint-staged", "xo"),
    *("workspaces", "overrides", "resolutions", "imports"),
)
_ELSEWHERE: Final = re.compile(r"(file|link|portal|npm|git|https?|github)[:+]|\.{0,2}/|[\w-]+/")
"""Where a dependency is taken from, if not from the registry under its own name."""


def _check_config(path: str, old: str | None, new: str | None, base: BaseTree) -> Iterator[IntegrityFinding]:
    name = path.rsplit("/", 1)[-1]
    if name == "conftest.py":
        yield from _check_conftest(path, old, new, base)
    elif name in ("sitecustomize.py", "usercustomize.py") or name.endswith(".pth"):
        yield _finding("runner_shadowed", path, f"{name} runs at every start of the interpreter", old, new)
    elif name == "pyproject.toml":
        yield from _changed(path, old, new, _pyproject(old), _pyproject(new))
    elif name == "setup.cfg":
        yield from _changed(path, old, new, _sections(old), _sections(new))
    elif name == "package.json":
        yield from _changed(path, old, new, _package(old), _package(new))
    elif re.fullmatch(r"(GNUm|[Mm])akefile|justfile|Rakefile", name):
        yield from _changed(path, old, new, _targets(old), _targets(new))
    elif name in ("Cargo.toml", "go.mod", "go.work", "pom.xml") or name.startswith("build.gradle"):
        yield from _changed(path, old, new, _test_lines(old), _test_lines(new))
    elif old != new:
        yield _finding("config_changed", path, f"{name} decides how the tests or checks run", old, new)


def _changed(
    path: str, old: str | None, new: str | None, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[IntegrityFinding]:
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield _finding("config_changed", path, f"`{key}` decides how the tests or checks run", old, new)


def _pyproject(source: str | None) -> Mapping[str, Any]:
    try:
        data: Any = toml.loads(source or "")
    except ValueError as error:
        return {"pyproject.toml": str(error)}
    found = {}
    for key in _PYPROJECT:
        value = data.get("tool", {})
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[f"tool.{key}"] = value
    project = data.get("project")
    points = project.get("entry-points") if isinstance(project, dict) else None
    poetry = data.get("tool", {}).get("poetry") if isinstance(data.get("tool"), dict) else None
    plugins = poetry.get("plugins") if isinstance(poetry, dict) else None
    groups = [group["pytest11"] for group in (points, plugins) if isinstance(group, dict) and "pytest11" in group]
    return {**found, **({"pytest11": groups} if groups else {})}


def _sections(source: str | None) -> Mapping[str, str]:
    parts = re.split(r"(?m)^\[([^\]]+)\]\s*$", source or "")
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: body.strip() for name, body in named.items() if _SETUP_CFG.fullmatch(name) or "pytest11" in body}


def _package(source: str | None) -> Mapping[str, Any]:
    try:
        data = json.loads(source or "{}")
    except (ValueError, RecursionError) as error:
        return {"package.json": str(error)}
    if not isinstance(data, dict):
        return {"package.json": "no object"}
    scripts = data.get("scripts")
    called = _called(scripts) if isinstance(scripts, dict) else {}
    places = {
        f"{group}.{name}": where
        for group in ("dependencies", "devDependencies")
        if isinstance(data.get(group), dict)
        for name, where in data[group].items()
        if _ELSEWHERE.match(str(where))
    }
    return {**called, **places, **{key: data[key] for key in _PACKAGE_KEYS if key in data}}


def _called(scripts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scripts that test or check by their name, and those that they call."""
    found = {name for name in scripts if _PACKAGE_SCRIPTS.search(name)}
    while True:
        words = {word for name in found for word in re.findall(r"[\w:.-]+", str(scripts[name]))}
        more = {name for name in scripts if name in words} - found
        if not more:
            return {f"scripts.{name}": scripts[name] for name in sorted(found)}
        found |= more


def _targets(source: str | None) -> Mapping[str, str]:
    """Rules of a makefile, and the assignments above all of them."""
    found: dict[str, list[str]] = {}
    current = "variables"
    for line in (source or "").splitlines():
        rule = re.match(r"^([\w./%-]+(?: [\w./%-]+)*)\s*:(?!=)|^task[ (:]+(\w+)", line)
        if rule:
            current = (rule.group(1) or rule.group(2)).strip()
        if line.strip() and not line.lstrip().startswith("#"):
            key = "variables" if re.match(r"^[\w.]+\s*[:?+]?=", line) else current
            found.setdefault(key, []).append(line.rstrip())
    wanted = re.compile(r"variables|^\.|test|check|lint|cover|ci\b|all\b|spec|verify")
    return {name: "\n".join(lines) for name, lines in found.items() if wanted.search(name)}


def _test_lines(source: str | None) -> Mapping[str, str]:
    words = re.compile(
        r"test|patch|replace|workspace|members|exclude|surefire|failsafe|jacoco|harness|ignoreFailures|skip|clippy|lint|profile",
        re.IGNORECASE,
    )
    lines = [line.strip() for line in (source or "").splitlines() if words.search(line)]
    return {"test settings": "\n".join(lines)} if lines else {}


def _check_conftest(path: str, old: str | None, new: str | None, base: BaseTree) -> Iterator[IntegrityFinding]:
    """Fixtures may be added; whatever is there already, and whatever acts on tests unasked, is a finding."""
    if new is None:
        yield _finding("config_changed", path, "conftest.py is gone", old, new)
        return
    before, after = python_tests.statements((old or "").encode()), python_tests.statements(new.encode())
    if after is None:
        yield _finding("unreadable", path, "conftest.py is no valid Python any more", old, new)
        return
    if any(statement not in after for statement in before or ()):
        yield _finding("config_changed", path, "existing parts of conftest.py are changed", old, new)
    for text in hooks(new, known=old):
        yield _finding("exit_status_hook", path, text, old, new)
    for statement in after:
        if statement not in (before or ()) and re.search(
            r"autouse|collect_ignore|pytest_plugins|pytestmark", statement
        ):
            yield _finding("collection_changed", path, f"acts on every test: `{statement[:120]}`", old, new)
    for problem in _around(old, new):
        yield _finding(problem.kind, path, problem.detail, old, new, problem)
    for name in _taken(surroundings.fixtures(new) - surroundings.fixtures(old or ""), path, base):
        text = f"existing tests get this fixture `{name}` in place of theirs"
        yield _finding("collection_changed", path, text, old, new)


def _taken(names: Collection[str], path: str, base: BaseTree) -> list[str]:
    """Those of a conftest's new fixtures that a test below it asks for already."""
    if not names:
        return []
    folder = path.rpartition("conftest.py")[0]
    below = [p for p in base.paths() if p.startswith(folder) and p.endswith(".py") and is_test(p)]
    asked = re.compile(rf"\bdef \w+\([^)]*\b({'|'.join(map(re.escape, sorted(names)))})\b")
    return sorted({found[1] for p in below for found in asked.finditer(_old(base, p) or "")})


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────────

_AWARE: Final = re.compile(
    r"PYTEST_CURRENT_TEST|PYTEST_VERSION|[\"'](pytest|_pytest|unittest)[\"']\s*(not\s+)?in\s+sys\.modules"
    r"|sys\.modules(\.get\(|\[)\s*[\"'](_?pytest|unittest)|\b_pytest\b|JEST_WORKER_ID|VITEST(_WORKER_ID|_POOL_ID)\b"
    r"|process\.env\.NODE_ENV\s*[!=]==?\s*[\"']test|import\.meta\.(vitest|env\.(TEST|VITEST))\b|\bNODE_TEST_CONTEXT\b"
    r"|\btypeof (jest|describe|it|vi)\b|process\.env\.VITEST\b"
    r"|\bLookup\(\"test\.|os\.Args\[0\],\s*\"\.test\"|\bcfg!?\(.*\bnot\(\s*test\s*\)|\bcfg!\(.*\btest\b|RUNNING_TESTS|\bTEST_RUNNER\b|\btesting\.Testing\(\)"
)


_EXIT_STATUS: Final = re.compile(
    r"\bprocess\.(exitCode\s*=\s*0\b|reallyExit\b|exit\s*=[^=])|\bprocess\.on(ce)?\(.*\bprocess\.exit"
)


def _check_source(path: str, old: str | None, new: str) -> Iterator[IntegrityFinding]:
    if tests := inside.inner_tests(path, old or ""):
        for problem in other_tests.compare(path, tests, inside.inner_tests(path, new)):
            yield _finding(problem.kind, path, problem.detail, old, new, problem)
    known = set((old or "").splitlines())
    added = [line for line in new.splitlines() if line not in known]
    for line in added:
        if _AWARE.search(line):
            yield _finding("aware_of_tests", path, f"`{line.strip()[:160]}`", old, new)
        if _EXIT_STATUS.search(line):
            yield _finding("exit_status_hook", path, f"decides how the process ends: `{line.strip()[:120]}`", old, new)
        if "pytest11" in line:
            yield _finding(
                "exit_status_hook", path, f"registers a plugin of the runner: `{line.strip()[:120]}`", old, new
            )
    if path.endswith(".py"):
        yield from (_finding("exit_status_hook", path, text, old, new) for text in hooks(new, known=old, product=True))


_RUNNERS: Final = frozenset(
    (
        "pytest",
        "_pytest",
        "py",
        "unittest",
        "nose",
        "nose2",
        "pluggy",
        "iniconfig",
        "coverage",
        "mock",
        "xdist",
        "doctest",
    )
)
_IMPORT_ROOTS: Final = ("", "src/", "lib/", "test/", "tests/")


def _shadows(path: str) -> str:
    """A new file that is found before the module which the runner means to import."""
    for root in _IMPORT_ROOTS:
        if not path.startswith(root):
            continue
        first = path[len(root) :].split("/")[0]
        module = first.removesuffix(".py")
        if first == path[len(root) :] and module == first:
            continue  # no Python file
        if module in _RUNNERS or (module in sys.stdlib_module_names and first.endswith(".py")):
            return f"`{module}` is imported from here in place of the real one"
    if "__mocks__" in path.split("/")[:-1]:
        return "what stands here is taken in place of a module"
    if "node_modules/" in path:
        return "a file below node_modules stands in for an installed package"
    return ""


# ── hunks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _finding(
    kind: str, path: str, detail: str, old: str | None, new: str | None, problem: Problem | None = None
) -> IntegrityFinding:
    old_span, new_span = (problem.old, problem.new) if problem else (None, None)
    return IntegrityFinding(kind=kind, path=path, detail=detail, hunk=hunk(old or "", new or "", old_span, new_span))


def hunk(old: str, new: str, old_span: tuple[int, int] | None = None, new_span: tuple[int, int] | None = None) -> str:
    """The part of the unified diff that touches one of the spans (first and last line, from 1); all of it without."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _DIFF_LINES:
        return _cut(_middle(before, after))
    groups = difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(3)
    parts = []
    for group in groups:
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        if (old_span or new_span) and not (_touches(old_span, i1, i2) or _touches(new_span, j1, j2)):
            continue
        parts.append(f"@@ -{i1 + 1},{i2 - i1} +{j1 + 1},{j2 - j1} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                parts += [f" {line}" for line in before[a:b]]
            else:
                parts += [f"-{line}" for line in before[a:b]] + [f"+{line}" for line in after[c:d]]
    return _cut("\n".join(parts))


def _middle(before: list[str], after: list[str]) -> str:
    """One hunk between the common head and tail: the time of a real diff grows with the square of the lines."""
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    old, new = before[same:], after[same:]
    tail = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old[::-1], new[::-1], strict=False)))
    old, new = old[: len(old) - tail], new[: len(new) - tail]
    head = f"@@ -{same + 1},{len(old)} +{same + 1},{len(new)} @@"
    return "\n".join([head, *(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def _cut(text: str) -> str:
    return text if len(text) <= HUNK_CHARS else f"{text[:HUNK_CHARS]}\n… {len(text) - HUNK_CHARS} characters more"


def _touches(span: tuple[int, int] | None, start: int, end: int) -> bool:
    return span is not None and span[0] <= end and start < span[1]


def _old(base: BaseTree, path: str) -> str | None:
    entry = base.entries.get(path)
    return None if entry is None or entry.mode == GITLINK else base.content(path).decode("utf-8", "replace")


def _new(draft: Draft, path: str) -> str | None:
    file = draft.edits[path]
    return None if file is None else file.content.decode("utf-8", "replace")
