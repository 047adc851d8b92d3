"""Changes to existing tests wait for a person, who takes responsibility for exactly what was shown."""

from __future__ import annotations

from agent.types import Outcome
from app.devhub.repo import Repo
from app.devhub.seen import SeenPull
from tests.flow import scripts
from tests.flow.world import World, by_hand, outcome
from tests.support import loopback


def proposed(flow: World, name: str) -> tuple[Repo, SeenPull]:
    """A draft in which an existing test was changed, as the plan says."""
    repo, pull = waiting(flow, name, scripts.REPINNED)
    assert "-    assert double(2) == 4\n+    assert double(3) == 6" in pull.body
    assert "the issue asks for three" in pull.body
    return repo, pull


def waiting(flow: World, name: str, title: str) -> tuple[Repo, SeenPull]:
    repo = flow.repository(name)
    flow.asked(repo, title, by="rita")
    job = flow.ended(repo)
    assert outcome(job) is Outcome.PROPOSED, job.ending
    (pull,) = flow.pulls(repo)
    body = pull.body or ""
    assert pull.draft and "Waits for a person" in body and "**Proven" not in body
    assert job.artefacts.to_acknowledge in body and job.artefacts.commit_sha == pull.head_sha
    (check,) = repo.checks(pull.head_sha)
    assert check.conclusion == "action_required"
    return repo, pull


def test_a_maintainer_makes_it_ready(flow: World) -> None:
    repo, pull = proposed(flow, "acknowledged")
    repo.comment(pull.number, "/agent approve", by="rita")
    refused = flow.ended(repo, 1)
    assert refused.ending is not None and refused.ending.silent
    assert flow.pulls(repo)[0].draft

    repo.comment(pull.number, "/agent approve", by="maria")
    ended = flow.ended(repo, 2)
    assert outcome(ended) is Outcome.UPDATED, ended.ending
    assert not flow.pulls(repo)[0].draft
    (told,) = flow.told(repo, pull.number)
    assert "maria has acknowledged the changes to tests" in told
    assert {check.conclusion for check in repo.checks(pull.head_sha)} == {"action_required", "success"}
    assert ended.usage.calls == 0


def test_a_test_that_goes_on_request_waits_too(flow: World) -> None:
    repo, pull = waiting(flow, "dropped", scripts.DROPPED)
    assert "the issue asks for no test of doubling" in pull.body
    assert "**test_deleted** in `test_widget.py`" in pull.body and "-    assert double(2) == 4" in pull.body
    assert "Ran before, do not run any more, as the plan says: `test_widget.py::test_double`" in pull.body
    repo.comment(pull.number, "/agent approve", by="maria")
    ended = flow.ended(repo, 1)
    assert outcome(ended) is Outcome.UPDATED, ended.ending
    assert not flow.pulls(repo)[0].draft


def test_a_later_commit_is_not_covered(flow: World) -> None:
    repo, pull = proposed(flow, "overtaken-approval")
    repo.commit({"test_widget.py": "def test_nothing():\n    pass\n"}, branch=pull.head_ref, by="maria")
    repo.comment(pull.number, "/agent approve", by="maria")
    ended = flow.ended(repo, 1)
    assert outcome(ended) is Outcome.NEEDS_INPUT, ended.ending
    assert flow.pulls(repo)[0].draft
    assert "Nothing was acknowledged" in flow.told(repo, pull.number)[0]


def test_a_description_that_shows_something_else_is_not_approved(flow: World) -> None:
    repo, pull = proposed(flow, "reworded-draft")
    answer = loopback.patch(
        f"{flow.hub.api_url}/repos/{repo.full_name}/pulls/{pull.number}",
        json={"body": "Only a typo."},
        headers={"authorization": f"Bearer {flow.hub.token('maria')}"},
    )
    assert answer.status_code == 200
    repo.comment(pull.number, "/agent approve", by="maria")
    ended = flow.ended(repo, 1)
    assert outcome(ended) is Outcome.NEEDS_INPUT, ended.ending
    assert flow.pulls(repo)[0].draft


def test_a_commit_after_the_approval_makes_it_a_draft_again_once(flow: World) -> None:
    repo, pull = proposed(flow, "pushed-after")
    repo.comment(pull.number, "/agent approve", by="maria")
    assert flow.ended(repo, 1).artefacts.acknowledged == pull.head_sha
    assert not flow.pulls(repo)[0].draft

    repo.permit("paul", "write")
    repo.commit({"README.md": "# more\n"}, branch=pull.head_ref, by="paul")
    ended = flow.ended(repo, 2)
    assert outcome(ended) is Outcome.UPDATED, ended.ending
    assert flow.pulls(repo)[0].draft
    told = flow.told(repo, pull.number)[-1]
    assert "(draft)" in told and "paul has pushed to it" in told and pull.head_sha[:12] in told
    assert "mark the pull request as ready yourself" in told

    by_hand(flow, repo, pull.number, draft=False)
    repo.commit({"README.md": "# even more\n"}, branch=pull.head_ref, by="paul")
    again = flow.ended(repo, 3)
    assert again.ending is not None and again.ending.silent
    assert not flow.pulls(repo)[0].draft, "a person has made it ready without us"
    assert len(flow.told(repo, pull.number)) == 2
