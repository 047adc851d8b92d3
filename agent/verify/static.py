"""What can be said of a change without running its tests: syntax, and the linters and type checkers that the target
itself configures. Only what the base does not have already counts.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from agent.edit.syntax import PARSERS, Parser, Problem, no_longer
from agent.index.index import Index
from agent.tree import Draft
from agent.types import Check, Finding
from agent.verify.files import text
from agent.verify.harness import Harness
from agent.verify.linters import LINTERS, MESSAGE_CHARS, Linter, is_configured, read
from agent.verify.toolchains.base import shell
from sandbox.text import clean
from sandbox.types import End, Finished

SHOWN: Final = 20
"""Findings of one tool that are kept; a change with more has one cause, and the first ones show it."""
_LAST_LINES: Final = 4
_PROJECT_S: Final = 180.0
_FILES_S: Final = 90.0
"""One tool on one tree; what takes longer says nothing that is worth the wait between two edits."""
_LEVEL_S: Final = 360.0
"""All tools together, for one change."""


# ── syntax ───────────────────────────────────────────────────────────────────────────────────────────────────────


def syntax(draft: Draft, before: Index, after: Index) -> Check:
    """Changed files that can't be parsed any more, while the base's could be.

    A new file counts too where the parser is the language's own: a grammar may lag behind its language.

    Args:
        before, after: the base and ``draft``.
    """
    found = []
    for path, file in sorted(draft.edits.items()):
        if file is None:
            continue
        parse = PARSERS.get(path.rsplit(".", 1)[-1])
        error = _parsed(parse, draft, path) if parse else _by_grammar(path, before, after)
        if error is not None:
            found.append(Finding(path=path, line=error.line, rule="", message=error.message[:MESSAGE_CHARS]))
    return _check("syntax", "syntax", found)


def _parsed(parse: Parser, draft: Draft, path: str) -> Problem | None:
    error = parse(draft.content(path))
    known = error is not None and path in draft.base.entries and parse(draft.base.content(path)) is not None
    return None if known else error


def _by_grammar(path: str, before: Index, after: Index) -> Problem | None:
    old, new = before.record(path), after.record(path)
    if old is None or new is None or old.broken or old.note or not new.broken:
        return None
    return Problem(new.broken, no_longer(new.language))


# ── linters ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Way:
    """One way of asking a tool."""

    line: str
    files: tuple[str, ...]
    """What it is asked about."""
    whole: bool
    """It reads all of the project, and ``files`` are only where it begins."""

    @property
    def seconds(self) -> float:
        return _PROJECT_S if self.whole else _FILES_S


@dataclass(frozen=True)
class _Said:
    """What a tool said of one tree."""

    findings: tuple[Finding, ...] = ()
    silent: str = ""


@dataclass(frozen=True)
class Linters:
    """The linters and type checkers that the base configures. What they say of the base is asked once, and each time
    where nothing is but the tree itself and what the set-up made.

    Args:
        said: question → what a tool has against the base; what is asked is added.
    """

    harness: Harness
    base: Draft
    said: MutableMapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    _too_slow: set[str] = field(default_factory=set)
    """Lines that took too long in this run: where there is another way, they are not tried again."""

    def check(self, draft: Draft, importers: Callable[[], Collection[str]] = tuple) -> tuple[Check, ...]:
        """One check for each tool that has to do with the changed files.

        Args:
            importers: files that import what was changed, asked for where a tool can't read the whole project.
        """
        until = time.monotonic() + _LEVEL_S
        asked = (
            (linter, ways(linter, draft, importers)) for linter in LINTERS if is_configured(linter, self.base.base)
        )
        return tuple(self._compared(linter, draft, tried, until) for linter, tried in asked if tried)

    def _compared(self, linter: Linter, draft: Draft, tried: Sequence[Way], until: float) -> Check:
        silent = ""
        for way in tried:
            if way.line in self._too_slow and way is not tried[-1]:
                continue
            after = _run(linter, self.harness, draft, way, until)
            before = self._of_base(linter, way, until) if after.findings else _Said()
            silent = after.silent or before.silent
            if not silent:
                return _check("static", linter.name, _new(before.findings, after.findings))
            if silent in (_ABSENT, _NO_TIME):
                break
            if silent == _stopped(End.TIMED_OUT):
                self._too_slow.add(way.line)
        return _check("static", linter.name, (), silent)

    def _of_base(self, linter: Linter, way: Way, until: float) -> _Said:
        there = replace(way, files=tuple(path for path in way.files if way.whole or path in self.base))
        if not there.files and not there.whole:
            return _Said()
        question = "\n".join((linter.name, there.line, *there.files))
        if question not in self.said:
            said = _run(linter, self.harness, self.base, there, until)
            if said.silent:
                return said
            self.said[question] = said.findings
        return _Said(self.said[question])


def ways(linter: Linter, draft: Draft, importers: Callable[[], Collection[str]]) -> tuple[Way, ...]:
    """How ``linter`` can be asked about a change, the one that sees most first; empty where it has nothing to do with
    it. Pure.

    Args:
        importers: see ``Linters.check``.
    """
    concerned = [path for path in draft.edits if path.endswith(linter.suffixes)]
    if not concerned:
        return ()
    there = {path for path in concerned if path in draft}
    if not linter.project:
        return (Way(linter.command, tuple(sorted(there)), whole=False),) if there else ()
    base = draft.base
    knows = linter.names_files and any(re.search(linter.names_files, text(base, name)) for name, _ in linter.configured)
    first = Way(linter.project, () if knows else (".",), whole=True)
    near = sorted(there | {path for path in importers() if path in draft and path.endswith(linter.suffixes)})
    return (first, Way(linter.command, tuple(near), whole=False)) if linter.command and near else (first,)


def _new(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """Those of ``after`` that ``before`` has not, or not so often."""
    allowed = Counter(map(_key, before))
    new = []
    for finding in after:
        if allowed[_key(finding)] > 0:
            allowed[_key(finding)] -= 1
        else:
            new.append(finding)
    return new


def _key(finding: Finding) -> tuple[str, str, str]:
    """Equal for the same complaint in another place of the file: lines move, and messages count them."""
    return finding.path, finding.rule, re.sub(r"\d+", "0", finding.message)


def _run(linter: Linter, harness: Harness, draft: Draft, way: Way, until: float) -> _Said:
    seconds = min(way.seconds, until - time.monotonic())
    if seconds <= 0:
        return _Said(silent=_NO_TIME)
    argv = shell(f"pwd -P\n{way.line}", *(path if path == "." else f"./{path}" for path in way.files))
    finished = harness.command(draft, argv, seconds, fresh=True)
    silent = _silent(linter, way, finished)
    if silent or (finished.exit_code == 0 and not linter.warns):
        return _Said(silent=silent)
    place, _, said = clean(finished.output).partition("\n")
    found = tuple(read(linter, said, harness.workspace.spec.view, place))
    asked = found if way.whole else tuple(finding for finding in found if finding.path in way.files)
    # A type checker may have something against what these files import; any other tool was asked about no more.
    if finished.exit_code != 0 and not (found if linter.project else asked):
        return _Said(silent=f"it ended with exit code {finished.exit_code} and named no line{_last_words(said)}")
    return _Said(asked)


def _last_words(said: str) -> str:
    """The end of what a tool printed, for a person: most say there why they gave up."""
    lines = [line.strip() for line in said.splitlines() if re.search(r"\w", line)][-_LAST_LINES:]
    return f": {' / '.join(lines)[-MESSAGE_CHARS:]}" if lines else ""


_ABSENT: Final = "it is not installed"
_NO_TIME: Final = "no time was left for it"


def _stopped(end: End) -> str:
    return f"it was stopped: {end.value.replace('_', ' ')}"


def _silent(linter: Linter, way: Way, finished: Finished) -> str:
    """Why a tool said nothing; empty when it did."""
    if finished.end is not End.EXITED:
        return _stopped(finished.end)
    if finished.exit_code in (126, 127) or (finished.exit_code != 0 and _MISSING.search(finished.output)):
        return _ABSENT
    if way.whole and finished.total_bytes > len(finished.output):  # cut at another place each time
        return "it says too much to be compared"
    if way.whole and finished.exit_code in linter.gave_up:
        return f"it did not look at everything{_last_words(clean(finished.output).partition(chr(10))[2])}"
    return ""


_MISSING: Final = re.compile(
    rb"(?m)^\S+: No module named \w+\s*$|^error: no such command: |is not installed for the toolchain"
)


def _check(level: Literal["syntax", "static"], tool: str, found: Sequence[Finding], silent: str = "") -> Check:
    return Check(level=level, tool=tool, found=tuple(found[:SHOWN]), more=max(0, len(found) - SHOWN), silent=silent)
