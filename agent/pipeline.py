"""One run, from the task to a proven change: the stages in order, readable on one screen.

Nothing here knows GitHub, a database or an environment variable. A run always ends in a ``RunResult``: every expected
ending is a named outcome, and the work done so far is kept in it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent import ask, brief, config, endings, judge, loop, plan, planning, prompts, review, tools
from agent.ask import NOBODY, Asker
from agent.budget import Meter, load_prices, room_of
from agent.context.semantic import Meaning, Semantic
from agent.course import ENDS, Course, Event, State
from agent.endings import Ending
from agent.errors import GraftsmithError, OperatorError
from agent.events import EventLog, Listener
from agent.git import Git
from agent.index.history import Commit, log_arguments, parse_log
from agent.index.index import Index
from agent.index.source import TreeSource
from agent.loop import Conversation, Finished
from agent.measure import Measure
from agent.model.embeddings import OpenAIEmbedder
from agent.model.errors import CallCancelled
from agent.model.types import Model
from agent.tools import REGISTRY, Claim, Conclusion, Registry, StepDone, ToolContext
from agent.tools.base import COMMAND_SECONDS
from agent.tools.own import with_own
from agent.tree import BaseTree, Draft
from agent.types import (
    ChangeSet,
    Commands,
    Evidence,
    Place,
    Plan,
    PlanStep,
    ReviewFinding,
    RunResult,
    RunSpec,
    Stage,
    TestRun,
)
from agent.verify.environment import Machine
from agent.verify.harness import Harness
from agent.verify.registries import Registries
from agent.verify.static import Linters
from agent.verify.toolchains import detect
from agent.workspace import Workspace
from sandbox import Limits, Sandbox, SandboxUnavailable, open_sandbox

HISTORY_COMMITS = 2_000
INDEX = "index.sqlite"
_ASIDE = Limits(wall_s=COMMAND_SECONDS)

MakeModel = Callable[[Meter, EventLog, Callable[[], bool]], Model]
MakeMeaning = Callable[[RunSpec, Meter, EventLog], Meaning | None]


def embedded(spec: RunSpec, meter: Meter, events: EventLog) -> Semantic | None:
    """Meaning from the endpoint that ``spec`` names; ``None`` where it names none."""
    if spec.embeddings is None:
        return None
    return Semantic(
        OpenAIEmbedder(spec.embeddings, meter=meter),
        Path(spec.cache_dir) / "vectors.sqlite",
        lambda chunks, scores: events.emit("meaning", chunks=chunks, scores=scores),
    )


PLANNING = {"plan": REGISTRY["plan"], **ask.REGISTRY}
"""What may be called when a person reads the plan before anything is done."""


@dataclass
class Run:
    """One run under way: what it works with, and what is known so far."""

    spec: RunSpec
    events: EventLog
    meter: Meter
    model: Model
    meaning: Meaning | None
    cancelled: Callable[[], bool]
    registry: Registry = field(default_factory=lambda: REGISTRY)
    """What the model may call: ours, and what the repository brings."""
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
            notes=(*self.notes, *(self.meaning.notes if self.meaning else ())),
            prompt_version=prompts.version(),
        )


def run(
    spec: RunSpec,
    *,
    make_model: MakeModel,
    make_meaning: MakeMeaning = embedded,
    event_file: Path,
    listeners: tuple[Listener, ...] = (),
    cancelled: Callable[[], bool] = lambda: False,
    asker: Asker = NOBODY,
) -> RunResult:
    """Carry out ``spec``. Returns for every ending, also for errors of our own; those are in the log with their trace.

    Args:
        make_model: the model, given the meter that it must ask, the log that it must write and the cancel flag.
        make_meaning: what compares by meaning, if anything does.
        event_file: the run's log; appended to.
        listeners: called with each event as it happens.
        cancelled: looked at between and inside calls.
        asker: hears the answer to a question.

    Raises:
        OperatorError: no sandbox starts here (a question needs none).
    """
    with ExitStack() as stack:
        events = EventLog(event_file, secrets=spec.secrets, listeners=listeners)
        stack.callback(events.close)
        meter = Meter(spec.budget, prices=spec.prices or load_prices())
        model, meaning = make_model(meter, events, cancelled), make_meaning(spec, meter, events)
        if meaning is not None:
            stack.callback(meaning.close)
        run = Run(spec, events, meter, model, meaning, cancelled)
        stages = partial(_ask, asker=asker) if spec.mode == "ask" else partial(_stages, sandbox=open_sandbox())
        try:
            ending = stages(run, stack)
        except GraftsmithError as error:
            ending = endings.of_error(error)
        except SandboxUnavailable as error:
            ending = endings.of_error(OperatorError(error.what, why=error.why, todo=error.todo))
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
        own = config.of_tree(BaseTree.load(base.git, run.spec.rules_sha) if run.spec.rules_sha else base)
        run.registry = with_own(REGISTRY, own.tools)
        harness = _harness(run, workspace, sandbox, own.commands)
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
    measure = _measure(run, harness, index)
    if run.spec.change_set is not None:
        return _verify_given(run, measure, base.applied(run.spec.change_set))
    with run.stage(Stage.PLAN):
        conversation = _conversation(run)
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
    return _work(run, measure, conversation, context, finished)


def _conversation(run: Run) -> Conversation:
    spec = run.spec
    return Conversation(
        run.model, run.meter, run.events, room=room_of(spec.model, spec.prices or load_prices()), seed=spec.seed
    )


def _index(run: Run, base: BaseTree) -> Index:
    with run.stage(Stage.INDEX):
        index = Index.open(Path(run.spec.cache_dir) / INDEX, TreeSource(base.draft()))
        index.meaning = run.meaning
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
        run_command=lambda draft, line: brief.command_report(harness.aside(draft, line, _ASIDE), run.spec.seed),
        plan_first=True,
        view=run.spec.view,
    )


def _plan(run: Run, conversation: Conversation, context: ToolContext) -> Finished | None:
    """The model's plan, with the work where it did both at once; or the plan that was approved or is to be revised."""
    spec = run.spec
    waits = spec.mode == "plan"
    registry = PLANNING if waits else tools.offered(run.registry, None)
    try:
        if spec.plan is None:
            return planning.make(conversation, registry, context)
        planning.recall(conversation, spec.plan)
        if waits:
            return planning.revise(conversation, brief.remark(spec), registry, context)
        plan.check(spec.plan, context.draft.base.paths())
        context.plan, context.approved = spec.plan, True
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
        conversation = _conversation(run)
        brief.open_question(conversation, run.spec, index, _history(base))
        context = ToolContext(base.draft(), index, run_tests=_nothing_is_run, run_command=_nothing_is_run)
        question: str = run.spec.task.title
        while question:
            _answer(run, conversation, context, asker)
            question = asker.more(run.answer)
            if question:
                run.events.emit("question", text=question)
                conversation.say(question)
    return endings.answered()


