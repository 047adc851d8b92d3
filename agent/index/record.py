"""What the index knows of one blob, whatever its path is: the unit that is parsed, stored and put together.

A record is made in a parse worker and kept in SQLite, so it has one plain form: JSON for the outline, text for the
words and 16-bit arrays for the counts. No pickle: a store that was tampered with may be wrong, but can't run code.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_COUNT = 0xFFFF
MAX_WORD = 100
"""Longer runs of word characters are encoded data."""


class Symbol(NamedTuple):
    """A definition. Lines count from 1 and include both ends."""

    kind: str
    """``function``, ``method``, ``class``, ``interface``, ``type``, ``variable``, ``module``, …"""
    name: str
    """Qualified inside the file: ``Class.method``."""
    start: int
    end: int
    signature: str
    doc: str
    """First line of the docstring or of the comment above."""

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


class Chunk(NamedTuple):
    """A piece of text that is ranked as one: a function, or what is left of a class, a module or a text."""

    kind: str
    """``function``, ``class``, ``module`` or ``text``."""
    symbol: int
    """Index into ``Record.symbols``; -1 where nothing is defined."""
    start: int
    end: int


class Import(NamedTuple):
    """One import statement, as written: ``from ..a import b as c`` → ``('..a', (('b', 'c'),), 4)``."""

    module: str
    names: tuple[tuple[str, str], ...]
    """(name there, name here); ``('*', '*')`` for all of them; empty when only the module is bound."""
    line: int
    alias: str = ""
    """The name under which the module itself is bound, when it differs."""
    exported: bool = False
    """Names pass through to whoever imports this file (``export … from``)."""


@dataclass(frozen=True, slots=True)
class Record:
    """Everything about one blob.

    ``counts`` holds three arrays of one length, little-endian 16 bit, one after the other: ``which``, ``where`` and
    ``times``. Word ``which[j]`` stands ``times[j]`` times in ``chunks[where[j]]``; they are ordered by chunk.
    """

    language: str
    lines: int
    symbols: tuple[Symbol, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    imports: tuple[Import, ...] = ()
    words: str = ""
    """The different words, one a line. Not taken apart here: a repository has the same ones in many files."""
    counts: bytes = b""
    note: str = ""
    """Why the outline is missing or partial: ``binary``, ``minified``, ``timed out``, …"""
    broken: int = 0
    """Line of the first syntax error that the grammar sees; 0 where it sees none, or there is no grammar."""

    @property
    def skipped(self) -> bool:
        return not self.chunks

    def enclosing(self, line: int) -> str:
        """Name of the innermost function or class around a line, '' at module level."""
        best = ""
        size = self.lines + 1
        for symbol in self.symbols:
            if symbol.start <= line <= symbol.end and symbol.end - symbol.start < size and symbol.kind != "variable":
                best, size = symbol.name, symbol.end - symbol.start
        return best

    def pack(self) -> tuple[str, str, bytes, int]:
        """(outline, words, counts, checksum): four columns."""
        outline = json.dumps(
            [self.language, self.lines, self.symbols, self.chunks, self.imports, self.note, self.broken],
            ensure_ascii=True,
            separators=(",", ":"),
        )
        return outline, self.words, self.counts, _checksum(outline, self.words, self.counts)

    @classmethod
    def unpack(cls, outline: str, words: str, counts: bytes, checksum: int) -> Record:
        """Inverse of :meth:`pack`.

        Raises:
            ValueError: the columns were damaged.
        """
        if _checksum(outline, words, counts) != checksum or len(counts) % 6:
            raise ValueError("damaged record")
        language, lines, symbols, chunks, imports, note, broken = json.loads(outline)
        return cls(
            language=language,
            lines=lines,
            symbols=tuple(map(Symbol._make, symbols)),
            chunks=tuple(map(Chunk._make, chunks)),
            imports=tuple(
                Import(module, tuple((a, b) for a, b in names), line, alias, exported)
                for module, names, line, alias, exported in imports
            ),
            words=words,
            counts=counts,
            note=note,
            broken=broken,
        )


def _checksum(outline: str, words: str, counts: bytes) -> int:
    start = zlib.crc32(outline.encode("utf-8", "surrogatepass"))
    return zlib.crc32(counts, zlib.crc32(words.encode("utf-8", "surrogatepass"), start))


def count_words(chunks: Sequence[Sequence[str]]) -> tuple[str, bytes]:
    """Words of each chunk → ``words`` and ``counts`` of a :class:`Record`.

    A file with more than 65,535 different words is data; what goes beyond is not counted.
    """
    ids: dict[str, int] = defaultdict(itertools.count().__next__)
    which: list[int] = []
    where: list[bytes] = []
    times: list[int] = []
    for chunk, found in enumerate(chunks[:MAX_COUNT]):
        tally: dict[str, int] = Counter(found)
        if len(ids) + len(tally) > MAX_COUNT:
            tally = {word: count for word, count in tally.items() if word in ids}
        which += map(ids.__getitem__, tally)
        where.append(_SHORT.pack(chunk) * len(tally))
        times += tally.values()
    if max(map(len, ids), default=0) > MAX_WORD:
        return count_words([[word for word in found if len(word) <= MAX_WORD] for found in chunks])
    if max(times, default=0) > MAX_COUNT:
        times = [min(count, MAX_COUNT) for count in times]
    shorts = struct.Struct(f"<{len(which)}H")
    return "\n".join(ids), b"".join((shorts.pack(*which), *where, shorts.pack(*times)))


_SHORT = struct.Struct("<H")
