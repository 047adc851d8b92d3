"""Java: one public class a file, packages as folders, JUnit's layout."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, dotted_file, line_of, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    words = re.sub(r"\bimport\b|\bstatic\b|;|\s", " ", text(node)).split()
    path = "".join(words)
    module, _, name = path.rpartition(".")
    yield Import(path, ((name, name),) if module else (), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    found = dotted_file(item.module, files, (".java", ".kt"))
    if found or not item.module.endswith("*"):
        return found
    folder = item.module.rpartition(".")[0].replace(".", "/")
    inside = [other for other in files.under(folder) if other.endswith(".java")]
    return inside or [f for base in ("src/main/java", "src") for f in files.under(f"{base}/{folder}")]


def _field_name(node: Node) -> str:
    name = node.child_by_field_name("name")
    if name is None:
        declarator = node.child_by_field_name("declarator")
        name = declarator.child_by_field_name("name") if declarator is not None else None
    return text(name) if name is not None else ""


LANGUAGE = Language(
    name="java",
    suffixes=(".java",),
    grammar=wheel("tree_sitter_java"),
    definitions={
        "class_declaration": "class",
        "record_declaration": "class",
        "interface_declaration": "interface",
        "annotation_type_declaration": "interface",
        "enum_declaration": "class",
        "method_declaration": "function",
        "constructor_declaration": "function",
        "compact_constructor_declaration": "function",
        "field_declaration": "variable",
        "constant_declaration": "variable",
        "enum_constant": "variable",
    },
    scopes=frozenset(
        {"class_declaration", "record_declaration", "interface_declaration", "enum_declaration",
         "annotation_type_declaration"}
    ),
    transparent=frozenset({"program", "class_body", "interface_body", "enum_body", "enum_body_declarations"}),
    name_of=_field_name,
    import_nodes=frozenset({"import_declaration"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(
        folders=frozenset({"test", "tests", "androidTest", "integrationTest", "testFixtures"}),
        names=re.compile(r"(?:Test|Tests|TestCase|IT)\.java$|^Test[A-Z].*\.java$"),
    ),
)  # fmt: skip
