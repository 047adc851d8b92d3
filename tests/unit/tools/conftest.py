from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.git import Git
from agent.index.index import Index
from agent.index.source import TreeSource
from agent.tools import ToolContext
from agent.tree import BaseTree
from tests.support.indexing import indexed
from tests.support.repository import Repository

FILES = {
    "src/calc.py": '''"""Sums."""

LIMIT = 10


class Calc:
    """Adds."""

    def add(self, a, b):
        return a - b

    def twice(self, a):
        return self.add(a, a)


def total(values):
    calc = Calc()
    result = 0
    for value in values:
        result = calc.add(result, value)
    return result
''',
    "src/report.py": "from calc import total\n\n\ndef report(values):\n    return f'sum: {total(values)}'\n",
    "tests/test_calc.py": "from calc import Calc\n\n\ndef test_add():\n    assert Calc().add(1, 1) == 2\n",
    "tests/conftest.py": "",
    "pyproject.toml": "[project]\nname = 'x'\n",
    "README.md": "# Calc\n\nAdds numbers.\n",
    "notes.txt": b"caf\xe9\r\nend\r\n",
    "logo.png": b"\x89PNG\0",
    "wide.js": "x" * 5000 + "\nlast\n",
    "long.txt": "".join(f"line {n}\n" for n in range(1, 5001)),
    "hidden.txt": "a\u202eb\x1b[31mc\U000e0041\n",
}


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseTree]:
    root = tmp_path_factory.mktemp("tools")
    origin = Repository(root / "origin")
    origin.write(FILES)
    (origin.path / "link.py").symlink_to("src/calc.py")
    origin.commit()
    with Git.init(root / "own.git") as git:
        yield BaseTree.load(git, git.fetch(origin.url, "refs/heads/main"))


@pytest.fixture(scope="session")
def index(base: BaseTree) -> Index:
    return indexed(TreeSource(base))


@pytest.fixture
def context(base: BaseTree, index: Index, tmp_path: Path) -> ToolContext:
    return ToolContext(
        draft=base.draft(),
        index=index,
        run_tests=lambda draft, tests: f"{len(draft.edits)} files changed, asked for {list(tests)}",
        run_command=lambda draft, line: f"{len(draft.edits)} files changed, ran {line}",
        view="/workspace",
    )
