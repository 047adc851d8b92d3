"""Ranking: the right file first on small trees, each result with its reasons."""

# ruff: noqa: E501 - small files and messages, each on a line

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.issue import read_issue
from agent.context.names import titled
from agent.context.places import mentioned_paths, named_files
from agent.context.rank import KEPT, LOOKED_AT, Ranked, best_first, second_look
from agent.context.search import search
from agent.index.history import Commit, parse_log, read_history
from tests.unit.index.helpers import index_of

TREE = {
    "shop/cart.py": "class Cart:\n    def add_item(self, item):\n        self.items.append(item)\n\n    def total_price(self):\n        return sum(i.price for i in self.items)\n",
    "shop/invoice.py": "from shop.cart import Cart\n\n\ndef render_invoice(cart):\n    return str(cart.total_price())\n",
    "shop/users.py": "def login(name, password):\n    return check(name, password)\n\n\ndef check(name, password):\n    return True\n",
    "shop/mail.py": "def send(message):\n    raise OSError('mail server not reachable')\n",
    "docs/conf.py": "project = 'cart invoice total price'\n",
    "tests/test_cart.py": "from shop.cart import Cart\n\n\ndef test_total_price():\n    assert Cart().total_price() == 0\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("issue", "path", "function"),
    [
        ("Total price of an empty cart fails\n\n`Cart.total_price` raises.", "shop/cart.py", "Cart.total_price"),
        ("Users can log in with a wrong password\n\nThe login check is broken.", "shop/users.py", "login"),
        ("Crash\n\n```\nFile \"/x/shop/mail.py\", line 2, in send\nOSError: mail server not reachable\n```", "shop/mail.py", "send"),
        ("See shop/invoice.py\n\nrender_invoice is wrong", "shop/invoice.py", "render_invoice"),
    ],
)  # fmt: skip
def test_the_right_place_is_first(tmp_path: Path, issue: str, path: str, function: str) -> None:
    result = search(index_of(tmp_path, TREE), issue)
    assert result.files[0].path == path
    assert (path, function) in [(hit.path, hit.name) for hit in result.functions[:2]]
    assert result.files[0].why
    assert all(hit.path != "tests/test_cart.py" for hit in result.files)


def test_reasons_add_up_and_are_named(tmp_path: Path) -> None:
    result = search(index_of(tmp_path, TREE), "Total price of an empty cart fails\n\n`Cart.total_price` raises.")
    top = result.files[0]
    assert sum(reason.weight for reason in top.why) == pytest.approx(top.score, abs=1e-3)
    assert all(reason.signal for reason in top.why)


