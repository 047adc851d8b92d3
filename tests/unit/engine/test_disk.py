"""A disk without room is no bug of ours, whoever meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.errors import disk_full
from agent.git import Git
from agent.types import FileChange, Stage, Task
from app import local_run
from app.settings import EngineSettings, load
from tests.flow.world import EDIT, FINISH, WRITE, plan
from tests.support.disk import fill, small_disk
from tests.unit.engine.conftest import KEY, Desk, MakeModel


def test_git_without_room(desk: Desk, tmp_path: Path) -> None:
    change = FileChange(path="widget.py", content=b"x = 1\n")
    with small_disk(tmp_path / "small", "size=4m,nr_inodes=60") as disk, Git.init(disk / "own.git") as git:
        sha = git.fetch(desk.repository.url, "refs/heads/main")
        fill(disk)
        with pytest.raises(OSError, match="No space left") as caught:
            git.write_tree(sha, [change])
        assert disk_full(caught.value)
        for file in disk.glob("filler-*"):
            file.unlink()
        assert git.write_tree(sha, [change])


@pytest.mark.parametrize("at", [Stage.PREPARE, Stage.BASELINE, Stage.VERIFY])
def test_a_run_without_room(
    desk: Desk, scripted: MakeModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: Stage
) -> None:
    with small_disk(tmp_path / "small", "size=20m,nr_inodes=400") as disk:
        settings = {"OPENAI_BASE_URL": scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]}), "OPENAI_API_KEY": KEY}
        for name, value in (settings | {"OPENAI_MODEL": "m", "GRAFTSMITH_STATE_DIR": str(disk)}).items():
            monkeypatch.setenv(name, value)

        def see(event: dict[str, Any]) -> None:
            if (event["kind"], event.get("name")) == ("stage", at):
                fill(disk)

        wish = local_run.Wish(Task(title="Count every item"), test_command=desk.test)
        with pytest.raises(OSError, match="No space left") as caught:
            local_run.run(load(EngineSettings, env_file=None), desk.repository.path, wish, listeners=(see,))
        assert disk_full(caught.value)
    assert desk.repository.git("status", "--short") == ""
