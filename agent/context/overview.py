"""What a newcomer needs to know of a repository, on half a page: languages, layout, tests, conventions, landmarks."""

from __future__ import annotations

import json
import re
from collections import Counter

from agent.context.page import cut
from agent.index.index import Index
from agent.index.record import Symbol
from agent.model.tokens import estimate_tokens

CONVENTIONS = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "CONTRIBUTING.md", "CONTRIBUTING.rst",
               ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md")  # fmt: skip
"""Where a project says how it wants to be changed, the most specific first."""

_WISHES = re.compile(
    r"change ?log|\bchanges\.(?:md|rst|txt)\b|news ?fragment|towncrier|release notes?|doc ?strings?"
    r"|type (?:hint|annot)",
    re.I,
)
_WISHES_SHOWN = 6

_FOLDERS = 24


def facts(index: Index) -> str:
    """Languages, layout and how tests are run: a few lines, all derived, none quoted."""
    sections = [_languages(index), _tests(index), _layout(index), _skipped(index)]
    return "\n".join(section for section in sections if section)


def conventions(index: Index) -> tuple[str, str]:
    """(path, text) of the most specific file that says how the project wants to be changed; untrusted. ('', '') where
    there is none."""
    path = next((path for path in CONVENTIONS if path in index.graph.number), "")
    text = index.text(path).strip() if path else ""
    if "CONTRIBUTING" in path:  # it begins with a greeting, and goes on with what a person has to install
        text = "\n".join([line for line in text.split("\n") if _WISHES.search(line)][:_WISHES_SHOWN])
    return path, text


def repository_map(index: Index, tokens: int) -> str:
    """The facts, then the files that the others lean on most, with what they define. Never over ``tokens``."""
    text = facts(index)
    used = estimate_tokens(text)
    for file in landmarks(index):
        block = "\n\n" + _file_map(index, file)
        cost = estimate_tokens(block)
        if used + cost > tokens:
            break
        text += block
        used += cost
    return cut(text, tokens)


def landmarks(index: Index) -> list[int]:
    """Files in order of how many others import them, tests left out and not counted."""
    graph = index.graph
    weight = {
        file: sum(1 for user in graph.importers(file) if user not in graph.tests)
        for file in range(len(index.paths))
        if file not in graph.tests and index.records[file].symbols
    }
    return sorted(weight, key=lambda file: (-weight[file], index.paths[file]))


def _languages(index: Index) -> str:
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for record in index.records:
        lines[record.language] += record.lines
        files[record.language] += 1
    shown = [f"{name} ({files[name]} files, {size} lines)" for name, size in lines.most_common(6)]
    return "Languages: " + ", ".join(shown) if shown else "The repository holds no text."


def _layout(index: Index) -> str:
    """Top folders, and one level down where a folder holds most of the code."""
    total = max(1, len(index.paths))
    top = Counter(path.partition("/")[0] for path in index.paths if "/" in path)
    shown: list[tuple[str, int]] = []
    for folder, size in top.most_common():
        shown.append((folder, size))
        if size * 3 > total:
            inside = Counter("/".join(path.split("/")[:2]) for path in index.paths if path.count("/") > 1)
            shown += [(name, n) for name, n in inside.most_common(10) if name.startswith(f"{folder}/")]
    root = sorted(path for path in index.paths if "/" not in path)[:16]
    lines = [f"  {folder}/ ({size} files)" for folder, size in shown[:_FOLDERS]]
    return "Layout:\n" + "\n".join([*lines, *([f"  {', '.join(root)}"] if root else [])])


_TEST_TOOLS = (
    ("pytest.ini", "pytest"), ("conftest.py", "pytest"), ("tox.ini", "tox"), ("noxfile.py", "nox"),
    ("go.mod", "go test ./..."), ("Cargo.toml", "cargo test"), ("pom.xml", "mvn test"), ("build.gradle", "gradle test"),
    ("build.gradle.kts", "gradle test"), ("build.sbt", "sbt test"), ("Gemfile", "bundle exec rake test"),
    ("phpunit.xml", "phpunit"), ("phpunit.xml.dist", "phpunit"), ("Package.swift", "swift test"),
    ("CMakeLists.txt", "ctest"), ("mix.exs", "mix test"),
)  # fmt: skip


def _tests(index: Index) -> str:
    graph = index.graph
    tools = [command for name, command in _TEST_TOOLS if name in graph.number]
    if "pyproject.toml" in graph.number and "[tool.pytest" in index.text("pyproject.toml"):
        tools.insert(0, "pytest")
    if "package.json" in graph.number and _has_test_script(index.text("package.json")):
        tools.append("npm test")
    if "Makefile" in graph.number and re.search(r"^(?:test|check):", index.text("Makefile"), re.MULTILINE):
        tools.append("make test")
    files = [graph.paths[file] for file in graph.tests if index.records[file].language != "text"]
    folders = Counter(path.rpartition("/")[0] or "." for path in files)
    where = ", ".join(f"{folder}/ ({size})" for folder, size in folders.most_common(4))
    how = ", ".join(dict.fromkeys(tools))
    return "Tests: " + ("; ".join(filter(None, (where and f"{len(files)} files, most in {where}", how))) or "none")


def _has_test_script(config: str) -> bool:
    try:
        scripts = json.loads(config).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return False
    return isinstance(scripts, dict) and "test" in scripts


def _skipped(index: Index) -> str:
    shown = ", ".join(f"{reason} {count}" for reason, count in index.report.skipped.most_common(6))
    return f"Not indexed: {shown}" if shown else ""


def _file_map(index: Index, file: int) -> str:
    record = index.records[file]
    lines = [index.paths[file] + ":"]
    lines += [_signature_line(symbol) for symbol in record.symbols if _shown(symbol)][:12]
    return "\n".join(lines)


def _shown(symbol: Symbol) -> bool:
    return symbol.kind not in ("variable", "prototype") and not symbol.short.startswith("_")


def _signature_line(symbol: Symbol) -> str:
    indent = "  " * (1 + symbol.name.count("."))
    return f"{indent}{symbol.start}: {symbol.signature}"
