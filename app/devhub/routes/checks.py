"""Check runs and commit statuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.devhub import checks
from app.devhub.auth import Actor
from app.devhub.errors import Refused, invalid
from app.devhub.records import CheckRun, Status
from app.devhub.rest import Answer, Body, Call, Page, read, write
from app.devhub.shapes import checks as shapes

REPO = "/repos/{owner}/{repo}"
RUN = f"{REPO}/check-runs/{{check_run_id}}"
STATES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = (
    *("action_required", "cancelled", "failure", "neutral", "success"),
    *("skipped", "stale", "timed_out"),
)
TEXT_LIMIT = 65_535
ANNOTATIONS = 50
"""Annotations in one request; more need more requests, which add to the run."""


def _app(call: Call) -> Actor:
    """Check runs belong to Apps."""
    if call.caller.app is None:
        raise Refused(403, "You must authenticate via a GitHub App.")
    return call.caller


def create_run(call: Call) -> Answer:
    actor, sha = _app(call), call.body.required("head_sha")
    if call.git.type_of(sha) != "commit":
        raise Refused(422, f"No commit found for SHA: {sha}")
    run = CheckRun(
        repository_id=call.repository.id,
        app_id=actor.app_id or 0,
        head_sha=sha,
        name=call.body.required("name"),
        started_at=call.hub.stamp(),
    )
    run = call.hub.store.add(_updated(call, run))
    checks.tell(call.hub, run, actor.user, "created")
    return Answer(shapes.check_run(call.hub, run), 201)


def change_run(call: Call) -> Answer:
    actor, old = _app(call), call.own(CheckRun, "check_run_id")
    if old.app_id != actor.app_id:
        raise Refused(403, "Invalid app_id - check run can only be modified by the GitHub App that created it.")
    new = _updated(call, old)
    call.hub.store.change(old, **{name: getattr(new, name) for name in CHANGEABLE})
    if new.status == "completed" and old.status != "completed":
        checks.tell(call.hub, new, actor.user, "completed")
    return Answer(shapes.check_run(call.hub, new))


CHANGEABLE = (
    *("name", "status", "conclusion", "external_id", "details_url", "started_at", "completed_at"),
    *("title", "summary", "text", "annotations", "actions"),
)


def _updated(call: Call, run: CheckRun) -> CheckRun:
    """The run with what the request says; what it leaves out stays."""
    body = call.body
    plain = ("name", "external_id", "details_url", "started_at", "completed_at")
    new: dict[str, Any] = {name: body.text(name) for name in plain if body.text(name) is not None}
    status, conclusion = body.text("status"), body.text("conclusion")
    if status not in (None, *STATES):
        raise invalid("CheckRun", "status")
    if conclusion not in (None, *CONCLUSIONS):
        raise invalid("CheckRun", "conclusion")
    if status == "completed" and conclusion is None:
        raise invalid("CheckRun", "conclusion", "missing_field")
    if conclusion is not None:  # a conclusion ends the run, whatever the status says
        new |= {"status": "completed", "conclusion": conclusion}
        new.setdefault("completed_at", call.hub.stamp())
    elif status is not None:
        new |= {"status": status, "conclusion": None, "completed_at": None}
    if "actions" in body:
        new["actions"] = _actions(body)
    output = body.object("output")
    return replace(run, **new, **(_output(run, output) if output else {}))


def _actions(body: Body) -> tuple[dict[str, Any], ...]:
    found = body.objects("actions")
    limits = {"label": 20, "description": 40, "identifier": 20}
    if len(found) > 3 or any(len(item.required(name)) > limit for item in found for name, limit in limits.items()):
        raise Refused(422, "Invalid request.\n\nNo more than 3 actions, with short labels.")
    return tuple(item.raw() for item in found)


def _output(run: CheckRun, output: Body) -> dict[str, Any]:
    texts = {name: output.text(name) for name in ("title", "summary", "text") if name in output}
    output.required("summary")
    for name, value in texts.items():
        if value is not None and len(value) > TEXT_LIMIT:
            raise Refused(422, f"Invalid request.\n\nOnly {TEXT_LIMIT} characters are allowed in {name}.")
    annotations = output.objects("annotations")
    if len(annotations) > ANNOTATIONS:
        raise Refused(
            422, f"Invalid request.\n\nNo more than {ANNOTATIONS} items are allowed; {len(annotations)} were supplied."
        )
    return {**texts, "annotations": (*run.annotations, *(_annotation(item) for item in annotations))}


def _annotation(item: Body) -> dict[str, Any]:
    if item.text("annotation_level") not in ("notice", "warning", "failure"):
        raise invalid("CheckRun", "annotation_level")
    item.required("path")
    item.required("message")
    if item.number("start_line") is None or item.number("end_line") is None:
        raise Refused(422, 'Invalid request.\n\n"start_line" and "end_line" are needed.')
    return item.raw()


def get_run(call: Call) -> Answer:
    return Answer(shapes.check_run(call.hub, call.own(CheckRun, "check_run_id")))


def list_annotations(call: Call) -> Page:
    run = call.own(CheckRun, "check_run_id")
    return Page(run.annotations, lambda given: shapes.annotation(call.hub, run, given))


def list_runs(call: Call) -> Page:
    """Runs of a commit; of those with one name, the newest only, unless ``filter=all``."""
    sha, query = call.commit(call.path["ref"]), call.query
    found = call.hub.store.find(CheckRun, repository_id=call.repository.id, head_sha=sha)
    kept = [
        run
        for run in found
        if query.get("check_name") in (None, run.name)
        and query.get("status") in (None, run.status)
        and query.get("app_id") in (None, str(run.app_id))
    ]
    if query.get("filter", "latest") == "latest":
        kept = list({(run.app_id, run.name): run for run in kept}.values())
    return Page(kept[::-1], lambda run: shapes.check_run(call.hub, run), key="check_runs")


# ── statuses ─────────────────────────────────────────────────────────────────────────────────────────────────────


def create_status(call: Call) -> Answer:
    state, sha = call.body.required("state"), call.path["sha"]
    if state not in ("error", "failure", "pending", "success"):
        raise invalid("Status", "state")
    if call.git.type_of(sha) != "commit":
        raise Refused(422, f"No commit found for SHA: {sha}")
    description = call.body.text("description")
    if description and len(description) > 140:
        raise invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
    status = Status(
        repository_id=call.repository.id,
        sha=sha,
        state=state,
        context=call.body.text("context") or "default",
        description=description,
        target_url=call.body.text("target_url"),
        user_id=call.caller.user.id,
        created_at=call.hub.stamp(),
    )
    return Answer(shapes.status(call.hub, call.hub.store.add(status)), 201)


def list_statuses(call: Call) -> Page:
    found = call.hub.store.find(Status, repository_id=call.repository.id, sha=call.commit(call.path["ref"]))
    return Page(found[::-1], lambda status: shapes.status(call.hub, status))


def get_combined(call: Call) -> Answer:
    sha = call.commit(call.path["ref"])
    found = call.hub.store.find(Status, repository_id=call.repository.id, sha=sha)
    latest = list({status.context: status for status in found}.values())
    return Answer(shapes.combined(call.hub, call.repository, sha, latest))


OPERATIONS = (
    write("POST", f"{REPO}/check-runs", create_run, "checks"),
    read(RUN, get_run, "checks"),
    write("PATCH", RUN, change_run, "checks"),
    read(f"{RUN}/annotations", list_annotations, "checks"),
    read(f"{REPO}/commits/{{ref:path}}/check-runs", list_runs, "checks"),
    write("POST", f"{REPO}/statuses/{{sha}}", create_status, "statuses"),
    read(f"{REPO}/commits/{{ref:path}}/statuses", list_statuses, "statuses"),
    read(f"{REPO}/commits/{{ref:path}}/status", get_combined, "statuses"),
)
