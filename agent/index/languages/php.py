"""PHP: namespaces by PSR-4, ``require``, PHPUnit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, field_name, line_of, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    source = text(node)
    if node.type == "namespace_use_declaration":
        body = re.sub(r"^\s*use\s+(?:function\s+|const\s+)?|;\s*$", "", source)
        head, brace, inside = body.partition("{")
        for part in (inside.rstrip("} ") if brace else body).split(","):
            path, _, alias = part.strip().partition(" as ")
            path = (head.strip() + path if brace else path).strip().lstrip("\\")
            if path:
                name = path.rpartition("\\")[2]
                yield Import(path, ((name, alias.strip() or name),), line_of(node))
        return
    found = re.search(r"(?:require|include)(?:_once)?\b.*?['\"]([^'\"]+\.php)['\"]", source, re.DOTALL)
    if found:
        yield Import(found[1], (("*", "*"),), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    parts = [part for part in re.split(r"[\\/]", item.module.removesuffix(".php")) if part not in ("", ".", "..")]
    for start in range(len(parts)):  # the first parts are the prefix that ``composer.json`` maps to a folder
        found = files.ending("/".join(parts[start:]) + ".php")
        if found and (start < len(parts) - 1 or len(found) == 1):
            return found[:1]
    return []


def _name(node: Node) -> str:
    if node.type in ("property_declaration", "const_declaration"):
        elements = [child for child in node.named_children if child.type in ("property_element", "const_element")]
        return text(elements[0].named_children[0]).lstrip("$") if elements and elements[0].named_children else ""
    return field_name(node)


LANGUAGE = Language(
    name="php",
    suffixes=(".php", ".phtml", ".inc"),
    interpreters=("php",),
    grammar=wheel("tree_sitter_php", "language_php"),
    definitions={
        "function_definition": "function",
        "method_declaration": "function",
        "class_declaration": "class",
        "interface_declaration": "interface",
        "trait_declaration": "class",
        "enum_declaration": "class",
        "property_declaration": "variable",
        "const_declaration": "variable",
    },
    scopes=frozenset({"class_declaration", "interface_declaration", "trait_declaration", "enum_declaration"}),
    transparent=frozenset(
        {"program", "namespace_definition", "compound_statement", "declaration_list", "enum_declaration_list",
         "if_statement"}
    ),
    name_of=_name,
    import_nodes=frozenset({"namespace_use_declaration", "expression_statement"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"tests", "Tests", "test", "Test"}), names=re.compile(r"Test(?:Case)?\.php$")),
)  # fmt: skip
