"""``graftsmith index``, ``search``, ``symbols`` and ``map``. What they need is imported when they are called."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from agent.context.search import SearchResult
    from agent.context.semantic import Semantic
    from agent.index.history import Commit
    from agent.index.index import Index
    from agent.index.indexer import Indexer

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_STORE = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=None,
    help="SQLite file that keeps what was parsed. [default: ~/.cache/graftsmith/index.sqlite]",
)
_JOBS = click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Parse processes.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_FUNCTIONS = 60
"""Functions that ``search`` shows."""

_HISTORY = 3000
"""Commits that ``search`` reads of a git checkout."""


@click.command("index")
@click.argument("path", type=_FOLDER)
@_JSON
@_STORE
@_JOBS
def index_command(path: Path, as_json: bool, store: Path | None, jobs: int) -> None:
    """Index the folder PATH and say what was found.

    A second call reads only what has changed. Example: graftsmith index .
    """
    index = _open(path, store, jobs)
    report = index.report
    languages: dict[str, int] = {}
    for record in index.records:
        languages[record.language] = languages.get(record.language, 0) + 1
    facts = {
        "files": report.files,
        "parsed": report.parsed,
        "symbols": sum(len(record.symbols) for record in index.records),
        "chunks": len(index.corpus.chunk_file),
        "languages": dict(sorted(languages.items(), key=lambda item: -item[1])),
        "skipped": dict(report.skipped.most_common()),
        "notes": list(report.notes),
        "seconds": round(report.seconds, 3),
    }
    if as_json:
        _print(json.dumps(facts))
        return
    _print(f"{facts['files']} files, {facts['symbols']} symbols, {facts['seconds']} s ({facts['parsed']} parsed)")
    for title, counts in (("languages", languages), ("skipped", dict(report.skipped.most_common()))):
        if counts:
            _print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    for note in report.notes:
        _print(f"note: {note}")


@click.command("search")
@click.argument("path", type=_FOLDER, required=False)
@click.argument("query", required=False)
@click.option("-k", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many files.")
@click.option("--explain", is_flag=True, help="Say which signals put each result there.")
@click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Commits as JSON lines {"sha", "time", "message", "files"}, newest first.  [default: git\'s own log]',
)
@click.option("--server", is_flag=True, help="Answer JSON requests on standard input, one a line, until it ends.")
@_JSON
@_STORE
@_JOBS
def search_command(
    path: Path | None,
    query: str | None,
    k: int,
    explain: bool,
    history: Path | None,
    server: bool,
    as_json: bool,
    store: Path | None,
    jobs: int,
) -> None:
    """Find the files and functions of the folder PATH that QUERY is about. QUERY ``-`` is read from standard input.

    Example: graftsmith search . "retries of a call"

    A request of --server is {"repo_path", "query", "k", "history_path"}; its answer {"files", "functions"}.

    With GRAFTSMITH_EMBEDDING_MODEL in the environment the code is compared by meaning too: it is sent to that endpoint.
    """
    from agent.context.search import search

    meaning = _meaning(store)
    if server:
        serve(sys.stdin, sys.stdout, store, jobs, meaning)
        return
    if path is None or query is None:
        raise click.UsageError("PATH and QUERY are needed, or --server.")
    from app.terminal import heard

    text = heard(query)
    index = _open(path, store, jobs)
    result = search(index, text, k=k, history=_commits(history, path), meaning=meaning)
    for note in meaning.notes if meaning else ():
        click.echo(f"note: {note}", err=True)
    if as_json:
        _print(json.dumps(answer(result, explain=explain)))
        return
    if not result.files:
        _print("Nothing here is about that.")
        return
    for title, lines in (("Files", _file_lines(result, explain)), ("Functions", _function_lines(result, explain))):
        _print(title)
        for line in lines:
            _print(f"  {line}")


@click.command("symbols")
@click.argument("path", type=_FOLDER)
@click.argument("name")
@_JSON
@_STORE
@_JOBS
def symbols_command(path: Path, name: str, as_json: bool, store: Path | None, jobs: int) -> None:
    """Where NAME (plain, or ``Class.method``) is defined and used in the folder PATH.

    A use that is found by its name alone is marked so. Example: graftsmith symbols . Client.send
    """
    index = _open(path, store, jobs)
    found, uses = index.symbols(name), index.references(name)
    if as_json:
        definitions = [{"path": item.path, **item.symbol._asdict()} for item in found]
        _print(json.dumps({"definitions": definitions, "references": [use._asdict() for use in uses]}))
        return
    for item in found:
        _print(f"{item.path}:{item.symbol.start}: {item.symbol.kind} {item.symbol.signature}")
    for use in uses:
        _print(f"{use.path}:{use.line}: used in {use.inside or 'module'} ({use.certainty})")
    if not found and not uses:
        _print(f"Nothing is called {name!r} here.")


@click.command("map")
@click.argument("path", type=_FOLDER)
@click.option("--tokens", default=2000, show_default=True, type=click.IntRange(50), help="Upper bound of its length.")
@_STORE
@_JOBS
def map_command(path: Path, tokens: int, store: Path | None, jobs: int) -> None:
    """An overview of the folder PATH: languages, layout, how to test, conventions, the most used definitions.

    Example: graftsmith map . --tokens 4000
    """
    from agent.context.overview import repository_map

    _print(repository_map(_open(path, store, jobs), tokens))


def serve(requests: TextIO, answers: TextIO, store: Path | None, jobs: int, meaning: Semantic | None = None) -> None:
    """One JSON document a line each way. A request that can't be answered gets ``{"error": …}`` and empty lists."""
    from agent.index.indexer import Indexer

    with Indexer(store or default_store(), jobs=jobs) as indexer:
        for line in requests:
            if line.strip():
                answers.write(json.dumps(_answer_line(line, indexer, meaning)) + "\n")
                answers.flush()


