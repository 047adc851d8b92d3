"""Jobs for tests."""

from __future__ import annotations

import itertools
from typing import Any

from app.jobs.arrivals import Arrival
from app.jobs.store import JobStore
from app.jobs.types import Command, Delivery, Job, Word

_count = itertools.count(1)


def command(number: int = 1, word: Word = Word.FIX, **more: Any) -> Command:
    values = {
        "word": word,
        "text": word.value,
        "installation_id": 9,
        "repository_id": 42,
        "repository": "acme/widget",
        "number": number,
        "requester": "maintainer",
        "requester_id": 7,
        **more,
    }
    return Command.model_validate(values)


def arrival(asked: Command | None = None, *, delivery: str = "", job: str = "") -> Arrival:
    count = next(_count)
    guid = delivery or f"delivery-{count}"
    return Arrival.of(job or f"job-{count}", Delivery(id=guid, event="issues", excerpt=b"{}"), asked or command())


def add(store: JobStore, asked: Command | None = None) -> Job:
    (job_id,) = store.accept([arrival(asked)])
    assert isinstance(job_id, str)
    job = store.get(job_id)
    assert job is not None
    return job
