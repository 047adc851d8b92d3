"""Definitions, references, callers, importers and tests, each with how sure it is; and the next state of a tree."""

# ruff: noqa: E501 - small files and messages, each on a line

from __future__ import annotations

from pathlib import Path

from agent.git import Git
from agent.index.corpus import Corpus
from agent.index.graph import Certainty
from agent.index.indexer import Indexer
from agent.index.source import DirectorySource, TreeSource
from agent.tree import BaseTree
from tests.unit.index.helpers import index_of, write

TREE = {
    "pkg/__init__.py": "from .core import compute\n",
    "pkg/core.py": "def compute(x):\n    return helper(x)\n\n\ndef helper(x):\n    return x\n\n\nclass Box:\n    def open(self):\n        return compute(1)\n",
    "pkg/other.py": "def compute(y):\n    return y\n",
    "app.py": "from pkg import compute\n\n\ndef main():\n    print(compute(3))\n",
    "stray.py": "def run(thing):\n    thing.compute(1)\n    # compute is mentioned\n",
    "tests/test_core.py": "from pkg.core import compute\n\n\ndef test_compute():\n    assert compute(1) == 1\n",
    "tests/test_app.py": "import app\n\n\ndef test_main():\n    app.main()\n",
    "tests/test_other.py": "def test_nothing(): pass\n",
}  # fmt: skip


def test_references_say_how_sure_they_are(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    sure = {(use.path, use.line): use.certainty for use in index.references("compute")}
    assert sure[("app.py", 5)] is Certainty.RESOLVED  # through the package's re-export
    assert sure[("pkg/core.py", 11)] is Certainty.RESOLVED
    assert sure[("stray.py", 2)] is Certainty.BY_NAME
    assert ("pkg/core.py", 1) not in sure
    assert [use.certainty for use in index.references("compute")] == sorted(
        sure.values(), key=lambda c: c != "resolved"
    )


def test_callers_call(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    found = {(use.path, use.line, use.inside) for use in index.callers("compute")}
    assert ("app.py", 5, "main") in found
    assert ("pkg/core.py", 11, "Box.open") in found
    assert not any(path == "stray.py" and line == 3 for path, line, _ in found)


def test_definitions_by_plain_and_qualified_name(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    assert {item.path for item in index.symbols("compute")} == {"pkg/core.py", "pkg/other.py"}
    assert [item.path for item in index.symbols("Box.open")] == ["pkg/core.py"]
    assert index.symbols("Box.missing") == []


def test_a_definition_is_not_its_own_reference_even_when_decorated(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"a.py": "@deco\n@other(1)\ndef target():\n    pass\n\n\ntarget()\n"})
    assert [use.line for use in index.references("target")] == [7]


def test_tests_that_a_change_may_affect(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    reached = {reach.path: reach.certainty for reach in index.tests_for(["pkg/core.py"])}
    assert reached["tests/test_core.py"] is Certainty.RESOLVED
    assert reached["tests/test_app.py"] is Certainty.RESOLVED  # app → package → core
    assert "tests/test_other.py" not in reached
    assert index.tests_for(["pkg/other.py"])[0].certainty is Certainty.BY_NAME
    assert index.tests_for(["tests/test_app.py"])[0].path == "tests/test_app.py"
    assert index.tests_for(["no/such.py"]) == []


def test_importers(tmp_path: Path) -> None:
    index = index_of(tmp_path, TREE)
    assert {reach.path for reach in index.importers("pkg/core.py")} == {"pkg/__init__.py", "tests/test_core.py"}
    assert index.importers("no/such.py") == []


def test_circular_re_exports_end(tmp_path: Path) -> None:
    index = index_of(
        tmp_path, {"a.py": "from b import *\n", "b.py": "from a import *\nfrom c import x\n", "c.py": "x = 1\n"}
    )
    assert index.graph.behind("x", index.graph.number["a.py"])


def test_the_next_state_answers_as_from_scratch(tmp_path: Path) -> None:
    root = write(tmp_path / "t", TREE)
    with Indexer(None, jobs=1) as indexer:
        state = indexer.index(DirectorySource(root))
        for files, gone in (
            ({"pkg/core.py": TREE["pkg/core.py"] + "\n\ndef brand_new():\n    pass\n"}, None),
            ({"a_first.py": "def added_first(): return brand_new\n"}, "stray.py"),
            ({}, "pkg/core.py"),
            ({"pkg/core.py": "def back_again(): pass\n"}, "tests/test_other.py"),
        ):
            write(root, files)
            if gone:
                (root / gone).unlink()
            state = indexer.index(DirectorySource(root), base=state)
            assert state.report.parsed == len(files)
            fresh = Corpus.build(state.records)
            for word in ("compute", "brand_new", "added_first", "back_again", "helper"):
                assert _files(state.corpus, word) == _files(fresh, word)
                assert sorted(state.corpus.of_word(word)[1].tolist()) == sorted(fresh.of_word(word)[1].tolist())
            assert state.corpus.file_length.tolist() == fresh.file_length.tolist()


def _files(corpus: Corpus, word: str) -> list[int]:
    return sorted(corpus.chunk_file[corpus.of_stem(word)[0]].tolist())


def test_a_commit_and_a_folder_share_their_records(tmp_path: Path) -> None:
    root = write(tmp_path / "t", TREE)
    git = Git.init(tmp_path / "repo.git")
    blobs = [
        git.run(["hash-object", "-w", "--no-filters", "--stdin"], content.encode()).decode().strip()
        for content in TREE.values()
    ]
    listing = "".join(f"100644 {blob}\t{path}\n" for path, blob in zip(TREE, blobs, strict=True))
    listing += f"160000 {'1' * 40}\tmodule\n120000 {blobs[0]}\tlink\n"
    git.run(["update-index", "--add", "--index-info"], listing.encode())
    tree = git.run(["write-tree"]).decode().strip()
    who = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "a"), ("EMAIL", "a@b"))
    }
    commit = git.run(["commit-tree", tree], b"start", variables=who).decode().strip()
    store = tmp_path / "s.sqlite"
    with Indexer(store, jobs=1) as indexer:
        indexer.index(DirectorySource(root))
        base = BaseTree.load(git, commit)
        index = indexer.index(TreeSource(base))
        assert index.report.parsed == 0
        assert set(index.paths) == set(TREE)
        assert index.report.skipped == {"submodule": 1, "link": 1}
        draft = base.draft().with_file("pkg/new.py", b"def drafted(): pass\n").without("stray.py")
        later = indexer.index(TreeSource(draft), base=index)
        assert later.report.parsed == 1
        assert [item.path for item in later.symbols("drafted")] == ["pkg/new.py"]
        assert "stray.py" not in later.paths
        assert later.text("pkg/new.py") == "def drafted(): pass\n"
    git.close()
