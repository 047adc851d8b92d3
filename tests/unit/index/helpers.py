"""Small trees for the index to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.index.index import Index
from agent.index.indexer import indexed
from agent.index.source import DirectorySource
from tests.support import indexing


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def index_of(root: Path, files: Mapping[str, str | bytes], store: Path | None = None) -> Index:
    """By a process of its own where the records are to be stored."""
    source = DirectorySource(write(root, files))
    return indexed(source, store, jobs=1) if store else indexing.indexed(source)
