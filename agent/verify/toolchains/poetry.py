"""Reads Poetry's own way to name development dependencies, which pip does not know. Pure.

Source of the rules: the dependency specification of Poetry's documentation (``^``, ``~``, ``*``, tables).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.verify.documents import strings, table


def groups(poetry: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Group name → requirements as pip takes them; ``dev-dependencies``, the older spelling, is the group ``dev``.

    Args:
        poetry: the table ``tool.poetry``.
    """
    found = {name: table(poetry, "group", name, "dependencies") for name in table(poetry, "group")}
    old = table(poetry, "dev-dependencies")
    if old:
        found["dev"] = {**old, **found.get("dev", {})}
    return {
        name: tuple(r for package, spec in declared.items() for r in _requirements(package, spec))
        for name, declared in found.items()
    }


def requirements(poetry: Mapping[str, Any]) -> tuple[str, ...]:
    """What the project itself needs; ``python`` is no package."""
    declared = table(poetry, "dependencies").items()
    return tuple(r for package, spec in declared if package.lower() != "python" for r in _requirements(package, spec))


def _requirements(package: str, spec: object) -> Iterator[str]:
    """Nothing for what no index has (a path, a repository) or what is optional."""
    if isinstance(spec, list):
        for part in spec:
            yield from _requirements(package, part)
    elif isinstance(spec, str):
        yield package + _version(spec)
    elif isinstance(spec, dict) and isinstance(spec.get("version"), str) and spec.get("optional") is not True:
        extras = strings(spec.get("extras"))
        python = [f"python_version {bound}" for bound in _python(str(spec.get("python", "*")))]
        markers = " and ".join((*python, *([f"({spec['markers']})"] if spec.get("markers") else [])))
        named = f"{package}[{','.join(extras)}]" if extras else package
        yield f"{named}{_version(spec['version'])}{f' ; {markers}' if markers else ''}"


def _version(constraint: str) -> str:
    return ",".join(operator + version for operator, version in bounds(constraint))


def _python(constraint: str) -> Iterator[str]:
    for operator, version in bounds(constraint):
        yield f"{operator} '{'.'.join(version.split('.')[:2])}'"


def bounds(constraint: str) -> tuple[tuple[str, str], ...]:
    """A constraint as (operator, version) that pip knows; an alternative (``||``) is no bound at all."""
    if "|" in constraint:
        return ()
    parts = re.findall(r"(\^|~=|~|===?|[<>!]=?|=)?\s*([\w.*+!-]+)", constraint)
    return tuple(bound for operator, version in parts for bound in _bounds(operator, version))


def _bounds(operator: str, version: str) -> Iterator[tuple[str, str]]:
    if operator in ("^", "~"):
        yield ">=", version
        numbers = re.match(r"\d{1,9}(\.\d{1,9})*", version)
        if numbers:
            yield "<", ".".join(map(str, _next(operator, [int(number) for number in numbers[0].split(".")])))
    elif version != "*":
        yield operator if operator not in ("", "=") else "==", version


def _next(operator: str, numbers: list[int]) -> list[int]:
    """The first version that ``^`` (the leftmost number that is not 0 changes) or ``~`` (the second) leaves out."""
    significant = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
    at = significant if operator == "^" else min(1, len(numbers) - 1)
    return [*numbers[:at], numbers[at] + 1]
