"""Installs a Python project and what its tests need into a virtual environment. Pure: says what to run."""

from __future__ import annotations

import ast
import configparser
import itertools
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from agent import toml
from agent.verify.files import Files, text
from agent.verify.toolchains import poetry
from agent.verify.toolchains.base import ENVIRONMENT, VENV, Step, shell

PYTHON: Final = f"{VENV}/bin/python"
_PIP: Final = (PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet")
WHEELS: Final = f"{ENVIRONMENT}/.wheels"
"""Where packages lie that only building the project needs."""
_WHEEL: Final = (PYTHON, "-m", "pip", "wheel", "--no-input", "--disable-pip-version-check", "--quiet", "-w", WHEELS)
_NOTHING: Final[frozenset[str]] = frozenset()
_NAMED: Final = re.compile(
    r"(?!\S+\.(whl|zip|tgz|tar\.\w+)$)[A-Za-z0-9][\w.-]*\s*($|[\[<>=!~;,(]|@\s*[a-z+]*https?://)"
)
# A line of a requirements file that leads out of the repository: a name, an address, an option of the index.
_ELSEWHERE: Final = re.compile(rf"{_NAMED.pattern}.*|--(index-url|extra-index-url|pre|only-binary|no-binary|hash)\b.*")
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
_CHANGELOG: Final = re.compile(r"(change|news|history|releases?\b)[^/]*", re.IGNORECASE)
_HEADED: Final = re.compile(r"(?m)^\W{0,8}(?:[A-Za-z][\w.-]{0,60} {1,2})?\[?v?(\d{1,4}(?:\.\d{1,4}){1,3})\b")
_ENVIRONMENTS: Final = 200
"""Of tox that one line may stand for."""
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
    of_tox = [path for path in _tox_files(text(files, "tox.ini")) if text(files, path)]
    listed = dict.fromkeys((*requirement_files(files), *of_tox))
    made += [_pip("-r", path, env=env, reads=read_by(files, path)) for path in listed]
    of_tools = (poetry_groups(files), tool_groups(files), nox_installs(text(files, "noxfile.py")))
    for declared in (groups(files), *of_tools, _unpinned(tox_deps(text(files, "tox.ini")), needed(files, ()))):
        wanted = _sendable(declared)
        if wanted:
            made.append(_pip("--", *wanted, env=env))
    if runner:
        made.append(replace(_pip("--", runner, required=True), tools=True))
    if _is_package(files):
        made += _project(files, env)
    return tuple(made)


def _unpinned(declared: Sequence[str], needs: Sequence[str]) -> tuple[str, ...]:
    """Without other versions of what the project itself needs: tox has one for each of its environments."""
    own = {_name(requirement) for requirement in needs}
    return tuple(requirement for requirement in declared if _name(requirement) not in own)


def _name(requirement: str) -> str:
    return _canonical(re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0])


def _pip(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    required: bool = False,
    reads: frozenset[str] | None = _NOTHING,
) -> Step:
    return Step((*_PIP, *arguments), env or {}, required, reads)


def _project(files: Files, env: Mapping[str, str]) -> Iterator[Step]:
    """Where what its tests need besides can't be had, its own needs are installed; where these can't, the project still
    takes the place of a release of its own: tests of some other version would say nothing. The failure is told all the
    same."""
    found = extras(files)
    yield from ahead_of_project(files, found, env)
    wanted = f".[{','.join(found)}]" if found else "."
    whole, alone = shlex.join((*_PIP, "-e", wanted)), shlex.join((*_PIP, "--no-deps", "-e", "."))
    less = f"{shlex.join((*_PIP, '-e', '.'))} || {alone}" if found else alone
    offline = (*_PIP, "--no-index", "--find-links", WHEELS, "-e", wanted)
    yield Step(shell(f"{whole} || {{ {less}; exit 1; }}"), env, required=False, offline=offline, tools=True)


def ahead_of_project(files: Files, extras_: Sequence[str], env: Mapping[str, str]) -> Iterator[Step]:
    """What the project with these extras needs and what builds it, as far as its files tell."""
    needs, builders = needed(files, extras_), needed_to_build(files)
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
            elif word and not word.startswith("#") and not _ELSEWHERE.fullmatch(word):
                return None
    return frozenset(found)


