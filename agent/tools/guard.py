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


# New tests of compiled projects run only where they are listed, often in the folder of the tests themselves.
_LISTS = frozenset(
    {
        *("cmakelists.txt", "meson.build", "makefile.am", "makefile.in", "makefile", "build", "build.bazel"),
        *("sconscript", "wscript", "xmake.lua", "premake5.lua", "subdir.mk", "kbuild"),
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


def there(context: ToolContext, path: str) -> str:
    """The path of a file that must be there already: models get the case of a letter wrong, and mean the only one."""
    return context.draft.spelled(local(context, path))


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
    way_out = "finish with needs_input and say so" if context.approved else f"say why: {SAY_WHY}"
    if name in _LISTS and is_test(path):
        raise TestProtected(
            f"{path} decides which tests are built and run, so a maintainer has to agree to a change of it",
            todo=f"To add yours to its list, {way_out}",
        )
    if is_test(path) or (is_test_config(path) and name not in _BUILD_FILES):
        raise TestProtected(
            f"{path} is {'an existing test' if is_test(path) else 'test configuration'} and stays as it is",
            todo=f"Put new tests into a new file beside it{_to_list(context, path)}; "
            f"if the task itself asks for a change here, {way_out}",
        )
    return path


def _to_list(context: ToolContext, path: str) -> str:
    """What else a new test beside ``path`` takes, where the folder says which tests there are."""
    folder = path.rpartition("/")[0]
    beside = (known for known in context.draft.base.entries if known.rpartition("/")[0] == folder)
    lists = next((known for known in sorted(beside) if known.rsplit("/", 1)[-1].lower() in _LISTS), "")
    if not lists or not is_test(lists) or context.approved:
        return ""
    return f" and list it in {lists}, which takes a step of the plan with that file and `test_changes`"
