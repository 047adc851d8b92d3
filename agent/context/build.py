"""A task and a token budget → the text that a model reads about the repository. Never over the budget."""

from __future__ import annotations

from collections import Counter

from agent.context import tokens
from agent.context.fence import fence
from agent.index.index import Index
from agent.types import Task


def build(index: Index, task: Task, budget_tokens: int, seed: str) -> str:
    """Overview and ranked functions, whole, with line numbers, fenced.

    Args:
        index: of the base commit.
        task: what a person asked for.
        budget_tokens: upper bound.
        seed: the run's secret, from which the fences are made.
    """
    parts = [overview(index)]
    left = budget_tokens - tokens.count(parts[0]) - 8
    if left < 0:
        return ""
    result = index.search("\n".join(filter(None, (task.title, task.body, task.request, *task.comments))))
    for hit in result.functions:
        lines = index.text(hit.path).split("\n")[hit.start - 1 : hit.end]
        body = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(lines, start=hit.start))
        part = fence("code", f"{hit.path}::{hit.name}", body, seed)
        cost = tokens.count(part) + 2
        if cost <= left:
            parts.append(part)
            left -= cost
    return "\n\n".join(parts)


def overview(index: Index) -> str:
    """Languages and layout, in a few lines."""
    languages = Counter(record.language for record in index.records)
    folders = Counter(path.partition("/")[0] for path in index.paths if "/" in path)
    lines = ["Languages: " + ", ".join(f"{name} ({count})" for name, count in languages.most_common(6))]
    lines.append("Folders: " + ", ".join(f"{name}/ ({count} files)" for name, count in folders.most_common(12)))
    return "\n".join(lines)
