"""Deno and Bun: the JUnit XML of their own test runners.

A file that can't be loaded is in neither's report, so what they print of it is read: Deno stops at a type error before
any test, Bun goes on with the other files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent.types import TestOutcome
from agent.verify import junit, report
from agent.verify.files import Files, from_root, matching, names_path, text
from agent.verify.report import Entry, Report
from agent.verify.toolchains import packages, shell_line
from agent.verify.toolchains.base import (
    ENVIRONMENT,
    REPORTS,
    Collected,
    Invocation,
    Step,
    TestPlan,
    fits,
    shell,
)
from agent.verify.toolchains.base import spoken as _spoken
from agent.verify.verdict import GENERIC_EXITS
from sandbox.text import clean

NAME: Final = "deno-bun"
PROGRAMS: Final = ("deno", "bun")
INSTALLED: Final[Mapping[str, str]] = {"DENO_DIR": f"{ENVIRONMENT}/deno"}
_TESTS: Final = tuple(f"*{mark}.{kind}" for mark in ("_test", ".test") for kind in ("ts", "tsx", "js", "jsx", "mjs"))
_CONFIGURED: Final = ("deno.json", "deno.jsonc")
_OPTIONS: Final[Mapping[str, str]] = {
    "deno": f" --junit-path={REPORTS}/deno-{{}}.xml",
    "bun": f" --reporter=junit --reporter-outfile={REPORTS}/bun-{{}}.xml",
}
_TYPE_ERROR: Final = re.compile(
    r"(?m)^TS\d+ \[ERROR\]: (?P<what>.*)\n(?:.*\n){0,4}?\s+at file://(?P<path>\S+?):\d+:\d+$"
)
_UNCAUGHT: Final = re.compile(r"(?m)^(?P<path>\./\S+) \(uncaught error\)\n?(?P<what>(?:error|.*Error): .*)$")
_FILE: Final = re.compile(r"(?m)^(\S+[._](?:test|spec)\.\w+):$")
"""What Bun prints before all that a file prints."""


def detect(files: Files) -> TestPlan | None:
    script = resolve("npm test", files)
    if script is not None:
        return TestPlan(NAME, script, f"package.json's test script: {script[:80]}")
    test = next(matching(files, *_TESTS), "")
    if test and any(name in files.paths() for name in _CONFIGURED):
        return TestPlan(NAME, _task(files, "test") or "deno test -A", "deno.json is there")
    if test and "bun:test" in text(files, test):
        return TestPlan(NAME, "bun test", f"{test} uses Bun's own test runner")
    return None


def _task(files: Files, name: str) -> str:
    """A task of ``deno.json`` that calls the test runner; read as text, since comments are allowed there."""
    said = "".join(text(files, path) for path in _CONFIGURED)
    found = re.search(rf'"{re.escape(name)}"\s*:\s*"([^"\\]*)"', said)
    return found[1] if found and _calls(found[1]) else ""


def resolve(line: str, files: Files) -> str | None:
    task = re.fullmatch(r"deno task ([\w:.-]+)", line.strip())
    if task:
        return _task(files, task[1]) or None
    named = re.fullmatch(r"(?:npm|bun|yarn|pnpm)\s+(?:run\s+)?(t|test[\w:.-]*)", line.strip())
    script = packages.scripts(files).get("test" if named[1] == "t" else named[1], "") if named else ""
    line = script or line
    return line if _calls(line) else None


def _calls(line: str) -> tuple[tuple[str, shell_line.Call], ...]:
    found = ((name, call) for name in _OPTIONS for call in shell_line.calls(line, name))
    return tuple((name, c) for name, c in found if re.match(r"\s+test\b", line[c.words_from : c.end]))


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """A selection runs whole files."""
    found = _calls(plan.line)
    chosen = tuple(dict.fromkeys(f"./{test.partition('::')[0]}" for test in selection))
    wanted = chosen if fits(chosen) else ()
    names = [name for name, _ in found]

    def selected(old: str) -> str:
        return shell_line.without_paths(old, lambda word: names_path(word, files.paths())) if wanted else old

    def reporting(number: int, old: str) -> str:
        ours = _OPTIONS[names[number]].format(number)  # before what may be for the tests, behind `--`
        return re.sub(r"^\s+test\b", rf"\g<0>{ours}", selected(old)) + ' "$@"'

    calls = [call for _, call in found]
    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, calls, reporting), *wanted),
        env={"NO_COLOR": "1"},
        exits=GENERIC_EXITS,
        shown=_spoken(shell_line.rewrite(plan.line, calls, lambda _n, old: selected(old)), wanted),
    )


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"(deno|bun)-\d+\.xml")
    entries = [_entry(case, collected.views) for case in junit.cases(*found)]
    reported = {entry.test.partition("::")[0] for entry in entries}
    unloaded = [e for e in _unloaded(clean(collected.output), collected.views) if e.test not in reported]
    if not found and not unloaded:
        return None
    return report.unexplained_by(report.build((*entries, *unloaded)), files.paths())


def _entry(case: junit.Case, views: Sequence[str]) -> Entry:
    """Deno names the file as the class; Bun names it apart, and the ``describe`` around as the class."""
    named = case.file or case.classname
    names = (case.classname, case.name) if case.file and case.classname else (case.name,)
    return Entry(f"{from_root(named, views)}::{' > '.join(names)}", case.outcome, case.message)


def _unloaded(output: str, views: Sequence[str]) -> Iterator[Entry]:
    for match in (*_TYPE_ERROR.finditer(output), *_UNCAUGHT.finditer(output)):
        yield Entry(from_root(match["path"], views), TestOutcome.ERROR, match["what"], collecting=True)
    printed = _FILE.split(output)
    for path, said in zip(printed[1::2], printed[2::2], strict=True):
        if re.search(r"(?im)^[ \t]*(\w*error\b|# Unhandled)", said):
            yield Entry(path, TestOutcome.ERROR, said.strip(), collecting=True)


def prepare(files: Files) -> tuple[Step, ...]:
    package = packages.manifest(files)
    if any(package.get(key) for key in ("dependencies", "devDependencies")):
        return (Step(("bun", "install") if "bun" in _program(files) else ("deno", "install")),)
    said = "".join(text(files, path) for path in _CONFIGURED)
    return (Step(("deno", "install"), required=False),) if '"imports"' in said else ()


def _program(files: Files) -> str:
    plan = detect(files)
    return _calls(plan.line)[0][0] if plan else ""


def probe(plan: TestPlan) -> tuple[str, ...]:
    return shell(" && ".join(f"{name} --version" for name in dict(_calls(plan.line))))
