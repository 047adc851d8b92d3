"""Red → green, measured apart from everything that the work itself ran.

For each new or changed test two trees are tested: the base with nothing but the change's tests (it must fail there),
and the whole change (it must pass there). Each time in a process of its own, with temporary folders and a network of
its own, in a checkout as it came from git: whatever a run before it left there is gone. Beside each test runs a
*canary*, a file made up for this one run with a test that must pass and one that must fail: a report that was not
written by an honest runner does not know it.

When a test file does not even load on the base, that counts as red only where the error names something that the
change's own sources bring: a new module, a new function. Whatever else keeps it from loading, say a missing package or
a syntax error, proves nothing and is ``not_run``.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from agent.tree import Draft
from agent.types import Proof, SuiteStatus, TestOutcome, TestRun
from agent.verify.harness import Harness
from agent.verify.inside import exchanged, inner_tests, product_in
from agent.verify.paths import is_test
from agent.verify.python_tests import changed_tests
from agent.verify.report import PART
from agent.verify.toolchains import canary_of
from agent.verify.toolchains.base import Canary

Seen = TestOutcome | Literal["missing", "not_run"]

SINGLE_LIMIT: Final = 10
"""Up to this many test functions each gets runs of its own; above it, each file does."""

_NUMBER: Final = re.compile(r"\d+(?=\D?$)")
_WORD: Final = re.compile(r"[A-Za-z_]\w{2,}")
_ABSENCE: Final = re.compile(
    r"cannot import name|No module named|has no attribute|is not defined|unexpected keyword|undefined: "
    r"|undefined reference|[Cc]annot find|[Nn]ot found in|does not provide an export|unresolved import"
    r"|is not a (function|constructor)"
    r"|has no (exported )?(member|field|method)|uninitialized constant|undefined (method|local)|Call to undefined"
    r"|does not exist"
)


def prove(
    harness: Harness, draft: Draft, before: TestRun, after: TestRun, unsteady: Collection[str] = ()
) -> tuple[Proof, ...]:
    """One proof for each test that the change adds, alters or repairs.

    Args:
        before: the whole suite on the base.
        after: the whole suite on ``draft``.
        unsteady: tests that are known to flip, or to have another id in each run: that one of them failed before, or
            was not there, says nothing of the change.
    """
    base = with_only_tests(draft)
    proofs: list[Proof] = []
    for unit in units(candidates(draft, before, after, unsteady), lambda test: harness.shown(draft, (test,))):
        red, green = _observe(harness, base, unit), _observe(harness, draft, unit)
        shown = dict.fromkeys(_showing(unit, red.run, green.run))
        proofs += (_proof(harness, base, draft, test, red, green) for test in shown)
    return tuple(proofs)


def told_apart(proofs: Sequence[Proof], before: TestRun) -> tuple[tuple[Proof, ...], tuple[str, ...]]:
    """Those of ``proofs`` that say something of the change, and the tests that flip: what failed before and passed once
    with the change, and does not do so again, is no repair and no fault of the change. Of a test that broke off on the
    base, the parts behind that are missing there, and the test stands for them.

    Args:
        before: the whole suite on the base.
    """
    failed = before.failed
    flips = {one.test: one for one in proofs if one.test in failed and not one.holds}
    parts_of = tuple(f"{one.test}/" for one in proofs if one.holds)  # as Go names them; a name may have a slash, too
    cut_off = {one.test for one in proofs if one.on_base == "missing" and one.test.startswith(parts_of)}
    return tuple(one for one in proofs if one.test not in flips and one.test not in cut_off), tuple(flips)


def with_only_tests(draft: Draft) -> Draft:
    """The base with the change's tests, fixtures and test data, and nothing else of the change."""
    tests = {path: file for path, file in draft.edits.items() if is_test(path)}
    for path, file in draft.edits.items():
        if path in tests or file is None or path not in draft.base.entries:
            continue
        old, new = _text(draft.base.content(path)), _text(file.content)
        if inner_tests(path, old) != inner_tests(path, new):
            tests[path] = replace(file, content=exchanged(path, old, new).encode("utf-8", "surrogateescape"))
    return replace(draft, edits=MappingProxyType(tests))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def candidates(draft: Draft, before: TestRun, after: TestRun, unsteady: Collection[str] = ()) -> tuple[str, ...]:
    """Ids that the change must turn from red to green: new ones, ones whose source changed, and repaired ones."""
    edited = {path for path, file in draft.edits.items() if file is not None and is_test(path)}
    failed, passed = before.failed, after.passed  # each time they are asked for, they are put together
    known = before.passed | failed
    altered = {path: changed_tests(draft, path) for path in edited}

    def concerned(test: str) -> bool:
        if test.startswith(PART):  # that a linter is content says nothing of the task
            return False
        path, _, rest = test.partition("::")
        if test in failed:
            return test in passed and test not in unsteady
        return (test not in known and test not in unsteady) or (
            path in edited and rest.partition("[")[0] in altered[path]
        )

    return tuple(sorted(filter(concerned, passed | after.failed)))


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Observed:
    """One unit of tests on one tree."""

    run: TestRun
    honest: bool
    """The canary's two tests were reported as they are; also true where the toolchain has none."""


