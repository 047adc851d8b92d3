"""Existing tests, and what configures them, change only when a step of the plan names them and says why the task asks
for it."""

from __future__ import annotations

from agent.errors import ToolRefusal
from agent.paths import canonical
from agent.plan import leave
from agent.tools.base import ToolContext
from agent.verify.paths import is_test, is_test_config

# They configure tests among much else; what a change to them does to the tests is judged afterwards, hunk by hunk.
_BUILD_FILES = frozenset(
    {
        *("pyproject.toml", "setup.cfg", "package.json", "makefile", "gnumakefile", "justfile", "taskfile.yml"),
        *("taskfile.yaml", "rakefile", "pom.xml", "build.gradle", "build.gradle.kts", "cargo.toml", "noxfile.py"),
        *("go.mod", "go.work"),
    }
)


SAY_WHY = "call plan again with the file and `test_changes` in one of its steps"


class TestProtected(ToolRefusal):
    """The file is a test that was there before."""

    __test__ = False


def local(context: ToolContext, path: str) -> str:
    """The path as the repository has it: test output shows it below the checkout's own folder."""
    root = context.view.rstrip("/") + "/"
    return path[len(root) :] if len(root) > 1 and path.startswith(root) else path


def writable(context: ToolContext, path: str) -> str:
    """The canonical path of a file that may be changed, moved or deleted.

    Raises:
        TestProtected: an existing test, or what configures them, that no step of the plan gives a reason for.
        PathRefused: no path for a change.
    """
    path = canonical(local(context, path))
    if path not in context.draft.base.entries or leave(context.plan, path):
        return path
    name = path.rsplit("/", 1)[-1].lower()
    if is_test(path) or (is_test_config(path) and name not in _BUILD_FILES):
        raise TestProtected(
            f"{path} is {'an existing test' if is_test(path) else 'test configuration'} and stays as it is",
            todo="Put new tests into a new file beside it; if the task itself asks for a change here, "
            + ("finish with needs_input and say so" if context.approved else f"say why: {SAY_WHY}"),
        )
    return path
