"""From a change set to one branch, one commit and one pull request, whatever happens on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.errors import RetryLater
from agent.types import ChangeSet, FileChange
from app import publish
from app.devhub.devhub import PERMISSIONS, DevHub
from app.github import Access
from app.publish import (
    Accepted,
    ChangeSetRefused,
    Kept,
    Moved,
    Proposal,
    Published,
    PullText,
    Rules,
    SecretInPatch,
    Unchanged,
)
from app.report import Review
from tests.unit.github.scene import FILES, Scene, scene

FIXED = b"def double(x):\n    return x + x\n"
MARK = "<!-- graftsmith:pull issue=1 -->"
TEXT = PullText("Doubling is off by one", f"{MARK}\n\nFixes #1\n", "main", draft=False)
BRANCH = "agent/issue-1-doubling"


@pytest.fixture
def hub(devhub: DevHub, app_key: str) -> Scene:
    return scene(devhub, app_key)


def changes(hub: Scene, *more: FileChange, base: str | None = None) -> ChangeSet:
    fix = FileChange(path="src/widget.py", content=FIXED)
    test = FileChange(path="tests/test_double.py", content=b"def test_double():\n    assert True\n")
    return ChangeSet(base_sha=base or hub.repo.branches()["main"], changes=(fix, test, *more))


def reviewed(
    hub: Scene, change_set: ChangeSet, rules: Rules | None = None, sentinels: tuple[str, ...] = ()
) -> tuple[Accepted, Review]:
    return hub.run(lambda r: publish.review(r, change_set, rules or Rules(), sentinels))


def proposal(accepted: Accepted, job: str = "job-1") -> Proposal:
    return Proposal(accepted, job, BRANCH, f"Fix doubling\n\nGraftsmith-Job: {job}\n")


def proposed(hub: Scene, wanted: Proposal, text: PullText = TEXT) -> Published:
    done = hub.run(lambda r: publish.propose(r, wanted, text))
    assert isinstance(done, Published)
    return done


def test_a_change_set_becomes_one_signed_commit_and_a_pull_request(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub, FileChange(path="run.sh", mode="100755", content=b"#!/bin/sh\n")))
    done = proposed(hub, proposal(accepted))
    (pull,) = hub.repo.pulls()
    assert (pull.number, pull.title, pull.body, pull.draft) == (done.pull_number, TEXT.title, TEXT.body, False)
    assert (pull.head_ref, pull.commits) == (BRANCH, (done.commit_sha,))
    assert hub.repo.read("src/widget.py", BRANCH) == FIXED
    assert hub.repo.files(BRANCH)["run.sh"] == "100755" and hub.repo.files(BRANCH)["README.md"] == "100644"
    assert hub.repo.log(BRANCH)[1:] == hub.repo.log("main")


def test_again_is_the_same(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    first, second = (proposed(hub, proposal(accepted)) for _ in range(2))
    assert (first.branch, first.commit_sha, first.pull_number) == (second.branch, second.commit_sha, second.pull_number)
    assert set(hub.repo.branches()) == {"main", BRANCH} and len(hub.repo.pulls()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_request_it_still_makes_one_of_each(hub: Scene, when: str) -> None:
    """The line goes dead after ``survived`` requests, for good; then the job is run again from the start."""
    accepted, _ = reviewed(hub, changes(hub))
    survived = 0
    while True:
        branch = f"agent/issue-1-at-{survived}"
        wanted = replace(proposal(accepted, f"job-{survived}"), branch=branch)
        hub.devhub.faults.add("*", count=survived + 1)
        hub.devhub.faults.add("*", count=1_000, drop=True, when=when)
        try:
            hub.run(lambda r, wanted=wanted: publish.propose(r, wanted, TEXT))
            died = False
        except RetryLater:
            died = True
        hub.devhub.faults.clear()
        done = proposed(hub, wanted)
        ours = [pull for pull in hub.repo.pulls() if pull.head_ref.startswith(branch)]
        assert [pull.commits for pull in ours] == [(done.commit_sha,)]
        assert [name for name in hub.repo.branches() if name.startswith(branch)] == [branch]
        if not died:
            break
        hub.repo.close_issue(ours[0].number)
        survived += 1
    assert survived > 6


def test_nothing_changed_means_nothing_written(hub: Scene) -> None:
    same = ChangeSet(
        base_sha=hub.repo.branches()["main"],
        changes=(FileChange(path="README.md", content=str(FILES["README.md"]).encode()),),
    )
    for change_set in (same, ChangeSet(base_sha=same.base_sha)):
        accepted, _ = reviewed(hub, change_set)
        assert isinstance(hub.run(lambda r, a=accepted: publish.propose(r, proposal(a), TEXT)), Unchanged)
    assert set(hub.repo.branches()) == {"main"} and not hub.repo.pulls()


def test_nothing_left_says_what_was_left_out(hub: Scene) -> None:
    orders = FileChange(path="AGENTS.md", content=b"obey\n")
    accepted, _ = reviewed(hub, ChangeSet(base_sha=hub.repo.branches()["main"], changes=(orders,)))
    done = hub.run(lambda r: publish.propose(r, proposal(accepted), TEXT))
    assert isinstance(done, Unchanged) and "AGENTS.md: it gives orders" in done.reason


def test_an_unproven_change_is_a_draft(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    assert proposed(hub, proposal(accepted), replace(TEXT, draft=True)).draft
    assert hub.repo.pulls()[0].draft


def test_where_there_are_no_drafts_it_is_opened_all_the_same(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    hub.devhub.faults.add(
        "POST /repos/*/pulls", status=422, message="Draft pull requests are not supported in this repository."
    )
    assert not proposed(hub, proposal(accepted), replace(TEXT, draft=True)).draft


def test_a_second_job_adds_a_commit_to_the_open_pull_request(hub: Scene) -> None:
    first_accepted, _ = reviewed(hub, changes(hub))
    first = proposed(hub, proposal(first_accepted))
    hub.repo.commit({"other.txt": "moved on\n"})
    again, _ = reviewed(hub, changes(hub, FileChange(path="more.py", content=b"x = 1\n")))
    wanted = replace(proposal(again, "job-2"), own_commits=frozenset({first.commit_sha}))
    second = proposed(hub, wanted, replace(TEXT, body=f"{MARK}\n\nsecond\n"))
    assert (second.branch, second.pull_number) == (BRANCH, first.pull_number)
    (pull,) = hub.repo.pulls()
    assert pull.body == f"{MARK}\n\nsecond\n"
    assert {f.path for f in pull.files} == {"src/widget.py", "tests/test_double.py", "more.py"}
    assert first.commit_sha in hub.repo.log(BRANCH)
    assert proposed(hub, wanted).commit_sha == second.commit_sha


def test_what_was_ready_is_a_draft_again_with_a_commit_that_is_not(hub: Scene) -> None:
    first_accepted, _ = reviewed(hub, changes(hub))
    first = proposed(hub, proposal(first_accepted))
    assert not first.draft and not hub.repo.pulls()[0].draft
    again, _ = reviewed(hub, changes(hub, FileChange(path="more.py", content=b"x = 1\n")))
    wanted = replace(proposal(again, "job-2"), own_commits=frozenset({first.commit_sha}))
    assert proposed(hub, wanted, replace(TEXT, draft=True)).draft
    assert hub.repo.pulls()[0].draft


def test_a_second_job_that_says_the_same_adds_nothing(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    first = proposed(hub, proposal(accepted))
    wanted = replace(proposal(accepted, "job-2"), own_commits=frozenset({first.commit_sha}))
    second = proposed(hub, wanted, replace(TEXT, body=f"{MARK}\n\nsecond\n"))
    assert (second.commit_sha, second.pull_number) == (first.commit_sha, first.pull_number)
    (pull,) = hub.repo.pulls()
    assert (pull.commits, pull.body) == ((first.commit_sha,), f"{MARK}\n\nsecond\n")


def test_what_is_called_off_is_never_seen(hub: Scene) -> None:
    async def stopped() -> None:
        raise RuntimeError("stopped")

    accepted, _ = reviewed(hub, changes(hub))
    with pytest.raises(RuntimeError, match="stopped"):
        hub.run(lambda r: publish.propose(r, replace(proposal(accepted), ready=stopped), TEXT))
    assert set(hub.repo.branches()) == {"main"}
    first = proposed(hub, proposal(accepted))
    hub.repo.commit({"other.txt": "moved on\n"})
    again, _ = reviewed(hub, changes(hub, FileChange(path="more.py", content=b"x = 1\n")))
    wanted = replace(proposal(again, "job-2"), own_commits=frozenset({first.commit_sha}), ready=stopped)
    with pytest.raises(RuntimeError, match="stopped"):
        hub.run(lambda r: publish.propose(r, wanted, TEXT))
    assert hub.repo.branches()[BRANCH] == first.commit_sha


def test_a_branch_that_has_the_name_of_our_folder_is_gone_around(hub: Scene) -> None:
    hub.repo.set_branch("agent", hub.repo.branches()["main"])
    accepted, _ = reviewed(hub, changes(hub))
    assert {proposed(hub, proposal(accepted)).branch for _ in range(2)} == {BRANCH.replace("/", "-")}


def test_a_branch_with_a_persons_commit_is_left_alone(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    first = proposed(hub, proposal(accepted))
    theirs = hub.repo.commit({"by-hand.txt": "x"}, branch=BRANCH)
    # This job's own commit is still there, below theirs: nothing is made twice.
    assert proposed(hub, proposal(accepted)).commit_sha == first.commit_sha
    second = proposed(hub, replace(proposal(accepted, "job-2"), own_commits=frozenset({first.commit_sha})))
    assert second.branch == f"{BRANCH}-2" and hub.repo.branches()[BRANCH] == theirs


def test_a_closed_pull_request_is_not_opened_again(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    first = proposed(hub, proposal(accepted))
    assert first.pull_number is not None
    hub.repo.close_issue(first.pull_number)
    assert proposed(hub, proposal(accepted)).pull_number == first.pull_number
    second = proposed(hub, replace(proposal(accepted, "job-2"), own_commits=frozenset({first.commit_sha})))
    assert (second.branch, len(hub.repo.pulls())) == (f"{BRANCH}-2", 2)
    assert [pull.state for pull in hub.repo.pulls()] == ["closed", "open"]


def test_a_description_that_a_person_wrote_stays(hub: Scene) -> None:
    accepted, _ = reviewed(hub, changes(hub))
    hub.repo.commit({"src/widget.py": FIXED}, branch=BRANCH)
    hub.repo.open_pull("mine", head=BRANCH, body="by hand")
    assert proposed(hub, proposal(accepted)).branch == f"{BRANCH}-2"
    assert hub.repo.pulls()[0].body == "by hand"


# ── pull requests of people ──────────────────────────────────────────────────────────────────────────────────────


def on_topic(hub: Scene, name: str = "topic") -> tuple[str, Proposal]:
    head = hub.repo.commit({"feature.py": "x = 1\n"}, branch=name)
    hub.repo.open_pull("topic", head=name)
    accepted, _ = reviewed(hub, changes(hub, base=head))
    return head, replace(proposal(accepted), branch="agent/pr-1")


def test_a_pull_request_gets_our_commit_on_top(hub: Scene) -> None:
    name = "feature/AB#1992-x"
    head, wanted = on_topic(hub, name)
    for _ in range(2):
        done = hub.run(lambda r: publish.update(r, wanted, name))
        assert isinstance(done, Published) and hub.repo.log(name)[:2] == [done.commit_sha, head]
    assert set(hub.repo.branches()) == {"main", name}


def test_a_branch_that_moved_elsewhere_is_built_upon_after_new_tests(hub: Scene) -> None:
    _, wanted = on_topic(hub)
    theirs = hub.repo.commit({"elsewhere.py": "y = 2\n"}, branch="topic")
    moved = hub.run(lambda r: publish.update(r, wanted, "topic"))
    assert isinstance(moved, Moved) and moved.head_sha == moved.change_set.base_sha == theirs
    assert hub.repo.branches()["topic"] == theirs
    accepted, _ = reviewed(hub, moved.change_set)
    done = hub.run(lambda r: publish.update(r, replace(wanted, accepted=accepted), "topic"))
    assert isinstance(done, Published) and hub.repo.log("topic")[:2] == [done.commit_sha, theirs]
    assert hub.repo.read("elsewhere.py", "topic") == b"y = 2\n"


@pytest.mark.parametrize("how", ["same file", "rewritten", "deleted", "protected"])
def test_a_branch_that_moved_against_us_stands_and_the_work_is_kept(hub: Scene, how: str) -> None:
    _, wanted = on_topic(hub)
    if how == "same file":
        hub.repo.commit({"src/widget.py": "theirs\n"}, branch="topic")
    elif how == "rewritten":
        hub.repo.set_branch("topic", hub.repo.branches()["main"])
        hub.repo.commit({"feature.py": "x = 2\n"}, branch="topic")
    elif how == "deleted":
        hub.repo.delete_branch("topic")
    else:
        hub.repo.protect("topic")
    stands = hub.repo.branches().get("topic")
    for _ in range(2):
        kept = hub.run(lambda r: publish.update(r, wanted, "topic"))
        assert isinstance(kept, Kept) and kept.branch == "agent/pr-1" and kept.reason
        assert hub.repo.branches().get("topic") == stands
        assert hub.repo.branches()["agent/pr-1"] == kept.commit_sha
    assert hub.repo.read("src/widget.py", "agent/pr-1") == FIXED


def test_the_work_for_a_fork_is_a_patch_and_nothing_is_written(hub: Scene) -> None:
    hub.repo.change(private=False)
    fork = hub.repo.fork("alice")
    head = fork.commit({"src/widget.py": "def double(x):\n    return 3\n"}, branch="patch-1", by="alice")
    number = hub.repo.open_pull("from a fork", head="alice:patch-1", by="alice")
    accepted, _ = reviewed(hub, changes(hub, base=hub.run(lambda r: r.pull(number)).head.sha))
    before = (hub.repo.branches(), fork.branches())
    patch = hub.run(lambda r: publish.as_patch(r, accepted))
    assert accepted.base_sha == head
    assert "-    return 3\n+    return x + x\n" in patch and "new file mode 100644" in patch
    assert (hub.repo.branches(), fork.branches()) == before


# ── what is not published ────────────────────────────────────────────────────────────────────────────────────────


def test_a_workflow_is_left_out_with_its_patch_and_the_rest_goes(devhub: DevHub, app_key: str) -> None:
    hub = scene(devhub, app_key, {**FILES, ".github/workflows/ci.yml": "on: push\n"})
    flow = FileChange(path=".github/workflows/ci.yml", content=b"on: [push]\n")
    accepted, review = reviewed(hub, changes(hub, flow))
    (left,) = review.left_out
    assert "permission" in left.reason and "-on: push\n+on: [push]\n" in left.patch
    proposed(hub, proposal(accepted))
    assert hub.repo.read(".github/workflows/ci.yml", BRANCH) == b"on: push\n"
    assert hub.repo.read("src/widget.py", BRANCH) == FIXED


def test_a_workflow_goes_where_the_permission_was_granted(devhub: DevHub, app_key: str) -> None:
    hub = scene(devhub, app_key, {**FILES, "x": "y"}, {**PERMISSIONS, "workflows": "write"})
    flow = FileChange(path=".github/workflows/ci.yml", content=b"on: [push]\n")
    granted = (
        hub.run_app(lambda app: app.installation(hub.installation, hub.repo.id)).permissions.get("workflows") == "write"
    )
    accepted, review = reviewed(hub, changes(hub, flow), Rules(may_write_workflows=granted))
    assert not review.left_out and review.remarks
    done = hub.run(lambda r: publish.propose(r, proposal(accepted), TEXT), Access.WRITE_WORKFLOWS)
    assert isinstance(done, Published) and hub.repo.read(".github/workflows/ci.yml", BRANCH) == b"on: [push]\n"


def test_new_secrets_stop_everything_and_old_ones_do_not(devhub: DevHub, app_key: str) -> None:
    token = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    hub = scene(devhub, app_key, {**FILES, "fixture.txt": f"token = {token}\n"})
    old = FileChange(path="fixture.txt", content=f"token = {token}\nmore\n".encode())
    reviewed(hub, changes(hub, old))
    for change, sentinels in (
        (FileChange(path="new.txt", content=f"\n{token}".encode()), ()),
        (FileChange(path="new.txt", content=b"x our-own-secret y"), ("our-own-secret",)),
        (FileChange(path="our-own-secret/x", content=b"x"), ("our-own-secret",)),
    ):
        with pytest.raises(SecretInPatch) as error:
            reviewed(hub, changes(hub, change), sentinels=sentinels)
        assert token not in str(error.value) and change.path in str(error.value)
    assert set(hub.repo.branches()) == {"main"}


def test_what_is_left_out_is_shown_without_secrets(hub: Scene) -> None:
    content = b"env:\n  A: ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5\n  B: our-own-secret\n"
    held = FileChange(path=".github/workflows/ci.yml", content=content)
    _, review = reviewed(hub, changes(hub, held), sentinels=("our-own-secret",))
    (left,) = review.left_out
    assert "A: [redacted]" in left.patch and "B: [redacted]" in left.patch


def test_a_link_on_the_way_or_a_submodule_is_seen_in_the_base(devhub: DevHub, app_key: str) -> None:
    hub = scene(devhub, app_key)
    base = hub.repo.commit({"lib": "../outside"}, modes={"lib": "120000"})
    with pytest.raises(ChangeSetRefused, match="behind the link"):
        reviewed(hub, changes(hub, FileChange(path="lib/new.py", content=b""), base=base))
    with pytest.raises(ChangeSetRefused, match="differ only in case"):
        reviewed(hub, changes(hub, FileChange(path="Src/new.py", content=b"")))


def test_a_listing_that_was_cut_is_read_around_the_changes(hub: Scene) -> None:
    base = hub.repo.commit(
        {"deep/er/a.py": "a", "deep/er/link": "../../x", "other/b.py": "b"}, modes={"deep/er/link": "120000"}
    )
    for path, words in (
        ("deep/er/link/x.py", "behind the link"),
        ("Other/c.py", "differ only in case"),
        ("deep/er/A.py", "differ only in case"),
        ("deep/er/new.py", ""),
    ):
        cut = '{"sha": "' + "a" * 40 + '", "tree": [], "truncated": true}'
        hub.devhub.faults.add("GET /repos/*/git/trees/*", status=200, body=cut)
        wanted = ChangeSet(base_sha=base, changes=(FileChange(path=path, content=b"x\n"),))
        if words:
            with pytest.raises(ChangeSetRefused, match=words):
                reviewed(hub, wanted)
        else:
            assert reviewed(hub, wanted)[0].added == {path}
