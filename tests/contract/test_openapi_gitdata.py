"""Git database, commits, branches, contents: the real client against the stand-in, both ways checked."""

from __future__ import annotations

import base64

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.support import loopback
from tests.support.github_scene import NAME, OWNER, Scene, refusal
from tests.support.openapi import Checked

NOWHERE = "0123456789" * 4


def file(path: str, content: str | None, mode: str = "100644") -> dict[str, str | None]:
    """One entry of a new tree; without content it is taken away."""
    entry: dict[str, str | None] = {"path": path, "mode": mode, "type": "blob"}
    return {**entry, "sha": None} if content is None else {**entry, "content": content}


def commit(client: GitHub, parent: str, *entries: dict[str, str | None], message: str = "fix: it") -> str:
    tree = client.rest.git.create_tree(OWNER, NAME, base_tree=parent, tree=list(entries)).parsed_data  # type: ignore[arg-type]
    return client.rest.git.create_commit(OWNER, NAME, message=message, tree=tree.sha, parents=[parent]).parsed_data.sha


def head(client: GitHub, ref: str = "heads/main") -> str:
    return client.rest.git.get_ref(OWNER, NAME, ref).parsed_data.object_.sha


def test_bytes_go_in_and_out_as_they_are(client: GitHub) -> None:
    content = bytes(range(256)) * 3
    made = client.rest.git.create_blob(OWNER, NAME, content=base64.b64encode(content).decode(), encoding="base64")
    found = client.rest.git.get_blob(OWNER, NAME, made.parsed_data.sha).parsed_data
    assert base64.b64decode(found.content) == content
    assert found.size == len(content)
    text = client.rest.git.create_blob(OWNER, NAME, content="naïve 😊\n").parsed_data.sha
    assert base64.b64decode(client.rest.git.get_blob(OWNER, NAME, text).parsed_data.content).decode() == "naïve 😊\n"


def test_a_tree_is_its_base_with_the_changes(scene: Scene, client: GitHub) -> None:
    base = head(client)
    sha = commit(
        client,
        base,
        file("src/widget.py", None),
        file("src/deep/er/new.py", "x = 1\n", "100755"),
        file("link", "src/deep", "120000"),
    )
    scene.repo.set_branch("topic", sha)
    assert scene.repo.files("topic") == {
        ".github/workflows/agent.yml": "100644",
        ".github/workflows/ci.yml": "100644",
        "README.md": "100644",
        "link": "120000",
        "src/deep/er/new.py": "100755",
    }
    whole = client.rest.git.get_tree(OWNER, NAME, sha, recursive="1").parsed_data
    assert {entry.path for entry in whole.tree} >= {"src/deep/er", "src/deep/er/new.py", "link"}
    assert not whole.truncated
    top = client.rest.git.get_tree(OWNER, NAME, whole.sha).parsed_data
    assert {entry.path for entry in top.tree} == {".github", "README.md", "link", "src"}


