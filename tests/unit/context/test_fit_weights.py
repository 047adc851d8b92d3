"""The fit of the weights: what it learns ranks the right file and function first, and what it keeps comes back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agent.context.search import FunctionHit
from agent.index.history import Commit
from bench.fit_weights import Case, by_repository, case_of, choice, fit, fitter, loss, worst_ranks
from bench.localization import shown_functions
from tests.unit.index.helpers import index_of

TREE = {
    "shop/cart.py": "class Cart:\n    def total(self): return sum(self.prices)\n\n    def add(self, price): ...\n",
    "shop/users.py": "def login(name): return check(name)\n\n\ndef check(name): return True\n",
    "shop/mail.py": "def send(message): raise OSError(message)\n",
}
PAST = [Commit("a" * 40, 1, "cart: total of nothing", ("shop/cart.py",))]
ISSUES = {
    "cart": ("The total of a cart is wrong\n\n`Cart.total` fails", "shop/cart.py", "shop/cart.py::Cart.total"),
    "users": ("A login without a name\n\nlogin accepts it", "shop/users.py", "shop/users.py::login"),
    "mail": ("send loses a message\n\nthe message is gone", "shop/mail.py", "shop/mail.py::send"),
}


EVERYWHERE = "\n\ndef shop(): return 'total of a cart, login without a name, message of the shop'\n"


def cases(folder: Path) -> list[Case]:
    index = index_of(folder, {path: text + EVERYWHERE for path, text in TREE.items()})
    return [
        case_of(
            {
                "instance_id": name,
                "repo": name,
                "problem_statement": text,
                "gold_files": [file],
                "gold_functions": [at],
            },
            index,
            PAST,
        )
        for name, (text, file, at) in ISSUES.items()
    ]


def test_weights_put_what_was_fixed_first_and_cases_can_be_kept(tmp_path: Path) -> None:
    found = cases(tmp_path)
    learned = fitter(found)(found)
    assert [worst_ranks(case, learned) for case in found] == [(0, 0)] * 3
    lost = replace(found[0], right_files=(*found[0].right_files, -1), right_functions=())
    assert worst_ranks(lost, learned)[0] > 1000
    assert worst_ranks(lost, learned)[1] == -1
    assert by_repository(found) == [[0], [2], [1]]

    case = found[0]
    case.save(tmp_path / "case.npz")
    again = Case.load(tmp_path / "case.npz")
    assert worst_ranks(again, learned) == (0, 0)
    assert (again.id, again.repo, again.right_files, again.right_functions) == (
        case.id, case.repo, case.right_files, case.right_functions,
    )  # fmt: skip
    assert all(np.array_equal(again.signals[name], values) for name, values in case.signals.items())
    assert all(np.array_equal(again.measures.values[name], v) for name, v in case.measures.values.items())


@given(arrays(np.float32, (6, 3), elements=st.floats(0, 1, width=32)), st.sets(st.integers(-1, 5), min_size=1))
def test_no_small_step_away_from_the_fit_is_better(values: np.ndarray, right: set[int]) -> None:
    chosen = choice(values, sorted(right))
    if chosen is None:
        assert right == {-1}
        return
    best = fit([chosen], 0.5)
    least = loss(best, [chosen], 0.5)[0]
    for step in 1e-2 * np.vstack([np.eye(3), -np.eye(3)]):
        assert loss(best + step, [chosen], 0.5)[0] >= least


def test_a_function_is_shown_when_all_its_lines_are_in_any_part() -> None:
    code = "<<<code\n== a.py\n    1 def f():\n    2     pass\n\n<<<example\n"
    example = "== a.py\n    8 def g():\n    9     pass\n   10 def h():\n"
    hits = [FunctionHit("a.py", name, start, start + 1, 0.0, ()) for name, start in (("f", 1), ("g", 8), ("h", 10))]
    assert shown_functions(code + example, hits) == ["a.py::f", "a.py::g"]