def test_history_speaks_for_what_it_touched(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    issue = "Zebra stripes are missing\n\nzebra"
    assert not any("history" in reason.signal for hit in search(index, issue).files for reason in hit.why)
    past = [
        Commit("a" * 40, 1, "Add zebra stripes", ("shop/mail.py",)),
        Commit("b" * 40, 0, "Start", ("shop/users.py",)),
    ]
    result = search(index, issue, history=past)
    assert result.files[0].path == "shop/mail.py"
    assert any("history" in reason.signal for reason in result.files[0].why)


@pytest.mark.parametrize(
    ("issue", "signal"),
    [
        ("Fails since cafe123\n\nNothing else is known.", "commits named"),
        ("Fails again\n\nSee https://example.org/o/r/issues/4711 for the first time.", "commits named"),
        ("A regression of #4711\n\nNothing else is known.", "commits named"),
        ("Zebra stripes are missing\n\nNothing else is known.", "subjects"),
    ],
)
def test_commits_lead_to_what_they_touched(tmp_path: Path, issue: str, signal: str) -> None:
    index = index_of(tmp_path, TREE)
    past = [
        Commit("cafe123" + "0" * 33, 2, "Zebra stripes for everybody (#4711)", ("shop/mail.py", "tests/test_cart.py")),
        Commit("d" * 40, 1, "Something else (#4712)", ("shop/cart.py",)),
        Commit("e" * 40, 0, "Zebra: move it all", tuple(f"gone/{i}.py" for i in range(90))),
    ]
    result = search(index, issue, history=past)
    assert result.files[0].path == "shop/mail.py"
    assert signal in [reason.signal for reason in result.files[0].why]


def test_a_file_that_is_called_by_its_name(tmp_path: Path) -> None:
    index = index_of(tmp_path, {**TREE, "a/index.ts": "", "b/mail.ts": "export const x = 1;\n"})
    said = named_files(read_issue("Mail is slow\n\nSo is the cart, for users_ too."), index.graph)
    named = {path: value for path, value in zip(index.paths, said.tolist(), strict=True) if value}
    assert named == {"b/mail.ts": 0.5, "shop/mail.py": 0.5, "shop/cart.py": 1.0}


def test_a_bare_name_that_many_files_have_may_be_the_users_own(tmp_path: Path) -> None:
    tree = dict.fromkeys(("a/models.py", "b/models.py", "c/models.py", "a/once.py", "c/deep/models.py"), "x = 1\n")
    graph = index_of(tmp_path, tree).graph
    said = mentioned_paths(read_issue("Crash\n\nmy models.py, and once.py, and deep/models.py"), graph)
    assert {path for path, value in zip(graph.paths, said, strict=True) if value} == {"a/once.py", "c/deep/models.py"}


def test_a_title_names_definitions_in_their_own_case(tmp_path: Path) -> None:
    tree = {**TREE, "a/q.py": "class Q:\n    pass\n\nclass Mail:\n    pass\n", "b/c.py": "Cart = 1\n"}
    index = index_of(tmp_path, tree)
    said = titled(read_issue("Cart and mail fail with Q\n\n`Q` is new."), index.graph)
    assert {index.paths[i] for i, value in enumerate(said.tolist()) if value} == {"shop/cart.py", "a/q.py"}
    assert titled(read_issue("Cart and mail fail with Q"), index.graph)[index.graph.number["a/q.py"]] == 0


def test_what_a_snippet_imports_counts_as_far_as_it_is_talked_about(tmp_path: Path) -> None:
    tree = {
        "kit/__init__.py": "from kit.q import Q\n",
        "kit/q.py": "class Q:\n    pass\n",
        "kit/r.py": "class R:\n    pass\n",
    }
    issue = "`|` fails for a Q\n\n```python\nfrom kit import Q, R\nQ() | R()\n```\n"
    result = search(index_of(tmp_path, tree), issue)
    reasons = {hit.path: [reason.signal for reason in hit.why] for hit in result.files}
    assert result.files[0].path == "kit/q.py"
    assert "imported" in reasons["kit/q.py"] and "imported" not in reasons.get("kit/r.py", [])


def test_same_input_same_result(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    assert search(index, "cart price") == search(index, "cart price")


def test_what_belongs_to_the_first_file_moves_up_behind_the_third(tmp_path: Path) -> None:
    tree = {f"far{i}/zebra{i}.py": f"def zebra_{i}(): return 'zebra zebra'\n" for i in range(KEPT)}
    tree["shop/zebra.py"] = "import helpers.low\n\ndef zebra_stripes(): return 'zebra stripes'\n"
    tree |= dict.fromkeys(("alone/one.py", "helpers/low.py", "shop/other.py"), "def thing(): return 'zebra'\n")
    result = search(index_of(tmp_path, tree), "zebra stripes are wrong")
    paths = [hit.path for hit in result.files]
    assert paths[0] == "shop/zebra.py"
    assert sorted(tree.keys() - set(paths[:KEPT]), key=paths.index)[-3:] == [
        "helpers/low.py",
        "shop/other.py",
        "alone/one.py",
    ]
    reasons = {hit.path: [reason.signal for reason in hit.why] for hit in result.files}
    assert "imported by the first" in reasons["helpers/low.py"] and "beside the first" in reasons["shop/other.py"]


@given(st.lists(st.tuples(st.floats(-1, 20, width=32), st.booleans(), st.booleans()), max_size=60))
def test_a_second_look_keeps_the_first_and_adds_up(rows: list[tuple[float, bool, bool]]) -> None:
    scores = np.array([row[0] for row in rows], np.float32)
    marks = {
        name: np.array([row[at] for row in rows], np.float32)
        for at, name in ((1, "imported by the first"), (2, "beside the first"))
    }
    before = best_first(scores).tolist()
    again = second_look(Ranked(scores, {"all": scores}), marks, np.ones(len(rows), np.float32))
    after = best_first(again.scores).tolist()
    assert after[:KEPT] == before[:KEPT] and after[LOOKED_AT:] == before[LOOKED_AT:]
    assert sorted(after) == sorted(before)
    plain = [file for file in before if not any(values[file] for values in marks.values())]
    assert [file for file in after if file in plain] == plain
    assert np.allclose(sum(again.parts.values()), again.scores, atol=1e-3)


def test_no_order_of_a_set_gets_into_a_score(tmp_path: Path) -> None:
    names = [f"name{number}" for number in range(60)]
    tree = {f"lib/m{i}.py": "".join(f"def {name}(): pass\n" for name in names[: 7 * i]) for i in range(1, 9)}
    tree["tests/test_m.py"] = "".join(f"from lib.m{i} import *\n" for i in range(1, 9)) + "".join(
        f"{n}()\n" for n in names
    )
    index_of(tmp_path, tree)
    issue = " ".join(["test", *names])
    script = (
        "import sys, hashlib\n"
        "from pathlib import Path\n"
        "from agent.context.issue import read_issue\n"
        "from agent.context.signals import gather\n"
        "from agent.index.indexer import indexed\n"
        "from agent.index.source import DirectorySource\n"
        "if __name__ == '__main__':\n"
        "    found = gather(indexed(DirectorySource(Path(sys.argv[1]))), read_issue(sys.argv[2])).files\n"
        "    print({name: hashlib.sha1(values.tobytes()).hexdigest() for name, values in sorted(found.items())})\n"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), issue],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(answers) == 1
    assert "tests" in answers.pop()


def test_history_files_with_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"sha": "a", "time": 1, "message": "m", "files": ["x"]}\nnot json\n{"sha": 1}\n[]\n')
    assert read_history(path) == (Commit("a", 1, "m", ("x",)),)


def test_log_output_with_odd_names() -> None:
    sha = "0" * 40
    output = (
        f"\0{sha}\x011700000000\x01Fix é\n\nbody\x02\0\nfänny/ü.py\0a b\nc.py\0\0{'1' * 40}\x011\x01second\x02".encode()
    )
    first, second = parse_log(output)
    assert (first.message, first.files) == ("Fix é\n\nbody", ("fänny/ü.py", "a b\nc.py"))
    assert second.files == ()