def _nothing_is_run(draft: Draft, what: object) -> str:
    return "Nothing is run for a question."


def _answer(run: Run, conversation: Conversation, context: ToolContext, asker: Asker) -> None:
    run.answer = ask.answer(conversation, context, asker.hear)
    named = ask.places(run.answer, context.draft.base)
    run.places = named.there
    run.notes += [f"The answer names {place}, but there is no such line." for place in named.missing]


def _harness(run: Run, workspace: Workspace, sandbox: Sandbox, own: Commands) -> Harness:
    spec = run.spec
    return Harness(
        workspace,
        sandbox,
        detect(workspace.base, config.merged(own, spec.commands)),
        run.events,
        machine=Machine(spec.search_path, Registries.of(spec.registries), spec.repository),
        limits=Limits(wall_s=spec.command_timeout_s),
        cancelled=run.cancelled,
    )


def _measure(run: Run, harness: Harness, index: Index) -> Measure:
    return Measure(
        harness,
        Linters(harness, harness.workspace.base.draft()),
        before=index,
        store=Path(run.spec.cache_dir) / INDEX,
        known=run.evidence,
        events=run.events,
        stage=run.stage,
    )


def _work(
    run: Run, measure: Measure, conversation: Conversation, context: ToolContext, finished: Finished | None
) -> Ending:
    """Work, judge, and hand what is wrong back to the model, as the table in ``course`` has it.

    Args:
        finished: the work that came with the plan.
    """
    if conversation.messages[-1].role == "assistant":
        conversation.say(prompts.render("work", progress=context.progress))
    best = _Best(run, context)
    course = Course(run.spec.budget.fix_rounds, alternative=bool(run.plan and run.plan.alternatives))
    offered = tools.offered(run.registry, run.plan)
    while True:
        polishing = course.state is State.POLISH
        try:
            with run.stage(Stage.WORK), best.or_latest():
                finished = finished or loop.work(conversation, offered, context)
        except GraftsmithError as error:
            if not polishing or isinstance(error, CallCancelled):
                raise
            return best.accepted(f"The review's findings were handed back, but that broke off: {error}")
        said = finished.said
        ending = endings.without_change(said) if isinstance(said, Conclusion) else None
        if isinstance(said, Conclusion) and ending is not None:
            if polishing:
                return best.accepted(f"The review's findings were handed back and turned down: {said.summary}")
            run.conclusion = said
            return ending
        last = not course.rounds_left and not polishing
        judged = _judged(run, measure, context, said, polishing=polishing, last=last)
        best.offer(judged)
        event = course.event(
            rejected=bool(judged.problems),
            flawed=bool(judged.flaws),
            step=judged.step is not None,
            tested=judged.tested,
        )
        course = course.after(event)
        _tell(run, judged, course, event)
        if course.state in ENDS:
            return best.ending(course.state, judged)
        conversation.answer(finished.call, _handed_back(run, context, judged, course, event))
        conversation.keep("verdict")
        finished = None


