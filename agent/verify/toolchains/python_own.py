"""The runner that a Python project itself is tested by, where that is not pytest. Pure.

Asked only where nothing configures pytest: pytest runs unittest's classes too, and tells of each test. So another one
is taken where the tests need it (Django's makes their databases, Twisted's turns their reactor) and we can read what it
says. The first file that names a runner decides; one that names pytest, or unittest, decides for pytest.

What is run is put together here, from words that are known one by one: a script or a module of the repository, folders
and dotted names that are in it, a few options. A call with any other word is not taken at all.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.verify.files import Files, text
from agent.verify.toolchains import named_calls
from agent.verify.toolchains.named_calls import Call

DJANGO: Final = "django"
TRIAL: Final = "trial"
_SHOWN: Final = 120
"""Characters of a call that is told."""


@dataclass(frozen=True)
class Own:
    """How the project tests itself."""

    runner: str
    """``DJANGO`` or ``TRIAL``."""
    line: str
    reason: str
    """For a person."""


def find(files: Files) -> Own | None:
    """The project's own runner; ``None`` where that is pytest, or none that is known."""
    named = _named(files)
    if named is None and "DJANGO_SETTINGS_MODULE" in text(files, "manage.py"):
        return Own(DJANGO, "python3 manage.py test", "manage.py runs Django's tests")
    return named


def unread(files: Files) -> str:
    """What the project's own files call in place of that, though nothing of it is taken; for a person, empty mostly."""
    for source, calls in named_calls.by_source(files):
        bare = [(call, _bare(call.words)) for call in calls]
        own = [call for call, found in bare if found and _is_own(found[1], call.folder, files)]
        if own:
            return (
                f"{source} has the tests run by `{' '.join(own[0].words)[:_SHOWN]}`, which can't be read test by test"
            )
    return ""


def _is_own(program: str, folder: str, files: Files) -> bool:
    """Whether a program is a module or a script of the repository that is called after tests."""
    name = program.removeprefix("-m ")
    path = posixpath.normpath(posixpath.join(folder, program))
    module = name != program and _is_there(name, folder, files)
    return "test" in name and (module or path in files.paths())


def _named(files: Files) -> Own | None:
    for source, calls in named_calls.by_source(files):
        read = [found for call in calls for found in _read(call, files)]
        if "" in read:
            return None
        known = [found for found in read if isinstance(found, tuple)]
        if known:
            runner, line = known[0]
            return Own(runner, line, f"{source} has the tests run by it")
    return None


def _read(call: Call, files: Files) -> Iterator[tuple[str, str] | str]:
    """The runner and the line of a call that is understood; the empty string for pytest's."""
    bare = _bare(call.words)
    if bare is None:
        return
    env, program, arguments = bare
    if program in ("pytest", "py.test", "unittest", "-m pytest", "-m unittest", "-m py.test"):
        yield ""
        return
    folder = call.folder
    if folder and (folder.startswith((".", "/", "-")) or not _is_folder(folder, files)):
        return
    for runner, (names, options) in _RUNNERS.items():
        head = names(program, arguments, folder, files)
        place = posixpath.join(folder, head.place) if head else ""
        kept = options.taken(arguments[head.used :], place, files) if head else None
        if head and kept is not None:
            given = {**_settings(call.env), **env}
            words = [*(f"{name}={value}" for name, value in given.items()), "python3", *head.words, *kept]
            yield runner, f"{f'cd {shlex.quote(folder)} && ' if folder else ''}{shlex.join(words)}"
            return


# ── wrappers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_PLAIN_VALUE: Final = re.compile(r"[\w.:/@+-]*")
_RUN_BY: Final = frozenset({"uv", "poetry", "hatch", "pdm", "pipenv", "rye", "pixi"})
_PYTHON: Final = re.compile(r"(?:[\w./-]*/)?(?:python|pypy)[\d.]*")
_COVERAGE: Final = re.compile(
    r"-p|-a|--parallel(-mode)?|--append|--branch|(--source|--rcfile|--data-file|--omit|--include)=\S+"
)


def _bare(words: Sequence[str]) -> tuple[Mapping[str, str], str, Sequence[str]] | None:
    """The variables, the program and its arguments, without what only runs or measures it; a module is ``-m name``.

    ``None`` where something is in between that is not known.
    """
    rest, env = list(words), dict[str, str]()
    while rest:
        word = rest[0]
        given = re.fullmatch(r"([A-Z_][A-Z\d_]*)=(.*)", word)
        if given:
            if not _PLAIN_VALUE.fullmatch(given[2]) or given[1].startswith(("LD_", "PYTHON", "PATH")):
                return None
            env[given[1]] = given[2]
            rest = rest[1:]
        elif word in ("env", "time", "exec"):
            rest = rest[1:]
        elif word in _RUN_BY and rest[1:2] == ["run"]:
            rest = rest[2:]
        elif word == "coverage" and rest[1:2] == ["run"]:
            rest = _past_coverage(rest[2:])
        elif _PYTHON.fullmatch(word):
            rest = _past_python(rest[1:])
            if rest[:2] == ["-m", "coverage"] and rest[2:3] == ["run"]:
                rest = _past_coverage(rest[3:])
        else:
            break
    if not rest:
        return None
    if rest[0] == "-m":
        return (env, f"-m {rest[1]}", rest[2:]) if len(rest) > 1 else None
    return None if rest[0].startswith("-") else (env, rest[0], rest[1:])


