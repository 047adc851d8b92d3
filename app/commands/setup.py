"""``graftsmith setup``: a GitHub App of one's own, by one button in the browser."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvicorn

from agent.errors import OperatorError, UserError
from agent.files import replace_file
from app.addresses import PUBLIC, GitHubAddresses, by_web, safe_url, web_url
from app.github import Access
from app.github.manifest import NewApp
from app.web import setup
from app.webhooks.policy import EVENTS

_OURS = ("APP_ID", "PRIVATE_KEY", "PRIVATE_KEY_PATH", "WEBHOOK_SECRET")


@click.command(name="setup")
@click.option("--url", required=True, help="Where GitHub will reach the service: https://YOUR-HOST")
@click.option("--organization", default="", help="Whose App it becomes; without it, your own.")
@click.option("--name", default="", help="What it is called, which GitHub asks too.  [default: graftsmith-YOUR-HOST]")
@click.option("--github", default=PUBLIC.web, show_default=True, help="Address of an Enterprise server.")
@click.option("--actions", is_flag=True, help="It may start workflows too (GRAFTSMITH_RUNNER=actions).")
@click.option("--workflows", is_flag=True, help="It may change files in .github/workflows too.")
@click.option(
    "--env-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(".env"),
    show_default=True,
    help="Where the settings go; the private key is put beside it.",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="Of the page; 0: any.")
@click.option("--page-url", default="", help="Where your browser reaches the page.  [default: http://localhost:PORT]")
def setup_command(
    url: str,
    organization: str,
    name: str,
    github: str,
    actions: bool,
    workflows: bool,
    env_file: Path,
    port: int,
    page_url: str,
) -> None:
    """Have GitHub make the App, with the right permissions, events and webhook, and keep its key.

    Opens a page on this machine with one button, which leads to GitHub. When the browser comes back from there, the
    private key and the settings are written, and nothing is left to copy. On a server, forward the port first:
    `ssh -L 8000:localhost:8000 SERVER`.
    """
    service_url, at = _address(web_url, url, "--url"), by_web(_address(safe_url, github, "--github"))
    key_file = env_file.with_name("graftsmith.pem").absolute()
    _check_free(env_file, key_file)
    with _listen(port) as listening:
        wish = setup.Wish(
            name=name or f"graftsmith-{urlsplit(service_url).hostname}",
            github=at,
            organization=organization,
            service_url=service_url,
            page_url=page_url.rstrip("/") or f"http://localhost:{listening.getsockname()[1]}",
            permissions=_permissions(actions=actions, workflows=workflows),
            events=sorted(EVENTS),
            files=f"{env_file}, {env_file.with_name(key_file.name)}",
        )
        made = _made(wish, listening, lambda app: _keep(env_file, key_file, at, app))
    click.echo(
        f"{made.slug} is there. Its settings are in {env_file}, its key in {key_file}.\n"
        f"1. Install it on your repositories: {made.html_url}/installations/new\n"
        f"2. Add OPENAI_API_KEY and OPENAI_MODEL to {env_file}.\n"
        "3. graftsmith doctor, then graftsmith serve"
    )


def _address(check: Callable[[str, str], str], value: str, option: str) -> str:
    try:
        return check(value, option)
    except ValueError as error:
        raise UserError(str(error)) from error


def _permissions(*, actions: bool, workflows: bool) -> Mapping[str, str]:
    writing = Access.WRITE_WORKFLOWS if workflows else Access.WRITE
    return {**writing.permissions, **(Access.ACTIONS.permissions if actions else {})}


def _made(wish: setup.Wish, listening: socket.socket, keep: Callable[[NewApp], None]) -> NewApp:
    """The App, once a person has had it made on the page, and it is kept.

    Raises:
        click.Abort: the person has ended this before.
    """
    made: list[NewApp] = []

    def keep_it(app: NewApp) -> None:
        keep(app)
        made.append(app)

    page = setup.application(wish, keep_it, lambda: setattr(server, "should_exit", True))
    server = uvicorn.Server(uvicorn.Config(page, log_config=None, access_log=False, lifespan="off"))
    click.echo(f"Open {wish.page_url}/ in your browser.")
    server.run(sockets=[listening])
    if not made:
        raise click.Abort
    return made[0]


def _check_free(env_file: Path, key_file: Path) -> None:
    """
    Raises:
        UserError: something of an App is there already, and would be lost.
    """
    text = env_file.read_text(encoding="utf-8") if env_file.exists() else ""
    known = [name for name in _OURS if re.search(rf"^\s*(?:export\s+)?{name}\s*=\s*\S", text, re.M)]
    there = f"{env_file} names {known[0]}" if known else f"{key_file} is there" if key_file.exists() else ""
    if there:
        raise UserError(f"{there} already", todo="Choose another --env-file, or put what is there aside")
    if not env_file.absolute().parent.is_dir():
        raise UserError(
            f"There is no folder {env_file.absolute().parent}", todo="Make it, or choose another --env-file"
        )


def _keep(env_file: Path, key_file: Path, at: GitHubAddresses, app: NewApp) -> None:
    """Write the key, and the settings after what the file holds already. Both are for their owner alone.

    Raises:
        OperatorError: they can't be written.
    """
    values = {"APP_ID": str(app.id), "PRIVATE_KEY_PATH": str(key_file), "WEBHOOK_SECRET": app.webhook_secret}
    if at != PUBLIC:
        values["GITHUB_API_URL"] = at.api
    lines = "".join(f"{name}={value}\n" for name, value in values.items())
    try:
        before = env_file.read_text(encoding="utf-8") if env_file.exists() else ""
        replace_file(key_file, app.pem.encode())
        replace_file(env_file, f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{lines}".encode())
    except OSError as error:
        raise OperatorError(
            f"The App {app.slug} (number {app.id}) is there, but its key can't be kept",
            why=error.strerror or str(error),
            todo=f"Make room, then generate another key and secret at {app.html_url}, or delete the App and begin anew",
        ) from error


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise OperatorError(
            f"Can't listen on 127.0.0.1, port {port}", why=error.strerror or str(error), todo="Choose another --port"
        ) from error
