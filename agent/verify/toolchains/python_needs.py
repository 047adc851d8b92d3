"""What a Python project and its tests need, as far as its files write it out; what is computed is not guessed. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from agent.verify.documents import ini_of, strings, table, toml_of
from agent.verify.files import Files, text
from agent.verify.python_code import syntax
from agent.verify.toolchains import poetry, tox

_NAMED: Final = re.compile(
    r"(?!\S+\.(whl|zip|tgz|tar\.\w+)$)[A-Za-z0-9][\w.-]*\s*($|[\[<>=!~;,(]|@\s*[a-z+]*https?://)"
)
# A line of a requirements file that leads out of the repository: a name, an address, an option of the index.
ELSEWHERE: Final = re.compile(rf"{_NAMED.pattern}.*|--(index-url|extra-index-url|pre|only-binary|no-binary|hash)\b.*")
_ASKED_FOR: Final[Mapping[str, tuple[str, ...]]] = {
    "setuptools": ("wheel",),
    "hatchling": ("editables",),
    "pdm": ("editables",),
}
_TESTS: Final = ("test", "tests", "testing")
_DEVELOPMENT: Final = ("dev", "develop", "development")
"""Names of what tests need, and of what a developer needs: that holds much more, so it is the second choice."""
_PLAIN_REQUIREMENTS: Final = ("requirements.txt", "requirements/base.txt")
_NAMED_REQUIREMENTS: Final = (
    "requirements-{}.txt",
    "requirements_{}.txt",
    "{}-requirements.txt",
    "requirements/{}.txt",
)
_REQUIREMENT_LIMIT: Final = 500
"""Characters."""


# ── the project itself ───────────────────────────────────────────────────────────────────────────────────────────────


def project_name(files: Files) -> str:
    """The name of the distribution, as the project declares it; empty where it is computed."""
    project = pyproject(files)
    declared = [table(project, "project").get("name"), table(project, "tool", "poetry").get("name")]
    declared += re.findall(r"(?ms)^\[metadata\][ \t]*$(?:(?!^\[).)*?^name[ \t]*=[ \t]*(\S+)", text(files, "setup.cfg"))
    declared += [v.value for v in _keywords(text(files, "setup.py"), "name") if isinstance(v, ast.Constant)]
    return next((n for n in declared if isinstance(n, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,200}", n)), "")


def needed(files: Files, extras_: Sequence[str]) -> tuple[str, ...]:
    """What the project and these of its extras require."""
    project = table(pyproject(files), "project")
    setup_py, setup_cfg = text(files, "setup.py"), ini_of(text(files, "setup.cfg"))
    optional = {**table(project, "optional-dependencies"), **_literal(setup_py, "extras_require", dict)}
    optional |= {name: _lines(value) for name, value in setup_cfg.get("options.extras_require", {}).items()}
    base: list[object] = [*strings(project.get("dependencies")), *_literal(setup_py, "install_requires", list)]
    base += _lines(setup_cfg.get("options", {}).get("install_requires", ""))
    base += poetry.requirements(table(pyproject(files), "tool", "poetry"))
    own, pending, seen = project_name(files), list(extras_), set[str]()
    while pending:
        extra = pending.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in strings(optional.get(extra)):
            itself = _itself(requirement, own)
            if itself is None:
                base.append(requirement)
            else:
                pending += itself
    return sendable(dict.fromkeys(strings(base)))


def _itself(requirement: str, own: str) -> list[str] | None:
    """The extras that a project called ``own`` names of itself (``own[a,b]``); ``None`` for any other requirement."""
    named = re.fullmatch(r"([\w.-]+)\s*(?:\[([\w.,\s-]*)\])?", requirement.strip())
    if not own or not named or _canonical(named.group(1)) != _canonical(own):
        return None
    return re.findall(r"[\w.-]+", named.group(2) or "")


def needed_to_build(files: Files) -> tuple[str, ...]:
    """What the build backend needs for an editable install, with what it asks for only once it is running."""
    system = table(pyproject(files), "build-system")
    declared = strings(system.get("requires")) if "requires" in system else ["setuptools>=40.8.0"]
    backend = str(system.get("build-backend", "setuptools.build_meta")).partition(".")[0]
    return sendable(dict.fromkeys((*declared, *_ASKED_FOR.get(backend, ()))))


# ── its tests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def extras(files: Files) -> tuple[str, ...]:
    """Names of the extras that look like test dependencies, or that tox tests with, as the project spells them."""
    project = pyproject(files)
    declared: list[str] = list(table(project, "project", "optional-dependencies"))
    declared += table(project, "tool", "poetry", "extras")
    section = re.search(r"(?ms)^\[options\.extras_require\]\s*\n(.*?)(?=^\[|\Z)", text(files, "setup.cfg"))
    if section:
        declared += re.findall(r"(?m)^([A-Za-z0-9][\w.-]*)\s*=", section.group(1))
    declared += _setup_py_extras(text(files, "setup.py"))
    of_tox = strings(table(project, "tool", "tox", "env_run_base").get("extras"))
    of_groups = (name for requirement in _grouped(files) for name in _itself(requirement, project_name(files)) or ())
    named = (name for name in (*of_tox, *tox.extras(text(files, "tox.ini")), *of_groups) if name in declared)
    return tuple(dict.fromkeys((*_for_tests(declared), *named)))


def _setup_py_extras(source: str) -> Sequence[str]:
    """Keys of ``extras_require``."""
    dicts = [value for value in _keywords(source, "extras_require") if isinstance(value, ast.Dict)]
    return [k.value for d in dicts for k in d.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]


def requirement_files(files: Files) -> tuple[str, ...]:
    """The project's own requirements, and those for its tests."""
    plain = [path for path in _PLAIN_REQUIREMENTS if text(files, path)]
    every = ((pattern.format(name), name) for name in (*_TESTS, *_DEVELOPMENT) for pattern in _NAMED_REQUIREMENTS)
    named = {path: name for path, name in every if text(files, path)}
    wanted = _for_tests(named.values())
    return (*plain, *(path for path, name in named.items() if name in wanted))


