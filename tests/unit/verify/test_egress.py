"""Set-ups with real package clients: they reach the registries of this machine, and nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.types import SuiteStatus
from agent.verify.registries import Registries
from agent.verify.store import SetupFailed
from app import clients
from sandbox import Sandbox
from sandbox.egress.policy import Egress
from sandbox.toolchain import mounts_for
from sandbox.types import Command, Finished, Limits, Mount
from tests.support.package_index import Index, serve_npm, serve_wheel, tarball
from tests.unit.verify.conftest import MakeBench

# A build backend in the repository itself, as any may have: its code runs while the project is installed.
BACKEND = """
import os, socket, urllib.request, zipfile

def attempts():
    yield 'loopback', lambda: socket.create_connection(('127.0.0.1', {port}), 2)
    yield 'metadata', lambda: socket.create_connection(('169.254.169.254', 80), 2)
    yield 'neighbour', lambda: urllib.request.urlopen('http://127.0.0.1:{other}/', timeout=5)
    yield 'world', lambda: urllib.request.urlopen('https://evil.invalid/', timeout=5)
    yield 'metadata by proxy', lambda: urllib.request.ProxyHandler and fetch('http://169.254.169.254/latest/')
    yield 'name server', lambda: socket.getaddrinfo('index.example', 443)

def fetch(url):
    proxy = urllib.request.ProxyHandler({{'http': os.environ['http_proxy']}})
    return urllib.request.build_opener(proxy).open(url, timeout=5)

def build_wheel(folder, config_settings=None, metadata_directory=None):
    lines = ['tried']
    for what, attempt in attempts():
        try:
            attempt()
            lines.append('REACHED ' + what)
        except OSError:
            pass
    info = 'mine-1.dist-info'
    with zipfile.ZipFile(folder + '/mine-1-py3-none-any.whl', 'w') as archive:
        archive.writestr('mine.py', 'TRIED = ' + repr(lines))
        metadata = 'Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\nRequires-Dist: thing\\n'
        archive.writestr(info + '/METADATA', metadata)
        archive.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')
        archive.writestr(info + '/RECORD', '')
    return 'mine-1-py3-none-any.whl'

build_editable = build_wheel
"""


def test_an_installer_gets_packages_and_reaches_nothing_else(bench: MakeBench, index: Index) -> None:
    """Real pip with a mirror on this machine's loopback; the project's own build looks for other ways out."""
    other = Index()
    try:
        serve_wheel(index, "thing", "1", {"thing.py": "X = 1\n"})
        ports = {"port": index.url.rpartition(":")[2], "other": other.url.rpartition(":")[2]}
        made = bench(
            {
                "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
                "backend.py": BACKEND.format(**ports),
                "test_it.sh": "/environment/bin/python -c 'import mine, thing; print(mine.TRIED)'\n",
            },
            "sh test_it.sh",
            setup=("python3 -m venv /environment && /environment/bin/pip install --no-input .",),
            local=False,
            registries=Registries.of({"PIP_INDEX_URL": f"{index.url}/simple"}),
            wall_s=90.0,
        )
        run = made.harness.run(made.base)
    finally:
        other.close()

    assert run.status is SuiteStatus.OK and run.log == "['tried']\n", run.log
    assert "/files/thing-1-py3-none-any.whl" in index.asked
    assert other.asked == []
    notes = "\n".join(made.harness.environment.notes)
    for place in (f"127.0.0.1:{ports['other']}", "evil.invalid:443", "169.254.169.254:80"):
        assert f"may not reach {place}: it is none" in notes
    assert "GRAFTSMITH_EGRESS_ALLOW=evil.invalid:443" in notes


def test_a_set_up_that_needs_a_forbidden_place_fails_and_names_the_setting(bench: MakeBench) -> None:
    setup = ("curl -sSf https://files.invalid/archive.tar.gz",)
    made = bench({"a": ""}, "./run", setup=setup, local=False)
    with pytest.raises(
        SetupFailed, match=r"may not reach files.invalid:443.*GRAFTSMITH_EGRESS_ALLOW=files.invalid:443"
    ):
        made.harness.setup()


# ── the clients find the proxy ───────────────────────────────────────────────────────────────────────────────────

PATH = os.environ["PATH"]
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId><version>1</version>
<dependencies><dependency><groupId>c</groupId><artifactId>d</artifactId><version>1</version></dependency></dependencies>
</project>"""
FILES = {
    "package.json": '{"name": "a", "version": "1.0.0", "dependencies": {"thing": "1.0.0"}}',
    "pom.xml": POM,
    "Cargo.toml": '[package]\nname = "a"\nversion = "1.0.0"\nedition = "2021"\n[lib]\npath = "a.rs"\n'
    '[dependencies]\nthing = "1"\n',
    "a.rs": "",
    "composer.json": '{"require": {"acme/thing": "^1.0"}}',
    "go.mod": "module example.invalid/a\n\ngo 1.19\n\nrequire example.invalid/thing v1.0.0\n",
    "Gemfile": "source 'https://gems.invalid'\ngem 'thing'\n",
}
LINES = {
    "python3 -m venv /tmp/v && /tmp/v/bin/pip install --retries 0 thing": "pip",
    "npm install --no-audit --no-fund --fetch-retries=0": "npm",
    "go mod download": "go",
    "cargo fetch": "",
    "mvn -B -q -Dmaven.repo.local=/tmp/m2 dependency:go-offline": "maven",
    "gem install thing": "gem",
    "bundle install": "",
    "composer install --no-interaction": "",
    "uv pip install --system thing": "pip",
}
"""Line → the client that can say which registry it comes with, if it can."""