@dataclass(frozen=True)
class _Judged:
    """What the harness found of a step, or of the whole.

    Args:
        step: the step; ``None`` for the whole.
        part: which of the steps it is, for a person; empty for the whole.
        tests: what was run to see it.
    """

    problems: tuple[str, ...]
    step: PlanStep | None = None
    part: str = ""
    flaws: tuple[str, ...] = ()
    tests: TestRun | None = None
    evidence: Evidence | None = None
    conclusion: Conclusion | None = None

    @property
    def tested(self) -> bool:
        """Whether tests were run to see it, as far as it takes any."""
        return self.evidence is None or self.evidence.tests is not None


def _judged(
    run: Run, measure: Measure, context: ToolContext, said: Conclusion | StepDone, *, polishing: bool, last: bool
) -> _Judged:
    if isinstance(said, StepDone):
        return _judged_step(run, measure, context, said)
    run.plan = context.plan
    evidence = measure(context.draft, run.plan, to_the_end=last)
    problems = judge.of_claim(said.claim, evidence, run.plan, context.draft.edits)
    if polishing and not problems:
        run.review = [finding.model_copy(update={"reworked": True}) for finding in run.review]
    flaws = () if problems or polishing or said.claim is not Claim.DONE else _review(run, context.draft, evidence)
    return _Judged(problems, flaws=flaws, tests=evidence.tests, evidence=evidence, conclusion=said)


