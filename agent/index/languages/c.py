"""C: functions, types and macros; ``#include "…"`` by relative path or by the end of the path."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import (
    Files,
    Language,
    Node,
    Pattern,
    declared_name,
    join,
    line_of,
    parent,
    text,
    unquote,
    wheel,
)
from agent.index.record import Import


def imports(node: Node) -> Iterable[Import]:
    """``#include``."""
    path = node.child_by_field_name("path")
    if path is not None:
        yield Import(unquote(text(path)), (("*", "*"),), line_of(node))


def resolve(item: Import, path: str, files: Files) -> list[str]:
    """The header, and the source of the same name beside it."""
    beside = join(parent(path), item.module)
    if beside is not None and beside in files:
        return [beside]
    return files.ending(item.module.lstrip("./"))[:1]


def name_of(node: Node) -> str:
    """Names stand deep inside declarators; types and macros have a field."""
    name = node.child_by_field_name("name")
    if name is not None:
        return text(name) if node.type.startswith("preproc") or node.child_by_field_name("body") is not None else ""
    return declared_name(node)


def kind_of(node: Node, kind: str) -> str:
    """A declaration of a function is one."""
    if node.type in ("declaration", "field_declaration"):
        declarator = node.child_by_field_name("declarator")
        while declarator is not None:
            if declarator.type == "function_declarator":
                return "prototype"
            declarator = declarator.child_by_field_name("declarator")
    return kind


DEFINITIONS = {
    "function_definition": "function",
    "struct_specifier": "class",
    "union_specifier": "class",
    "enum_specifier": "type",
    "type_definition": "type",
    "declaration": "variable",
    "preproc_def": "variable",
    "preproc_function_def": "macro",
}
TRANSPARENT = frozenset(
    {
        "translation_unit", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "linkage_specification",
        "declaration_list", "field_declaration_list",
    }
)  # fmt: skip
IS_TEST = Pattern(
    folders=frozenset({"test", "tests", "testing", "unittests", "unittest"}),
    names=re.compile(r"^test[_-].*\.\w+$|[_-](?:test|tests|unittest)\.\w+$|Test\.\w+$"),
)

LANGUAGE = Language(
    name="c",
    suffixes=(".c", ".h"),
    grammar=wheel("tree_sitter_c"),
    definitions=DEFINITIONS,
    transparent=TRANSPARENT,
    name_of=name_of,
    kind_of=kind_of,
    import_nodes=frozenset({"preproc_include"}),
    imports=imports,
    resolve=resolve,
    is_test=IS_TEST,
)