def needed(files: Files, extras_: Sequence[str]) -> tuple[str, ...]:
    """What the project and these of its extras require, as far as it is written out anywhere."""
    project, poetry_table = _table(_pyproject(files), "project"), _table(_table(_pyproject(files), "tool"), "poetry")
    setup_py, section = text(files, "setup.py"), _setup_cfg(files)
    optional = {**_table(project, "optional-dependencies"), **_literal(setup_py, "extras_require", dict)}
    optional |= {name: _lines(value) for name, value in section("options.extras_require").items()}
    base: list[object] = [*_strings(project.get("dependencies")), *_literal(setup_py, "install_requires", list)]
    base += _lines(section("options").get("install_requires", ""))
    base += poetry.requirements(poetry_table)
    own, pending, seen = project_name(files), list(extras_), set[str]()
    while pending:
        extra = pending.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in _strings(optional.get(extra)):
            itself = _itself(requirement, own)
            if itself is None:
                base.append(requirement)
            else:
                pending += itself
    return _sendable(dict.fromkeys(_strings(base)))


def _itself(requirement: str, own: str) -> list[str] | None:
    """The extras that a project called ``own`` names of itself (``own[a,b]``); ``None`` for any other requirement."""
    named = re.fullmatch(r"([\w.-]+)\s*(?:\[([\w.,\s-]*)\])?", requirement.strip())
    if not own or not named or _canonical(named.group(1)) != _canonical(own):
        return None
    return re.findall(r"[\w.-]+", named.group(2) or "")


def needed_to_build(files: Files) -> tuple[str, ...]:
    """What the build backend needs for an editable install, with what it asks for only once it is running."""
    system = _table(_pyproject(files), "build-system")
    declared = _strings(system.get("requires")) if "requires" in system else ["setuptools>=40.8.0"]
    backend = str(system.get("build-backend", "setuptools.build_meta")).partition(".")[0]
    return _sendable(dict.fromkeys((*declared, *_ASKED_FOR.get(backend, ()))))


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


