"""GitHub Actions from outside: dispatch a workflow, see its runs, fetch their artifacts.

Nothing runs here; a run ends when somebody says so (``Repo.finish_workflow_run``).
"""

from __future__ import annotations

import re

from app.devhub import checks
from app.devhub.errors import Refused, not_found
from app.devhub.records import Artifact, Workflow, WorkflowRun
from app.devhub.rest import Answer, Call, Page, read, write
from app.devhub.shapes import checks as shapes

ACTIONS = "/repos/{owner}/{repo}/actions"
WORKFLOW = f"{ACTIONS}/workflows/{{workflow_id}}"
RUN = f"{ACTIONS}/runs/{{run_id}}"
ARTIFACT = f"{ACTIONS}/artifacts/{{artifact_id}}"
FOLDER = ".github/workflows"
INPUTS = 25
"""Inputs that a dispatch may have."""


def _workflow(call: Call) -> Workflow:
    """By id or by file name; it must be on the default branch."""
    wanted = call.path["workflow_id"]
    if wanted.isascii() and wanted.isdigit():
        return call.own(Workflow, "workflow_id")
    path = f"{FOLDER}/{wanted}"
    head = call.git.resolve(f"refs/heads/{call.repository.default_branch}")
    if head is None or call.git.at(head, path) is None:
        raise not_found()
    made = Workflow(repository_id=call.repository.id, path=path, created_at=call.hub.stamp())
    known = call.hub.store.first(Workflow, repository_id=call.repository.id, path=path)
    return known or call.hub.store.add(made)


def get_workflow(call: Call) -> Answer:
    return Answer(shapes.workflow(call.hub, _workflow(call)))


def dispatch(call: Call) -> Answer:
    """Start a run on a branch or tag whose own copy of the workflow takes dispatches."""
    workflow, name = _workflow(call), call.body.required("ref")
    ref = next((ref for kind in ("heads", "tags") if (ref := call.git.ref(f"refs/{kind}/{name}"))), None)
    if ref is None:
        raise Refused(422, f"No ref found for: {name}")
    sha = call.git.resolve(ref.name)
    entry = call.git.at(sha, workflow.path) if sha else None
    if sha is None or entry is None or not re.search(rb"\bworkflow_dispatch\b", call.git.read_blob(entry.sha)):
        raise Refused(422, "Workflow does not have 'workflow_dispatch' trigger")
    inputs = call.body.object("inputs")
    given = inputs.raw() if inputs else {}
    if len(given) > INPUTS:
        raise Refused(422, f"Too many inputs: {len(given)}, no more than {INPUTS} are allowed")
    now = call.hub.stamp()
    earlier = call.hub.store.find(WorkflowRun, workflow_id=workflow.id)
    run = call.hub.store.add(
        WorkflowRun(
            repository_id=call.repository.id,
            workflow_id=workflow.id,
            run_number=len(earlier) + 1,
            event="workflow_dispatch",
            ref=ref.name,
            head_sha=sha,
            inputs=given,
            user_id=call.caller.user.id,
            created_at=now,
            updated_at=now,
        )
    )
    checks.tell_run(call.hub, run, "requested")
    if not call.body.flag("return_run_details"):
        return Answer(status=204)
    shape = shapes.workflow_run(call.hub, run)
    return Answer({"workflow_run_id": run.id, "run_url": shape["url"], "html_url": shape["html_url"]})


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def get_run(call: Call) -> Answer:
    return Answer(shapes.workflow_run(call.hub, call.own(WorkflowRun, "run_id")))


def list_runs(call: Call) -> Page:
    return _listed(call, call.hub.store.find(WorkflowRun, repository_id=call.repository.id))


def list_workflow_runs(call: Call) -> Page:
    return _listed(call, call.hub.store.find(WorkflowRun, workflow_id=_workflow(call).id))


def _listed(call: Call, found: list[WorkflowRun]) -> Page:
    query = call.query
    kept = [
        run
        for run in found
        if query.get("event") in (None, run.event)
        and query.get("branch") in (None, run.ref.removeprefix("refs/heads/"))
        and query.get("head_sha") in (None, run.head_sha)
        and query.get("status") in (None, run.status, run.conclusion)
        and _made_in(query.get("created"), run.created_at)
    ]
    return Page(kept[::-1], lambda run: shapes.workflow_run(call.hub, run), key="workflow_runs")


def _made_in(span: str | None, when: str) -> bool:
    """The two forms of a span that a client needs to find its run again: ``>=time`` and ``time..time``."""
    if span is None:
        return True
    if span.startswith(">="):
        return when >= span[2:]
    start, dots, end = span.partition("..")
    return start <= when <= end if dots else when.startswith(start)


def cancel(call: Call) -> Answer:
    run = call.own(WorkflowRun, "run_id")
    if run.status == "completed":
        raise Refused(409, "Cannot cancel a workflow run that is completed.")
    checks.finish_run(call.hub, run.id, "cancelled", {})
    return Answer({}, 202)


# ── artifacts ────────────────────────────────────────────────────────────────────────────────────────────────────


def list_artifacts(call: Call) -> Page:
    return _artifacts(call, call.hub.store.find(Artifact, repository_id=call.repository.id))


def list_run_artifacts(call: Call) -> Page:
    return _artifacts(call, call.hub.store.find(Artifact, run_id=call.own(WorkflowRun, "run_id").id))


def _artifacts(call: Call, found: list[Artifact]) -> Page:
    kept = [artifact for artifact in found if call.query.get("name") in (None, artifact.name)]
    return Page(kept[::-1], lambda artifact: shapes.artifact(call.hub, artifact), key="artifacts")


def get_artifact(call: Call) -> Answer:
    return Answer(shapes.artifact(call.hub, call.own(Artifact, "artifact_id")))


def download(call: Call) -> Answer:
    """Where the archive is: a link that is good for a minute and needs no token."""
    artifact = call.own(Artifact, "artifact_id")
    if call.path["archive_format"] != "zip":
        raise not_found()
    if artifact.expires_at < call.hub.stamp():
        raise Refused(410, "Artifact has expired")
    return Answer(status=302, headers={"location": checks.download_url(call.hub, artifact)})


OPERATIONS = (
    read(WORKFLOW, get_workflow, "actions"),
    write("POST", f"{WORKFLOW}/dispatches", dispatch, "actions"),
    read(f"{WORKFLOW}/runs", list_workflow_runs, "actions"),
    read(f"{ACTIONS}/runs", list_runs, "actions"),
    read(RUN, get_run, "actions"),
    write("POST", f"{RUN}/cancel", cancel, "actions"),
    read(f"{RUN}/artifacts", list_run_artifacts, "actions"),
    read(f"{ACTIONS}/artifacts", list_artifacts, "actions"),
    read(ARTIFACT, get_artifact, "actions"),
    read(f"{ARTIFACT}/{{archive_format}}", download, "actions"),
)
