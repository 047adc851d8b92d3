"""A task and a token budget → what a model reads about the repository before it starts.

Same input, same bytes; never over the budget; nothing is cut in half without saying so. All text of the repository
stands inside fences.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping, Sequence

from agent.context import around
from agent.context.documents import asked, documents
from agent.context.overview import conventions, facts
from agent.context.page import Page, line, numbered
from agent.context.rerank import rerank
from agent.context.search import FunctionHit, SearchResult, search
from agent.context.semantic import Meaning
from agent.index.history import Commit
from agent.index.index import Index
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
"""Share of the budget that must be left for an example."""

_IMPORT_LINES = 25
"""No longer imports are shown."""


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
    text, page = query(task), Page(budget_tokens, seed)
    page.add(facts(index), _OVERVIEW)
    page.add_fenced("conventions", *conventions(index), _CONVENTIONS)
    wants_documents = asked(text)
    reserved = budget_tokens * (_TESTS + _NEIGHBOURS + wants_documents * _DOCUMENTS)
    least = max((hit.score for hit in result.functions), default=0.0) - margin
    shown = _functions(index, result, page, page.left - reserved, least)
    page.add_fenced("tests", "tests that cover this code", around.tests(index, result), _TESTS)
    if wants_documents:
        names = [hit.name for hit in result.functions[: around.NAMED]]
        found = documents(index, text, names)
        page.add_fenced("documents", "what the documentation says of it", found, _DOCUMENTS)
    signatures = "\n".join(filter(None, (around.constants(index, text), around.neighbours(index, shown))))
    page.add_fenced("signatures", "around this code", signatures, _NEIGHBOURS)
    if page.left > budget_tokens * _EXAMPLE and all(hit.score >= least for hit in result.functions):
        page.add_fenced("example", "similar code, as an example of the style here", around.example(index, shown), 1.0)
    return page.text


def query(task: Task) -> str:
    """The task as the text to search with."""
    return "\n".join(filter(None, (task.title, task.body, task.request, *task.comments)))


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _functions(index: Index, result: SearchResult, page: Page, room: float, least: float) -> list[FunctionHit]:
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
        body = numbered(lines, range(hit.start, hit.end + 1))
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


def _excerpt(lines: Sequence[str], hit: FunctionHit, tokens: int) -> str:
    """The beginning of a long function, as much as fits, and how much is missing."""

    def shown(last: int) -> str:
        return numbered(lines, range(hit.start, last + 1))

    longer = range(hit.start + 1, hit.end + 1)
    last = hit.start + bisect(longer, tokens - _NOTE, key=lambda end: estimate_tokens(shown(end)))
    if estimate_tokens(shown(last)) > tokens:
        return ""
    return f"{shown(last)}\n      [… lines {last + 1}–{hit.end} of {hit.name} left out]"


def _class_header(index: Index, hit: FunctionHit) -> dict[int, str]:
    """Line number → first line of the class that a method stands in; empty for other functions, and where a method says
    itself what it belongs to, as in Go."""
    owner = hit.name.rpartition(".")[0]
    if not owner:
        return {}
    record = index.records[index.graph.number[hit.path]]
    symbol = next((s for s in record.symbols if s.name == owner and s.start <= hit.start <= s.end), None)
    return {symbol.start: line(symbol.start, symbol.signature)} if symbol is not None else {}


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
    return {min(at): numbered(lines, range(min(at), last + 1))} if last - min(at) < _IMPORT_LINES else {}
