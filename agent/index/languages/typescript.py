"""TypeScript and TSX: JavaScript with types; the grammar comes in two dialects."""

from __future__ import annotations

from dataclasses import replace

from agent.index.languages import javascript
from agent.index.languages.base import wheel

LANGUAGE = replace(
    javascript.LANGUAGE,
    name="typescript",
    suffixes=(".ts", ".mts", ".cts"),
    interpreters=("ts-node", "tsx"),
    grammar=wheel("tree_sitter_typescript", "language_typescript"),
    definitions={
        **javascript.DEFINITIONS,
        "abstract_class_declaration": "class",
        "interface_declaration": "interface",
        "type_alias_declaration": "type",
        "enum_declaration": "type",
        "function_signature": "function",
        "method_signature": "function",
        "abstract_method_signature": "function",
        "public_field_definition": "variable",
        "property_signature": "variable",
        "internal_module": "module",
        "module": "module",
    },
    scopes=frozenset(
        {"class_declaration", "abstract_class_declaration", "interface_declaration", "internal_module", "module"}
    ),
    transparent=javascript.TRANSPARENT | {"ambient_declaration", "interface_body", "object_type"},
)

TSX = replace(
    LANGUAGE,
    name="tsx",
    suffixes=(".tsx",),
    interpreters=(),
    grammar=wheel("tree_sitter_typescript", "language_tsx"),
)
