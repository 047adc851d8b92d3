"""What is chosen on machines that can do less. The tools of the system take away what this one could do."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandbox import SandboxBroken, SandboxUnavailable, doctor, process
from sandbox.container import ContainerFallback
from sandbox.types import Command, End, Finished, Mount
from sandbox.users import processes_of
from tests.unit.sandbox.conftest import Opened, usable

ROOT = Path(__file__).parents[3]
AS_NOBODY = ("setpriv", "--reuid=61500", "--regid=61500", "--clear-groups", "--")
# What root keeps in a container that is started without further words.
HIDE = 'mount --bind /dev/null $(readlink -f $(command -v bwrap)) && exec "$@"'
PLAIN_CONTAINER = (
    *("audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw"),
    *("setfcap", "setgid", "setpcap", "setuid", "sys_chroot"),
)
ASK = """
from sandbox import open_sandbox, SandboxUnavailable
from sandbox.types import Command, Limits
try:
    sandbox = open_sandbox()
except SandboxUnavailable as error:
    print("unavailable:", error)
else:
    line = "id -u; cat /proc/*/environ 2>/dev/null | grep -c sentinel; setsid sleep 71.25 & echo end"
    print(sandbox.isolation, sandbox.run(Command(("sh", "-c", line), cwd="/")).output.decode().split())
    hungry = "head -c 400000000 /dev/zero | tail -c 300000000 | sleep 60"
    print(sandbox.run(Command(("sh", "-c", hungry), cwd="/", limits=Limits(memory_bytes=100_000_000))).end)
"""
LEAVE = r"""
from sandbox import open_sandbox
from sandbox.egress.policy import Egress
from sandbox.types import Command
source = "import os, socket; host, port = os.environ['http_proxy'].removeprefix('http://').split(':'); "
source += r"s = socket.create_connection((host, int(port))); s.sendall(b'CONNECT a.invalid:1 HTTP/1.1\r\n\r\n'); "
source += "print(s.recv(12).decode())"
try:
    finished = open_sandbox().run(Command(("python3", "-c", source), cwd="/", egress=Egress()))
except Exception as error:
    print("unavailable:", error)
else:
    print(finished.output.decode(), *finished.refused)
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up what root has"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="util-linux is not installed"),
]


def _ask(*around: str, source: str = ASK) -> str:
    """Open a sandbox and use it, in a process that is restricted by the words around it."""
    env = {**process.CLEAN_ENV, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "SECRET": "sentinel"}
    return process.run([*around, _reachable_python(), "-c", source], env=env).output.decode()


def _reachable_python() -> str:
    """An interpreter that every user can start, new enough for us."""
    for python in (sys.executable, shutil.which("python3", path=process.DEFAULT_PATH)):
        # The shell in between starts it with nobody's rights: setpriv itself still has some of root's.
        as_nobody = (*AS_NOBODY, "sh", "-c", 'exec "$@"', "sh")
        check = "import json, sys; sys.exit(sys.version_info < (3, 11))"
        if python and process.run([*as_nobody, python, "-c", check]).ok:
            return python
    pytest.skip("no interpreter that another user could start")


def test_an_ordinary_user_gets_namespaces() -> None:
    answer = _ask(*AS_NOBODY)

    if answer.startswith("unavailable"):
        pytest.skip(answer)
    assert "name='bubblewrap', degraded=False" in answer
    assert "['1000', '0', 'end']" in answer
    assert answer.rstrip().endswith("out_of_memory")


def test_an_ordinary_user_that_nobody_has_entered_gets_a_way_out() -> None:
    answer = _ask(*AS_NOBODY, source=LEAVE)

    if "bubblewrap can't start" in answer:
        pytest.skip(answer)
    assert answer.startswith("HTTP/1.1 403")
    assert "a.invalid:1 was refused" in answer


def test_root_without_the_right_to_mount_gets_bubblewrap_all_the_same() -> None:
    kept = ",".join(f"+{capability}" for capability in PLAIN_CONTAINER)

    answer = _ask("setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all", "--")

    assert "name='bubblewrap', degraded=False" in answer
    assert answer.rstrip().endswith("out_of_memory")


def test_root_without_bubblewrap_gets_the_weaker_kind_and_is_told_why() -> None:
    answer = _ask("unshare", "--mount", "sh", "-c", HIDE, "sh")

    assert "name='container-fallback', degraded=True" in answer
    assert "bubblewrap is not installed" in answer
    assert "'0', 'end']" in answer
    assert answer.rstrip().endswith("out_of_memory")


def test_an_ordinary_user_without_bubblewrap_runs_nothing() -> None:
    answer = _ask("unshare", "--mount", "sh", "-c", HIDE, "sh", *AS_NOBODY)

    assert answer.startswith("unavailable: bubblewrap is not installed")
    assert "Install the package bubblewrap" in answer


def test_the_weaker_kind_says_that_it_is() -> None:
    isolation = ContainerFallback("that is why").isolation

    assert isolation.degraded
    assert isolation.detail.startswith("degraded: user ") and isolation.detail.endswith("that is why")


def test_the_doctor_finds_something_on_everything() -> None:
    checks = doctor.examine()

    assert [check.name for check in checks] == ["isolation", "bubblewrap", "memory limit", "Landlock", "git"]
    assert all(check.detail and (check.ok or check.todo) for check in checks)


