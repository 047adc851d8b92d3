"""Clone and push with a real git."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import process
from sandbox.types import Finished
from tests.support import loopback
from tests.support.github_scene import NAME, OWNER, Scene

ENV = {
    "PATH": process.DEFAULT_PATH,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
}


def git(folder: Path, *args: str) -> Finished:
    return process.run(["git", *args], cwd=folder, env=ENV)


def token(scene: Scene, **permissions: str) -> str:
    rest = scene.as_app().rest.apps
    asked = {"permissions": permissions} if permissions else {}
    return rest.create_installation_access_token(scene.installation, **asked).parsed_data.token  # type: ignore[arg-type]


def url(scene: Scene, secret: str) -> str:
    return scene.repo.clone_url.replace("http://", f"http://x-access-token:{secret}@")


@pytest.fixture
def clone(scene: Scene, tmp_path: Path) -> Path:
    """A clone with one commit that is not pushed."""
    assert git(tmp_path, "clone", "--quiet", url(scene, token(scene)), "clone").ok
    folder = tmp_path / "clone"
    (folder / "new.txt").write_text("hello\n")
    assert git(folder, "add", ".").ok and git(folder, "commit", "--quiet", "--message", "new").ok
    return folder


def test_an_installations_token_clones_and_pushes(scene: Scene, clone: Path) -> None:
    assert (clone / "README.md").read_text() == "# Widget\n"
    pushed = git(clone, "push", "origin", "HEAD:refs/heads/topic")
    assert pushed.ok, pushed.output
    assert scene.repo.read("new.txt", "topic") == b"hello\n"
    assert git(clone, "push", "origin", "--delete", "topic").ok
    assert "topic" not in scene.repo.branches()


def test_a_commit_is_fetched_by_its_id_without_its_history(scene: Scene, tmp_path: Path) -> None:
    sha = scene.repo.commit({"a": "1"})
    scene.repo.commit({"a": "2"})
    assert git(tmp_path, "init", "--quiet", "bare").ok
    fetched = git(tmp_path / "bare", "fetch", "--quiet", "--depth=1", url(scene, token(scene)), sha)
    assert fetched.ok, fetched.output
    assert git(tmp_path / "bare", "rev-list", "--count", sha).output.strip() == b"1"


def test_without_a_good_token_a_private_repository_is_not_there(scene: Scene, tmp_path: Path) -> None:
    for address in (scene.repo.clone_url, url(scene, "ghs_wrong"), url(scene, "")):
        assert not git(tmp_path, "clone", "--quiet", address, "none").ok
    answer = loopback.get(f"{scene.repo.clone_url}/info/refs?service=git-upload-pack")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_a_public_repository_is_cloned_by_anybody_and_pushed_to_by_nobody(
    scene: Scene, clone: Path, tmp_path: Path
) -> None:
    scene.repo.change(private=False)
    assert git(tmp_path, "clone", "--quiet", scene.repo.clone_url, "public").ok
    assert not git(clone, "push", scene.repo.clone_url, "HEAD:refs/heads/topic").ok


@pytest.mark.parametrize("permissions", [{"contents": "read"}, {"issues": "write"}])
def test_a_token_without_the_permission_does_not_push(scene: Scene, clone: Path, permissions: dict[str, str]) -> None:
    pushed = git(clone, "push", url(scene, token(scene, **permissions)), "HEAD:refs/heads/topic")
    assert not pushed.ok
    assert "topic" not in scene.repo.branches()


def test_people_push_by_their_permission(scene: Scene, clone: Path) -> None:
    scene.repo.permit("reader", "read")
    assert not git(clone, "push", url(scene, scene.hub.token("reader")), "HEAD:refs/heads/topic").ok
    assert git(clone, "push", url(scene, scene.hub.token("alice")), "HEAD:refs/heads/topic").ok


def test_a_push_that_is_no_fast_forward_is_refused(scene: Scene, clone: Path) -> None:
    theirs = scene.repo.commit({"new.txt": "theirs\n"})
    pushed = git(clone, "push", "origin", "HEAD:refs/heads/main")
    assert not pushed.ok
    assert b"rejected" in pushed.output
    assert scene.repo.branches()["main"] == theirs


def test_an_app_without_the_permission_pushes_no_workflow(scene: Scene, clone: Path) -> None:
    (clone / ".github/workflows/ci.yml").write_text("on: []\n")
    assert git(clone, "commit", "--quiet", "--all", "--message", "ci").ok
    pushed = git(clone, "push", "origin", "HEAD:refs/heads/topic")
    assert not pushed.ok
    assert b"refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml`" in pushed.output
    assert git(clone, "push", url(scene, scene.hub.token("alice")), "HEAD:refs/heads/topic").ok


def test_a_protected_branch_is_moved_by_administrators_only(scene: Scene, clone: Path) -> None:
    scene.repo.protect("main")
    pushed = git(clone, "push", url(scene, scene.hub.token("alice")), "HEAD:refs/heads/main")
    assert not pushed.ok
    assert b"Protected branch update failed" in pushed.output
    assert git(clone, "push", url(scene, scene.hub.token(OWNER)), "HEAD:refs/heads/main").ok


def test_an_archived_repository_takes_no_push(scene: Scene, clone: Path) -> None:
    scene.repo.change(archived=True)
    assert not git(clone, "push", "origin", "HEAD:refs/heads/topic").ok


def test_a_push_moves_the_pull_request_with_its_branch(scene: Scene, clone: Path) -> None:
    assert git(clone, "push", "origin", "HEAD:refs/heads/topic").ok
    number = scene.repo.open_pull("New", head="topic")
    (clone / "new.txt").write_text("more\n")
    assert git(clone, "commit", "--quiet", "--all", "--message", "more").ok
    assert git(clone, "push", "origin", "HEAD:refs/heads/topic").ok
    assert scene.repo.pull(number).head_sha == scene.repo.branches()["topic"]
    assert len(scene.repo.pull(number).commits) == 2


def test_refs_of_pull_requests_are_fetched_and_not_pushed(scene: Scene, clone: Path) -> None:
    scene.repo.commit({"a": "b"}, branch="topic")
    number = scene.repo.open_pull("New", head="topic")
    assert git(clone, "fetch", "--quiet", "origin", f"refs/pull/{number}/head").ok
    assert not git(clone, "push", "origin", f"+HEAD:refs/pull/{number}/head").ok


def test_a_path_that_leaves_the_repositories_is_not_there(scene: Scene) -> None:
    header = {"authorization": f"Bearer {scene.hub.token('alice')}"}
    base = scene.hub.url
    for path in (f"/{OWNER}/../../etc/info/refs", f"/{OWNER}/%2e%2e/info/refs", f"/{OWNER}/{NAME}/../x.git/info/refs"):
        answer = loopback.get(f"{base}{path}?service=git-upload-pack", headers=header)
        assert answer.status_code == 404
