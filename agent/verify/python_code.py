"""Python's sources as trees: what can run of them, without running it. Pure."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from typing import TypeGuard

Function = ast.FunctionDef | ast.AsyncFunctionDef


def syntax(source: bytes | str) -> ast.Module | None:
    """The tree of a file, or ``None``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def statements(source: bytes) -> list[str] | None:
    """The statements of a module without layout and comments, or ``None``."""
    tree = syntax(source)
    try:
        return None if tree is None else [ast.unparse(node) for node in tree.body]
    except RecursionError:
        return None


def is_function(node: ast.AST) -> TypeGuard[Function]:
    """Whether it defines one, of either kind."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to, or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else []


def blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement holds."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(node, name, None)
        if part:
            yield part
    for handler in getattr(node, "handlers", ()):
        yield handler.body


def live(body: Sequence[ast.stmt]) -> Iterator[ast.stmt | ast.expr]:
    """Statements and expressions that can run: not what follows a plain ``return``, what is below ``if False``, or the
    inside of a function that is only defined."""
    for node in body:
        yield node
        if is_function(node) or isinstance(node, ast.ClassDef):
            continue
        if isinstance(node, ast.If) and is_false(node.test):
            yield from live(node.orelse)
            continue
        for part in blocks(node):
            yield from live(part)
        yield from (e for e in ast.walk(node) if isinstance(e, ast.Call)) if not any(blocks(node)) else _heads(node)
        if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
            return


def _heads(node: ast.stmt) -> Iterator[ast.expr]:
    """Calls in the head of a block: the condition, the iterable, the context managers."""
    heads = [getattr(node, name) for name in ("test", "iter", "subject") if hasattr(node, name)]
    heads += [item.context_expr for item in getattr(node, "items", ())]
    for head in heads:
        yield from (e for e in ast.walk(head) if isinstance(e, ast.Call))


def is_false(test: ast.expr) -> bool:
    """Whether a condition is a constant that never holds."""
    return isinstance(test, ast.Constant) and not test.value
