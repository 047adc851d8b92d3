"""What is asked of the disk itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent.disk import scatter


def _flags(folder: Path) -> str:
    told = subprocess.run(["lsattr", "-d", str(folder)], capture_output=True, text=True, check=False)
    return told.stdout.partition(" ")[0]


def test_what_is_made_in_a_scattered_folder_lies_apart(tmp_path: Path) -> None:
    before = _flags(tmp_path)
    if "e" not in before:
        pytest.skip("not on ext4")
    scatter(tmp_path)
    scatter(tmp_path)
    assert sorted(_flags(tmp_path).replace("-", "")) == sorted(before.replace("-", "") + "T")
    (tmp_path / "made").mkdir()
    assert "T" not in _flags(tmp_path / "made")


def test_a_disk_that_knows_no_such_thing_is_left_alone() -> None:
    scatter(Path("/proc"))
