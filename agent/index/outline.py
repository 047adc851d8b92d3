"""Bytes of one file → its :class:`Record`. Pure; runs in a parse worker, which is killed when a grammar hangs.

The walk is pruned at function bodies: a full walk in Python costs more than the parse itself. References are taken
from the words of a function instead of from its nodes.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any, NamedTuple

import tree_sitter

from agent.index import rules, words
from agent.index.languages import LANGUAGES
from agent.index.languages.base import Language
from agent.index.record import Chunk, Import, Record, Symbol, count_words

VERSION = 2
"""Raise it when records of old blobs must be made again."""

TEXT_LINES = 80
"""Length of a chunk where nothing is defined."""

_MAX_NODES = 200_000
_MAX_CHECKED = 1_000_000
"""Bytes of a file that is parsed while somebody waits for it."""
_MAX_SIGNATURE = 240
_MAX_DOC = 200


class _Piece(NamedTuple):
    """A range of bytes, and the lines on which its first byte and the byte behind it stand."""

    start: int
    end: int
    first: int
    last: int


class _Found(NamedTuple):
    symbol: Symbol
    start: int
    end: int
    callable: bool
    scope: bool


def record(content: bytes, language: str, note: str = "") -> Record:
    """Outline, chunks and words of one file.

    Args:
        content: the file as stored; any encoding.
        language: a key of ``LANGUAGES``; anything else is read as plain text.
        note: why the file is read as plain text although its language is known.
    """
    reason = rules.content_rule(content)
    if reason:
        return Record(language, 0, note=reason)
    known = LANGUAGES.get(language)
    code = decode(content)
    if known is None or note:
        return _plain(code, language, note)
    try:
        parser = _parser(language)
    except (ImportError, OSError, ValueError) as error:  # a grammar that is not there, or of another version
        return _plain(code, language, f"no grammar: {error}")
    source = code.encode("utf-8", "replace")
    tree = parser.parse(source)
    if tree is None:
        return _plain(code, language, "not parsed")
    found, imports = _walk(tree.root_node, known, source)
    broken = _first_error(tree.root_node)
    if not found and broken:
        return replace(_plain(code, language, "syntax errors"), broken=broken)
    return replace(_outlined(source, language, found, imports), broken=broken)


def _first_error(root: Any) -> int:
    """Line of the first ``ERROR`` or ``MISSING`` node, 0 where there is none. Only broken parts are looked into."""
    node = root
    while node.has_error and not (node.is_error or node.is_missing):
        inner = next((child for child in node.children if child.has_error), None)
        if inner is None:
            break
        node = inner
    return int(node.start_point[0]) + 1 if node.has_error else 0


def first_error(content: bytes, language: str) -> int:
    """Line of the first syntax error that a language's grammar sees in a file; 0 where it sees none, or where there is
    none to ask.

    Args:
        content: the file as stored; any encoding.
        language: a key of ``LANGUAGES``.
    """
    if language not in LANGUAGES or len(content) > _MAX_CHECKED or rules.content_rule(content):
        return 0
    try:
        tree = _parser(language).parse(decode(content).encode("utf-8", "replace"))
    except (ImportError, OSError, ValueError):  # a grammar that is not there, or of another version
        return 0
    return _first_error(tree.root_node)


def decode(content: bytes) -> str:
    """Text of a file: UTF-8, UTF-16 with a mark, else Latin-1, which never fails."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


@functools.cache
def _parser(language: str) -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(LANGUAGES[language].grammar()))


# ── definitions ──────────────────────────────────────────────────────────────────────────────────────────────────


def _walk(root: Any, language: Language, source: bytes) -> tuple[list[_Found], list[Import]]:
    found: list[_Found] = []
    imports: list[Import] = []
    # (node, prefix of names, the wrapper whose span counts, inside a class)
    stack: list[tuple[Any, str, Any, bool]] = [(root, "", None, False)]
    for _ in range(_MAX_NODES):
        if not stack:
            break
        node, prefix, wrapper, member = stack.pop()
        kind = node.type
        if kind in language.import_nodes:
            imports.extend(language.imports(node))
        name = language.name_of(node) if kind in language.definitions else ""
        if name:
            item = _found(node, wrapper or node, prefix + name, member, language, source)
            found.append(item)
            if kind in language.scopes:
                body = node.child_by_field_name("body") or node
                within = member or item.symbol.kind != "module"
                stack.extend((child, f"{prefix}{name}.", None, within) for child in reversed(body.named_children))
        elif kind in language.scopes:
            stack.extend((child, prefix, None, member) for child in reversed(node.named_children))
        elif kind in language.wrappers:
            inside = sum(c.type in language.definitions or c.type in language.wrappers for c in node.named_children)
            span = (wrapper or node) if inside == 1 else None
            stack.extend((child, prefix, span, member) for child in reversed(node.named_children))
        elif kind in language.transparent or node is root:
            stack.extend((child, prefix, None, member) for child in reversed(node.named_children))
    return found, imports


