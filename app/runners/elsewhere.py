"""The other end of the door: fetches one run, carries it out on this machine, and brings back what came of it.

It holds the workflow's identity and the run's tokens; neither is in the environment of the run's own process, and code
under test sees neither of the two processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from agent.errors import GraftsmithError
from agent.outside import variables
from agent.types import RunResult, RunSpec
from app.machine import Machine
from app.runners.client import PAUSE_S, Identity, Service
from app.runners.door import EVENT_BYTES, EVENTS_AT_ONCE
from app.runners.local import RunProcess
from sandbox import remove_tree

_BATCH = 512 * 1024
"""Bytes of events at once, unless a single one is longer: less than what proxies let through by themselves."""


@dataclass
class Reporter:
    """Brings the events of a run to the service while it goes on.

    Args:
        say: told of each event here, for the workflow's own log.
        stop: set when the run is to end.
    """

    service: Service
    say: Callable[[Mapping[str, Any]], None]
    stop: Event
    _waiting: list[bytes] = field(default_factory=list)
    _brought: int = 0
    _lock: Lock = field(default_factory=Lock)
    _over: Event = field(default_factory=Event)

    def see(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._waiting.append(_line(event))
        self.say(event)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Bring meanwhile what is new, every few seconds, and afterwards the rest. It speaks also when there is
        nothing to say: the service waits for a sign of life."""
        follower = Thread(target=self._follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            self._over.set()
            follower.join()
        while self._bring():
            pass

    def _follow(self) -> None:
        try:
            while not self._over.wait(PAUSE_S):
                self._bring()
        except GraftsmithError:  # whatever comes of the run, nobody waits for it
            self.stop.set()

    def _bring(self) -> bool:
        """Whether there was anything to bring."""
        with self._lock:
            batch = _batch(self._waiting)
        told = self.service.tell(self._brought, batch)
        with self._lock:
            del self._waiting[: len(batch)]
        self._brought += len(batch)
        if told.cancel:
            self.stop.set()
        return bool(batch)


def _line(event: Mapping[str, Any]) -> bytes:
    """JSON that any reader takes: half characters, as in names that are no UTF-8, are none to some."""
    line = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
    if len(line) <= EVENT_BYTES:
        return line
    told = f"An event of the kind {event.get('kind')!r} was too long to be brought ({len(line)} bytes)"
    return _line({"at": event.get("at"), "kind": "note", "stage": event.get("stage"), "text": told})


def _batch(lines: Sequence[bytes]) -> Sequence[bytes]:
    """The first of ``lines`` that go together; one at least."""
    size = 0
    for number, line in enumerate(lines[:EVENTS_AT_ONCE]):
        size += len(line)
        if number and size > _BATCH:
            return lines[:number]
    return lines[:EVENTS_AT_ONCE]


def carry_out(
    url: str,
    run: str,
    identity: Identity,
    machine: Machine,
    state: Path,
    say: Callable[[Mapping[str, Any]], None],
    stop: Event,
) -> RunResult:
    """Carry out ``run`` of the service at ``url``; the result has been brought there when this returns.

    Args:
        url: without a slash at its end.
        state: a folder of this machine; caches stay in it, all else goes.
        stop: the run ends soon after it was set, with its work kept.

    Raises:
        Gone: there is nothing to do.
        OperatorError, RetryLater, BugError: as for any run.
    """
    with ExitStack() as stack:
        service = stack.enter_context(closing(Service(url, stop)))
        folder = stack.enter_context(_folder(state))
        process = RunProcess(sandbox=True, outside=variables())
        stack.callback(process.close, wait=True)  # it removes its checkouts, which two can't do at once
        spec = service.claim(run, identity)
        reporter = Reporter(service, say, stop)
        with reporter.following():
            service.fetch_repository(folder / "repository.git")
            here = _here(spec, machine, folder, state / "cache")
            result = process.run(here, on_event=reporter.see, cancelled=stop.is_set)
        service.bring(result)
        return result


@contextmanager
def _folder(state: Path) -> Iterator[Path]:
    """For one run. The sandbox's own user passes through to its checkouts."""
    state.mkdir(parents=True, exist_ok=True, mode=0o711)
    with ExitStack() as stack:
        with _locked(state):
            _sweep(state)
            folder = Path(tempfile.mkdtemp(prefix="run-", dir=state))
            stack.enter_context(_locked(folder))
        stack.callback(remove_tree, folder)
        folder.chmod(0o711)
        yield folder


def _sweep(state: Path) -> None:
    """Remove what killed runs have left."""
    for left in state.glob("run-*"):
        with suppress(BlockingIOError), _locked(left, fcntl.LOCK_NB):  # else somebody is at work there
            remove_tree(left)


@contextmanager
def _locked(folder: Path, more: int = 0) -> Iterator[None]:
    """A process that dies lets go (flock(2))."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | more)
        yield
    finally:
        os.close(held)


def _here(spec: RunSpec, machine: Machine, folder: Path, cache: Path) -> RunSpec:
    """``spec`` with this machine's folders, programs and registries."""
    work = folder / "run"
    for made in (work, cache):
        made.mkdir(exist_ok=True, mode=0o711)
    return spec.model_copy(
        update={
            "git_dir": str(folder / "repository.git"),
            "work_dir": str(work),
            "cache_dir": str(cache),
            "search_path": machine.search_path,
            "registries": machine.registries,
        }
    )
