"""What a command can and can't do, in every kind of sandbox."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox import cgroup, open_sandbox, process
from sandbox.bubblewrap import Bubblewrap
from sandbox.container import ContainerFallback
from sandbox.egress.policy import Egress
from sandbox.errors import SandboxBroken, SandboxUnavailable
from sandbox.types import Command, End, Limits, Mount, Sandbox
from sandbox.users import processes_of
from tests.unit.sandbox.conftest import KINDS, Kind, Opened, Shell, usable

MIB = 1024 * 1024
ROOT = Path(__file__).parents[3]
# Tries each call and prints one line for each that succeeds.
TRY = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, call):
    try:
        found = call()
    except OSError:
        return
    if found != -1:
        print('POSSIBLE', name, found)
"""


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["Bubblewrap()", "ContainerFallback('a test')"])
def test_no_secret_of_ours_is_anywhere_inside(kind: str, tmp_path: Path) -> None:
    """In a process that has had the secret in its environment and in its arguments from the start, and in the files of
    its home where programs look for one; and which is careless with its files and its memory."""
    for name in (".netrc", ".git-credentials", ".npmrc", ".pypirc"):
        (tmp_path / name).write_text("https://user:sentinel-7f3a@github.com\n")
    (tmp_path / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    source = f"""
import os, resource
os.umask(0o007)
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
if os.geteuid() == 0:
    os.setgroups([4242])
from sandbox.bubblewrap import Bubblewrap
from sandbox.container import ContainerFallback
from sandbox.errors import SandboxUnavailable
from sandbox.types import Command
try:
    sandbox = {kind}
except SandboxUnavailable as error:
    print("unavailable", error)
else:
    line = "env; cat /proc/*/environ /proc/*/task/*/environ 2>/dev/null; cd; cat .netrc .git* .npmrc .pypirc; "
    line += "git config -l; printf 'url=https://github.com\\n' | GIT_ASKPASS=true git credential fill; "
    line += "umask; ulimit -c; id -G; echo end"
    print(sandbox.run(Command(("sh", "-c", line), cwd="/")).output.decode())
"""
    env = {**process.CLEAN_ENV, "PYTHONPATH": str(ROOT), "SECRET": "sentinel-7f3a", "HOME": str(tmp_path)}

    finished = process.run([sys.executable, "-c", source], env=env)

    if finished.output.startswith(b"unavailable"):
        pytest.skip(finished.output.decode())
    assert b"HOME=" in finished.output
    assert finished.output.rstrip().endswith(b"end")
    assert b"sentinel-7f3a" not in finished.output
    assert re.search(rb"\n0022\n0\n\d+( 65534)?\nend", finished.output)
    assert os.geteuid() or b"65534" not in finished.output, "only root can leave groups"


def test_other_processes_are_out_of_reach(script: Shell) -> None:
    finished = script(
        TRY
        + """
host, parent = int(sys.argv[1]), os.getppid()
buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
attempt('attach', lambda: libc.ptrace(16, host, 0, 0))
attempt('read memory', lambda: libc.process_vm_readv(host, vector, 1, vector, 1, 0))
attempt('memory file', lambda: open(f'/proc/{host}/mem', 'rb').fileno())
attempt('files', lambda: os.listdir(f'/proc/{host}/fd'))
attempt('signal', lambda: os.kill(host, 0))
""",
        str(os.getpid()),
    )

    assert finished.ok, finished.output
    assert finished.output == b""


def test_the_files_of_people_are_out_of_reach(shell: Shell, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sentinel")
    tmp_path.chmod(0o755)
    secret.chmod(0o644)
    homes = "/root /home/* ~/.ssh ~/.netrc ~/.docker ~/.aws ~/.config"

    finished = shell(
        f"for file in {secret} /etc/shadow /etc/gitconfig /etc/pip.conf; do cat $file; done 2>/dev/null; "
        f"ls -A {homes} 2>/dev/null | grep -v : ; git config --list 2>/dev/null; echo end"
    )

    assert [line for line in finished.output.split() if line != b"sandbox"] == [b"end"]


def test_sockets_of_this_machine_are_out_of_reach(script: Shell, tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as letters,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        path, name = str(Path("/var/tmp", f"graftsmith-test-{os.getpid()}.sock")), f"\0graftsmith-test-{os.getpid()}"
        by_path.bind(path), abstract.bind(name), letters.bind(f"{path}-letters")
        Path(path).chmod(0o777), Path(f"{path}-letters").chmod(0o777)
        by_path.listen(), abstract.listen()
        try:
            finished = script(
                TRY
                + """
def reach(family, address):
    with socket.socket(family) as client:
        return client.connect(address) or 'reached'
attempt('path', lambda: reach(socket.AF_UNIX, sys.argv[1]))
attempt('abstract', lambda: reach(socket.AF_UNIX, '\\0' + sys.argv[2]))
# An end of a pair is a socket that could have been made by no other call, and a datagram names its receiver.
attempt('pair', lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', f'{sys.argv[1]}-letters'))
attempt('tcp', lambda: reach(socket.AF_INET, ('127.0.0.1', int(sys.argv[3]))))
for known in ('/run/docker.sock', '/var/run/docker.sock', '/run/dbus/system_bus_socket', '/tmp/.X11-unix/X0'):
    attempt(known, lambda: reach(socket.AF_UNIX, known))
print('end')
""",
                path,
                name[1:],
                str(tcp.getsockname()[1]),
            )
        finally:
            Path(path).unlink(), Path(f"{path}-letters").unlink()

    assert finished.output == b"end\n"


def test_a_set_up_with_a_way_out_does_not_reach_abstract_sockets(script: Shell) -> None:
    with socket.socket(socket.AF_UNIX) as abstract:
        name = f"graftsmith-test-{os.getpid()}"
        abstract.bind("\0" + name), abstract.listen()

        finished = script(
            TRY
            + """
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]) or 'reached')
socket.socket(socket.AF_INET).close()
print('end')
""",
            name,
            egress=Egress(),
        )

    assert finished.output == b"end\n"


def test_a_command_starts_with_no_signal_ignored(shell: Shell) -> None:
    assert shell("grep SigIgn /proc/self/status").output.split()[-1].strip(b"0") == b""


# Numbers on x86_64 and aarch64. Where nothing but a missing right stood in the way, most would fail otherwise, or not.
CLOSED = {
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "mount": (165, 40),
    "umount2": (166, 39),
    "fsopen": (430, 430),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_by_handle_at": (304, 265),
    "syslog": (103, 116),
    "quotactl": (179, 60),
}
ALONE = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
"""Closed where no namespace hides what else runs here."""


def test_the_rarely_used_parts_of_the_kernel_are_closed(sandbox: Kind, script: Shell) -> None:
    closed = CLOSED if isinstance(sandbox, Bubblewrap) else {**CLOSED, **ALONE}
    finished = script(
        f"""
import ctypes, errno, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
column = ('x86_64', 'aarch64').index(platform.machine())
def refusal(number, *arguments):
    ctypes.set_errno(0)
    # Two of them, and not none: where a call is let through, this is wrong in another way than by right.
    return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(number, *arguments) == -1 else 'nothing'
for name, numbers in {closed}.items():
    if (found := refusal(numbers[column], 0, 0, 0, 0, 0)) != 'EPERM':
        print('open:', name, found)
if (found := refusal((56, 220)[column], 0x10000000 | 17, 0, 0, 0, 0)) != 'EPERM':
    print('new user namespace:', found)
if (found := refusal((16, 29)[column], 0, 0x5412, 0)) != 'EPERM':
    print('typing into a terminal:', found)
print(refusal(425, 0, 0), refusal(435, 0, 0))
status = open('/proc/self/status').read()
print(*(line for line in status.splitlines() if line.startswith(('CapEff', 'CapPrm', 'NoNewPrivs', 'Groups'))))
"""
    )

    groups, rest = finished.output.split(b"Groups:")[1].split(b"CapPrm:")
    assert finished.output.startswith(b"ENOSYS ENOSYS\n"), finished.output
    assert rest.split() == b"0000000000000000 CapEff: 0000000000000000 NoNewPrivs: 1".split()
    assert not groups.split() or sandbox.user is None  # only root can leave groups


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it has no calls of an older kind")
def test_calls_of_an_older_kind_end_the_command(script: Shell) -> None:
    source = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex('b814000000cd80c3'))  # its number of getpid; int 0x80
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""
    assert script(source).signal in (31, 11)  # SIGSYS; SIGSEGV where the kernel itself knows none of them


def test_nothing_of_this_machine_is_named_inside(bubblewrap: Sandbox, python: tuple[str, tuple[Mount, ...]]) -> None:
    kinds = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    source = f"""
import os, socket
print(*(os.stat(f'/proc/self/ns/{{kind}}').st_ino for kind in {kinds}))
mounts = [line.split() for line in open('/proc/self/mountinfo')]
print(*(fields[4] for fields in mounts if fields[5].startswith('rw') and not fields[4].startswith('/dev/')))
print(*(fields[4] for fields in mounts if fields[4].startswith(('/run', '/var', '/home', '/root', '/mnt'))))
print(socket.gethostname(), os.getsid(0) > 0, len([name for name in os.listdir('/proc') if name.isdigit()]) < 5)
"""
    finished = bubblewrap.run(Command((python[0], "-c", source), cwd="/", mounts=python[1]))

    inside, writable, private, facts = finished.output.decode().splitlines()
    ours = [str(Path(f"/proc/self/ns/{kind}").stat().st_ino) for kind in kinds]
    assert not [kind for kind, here, there in zip(kinds, ours, inside.split(), strict=True) if here == there]
    assert facts == "sandbox True True"
    assert (writable, private) == ("/proc /tmp /home/sandbox", "/home/sandbox")


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "what", ["os.fork() or time.sleep(60)", "threading.Thread(target=time.sleep, args=(60,)).start()"]
)
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_bomb_is_contained(
    kind: str, opened: Opened, python: tuple[str, tuple[Mount, ...]], what: str, grouped: bool
) -> None:
    usable(opened[kind])
    bounds: set[str] = set()
    source = f"""
import os, threading, time
made = 0
try:
    for made in range(5000):
        {what}
except (OSError, RuntimeError):
    print('stopped at', made, flush=True)
time.sleep(0.2)  # to be looked at
os._exit(0)
"""
    place = cgroup.find() if grouped else None
    command = Command((python[0], "-c", source), cwd="/", mounts=python[1], limits=Limits(wall_s=20, pids=64))

    def look() -> bool:
        for folder in place.folders if place else ():
            bounds.update(file.read_text() for file in folder.glob(f"graftsmith-{os.getpid()}-*/pids.max"))
        return False

    finished = KINDS[kind](groups=grouped).run(command, cancelled=look)

    assert finished.output.startswith(b"stopped at ")
    assert int(finished.output.split()[2]) <= 80
    assert len(bounds) == bool(place) and not {"max\n"} & bounds, "of all its processes together"


def test_an_endless_fork_bomb_ends_with_the_time(script: Shell) -> None:
    source = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"

    finished = script(source, limits=Limits(wall_s=1, pids=64))

    assert finished.end is End.TIMED_OUT


@pytest.mark.parametrize("place", ["heap", "children", "/dev/shm"])
def test_too_much_memory_has_a_name(script: Shell, place: str) -> None:
    source = """
import os, sys, time
if sys.argv[1] == 'heap':
    kept = [bytearray(10_000_000) for _ in range(100)]
elif sys.argv[1] == 'children':
    for _ in range(20):
        if not os.fork():
            kept = bytearray(50_000_000); time.sleep(60)
    os.wait(); sys.exit(1)
else:
    with open(sys.argv[1] + '/big', 'wb') as file:
        for _ in range(100): file.write(bytes(10_000_000))
"""
    finished = script(source, place, limits=Limits(wall_s=30, memory_bytes=100 * MIB, tmp_bytes=2000 * MIB))

    assert finished.end is End.OUT_OF_MEMORY


@pytest.mark.parametrize("kind", list(KINDS))
def test_memory_is_watched_where_the_kernel_does_not_count_it(
    kind: str, opened: Opened, python: tuple[str, tuple[Mount, ...]]
) -> None:
    usable(opened[kind])
    source = "import time; kept = [bytearray(10_000_000) for _ in range(40)]; time.sleep(60)"
    limits = Limits(wall_s=30, memory_bytes=100 * MIB)
    sandbox = KINDS[kind](groups=False)

    finished = sandbox.run(Command((python[0], "-c", source), cwd="/", mounts=python[1], limits=limits))

    assert finished.end is End.OUT_OF_MEMORY


@pytest.mark.parametrize("size", ["1000000", "0"])
def test_room_on_the_disk_is_left_for_others(sandbox: Sandbox, shell: Shell, checkout: Mount, size: str) -> None:
    disk = os.statvfs(checkout.source)
    if not disk.f_favail and size == "0":
        pytest.skip("this disk does not count its files")
    limits = Limits(
        wall_s=200, spare_bytes=disk.f_bavail * disk.f_frsize - 40 * MIB, spare_files=max(0, disk.f_favail - 2_000)
    )
    line = f"while head -c {size} /dev/zero >> many-$((number += 1)); do :; done; sleep 200"

    finished = shell(line, cwd=checkout.target, mounts=(checkout,), limits=limits)

    assert finished.end is End.OUT_OF_ROOM
    sandbox.reclaim(checkout.source)
    assert sum(path.stat().st_size for path in checkout.source.iterdir()) < 2_000 * MIB


def test_a_disk_that_is_nearly_full_already_still_takes_small_files(shell: Shell, checkout: Mount) -> None:
    limits = Limits(spare_bytes=shutil.disk_usage(checkout.source).free * 2, spare_files=2**60)

    finished = shell("echo x > small", cwd=checkout.target, mounts=(checkout,), limits=limits)

    assert finished.ok


def test_one_file_and_all_temporary_files_have_a_size(bubblewrap: Sandbox, shell: Shell) -> None:
    big = shell("head -c 20000000 /dev/zero > $TMPDIR/big", limits=Limits(file_bytes=1 * MIB))
    line = "head -c 9000000 /dev/zero > ~/a; head -c 9000000 /dev/zero > /tmp/b"
    many = bubblewrap.run(Command(("sh", "-c", line), cwd="/", limits=Limits(tmp_bytes=4 * MIB)))

    assert not big.ok
    assert many.output.count(b"No space left") == 2


@pytest.mark.parametrize(
    "line", ["while :; do :; done", "sleep 64.25", "kill -STOP $$", "trap '' TERM INT; sleep 64.25"]
)
def test_the_time_limit_holds_whatever_the_command_does(shell: Shell, line: str) -> None:
    finished = shell(line, limits=Limits(wall_s=0.4))

    assert finished.end is End.TIMED_OUT
    assert 0.4 <= finished.seconds < 60


def test_processor_time_has_a_limit(shell: Shell) -> None:
    assert shell("while :; do :; done", limits=Limits(cpu_s=1, wall_s=60)).end is End.TIMED_OUT


def test_a_command_starts_within_its_limits(shell: Shell) -> None:
    line = "ulimit -t; ulimit -c; umask; cat /proc/self/oom_score_adj; echo $(ls /proc/self/fd)"

    finished = shell(line, limits=Limits(cpu_s=7))

    assert finished.output.split() == b"7 0 0022 1000 0 1 2 3".split(), "the last is of ls, which lists its folder"


def test_wild_output_is_kept_in_bounds(script: Shell, tmp_path: Path) -> None:
    source = "import os\nfor _ in range(200): os.write(1, b'\\x1b[31m\\0\\xff' * 50_000)"

    finished = script(source, limits=Limits(output_bytes=10_000))

    assert finished.ok
    assert finished.total_bytes == 200 * 7 * 50_000
    assert len(finished.output) < 11_000


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_background_child_does_not_delay_the_end_and_does_not_outlive_it(sandbox: Kind, shell: Shell) -> None:
    finished = shell('sleep 65.25 & setsid sleep 65.25 & (setsid sleep 65.25 &) ; echo "1 passed"')

    assert (finished.end, finished.exit_code, finished.output) == (End.EXITED, 0, b"1 passed\n")
    assert finished.seconds < 30
    assert not processes_of(sandbox.user or -1)


def test_nothing_changes_a_tree_once_its_command_has_ended(shell: Shell, checkout: Mount) -> None:
    writer = "setsid sh -c 'while :; do date +%N > now; done' & sleep 0.2"

    shell(writer, cwd=checkout.target, mounts=(checkout,))

    seen = (checkout.source / "now").read_bytes()
    time.sleep(0.1)
    assert (checkout.source / "now").read_bytes() == seen


def test_a_command_is_cancelled(shell: Shell, checkout: Mount) -> None:
    line = "trap '' TERM; echo ready; touch there; sleep 66.25"

    finished = shell(line, cwd=checkout.target, mounts=(checkout,), cancelled=(checkout.source / "there").exists)

    assert finished.end is End.CANCELLED
    assert finished.output == b"ready\n"


def test_a_failing_caller_leaves_nothing_behind(shell: Shell) -> None:
    def fail() -> bool:
        raise RuntimeError("whoever asks for the command")

    with pytest.raises(RuntimeError, match="whoever asks"):
        shell("setsid sleep 67.25", cancelled=fail)


@pytest.mark.parametrize("kind", ["Bubblewrap()", "ContainerFallback('a test')"])
def test_commands_die_with_us(kind: str) -> None:
    source = f"""
import sys
from sandbox.bubblewrap import Bubblewrap
from sandbox.container import ContainerFallback
from sandbox.types import Command
sandbox = {kind}
sandbox.run(Command(("sh", "-c", "sleep 0.3; exec sleep 68.25"), cwd="/"))
"""
    env = {**process.CLEAN_ENV, "PYTHONPATH": str(ROOT)}
    with process.Conversation([sys.executable, "-c", source], env=env) as talk:
        while not _sleeping():
            if not talk.alive:
                pytest.skip("this kind does not start here")
            time.sleep(0.02)
    # Leaving the conversation kills the process that has the sandbox.
    deadline = time.monotonic() + 10
    while _sleeping() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _sleeping()
    # What it could not remove any more goes when the next one is opened.
    with contextlib.suppress(SandboxUnavailable):
        ContainerFallback("a test wants it")
    assert not list(Path("/tmp").glob(f"graftsmith-home-{talk.pid}-*"))


@pytest.mark.parametrize(("namespace", "stays"), [("ours", False), ("a container's", True)])
def test_what_an_owner_left_behind_is_swept(bubblewrap: Sandbox, namespace: str, stays: bool) -> None:
    gone = Path("/proc/sys/kernel/pid_max").read_text().strip()  # no process has it, and none will
    number = Path("/proc/self/ns/pid").stat().st_ino + stays
    with process.Conversation(["bash", "-c", f"echo; exec -a graftsmith-{number}-{gone} sleep 69.25"]) as talk:
        talk.read_line()
        while talk.alive and b"69.25" not in Path(f"/proc/{talk.pid}/cmdline").read_bytes():
            time.sleep(0.01)

        Bubblewrap()

        assert talk.alive is stays


def _sleeping() -> bool:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return b"sleep\x0068.25\x00" in found


# ── what works ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_ways_to_end(sandbox: Sandbox, shell: Shell) -> None:
    missing = sandbox.run(Command(("no-such-program",), cwd="/"))

    assert shell("exit 3").exit_code == 3
    assert shell("kill -11 $$").signal == 11
    assert (missing.end, missing.exit_code) == (End.EXITED, 127)


def test_what_the_command_gets(shell: Shell, checkout: Mount) -> None:
    finished = shell(
        'cat; echo "$GREETING"; pwd -P >/dev/stderr; echo x > made; ls -d ~ | wc -l; echo t > $TMPDIR/t; cat $TMPDIR/t',
        cwd=checkout.target,
        mounts=(checkout,),
        stdin=b"input\n",
        env={"GREETING": "hello\nworld"},
    )

    lines = finished.output.decode().splitlines()
    assert lines[:3] == ["input", "hello", "world"]
    assert lines[3] in (checkout.target, str(checkout.source))
    assert lines[4:] == ["1", "t"]
    assert (checkout.source / "made").read_text() == "x\n"


def test_only_what_is_writable_can_be_written(sandbox: Kind, shell: Shell, checkout: Mount) -> None:
    (checkout.source / "file").write_text("as it was")
    read_only = Mount(checkout.source, checkout.target)
    places = (
        f"{checkout.target}/file {checkout.target}/new /usr/x /etc/x /dev/x /x /var/x /run/x /proc/sys/kernel/hostname"
    )

    line = f"for place in {places}; do (echo changed > $place) 2>/dev/null && echo $place; done"

    finished = shell(f"{line}; rm -rf {checkout.target}/* 2>/dev/null", mounts=(read_only,))

    assert finished.output == b""
    assert [path.name for path in checkout.source.iterdir()] == ["file"]
    assert (checkout.source / "file").read_text() == "as it was"


def test_nothing_survives_into_the_next_command(shell: Shell) -> None:
    shell(
        "mkdir -p ~/.cache/pip; for file in ~/.bashrc ~/.cache/pip/x $TMPDIR/x /dev/shm/x; do echo poison > $file; done"
    )

    finished = shell(
        "ls -A ~ $TMPDIR /dev/shm; cat ~/.bashrc ~/.cache/pip/x $TMPDIR/x /dev/shm/x 2>/dev/null; echo end"
    )

    assert b"poison" not in finished.output
    assert b"bashrc" not in finished.output


def test_a_mount_below_another_one(bubblewrap: Sandbox, tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    (outer / "node_modules").mkdir(parents=True), inner.mkdir()
    (outer / "a").write_text("outer"), (inner / "b").write_text("inner")
    mounts = (Mount(inner, "/tmp/place/node_modules"), Mount(outer, "/tmp/place"), Mount(inner / "b", "/usr/share/doc"))

    finished = bubblewrap.run(Command(("cat", "a", "node_modules/b"), cwd="/tmp/place", mounts=mounts[:2]))

    assert finished.output == b"outerinner"


def test_a_scratch_folder_in_what_is_read_only(bubblewrap: Sandbox, tmp_path: Path) -> None:
    library = tmp_path / "library"
    (library / "scratch").mkdir(parents=True)
    (library / "scratch" / "old").touch()
    line = "ls -A scratch; echo new > scratch/new && cat scratch/new; touch beside 2>/dev/null || echo closed"
    mount = Mount(library, "/tmp/place")
    done = bubblewrap.run(
        Command(("sh", "-c", line), cwd=mount.target, mounts=(mount,), scratch=(f"{mount.target}/scratch",))
    )
    assert done.output == b"new\nclosed\n"
    assert [path.name for path in (library / "scratch").iterdir()] == ["old"]


def test_what_waits_for_nothing_is_ended_and_what_works_is_not(sandbox: Sandbox) -> None:
    limits = Limits(wall_s=60, quiet_s=1.0)
    for line in ("sleep 50", "echo begun; (sleep 50) & sleep 50"):
        assert sandbox.run(Command(("sh", "-c", line), cwd="/", limits=limits)).end is End.HUNG
    for line in ("timeout 3 sh -c 'while :; do :; done'; true", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done"):
        assert sandbox.run(Command(("sh", "-c", line), cwd="/", limits=limits)).ok


def test_loopback_works_inside_and_leads_nowhere(bubblewrap: Sandbox, python: tuple[str, tuple[Mount, ...]]) -> None:
    source = """
import socket
with socket.create_server(('127.0.0.1', 0)) as server, socket.create_connection(server.getsockname()) as client:
    server.accept()[0].send(b'x'); print(client.recv(1))
try: socket.create_connection(('192.0.2.1', 80), 1)
except OSError as error: print(error.errno)
for family, flags in ((0, 0), *((family, socket.AI_ADDRCONFIG) for family in (0, socket.AF_INET, socket.AF_INET6))):
    print(sorted({found[4][0] for found in socket.getaddrinfo('localhost', 80, family, 0, 0, flags)}))
print(len(open('/proc/net/route').readlines()) - 1, 'routes')
"""
    finished = bubblewrap.run(Command((python[0], "-c", source), cwd="/", mounts=python[1]))

    both = "['127.0.0.1', '::1']"
    assert finished.output.decode().splitlines() == ["b'x'", "101", both, both, "['127.0.0.1']", "['::1']", "0 routes"]


def test_a_sandbox_that_does_not_start_is_no_failed_command(sandbox: Sandbox, tmp_path: Path) -> None:
    for command in (
        Command(("true",), cwd="/no/such/folder"),
        Command(("true",), cwd="/", mounts=(Mount(tmp_path / "missing", "/missing-target"),)),
        Command(("true",), cwd="/", mounts=(Mount(tmp_path / "missing", "/missing-target", writable=True),)),
    ):
        with pytest.raises(SandboxBroken):
            sandbox.run(command)


def test_an_option_can_not_be_smuggled_in(bubblewrap: Sandbox, tmp_path: Path) -> None:
    smuggled = "a\0--bind\0/\0/host"
    for command in (
        Command(("true", smuggled), cwd="/"),
        Command(("true",), cwd=smuggled),
        Command(("true",), cwd="/", env={"X": smuggled}),
        Command(("true",), cwd="/", env={smuggled: "x"}),
    ):
        finished = bubblewrap.run(command)
        assert finished.exit_code == 126
        assert b"NUL" in finished.output
    with pytest.raises(ValueError, match="NUL"):  # where a mount appears is never anybody's word but ours
        bubblewrap.run(Command(("true",), cwd="/", mounts=(Mount(tmp_path, f"/{smuggled}"),)))


def test_many_commands_at_once(sandbox: Sandbox) -> None:
    results: dict[str, bytes] = {}

    def run(word: str) -> None:
        results[word] = sandbox.run(Command(("echo", word), cwd="/")).output

    threads = [threading.Thread(target=run, args=(str(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {str(number): f"{number}\n".encode() for number in range(6)}


def test_the_best_one_is_chosen() -> None:
    isolation = open_sandbox().isolation

    assert (isolation.name, isolation.degraded) in (("bubblewrap", False), ("container-fallback", True))


@pytest.mark.parametrize(
    ("word", "why"),
    [("a\0b", "NUL"), ("a\ud800", "half a character"), ("x" * 200_000, "too long"), ("é" * 70_000, "too long")],
)
def test_a_command_that_no_system_can_start_is_one_that_failed(sandbox: Sandbox, word: str, why: str) -> None:
    for command in (
        Command(("sh", "-c", ":", word), cwd="/"),
        Command(("true",), cwd="/", env={"WORD": word}),
        Command((word,), cwd="/"),
    ):
        finished = sandbox.run(command)
        assert (finished.end, finished.exit_code) == (End.EXITED, 126)
        assert why in finished.output.decode()


@pytest.mark.parametrize(("count", "width"), [(7_900, 100), (8_100, 1), (7_900, 250)])
def test_a_command_with_very_many_words(sandbox: Sandbox, count: int, width: int) -> None:
    words = tuple(f"{number:0{width}}" for number in range(count))
    finished = sandbox.run(Command(("sh", "-c", "echo $#", "sh", *words), cwd="/"))
    if count * width < 1_000_000 and count < 8_000:
        assert finished.output == f"{count}\n".encode()
    else:
        assert finished.exit_code == 126
        assert b"too long" in finished.output
