"""A task and a token budget → what a model reads about the repository before it starts.

Same input, same bytes; never over the budget; nothing is cut in half without saying so. All text of the repository
stands inside fences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.context import around, pieces
from agent.context.documents import asked, documents
from agent.context.overview import conventions, facts
from agent.context.page import Page
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

_LONG_DOC = 0.25
"""A docstring that would take more than this share of its section is shown in part, unless the task is about what is
documented."""

_SMALLEST = 24
"""Tokens; no function with its heading takes less."""

_EXAMPLE = 0.1
"""Share of the budget that must be left for an example."""


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
    own = [hit for hit in result.functions if pieces.is_inner_test(index, hit.path, hit.name)]
    result = result._replace(functions=tuple(hit for hit in result.functions if hit not in own))
    shown = _functions(index, result, page, page.left - reserved, least, text)
    page.add_fenced("tests", "tests that cover this code", around.tests(index, result, own, text), _TESTS)
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


def _functions(
    index: Index, result: SearchResult, page: Page, room: float, least: float, text: str
) -> list[FunctionHit]:
    """The functions that are worth their tokens, one fence for all, in the order of the ranking, grouped by file.

    One below ``least`` is not shown unless it is among the first, and what it would have taken goes to no other: that
    would be a long one.
    """
    room -= page.frame("code", "ranked code, best first")
    long = int(room * _LONG)
    rank = {hit: at for at, hit in enumerate(result.functions)}
    best = result.functions[0].path if result.functions else ""
    long_doc = math.inf if asked(text) else room * _LONG_DOC
    blocks: dict[str, dict[int, str]] = {}
    shown: list[FunctionHit] = []
    for hit in sorted(result.functions, key=_worth):
        if room < _SMALLEST:
            break
        lines = index.text(hit.path).split("\n")
        if pieces.is_overload(lines, hit):
            continue
        body = pieces.body(lines, hit, long_doc)
        if estimate_tokens(body) > long:
            body = pieces.excerpt(index, text, lines, hit, int(room * _EXCERPT)) if rank[hit] < _EXCERPTS else ""
        there = blocks.get(hit.path, {})
        imports = pieces.imports(index, hit.path, lines) if hit.path == best and not there else {}
        header = {at: line for at, line in pieces.class_heading(index, hit, lines).items() if at not in there}
        new = {**imports, **header, hit.start: body}
        cost = estimate_tokens("\n".join([*([] if there else [f"== {hit.path}"]), *new.values(), ""]))
        if body and cost <= room:
            room -= cost
            if hit.score < least and rank[hit] >= _EXCERPTS:
                continue
            blocks[hit.path] = there | new
            shown.append(hit)
    shown.sort(key=rank.__getitem__)
    code = "\n".join(_section(path, blocks[path]) for path in dict.fromkeys(hit.path for hit in shown))
    page.add_fenced("code", "ranked code, best first", code, 1.0)
    return shown


def _worth(hit: FunctionHit) -> float:
    """Sorts what is likely and short before what is as likely and long. Scores are log-odds (``weights.json``)."""
    return _LENGTH * math.log(hit.end - hit.start + 2) - hit.score


def _section(path: str, blocks: Mapping[int, str]) -> str:
    return f"== {path}\n" + "\n".join(blocks[start] for start in sorted(blocks))
