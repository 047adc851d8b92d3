"""Installs a Python project and what its tests need into a virtual environment. Pure: says what to run."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.verify.files import Files, text
from agent.verify.toolchains import python_needs, tox
from agent.verify.toolchains.base import ENVIRONMENT, VENV, Step, shell

PYTHON: Final = f"{VENV}/bin/python"
_PIP: Final = (PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet")
WHEELS: Final = f"{ENVIRONMENT}/.wheels"
"""Where packages lie that only building the project needs."""
_WHEEL: Final = (PYTHON, "-m", "pip", "wheel", "--no-input", "--disable-pip-version-check", "--quiet", "-w", WHEELS)
_NOTHING: Final[frozenset[str]] = frozenset()
_CHANGELOG: Final = re.compile(r"(change|news|history|releases?\b)[^/]*", re.IGNORECASE)
_HEADED: Final = re.compile(r"(?m)^\W{0,8}(?:[A-Za-z][\w.-]{0,60} {1,2})?\[?v?(\d{1,4}(?:\.\d{1,4}){1,3})\b")
_VERSION: Final = "999.0"
"""High, so that the project satisfies who depends on it."""


def steps(files: Files, runner: str) -> tuple[Step, ...]:
    """Virtual environment, the project's test requirements, the runner, if any, and the project as an editable install.

    An editable install records the path of the checkout, which is the same inside every sandbox. The project comes
    last: where a requirement depends on it (a documentation tool on its own template engine), its released version
    comes along, and only what is installed later takes that one's place.
    """
    env = _version_env(files)
    made = [Step(("python3", "-m", "venv", VENV), reads=_NOTHING, network=False)]
    of_tox = [path for path in tox.requirement_files(text(files, "tox.ini")) if text(files, path)]
    listed = dict.fromkeys((*python_needs.requirement_files(files), *of_tox))
    made += [_pip("-r", path, env=env, reads=read_by(files, path)) for path in listed]
    for declared in (
        python_needs.groups(files),
        python_needs.poetry_groups(files),
        python_needs.tool_groups(files),
        python_needs.nox_installs(text(files, "noxfile.py")),
        python_needs.tox_requirements(files),
    ):
        wanted = python_needs.sendable(declared)
        if wanted:
            made.append(_pip("--", *wanted, env=env))
    if runner:
        made.append(replace(_pip("--", runner, required=True), tools=True))
    if _is_package(files):
        made += _project(files, env)
    return tuple(made)


def _pip(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    required: bool = False,
    reads: frozenset[str] | None = _NOTHING,
) -> Step:
    return Step((*_PIP, *arguments), env or {}, required, reads)


def _is_package(files: Files) -> bool:
    project = python_needs.pyproject(files)
    return bool({"build-system", "project"} & project.keys() or text(files, "setup.py") or text(files, "setup.cfg"))


def _project(files: Files, env: Mapping[str, str]) -> Iterator[Step]:
    """Where what its tests need besides can't be had, its own needs are installed; where these can't, the project still
    takes the place of a release of its own: tests of some other version would say nothing. The failure is told all the
    same."""
    found = python_needs.extras(files)
    yield from ahead_of_project(files, found, env)
    wanted = f".[{','.join(found)}]" if found else "."
    whole, alone = shlex.join((*_PIP, "-e", wanted)), shlex.join((*_PIP, "--no-deps", "-e", "."))
    less = f"{shlex.join((*_PIP, '-e', '.'))} || {alone}" if found else alone
    offline = (*_PIP, "--no-index", "--find-links", WHEELS, "-e", wanted)
    yield Step(shell(f"{whole} || {{ {less}; exit 1; }}"), env, required=False, offline=offline, tools=True)


def ahead_of_project(files: Files, extras: Sequence[str], env: Mapping[str, str]) -> Iterator[Step]:
    """What the project with these extras needs and what builds it, as far as its files tell."""
    needs, builders = python_needs.needed(files, extras), python_needs.needed_to_build(files)
    if needs:
        yield replace(_pip("--", *needs, env=env), ahead=True)
    if builders:
        yield Step((*_WHEEL, "--", *builders), env, required=False, reads=_NOTHING, ahead=True, tools=True)


def read_by(files: Files, path: str) -> frozenset[str] | None:
    """The requirements file with all that it includes; ``None`` when it names something else of the repository."""
    pending, found = [path], set[str]()
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found.add(path)
        for line in text(files, path).replace("\\\n", " ").splitlines():
            word = line.split(" #")[0].strip()
            included = re.fullmatch(r"(?:-r|-c|--requirement|--constraint)[ =]?\s*([\w.-][\w./-]*)", word)
            if included:
                pending.append(posixpath.normpath(posixpath.join(posixpath.dirname(path), included.group(1))))
            elif word and not word.startswith("#") and not python_needs.ELSEWHERE.fullmatch(word):
                return None
    return frozenset(found)


# ── its version ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _version_env(files: Files) -> Mapping[str, str]:
    build = "\n".join(text(files, name) for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    if not re.search(r"setuptools[_-]scm|hatch-vcs|pbr|versioneer|poetry-dynamic-versioning|pdm-backend", build):
        return {}
    version = _version(files)
    name = python_needs.project_name(files)
    env = {"PBR_VERSION": version, "PDM_BUILD_SCM_VERSION": version, "POETRY_DYNAMIC_VERSIONING_BYPASS": version}
    if name:
        key = re.sub(r"[-_.]+", "_", name).upper()
        env[f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{key}"] = version
    # hatch-vcs gives setuptools-scm no name; without one the variable would rename every dependency built from source.
    return {**env, "SETUPTOOLS_SCM_PRETEND_VERSION": version} if "hatch-vcs" in build else env


def _version(files: Files) -> str:
    """The last release, as far as the tree tells: a checkout has no history to read a version from.

    A wrong one does harm where a test tool depends on the project: pip then takes some other version of that tool,
    maybe one of many years ago, which goes with it.
    """
    logs = sorted(path for path in files.paths() if "/" not in path and _CHANGELOG.fullmatch(path))
    found = [
        re.search(r"(?m)^Version: (\S+)", text(files, "PKG-INFO")),
        *(_HEADED.search(text(files, p)) for p in logs),
    ]
    return next((match.group(1) for match in found if match), _VERSION)
