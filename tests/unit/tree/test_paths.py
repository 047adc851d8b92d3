"""The one spelling of a path, and every path that no change may hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ToolRefusal
from agent.git_process import environment
from agent.paths import PathRefused, canonical, folded, is_git_folder, link_stays_inside
from sandbox import process


@pytest.mark.parametrize(
    ("given_path", "clean"),
    [
        ("a.py", "a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/./a.py", "src/a.py"),
        ('doc/fänny/sp ace "q".py', 'doc/fänny/sp ace "q".py'),
        ("-rf", "-rf"),
        (".github/workflows/ci.yml", ".github/workflows/ci.yml"),
        (".gitignore", ".gitignore"),
        ("a.git/x", "a.git/x"),
        ("CON", "CON"),
        ("x" * 255, "x" * 255),
    ],
)
def test_one_spelling(given_path: str, clean: str) -> None:
    assert canonical(given_path) == clean


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            ".",
            "/",
            "./",
            "/etc/x",
            "~/x",
            "C:\\x",
            "C:/x",
            "\\\\host\\x",
            "a\\b",
            "../x.py",
            "a/../../x",
            "sub/../x",
        ),
        *(
            ".git/config",
            ".git/hooks/pre-commit",
            "sub/.git/config",
            ".GIT/x",
            "git~1/x",
            "GIT~1",
            ".git /x",
            ".git./x",
        ),
        *(".g\u200cit/x", ".git::$INDEX_ALLOCATION/x", ".git:x", "\ufeff.git/x", ".git. ./x", "a/.git"),
        *("a\nb", "a\0b", "a\x1bb", "a\x7f", "a\x85", "a\u2028b", "a\u202eb", "a\udcff", "x" * 256, "a/" * 2100 + "b"),
    ],
)
def test_refused(path: str) -> None:
    with pytest.raises(PathRefused) as caught:
        canonical(path)
    assert isinstance(caught.value, ToolRefusal)


@given(st.text(min_size=1, max_size=12) | st.from_regex(r"(\.|)[gG.][iIt~ .:\u200c]{1,4}[tT1. ]{0,3}", fullmatch=True))
def test_canonical_is_final(path: str) -> None:
    try:
        clean = canonical(path)
    except PathRefused:
        return
    assert canonical(clean) == clean
    assert not clean.startswith("/")
    assert ".." not in clean.split("/")


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".GIT",
        "git~1",
        ".git ",
        ".git.",
        ".git...",
        ".g\u200cit",
        ".gi\u200dt",
        "\ufeff.git",
        ".git::x",
        ".giT. ",
    ],
)
def test_at_least_as_strict_as_git(tmp_path: Path, name: str) -> None:
    """Whatever git's strictest setting refuses in its index, we refuse too."""
    settings = {"core.protectNTFS": "true", "core.protectHFS": "true"}
    env = environment(settings) | {"GIT_DIR": str(tmp_path / "x")}
    assert process.run(["git", "init", "-q", "--bare", str(tmp_path / "x")], env=environment()).ok
    blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert process.run(["git", "hash-object", "-w", "--stdin"], env=env).ok
    line = f"100644 {blob}\t{name}/config\0".encode()
    process.run(["git", "update-index", "--add", "-z", "--index-info"], env=env, stdin=line)
    listed = process.run(["git", "ls-files", "-z"], env=env).output
    assert is_git_folder(name)
    assert listed == b""


def test_names_that_a_disk_takes_for_one() -> None:
    assert folded("README.md") == folded("readme.MD")
    assert folded("u\u0308ber") == folded("\u00fcber") == folded("\u00dcBER")
    assert folded("a") != folded("b")


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("doc.txt", "readme.txt", True),
        ("a/b/link", "../../x", True),
        ("a/b/link", "../../../x", False),
        ("link", "/etc/passwd", False),
        ("link", "..", False),
        ("a/link", "..", True),
        ("link", "dir/../x", False),
        ("link", "", False),
        ("link", ".git/config", False),
        ("link", "./a//b", True),
    ],
)
def test_links_by_their_text(path: str, target: str, inside: bool) -> None:
    assert link_stays_inside(path, target) is inside
