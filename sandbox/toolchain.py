"""Finds what a user's test command needs of their machine, and nothing more: interpreters, environments, tools.

The result is read-only mounts at the very paths that scripts and environments have written into them, and the ``PATH``
that leads there. A home folder is never mounted as a whole, nor anything in it that holds settings or credentials.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sandbox import machine, process, versions
from sandbox.errors import CommandNotFound
from sandbox.inside import HOME
from sandbox.process import DEFAULT_PATH
from sandbox.types import Mount

_SYSTEM = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"))
# What makes the parent of a ``bin`` folder a toolchain that can be mounted as one piece.
_PREFIX_SIGNS = ("pyvenv.cfg", "conda-meta", "lib", "lib64", "libexec", "include", "VERSION")
_PRIVATE = frozenset(
    (".ssh", ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".mozilla", ".password-store", ".netrc", ".git")
)
_MACHINE = tuple(Path("/", name) for name in ("boot", "dev", "etc", "proc", "run", "sys"))
_ENVIRONMENTS = (".venv", "venv", "env")
_IMPORTABLE = (".py", ".so", ".egg-info", ".dist-info")
# Looked for in folders of single tools besides the command's own words: what scripts and task files call.
_USUAL = (
    *("python", "python3", "pip", "pytest", "tox", "nox", "hatch", "poetry", "pdm", "pipenv", "uv", "uvx"),
    *("node", "npm", "npx", "pnpm", "yarn", "bun", "deno", "go", "make", "just", "cmake", "ninja"),
    # What cargo calls has to come from the same place: another's clippy does not know this one's compiler.
    *("cargo", "rustc", "rustdoc", "cargo-clippy", "clippy-driver"),
)
_CACHES = {
    "cargo": ".cargo/registry",
    "go": "go/pkg/mod",
    "mvn": ".m2/repository",
    "mvnw": ".m2/repository",
}
KEEP_PACKAGES = tuple(_CACHES)
"""Commands that keep what they have fetched in a home."""
_NOT_TRACKED = 1  # exit code of git ls-files
_SCRIPT_HEAD = 4096
_LINKS = 40  # as many as the kernel follows


def mounts_for(command: str, path: str, checkout: Path | None) -> tuple[tuple[Mount, ...], dict[str, str]]:
    """Mounts and environment with which ``command`` finds its programs inside a sandbox as it does outside.

    Args:
        command: the test command, one shell line; its words tell which single tools are needed.
        path: the value of the user's ``PATH``.
        checkout: the user's own checkout, seen inside at the same path. What lies in it is not mounted here; what an
            environment in it refers to is.
    """
    search = _Search(_words(command), checkout)
    entries = [Path(entry) for entry in path.split(":") if entry.startswith("/")]
    environment = next(filter(_is_environment, (entry.parent for entry in entries)), None) or _environment_in(checkout)
    if environment is not None:
        search.environment(environment)
        search.lead_to(environment / "bin")
    for word in search.words:
        if "/" in word:
            search.named(Path(os.path.normpath((checkout or Path("/")) / word)))
    for entry in entries:
        search.folder(entry)
    search.caches()
    variables = {"PATH": ":".join(dict.fromkeys([*search.path, *DEFAULT_PATH.split(":")])), **search.variables}
    if environment is not None:
        variables["VIRTUAL_ENV"] = str(environment)
    return tuple(_outermost(search.mounts)), variables


@dataclass
class _Search:
    """Gathers mounts while following what a tool refers to."""

    words: tuple[str, ...]
    checkout: Path | None
    mounts: list[Mount] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    _seen: set[Path] = field(default_factory=set)

    def lead_to(self, folder: Path) -> None:
        self.path.append(str(folder))

    def folder(self, folder: Path) -> None:
        """One entry of ``PATH``."""
        if _within(folder, _SYSTEM):
            self.lead_to(folder)
        elif folder.name == "shims":
            self._versions(folder.parent)
        elif (prefix := _prefix(folder / "any")) is not None:
            self.prefix(prefix)
            self.lead_to(folder)
        elif folder.is_dir():
            self._single_tools(folder)

    def named(self, file: Path) -> None:
        """A program that the command names by its path. What a script of the repository names is not followed: it
        could be any program in any folder of the user's."""
        if self.checkout is None or not _within(file, (self.checkout,)):
            self.tool(file)
        elif _is_environment(root := file.parent.parent) and not _came_with_the_repository(self.checkout, root):
            self.environment(root)

    def environment(self, root: Path) -> None:
        """A Python virtual environment with the interpreter that it was made from and its editable installs."""
        if root in self._seen:
            return
        self._seen.add(root)
        self._show(root)
        home = _setting(root / "pyvenv.cfg", "home")
        if home.startswith("/"):
            self.prefix(Path(home).parent)
        for python in sorted((root / "bin").glob("python*")):
            self._follow(python)
        for folder in _import_folders(root):
            for importable in _importable(folder):
                self._show(importable)

    def prefix(self, root: Path) -> None:
        """A toolchain in one folder, whatever links lead to it."""
        if _is_environment(root):
            self.environment(root)
        elif root not in self._seen and not _within(root, _SYSTEM):
            self._seen.add(root)
            self._show(root)
            for python in sorted((root / "bin").glob("python3")):
                self._follow(python)

    def tool(self, file: Path) -> None:
        """One program: the file, where its links lead, and the interpreter in its first line."""
        if file in self._seen or not _is_program(file):
            return
        self._seen.add(file)
        self._follow(file)
        interpreter = _interpreter(file)
        if interpreter is not None and not _within(interpreter, _SYSTEM):
            self.tool(interpreter)

    def _follow(self, file: Path) -> None:
        """Each step of a chain of links must be there inside, so mount what holds it: a toolchain, or the file."""
        if not _is_program(file):
            return
        for step in _chain(file):
            prefix = _prefix(step)
            if prefix is None:
                self._show(step)
            else:
                self.prefix(prefix)

    def _single_tools(self, folder: Path) -> None:
        """A folder such as ``~/.local/bin``, where everything that a person ever installed lies side by side."""
        for name in dict.fromkeys((*self.words, *_USUAL)):
            if "/" not in name and _is_program(folder / name):
                self.tool(folder / name)
        for packages in sorted(folder.parent.glob("lib/python*/site-packages")):  # pip install --user
            self._show(packages, f"{HOME}/.local/{packages.relative_to(folder.parent)}")
        if folder.parent.name == ".cargo" and (rustup := folder.parent.with_name(".rustup")).is_dir():
            self._show(rustup)
            self.variables["RUSTUP_HOME"] = str(rustup)
        self.lead_to(folder)

    def _versions(self, manager: Path) -> None:
        """A version manager's stand-ins choose at run time, from settings in a home; so choose now."""
        for version in versions.chosen(manager, self.checkout):
            self.prefix(version)
            self.lead_to(version / "bin")

    def caches(self) -> None:
        """Packages that other languages keep outside of the checkout, at the places where tools look for them."""
        try:
            home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
        except KeyError:  # a container may run as a user that nobody has entered
            return
        for word in self.words:
            cache = _CACHES.get(Path(word).name)
            if cache is not None:
                self._show(home / cache, f"{HOME}/{cache}")

    def _show(self, path: Path, target: str | None = None) -> None:
        real = Path(os.path.realpath(path))
        hidden = (*_SYSTEM, self.checkout) if self.checkout else _SYSTEM
        if _within(real, hidden) or not real.exists() or not _may_show(real):
            return
        # A link in the checkout is there inside too, so it is its end that must be mounted.
        place = real if _within(path, hidden) else os.path.normpath(path)
        self.mounts.append(Mount(real, target or str(place)))


