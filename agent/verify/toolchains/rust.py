"""Rust: the text of ``cargo test``, whose JSON form stable compilers do not offer.

A test can print a line that looks like a result, so each binary's lines must add up to the counts that it announces
and sums up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files
from agent.verify.report import Entry, Report, Unreadable
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import (
    ENVIRONMENT,
    Build,
    Collected,
    Invocation,
    Step,
    TestPlan,
    shell,
    spoken,
)
from agent.verify.verdict import GENERIC_EXITS
from sandbox.text import clean

NAME: Final = "rust"
PROGRAMS: Final = ("cargo", "rustc", "rustdoc")
INSTALLED: Final[Mapping[str, str]] = {"CARGO_HOME": f"{ENVIRONMENT}/cargo"}

_ENV: Final[Mapping[str, str]] = {
    "CARGO_NET_OFFLINE": "true",
    "CARGO_TERM_COLOR": "never",
    "RUST_BACKTRACE": "0",
}
_BINARY: Final = re.compile(r"^\s+(?:Running (?:unittests )?(?P<path>\S+) \((?P<exe>[^)]*)\)|Doc-tests (?P<doc>\S+))$")
_RUNNING: Final = re.compile(r"^running (\d+) tests?$")
_TEST: Final = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<result>ok|FAILED|ignored)(?:, .*)?$")
_PRINTED: Final = re.compile(r"^---- (.+) stdout ----$")
_RESULT: Final = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_COMPILE_ERROR: Final = re.compile(
    r"^error(?:\[E\d+\])?: (?P<what>.*)\n(?:.*\n){0,2}?\s+--> (?P<path>[^:\n]+):\d+", re.M
)
_RESULTS: Final[Mapping[str, TestOutcome]] = {
    "ok": TestOutcome.PASSED,
    "FAILED": TestOutcome.FAILED,
    "ignored": TestOutcome.SKIPPED,
}


def detect(files: Files) -> TestPlan | None:
    if "Cargo.toml" not in files.paths():
        return None
    return TestPlan(NAME, "cargo test --workspace", "Cargo.toml is there")


def resolve(line: str, files: Files) -> str | None:
    return line if _calls(line) else None


def _calls(line: str) -> tuple[shell_line.Call, ...]:
    found = shell_line.calls(line, "cargo")
    return tuple(c for c in found if re.match(r"\s+(\+\S+\s+)?(test|t)\b", line[c.words_from : c.end]))


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """Selected tests run by their exact names."""
    found = _calls(plan.line)
    names = tuple(dict.fromkeys(test.partition("::")[2] for test in selection if "::" in test))
    names = tuple(name for name in names if not name.startswith("-"))
    whole = len(names) < len(set(selection)) or any("(line " in name for name in names)  # doc tests have no exact names
    wanted = () if whole else names
    targets = "" if whole else "".join(dict.fromkeys(map(_target, selection)))

    def reporting(_number: int, old: str) -> str:
        own, dashes, theirs = old.partition(" -- ")
        exact = ' -- --exact "$@"' if wanted else f" -- {theirs}" if dashes else ""
        return f"{own.rstrip()} --no-fail-fast{targets}{exact}"

    def person(_number: int, old: str) -> str:
        return old.partition(" -- ")[0].rstrip() + targets + (" -- --exact" if wanted else "")

    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, found, reporting), *wanted),
        env=_ENV,
        exits=GENERIC_EXITS,
        shown=spoken(shell_line.rewrite(plan.line, found, person) if found else plan.line, wanted),
    )


def _target(test: str) -> str:
    """The option that builds only the binary of this test: another one may not compile."""
    path = test.partition("::")[0].rpartition(":")[2]
    integration = re.fullmatch(r"tests/(\w[\w-]*)(?:\.rs|/main\.rs)", path)
    if integration:
        return f" --test {integration[1]}"
    return {"src/lib.rs": " --lib", "src/main.rs": " --bins"}.get(path, "")


def read(collected: Collected, files: Files) -> Report | None:
    text = clean(collected.output)
    entries = [*_tests(text.splitlines(), files), *_not_compiled(text)]
    return report.build(entries) if entries or _RESULT.search(text) or "running 0 tests" in text else None


def _tests(lines: Sequence[str], files: Files) -> Iterator[Entry]:
    messages = dict(_messages(lines))
    binary, running = "", 0
    seen: list[Entry] = []
    unsummed = False
    for number, line in enumerate(lines):
        if match := _BINARY.match(line):
            if unsummed:
                break
            binary = _label(match, files)
        elif match := _RUNNING.match(line):
            running, seen, unsummed = int(match[1]), [], True
        elif match := _TEST.match(line):
            outcome = _RESULTS[match["result"]]
            message = messages.get(match["name"], "") if outcome is TestOutcome.FAILED else ""
            seen.append(Entry(f"{binary}::{match['name']}", outcome, message))
        elif match := _RESULT.match(line):
            said = tuple(map(int, match.groups()))
            counts = tuple(sum(e.outcome is o for e in seen) for o in _RESULTS.values())
            if said != counts or running != len(seen):
                raise Unreadable(f"the lines of {binary} do not add up to its result ({lines[number][:80]})")
            yield from seen
            seen, unsummed = [], False
    if unsummed:
        raise Unreadable(f"{binary or 'a test binary'} ended before its result")


def _label(match: re.Match[str], files: Files) -> str:
    if match["doc"]:
        return f"doc:{match['doc']}"
    crate = re.sub(r"-[0-9a-f]+$", "", match["exe"].rsplit("/", 1)[-1])
    is_root = match["path"] in files.paths()
    return str(match["path"]) if is_root else f"{crate}:{match['path']}"


def _messages(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(test, what it printed) of each that failed; the last one first, since of two of a name the first counts."""
    end = len(lines)
    for number in range(len(lines) - 1, -1, -1):
        if match := _PRINTED.match(lines[number]):
            yield match[1], "\n".join(lines[number + 1 : end]).strip()
        if lines[number].startswith(("---- ", "failures:")):
            end = number


def _not_compiled(text: str) -> Iterator[Entry]:
    for match in _COMPILE_ERROR.finditer(text):
        yield Entry(match["path"], TestOutcome.ERROR, match["what"], collecting=True)


def prepare(files: Files) -> tuple[Step, ...]:
    return (Step(("cargo", "fetch")),)


def build(plan: TestPlan) -> Build:
    """Cargo builds anew whatever is younger than its work, and a file that was edited always is; see ``Checkout``."""

    def no_run(_number: int, old: str) -> str:
        return old.partition(" -- ")[0].rstrip() + " --no-run"

    # Not in `target`: that may be the user's own, seen read-only.
    return Build("CARGO_TARGET_DIR", shell_line.rewrite(plan.line, _calls(plan.line), no_run), _ENV)


def probe(plan: TestPlan) -> tuple[str, ...]:
    return ("cargo", "metadata", "--offline", "--format-version", "1", "--no-deps")
