"""What a failure of a JavaScript test says, without the runner's own part of the trace, and with what was expected and
what came where the report has only the terse line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from agent.verify.report import Entry
from sandbox.text import clean

_FRAME: Final = re.compile(r"^\s*at .*(?:/node_modules/|\bnode:internal/|<anonymous>)")
_DIFFERENCE: Final = "- Expected\n+ Received\n"
_TOLD: Final = re.compile(r"((?:^ FAIL  [^\n]+\n)+)([^\n].*?)(?=^ ❯ |^⎯|^ FAIL  )", re.MULTILINE | re.DOTALL)
"""vitest's default reporter: the tests that failed for one reason, and the reason."""
_BESIDE: Final = 2
_MOST: Final = 24
"""Lines of a difference; what comes first mostly leads to the rest."""
_TITLE: Final = re.compile(r"^ FAIL  (?:\|[^|\n]*\| )?(\S+) > (.+)$", re.MULTILINE)


def trimmed(message: str) -> str:
    """``message`` without the frames that lie in what is installed."""
    lines = message.split("\n")
    kept = [line for line in lines if not _FRAME.match(line)]
    return "\n".join(kept if any(line.strip() for line in kept) else lines)


def explained(entries: Iterable[Entry], output: bytes) -> Iterator[Entry]:
    """``entries``, each that failed with the difference that vitest printed of it and did not report."""
    told = _differences(output) if b"FAIL" in output and b"+ Received" in output else {}
    for entry in entries:
        path, _, title = entry.test.partition("::")
        found = next((text for place, text in told.get(title, {}).items() if path.endswith(place)), "")
        if found and entry.message and _DIFFERENCE not in entry.message:
            first, _, rest = entry.message.partition("\n")
            entry = replace(entry, message="\n".join((first, found, rest)))
        yield entry


def _differences(output: bytes) -> Mapping[str, Mapping[str, str]]:
    """Title of a test → its file, from some folder on → what was expected and what came."""
    found: dict[str, dict[str, str]] = {}
    for block in _TOLD.finditer(clean(output)):
        head, _, difference = block[2].partition(_DIFFERENCE)
        if head and difference.strip():
            for title in _TITLE.finditer(block[1]):
                found.setdefault(title[2], {})[title[1]] = _DIFFERENCE + _near(difference)
    return found


def _near(difference: str) -> str:
    """The lines that differ, with those beside them; what is equal can be a whole schema."""
    lines = difference.strip("\n").split("\n")
    kept = {
        n + by for n, line in enumerate(lines) if line.startswith(("+", "-")) for by in range(-_BESIDE, _BESIDE + 1)
    }
    shown = [line if n in kept else "…" for n, line in enumerate(lines)]
    told = [line for n, line in enumerate(shown) if line != "…" or shown[n - 1 : n] != ["…"]]
    return "\n".join((*told[:_MOST], *(["…"] if len(told) > _MOST else [])))
