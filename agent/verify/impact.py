"""What a change can reach, by the index: the tests to run first, and the callers of what it changes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from agent.index.graph import Certainty
from agent.index.index import Index
from agent.index.record import Record, Symbol
from agent.paths import is_prose
from agent.tree import Draft
from agent.types import Caller, Impact, TestRun
from agent.verify.inside import lines_of_tests, may_hold_tests
from agent.verify.lines import changed
from agent.verify.paths import is_test

QUICK_S: Final = 10.0
"""A suite that takes less is run whole at once: a second checkout and start of the runner cost seconds themselves."""
LARGEST_SHARE: Final = 0.5
"""Of all tests. A larger part costs more than it saves, since the whole suite decides in any case."""


def run_first(
    draft: Draft, before: Index, after: Index, baseline: TestRun, *, quick_s: float = QUICK_S
) -> tuple[str, ...]:
    """Test files that a change can affect, to be run before the whole suite; empty where that would not pay.

    Args:
        before, after: the base and ``draft``.
        baseline: the whole suite on the base.
        quick_s: seconds of a suite that is not worth it.
    """
    if baseline.seconds < quick_s or not baseline.structured:
        return ()
    holders = [file_of(test) for test in baseline.outcomes]
    reached = reached_tests(draft, before, after)
    new = {path for path, file in draft.edits.items() if file is not None and is_test(path) and path in reached}
    selected = {path for path in reached if path in draft} & ({*holders} | new)
    share = sum(holder in selected for holder in holders)
    return tuple(sorted(selected)) if share <= LARGEST_SHARE * len(holders) else ()


def reached_tests(draft: Draft, before: Index, after: Index) -> Collection[str]:
    """Test files that reach a changed file: a deleted one is asked for in the base, where others still import it."""
    gone = [path for path, file in draft.edits.items() if file is None]
    there = [path for path, file in draft.edits.items() if file is not None]
    return dict.fromkeys(reach.path for reach in (*after.tests_for(there), *before.tests_for(gone)))


def importers(draft: Draft, before: Index, after: Index) -> Collection[str]:
    """Files that import a changed file; of a deleted one those that imported it in the base."""
    found = (
        reach.path
        for path, file in draft.edits.items()
        for reach in (before if file is None else after).importers(path)
    )
    return dict.fromkeys(found)


def restricted(run: TestRun, files: Collection[str]) -> TestRun:
    """The part of a run that is about the tests of ``files``."""
    return run.model_copy(update={"outcomes": {t: o for t, o in run.outcomes.items() if file_of(t) in files}})


# ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────────


SYMBOLS: Final = 20
"""Changed symbols of which callers are looked for; of more it is said how many: a change with more is no one change."""
CALLERS: Final = 10
"""Callers of one symbol that are named."""


@dataclass(frozen=True)
class Use:
    """A function, a class or a module, tests left out, in which a changed symbol stands."""

    path: str
    inside: str
    lines: tuple[int, ...]
    resolved: bool


@dataclass(frozen=True)
class Used:
    """A changed public symbol of the base, and where it is used with the change."""

    symbol: str
    path: str
    removed: bool
    uses: tuple[Use, ...]


def used(draft: Draft, before: Index, after: Index) -> tuple[tuple[Used, ...], int]:
    """Changed public symbols with their uses outside of tests, and how many more are changed.

    Args:
        before, after: the base and ``draft``.
    """
    symbols = [
        (name, path, removed)
        for path in sorted(draft.edits)
        if not is_test(path)
        for name, removed in _changed_symbols(draft, path, before, after)
    ]
    found = (
        Used(name, path, removed, tuple(_uses(after, name, path, before if removed else after)))
        for name, path, removed in symbols[:SYMBOLS]
    )
    return tuple(found), max(0, len(symbols) - SYMBOLS)


def impact(used: Used, covered: Callable[[Use], bool]) -> Impact:
    """As it is told.

    Args:
        covered: whether a use runs in a test.
    """
    callers = [
        Caller(path=use.path, line=use.lines[0], inside=use.inside, resolved=use.resolved, covered=covered(use))
        for use in used.uses
    ]
    return Impact(
        symbol=used.symbol,
        path=used.path,
        removed=used.removed,
        callers=tuple(callers[:CALLERS]),
        resolved=sum(caller.resolved for caller in callers),
        by_name=sum(not caller.resolved for caller in callers),
        covered=sum(caller.covered for caller in callers),
    )


def _changed_symbols(draft: Draft, path: str, before: Index, after: Index) -> Iterator[tuple[str, bool]]:
    """(name, whether it is gone) of what the base has and the change touches, in the order of the base."""
    was = before.record(path)
    if was is None:
        return
    file = draft.edits[path]
    old, new = draft.base.content(path), b"" if file is None else file.content
    now = after.record(path)
    touched = _innermost(was, changed(new, old)) | (_innermost(now, changed(old, new)) if now else set())
    left = {symbol.name for symbol in now.symbols} if now else set()
    touched |= {symbol.name for symbol in was.symbols} - left
    names = dict.fromkeys(_public(symbol.name) for symbol in was.symbols if symbol.name in touched)
    yield from ((name, name not in left) for name in names if name)


def _innermost(record: Record, lines: Collection[int]) -> set[str]:
    """Names of the smallest symbols around the lines."""
    around = ([s for s in record.symbols if s.start <= line <= s.end] for line in lines)
    return {min(symbols, key=_size).name for symbols in around if symbols}


def _size(symbol: Symbol) -> int:
    return symbol.end - symbol.start


def _public(name: str) -> str:
    """The name by which others use a symbol, empty when it is none of theirs: a constructor is called as its class."""
    *scopes, last = name.split(".")
    if last in ("__init__", "__new__", "constructor") and scopes:
        return _public(".".join(scopes))
    dunder = last.startswith("__") and last.endswith("__")
    return "" if dunder or any(part.startswith(("_", "#")) for part in (*scopes, last)) else name


def _uses(index: Index, name: str, path: str, defined: Index) -> Iterator[Use]:
    """At module level only calls count: the rest are imports and lists of names. What a document says calls nothing.

    Args:
        defined: the tree that holds the definition.
    """
    tested = cache(lambda path: lines_of_tests(path, index.text(path)))
    calls = {(call.path, call.line) for call in index.callers(name)}
    sure = {(use.path, use.inside) for use in defined.references(name, path) if use.certainty is Certainty.RESOLVED}
    places: dict[tuple[str, str], list[int]] = {}
    for use in index.references(name, path if defined is index else ""):
        own = use.path == path and f"{use.inside}.".startswith(f"{name}.")
        called = use.inside or (use.path, use.line) in calls
        inside = may_hold_tests(use.path) and use.line in tested(use.path)
        if own or not called or inside or is_test(use.path) or is_prose(use.path):
            continue
        places.setdefault((use.path, use.inside), []).append(use.line)
    for key in sorted(places, key=lambda key: (key not in sure, key)):
        yield Use(*key, lines=tuple(places[key]), resolved=key in sure)


def file_of(test: str) -> str:
    """The part of a test id that names its file, where ids do."""
    return test.partition("::")[0]