def _literal(source: str, name: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """What a call in ``source`` passes as ``name``, where that is written out; else empty."""
    for value in _keywords(source, name):
        with suppress(ValueError, TypeError, RecursionError, MemoryError):
            found = ast.literal_eval(value)
            if isinstance(found, kind):
                return found
    return kind()


def _setup_cfg(files: Files) -> Callable[[str], Mapping[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    with suppress(configparser.Error):
        parser.read_string(text(files, "setup.cfg"))
    return lambda section: dict(parser.items(section)) if parser.has_section(section) else {}


def _lines(value: str) -> list[str]:
    lines = (line.split(" #")[0].strip() for line in value.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "file:", "attr:"))]


def is_named(requirement: str) -> bool:
    """Whether pip looks for it elsewhere than among the files of the repository."""
    return bool(_NAMED.match(requirement))


def _sendable(requirements: Iterable[str]) -> tuple[str, ...]:
    """Those that can be arguments of a program at all, and lead to no file of the repository."""
    return tuple(
        requirement
        for requirement in requirements
        if requirement.isprintable() and len(requirement) <= _REQUIREMENT_LIMIT and is_named(requirement)
    )


def _is_package(files: Files) -> bool:
    project = _pyproject(files)
    return bool({"build-system", "project"} & project.keys() or text(files, "setup.py") or text(files, "setup.cfg"))


def extras(files: Files) -> tuple[str, ...]:
    """Names of the extras that look like test dependencies, or that tox tests with, as the project spells them."""
    project = _pyproject(files)
    declared: list[str] = list(_table(_table(project, "project"), "optional-dependencies"))
    declared += _table(_table(_table(project, "tool"), "poetry"), "extras")
    section = re.search(r"(?ms)^\[options\.extras_require\]\s*\n(.*?)(?=^\[|\Z)", text(files, "setup.cfg"))
    if section:
        declared += re.findall(r"(?m)^([A-Za-z0-9][\w.-]*)\s*=", section.group(1))
    declared += _setup_py_extras(text(files, "setup.py"))
    base = _table(_table(_table(project, "tool"), "tox"), "env_run_base")
    of_tox = (*_strings(base.get("extras")), *_tox_extras(text(files, "tox.ini")))
    of_groups = (name for requirement in _grouped(files) for name in _itself(requirement, project_name(files)) or ())
    named = (name for name in (*of_tox, *of_groups) if name in declared)
    return tuple(dict.fromkeys((*_for_tests(declared), *named)))


def requirement_files(files: Files) -> tuple[str, ...]:
    """The project's own requirements, and those for its tests."""
    plain = [path for path in _PLAIN_REQUIREMENTS if text(files, path)]
    named = {path: name for name in (*_TESTS, *_DEVELOPMENT) for path in _named_files(name) if text(files, path)}
    wanted = _for_tests(named.values())
    return (*plain, *(path for path, name in named.items() if name in wanted))


def _named_files(name: str) -> Iterator[str]:
    return (pattern.format(name) for pattern in _NAMED_REQUIREMENTS)


def groups(files: Files) -> tuple[str, ...]:
    """Requirements of the dependency groups (PEP 735) that look like test dependencies, without the project itself:
    an index has some other version of it. The extras that it is named with are among ``extras``.

    They are written out because pip has ``--group`` only since 25.1, and a virtual environment gets the pip that came
    with its Python.
    """
    own = project_name(files)
    return tuple(requirement for requirement in _grouped(files) if _itself(requirement, own) is None)


def _grouped(files: Files) -> tuple[str, ...]:
    declared = _table(_pyproject(files), "dependency-groups")
    known = {_canonical(name): entries for name, entries in declared.items() if isinstance(entries, list)}
    found = [r for name in _for_tests(declared) for r in _group(known, _canonical(name), frozenset())]
    return tuple(dict.fromkeys(found))


def _group(known: Mapping[str, Sequence[object]], name: str, inside: frozenset[str]) -> Iterator[str]:
    for entry in known.get(name, ()) if name not in inside else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and isinstance(entry.get("include-group"), str):
            yield from _group(known, _canonical(entry["include-group"]), inside | {name})


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def poetry_groups(files: Files) -> tuple[str, ...]:
    """The same for Poetry's groups, which its build backend keeps to itself."""
    declared = poetry.groups(_table(_table(_pyproject(files), "tool"), "poetry"))
    return tuple(dict.fromkeys(r for name in _for_tests(declared) for r in declared[name]))


def tool_groups(files: Files) -> tuple[str, ...]:
    """What PDM, uv, Hatch and Pixi keep in tables of their own, and Pipenv in its file. Of Pixi only what comes of
    Python's index."""
    tools = _table(_pyproject(files), "tool")
    declared: dict[str, list[str]] = {}
    for name, entries in _table(_table(tools, "pdm"), "dev-dependencies").items():
        declared[name] = _strings(entries)
    declared.setdefault("dev", []).extend(_strings(_table(tools, "uv").get("dev-dependencies")))
    for name in _table(_table(tools, "hatch"), "envs"):
        env = _table(_table(_table(tools, "hatch"), "envs"), name)
        wanted = [*_strings(env.get("dependencies")), *_strings(env.get("extra-dependencies"))]
        declared.setdefault({"default": "dev", "hatch-test": "test"}.get(name, name), []).extend(wanted)
    for name in _table(_table(tools, "pixi"), "feature"):
        packages = _table(_table(_table(_table(tools, "pixi"), "feature"), name), "pypi-dependencies")
        declared.setdefault(name, []).extend(_of_table(packages))
    pipfile = _toml(text(files, "Pipfile"))
    needs = (*_of_table(_table(pipfile, "packages")), *_of_table(_table(pipfile, "dev-packages")))
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


def _for_tests(names: Iterable[str]) -> tuple[str, ...]:
    """Those that name test dependencies; where there are none, those for development."""
    known = tuple(dict.fromkeys(names))
    return tuple(n for n in known if n.lower() in _TESTS) or tuple(n for n in known if n.lower() in _DEVELOPMENT)


def tox_deps(config: str) -> tuple[str, ...]:
    """Plain requirements in ``deps`` of ``[testenv]``, and of those behind factors what its first environment for tests
    has; not what holds a substitution or an option."""
    return tuple(line for line in _first_deps(config) if re.fullmatch(r"[A-Za-z0-9][\w.,<>=!~\[\]; '\"-]*", line))


def _tox_files(config: str) -> tuple[str, ...]:
    """The requirements files among them."""
    found = (re.fullmatch(r"-r ?(?:\{tox(?:_root|inidir|_ini_dir)\}/)?(\w[\w./-]*)", d) for d in _first_deps(config))
    return tuple(posixpath.normpath(match[1]) for match in found if match and ".." not in match[1])


def _first_deps(config: str) -> Iterator[str]:
    factors = _first_factors(config)
    for line in _tox(config, "deps"):
        behind = re.fullmatch(r"([\w.,{}!-]+):\s+(.*)", line)
        if not behind:
            yield line
        elif any(map(factors.issuperset, _alternatives(behind[1]))):
            yield behind[2]


def _first_factors(config: str) -> frozenset[str]:
    """Of the first environment that is named after a Python, without its version: the interpreter is some other."""
    listed = re.search(r"(?m)^env_?list\s*=[ \t]*(.*(?:\n[ \t]+.*)*)", config)
    every = _alternatives(",".join(listed[1].split()) if listed else "")
    first = next((factors for factors in every if factors[0].startswith("py")), [])
    return frozenset({"py", "py3", *(factor for factor in first if not re.fullmatch(r"py[\d.]+", factor))})


def _alternatives(condition: str) -> Iterator[list[str]]:
    """The factors of each environment that a list or a condition of tox stands for; none of one that rules some out."""
    for each in re.split(r",+(?![^{]*\})", condition[:10_000]):
        parts = [group.strip("{}").split(",") for group in re.findall(r"\{[^{}]*\}|[^{}]+", each)]
        for chosen in itertools.islice(itertools.product(*parts), _ENVIRONMENTS):
            factors = "".join(chosen).split("-")
            if not any(factor.startswith("!") for factor in factors):
                yield factors


def _tox_extras(config: str) -> Iterator[str]:
    """``extras`` of ``[testenv]``, with those that stand behind a factor (``crypto: crypto``): a test that needs one is
    skipped without it, and nothing that it covers is proven."""
    for line in _tox(config, "extras"):
        yield from re.findall(r"[\w.-]+", line.rpartition(":")[2])


def _tox(config: str, key: str) -> list[str]:
    """The lines of one setting of ``[testenv]``."""
    section = re.search(r"(?ms)^\[testenv\]\s*\n(.*?)(?=^\[|\Z)", config)
    value = re.search(rf"(?m)^{key}\s*=[ \t]*(.*(?:\n[ \t]+.*)*)", section.group(1)) if section else None
    return [line.split(" #")[0].strip() for line in value.group(1).splitlines()] if value else []


def _setup_py_extras(source: str) -> Sequence[str]:
    """Keys of ``extras_require`` where it is written out; what is computed is not guessed."""
    dicts = [value for value in _keywords(source, "extras_require") if isinstance(value, ast.Dict)]
    return [k.value for d in dicts for k in d.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]


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
    try:
        return ast.walk(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return iter(())


def project_name(files: Files) -> str:
    """The name of the distribution, as the project declares it; empty where it is computed."""
    project = _pyproject(files)
    declared = [_table(project, "project").get("name"), _table(_table(project, "tool"), "poetry").get("name")]
    declared += re.findall(r"(?ms)^\[metadata\][ \t]*$(?:(?!^\[).)*?^name[ \t]*=[ \t]*(\S+)", text(files, "setup.cfg"))
    declared += [v.value for v in _keywords(text(files, "setup.py"), "name") if isinstance(v, ast.Constant)]
    return next((n for n in declared if isinstance(n, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,200}", n)), "")


def _version_env(files: Files) -> Mapping[str, str]:
    build = "\n".join(text(files, name) for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    if not re.search(r"setuptools[_-]scm|hatch-vcs|pbr|versioneer|poetry-dynamic-versioning|pdm-backend", build):
        return {}
    version = _version(files)
    name = project_name(files)
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


def _pyproject(files: Files) -> Mapping[str, Any]:
    return _toml(text(files, "pyproject.toml"))


def _toml(source: str) -> Mapping[str, Any]:
    try:
        return toml.loads(source)
    except ValueError:
        return {}


def _table(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = of.get(key)
    return value if isinstance(value, dict) else {}
