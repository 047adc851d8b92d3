"""`graftsmith setup`: a browser goes to GitHub and comes back, and a service can begin with what was written."""

from __future__ import annotations

import asyncio
import html
import re
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner

from app.cli import cli
from app.devhub.devhub import DevHub
from app.devhub.records import App
from app.github import Access, GitHubApp
from app.settings import Settings, load
from app.webhooks.policy import EVENTS
from tests.support import loopback
from tests.unit.app.test_cli import GRAFTSMITH


@contextmanager
def started(folder: Path, devhub: DevHub, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command, with the address of its page."""
    asked = ["--url", "https://graft.example.org/", "--github", devhub.url, "--port", "0", *more]
    process = subprocess.Popen(
        [GRAFTSMITH, "setup", *asked], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None, process.stdout.read()
        yield address[0], process
    finally:
        process.kill()
        process.wait()


def pressed(page: str) -> httpx.Response:
    """What a browser sends when the button is pressed, and GitHub's answer."""
    form = re.search(r'<form method="post" action="([^"]+)"', page)
    value = re.search(r'name="manifest" value="([^"]*)"', page)
    assert form is not None and value is not None, page
    return loopback.post(html.unescape(form[1]), data={"manifest": html.unescape(value[1])}, headers={"origin": "null"})


def read(url: str) -> httpx.Response:
    deadline = time.monotonic() + 30
    while True:
        try:
            return loopback.get(url)
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_one_button_makes_the_app_and_its_settings(
    devhub: DevHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = tmp_path / ".env"
    env.write_text("OPENAI_MODEL=scripted\nOPENAI_API_KEY=k")
    with started(tmp_path, devhub, "--name", "Our Smith", "--actions") as (url, process):
        begun = read(url)
        assert f"form-action 'self' {devhub.url}" in begun.headers["content-security-policy"]
        back = pressed(begun.text)
        assert back.status_code == 302
        done = read(back.headers["location"])
        assert done.status_code == 200 and f"{devhub.url}/apps/our-smith/installations/new" in done.text
        assert process.wait(30) == 0
        assert "our-smith is there" in process.stdout.read()  # type: ignore[union-attr]
    assert env.read_text().startswith("OPENAI_MODEL=scripted\nOPENAI_API_KEY=k\nAPP_ID=")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (".env", "graftsmith.pem")] == [0o600, 0o600]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    settings = load(Settings, env_file=env)
    app = GitHubApp(settings.app_id, settings.private_key.get_secret_value(), settings.github_api_url)

    async def number() -> int:
        made = await app.me()
        await app.aclose()
        return made.id

    assert asyncio.run(number()) == settings.app_id, "the key is the App's"
    registered = devhub.hub.store.get(App, settings.app_id)
    assert registered.webhook_url == "https://graft.example.org/webhooks"
    assert registered.webhook_secret == settings.webhook_secret.get_secret_value()
    assert set(registered.events) == EVENTS
    assert registered.permissions == {**Access.WRITE.permissions, "actions": "write"}


def test_who_was_not_sent_from_here_brings_nothing(devhub: DevHub, tmp_path: Path) -> None:
    with started(tmp_path, devhub) as (url, process):
        back = urlsplit(pressed(read(url).text).headers["location"])
        forged = read(f"{url}created?code=x&state=guess")
        assert (forged.status_code, "begin anew" in forged.text) == (403, True)
        state = dict(part.split("=") for part in back.query.split("&"))["state"]
        wrong = read(f"{url}created?code=0000&state={state}")
        assert (wrong.status_code, "does not tell its key" in wrong.text) == (502, True)
        assert process.poll() is None and not (tmp_path / ".env").exists()


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({".env": "APP_ID=1\n"}, "names APP_ID already"),
        ({".env": "A=1\nexport PRIVATE_KEY_PATH=x\n"}, "names PRIVATE_KEY_PATH already"),
        ({"graftsmith.pem": "key"}, "graftsmith.pem is there already"),
    ],
)
def test_nothing_of_an_app_is_written_over(there: dict[str, str], words: str, tmp_path: Path) -> None:
    for name, text in there.items():
        (tmp_path / name).write_text(text)
    asked = ["setup", "--url", "https://graft.example.org", "--env-file", str(tmp_path / ".env")]
    assert words in str(CliRunner().invoke(cli, asked).exception)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == there


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--url", "graft.example.org"], "--url must be a URL"),
        (["--url", "https://x", "--github", "ftp://y"], "--github must be a URL"),
        (["--url", "https://x", "--env-file", "/nowhere/at/all/.env"], "There is no folder /nowhere/at/all"),
    ],
)
def test_a_wrong_option_is_named(
    option: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in str(CliRunner().invoke(cli, ["setup", *option]).exception)


def test_a_port_that_is_taken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = CliRunner().invoke(cli, ["setup", "--url", "https://x", "--port", port])
    assert f"Can't listen on 127.0.0.1, port {port}" in str(found.exception)
