"""What a run leaves behind in its folder, so that it can be shown, resumed and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from agent.errors import UserError
from agent.files import replace_file
from agent.types import RunResult, RunSpec

SPEC, EVENTS, RESULT = "spec.json", "events.jsonl", "result.json"
CANCEL = "cancel"
"""A file of this name in the run's folder asks the run to stop."""
DISK_FULL = 74
"""Exit code of a run that could not write down its end (``EX_IOERR`` of sysexits.h)."""

_LONGEST = 256 * 1024**2
"""Characters of an event; more come of a device, say."""


@dataclass(frozen=True)
class HandedOver:
    """What a runner gives to the process of a run.

    Args:
        at: when, by the clock that all processes of a machine share (``time.monotonic``); the start counts from then.
    """

    spec: RunSpec
    at: float

    def to_bytes(self) -> bytes:
        return f"{self.at!r}\n{self.spec.model_dump_json()}".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        at, _, spec = data.partition(b"\n")
        return cls(RunSpec.model_validate_json(spec), float(at))


def keep_spec(folder: Path, spec: RunSpec) -> None:
    """Store what the run was given, without its key and for its owner alone: the seed opens the run's fences."""
    replace_file(folder / SPEC, spec.without_key().model_dump_json(indent=1).encode(), mode=0o600)


def read_spec(folder: Path) -> RunSpec:
    """
    Raises:
        UserError: there is none, or it is another version's.
    """
    try:
        return RunSpec.model_validate_json((folder / SPEC).read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"{folder} is no folder of a run", why=f"it holds no {SPEC}") from error
    except ValidationError as error:
        raise _other_version(folder / SPEC, error) from None


def read_result(folder: Path) -> RunResult | None:
    """The run's end; ``None`` when it has none yet, or was killed before.

    Raises:
        UserError: it is another version's.
    """
    try:
        return RunResult.model_validate_json((folder / RESULT).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise _other_version(folder / RESULT, error) from None


def events_file(path: Path) -> Path:
    """``path``, or the log in it when it is a run's folder."""
    return path / EVENTS if path.is_dir() else path


def read_events(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, event) of a log.

    Raises:
        UserError: there is none, or a line is no event.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(iter(partial(lines.readline, _LONGEST), ""), start=1):
                yield number, _event(line, number, path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"There is no event log {path}", todo="Name a run's folder or its events.jsonl") from error


def _event(line: str, number: int, path: Path) -> dict[str, Any]:
    if len(line) == _LONGEST:
        raise UserError(f"Line {number} of {path} is no event", why="it does not end")
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"Line {number} of {path} is no event", why=str(error)) from error
    if not isinstance(event, dict):
        raise UserError(f"Line {number} of {path} is no event", why="it is no JSON object")
    return event


def _other_version(path: Path, error: ValidationError) -> UserError:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return UserError(f"{path} can't be used", why=why, todo="Use the version of Graftsmith that made it")
