"""Puts the server together from the settings; the only place that knows every part."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import IO

from starlette.types import ASGIApp

from agent import secrets as secret_shapes
from agent.budget import load_prices
from app import housekeeping, server
from app.aging import DAY_S
from app.github import GitHubApp, WorkflowTokens
from app.jobs.durable import claim_identity
from app.jobs.executor import Executor
from app.jobs.room import Room
from app.jobs.store import JobStore
from app.jobs.tables import database_url
from app.llm.endpoint import Gateway, GatewayConfig
from app.llm.endpoint import routes as llm_routes
from app.llm.ledger import RunMeters
from app.machine import this_machine
from app.runners.actions import ActionsRunner
from app.runners.door import Door
from app.runners.local import LocalRunner
from app.settings import Settings
from app.steps import Files, GitHubSteps, Runs, Site
from app.webhooks.policy import Rules


@dataclass(frozen=True)
class Service:
    """A server that is put together and not started."""

    app: ASGIApp
    store: JobStore
    lock: IO[bytes]
    """Open as long as this process is one of the workers."""
    github: GitHubApp


def build(settings: Settings, *, port: int) -> Service:
    """The whole service.

    Args:
        port: where this server will listen; runs reach the model endpoint there.

    Raises:
        OperatorError: the state folder, the key, the price file or the database can't be used.
    """
    root, days = settings.state_dir, settings.keep_days
    identity, lock = claim_identity(root / "workers")
    store = JobStore(
        database_url(settings.database_url, root, "jobs"),
        room=Room(settings.max_waiting, settings.max_waiting_per_person),
    )
    meters = RunMeters(load_prices(settings.prices))
    token_secret = secrets.token_urlsafe(48)
    gateway = _gateway(settings, meters, token_secret)
    files = Files(root)
    files.prepare()
    site = Site(settings, github_app(settings), store, files)
    model_url = f"http://127.0.0.1:{port}/llm/v1"
    door = _door(settings)
    runs = Runs(
        site,
        machine=this_machine(settings),
        questions=LocalRunner(model_url, sandbox=False),
        runner=_actions(settings, site, door) if door else LocalRunner(model_url),
        meters=meters,
        token_secret=token_secret,
    )
    executor = Executor(
        store,
        GitHubSteps(site, runs),
        database_url=database_url(settings.database_url, root, "dbos"),
        identity=identity,
        concurrency=settings.concurrency,
    )
    app = server.build(
        webhook_secret=settings.webhook_secret.get_secret_value().encode(),
        rules=Rules(label=settings.label, allowed_bots=settings.allowed_bots, app_id=settings.app_id),
        store=store,
        executor=executor,
        routes=(*llm_routes(gateway), *(door.routes() if door else ())),
        on_close=gateway.aclose,
        beside=(partial(housekeeping.forever, store, site.files, days * DAY_S),) if days else (),
    )
    return Service(app, store, lock, site.github)


def github_app(settings: Settings) -> GitHubApp:
    """The App that the settings name."""
    return GitHubApp(
        settings.app_id,
        settings.private_key.get_secret_value(),
        settings.github_api_url,
        redact=partial(secret_shapes.redact, sentinels=settings.secrets),
    )


def _door(settings: Settings) -> Door | None:
    """Where runs are fetched; ``None`` where all are carried out on this machine."""
    if settings.runner != "actions":
        return None
    return Door(WorkflowTokens(settings.github.issuer, settings.required_public_url))


def _actions(settings: Settings, site: Site, door: Door) -> ActionsRunner:
    return ActionsRunner(site.github, door, public_url=settings.required_public_url, workflow=settings.workflow)


def _gateway(settings: Settings, meters: RunMeters, token_secret: str) -> Gateway:
    config = GatewayConfig(
        base_url=settings.openai_base_url,
        api_key=settings.openai_api_key.get_secret_value(),
        models=settings.models,
        token_secret=token_secret,
        embedding=settings.embeddings,
    )
    return Gateway(config, meters, meters)
