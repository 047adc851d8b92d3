"""One run, from the task to a proven change: the stages in order, readable on one screen.

Nothing here knows GitHub, a database or an environment variable. A run always ends in a ``RunResult``: every expected
ending is a named outcome, and the work done so far is kept in it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from agent import answering, ask, brief, config, endings, judge, plan, planning, prompts, reading, working
from agent.ask import NOBODY, Asker
from agent.budget import Meter, load_prices
from agent.context.semantic import Meaning, Semantic
from agent.endings import Ending
from agent.errors import GraftsmithError, OperatorError, UserError, disk_full
from agent.events import EventLog, Listener
from agent.listing import listed
from agent.loop import Conversation, Finished
from agent.measure import Measure
from agent.model.types import Model
from agent.reading import Known
from agent.run import Run
from agent.tools import REGISTRY, Claim, ToolContext
from agent.tools.base import COMMAND_SECONDS
from agent.tools.own import with_own
from agent.tree import BaseTree, Draft
from agent.types import START, Commands, RunResult, RunSpec, Stage, SuiteStatus
from agent.verify.baseline import Baseline, Shelf
from agent.verify.environment import Machine
from agent.verify.flakes import Flakes
from agent.verify.harness import Harness
from agent.verify.lacking import lacking
from agent.verify.registries import Registries
from agent.verify.static import Linters
from agent.verify.toolchains import detect
from agent.workspace import Workspace
from sandbox import Limits, Sandbox, SandboxError, open_sandbox

BASELINES = "baselines"
_ASIDE = Limits(wall_s=COMMAND_SECONDS)

MakeModel = Callable[[Meter, EventLog, Callable[[], bool]], Model]
MakeMeaning = Callable[[RunSpec, Meter, EventLog], Meaning | None]


def embedded(spec: RunSpec, meter: Meter, events: EventLog) -> Semantic | None:
    """Meaning from the endpoint that ``spec`` names; ``None`` where it names none."""
    if spec.embeddings is None:
        return None
    from agent.model.embeddings import OpenAIEmbedder  # takes half a second, which few runs need

    return Semantic(
        OpenAIEmbedder(spec.embeddings, meter=meter),
        Path(spec.cache_dir) / "vectors.sqlite",
        lambda chunks, scores: events.emit("meaning", chunks=chunks, scores=scores),
    )


PLANNING = {"plan": REGISTRY["plan"], **ask.REGISTRY}
"""What may be called when a person reads the plan before anything is done."""


def run(
    spec: RunSpec,
    *,
    make_model: MakeModel,
    make_meaning: MakeMeaning = embedded,
    sandbox: Callable[[], Sandbox] = open_sandbox,
    event_file: Path,
    listeners: tuple[Listener, ...] = (),
    cancelled: Callable[[], bool] = lambda: False,
    asker: Asker = NOBODY,
    hand_over: Callable[[RunResult], None] = lambda result: None,
) -> RunResult:
    """Carry out ``spec``. Returns for every ending, also for errors of our own; those are in the log with their trace.

    Args:
        make_model: the model, given the meter that it must ask, the log that it must write and the cancel flag.
        make_meaning: what compares by meaning, if anything does.
        sandbox: what runs the commands; not asked for a question.
        event_file: the run's log; appended to.
        listeners: called with each event as it happens.
        cancelled: looked at between and inside calls.
        asker: hears the answer to a question.
        hand_over: gets the result before the checkouts are removed, which takes a while on a slow disk.

    Raises:
        OperatorError: no sandbox starts here (a question needs none).
        OSError: the disk is full; there is nowhere to keep a result.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        events = EventLog(event_file, secrets=spec.secrets, listeners=listeners)
        stack.callback(events.close)
        meter = Meter(spec.budget, prices=spec.prices or load_prices())
        model, meaning = make_model(meter, events, cancelled), make_meaning(spec, meter, events)
        if meaning is not None:
            stack.callback(meaning.close)
        run = Run(spec, events, meter, model, meaning, cancelled)
        asks = spec.mode == "ask"
        stages = partial(answering.questions, asker=asker) if asks else partial(_stages, sandbox=sandbox())
        run.seconds[START] = round(time.monotonic() - began, 3)
        ending = _ended(partial(stages, run, stack), events)
        if cancelled():
            ending = endings.when_stopped(ending)
        with run.stage(Stage.REPORT):
            if run.draft is not None:
                events.emit("note", text="git", seconds=round(run.draft.base.git.seconds, 3))
            events.emit("decision", outcome=ending.outcome, reason=ending.reason)
        result = run.result(ending)
        hand_over(result)
        return result


def _ended(stages: Callable[[], Ending], events: EventLog) -> Ending:
    """What the stages come to. Whatever goes wrong in them is an ending too, but for a full disk."""
    try:
        return stages()
    except GraftsmithError as error:
        return endings.of_error(error)
    except SandboxError as error:
        return endings.of_error(OperatorError(error.what, why=error.why, todo=error.todo))
    except Exception as error:  # the one catch-all of this process: recorded, and told as ours
        if disk_full(error):
            raise
        events.emit("note", text="bug", trace=traceback.format_exc())
        return endings.our_bug(error)


