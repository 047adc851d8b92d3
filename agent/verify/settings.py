"""Which parts of a configuration file decide how tests and checks run, and which of them a change alters. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from agent import toml
from agent.verify.documents import table
from agent.verify.python_tests import Problem

_PYPROJECT: Final = (
    *("pytest", "coverage", "tox", "nox", "hatch.envs", "ruff", "mypy", "pyright", "basedpyright", "pylint", "flake8"),
    *("unittest", "cibuildwheel", "poe", "taskipy", "pdm.scripts", "rye.scripts", "ty", "interrogate", "mutmut"),
)
_SETUP_CFG: Final = re.compile(
    r"tool:pytest|pytest|nosetests|unittest|coverage(:.*)?|flake8.*|mypy.*|pylint.*|aliases|testenv.*|tool:.*"
)
_PACKAGE_SCRIPTS: Final = re.compile(r"test|check|lint|cover|typecheck|ci|verify", re.IGNORECASE)
_PACKAGE_KEYS: Final = (
    *("jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "eslintConfig", "lint-staged", "xo"),
    *("workspaces", "overrides", "resolutions", "imports"),
)
_SHOWN: Final = 50
"""Parts of one file that are told one by one; each is shown with its hunk."""
_ELSEWHERE: Final = re.compile(r"(file|link|portal|npm|git|https?|github)[:+]|\.{0,2}/|[\w-]+/")
"""Where a dependency is taken from, if not from the registry under its own name."""


def problems(path: str, old: str | None, new: str | None) -> Iterator[Problem]:
    """One for each part that decides and is different; of a file of another kind, for the whole of it."""
    name = path.rsplit("/", 1)[-1]
    read = next((read for names, read in _READERS if names.fullmatch(name)), None)
    if read is None:
        parts = [name] if old != new else []
    else:
        before, after = read(old), read(new)
        parts = [f"`{key}`" for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    shown, more = parts[:_SHOWN], len(parts) - _SHOWN
    for part in (*shown, *([f"{more} more parts: each"] if more > 0 else [])):
        yield Problem("config_changed", f"{part} decides how the tests or checks run")


def _pyproject(source: str | None) -> Mapping[str, Any]:
    try:
        data = toml.loads(source or "")
    except ValueError as error:
        return {"pyproject.toml": str(error)}
    found = {}
    for key in _PYPROJECT:
        *tables, last = f"tool.{key}".split(".")
        value = table(data, *tables).get(last)
        if value is not None:
            found[f"tool.{key}"] = value
    places = (table(data, "project", "entry-points"), table(data, "tool", "poetry", "plugins"))
    groups = [group["pytest11"] for group in places if "pytest11" in group]
    return {**found, **({"pytest11": groups} if groups else {})}


def _sections(source: str | None) -> Mapping[str, str]:
    parts = re.split(r"(?m)^\[([^\]]+)\]\s*$", source or "")
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: body.strip() for name, body in named.items() if _SETUP_CFG.fullmatch(name) or "pytest11" in body}


def _package(source: str | None) -> Mapping[str, Any]:
    try:
        data = json.loads(source or "{}")
    except (ValueError, RecursionError) as error:
        return {"package.json": str(error)}
    if not isinstance(data, dict):
        return {"package.json": "no object"}
    places = {
        f"{group}.{name}": where
        for group in ("dependencies", "devDependencies")
        for name, where in table(data, group).items()
        if _ELSEWHERE.match(str(where))
    }
    return {**_called(table(data, "scripts")), **places, **{key: data[key] for key in _PACKAGE_KEYS if key in data}}


def _called(scripts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scripts that test or check by their name, and those that they call."""
    waiting = [name for name in scripts if _PACKAGE_SCRIPTS.search(name)]
    found = set(waiting)
    while waiting:
        more = {*re.findall(r"[\w:.-]+", str(scripts[waiting.pop()]))} & scripts.keys() - found
        found |= more
        waiting += more
    return {f"scripts.{name}": scripts[name] for name in sorted(found)}


def _targets(source: str | None) -> Mapping[str, str]:
    """Rules of a makefile, and the assignments above all of them."""
    found: dict[str, list[str]] = {}
    current = "variables"
    for line in (source or "").splitlines():
        rule = re.match(r"^([\w./%-]+(?: [\w./%-]+)*)\s*:(?!=)|^task[ (:]+(\w+)", line)
        if rule:
            current = (rule.group(1) or rule.group(2)).strip()
        if line.strip() and not line.lstrip().startswith("#"):
            key = "variables" if re.match(r"^[\w.]+\s*[:?+]?=", line) else current
            found.setdefault(key, []).append(line.rstrip())
    wanted = re.compile(r"variables|^\.|test|check|lint|cover|ci\b|all\b|spec|verify")
    return {name: "\n".join(lines) for name, lines in found.items() if wanted.search(name)}


def _test_lines(source: str | None) -> Mapping[str, str]:
    words = re.compile(
        r"test|patch|replace|workspace|members|exclude|surefire|failsafe|jacoco|harness|ignoreFailures|skip|clippy|lint|profile",
        re.IGNORECASE,
    )
    lines = [line.strip() for line in (source or "").splitlines() if words.search(line)]
    return {"test settings": "\n".join(lines)} if lines else {}


_READERS: Final[tuple[tuple[re.Pattern[str], Callable[[str | None], Mapping[str, Any]]], ...]] = (
    (re.compile(r"pyproject\.toml"), _pyproject),
    (re.compile(r"setup\.cfg"), _sections),
    (re.compile(r"package\.json"), _package),
    (re.compile(r"(GNUm|[Mm])akefile|justfile|Rakefile"), _targets),
    (re.compile(r"Cargo\.toml|go\.mod|go\.work|pom\.xml|build\.gradle.*"), _test_lines),
)
"""Names of files → what of them decides, by name."""
