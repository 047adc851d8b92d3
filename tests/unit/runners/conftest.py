from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.model.scripted import serve
from agent.types import ModelEndpoint, RunSpec, Task
from tests.flow.world import FILES
from tests.support.repository import Repository


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[RunSpec]:
    """A run that answers a question, with a folder of its own."""
    repository, folder = Repository(tmp_path / "widget"), tmp_path / "run"
    sha = repository.commit(FILES)
    folder.mkdir(mode=0o711)
    with serve({"sessions": [{"name": "only", "steps": [{"content": "It skips one: widget.py:2"}]}]}) as model:
        yield RunSpec(
            run_id="job-1",
            task=Task(title="What is wrong?"),
            mode="ask",
            git_dir=str(repository.git_dir),
            base_sha=sha,
            work_dir=str(folder),
            cache_dir=str(tmp_path),
            model=ModelEndpoint(base_url=model.base_url, api_key="a-run-token", model="scripted"),
            seed="5eed" * 8,
        )