def _found(node: Any, outer: Any, name: str, member: bool, language: Language, source: bytes) -> _Found:
    kind = language.kind_of(node, language.definitions[node.type])
    is_callable = kind == "function"
    symbol = Symbol(
        kind="method" if member and is_callable else kind,
        name=name,
        start=outer.start_point[0] + 1,
        end=outer.end_point[0] + 1,
        signature=_signature(node, language, source) if kind != "variable" else _first_line(node, source),
        doc=_doc(node, outer, language)[:_MAX_DOC] if kind != "variable" else "",
    )
    scope = node.type in language.scopes and kind != "module"
    return _Found(symbol, outer.start_byte, outer.end_byte, is_callable, scope)


def _signature(node: Any, language: Language, source: bytes) -> str:
    body = node.child_by_field_name("body")
    if body is None and language.bodies:
        body = next((child for child in node.children if child.type in language.bodies), None)
    if body is None:
        return _first_line(node, source)
    end = min(body.start_byte, node.start_byte + 4 * _MAX_SIGNATURE)
    return " ".join(source[node.start_byte : end].decode("utf-8", "replace").split())[:_MAX_SIGNATURE]


def _first_line(node: Any, source: bytes) -> str:
    head = source[node.start_byte : min(node.end_byte, node.start_byte + _MAX_SIGNATURE)]
    return head.split(b"\n", 1)[0].decode("utf-8", "replace").strip()


_COMMENT_MARKS = re.compile(r"^[\s/*#!;-]+|[\s*/]+$")


def _doc(node: Any, outer: Any, language: Language) -> str:
    if language.docstring is not None:
        return language.docstring(node)
    above = outer.prev_sibling
    first = None
    while above is not None and above.type in language.comments:
        first, above = above, above.prev_sibling
    if first is None:
        return ""
    for line in (first.text or b"").decode("utf-8", "replace").splitlines():
        line = _COMMENT_MARKS.sub("", line)
        if line:
            return str(line)
    return ""


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _outlined(source: bytes, language: str, found: list[_Found], imports: list[Import]) -> Record:
    """One chunk a function; what remains of a class belongs to the class, the rest to the module."""
    owners = [(i, f) for i, f in enumerate(found) if f.callable or f.scope]
    owners.sort(key=lambda item: (item[1].start, -item[1].end))
    pieces: dict[int, list[_Piece]] = {}  # by symbol
    open_: list[tuple[int, int]] = [(-1, len(source))]  # (symbol, end)
    at, line = 0, 1

    def take(until: int) -> None:
        nonlocal at, line
        if until > at:
            last = line + source.count(b"\n", at, until)
            pieces.setdefault(open_[-1][0], []).append(_Piece(at, until, line, last))
            at, line = until, last

    for number, item in owners:
        while item.start >= open_[-1][1]:
            take(open_[-1][1])
            open_.pop()
        take(item.start)
        open_.append((number, min(item.end, open_[-1][1])))
    while open_:
        take(open_[-1][1])
        open_.pop()

    chunks, texts = [], []
    for number, own in pieces.items():
        for start, end, content in _cut(own, source, whole=number >= 0 and found[number].callable):
            kind = "module" if number < 0 else "function" if found[number].callable else "class"
            chunks.append(Chunk(kind, number, start, end))
            texts.append(words.words(content))
    symbols = tuple(item.symbol for item in found)
    return Record(language, line, symbols, tuple(chunks), tuple(imports), *count_words(texts))


def _cut(pieces: list[_Piece], source: bytes, whole: bool) -> list[tuple[int, int, str]]:
    """The text of pieces as (first line, last line, text); long remainders in several."""
    out: list[tuple[int, int, str]] = []
    texts: list[str] = []
    first = last = 0
    for piece in pieces:
        text = source[piece.start : piece.end].decode("utf-8", "replace")
        if not text.strip():
            continue
        if texts and not whole and piece.last - first > 4 * TEXT_LINES:
            out.append((first, last, "\n".join(texts)))
            texts = []
        first = first if texts else piece.first
        last = piece.last
        texts.append(text)
    if texts:
        out.append((first, last, "\n".join(texts)))
    return out


def _plain(code: str, language: str, note: str) -> Record:
    lines = code.split("\n")
    chunks, texts = [], []
    for start in range(0, len(lines), TEXT_LINES):
        part = "\n".join(lines[start : start + TEXT_LINES])
        if part.strip():
            chunks.append(Chunk("text", -1, start + 1, min(start + TEXT_LINES, len(lines))))
            texts.append(words.words(part))
    return Record(language, len(lines), (), tuple(chunks), (), *count_words(texts), note)
