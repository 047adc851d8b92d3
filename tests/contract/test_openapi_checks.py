"""Check runs, statuses, workflows, runs, artifacts: the real client against the stand-in, both ways checked."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.support import loopback
from tests.support.github_scene import NAME, OWNER, Scene, refusal
from tests.support.openapi import Checked


@pytest.fixture
def sha(scene: Scene) -> str:
    return scene.repo.branches()["main"]


def output(annotations: int = 0) -> dict[str, Any]:
    one = {"path": "src/widget.py", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": "red"}
    return {"title": "Tests", "summary": "2 of 3", "annotations": [one] * annotations}


def test_a_check_run_is_made_grows_and_ends(scene: Scene, client: GitHub, sha: str) -> None:
    rest = client.rest.checks
    asked = {"name": "graftsmith", "head_sha": sha, "external_id": "job-1"}
    run = rest.create(OWNER, NAME, **asked, status="in_progress").parsed_data
    rest.update(OWNER, NAME, run.id, output=output(50))
    ended = rest.update(OWNER, NAME, run.id, status="completed", conclusion="success", output=output(3)).parsed_data
    assert (ended.status, ended.conclusion, ended.output.annotations_count) == ("completed", "success", 53)
    assert rest.get(OWNER, NAME, run.id).parsed_data.external_id == "job-1"
    assert len(rest.list_annotations(OWNER, NAME, run.id, per_page=100).parsed_data) == 53
    rest.create(OWNER, NAME, name="graftsmith", head_sha=sha)
    latest = rest.list_for_ref(OWNER, NAME, "main").parsed_data
    assert (latest.total_count, latest.check_runs[0].status) == (1, "queued")
    assert rest.list_for_ref(OWNER, NAME, sha, filter_="all", check_name="graftsmith").parsed_data.total_count == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"output": output(51)}, "No more than 50 items are allowed; 51 were supplied."),
        ({"output": {"title": "x", "summary": "x" * 65_536}}, "Only 65535 characters are allowed in summary."),
        ({"head_sha": "0" * 40}, "No commit found for SHA"),
    ],
)
def test_a_check_run_that_is_too_much_is_refused(
    client: GitHub, github_checks: Checked, sha: str, given: dict[str, Any], words: str
) -> None:
    body = {"name": "x", "head_sha": sha, **given}
    with github_checks.bad_requests(), pytest.raises(RequestFailed) as failed:
        client.request("POST", f"/repos/{OWNER}/{NAME}/check-runs", json=body)
    status, message = refusal(failed)
    assert status == 422
    assert words in message


def test_check_runs_are_for_apps(scene: Scene, sha: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        scene.as_person("alice").rest.checks.create(OWNER, NAME, name="x", head_sha=sha)
    assert refusal(failed) == (403, "You must authenticate via a GitHub App.")


def test_statuses_add_up(client: GitHub, sha: str) -> None:
    rest = client.rest.repos
    rest.create_commit_status(OWNER, NAME, sha, state="pending", context="ci", description="running")
    rest.create_commit_status(OWNER, NAME, sha, state="success", context="ci")
    rest.create_commit_status(OWNER, NAME, sha, state="failure", context="lint", target_url="https://example.com/log")
    assert len(rest.list_commit_statuses_for_ref(OWNER, NAME, "main").parsed_data) == 3
    combined = rest.get_combined_status_for_ref(OWNER, NAME, "main").parsed_data
    assert (combined.state, combined.total_count) == ("failure", 2)


def test_a_workflow_is_dispatched_and_its_artifact_fetched(scene: Scene, client: GitHub) -> None:
    rest = client.rest.actions
    assert rest.get_workflow(OWNER, NAME, "agent.yml").parsed_data.path == ".github/workflows/agent.yml"
    started = rest.create_workflow_dispatch(OWNER, NAME, "agent.yml", ref="main", inputs={"job": "1"})
    assert started.status_code == 204
    detailed = client.request(
        "POST",
        f"/repos/{OWNER}/{NAME}/actions/workflows/agent.yml/dispatches",
        json={"ref": "main", "return_run_details": True},
    )
    runs = rest.list_workflow_runs(OWNER, NAME, "agent.yml", event="workflow_dispatch", branch="main").parsed_data
    assert runs.workflow_runs[0].id == detailed.json()["workflow_run_id"]
    assert rest.list_workflow_runs_for_repo(OWNER, NAME, status="queued").parsed_data.total_count == 2
    first, second = scene.repo.workflow_runs()
    assert first.inputs == {"job": "1"}

    scene.repo.finish_workflow_run(first.id, "success", {"result": {"result.json": b"{}"}})
    assert rest.get_workflow_run(OWNER, NAME, first.id).parsed_data.conclusion == "success"
    (artifact,) = rest.list_workflow_run_artifacts(OWNER, NAME, first.id, name="result").parsed_data.artifacts
    assert rest.list_artifacts_for_repo(OWNER, NAME).parsed_data.total_count == 1
    assert rest.get_artifact(OWNER, NAME, artifact.id).parsed_data.digest == artifact.digest
    archive = rest.download_artifact(OWNER, NAME, artifact.id, "zip").content
    assert zipfile.ZipFile(io.BytesIO(archive)).read("result.json") == b"{}"

    rest.cancel_workflow_run(OWNER, NAME, second.id)
    assert rest.get_workflow_run(OWNER, NAME, second.id).parsed_data.conclusion == "cancelled"
    with pytest.raises(RequestFailed) as failed:
        rest.cancel_workflow_run(OWNER, NAME, second.id)
    assert refusal(failed)[0] == 409


def test_an_artifact_link_is_good_for_a_minute_and_an_artifact_for_its_days(scene: Scene, client: GitHub) -> None:
    client.rest.actions.create_workflow_dispatch(OWNER, NAME, "agent.yml", ref="main")
    (artifact,) = scene.repo.finish_workflow_run(scene.repo.workflow_runs()[0].id, "success", {"a": {"b": b"c"}})
    url = f"{scene.hub.api_url}/repos/{OWNER}/{NAME}/actions/artifacts/{artifact.id}/zip"
    header = {"authorization": f"Bearer {scene.hub.token('alice')}"}
    link = loopback.get(url, headers=header).headers["location"]
    assert loopback.get(link).status_code == 200
    assert loopback.get(link + "0").status_code == 403
    scene.hub.move_clock(61)
    assert loopback.get(link).status_code == 403
    scene.hub.move_clock(91 * 86_400)
    assert loopback.get(url, headers=header).status_code == 410


def test_a_dispatch_of_what_is_not_there_is_refused(client: GitHub) -> None:
    rest = client.rest.actions
    with pytest.raises(RequestFailed) as failed:
        rest.create_workflow_dispatch(OWNER, NAME, "gone.yml", ref="main")
    assert refusal(failed) == (404, "Not Found")
    with pytest.raises(RequestFailed) as failed:
        rest.create_workflow_dispatch(OWNER, NAME, "agent.yml", ref="gone")
    assert refusal(failed) == (422, "No ref found for: gone")
    with pytest.raises(RequestFailed) as failed:
        rest.create_workflow_dispatch(OWNER, NAME, "ci.yml", ref="main")
    assert refusal(failed) == (422, "Workflow does not have 'workflow_dispatch' trigger")
