"""What every value that crosses the engine's borders is."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from sandbox.text import sound

Told = Annotated[str, AfterValidator(sound)]
"""Text that is told, of whatever a file or a program calls itself: JSON has no word for what is no text."""


class Value(BaseModel):
    """Base of every value: frozen, no unknown fields, bytes as base64 in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")
