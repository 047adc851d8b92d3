"""Reads a fix, and the tests that come with it, out of two releases of the same file. Pure."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_CONTEXT = (3, 8, 20)
"""Lines around a hunk; more only where fewer stand in the file more than once."""


@dataclass(frozen=True)
class Hunk:
    """``old`` stands once in the earlier file, and ``new`` in its place in the later one."""

    old: str
    new: str


def hunks(before: str, after: str, text: str) -> tuple[Hunk, ...]:
    """The hunks between two versions of a file whose new lines hold ``text``.

    Raises:
        LookupError: there is none, or one of them can't be told from the rest of the file.
    """
    for context in _CONTEXT:
        found = [hunk for hunk in _hunks(before, after, context) if text in hunk.new]
        if not found:
            raise LookupError(f"no hunk holds {text!r}")
        if all(before.count(hunk.old) == 1 for hunk in found):
            return tuple(found)
    raise LookupError(f"the hunks that hold {text!r} stand in the file more than once")


def _hunks(before: str, after: str, context: int) -> Iterator[Hunk]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        yield Hunk("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))


# ── tests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def only_tests(source: str, wanted: Sequence[str]) -> str:
    """A module with the tests ``wanted`` (``test_x`` or ``Class.test_x``) of ``source`` and what they use of it.

    Raises:
        LookupError: ``source`` has no such test.
    """
    methods: dict[str, set[str]] = {}
    for name in wanted:
        holder, _, method = name.rpartition(".")
        methods.setdefault(holder or method, set()).update({method} if holder else ())
    tree = ast.parse(source)
    bound = {name: node for node in tree.body for name in _binds(node)}
    used = _reached(bound, methods)
    lines = source.splitlines()
    pieces = [(node, _piece(node, lines, used, methods)) for node in tree.body]
    imports = "\n".join(piece for node, piece in pieces if piece and _imports(node))
    module = "\n\n\n".join([imports, *(piece for node, piece in pieces if piece and not _imports(node))]) + "\n"
    missing = [name for name in wanted if f"def {name.rpartition('.')[2]}(" not in module]
    if missing:
        raise LookupError(f"no test is named {', '.join(missing)}")
    return module


def _reached(bound: dict[str, ast.stmt], methods: dict[str, set[str]]) -> set[str]:
    """Names of the module that the wanted tests use, also through what they use."""
    found: set[str] = set()
    todo = set(methods)
    while todo:
        name = todo.pop()
        if name not in bound or name in found:
            continue
        found.add(name)
        todo |= _uses(bound[name], methods.get(name, set()))
    return found


def _uses(node: ast.stmt, methods: set[str]) -> set[str]:
    """Names in ``node``: variables, and parameters, since those may be fixtures."""
    if isinstance(node, ast.ClassDef):
        kept = [part for part in node.body if not _left_out(part, methods)]
        parts: list[ast.AST] = [*kept, *node.bases, *node.decorator_list]
    else:
        parts = [node]
    inner = [child for part in parts for child in ast.walk(part)]
    return {n.id for n in inner if isinstance(n, ast.Name)} | {n.arg for n in inner if isinstance(n, ast.arg)}


def _left_out(part: ast.stmt, methods: set[str]) -> bool:
    return (
        bool(methods)
        and isinstance(part, ast.FunctionDef)
        and part.name.startswith("test")
        and part.name not in methods
    )


def _binds(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}


def _imports(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _piece(node: ast.stmt, lines: Sequence[str], used: set[str], methods: dict[str, set[str]]) -> str:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return ast.unparse(node)
    if not _binds(node) & used:
        return ""
    if isinstance(node, ast.Import | ast.ImportFrom):
        node.names = [alias for alias in node.names if (alias.asname or alias.name).partition(".")[0] in used]
        return ast.unparse(node)
    gone: set[int] = set()
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            if _left_out(part, methods.get(node.name, set())):
                gone |= set(range(_first_line(part), (part.end_lineno or 0) + 1))
    kept = [lines[number - 1] for number in range(_first_line(node), (node.end_lineno or 0) + 1) if number not in gone]
    return "\n".join(line for line, above in zip(kept, ["", *kept], strict=False) if line.strip() or above.strip())


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
