"""How a run looks on a terminal: one line a stage while it works, then what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from rich.markup import escape
from rich.table import Column, Table

from agent.types import (
    Check,
    Coverage,
    Evidence,
    Impact,
    Outcome,
    Plan,
    Proof,
    RunResult,
    Stage,
    SuiteStatus,
    TestOutcome,
    TestRun,
    Usage,
)
from app.report import words
from app.terminal import Terminal, cleaned

_STAGES = {
    Stage.PREPARE: "Preparing a copy",
    Stage.BASELINE: "Running the tests as they are",
    Stage.INDEX: "Reading the repository",
    Stage.PLAN: "Planning",
    Stage.ANSWER: "Looking for the answer",
    Stage.WORK: "Changing the code",
    Stage.VERIFY: "Running the tests with the change",
    Stage.PROVE: "Proving: red before, green after",
    Stage.REVIEW: "Reading the change once more",
    Stage.REPORT: "Writing it down",
}
_SYMBOLS = 10
_DETAIL = 200
_KEPT = ", as an earlier run measured it"
GOOD = frozenset({Outcome.PROPOSED, Outcome.UPDATED, Outcome.ANSWERED, Outcome.PLANNED, Outcome.ALREADY_FIXED})


@contextmanager
def progress(console: Terminal) -> Iterator[Progress]:
    """A listener for a run's events that keeps one live line, and leaves a line for each stage behind."""
    with console.status("Starting") as status:
        yield Progress(console, status)


class Progress:
    """Shows the events of a run; a listener."""

    def __init__(self, console: Terminal, status: Any) -> None:
        self._console = console
        self._status = status
        self._stage = ""
        self._since = time.monotonic()

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "stage":
            self.end_stage()
            self._stage = _STAGES.get(event["name"], event["name"])
            self._since = time.monotonic()
            self._now("")
        elif kind == "tool_result":
            self._now(f"{event['name']}{'' if event['ok'] else ' (refused)'}")
        elif kind == "model_call" and event.get("reply"):
            self._now("the model has answered")
        elif kind == "test_run" and event["name"] in words.PARTS:
            self._now(words.PARTS[event["name"]])
        elif kind == "test_run":
            self._console.print(f"    {escape(_suite(event['run']))}{_KEPT if event.get('kept') else ''}")
        elif kind == "check" and event["found"]:
            self._console.print(f"    {escape(event['tool'])}: {len(event['found']) + event['more']} new finding(s)")
        elif kind == "note" and event.get("text") == "set-up command":
            self._now("setting up what they need")
        elif kind == "note" and event.get("text") == "test environment":
            self._now("")
        elif kind == "decision" and event.get("part"):
            self._console.print(f"    {event['part']}: {'done' if event['accepted'] else 'not done, going on with it'}")
        elif kind == "decision" and event.get("problems"):
            self._console.print(f"    not accepted: {len(event['problems'])} problem(s), going back to work")
        elif kind == "decision" and "outcome" in event:
            self.end_stage()
            self._status.stop()  # what follows is the result

    def clearing_up(self) -> None:
        """All is told; a person sees what is still waited for."""
        self._status.update("Removing the copies (Ctrl-C does no harm)")
        self._status.start()

    def _now(self, what: str) -> None:
        self._status.update(f"{self._stage}{' · ' + escape(cleaned(what)) if what else ''}")

    def end_stage(self) -> None:
        if self._stage:
            self._console.print(f"  {self._stage} [dim]{time.monotonic() - self._since:.1f} s[/]")
        self._stage = ""


def _suite(run: Mapping[str, Any]) -> str:
    """How a run of tests ended: with counts, or why there are none."""
    if run["passed"] or run["failed"]:
        return f"{words.SUITE[SuiteStatus(run['status'])]}: {run['passed']} passed, {words.failures(run)} failed"
    return cleaned(run["detail"]).partition("\n")[0][:_DETAIL] or words.SUITE[SuiteStatus(run["status"])]


def result(
    console: Terminal, result: RunResult, folder: Path, applied: tuple[str, ...], trouble: Exception | None
) -> None:
    """Print the end of a run: the outcome first, then the proof, then what is where."""
    waits = result.evidence.touches_tests or result.evidence.partial or result.evidence.unbuilt
    colour = "green" if result.outcome in GOOD and not waits else "yellow"
    ended = result.outcome.value.replace("_", " ") + (", proven" if result.proven else "")
    console.print(f"\n[bold {colour}]{ended}:[/] {escape(result.reason)}")
    if result.next_step:
        console.print(f"Next: {escape(result.next_step)}")
    if result.summary and result.summary != result.reason:
        console.print(f"\n{escape(result.summary)}")
    if result.plan and result.outcome is Outcome.PLANNED:
        plan(console, result.plan)
        console.print(f"Carry it out: graftsmith run --resume {escape(result.run_id)}", soft_wrap=True)
        console.print(f'Change it:    graftsmith run --resume {escape(result.run_id)} --revise "…"', soft_wrap=True)
    evidence(console, result.evidence)
    for finding in result.review:
        done = " (reworked since)" if finding.reworked else ""
        said = " → ".join(filter(None, (finding.problem.strip(), finding.advice.strip())))
        console.print(f"[yellow]review, {finding.severity}{done}:[/] {escape(finding.place)}: {escape(said)}")
    for change in result.change_set.changes:
        what = "deleted" if change.content is None else "changed"
        console.print(f"  {what} {escape(change.path)}", soft_wrap=True)
    for note in result.notes:
        console.print(f"[dim]note: {escape(note)}[/]")
    console.print(f"\n{spent(result.usage)}", highlight=False)
    if applied:
        console.print("[green]Applied to your files.[/]")
    elif result.change_set and trouble is None:
        console.print(
            f"Not applied. To apply it: git apply {escape(quote(str(folder / 'change.patch')))}", soft_wrap=True
        )
    console.print(f"[dim]Everything about this run: {escape(str(folder))}[/]", soft_wrap=True)


