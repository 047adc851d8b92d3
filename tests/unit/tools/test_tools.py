"""What each tool does with the files, and what it tells the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.git import Git
from agent.index.index import Index
from agent.tools import REGISTRY, Claim, Conclusion, StepDone, ToolContext, ToolResult, call, offered
from agent.tree import BaseTree
from agent.types import FileReason, Plan, PlanStep
from tests.support.repository import Repository


def use(context: ToolContext, name: str, /, **arguments: Any) -> ToolResult:
    """One successful call; the context moves on with it."""
    result = call(REGISTRY, context, name, json.dumps(arguments))
    assert result.ok, result.text
    if result.draft is not None:
        context.draft = result.draft
    return result


def refused(context: ToolContext, name: str, /, **arguments: Any) -> str:
    before = context.draft
    result = call(REGISTRY, context, name, json.dumps(arguments))
    assert not result.ok, result.text
    assert result.draft is None
    assert context.draft is before
    return result.text


# ── looking ──


def test_read_numbers_lines(context: ToolContext) -> None:
    assert use(context, "read", path="src/report.py", start=4, end=5).text == (
        "src/report.py, lines 4-5 of 5\n4|def report(values):\n5|    return f'sum: {total(values)}'"
    )
    assert use(context, "read", path="README.md").text == "README.md\n1|# Calc\n2|\n3|Adds numbers."
    assert use(context, "read", path="/workspace/README.md").text.startswith("README.md\n")
    assert use(context, "read", path="notes.txt").text == "notes.txt\n1|café\n2|end"
    assert use(context, "read", path="tests/conftest.py").text == "tests/conftest.py is empty"
    assert use(context, "read", path="/workspace/Readme.md").text.startswith("README.md\n"), (
        "the only one that is meant"
    )


def test_read_says_how_to_go_on(context: ToolContext) -> None:
    first = use(context, "read", path="long.txt").text
    assert len(first) < context.limits.result_chars + 300
    next_line = int(first.rsplit("start=", 1)[1].split(",")[0])
    assert f"\n{next_line - 1}|line {next_line - 1}\n" in first
    second = use(context, "read", path="long.txt", start=next_line, end=next_line + 1).text
    assert second.endswith(f"{next_line}|line {next_line}\n{next_line + 1}|line {next_line + 1}")
    assert "4500 more characters" in use(context, "read", path="wide.js").text


def test_read_shows_what_is_hidden(context: ToolContext) -> None:
    text = use(context, "read", path="hidden.txt").text
    assert text == "hidden.txt\n1|a\\u{202e}b\\u{1b}[31mc\\u{e0041}"


def test_read_refusals_say_what_to_do(context: ToolContext) -> None:
    assert "binary" in refused(context, "read", path="logo.png")
    assert "real path" in refused(context, "read", path="link.py")
    assert "src/calc.py" in refused(context, "read", path="calc.py")
    assert "5000 lines" in refused(context, "read", path="long.txt", start=9000)
    assert "absolute" in refused(context, "read", path="/etc/passwd")
    assert "folder" in refused(context, "read", path="src")


def test_list_shows_one_folder(context: ToolContext) -> None:
    assert use(context, "list").text.split("\n")[:3] == ["src/ (2)", "tests/ (2)", "README.md"]
    assert use(context, "list", path="src/").text == "calc.py\nreport.py"
    assert "no folder" in refused(context, "list", path="nothing")
    assert "Use read" in refused(context, "list", path="README.md")
    use(context, "write", path="src/new/a.py", content="a = 1\n")
    assert use(context, "list", path="src").text == "new/ (1)\ncalc.py\nreport.py"


def test_an_outline_does_not_repeat_long_signatures(context: ToolContext) -> None:
    use(
        context,
        "write",
        path="wide.py",
        content=f"def f({', '.join(f'name_{i}: str' for i in range(40))}):\n    pass\n",
    )
    text = use(context, "outline", path="wide.py").text
    assert "1-2 def f(name_0: str" in text
    assert len(text.splitlines()[-1]) < 120


def test_each_small_change_of_a_large_file_is_named(context: ToolContext) -> None:
    edits = [{"search": f"line {n}\n", "replace": f"other {n}\n"} for n in (2, 2500, 4999)]
    assert use(context, "edit", path="long.txt", edits=edits).text == "long.txt changed, now lines 2, 2500, 4999"


def test_outline_is_that_of_the_draft(context: ToolContext) -> None:
    text = use(context, "outline", path="src/calc.py").text
    assert "6-13 class Calc" in text
    assert "  9-10 def add" in text
    use(context, "insert", path="src/calc.py", anchor="LIMIT = 10", text="\n\ndef first():\n    pass")
    text = use(context, "outline", path="src/calc.py").text
    assert "6-7 def first" in text
    assert "  13-14 def add" in text
    assert "Use read" in use(context, "outline", path="long.txt").text


def test_search_finds_by_words(context: ToolContext) -> None:
    text = use(context, "search", query="adding numbers gives the wrong sum in Calc.add").text
    assert "src/calc.py:" in text.split("\n")[0]
    use(context, "edit", path="src/calc.py", edits=[{"search": "a - b", "replace": "a + b"}])
    assert "lines may have moved" in use(context, "search", query="Calc add").text
    use(context, "delete", path="src/calc.py")
    assert "src/calc.py" not in use(context, "search", query="Calc add").text


def test_grep_reads_the_draft(context: ToolContext) -> None:
    assert use(context, "grep", text="a - b", around=0).text == "src/calc.py\n10|        return a - b"
    assert use(context, "grep", text="a - b", glob="*.py").text.startswith("src/calc.py\n7|")
    use(context, "edit", path="src/calc.py", edits=[{"search": "a - b", "replace": "a + b"}])
    assert use(context, "grep", text="a - b").text == "No line holds it."
    assert use(context, "grep", text=r"def \w+\(values", regex=True, glob="src/**", around=0).text.count("\n") == 3
    for glob in ("src/{report,calc}.py", "*.{md,py}"):
        found = use(context, "grep", text="def ", glob=glob, around=0).text
        assert {"src/report.py", "src/calc.py"} <= set(found.split("\n"))
    assert use(context, "grep", pattern="a + b", path="src", around=0).text.startswith("src/calc.py")
    assert use(context, "grep", text=r"def \w+", path="src").text.endswith("plain text: see `regex`.")
    many = use(context, "grep", text="line").text
    assert "more matches" in many
    assert {"long.txt"} < {row for row in many.split("\n") if "|" not in row}, "a long file hides no other"
    assert "regex=false" in refused(context, "grep", text="(", regex=True)
    assert "single lines" in refused(context, "grep", text="a\nb")


def test_find_symbol_shows_the_code(context: ToolContext) -> None:
    assert use(context, "find_symbol", name="Calc.add").text == (
        "src/calc.py\n9|    def add(self, a, b):\n10|        return a - b"
    )
    use(context, "write", path="src/other.py", content="def add(x):\n    return x\n")
    text = use(context, "find_symbol", name="add()").text
    assert "src/other.py\n1|def add(x):" in text
    assert "grep" in refused(context, "find_symbol", name="nothing_here")


def test_references_list_uses(context: ToolContext) -> None:
    text = use(context, "references", name="total").text
    assert "src/report.py\n" in text
    assert "5|return f'sum: {total(values)}'" in text
    assert "No use" in use(context, "references", name="nothing_here").text


# ── changing ──


def test_edit_says_where_the_new_lines_are(context: ToolContext) -> None:
    edits = [{"search": "a - b", "replace": "a + b"}, {"search": "LIMIT = 10", "replace": "LIMIT = 10\nLOWER = 0"}]
    assert use(context, "edit", path="src/calc.py", edits=edits).text == "src/calc.py changed, now lines 4, 11"
    assert use(context, "edit", path="./src/calc.py", edits=[{"search": "LOWER = 0\n", "replace": ""}]).text == (
        "src/calc.py changed, lines removed"
    )
    assert context.draft.read("src/calc.py").count(b"a + b") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "README.md", "edits": [{"search": "numbers", "replace": "values"}]},
        {"path": "README.md", "search": "numbers", "replace": "values"},
        {"file_path": "README.md", "old_string": "numbers", "new_string": "values"},
        {"path": "README.md", "edits": {"old": "numbers", "new": "values"}},
        {"path": "README.md", "edits": '[{"search": "numbers", "replace": "values"}]'},
    ],
)
def test_edit_takes_the_forms_that_models_send(context: ToolContext, arguments: dict[str, Any]) -> None:
    use(context, "edit", **arguments)
    assert context.draft.read("README.md") == b"# Calc\n\nAdds values.\n"


def test_edit_everywhere(context: ToolContext) -> None:
    twice = {"path": "src/calc.py", "old": "result", "new": "sum_", "replace_all": True}
    assert use(context, "edit", **twice).text == "src/calc.py changed, now lines 18-21"
    assert context.draft.read("src/calc.py").count(b"sum_") == 4
    assert "No match" in refused(context, "edit", **twice)
    again = [{"search": "sum_", "replace": "sum_of", "all": True}]
    assert "would match again" in refused(context, "edit", path="src/calc.py", edits=again)
    both = [{"search": "sum_", "replace": "total_", "all": True}, {"search": "sum_ = 0", "replace": "total_ = 1"}]
    assert "overlap" in refused(context, "edit", path="src/calc.py", edits=both)


def test_edit_refusals_leave_everything_as_it_was(context: ToolContext) -> None:
    edits = [{"search": "a - b", "replace": "a + b"}, {"search": "result", "replace": "x"}]
    assert "Edit 2 of 2: 4 matches, lines 18, 20, 20 and 21" in refused(
        context, "edit", path="src/calc.py", edits=edits
    )
    assert "no longer parse" in refused(
        context, "edit", path="src/calc.py", edits=[{"search": "a - b", "replace": "(a - b"}]
    )
    assert not context.draft.edits


def test_a_file_is_edited_by_another_case_of_its_name_and_never_replaced(context: ToolContext) -> None:
    assert use(context, "edit", path="readme.md", search="# Calc", replace="# Sums").text.startswith(
        "README.md changed"
    )
    assert "README.md" in refused(context, "write", path="readme.md", content="x")
    assert "README.md" in refused(context, "move", path="notes.txt", to="Readme.md")
    assert "existing test" in refused(context, "edit", path="Tests/Test_calc.py", search="a", replace="b")


def test_write_makes_and_replaces(context: ToolContext) -> None:
    assert (
        use(context, "write", path="bin/tool", content="#!/bin/sh\n", executable=True).text == "bin/tool made, 1 lines"
    )
    assert context.draft.mode("bin/tool") == "100755"
    use(context, "write", path="bin/tool", content="#!/bin/sh\nexit 1\n")
    assert context.draft.mode("bin/tool") == "100755"
    use(context, "write", path="notes.txt", content="né\nend\n")
    assert context.draft.read("notes.txt") == b"n\xe9\r\nend\r\n"
    assert "latin-1" in refused(context, "write", path="notes.txt", content="€\n")
    assert "binary" in refused(context, "write", path="logo.png", content="x")


def test_insert_delete_move_undo(context: ToolContext) -> None:
    use(context, "insert", path="src/calc.py", anchor="def total(values):", text="@cache", where="before")
    assert b"@cache\ndef total" in context.draft.read("src/calc.py")
    assert use(context, "move", path="src/report.py", to="src/summary.py").text == "src/report.py is src/summary.py now"
    assert "exists already" in refused(context, "move", path="README.md", to="notes.txt")
    use(context, "delete", path="README.md")
    assert "does not exist" in refused(context, "delete", path="README.md")
    assert "You may mean src/calc.py" in refused(context, "read", path="src/calcs.py")
    assert use(context, "undo", path="src/calc.py").text.endswith("before the run")
    use(context, "undo", path="README.md")
    assert "was not changed" in refused(context, "undo", path="README.md")
    assert {change.path for change in context.draft.change_set().changes} == {"src/report.py", "src/summary.py"}


def test_replace_symbol_replaces_a_definition(context: ToolContext) -> None:
    new = "def add(self, a, b):\n    return a + b\n"
    assert use(context, "replace_symbol", path="src/calc.py", name="Calc.add", text=new).text.endswith("now line 10")
    assert b"    def add(self, a, b):\n        return a + b\n\n    def twice" in context.draft.read("src/calc.py")
    use(
        context,
        "write",
        path="a.py",
        content="@deco\n@other(\n    1,\n)\ndef f():\n    return 1\n\n\ndef g():\n    pass\n",
    )
    use(context, "replace_symbol", path="a.py", name="f", text="def f():\n    return 2")
    assert context.draft.read("a.py") == (
        b"@deco\n@other(\n    1,\n)\ndef f():\n    return 2\n\n\ndef g():\n    pass\n"
    )
    use(context, "replace_symbol", path="a.py", name="f", text="@new\ndef f():\n    return 3\n")
    assert context.draft.read("a.py").startswith(b"@new\ndef f():\n    return 3\n\n\ndef g")
    assert "leaves code out" in refused(
        context, "replace_symbol", path="src/calc.py", name="Calc", text="class Calc:\n    # ... rest unchanged ...\n"
    )
    assert "no longer parse" in refused(context, "replace_symbol", path="a.py", name="g", text="def g(:\n    pass")
    assert "outline" in refused(context, "replace_symbol", path="a.py", name="h", text="x")
    use(context, "write", path="b.py", content="class A:\n    def f(self): pass\nclass B:\n    def f(self): pass\n")
    assert "A.f in line 2, B.f in line 4" in refused(context, "replace_symbol", path="b.py", name="f", text="x")


def test_rename_changes_what_is_sure_and_names_the_rest(context: ToolContext) -> None:
    text = use(context, "rename", name="total", to="sum_of").text
    assert text == "Renamed in src/calc.py (1), src/report.py (2)."
    assert context.draft.read("src/report.py") == (
        b"from calc import sum_of\n\n\ndef report(values):\n    return f'sum: {sum_of(values)}'\n"
    )
    text = use(context, "rename", name="Calc", to="Adder").text
    assert "tests/test_calc.py (tests/test_calc.py is an existing test and stays as it is)" in text
    assert b"calc = Adder()" in context.draft.read("src/calc.py")
    assert "defined already" in refused(context, "rename", name="sum_of", to="report")
    assert "no name" in refused(context, "rename", name="sum_of", to="a b")
    assert "0 definitions" in refused(context, "rename", name="nothing_here", to="x")


def test_rename_of_a_method_needs_a_name_of_its_own(context: ToolContext) -> None:
    text = use(context, "rename", name="Calc.twice", to="doubled").text
    assert text == "Renamed in src/calc.py (1)."
    use(context, "write", path="src/other.py", content="class Other:\n    def add(self): pass\n\n\nOther().add()\n")
    text = use(context, "rename", name="Calc.add", to="plus").text
    assert "Left for you to decide" in text
    assert b"Other().add()" in context.draft.read("src/other.py")


def test_diff_is_short(context: ToolContext) -> None:
    assert use(context, "diff").text == "Nothing is changed."
    use(context, "edit", path="src/calc.py", edits=[{"search": "a - b", "replace": "a + b"}])
    text = use(context, "diff").text
    assert "-        return a - b\n+        return a + b" in text
    assert "index " not in text


def test_run_tests_gets_the_draft_and_the_selection(context: ToolContext) -> None:
    use(context, "write", path="a.py", content="a = 1\n")
    assert (
        use(context, "run_tests", tests=["tests/test_calc.py"]).text
        == "1 files changed, asked for ['tests/test_calc.py']"
    )
    assert use(context, "run_tests").text == "1 files changed, asked for []"


# ── paths that leave the repository ──


@pytest.mark.parametrize(
    "path",
    [
        "link.py",
        "link.py/x",
        "../x.py",
        "/etc/x",
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/../../x",
        "SRC/a",
    ],
)
def test_every_changing_tool_stays_inside(context: ToolContext, path: str) -> None:
    refused(context, "write", path=path, content="x")
    refused(context, "edit", path=path, edits=[{"search": "a", "replace": "b"}])
    refused(context, "insert", path=path, anchor="a", text="b")
    refused(context, "move", path="notes.txt", to=path)
    refused(context, "read", path=path)
    assert not context.draft.edits


# ── tests stay as they are ──


def plan(test_changes: str, *files: str) -> Plan:
    step = PlanStep(id="1", objective="o", files=files, test_changes=test_changes)
    return Plan(intent="bug_fix", summary="s", steps=(step,))


def test_existing_tests_are_refused(context: ToolContext) -> None:
    for path in ("tests/test_calc.py", "tests/conftest.py", "/workspace/tests/test_calc.py"):
        assert "new file" in refused(context, "write", path=path, content="pass\n")
        assert "new file" in refused(context, "delete", path=path)
        assert "new file" in refused(context, "move", path=path, to="x.py")
        assert "new file" in refused(context, "edit", path=path, edits=[{"search": "2", "replace": "0"}])
        assert "new file" in refused(context, "insert", path=path, anchor="def test_add():", text="    return")
    assert "new file" in refused(context, "move", path="README.md", to="tests/test_calc.py")


def test_where_tests_are_listed_the_way_to_list_a_new_one_is_told(tmp_path: Path, index: Index) -> None:
    origin = Repository(tmp_path / "origin")
    origin.commit({"tests/a_test.c": "int main(void) { return 0; }\n", "tests/CMakeLists.txt": "add_test(a a_test)\n"})
    with Git.init(tmp_path / "own.git") as git:
        base = BaseTree.load(git, git.fetch(origin.url, "refs/heads/main"))
        context = ToolContext(base.draft(), index, lambda draft, tests: "", lambda draft, line: "")
        assert "list it in tests/CMakeLists.txt" in refused(context, "delete", path="tests/a_test.c")
        text = refused(context, "write", path="tests/CMakeLists.txt", content="add_test(b b_test)\n")
        assert "To add yours to its list, say why" in text
        context.plan = plan("CMake runs what is listed", "tests/CMakeLists.txt")
        use(context, "write", path="tests/CMakeLists.txt", content="add_test(b b_test)\n")


def test_new_tests_and_build_files_are_welcome(context: ToolContext) -> None:
    use(context, "write", path="tests/test_new.py", content="def test_x():\n    assert True\n")
    use(context, "edit", path="tests/test_new.py", edits=[{"search": "True", "replace": "1"}])
    use(context, "delete", path="tests/test_new.py")
    use(context, "edit", path="pyproject.toml", edits=[{"search": "'x'", "replace": "'y'"}])


def test_a_plan_can_say_why_tests_change(context: ToolContext) -> None:
    context.plan = plan("  ", "tests/test_calc.py")
    assert "call plan again" in refused(context, "delete", path="tests/test_calc.py")
    context.approved = True
    assert "needs_input" in refused(context, "delete", path="tests/test_calc.py")
    context.plan = plan("the issue asks for another result", "tests/test_calc.py")
    assert "stays as it is" in refused(context, "write", path="tests/conftest.py", content="pass\n")
    use(context, "edit", path="tests/test_calc.py", edits=[{"search": "== 2", "replace": "== 3"}])
    use(context, "delete", path="tests/test_calc.py")


# ── steps ──


def _write(context: ToolContext, content: str) -> None:
    use(context, "write", path="a.txt", content=content)


def test_undo_goes_back_to_any_step(context: ToolContext) -> None:
    context.plan = Plan(
        intent="feature",
        summary="s",
        steps=(
            PlanStep(id="b", objective="second", depends_on=("a",)),
            PlanStep(id="a", objective="first"),
            PlanStep(id="c", objective="third", depends_on=("b",)),
        ),
    )
    assert [step.id for step in context.progress.steps] == ["a", "b", "c"]
    for step in "ab":
        _write(context, f"{step}\n")
        assert use(context, "step_done", tests=["tests/test_calc.py"]).said == StepDone(("tests/test_calc.py",))
        context.checkpoints = context.checkpoints.kept(context.draft)
    _write(context, "c\n")
    assert "No step comes after" in refused(context, "step_done")
    assert use(context, "undo").text == "All files are as they were before step c."
    assert context.draft.read("a.txt") == b"b\n"
    assert "'d' was not begun" in refused(context, "undo", step="d")
    assert "not both" in refused(context, "undo", step="a", path="a.txt")
    use(context, "undo", step="b")
    assert context.draft.read("a.txt") == b"a\n"
    assert context.progress.present is not None
    assert context.progress.present.id == "b"
    assert "not begun" in refused(context, "undo", step="c")
    assert use(context, "undo", step="a").text == "All files are as they were before the work began."
    assert not context.draft.edits


def test_a_plan_with_one_step_has_nothing_to_mark(context: ToolContext) -> None:
    assert "no plan" in refused(context, "step_done")
    context.plan = plan("")
    assert "Call finish" in refused(context, "step_done")
    assert "step_done" not in offered(REGISTRY, context.plan)
    steps = (PlanStep(id="1", objective="x"), PlanStep(id="2", objective="y"))
    assert offered(REGISTRY, context.plan.model_copy(update={"steps": steps})).keys() == REGISTRY.keys()


# ── the end ──


def test_finish_carries_the_conclusion(context: ToolContext) -> None:
    use(context, "write", path="a.py", content="a = 1\n")
    conclusion = use(context, "finish", summary="done so", files={"a.py": "new"}).said
    assert isinstance(conclusion, Conclusion)
    assert (conclusion.claim, conclusion.summary) == (Claim.DONE, "done so")
    assert conclusion.reasons == (FileReason(path="a.py", reason="new"),)


def test_finish_asks_for_what_its_claim_needs(context: ToolContext) -> None:
    assert "already_fixed" in refused(context, "finish", summary="nothing to do")
    assert "question" in refused(context, "finish", claim="needs_input", summary="unclear")
    for claim in ("already_fixed", "not_reproduced", "blocked"):
        conclusion = use(context, "finish", claim=claim, summary="s").said
        assert isinstance(conclusion, Conclusion)
        assert conclusion.claim == claim
    asked = use(context, "finish", claim="needs_input", summary="s", question="which?").said
    assert isinstance(asked, Conclusion)
    assert asked.question == "which?"
