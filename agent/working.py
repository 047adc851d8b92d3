"""The work of a run: let the model act, judge what it says is done, and hand back what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent import brief, endings, judge, loop, prompts, review, tools
from agent.course import ENDS, Course, Event, State
from agent.endings import Ending
from agent.errors import GraftsmithError
from agent.loop import Conversation, Finished
from agent.measure import Measure
from agent.model.errors import CallCancelled
from agent.run import Run
from agent.tools import Claim, Conclusion, StepDone, ToolContext
from agent.tree import Draft
from agent.types import Evidence, PlanStep, Stage, TestRun


def work(
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
        run.review = [f.model_copy(update={"reworked": f.severity == "blocking"}) for f in run.review]
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
    part = f"step {context.progress.done + 1} of {len(context.progress.steps)}"
    return _Judged(judge.of_step(step, context.draft, tests, said.tests, measure.baseline.run), step, part, tests=tests)


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
    if run.meter.nearly_spent():
        run.notes.append("The model did not review the change: the budget is nearly spent.")
        return ()
    try:
        with run.stage(Stage.REVIEW):
            found = review.read(run.model, run.spec, run.plan, draft, evidence)
    except CallCancelled:
        raise
    except GraftsmithError as error:
        run.notes.append(f"The model did not review the change: {error}")
        return ()
    run.events.emit("decision", review=[finding.model_dump() for finding in found])
    run.review = list(found[: review.MOST])
    if len(found) > review.MOST:
        run.notes.append(
            f"The review has {len(found) - review.MOST} findings more than are shown; the run's log has all."
        )
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
                return endings.stuck(self.problems or judged.problems, self._claim)
            case State.FAILING:
                return endings.rejected(self.problems or judged.problems, self._claim)
            case _:
                return self.accepted()

    @property
    def _claim(self) -> Claim:
        return self._run.conclusion.claim if self._run.conclusion else Claim.DONE

    def accepted(self, note: str = "") -> Ending:
        """The best is an accepted change; ``note`` is told with it."""
        assert self._run.conclusion is not None and not self.problems
        self._run.notes += [note] if note else []
        return endings.accepted(self._run.conclusion.claim, self._run.evidence)
