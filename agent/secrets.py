"""Secrets that must not leave: known exact values under usual spellings, and the shapes of common tokens. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

_START = r"(?:(?<!\w)|(?<=\\[abfnrtv0]))"
"""Where a word begins; in a string, the letter of a line end that is spelled out is none of it."""


class _Shape(NamedTuple):
    name: str
    marks: Sequence[str]
    """One of these stands in every such secret: looking for a word is a hundred times as fast."""
    pattern: re.Pattern[str]
    """The captured part is what must look random for the match to count."""


def _shape(name: str, marks: str, pattern: str) -> _Shape:
    return _Shape(name, marks.split(), re.compile(_START + pattern))


_SHAPES = (
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_([A-Za-z0-9_.-]{20,})"),
    _shape("GitHub fine-grained token", "github_pat_", r"github_pat_([A-Za-z0-9_]{20,})"),
    _shape("GitLab token", "glpat-", r"glpat-([A-Za-z0-9_-]{20,})"),
    # Class names of style sheets begin like that too, and hold no digits.
    _shape("model provider key", "sk-", r"sk-(?=[A-Za-z_-]*\d[A-Za-z_-]*\d)([A-Za-z0-9_-]{20,})"),
    _shape("AWS access key", "AKIA ASIA", r"(?:AKIA|ASIA)([0-9A-Z]{16})\b"),
    _shape("Google key", "AIza", r"AIza([A-Za-z0-9_-]{35})"),
    _shape("Slack token", "xox", r"xox[abeoprs]-([A-Za-z0-9-]{16,})"),
    _shape("Stripe key", "k_live_", r"[rs]k_live_([A-Za-z0-9]{20,})"),
    _shape("npm token", "npm_", r"npm_([A-Za-z0-9]{36})\b"),
    _shape("PyPI token", "pypi-AgE", r"pypi-(AgE[A-Za-z0-9_-]{50,})"),
    _shape("JSON web token", "eyJ", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.([A-Za-z0-9_-]{20,})"),
    # Its lines may stand in a string: ``\\n`` between them, or each in quotes of its own.
    _Shape(
        "private key",
        ["PRIVATE KEY-----"],
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:[\s\"'`,+]|\\+[nr])*"
            r"([A-Za-z0-9+/=]{32,}(?:[A-Za-z0-9+/=\s\"'`,]|\\+[nr])*)"
        ),
    ),
)
LEAST = 8
"""Characters of a value that is looked for: a shorter one would be struck out of ordinary words, and hides nothing."""
REDACTED = "[redacted]"


@dataclass(frozen=True)
class Hit:
    """A secret in a text. ``value`` is for comparing only and is never shown."""

    name: str
    line: int
    value: str = field(repr=False)


def find(text: str, sentinels: Iterable[str] = ()) -> Iterator[Hit]:
    """The secrets in ``text``. ``sentinels`` are exact values of ours, found in plain, base64, hex and URL spelling."""
    for sentinel in sentinels:
        for spelling in _spellings(sentinel):
            if (at := text.find(spelling)) != -1:
                yield Hit("one of our own secrets", text.count("\n", 0, at) + 1, sentinel)
                break
    for name, pattern in _possible(text):
        line, at = 1, 0
        for found in pattern.finditer(text):
            line, at = line + text.count("\n", at, found.start()), found.start()
            if not _placeholder(found[1]):
                yield Hit(name, line, found[0])


def may_hold(text: str) -> bool:
    """False where ``text`` holds nothing of the shape of a token for sure; a look, where :func:`redact` reads."""
    return any(mark in text for shape in _SHAPES for mark in shape.marks)


def redact(text: str, sentinels: Iterable[str] = ()) -> str:
    """``text`` with every secret replaced."""
    for sentinel in sorted(sentinels, key=len, reverse=True):
        for spelling in _spellings(sentinel):
            text = text.replace(spelling, REDACTED)
    for _, pattern in _possible(text):
        text = pattern.sub(lambda m: m[0] if _placeholder(m[1]) else REDACTED, text)
    return text


def _possible(text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    return ((name, pattern) for name, marks, pattern in _SHAPES if any(mark in text for mark in marks))


def as_text(content: bytes) -> Iterator[str]:
    """The readings of ``content`` in which a secret could stand: bytes as they are, and UTF-16."""
    yield content.decode("latin-1")
    if b"\0" in content:
        yield content.replace(b"\0", b"").decode("latin-1")


def _placeholder(value: str) -> bool:
    """Documentation's ``xxxx…`` and ``…EXAMPLE``: nothing random in it."""
    return len(set(value)) <= 4 or value.endswith("EXAMPLE")


def _spellings(value: str) -> tuple[str, ...]:
    if len(value) < LEAST:
        return ()
    raw = value.encode()
    # Base64 of a longer text that holds the value depends on where it starts: drop what the neighbours decide.
    shifted = (
        base64.b64encode(b"\0" * shift + raw)
        .decode()[(0, 2, 3)[shift] :]
        .rstrip("=")[: -1 if (shift + len(raw)) % 3 else None]
        for shift in range(3)
    )
    return tuple(dict.fromkeys((value, *shifted, raw.hex(), quote(value, safe=""), value[::-1])))