def _observe(harness: Harness, draft: Draft, unit: Sequence[str]) -> _Observed:
    canary = canary_of(harness.plan, draft, unit[0], secrets.token_hex(8))
    if canary is None:
        return _Observed(harness.run(draft, unit, "proof", fresh=True), honest=True)
    tree = draft.with_file(canary.path, canary.content)
    run = harness.run(tree, (*unit, canary.selected), "proof", fresh=True)
    if run.status is SuiteStatus.NOT_RUN:  # a file that does not load keeps the runner from reaching the canary
        return _Observed(run, _sings(canary, harness.run(tree, (canary.selected,), "canary", fresh=True)))
    return _Observed(run, _sings(canary, run))


def _sings(canary: Canary, run: TestRun) -> bool:
    return (
        run.outcomes.get(canary.passing) is TestOutcome.PASSED
        and run.outcomes.get(canary.failing) is TestOutcome.FAILED
        and run.exit_code != 0
    )


def _showing(unit: Sequence[str], red: TestRun, green: TestRun) -> Iterator[str]:
    """``unit``, with a test that turned in place of one that passes in both and differs from it by a number alone, as
    cases of a data provider do: one that is put among others moves their numbers, and only the last one looks new."""
    others = (red.failed & green.passed).difference(unit)
    turned = {_NUMBER.sub("#", test): test for test in sorted(others, reverse=True)}
    both = red.passed & green.passed
    for test in unit:
        numbered = _NUMBER.sub("#", test)
        yield turned.get(numbered, test) if test in both and numbered != test else test


def _proof(harness: Harness, base: Draft, draft: Draft, test: str, red: _Observed, green: _Observed) -> Proof:
    on_base, why_base = _on_base(red.run, test, draft)
    on_head, why_head = _outcome(green.run, test)
    if red.honest and not green.honest and on_head is TestOutcome.PASSED:
        on_head, why_head = "not_run", "with the change, a test that must fail is not reported as failing"
    return Proof(
        test=test,
        on_base=on_base,
        on_head=on_head,
        command=harness.shown(draft, (test,)),
        base_digest=base.tree_id(),
        head_digest=draft.tree_id(),
        base_message=why_base,
        head_message=why_head,
    )


def _outcome(run: TestRun, test: str) -> tuple[Seen, str]:
    if run.status.concludes and test in run.outcomes:
        return run.outcomes[test], _end_of(run.messages.get(test, ""))
    if run.status.concludes or run.status is SuiteStatus.NO_TESTS:
        return "missing", ""
    return "not_run", run.detail


def _on_base(run: TestRun, test: str, draft: Draft) -> tuple[Seen, str]:
    """The outcome on the base; an error of loading counts when it names what the change brings."""
    own = run.outcomes.get(test)
    loading = TestOutcome.ERROR if own is None else own
    holder = test if own is not None else _holder(run, test)
    if loading is not TestOutcome.ERROR or run.outcomes.get(holder) is not TestOutcome.ERROR:
        return _outcome(run, test)
    message = run.messages.get(holder, "")
    missing = names_in_error(message) & brought(draft)
    if missing:
        names = ", ".join(sorted(missing)[:3])
        return TestOutcome.ERROR, f"on the base it stops at {names}, which the change brings: {_end_of(message)}"
    if own is not None:
        return TestOutcome.ERROR, _end_of(message)
    return "not_run", f"on the base the test file does not load: {_end_of(message)}"


def _holder(run: TestRun, test: str) -> str:
    """The file, or of a dotted name the module, in which a test is; unittest calls one that does not load by the last
    part of its name."""
    if "::" in test:
        return test.partition("::")[0]
    return next((other for other in run.failed if f".{other}." in f".{test}."), test)


def names_in_error(message: str) -> frozenset[str]:
    """Words of the lines that say that something does not exist."""
    return frozenset(
        word for line in message.splitlines() if _ABSENCE.search(line) for word in _WORD.findall(line.replace("'", " "))
    )


def brought(draft: Draft) -> frozenset[str]:
    """Words that are in the change's sources and not in the base's version of them; names of new files included."""
    found: set[str] = set()
    for path, file in draft.edits.items():
        if file is None or is_test(path):
            continue
        old = draft.base.content(path) if path in draft.base.entries else b""
        found |= _words(path, file.content) - _words(path, old)
        if path not in draft.base.entries:
            found |= set(_WORD.findall(path))
    return frozenset(found)


def _words(path: str, data: bytes) -> set[str]:
    return set(_WORD.findall(product_in(path, _text(data))))


def _end_of(message: str) -> str:
    """The line of a failure text that says most: pytest marks it with an ``E``, most others name what went wrong."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    marked = [line.removeprefix("E").strip() for line in lines if re.match(r"E\s", line)]
    telling = [line for line in lines if re.search(r"(?i)assert|error|expected|exception|undefined", line)]
    return (marked or telling or lines[-1:] or [""])[0][:300]


def units(tests: Iterable[str], command: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Tests that are run together: the cases of one function, or whatever one command can only run as a whole; those of
    one file when there are many.

    Args:
        command: what runs one test.
    """
    functions: dict[str, list[str]] = {}
    for test in tests:
        functions.setdefault(test.partition("[")[0], []).append(test)
    together: dict[Sequence[str], list[str]] = {}
    for function, cases in functions.items():
        together.setdefault(command(function), []).extend(cases)
    if len(together) <= SINGLE_LIMIT:
        yield from map(tuple, together.values())
        return
    files: dict[str, list[str]] = {}
    for test in itertools.chain.from_iterable(together.values()):
        files.setdefault(test.partition("::")[0], []).append(test)
    yield from map(tuple, files.values())
