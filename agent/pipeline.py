"""One run, from the task to a proven change: the stages in order, readable on one screen.

Nothing here knows GitHub, a database or an environment variable. A run always ends in a ``RunResult``: every expected
ending is a named outcome, and the work done so far is kept in it.
"""

from __future__ import annotations

import shlex
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent import ask, brief, config, endings, judge, loop, plan, planning, prompts, review
from agent.ask import NOBODY, Asker
from agent.budget import Meter, load_prices
from agent.course import Course, Event, State
from agent.endings import Ending
from agent.errors import GraftsmithError
from agent.events import EventLog, Listener
from agent.git import Git
from agent.index.history import Commit, log_arguments, parse_log
from agent.index.index import Index
from agent.index.source import TreeSource
from agent.loop import Conversation, Finished
from agent.model.errors import CallCancelled
from agent.model.types import Model
from agent.tools import REGISTRY, Claim, Conclusion, ToolContext
from agent.tree import BaseTree, Draft
from agent.types import ChangeSet, Evidence, Place, Plan, ReviewFinding, RunResult, RunSpec, Stage, TestRun
from agent.verify import integrity
from agent.verify.compare import compare
from agent.verify.environment import Machine
from agent.verify.harness import Harness
from agent.verify.proof import prove
from agent.verify.registries import Registries
from agent.verify.toolchains import detect
from agent.workspace import Workspace
from sandbox import Limits, Sandbox, open_sandbox

HISTORY_COMMITS = 2_000

MakeModel = Callable[[Meter, EventLog, Callable[[], bool]], Model]

PLANNING = {"plan": REGISTRY["plan"], **ask.REGISTRY}
"""What may be called when a person reads the plan before anything is done."""


