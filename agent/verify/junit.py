"""JUnit XML, as pytest, surefire, Gradle, phpunit, vitest, jest and node write it.

The file comes from the process under test: entities are refused, its size and the number of its cases are bounded.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from agent.types import TestOutcome
from agent.verify.report import MESSAGE_LIMIT, Unreadable
from sandbox.text import clean, shorten

MAX_BYTES = 64 * 1024 * 1024
MAX_CASES = 500_000
_TOLD = 2 * MESSAGE_LIMIT
"""Characters of a failure that are read."""
_LINES = 50
"""Lines of one that are looked for in its other part."""


@dataclass(frozen=True)
class Case:
    """One ``<testcase>``."""

    classname: str
    name: str
    file: str
    outcome: TestOutcome
    message: str
    kind: str
    """The ``type`` of the skip or failure, ``pytest.xfail`` for example; for an error its ``message``."""


def cases(*reports: bytes) -> tuple[Case, ...]:
    """All that these reports hold.

    Raises:
        Unreadable: one is too large, not well-formed, holds entities or a DTD, or is not a JUnit file.
    """
    return tuple(case for data in reports for case in _parsed(data))


def _parsed(data: bytes) -> tuple[Case, ...]:
    if len(data) > MAX_BYTES:
        raise Unreadable(f"the report is larger than {MAX_BYTES // 2**20} MiB")
    try:
        found = tuple(_walk(data))
    except DefusedXmlException as error:
        raise Unreadable(f"the report holds XML entities or a DTD ({type(error).__name__})") from error
    except (ParseError, ValueError, LookupError) as error:
        raise Unreadable(f"the report is not well-formed XML ({error})") from error
    return found


def _walk(data: bytes) -> Iterator[Case]:
    """Cases in document order, each element dropped once it was read, so that memory follows one case, not the file."""
    open_elements: list[Element] = []
    count = 0
    for event, element in iterparse(io.BytesIO(data), events=("start", "end"), forbid_dtd=True):
        if event == "start":
            open_elements.append(element)
            if len(open_elements) == 1 and element.tag not in ("testsuites", "testsuite"):
                raise Unreadable(f"the report is no JUnit file: its root is <{element.tag[:40]}>")
            if len(open_elements) > 100:
                raise Unreadable("the report is nested more than 100 levels deep")
            continue
        open_elements.pop()
        if element.tag == "testcase":
            count += 1
            if count > MAX_CASES:
                raise Unreadable(f"the report holds more than {MAX_CASES} tests")
            files = [e.get("file", "") for e in open_elements if e.get("file")]
            yield _case(element, files[-1] if files else "")
        if open_elements and not _is_kept(element, open_elements[-1]):
            open_elements[-1].remove(element)


_KEPT = frozenset({"error", "failure", "skipped", "system-out", "system-err"})
_CHILDREN_KEPT = 20


def _is_kept(element: Element, parent: Element) -> bool:
    """Whether something is still to be read of it. Of a test that is what says how it ended."""
    known = parent.tag in _KEPT or (parent.tag == "testcase" and element.tag in _KEPT)
    return known and len(parent) <= _CHILDREN_KEPT


def _case(element: Element, suite_file: str) -> Case:
    outcome, message, kind = _outcome(element)
    return Case(
        classname=element.get("classname", ""),
        name=element.get("name", ""),
        file=element.get("file", "") or suite_file,
        outcome=outcome,
        message=message,
        kind=kind,
    )


_CHILDREN: Mapping[str, TestOutcome] = {
    "error": TestOutcome.ERROR,
    "failure": TestOutcome.FAILED,
    "skipped": TestOutcome.SKIPPED,
}


def _outcome(element: Element) -> tuple[TestOutcome, str, str]:
    for tag, outcome in _CHILDREN.items():
        child = element.find(tag)
        if child is None:
            continue
        head, body = (shorten(said, _TOLD) for said in (child.get("message", ""), "".join(child.itertext())))
        said = (body if _repeats(body, head) else f"{head}\n{body}").strip() or _printed(element)
        message = clean(said.encode("utf-8", "replace"))
        if tag == "skipped" and child.get("type") == "pytest.xfail":
            return TestOutcome.XFAILED, message, "pytest.xfail"
        return outcome, message, head if tag == "error" else child.get("type", "")
    is_off = element.get("status") in ("disabled", "notrun")  # googletest's word, and that of CTest
    return TestOutcome.SKIPPED if is_off else TestOutcome.PASSED, "", ""


def _printed(element: Element) -> str:
    """What the test itself printed: of a program that only has an exit code there is no other word."""
    return "\n".join(
        "".join(child.itertext()) for child in element if child.tag in ("system-out", "system-err")
    ).strip()


def _repeats(body: str, head: str) -> bool:
    """Whether every line of ``head`` stands in ``body`` too; pytest puts a mark before each."""
    return all(line.strip() in body for line in head.splitlines()[:_LINES])
