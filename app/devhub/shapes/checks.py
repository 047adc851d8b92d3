"""Check runs, commit statuses, workflows, their runs and artifacts."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from app.devhub.hub import Hub
from app.devhub.records import Artifact, CheckRun, Pull, Repository, Status, Workflow, WorkflowRun
from app.devhub.shapes import commits, pulls
from app.devhub.shapes.accounts import Json, maybe_app, maybe_user, minimal_repository, node_id, repository
from sandbox.text import sound


def check_run(hub: Hub, found: CheckRun) -> Json:
    where = hub.store.get(Repository, found.repository_id)
    url = hub.api(f"/repos/{hub.full_name(where)}/check-runs/{found.id}")
    html = hub.web(f"/{hub.full_name(where)}/runs/{found.id}")
    of_head = hub.store.find(Pull, repository_id=where.id, head_sha=found.head_sha)
    return {
        "id": found.id,
        "name": found.name,
        "node_id": node_id(found),
        "head_sha": found.head_sha,
        "external_id": found.external_id,
        "url": url,
        "html_url": html,
        "details_url": found.details_url or html,
        "status": found.status,
        "conclusion": found.conclusion,
        "started_at": found.started_at,
        "completed_at": found.completed_at,
        "output": {
            "title": found.title,
            "summary": found.summary,
            "text": found.text,
            "annotations_count": len(found.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": found.id},
        "app": maybe_app(hub, found.app_id),
        "pull_requests": [pulls.minimal(hub, pull) for pull in of_head],
    }


def annotation(hub: Hub, found: CheckRun, given: Mapping[str, Any]) -> Json:
    where = hub.store.get(Repository, found.repository_id)
    kept = ("path", "start_line", "end_line", "start_column", "end_column", "annotation_level", "title", "message")
    href = hub.api(f"/repos/{hub.full_name(where)}/contents/{commits.encoded(given['path'])}?ref={found.head_sha}")
    return {
        **{name: given.get(name) for name in kept},
        "raw_details": given.get("raw_details"),
        "blob_href": href,
    }


def status(hub: Hub, found: Status) -> Json:
    where = hub.store.get(Repository, found.repository_id)
    creator = maybe_user(hub, found.user_id)
    assert creator is not None
    return {
        "url": hub.api(f"/repos/{hub.full_name(where)}/statuses/{found.sha}"),
        "avatar_url": creator["avatar_url"],
        "id": found.id,
        "node_id": node_id(found),
        "state": found.state,
        "description": found.description,
        "target_url": found.target_url,
        "context": found.context,
        "created_at": found.created_at,
        "updated_at": found.created_at,
        "creator": creator,
    }


def combined(hub: Hub, where: Repository, sha: str, latest: Sequence[Status]) -> Json:
    """The newest status of each context, and what they amount to."""
    states = {found.state for found in latest}
    bad = states & {"failure", "error"}
    state = "failure" if bad else "success" if states == {"success"} else "pending"
    url = hub.api(f"/repos/{hub.full_name(where)}/commits/{sha}")
    return {
        "state": state,
        "statuses": [{name: value for name, value in status(hub, one).items() if name != "creator"} for one in latest],
        "sha": sha,
        "total_count": len(latest),
        "repository": repository(hub, where),
        "commit_url": url,
        "url": f"{url}/status",
    }


# ── workflows ────────────────────────────────────────────────────────────────────────────────────────────────────


def workflow(hub: Hub, found: Workflow) -> Json:
    where = hub.full_name(hub.store.get(Repository, found.repository_id))
    file = posixpath.basename(found.path)
    return {
        "id": found.id,
        "node_id": node_id(found),
        "name": found.path,
        "path": found.path,
        "state": "active",
        "created_at": found.created_at,
        "updated_at": found.created_at,
        "url": hub.api(f"/repos/{where}/actions/workflows/{found.id}"),
        "html_url": hub.web(f"/{where}/blob/HEAD/{found.path}"),
        "badge_url": hub.web(f"/{where}/actions/workflows/{file}/badge.svg"),
    }


def workflow_run(hub: Hub, found: WorkflowRun) -> Json:
    where = hub.store.get(Repository, found.repository_id)
    of = hub.store.get(Workflow, found.workflow_id)
    url = hub.api(f"/repos/{hub.full_name(where)}/actions/runs/{found.id}")
    head = hub.git(where).commit(found.head_sha)
    actor = maybe_user(hub, found.user_id)
    shape = minimal_repository(hub, where)
    return {
        "id": found.id,
        "name": of.path,
        "node_id": node_id(found),
        "check_suite_id": found.id,
        "check_suite_node_id": node_id(found),
        "head_branch": found.ref.removeprefix("refs/heads/"),
        "head_sha": found.head_sha,
        "path": of.path,
        "run_number": found.run_number,
        "run_attempt": 1,
        "referenced_workflows": [],
        "event": found.event,
        "display_title": of.path,
        "status": found.status,
        "conclusion": found.conclusion,
        "workflow_id": found.workflow_id,
        "url": url,
        "html_url": hub.web(f"/{hub.full_name(where)}/actions/runs/{found.id}"),
        "pull_requests": [],
        "created_at": found.created_at,
        "updated_at": found.updated_at,
        "run_started_at": found.created_at,
        "actor": actor,
        "triggering_actor": actor,
        **{f"{name}_url": f"{url}/{name}" for name in ("jobs", "logs", "artifacts", "cancel", "rerun")},
        "check_suite_url": hub.api(f"/repos/{hub.full_name(where)}/check-suites/{found.id}"),
        "previous_attempt_url": None,
        "workflow_url": workflow(hub, of)["url"],
        "head_commit": {
            "id": head.sha,
            "tree_id": head.tree,
            "message": sound(head.message),
            "timestamp": head.committer.date,
            "author": {"name": head.author.name, "email": head.author.email},
            "committer": {"name": head.committer.name, "email": head.committer.email},
        },
        "repository": shape,
        "head_repository": shape,
    }


def artifact(hub: Hub, found: Artifact) -> Json:
    where = hub.store.get(Repository, found.repository_id)
    run = hub.store.get(WorkflowRun, found.run_id)
    url = hub.api(f"/repos/{hub.full_name(where)}/actions/artifacts/{found.id}")
    return {
        "id": found.id,
        "node_id": node_id(found),
        "name": found.name,
        "size_in_bytes": len(found.content),
        "url": url,
        "archive_download_url": f"{url}/zip",
        "expired": found.expires_at < hub.stamp(),
        "created_at": found.created_at,
        "updated_at": found.created_at,
        "expires_at": found.expires_at,
        "digest": found.digest,
        "workflow_run": {
            "id": run.id,
            "repository_id": where.id,
            "head_repository_id": where.id,
            "head_branch": run.ref.removeprefix("refs/heads/"),
            "head_sha": run.head_sha,
        },
    }
