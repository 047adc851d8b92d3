"""The two checkouts that drafts are tested in."""

from __future__ import annotations

from agent.tree import Draft
from agent.workspace import Checkout, Workspace


class Checkouts:
    """*working* is for runs that may see what those before them left, *pristine* is as new each time. Each is made when
    it is wanted first."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._working: Checkout | None = None
        self._pristine: Checkout | None = None
        self._untouched = False
        """Whether the working one has not been given away yet."""

    def prepare(self) -> None:
        """Write the base's files into the working one, where there is none."""
        if self._working is None:
            self.working(self._workspace.base.draft())
            self._untouched = True

    def working(self, draft: Draft) -> Checkout:
        if self._working is None:
            self._working = self._workspace.checkout(draft, "working")
        else:
            self._working.sync(draft)
        self._untouched = False
        return self._working

    def pristine(self, draft: Draft) -> Checkout:
        """Contents, modes and ages as if no run had touched it, and nothing besides."""
        if self._pristine is None:
            self._pristine = self._workspace.checkout(draft, "pristine")
        else:
            self._pristine.reset(draft)
        return self._pristine

    def base_as_new(self) -> Checkout:
        """The working one, with the base as on the first day."""
        base = self._workspace.base.draft()
        if self._working is None:
            return self.working(base)
        if not self._untouched:
            self._working.reset(base)
        self._untouched = False
        return self._working

    def tidy(self) -> None:
        """Take out of the working one, where it is made, what is no part of the base."""
        if self._working is not None:
            self.base_as_new()

    def close(self) -> None:
        for checkout in (self._working, self._pristine):
            if checkout is not None:
                checkout.close()
        self._working = self._pristine = None
