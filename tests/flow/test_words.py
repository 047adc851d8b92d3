"""What else can be asked in a comment: questions, plans that wait, and where a job stands."""

from __future__ import annotations

import stat

from agent.types import Outcome, RunSpec
from app.devhub.repo import Repo
from app.jobs.types import Job
from tests.flow import scripts
from tests.flow.world import FILES, World


def _ended_as(flow: World, repo: Repo, position: int, outcome: Outcome) -> Job:
    job = flow.ended(repo, position)
    assert job.ending is not None
    assert job.ending.outcome is outcome, job.ending
    return job


def test_a_question_is_answered_with_links_to_lines(flow: World) -> None:
    repo = flow.repository("asked")
    number = repo.open_issue("About sums", by="rita")
    repo.comment(number, f"/agent ask {scripts.QUESTION}?", by="maria")
    _ended_as(flow, repo, 0, Outcome.ANSWERED)
    (told,) = flow.told(repo, number)
    sha = repo.log("main")[0]
    assert "All but the first" in told
    assert f"/{repo.full_name}/blob/{sha}/widget.py?plain=1#L2)" in told
    assert "All but the first, `@maria`" in told, "nobody is called by an answer"
    assert "Fixes `#1`" in told, "and nothing is closed"
    assert list(repo.branches()) == ["main"]


def test_a_plan_waits_is_revised_and_carried_out_where_it_was_made(flow: World) -> None:
    repo = flow.repository("planned")
    number = repo.open_issue(scripts.PLANNED, by="rita")
    repo.comment(number, "/agent plan", by="maria")
    planned = _ended_as(flow, repo, 0, Outcome.PLANNED)
    (told,) = flow.told(repo, number)
    assert "Count every item" in told
    assert "/agent approve" in told
    assert list(repo.branches()) == ["main"]

    base = repo.log("main")[0]
    repo.commit({"later.py": "x = 1\n"}, by="maria")
    repo.comment(number, "/agent approve", by="maria")
    approved = _ended_as(flow, repo, 1, Outcome.PROPOSED)
    assert approved.artefacts.base_sha == planned.artefacts.base_sha == base
    result = flow.result(approved)
    assert result.plan == planned.artefacts.plan
    assert result.usage.calls == 1, "the plan was not asked for again"
    (pull,) = flow.pulls(repo)
    assert not pull.draft

    spec = flow.service.folder / "state" / "jobs" / approved.id / "run-1" / "spec.json"
    assert stat.S_IMODE(spec.stat().st_mode) == 0o600
    kept = RunSpec.model_validate_json(spec.read_bytes())
    assert (kept.model.api_key, kept.plan) == ("", result.plan)


def test_a_repository_can_want_every_plan_approved(flow: World) -> None:
    repo = flow.repository("careful", {**FILES, ".graftsmith.toml": "[plan]\napproval = true\n"})
    number = flow.asked(repo, scripts.PLANNED, by="rita")
    _ended_as(flow, repo, 0, Outcome.PLANNED)
    assert list(repo.branches()) == ["main"]
    repo.comment(number, "/agent approve", by="maria")
    _ended_as(flow, repo, 1, Outcome.PROPOSED)


def test_a_plan_is_made_anew_with_a_remark(flow: World) -> None:
    repo = flow.repository("revised")
    number = repo.open_issue(scripts.REVISED, by="rita")
    repo.comment(number, "/agent approve", by="maria")
    nothing = _ended_as(flow, repo, 0, Outcome.NEEDS_INPUT)
    assert nothing.usage.calls == 0
    repo.comment(number, "/agent plan", by="maria")
    _ended_as(flow, repo, 1, Outcome.PLANNED)
    repo.comment(number, "/agent revise use a loop", by="maria")
    revised = _ended_as(flow, repo, 2, Outcome.PLANNED)
    assert revised.artefacts.plan is not None
    assert revised.artefacts.plan.summary == "Count with a loop."
    repo.comment(number, "/agent why", by="maria")
    why = _ended_as(flow, repo, 3, Outcome.ANSWERED)
    assert why.ending is not None
    assert "`revise` by maria, ended as planned" in why.ending.reason
    assert len(flow.told(repo, number)) == 4


def test_retry_goes_on_from_the_work_that_a_budget_ended(flow: World) -> None:
    repo = flow.repository("half", {**FILES, ".graftsmith.toml": "[budget]\nsteps = 2\n"})
    number = repo.open_issue(scripts.HALF, by="rita")
    repo.comment(number, "/agent fix", by="maria")
    first = _ended_as(flow, repo, 0, Outcome.BUDGET_REACHED)
    (pull,) = flow.pulls(repo)
    assert pull.draft
    repo.comment(number, "/agent retry", by="maria")
    second = _ended_as(flow, repo, 1, Outcome.UPDATED)
    assert second.artefacts.base_sha == first.artefacts.base_sha
    assert second.usage.calls == 2, "the plan was not made again"
    (pull,) = flow.pulls(repo)
    assert repo.read("widget.py", pull.head_ref).decode().startswith("def total(items):\n    return sum(items)\n")
    assert "test_total.py" in (pull.body or "")
