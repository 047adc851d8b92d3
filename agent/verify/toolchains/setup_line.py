"""Reads set-up lines of a configuration, as far as they are plain calls of pip or npm. Pure.

A line is run as it stands, whatever is read here. What is understood says which files of the repository it may depend
on, so that what it brings can be shared between trees (``Step.reads``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from agent.verify.files import Files
from agent.verify.toolchains import node_setup, python_needs, python_setup
from agent.verify.toolchains.base import Step, shell

_PIP: Final = re.compile(r"(pip3?|python3? -m pip) install ")
_NPM: Final = re.compile(r"npm (ci|install)( --[a-z-]+)*")
_HARMLESS: Final = frozenset({"-q", "--quiet", "-U", "--upgrade", "--no-input", "--disable-pip-version-check", "-v"})


def steps(line: str, files: Files) -> tuple[Step, ...]:
    """The line as a step, after what it needs to do its work offline where that can be told."""
    words = _words(line)
    if _NPM.fullmatch(" ".join(words)):
        return (Step(shell(line), reads=node_setup.read_by_npm(files)),)
    called = _PIP.match(" ".join(words) + " ")
    if called is None:
        return (Step(shell(line)),)
    return _of_pip(line, words[len(called.group().split()) :], files)


def _words(line: str) -> list[str]:
    """None where the shell would do more than split it into words."""
    if re.search(r"[\\$`|&;<>(){}*?~#\n=]", re.sub(r"[=<>~!]=|[<>](?=\d)", "", line)):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _of_pip(line: str, arguments: Sequence[str], files: Files) -> tuple[Step, ...]:
    reads: set[str] = set()
    project: str | None = None
    pending = list(arguments)
    while pending:
        word = pending.pop(0)
        if word in ("-r", "--requirement", "-c", "--constraint") and pending:
            read = python_setup.read_by(files, pending.pop(0))
            if read is None:
                return (Step(shell(line)),)
            reads |= read
        elif (found := re.fullmatch(r"\.(?:\[([\w., -]+)\])?", word)) and project is None:
            project = found.group(1) or ""
        elif word not in _HARMLESS and word != "-e" and word != "--editable" and not python_needs.is_named(word):
            return (Step(shell(line)),)
    if project is None:
        return (Step(shell(line), reads=frozenset(reads)),)
    extras = [name.strip() for name in project.split(",") if name.strip()]
    offline = shell(f"{line} --no-index --find-links {python_setup.WHEELS}")
    return (*python_setup.ahead_of_project(files, extras, {}), Step(shell(line), offline=offline))
