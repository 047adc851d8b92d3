"""Git on bare repositories: what is read is what is stored, and nothing is ever started by it."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.errors import RetryLater, UserError
from agent.git import Git
from agent.git_errors import AccessDenied, NotARepository, ObjectMissing, RefMissing, RepositoryTooLarge
from agent.git_names import valid_ref
from agent.git_process import environment
from agent.types import FileChange
from sandbox import process
from tests.support.repository import Repository


def fetched(git: Git, origin: Repository) -> str:
    return git.fetch(origin.url, "refs/heads/main")


def test_fetches_a_branch_and_reads_bytes_as_stored(git: Git, origin: Repository) -> None:
    origin.commit({"a.txt": b"one\r\n$Id$\n", "e": ""})
    origin.write({".gitattributes": "* ident\na.txt eol=lf\n"})
    origin.git("add", ".gitattributes")
    origin.git("commit", "-q", "-m", "attributes")
    sha = origin.git("rev-parse", "HEAD")
    assert fetched(git, origin) == sha
    tree = git.tree(sha)
    assert list(git.blobs(tree[path].blob for path in ("a.txt", "e"))) == [b"one\r\n$Id$\n", b""]
    assert tree["e"].size == 0


def test_names_are_read_as_they_are(git: Git, origin: Repository) -> None:
    names = ["doc/fänny/überblick.md", 'sp ace "q".py', "new\nline", "-rf", "tab\there"]
    origin.commit(dict.fromkeys(names, "x"))
    (origin.path / "bad\udcff").write_bytes(b"y")
    sha = origin.commit()
    fetched(git, origin)
    assert set(git.tree(sha)) == {*names, "bad\udcff"}


def test_more_blobs_than_a_pipe_holds(git: Git, origin: Repository) -> None:
    sha = origin.commit({f"f{n}": str(n) * 1000 for n in range(600)})
    fetched(git, origin)
    tree = git.tree(sha)
    contents = list(git.blobs(entry.blob for entry in tree.values()))
    assert contents == [path[1:].encode() * 1000 for path in tree]


def test_a_missing_object_is_named_and_the_reader_goes_on(git: Git, origin: Repository) -> None:
    sha = origin.commit({"a": "1"})
    fetched(git, origin)
    with pytest.raises(ObjectMissing, match="0123456789" * 4):
        git.blob("0123456789" * 4)
    assert git.blob(git.tree(sha)["a"].blob) == b"1"


def test_writes_a_tree_without_touching_the_base(git: Git, origin: Repository) -> None:
    sha = origin.commit({"keep": "k", "gone/x": "x", "swap": "file", "run.sh": "old"})
    origin.git("update-index", "--chmod=+x", "run.sh")
    sha = origin.commit()
    fetched(git, origin)
    before = git.tree(sha)
    made = git.write_tree(
        sha,
        [
            FileChange(path="gone/x", content=None),
            FileChange(path="swap/inner", content=b"now a folder"),
            FileChange(path="swap", content=None),
            FileChange(path="run.sh", mode="100755", content=b"new\r\n"),
            FileChange(path="ü b.txt", content=b"\xff\x00"),
        ],
    )
    after = git.tree(made)
    assert sorted(after) == ["keep", "run.sh", "swap/inner", "ü b.txt"]
    assert after["run.sh"].mode == "100755"
    assert git.blob(after["run.sh"].blob) == b"new\r\n"
    assert git.blob(after["ü b.txt"].blob) == b"\xff\x00"
    assert git.tree(sha) == before
    assert git.write_tree(sha, []) == git.tree_of(sha)


def test_diff_is_a_patch_that_git_applies(git: Git, origin: Repository) -> None:
    sha = origin.commit({"a.txt": "1\n2\n3\n", "moved.txt": "same\n" * 20, "b.bin": b"\0\1"})
    fetched(git, origin)
    changes = [
        FileChange(path="a.txt", content=b"1\n2\nthree\n"),
        FileChange(path="moved.txt", content=None),
        FileChange(path="to/here.txt", content=b"same\n" * 20),
        FileChange(path="b.bin", content=b"\0\2"),
    ]
    patch = git.diff(git.tree_of(sha), git.write_tree(sha, changes), binary=True)
    assert b"rename to to/here.txt" in patch
    origin.git("apply", "--index", "-", stdin=patch)
    assert origin.git("write-tree") == git.write_tree(sha, changes)


def test_grep_finds_lines(git: Git, origin: Repository) -> None:
    sha = origin.commit({"a b.py": "x = 1\nfoo(bar)\n", "sub/c.js": "foo(BAR)\r\n", "d.bin": b"\0foo(bar)"})
    fetched(git, origin)
    assert [(m.path, m.line, m.text) for m in git.grep(sha, "foo(bar)")] == [("a b.py", 2, "foo(bar)")]
    assert {m.path for m in git.grep(sha, r"foo\(bar\)", regex=True, ignore_case=True)} == {"a b.py", "sub/c.js"}
    assert {m.path for m in git.grep(sha, "foo", where=[":(glob)**/*.js"])} == {"sub/c.js"}
    assert list(git.grep(sha, "--open-files-in-pager=x")) == []
    with pytest.raises(UserError, match="search"):
        list(git.grep(sha, "(", regex=True))


# ── nothing is ever started ──


def test_no_hook_filter_monitor_or_template_runs(tmp_path: Path, git: Git, origin: Repository) -> None:
    witness = tmp_path / "ran"
    origin.commit({"a.txt": "1\n", ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n"})
    fetched(git, origin)
    hook = git.git_dir / "hooks" / "reference-transaction"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {witness}\n")
    hook.chmod(0o755)
    with (git.git_dir / "config").open("a") as config:
        config.write(f'[filter "evil"]\nclean = touch {witness}\nsmudge = touch {witness}\n')
        config.write(f'[diff "evil"]\ntextconv = touch {witness}; cat\ncommand = touch {witness}\n')
        config.write(f"[core]\nfsmonitor = touch {witness}\n")
    sha = origin.commit({"a.txt": "2\n"})
    fetched(git, origin)
    made = git.write_tree(sha, [FileChange(path="a.txt", content=b"3\n")])
    assert b"+3" in git.diff(git.tree_of(sha), made)
    assert list(git.grep(made, "3"))
    assert not witness.exists()


@pytest.mark.parametrize(
    "url", ["ext::sh -c true", "ssh://example.com/x", "git@example.com:x", "/tmp/x", "-ufoo", "https://a b/", "file://"]
)
def test_other_protocols_are_refused(git: Git, url: str) -> None:
    with pytest.raises(UserError, match="not one we fetch from"):
        git.fetch(url, "HEAD")


@pytest.mark.parametrize(
    "ref", ["--upload-pack=touch x", "refs/heads/--upload-pack=x y", "main", "refs/heads/a..b", ""]
)
def test_a_ref_is_never_an_option(git: Git, origin: Repository, ref: str) -> None:
    origin.commit({"a": "1"})
    with pytest.raises(RefMissing):
        git.fetch(origin.url, ref)


def test_a_branch_that_looks_like_an_option_works_by_its_full_name(git: Git, origin: Repository) -> None:
    sha = origin.commit({"a": "1"})
    origin.git("update-ref", "refs/heads/--upload-pack=x", sha)
    assert git.fetch(origin.url, "refs/heads/--upload-pack=x") == sha


class _Recorder(http.server.BaseHTTPRequestHandler):
    seen: list[str | None]
    answer = 401

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.send_response(self.answer)
        if self.answer == 302:
            self.send_header("Location", "/elsewhere/info/refs")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[tuple[str, type[_Recorder]]]:
    handler = type("Handler", (_Recorder,), {"seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/x.git", handler
    server.shutdown()
    server.server_close()


def test_the_token_is_sent_and_appears_nowhere_else(git: Git, recorder: tuple[str, type[_Recorder]]) -> None:
    url, handler = recorder
    with pytest.raises(AccessDenied) as caught:
        git.fetch(url, "HEAD", header="Authorization: Basic c2VudGluZWw=")
    assert handler.seen[0] == "Basic c2VudGluZWw="
    assert "c2VudGluZWw" not in str(caught.value)
    for file in git.git_dir.rglob("*"):
        assert not file.is_file() or b"c2VudGluZWw" not in file.read_bytes()


@pytest.mark.parametrize(
    ("status", "error"), [(404, NotARepository), (403, AccessDenied), (503, RetryLater), (429, RetryLater)]
)
def test_http_errors_say_who_must_act(
    git: Git, recorder: tuple[str, type[_Recorder]], status: int, error: type[Exception]
) -> None:
    url, handler = recorder
    handler.answer = status
    with pytest.raises(error):
        git.fetch(url, "HEAD")


def test_each_thread_knows_how_long_it_waited_itself(tmp_path: Path) -> None:
    with Git.init(tmp_path / "store.git") as git, ThreadPoolExecutor(1) as other:
        assert git.seconds == 0
        assert other.submit(lambda: (git.run(["version"]), git.seconds)[1]).result() > 0
        assert git.seconds == 0


def test_a_redirect_does_not_carry_the_token_on(git: Git, recorder: tuple[str, type[_Recorder]]) -> None:
    url, handler = recorder
    handler.answer = 302
    with pytest.raises(RetryLater, match=r"another address"):
        git.fetch(url, "HEAD", header="Authorization: Basic c2VudGluZWw=")
    assert len(handler.seen) == 1


def test_a_refused_connection_may_work_later(git: Git) -> None:
    with pytest.raises(RetryLater):
        git.fetch("http://127.0.0.1:9/x.git", "HEAD")


# ── odd repositories ──


def test_empty_repository(git: Git, origin: Repository) -> None:
    with pytest.raises(RefMissing, match="does not exist"):
        git.fetch(origin.url, "HEAD")


def test_a_branch_whose_name_is_not_ascii(git: Git, origin: Repository) -> None:
    sha = origin.commit({"a": "1"})
    origin.git("branch", "-m", "trünk/é")
    assert git.fetch(origin.url, "refs/heads/trünk/é") == sha


def test_sha256_repository(git: Git, tmp_path: Path) -> None:
    origin = Repository(tmp_path / "sha256", "--object-format=sha256")
    origin.commit({"a": "1"})
    with pytest.raises(UserError, match="SHA-256"):
        git.fetch(origin.url, "refs/heads/main")


def test_not_a_repository(git: Git, tmp_path: Path) -> None:
    with pytest.raises(NotARepository):
        git.fetch(f"file://{tmp_path}/nothing", "HEAD")
    with pytest.raises(NotARepository):
        Git(tmp_path / "nothing").tree("0" * 40)


def test_history_beyond_the_shallow_boundary_is_no_obstacle(git: Git, origin: Repository) -> None:
    origin.commit({"a": "1"})
    sha = origin.commit({"a": "2"})
    fetched(git, origin)
    with pytest.raises(RefMissing):
        git.resolve(f"{sha}~1")
    made = git.write_tree(sha, [FileChange(path="a", content=b"3")])
    assert b"+3" in git.diff(git.tree_of(sha), made)


def test_objects_that_git_refuses(git: Git, origin: Repository) -> None:
    origin.commit({"a": "1"})
    blob = origin.git("hash-object", "-w", "--stdin", stdin=b"x")
    tree = b"100644 .git\0" + bytes.fromhex(blob)
    evil = origin.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=tree)
    commit = origin.git("commit-tree", "-m", "evil", evil)
    origin.git("update-ref", "refs/heads/evil", commit)
    with pytest.raises(UserError, match="refuses"):
        git.fetch(origin.url, "refs/heads/evil")


def test_a_fetch_stops_at_its_size_limit(git: Git, origin: Repository) -> None:
    origin.commit({f"big{n}": os.urandom(400_000) for n in range(20)})
    with pytest.raises(RepositoryTooLarge):
        git.fetch(origin.url, "refs/heads/main", max_bytes=1000)


# ── names ──


@pytest.mark.parametrize(
    "name",
    [
        *("feature/AB#1992-x", "feat(core)-b", "T-1@add", "wt+x", "naïve/é", "main", "a/b/c", "@", "-x", "HEAD"),
        *("a..b", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a\\b", ".a", "a/.b", "a.lock", "a.lock/b", "a."),
        *("a//b", "/a", "a/", "a@{b", "a\x01b", "a\x7f", "", "😀", "x" * 200, "a.b", "--upload-pack=x"),
    ],
)
def test_branch_names_are_judged_as_git_does(name: str) -> None:
    def accepts(*arguments: str) -> bool:
        return process.run(["git", "check-ref-format", *arguments], env=environment()).ok

    assert valid_ref(f"refs/heads/{name}") == accepts(f"refs/heads/{name}")
