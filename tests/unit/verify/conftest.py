"""Small real repositories, tested for real in the sandbox."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agent.local import clone_local
from agent.tree import Draft
from agent.types import Commands, ModelEndpoint, RunSpec, Task
from agent.verify.environment import Machine
from agent.verify.harness import Harness
from agent.verify.registries import Registries
from agent.verify.toolchains import detect
from agent.workspace import Workspace
from sandbox import Limits, Sandbox, SandboxUnavailable, open_sandbox
from tests.support.package_index import Index
from tests.support.repository import Repository


class Recorder:
    """Events, kept in a list."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, kind: str, **data: Any) -> None:
        self.events.append({"kind": kind, **data})


class Bench:
    """A repository with its workspace and harness. The interpreter that runs this test runs the target's tests too."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        sandbox: Sandbox,
        files: Mapping[str, str | bytes],
        test: str = "",
        *,
        setup: tuple[str, ...] = (),
        local: bool = True,
        wall_s: float = 30.0,
        cache: Path | None = None,
        path: str = "",
        repository: str = "local",
        registries: Registries | None = None,
        ignored: Mapping[str, str] | None = None,
        node_modules: Path | None = None,
    ) -> None:
        self.repository = Repository(folder / "repo")
        self.repository.commit(files)
        self.repository.write(ignored or {})
        if node_modules is not None:
            shutil.copytree(node_modules, self.repository.path / "node_modules", symlinks=True)
        git_dir = folder / "base.git"
        self.spec = RunSpec(
            run_id="r1",
            task=Task(title="t"),
            git_dir=str(git_dir),
            base_sha=clone_local(self.repository.path, git_dir),
            view=str(self.repository.path) if local else "/workspace",
            origin=str(self.repository.path) if local else None,
            work_dir=str(folder / "work"),
            cache_dir=str(cache or folder / "cache"),
            commands=Commands(test=test, setup=setup),
            model=ModelEndpoint(base_url="http://127.0.0.1:9", api_key="k", model="m"),
            seed="s",
        )
        self.events = Recorder()
        self.workspace = stack.enter_context(Workspace.open(self.spec, sandbox))
        self.base = self.workspace.base.draft()
        self.plan = detect(self.workspace.base, self.spec.commands)
        self.harness = Harness(
            self.workspace,
            sandbox,
            self.plan,
            self.events,
            machine=Machine(path, registries or Registries({"PIP_NO_INDEX": "1"}), repository),
            limits=Limits(wall_s=wall_s),
        )
        stack.callback(self.harness.close)

    def draft(self, files: Mapping[str, str | bytes | None]) -> Draft:
        """The base with these files written, or deleted where there is nothing to write."""
        draft = self.base
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            draft = draft.without(path) if data is None else draft.with_file(path, data)
        return draft


MakeBench = Callable[..., Bench]


@contextmanager
def behind_a_link(sandbox: Sandbox, tools: str, files: Mapping[str, str | bytes], test: str = "") -> Iterator[Bench]:
    """A repository that tools may name in another way than we do: in a sandbox /var/tmp is a link to /tmp, and without
    namespaces the whole checkout is seen through one."""
    with TemporaryDirectory(dir="/var/tmp") as folder, ExitStack() as stack:
        Path(folder).chmod(0o755)
        yield Bench(Path(folder), stack, sandbox, files, test, path=tools)


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    try:
        return open_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tools(interpreter: Path) -> str:
    """A ``PATH`` that leads to Python with pytest, and to node where it is installed."""
    return f"{interpreter.parent}:/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox, tools: str) -> Iterator[MakeBench]:
    with ExitStack() as stack:

        def make(files: Mapping[str, str | bytes], test: str = "", **options: Any) -> Bench:
            folder = tmp_path_factory.mktemp("bench")
            return Bench(folder, stack, sandbox, files, test, **{"path": tools, **options})

        yield make


@pytest.fixture(scope="session")
def machine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for several tests, as a machine has one for all repositories: each must name a repository of its own."""
    return tmp_path_factory.mktemp("machine")


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    yield made
    made.close()
