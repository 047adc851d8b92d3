"""What a test runner said, in one shape for all runners. Code under test wrote it: data, never trusted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.types import TestOutcome
from sandbox.text import sound

# A test that is reported twice (call and teardown, sub-tests, repeats) counts as the worst that was said of it.
_WORST_FIRST = (
    TestOutcome.ERROR,
    TestOutcome.FAILED,
    TestOutcome.PASSED,
    TestOutcome.XFAILED,
    TestOutcome.SKIPPED,
)
MESSAGE_LIMIT = 4_000
_GIST_CHARS = 200

PART = "part of the test command: "
"""How the id begins of what is no test of a file: a program beside the tests, judged by its exit code."""


class Unreadable(Exception):
    """The report is not what the runner writes: damaged, too large, or hostile. ``str()`` says which."""


@dataclass(frozen=True)
class Entry:
    """One line of a report."""

    test: str
    outcome: TestOutcome
    message: str = ""
    collecting: bool = False
    """The id is a file or a package that could not be loaded, not a test that ran."""


@dataclass(frozen=True)
class Report:
    """All that was reported by one run."""

    outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    uncollected: frozenset[str] = frozenset()
    internal: str = ""
    """The runner's own failure, when it reported one."""
    unexplained: frozenset[str] = frozenset()
    """Ids that belong to no file of the tree, where ids name files."""

    @property
    def failed(self) -> frozenset[str]:
        return frozenset(t for t, o in self.outcomes.items() if o in (TestOutcome.FAILED, TestOutcome.ERROR))


def build(entries: Iterable[Entry], internal: str = "") -> Report:
    """Fold entries into a report: the worst outcome wins, messages only for what did not pass.

    Half characters (a lone surrogate in JSON, a name that is no UTF-8) become U+FFFD here, since no result could hold
    them: two names that differ in nothing else are one test.
    """
    outcomes: dict[str, TestOutcome] = {}
    messages: dict[str, str] = {}
    uncollected: set[str] = set()
    for entry in map(_whole, entries):
        known = outcomes.get(entry.test)
        if known is None or _WORST_FIRST.index(entry.outcome) < _WORST_FIRST.index(known):
            outcomes[entry.test] = entry.outcome
        if entry.outcome in (TestOutcome.FAILED, TestOutcome.ERROR) and entry.message:
            messages.setdefault(entry.test, _shorten(entry.message))
        if entry.collecting and entry.outcome is TestOutcome.ERROR:
            uncollected.add(entry.test)
    return Report(outcomes, messages, frozenset(uncollected), internal)


def _whole(entry: Entry) -> Entry:
    return replace(entry, test=sound(entry.test), message=sound(entry.message))


def unexplained_by(report: Report, paths: Collection[str]) -> Report:
    """The report with the ids marked whose file, the part before ``::``, is not among ``paths``."""
    named = frozenset(t for t in report.outcomes if t.split("::", 1)[0] not in paths)
    odd = {sound(path) for path in paths if not path.isascii()} if named else set()
    return replace(report, unexplained=frozenset(t for t in named if t.split("::", 1)[0] not in odd))


def merge(reports: Iterable[Report]) -> Report:
    """One report of several, for runners that write a file each (a module, a package, a second call)."""
    every = tuple(reports)
    entries = (
        Entry(test, outcome, report.messages.get(test, ""), test in report.uncollected)
        for report in every
        for test, outcome in report.outcomes.items()
    )
    merged = build(entries, internal="; ".join(r.internal for r in every if r.internal))
    return replace(merged, unexplained=frozenset().union(*(r.unexplained for r in every)))


def _shorten(message: str) -> str:
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = MESSAGE_LIMIT // 2
    return f"{message[:half]}\n… {len(message) - MESSAGE_LIMIT} characters left out …\n{message[-half:]}"


_FRAME = re.compile(r"\s*(?:at|❯) .*:\d+\)?$")
"""Of a trace, as JavaScript and Java write it."""


def gist(message: str) -> str:
    """The line of a failure message that says most: pytest marks it, before a trace it is the first, else the last."""
    lines = [line for line in message.splitlines() if line.strip()]
    last = 0 if any(map(_FRAME.match, lines)) else -1
    marked = next((line[1:] for line in lines if line.startswith("E ")), lines[last] if lines else "")
    return marked.strip()[:_GIST_CHARS]