def attempt(sandbox: Sandbox, line: str, folder: Path, env: Mapping[str, str], egress: Egress) -> Finished:
    """Run one line in a writable copy of ``FILES``."""
    program = line.split()[0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    mounts, tools = mounts_for(f"{program} python3 node java rustc", PATH, None)
    copy = f"cp -r {folder} /tmp/project && cd /tmp/project && {line}"
    command = Command(
        ("sh", "-c", copy),
        "/tmp",
        env={
            **tools,
            **env,
            "GOTOOLCHAIN": "local",
            "GOMODCACHE": "/tmp/go",  # this machine's own is seen, read-only, and so is its cargo registry
            "CARGO_HOME": "/tmp/cargo",
            "CARGO_NET_RETRY": "0",
            "COMPOSER_HOME": "/tmp/composer",
            "GEM_HOME": "/tmp/gems",
            "BUNDLE_PATH": "/tmp/gems",
        },
        mounts=(*mounts, Mount(folder, str(folder))),
        egress=egress,
        limits=Limits(wall_s=100),
    )
    return sandbox.run(command)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project-files"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("line", LINES)
def test_a_client_asks_the_proxy_for_its_registry(sandbox: Sandbox, project: Path, line: str) -> None:
    finished = attempt(sandbox, line, project, {}, Egress())

    assert finished.exit_code not in (0, None)
    asked = {refusal.host for refusal in finished.refused}
    assert asked, finished.output.decode()
    if LINES[line]:
        assert asked <= {*clients.defaults(PATH)[LINES[line]]}


def test_npm_installs_from_a_registry_of_this_machine(sandbox: Sandbox, project: Path, index: Index) -> None:
    serve_npm(index, "thing", {})
    registries = Registries.of({"npm_config_registry": index.url})

    line = "npm install --no-audit --no-fund && ls node_modules && npm ci --no-audit --no-fund"
    finished = attempt(sandbox, line, project, registries.env, registries.egress)

    assert finished.ok and b"thing" in finished.output, finished.output.decode()
    assert finished.refused == ()


def test_go_downloads_from_a_proxy_of_this_machine(sandbox: Sandbox, project: Path, index: Index) -> None:
    module = "module example.invalid/thing\n\ngo 1.19\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("example.invalid/thing@v1.0.0/go.mod", module)
        archive.writestr("example.invalid/thing@v1.0.0/thing.go", "package thing\n")
    base = "/example.invalid/thing/@v/v1.0.0"
    index.files |= {
        f"{base}.info": b'{"Version": "v1.0.0"}',
        f"{base}.mod": module.encode(),
        f"{base}.zip": packed.getvalue(),
    }
    # go never asks a proxy for a loopback address, so it needs another name for this machine.
    url = index.url.replace("127.0.0.1", _name_of_this_machine())
    registries = Registries.of({"GOPROXY": url, "GOSUMDB": "off"})

    finished = attempt(sandbox, "go mod download all", project, registries.env, registries.egress)

    assert finished.ok, finished.output.decode()
    assert f"{base}.zip" in index.asked


def _name_of_this_machine() -> str:
    name = socket.gethostname()
    try:
        if socket.gethostbyname(name).startswith("127.") and name != "localhost":
            return name
    except OSError:
        pass
    pytest.skip("this machine's name does not lead to its loopback")


def test_cargo_fetches_from_a_registry_of_this_machine(sandbox: Sandbox, project: Path, index: Index) -> None:
    manifest = '[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2021"\n'
    packed = tarball({"thing-1.0.0/Cargo.toml": manifest, "thing-1.0.0/src/lib.rs": ""})
    digest = hashlib.sha256(packed).hexdigest()
    line = {"name": "thing", "vers": "1.0.0", "deps": [], "cksum": digest, "features": {}, "yanked": False}
    index.files |= {
        "/index/config.json": json.dumps({"dl": f"{index.url}/crates"}).encode(),
        "/index/th/in/thing": json.dumps(line).encode(),
        "/crates/thing/1.0.0/download": packed,
    }
    manifest = (project / "Cargo.toml").read_text().replace('"1"', '{ version = "1", registry = "here" }')
    (project / "Cargo.toml").write_text(manifest)
    registries = Registries.of({"CARGO_REGISTRIES_HERE_INDEX": f"sparse+{index.url}/index/"})

    finished = attempt(sandbox, "cargo fetch", project, registries.env, registries.egress)

    assert finished.ok, finished.output.decode()
    assert "/crates/thing/1.0.0/download" in index.asked
