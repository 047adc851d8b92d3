"""What a change puts around Python tests that it leaves as they are: the names that they use, what runs before them,
and what a file does as it is imported. Pure, on syntax trees.

A test can be made to say less without a change to a letter of it: by another import above it, a fixture of the same
name nearer to it, a ``setUp``, or an assignment into the module that it tests.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from agent.verify.python_code import Function, blocks, is_function, syntax, targets
from agent.verify.python_tests import Problem

_UNASKED: Final = re.compile(
    r"(setup|teardown)(_(module|function|method|class|package))?|(set_?up|tear_?down)(Module|Class|TestData)?"
    r"|async(SetUp|TearDown)",
    re.IGNORECASE,
)
_STAR: Final = "*"


def problems(old: str | None, new: str) -> Iterator[Problem]:
    """Each thing in ``new`` that acts on tests which ``old`` has; of a new file, what it does to others.

    Raises:
        RecursionError: a file that is nested too deeply.
    """
    after = syntax(new.encode("utf-8", "replace"))
    before = syntax((old or "").encode("utf-8", "replace")) or ast.Module([], [])
    if after is None:
        return
    scopes = _scopes(before)
    for name, body in _scopes(after).items():
        known = scopes.get(name)
        if known is not None and any(True for _ in _every_function(known)):
            yield from _names(name, known, body)
            yield from _unasked(known, body)
            yield from _told(known, body, calls=True)
        elif not name:
            yield from _told(known or (), body, calls=False)
            yield from _reached_into(known or (), body)


def fixtures(source: str) -> frozenset[str]:
    """Names of the fixtures that a file defines at its top."""
    tree = syntax(source.encode("utf-8", "replace"))
    return frozenset(filter(None, map(_fixture, _functions(tree.body)))) if tree else frozenset()


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────────


def _names(scope: str, old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Iterator[Problem]:
    """Names that existing functions use, and that mean something else now."""
    used = _attributes(old) if scope else _loaded(old)
    before, after = _bindings(old), _bindings(new)
    for name, meanings in after.items():
        other = meanings - before.get(name, frozenset())
        if other and (name in used or name == _STAR):
            text = f"existing tests use `{name}`, which is another one now: `{sorted(other)[0][:120]}`"
            yield _problem("test_changed", text)
    asked = {arg.arg for function in _functions(old) for arg in _arguments(function)}
    here = set(filter(None, map(_fixture, _functions(old))))
    for function in _functions(new):
        if (name := _fixture(function)) in asked - here:
            yield _problem("test_changed", f"existing tests get this fixture `{name}` in place of theirs", function)


def _unasked(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Iterator[Problem]:
    known = {function.name for function in _functions(old)}
    for function in _functions(new):
        marked = any("autouse" in ast.unparse(decorator) for decorator in function.decorator_list)
        if function.name not in known and (marked or _UNASKED.fullmatch(function.name)):
            yield _problem("collection_changed", f"`{function.name}` acts on every test beside it", function)


def _told(old: Sequence[ast.stmt], new: Sequence[ast.stmt], *, calls: bool) -> Iterator[Problem]:
    """Statements that do something as the file is imported.

    Args:
        calls: those that only call something count too.
    """
    known = Counter(ast.unparse(node) for node in _flat(old) if _acts(node, calls=calls))
    for node in _flat(new):
        if _acts(node, calls=calls):
            text = ast.unparse(node)
            known[text] -= 1
            if known[text] < 0:
                yield _problem("collection_changed", f"runs as the file is imported: `{text[:160]}`", node)


def _reached_into(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Iterator[Problem]:
    """Whatever else of a file without tests before changes something outside of it as it is imported, in whatever form:
    within a class, as the target of a loop, by a call in an expression."""
    known = {ast.unparse(node) for node in old}
    for statement in new:
        if ast.unparse(statement) in known or (
            isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        ):
            continue
        told = {id(node) for node in _flat([statement]) if _acts(node, calls=False)}
        for node in _run_at_import(statement, told):
            if _reaches(node):
                text = ast.unparse(node)[:160]
                yield _problem("collection_changed", f"runs as the file is imported: `{text}`", statement)
                break


def _run_at_import(node: ast.AST, without: Collection[int]) -> Iterator[ast.AST]:
    """``node`` and what is in it, but for the insides of functions.

    Args:
        without: ids of statements that are told already.
    """
    if id(node) in without:
        return
    yield node
    inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if is_function(node):
        inside = (*node.decorator_list, node.args)
    elif isinstance(node, ast.Lambda):
        inside = (node.args,)
    for child in inside:
        yield from _run_at_import(child, without)


_WRITERS: Final = re.compile(
    r"(^|\.)(setattr|delattr)$|^(exec|eval)$|(^|\.)patch(\.object|\.dict)?\(.*\)\.start$|__setattr__$"
)
_NAMESPACES: Final = re.compile(r"__dict__|\bvars\(|^sys\.modules$|^globals\(")


def _reaches(node: ast.AST) -> bool:
    """Whether a piece of code changes what others see."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return _NAMESPACES.search(ast.unparse(node.value)) is not None
        case ast.Call(func=ast.Attribute(attr="update" | "setdefault" | "pop" | "__setitem__") as called):
            return _NAMESPACES.search(ast.unparse(called.value)) is not None
        case ast.Call(func=called):
            return _WRITERS.search(ast.unparse(called)) is not None
        case ast.Name(id="setattr" | "delattr" | "exec"):
            return True
        case _:
            return False


