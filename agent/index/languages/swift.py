"""Swift: types, extensions and functions; a module is a folder under ``Sources``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, line_of, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    names = re.findall(r"[\w.]+", text(node))
    if len(names) > 1:
        yield Import(names[-1], (), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    return [other for other in files.under(f"Sources/{item.module}") if other.endswith(".swift")]


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    if name is None and node.type == "init_declaration":
        return "init"
    if name is None:
        return "deinit" if node.type == "deinit_declaration" else ""
    return re.sub(r"<.*", "", text(name), flags=re.DOTALL).strip()


LANGUAGE = Language(
    name="swift",
    suffixes=(".swift",),
    grammar=wheel("tree_sitter_swift"),
    definitions={
        "class_declaration": "class",  # struct, enum, actor and extension too
        "protocol_declaration": "interface",
        "function_declaration": "function",
        "protocol_function_declaration": "function",
        "init_declaration": "function",
        "deinit_declaration": "function",
        "subscript_declaration": "function",
        "property_declaration": "variable",
        "typealias_declaration": "type",
    },
    scopes=frozenset({"class_declaration", "protocol_declaration"}),
    transparent=frozenset({"source_file", "class_body", "protocol_body", "enum_class_body"}),
    name_of=_name,
    import_nodes=frozenset({"import_declaration"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"Tests"}), names=re.compile(r"Tests?\.swift$")),
)
