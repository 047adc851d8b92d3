"""A user's own tools are found inside, and nothing else of theirs."""

from __future__ import annotations

import pwd
import sys
from pathlib import Path

import pytest

from sandbox import process
from sandbox.inside import HOME
from sandbox.toolchain import mounts_for
from sandbox.types import Command, Mount, Sandbox

INTERPRETER = Path(sys.executable).resolve()


def _make(path: Path, text: str = "", *, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def _environment(root: Path) -> Path:
    """A real virtual environment."""
    assert process.run([str(INTERPRETER), "-m", "venv", "--without-pip", str(root)]).ok
    return root


def _checkout(path: Path) -> Path:
    path.mkdir()
    assert process.run(["git", "init", "-q", str(path)]).ok
    return path


def _targets(command: str, path: str, checkout: Path | None = None) -> list[str]:
    return [mount.target for mount in mounts_for(command, path, checkout)[0]]


@pytest.fixture(autouse=True)
def readable(tmp_path: Path) -> None:
    """As a user's folders are for others, on most machines."""
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)


def _run(sandbox: Sandbox, line: str, path: str, checkout: Path | None = None, *more: Mount) -> str:
    mounts, env = mounts_for(line, path, checkout)
    finished = sandbox.run(Command(("sh", "-c", line), cwd="/", mounts=(*mounts, *more), env=env))
    return finished.output.decode()


def test_an_active_environment_outside_of_the_checkout(bubblewrap: Sandbox, tmp_path: Path) -> None:
    environment = _environment(tmp_path / "environments/mine")
    line = "python -c 'import sys; print(sys.prefix, sys.base_prefix)'; echo $VIRTUAL_ENV"

    said = _run(bubblewrap, line, f"{environment}/bin:/usr/bin")

    assert said.split() == [str(environment), sys.base_prefix, str(environment)]


def test_an_environment_in_the_checkout_whose_interpreter_is_elsewhere(bubblewrap: Sandbox, tmp_path: Path) -> None:
    checkout = _checkout(tmp_path / "project")
    _environment(checkout / ".venv")
    line = "python -c 'import sys; print(sys.prefix)'; .venv/bin/python -c 'print(1)' || true"

    said = _run(bubblewrap, line, "/usr/bin", checkout, Mount(checkout, str(checkout)))

    assert said.startswith(str(checkout / ".venv"))
    assert str(checkout / ".venv") not in _targets(line, "/usr/bin", checkout)


def test_an_environment_behind_links(bubblewrap: Sandbox, tmp_path: Path) -> None:
    """The checkout has a link to an environment, whose interpreter lies behind a link to a folder."""
    (tmp_path / "current").symlink_to(INTERPRETER.parents[1])
    environment = tmp_path / "environments/real"
    linked = tmp_path / "current/bin" / INTERPRETER.name
    assert process.run([str(linked), "-m", "venv", "--without-pip", str(environment)]).ok
    checkout = _checkout(tmp_path / "project")
    (checkout / ".venv").symlink_to(environment)

    line = "python -c 'import sys; print(sys.version_info[0])'"
    said = _run(bubblewrap, line, "/usr/bin", checkout, Mount(checkout, str(checkout)))

    assert said == "3\n"


def test_an_editable_install_shows_what_can_be_imported_and_nothing_else(bubblewrap: Sandbox, tmp_path: Path) -> None:
    environment = _environment(tmp_path / "environment")
    _make(tmp_path / "other/package/__init__.py", "value = 42")
    _make(tmp_path / "other/.env", "sentinel", mode=0o644)
    _make(next(environment.glob("lib/python*/site-packages")) / "other.pth", f"{tmp_path}/other\n")

    line = f"python -c 'import package; print(package.value)'; cat {tmp_path}/other/.env"
    said = _run(bubblewrap, line, f"{environment}/bin:/usr/bin")

    assert said.startswith("42\n")
    assert "sentinel" not in said


def test_an_environment_that_came_with_the_repository_leads_nowhere(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path / "project")
    _make(tmp_path / "private/bin/python3")
    _make(tmp_path / "private/lib/secret")
    _make(tmp_path / "notes/__init__.py", "sentinel")
    _make(checkout / ".venv/pyvenv.cfg", f"home = {tmp_path}/private/bin\n")
    _make(checkout / ".venv/lib/python3.11/site-packages/x.pth", f"{tmp_path}\n")
    before = _targets("python -m pytest", "/usr/bin", checkout)

    assert process.run(["git", "-C", str(checkout), "add", "-f", ".venv/pyvenv.cfg"]).ok

    assert set(before) == {f"{tmp_path}/private", f"{tmp_path}/notes"}
    assert _targets("python -m pytest", "/usr/bin", checkout) == []


def test_only_programs_are_followed_and_none_that_the_repository_names(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path / "project")
    secret, other = _make(tmp_path / "secret", "sentinel", mode=0o644), _make(tmp_path / "private/bin/tool")
    _make(tmp_path / "private/lib/secret", "sentinel")
    for name, target in (("secret", secret), ("tool", other)):
        _make(checkout / f"run-{name}", f"#!{target}\n")
        (checkout / f"linked-{name}").symlink_to(target)
    line = f"./run-secret ./run-tool ./linked-secret ./linked-tool {secret}"

    assert _targets(line, "/usr/bin", checkout) == []
    assert _targets(f"{other} x", "/usr/bin", checkout) == [f"{tmp_path}/private"]