def _stages(run: Run, stack: ExitStack, sandbox: Sandbox) -> Ending:
    """The main path."""
    with run.stage(Stage.PREPARE):
        harness, reads = _prepared(run, stack, sandbox)
        base = harness.workspace.base
    with run.stage(Stage.BASELINE):
        harness.setup()
        baseline = _baseline(run, harness, base)
        stack.callback(baseline.keep)
        baseline.go_by_parts()
        run.notes += [*harness.environment.notes, *_unsteady(baseline), *_endless(baseline)]
        run.evidence = baseline.evidence()
    unusable = judge.unusable(baseline.run)
    if unusable:
        by = f"They were run by `{harness.plan.line}` ({harness.plan.reason}). " if harness.plan.line else ""
        return endings.blocked(unusable, by=by, too_long=baseline.run.status is SuiteStatus.TIMED_OUT)
    with run.stage(Stage.INDEX):
        known = reads.result()
        run.notes += known.index.report.notes
    measure = _measure(run, harness, baseline, known)
    if run.spec.change_set is not None:
        return _verify_given(run, measure, base.applied(run.spec.change_set))
    with run.stage(Stage.PLAN):
        conversation, context = _opened(run, harness, baseline, known)
        finished = _plan(run, conversation, context)
    if run.spec.mode == "plan":
        return endings.planned()
    if finished is None and run.plan and run.plan.intent == "question" and not run.plan.steps:
        with run.stage(Stage.ANSWER):
            conversation.say(prompts.render("answer"))
            answering.answer(run, conversation, context)
        return endings.answered()
    return working.work(run, measure, conversation, context, finished)


def _prepared(run: Run, stack: ExitStack, sandbox: Sandbox) -> tuple[Harness, Future[Known]]:
    """The base, checked out; and what is read of it meanwhile, since set-up and tests leave a processor idle."""
    workspace = stack.enter_context(Workspace.open(run.spec, sandbox))
    base = workspace.base
    run.draft = base.applied(run.spec.kept) if run.spec.kept else base.draft()
    run.notes += workspace.notes
    own = config.of_tree(BaseTree.load(base.git, run.spec.rules_sha) if run.spec.rules_sha else base)
    run.registry = with_own(REGISTRY, own.tools)
    harness = _harness(run, workspace, sandbox, own.commands)
    stack.callback(harness.close)
    harness.check_out()  # which reads every file; the index asks git for none of them again
    indexer = stack.enter_context(reading.indexer_for(run.spec))
    beside = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="index"))
    return harness, beside.submit(reading.read, run, base, indexer)


def _opened(run: Run, harness: Harness, baseline: Baseline, known: Known) -> tuple[Conversation, ToolContext]:
    """The conversation, with all that is known of the task, and what its tools work with."""
    assert run.draft is not None
    spec, base = run.spec, run.draft.base
    conversation = run.conversation()
    brief.open_task(conversation, spec, known.context(), baseline.run, reading.pulled(run, base))
    if spec.kept:
        conversation.say(brief.kept(run.draft, spec.seed))
    return conversation, ToolContext(
        draft=run.draft,
        index=known.index,
        run_tests=lambda draft, tests: brief.test_report(
            harness.run(draft, tests or baseline.selection(draft, tuple), "asked"), spec.seed
        ),
        run_command=lambda draft, line: brief.command_report(harness.aside(draft, line, _ASIDE), spec.seed),
        meaning=run.meaning,
        plan_first=True,
        view=harness.workspace.spec.view,
    )


def _plan(run: Run, conversation: Conversation, context: ToolContext) -> Finished | None:
    """The model's plan, with the work where it did both at once; or the plan that was approved or is to be revised."""
    spec = run.spec
    waits = spec.mode == "plan"
    registry = PLANNING if waits else run.registry
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


def _baseline(run: Run, harness: Harness, base: BaseTree) -> Baseline:
    """The tests of the base; where the user's own environment has the runner and not the project's dependencies, or
    another copy of the project, in one that is installed."""
    shelf = Shelf(Path(run.spec.cache_dir) / BASELINES)
    if place := harness.astray():
        instead = f"In your own environment the tests would see {place} in place of this checkout"
        mend = "Let them see it, by `pip install -e .` there"
        if not harness.install():
            why = " ".join(("No other could be installed.", *harness.environment.notes))
            raise UserError(instead, why=why, todo=mend)
        run.notes.append(f"{instead}, so they ran in one that was installed. {mend}.")
    baseline = Baseline(harness, base.draft(), shelf)
    why = lacking(baseline.run)
    if why and harness.install():
        run.notes.append(f"{why} in your own environment, so the tests ran in one that was installed.")
        return Baseline(harness, base.draft(), shelf)
    return baseline


def _unsteady(baseline: Baseline) -> list[str]:
    known = listed(baseline.flaky, 5)
    return [f"Seen to be flaky by earlier runs, on this base or on changes of it: {known}."] if known else []


def _endless(baseline: Baseline) -> list[str]:
    known = listed(baseline.endless, 5)
    told = f"Did not end, so all other tests were run without it; it counts as failing, before and after: {known}."
    return [told] if known else []


def _measure(run: Run, harness: Harness, baseline: Baseline, known: Known) -> Measure:
    return Measure(
        harness,
        Linters(harness, harness.workspace.base.draft(), baseline.said),
        indexer=known.indexer,
        before=known.index,
        baseline=baseline,
        flakes=Flakes(harness),
        events=run.events,
        stage=run.stage,
    )


def _verify_given(run: Run, measure: Measure, draft: Draft) -> Ending:
    """Test and prove a change that was made elsewhere."""
    run.draft, run.plan = draft, run.spec.plan
    run.evidence = measure(draft, run.plan, to_the_end=True)
    problems = judge.of_claim(Claim.DONE, run.evidence, run.plan, draft.edits)
    return endings.rejected(problems) if problems else endings.accepted(Claim.DONE, run.evidence)