def spent(usage: Usage) -> str:
    """What the model took, on one line."""
    return ", ".join(filter(None, (words.tokens(usage), words.money(usage))))


def plan(console: Terminal, plan: Plan) -> None:
    """The plan in the order of its steps."""
    console.print(f"\n{escape(plan.summary)}")
    if plan.entities:
        console.print(f"[dim]about {escape(', '.join(plan.entities))}[/]")
    for number, step in enumerate(plan.steps, 1):
        files = ", ".join((*step.files, *(f"{path} (new)" for path in step.new_files)))
        console.print(f"  {number}. {escape(step.objective)}{f' [dim]{escape(files)}[/]' if files else ''}")
        if step.done_when:
            console.print(f"     [dim]done when {escape(step.done_when)}[/]")
        if step.test_changes:
            console.print(f"     [yellow]existing tests change because[/] {escape(step.test_changes)}")
    for title, lines in (("Tests to add", plan.tests), ("Risks", plan.risks), ("Other ways", plan.alternatives)):
        if lines:
            console.print(f"{title}:")
        for line in lines:
            console.print(f"  - {escape(line)}")


def evidence(console: Terminal, evidence: Evidence) -> None:
    """What the checks say, tests before and after, the proof, and what weakens it."""
    for check in evidence.checks:
        _check(console, check)
    if evidence.affected:
        console.print(f"\nAffected tests first: {_counts(evidence.affected)}")
    if evidence.baseline and evidence.final:
        console.print(f"\nTests before: {_counts(evidence.baseline)}\nTests after:  {_counts(evidence.final)}")
    if evidence.partial:
        console.print(f"[yellow]not run:[/] all but {evidence.partial.short}. {escape(evidence.partial.why)}")
    if evidence.coverage:
        _coverage(console, evidence.coverage)
    if used := [one for one in evidence.impact if one.callers]:
        _impact(console, used)
        if evidence.impact_more:
            console.print(f"  {evidence.impact_more} more changed symbols, of which no callers were looked for")
    if evidence.proof:
        _proof(console, evidence.proof)
    for finding in evidence.integrity:
        what = "[yellow]tests changed, as the plan says:[/]" if finding.excused else "[red]tests weakened:[/]"
        console.print(f"{what} {escape(finding.path)}: {escape(finding.detail)}")
    for test in evidence.given_up:
        console.print(f"[yellow]does not run any more, as the plan says:[/] {escape(test)}")


def _check(console: Terminal, check: Check) -> None:
    if check.level == "static" and not check.found:
        console.print(f"[dim]{escape(check.tool)}: {escape(check.silent) or 'nothing new'}[/]")
    for found in check.found:
        said = f"{found.place}: {found.rule} {found.message}"
        console.print(f"[red]{escape(check.tool)}:[/] {escape(said)}")
    if check.more:
        console.print(f"[red]{escape(check.tool)}:[/] and {check.more} more")


def _proof(console: Terminal, proofs: Sequence[Proof]) -> None:
    table = Table(Column("test", overflow="fold"), "before", "after", title="Proof", title_justify="left")
    for proof in proofs:
        style = "" if proof.holds or proof.guards else "red"
        table.add_row(escape(proof.test), str(proof.on_base), str(proof.on_head), style=style)
    console.print(table)


def _coverage(console: Terminal, coverage: Coverage) -> None:
    if said := words.coverage(coverage) or escape(coverage.absent):
        console.print(f"[dim]Changed lines:[/] {said}")
    for place in coverage.missed:
        console.print(f"  [yellow]not run:[/] {escape(str(place))}")


def _impact(console: Terminal, impact: Sequence[Impact]) -> None:
    table = Table(
        Column("changed", overflow="fold"),
        "callers",
        "by name only",
        "run in a test",
        title="Blast radius",
        title_justify="left",
    )
    for name, one in zip(words.symbols(impact[:_SYMBOLS]), impact, strict=False):
        table.add_row(escape(name), str(one.resolved), str(one.by_name), f"{one.covered} of {one.count}")
    console.print(table)


def _counts(run: TestRun) -> str:
    skipped = len(run.ids(TestOutcome.SKIPPED))
    more = f", {skipped} skipped" if skipped else ""
    return f"{run.status.value}, {len(run.passed)} passed, {len(run.failed)} failed{more} ({run.seconds:.1f} s)"
