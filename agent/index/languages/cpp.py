"""C++: C with classes, namespaces and templates; ``A::f`` outside its class is named ``A.f`` as it is inside."""

from __future__ import annotations

from dataclasses import replace

from agent.index.languages import c
from agent.index.languages.base import Node, field_name, text, wheel


def _name(node: Node) -> str:
    if node.type == "namespace_definition":
        name = node.child_by_field_name("name")
        return text(name).replace("::", ".") if name is not None else ""
    if node.type in ("alias_declaration", "concept_definition"):
        return field_name(node)
    return c.name_of(node).replace("::", ".")


LANGUAGE = replace(
    c.LANGUAGE,
    name="cpp",
    suffixes=(".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl", ".cu", ".cuh", ".tpp"),
    grammar=wheel("tree_sitter_cpp"),
    definitions={
        **c.DEFINITIONS,
        "class_specifier": "class",
        "namespace_definition": "module",
        "alias_declaration": "type",
        "concept_definition": "type",
        "field_declaration": "variable",
    },
    scopes=frozenset({"class_specifier", "struct_specifier", "namespace_definition"}),
    wrappers=frozenset({"template_declaration"}),
    name_of=_name,
)
