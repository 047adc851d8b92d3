"""What JavaScript's test runners write down: node's own by a reporter of ours, jest and vitest, mocha. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from agent.types import TestOutcome
from agent.verify.files import from_root
from agent.verify.report import MESSAGE_LIMIT, Entry, Unreadable
from agent.verify.toolchains import javascript_failures
from sandbox.text import clean

# Runs in the parent of the test processes. One line of JSON for each finished test; node's own JUnit reporter leaves
# the file out, and names alone are not unique.
REPORTER: Final = """
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


def entries(runner: str, data: bytes, views: Sequence[str], folder: str = "") -> Iterator[Entry]:
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
