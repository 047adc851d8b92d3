"""Go: a package is a folder, and its import path starts with the module's name in ``go.mod``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, descend, line_of, parent, text, unquote, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    for spec in descend(node, "import_spec"):
        path, name = spec.child_by_field_name("path"), spec.child_by_field_name("name")
        if path is not None:
            yield Import(unquote(text(path)), (), line_of(spec), text(name) if name else "")


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    folder = parent(path)
    while True:
        module = re.search(r"^module\s+(\S+)", files.text(f"{folder}/go.mod".lstrip("/")), re.MULTILINE)
        if module and (item.module == module[1] or item.module.startswith(module[1] + "/")):
            target = f"{folder}/{item.module[len(module[1]) + 1 :]}".strip("/")
            return _package(target, files)
        if not folder:
            break
        folder = parent(folder)
    # Without a ``go.mod`` (older trees), the tail of the path names the folder.
    parts = item.module.split("/")
    return _package("/".join(parts[3:]), files) if len(parts) > 3 else []


def _package(folder: str, files: Files) -> list[str]:
    return [path for path in files.under(folder) if path.endswith(".go") and not path.endswith("_test.go")]


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    if name is None:
        return ""
    receiver = node.child_by_field_name("receiver")
    if receiver is None:
        return text(name)
    owner = re.findall(r"[^\W\d]\w*", re.sub(r"\[.*?\]", "", text(receiver)))
    return f"{owner[-1]}.{text(name)}" if owner else text(name)


def _kind(node: Node, kind: str) -> str:
    inner = node.child_by_field_name("type") if node.type == "type_spec" else None
    if inner is not None:
        return {"struct_type": "class", "interface_type": "interface"}.get(inner.type, "type")
    return kind


LANGUAGE = Language(
    name="go",
    suffixes=(".go",),
    grammar=wheel("tree_sitter_go"),
    definitions={
        "function_declaration": "function",
        "method_declaration": "function",
        "type_spec": "type",
        "type_alias": "type",
        "const_spec": "variable",
        "var_spec": "variable",
    },
    scopes=frozenset({"type_spec"}),
    wrappers=frozenset({"type_declaration"}),
    transparent=frozenset({"source_file", "const_declaration", "var_declaration", "var_spec_list"}),
    name_of=_name,
    kind_of=_kind,
    import_nodes=frozenset({"import_declaration"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"testdata"}), names=re.compile(r"_test\.go$")),
)
