"""``graftsmith devhub``: what its first start makes can be used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.commands.devhub import devhub_command, furnish
from app.devhub.devhub import DevHub
from app.github import GitHubApp
from app.settings import Settings, load


def test_the_app_of_the_first_start_can_be_served(
    devhub: DevHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".env"
    furnish(devhub, file, "http://127.0.0.1:8000/webhooks")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_MODEL", "any")
    settings = load(Settings, env_file=file)
    app = GitHubApp(settings.app_id, settings.private_key.get_secret_value(), settings.github_api_url)
    repo = devhub.repository("acme/ledger")
    assert "ledger/split.py" in repo.files()
    (told,) = devhub.deliveries("installation")
    assert told.installation_id is not None

    async def seen(installation: int) -> str:
        try:
            return (await app.repository(installation, repo.id).facts()).full_name
        finally:
            await app.aclose()

    assert asyncio.run(seen(told.installation_id)) == "acme/ledger"


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_a_usage_error(port: str) -> None:
    result = CliRunner().invoke(devhub_command, ["--port", port])
    assert result.exit_code == 2 and "--port" in result.output
