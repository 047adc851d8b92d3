"""Where the documentation speaks of a task's subject, and where the change log begins: shown when the task asks for it.

Documentation is no candidate of the ranking, which looks for code; without this it costs a look or two to find.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from agent.context.issue import read_issue
from agent.context.lexical import Lexical, damped, query_of
from agent.context.names import plain
from agent.context.page import numbered
from agent.context.telling import NAMED, Telling
from agent.index.index import Index
from agent.index.words import words
from agent.paths import is_prose

_ASKED = re.compile(
    r"\b(?:documentation|(?:un)?documented|docs|doc ?strings?|readme|change ?log|changes file|release notes"
    r"|version history|news (?:file|entry|fragment)"
    r"|document (?:it|this|that|them|these|both|the (?:new|option|behaviou?r|change)))\b",
    re.I,
)
_CHANGES = re.compile(
    r"(?:^|/)(?:changes|change[-_]?log|(?:version|release)?[-_]?history|news|releases|release[-_]notes)(?:\.(?:md|rst|txt|adoc))?$",
    re.I,
)
_ENTRY = re.compile(r"\s*(?:#+\s*)?[\[`*]*(?:v(?:ersion)?\s?)?(?:\d+\.\d+|unreleased\b|upcoming\b|next\b)", re.I)

_PIECES, _PLACES = 2, 3
"""So many chunks are looked at, and so many places in them are shown."""
_AS_GOOD = 0.75
"""Share of the best chunk's score that the second one must reach."""
_BEFORE, _AFTER, _EXAMPLE = 2, 6, 30
_NEWEST = 6


def asked(text: str) -> bool:
    """Whether a task says that documentation or a change log is part of it."""
    return bool(_ASKED.search(text))


def documents(index: Index, query: str, names: Sequence[str]) -> str:
    """The newest entry of the change log, then pieces of the documentation that fit ``query`` best, numbered.

    Args:
        names: of the functions that were found for the query; they count where it names nothing itself.
    """
    changes = [path for path in index.paths if _CHANGES.search(path)]
    shown: dict[str, list[tuple[int, int]]] = {}
    for path in sorted(changes, key=lambda path: (path.count("/"), path))[:1]:
        first = _newest(index.text(path).split("\n"))
        shown[path] = [(first, first + _NEWEST)]
    shown |= _places(index, query, names, frozenset(changes))
    return "\n".join(f"== {path}\n{_shown(index.text(path), spans)}" for path, spans in shown.items())


def _places(
    index: Index, query: str, names: Sequence[str], without: Collection[str]
) -> dict[str, list[tuple[int, int]]]:
    """Path → first and last lines of the best places, outside the files ``without``."""
    stems = index.corpus.vocabulary.stems
    issue = read_issue(query)
    exact = frozenset(plain(issue.said or names))
    wanted = damped(query_of(stems.of(words(issue.text))), query_of(stems.of(exact), times=NAMED))
    is_document = np.array([is_prose(path) and path not in without for path in index.paths], bool)
    is_document[list(index.graph.tests)] = False
    lexical = Lexical(index.corpus, is_document)
    scores = lexical.score(wanted).chunks
    telling = Telling.of(wanted, exact, lexical)
    best: list[tuple[float, int, int]] = []
    for at in np.argsort(-scores, kind="stable")[:_PIECES].tolist():
        if scores[at] > _AS_GOOD * np.max(scores):
            file, piece = index.piece(at)
            lines = index.text(index.paths[file]).split("\n")[piece.start - 1 : piece.end]
            best += [(-telling.said(line), file, piece.start + i) for i, line in enumerate(lines)]
    found: dict[str, list[tuple[int, int]]] = {}
    for _, file, line in sorted(best):
        spans = found.setdefault(index.paths[file], [])
        if all(line < first or line > last for first, last in spans):
            text = index.text(index.paths[file]).split("\n")
            spans.append((max(1, line - _BEFORE), _end(text, line)))
        if sum(map(len, found.values())) == _PLACES:
            break
    return found


def _end(lines: Sequence[str], at: int) -> int:
    """Where what stands at a line ends: an example is shown whole, if it is not too long."""
    last = min(at + _AFTER, len(lines))
    more = range(last, min(at + _EXAMPLE, len(lines)))
    if not lines[last - 1][:1].isspace() and lines[last - 1]:
        return last
    return next((n for n in more if lines[n] and not lines[n][0].isspace()), last)


def _newest(lines: Sequence[str]) -> int:
    """Number of the line before the first entry; 1 where none is seen to begin."""
    found = next((number for number, line in enumerate(lines, start=1) if _ENTRY.match(line)), 1)
    return max(1, found - 2)


def _shown(text: str, spans: Sequence[tuple[int, int]]) -> str:
    lines = text.rstrip("\n").split("\n")
    return numbered(lines, sorted({at for first, last in spans for at in range(first, min(last, len(lines)) + 1)}))
