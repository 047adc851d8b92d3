"""JavaScript and TypeScript: node's own runner, jest, vitest and mocha; others by exit code.

What ``npm test`` stands for is read from the base commit's ``package.json``, so a change to that script changes
nothing about how the change is judged. A script that joins several programs is taken apart (``joined``), and so is one
that runs the tests of each package in the repository (``packages``).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files, from_root, matching, names_path, text
from agent.verify.report import MESSAGE_LIMIT, Entry, Report, Unreadable
from agent.verify.toolchains import javascript_failures, joined, packages, shell_line
from agent.verify.toolchains.base import (
    NODE,
    REPORTS,
    Canary,
    Collected,
    Invocation,
    Step,
    TestPlan,
    fits,
    shell,
    spoken,
)
from agent.verify.verdict import GENERIC_EXITS
from sandbox.text import clean

NAME: Final = "node"
PROGRAMS: Final = ("node", "npm", "npx", "pnpm", "yarn")
INSTALLED: Final[Mapping[str, str]] = {}
_MAX_TESTS: Final = 500_000

# Runs in the parent of the test processes. One line of JSON for each finished test; node's own JUnit reporter leaves
# the file out, and names alone are not unique.
_REPORTER: Final = """
import { inspect } from 'node:util';
// What was thrown in another process may arrive as an object that can't become a string.
const said = (thrown) => {
  try { return String(thrown?.stack ?? thrown?.message ?? thrown); } catch { return inspect(thrown); }
};
export default async function* (events) {
  const open = [], printed = new Map();
  for await (const { type, data } of events) {
    if (type === 'test:start') { open.length = data.nesting; open.push(data.name); }
    if (type === 'test:stdout' || type === 'test:stderr') {
      printed.set(data.file, ((printed.get(data.file) ?? '') + data.message).slice(-LIMIT));
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const error = data.details?.error, cause = error?.cause ?? error;
    yield JSON.stringify({
      file: data.file ?? '', names: [...open.slice(0, data.nesting), data.name], suite: data.details?.type === 'suite',
      ok: type === 'test:pass', skip: (data.skip ?? false) !== false, todo: (data.todo ?? false) !== false,
      message: error ? said(cause) : '', output: data.nesting ? '' : printed.get(data.file ?? data.name) ?? '',
    }) + '\\n';
  }
}
""".replace("LIMIT", str(MESSAGE_LIMIT))
_POINT: Final = re.compile(r"^\s*(?:not )?ok\b", re.MULTILINE)
"""A test point of TAP."""


def detect(files: Files) -> TestPlan | None:
    script = packages.scripts(files).get("test", "")
    resolved = resolve("npm test", files)
    own = [
        p
        for p in matching(files, "*.test.js", "*.test.mjs", "*.test.cjs", "test/*.js")
        if "node:test" in text(files, p)
    ]
    if resolved is not None and script and not _is_stub(script):
        return TestPlan(NAME, resolved, f"package.json's test script: {script[:80]}")
    if each := _of_packages("pnpm -r test", files):
        return TestPlan(NAME, each, "the test scripts of its packages, since the root's package.json has none")
    if own and "node_modules/" not in own[0]:
        return TestPlan(NAME, "node --test", f"{own[0]} uses node's own test runner")
    if script:
        return TestPlan(NAME, script, "package.json", absent="no tests defined: package.json's test script is a stub")
    return None


_STUB: Final = "no test specified"


def _is_stub(script: str) -> bool:
    return re.search(r"no tests? specified", script, re.IGNORECASE) is not None


def resolve(line: str, files: Files) -> str | None:
    named = re.fullmatch(
        r"(npm|yarn|pnpm|bun)\s+(?:(?:run|run-script)\s+)?(?:--silent\s+|-s\s+)?(t|test[\w:.-]*)\s*", line
    )
    scripts = packages.scripts(files)
    name = "test" if named and named.group(2) == "t" else named.group(2) if named else ""
    if name in scripts:
        names = (each for each in (f"pre{name}", name) if each in scripts)
        return _in_each(" && ".join(_follow(scripts[each], scripts, frozenset({name})) for each in names), files)
    spread = _in_each(line, files)
    return spread if _runner(spread) else None


_CALL: Final = re.compile(r"(?:npm|yarn|pnpm)\s+(?:run\s+)?(?:(?:-s|--silent)\s+)?([\w:.-]+)")


def _follow(script: str, scripts: Mapping[str, str], within: frozenset[str]) -> str:
    """A script with the other ones of the same file in place of the calls of them, as far as it is plain.

    Args:
        within: scripts that are followed already.
    """
    return " && ".join(_behind(call, scripts, within) for call in joined.split(script) or (script.strip(),))


def _behind(call: str, scripts: Mapping[str, str], within: frozenset[str]) -> str:
    """What a call of a script runs, with what npm runs before and after it."""
    inner = _CALL.fullmatch(call)
    name = inner[1] if inner else ""
    if name not in scripts or name in within:
        return call
    names = (each for each in (f"pre{name}", name, f"post{name}") if each in scripts)
    return " && ".join(_follow(scripts[each], scripts, within | {name}) for each in names)


def _in_each(line: str, files: Files) -> str:
    """The line with the packages' test scripts in place of a call that runs them; others stay, such as a build."""
    return " && ".join(_of_packages(call, files) or call for call in joined.split(line) or (line,))


def _of_packages(call: str, files: Files) -> str:
    """What a call runs in the packages that have its script; empty where no runner that we know is among it."""
    spread = packages.spread(call, files)
    if spread is None:
        return ""
    found = ((folder, packages.scripts(files, folder)) for folder in spread.folders)
    having = ((folder, scripts) for folder, scripts in found if not _is_stub(scripts.get(spread.script, _STUB)))
    calls = [joined.inside(f, _behind(f"npm run {spread.script}", scripts, frozenset())) for f, scripts in having]
    return " && ".join([*filter(None, [spread.before]), *calls]) if _parts(" && ".join(calls)) else ""


# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────


_HANDS_ON: Final = {
    "react-scripts": r"\s+test\b",
    "craco": r"\s+test\b",
    "react-app-rewired": r"\s+test\b",
    "kcd-scripts": r"\s+test\b",
    "rc-test": "",
}
"""Programs that call jest and hand their options on to it → what comes behind them then."""


def _runner(line: str) -> tuple[str, tuple[shell_line.Call, ...]] | None:
    """The runner that a line calls, and where."""
    for name in ("jest", "vitest", "mocha"):
        found = shell_line.calls(line, rf"{name}(?:\.js)?|_{name}")
        if found:
            return name, found
    wrapped = [
        call
        for program, word in _HANDS_ON.items()
        for call in shell_line.calls(line, program)
        if re.match(word, line[call.words_from : call.end])
    ]
    if wrapped:
        return "jest", tuple(wrapped)
    own = [c for c in shell_line.calls(line, "node") if re.search(r"(^|\s)--test(\s|$)", line[c.words_from : c.end])]
    return ("node", tuple(own)) if own else None


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """A selection runs whole files: names of tests are no unique ids here, and their patterns differ."""
    parts = _parts(plan.line)
    known = _runner(plan.line)
    if known is None:
        return Invocation(shell(_LOCAL + plan.line), {}, GENERIC_EXITS, structured=False, shown=spoken(plan.line))
    wanted = tuple(dict.fromkeys(s.split("::", 1)[0] for s in selection if not s.startswith(report.PART)))
    wanted = wanted if fits(wanted) else ()
    if parts:
        return _joined(plan, parts, files, wanted)
    wanted = wanted if known[0] != "mocha" else ()
    script, shown = _reporting(plan.line, *known, files.paths() if wanted else ())
    single = len(known[1]) == 1 and known[1][0].last
    return Invocation(
        argv=shell(_FIRST + script, *(f"./{path}" for path in wanted)),
        exits=GENERIC_EXITS,
        shown=spoken(shown, wanted) if single else spoken(plan.line),
    )


_LOCAL: Final = 'export PATH="$PWD/node_modules/.bin:$PATH"\n'
_FIRST: Final = f"graftsmith_reporter={shlex.quote(f'data:text/javascript,{quote(_REPORTER)}')}\n{_LOCAL}"
"""Once, and not with each call: a line can call node for each of a hundred packages."""


def _parts(line: str) -> tuple[joined.Part, ...]:
    """The programs of a line that can be taken apart and of which at least one reports its tests; else nothing."""
    known = [(call, _runner(call)) for call in joined.split(line)]
    parts = tuple(joined.Part(call, found[0] if found and len(found[1]) == 1 else "") for call, found in known)
    return parts if any(part.runner for part in parts) else ()


def _joined(plan: TestPlan, parts: Sequence[joined.Part], files: Files, wanted: Sequence[str]) -> Invocation:
    """A selection runs in the folders that hold it, after what the root does without a runner (it may build): single
    files where all in a folder is one runner's."""
    there = [part for part in parts if any(map(part.holds, files.paths()))]  # a change may take a package away
    owners = {_owner(path, there) for path in wanted} - {None}
    chosen = [part for part in there if not owners or part.folder in owners or not (part.folder or part.runner)]
    commands, shown = [], []
    given: list[str] = []
    for number, part in enumerate(chosen):
        known, script = _runner(part.call), part.call
        if known is not None and part.runner:
            mine = _selected(part, there, wanted)
            arguments = "".join(f' "${{{len(given) + at}}}"' for at, _ in enumerate(mine, start=1))
            paths = [_below(part.folder, path) for path in files.paths() if part.holds(path)]
            script, alone = _reporting(part.call, *known, paths if mine else (), arguments, number)
            shown.append((part.folder, alone, mine))
            given += mine
        commands.append((part, _in_folder(part.folder, script)))
    return Invocation(
        argv=shell(_FIRST + joined.script(commands), *(f"./{path}" for path in given)),
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
    return f"cd {shlex.quote(folder)} || exit\n{_LOCAL}{script}" if folder else script


def _shown(calls: Sequence[tuple[str, str, Sequence[str]]]) -> tuple[str, ...]:
    """For a person: folder, call and files of each."""
    if len(calls) == 1 and not calls[0][0]:
        return spoken(calls[0][1], calls[0][2])
    lines = [(folder, " ".join((call, *map(shlex.quote, files)))) for folder, call, files in calls]
    return spoken(" && ".join(joined.inside(folder, line) if folder else line for folder, line in lines))


def _reporting(
    line: str,
    runner: str,
    found: Sequence[shell_line.Call],
    instead_of: Collection[str],
    arguments: str = ' "$@"',
    first: int = 0,
) -> tuple[str, str]:
    """The line with its calls of ``runner`` made to write reports about ``arguments``; the same for a person.

    Args:
        instead_of: files and what is in folders that need not be named any more, because a selection is.
        arguments: what follows the call's own, as the shell reads it.
        first: number of the first report.
    """

    def selected(old: str) -> str:
        return shell_line.without_paths(old, lambda word: _names_tests(word, instead_of)) if instead_of else old

    def reporting(number: int, old: str) -> str:
        options = _options(runner, first + number, selected(old), bool(instead_of))
        return options + arguments + (" " if old.endswith(" ") else "")

    script = shell_line.rewrite(line, found, reporting)
    return script, shell_line.rewrite(line, found, lambda _n, old: selected(old).rstrip())


def _names_tests(word: str, paths: Collection[str]) -> bool:
    return names_path(word, paths) or any(fnmatchcase(p, word.removeprefix("./").rstrip("/")) for p in paths)


def _options(runner: str, number: int, old: str, selecting: bool) -> str:
    """The call's arguments with those that make it write a report."""
    place = f"{REPORTS}/{runner}-{number}.json"
    if runner == "node":
        ours = f'--test-reporter="$graftsmith_reporter" --test-reporter-destination={place}'
        ours += " --test-reporter=spec --test-reporter-destination=stdout"
        return f" {ours}{old.rstrip()}"  # before the file names, as node wants it
    more = {
        # Not `=false`, which programs that hand options on may take for a word.
        "jest": ["--ci", "--no-watchAll", "--json", f"--outputFile={place}"],
        "vitest": ["--watch=false", "--reporter=default", "--reporter=json", f"--outputFile.json={place}"],
        "mocha": ["--reporter", "json", "--reporter-option", f"output={place}"],
    }[runner]
    if runner == "jest" and selecting:
        more.append("--runTestsByPath")
    return f"{old.rstrip()} {shlex.join(more)}"


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read(collected: Collected, files: Files) -> Report | None:
    ends = joined.ends(collected.reports)
    entries = _of_parts(ends, collected) if ends else _of_all(collected)
    if entries is None:
        return None
    if len(entries) > _MAX_TESTS:
        raise Unreadable(f"the report holds more than {_MAX_TESTS} tests")
    entries = list(javascript_failures.explained(entries, collected.output))
    return report.unexplained_by(report.build(entries), files.paths())


def _of_all(collected: Collected) -> list[Entry] | None:
    found = [(name, data) for name, data in sorted(collected.reports.items()) if re.fullmatch(r"\w+-\d+\.json", name)]
    return (
        [entry for name, data in found for entry in _entries(name.split("-")[0], data, collected.views)]
        if found
        else None
    )


def _of_parts(ends: Sequence[joined.End], collected: Collected) -> list[Entry]:
    entries: list[Entry] = []
    reports = collected.reports
    for end in ends:
        runner = end.part.runner
        if not runner:
            entries.append(joined.entry(end))
            continue
        name = f"{runner}-{end.number}.json"
        own = list(_entries(runner, reports[name], collected.views, end.part.folder)) if name in reports else []
        if end.part.folder and end.code and not own:  # a package that can't start leaves the others their word
            entries.append(joined.entry(end))
            continue
        if name not in reports:
            raise Unreadable(f"{end.part.line!r} ended with exit code {end.code} and wrote no report")
        joined.check(end, own)
        entries += own
    return entries


def _entries(runner: str, data: bytes, views: Sequence[str], folder: str = "") -> Iterator[Entry]:
    try:
        if runner == "node":
            lines = [json.loads(line) for line in data.splitlines() if line.strip()]
            yield from _of_node(lines, views, folder)
        else:
            content = json.loads(data)
            yield from _of_mocha(content, views) if runner == "mocha" else _of_jest(content, views)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"the report of {runner} is damaged ({type(error).__name__})") from error


def _of_node(lines: Sequence[Mapping[str, Any]], views: Sequence[str], folder: str) -> Iterator[Entry]:
    """A file is told with the tests in it, or alone when it has none: tests of another kind, such as tape's."""
    places = [(_inside(line["file"] or line["names"][0], views, folder), line) for line in lines if not line["suite"]]
    is_file = [len(line["names"]) == 1 and _inside(str(line["names"][0]), views, folder) == p for p, line in places]
    with_tests = {path for (path, _), alone in zip(places, is_file, strict=True) if not alone}
    for (path, line), alone in zip(places, is_file, strict=True):
        outcome = _outcome(ok=line["ok"], skipped=line["skip"], expected=line["todo"])
        message = clean(str(line["message"]).encode("utf-8", "replace"))
        if not alone:
            yield Entry(_id(path, line["names"]), outcome, message)
        elif not line["ok"]:
            yield _failed_file(path, line, message)
        elif path not in with_tests:
            yield Entry(path, outcome, message)


def _failed_file(path: str, line: Mapping[str, Any], message: str) -> Entry:
    """A file that ended badly: a failed test when test points show that it ran, otherwise it could not be loaded."""
    output = clean(str(line.get("output", "")).encode("utf-8", "replace"))
    said = f"{message}\n{output}".strip()
    if _POINT.search(output):
        return Entry(path, TestOutcome.FAILED, said)
    return Entry(path, TestOutcome.ERROR, said, collecting=True)


def _outcome(*, ok: bool, skipped: bool, expected: bool) -> TestOutcome:
    if skipped or (ok and expected):
        return TestOutcome.SKIPPED
    if ok:
        return TestOutcome.PASSED
    return TestOutcome.XFAILED if expected else TestOutcome.FAILED


_JEST: Final[Mapping[str, TestOutcome]] = {
    "passed": TestOutcome.PASSED,
    "failed": TestOutcome.FAILED,
    "pending": TestOutcome.SKIPPED,
    "skipped": TestOutcome.SKIPPED,
    "todo": TestOutcome.SKIPPED,
    "disabled": TestOutcome.SKIPPED,
}


def _of_jest(content: Mapping[str, Any], views: Sequence[str]) -> Iterator[Entry]:
    """jest's JSON, which vitest writes too."""
    for suite in content["testResults"]:
        path = _inside(suite["name"], views)
        if suite["status"] == "failed" and not suite["assertionResults"]:
            message = clean(str(suite.get("message", "")).encode("utf-8", "replace"))
            yield Entry(path, TestOutcome.ERROR, message, collecting=True)
        for test in suite["assertionResults"]:
            message = clean("\n".join(map(str, test.get("failureMessages") or ())).encode("utf-8", "replace"))
            message = javascript_failures.trimmed(message)
            yield Entry(_id(path, [*test["ancestorTitles"], test["title"]]), _JEST[test["status"]], message)


def _of_mocha(content: Mapping[str, Any], views: Sequence[str]) -> Iterator[Entry]:
    pending = {(t["file"], t["fullTitle"]) for t in content["pending"]}
    for test in [*content["tests"], *content["failures"]]:  # a failed hook is among the failures only
        path, error = _inside(test["file"], views), test.get("err") or {}
        message = clean(str(error.get("stack") or error.get("message") or "").encode("utf-8", "replace"))
        skipped = (test["file"], test["fullTitle"]) in pending
        yield Entry(_id(path, [test["fullTitle"]]), _outcome(ok=not error, skipped=skipped, expected=False), message)


def _id(path: str, names: Sequence[str]) -> str:
    return f"{path}::{' > '.join(map(str, names))}"


def _inside(path: str, views: Sequence[str], folder: str = "") -> str:
    """``path`` from the root; where it is relative, ``folder`` is where it begins."""
    is_relative = not path.startswith(("/", "file:"))
    return str(PurePosixPath(folder, path)) if is_relative else from_root(path, views)


# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────────────


# Of these, npm runs what the project itself gives when it is installed.
_INSTALL_SCRIPTS: Final = (
    *("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"),
    "dependencies",
)


def prepare(files: Files) -> tuple[Step, ...]:
    package = packages.manifest(files)
    if not any(package.get(key) for key in ("dependencies", "devDependencies", "peerDependencies", "workspaces")) and (
        "pnpm-workspace.yaml" not in files.paths()
    ):
        return ()
    paths = files.paths()
    manager = next((name for lock, name in _MANAGERS.items() if lock in paths), None)
    if manager is not None:
        return (_brought(manager, files), Step((manager, "install", "--frozen-lockfile")))
    locked = "package-lock.json" in paths or "npm-shrinkwrap.json" in paths
    return (Step(("npm", "ci" if locked else "install", "--no-audit", "--no-fund"), reads=read_by_npm(files)),)


_MANAGERS: Final[Mapping[str, str]] = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}
_PNPM_OF_LOCK: Final[Mapping[str, str]] = {"5": "7", "6": "8", "9": "10"}
"""First number of a lock file's version → the pnpm that wrote it, for who names none."""


