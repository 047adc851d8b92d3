"""Scala: Java's packages, objects, traits and givens."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, dotted_file, line_of, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    source = re.sub(r"\s+", " ", text(node)).removeprefix("import ").strip()
    head, brace, inside = source.partition("{")
    for part in inside.rstrip("} ").split(",") if brace else [""]:
        name, _, alias = re.sub(r"=>| as ", "\0", part).partition("\0")
        path = (head.strip() + name.strip()).rstrip(".")
        last = path.rpartition(".")[2]
        yield Import(path.replace("_", "*") if last == "_" else path, ((last, alias.strip() or last),), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    return dotted_file(item.module, files, (".scala", ".java"))


def _name(node: Node) -> str:
    name = node.child_by_field_name("name") or node.child_by_field_name("pattern")
    return (
        text(name) if name is not None and name.type in ("identifier", "type_identifier", "operator_identifier") else ""
    )


LANGUAGE = Language(
    name="scala",
    suffixes=(".scala", ".sc", ".sbt"),
    grammar=wheel("tree_sitter_scala"),
    definitions={
        "class_definition": "class",
        "object_definition": "class",
        "trait_definition": "interface",
        "enum_definition": "class",
        "function_definition": "function",
        "function_declaration": "function",
        "val_definition": "variable",
        "var_definition": "variable",
        "type_definition": "type",
        "given_definition": "variable",
    },
    scopes=frozenset({"class_definition", "object_definition", "trait_definition", "enum_definition"}),
    transparent=frozenset({"compilation_unit", "package_clause", "template_body", "enum_body"}),
    name_of=_name,
    import_nodes=frozenset({"import_declaration"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"test", "it"}), names=re.compile(r"(?:Test|Tests|Spec|Suite)\.scala$")),
)
