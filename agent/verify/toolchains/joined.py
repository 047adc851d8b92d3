"""A test command that joins programs by ``&&``, taken apart so that each has a word of its own. Pure.

All of them run, whatever became of those before: a linter that fails on the base must not hide the tests. A program
that reports its tests speaks through its report, which has to agree with its own exit code; any other is one test,
judged by that code. ``(cd folder && a && b)`` is the same below a folder; what is in there and can't be taken apart is
one part.
"""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.types import TestOutcome
from agent.verify.report import PART, Entry, Unreadable
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import REPORTS
from sandbox.text import clean

_LEADERS: Final = frozenset({"npx", "bunx", "cross-env", "env", "time"})
_NAMES: Final = """
    node npm yarn pnpm bun deno turbo nx lerna echo true rimraf shx cpy mkdirp del
    jest mocha _mocha vitest react-scripts tap tape ava jasmine qunit uvu zora
    c8 nyc karma playwright cypress borp lab hereby gulp grunt copyfiles copy
    eslint standard semistandard xo prettier biome oxlint tslint stylelint jshint
    markdownlint markdownlint-cli2 remark cspell depcheck dependency-check knip madge
    tsc tsd vue-tsc svelte-check flow dtslint attw publint size-limit check-dts
    rollup webpack vite esbuild tsup babel swc browserify parcel unbuild dprint
"""
_PROGRAMS: Final = frozenset(_NAMES.split())
"""What may run although something before it failed. A line with anything else stays whole: ``cd`` and ``rm`` are meant
for what comes after them, and ``test`` or ``is-ci`` for whether it comes at all. No rule tells those from the others; a
program that is missing here costs the ids of single tests and nothing else."""


@dataclass(frozen=True)
class Part:
    """One program of the line."""

    line: str
    runner: str
    """What reads its report; empty where it writes none that we read."""

    @property
    def folder(self) -> str:
        """Where it runs; empty for the root."""
        return _below(self.line)[0]

    @property
    def call(self) -> str:
        """What it runs there."""
        return _below(self.line)[1]

    def holds(self, path: str) -> bool:
        return not self.folder or path.startswith(f"{self.folder}/")


@dataclass(frozen=True)
class End:
    """How a part ended."""

    number: int
    part: Part
    code: int
    output: str
    """Of a part without a report."""


def split(line: str) -> tuple[str, ...]:
    """The calls of a plain ``a && b && (cd folder && c)`` of programs that are known; empty for anything else."""
    calls = _calls(line)
    if len(calls) < 2 and not any(_below(call)[0] for call in calls):
        return ()
    if not all(_below(call)[0] or _is_known(call) for call in calls):
        return ()
    return tuple(itertools.chain.from_iterable(map(_parts_of, calls)))


def inside(folder: str, line: str) -> str:
    """``line``, run in ``folder``."""
    return f"(cd {shlex.quote(folder)} && {line})"


def script(commands: Sequence[tuple[Part, str]]) -> str:
    """A shell script that runs every command and writes down how it ended; it ends as the first that failed did."""
    lines = ["status=0"]
    for number, (part, command) in enumerate(commands):
        place = f"{REPORTS}/part-{number}"
        told = shlex.quote(json.dumps({"of": len(commands), "line": part.line, "runner": part.runner}))
        if part.runner:
            lines.append(f"( {command} ); code=$?")
        else:
            lines += [f"( {command} ) > {place}.txt 2>&1; code=$?", f"cat {place}.txt"]
        lines.append(f"printf '%s %s' \"$code\" {told} > {place}.end")
        lines.append('[ "$status" -ne 0 ] || status=$code')
    return "\n".join([*lines, 'exit "$status"'])


def ends(reports: Mapping[str, bytes]) -> tuple[End, ...]:
    """How the parts ended, in their order; nothing where the line was not taken apart.

    Raises:
        Unreadable: one of them did not come to its end.
    """
    found = {int(m[1]): data for name, data in reports.items() if (m := re.fullmatch(r"part-(\d{1,4})\.end", name))}
    read = [_end(number, data, reports) for number, data in sorted(found.items())]
    if read and [end.number for end, _ in read] != list(range(read[0][1])):
        raise Unreadable("a part of the test command did not come to its end")
    return tuple(end for end, _ in read)


def entry(end: End) -> Entry:
    """The one test that a part without a report is."""
    if end.code == 0:
        return Entry(f"{PART}{end.part.line}", TestOutcome.PASSED)
    message = f"{end.output.strip()}\nexit code {end.code}".strip()
    return Entry(f"{PART}{end.part.line}", TestOutcome.FAILED, message)


def check(end: End, entries: Sequence[Entry]) -> None:
    """
    Raises:
        Unreadable: the report of a part and its exit code tell different stories.
    """
    failed = sum(entry.outcome in (TestOutcome.FAILED, TestOutcome.ERROR) for entry in entries)
    if bool(failed) != bool(end.code):
        raise Unreadable(
            f"{end.part.line!r} ended with exit code {end.code}, and its report counts {failed} failed tests"
        )


_GROUP: Final = re.compile(r"\(cd ((?![-/]|\.\.)[\w@%+=:,./-]+|'(?![-/]|\.\.)[^']+') && (.+)\)")


def _below(call: str) -> tuple[str, str]:
    """The folder where a call runs, and what runs there."""
    group = _GROUP.fullmatch(call)
    return (posixpath.normpath(group[1].strip("'")), group[2]) if group else ("", call)


def _parts_of(call: str) -> tuple[str, ...]:
    folder, rest = _below(call)
    inner = _calls(rest) if folder else ()
    plain = len(inner) > 1 and all(map(_is_known, inner))
    return tuple(inside(folder, each) for each in inner) if plain else (call,)


def _calls(line: str) -> tuple[str, ...]:
    """Between the ``&&`` outside of quotes and groups; nothing where the shell would do more than call programs."""
    if re.search(r"`|\$\(|[\n#]", line):
        return ()
    found, start, depth = list[str](), 0, 0
    for at, sign in shell_line.plain(line):
        if sign == "(":
            if not depth and line[start:at].strip():
                return ()
            depth += 1
        elif sign == ")":
            depth -= 1
            if depth < 0 or (not depth and not re.match(r"\)\s*(&&|$)", line[at:])):
                return ()
        elif sign in "\\'\"" or (not depth and sign in "|;<>"):
            return ()
        elif sign == "&" and not depth and at >= start:
            if not line.startswith("&&", at):
                return ()
            found.append(line[start:at])
            start = at + 2
    return () if depth else tuple(call.strip() for call in (*found, line[start:]))


def _is_known(call: str) -> bool:
    for word in call.split():
        if word not in _LEADERS and not re.match(r"\w+=", word):
            return word.rsplit("/", 1)[-1].removesuffix(".js") in _PROGRAMS
    return False


def _end(number: int, data: bytes, reports: Mapping[str, bytes]) -> tuple[End, int]:
    code, _, told = data.decode("utf-8", "replace").partition(" ")
    try:
        known: Any = json.loads(told)
        part = Part(str(known["line"]), str(known["runner"]))
        output = clean(reports.get(f"part-{number}.txt", b""))
        return End(number, part, int(code), output), int(known["of"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(f"how a part of the test command ended can't be read ({type(error).__name__})") from error
