"""A person's terminal. Nearly everything that is shown there was written by others: a model, a repository, an issue.

Control characters in it could move the cursor, set the title or hide lines, so nothing gets there uncleaned.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from sandbox.text import clean, sound


class Terminal(Console):
    """A console that takes control characters out of every text that it is given; its own markup works."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(cleaned(text), **options)


def cleaned(text: str) -> str:
    """``text`` without what a terminal would act upon; tabs and newlines stay."""
    return clean(sound(text).encode())


def heard(text: str) -> str:
    """A person's ``text``, from standard input when it is ``-``. What was no UTF-8 shows as U+FFFD: half characters can
    be neither stored nor sent."""
    if text == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    return sound(text)


def say(text: str, *, err: bool = False) -> None:
    """Print a line of plain text."""
    click.echo(cleaned(text), err=err)


def all_cleaned(value: Any) -> Any:
    """Decoded JSON with every text in it cleaned, keys included."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, Mapping):
        return {cleaned(str(key)): all_cleaned(item) for key, item in value.items()}
    return [all_cleaned(item) for item in value] if isinstance(value, list) else value