def test_what_is_closed_to_the_user_of_commands_is_known_beforehand(opened: Opened, tmp_path: Path) -> None:
    """Behind a closed folder a mount leads there, where something can be mounted; what is closed itself stays so."""
    home = tmp_path / "home"
    for name, mode in (("open", 0o755), ("closed", 0o750)):
        (home / name).mkdir(parents=True)
        (home / name).chmod(mode)
    tmp_path.chmod(0o755), tmp_path.parent.chmod(0o755), home.chmod(0o750)
    sandbox = usable(opened["bubblewrap"])
    other = os.geteuid() == 0
    assert sandbox.closed(home / "open") is None
    assert sandbox.closed(home / "closed") == (home / "closed" if other else None)
    line = f"ls {home}/closed"
    seen = sandbox.run(Command(("sh", "-c", line), cwd="/", mounts=(Mount(home / "closed", f"{home}/closed"),))).ok
    assert seen is not other
    assert usable(opened["container-fallback"]).closed(home / "open") == home


def test_the_doctor_names_tools_that_tests_cannot_use(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("commands run as the user that owns them")
    tool = tmp_path / "tools/bin/python3"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (tmp_path / "tools/lib").mkdir()
    (tmp_path / "tools").chmod(0o700)

    *_, tools = doctor.examine(str(tool.parent))

    assert (tools.name, tools.ok, tools.needed) == ("tools", False, False)
    assert f"{tmp_path / 'tools'} is closed to others" in tools.detail
    assert "chmod o+rx" in tools.todo


def test_a_folder_behind_a_closed_one_is_named(tmp_path: Path) -> None:
    sandbox = ContainerFallback("a test wants it")
    closed = tmp_path / "closed"
    (closed / "state").mkdir(parents=True)
    closed.chmod(0o700)
    target = f"/graftsmith-test-closed-{os.getpid()}"
    with pytest.raises(SandboxUnavailable, match="can't reach"):
        sandbox.run(Command(("true",), cwd="/", mounts=(Mount(closed / "state", target),)))
    assert not os.path.lexists(target)


def test_a_link_left_by_a_killed_owner_does_not_stand_in_the_way(tmp_path: Path) -> None:
    sandbox = ContainerFallback("a test wants it")
    target = Path(f"/graftsmith-test-link-{os.getpid()}")
    target.symlink_to(tmp_path / "gone")
    source = Path("/var/tmp", f"graftsmith-test-link-{os.getpid()}")
    source.mkdir()
    try:
        finished = sandbox.run(Command(("ls", f"{target}/"), cwd="/", mounts=(Mount(source, str(target)),)))
        assert finished.ok
        assert not target.is_symlink()

        target.symlink_to(tmp_path)
        with pytest.raises(SandboxBroken, match="something else"):
            sandbox.run(Command(("true",), cwd="/", mounts=(Mount(source, str(target)),)))
        assert target.readlink() == tmp_path
    finally:
        source.rmdir()
        target.unlink(missing_ok=True)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that others may reach."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_two_commands_of_the_weaker_kind_show_different_files_at_one_place(shelf: Path) -> None:
    """As two jobs of one service do: they take turns."""
    target, said = f"/graftsmith-test-turns-{os.getpid()}", []
    for name in ("one", "two"):
        (shelf / name).mkdir()
        (shelf / name / "name").write_text(name)

    def show(name: str) -> None:
        command = Command(
            ("sh", "-c", f"cat {target}/name; sleep 0.2"), cwd=target, mounts=(Mount(shelf / name, target),)
        )
        said.append((name, ContainerFallback("a test wants it").run(command).output.decode()))

    threads = [threading.Thread(target=show, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [("one", "one"), ("two", "two")]

    waiting, over = ContainerFallback("a test wants it"), threading.Event()
    sandbox = ContainerFallback("a test wants it")
    mounts = (Mount(shelf / "one", target),)
    long = Command(("sleep", "60"), cwd="/", mounts=mounts)
    first = threading.Thread(target=lambda: sandbox.run(long, cancelled=over.is_set))
    first.start()
    try:
        while not processes_of(sandbox.user):
            time.sleep(0.01)
        assert waiting.run(Command(("true",), cwd="/"), cancelled=lambda: False).ok, "it shows nothing"
        assert waiting.run(replace(long, argv=("true",)), cancelled=lambda: True).end is End.CANCELLED
    finally:
        over.set()
        first.join()


def test_a_mount_over_an_empty_folder_of_a_mount_and_nowhere_else(shelf: Path) -> None:
    """What a command has made of the folder above leads nowhere."""
    sandbox = ContainerFallback("a test wants it")
    target = f"/graftsmith-test-over-{os.getpid()}"
    for name in ("tree/deep/over", "shown", "elsewhere"):
        (shelf / name).mkdir(parents=True)
    (shelf / "shown/file").write_text("seen")
    sandbox.own(shelf / "tree")
    mounts = (Mount(shelf / "tree", target, writable=True), Mount(shelf / "shown", f"{target}/deep/over"))

    def run(line: str) -> Finished:
        return sandbox.run(Command(("sh", "-c", line), cwd=target, mounts=mounts))

    assert run("cat deep/over/file").output == b"seen"
    assert list((shelf / "tree/deep/over").iterdir()) == []
    assert run(f"mv deep other; ln -s {shelf}/elsewhere deep").ok
    assert list((shelf / "elsewhere").iterdir()) == []
    with pytest.raises(SandboxBroken, match="leads elsewhere"):
        run("true")
    assert list((shelf / "elsewhere").iterdir()) == []
