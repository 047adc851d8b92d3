"""Short pauses, and a client for an address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.model.client import ModelClient
from agent.model.link import CallLimits
from agent.types import ModelEndpoint

KEY = "sk-secret-0123456789"
FAST = CallLimits(pause_s=0.01, longest_pause_s=0.05, read_s=5, connect_s=5, total_s=20)


@pytest.fixture
def client_for() -> Iterator[Callable[..., ModelClient]]:
    clients: list[ModelClient] = []

    def make(base_url: str, **options: Any) -> ModelClient:
        options.setdefault("limits", FAST)
        clients.append(ModelClient(ModelEndpoint(base_url=base_url, api_key=KEY, model="m"), **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
