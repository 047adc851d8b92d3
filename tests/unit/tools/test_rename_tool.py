"""Where a rename is sure, where it is left to the model, and what it says of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.git import Git
from agent.index.source import TreeSource
from agent.tools import REGISTRY, ToolContext, ToolResult, call
from agent.tree import BaseTree
from tests.support.indexing import indexed
from tests.support.repository import Repository

Rename = Callable[..., ToolResult]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[[Mapping[str, str]], ToolContext]]:
    with ExitStack() as stack:

        def make(files: Mapping[str, str]) -> ToolContext:
            origin = Repository(tmp_path / "origin")
            origin.commit(files)
            git = stack.enter_context(Git.init(tmp_path / "own.git"))
            base = BaseTree.load(git, git.fetch(origin.url, "refs/heads/main"))
            index = indexed(TreeSource(base))
            return ToolContext(base.draft(), index, lambda draft, tests: "", lambda draft, line: "")

        yield make


def renamed(context: ToolContext, **arguments: str) -> ToolResult:
    result = call(REGISTRY, context, "rename", json.dumps(arguments))
    context.draft = result.draft or context.draft
    return result


F = "def make():\n    return 1\n"


@pytest.mark.parametrize(
    ("files", "arguments", "said", "after"),
    [
        (  # reached through the name of its module, and of its package
            {"a/tools.py": F, "b.py": "from a import tools\nfrom a.tools import make\n\ntools.make()\n"},
            {"name": "make", "to": "build"},
            "Renamed in a/tools.py (1), b.py (2).",
            {"b.py": "from a import tools\nfrom a.tools import build\n\ntools.build()\n"},
        ),
        (
            {"pkg/__init__.py": F, "b.py": "import pkg\nfrom pkg import make\n\npkg.make()\n"},
            {"name": "make", "to": "build"},
            "Renamed in pkg/__init__.py (1), b.py (2).",
            {"b.py": "import pkg\nfrom pkg import build\n\npkg.build()\n"},
        ),
        ({"__init__.py": F}, {"name": "make", "to": "build"}, "Renamed in __init__.py (1).", {}),
        (  # the folder that a module is in is no name for it
            {"a/tools.py": F + "\n\ndef use(a):\n    return a.make()\n"},
            {"name": "make", "to": "build"},
            "Renamed in a/tools.py (1).\nLeft for you to decide: a/tools.py lines 6.",
            {"a/tools.py": F.replace("make", "build") + "\n\ndef use(a):\n    return a.make()\n"},
        ),
        (  # a function is sure where the use is resolved, whatever else has its name
            {"a.py": F, "b.py": "from a import make\n\nmake()\n", "c.py": "class C:\n    def make(self): ...\n"},
            {"name": "make", "to": "build", "path": "a.py"},
            "Renamed in a.py (1), b.py (2).",
            {"c.py": "class C:\n    def make(self): ...\n"},
        ),
        (  # a method is sure where no other thing has its name, though nobody knows what `x` is
            {"a.py": "class C:\n    def make(self): ...\n", "b.py": "def use(x):\n    return x.make()\n"},
            {"name": "C.make", "to": "build"},
            "Renamed in a.py (1), b.py (1).",
            {"b.py": "def use(x):\n    return x.build()\n"},
        ),
        (  # of a method whose name others share: only what says that it is this class's own
            {
                "a.py": "class C:\n    def make(self):\n        self.make()\n        self.store.make()\n\n\n"
                "class D:\n    def make(self):\n        self.make()\n",
                "b.py": "from a import C\n\nC.make\nx.make()\n",
                "docs.rst": "See :meth:`~C.make` and :meth:`~D.make`.\n",
            },
            {"name": "C.make", "to": "build"},
            "Renamed in a.py (2), b.py (1), docs.rst (1).\n"
            "Left for you to decide: a.py lines 4, 8, 9, b.py lines 4, docs.rst lines 1.",
            {
                "docs.rst": "See :meth:`~C.build` and :meth:`~D.make`.\n",
                "b.py": "from a import C\n\nC.build\nx.make()\n",
            },
        ),
        (  # another class has the new name already
            {"a.py": "class C:\n    def make(self): ...\n\n\nclass D:\n    def build(self): ...\n"},
            {"name": "C.make", "to": "build"},
            "Renamed in a.py (1).",
            {"a.py": "class C:\n    def build(self): ...\n\n\nclass D:\n    def build(self): ...\n"},
        ),
        (  # a key, a keyword argument, an attribute of something else
            {"a.py": F + "\n\nmake()\nx = {'make': 1}\nf(make=2)\ny.make\nz = \"make'\"\n"},
            {"name": "make", "to": "build"},
            "Renamed in a.py (3).\nLeft for you to decide: a.py lines 6, 7, 8.",
            {"a.py": F.replace("make", "build") + "\n\nbuild()\nx = {'make': 1}\nf(make=2)\ny.make\nz = \"build'\"\n"},
        ),
    ],
)
def test_what_is_sure_is_renamed_and_the_rest_is_named(
    project: Callable[[Mapping[str, str]], ToolContext],
    files: dict[str, str],
    arguments: dict[str, str],
    said: str,
    after: dict[str, str],
) -> None:
    context = project(files)
    assert renamed(context, **arguments).text == said
    assert {path: context.draft.read(path).decode() for path in after} == after


def test_one_of_several_is_chosen_by_its_path(project: Callable[[Mapping[str, str]], ToolContext]) -> None:
    context = project({"a.py": F, "b.py": F})
    told = renamed(context, name="make", to="build")
    assert not told.ok and "2 definitions of make" in told.text and "a.py:1 make, b.py:1 make" in told.text
    assert "0 definitions" in renamed(context, name="make", to="build", path="c.py").text
    assert renamed(context, name="make", to="build", path="b.py").text == "Renamed in b.py (1)."
    assert context.draft.read("a.py") == F.encode()


def test_a_name_that_breaks_every_file_renames_nothing(project: Callable[[Mapping[str, str]], ToolContext]) -> None:
    context = project({"a.py": F})
    told = renamed(context, name="make", to="class")
    assert not told.ok and "could be renamed for sure" in told.text and context.draft.edits == {}


def test_files_that_were_edited_since_are_left_to_the_model(
    project: Callable[[Mapping[str, str]], ToolContext],
) -> None:
    context = project({"a.py": F, "gone.py": "from a import make\n"})
    context.draft = context.draft.with_file("new.py", b"import a\n\na.make()\n").with_file("other.py", b"pass\n")
    context.draft = context.draft.without("gone.py")
    told = renamed(context, name="make", to="build")
    assert told.text == "Renamed in a.py (1).\nLeft for you to decide: new.py lines 3."
