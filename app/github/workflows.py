"""Runs of workflows of GitHub Actions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from app.github.errors import Rejected
from app.github.models import WorkflowState
from app.github.place import Place


class Workflows:
    """Those of one repository."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def start(self, file: str, ref: str, inputs: Mapping[str, str]) -> int | None:
        """Start the workflow ``file`` on the branch ``ref``; the number of its run, where this GitHub tells it.

        Repeated after a lost answer it may start two runs: what they do has to bear that.
        """
        url = await self._place.url("/actions/workflows/{file}/dispatches", file=file)
        what, body = f"start the workflow {file}", {"ref": ref, "inputs": dict(inputs)}
        try:
            told = await self._place.api.send(
                "POST", url, what, json={**body, "return_run_details": True}, harmless=True
            )
        except Rejected as error:
            if "return_run_details" not in error.message:  # servers that do not know it yet
                raise
            told = await self._place.api.send("POST", url, what, json=body, harmless=True)
        return int(told["workflow_run_id"]) if told else None

    async def state(self, run_id: int) -> WorkflowState:
        url = await self._place.url("/actions/runs/{id}", id=run_id)
        return WorkflowState.model_validate(await self._place.api.get(url, "look at the workflow's run"))

    async def cancel(self, run_id: int) -> None:
        """Have GitHub end the run; one that has ended stays as it is."""
        url = await self._place.url("/actions/runs/{id}/cancel", id=run_id)
        with suppress(Rejected):
            await self._place.api.send("POST", url, "cancel the workflow's run", harmless=True)
