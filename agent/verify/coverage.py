"""Which lines of some files run in the tests. It tells a reader more, and decides nothing.

The tests are run once more for it, apart from the runs that decide, with a tracer of ours in the target's interpreters.
What the tracer writes passes through a process that runs the target's code: data, like every report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from agent.tree import Draft
from agent.types import MISSED_PLACES, Coverage, TestRun
from agent.verify.harness import Harness, Watch
from agent.verify.impact import file_of
from agent.verify.javascript_lines import SUFFIXES, UNSEEN, read, watch
from agent.verify.lines import Lines, Seen, changed, code_lines, places
from agent.verify.paths import is_test
from agent.verify.toolchains.base import REPORTS, WATCH, Collected

QUICK_S: Final = 10.0
"""A suite that takes less is run whole; of a slower one the tests that reach the change by imports."""
LONGEST_S: Final = 30.0
"""More is not spent on what decides nothing; before Python 3.12 a watched run takes two or three times as long."""
_ROWS: Final = 200_000
_WATCHED: Final = 200
"""Files; their names travel in one variable."""


@dataclass(frozen=True)
class Tracer:
    """How the lines that ran are seen in one kind of interpreter."""

    suffixes: tuple[str, ...]
    """Of the files that it can watch."""
    watch: Callable[[Collection[str], str, str], Watch]
    """For these paths, below this folder, while this line runs the tests."""
    read: Callable[[Collected, Mapping[str, bytes]], Seen]
    """What the report files say of these paths, given their contents."""
    unseen: str = "they may run from another place"
    """What may be the reason where nothing is seen."""


@dataclass(frozen=True)
class Observed:
    """What one more run of the tests showed."""

    seen: Seen
    tests: int = 0
    """Test files that were run; 0 for all."""
    absent: str = ""
    """Why nothing was seen."""


def observe(
    harness: Harness,
    draft: Draft,
    paths: Sequence[str],
    reached: Collection[str],
    final: TestRun,
    part: Collection[str] = (),
) -> Observed:
    """Run tests once more, and see which lines of ``paths`` run.

    Args:
        paths: the most wanted first.
        reached: the test files that can reach them.
        final: the whole suite on ``draft``.
        part: test files that ``final`` is of, where it is not the whole suite.
    """
    tracer = TRACERS.get(harness.plan.toolchain)
    if tracer is None:
        return Observed({}, absent=f"there is no way yet to see the lines that run under {harness.plan.toolchain}")
    wanted = tuple(path for path in paths if path.endswith(tracer.suffixes))[:_WATCHED]
    if not wanted:
        return Observed({})
    selection, seconds = _selection(reached, final, tuple(path for path in part if path in draft))
    if seconds > LONGEST_S:
        return Observed(
            {}, absent=f"the tests that reach the change take {seconds:.0f} s, too long to be run once more"
        )
    watch = tracer.watch(wanted, harness.workspace.spec.view, harness.plan.line)
    collected = harness.watched(draft, selection, watch, wall_s=60 + 5 * seconds)
    seen = tracer.read(collected, {path: draft.content(path) for path in wanted})
    why = "" if seen else f"no line of the changed files was seen to run, so {tracer.unseen}"
    return Observed(seen, len(selection), why)


def _selection(reached: Collection[str], final: TestRun, every: tuple[str, ...]) -> tuple[tuple[str, ...], float]:
    """The test files to run, ``every`` for all of them, and about how many seconds that takes."""
    holders = [file_of(test) for test in final.outcomes]
    selection = tuple(sorted({*holders} & {*reached}))
    if final.seconds < QUICK_S or not selection:
        return every, final.seconds
    return selection, final.seconds * sum(holder in selection for holder in holders) / len(holders)


def sources(draft: Draft) -> tuple[str, ...]:
    """The changed files that tests can run."""
    return tuple(sorted(path for path, file in draft.edits.items() if file is not None and not is_test(path)))


def of_change(draft: Draft, observed: Observed) -> Coverage:
    """What was seen of the changed lines."""
    seen = observed.seen
    new = {path: _changed(draft, path) & lines.code for path, lines in seen.items() if path in draft.edits}
    missed = [place for path in sorted(new) for place in places(path, new[path] - seen[path].ran)]
    return Coverage(
        lines=sum(map(len, new.values())),
        ran=sum(len(lines & seen[path].ran) for path, lines in new.items()),
        missed=tuple(missed[:MISSED_PLACES]),
        more=max(0, len(missed) - MISSED_PLACES),
        tests=observed.tests,
        absent=observed.absent,
    )


def _changed(draft: Draft, path: str) -> frozenset[int]:
    old = draft.base.content(path) if path in draft.base.entries else b""
    return changed(old, draft.content(path))


# ── Python ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _watch_python(paths: Collection[str], view: str, line: str) -> Watch:
    script = resources.files("agent.verify.tracers").joinpath("sitecustomize.py").read_bytes()
    wanted = {"report": REPORTS, "root": view, "paths": sorted(paths)}
    return Watch({"sitecustomize.py": script}, {"GRAFTSMITH_LINES": json.dumps(wanted)}, {"PYTHONPATH": WATCH})


def _read_python(collected: Collected, paths: Mapping[str, bytes]) -> Seen:
    reports = collected.reports
    code, ran = _rows(reports.get("code", b""), paths), _rows(reports.get("ran", b""), paths)
    return {path: Lines(lines, lines & ran.get(path, frozenset())) for path, lines in code.items()} if ran else {}


def _rows(data: bytes, paths: Collection[str]) -> Mapping[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for path, lines in _parsed(data):
        if path in paths:
            found.setdefault(path, set()).update(lines)
    return {path: frozenset(lines) for path, lines in found.items()}


def _parsed(data: bytes) -> Iterator[tuple[str, list[int]]]:
    for row in data.splitlines()[:_ROWS]:
        try:
            path, *lines = json.loads(row)
        except (ValueError, TypeError, RecursionError):
            continue  # several processes write to it, and one may have been killed in the middle
        if isinstance(path, str) and all(type(line) is int for line in lines):
            yield path, lines


_PYTHON: Final = Tracer((".py",), _watch_python, _read_python)


# ── Go ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_PROFILE: Final = "go.cover"
_BLOCK: Final = re.compile(r"(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)")
"""``file:line.column,line.column statements count`` (``go help testflag``, -coverprofile)."""


def _watch_go(paths: Collection[str], view: str, line: str) -> Watch:
    flags = f"-mod=mod -coverprofile={REPORTS}/{_PROFILE} -coverpkg=./..."
    return Watch({}, {"GOFLAGS": flags}, {})


def _read_go(collected: Collected, paths: Mapping[str, bytes]) -> Seen:
    """Files are named by their module: of two names that end alike the shorter is the one nearer to the root."""
    blocks: dict[str, list[tuple[range, bool]]] = {}
    for row in collected.reports.get(_PROFILE, b"").decode("utf-8", "replace").splitlines()[:_ROWS]:
        if match := _BLOCK.fullmatch(row):
            block = range(int(match[2]), min(int(match[3]), _ROWS) + 1), match[4] != "0"
            blocks.setdefault(match[1], []).append(block)
    seen = {}
    for path, content in paths.items():
        name = min((name for name in blocks if name.endswith(f"/{path}")), key=len, default=None)
        if name is not None:
            code = code_lines(content.decode("utf-8", "replace"))
            around = {line for lines, _ in blocks[name] for line in lines}
            ran = {line for lines, did in blocks[name] if did for line in lines}
            seen[path] = Lines(code & around, code & ran)
    return seen


_GO: Final = Tracer((".go",), _watch_go, _read_go)

_NODE: Final = Tracer(SUFFIXES, watch, read, UNSEEN)

TRACERS: Final[Mapping[str, Tracer]] = {
    "python-pytest": _PYTHON,
    "python-unittest": _PYTHON,
    "python-trial": _PYTHON,
    "node": _NODE,
    "go": _GO,
}
"""By toolchain."""
