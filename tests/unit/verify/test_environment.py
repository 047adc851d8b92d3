"""What tests need besides the checkout: found, installed, kept, and never with a credential."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.types import SuiteStatus, TestOutcome, TestRun
from agent.verify.lacking import lacking, may_lack
from agent.verify.registries import ALLOW, CLIENTS, Registries, holds_credential, places, told
from agent.verify.store import SetupFailed
from sandbox.container import ContainerFallback
from sandbox.egress.policy import Destination
from sandbox.errors import SandboxUnavailable
from tests.support.disk import small_disk
from tests.unit.verify.conftest import Bench, MakeBench

FILES = {
    "pkg/__init__.py": "from pkg.made import X\n",
    ".gitignore": "pkg/made.py\nbuilt/\n",
    "test_pkg.py": "import os\nimport pathlib\nfrom pkg import X\n\n\ndef test_x():\n    assert X == 1\n"
    "    assert not os.path.lexists('linked')\n"
    "    assert pathlib.Path('built/deep/a.txt').read_text() == 'built'\n"
    "    try:\n        pathlib.Path('built/deep/a.txt').write_text('poison')\n"
    "    except OSError:\n        return\n    raise AssertionError('writable')\n",
}
SETUP = (
    "echo X = 1 > pkg/made.py",
    "mkdir -p built/deep && printf built > built/deep/a.txt",
    "ln -s built linked && echo 'raise SystemExit(0)' >> test_pkg.py",  # no part of what is carried to the tests
)


def test_the_users_own_environment_is_used_where_tests_start_in_it(bench: MakeBench) -> None:
    made = bench({"test_a.py": "def test_a(): pass\n"})
    assert made.harness.environment.source == "yours"
    assert not (Path(made.spec.cache_dir) / "environments").exists()


@pytest.mark.parametrize("local", [False, True])
def test_a_tool_that_is_closed_to_others_is_left_out_and_named(local: bool) -> None:
    """Where nothing can be mounted, a home of root's keeps everybody out, and other tools do."""
    try:
        weaker = ContainerFallback("a test wants it")
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with TemporaryDirectory(dir="/var/tmp") as folder, ExitStack() as stack:
        home = Path(folder, "home")
        for name in ("bin/make", "lib/x"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text("#!/bin/sh\nexit 3\n")
            (home / name).chmod(0o755)
        home.chmod(0o700), Path(folder).chmod(0o755)
        path = f"{home}/bin:/usr/bin:/bin"
        made = Bench(Path(folder), stack, weaker, {"Makefile": "test:\n\ttrue\n"}, path=path, local=local)
        run = made.harness.run(made.base)
        assert run.status is SuiteStatus.OK, run.detail
        assert made.harness.environment.notes == (
            f"The tests can't use {home}: {home} is closed to the user that they run as",
        )


def test_one_is_installed_where_nothing_passes_in_the_users_own(bench: MakeBench, tools: str) -> None:
    """It has the runner and not what the project needs."""
    packages = f"lib/python3.{sys.version_info.minor}/site-packages"
    site = Path(tools.split(":")[0]).parent / packages
    setup = ("echo X = 1 > needed.py", f"printf %s {site} > /environment/venv/{packages}/pytest.pth")
    files = {"conftest.py": "import needed\n", "test_a.py": "def test_a(): pass\n", ".gitignore": "needed.py\n"}
    made = bench(files, setup=setup)
    assert not made.harness.run(made.base).passed
    assert made.harness.environment.source == "yours"
    assert made.harness.install()
    run = made.harness.run(made.base)
    assert run.passed == {"test_a.py::test_a"}, run.log
    assert made.harness.environment.source == "installed"
    assert not made.harness.install()


def test_a_release_of_the_project_does_not_take_the_place_of_its_checkout(bench: MakeBench, tools: str) -> None:
    """What has pytest has pytest's own dependencies: among them, say, `packaging`."""
    files = {"src/packaging/__init__.py": "X = 1\n", "test_a.py": "from packaging import X\n\ndef test_a(): pass\n"}
    astray = bench(files).harness.astray()
    assert astray.startswith("/") and "packaging" in astray and "src" not in astray
    for there in (
        {"setup.cfg": "[tool:pytest]\npythonpath = src\n"},
        {"tests/conftest.py": "import sys\nsys.path.insert(0, 'src')\n"},
        {"src/packaging/__init__.py": None, "src/no_such_thing.py": "X = 1\n"},
        {"src/packaging/__init__.py": None, "packaging/__init__.py": "X = 1\n"},
    ):
        left = {path: text for path, text in {**files, **there}.items() if text is not None}
        assert bench(left).harness.astray() == ""
    assert bench(files, local=False, setup=("true",)).harness.astray() == ""


def test_why_none_could_be_installed_is_told(bench: MakeBench) -> None:
    made = bench({"test_a.py": "import needed\n"}, setup=("echo no such thing >&2; exit 3",))
    assert not made.harness.run(made.base).passed
    assert not made.harness.install()
    (note,) = made.harness.environment.notes
    assert "exit code 3" in note and "no such thing" in note


@pytest.mark.parametrize(
    ("test", "lacks"),
    [
        ("def test_a(): assert 1 == 2\n", False),
        ("def test_a():\n    import nowhere\n", True),
        ("def test_a(no_such_fixture): pass\n", True),
        ("import nowhere\ndef test_a(): pass\n", True),
    ],
)
def test_another_environment_is_no_help_where_the_tests_ran(bench: MakeBench, test: str, lacks: bool) -> None:
    made = bench({"test_a.py": test})
    assert may_lack(made.harness.run(made.base)) is lacks


def test_what_the_set_up_made_is_kept_read_only_and_found_again(
    bench: MakeBench, machine_cache: Path, tools: str
) -> None:
    packages = f"lib/python3.{sys.version_info.minor}/site-packages"
    site = Path(tools.split(":")[0]).parent / packages
    setup = (*SETUP, f"printf %s {site} > /environment/venv/{packages}/pytest.pth")
    for source in ("installed", "cached"):
        made = bench(FILES, setup=setup, local=False, cache=machine_cache, repository="made")
        run = made.harness.run(made.base)
        assert made.harness.environment.source == source
        assert (run.status, run.detail) == (SuiteStatus.OK, ""), run.log
    assert [path.name for path in (machine_cache / "environments").iterdir() if path.name.startswith(".")] == []


GO = """#!/bin/sh
case "$*" in
*"-run ^$"*) mkdir -p "$GOCACHE" && echo Base > "$GOCACHE/work" ;;
*-json*) printf '{"Action": "pass", "Package": "p", "Test": "Test%s"}' "$(cat "$GOCACHE/work" || echo Nothing)"
    echo Changed > "$GOCACHE/work" ;;
esac
"""
COMPILED = {"go.mod": "module p\n", "p_test.go": "package p\n\nfunc TestBase(t *testing.T) {}\n"}


@pytest.mark.parametrize("local", [True, False], ids=["yours", "installed"])
def test_what_was_built_of_the_base_is_where_each_fresh_checkout_begins(
    bench: MakeBench, tmp_path: Path, *, local: bool
) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    for folder, mode in ((go, 0o755), (go.parent, 0o755), (tmp_path, 0o755)):
        folder.chmod(mode)
    made = bench(COMPILED, local=local, path=f"{go.parent}:/usr/bin:/bin", cache=tmp_path / "cache")
    runs = [made.harness.run(made.base, fresh=fresh) for fresh in (False, False, True, True)]
    assert [sorted(run.outcomes) for run in runs] == [
        ["p::TestBase"],
        ["p::TestChanged"],  # a checkout that is kept goes on from its own work
        ["p::TestBase"],
        ["p::TestBase"],
    ], runs[0].log
    assert made.harness.environment.source == ("yours" if local else "installed")
    again = bench(COMPILED, local=local, path=f"{go.parent}:/usr/bin:/bin", cache=tmp_path / "cache")
    assert again.harness.run(again.base, fresh=True).passed == {"p::TestBase"}
    builds = [event for event in again.events.events if "-run" in str(event.get("argv"))]
    assert len(builds) == (1 if local else 0), "once for a tree; a local run's is for its own place alone"


JEST = """#!/bin/sh
for word; do case "$word" in --outputFile=*) out="${word#--outputFile=}";; esac; done
test -n "$out" || exit 0
printf '{"testResults": [{"name": "%s/a.test.js", "status": "passed", "assertionResults":' "$PWD" > "$out"
bundled=$(touch node_modules/.vite/config node_modules/.vite-temp/config 2>/dev/null && ls -A node_modules/.vite-temp)
touch node_modules/elsewhere 2>/dev/null && exit 1
printf '[{"ancestorTitles": [], "title": "%s%s", "status": "passed"}]}]}' "$(cat mine.txt)" "$bundled" >> "$out"
"""


def test_a_local_run_installs_what_is_missing_and_leaves_the_users_files_alone(bench: MakeBench) -> None:
    """The runner stands in for an installed one; it tells what it found in an ignored file of the user's, and what is
    in a folder of what is installed that it can write to, as vite has to."""
    files = {
        "package.json": '{"scripts": {"test": "jest"}, "devDependencies": {"jest": "1"}}',
        "a.test.js": "",
        ".gitignore": "mine.txt\nnode_modules/\n",
        "jest.sh": JEST,
    }
    setup = ("mkdir -p node_modules/.bin && cp jest.sh node_modules/.bin/jest && chmod +x node_modules/.bin/jest",)
    made = bench(files, setup=setup, ignored={"mine.txt": "mine"}, path="/usr/bin:/bin")
    runs = [made.harness.run(made.base) for _ in range(2)]
    assert made.harness.environment.source == "installed"
    bundled = "" if made.harness.sandbox.isolation.degraded else "config"
    assert [set(run.passed) for run in runs] == [{f"a.test.js::mine{bundled}"}] * 2
    assert sorted(path.name for path in made.repository.path.iterdir()) == sorted([*files, ".git", "mine.txt"])
    (place,) = (Path(made.spec.cache_dir) / "environments").iterdir()
    assert [path.name for path in (place / "carried").iterdir()] == ["node_modules"]


def test_a_set_up_that_fails_leaves_nothing_and_says_why(bench: MakeBench, tmp_path: Path) -> None:
    setup = ("echo no such thing >&2; exit 3",)
    made = bench({"a": ""}, "./run", setup=setup, local=False, cache=tmp_path / "cache")
    with pytest.raises(SetupFailed, match=r"exit code 3.*no such thing"):
        made.harness.setup()
    assert list((tmp_path / "cache" / "environments").iterdir()) == []


def test_registry_settings_pass_without_credentials(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    found = Registries.of(
        {
            "PIP_INDEX_URL": "https://user:secret@example.invalid/simple",
            "PIP_FIND_LINKS": str(wheels),
            "HTTPS_PROXY": "http://proxy.invalid:3128",
            "AWS_SECRET_ACCESS_KEY": "x",
            "GITHUB_TOKEN": "x",
            "npm_config_registry": "https://npm.invalid/",
        },
        pip_conf=f"[global]\nindex-url = https://plain.invalid/simple\nextra-index-url = file://{wheels} https://t@b.invalid/s\n",
        npmrc="registry=https://other.invalid/\n//other.invalid/:_authToken=abc\ncafile=/nonexistent.pem\n",
    )
    assert found.env == {
        "PIP_FIND_LINKS": str(wheels),
        "npm_config_registry": "https://npm.invalid/",
        "npm_config_cafile": "/nonexistent.pem",
    }
    why = "it holds a credential"
    assert found.left_out == {"PIP_EXTRA_INDEX_URL": why, "PIP_INDEX_URL": why, "npmrc": why}
    assert "secret" not in repr(found) and "abc" not in repr(found)
    assert Registries.of(found.settings) == found
    assert [(mount.source, mount.target, mount.writable) for mount in found.mounts] == [(wheels, str(wheels), False)]
    assert holds_credential("https://a:b@c/") and not holds_credential("https://c/ http://d:80/x@y")


def _hosts(found: Registries) -> set[str]:
    return {str(place) for place in found.egress.allowed}


def test_a_set_up_may_reach_the_registries_that_are_configured_and_no_others() -> None:
    come_with = {"pip": ("index.invalid", "files.invalid"), "npm": ("js.invalid",), "go": ("go.invalid",)}
    defaults = {CLIENTS: told(come_with)}
    usual = _hosts(Registries.of(defaults))
    assert usual == {"index.invalid:443", "files.invalid:443", "js.invalid:443", "go.invalid:443"}
    assert not any(place.private for place in Registries.of(defaults).egress.allowed)
    assert _hosts(Registries.of({})) == set()

    mirror = {"PIP_INDEX_URL": "http://10.0.0.7:3141/root/pypi", "npm_config_registry": "https://npm.invalid/x/"}
    found = Registries.of({**defaults, **mirror, ALLOW: "Wheels.invalid:8443, other.invalid"})
    named = {"10.0.0.7:3141", "npm.invalid:443", "wheels.invalid:8443", "other.invalid:443"}
    assert _hosts(found) == {*named, "go.invalid:443"}
    assert found.egress.find("10.0.0.7", 3141).private
    assert not {ALLOW, CLIENTS} & found.env.keys()
    assert Registries.of(found.settings) == found

    assert _hosts(Registries.of({**defaults, "PIP_INDEX_URL": "https://index.invalid/simple"})) == usual


def test_this_machines_own_proxy_is_asked_from_outside_the_sandbox() -> None:
    found = Registries.of({"HTTPS_PROXY": "http://proxy.invalid:3128", "NO_PROXY": "localhost, .inside.invalid:8080"})
    assert found.env == {}
    assert found.egress.upstream == Destination("proxy.invalid", 3128, private=True)
    assert found.egress.direct == ("localhost", "inside.invalid")
    assert Registries.of({"https_proxy": "socks5://proxy.invalid:1080"}).left_out.keys() == {"https_proxy"}


@pytest.mark.parametrize("text", ["a.invalid:x", "user@a.invalid", "*.a.invalid", "a.invalid/path", "a.invalid:70000"])
def test_a_place_that_can_not_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form host:port"):
        places(text)


def test_a_set_up_that_fails_for_want_of_room_says_nothing_of_the_project(bench: MakeBench, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "size=8m") as disk:
        made = bench(
            {"a": ""}, "./run", setup=("head -c 99000000 /dev/zero > /environment/big",), local=False, cache=disk
        )
        # The disk itself says it, or whoever watches it is faster.
        with pytest.raises((OSError, SetupFailed), match=r"No space left|too little room on the disk"):
            made.harness.setup()
        made = bench({"a": ""}, "./run", setup=("exit 3",), local=False, cache=disk)
        with pytest.raises(SetupFailed, match="exit code 3"):
            made.harness.setup()
        made = bench(
            {"a": ""}, "./run", setup=("head -c 5m /dev/zero > /environment/big; sleep 9",), local=False, cache=disk
        )
        with pytest.raises(SetupFailed, match="it left too little room on the disk"):
            made.harness.setup()


@pytest.mark.parametrize(
    ("status", "passed", "message", "says"),
    [
        (SuiteStatus.NOT_RUN, 0, "", "No test passed"),
        (SuiteStatus.FAILING, 1, "E   ModuleNotFoundError: No module named 'a'", "lacked a module"),
        (SuiteStatus.FAILING, 2, "E   ModuleNotFoundError: No module named 'a'", ""),
        (SuiteStatus.FAILING, 1, "E   assert 1 == 2", ""),
        (SuiteStatus.TIMED_OUT, 0, "", ""),
        (SuiteStatus.NO_TESTS, 0, "", ""),
        (SuiteStatus.OK, 1, "", ""),
    ],
)
def test_what_tells_that_an_environment_is_not_the_projects(
    status: SuiteStatus, passed: int, message: str, says: str
) -> None:
    fine = {f"t::p{n}": TestOutcome.PASSED for n in range(passed)}
    broken = {f"t::f{n}": TestOutcome.ERROR for n in range(2 if message else 0)}
    run = TestRun(command=(), status=status, outcomes=fine | broken, messages=dict.fromkeys(broken, message))
    said = lacking(run)
    assert says in said and bool(says) == bool(said)
