"""Changing text so that every byte outside the edit stays as it is. Pure: bytes in, bytes out, or a refusal."""

from agent.edit.apply import Edit, edited, inserted, replaced, written
from agent.edit.match import EditRefused
from agent.edit.rename import Renamed, lines_with, renamed
from agent.edit.text import NotText, Text

__all__ = [
    "Edit",
    "EditRefused",
    "NotText",
    "Renamed",
    "Text",
    "edited",
    "inserted",
    "lines_with",
    "renamed",
    "replaced",
    "written",
]
