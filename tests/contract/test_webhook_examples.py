"""GitHub's own example payloads through the whole intake: each ends as a job or as a named reason, none as an error."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.jobs.intake import Intake
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Word
from app.webhooks.endpoint import WebhookEndpoint
from app.webhooks.events import excerpt
from app.webhooks.policy import Rules, decide
from app.webhooks.signature import digest
from tests.support.fetch_descriptions import WEBHOOKS, Missing

pytestmark = pytest.mark.anyio

SECRET = b"a-webhook-secret"
Example = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    try:
        groups = json.loads(WEBHOOKS.path().read_bytes())
    except Missing as missing:
        pytest.skip(str(missing))
    return [(group["name"], example) for group in groups for example in group["examples"]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    yield store
    store.close()


async def deliver(store: JobStore, examples: list[Example], rules: Rules) -> list[dict[str, str]]:
    intake = Intake(store)
    endpoint = WebhookEndpoint(SECRET, rules, intake.accept)
    answers = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://hook") as client:
        for number, (event, payload) in enumerate(examples):
            body = json.dumps(payload).encode()
            headers = {
                "X-Hub-Signature-256": "sha256=" + digest(SECRET, body),
                "X-GitHub-Event": event,
                "X-GitHub-Delivery": f"example-{number:06d}",
                "Content-Type": "application/json",
            }
            response = await client.post("/webhooks", content=body, headers=headers)
            assert response.status_code == 202, (event, payload.get("action"), response.text)
            answers.append(response.json())
    await intake.close()
    return answers


async def test_every_example_ends_as_a_stop_or_a_named_reason(store: JobStore, examples: list[Example]) -> None:
    assert len(examples) == 329
    answers = await deliver(store, examples, Rules())
    reasons = Counter(answer.get("reason", "accepted").split(":")[0] for answer in answers)
    # None of them asks for work: no label of ours, no command. And none is malformed in our eyes.
    known = {"event not used", "no command in the comment", "another label", "a pull request of somebody else"}
    known |= {"a review that asks for nothing", "no installation"}
    assert set(reasons) == known | {"accepted"}
    assert sum(reasons.values()) == 329
    # What a person closes, deletes or transfers has to be stopped, should something run there.
    gone = ("closed", "deleted", "transferred")
    closed = [p for event, p in examples if event in ("issues", "pull_request") and p["action"] in gone]
    assert reasons["accepted"] == sum("installation" in payload for payload in closed)
    assert {job.command.word for job in store.recent()} == {Word.CLOSED}


async def test_examples_that_ask_become_jobs(store: JobStore, examples: list[Example]) -> None:
    """The same payloads, with the one thing changed that makes them ask."""
    asking: list[Example] = []
    for event, payload in examples:
        if event in ("issues", "pull_request") and payload["action"] in ("closed", "transferred"):
            asking.append((event, {**payload, "installation": {"id": 5}}))
        if event == "issues" and payload["action"] in ("labeled", "unlabeled"):
            label = {**payload["label"], "name": "agent"} if "label" in payload else {"name": "agent"}
            asking.append((event, {**payload, "label": label, "installation": {"id": 5}}))
        if event == "issue_comment" and payload["action"] == "created":
            comment = {**payload["comment"], "body": "/agent fix it"}
            asking.append((event, {**payload, "comment": comment, "installation": {"id": 5}}))
    answers = await deliver(store, asking, Rules())
    assert len(asking) >= 7
    assert {answer["status"] for answer in answers} == {"accepted"}
    assert len(store.recent()) == len(asking)


def test_an_example_with_any_one_field_missing_or_wrong_ends_as_a_command_or_a_reason(examples: list[Example]) -> None:
    used = [(event, payload) for event, payload in examples if payload.get("action") in USED.get(event, ())]
    tried = 0
    for event, payload in used:
        payload = copy.deepcopy({"installation": {"id": 5}, **payload})
        for text in ({"name": "agent"}, {"body": "/agent fix it"}):
            for part in (payload.get("label"), payload.get("comment"), payload.get("review")):
                (part or {}).update(text)
        for holder, key in list(_fields(payload, depth=3)):
            right = holder.pop(key)
            for wrong in (None, "x", 10**30, -1, [], {}, True, "\ud800"):
                decide(event, payload, Rules())
                excerpt(payload)
                holder[key] = wrong
                tried += 1
            holder[key] = right
    assert tried > 10_000, "nothing was raised"


USED = {
    "issues": ("labeled", "unlabeled", "closed", "deleted", "transferred"),
    "issue_comment": ("created",),
    "pull_request": ("synchronize", "closed", "labeled", "unlabeled"),
    "pull_request_review": ("submitted",),
    "pull_request_review_comment": ("created",),
}


def _fields(value: object, depth: int) -> Iterator[tuple[dict[str, Any], str]]:
    for key, below in value.items() if isinstance(value, dict) and depth else ():
        yield value, key
        yield from _fields(below, depth - 1)
