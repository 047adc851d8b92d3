"""Kotlin: Java's packages, several declarations a file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, dotted_file, line_of, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    source = re.sub(r"\s+", " ", text(node)).removeprefix("import ").strip(" ;")
    path, _, alias = source.partition(" as ")
    name = path.rpartition(".")[2]
    yield Import(path.strip(), ((name, alias or name),), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    return dotted_file(item.module, files, (".kt", ".java"))


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    if name is None:
        name = next(
            (c for c in node.named_children if c.type in ("identifier", "simple_identifier", "type_identifier")), None
        )
    if name is None:
        declaration = next((c for c in node.named_children if c.type == "variable_declaration"), None)
        name = declaration.named_children[0] if declaration is not None and declaration.named_children else None
    return text(name) if name is not None else "Companion" if node.type == "companion_object" else ""


LANGUAGE = Language(
    name="kotlin",
    suffixes=(".kt", ".kts"),
    grammar=wheel("tree_sitter_kotlin"),
    definitions={
        "class_declaration": "class",
        "object_declaration": "class",
        "companion_object": "class",
        "function_declaration": "function",
        "secondary_constructor": "function",
        "property_declaration": "variable",
        "type_alias": "type",
    },
    scopes=frozenset({"class_declaration", "object_declaration", "companion_object"}),
    transparent=frozenset({"source_file", "class_body", "enum_class_body"}),
    bodies=frozenset({"function_body", "class_body", "enum_class_body"}),
    name_of=_name,
    import_nodes=frozenset({"import", "import_header"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(
        folders=frozenset({"test", "tests", "androidTest", "commonTest", "jvmTest"}),
        names=re.compile(r"(?:Test|Tests|Spec)\.kt$"),
    ),
)