def _brought(manager: str, files: Files) -> Step:
    """The package manager itself, of npm, where the machine has none."""
    named = re.match(rf"{manager}@(\d+\.\d+\.\d+)(?![\w.-])", str(packages.manifest(files).get("packageManager", "")))
    if manager == "pnpm":
        lock = re.search(r"(?m)^lockfileVersion: ['\"]?(\d+)", text(files, "pnpm-lock.yaml", limit=10_000_000))
        version = named[1] if named else _PNPM_OF_LOCK.get(lock[1] if lock else "", "latest")
    else:
        classic = "# yarn lockfile v1" in text(files, "yarn.lock", limit=10_000_000)[:200]
        version = named[1] if named else "1" if classic else "4"
    package = "@yarnpkg/cli-dist" if manager == "yarn" and version.partition(".")[0] != "1" else manager
    install = ("npm", "install", "--global", "--prefix", NODE, "--no-audit", "--no-fund", "--ignore-scripts")
    read = frozenset({"package.json", *_MANAGERS})
    return Step((*install, f"{package}@{version}"), reads=read, offline=(manager, "--version"))


def read_by_npm(files: Files) -> frozenset[str] | None:
    """``None`` where npm looks into more of the repository: scripts of its own, packages in there, native code."""
    package = packages.manifest(files)
    kinds = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
    wanted = [str(v) for kind in kinds if isinstance(package.get(kind), dict) for v in package[kind].values()]
    inside = any(re.match(r"(file|link|workspace|portal):|[./~]", version) for version in wanted)
    scripts = any(name in packages.scripts(files) for name in _INSTALL_SCRIPTS)
    if inside or scripts or package.get("workspaces") or "binding.gyp" in files.paths():
        return None
    return frozenset({"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"})


def probe(plan: TestPlan) -> tuple[str, ...]:
    known = _runner(plan.line)
    runners = dict.fromkeys((part.folder, part.runner) for part in _parts(plan.line) if part.runner)
    every = runners or {("", known[0] if known else "node"): None}
    return shell(_LOCAL + " &&\n".join(f"({_in_folder(folder, f'{name} --version')})" for folder, name in every))


_CANARY: Final = """const { test } = require('node:test');
test('sings %s', () => {});
test('falls silent %s', () => { throw new Error('%s'); });
"""


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    known = _runner(plan.line)
    parts = [part for part in _parts(plan.line) if part.runner]
    owner = _owner(test, parts)
    runners = {part.runner for part in parts if part.folder == owner} or {known[0] if known else ""}
    if runners != {"node"}:
        return None
    path = str(PurePosixPath(test.split("::", 1)[0]).with_name(f"{token}.test.cjs"))
    content = (_CANARY % (token, token, token)).encode()
    return Canary(path, content, f"{path}::sings {token}", f"{path}::falls silent {token}", path)
