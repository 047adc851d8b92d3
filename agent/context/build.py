"""A task and a token budget → what a model reads about the repository before it starts.

Same input, same bytes; never over the budget; nothing is cut in half without saying so. All text of the repository
stands inside fences.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.context.documents import asked, documents
from agent.context.fence import fence
from agent.context.issue import read_issue
from agent.context.lexical import Lexical, query_of
from agent.context.names import plain
from agent.context.overview import conventions, cut, facts
from agent.context.rerank import rerank
from agent.context.search import FunctionHit, SearchResult, search
from agent.context.semantic import Meaning
from agent.index.history import Commit
from agent.index.index import Index
from agent.index.record import Record, Symbol
from agent.model.tokens import estimate_tokens
from agent.model.types import Model
from agent.types import Task

_OVERVIEW, _CONVENTIONS, _TESTS, _NEIGHBOURS = 0.04, 0.1, 0.03, 0.03
"""Shares of the budget; all the rest goes to the functions."""

_DOCUMENTS = 0.12
"""Taken from the functions, and only where a task asks for documentation."""

_LENGTH = 0.6
"""How much length counts against likelihood. Fitted; see ``docs/retrieval.md``."""

_LONG, _EXCERPT, _EXCERPTS = 0.6, 0.2, 3
"""A function that would take more than the first share of its section is shown in part, with at most the second
share of what is left, and only where it is among so many of the best."""

_SMALLEST, _NOTE = 24, 12
"""Tokens: no function with its heading takes less than the first; a note of what is left out takes the second."""

_EXAMPLE = 0.1
_NAMED = 3
"""So many of the best functions say what the documentation is searched for, and which tests are named."""

_TEST_LINES, _IMPORT_LINES, _EXAMPLE_LINES = 12, 25, 40
"""No more tests than this are named, and no longer imports or examples shown."""

_AROUND, _CALLERS, _CALLEES, _HOMES = 4, 4, 6, 4
"""So many of the functions shown get their surroundings: that many callers and callees of each, and places where a
constant that the task names is defined."""


def build(
    index: Index,
    task: Task,
    budget_tokens: int,
    seed: str,
    *,
    history: Sequence[Commit] | None = None,
    meaning: Meaning | None = None,
    chooser: Model | None = None,
    margin: float = math.inf,
) -> str:
    """The context of a task.

    Args:
        index: of the base commit.
        task: what a person asked for.
        budget_tokens: upper bound, as ``estimate_tokens`` counts.
        seed: the run's secret, from which the fences are made.
        history, meaning: see ``search``.
        chooser: a model that is asked once in which order the candidates should stand.
        margin: functions whose score is further than this below the best one's are left out, though there is room.
    """
    if budget_tokens <= 0:
        return ""
    result = search(index, query(task), history=history, meaning=meaning)
    if chooser is not None:
        result = rerank(result, index, query(task), chooser, seed=seed)
    return render(index, task, result, budget_tokens, seed, margin)


def render(
    index: Index, task: Task, result: SearchResult, budget_tokens: int, seed: str, margin: float = math.inf
) -> str:
    """The context of a task for which ``result`` was found; see :func:`build`."""
    text, page = query(task), _Page(budget_tokens, seed)
    page.add(facts(index), _OVERVIEW)
    page.add_fenced("conventions", *conventions(index), _CONVENTIONS)
    wants_documents = asked(text)
    reserved = budget_tokens * (_TESTS + _NEIGHBOURS + wants_documents * _DOCUMENTS)
    least = max((hit.score for hit in result.functions), default=0.0) - margin
    shown = _functions(index, result, page, page.left - reserved, least)
    page.add_fenced("tests", "tests that cover this code", _tests(index, result), _TESTS)
    if wants_documents:
        names = [hit.name for hit in result.functions[:_NAMED]]
        found = documents(index, text, names)
        page.add_fenced("documents", "what the documentation says of it", found, _DOCUMENTS)
    around = "\n".join(filter(None, (_constants(index, text), _neighbours(index, shown))))
    page.add_fenced("signatures", "around this code", around, _NEIGHBOURS)
    if page.left > budget_tokens * _EXAMPLE and all(hit.score >= least for hit in result.functions):
        page.add_fenced("example", "similar code, as an example of the style here", _example(index, shown), 1.0)
    return page.text


def query(task: Task) -> str:
    """The task as the text to search with."""
    return "\n".join(filter(None, (task.title, task.body, task.request, *task.comments)))


@dataclass
class _Page:
    """Text that grows up to a bound."""

    budget: int
    seed: str
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)

    @property
    def left(self) -> float:
        return self.budget - estimate_tokens(self.text) - 4

    def fits(self, part: str) -> bool:
        return estimate_tokens("\n\n".join([*self.parts, part])) <= self.budget

    def add(self, part: str, share: float) -> None:
        allowed = int(min(self.budget * share, self.left))
        part = cut(part, allowed)
        if part and self.fits(part):
            self.parts.append(part)

    def frame(self, kind: str, label: str) -> int:
        """Tokens that a fence takes by itself."""
        return estimate_tokens(fence(kind, label, "", self.seed)) + 4

    def add_fenced(self, kind: str, label: str, text: str, share: float) -> None:
        text = cut(text, int(min(self.budget * share, self.left)) - self.frame(kind, label)) if text else ""
        part = fence(kind, label, text, self.seed)
        if text and self.fits(part):
            self.parts.append(part)


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _functions(index: Index, result: SearchResult, page: _Page, room: float, least: float) -> list[FunctionHit]:
    """The functions that are worth their tokens, one fence for all, in the order of the ranking, grouped by file.

    One below ``least`` is not shown unless it is among the first, and what it would have taken goes to no other: that
    would be a long one.
    """
    room -= page.frame("code", "ranked code, best first")
    long = int(room * _LONG)
    rank = {hit: at for at, hit in enumerate(result.functions)}
    best = result.functions[0].path if result.functions else ""
    blocks: dict[str, dict[int, str]] = {}
    shown: list[FunctionHit] = []
    for hit in sorted(result.functions, key=_worth):
        if room < _SMALLEST:
            break
        lines = index.text(hit.path).split("\n")
        body = _numbered(lines, hit.start, hit.end)
        if estimate_tokens(body) > long:
            body = _excerpt(lines, hit, int(room * _EXCERPT)) if rank[hit] < _EXCERPTS else ""
        there = blocks.get(hit.path, {})
        imports = _imports(index, hit.path, lines) if hit.path == best and not there else {}
        header = {start: text for start, text in _class_header(index, hit).items() if start not in there}
        new = {**imports, **header, hit.start: body}
        cost = estimate_tokens("\n".join([*([] if there else [f"== {hit.path}"]), *new.values(), ""]))
        if body and cost <= room:
            room -= cost
            if hit.score < least and rank[hit] >= _EXCERPTS:
                continue
            blocks[hit.path] = there | new
            shown.append(hit)
    shown.sort(key=rank.__getitem__)
    text = "\n".join(_section(path, blocks[path]) for path in dict.fromkeys(hit.path for hit in shown))
    page.add_fenced("code", "ranked code, best first", text, 1.0)
    return shown


def _worth(hit: FunctionHit) -> float:
    """Sorts what is likely and short before what is as likely and long. Scores are log-odds (``weights.json``)."""
    return _LENGTH * math.log(hit.end - hit.start + 2) - hit.score


def _section(path: str, blocks: Mapping[int, str]) -> str:
    return f"== {path}\n" + "\n".join(blocks[start] for start in sorted(blocks))


def _numbered(lines: Sequence[str], start: int, end: int) -> str:
    return "\n".join(f"{number:>5} {line.rstrip()}" for number, line in enumerate(lines[start - 1 : end], start=start))


def _excerpt(lines: Sequence[str], hit: FunctionHit, tokens: int) -> str:
    """The beginning of a long function, as much as fits, and how much is missing."""
    longer = range(hit.start + 1, hit.end + 1)
    last = hit.start + bisect(longer, tokens - _NOTE, key=lambda end: estimate_tokens(_numbered(lines, hit.start, end)))
    shown = _numbered(lines, hit.start, last)
    if estimate_tokens(shown) > tokens:
        return ""
    return f"{shown}\n      [… lines {last + 1}–{hit.end} of {hit.name} left out]"


def _class_header(index: Index, hit: FunctionHit) -> dict[int, str]:
    """Line number → first line of the class that a method stands in; empty for other functions, and where a method says
    itself what it belongs to, as in Go."""
    owner = hit.name.rpartition(".")[0]
    if not owner:
        return {}
    record = index.records[index.graph.number[hit.path]]
    symbol = next((s for s in record.symbols if s.name == owner and s.start <= hit.start <= s.end), None)
    return {symbol.start: f"{symbol.start:>5} {symbol.signature}"} if symbol is not None else {}


def _imports(index: Index, path: str, lines: Sequence[str]) -> dict[int, str]:
    """Line number → the imports at the top of a file, whole; empty where there are none, or too many lines.

    Without them most additions to a file take a look at it first.
    """
    record = index.records[index.graph.number[path]]
    body = min((symbol.start for symbol in record.symbols if symbol.kind != "variable"), default=len(lines) + 1)
    at = [one.line for one in record.imports if one.line < body]
    if not at:
        return {}
    last = next((n for n in range(max(at), body) if not lines[n - 1].strip()), body) - 1
    return {min(at): _numbered(lines, min(at), last)} if last - min(at) < _IMPORT_LINES else {}


def _example(index: Index, shown: Sequence[FunctionHit]) -> str:
    """The function outside ``shown`` that shares most words with the best one."""
    if not shown:
        return ""
    best = shown[0]
    file = index.graph.number[best.path]
    chunk = _chunk_of(index, best)
    stems = index.corpus.vocabulary.stems
    wanted = np.ones(len(index.paths), bool)
    wanted[list(index.graph.tests)] = False
    query = query_of(stems.of(index.words_of(file, chunk))) if chunk is not None else {}
    scores = Lexical(index.corpus, wanted).score(query).chunks
    there = {(hit.path, hit.start) for hit in shown}
    for at in np.argsort(-scores, kind="stable")[:50].tolist():
        home, piece = index.piece(at)
        path = index.paths[home]
        fits = piece.kind == "function" and 2 < piece.end - piece.start < _EXAMPLE_LINES
        if scores[at] > 0 and fits and (path, piece.start) not in there:
            return f"== {path}\n" + _numbered(index.text(path).split("\n"), piece.start, piece.end)
    return ""


def _chunk_of(index: Index, hit: FunctionHit) -> int | None:
    """Number of the function's chunk in its record."""
    chunks = index.records[index.graph.number[hit.path]].chunks
    return next((i for i, c in enumerate(chunks) if c.kind == "function" and c.start == hit.start), None)


