"""The calls of programs by which a Python project's own files say that it is tested: tox, nox, ``pyproject.toml``, a
Makefile, CI workflows. Pure; reads the text of others and runs nothing of it.

Words come out as they stand there, with what these files substitute. Whatever a shell would have to work out is left
in them: who takes a word up has to know it.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from agent.verify.documents import ini_of, table, toml_of
from agent.verify.files import Files, matching, text
from agent.verify.python_code import syntax

_TESTS: Final = re.compile(r"(py|test|unit)[\w.,{}-]*", re.IGNORECASE)
"""How an environment, a session or a target of that purpose is called."""
_LONGEST: Final = 2_000
"""Characters of a line that calls a program; ``shlex`` takes a time that grows with their square."""
_FACTOR: Final = re.compile(r"^[\w.,{}!-]+:\s+")
_MAKE_VARIABLE: Final = re.compile(r"(?m)^(?:export\s+)?(\w+)\s*[:?]?=[ \t]*(.*)$")


@dataclass(frozen=True)
class Call:
    """One call, without a shell."""

    words: tuple[str, ...]
    folder: str = ""
    """Where it runs, from the root; empty for the root."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the file sets for it."""


def by_source(files: Files) -> Iterator[tuple[str, tuple[Call, ...]]]:
    """Name of a file → calls in what it says about tests, the most telling file first."""
    for name in ("tox.ini", "setup.cfg"):
        yield name, tuple(_of_tox(text(files, name)))
    yield "pyproject.toml", tuple(_of_pyproject(table(toml_of(files, "pyproject.toml"), "tool")))
    yield "noxfile.py", tuple(_of_nox(text(files, "noxfile.py")))
    for name in ("GNUmakefile", "makefile", "Makefile"):
        yield name, tuple(_of_make(text(files, name)))
    for name in matching(files, ".github/workflows/*.yml", ".github/workflows/*.yaml"):
        yield name, tuple(_of_workflow(text(files, name)))


# ── tox ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_tox(source: str) -> Iterator[Call]:
    sections = ini_of(source)
    named = [name for name in sections if _TESTS.fullmatch(name.removeprefix("testenv:"))]
    for name in ("testenv", *(each for each in named if each.startswith("testenv:"))):
        yield from _of_environment(sections.get(name, {}))


def _of_environment(settings: Mapping[str, str]) -> Iterator[Call]:
    folder = posixpath.normpath(_substituted(settings.get("changedir") or settings.get("change_dir") or "."))
    pairs = (line.partition("=") for line in (settings.get("setenv") or settings.get("set_env") or "").splitlines())
    env = {name.strip(): _substituted(value.strip()) for name, _, value in pairs if name.strip().isidentifier()}
    for line in re.sub(r"\\\n\s*", " ", settings.get("commands", "")).splitlines():
        plain = _FACTOR.sub("", line.strip()).lstrip("-! ")
        yield from _of_words(_substituted(plain), folder, env)


def _substituted(line: str) -> str:
    """With tox's own substitutions, as far as they need no environment."""
    line = re.sub(r"\{(?:tox_?(?:ini_dir|inidir|root))\}/?", "./", line)
    line = re.sub(r"\{env_?python\}", "python", line)
    line = re.sub(r"\{env:\w+:([^{}]*)\}", r"\1", line)
    return re.sub(r"\{posargs(?::([^{}]*))?\}", lambda found: found[1] or "", line)


# ── pyproject.toml, nox ──────────────────────────────────────────────────────────────────────────────────────────────


def _of_pyproject(tools: Mapping[str, Any]) -> Iterator[Call]:
    yield from _of_tox(str(table(tools, "tox").get("legacy_tox_ini") or ""))
    for words in _listed(table(tools, "tox", "env_run_base").get("commands")):
        yield from _of_words(_substituted(shlex.join(map(str, words))) if isinstance(words, list) else "")
    of_hatch = (("hatch", "envs", name, "scripts") for name in table(tools, "hatch", "envs"))
    for place in (("pdm", "scripts"), ("poe", "tasks"), *of_hatch):
        for name, said in table(tools, *place).items():
            if _TESTS.fullmatch(name):
                for line in _listed(said.get("cmd") if isinstance(said, dict) else said):
                    yield from _of_line(re.sub(r"\{args(?::([^{}]*))?\}", lambda m: m[1] or "", str(line)))


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _of_nox(source: str) -> Iterator[Call]:
    """What sessions that are called after tests run, where it is written out."""
    tree = syntax(source)
    for function in ast.walk(tree) if tree else ():
        if isinstance(function, ast.FunctionDef) and _TESTS.fullmatch(function.name):
            calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
            for call in calls:
                if isinstance(call.func, ast.Attribute) and call.func.attr == "run":
                    words = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                    plain = [a for a in call.args if not isinstance(a, ast.Starred)]  # `*session.posargs`
                    if len(words) == len(plain):
                        yield Call(tuple(words))


# ── make, workflows ──────────────────────────────────────────────────────────────────────────────────────────────────


def _of_make(source: str) -> Iterator[Call]:
    known = {name: value.strip() for name, value in _MAKE_VARIABLE.findall(source)}
    for target in re.finditer(r"(?m)^(tests?|check|unittests?)[ \t]*:(?!=).*\n((?:\t.*\n?|[ \t]*\n)*)", source):
        for line in re.sub(r"\\\n\s*", " ", target[2]).splitlines():
            yield from _of_line(_made(line.strip().lstrip("@-+"), known))


def _made(line: str, known: Mapping[str, str]) -> str:
    """With make's variables, as far as the file gives them. What is only ever given from outside is empty."""
    line = re.sub(r"\$\$\{\w+:-([^{}]*)\}", r"\1", line)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        outside = "" if re.search(r"ARGS|OPT|FLAGS", name) else "python" if re.search(r"PY", name) else found[0]
        return known.get(name, outside)

    return re.sub(r"\$[({](\w+)[)}]", value, line)


def _of_workflow(source: str) -> Iterator[Call]:
    """The lines of ``run``, which stand alone or in a block; told by their indentation."""
    found = re.finditer(r"(?m)^([ ]*)(- )?run:[ ]*(?:[|>][-+]?[ ]*\n((?:\1[ ]+.*\n?|[ ]*\n)+)|(.+)$)", source)
    for match in found:
        for line in re.sub(r"\\\n\s*", " ", match[3] or match[4] or "").splitlines():
            yield from _of_line(line)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_line(line: str) -> Iterator[Call]:
    """The calls of a shell's line that joins them, with the folder that it changes to before each."""
    if len(line) > _LONGEST:
        return
    folder = ""
    for part in re.split(r"&&|;", line):
        entered = re.fullmatch(r"\s*cd\s+([\w./-]+)\s*", part)
        if entered:
            folder = posixpath.normpath(posixpath.join(folder, entered[1]))
        elif not re.search(r"[`|<>]|\$\(", part):
            yield from _of_words(part, folder)


def _of_words(line: str, folder: str = "", env: Mapping[str, str] | None = None) -> Iterator[Call]:
    if len(line) > _LONGEST:
        return
    with suppress(ValueError):
        if words := shlex.split(line, comments=True):
            yield Call(tuple(words), "" if folder == "." else folder, env or {})
