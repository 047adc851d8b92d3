"""Questions of a run: answered from the base's files; nothing is checked out and nothing is run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from agent import ask, brief, endings, reading
from agent.ask import NOBODY, Asker
from agent.endings import Ending
from agent.git import Git
from agent.loop import Conversation
from agent.run import Run
from agent.tools import ToolContext
from agent.tree import BaseTree, Draft
from agent.types import Stage


def questions(run: Run, stack: ExitStack, asker: Asker) -> Ending:
    """Answer what the task asks, then what ``asker`` goes on to ask."""
    with run.stage(Stage.PREPARE):
        git = stack.enter_context(Git(Path(run.spec.git_dir)))
        base = BaseTree.load(git, run.spec.base_sha)
    with run.stage(Stage.INDEX):
        indexer = stack.enter_context(reading.indexer_for(run.spec))
        known = reading.read(run, base, indexer)
        run.notes += known.index.report.notes
    with run.stage(Stage.ANSWER):
        conversation = run.conversation()
        brief.open_question(conversation, run.spec, known.context(), reading.pulled(run, base))
        context = ToolContext(
            base.draft(),
            known.index,
            run_tests=_nothing_is_run,
            run_command=_nothing_is_run,
            meaning=run.meaning,
        )
        question: str = run.spec.task.title
        while question:
            asked = conversation.messages[-1]
            answer(run, conversation, context, asker)
            question = asker.more(run.answer)
            if question:
                run.events.emit("question", text=question)
                conversation.settle(before=asked)  # the next one may go on from this one, hardly from those before
                conversation.say(question)
    return endings.answered()


def _nothing_is_run(draft: Draft, what: object) -> str:
    return "Nothing is run for a question."


def answer(run: Run, conversation: Conversation, context: ToolContext, asker: Asker = NOBODY) -> None:
    """Get one answer, and the places that it names."""
    run.answer = ask.answer(conversation, context, asker.hear)
    named = ask.places(run.answer, context.draft.base)
    run.places = named.there
    run.notes += [f"The answer names {place}, but there is no such line." for place in named.missing]
