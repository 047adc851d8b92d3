"""The frames of tracebacks, as the languages print them. Linear in the length of the text, which is hostile."""

from __future__ import annotations

import re
from typing import NamedTuple


class Frame(NamedTuple):
    """One frame of a traceback, or a place that the text points to."""

    path: str
    line: int
    """0 where unknown."""
    function: str


_START = r"(?<![^\s:()'\"])"  # of a path: without it every character of a long word would be tried

_FRAMES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # Python
        r"File \"(?P<path>[^\"\n]{1,400})\", line (?P<line>\d+)(?:, in (?P<function>[^\s,]{1,200}))?",
        # IPython: ``~/x/y.py in name(args)`` or ``File ~/x/y.py:12, in name``
        r"^(?:File )?(?P<path>(?:[~/.]|[A-Za-z]:)[^\s:()]{1,400}\.\w{1,4})(?::(?P<line>\d+))?,? in "
        r"(?P<function>\w[\w.<>]{0,200})",
        # pytest: ``path.py:12: Error`` and ``path.py:12: in name``
        r"^[ \t]*(?P<path>[^\s:\"']{1,400}\.\w{1,5}):(?P<line>\d+): (?:in (?P<function>\w+))?",
        # JavaScript: ``at name (path:12:3)``
        r"^[ \t]*at (?:(?:async|new) )?(?:\S+ )?\(?(?P<path>(?:file://)?[^\s():]{1,400}\.\w{1,5}):(?P<line>\d+):\d+\)?",
        # Java, Kotlin, Scala: ``at a.b.C.method(C.java:12)``
        r"^[ \t]*at (?P<owner>[\w.$]{1,300})\.(?P<function>[\w$<>]{1,200})"
        r"\((?P<path>\w{1,200}\.(?:java|kt|scala)):(?P<line>\d+)\)",
        # Go: ``\t/path/x.go:12 +0x1d``
        r"^[ \t]+(?P<path>/?[^\s:]{1,400}\.go):(?P<line>\d+)(?: \+0x[0-9a-f]+)?$",
        # Rust: ``at src/x.rs:12:5`` and ``panicked at src/x.rs:12:5``
        r"\bat (?:'[^'\n]{0,200}', )?(?P<path>[^\s:]{1,400}\.rs):(?P<line>\d+):\d+",
        # Ruby: ``path.rb:12:in `name'``
        _START + r"(?P<path>[^\s:]{1,400}\.rb):(?P<line>\d+):in [`'](?P<function>[^'\n]{1,200})'",
        # PHP: ``path.php(12)`` and ``in /path.php:12`` / ``on line 12``
        _START + r"(?P<path>[^\s:()]{1,400}\.php)(?:\(|:| on line )(?P<line>\d+)",
        # C#: ``at A.B.M() in path.cs:line 12``
        r"^[ \t]*at (?P<function>[\w.`<>]{1,300})\([^)\n]*\) in (?P<path>[^\n]{1,400}):line (?P<line>\d+)",
        # C, C++ (gcc, gdb, sanitizers): ``path.c:12``
        _START + r"(?P<path>[^\s:()]{1,400}\.(?:c|cc|cpp|cxx|h|hpp|swift)):(?P<line>\d+)(?::\d+)?",
    )
)


def frames_in(text: str) -> tuple[Frame, ...]:
    """In the order of the text, each place once."""
    found: dict[tuple[str, int], tuple[int, Frame]] = {}
    for pattern in _FRAMES:
        for match in pattern.finditer(text):
            frame = _frame(match.groupdict(default=""))
            found.setdefault((frame.path, frame.line), (match.start(), frame))
    return tuple(frame for _, frame in sorted(found.values()))


def _frame(told: dict[str, str]) -> Frame:
    path = told["path"].replace("\\", "/")
    package = told.get("owner", "").rpartition(".")[0].replace(".", "/")  # of Java: it is the folder
    function = told.get("function", "").rpartition(".")[2]
    return Frame(f"{package}/{path}" if package else path, int(told["line"] or 0), function)