def _judged_step(run: Run, measure: Measure, context: ToolContext, said: StepDone) -> _Judged:
    """Cheap: nothing is run but the tests that the model names. The whole is measured when it finishes."""
    step = context.progress.present
    assert step is not None, "the tool refuses to mark a step that is not there"
    tests = None
    if said.tests:
        with run.stage(Stage.VERIFY):
            tests = measure.harness.run(context.draft, said.tests, "step")
    baseline = measure.known.baseline
    assert baseline is not None
    part = f"step {context.progress.done + 1} of {len(context.progress.steps)}"
    return _Judged(judge.of_step(step, context.draft, tests, said.tests, baseline), step, part, tests=tests)


def _tell(run: Run, judged: _Judged, course: Course, event: Event) -> None:
    run.events.emit(
        "decision",
        accepted=not judged.problems,
        problems=judged.problems,
        flaws=judged.flaws,
        step=judged.step.id if judged.step else None,
        part=judged.part,
        event=event,
        state=course.state,
        rounds_left=course.rounds_left,
    )


def _handed_back(run: Run, context: ToolContext, judged: _Judged, course: Course, event: Event) -> str:
    """What the model is told next; the files and checkpoints are as it is told."""
    match event:
        case Event.ADVANCED:
            context.checkpoints = context.checkpoints.kept(context.draft)
            return brief.next_step(context.progress)
        case Event.FLAWED:
            return prompts.render("flawed", problems=judged.flaws)
        case Event.REJECTED_AGAIN:
            assert run.plan is not None
            context.draft, context.told_unchanged = context.checkpoints.latest, False
            return brief.alternative(judged.problems, run.plan, context.progress, step=judged.step)
        case _:
            rounds = course.rounds_left + 1
            return brief.verdict(judged.problems, judged.tests, rounds, run.spec.seed, step=judged.step)


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
    """The best state so far: the one with the fewest steps to do, one that was measured to the end before others, then
    the one with the fewest problems; as long as the whole was never measured, the latest when work breaks off."""

    def __init__(self, run: Run, context: ToolContext) -> None:
        self._run = run
        self._context = context
        self._rank: tuple[int, bool, int] | None = None
        self._measured = False
        self.problems: tuple[str, ...] = ()

    @contextmanager
    def or_latest(self) -> Iterator[None]:
        """Around work that may break off."""
        try:
            yield
        except BaseException:
            if not self._measured:
                self._run.draft = self._context.draft
            raise

    def offer(self, judged: _Judged) -> None:
        progress = self._context.progress
        to_do = len(progress.steps) - progress.done - (not judged.problems) if judged.step else 0
        cut_short = judged.evidence is not None and judged.evidence.final is None
        rank = to_do, cut_short, len(judged.problems)
        self._measured = self._measured or judged.evidence is not None
        if self._rank is None or rank < self._rank or (rank == self._rank and not judged.problems):
            self._rank, self.problems = rank, judged.problems
            self._run.draft, self._run.conclusion = self._context.draft, judged.conclusion
            self._run.evidence = judged.evidence or self._run.evidence

    def ending(self, state: State, judged: _Judged) -> Ending:
        """Where the course ended; ``judged`` is the last attempt, which says why when the best is a checkpoint."""
        match state:
            case State.STUCK:
                return endings.stuck(self.problems or judged.problems)
            case State.FAILING:
                return endings.rejected(self.problems or judged.problems)
            case _:
                return self.accepted()

    def accepted(self, note: str = "") -> Ending:
        """The best is an accepted change; ``note`` is told with it."""
        assert self._run.conclusion is not None and not self.problems
        self._run.notes += [note] if note else []
        return endings.accepted(self._run.conclusion.claim, self._run.evidence)


def _verify_given(run: Run, measure: Measure, draft: Draft) -> Ending:
    """Test and prove a change that was made elsewhere."""
    run.draft, run.plan = draft, run.spec.plan
    run.evidence = measure(draft, run.plan, to_the_end=True)
    problems = judge.of_claim(Claim.DONE, run.evidence, run.plan, draft.edits)
    return endings.rejected(problems) if problems else endings.accepted(Claim.DONE, run.evidence)
