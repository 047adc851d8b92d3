"""What a Python test file says, and whether a change makes it say less. Pure, on syntax trees; runs nothing.

What the tree shows is compared function by function: which tests are collected, how they are marked, what they assert,
and whether every assertion is still reached and still counts.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.errors import GraftsmithError
from agent.tree import Draft
from agent.verify.python_asserts import assertions, is_vacuous, strength, swallows
from agent.verify.python_code import Function, blocks, is_false, is_function, live, syntax, targets

_SKIP: Final = re.compile(r"\b(skip\w*|xfail|expectedFailure|SkipTest|importorskip|skipTest|skipIf|skipUnless)\b")
_LEAVING: Final = re.compile(r"^(sys\.exit|os\._exit|exit|quit|pytest\.exit)$")


@dataclass(frozen=True)
class Problem:
    """One way in which a test says less. Spans are first and last line, from 1; ``None`` where there is nothing."""

    kind: str
    detail: str
    old: tuple[int, int] | None = None
    new: tuple[int, int] | None = None


@dataclass(frozen=True)
class Body:
    """What matters of one function of a test file."""

    span: tuple[int, int]
    source: str
    """Normalised: equal for functions that differ in layout and comments only."""
    skips: tuple[str, ...]
    asserts: tuple[str, ...]
    empty_asserts: tuple[str, ...]
    """Assertions that hold whatever the code does."""
    swallowed: int
    """Blocks that keep a failed assertion from being seen."""
    returns: int
    """Ways out before the last assertion."""
    parameters: tuple[tuple[str, int | None], ...]
    """Text of each ``parametrize`` and its number of cases, where that is a literal."""
    helper: bool = False


@dataclass(frozen=True)
class Module:
    """One test file."""

    tests: Mapping[str, Body] = field(default_factory=dict)
    """``Class::test_name`` → what it says; collected ones only."""
    others: Mapping[str, Body] = field(default_factory=dict)
    """Helpers, fixtures and functions that are not collected."""
    switches: tuple[str, ...] = ()
    """Statements that change what is collected: ``pytestmark``, ``__test__``, ``collect_ignore``, …"""
    shadowed: tuple[str, ...] = ()
    """Tests that a later definition of the same name hides."""


def parse(source: bytes) -> Module | None:
    """The file, or ``None`` when it is no Python that this interpreter reads."""
    tree = syntax(source)
    try:
        return None if tree is None else _module(tree)
    except RecursionError:
        return None


def _module(tree: ast.Module) -> Module:
    tests: dict[str, Body] = {}
    others: dict[str, Body] = {}
    shadowed: list[str] = []
    skips = tuple(_module_skips(tree.body))
    for name, function, collected, inherited in _functions(tree.body, "", (), True):
        known = tests if collected else others
        if name in known:
            shadowed.append(name)
        known[name] = _body(function, (*skips, *inherited), helper=not collected)
    return Module(tests, others, tuple(_switches(tree.body, "")), tuple(shadowed))


def changed_tests(draft: Draft, path: str) -> frozenset[str]:
    """``Class::test_name`` of the tests in ``path`` whose source is not that of the base; empty for other languages."""
    if not path.endswith(".py"):
        return frozenset()
    old = parse(draft.base.content(path)) if path in draft.base.entries else None
    try:
        new = parse(draft.read(path))
    except GraftsmithError:
        new = None
    if new is None:
        return frozenset()
    before = old.tests if old else {}
    return frozenset(
        name for name, body in new.tests.items() if name not in before or before[name].source != body.source
    )


def compare(old: Module, new: Module, elsewhere: Mapping[str, str]) -> Iterator[Problem]:
    """Every way in which ``new`` says less than ``old``.

    Args:
        elsewhere: normalised source → ``path::name``, of tests that the change adds: a moved test is not gone.
    """
    for name, before in old.tests.items():
        after = new.tests.get(name)
        if after is None:
            yield from _missing(name, before, _only_in(new, old), elsewhere)
        elif after.source != before.source or after.skips != before.skips:
            yield from _weaker(name, before, after)
    for name, before in old.others.items():
        after = new.others.get(name)
        if after is not None and after.source != before.source:
            yield from _weaker(name, before, after)
        elif after is None and before.asserts:
            yield Problem("assertion_removed", f"the helper `{name}` and its assertions are gone", before.span)
    for switch in (Counter(new.switches) - Counter(old.switches)).elements():
        if switch.partition(" ")[0].endswith("pytestmark") and not old.tests:
            continue  # it marks the tests of its own file, and all of them are new
        yield Problem("collection_changed", f"what is collected changes: `{switch[:200]}`")
    for name in (Counter(new.shadowed) - Counter(old.shadowed)).elements():
        body = new.tests.get(name) or new.others.get(name)
        yield Problem("test_shadowed", f"a second `{name}` hides the first", new=body.span if body else None)


def vacuous(new: Module, known: Mapping[str, Body]) -> Iterator[Problem]:
    """Tests that the change adds and that hold whatever the code does."""
    for name, body in new.tests.items():
        if name not in known and body.asserts and len(body.empty_asserts) == len(body.asserts):
            yield Problem("always_true", f"`{body.empty_asserts[0]}` holds whatever the code does", new=body.span)


def _only_in(new: Module, old: Module) -> Module:
    """What ``new`` has under names that ``old`` does not use."""
    tests, others = (
        {n: b for n, b in part.items() if n not in old.tests and n not in old.others}
        for part in (new.tests, new.others)
    )
    return Module(tests, others)


def _missing(name: str, before: Body, added: Module, elsewhere: Mapping[str, str]) -> Iterator[Problem]:
    same = [item for part in (added.tests, added.others) for item in part.items() if item[1].source == before.source]
    if same:
        other, body = same[0]
        hidden = "" if other in added.tests else ", which is not collected"
        yield Problem("test_renamed", f"`{name}` is called `{other}` now{hidden}", before.span, body.span)
    elif before.source in elsewhere:
        yield Problem("test_renamed", f"`{name}` is `{elsewhere[before.source]}` now", before.span)
    else:
        yield Problem("test_deleted", f"`{name}` is gone", before.span)


def _weaker(name: str, before: Body, after: Body) -> Iterator[Problem]:
    found = list(_findings(before, after))
    if not found and before.source != after.source:
        found = [("test_changed", f"the existing {'helper' if before.helper else 'test'} `{name}` is changed")]
    yield from (Problem(kind, detail, before.span, after.span) for kind, detail in found)


def _findings(before: Body, after: Body) -> Iterator[tuple[str, str]]:
    for skip in (Counter(after.skips) - Counter(before.skips)).elements():
        yield "test_skipped", f"skipped or expected to fail: `{skip[:160]}`"
    removed = list((Counter(before.asserts) - Counter(after.asserts)).elements())
    added = list((Counter(after.asserts) - Counter(before.asserts)).elements())
    if before.asserts and not after.asserts:
        yield "test_emptied", f"no assertion is left of {len(before.asserts)}"
    elif len(removed) > len(added):
        yield "assertion_removed", f"{len(removed) - len(added)} fewer: `{removed[0][:160]}`"
    elif removed:
        yield from _loosened(removed, added)
    for text in (Counter(after.empty_asserts) - Counter(before.empty_asserts)).elements():
        yield "always_true", f"`{text[:160]}` holds whatever the code does"
    if after.swallowed > before.swallowed:
        yield "failure_swallowed", "a failed assertion is caught before anyone sees it"
    if after.returns > before.returns:
        yield "early_return", "the test can end before its last assertion"
    yield from _fewer_cases(before, after)


def _loosened(removed: Sequence[str], added: Sequence[str]) -> Iterator[tuple[str, str]]:
    lost = sum(map(strength, removed)) - sum(sorted(map(strength, added), reverse=True)[: len(removed)])
    if lost > 0:
        yield "assertion_loosened", f"`{removed[0][:120]}` became `{added[0][:120]}`"


def _fewer_cases(before: Body, after: Body) -> Iterator[tuple[str, str]]:
    if before.parameters == after.parameters:
        return
    if len(after.parameters) < len(before.parameters):
        yield "parameters_removed", f"{len(before.parameters)} parametrisations before, {len(after.parameters)} now"
        return
    for (old, many), (new, few) in zip(before.parameters, after.parameters, strict=False):
        if many is not None and few is not None and few < many:
            yield "parameters_removed", f"{many} cases before, {few} now"
        elif old != new and (many is None) != (few is None):
            yield "parameters_removed", f"the cases can't be counted any more: `{new[:120]}`"


# ── reading functions ────────────────────────────────────────────────────────────────────────────────────────────


def _functions(
    body: Sequence[ast.stmt], prefix: str, inherited: tuple[str, ...], collected: bool
) -> Iterator[tuple[str, Function, bool, tuple[str, ...]]]:
    for node in body:
        if is_function(node):
            is_test = collected and node.name.startswith("test")
            yield f"{prefix}{node.name}", node, is_test, inherited
        elif isinstance(node, ast.ClassDef):
            marks = tuple(m for d in node.decorator_list if _SKIP.search(m := ast.unparse(d)))
            marks += tuple(_module_skips(node.body))
            yield from _functions(
                node.body, f"{prefix}{node.name}::", (*inherited, *marks), collected and _is_collected(node)
            )
        elif isinstance(node, ast.If | ast.Try | ast.With):
            alive = not (isinstance(node, ast.If) and is_false(node.test))
            for part in blocks(node):
                yield from _functions(part, prefix, inherited, collected and (alive or part is not node.body))


def _is_collected(node: ast.ClassDef) -> bool:
    """Test classes by name, and anything with a base: a mixin or a ``TestCase`` of whatever name is not told apart."""
    has_init = any(is_function(n) and n.name == "__init__" for n in node.body)
    return bool(node.bases) or (node.name.startswith("Test") and not has_init)


def _body(function: Function, inherited: tuple[str, ...], *, helper: bool) -> Body:
    reached = list(live(function.body))
    asserts = [(node, text) for node in reached for text in assertions(node)]
    skips = [*inherited, *(m for d in function.decorator_list if _SKIP.search(m := ast.unparse(d)))]
    skips += [t for node in reached if (t := _skip_call(node))]
    last = max((node.lineno for node, _ in asserts), default=0)
    return Body(
        span=(min([function.lineno, *(d.lineno for d in function.decorator_list)]), function.end_lineno or 0),
        source=_normalised(function),
        skips=tuple(skips),
        asserts=tuple(text for _, text in asserts),
        empty_asserts=tuple(text for node, text in asserts if is_vacuous(node)),
        swallowed=sum(swallows(node) for node in reached),
        returns=sum(_leaves(node) and node.lineno < last for node in reached if isinstance(node, ast.stmt)),
        parameters=tuple(_parameters(function)),
        helper=helper,
    )


def _normalised(function: Function) -> str:
    """Without the name, so that a renamed function is recognised, and without the documentation string."""
    parts = [ast.unparse(d) for d in function.decorator_list]
    parts += [type(function).__name__, ast.unparse(function.args)]
    body = function.body
    if (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body = body[1:]
    return "\n".join(parts + [ast.unparse(node) for node in body])


def _skip_call(node: ast.stmt | ast.expr) -> str:
    if isinstance(node, ast.Raise) and node.exc is not None:
        text = ast.unparse(node.exc)
        return text if _SKIP.search(text.split("(")[0]) else ""
    if isinstance(node, ast.Call) and _SKIP.search(ast.unparse(node.func)):
        return ast.unparse(node)
    return ""


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Return):
        return True
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and _LEAVING.match(ast.unparse(node.value.func)) is not None
    )


def _parameters(function: Function) -> Iterator[tuple[str, int | None]]:
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        name = ast.unparse(decorator.func)
        if not name.endswith(("parametrize", "expand", "fixture")):
            continue
        named = [k.value for k in decorator.keywords if k.arg in ("argvalues", "params")]
        values = named or list(decorator.args[1:2] if name.endswith("parametrize") else decorator.args[:1])
        if values:
            literal = values[0]
            count = len(literal.elts) if isinstance(literal, ast.List | ast.Tuple | ast.Set) else None
            yield ast.unparse(literal), count


def _module_skips(body: Sequence[ast.stmt]) -> Iterator[str]:
    """``pytestmark`` and skips at the level of a module or a class: they hold for each test in it."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "pytestmark" in ast.unparse(node).split("=")[0]:
            if _SKIP.search(ast.unparse(node)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _SKIP.search(ast.unparse(node.value.func)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Raise) and node.exc is not None and _SKIP.search(ast.unparse(node.exc)):
            yield ast.unparse(node)


_SWITCHES: Final = re.compile(
    r"^(pytestmark|__test__|collect_ignore(_glob)?|pytest_plugins|load_tests|python_(files|classes|functions))$"
)


def _switches(body: Sequence[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _switches(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and _SWITCHES.match(node.name):
            yield f"{prefix}{node.name}()"
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Delete):
            if any(_switches_collection(ast.unparse(target)) for target in targets(node)):
                yield prefix + ast.unparse(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _LEAVING.match(ast.unparse(node.value.func)):
                yield prefix + ast.unparse(node)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for part in blocks(node):
                yield from _switches(part, prefix)


def _switches_collection(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return _SWITCHES.match(last) is not None or re.match(r"(test_|Test)", last) is not None
