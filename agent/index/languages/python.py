"""Python: definitions at module and class level, imports through packages and ``src`` layouts, pytest and unittest."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, line_of, parent, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    line = line_of(node)
    if node.type == "import_statement":
        for child in node.named_children:
            module, alias = _aliased(child)
            yield Import(module, (), line, alias)
        return
    module_node = node.child_by_field_name("module_name")
    module = text(module_node) if module_node is not None else "__future__"
    names = tuple(
        ("*", "*") if child.type == "wildcard_import" else _bound(child)
        for child in node.named_children
        if module_node is None or child.start_byte != module_node.start_byte
    )
    yield Import(module, names, line)


def _aliased(node: Node) -> tuple[str, str]:
    if node.type == "aliased_import":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        return (text(name) if name else ""), (text(alias) if alias else "")
    return text(node), ""


def _bound(node: Node) -> tuple[str, str]:
    name, alias = _aliased(node)
    return name, alias or name


def module_files(module: str, path: str, files: Files) -> list[str]:
    """Files that a dotted (or relative) module name reaches from ``path``."""
    dots = len(module) - len(module.lstrip("."))
    tail = module[dots:].replace(".", "/")
    if dots:
        folder = parent(path)
        for _ in range(dots - 1):
            folder = parent(folder)
        stems = [f"{folder}/{tail}".strip("/")]
    else:
        stems = [tail, f"src/{tail}", f"lib/{tail}", f"{parent(path)}/{tail}".strip("/")]
    for stem in stems:
        for candidate in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/"), f"{stem}.pyi", f"{stem}.pyx"):
            if candidate in files:
                return [candidate]
    if not dots and "/" in tail:
        return (files.ending(f"{tail}.py") or files.ending(f"{tail}/__init__.py"))[:1]
    return []


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    found = module_files(item.module, path, files)
    glue = "" if item.module.endswith(".") else "."
    for name, _ in item.names:  # ``from package import module``
        if name != "*":
            found += [f for f in module_files(f"{item.module}{glue}{name}", path, files) if f not in found]
    return found


def _docstring(node: Node) -> str:
    body = node.child_by_field_name("body")
    first = body.child(0) if body is not None else None  # its children are statements, too many to ask for them all
    if first is not None and first.type == "expression_statement":
        first = first.child(0)
    if first is None or first.type != "string":
        return ""
    line, _, _ = text(first).lstrip("rRbBuUfF").strip("\"'").strip().partition("\n")
    return line.splitlines()[0].strip() if line else ""


def _name(node: Node) -> str:
    name = node.child_by_field_name("name") or node.child_by_field_name("left")
    return text(name) if name is not None and name.type == "identifier" else ""


LANGUAGE = Language(
    name="python",
    suffixes=(".py", ".pyi", ".pyw"),
    interpreters=("python", "python3", "python2"),
    grammar=wheel("tree_sitter_python"),
    definitions={
        "function_definition": "function",
        "class_definition": "class",
        "assignment": "variable",
        "type_alias_statement": "type",
    },
    scopes=frozenset({"class_definition"}),
    transparent=frozenset(
        {
            "module", "block", "if_statement", "else_clause", "elif_clause", "try_statement", "except_clause",
            "finally_clause", "with_statement", "expression_statement", "for_statement", "while_statement",
        }
    ),
    wrappers=frozenset({"decorated_definition"}),
    name_of=_name,
    import_nodes=frozenset({"import_statement", "import_from_statement", "future_import_statement"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(
        # A ``test`` or ``testing`` package inside a product is what the product offers to test with.
        folders=frozenset({"tests"}),
        top=frozenset({"test", "testing"}),
        names=re.compile(r"^(test_.*|.*_tests?|tests|conftest)\.py$"),
    ),
    docstring=_docstring,
)  # fmt: skip