def _answer_line(line: str, indexer: Indexer, meaning: Semantic | None) -> dict[str, Any]:
    from agent.context.search import search
    from agent.errors import GraftsmithError
    from agent.index.history import read_history
    from agent.index.source import DirectorySource

    try:
        request = json.loads(line)
        root, query = Path(request["repo_path"]), str(request["query"])
        past = request.get("history_path")
        index = indexer.index(DirectorySource(root))
        commits = read_history(Path(past)) if past else None
        return answer(search(index, query, k=int(request.get("k") or 20), history=commits, meaning=meaning))
    except (GraftsmithError, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        return {"files": [], "functions": [], "error": f"{type(error).__name__}: {error}"}


def answer(result: SearchResult, *, explain: bool = False) -> dict[str, Any]:
    """The JSON form of a result."""
    functions = result.functions[:_FUNCTIONS]
    shown: dict[str, Any] = {
        "files": [hit.path for hit in result.files],
        "functions": [f"{hit.path}::{hit.name}" for hit in functions],
    }
    if explain:
        reasons = [*(hit.why for hit in result.files), *(hit.why for hit in functions)]
        shown["why"] = {
            name: {reason.signal: round(reason.weight, 4) for reason in why}
            for name, why in zip([*shown["files"], *shown["functions"]], reasons, strict=True)
        }
    return shown


def _file_lines(result: SearchResult, explain: bool) -> list[str]:
    return [f"{hit.score:8.3f}  {hit.path}" + (_why(hit.why) if explain else "") for hit in result.files]


def _function_lines(result: SearchResult, explain: bool) -> list[str]:
    return [
        f"{hit.score:8.3f}  {hit.path}:{hit.start} {hit.name}" + (_why(hit.why) if explain else "")
        for hit in result.functions[:_FUNCTIONS]
    ]


def _why(reasons: Any) -> str:
    return "".join(f"\n            {reason.weight:+8.3f}  {reason.signal}" for reason in reasons)


def _commits(history: Path | None, path: Path) -> tuple[Commit, ...] | None:
    """Commits of the given file, else of the checkout that ``path`` is the top of."""
    from agent.errors import GraftsmithError
    from agent.git_process import user_git
    from agent.index.history import log_arguments, parse_log, read_history

    if history is not None:
        commits = read_history(history)
        if not commits:
            click.echo(f"note: {history} holds no commit that could be read", err=True)
        return commits
    if not (path / ".git").exists():
        return None
    try:
        return parse_log(user_git(path, log_arguments("HEAD", _HISTORY)))
    except GraftsmithError:
        return None


def _open(path: Path, store: Path | None, jobs: int) -> Index:
    from agent.index.indexer import indexed
    from agent.index.source import DirectorySource

    with _Bar() as bar:
        return indexed(DirectorySource(path), store or default_store(), jobs=jobs, progress=bar)


def _meaning(store: Path | None) -> Semantic | None:
    """Meaning from the endpoint that the environment names. No ``.env`` is read: the folder may be anybody's."""
    from app.settings import SearchSettings, load

    endpoint = load(SearchSettings, env_file=None).embeddings
    if endpoint is None:
        return None
    from agent.context.semantic import Semantic
    from agent.model.embeddings import OpenAIEmbedder

    return Semantic(OpenAIEmbedder(endpoint), (store or default_store()).with_name("vectors.sqlite"))


class _Bar:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress

            console = Console(stderr=True)
            self._bar = Progress(console=console, transient=True, disable=not console.is_terminal)
            self._bar.start()
            self._task = self._bar.add_task("Indexing", total=total)
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def default_store() -> Path:
    """Where indexes are kept when nobody says otherwise."""
    return Path.home() / ".cache" / "graftsmith" / "index.sqlite"


def _print(text: str) -> None:
    """File names may hold what no terminal should get: control characters and broken Unicode are escaped."""
    shown = "".join(
        sign if sign in "\n\t" or sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )
    click.echo(shown.encode("utf-8", "backslashreplace").decode())