def test_an_environment_of_another_name_in_the_checkout(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path / "project")
    _environment(checkout / "environments/py3")

    assert str(INTERPRETER.parents[1]) in _targets("environments/py3/bin/python -m pytest", "/usr/bin", checkout)


def test_a_version_manager_is_replaced_by_the_version_it_would_choose(tmp_path: Path) -> None:
    root, checkout = tmp_path / "pyenv", tmp_path / "project"
    for version in ("3.9.1", "3.12.1", "3.12.10"):
        _make(root / f"versions/{version}/bin/python3")
        _make(root / f"versions/{version}/lib/x")
    _make(root / "shims/python3", "#!/usr/bin/env bash\nexit 1\n")
    _make(root / "version", "3.9.1\n")
    _make(checkout / ".python-version", "3.12\n")

    mounts, env = mounts_for("python3", f"{root}/shims:/usr/bin", checkout)
    _, without = mounts_for("python3", f"{root}/shims:/usr/bin", None)

    assert [mount.target for mount in mounts] == [f"{root}/versions/3.12.10"]
    assert env["PATH"].startswith(f"{root}/versions/3.12.10/bin:/usr/bin")
    assert without["PATH"].startswith(f"{root}/versions/3.9.1/bin")


def test_a_version_manager_of_many_languages(tmp_path: Path) -> None:
    root, checkout = tmp_path / "asdf", tmp_path / "project"
    for version in ("nodejs/18.2.0", "nodejs/20.1.0", "python/3.9.1", "python/3.12.1"):
        _make(root / f"installs/{version}/bin/tool")
        _make(root / f"installs/{version}/lib/x")
    _make(checkout / ".tool-versions", "nodejs\t18.2.0\nerlang\n")

    targets = _targets("npm test", f"{root}/shims:/usr/bin", checkout)

    assert targets == [f"{root}/installs/nodejs/18.2.0", f"{root}/installs/python/3.12.1"]


@pytest.mark.parametrize("name", ["../../../etc", "/etc", ".", "..", "3.12/../../.."])
def test_a_version_named_by_the_repository_stays_a_version(tmp_path: Path, name: str) -> None:
    root, checkout = tmp_path / "pyenv", tmp_path / "project"
    _make(root / "versions/3.12.1/bin/python3")
    _make(checkout / ".python-version", name)

    mounts, _ = mounts_for("python3", f"{root}/shims:/usr/bin", checkout)

    assert mounts == ()


def test_single_tools_among_many(bubblewrap: Sandbox, tmp_path: Path) -> None:
    """A tool that lies in an environment of its own, reached by a link from a folder full of others."""
    local = tmp_path / ".local"
    environment = _environment(local / "share/pipx/venvs/checker")
    tool = _make(environment / "bin/checker", f"#!{environment}/bin/python\nprint('checked')\n")
    (local / "bin").mkdir()
    (local / "bin/checker").symlink_to(tool)
    _make(local / "bin/with-a-token", "sentinel")
    _make(local / "share/keyrings/x", "sentinel")

    said = _run(bubblewrap, "checker; ls -A " + str(local / "bin"), f"{local}/bin:/usr/bin")

    assert said.split() == ["checked", "checker"]
    assert not any("keyrings" in target or target == str(local) for target in _targets("checker", f"{local}/bin"))


def test_packages_installed_for_the_user(tmp_path: Path) -> None:
    _make(tmp_path / ".local/lib/python3.11/site-packages/x.py")
    (tmp_path / ".local/bin").mkdir()

    assert _targets("x", f"{tmp_path}/.local/bin") == [f"{HOME}/.local/lib/python3.11/site-packages"]


def test_a_toolchain_in_a_folder_of_its_own(tmp_path: Path) -> None:
    node = tmp_path / "nvm/versions/node/v20.1.0"
    _make(node / "bin/node")
    _make(node / "lib/node_modules/npm/index.js")

    mounts, env = mounts_for("npm test", f"{node}/bin:/usr/bin:relative:", None)

    assert [mount.target for mount in mounts] == [str(node)]
    assert not any(mount.writable for mount in mounts)
    assert env["PATH"].split(":")[:2] == [f"{node}/bin", "/usr/bin"]


def test_no_home_and_no_credentials() -> None:
    homes = [Path(user.pw_dir) for user in pwd.getpwall() if user.pw_uid == 0 or user.pw_uid >= 1000]
    path = ":".join(f"{home}/{place}" for home in homes for place in ("bin", ".ssh/bin", ".config/x/bin", ".", ""))

    mounts, _ = mounts_for("pytest ~/.ssh/id /root/.ssh/known_hosts /etc/shadow", f"{path}:/:/etc/bin:/home", None)

    for mount in mounts:
        assert not any(home.is_relative_to(mount.source) for home in homes), mount
        assert not {".ssh", ".config", ".aws"} & set(mount.source.parts), mount
        assert not mount.source.is_relative_to("/etc"), mount


def test_this_very_interpreter(bubblewrap: Sandbox) -> None:
    said = _run(bubblewrap, f"{sys.executable} -c 'import sys; print(sys.prefix)'", "/usr/bin")

    assert said.strip() == sys.prefix
