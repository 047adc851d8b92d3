"""The command line on a real checkout, with a scripted model."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.model.scripted import serve
from app.cli import cli
from tests.flow.world import FILES
from tests.support.repository import Repository

KEY = "provider-key-3f9a"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    error: BaseException | None


@dataclass(frozen=True)
class Desk:
    """Where a person sits: a checkout, a state folder, and the command line."""

    repository: Repository
    state: Path
    test: str
    """A command that runs the checkout's tests without any set-up."""

    def graftsmith(self, *arguments: str, model: str = "", typed: str = "", review: bool = False, **more: str) -> Ran:
        """Run a command.

        Args:
            review: whether accepted changes are read once more.
            model: base URL of the endpoint; none is set when empty.
            typed: what the person types.
            more: settings of our own, named without their prefix.
        """
        env = {"GRAFTSMITH_STATE_DIR": str(self.state), "OPENAI_BASE_URL": model or None}
        env["GRAFTSMITH_REVIEW"] = "yes" if review else "no"
        env |= {"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "scripted"} if model else {}
        env |= {f"GRAFTSMITH_{name.upper()}": value for name, value in more.items()}
        done = CliRunner().invoke(cli, list(arguments), env=env, input=typed, standalone_mode=False)
        code = done.return_value if isinstance(done.return_value, int) else 0
        return Ran(2 if done.exception else code, done.stdout, done.stderr, done.exception)

    @property
    def runs(self) -> list[Path]:
        """The folders of the runs so far, oldest first."""
        return sorted((self.state / "local").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)


@pytest.fixture
def desk(tmp_path: Path, interpreter: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for place in (tmp_path, *tmp_path.parents, interpreter.parents[1]):  # the sandbox's own user has to pass through
        if "pytest" in str(place):
            place.chmod(0o755)
    repository = Repository(tmp_path / "widget")
    repository.commit({name: text for name, text in FILES.items() if name != "requirements-dev.txt"})
    monkeypatch.chdir(repository.path)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield Desk(repository, tmp_path / "state", f"{interpreter} -m pytest")
    for number, handler in before.items():
        signal.signal(number, handler)


MakeModel = Callable[..., str]


@pytest.fixture
def scripted() -> Iterator[MakeModel]:
    """Serve the given steps as one conversation, and those of a review as another; gives the base URL."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(*steps: Mapping[str, Any], review: tuple[Mapping[str, Any], ...] = ()) -> str:
            sessions = [
                {"name": "review", "when": "# Review of this change", "steps": list(review)},
                {"name": "only", "steps": list(steps)},
            ]
            return stack.enter_context(serve({"sessions": sessions})).base_url

        yield make
