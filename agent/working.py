"""The work of a run: let the model act, judge what it says is done, and hand back what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent import brief, endings, judge, loop, prompts, review
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
    if finished is None and conversation.messages[-1].role == "assistant":
        conversation.say(prompts.render("work", progress=context.progress))
    return _Work(run, measure, conversation, context).to_its_end(finished)


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


class _Work:
    """One attempt after the other; ``_course`` is where they have led to."""

    def __init__(self, run: Run, measure: Measure, conversation: Conversation, context: ToolContext) -> None:
        self._run = run
        self._measure = measure
        self._conversation = conversation
        self._context = context
        self._course = Course(run.spec.budget.fix_rounds, alternative=bool(run.plan and run.plan.alternatives))
        self._best = _Best(run, context)

    def to_its_end(self, finished: Finished | None) -> Ending:
        while True:
            try:
                finished = self._attempt(finished)
            except GraftsmithError as error:
                if not self._polishing or isinstance(error, CallCancelled):
                    raise
                return self._best.accepted(f"The review's findings were handed back, but that broke off: {error}")
            if ending := self._unmeasured(finished.said):
                return ending
            judged = self._judged(finished.said)
            self._best.offer(judged)
            event = self._moved_on(judged)
            if self._course.state in ENDS:
                return self._best.ending(self._course.state, judged)
            self._conversation.answer(finished.call, self._handed_back(judged, event))
            self._conversation.keep("verdict")
            finished = None

    @property
    def _polishing(self) -> bool:
        return self._course.state is State.POLISH

    def _attempt(self, finished: Finished | None) -> Finished:
        with self._run.stage(Stage.WORK), self._best.or_latest():
            return finished or loop.work(self._conversation, self._run.registry, self._context)

    def _unmeasured(self, said: Conclusion | StepDone) -> Ending | None:
        """The end of the run, where the model concludes that nothing is to be changed."""
        if not isinstance(said, Conclusion):
            return None
        ending = endings.without_change(said)
        if ending and self._polishing:
            return self._best.accepted(f"The review's findings were handed back and turned down: {said.summary}")
        if ending:
            self._run.conclusion = said
        return ending

    def _judged(self, said: Conclusion | StepDone) -> _Judged:
        if isinstance(said, StepDone):
            return self._judged_step(said)
        run, draft, polishing = self._run, self._context.draft, self._polishing
        run.plan = self._context.plan
        evidence = self._measure(draft, run.plan, to_the_end=not self._course.rounds_left and not polishing)
        problems = judge.of_claim(said.claim, evidence, run.plan, draft.edits)
        if polishing and not problems:
            run.review = [f.model_copy(update={"reworked": f.severity == "blocking"}) for f in run.review]
        flaws = () if problems or polishing or said.claim is not Claim.DONE else _review(run, draft, evidence)
        return _Judged(problems, flaws=flaws, tests=evidence.tests, evidence=evidence, conclusion=said)

    def _judged_step(self, said: StepDone) -> _Judged:
        """Cheap: nothing is run but the tests that the model names. The whole is measured when it finishes."""
        progress, draft = self._context.progress, self._context.draft
        step = progress.present
        assert step is not None, "the tool refuses to mark a step that is not there"
        tests = None
        if said.tests:
            with self._run.stage(Stage.VERIFY):
                tests = self._measure.harness.run(draft, said.tests, "step")
        problems = judge.of_step(step, draft, tests, said.tests, self._measure.baseline.run)
        return _Judged(problems, step, f"step {progress.done + 1} of {len(progress.steps)}", tests=tests)

    def _moved_on(self, judged: _Judged) -> Event:
        """What the attempt was, from where the course stood; it stands where that leads to."""
        event = self._course.event(
            rejected=bool(judged.problems),
            flawed=bool(judged.flaws),
            step=judged.step is not None,
            tested=judged.tested,
        )
        self._course = self._course.after(event)
        self._run.events.emit(
            "decision",
            accepted=not judged.problems,
            problems=judged.problems,
            flaws=judged.flaws,
            step=judged.step.id if judged.step else None,
            part=judged.part,
            event=event,
            state=self._course.state,
            rounds_left=self._course.rounds_left,
        )
        return event

    def _handed_back(self, judged: _Judged, event: Event) -> str:
        """What the model is told next; the files and checkpoints are as it is told."""
        context, plan = self._context, self._run.plan
        match event:
            case Event.ADVANCED:
                context.checkpoints = context.checkpoints.kept(context.draft)
                return brief.next_step(context.progress)
            case Event.FLAWED:
                return prompts.render("flawed", problems=judged.flaws)
            case Event.REJECTED_AGAIN:
                assert plan is not None
                latest = context.checkpoints.latest
                context.draft, context.told_unchanged = context.checkpoints.given_up(context.draft), False
                kept = sorted(context.draft.edits.keys() - latest.edits.keys())
                return brief.alternative(judged.problems, plan, context.progress, kept, step=judged.step)
            case _:
                rounds, seed = self._course.rounds_left + 1, self._run.spec.seed
                return brief.verdict(judged.problems, judged.tests, rounds, seed, step=judged.step)


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
