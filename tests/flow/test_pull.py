"""``/agent fix`` on a pull request."""

from __future__ import annotations

from agent.types import Outcome
from tests.flow import scripts
from tests.flow.world import BUG, FILES, World, outcome


def test_the_commit_goes_to_the_pull_requests_own_branch(flow: World) -> None:
    repo = flow.repository("own-branch")
    before = repo.commit({"other.py": "x = 1\n"}, branch="feature/AB#1992-x", by="maria")
    repo.commit({"since.py": "y = 1\n"}, branch="main", by="maria")
    number = repo.open_pull(scripts.ON_PULL, head="feature/AB#1992-x", by="maria")
    repo.review(number, "/agent fix the sum", by="maria")
    job = flow.ended(repo)
    assert outcome(job) is Outcome.UPDATED
    assert repo.reviewers(number) == [], "who wrote it can't be asked for a review, and nothing comes of that"
    commits = repo.log("feature/AB#1992-x")
    assert commits[1] == before
    assert b"sum(items)\n" in repo.read("widget.py", "feature/AB#1992-x")
    assert len(flow.pulls_of_all(repo)) == 1
    assert f"#{number}" in flow.told(repo, number)[-1] and "(draft)" not in flow.told(repo, number)[-1]
    first = next(event for event in flow.events(job) if event["kind"] == "model_call")
    told = next(message["content"] for message in first["messages"] if "# Task" in message["content"])
    pulled = told[told.index("What the pull request changes so far") : told.index("# Repository")]
    assert "+++ b/other.py" in pulled and "+x = 1" in pulled
    assert "since.py" not in pulled, "only what it changes itself, whatever came to the base branch since"


def test_a_follow_up_is_given_the_issue_not_our_own_report(flow: World) -> None:
    repo = flow.repository("follow-up")
    flow.asked(repo, BUG, "`total([1, 2, 3])` is 5.", by="rita")
    assert flow.ended(repo).ending is not None
    (pull,) = flow.pulls(repo)
    repo.comment(pull.number, f"/agent ask {scripts.QUESTION}?", by="maria")
    task = flow.brief(flow.ended(repo, 1)).task
    assert task.title == BUG
    assert task.body.startswith("`total([1, 2, 3])` is 5.\n\nWhat the pull request for this does so far:\n- ")
    assert "Proof" not in task.body
    assert task.request == f"{scripts.QUESTION}?"


def test_a_review_that_requests_changes_is_carried_out(flow: World) -> None:
    repo = flow.repository("reviewed")
    flow.asked(repo, BUG, by="rita")
    assert outcome(flow.ended(repo)) is Outcome.PROPOSED
    (pull,) = flow.pulls(repo)
    said = f"{scripts.REMARKED} <!-- unseen -->"
    lines = [("widget.py", 2, said), ("test_total.py", 4, "Good."), ("widget.py", 2, "/agent status")]
    flow.hub.faults.add(f"POST /repos/{repo.full_name}/pulls/*/replies", drop=True, when="after")
    repo.review(pull.number, "Nearly.", event="REQUEST_CHANGES", lines=lines, by="maria")
    job = flow.ended(repo, 1)
    assert outcome(job) is Outcome.UPDATED, job.ending
    asked = f"Nearly.\n\nOn widget.py, line 2 (return sum(items)):\n{scripts.REMARKED}\n\nOn test_total.py, line 4 ("
    assert flow.brief(job).task.request.startswith(asked)
    assert b"sum(item for item in items)" in repo.read("widget.py", pull.head_ref)
    assert len(flow.pulls(repo)) == 1
    flow.ended(repo, 2)
    first, second, third = (one.id for one in repo.line_comments(pull.number) if one.in_reply_to_id is None)
    answers = {one.in_reply_to_id: one.body for one in repo.line_comments(pull.number) if one.in_reply_to_id}
    assert len(answers) == 3 == len(repo.line_comments(pull.number)) - 3, (
        "one each, though the line broke after one of them"
    )
    commit = (
        f"[`{str(job.artefacts.commit_sha)[:12]}`]({flow.hub.url}/{repo.full_name}/commit/{job.artefacts.commit_sha})"
    )
    assert f"Commit {commit} was made for this. It changes `widget.py`." in answers[first]
    assert "It does not change `test_total.py`." in answers[second]
    assert "Answered" in answers[third] and "Commit " not in answers[third]
    assert len(flow.told(repo, pull.number)) == 1, "of the job on the lines; the other was answered on its line alone"
    assert f"/pull/{pull.number}#issuecomment-{job.artefacts.comment_id})" in answers[first]
    assert repo.reviewers(pull.number) == ["maria"], "she is asked to look again"


