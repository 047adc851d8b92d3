"""Lua: functions in tables, ``require`` along the path. The bundled grammar fails on numbers, hence its own wheel."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, descend, line_of, text, unquote, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    for call in descend(node, "function_call"):
        name = call.child_by_field_name("name")
        found = re.search(r"[\"']([\w./-]+)[\"']", text(call)[:200])
        if name is not None and text(name) in ("require", "dofile") and found:
            yield Import(unquote(found[1]), (("*", "*"),), line_of(call))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    stem = item.module.removesuffix(".lua").replace(".", "/")
    return (files.ending(f"{stem}.lua") or files.ending(f"{stem}/init.lua"))[:1]


def _value(node: Node) -> Node | None:
    values = next((child for child in node.named_children if child.type == "expression_list"), None)
    return values.named_children[0] if values is not None and values.named_children else None


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    if name is None and node.type == "assignment_statement":
        name = next((child for child in node.named_children if child.type == "variable_list"), None)
    return text(name).replace(":", ".") if name is not None else ""


def _kind(node: Node, kind: str) -> str:
    value = _value(node) if node.type == "assignment_statement" else None
    return "function" if value is not None and value.type == "function_definition" else kind


LANGUAGE = Language(
    name="lua",
    suffixes=(".lua",),
    interpreters=("lua", "luajit"),
    grammar=wheel("tree_sitter_lua"),
    definitions={"function_declaration": "function", "assignment_statement": "variable"},
    wrappers=frozenset({"variable_declaration"}),
    transparent=frozenset({"chunk", "do_statement"}),
    name_of=_name,
    kind_of=_kind,
    import_nodes=frozenset({"variable_declaration", "function_call"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(
        folders=frozenset({"spec", "test", "tests"}), names=re.compile(r"_(?:spec|test)\.lua$|^test_.*\.lua$")
    ),
)
