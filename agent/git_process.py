"""What every git process of ours is started with: nothing in a repository or in a user's settings can run a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from agent.git_errors import NotARepository, first_line
from sandbox import process
from sandbox.types import MIB, Limits

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = {
    "PATH": _PATH,
    "LC_ALL": "C",  # messages are matched below
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.quotePath": "false",
    "credential.helper": "",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "transfer.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "http.followRedirects": "false",  # a redirect could carry the token to another host
    "gc.auto": "0",
    "maintenance.auto": "false",
}
LOCAL = Limits(wall_s=300.0, output_bytes=256 * MIB)
"""Of a command that asks nobody else."""


def environment(settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The whole environment of a git process: nothing inherited, our settings above every file's."""
    pairs = {**_SETTINGS, **settings}
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**_ENVIRONMENT, **variables}


def user_git(checkout: Path, arguments: Sequence[str]) -> bytes:
    """Run a reading command in a user's own checkout; nothing is written there, and none of its settings can start
    a program. The owner of the folder does not matter for that.

    Raises:
        NotARepository: not a git checkout, or one that git can't read.
    """
    finished = process.run(
        ["git", "-C", str(checkout), *arguments],
        env=environment({"safe.directory": "*"}),
        limits=LOCAL,
        split_stderr=True,
    )
    if finished.ok:
        return finished.stdout
    if b"bare repository" in finished.stderr:
        raise NotARepository(f"{checkout} holds no files to work on, it is a repository alone", todo="Name a checkout")
    why = f"git says: {first_line(finished.stderr)}"
    raise NotARepository(f"{checkout} is not a usable git checkout", why=why, todo="Name a checkout")
