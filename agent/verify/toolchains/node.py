"""JavaScript and TypeScript: node's own runner, jest, vitest and mocha; others by exit code.

What ``npm test`` stands for is read from the base commit's ``package.json``, so a change to that script changes
nothing about how the change is judged (``node_scripts``). A script that joins several programs is taken apart
(``joined``), and so is one that runs the tests of each package in the repository (``packages``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from agent.verify import report
from agent.verify.files import Files, matching, text
from agent.verify.report import Entry, Report, Unreadable
from agent.verify.toolchains import javascript_failures, joined, node_scripts, packages, shell_line
from agent.verify.toolchains.base import Canary, Collected, Invocation, TestPlan, fits, shell, spoken
from agent.verify.toolchains.node_reports import entries
from agent.verify.toolchains.node_runners import FIRST, LOCAL, called, parts, reporting
from agent.verify.toolchains.node_setup import prepare
from agent.verify.verdict import GENERIC_EXITS

__all__ = ["prepare"]

NAME: Final = "node"
PROGRAMS: Final = ("node", "npm", "npx", "pnpm", "yarn")
INSTALLED: Final[Mapping[str, str]] = {}
_MAX_TESTS: Final = 500_000


def detect(files: Files) -> TestPlan | None:
    script = packages.scripts(files).get("test", "")
    resolved = resolve("npm test", files)
    own = [
        p
        for p in matching(files, "*.test.js", "*.test.mjs", "*.test.cjs", "test/*.js")
        if "node:test" in text(files, p)
    ]
    if resolved is not None and script and not node_scripts.is_stub(script):
        return TestPlan(NAME, resolved, f"package.json's test script: {script[:80]}")
    if each := node_scripts.of_packages("pnpm -r test", files):
        return TestPlan(NAME, each, "the test scripts of its packages, since the root's package.json has none")
    if own and "node_modules/" not in own[0]:
        return TestPlan(NAME, "node --test", f"{own[0]} uses node's own test runner")
    if script:
        return TestPlan(NAME, script, "package.json", absent="no tests defined: package.json's test script is a stub")
    return None


def resolve(line: str, files: Files) -> str | None:
    behind = node_scripts.behind(line, files)
    if behind is not None:
        return behind
    spread = node_scripts.in_each(line, files)
    return spread if called(spread) else None


# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """A selection runs whole files: names of tests are no unique ids here, and their patterns differ."""
    known, several = called(plan.line), parts(plan.line)
    if known is None:
        return Invocation(shell(LOCAL + plan.line), {}, GENERIC_EXITS, structured=False, shown=spoken(plan.line))
    wanted = tuple(dict.fromkeys(s.split("::", 1)[0] for s in selection if not s.startswith(report.PART)))
    wanted = wanted if fits(wanted) else ()
    if several:
        return _joined(plan, several, files, wanted)
    wanted = wanted if known.runner != "mocha" else ()
    script, shown = reporting(plan.line, known, files.paths() if wanted else ())
    return Invocation(
        argv=shell(FIRST + script, *(f"./{path}" for path in wanted)),
        exits=GENERIC_EXITS,
        shown=spoken(shown, wanted) if shell_line.is_all(known.calls) else spoken(plan.line),
    )


def _joined(plan: TestPlan, parts: Sequence[joined.Part], files: Files, wanted: Sequence[str]) -> Invocation:
    """A selection runs in the folders that hold it, after what the root does without a runner (it may build): single
    files where all in a folder is one runner's."""
    there = [part for part in parts if any(map(part.holds, files.paths()))]  # a change may take a package away
    owners = {_owner(path, there) for path in wanted} - {None}
    chosen = [part for part in there if not owners or part.folder in owners or not (part.folder or part.runner)]
    commands, shown = [], []
    given: list[str] = []
    for number, part in enumerate(chosen):
        known, script = called(part.call), part.call
        if known is not None and part.runner:
            mine = _selected(part, there, wanted)
            arguments = "".join(f' "${{{len(given) + at}}}"' for at, _ in enumerate(mine, start=1))
            paths = [_below(part.folder, path) for path in files.paths() if part.holds(path)]
            script, alone = reporting(part.call, known, paths if mine else (), arguments, number)
            shown.append((part.folder, alone, mine))
            given += mine
        commands.append((part, _in_folder(part.folder, script)))
    return Invocation(
        argv=shell(FIRST + joined.script(commands), *(f"./{path}" for path in given)),
        exits=GENERIC_EXITS,
        shown=_shown(shown) if len(chosen) < len(there) or given else spoken(plan.line),
    )


