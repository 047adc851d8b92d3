from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import AliasChoices, Field

from agent import edit
from agent.edit.rename import Meaning
from agent.errors import GraftsmithError, ToolRefusal
from agent.index.graph import Certainty
from agent.index.record import Symbol
from agent.listing import listed
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.tools.guard import writable
from agent.tools.symbols import definitions, symbols_in
from agent.tree import Draft

_SHOWN = 30
_LINES = 20


class Rename(Arguments):
    name: str
    to: str = Field(validation_alias=AliasChoices("to", "new_name"))
    path: str = ""


@dataclass
class _Outcome:
    draft: Draft
    changed: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)


def run(context: ToolContext, arguments: Rename) -> ToolResult:
    home, symbol = _the_one(context, arguments)
    if not re.fullmatch(r"[^\W\d]\w*", arguments.to):
        raise ToolRefusal(f"{arguments.to!r} is no name", todo="Give the new name alone, without its class or module")
    taken = _clash(context, home, symbol, arguments.to)
    if taken:
        raise ToolRefusal(f"{taken} is defined already", todo="Choose a name that is free")
    meaning = _meaning(context, home, symbol)
    outcome = _Outcome(context.draft)
    for path, sure in _files(context, home, symbol).items():
        if sure or meaning.shared:
            here = meaning if path == home else replace(meaning, within=())
            _one_file(context, outcome, path, here, arguments.to)
        else:
            _leave(outcome, path, symbol.short)
    if not outcome.changed:
        raise ToolRefusal(f"No use of {arguments.name} could be renamed for sure", todo="Use edit")
    return ToolResult(_report(outcome), draft=outcome.draft)


def _the_one(context: ToolContext, arguments: Rename) -> tuple[str, Symbol]:
    found = [(p, s) for p, s in definitions(context, arguments.name) if not arguments.path or p == arguments.path]
    if len(found) != 1:
        where = ", ".join(f"{path}:{symbol.start} {symbol.name}" for path, symbol in found[:8])
        raise ToolRefusal(
            f"{len(found)} definitions of {arguments.name}",
            why=where,
            todo="Give its full name (Class.method) and its path" if found else "Use search to find its name",
        )
    return found[0]


def _clash(context: ToolContext, home: str, symbol: Symbol, to: str) -> str:
    """What has the new name already: in the same class for a method, anywhere for anything else."""
    if symbol.kind != "method":
        return to if definitions(context, to) else ""
    name = f"{symbol.name.rpartition('.')[0]}.{to}"
    return name if any(path == home for path, _ in definitions(context, name)) else ""


def _meaning(context: ToolContext, home: str, symbol: Symbol) -> Meaning:
    if symbol.kind == "method" and not _is_alone(context, symbol):
        holder = symbol.name.rpartition(".")[0]
        own = (symbol, *(known for known in symbols_in(context, home) if known.name == holder))
        within = frozenset(line for part in own for line in range(part.start, part.end + 1))
        return Meaning(symbol.short, True, owners={holder.rpartition(".")[2]}, shared=True, within=within)
    stem = home.rsplit("/", 1)[-1].split(".", 1)[0]
    owners = {stem, home.split("/")[-2] if stem == "__init__" and "/" in home else stem}
    return Meaning(symbol.short, symbol.kind == "method", symbol.kind == "variable", owners)


def _is_alone(context: ToolContext, symbol: Symbol) -> bool:
    """Whether nothing else has its name."""
    return len(definitions(context, symbol.short)) == 1


def _files(context: ToolContext, home: str, symbol: Symbol) -> dict[str, bool]:
    """Path → whether the name means this symbol there. A method's is sure only when nothing else has its name."""
    alone = _is_alone(context, symbol)
    files = {home: True}
    for use in context.index.references(symbol.name):
        if use.path in context.draft:
            sure = alone if symbol.kind == "method" else use.certainty is Certainty.RESOLVED
            files[use.path] = files.get(use.path, False) or sure
    for path, file in context.draft.edits.items():
        if file is not None and path not in files and symbol.short.encode() in file.content:
            files[path] = False
    return files


def _one_file(context: ToolContext, outcome: _Outcome, path: str, meaning: Meaning, to: str) -> None:
    before = outcome.draft.read(path)
    try:
        result = edit.renamed(before, meaning, to)
        if result.changed:
            writable(context, path)
        context.syntax(path, before, result.content)
    except GraftsmithError as error:
        outcome.undecided.append(f"{path} ({error.what})")
        return
    if result.changed:
        outcome.draft = outcome.draft.with_file(path, result.content)
        outcome.changed.append(f"{path} ({result.changed})")
    if result.undecided:
        outcome.undecided.append(_lines(path, result.undecided))


def _leave(outcome: _Outcome, path: str, name: str) -> None:
    try:
        outcome.undecided.append(_lines(path, edit.lines_with(outcome.draft.read(path), name)))
    except GraftsmithError as error:
        outcome.undecided.append(f"{path} ({error.what})")


def _lines(path: str, lines: Sequence[int]) -> str:
    return f"{path} lines {listed([str(line) for line in lines], _LINES)}"


def _report(outcome: _Outcome) -> str:
    text = f"Renamed in {listed(outcome.changed, _SHOWN)}."
    if outcome.undecided:
        text += f"\nLeft for you to decide: {listed(outcome.undecided, _SHOWN)}."
    return text


TOOL = Tool(
    "rename",
    "Rename a function, class or method wherever it is surely meant; says what it left.",
    Rename,
    run,
)
