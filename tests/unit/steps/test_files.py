"""What jobs keep on disk is read by the version before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent.types import ChangeSet, FileChange, RunResult, Task
from app.steps.files import Brief, Files
from tests.unit.report import cases


def newer(value: Any) -> Any:
    """``value`` as JSON of a version that has added a field to each type."""
    if isinstance(value, BaseModel):
        known = json.loads(value.model_dump_json())
        nested = {name: newer(item) for name, item in value if isinstance(item, BaseModel | tuple) and item}
        return {**known, **nested, "of_later": {"a": [1]}}
    return [newer(item) for item in value] if isinstance(value, tuple) else json.loads(json.dumps(value))


def write(path: Path, value: BaseModel) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(newer(value)))


def test_values_of_a_newer_version_are_read_as_far_as_they_are_known(tmp_path: Path) -> None:
    files = Files(tmp_path)
    kept = ChangeSet(base_sha="0" * 40, changes=(FileChange(path="a.py", content=b"\xff"),))
    brief = Brief(task=Task(title="t", comments=("c",)), base_ref="main", base_sha="0" * 40, plan=cases.PLAN, kept=kept)
    results: dict[str, RunResult] = {"run-1/result.json": cases.CHANGED, "result.json": cases.REVIEWED}
    for name, value in {"brief.json": brief, **results}.items():
        write(files.job("j") / name, value)
    assert "of_later" in str(newer(brief)["plan"]["steps"])
    assert files.brief("j") == brief
    assert files.result("j") == cases.CHANGED
    assert files.told_result("j") == cases.REVIEWED