# ── around them ──────────────────────────────────────────────────────────────────────────────────────────────────


def _tests(index: Index, result: SearchResult) -> str:
    """Tests that name the best functions and import their files, as places to look and to imitate."""
    graph = index.graph
    lines: dict[str, None] = {}
    for hit in result.functions[:_NAMED]:
        covering = {reach.path for reach in index.tests_for([hit.path])}
        for path, record, names in _users(index, hit.name.rpartition(".")[2], graph.tests):
            if path in covering:
                lines.update(dict.fromkeys(f"{path}: {name}" for name in names[:3] if name and record.symbols))
    if not lines:
        lines.update((f"{reach.path}", None) for reach in index.tests_for([hit.path for hit in result.files[:1]])[:5])
    return "\n".join(list(lines)[:_TEST_LINES])


def _users(index: Index, name: str, files: Iterable[int]) -> list[tuple[str, Record, list[str]]]:
    """(path, record, names of the functions) in ``files`` that have the word ``name``."""
    chunks, _ = index.corpus.of_word(name)
    wanted = frozenset(files)
    found: dict[int, list[str]] = {}
    for chunk in chunks.tolist():
        file, piece = index.piece(chunk)
        if file in wanted:
            symbol = index.records[file].symbols[piece.symbol].name if piece.symbol >= 0 else ""
            found.setdefault(file, []).append(symbol)
    return [(index.paths[file], index.records[file], names) for file, names in sorted(found.items())]


