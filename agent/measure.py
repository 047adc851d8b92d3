"""What can be said of a draft, level by level, the cheapest first: syntax, linters, affected tests, the whole suite.

Then comes the proof, which needs all of them.

Each level is compared with the base, so that only what is new counts. The first one that finds something ends the
measuring: the next levels would cost time and say the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

from agent import judge
from agent.events import Events
from agent.index.graph import Certainty
from agent.index.index import Index
from agent.index.indexer import Indexer
from agent.index.source import TreeSource
from agent.tools.base import Claim
from agent.tree import Draft
from agent.types import Check, Comparison, Evidence, Plan, Stage, SuiteStatus, TestRun
from agent.verify import coverage, impact, integrity, static
from agent.verify.baseline import Baseline
from agent.verify.compare import compare, without_wandering
from agent.verify.compiled import unbuilt, unseen
from agent.verify.flakes import Flakes
from agent.verify.harness import Harness
from agent.verify.impact import Use
from agent.verify.inside import inner_tests, may_hold_tests
from agent.verify.proof import prove, told_apart
from agent.verify.static import Linters

_BUILD_FIRST = "# what is compiled has to be built first, as by `pip install -e .`"


@dataclass(frozen=True)
class Measure:
    """Measures drafts of one base.

    Args:
        indexer: has read the base.
        before: the index of the base.
        baseline: the tests of the base.
        stage: names what goes on.
        quick_s: see ``impact.run_first``.
    """

    harness: Harness
    linters: Linters
    indexer: Indexer
    before: Index
    baseline: Baseline
    flakes: Flakes
    events: Events
    stage: Callable[[Stage], AbstractContextManager[None]]
    quick_s: float = impact.QUICK_S

    def __call__(self, draft: Draft, plan: Plan | None, *, to_the_end: bool) -> Evidence:
        """The evidence for ``draft``; its ``final`` is ``None`` where a cheaper level found enough.

        Args:
            to_the_end: what a cheap level finds does not keep the tests from being run.
        """
        with self.stage(Stage.VERIFY):
            after = self.indexer.index(TreeSource(draft), base=self.before)
            evidence = self._of_base(checks=self._checks(draft, after, to_the_end=to_the_end))
            if not to_the_end and not evidence.complaints:
                evidence = self._affected(draft, after, evidence)
            if not to_the_end and (evidence.complaints or evidence.comparison):
                return evidence
            evidence = self._suite(draft, after, evidence, plan)
        with self.stage(Stage.PROVE):
            evidence = self._proof(draft, evidence)
            wrong = judge.of_claim(Claim.DONE, evidence, plan, draft.edits)
            return evidence if wrong else self._told_more(draft, after, evidence)

    def _of_base(self, **more: object) -> Evidence:
        return self.baseline.evidence().model_copy(update=more)

    def _checks(self, draft: Draft, after: Index, *, to_the_end: bool) -> tuple[Check, ...]:
        def importers() -> Collection[str]:
            return impact.importers(draft, self.before, after)

        syntax = static.syntax(draft, self.before, after)
        stops = bool(syntax.found) and not to_the_end
        checks = (syntax, *(() if stops else self.linters.check(draft, importers)))
        for check in checks:
            self.events.emit("check", **check.model_dump())
        return checks

    def _affected(self, draft: Draft, after: Index, evidence: Evidence) -> Evidence:
        """The tests that the change reaches; compared only where one got worse, since they decide nothing else."""
        files = impact.run_first(draft, self.before, after, self.baseline.run, quick_s=self.quick_s)
        if not files or self.baseline.partial:
            return evidence
        if self.harness.shown(draft, files) == self.harness.shown(draft, ()):
            return evidence  # no command runs them alone
        run = self.harness.run(draft, files, "affected", fresh=True)
        if not run.status.concludes:
            return evidence
        comparison = self._compared(draft, run, files)
        worse = comparison.regressed or comparison.added_failing
        return self._of_base(checks=evidence.checks, affected=run, comparison=comparison if worse else None)

    def _suite(self, draft: Draft, after: Index, evidence: Evidence, plan: Plan | None) -> Evidence:
        """All tests, or those of the part that can be measured."""
        some = self.baseline.selection(draft, lambda: impact.reached_tests(draft, self.before, after))
        final = self.harness.run(draft, some, name="final", fresh=True)
        comparison = self._compared(draft, final)
        comparison = comparison.giving_up(integrity.given_up(draft, plan, comparison.lost))
        return self._of_base(
            checks=evidence.checks,
            affected=evidence.affected,
            final=final,
            comparison=comparison,
            integrity=integrity.check(draft.base, draft, plan),
            unbuilt=self._unbuilt(draft, final),
        )

    def _unbuilt(self, draft: Draft, final: TestRun) -> tuple[str, ...]:
        if final.status is SuiteStatus.NOT_RUN or self.harness.rebuilt(draft):
            return ()
        return unbuilt(self.harness.plan.line, draft.edits)

    def _compared(self, draft: Draft, run: TestRun, files: Collection[str] = ()) -> Comparison:
        """The base against ``run``, as far as it is about ``files`` where any are named."""
        before = self.baseline.run
        if files:
            before, run = impact.restricted(before, files), impact.restricted(run, files)
        comparison = compare(before, run, self.flakes.among(draft, before, run))
        if self.baseline.doubted(comparison):
            return self._compared(draft, run, files)
        self.baseline.flipped(comparison.flaky)
        return without_wandering(comparison, self.baseline.wandering(comparison.lost, run))

    def _proof(self, draft: Draft, evidence: Evidence) -> Evidence:
        """Only where no test got worse: else there is nothing to prove yet."""
        assert evidence.final is not None and evidence.comparison is not None
        if not evidence.comparison.clean:
            return evidence
        counted = {*evidence.comparison.added, *self.baseline.run.passed, *self.baseline.run.failed}
        strays = evidence.final.passed - counted  # ids of this run alone: see ``compare.wandering``
        unsteady = {*self.baseline.flaky, *evidence.comparison.flaky, *strays}
        made = prove(self.harness, draft, self.baseline.run, evidence.final, unsteady)
        proof, flips = told_apart(made, self.baseline.run)
        comparison = evidence.comparison.model_copy(update={"flaky": (*evidence.comparison.flaky, *flips)})
        command = self.harness.shown(draft, tuple(item.test for item in proof))
        build = (_BUILD_FIRST,) if self.harness.rebuilt(draft) else ()
        told = {
            "comparison": comparison,
            "proof": proof,
            "reproduce": (*build, shlex.join(command)) if command else (),
            "unbuilt": unseen(evidence.unbuilt, draft.edits, proof),
        }
        return evidence.model_copy(update=told)

    def _told_more(self, draft: Draft, after: Index, evidence: Evidence) -> Evidence:
        """Of a change that holds: which of its lines run in the tests, and who uses what it changes."""
        sources = coverage.sources(draft)
        if not sources or evidence.final is None:
            return evidence
        used, more = impact.used(draft, self.before, after)
        callers = sorted({use.path for symbol in used for use in symbol.uses if use.resolved} - {*sources})
        reached = impact.reached_tests(draft, self.before, after)
        part = evidence.partial.files if evidence.partial else ()
        observed = coverage.observe(self.harness, draft, (*sources, *callers), reached, evidence.final, part)

        @cache
        def reached_by_a_test(path: str) -> bool:
            imported = any(reach.certainty is Certainty.RESOLVED for reach in after.tests_for([path]))
            return imported or (may_hold_tests(path) and bool(inner_tests(path, after.text(path))))

        def covered(use: Use) -> bool:
            seen = observed.seen.get(use.path)
            return not seen.ran.isdisjoint(use.lines) if seen else reached_by_a_test(use.path)

        found = sorted((impact.impact(symbol, covered) for symbol in used), key=lambda one: -one.count)
        told = {"coverage": coverage.of_change(draft, observed), "impact": tuple(found), "impact_more": more}
        return evidence.model_copy(update=told)
