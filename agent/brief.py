"""What the model is told: the task, the code that most likely matters, the tests before the change, the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent import prompts
from agent.context.build import build
from agent.context.fence import fence
from agent.context.semantic import Meaning
from agent.index.history import Commit
from agent.index.index import Index
from agent.listing import listed
from agent.loop import Conversation
from agent.model.types import Message, Model
from agent.steps import Progress
from agent.tree import Draft
from agent.types import Evidence, Plan, PlanStep, RunSpec, SuiteStatus, Task, TestOutcome, TestRun
from agent.verify.harness import Aside
from agent.verify.report import gist
from sandbox.text import clean, shorten
from sandbox.types import End

CONTEXT_TOKENS = 4_000
"""At most, and sent with every call."""
MARGIN = 2.75
"""Log-odds below the best function's; what is less likely is left out. It took a quarter of these tokens in each call,
where five cases of a hundred needed it, which then costs one look; see ``docs/retrieval.md``."""
_ISSUE_CHARS = 20_000
_LOG_CHARS = 3_000
_COMMAND_CHARS = 8_000
_DIFF_CHARS = 30_000
_PULLED_CHARS = 12_000
"""About 3,000 tokens, sent with every call."""
_SHOWN = 20
_COMMAND_SHOWN = 200
_REASONS = 3
"""So many of what most tests failed for before are told: often it is the machine."""
_FEW_FAILING = 6
_NOTHING_PROVEN = (
    "No test can be seen to fail without a change and to pass with it. Unless the task is documentation or pure "
    "refactoring, call `finish` with the claim `blocked` at once, and say that the test command has to write a JUnit "
    "file, named as `{report}` in it."
)


def open_task(conversation: Conversation, spec: RunSpec, found: str, baseline: TestRun, pulled: bytes) -> None:
    """Begin the conversation: the rules, then the task with everything that is known about it.

    Args:
        found: see ``context``.
        pulled: the patch of the pull request that the task is about; empty for an issue.
    """
    report = test_report(baseline, spec.seed, baseline=True)
    task = fence("issue", "task", _task_text(spec.task), spec.seed)
    _open(conversation, "system", prompts.render("task", task=task, baseline=report, **_around(spec, found, pulled)))


def open_question(conversation: Conversation, spec: RunSpec, found: str, pulled: bytes) -> None:
    """Begin the conversation about a question: the rules, then the question and the code that it likely is about.

    Args:
        found: see ``context``.
        pulled: the patch of the pull request that the question is about; empty for an issue.
    """
    task = fence("question", "", _task_text(spec.task), spec.seed)
    _open(conversation, "ask", prompts.render("question", task=task, **_around(spec, found, pulled)))


def _open(conversation: Conversation, rules: str, text: str) -> None:
    conversation.messages.append(Message.system(prompts.render(rules)))
    conversation.say(text)


def _around(spec: RunSpec, found: str, pulled: bytes) -> dict[str, str]:
    """What was said besides, and the code that most likely matters."""
    patch = clean(pulled, _PULLED_CHARS).rstrip()
    return {
        "request": _fenced("request", spec.task.request, spec.seed),
        "discussion": "\n".join(_fenced("comment", text, spec.seed) for text in spec.task.comments),
        "pulled": fence("diff", "the pull request", patch, spec.seed) if pulled else "",
        "context": found,
    }


def context(spec: RunSpec, index: Index, history: Sequence[Commit], meaning: Meaning | None, model: Model) -> str:
    """The code that the task most likely is about; ``model`` is asked for its order where ``spec`` has it so."""
    chooser = model if spec.rerank else None
    return build(
        index, spec.task, CONTEXT_TOKENS, spec.seed, history=history, meaning=meaning, chooser=chooser, margin=MARGIN
    )


def remark(spec: RunSpec) -> str:
    """What a person wants different about a plan."""
    return _fenced("remark", spec.task.request, spec.seed) or "Another way to do it."


def test_report(run: TestRun, seed: str, *, baseline: bool = False) -> str:
    """One test run as the model reads it: counts first, then failures, then the end of the output where that helps."""
    counts = f"{len(run.passed)} passed, {len(run.failed)} failed" if run.structured else "no report of single tests"
    skipped = len(run.ids(TestOutcome.SKIPPED))
    counts += f", {skipped} skipped" if skipped else ""
    head = f"{run.status.value}: {counts}, in {run.seconds:.1f} s"
    parts = [head + (f" ({run.detail})" if run.detail else "")]
    if baseline and run.command:
        parts.append(fence("command", "runs them all", _line(run.command), seed))
    failed = sorted(run.failed)
    if failed and baseline:
        parts.append("Already failing, not your doing unless the task says so: " + _by_file(failed))
        reasons = {test: gist(run.messages[test]) for test in failed if run.messages.get(test)}
        one = {reason: test for test, reason in reasons.items()}
        why = Counter(reasons.values()).most_common(_REASONS)
        told = "\n".join(f"{f'{count} ×' if count > 1 else one[reason] + ':'} {reason}" for reason, count in why)
        parts += [fence("failure", "why", told, seed)] if told else []
    elif failed:
        parts += [fence("failure", test, run.messages.get(test, "")[-1_500:], seed) for test in failed[:8]]
        if len(failed) > 8:
            parts.append("Also failing: " + listed(failed[8:], _SHOWN))
    explained = run.status is SuiteStatus.OK or (run.status is SuiteStatus.FAILING and run.structured)
    if baseline and not run.structured and run.status.concludes:
        parts.append(_NOTHING_PROVEN)
    if not explained and run.log.strip():
        parts.append(fence("output", "end of the output", run.log[-_LOG_CHARS:], seed))
    return "\n".join(parts)


def command_report(aside: Aside, seed: str) -> str:
    """One command as the model reads it: how it ended, what it printed, and that its changes are gone."""
    finished = aside.finished
    ended = f"exit code {finished.exit_code}" if finished.end is End.EXITED else finished.end.value.replace("_", " ")
    parts = [f"{ended}, {finished.seconds:.1f} s"]
    output = clean(finished.output, _COMMAND_CHARS)
    parts.append(fence("output", "", output, seed) if output.strip() else "No output.")
    if aside.altered:
        altered = listed(aside.altered, _SHOWN)
        parts.append(f"It changed {altered} in its copy, which is gone: change files by the other tools.")
    return "\n".join(parts)


def verdict(
    problems: Sequence[str], final: TestRun | None, rounds_left: int, seed: str, *, step: PlanStep | None
) -> str:
    """Why the change, or ``step`` of it, was not accepted."""
    unclear = final is not None and not final.status.concludes
    log = fence("output", "end of the output", final.log[-_LOG_CHARS:], seed) if final and unclear else ""
    return prompts.render("verdict", problems=problems, rounds_left=rounds_left, log=log, step=step)


def next_step(progress: Progress) -> str:
    """A step is done, and which comes after it."""
    before = progress.steps[progress.done - 1]
    return prompts.render("step", done=before.id, step=progress.present, last=progress.last)


def alternative(
    problems: Sequence[str], plan: Plan, progress: Progress, kept: Sequence[str], *, step: PlanStep | None
) -> str:
    """That way is given up, and the files are as they were before it, but for the new tests ``kept``."""
    before = f"step {progress.present.id} began" if progress.done and progress.present else "the work began"
    return prompts.render(
        "alternative", problems=problems, ways=plan.alternatives, before=before, kept=listed(kept, _SHOWN), step=step
    )


def kept(draft: Draft, seed: str) -> str:
    """The unfinished work that is in the files already."""
    diff = clean(draft.diff(), _DIFF_CHARS)
    return prompts.render("kept", diff=fence("diff", "the work so far", diff, seed))


def for_review(spec: RunSpec, plan: Plan | None, diff: str, evidence: Evidence) -> str:
    """What a reviewer is given: the task, when the plan counts as carried out, what was measured, the change."""
    steps = plan.steps if plan else ()
    final = evidence.final
    before = evidence.baseline.failed if evidence.baseline else frozenset[str]()
    as_before = ", as they did before" if final and final.failed and final.failed <= before else ""
    passed = f"; {len(final.passed)} tests pass, {len(final.failed)} fail{as_before}" if final else ""
    return prompts.render(
        "reviewed",
        task=fence("issue", "task", _task_text(spec.task), spec.seed),
        request=_fenced("request", spec.task.request, spec.seed),
        criteria="\n".join(f"- {s.objective}" + (f"; done when {s.done_when}" if s.done_when else "") for s in steps),
        measured=f"tests that fail without the change and pass with it: {len(evidence.turned)}{passed}",
        diff=fence("diff", "the change", diff, spec.seed),
    )


def _task_text(task: Task) -> str:
    return clean(f"{task.title}\n\n{task.body}".strip().encode("utf-8", "replace"), _ISSUE_CHARS)


def _fenced(kind: str, text: str, seed: str) -> str:
    return fence(kind, "", clean(text.encode("utf-8", "replace"), _ISSUE_CHARS), seed) if text.strip() else ""


def _by_file(tests: Sequence[str]) -> str:
    """The tests, or where they are many, how many of each file: it is sent with every call, and says as much."""
    if len(tests) <= _FEW_FAILING:
        return ", ".join(tests)
    files = Counter(test.partition("::")[0] for test in tests).most_common()
    if len(files) == len(tests):  # one each, as where files can't be loaded: a number would tell nothing
        return listed(tests, _FEW_FAILING)
    return listed([f"{file} ({count})" for file, count in files], _SHOWN)


def _line(command: Sequence[str]) -> str:
    """What a person would type; a command may be a whole script."""
    return shorten(command[2] if command[:2] == ("sh", "-c") else " ".join(command), _COMMAND_SHOWN)
