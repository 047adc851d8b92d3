"""Finds Python code that can change what a test run says: runner hooks, ways out of the process, patched runners.

Pure, on the syntax tree. Only what a change adds is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from agent.verify.python_asserts import holds_always
from agent.verify.python_code import syntax, targets

_LEAVES: Final = re.compile(r"^os\.abort\(|^os\.kill(pg)?\(os\.getp|^signal\.raise_signal\(")
_AT_ONCE: Final = "_exit"
"""What ends a process without a word, by whatever way somebody comes by it."""
_LINGERS: Final = re.compile(r"^(atexit\.register|sys\.settrace|sys\.setprofile)\(")
_ENDING: Final = re.compile(r"^(os|signal|atexit|sys)\.\w+$")
"""Callees that these two can be about."""
# Tests replace much of the world by fakes, and may; the runner and what it counts failures by they may not.
_TARGETS: Final = re.compile(
    r"^sys\.modules\[.(_?pytest|unittest|pluggy|builtins)\b|^_?pytest\.|^unittest\.(?!mock)|AssertionError|^os\._exit"
    r"|exitstatus|testsfailed|\.outcome$|\.assert[A-Z_]\w*$"
)
_PATCHED: Final = re.compile(r"^['\"](_?pytest|unittest\.(?!mock)|os\._exit)|AssertionError")
_MODULES: Final = frozenset({"pytest", "unittest", "unittest.TestCase", "TestCase"})
_OUTCOME_HOOKS: Final = re.compile(r"^pytest_\w+$")
_BOUND_HOOKS: Final = re.compile(
    r"^['\"]?pytest_(collect|collection|ignore|itemcollected|deselected|generate|make|pyfunc|runtest|report|assertrepr"
    r"|configure|unconfigure|sessionstart|sessionfinish|terminal|exception|fixture|cmdline|load|plugin)(_\w+)?['\"]?$"
)
"""Of a hook that no ``def`` makes: an import, an assignment, a key of ``globals()``."""


def hooks(source: str, known: str | None, *, product: bool = False) -> tuple[str, ...]:
    """What ``source`` does to a test run that ``known`` did not do, one sentence each.

    Args:
        product: it is no test but what is tested, which may well register something for its own end.
    """
    try:
        found = _all(source, lingering=not product)
        before = _all(known or "", lingering=not product) if found else ()
        return tuple(text for text in found if text not in before)
    except RecursionError:
        return ("the file is nested too deeply to be read",)


def _all(source: str, *, lingering: bool) -> tuple[str, ...]:
    tree = syntax(source.encode("utf-8", "replace"))
    return () if tree is None else tuple(dict.fromkeys(_found(tree, lingering=lingering)))


def _found(tree: ast.Module, *, lingering: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if _leaves_at_once(node):
            yield f"`{ast.unparse(node)[:160]}` can end the process"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(node)
        elif isinstance(node, ast.Call):
            yield from _of_call(node, lingering=lingering)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from _of_names(node, (alias.asname or alias.name for alias in node.names))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            given = targets(node)
            yield from _of_names(node, map(_bound, given))
            if any(map(_is_equality, given)) and _is_true(node.value):
                yield _ALWAYS_EQUAL
            for target in given:
                if isinstance(target, ast.Attribute | ast.Subscript) and _TARGETS.search(ast.unparse(target)):
                    yield f"`{ast.unparse(node)[:160]}` replaces a part of the test runner"


def _leaves_at_once(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.alias(name=name) | ast.Constant(value=name):
            return name == _AT_ONCE
        case _:
            return False


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if _OUTCOME_HOOKS.match(node.name):
        yield f"the hook `{node.name}` acts on the test run: `{ast.unparse(node)[:200]}`"
    elif node.name == "__eq__":
        returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        if returned and all(map(_is_true, returned)):
            yield _ALWAYS_EQUAL


_ALWAYS_EQUAL: Final = "an `__eq__` that is always true"


def _is_equality(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "__eq__"


def _is_true(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Lambda):
        value = value.body
    return value is not None and holds_always(value)


def _bound(target: ast.expr) -> str:
    """The name that an assignment gives, also by a key."""
    return ast.unparse(target.slice if isinstance(target, ast.Subscript) else target)


def _of_names(node: ast.stmt, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if _BOUND_HOOKS.match(name):
            yield f"the hook `{name}` acts on the test run: `{ast.unparse(node)[:200]}`"


def _of_call(node: ast.Call, *, lingering: bool) -> Iterator[str]:
    name = _callee(node.func)
    text = ast.unparse(node) if _ENDING.match(name) else ""  # of each call of a large file it would take a second
    if _LEAVES.match(text) or (lingering and _LINGERS.match(text)):
        yield f"`{text[:160]}` can end the process or act at its end"
    elif name.endswith(("setattr", "patch", "setitem", "patch.object")) and node.args:
        target = ast.unparse(node.args[0])
        if _PATCHED.search(target) or target in _MODULES:
            yield f"`{ast.unparse(node)[:160]}` replaces a part of the test runner"


def _callee(node: ast.expr) -> str:
    """``a.b.c`` as it is written; what is no name in front of the names is left empty."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join((node.id if isinstance(node, ast.Name) else "", *reversed(names)))
