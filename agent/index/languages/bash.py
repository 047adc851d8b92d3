"""Shell: functions and what is sourced."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, join, line_of, parent, text, unquote, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    words = text(node).split()
    if len(words) > 1 and words[0] in ("source", "."):
        path = re.sub(r"^\$\{?\w+\}?/|^\$\([^)]*\)/", "", unquote(words[1]).strip("\"'"))
        yield Import(path, (("*", "*"),), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    beside = join(parent(path), item.module)
    return [beside] if beside is not None and beside in files else files.ending(item.module.lstrip("./"))[:1]


LANGUAGE = Language(
    name="bash",
    suffixes=(".sh", ".bash", ".zsh", ".ksh", ".bats"),
    file_names=(".bashrc", ".bash_profile", ".profile", ".zshrc"),
    interpreters=("sh", "bash", "dash", "zsh", "ksh", "bats"),
    grammar=wheel("tree_sitter_bash"),
    definitions={"function_definition": "function", "variable_assignment": "variable"},
    transparent=frozenset({"program", "if_statement", "list", "compound_statement"}),
    import_nodes=frozenset({"command"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"test", "tests"}), names=re.compile(r"^test[_-].*\.sh$|[_-]test\.sh$|\.bats$")),
)