def _constants(index: Index, text: str) -> str:
    """Values at module level that the task names, which no function holds: where they are defined."""
    found = [
        (index.paths[file], index.records[file].symbols[at])
        for name in plain(read_issue(text).said)
        for file, at in index.graph.defined.get(name, ())[:_HOMES]
        if file not in index.graph.tests
    ]
    return "\n".join(f"{path}:{s.start}: {s.signature}" for path, s in found if s.kind == "variable")


def _neighbours(index: Index, shown: Sequence[FunctionHit]) -> str:
    """Signatures of what calls the best functions and of what they call."""
    seen = {(hit.path, hit.name) for hit in shown}
    lines: dict[str, None] = {}
    for hit in shown[:_AROUND]:
        for path, symbol in [*_callers(index, hit), *_callees(index, hit)]:
            if (path, symbol.name) not in seen:
                lines[f"{path}:{symbol.start}: {symbol.signature}"] = None
    return "\n".join(lines)


def _callers(index: Index, hit: FunctionHit) -> list[tuple[str, Symbol]]:
    name = hit.name.rpartition(".")[2]
    if len(index.graph.defined.get(name, ())) > 3:
        return []  # everybody's name: most uses are of something else
    found = []
    for use in index.callers(name):
        file = index.graph.number[use.path]
        if file not in index.graph.tests and use.inside:
            record = index.records[file]
            found += [(use.path, s) for s in record.symbols if s.name == use.inside == record.enclosing(use.line)]
        if len(found) >= _CALLERS:
            break
    return found[:_CALLERS]


def _callees(index: Index, hit: FunctionHit) -> list[tuple[str, Symbol]]:
    graph = index.graph
    file = graph.number[hit.path]
    chunk = _chunk_of(index, hit)
    found: list[tuple[str, Symbol]] = []
    for word in index.words_of(file, chunk) if chunk is not None else ():
        for home, at in graph.behind(word, file):
            symbol = index.records[home].symbols[at]
            if symbol.kind in ("function", "method", "class") and symbol.name != hit.name:
                found.append((index.paths[home], symbol))
    rare = sorted(found, key=lambda item: len(index.corpus.of_word(item[1].short)[0]))
    return rare[:_CALLEES]
