"""Changing text so that every byte outside the edit stays as it is. Pure: bytes in, bytes out, or a refusal."""

from agent.edit.apply import Edit, edited, inserted, written
from agent.edit.match import EditRefused
from agent.edit.text import NotText, Text

__all__ = ["Edit", "EditRefused", "NotText", "Text", "edited", "inserted", "written"]