def _owner(path: str, parts: Sequence[joined.Part]) -> str | None:
    """The folder, of those where a runner is called, to which a file belongs: the deepest."""
    return max((part.folder for part in parts if part.runner and part.holds(path)), key=len, default=None)


def _selected(part: joined.Part, parts: Sequence[joined.Part], wanted: Sequence[str]) -> list[str]:
    """Files that can be given to a part, as they are called in its folder; none where that can't be told apart."""
    runners = {each.runner for each in parts if each.runner and each.folder == part.folder}
    alone = len(runners) == 1 and "mocha" not in runners
    return [_below(part.folder, path) for path in wanted if _owner(path, parts) == part.folder] if alone else []


def _below(folder: str, path: str) -> str:
    return path.removeprefix(f"{folder}/") if folder else path


def _in_folder(folder: str, script: str) -> str:
    return f"cd {shlex.quote(folder)} || exit\n{LOCAL}{script}" if folder else script


def _shown(calls: Sequence[tuple[str, str, Sequence[str]]]) -> tuple[str, ...]:
    """For a person: folder, call and files of each."""
    if len(calls) == 1 and not calls[0][0]:
        return spoken(calls[0][1], calls[0][2])
    lines = [(folder, " ".join((call, *map(shlex.quote, files)))) for folder, call, files in calls]
    return spoken(" && ".join(joined.inside(folder, line) if folder else line for folder, line in lines))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read(collected: Collected, files: Files) -> Report | None:
    ends = joined.ends(collected.reports)
    found = _of_parts(ends, collected) if ends else _of_all(collected)
    if found is None:
        return None
    if len(found) > _MAX_TESTS:
        raise Unreadable(f"the report holds more than {_MAX_TESTS} tests")
    explained = javascript_failures.explained(found, collected.output)
    return report.unexplained_by(report.build(explained), files.paths())


def _of_all(collected: Collected) -> list[Entry] | None:
    found = [(name, data) for name, data in sorted(collected.reports.items()) if re.fullmatch(r"\w+-\d+\.json", name)]
    if not found:
        return None
    return [entry for name, data in found for entry in entries(name.split("-")[0], data, collected.views)]


def _of_parts(ends: Sequence[joined.End], collected: Collected) -> list[Entry]:
    found: list[Entry] = []
    for end in ends:
        runner = end.part.runner
        if not runner:
            found.append(joined.entry(end))
            continue
        data = collected.reports.get(f"{runner}-{end.number}.json")
        own = [] if data is None else list(entries(runner, data, collected.views, end.part.folder))
        if end.part.folder and end.code and not own:  # a package that can't start leaves the others their word
            found.append(joined.entry(end))
            continue
        if data is None:
            raise Unreadable(f"{end.part.line!r} ended with exit code {end.code} and wrote no report")
        joined.check(end, own)
        found += own
    return found


def probe(plan: TestPlan) -> tuple[str, ...]:
    known = called(plan.line)
    runners = dict.fromkeys((part.folder, part.runner) for part in parts(plan.line) if part.runner)
    every = runners or {("", known.runner if known else "node"): None}
    return shell(LOCAL + " &&\n".join(f"({_in_folder(folder, f'{name} --version')})" for folder, name in every))


_CANARY: Final = """const { test } = require('node:test');
test('sings %s', () => {});
test('falls silent %s', () => { throw new Error('%s'); });
"""


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    known = called(plan.line)
    reporting_ones = [part for part in parts(plan.line) if part.runner]
    owner = _owner(test, reporting_ones)
    runners = {part.runner for part in reporting_ones if part.folder == owner} or {known.runner if known else ""}
    if runners != {"node"}:
        return None
    path = str(PurePosixPath(test.split("::", 1)[0]).with_name(f"{token}.test.cjs"))
    content = (_CANARY % (token, token, token)).encode()
    return Canary(path, content, f"{path}::sings {token}", f"{path}::falls silent {token}", path)