def _problem(kind: str, detail: str, node: ast.stmt | None = None) -> Problem:
    return Problem(kind, detail, new=(node.lineno, node.end_lineno or node.lineno) if node else None)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _scopes(tree: ast.Module) -> Mapping[str, Sequence[ast.stmt]]:
    """The module under an empty name, and each class in it."""
    classes = (node for node in _flat(tree.body) if isinstance(node, ast.ClassDef))
    return {"": tree.body, **{node.name: node.body for node in classes}}


def _flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when ``body`` does, but for what is only there when the file is a program."""
    for node in body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        yield node
        if not (is_function(node) or isinstance(node, ast.ClassDef)):
            for block in blocks(node):
                yield from _flat(block)


def _functions(body: Sequence[ast.stmt]) -> list[Function]:
    """Those of this scope; a class's own belong to the module too, which is where their names are looked up."""
    return [node for node in _flat(body) if is_function(node)]


def _every_function(body: Sequence[ast.stmt]) -> Iterator[Function]:
    for node in _flat(body):
        if is_function(node):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _every_function(node.body)


def _bindings(body: Sequence[ast.stmt]) -> Mapping[str, frozenset[str]]:
    """Name → what it is bound to. Of a function that it is one: its body is compared elsewhere."""
    found: dict[str, set[str]] = {}
    for node in _flat(body):
        for name, meaning in _bound(node):
            found.setdefault(name, set()).add(meaning)
    return {name: frozenset(meanings) for name, meanings in found.items()}


def _bound(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if not _fixture(node):
                yield node.name, f"def {node.name}"
        case ast.ClassDef():
            yield node.name, f"class {node.name}({', '.join(map(ast.unparse, node.bases))})"
        case ast.Import():
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, f"import {alias.name}") if alias.asname else (top, f"import {top}")
        case ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name, f"from {'.' * node.level}{node.module or ''} import {alias.name}"
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            for target in targets(node):
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        yield name.id, ast.unparse(node)


def _loaded(body: Sequence[ast.stmt]) -> Collection[str]:
    """Names that the functions of a module look up outside of themselves, and what its classes are made from."""
    found: set[str] = set()
    for function in _every_function(body):
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        own = {name.id for name in names if isinstance(name.ctx, ast.Store)} | {a.arg for a in _arguments(function)}
        own |= {
            name
            for node in ast.walk(function)
            if isinstance(node, ast.stmt) and node is not function
            for name, _ in _bound(node)
        }
        found |= {name.id for name in names if isinstance(name.ctx, ast.Load)} - own
    classes = [node for node in _flat(body) if isinstance(node, ast.ClassDef) and _functions(node.body)]
    return found | {node.name for node in classes}


def _attributes(body: Sequence[ast.stmt]) -> Collection[str]:
    """What a class's methods look up on themselves."""
    nodes = (node for function in _functions(body) for node in ast.walk(function))
    found = (n for n in nodes if isinstance(n, ast.Attribute))
    return {n.attr for n in found if isinstance(n.value, ast.Name) and n.value.id in ("self", "cls")}


def _arguments(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _fixture(function: Function) -> str:
    """The name under which a function is a fixture; empty when it is none."""
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called).endswith("fixture"):
            given = [k.value for k in getattr(decorator, "keywords", ()) if k.arg == "name"]
            named = given[0].value if given and isinstance(given[0], ast.Constant) else function.name
            return str(named)
    return ""


def _acts(node: ast.stmt, *, calls: bool) -> bool:
    match node:
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Delete():
            return any(isinstance(t, ast.Attribute) or (calls and isinstance(t, ast.Subscript)) for t in targets(node))
        case ast.Expr(value=ast.Call(func=called)):
            return calls or ast.unparse(called) == "setattr"
        case _:
            return False