def groups(files: Files) -> tuple[str, ...]:
    """Requirements of the dependency groups (PEP 735) that look like test dependencies, without the project itself:
    an index has some other version of it. The extras that it is named with are among ``extras``.

    They are written out because pip has ``--group`` only since 25.1, and a virtual environment gets the pip that came
    with its Python.
    """
    own = project_name(files)
    return tuple(requirement for requirement in _grouped(files) if _itself(requirement, own) is None)


def _grouped(files: Files) -> tuple[str, ...]:
    declared = table(pyproject(files), "dependency-groups")
    known = {_canonical(name): entries for name, entries in declared.items() if isinstance(entries, list)}
    found = [r for name in _for_tests(declared) for r in _group(known, _canonical(name), frozenset())]
    return tuple(dict.fromkeys(found))


def _group(known: Mapping[str, Sequence[object]], name: str, inside: frozenset[str]) -> Iterator[str]:
    for entry in known.get(name, ()) if name not in inside else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and isinstance(entry.get("include-group"), str):
            yield from _group(known, _canonical(entry["include-group"]), inside | {name})


def poetry_groups(files: Files) -> tuple[str, ...]:
    """The same for Poetry's groups, which its build backend keeps to itself."""
    declared = poetry.groups(table(pyproject(files), "tool", "poetry"))
    return tuple(dict.fromkeys(r for name in _for_tests(declared) for r in declared[name]))


