"""Check runs: what is shown beside a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.github.errors import NotFound
from app.github.models import CheckState
from app.github.place import Place
from app.report.check import Annotation, CheckRun


class Checks:
    """Those of our App in one repository."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def put(self, head_sha: str, check: CheckRun, *, known_id: int | None = None) -> int:
        """Make or update a job's check run on a commit; returns its id. No annotation is lost or doubled."""
        state = await self._check(head_sha, check, known_id)
        url = await self._place.url("/check-runs/{id}", id=state.id)
        batches = list(check.batches(state.annotations)) or [()]
        for position, batch in enumerate(batches):
            body = _output(check, batch)
            if position == len(batches) - 1:
                body |= {"status": "completed", "conclusion": check.conclusion}
            # Each update appends its annotations, so it is not repeated unseen.
            await self._place.api.send("PATCH", url, "update a check run", json=body, harmless=not batch)
        return state.id

    async def _check(self, head_sha: str, check: CheckRun, known_id: int | None) -> CheckState:
        async def find() -> CheckState | None:
            url = await self._place.url("/commits/{sha}/check-runs", sha=head_sha)
            found = await self._place.api.pages(
                url,
                "look for check runs",
                key="check_runs",
                check_name=check.name,
                filter="all",
                app_id=self._place.app_id,
            )
            states = [CheckState.model_validate(item) for item in found]
            return next((s for s in states if s.external_id == check.external_id), None)

        async def make() -> CheckState:
            body = {
                "name": check.name,
                "head_sha": head_sha,
                "external_id": check.external_id,
                "status": "in_progress",
                **_output(check, ()),
            }
            url = await self._place.url("/check-runs")
            return CheckState.model_validate(await self._place.api.send("POST", url, "make a check run", json=body))

        if known_id is not None:
            url = await self._place.url("/check-runs/{id}", id=known_id)
            try:
                return CheckState.model_validate(await self._place.api.get(url, "read a check run"))
            except NotFound:
                pass
        return await self._place.once(find, make)


def _output(check: CheckRun, batch: Sequence[Annotation]) -> dict[str, Any]:
    annotations = [
        {
            "path": a.path,
            "start_line": a.line,
            "end_line": a.line,
            "annotation_level": a.level,
            "title": a.title,
            "message": a.message,
        }
        for a in batch
    ]
    return {"output": {"title": check.title, "summary": check.summary, "annotations": annotations}}
