"""Rust: modules as files, ``crate``/``self``/``super`` paths, crates of a workspace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from agent.index.languages.base import Files, Language, Node, Pattern, line_of, parent, text, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    if node.type == "mod_item":
        declared = node.child_by_field_name("name")
        if declared is not None and node.child_by_field_name("body") is None:
            yield Import(f"self::{text(declared)}", (), line_of(node))
        return
    argument = node.child_by_field_name("argument")
    if argument is None:
        return
    exported = any(child.type == "visibility_modifier" for child in node.named_children)
    for path, alias in _flatten(re.sub(r"\s+", " ", text(argument))):
        module, _, name = path.rpartition("::")
        yield Import(module, ((name, alias or name),), line_of(node), "", exported)


def _flatten(tree: str, prefix: str = "") -> Iterable[tuple[str, str]]:
    """``a::{b, c::{d as e}}`` → ``a::b``, ``a::c::d`` as ``e``."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        path, _, alias = head.partition(" as ")
        path = prefix + path.strip()
        yield (path.removesuffix("::self"), alias.strip())
        return
    depth, part = 0, ""
    for sign in rest.rpartition("}")[0]:
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            if part.strip() and prefix.count("::") < 20:
                yield from _flatten(part, prefix + head.strip())
            part = ""
        else:
            part += sign
    if part.strip() and prefix.count("::") < 20:
        yield from _flatten(part, prefix + head.strip())


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    parts = [part for part in item.module.split("::") if part] + [name for name, _ in item.names if name != "*"]
    if not parts:
        return []
    root, here = _crate(path, files), _own_folder(path)
    if parts[0] == "crate":
        return _walk(root, parts[1:], files)
    if parts[0] == "self":
        return _walk(here, parts[1:], files)
    if parts[0] == "super":
        while parts and parts[0] == "super":
            here, parts = parent(here), parts[1:]
        return _walk(here, parts, files)
    if (folder := _packages(files).get(parts[0])) is not None:
        return _walk(f"{folder}/src".lstrip("/"), parts[1:], files)
    for name in (parts[0], parts[0].replace("_", "-")):
        for lib in files.ending(f"{name}/src/lib.rs")[:1]:
            return _walk(parent(lib), parts[1:], files) or [lib]
    return _walk(here, parts, files)


_NAMED = re.compile(r"^\[(?:package|lib)\][^\[]*?^name\s*=\s*[\"']([\w-]+)[\"']", re.MULTILINE)
_KNOWN: WeakKeyDictionary[Files, Mapping[str, str]] = WeakKeyDictionary()
"""A tree has thousands of imports and few crates."""


def _packages(files: Files) -> Mapping[str, str]:
    """The crates of the tree as code names them → their folders: a test beside ``src`` names its own crate so."""
    found = _KNOWN.get(files)
    if found is None:
        manifests = files.ending("Cargo.toml")[::-1]  # of two crates of one name the outer is meant
        named = ((name, parent(path)) for path in manifests for name in _NAMED.findall(files.text(path)))
        found = _KNOWN[files] = {name.replace("-", "_"): folder for name, folder in named}
    return found


def _walk(folder: str, parts: list[str], files: Files) -> list[str]:
    """The deepest module file along a path; its last parts may name items in it."""
    for length in range(len(parts), 0, -1):
        stem = "/".join([folder, *parts[:length]]).lstrip("/")
        for candidate in (f"{stem}.rs", f"{stem}/mod.rs"):
            if candidate in files:
                return [candidate]
    for root in ("lib.rs", "main.rs", "mod.rs"):
        candidate = f"{folder}/{root}".lstrip("/")
        if candidate in files:
            return [candidate]
    return [f"{folder}.rs"] if f"{folder}.rs" in files else []


def _crate(path: str, files: Files) -> str:
    folder = parent(path)
    while folder:
        if f"{folder}/lib.rs" in files or f"{folder}/main.rs" in files:
            return folder
        folder = parent(folder)
    return "src"


def _own_folder(path: str) -> str:
    folder, name = parent(path), path.rpartition("/")[2]
    return folder if name in ("mod.rs", "lib.rs", "main.rs") else path.removesuffix(".rs")


def _name(node: Node) -> str:
    if node.type == "impl_item":
        kind = node.child_by_field_name("type")
        return re.sub(r"<.*", "", text(kind), flags=re.DOTALL).strip() if kind is not None else ""
    name = node.child_by_field_name("name")
    return text(name) if name is not None else ""


LANGUAGE = Language(
    name="rust",
    suffixes=(".rs",),
    grammar=wheel("tree_sitter_rust"),
    definitions={
        "function_item": "function",
        "function_signature_item": "function",
        "struct_item": "class",
        "enum_item": "type",
        "union_item": "type",
        "trait_item": "interface",
        "impl_item": "class",
        "type_item": "type",
        "const_item": "variable",
        "static_item": "variable",
        "macro_definition": "function",
        "mod_item": "module",
    },
    scopes=frozenset({"trait_item", "impl_item", "mod_item"}),
    transparent=frozenset({"source_file", "declaration_list"}),
    name_of=_name,
    import_nodes=frozenset({"use_declaration", "mod_item"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"tests", "benches"}), names=re.compile(r"^tests?\.rs$|_tests?\.rs$")),
)
