"""Installs a Python project and what its tests need into a virtual environment. Pure: says what to run."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.verify.files import Files, text
from agent.verify.toolchains.base import ENVIRONMENT, Step

PYTHON: Final = f"{ENVIRONMENT}/bin/python"
_EXTRAS: Final = ("test", "tests", "testing", "dev", "develop", "development")
_REQUIREMENTS: Final = (
    "requirements.txt",
    *(
        pattern.format(name)
        for name in ("test", "tests", "testing", "dev", "develop")
        for pattern in ("requirements-{}.txt", "requirements_{}.txt", "{}-requirements.txt", "requirements/{}.txt")
    ),
    "requirements/base.txt",
)
# A checkout has no history for these to read a version from; high, so that the project satisfies who depends on it.
_VERSION: Final = "999.0"


def steps(files: Files, runner: str) -> tuple[Step, ...]:
    """Virtual environment, the project as an editable install, its test requirements, and the runner, if any.

    An editable install records the path of the checkout, which is the same inside every sandbox.
    """
    env = _version_env(files)
    made = [Step(("python3", "-m", "venv", ENVIRONMENT))]
    if _is_package(files):
        found = extras(files)
        wanted = f".[{','.join(found)}]" if found else "."
        made.append(_pip("-e", wanted, env=env))
    made += [_pip("-r", path, env=env) for path in _REQUIREMENTS if text(files, path)]
    made += [_pip("--group", group, env=env) for group in groups(files)]
    deps = tox_deps(text(files, "tox.ini"))
    if deps:
        made.append(_pip("--", *deps, env=env))
    return (*made, _pip("--", runner, required=True)) if runner else tuple(made)


def _pip(*arguments: str, env: Mapping[str, str] | None = None, required: bool = False) -> Step:
    command = (PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet")
    return Step((*command, *arguments), env or {}, required)


def _is_package(files: Files) -> bool:
    project = _pyproject(files)
    return bool({"build-system", "project"} & project.keys() or text(files, "setup.py") or text(files, "setup.cfg"))


def extras(files: Files) -> tuple[str, ...]:
    """Names of the extras that look like test dependencies, as the project spells them."""
    project = _pyproject(files)
    declared: list[str] = list(_table(_table(project, "project"), "optional-dependencies"))
    declared += _table(_table(_table(project, "tool"), "poetry"), "extras")
    section = re.search(r"(?ms)^\[options\.extras_require\]\s*\n(.*?)(?=^\[|\Z)", text(files, "setup.cfg"))
    if section:
        declared += re.findall(r"(?m)^([A-Za-z0-9][\w.-]*)\s*=", section.group(1))
    declared += _setup_py_extras(text(files, "setup.py"))
    return tuple(dict.fromkeys(name for name in declared if name.lower() in _EXTRAS))


def groups(files: Files) -> tuple[str, ...]:
    """Dependency groups (PEP 735) that look like test dependencies."""
    return tuple(name for name in _table(_pyproject(files), "dependency-groups") if name.lower() in _EXTRAS)


def tox_deps(config: str) -> tuple[str, ...]:
    """Plain requirements in ``deps`` of ``[testenv]``; not what holds a factor, a substitution or an option."""
    section = re.search(r"(?ms)^\[testenv\]\s*\n(.*?)(?=^\[|\Z)", config)
    deps = re.search(r"(?m)^deps\s*=[ \t]*(.*(?:\n[ \t]+.*)*)", section.group(1)) if section else None
    lines = [line.split(" #")[0].strip() for line in deps.group(1).splitlines()] if deps else []
    return tuple(line for line in lines if re.fullmatch(r"[A-Za-z0-9][\w.,<>=!~\[\]; '\"-]*", line))


def _setup_py_extras(source: str) -> Sequence[str]:
    """Keys of a literal ``extras_require={...}``; what is computed is not guessed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[str] = []
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.keyword) and node.arg == "extras_require" else None
        if isinstance(value, ast.Dict):
            found += [k.value for k in value.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
    return found


def _version_env(files: Files) -> Mapping[str, str]:
    build = "\n".join(text(files, name) for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    if not re.search(r"setuptools[_-]scm|hatch-vcs|pbr|versioneer|poetry-dynamic-versioning|pdm-backend", build):
        return {}
    recorded = re.search(r"(?m)^Version: (\S+)", text(files, "PKG-INFO"))
    version = recorded.group(1) if recorded else _VERSION
    name = re.search(r"(?m)^\s*name\s*=\s*[\"']?([A-Za-z0-9._-]+)", build)
    env = {"PBR_VERSION": version, "PDM_BUILD_SCM_VERSION": version, "POETRY_DYNAMIC_VERSIONING_BYPASS": version}
    if name:
        key = re.sub(r"[-_.]+", "_", name.group(1)).upper()
        env[f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{key}"] = version
    # hatch-vcs gives setuptools-scm no name; without one the variable would rename every dependency built from source.
    return {**env, "SETUPTOOLS_SCM_PRETEND_VERSION": version} if "hatch-vcs" in build else env


def _pyproject(files: Files) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text(files, "pyproject.toml"))
    except tomllib.TOMLDecodeError:
        return {}


def _table(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = of.get(key)
    return value if isinstance(value, dict) else {}
