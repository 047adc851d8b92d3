"""Ruby: classes and modules that nest, ``require`` along ``lib``, Rails' naming of constants, RSpec and minitest."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, join, line_of, parent, text, unquote, wheel
from agent.index.record import Import


def _imports(node: Node) -> Iterable[Import]:
    method, arguments = node.child_by_field_name("method"), node.child_by_field_name("arguments")
    verb = text(method) if method is not None else ""
    if verb not in ("require", "require_relative", "load", "autoload") or arguments is None:
        return
    strings = [child for child in arguments.named_children if child.type == "string"]
    if strings:
        path = unquote(text(strings[-1]))
        yield Import(f"./{path}" if verb == "require_relative" else path, (("*", "*"),), line_of(node))


def _resolve(item: Import, path: str, files: Files) -> list[str]:
    name = item.module.removesuffix(".rb") + ".rb"
    if item.module.startswith("."):
        beside = join(parent(path), name)
        return [beside] if beside is not None and beside in files else []
    return next(([found] for found in (f"lib/{name}", name) if found in files), files.ending(name)[:1])


def _name(node: Node) -> str:
    name = node.child_by_field_name("name") or node.child_by_field_name("left")
    if name is None or (node.type == "assignment" and name.type != "constant"):
        return ""
    return text(name).replace("::", ".")


LANGUAGE = Language(
    name="ruby",
    suffixes=(".rb", ".rake", ".gemspec", ".ru"),
    file_names=("Rakefile", "Gemfile", "Guardfile"),
    interpreters=("ruby",),
    grammar=wheel("tree_sitter_ruby"),
    definitions={
        "class": "class",
        "module": "module",
        "method": "function",
        "singleton_method": "function",
        "assignment": "variable",
    },
    scopes=frozenset({"class", "module"}),
    transparent=frozenset(
        {"program", "body_statement", "begin", "singleton_class", "if", "unless", "block", "do_block"}
    ),
    name_of=_name,
    import_nodes=frozenset({"call"}),
    imports=_imports,
    resolve=_resolve,
    is_test=Pattern(folders=frozenset({"test", "spec", "tests", "features"}), names=re.compile(r"_(?:test|spec)\.rb$")),
)