def _past_python(rest: list[str]) -> list[str]:
    """Past options that change nothing of how tests are found."""
    while rest:
        if re.fullmatch(r"-(b+|B|d|u|s|W\S+|X\S+)", rest[0]):
            rest = rest[1:]
        elif rest[0] in ("-W", "-X"):
            rest = rest[2:]
        else:
            break
    return rest


def _past_coverage(rest: list[str]) -> list[str]:
    while rest:
        if _COVERAGE.fullmatch(rest[0]):
            rest = rest[1:]
        elif rest[0] in ("--source", "--rcfile", "--data-file", "--omit", "--include"):
            rest = rest[2:]
        else:
            break
    return rest


def _settings(env: Mapping[str, str]) -> Mapping[str, str]:
    """The one variable of a file that a test can't do without."""
    name = "DJANGO_SETTINGS_MODULE"
    return {name: env[name]} if re.fullmatch(r"\w+(\.\w+)*", env.get(name, "")) else {}


# ── runners ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Head:
    """What follows ``python3`` and says which runner it is, and how many of the call's arguments that took."""

    words: tuple[str, ...]
    used: int = 0
    place: str = ""
    """From where names are looked up, seen from where it runs."""


_NamesIt = Callable[[str, Sequence[str], str, Files], _Head | None]


def _django(program: str, arguments: Sequence[str], folder: str, files: Files) -> _Head | None:
    if program == "-m django":
        return _Head(("-m", "django", "test"), 1) if arguments[:1] == ["test"] else None
    script = posixpath.normpath(program)
    path = posixpath.normpath(posixpath.join(folder, script))
    if program.startswith("/") or not re.fullmatch(r"(?!-)[\w./-]+\.py", script) or path not in files.paths():
        return None
    place, name = posixpath.split(script)
    if name == "manage.py":
        return _Head((script, "test"), 1, place) if arguments[:1] == ["test"] else None
    return _Head((script,), place=place) if "test" in name and takes_djangos_options(text(files, path)) else None


def takes_djangos_options(script: str) -> bool:
    """Whether a script hands its arguments to Django's runner, or has the options of Django's own one."""
    return "--noinput" in script or ("execute_from_command_line" in script and "sys.argv" in script)


def _twisted(program: str, arguments: Sequence[str], folder: str, files: Files) -> _Head | None:
    return _Head(("-m", "twisted.trial")) if program in ("-m twisted.trial", "trial") else None


@dataclass(frozen=True)
class _Options:
    """What is known of a runner's arguments."""

    keeps: Mapping[str, str]
    drops: Mapping[str, str]
    """How often it tells, where it writes, what only some other reader needs."""
    alone: str
    """Those without a value that say nothing of which tests run, as a regular expression; dropped."""

    def taken(self, arguments: Sequence[str], folder: str, files: Files) -> list[str] | None:
        """What is kept of ``arguments``; ``None`` where one is not known.

        ``keeps`` and ``drops`` have options with a value → what that may be, as a regular expression.
        """
        kept: list[str] = []
        pending = list(arguments)
        while pending:
            word = pending.pop(0)
            option, equals, value = word.partition("=")
            known = self.keeps.get(option) or self.drops.get(option)
            if known:
                value = value if equals else pending.pop(0) if pending else ""
                if not re.fullmatch(known, value):
                    return None
                kept += [f"{option}={value}"] if option in self.keeps else []
            elif not word.startswith("-") and _is_there(word, folder, files):
                kept.append(word)
            elif not re.fullmatch(self.alone, word):
                return None
        return kept


_DOTTED: Final = r"[A-Za-z_]\w*(?:\.\w+)*"
_RUNNERS: Final[Mapping[str, tuple[_NamesIt, _Options]]] = {
    DJANGO: (
        _django,
        _Options(
            keeps={"--settings": _DOTTED},
            drops={"-v": r"\d", "--verbosity": r"\d", "--testrunner": r"xmlrunner\.[\w.]+"},
            alone=r"-v\d|-b|--buffer|--no-?input|--failfast|--traceback|--timing|--force-color|--parallel(=\w+)?",
        ),
    ),
    TRIAL: (
        _twisted,
        _Options(
            keeps={"--reactor": r"[a-z\d]+"},
            drops={"--reporter": r"[\w-]+", "--temp-directory": r".+", "-j": r"\w+", "--jobs": r"\w+"},
            alone=r"-j\w+|-e|--rterrors|--nopm",
        ),
    ),
}


def _is_folder(path: str, files: Files) -> bool:
    return any(known.startswith(f"{path}/") for known in files.paths())


def _is_there(word: str, folder: str, files: Files) -> bool:
    """Whether it is a folder or a file of the tree, or the dotted name of one, below a folder of sources too."""
    if not re.fullmatch(r"[\w./-]+", word) or word.startswith(("/", "..")):
        return False
    path = posixpath.normpath(posixpath.join(folder, word))
    dotted = word.replace(".", "/")
    roots: Collection[str] = {folder, "src", "lib"}
    named = {posixpath.normpath(posixpath.join(root, dotted)) for root in roots}
    known = files.paths()
    return path in known or _is_folder(path, files) or any(f"{n}.py" in known or _is_folder(n, files) for n in named)
