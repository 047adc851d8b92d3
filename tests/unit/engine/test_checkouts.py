"""Checkouts that hold less than a full clone does, and suites that are never the same twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flow.world import EDIT, FINISH, WRITE, plan
from tests.unit.engine.conftest import Desk, MakeModel


def clone(desk: Desk, *options: str) -> Path:
    desk.repository.commit({"widget.py": "def total(items):\n    return sum(items[1:])\n", "notes/old.md": "older\n"})
    desk.repository.commit({"widget.py": (desk.repository.path / "widget.py").read_text() + "\n\ndouble = None\n"})
    desk.repository.git("revert", "--no-edit", "HEAD", "HEAD~1")
    desk.repository.git("config", "uploadpack.allowFilter", "true")
    target = desk.state.parent / "clone"
    desk.repository.git("clone", "-q", *options, desk.repository.url, str(target))
    return target


@pytest.mark.parametrize("option", ["--depth=1", "--filter=tree:0"])
def test_a_clone_that_brought_less_history_is_worked_on(desk: Desk, scripted: MakeModel, option: str) -> None:
    checkout = clone(desk, option)
    model = scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]})
    told = desk.graftsmith(
        *("run", "--repo", str(checkout), "--task", "Count every item", "--test-command", desk.test, "--json"),
        model=model,
    )
    result = json.loads(told.out)
    assert (result["outcome"], result["proven"]) == ("proposed", True), result["reason"]
    assert result["applied"] == ["test_total.py", "widget.py"]


def test_a_clone_without_its_files_is_named(desk: Desk, scripted: MakeModel) -> None:
    checkout = clone(desk, "--filter=blob:none", "--no-checkout")
    told = desk.graftsmith(
        "run", "--repo", str(checkout), "--task", "Count every item", "--json", model=scripted(plan())
    )
    result = json.loads(told.out)
    assert (told.code, result["outcome"], result["our_fault"]) == (1, "blocked", False)
    assert "partial clone" in result["reason"] and "--refetch" in result["next_step"]


WANDERING = """import time

import pytest


@pytest.mark.parametrize("now", [time.time()])
def test_now(now):
    assert now > 0
"""


def test_a_suite_whose_ids_are_new_in_every_run(desk: Desk, scripted: MakeModel) -> None:
    desk.repository.commit({"test_now.py": WANDERING})
    model = scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]})
    told = desk.graftsmith(
        "run", "--task", "Count every item", "--no-apply", "--json", "--test-command", desk.test, model=model
    )
    result = json.loads(told.out)
    assert (result["outcome"], result["proven"]) == ("proposed", True), result["reason"]
    assert [proof["test"] for proof in result["evidence"]["proof"]] == ["test_total.py::test_total_counts_every_item"]
