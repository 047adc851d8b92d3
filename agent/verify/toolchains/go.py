"""Go: ``go test -json``."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files, matching, text
from agent.verify.report import Entry, Report, Unreadable
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import (
    ENVIRONMENT,
    REPORTS,
    Build,
    Collected,
    Invocation,
    Step,
    TestPlan,
    shell,
    spoken,
)
from agent.verify.verdict import GENERIC_EXITS
from sandbox.text import clean

NAME: Final = "go"
PROGRAMS: Final = ("go", "gofmt")
INSTALLED: Final[Mapping[str, str]] = {"GOMODCACHE": f"{ENVIRONMENT}/go/mod", "GOTOOLCHAIN": "local"}
_ENV: Final[Mapping[str, str]] = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
_MODULES: Final = "[ ! -f go.work ] || export GOFLAGS=\n"
"""With several modules at once Go takes no ``-mod=mod``."""
_FUNCTION: Final = re.compile(r"^func ((?:Test|Fuzz|Example)\w*)\(", re.MULTILINE)
_OUTCOMES: Final[Mapping[str, TestOutcome]] = {
    "pass": TestOutcome.PASSED,
    "fail": TestOutcome.FAILED,
    "skip": TestOutcome.SKIPPED,
}


def detect(files: Files) -> TestPlan | None:
    modules = _modules(files)
    if not modules and "go.mod" not in files.paths():
        return None
    packages = [f"./{folder}/..." if folder else "./..." for folder in modules or ("",)]
    reason = "go.work is there" if modules else "go.mod is there"
    return TestPlan(NAME, shlex.join(("go", "test", *packages)), reason, first=not any(matching(files, "*_test.go")))


def _modules(files: Files) -> tuple[str, ...]:
    """Folders of the modules that ``go.work`` puts together, the root as an empty one."""
    said = re.sub(r"//.*", "", text(files, "go.work"))
    blocks = re.findall(r"(?m)^\s*use\s*(?:\(([^)]*)\)|(\S+))", said)
    named = [word.strip('"`') for block, single in blocks for word in (block.split() or [single])]
    folders = (posixpath.normpath(name).removeprefix(".") for name in named if name)
    return tuple(dict.fromkeys(folder for folder in folders if not folder.startswith((".", "/", "-"))))


def resolve(line: str, files: Files) -> str | None:
    return line if _calls(line) else None


def _calls(line: str) -> tuple[shell_line.Call, ...]:
    return tuple(c for c in shell_line.calls(line, "go") if re.match(r"\s+test\b", line[c.words_from : c.end]))


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    found = _calls(plan.line)
    chosen = [_chosen(test, files) for test in selection]
    packages = tuple(dict.fromkeys(package for package, _ in chosen))
    names = tuple(dict.fromkeys(itertools.chain.from_iterable(names for _, names in chosen)))
    pattern = ("-run", _pattern(names)) if chosen and all(names for _, names in chosen) else ()
    wanted = (*pattern, *packages)

    def kept(old: str) -> str:
        words = [w for w in old.split() if not (wanted and w.startswith(("./", ".", "all")))]
        return " " + " ".join(words)

    def reporting(number: int, old: str) -> str:
        test, _, rest = kept(old).strip().partition(" ")
        return f' {test} -json -count=1 {rest} "$@" > {REPORTS}/go-{number}.json'

    return Invocation(
        argv=shell(_MODULES + shell_line.rewrite(plan.line, found, reporting), *wanted),
        env=_ENV,
        exits=GENERIC_EXITS,
        shown=spoken(shell_line.rewrite(plan.line, found, lambda _n, old: kept(old)), wanted),
    )


def _chosen(test: str, files: Files) -> tuple[str, tuple[str, ...]]:
    """The package of an id or a file, and the tests that are meant; none stands for all of it."""
    package, _, name = test.partition("::")
    if name:
        return package, (name,)
    if not test.endswith(".go"):
        return test, ()
    folder = test.rpartition("/")[0]
    return (f"./{folder}" if folder else "."), tuple(_FUNCTION.findall(text(files, test)))


def _pattern(names: Sequence[str]) -> str:
    """Top-level tests only: a pattern with ``/`` would apply its parts to every test."""
    return "^(" + "|".join(dict.fromkeys(re.escape(name.split("/")[0]) for name in names)) + ")$"


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"go-\d+\.json")
    if not found:
        return None
    errors = _build_errors(clean(collected.output))
    return report.merge(report.build(_entries(data, errors)) for data in found)


def _entries(data: bytes, build_errors: Mapping[str, str]) -> Iterator[Entry]:
    output: dict[str, list[str]] = defaultdict(list)
    tested: set[str] = set()
    for event in _events(data):
        package, test, action = (str(event.get(name, "")) for name in ("Package", "Test", "Action"))
        key = f"{package}::{test}" if test else package
        if action in ("output", "build-output"):
            output[str(event.get("ImportPath", key)).split(" ")[0] if action == "build-output" else key].append(
                str(event.get("Output", ""))
            )
        elif action in _OUTCOMES and test:
            tested.add(package)
            yield Entry(key, _OUTCOMES[action], _text(output[key]) if action == "fail" else "")
        elif action == "fail" and package not in tested:
            text = "\n".join(filter(None, (build_errors.get(package, ""), _text(output[package]))))
            yield Entry(package, TestOutcome.ERROR, text, collecting=True)


def _events(data: bytes) -> Iterator[Mapping[str, Any]]:
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Unreadable("the report of go test holds a line that is no JSON") from error
        if not isinstance(event, dict):
            raise Unreadable("the report of go test holds a line that is no event")
        yield event


def _text(lines: Sequence[str]) -> str:
    return clean("".join(lines).encode("utf-8", "replace")).strip()


def _build_errors(output: str) -> Mapping[str, str]:
    """Compiler messages by package, as ``go`` writes them to standard error."""
    parts = re.split(r"(?m)^# (\S+)(?: \[[^\]]*\])?$", output)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def prepare(files: Files) -> tuple[Step, ...]:
    inside = re.search(r"=>\s*[./]", text(files, "go.mod")) or "go.work" in files.paths()
    return (Step(("go", "mod", "download"), reads=None if inside else frozenset({"go.mod", "go.sum"})),)


def build(plan: TestPlan) -> Build:
    def no_test(_number: int, old: str) -> str:
        return f"{old} -run '^$'"

    line = shell_line.rewrite(plan.line, _calls(plan.line), no_test)
    return Build("GOCACHE", f"{_MODULES}{line}; go vet ./...", _ENV)


def probe(plan: TestPlan) -> tuple[str, ...]:
    named = [word for call in _calls(plan.line) for word in plan.line[call.words_from : call.end].split()]
    return ("go", "list", "-deps", "-test", *([word for word in named if word.startswith("./")] or ["./..."]))