def tool_groups(files: Files) -> tuple[str, ...]:
    """What PDM, uv, Hatch and Pixi keep in tables of their own, and Pipenv in its file. Of Pixi only what comes of
    Python's index."""
    tools = table(pyproject(files), "tool")
    declared = {name: strings(entries) for name, entries in table(tools, "pdm", "dev-dependencies").items()}
    declared.setdefault("dev", []).extend(strings(table(tools, "uv").get("dev-dependencies")))
    for name in table(tools, "hatch", "envs"):
        env = table(tools, "hatch", "envs", name)
        wanted = [*strings(env.get("dependencies")), *strings(env.get("extra-dependencies"))]
        declared.setdefault({"default": "dev", "hatch-test": "test"}.get(name, name), []).extend(wanted)
    for name in table(tools, "pixi", "feature"):
        packages = table(tools, "pixi", "feature", name, "pypi-dependencies")
        declared.setdefault(name, []).extend(_of_table(packages))
    pipfile = toml_of(files, "Pipfile")
    needs = (*_of_table(table(pipfile, "packages")), *_of_table(table(pipfile, "dev-packages")))
    chosen = _for_tests(name for name, entries in declared.items() if entries)
    return tuple(dict.fromkeys((*needs, *(r for name in chosen for r in declared[name]))))


def _of_table(packages: Mapping[str, Any]) -> Iterator[str]:
    """``name = "*"``, ``name = ">=1"`` or a table with a version, as pip takes them; nothing for a path."""
    for name, spec in packages.items():
        version = spec.get("version", "" if {"path", "git"} & spec.keys() else "*") if isinstance(spec, dict) else spec
        if isinstance(version, str) and version:
            yield name if version == "*" else f"{name}{version}" if version[0] in "<>=!~" else f"{name}=={version}"


def nox_installs(source: str) -> tuple[str, ...]:
    """What sessions that are called after tests install by name."""
    functions = (node for node in _nodes(source) if isinstance(node, ast.FunctionDef))
    tests = (f for f in functions if f.name.startswith(_TESTS) or f.name.endswith(_TESTS))
    calls = (call for f in tests for call in ast.walk(f) if isinstance(call, ast.Call))
    installs = (c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "install")
    words = [[a.value for a in c.args if isinstance(a, ast.Constant) and isinstance(a.value, str)] for c in installs]
    named = (word for said in words for before, word in zip(["", *said], said, strict=False) if before[:1] != "-")
    return tuple(dict.fromkeys(named))  # what follows an option may be its value


def tox_requirements(files: Files) -> tuple[str, ...]:
    """Those of tox without other versions of what the project itself needs: tox has one for each environment."""
    own = {_name(requirement) for requirement in needed(files, ())}
    return tuple(each for each in tox.requirements(text(files, "tox.ini")) if _name(each) not in own)


def _for_tests(names: Iterable[str]) -> tuple[str, ...]:
    """Those that name test dependencies; where there are none, those for development."""
    known = tuple(dict.fromkeys(names))
    return tuple(n for n in known if n.lower() in _TESTS) or tuple(n for n in known if n.lower() in _DEVELOPMENT)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def pyproject(files: Files) -> Mapping[str, Any]:
    return toml_of(files, "pyproject.toml")


def is_named(requirement: str) -> bool:
    """Whether pip looks for it elsewhere than among the files of the repository."""
    return bool(_NAMED.match(requirement))


def sendable(requirements: Iterable[str]) -> tuple[str, ...]:
    """Those that can be arguments of a program at all, and lead to no file of the repository."""
    return tuple(
        requirement
        for requirement in requirements
        if requirement.isprintable() and len(requirement) <= _REQUIREMENT_LIMIT and is_named(requirement)
    )


def _name(requirement: str) -> str:
    return _canonical(re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0])


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines(value: str) -> list[str]:
    lines = (line.split(" #")[0].strip() for line in value.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "file:", "attr:"))]


def _literal(source: str, name: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """What a call in ``source`` passes as ``name``, where that is written out; else empty."""
    for value in _keywords(source, name):
        with suppress(ValueError, TypeError, RecursionError, MemoryError):
            found = ast.literal_eval(value)
            if isinstance(found, kind):
                return found
    return kind()


def _keywords(source: str, name: str) -> Iterator[ast.expr]:
    """What calls in ``source`` pass as the argument ``name``; a variable stands for what the file gives it."""
    nodes = tuple(_nodes(source))
    given = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    passed = (node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == name)
    return (given.get(value.id, value) if isinstance(value, ast.Name) else value for value in passed)


def _nodes(source: str) -> Iterator[ast.AST]:
    tree = syntax(source)
    return ast.walk(tree) if tree else iter(())
