"""Which lines of JavaScript and TypeScript ran in the tests: by the engine's own coverage where nothing translates the
sources, by the runner's own where vitest or jest does. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from agent.verify.files import from_root
from agent.verify.harness import Watch
from agent.verify.lines import Lines, Seen, code_lines
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import REPORTS, Collected

_SCRIPTS: Final = (".js", ".mjs", ".cjs")
SUFFIXES: Final = (*_SCRIPTS, ".jsx", ".ts", ".tsx", ".mts", ".cts")
UNSEEN: Final = "they may run from another place or translated, or the runner's coverage tool is not installed"
_FINAL: Final = "coverage-final.json"
"""What istanbul's reporter calls its file."""
_OWN: Final[Mapping[str, str]] = {
    "vitest": " --coverage.enabled --coverage.reporter=json --coverage.clean=false"
    f" --coverage.reportsDirectory={REPORTS} --coverage.reportOnFailure",
    "jest": f" --coverage --coverageReporters=json --coverageDirectory={REPORTS}",
}
"""Runner → the options by which it says which lines ran, if what it needs for that is installed."""


def watch(paths: Collection[str], view: str, line: str) -> Watch:
    """How to see it. Node's own: https://nodejs.org/api/cli.html#node_v8_coveragedir"""
    for runner, options in _OWN.items():
        found = shell_line.calls(line, rf"{runner}(?:\.js)?")
        if len(found) == 1:  # they would write to one file
            return Watch({}, {}, {}, shell_line.rewrite(line, found, lambda _n, old: old + options))  # noqa: B023
    return Watch({}, {"NODE_V8_COVERAGE": REPORTS}, {})


def read(collected: Collected, paths: Mapping[str, bytes]) -> Seen:
    """What is seen of ``paths``, given their contents."""
    texts = {path: content.decode("utf-8", "replace") for path, content in paths.items()}
    if _FINAL in collected.reports:
        return _of_runner(collected.reports[_FINAL], collected.views, texts)
    return _of_engine(collected, texts)


# ── the runner's own ─────────────────────────────────────────────────────────────────────────────────────────────


def _of_runner(data: bytes, views: Sequence[str], texts: Mapping[str, str]) -> Seen:
    """istanbul's JSON: statements, and how often each was run. A line is that of the first that begins on it."""
    seen = {}
    try:
        for name, file in json.loads(data).items():
            path = from_root(str(name), views)
            if path in texts:
                counts = [
                    (int(place["start"]["line"]), int(file["s"][key])) for key, place in file["statementMap"].items()
                ]
                code = code_lines(texts[path]) & {line for line, _ in counts}
                seen[path] = Lines(code, code & {line for line, count in counts if count > 0})
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}  # damaged, or made up
    return seen


# ── the engine's own ─────────────────────────────────────────────────────────────────────────────────────────────


def _of_engine(collected: Collected, texts: Mapping[str, str]) -> Seen:
    """A script whose ranges are those of another text is left out: a loader has put a translation in its place. So is
    one with types that was not loaded: it may hold nothing else."""
    reports = [data for name, data in collected.reports.items() if name.startswith("coverage-")]
    scripts = [script for data in reports for script in _scripts(data, collected.views, texts)]
    translated = {path for path, ranges in scripts if max(end for _, end, _ in ranges) != _units(texts[path])}
    ran: dict[str, set[int]] = {}
    for path, ranges in scripts:
        if path not in translated:
            ran.setdefault(path, set()).update(_ran(texts[path], ranges))
    absent = [path for path in texts if path.endswith(_SCRIPTS) and path not in translated]
    told = {*ran, *absent} if ran else ()
    return {path: Lines(code_lines(texts[path]), code_lines(texts[path]) & ran.get(path, set())) for path in told}


Range = tuple[int, int, int]
"""Start, end, count, in UTF-16 units."""


def _scripts(data: bytes, views: Sequence[str], paths: Collection[str]) -> Iterator[tuple[str, list[Range]]]:
    """(path, ranges) of the scripts among ``paths``."""
    try:
        for script in json.loads(data)["result"]:
            path = from_root(unquote(str(script["url"])), views)
            if path in paths:
                ranges = [one for function in script["functions"] for one in function["ranges"]]
                found = [(int(one["startOffset"]), int(one["endOffset"]), int(one["count"])) for one in ranges]
                yield path, found or [(0, 0, 0)]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return  # damaged, or made up


def _ran(text: str, ranges: Sequence[Range]) -> set[int]:
    """Lines whose first sign lies in a range that ran: the innermost decides."""
    found, start = set(), 0
    for number, line in enumerate(text.split("\n"), 1):
        at = start + _units(line) - _units(line.lstrip())
        around = [(end - begin, count) for begin, end, count in ranges if begin <= at < end]
        if around and min(around)[1] > 0:
            found.add(number)
        start += _units(line) + 1
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
