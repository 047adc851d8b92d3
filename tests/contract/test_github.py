"""The client against the stand-in for GitHub, with what networks and limits do to it."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest

from agent.errors import OperatorError, RetryLater, UserError
from app.devhub.devhub import DevHub, new_key
from app.github import (
    Access,
    AnswerLost,
    CredentialsRefused,
    GitHubApp,
    NotFound,
    PermissionMissing,
    Rejected,
    Repository,
)
from app.greeting import greet
from app.report.check import Annotation, CheckRun
from app.webhooks.policy import EVENTS
from tests.unit.github.scene import Scene, scene

COMMENTS = "POST /repos/*/issues/*/comments"
MARK = "<!-- graftsmith:status job=1 -->"


@pytest.fixture
def hub(devhub: DevHub, app_key: str) -> Scene:
    return scene(devhub, app_key)


def test_reads_what_is_there(hub: Scene) -> None:
    number = hub.repo.open_issue("Doubling is off by one", None, by="reporter", labels=("agent",))
    hub.repo.comment(number, "me too", by="another")
    hub.repo.permit("writer", "maintain")
    hub.repo.permit("looker", "triage")

    async def work(repository: Repository) -> None:
        facts = await repository.facts()
        assert (facts.full_name, facts.default_branch, facts.archived) == ("acme/widget", "main", False)
        issue = await repository.issue(number)
        assert (issue.title, issue.body, issue.is_pull, issue.user.login) == (
            "Doubling is off by one",
            "",
            False,
            "reporter",
        )
        assert [comment.body for comment in await repository.comments(number)] == ["me too"]
        may = [(await repository.permission(login)).may_write for login in ("writer", "looker", "acme", "nobody-here")]
        assert may == [True, False, True, False]

    hub.run(work)


def test_a_renamed_repository_is_found_by_its_number(hub: Scene) -> None:
    hub.repo.rename("gadget")
    assert hub.run(lambda repository: repository.facts()).full_name == "acme/gadget"


@pytest.mark.parametrize("what", ["repository", "owner", "taken", "taken and hidden"])
def test_a_repository_that_is_renamed_meanwhile_is_still_the_one(hub: Scene, what: str) -> None:
    """GitHub redirects the old name, as long as nobody has taken it, and filters by owner no more."""
    number = hub.repo.open_issue("x")
    head = hub.repo.commit({"new.txt": "x"}, branch="topic")
    pull = hub.repo.open_pull("y", head="topic")

    async def work(repository: Repository) -> None:
        await repository.facts()
        if what == "owner":
            hub.devhub.rename_user("acme", "acme-corp")
        else:
            hub.repo.rename("gadget")
        if what.startswith("taken"):
            hub.devhub.create_repository("acme/widget", {"a": "b"}, private="hidden" in what)
            assert (await repository.facts()).full_name == "acme/gadget"
        assert [found.number for found in await repository.pulls_from("topic")] == [pull]
        assert (await repository.issue(number)).title == "x"
        assert await repository.upsert_comment(number, MARK, MARK)
        assert await repository.git.branch("topic") == head

    hub.run(work)
    assert [comment.body for comment in hub.repo.comments(number)] == [MARK]


def test_a_write_to_the_old_name_is_sent_to_the_new_one(hub: Scene) -> None:
    number = hub.repo.open_issue("x")

    async def work(repository: Repository) -> None:
        comment = await repository.upsert_comment(number, MARK, MARK)
        hub.repo.rename("gadget")
        assert await repository.upsert_comment(number, MARK, f"{MARK} more", known_id=comment) == comment

    hub.run(work)
    assert [comment.body for comment in hub.repo.comments(number)] == [f"{MARK} more"]


def test_a_token_follows_no_other_redirect(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    elsewhere = hub.devhub.create_repository("acme/other", {"a": "b"}, private=False)
    hub.repo.transfer_issue(number, elsewhere)
    with pytest.raises(NotFound, match="it was transferred"):
        hub.run(lambda repository: repository.issue(number))
    hub.repo.delete_issue(hub.repo.open_issue("y"))
    with pytest.raises(NotFound, match="deleted"):
        hub.run(lambda repository: repository.issue(number + 1))


def test_a_transferred_repository_is_worked_on_where_the_app_is_installed_too(hub: Scene) -> None:
    hub.repo.transfer("globex")
    with pytest.raises(UserError, match="not part of the installation"):
        hub.run(lambda repository: repository.facts())
    there = hub.devhub.install(hub.keys.id, "globex")

    async def work(app: GitHubApp) -> None:
        found = await app.repository(hub.installation, hub.repo.id).facts()
        assert found.full_name == app.name_of(hub.repo.id) == "globex/widget"
        assert (await app.installation(hub.installation, hub.repo.id)).id == there

    hub.run_app(work)


@pytest.mark.parametrize("known", [False, True], ids=["at the start", "in the middle of a job"])
def test_an_app_that_is_suspended_or_uninstalled_says_so_and_is_at_home_where_it_is_installed_anew(
    hub: Scene, known: bool
) -> None:
    async def work(app: GitHubApp) -> None:
        repository = app.repository(hub.installation, hub.repo.id)
        if known:
            await repository.facts()
        hub.devhub.suspend(hub.installation)
        with pytest.raises(OperatorError, match="suspended"):
            await repository.facts()
        hub.devhub.uninstall(hub.installation)
        with pytest.raises(UserError, match="not installed there any more"):
            await repository.facts()
        hub.devhub.install(hub.keys.id, "acme")
        assert (await repository.facts()).full_name == "acme/widget"

    hub.run_app(work)


def test_a_repository_outside_the_installation_is_refused(hub: Scene) -> None:
    other = hub.devhub.create_repository("stranger/widget", {"a": "b"})
    with pytest.raises(UserError, match="not part of the installation"):
        hub.run_app(lambda app: app.repository(hub.installation, other.id).facts())


TOKENS = "POST /app/installations/*/access_tokens"


def answer_with(hub: Scene, seconds: float, repository: int, name: str = "acme/widget") -> None:
    """The next request for a token is answered with one that ends so soon and is for that repository."""
    ends = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {"token": "ghs_other", "expires_at": ends, "repositories": [{"id": repository, "full_name": name}]}
    hub.devhub.faults.add(TOKENS, status=201, body=json.dumps(token))


def test_a_token_is_never_used_for_another_repository(hub: Scene) -> None:
    answer_with(hub, 3600, hub.repo.id + 1, "stranger/widget")
    with pytest.raises(UserError, match="no longer part of the installation"):
        hub.run(lambda repository: repository.facts())


def test_a_token_is_replaced_before_it_ends_and_when_it_is_refused(hub: Scene) -> None:
    async def work(app: GitHubApp) -> None:
        repository = app.repository(hub.installation, hub.repo.id, Access.READ)
        await repository.facts()
        (first,) = app.secrets()
        hub.devhub.faults.add("GET /repos/acme/widget", status=401, message="Bad credentials")
        await repository.facts()
        (second,) = app.secrets()
        assert first != second, "refused: a new one"
        answer_with(hub, 240, hub.repo.id)
        assert (await app.git_access(hub.installation, hub.repo.id)).token == "ghs_other"
        third = (await app.git_access(hub.installation, hub.repo.id)).token
        assert third != "ghs_other", "it would end in less than five minutes"
        assert (await app.git_access(hub.installation, hub.repo.id)).token == third

    hub.run_app(work)


def test_a_token_can_do_no_more_than_its_use_needs(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    with pytest.raises(PermissionMissing):
        hub.run(lambda repository: repository.upsert_comment(number, MARK, MARK), Access.READ)
    access = hub.run_app(lambda app: app.git_access(hub.installation, hub.repo.id))
    assert access.url == hub.repo.clone_url and access.token not in repr(access)


def test_one_status_comment_edited_in_place(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    hub.repo.comment(number, f"{MARK}\nforged", by="stranger")
    first = hub.run(lambda r: r.upsert_comment(number, MARK, f"{MARK}\none"))
    by_marker = hub.run(lambda r: r.upsert_comment(number, MARK, f"{MARK}\ntwo"))
    by_id = hub.run(lambda r: r.upsert_comment(number, MARK, f"{MARK}\nthree", known_id=first))
    assert first == by_marker == by_id
    assert [c.body for c in hub.repo.comments(number)] == [f"{MARK}\nforged", f"{MARK}\nthree"]


def test_a_deleted_status_comment_is_written_anew(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    first = hub.run(lambda r: r.upsert_comment(number, MARK, MARK))
    hub.repo.delete_comment(first)
    second = hub.run(lambda r: r.upsert_comment(number, MARK, MARK, known_id=first))
    assert second != first and len(hub.repo.comments(number)) == 1


def test_the_marker_is_found_behind_many_comments(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    for n in range(105):
        hub.repo.comment(number, f"comment {n}", by="talker")
    first = hub.run(lambda r: r.upsert_comment(number, MARK, MARK))
    assert hub.run(lambda r: r.upsert_comment(number, MARK, MARK)) == first


def test_a_lost_answer_makes_no_second_comment(hub: Scene) -> None:
    for fault in ({"drop": True}, {"status": 502}):
        for when in ("before", "after"):
            number = hub.repo.open_issue("x")
            hub.devhub.faults.add(COMMENTS, when=when, **fault)
            hub.run(lambda r, number=number: r.upsert_comment(number, MARK, MARK))
            assert len(hub.repo.comments(number)) == 1


def test_a_server_that_stays_broken_is_told_apart(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    hub.devhub.faults.add(COMMENTS, status=502, count=10)
    with pytest.raises(AnswerLost):
        hub.run(lambda r: r.upsert_comment(number, MARK, MARK))
    hub.devhub.faults.clear()
    hub.devhub.faults.add("GET /repos/acme/widget", status=503, count=10)
    with pytest.raises(RetryLater):
        hub.run(lambda r: r.facts())


def test_a_short_limit_is_waited_out_and_a_long_one_is_for_the_job(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    hub.devhub.faults.secondary_rate_limit(COMMENTS, retry_after_s=2)
    began = time.monotonic()
    hub.run(lambda r: r.upsert_comment(number, MARK, MARK))
    assert time.monotonic() - began >= 2  # what the other side asked for
    assert len(hub.repo.comments(number)) == 1

    hub.devhub.faults.secondary_rate_limit("GET /repos/acme/widget", retry_after_s=90)
    with pytest.raises(RetryLater) as limited:
        hub.run(lambda r: r.facts())
    assert limited.value.after_s == 90


def test_limits_are_known_by_words_dates_and_counters(hub: Scene) -> None:
    for headers in (
        {},
        {"retry-after": "Wed, 01 Jan 2031 00:00:00 GMT"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999"},
    ):
        hub.devhub.faults.add(
            "GET /repos/acme/widget", status=403, message="You have exceeded a secondary rate limit.", headers=headers
        )
        with pytest.raises(RetryLater) as limited:
            hub.run(lambda r: r.facts())
        assert limited.value.after_s is not None and 5 < limited.value.after_s <= 3600


def test_a_missing_permission_is_named_and_not_retried(devhub: DevHub, app_key: str) -> None:
    hub = scene(devhub, app_key)
    number = hub.repo.open_issue("x")
    hub.devhub.faults.add(COMMENTS, status=403, message="Resource not accessible by integration")
    with pytest.raises(PermissionMissing, match="issues: write"):
        hub.run(lambda r: r.upsert_comment(number, MARK, MARK))
    assert hub.repo.comments(number) == []


def test_permissions_that_were_never_granted_are_named(devhub: DevHub, app_key: str) -> None:
    hub = scene(devhub, app_key, permissions={"metadata": "read", "contents": "read"})
    with pytest.raises(OperatorError, match="issues: write"):
        hub.run(lambda r: r.facts())


def test_a_clock_that_is_a_little_off_does_not_matter(hub: Scene) -> None:
    for seconds in (45, -45):
        hub.devhub.move_clock(seconds)
        assert hub.run_app(lambda app: app.me()).id == hub.keys.id


def test_a_clock_that_is_far_off_is_named(hub: Scene) -> None:
    for seconds in (-1200, 1200):
        hub.devhub.move_clock(seconds)
        with pytest.raises(CredentialsRefused, match="clock"):
            hub.run_app(lambda app: app.me())


def test_a_wrong_key_is_named(hub: Scene) -> None:
    from app.devhub.devhub import new_key

    app = GitHubApp(hub.keys.id, new_key(), hub.devhub.api_url)
    with pytest.raises(CredentialsRefused, match="PRIVATE_KEY"):
        asyncio.run(app.me())


def test_tokens_never_show(hub: Scene) -> None:
    async def work(app: GitHubApp) -> None:
        repository = app.repository(hub.installation, hub.repo.id)
        await repository.facts()
        (secret,) = app.secrets()
        hub.devhub.faults.add("GET /repos/acme/widget", drop=True, count=5)
        with pytest.raises(RetryLater) as lost:
            await repository.facts()
        assert secret not in repr(lost.value) and secret not in str(lost.value)

    hub.run_app(work)


def test_secrets_are_taken_out_of_every_text_that_leaves(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    hub.repo.commit({"a.txt": "a"}, branch="topic")

    async def work() -> None:
        app = GitHubApp(
            hub.keys.id,
            hub.keys.private_key,
            hub.devhub.api_url,
            redact=lambda text: text.replace("our-own-value", "[redacted]"),
        )
        repository = app.repository(hub.installation, hub.repo.id)
        head = await repository.git.branch("topic")
        assert head is not None
        (token,) = app.secrets()
        leaky = f"{token} our-own-value"
        await repository.upsert_comment(number, MARK, f"{MARK}\n{leaky}")
        await repository.open_pull(branch="topic", base="main", title=leaky, body=leaky, draft=False)
        check_ = CheckRun("Graftsmith", "1", leaky, leaky, "failure", (Annotation("a.txt", 1, leaky, leaky),))
        await repository.checks.put(head, check_)
        commit = await repository.git.create_commit(leaky, (await repository.git.commit(head)).tree, [head])
        assert commit.message == "[redacted] [redacted]"
        await app.aclose()

    asyncio.run(work())
    (pull,), (run,) = hub.repo.pulls(), hub.repo.checks()
    texts = [c.body for c in hub.repo.comments(number)] + [pull.title, pull.body or "", repr(run)]
    assert all("[redacted] [redacted]" in text and "our-own-value" not in text for text in texts)


def test_legal_branch_names_work(hub: Scene) -> None:
    async def work(repository: Repository) -> None:
        for name in names:
            head = await repository.git.branch(name)
            assert head == heads[name]
            commit = await repository.git.create_commit("more", (await repository.git.commit(head)).tree, [head])
            assert await repository.git.advance_branch(name, commit.sha)
            assert await repository.git.branch(name) == commit.sha
            assert await repository.pulls_from(name) == ()

    names = ("feature/AB#1992-x", "feat(core)-b", "T-1@add", "wt+x", "naïve/é", "topic/installation", "a%2Fb")
    heads = {name: hub.repo.commit({"a.txt": name}, branch=name) for name in names}
    hub.run(work)


def test_a_branch_moves_forward_only(hub: Scene) -> None:
    base = hub.repo.branches()["main"]
    theirs = hub.repo.commit({"b.txt": "b"}, branch="topic")

    async def work(repository: Repository) -> None:
        commit = await repository.git.create_commit("ours", (await repository.git.commit(base)).tree, [base])
        assert not await repository.git.advance_branch("topic", commit.sha)
        assert not await repository.git.advance_branch("gone", commit.sha)
        assert await repository.git.branch("topic") == theirs
        assert await repository.git.branch("gone") is None

    hub.run(work)


def test_files_go_and_come_byte_for_byte(hub: Scene) -> None:
    contents = [b"", b"\xff\xfe\x00", "\ufeffé\r\n".encode(), b"\n" * 3, bytes(range(256)) * 40]

    async def work(repository: Repository) -> None:
        for content in contents:
            assert await repository.git.blob(await repository.git.create_blob(content)) == content

    hub.run(work)


def test_a_lost_answer_makes_no_second_pull_request(hub: Scene) -> None:
    for when in ("before", "after"):
        hub.repo.commit({"a.txt": when}, branch=when)
        hub.devhub.faults.add("POST /repos/*/pulls", when=when, drop=True)
        fields = {"branch": when, "base": "main", "title": "t", "body": "b", "draft": True}
        pull = hub.run(lambda r, fields=fields: r.open_pull(**fields))
        again = hub.run(lambda r, fields=fields: r.open_pull(**fields))
        assert pull.number == again.number and pull.draft
    assert len(hub.repo.pulls()) == 2


def check(count: int) -> CheckRun:
    notes = tuple(Annotation("tests/test_widget.py", n + 1, f"test {n}", "failed") for n in range(count))
    return CheckRun("Graftsmith", "job-1", "Tests", "Summary", "failure", notes)


def test_annotations_go_fifty_at_a_time_and_none_is_lost(hub: Scene) -> None:
    for count in (0, 50, 51, 143):
        head = hub.repo.commit({"a.txt": str(count)})
        begun = hub.run(lambda r, head=head: r.checks.put(head, check(0)))
        for known in (begun, None):
            assert hub.run(lambda r, h=head, c=count, k=known: r.checks.put(h, check(c), known_id=k)) == begun
        (run,) = hub.repo.checks(head)
        assert (run.status, run.conclusion) == ("completed", "failure")
        assert len(run.annotations) == count


def test_a_lost_answer_doubles_no_annotation(hub: Scene) -> None:
    head = hub.repo.branches()["main"]
    hub.devhub.faults.add("PATCH /repos/*/check-runs/*", drop=True, when="after")
    with pytest.raises(AnswerLost):
        hub.run(lambda r: r.checks.put(head, check(60)))
    hub.run(lambda r: r.checks.put(head, check(60)))
    (run,) = hub.repo.checks(head)
    assert len(run.annotations) == 60 and run.conclusion == "failure"


def test_a_reaction_twice_is_one(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    comment = hub.repo.comment(number, "/agent fix", by="writer")
    for _ in range(2):
        hub.run(lambda r: r.react("eyes", comment))
    assert hub.repo.comments(number)[0].reactions == ("eyes",)


def test_forks_are_told_apart_also_when_they_are_gone(hub: Scene) -> None:
    hub.repo.change(private=False)
    fork = hub.repo.fork("alice")
    fork.commit({"a.txt": "a"}, branch="patch-1", by="alice")
    number = hub.repo.open_pull("from a fork", head="alice:patch-1", by="alice", maintainer_can_modify=False)
    own = hub.repo.commit({"b.txt": "b"}, branch="topic") and hub.repo.open_pull("own", head="topic")
    pull = hub.run(lambda r: r.pull(number))
    assert pull.from_fork(hub.repo.id) and pull.body == ""
    assert not hub.run(lambda r: r.pull(own)).from_fork(hub.repo.id)
    fork.remove()
    assert hub.run(lambda r: r.pull(number)).from_fork(hub.repo.id)


def test_what_is_not_there_is_named(hub: Scene) -> None:
    with pytest.raises(NotFound, match="issues/99"):
        hub.run(lambda r: r.issue(99))


def test_an_archived_repository_is_named(hub: Scene) -> None:
    number = hub.repo.open_issue("x")
    hub.repo.change(archived=True)
    with pytest.raises(UserError, match="archived"):
        hub.run(lambda r: r.upsert_comment(number, MARK, MARK))


# ── drafts ──


def test_a_pull_request_becomes_ready_and_a_draft_again(hub: Scene) -> None:
    head = hub.repo.commit({"a.txt": "a"}, branch="topic")

    async def work(repository: Repository) -> None:
        pull = await repository.open_pull(branch="topic", base="main", title="t", body="b", draft=True)
        for draft in (False, False, True):  # twice is as good as once
            assert await repository.set_draft(pull, draft=draft) == head
            assert (await repository.pull(pull.number)).draft is draft

    hub.run(work)


def test_refusals_of_graphql_have_the_names_of_rest(hub: Scene) -> None:
    hub.repo.commit({"a.txt": "a"}, branch="topic")
    pull = hub.run(lambda r: r.open_pull(branch="topic", base="main", title="t", body="b", draft=True))
    with pytest.raises(NotFound):
        hub.run(lambda r: r.set_draft(pull.model_copy(update={"node_id": "UHVsbDo5OTk="}), draft=False))
    limit = '{"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}'
    hub.devhub.faults.add("POST /api/graphql", count=9, status=200, body=limit)
    with pytest.raises(RetryLater):
        hub.run(lambda r: r.set_draft(pull, draft=False))
    hub.devhub.faults.clear()
    hub.devhub.faults.add("POST /api/graphql", status=502)
    assert hub.run(lambda r: r.set_draft(pull, draft=False)) == pull.head.sha, "it is repeated, since that does no harm"
    hub.repo.close_issue(pull.number)
    with pytest.raises(Rejected, match="closed"):
        hub.run(lambda r: r.set_draft(pull, draft=True))


def test_what_the_app_lacks_is_said_when_the_service_starts(
    devhub: DevHub, app_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    few = devhub.create_app(
        private_key=app_key,
        permissions={"metadata": "read", "contents": "read", "issues": "write"},
        subscribed=("issues",),
    )

    def greeted(key: str, url: str = devhub.api_url) -> list[str]:
        caplog.clear()
        greet(GitHubApp(few.id, key, url, backoff_s=(0.01, 0.02)))
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    said = greeted(app_key)
    assert "the App lacks the permission contents: write" in said[0] and "checks: write" in said[2]
    assert [line.split(":")[0].rpartition(" ")[2] for line in said[3:]] == sorted(EVENTS - {"issues"})
    assert "can't be reached" in greeted(app_key, "http://127.0.0.1:9")[0]
    with pytest.raises(CredentialsRefused, match="belong together"):
        greeted(new_key())
    with pytest.raises(CredentialsRefused, match="Check APP_ID"):
        greet(GitHubApp(few.id + 1, app_key, devhub.api_url))
