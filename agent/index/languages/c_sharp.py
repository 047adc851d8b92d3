"""C#: namespaces that usually follow folders, xUnit, NUnit and MSTest projects."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, line_of, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    words = re.sub(r"\busing\b|\bstatic\b|\bglobal\b|;", " ", text(node)).split()
    alias = words[0] if len(words) > 2 and words[1] == "=" else ""
    if words:
        yield Import(words[-1], (), line_of(node), alias)


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    """A namespace is a folder by convention: ``A.B.C`` → ``…/C`` with ``A.B`` or ``A/B`` above it."""
    parts = item.module.split(".")
    for start in range(len(parts)):
        folder = "/".join(parts[start:])
        for prefix in ("", "src/", f"src/{'.'.join(parts[:start])}/", f"{'.'.join(parts[:start])}/"):
            found = [other for other in files.under(f"{prefix}{folder}".strip("/")) if other.endswith(".cs")]
            if found:
                return found
    return []


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    if name is not None:
        return text(name)
    for child in node.named_children:
        if child.type == "variable_declaration":
            inner = child.named_children[-1].child_by_field_name("name") if child.named_children else None
            return text(inner) if inner is not None else ""
    return ""


def _is_test(path: str) -> bool:
    *folders, name = path.split("/")
    return bool(re.search(r"Tests?\.cs$", name)) or any(
        re.search(r"(?:^|\.)(?:Unit|Integration)?Tests?$|^tests?$", folder) for folder in folders
    )


LANGUAGE = Language(
    name="c_sharp",
    suffixes=(".cs", ".csx"),
    grammar=wheel("tree_sitter_c_sharp"),
    definitions={
        "class_declaration": "class",
        "struct_declaration": "class",
        "record_declaration": "class",
        "interface_declaration": "interface",
        "enum_declaration": "type",
        "delegate_declaration": "type",
        "method_declaration": "function",
        "constructor_declaration": "function",
        "destructor_declaration": "function",
        "operator_declaration": "function",
        "property_declaration": "variable",
        "indexer_declaration": "function",
        "field_declaration": "variable",
        "event_field_declaration": "variable",
    },
    scopes=frozenset({"class_declaration", "struct_declaration", "record_declaration", "interface_declaration"}),
    transparent=frozenset(
        {"compilation_unit", "namespace_declaration", "file_scoped_namespace_declaration", "declaration_list"}
    ),
    name_of=_name,
    import_nodes=frozenset({"using_directive"}),
    imports=_imports,
    resolve=_resolve,
    is_test=_is_test,
)
