"""Check runs and workflow runs: made and ended, told to the Apps."""

from __future__ import annotations

import hashlib
import hmac
import io
import zipfile
from collections.abc import Mapping

from app.devhub.events import announce
from app.devhub.gitobjects import seconds, stamp
from app.devhub.hub import Hub
from app.devhub.records import Artifact, CheckRun, Repository, User, Workflow, WorkflowRun
from app.devhub.shapes import checks as shapes
from app.devhub.shapes.accounts import Json

DOWNLOADS = "/_devhub/artifacts/"
LINK_SECONDS = 60

ARTIFACT_DAYS = 90


def tell(hub: Hub, run: CheckRun, sender: User, action: str) -> None:
    """Announce a check run; only the App that made it is told of ``created`` ones on GitHub, others see no harm."""
    repository = hub.store.get(Repository, run.repository_id)
    announce(hub, "check_run", action, repository, sender, lambda: {"check_run": shapes.check_run(hub, run)})


def tell_run(hub: Hub, run: WorkflowRun, action: str) -> None:
    repository = hub.store.get(Repository, run.repository_id)

    def about() -> Json:
        workflow = hub.store.get(Workflow, run.workflow_id)
        return {"workflow": shapes.workflow(hub, workflow), "workflow_run": shapes.workflow_run(hub, run)}

    announce(hub, "workflow_run", action, repository, hub.store.get(User, run.user_id), about)


def download_url(hub: Hub, artifact: Artifact) -> str:
    """A link to the archive for a minute; whoever has it may use it."""
    until = int(hub.clock.now()) + LINK_SECONDS
    return hub.web(f"{DOWNLOADS}{artifact.id}?until={until}&key={_link_key(hub, artifact, until)}")


def downloaded(hub: Hub, id: int, until: int, key: str) -> Artifact | None:
    """The artifact behind such a link, while it is good."""
    artifact = hub.store.first(Artifact, id=id)
    if artifact is None or until < hub.clock.now():
        return None
    return artifact if hmac.compare_digest(_link_key(hub, artifact, until), key) else None


def _link_key(hub: Hub, artifact: Artifact, until: int) -> str:
    return hmac.new(hub.secret, f"{artifact.id}:{until}".encode(), hashlib.sha256).hexdigest()


def finish_run(hub: Hub, run_id: int, conclusion: str, artifacts: Mapping[str, Mapping[str, bytes]]) -> list[Artifact]:
    """End a run with its artifacts, each a set of files."""
    run = hub.store.get(WorkflowRun, run_id)
    made = [hub.store.add(_artifact(hub, run, name, files)) for name, files in artifacts.items()]
    run = hub.store.change(run, status="completed", conclusion=conclusion, updated_at=hub.stamp())
    tell_run(hub, run, "completed")
    return made


def _artifact(hub: Hub, run: WorkflowRun, name: str, files: Mapping[str, bytes]) -> Artifact:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    now = hub.stamp()
    return Artifact(
        repository_id=run.repository_id,
        run_id=run.id,
        name=name,
        content=buffer.getvalue(),
        digest="sha256:" + hashlib.sha256(buffer.getvalue()).hexdigest(),
        created_at=now,
        expires_at=stamp(seconds(now) + ARTIFACT_DAYS * 86_400),
    )