@dataclass
class Run:
    """One run under way: what it works with, and what is known so far."""

    spec: RunSpec
    events: EventLog
    meter: Meter
    model: Model
    cancelled: Callable[[], bool]
    draft: Draft | None = None
    plan: Plan | None = None
    conclusion: Conclusion | None = None
    answer: str = ""
    places: tuple[Place, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    review: list[ReviewFinding] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Names what goes on, and adds up how long it took."""
        self.events.stage = stage
        self.events.emit("stage", name=stage)
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.monotonic() - started, 3)

    def result(self, ending: Ending) -> RunResult:
        conclusion = self.conclusion
        return RunResult(
            run_id=self.spec.run_id,
            outcome=ending.outcome,
            reason=ending.reason,
            next_step=ending.next_step,
            our_fault=ending.our_fault,
            summary=conclusion.summary if conclusion else self.answer,
            places=self.places,
            plan=self.plan,
            change_set=self.draft.change_set() if self.draft else ChangeSet(base_sha=self.spec.base_sha),
            file_reasons=conclusion.reasons if conclusion else (),
            evidence=self.evidence,
            review=tuple(self.review),
            usage=self.meter.usage,
            seconds=self.seconds,
            notes=tuple(self.notes),
            prompt_version=prompts.version(),
        )


def run(
    spec: RunSpec,
    *,
    make_model: MakeModel,
    event_file: Path,
    listeners: tuple[Listener, ...] = (),
    prices: Path | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    asker: Asker = NOBODY,
) -> RunResult:
    """Carry out ``spec``. Returns for every ending, also for errors of our own; those are in the log with their trace.

    Args:
        make_model: the model, given the meter that it must ask, the log that it must write and the cancel flag.
        event_file: the run's log; appended to.
        listeners: called with each event as it happens.
        prices: a price table in place of the shipped one.
        cancelled: looked at between and inside calls.
        asker: hears the answer to a question.

    Raises:
        OperatorError: no sandbox starts here (a question needs none), or the price table can't be read.
    """
    with ExitStack() as stack:
        events = EventLog(event_file, secrets=(spec.model.api_key, spec.seed), listeners=listeners)
        stack.callback(events.close)
        meter = Meter(spec.budget, prices=load_prices(prices))
        run = Run(spec, events, meter, make_model(meter, events, cancelled), cancelled)
        stages = partial(_ask, asker=asker) if spec.mode == "ask" else partial(_stages, sandbox=open_sandbox())
        try:
            ending = stages(run, stack)
        except GraftsmithError as error:
            ending = endings.of_error(error)
        except Exception as error:  # the one catch-all of this process: recorded, and told as ours
            events.emit("note", text="bug", trace=traceback.format_exc())
            ending = endings.our_bug(error)
        with run.stage(Stage.REPORT):
            events.emit("decision", outcome=ending.outcome, reason=ending.reason)
            return run.result(ending)


def _stages(run: Run, stack: ExitStack, sandbox: Sandbox) -> Ending:
    """The main path."""
    with run.stage(Stage.PREPARE):
        workspace = stack.enter_context(Workspace.open(run.spec, sandbox))
        base = workspace.base
        run.draft = base.applied(run.spec.kept) if run.spec.kept else base.draft()
        run.notes += workspace.notes
        harness = _harness(run, workspace, sandbox)
        stack.callback(harness.close)
    index = _index(run, base)
    with run.stage(Stage.BASELINE):
        harness.setup()
        run.notes += harness.environment.notes
        baseline = harness.run(base.draft(), name="baseline")
        run.evidence = Evidence(baseline=baseline, isolation=sandbox.isolation.detail)
    unusable = judge.unusable(baseline)
    if unusable:
        return endings.blocked(unusable)
    if run.spec.change_set is not None:
        return _verify_given(run, harness, base.applied(run.spec.change_set), baseline)
    with run.stage(Stage.PLAN):
        conversation = Conversation(run.model, run.meter, run.events)
        brief.open_task(conversation, run.spec, index, baseline, _history(base))
        if run.spec.kept:
            conversation.say(brief.kept(run.draft, run.spec.seed))
        context = _context(run, harness, index)
        finished = _plan(run, conversation, context)
    if run.spec.mode == "plan":
        return endings.planned()
    if finished is None and run.plan and run.plan.intent == "question" and not run.plan.steps:
        with run.stage(Stage.ANSWER):
            conversation.say(prompts.render("answer"))
            _answer(run, conversation, context, NOBODY)
        return endings.answered()
    return _work(run, harness, conversation, context, baseline, finished)


def _index(run: Run, base: BaseTree) -> Index:
    with run.stage(Stage.INDEX):
        index = Index.open(Path(run.spec.cache_dir) / "index.sqlite", TreeSource(base.draft()))
        run.notes += index.report.notes
        return index


def _history(base: BaseTree) -> tuple[Commit, ...]:
    """What earlier commits say about which files; next to nothing where only the base commit was fetched."""
    return parse_log(base.git.run(log_arguments(base.sha, HISTORY_COMMITS)))


def _context(run: Run, harness: Harness, index: Index) -> ToolContext:
    assert run.draft is not None
    return ToolContext(
        draft=run.draft,
        index=index,
        run_tests=lambda draft, tests: brief.test_report(harness.run(draft, tests, "asked"), run.spec.seed),
        plan_first=True,
        view=run.spec.view,
    )


def _plan(run: Run, conversation: Conversation, context: ToolContext) -> Finished | None:
    """The model's plan, with the work where it did both at once; or the plan that was approved or is to be revised."""
    spec = run.spec
    waits = spec.mode == "plan"
    registry = PLANNING if waits else REGISTRY
    try:
        if spec.plan is None:
            return planning.make(conversation, registry, context)
        planning.recall(conversation, spec.plan)
        if waits:
            return planning.revise(conversation, brief.remark(spec), registry, context)
        plan.check(spec.plan, context.draft.base.paths())
        context.plan = spec.plan
        return None
    finally:
        run.plan, run.draft = context.plan, context.draft


def _ask(run: Run, stack: ExitStack, asker: Asker) -> Ending:
    """Answer questions from the base's files; nothing is checked out and nothing is run."""
    with run.stage(Stage.PREPARE):
        git = stack.enter_context(Git(Path(run.spec.git_dir)))
        base = BaseTree.load(git, run.spec.base_sha)
    index = _index(run, base)
    with run.stage(Stage.ANSWER):
        conversation = Conversation(run.model, run.meter, run.events)
        brief.open_question(conversation, run.spec, index, _history(base))
        context = ToolContext(base.draft(), index, run_tests=lambda draft, tests: "Nothing is run for a question.")
        question: str = run.spec.task.title
        while question:
            _answer(run, conversation, context, asker)
            question = asker.more(run.answer)
            if question:
                run.events.emit("question", text=question)
                conversation.say(question)
    return endings.answered()


def _answer(run: Run, conversation: Conversation, context: ToolContext, asker: Asker) -> None:
    run.answer = ask.answer(conversation, context, asker.hear)
    named = ask.places(run.answer, context.draft.base)
    run.places = named.there
    run.notes += [f"The answer names {place}, but there is no such line." for place in named.missing]


def _harness(run: Run, workspace: Workspace, sandbox: Sandbox) -> Harness:
    spec = run.spec
    own = config.of_tree(workspace.base)
    return Harness(
        workspace,
        sandbox,
        detect(workspace.base, config.merged(own.commands, spec.commands)),
        run.events,
        machine=Machine(spec.search_path, Registries.of(spec.registries), spec.repository),
        limits=Limits(wall_s=spec.command_timeout_s),
        cancelled=run.cancelled,
    )


def _work(
    run: Run,
    harness: Harness,
    conversation: Conversation,
    context: ToolContext,
    baseline: TestRun,
    finished: Finished | None,
) -> Ending:
    """Work, measure, and hand what is wrong back to the model, as the table in ``course`` has it.

    Args:
        finished: the work that came with the plan.
    """
    if conversation.messages[-1].role == "assistant":
        conversation.say(prompts.render("work"))
    best = _Best(run)
    checkpoint = context.draft.base.draft()
    course = Course(run.spec.budget.fix_rounds, alternative=bool(run.plan and run.plan.alternatives))
    while True:
        try:
            with run.stage(Stage.WORK):
                finished = finished or best.or_latest(context, lambda: loop.work(conversation, REGISTRY, context))
        except GraftsmithError as error:
            if course.state is not State.POLISH or isinstance(error, CallCancelled):
                raise
            run.notes.append(f"The review's findings were handed back, but that broke off: {error}")
            return best.accepted()
        claim = finished.conclusion.claim
        ending = endings.without_change(finished.conclusion)
        if ending is not None and course.state is State.POLISH:
            run.notes.append(f"The review's findings were handed back and turned down: {finished.conclusion.summary}")
            return best.accepted()
        if ending is not None:
            run.conclusion = finished.conclusion
            return ending
        evidence = _measure(run, harness, context.draft, baseline)
        problems = judge.of_claim(claim, evidence, run.plan, context.draft.edits)
        best.offer(context.draft, evidence, problems, finished.conclusion)
        polished = course.state is State.POLISH
        if polished and not problems:
            run.review = [finding.model_copy(update={"reworked": True}) for finding in run.review]
        flaws = () if problems or polished or claim is not Claim.DONE else _review(run, context.draft, evidence)
        event = course.event(rejected=bool(problems), flawed=bool(flaws))
        course = course.after(event)
        run.events.emit(
            "decision",
            accepted=not problems,
            problems=problems,
            flaws=flaws,
            event=event,
            state=course.state,
            rounds_left=course.rounds_left,
        )
        match course.state:
            case State.DONE:
                return best.accepted()
            case State.FAILING:
                return endings.rejected(best.problems)
            case State.STUCK:
                return endings.stuck(best.problems)
            case State.POLISH:
                told = prompts.render("flawed", problems=flaws)
            case State.ALTERNATIVE if event is Event.REJECTED_AGAIN:
                assert run.plan is not None
                context.draft, context.told_unchanged = checkpoint, False
                told = prompts.render("alternative", problems=problems, ways=run.plan.alternatives)
            case _:
                told = brief.verdict(problems, evidence.final, course.rounds_left + 1, run.spec.seed)
        conversation.answer(finished.call, told)
        finished = None


def _review(run: Run, draft: Draft, evidence: Evidence) -> tuple[str, ...]:
    """Have an accepted change read once more; what must not stay of it. A review that fails costs no change."""
    if not run.spec.review:
        return ()
    if run.meter.nearly_spent:
        run.notes.append("The model did not review the change: the budget is nearly spent.")
        return ()
    try:
        with run.stage(Stage.REVIEW):
            run.review = list(review.read(run.model, run.spec, run.plan, draft, evidence))
    except CallCancelled:
        raise
    except GraftsmithError as error:
        run.notes.append(f"The model did not review the change: {error}")
        return ()
    run.events.emit("decision", review=[finding.model_dump() for finding in run.review])
    return review.blocking(run.review)


class _Best:
    """The best state so far: the one with the fewest problems; until something was measured, the latest."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.problems: tuple[str, ...] | None = None

    def or_latest(self, context: ToolContext, work: Callable[[], Finished]) -> Finished:
        """Do ``work``; when it breaks off before anything was measured, what it did so far is kept."""
        try:
            return work()
        finally:
            if self.problems is None:
                self._run.draft = context.draft

    def offer(self, draft: Draft, evidence: Evidence, problems: tuple[str, ...], conclusion: Conclusion) -> None:
        if self.problems is None or not problems or len(problems) < len(self.problems):
            self._run.draft, self._run.evidence, self._run.conclusion = draft, evidence, conclusion
            self.problems = problems

    def accepted(self) -> Ending:
        assert self._run.conclusion is not None and not self.problems
        return endings.accepted(self._run.conclusion.claim, self._run.evidence)


def _verify_given(run: Run, harness: Harness, draft: Draft, baseline: TestRun) -> Ending:
    """Test and prove a change that was made elsewhere."""
    run.draft = draft
    run.evidence = _measure(run, harness, draft, baseline)
    problems = judge.of_claim(Claim.DONE, run.evidence, None, draft.edits)
    return endings.rejected(problems) if problems else endings.accepted(Claim.DONE, run.evidence)


def _measure(run: Run, harness: Harness, draft: Draft, baseline: TestRun) -> Evidence:
    """What the harness can say of ``draft``; proofs only where nothing got worse."""
    with run.stage(Stage.VERIFY):
        final = harness.run(draft, name="final", fresh=True)
        comparison = compare(baseline, final, harness.flaky(draft, baseline, final))
        weakened = integrity.check(draft.base, draft, run.plan)
    evidence = run.evidence.model_copy(
        update={"final": final, "comparison": comparison, "integrity": weakened, "proof": (), "reproduce": ()}
    )
    if not comparison.clean:
        return evidence
    with run.stage(Stage.PROVE):
        proof = prove(harness, draft, baseline, final)
        command = harness.shown(draft, tuple(item.test for item in proof))
        return evidence.model_copy(update={"proof": proof, "reproduce": (shlex.join(command),) if command else ()})
