"""The command line as a person and a machine meet it."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.model.scripted import serve as serve_script
from app.cli import OUR_BUG, SECTIONS, USAGE, cli, unexpected
from sandbox import CommandNotFound, process

GRAFTSMITH = str(Path(sys.executable).parent / "graftsmith")


def run(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "GRAFTSMITH_", "APP_", "PRIVATE_"))}
    return subprocess.run([GRAFTSMITH, *arguments], cwd=cwd, env={**clean, **env}, capture_output=True, text=True)


def test_help_names_every_command_and_imports_none(tmp_path: Path) -> None:
    code = (
        "import sys; from app.cli import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('rich', 'dbos', 'openai', 'githubkit', 'starlette', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    for section in SECTIONS.values():
        for name in section:
            assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_every_command_explains_itself(name: str) -> None:
    done = CliRunner().invoke(cli, [name, "--help"])
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: cli {name} ") and len(done.output) > 100


@pytest.mark.parametrize("module", ["app.cli", "click", "agent.errors", "app.commands.show"])
def test_an_interrupt_while_it_is_loaded_is_no_error(module: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom app.entry import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\nsys.argv = ['graftsmith', 'show', 'x']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.strip() in ("", "stopped")


def test_missing_settings_are_all_named_at_once(tmp_path: Path) -> None:
    done = run("serve", cwd=tmp_path, HOME=str(tmp_path))
    assert done.returncode == 2
    for name in ("APP_ID", "PRIVATE_KEY", "WEBHOOK_SECRET", "OPENAI_MODEL"):
        assert name in done.stderr
    assert "Traceback" not in done.stderr


def serve(tmp_path: Path, app_key: str, **env: str) -> subprocess.CompletedProcess[str]:
    model = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "key-12345678", "OPENAI_MODEL": "m"}
    github = {"APP_ID": "1", "PRIVATE_KEY": app_key, "WEBHOOK_SECRET": "webhook-secret-1"}
    return run("serve", cwd=tmp_path, **{"GRAFTSMITH_STATE_DIR": str(tmp_path / "state"), **github, **model, **env})


def test_a_state_folder_that_is_none_is_named(tmp_path: Path, app_key: str) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        done = serve(tmp_path, app_key, GRAFTSMITH_STATE_DIR=str(tmp_path / place))
        assert done.returncode == 2
        assert str(tmp_path / place) in done.stderr
        assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path, app_key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = serve(tmp_path, app_key, GRAFTSMITH_PORT=port)
    assert done.returncode == 2
    assert '"app.serve"' in done.stderr, "how tests are isolated here is told before the first job"
    assert f"port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_nobody_foresaw_is_a_bug_of_ours_and_a_full_disk_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert unexpected(ValueError("x")) == OUR_BUG
    assert "ValueError: x" in (said := capsys.readouterr().err) and "bug of ours" in said
    assert unexpected(OSError(errno.ENOSPC, "No space left on device")) == USAGE
    assert "Traceback" not in (said := capsys.readouterr().err) and "GRAFTSMITH_STATE_DIR" in said
    with pytest.raises(CommandNotFound) as missing:
        process.run(["/nowhere/git"])
    assert unexpected(missing.value) == USAGE
    assert "Traceback" not in (said := capsys.readouterr().err) and "/nowhere/git" in said and "Install it" in said


def test_a_folder_that_is_no_repository_is_a_usage_error(tmp_path: Path) -> None:
    own = {"OPENAI_MODEL": "m", "OPENAI_API_KEY": "key-12345678", "GRAFTSMITH_STATE_DIR": str(tmp_path / "state")}
    done = run("run", "--repo", ".", "--task", "x", "--json", cwd=tmp_path, **own)
    assert done.returncode == 2
    assert "not a git repository" in done.stderr.lower() or "no git repository" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["what"] in done.stderr and error["why"] in done.stderr and error["todo"] in done.stderr
    assert not list((tmp_path / "state" / "local").iterdir()), "no folder of a run that never was"


def test_settings_that_a_checkout_brings_along_are_not_read(tmp_path: Path) -> None:
    """Its author would choose the budget and the place of the state."""
    (tmp_path / ".env").write_text(f"GRAFTSMITH_STATE_DIR={tmp_path / 'theirs'}\nGRAFTSMITH_MAX_DOLLARS=1000\n")
    (tmp_path / "a.txt").write_text("a\n")
    own = {"OPENAI_MODEL": "m", "OPENAI_API_KEY": "key-12345678"}
    for step in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *step], cwd=tmp_path, check=True)
    with serve_script({"sessions": [{"name": "any", "steps": [{"content": "Nowhere."}]}]}) as model:
        done = run(
            "ask", "Where?", cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "mine"), OPENAI_BASE_URL=model.base_url, **own
        )
    assert done.returncode == 0, done.stderr
    assert ".env is not read" in done.stderr
    assert not (tmp_path / "theirs").exists() and (tmp_path / "mine").exists()


def test_a_wrong_option_is_a_usage_error(tmp_path: Path) -> None:
    assert run("nonsense", cwd=tmp_path).returncode == 2
    done = run("run", "--nonsense", "--json", cwd=tmp_path)
    assert done.returncode == 2 and "--nonsense" in json.loads(done.stdout)["error"]["what"]


@pytest.mark.parametrize(
    ("reply", "code", "words"), [({"content": "Yes."}, 0, "answers"), ({"status": 401}, 1, "refused the key")]
)
def test_the_doctor_asks_the_model(tmp_path: Path, reply: dict[str, object], code: int, words: str) -> None:
    with serve_script({"sessions": [{"name": "any", "steps": [reply]}]}) as model:
        own = {"OPENAI_MODEL": "scripted", "OPENAI_API_KEY": "key-12345678", "OPENAI_BASE_URL": model.base_url}
        done = run("doctor", "--model", "--json", cwd=tmp_path, **own)
    *_, check = json.loads(done.stdout)["checks"]
    assert (done.returncode, check["name"], check["ok"]) == (code, "model", code == 0)
    assert words in check["detail"] and "key-12345678" not in done.stdout


def test_a_checkout_with_a_package_of_our_name_does_not_shadow_us(tmp_path: Path) -> None:
    for name in ("app", "agent", "sandbox"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the checkout was imported')\n")
    done = run("doctor", "--app", "--json", cwd=tmp_path)
    assert "the checkout was imported" not in done.stdout + done.stderr
    *_, app = json.loads(done.stdout.strip().splitlines()[-1])["checks"]
    assert done.returncode == 1
    assert (app["name"], app["ok"]) == ("GitHub App", False) and "WEBHOOK_SECRET is missing" in app["detail"]