def test_what_is_asked_on_a_line_knows_the_line_and_what_was_said_there(flow: World) -> None:
    repo = flow.repository("on-a-line")
    repo.commit({"widget.py": FILES["widget.py"].replace("[1:]", "[2:]")}, branch="topic", by="maria")
    number = repo.open_pull("Skip two", head="topic", by="maria")
    repo.comment_on_line(number, "widget.py", 2, f"/agent ask {scripts.QUESTION}?", by="maria")
    job = flow.ended(repo)
    assert outcome(job) is Outcome.ANSWERED
    where = "This is about widget.py, line 2 (return sum(items[2:]))."
    assert flow.brief(job).task.request == f"{scripts.QUESTION}?\n\n{where}"
    asked, answer = repo.line_comments(number)
    assert answer.in_reply_to_id == asked.id and "All but the first, `@maria`" in answer.body
    assert repo.reviewers(number) == []


def test_nothing_is_pushed_for_a_fork(flow: World) -> None:
    repo = flow.repository("forked", private=False)
    fork = repo.fork("alice")
    fork.commit({"other.py": "x = 1\n"}, branch="patch-1", by="alice")
    number = repo.open_pull(scripts.ON_PULL, head="alice:patch-1", by="alice", maintainer_can_modify=False)
    fork_before, repo_before = fork.branches(), repo.branches()
    repo.comment(number, "/agent fix the sum", by="maria")
    job = flow.ended(repo)
    assert outcome(job) is Outcome.BLOCKED
    assert "fork" in job.ending.reason
    assert fork.branches() == fork_before
    assert repo.branches() == repo_before
    (told,) = flow.told(repo, number)
    assert "+    return sum(items)" in told


def test_a_pull_request_does_not_bring_the_rules_that_it_is_judged_by(flow: World) -> None:
    repo = flow.repository("ruled", {**FILES, ".graftsmith.toml": "[plan]\napproval = true\n"})
    repo.commit({".graftsmith.toml": "[commands]\ntest = 'true'\n"}, branch="lax", by="maria")
    number = repo.open_pull(scripts.PLANNED, head="lax", by="maria")
    repo.comment(number, "/agent fix the sum", by="maria")
    job = flow.ended(repo)
    assert outcome(job) is Outcome.PLANNED, "the base branch wants every plan approved"
    baseline = flow.result(job).evidence.baseline
    assert baseline is not None and "pytest" in " ".join(baseline.command)


def test_a_branch_that_moved_elsewhere_is_tested_again(flow: World) -> None:
    repo = flow.repository("moved")
    repo.commit({"other.py": "x = 1\n"}, branch="topic", by="maria")
    number = repo.open_pull(scripts.ON_PULL, head="topic", by="maria")
    moved: list[str] = []

    def while_it_runs() -> bool:
        job = flow.job(repo)
        if job is not None and job.stage == "run" and not moved:
            moved.append(repo.commit({"person.py": "y = 2\n"}, branch="topic", by="maria"))
        return bool(moved)

    repo.comment(number, "/agent fix the sum", by="maria")
    flow.hub.wait_for(while_it_runs, timeout_s=60)
    job = flow.ended(repo)
    assert outcome(job) is Outcome.UPDATED
    assert repo.log("topic")[1] == moved[0]
    assert repo.read("person.py", "topic") == b"y = 2\n"
    assert job.usage.calls > 0, "testing again must not take away what the work has cost"


def test_a_persons_change_to_the_same_file_stands(flow: World) -> None:
    repo = flow.repository("clashing")
    repo.commit({"other.py": "x = 1\n"}, branch="topic", by="maria")
    number = repo.open_pull(scripts.ON_PULL, head="topic", by="maria")
    theirs = FILES["widget.py"].replace("items[1:]", "items[2:]")
    moved: list[str] = []

    def while_it_runs() -> bool:
        job = flow.job(repo)
        if job is not None and job.stage == "run" and not moved:
            moved.append(repo.commit({"widget.py": theirs}, branch="topic", by="maria"))
        return bool(moved)

    repo.comment(number, "/agent fix the sum", by="maria")
    flow.hub.wait_for(while_it_runs, timeout_s=60)
    job = flow.ended(repo)
    assert outcome(job) is Outcome.BLOCKED
    assert repo.log("topic")[0] == moved[0]
    kept = job.artefacts.branch
    assert kept in repo.branches()
    assert kept in flow.told(repo, number)[0]