def _words(command: str) -> tuple[str, ...]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return tuple(lexer)
    except ValueError:
        return tuple(command.split())


def _is_program(file: Path) -> bool:
    try:
        return file.is_file() and os.access(file, os.X_OK)
    except (OSError, ValueError):  # a word may be anything, also too long for a path
        return False


def _is_environment(root: Path) -> bool:
    return (root / "pyvenv.cfg").is_file()


def _environment_in(checkout: Path | None) -> Path | None:
    """The user's own environment in the checkout. One that came with the repository could name any folder of theirs
    as its interpreter's or as a source of imports, and is no more than files of the repository."""
    if checkout is None:
        return None
    found = filter(_is_environment, (checkout / name for name in _ENVIRONMENTS))
    return next((root for root in found if not _came_with_the_repository(checkout, root)), None)


def _came_with_the_repository(checkout: Path, path: Path) -> bool:
    """Also when git can't tell."""
    safe = ("-c", "core.fsmonitor=false", "-c", f"safe.directory={checkout}")
    argv = ["git", *safe, "-C", str(checkout), "ls-files", "--error-unmatch", "--", str(path)]
    try:
        return process.run(argv, env={**process.CLEAN_ENV, "GIT_OPTIONAL_LOCKS": "0"}).exit_code != _NOT_TRACKED
    except CommandNotFound:
        return True


