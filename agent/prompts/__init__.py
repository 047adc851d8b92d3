"""Every prompt, as a file. A missing variable is an error, never an empty string."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def _source(name: str) -> str:
    return files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    # Prompts are plain text for a model, not HTML: nothing is escaped, and untrusted values arrive fenced.
    return Environment(loader=FunctionLoader(_source), undefined=StrictUndefined, autoescape=False)  # noqa: S701


def render(name: str, /, **variables: object) -> str:
    """The prompt ``name`` with its variables filled in.

    Raises:
        jinja2.UndefinedError: a variable that the prompt uses was not given.
    """
    return _environment().get_template(name).render(**variables).strip()


@cache
def version() -> str:
    """Twelve hex digits that change when any prompt changes; stored with each run."""
    digest = hashlib.sha256()
    for entry in sorted(files(__package__).iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".md"):
            digest.update(entry.name.encode() + b"\0" + entry.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
