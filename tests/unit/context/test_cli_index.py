"""``graftsmith index``, ``search``, ``symbols``, ``map`` and the line protocol of ``search --server``."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli_index import index_command, map_command, search_command, serve, symbols_command
from tests.unit.index.helpers import write

TREE = {
    "shop/cart.py": "class Cart:\n    def total_price(self):\n        return 1\n",
    "shop/use.py": "from shop.cart import Cart\n\nCart().total_price()\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "t", TREE)


def run(command: object, *arguments: object, store: Path) -> str:
    result = CliRunner().invoke(command, [*map(str, arguments), "--store", str(store), "--jobs", "1"])  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result.stdout


def test_index(tree: Path, tmp_path: Path) -> None:
    facts = json.loads(run(index_command, tree, "--json", store=tmp_path / "s"))
    assert (facts["files"], facts["parsed"], facts["languages"]) == (2, 2, {"python": 2})
    assert "2 files" in run(index_command, tree, store=tmp_path / "s")


def test_search(tree: Path, tmp_path: Path) -> None:
    found = json.loads(run(search_command, tree, "total price of a cart", "--json", store=tmp_path / "s"))
    assert found["files"][0] == "shop/cart.py"
    assert found["functions"] == ["shop/cart.py::Cart.total_price"]
    found = json.loads(run(search_command, tree, "total price", "--json", "--explain", store=tmp_path / "s"))
    assert found["why"]["shop/cart.py"]
    assert "shop/cart.py" in run(search_command, tree, "total price", "--explain", store=tmp_path / "s")
    assert run(search_command, tree, "", store=tmp_path / "s") == "Nothing here is about that.\n"


def test_symbols_and_map(tree: Path, tmp_path: Path) -> None:
    found = json.loads(run(symbols_command, tree, "Cart.total_price", "--json", store=tmp_path / "s"))
    assert found["definitions"][0]["start"] == 2
    assert found["references"][0]["certainty"] == "resolved"
    assert "shop/cart.py:2" in run(symbols_command, tree, "total_price", store=tmp_path / "s")
    assert "class Cart" in run(map_command, tree, "--tokens", "500", store=tmp_path / "s")


def test_names_from_hell_reach_no_terminal(tmp_path: Path) -> None:
    tree = write(
        tmp_path / "t",
        {"esc\x1b[31m total.py": "def total(): pass\n", os.fsdecode(b"\xff total.py"): "def total(): pass\n"},
    )
    shown = run(search_command, tree, "total", store=tmp_path / "s")
    assert "\x1b" not in shown
    assert "\\x1b" in shown


def test_missing_arguments_are_a_usage_error() -> None:
    result = CliRunner().invoke(search_command, [])
    assert result.exit_code == 2


def test_the_server_answers_every_line(tree: Path, tmp_path: Path) -> None:
    history = tmp_path / "h.jsonl"
    past = {"sha": "a", "time": 1, "message": "cart", "files": ["shop/cart.py"]}
    odd = (json.dumps({**past, "time": float("inf")}), "[" * 100_000)
    history.write_text("\n".join((*odd, json.dumps(past), "")))
    requests = [
        {"repo_path": str(tree), "query": "total price", "k": 5, "history_path": None},
        {"repo_path": str(tree), "query": "total price", "k": 5, "history_path": str(history)},
        {"repo_path": str(tmp_path / "missing"), "query": "x", "k": 5, "history_path": None},
        {"query": "x"},
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests) + "not json\n"
    lines += "[" * 100_000 + "\n" + json.dumps({**requests[0], "k": float("inf")}) + "\n"
    output = io.StringIO()
    serve(io.StringIO(lines), output, tmp_path / "s", 1)
    answers = [json.loads(line) for line in output.getvalue().splitlines()]
    assert len(answers) == 7
    assert answers[0]["files"][0] == answers[1]["files"][0] == "shop/cart.py"
    assert answers[0]["functions"] == ["shop/cart.py::Cart.total_price"]
    assert all(answer["files"] == [] for answer in answers[2:])
    assert all("error" in answer for answer in answers[3:])
