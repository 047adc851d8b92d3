"""What an assertion of a Python test says: whether it is one, whether it can fail, and how much it wants. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent.verify.python_code import is_false, live

_ASSERTING: Final = re.compile(r"(assert\w*|fail|raises|warns|deprecated_call|expect\w*|approvals?|verify\w*)$")
_BROAD: Final = frozenset({"Exception", "BaseException", "AssertionError"})


def assertions(node: ast.stmt | ast.expr) -> Iterator[str]:
    """The source of what ``node`` itself asserts."""
    if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _ASSERTING.match(_called(node))):
        yield ast.unparse(node)


def is_vacuous(node: ast.stmt | ast.expr) -> bool:
    """Whether an assertion holds whatever the code does."""
    match node:
        case ast.Assert():
            return holds_always(node.test)
        case ast.Call(args=[one, *_]) if _called(node) in _WANT_TRUTH:
            return holds_always(one)
        case ast.Call(args=[one, other, *_]) if _called(node) in _WANT_THE_SAME:
            return ast.dump(one) == ast.dump(other)
        case _:
            return False


_WANT_TRUTH: Final = frozenset({"assertTrue", "assert_", "assertIsNotNone"})
_WANT_THE_SAME: Final = frozenset({"assertEqual", "assertEquals", "assertIs", "assert_equal", "assertGreaterEqual"})


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rsplit(".", 1)[-1]


def holds_always(test: ast.expr) -> bool:
    """Whether an expression is true whatever the code does."""
    match test:
        case ast.Constant():
            return bool(test.value)
        case ast.Tuple() | ast.List():  # `assert (x == 1, "message")`
            return bool(test.elts)
        case ast.BoolOp(op=ast.Or()):
            return any(map(holds_always, test.values))
        case ast.BoolOp():
            return all(map(holds_always, test.values))
        case ast.UnaryOp(op=ast.Not()):
            return is_false(test.operand)
        case ast.Compare(ops=[ast.Eq() | ast.Is() | ast.GtE() | ast.LtE()]):
            return ast.dump(test.left) == ast.dump(test.comparators[0])
        case _:
            return isinstance(test, ast.Lambda | ast.JoinedStr)


def swallows(node: ast.stmt | ast.expr) -> bool:
    """Whether a block keeps a failed assertion in it from being seen."""
    if isinstance(node, ast.Try):
        return _asserts(node.body) and any(map(_is_blind, node.handlers))
    if isinstance(node, ast.With | ast.AsyncWith):
        heads = [ast.unparse(item.context_expr) for item in node.items]
        blind = any(re.match(r"(contextlib\.)?suppress\(", h) and _names_broad(h) for h in heads)
        return blind and _asserts(node.body)
    return False


def _asserts(body: Sequence[ast.stmt]) -> bool:
    return any(True for part in live(body) for _ in assertions(part))


def _is_blind(handler: ast.ExceptHandler) -> bool:
    broad = handler.type is None or _names_broad(ast.unparse(handler.type))
    raises = any(isinstance(n, ast.Raise) for part in handler.body for n in ast.walk(part))
    return broad and not raises and not _asserts(handler.body)


def _names_broad(text: str) -> bool:
    return bool(_BROAD & set(re.findall(r"\w+", text)))


_STRENGTH: Final = (
    (r"^assert (True|1)\b|assertTrue\(True", 0),
    (
        r" or |assert(True|False|_)\(|is not None|IsNotNone|isinstance|assertIsInstance|hasattr|callable\(",
        1,
    ),
    (
        r"\bin\b|assertIn\b|assertRegex|assertGreater|assertLess|[<>]|!=|assertNotEqual|approx\(|AlmostEqual|startswith|endswith",
        2,
    ),
    (r"raises\((Exception|BaseException)\b|assertRaises\((Exception|BaseException)\b", 2),
    (r"==|assertEqual|assertEquals|assertIs\b|\bis\b|raises|Raises|assert_called|assertListEqual|assertDictEqual", 3),
)


def strength(text: str) -> int:
    """A rough order of assertions: 0 says nothing, 1 a truth value, 2 a bound or a part, 3 an exact value."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "''", text)
    for pattern, value in _STRENGTH:
        if re.search(pattern, plain):
            return value
    return 1