@pytest.mark.parametrize("path", ["", "/x", "../x", "a/../x", "a//x", "./x", ".git/config", "a/.GIT/x", "git~1/x"])
def test_a_tree_with_a_bad_path_is_refused(client: GitHub, path: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        commit(client, head(client), file(path, "x"))
    assert refusal(failed) == (422, "tree.path contains a malformed path component")


def test_a_tree_with_something_that_is_not_there_is_refused(client: GitHub, github_checks: Checked) -> None:
    base = head(client)
    with pytest.raises(RequestFailed) as failed:
        commit(client, base, file("nothing.py", None))
    assert refusal(failed) == (422, "GitRPC::BadObjectState")
    entry = {"path": "x", "mode": "100644", "type": "blob", "sha": NOWHERE}
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.create_tree(OWNER, NAME, base_tree=base, tree=[entry])  # type: ignore[list-item]
    assert refusal(failed) == (422, f"tree.sha {NOWHERE} is not a valid blob")
    with github_checks.bad_requests(), pytest.raises(RequestFailed) as failed:
        client.request("POST", f"/repos/{OWNER}/{NAME}/git/trees", json={"tree": [{**entry, "mode": "100666"}]})
    assert refusal(failed) == (422, "Must supply a valid tree.mode")


def test_a_commit_that_the_app_does_not_sign_is_githubs_own_and_verified(scene: Scene, client: GitHub) -> None:
    found = client.rest.git.get_commit(OWNER, NAME, commit(client, head(client), file("a", "b"))).parsed_data
    assert found.verification.verified
    assert found.author.name == "graftsmith[bot]"
    tree = found.tree.sha
    person = {"name": "Somebody", "email": "somebody@example.com", "date": "2026-01-02T03:04:05+01:00"}
    own = client.rest.git.create_commit(OWNER, NAME, message="own", tree=tree, parents=[], author=person).parsed_data
    assert not own.verification.verified
    assert own.author.name == "Somebody"
    assert own.author.date.isoformat() == "2026-01-02T02:04:05+00:00"


def test_a_commit_of_what_is_not_there_is_refused(client: GitHub) -> None:
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.create_commit(OWNER, NAME, message="x", tree=NOWHERE, parents=[])
    assert refusal(failed) == (422, "Tree SHA does not exist")
    tree = client.rest.git.get_commit(OWNER, NAME, head(client)).parsed_data.tree.sha
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.create_commit(OWNER, NAME, message="x", tree=tree, parents=[NOWHERE])
    assert refusal(failed) == (422, "Parent SHA does not exist or is not a commit object")
    rest = client.rest.git
    for read in (rest.get_commit, rest.get_blob, rest.get_tree, rest.get_tag):
        with pytest.raises(RequestFailed) as failed:
            read(OWNER, NAME, NOWHERE)
        assert refusal(failed) == (404, "Not Found")


def test_a_ref_is_made_moved_found_and_deleted(client: GitHub) -> None:
    base = head(client)
    first = commit(client, base, file("a", "1"))
    second = commit(client, first, file("a", "2"))
    client.rest.git.create_ref(OWNER, NAME, ref="refs/heads/agent/issue-1", sha=first)
    client.rest.git.update_ref(OWNER, NAME, "heads/agent/issue-1", sha=second)
    assert head(client, "heads/agent/issue-1") == second
    client.rest.git.update_ref(OWNER, NAME, "heads/agent/issue-1", sha=base, force=True)
    matching = client.rest.git.list_matching_refs(OWNER, NAME, "heads/agent/").parsed_data
    assert [found.ref for found in matching] == ["refs/heads/agent/issue-1"]
    client.rest.git.delete_ref(OWNER, NAME, "heads/agent/issue-1")
    with pytest.raises(RequestFailed) as failed:
        head(client, "heads/agent/issue-1")
    assert refusal(failed) == (404, "Not Found")


def test_refs_are_refused_in_githubs_words(client: GitHub) -> None:
    base = head(client)
    aside = commit(client, base, file("a", "1"))
    client.rest.git.create_ref(OWNER, NAME, ref="refs/heads/topic", sha=commit(client, base, file("a", "2")))

    def refused(**asked: str) -> str:
        with pytest.raises(RequestFailed) as failed:
            client.rest.git.create_ref(OWNER, NAME, **asked)
        assert failed.value.response.status_code == 422
        return str(failed.value.response.json()["message"])

    assert refused(ref="refs/heads/topic", sha=base) == "Reference already exists"
    assert refused(ref="refs/heads/new", sha=NOWHERE) == "Object does not exist"
    assert refused(ref="refs/heads/a..b", sha=base) == "refs/heads/a..b is not a valid ref name."
    assert refused(ref="topic2", sha=base) == "topic2 is not a valid ref name."
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.update_ref(OWNER, NAME, "heads/topic", sha=aside)
    assert refusal(failed) == (422, "Update is not a fast forward")
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.update_ref(OWNER, NAME, "heads/gone", sha=base)
    assert refusal(failed) == (422, "Reference does not exist")
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.delete_ref(OWNER, NAME, "heads/gone")
    assert refusal(failed) == (422, "Reference does not exist")


@pytest.mark.parametrize(
    ("branch", "encoded"),
    [
        ("feature/AB#1992-x", "feature/AB%231992-x"),
        ("feat(core)-b", "feat(core)-b"),
        ("T-1@add", "T-1@add"),
        ("wt+x", "wt%2Bx"),
        ("naïve/é", "na%C3%AFve/%C3%A9"),
    ],
)
def test_a_legal_branch_name_is_found_when_its_slash_stays(scene: Scene, branch: str, encoded: str) -> None:
    scene.repo.set_branch(branch, scene.repo.branches()["main"])
    header = {"authorization": f"Bearer {scene.hub.token('alice')}"}
    url = f"{scene.hub.api_url}/repos/{OWNER}/{NAME}/git/ref/heads/"
    assert loopback.get(url + encoded, headers=header).json()["ref"] == f"refs/heads/{branch}"
    if "/" in branch:
        assert loopback.get(url + encoded.replace("/", "%2F"), headers=header).status_code == 404


def test_an_app_without_the_permission_changes_no_workflow(scene: Scene, client: GitHub) -> None:
    base = head(client)
    with pytest.raises(RequestFailed) as failed:
        commit(client, base, file(".github/workflows/ci.yml", "on: pull_request\n"))
    assert refusal(failed) == (403, "Resource not accessible by integration")
    changed = scene.repo.commit({".github/workflows/ci.yml": "on: []\n"}, branch="theirs")
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.create_ref(OWNER, NAME, ref="refs/heads/ours", sha=changed)
    status, message = refusal(failed)
    assert status == 403
    assert message == (
        "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` "
        "without `workflows` permission"
    )


def test_a_protected_branch_stays_where_it_is(scene: Scene, client: GitHub) -> None:
    scene.repo.protect("main")
    base = head(client)
    with pytest.raises(RequestFailed) as failed:
        client.rest.git.update_ref(OWNER, NAME, "heads/main", sha=commit(client, base, file("a", "1")))
    assert refusal(failed)[0] == 422
    assert client.rest.repos.get_branch(OWNER, NAME, "main").parsed_data.protected
    assert scene.repo.branches()["main"] == base


def test_an_empty_repository_says_so(scene: Scene, client: GitHub) -> None:
    scene.hub.create_repository(f"{OWNER}/empty")
    for ask in (
        lambda: client.rest.git.get_ref(OWNER, "empty", "heads/main"),
        lambda: client.rest.git.create_blob(OWNER, "empty", content="x"),
        lambda: client.rest.repos.list_commits(OWNER, "empty"),
    ):
        with pytest.raises(RequestFailed) as failed:
            ask()
        assert refusal(failed) == (409, "Git Repository is empty.")


def test_a_tag_is_made_and_read(client: GitHub) -> None:
    made = client.rest.git.create_tag(
        OWNER, NAME, tag="v1", message="First", object_=head(client), type="commit"
    ).parsed_data
    client.rest.git.create_ref(OWNER, NAME, ref="refs/tags/v1", sha=made.sha)
    assert client.rest.git.get_tag(OWNER, NAME, made.sha).parsed_data.message == "First\n"
    assert client.rest.git.get_ref(OWNER, NAME, "tags/v1").parsed_data.object_.type == "tag"


def test_commits_and_branches_are_listed_and_read(scene: Scene, client: GitHub) -> None:
    sha = scene.repo.commit({"src/widget.py": "x = 1\n", "new.txt": "n\n"}, branch="topic", by="alice")
    listed = client.rest.repos.list_commits(OWNER, NAME, sha="topic", path="new.txt").parsed_data
    assert [found.sha for found in listed] == [sha]
    whole = client.rest.repos.get_commit(OWNER, NAME, "topic").parsed_data
    assert {changed.filename: changed.status for changed in whole.files or []} == {
        "new.txt": "added",
        "src/widget.py": "modified",
    }
    assert whole.author and whole.author.login == "alice"  # type: ignore[union-attr]
    branches = client.rest.repos.list_branches(OWNER, NAME).parsed_data
    assert {found.name: found.commit.sha for found in branches} == scene.repo.branches()
    with pytest.raises(RequestFailed) as failed:
        client.rest.repos.get_branch(OWNER, NAME, "gone")
    assert refusal(failed) == (404, "Branch not found")


def test_two_branches_are_compared_from_where_they_parted(scene: Scene, client: GitHub) -> None:
    sha = scene.repo.commit({"a": "1\n"}, branch="topic")
    found = client.rest.repos.compare_commits(OWNER, NAME, "main...topic").parsed_data
    assert (found.status, found.ahead_by, found.behind_by) == ("ahead", 1, 0)
    assert [item.sha for item in found.commits] == [sha]
    scene.repo.commit({"b": "1\n"})
    found = client.rest.repos.compare_commits(OWNER, NAME, "main...topic").parsed_data
    assert (found.status, [changed.filename for changed in found.files or []]) == ("diverged", ["a"])
    diff = client.request(
        "GET", f"/repos/{OWNER}/{NAME}/compare/main...topic", headers={"accept": "application/vnd.github.diff"}
    )
    assert diff.text.startswith("diff --git a/a b/a\n")


def test_contents_are_read_as_file_folder_and_link(scene: Scene, client: GitHub) -> None:
    scene.repo.commit({"link": "README.md", "doc/fänny/ü.md": "x"}, modes={"link": "120000"})
    readme = client.rest.repos.get_content(OWNER, NAME, "README.md").json()
    assert base64.b64decode(readme["content"]) == b"# Widget\n"
    assert client.rest.repos.get_content(OWNER, NAME, "link").json()["target"] == "README.md"
    assert [item["name"] for item in client.rest.repos.get_content(OWNER, NAME, "doc/fänny").json()] == ["ü.md"]
    top = client.request("GET", f"/repos/{OWNER}/{NAME}/contents/").json()
    assert {item["name"]: item["type"] for item in top}["doc"] == "dir"
    assert client.rest.repos.get_readme(OWNER, NAME).parsed_data.name == "README.md"
    raw = client.request(
        "GET", f"/repos/{OWNER}/{NAME}/contents/README.md", headers={"accept": "application/vnd.github.raw+json"}
    )
    assert raw.content == b"# Widget\n"
    with pytest.raises(RequestFailed) as failed:
        client.rest.repos.get_content(OWNER, NAME, "nothing")
    assert refusal(failed) == (404, "Not Found")
