"""A real sandbox of each kind that starts on this machine, and a look at what each test leaves behind."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from sandbox import cgroup
from sandbox.bubblewrap import Bubblewrap
from sandbox.container import ContainerFallback
from sandbox.errors import SandboxUnavailable
from sandbox.process import DEFAULT_PATH
from sandbox.toolchain import mounts_for
from sandbox.types import Cancelled, Command, Finished, Mount, Sandbox
from sandbox.users import processes_of

Kind = Bubblewrap | ContainerFallback
Opened = dict[str, Kind | SandboxUnavailable]
KINDS: dict[str, Callable[..., Kind]] = {
    "bubblewrap": Bubblewrap,
    "container-fallback": partial(ContainerFallback, "a test wants it"),
}
PLACE = Path(f"/graftsmith-test-{os.getpid()}")
Shell = Callable[..., Finished]


@pytest.fixture(scope="session")
def opened() -> Opened:
    return {name: _open(make) for name, make in KINDS.items()}


def _open(make: Callable[..., Kind]) -> Kind | SandboxUnavailable:
    try:
        return make()
    except SandboxUnavailable as error:
        return error


@pytest.fixture(params=list(KINDS))
def sandbox(request: pytest.FixtureRequest, opened: Opened) -> Sandbox:
    """Every kind in turn."""
    return usable(opened[request.param])


@pytest.fixture
def bubblewrap(opened: Opened) -> Sandbox:
    return usable(opened["bubblewrap"])


def usable(found: Kind | SandboxUnavailable) -> Kind:
    if isinstance(found, SandboxUnavailable):
        pytest.skip(str(found))
    return found


@pytest.fixture
def shell(sandbox: Sandbox) -> Shell:
    """Run one shell line in the sandbox."""

    def run(
        line: str,
        *,
        cwd: str = "/",
        cancelled: Cancelled | None = None,
        **facts: object,
    ) -> Finished:
        command = Command(("sh", "-c", line), cwd=cwd, **facts)  # type: ignore[arg-type]
        return sandbox.run(command, cancelled=cancelled)

    return run


@pytest.fixture(scope="session")
def python() -> tuple[str, tuple[Mount, ...]]:
    """An interpreter that works inside, and the mounts that it needs."""
    if system := shutil.which("python3", path=DEFAULT_PATH):
        return system, ()
    return sys.executable, mounts_for(sys.executable, "", None)[0]


@pytest.fixture
def script(sandbox: Sandbox, python: tuple[str, tuple[Mount, ...]]) -> Shell:
    """Run Python source in the sandbox."""

    def run(source: str, *arguments: str, cwd: str = "/", mounts: tuple[Mount, ...] = (), **facts: object) -> Finished:
        argv = (python[0], "-c", source, *arguments)
        return sandbox.run(Command(argv, cwd=cwd, mounts=(*python[1], *mounts), **facts))  # type: ignore[arg-type]

    return run


@pytest.fixture
def checkout(sandbox: Sandbox) -> Iterator[Mount]:
    """A writable folder at a place that exists on this machine only while a command runs."""
    # Not below pytest's own folder: that one is closed to other users, as ours must not be.
    folder = Path("/var/tmp", f"graftsmith-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    sandbox.own(folder)
    yield Mount(folder, f"{PLACE}/checkout", writable=True)
    sandbox.reclaim(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def users(opened: Opened) -> tuple[int, ...]:
    """The users of this machine that commands run as here, and nothing else."""
    found = (kind.user for kind in opened.values() if not isinstance(kind, SandboxUnavailable))
    return tuple(user for user in found if user is not None)


@pytest.fixture(scope="session")
def groups() -> tuple[Path, ...]:
    """Folders in which control groups are made."""
    place = cgroup.find()
    return place.folders if place else ()


@pytest.fixture(autouse=True)
def nothing_is_left(users: tuple[int, ...], groups: tuple[Path, ...]) -> Iterator[None]:
    """After each test: no process, mount, control group, folder, link or open file more than before."""
    before = _traces(users, groups)
    yield
    deadline = time.monotonic() + 30  # the kernel takes a moment to let go of what was killed
    while (left := _left(before, _traces(users, groups))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _left(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """What is more than before. Less may be: the collector closes what earlier tests of this process left open."""
    return {kind: more for kind in after if (more := after[kind] - before[kind])}


def _traces(users: tuple[int, ...], groups: tuple[Path, ...]) -> dict[str, set[str]]:
    folders = (*Path("/tmp").glob("graftsmith-home-*"), *Path("/dev/shm").iterdir())
    return {
        "processes": {str(pid) for user in users for pid in processes_of(user)},
        "mounts": {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " staging " in line},
        "groups": {str(left) for folder in groups for left in folder.glob(f"graftsmith-{os.getpid()}-*")},
        "folders": {str(folder) for folder in folders if _owner(folder) in users},
        "links": {str(PLACE)} if PLACE.exists() else set(),
        "files": {f"{number} {file}" for number, file in _open_files()},
    }


def _open_files() -> Iterator[tuple[str, str]]:
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # the listing's own
            yield entry.name, str(entry.readlink())


def _owner(folder: Path) -> int | None:
    """``None`` when it is gone: another worker's folder may go at any time."""
    try:
        return folder.stat().st_uid
    except FileNotFoundError:
        return None
