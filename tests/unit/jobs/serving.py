"""A real server in a process of its own, with steps that leave their traces in a folder, to be killed at any moment.

The folder plays the outside world: what a step makes there outlives the process, and a repeated step finds it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import time
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import uvicorn

from agent.types import Outcome
from app.jobs.durable import claim_identity
from app.jobs.executor import Executor, Pace
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Artefacts, Ending
from app.jobs.workflow import Halted, Patience, Work
from app.server import build
from app.webhooks.policy import Rules

SECRET = b"a-webhook-secret"
PACE = Pace(lease=1.5, monitor=0.05, sweep=0.2)


class FolderSteps:
    """Each step notes that it began, takes a moment, checks its lease, and makes its thing once.

    Args:
        world: the folder.
        hold: with a file ``hold`` there, a run waits for a file ``go``.
    """

    def __init__(self, world: Path, most_s: float) -> None:
        self._world = world
        self._most_s = most_s

    async def authorise(self, work: Work) -> Ending | None:
        await self._moment()
        return None

    async def acknowledge(self, work: Work) -> Ending | None:
        number = work.job.artefacts.comment_id or await self._once(work, "comment")
        await work.save(artefacts=work.job.artefacts.model_copy(update={"comment_id": number}))
        return None

    async def prepare(self, work: Work) -> Ending | None:
        await self._moment()
        return None

    async def run(self, work: Work) -> Ending | None:
        self.note(work, "run begins")
        await self._moment()
        while (self._world / "hold").exists() and not (self._world / "go").exists():
            if work.cancelled():
                raise Halted
            await asyncio.sleep(0.01)
        self.note(work, "run ends")
        return None

    async def publish(self, work: Work) -> Ending | None:
        number = await self._once(work, "pull")
        artefacts = Artefacts(**{**work.job.artefacts.model_dump(), "pull_number": number})
        await work.save(artefacts=artefacts)
        return Ending(outcome=Outcome.PROPOSED, reason=f"pull request {number}")

    async def take_back(self, work: Work) -> Ending | None:
        return None

    async def undo(self, work: Work) -> Ending | None:
        return None

    async def close_out(self, work: Work, ending: Ending) -> None:
        await self._moment()
        await work.check()
        (self._world / f"told-{work.job.id}").write_text(ending.reason)
        self.note(work, "told")

    def let_go(self, work: Work) -> None:
        pass

    async def _moment(self) -> None:
        await asyncio.sleep(random.uniform(0, self._most_s))

    async def _once(self, work: Work, kind: str) -> int:
        """Make a thing of the outside world, unless an earlier life did."""
        await self._moment()
        await work.check()
        number = number_of(self._world, work.job.id, kind)
        if number is None:
            number = random.randrange(1, 10**9)
            self.note(work, f"{kind} made", number)
        await self._moment()
        return number

    def note(self, work: Work, what: str, number: int = 0) -> None:
        """One write, so that it happens or does not, whenever we are killed."""
        line = {
            "pid": os.getpid(),
            "job": work.job.id,
            "issue": work.job.command.number,
            "what": what,
            "number": number,
            "at": time.time(),
        }
        with (self._world / "log").open("a") as log:
            log.write(json.dumps(line) + "\n")


def read_log(world: Path) -> list[dict[str, Any]]:
    log = world / "log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def number_of(world: Path, job_id: str, kind: str) -> int | None:
    """Of the thing that a job has made in the outside world; ``None`` before."""
    made = (line["number"] for line in read_log(world) if (line["job"], line["what"]) == (job_id, f"{kind} made"))
    return next(made, None)


def open_parts(state: Path, world: Path, most_s: float, store: JobStore) -> Executor:
    identity, lock = claim_identity(state / "workers")
    executor = Executor(
        store,
        FolderSteps(world, most_s),
        database_url=sqlite_url(state / "dbos.sqlite"),
        identity=identity,
        concurrency=4,
        pace=PACE,
        patience=Patience(tries=3, first_s=0.01),
    )
    executor.lock = lock  # type: ignore[attr-defined]  # held for as long as the executor lives
    return executor


def run_server(state: Path, world: Path, most_s: float, listening: socket.socket) -> None:
    """The body of a server process."""
    store = JobStore(sqlite_url(state / "jobs.sqlite"))
    executor = open_parts(state, world, most_s, store)
    app = build(webhook_secret=SECRET, rules=Rules(), store=store, executor=executor, drain_s=0.1)
    config = uvicorn.Config(app, access_log=False, log_config=None, lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def start_server(state: Path, world: Path, listening: socket.socket, most_s: float = 0.05) -> ForkServerProcess:
    """A server on ``listening``, which outlives it: meanwhile connections wait."""
    context = get_context("forkserver")  # modules are loaded once, so that a restart costs little
    context.set_forkserver_preload(["tests.unit.jobs.serving"])
    process = context.Process(target=run_server, args=(state, world, most_s, listening), daemon=True)
    process.start()
    return process


def listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=100)