def _prefix(file: Path) -> Path | None:
    """The toolchain that a program belongs to: the parent of its ``bin``, when that may be mounted as a whole."""
    root = file.parent.parent
    store = Path("/nix/store")
    if _within(file, (store,)):
        return store
    is_toolchain = file.parent.name == "bin" and root.name != ".local" and _may_show(root)
    return root if is_toolchain and any((root / sign).exists() for sign in _PREFIX_SIGNS) else None


def _chain(file: Path) -> Iterator[Path]:
    """``file`` and every path on the way through its links, links of parent folders resolved as the last."""
    for _ in range(_LINKS):
        yield file
        if not file.is_symlink():
            break
        file = Path(os.path.normpath(file.parent / file.readlink()))
    real = Path(os.path.realpath(file))
    if real != file:
        yield real


def _interpreter(file: Path) -> Path | None:
    with suppress(OSError), file.open("rb") as script:
        first = script.read(_SCRIPT_HEAD).split(b"\n", 1)[0]
        if first.startswith(b"#!/"):
            return Path(os.fsdecode(first[2:].split()[0]))
    return None


def _setting(file: Path, key: str) -> str:
    for line in machine.text_of(file).splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == key:
            return value.strip()
    return ""


def _import_folders(environment: Path) -> Iterator[Path]:
    """Folders outside that an environment imports from: editable installs."""
    for file in sorted(environment.glob("lib/python*/site-packages/*.pth")):
        yield from (Path(line.strip()) for line in machine.text_of(file).splitlines() if line.startswith("/"))


def _importable(folder: Path) -> Iterator[Path]:
    """What can be imported from a source folder; the rest of it, such as an ``.env`` file, is nobody's business."""
    with suppress(OSError):
        for child in sorted(folder.iterdir()):
            if child.suffix in _IMPORTABLE or (child / "__init__.py").is_file():
                yield child


def _may_show(path: Path) -> bool:
    """False for a home, for what contains one, and for what holds settings, credentials or the machine's state."""
    if _PRIVATE & set(path.parts) or _within(path, _MACHINE):
        return False
    return not any(home.is_relative_to(path) for home in _homes())


@cache
def _homes() -> set[Path]:
    return {Path(user.pw_dir) for user in pwd.getpwall()} | {Path("/root"), Path("/home")}


def _within(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _outermost(mounts: list[Mount]) -> Iterator[Mount]:
    """Without doubles and without what an outer mount shows at that place anyway."""
    kept: list[Mount] = []
    for mount in sorted(dict.fromkeys(mounts), key=lambda mount: len(Path(mount.target).parts)):
        outer = next((k for k in kept if Path(mount.target).is_relative_to(k.target)), None)
        if outer is None or outer.source / Path(mount.target).relative_to(outer.target) != mount.source:
            kept.append(mount)
            yield mount
