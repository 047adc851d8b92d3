"""Which changes are refused, left out, or published with a remark."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent.types import ChangeSet, FileChange
from app.publish import policy
from app.publish.policy import Accepted, BaseEntry, ChangeSetRefused, Limits, Rules

SHA = "a" * 40
TREE: Mapping[str, BaseEntry] = {
    path: BaseEntry(mode, SHA)
    for path, mode in {
        "README.md": "100644",
        "readme.md": "100644",
        "src/a.py": "100644",
        "run.sh": "100755",
        "latest": "120000",
        "vendor": "160000",
        ".github/workflows/ci.yml": "100644",
        ".config/tool.toml": "100644",
        "logo.png": "100644",
    }.items()
}


def change(path: str, content: bytes | None = b"x\n", mode: str = "100644") -> FileChange:
    return FileChange.model_construct(path=path, mode=mode, content=content)


def check(*changes: FileChange, rules: Rules = Rules()) -> Accepted:  # noqa: B008
    return policy.check(ChangeSet.model_construct(base_sha=SHA, changes=changes), TREE, rules)


def refused(*changes: FileChange, rules: Rules = Rules()) -> str:  # noqa: B008
    with pytest.raises(ChangeSetRefused) as error:
        check(*changes, rules=rules)
    return error.value.code


def held(*paths: str, content: bytes | None = b"x\n", rules: Rules = Rules()) -> dict[str, str]:  # noqa: B008
    return {h.change.path: h.reason for h in check(*(change(p, content) for p in paths), rules=rules).held_back}


BAD_PATHS = {
    "outside": ["", ".", "..", "/", "../x", "/x", "/etc/x", "a/../../x", "a/../x", "~/x", "~", "C:/x", "c:\\x"],
    "not canonical": ["./x", "a//b", "a/", "a/./b"],
    "signs": ["a\\b", "a\0b", "a\nb", "a\x1bb", "a\u202eb", "a\ud800b"],
    "too long": ["x" * 300, "a/" * 2100 + "x"],
    "git's own": [".git", ".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "git~1/x", "GIT~1", ".git /x"],
    "not for every system": ["src/aux.py", "nul", "COM1.txt", "con/x.py", "a.py:stream", "src/x.", "y ", "Lpt\u00b9"],
    "git's own in disguise": [".git./x", ".g\u200cit/x", ".git::$INDEX_ALLOCATION/x"],
}


@pytest.mark.parametrize("kind", BAD_PATHS)
def test_paths_that_no_honest_run_makes_are_refused(kind: str) -> None:
    for path in BAD_PATHS[kind]:
        assert refused(change(path)) == "bad_path", path


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ((change("m", mode="160000"),), "bad_mode"),
        ((change("m", mode="100600"),), "bad_mode"),
        ((change("m", mode="040000"),), "bad_mode"),
        ((change("l", b"/etc/passwd", "120000"),), "link_leaves"),
        ((change("l", b"../../x", "120000"),), "link_leaves"),
        ((change("src/l", b"../../x", "120000"),), "link_leaves"),
        ((change("l", b".git/config", "120000"),), "link_leaves"),
        ((change("l", b"", "120000"),), "link_leaves"),
        ((change("vendor"),), "in_submodule"),
        ((change("vendor/x.py"),), "in_submodule"),
        ((change("latest/x.py"),), "behind_link"),
        ((change("gone.py", None),), "not_in_base"),
        ((change("b.py"), change("b.py")), "path_clash"),
        ((change("src"),), "path_clash"),
        ((change("src/a.py/b.py"),), "path_clash"),
        ((change("b"), change("b/c")), "path_clash"),
        ((change("Readme.md"),), "path_clash"),
        ((change("Src/b.py"),), "path_clash"),
        ((change("n\u0303.py"), change("\u00f1.py")), "path_clash"),
    ],
)
def test_changes_that_no_honest_run_makes_are_refused(changes: tuple[FileChange, ...], code: str) -> None:
    assert refused(*changes) == code


def test_sound_changes_pass() -> None:
    accepted = check(
        change("README.md"),
        change("src/b.py"),
        change("src/link", b"../README.md", "120000"),
        change("run.sh", mode="100755"),
        change("src/a.py", None),
        change("doc/fänny/überblick.md"),
        change('sp ace "q".py'),
        change("-rf"),
        change(".config/more.toml"),
        change(".editorconfig"),
    )
    assert not accepted.held_back
    assert accepted.deleted == {"src/a.py"} and "src/b.py" in accepted.added and "README.md" not in accepted.added
    assert [(r.path, r.detail) for r in accepted.remarks] == [("src/link", "is a symbolic link")]


def test_odd_names_that_are_there_can_be_changed() -> None:
    base = {path: BaseEntry("100644", SHA) for path in ("aux.py", "con/x.py", "a:b")}
    for path in (*base, "con/new.py", "console.py", "nullable.py", "com10"):
        changes = ChangeSet.model_construct(base_sha=SHA, changes=(change(path),))
        assert policy.check(changes, base, Rules()).changes


def test_a_file_may_become_a_folder() -> None:
    assert not check(change("src/a.py", None), change("src/a.py/b.py")).held_back


@pytest.mark.parametrize(
    "limits", [Limits(files=1), Limits(file_bytes=10), Limits(total_bytes=30), Limits(new_lines=20)]
)
def test_a_change_of_any_great_size_is_refused(limits: Limits) -> None:
    changes = (change("a.py", b"\n" * 20), change("b.py", b"\n" * 20))
    assert refused(*changes, rules=Rules(limits)) == "patch_too_large"
    assert check(*changes).changes == changes


PROTECTED = """
.github/workflows/ci.yml .github/workflows/new.yml .github/actions/do/action.yml
CODEOWNERS .github/CODEOWNERS docs/codeowners .github/dependabot.yml .github/settings.yml
SECURITY.md .github/security.md
AGENTS.md src/AGENTS.md CLAUDE.md .cursor/rules/x.mdc .cursorrules .claude/settings.json .mcp.json
.github/copilot-instructions.md .graftsmith.toml .GraftSmith.toml .gitmodules
.husky/pre-commit .vscode/tasks.json .devcontainer/devcontainer.json .new/x .pre-commit-config.yaml
"""


@pytest.mark.parametrize("path", PROTECTED.split())
def test_what_is_not_ours_to_change_is_left_out_and_the_rest_goes(path: str) -> None:
    accepted = check(change(path), change("src/b.py"))
    assert [h.change.path for h in accepted.held_back] == [path]
    assert [c.path for c in accepted.changes] == ["src/b.py"]


ROWS = {
    "who owns which code": ["CODEOWNERS", "docs/CODEOWNERS"],
    "other bots": [".github/dependabot.yml", ".github/renovate.json5", ".renovaterc", "renovate.json"],
    "security policy": ["SECURITY.md", "docs/SECURITY.rst"],
    "orders to coding agents": [
        *("AGENTS.md", "pkg/CLAUDE.local.md", "pkg/.cursorrules", ".cursor/rules/x.mdc", "pkg/.claude/settings.json"),
        *(".aider.conf.yml", ".github/prompts/fix.prompt.md", ".github/instructions/x.md", ".mcp.json", "pkg/mcp.json"),
    ],
    "the rules that it is judged by": [".graftsmith.toml"],
    "other repositories": [".gitmodules", ".lfsconfig"],
    "machines of those who check out": [
        *(".husky/pre-commit", ".githooks/pre-push", ".devcontainer/devcontainer.json", ".devcontainer.json"),
        *(".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml"),
    ],
    "runs on other machines": [
        *(
            ".gitlab-ci.yml",
            ".travis.yml",
            "appveyor.yml",
            "azure-pipelines.yml",
            "Jenkinsfile",
            ".circleci/config.yml",
        ),
        *(".buildkite/pipeline.yml", ".woodpecker/test.yaml", "bitbucket-pipelines.yml", ".pre-commit-config.yaml"),
    ],
}


@pytest.mark.parametrize("content", [b"x\n", None])
@pytest.mark.parametrize("reason", ROWS)
def test_files_that_the_repository_has_already_are_as_protected_as_new_ones(reason: str, content: bytes | None) -> None:
    base = {**TREE, **{path: BaseEntry("100644", SHA) for path in ROWS[reason]}}
    changes = tuple(change(path, content) for path in ROWS[reason])
    accepted = policy.check(ChangeSet.model_construct(base_sha=SHA, changes=changes), base, Rules())
    assert [h.change.path for h in accepted.held_back] == ROWS[reason]
    assert all(reason in h.reason for h in accepted.held_back)


def test_every_protected_kind_has_an_example() -> None:
    examples = [path.casefold() for paths in ROWS.values() for path in paths]
    assert not [pattern for pattern, _ in policy.PROTECTED if not any(map(pattern.fullmatch, examples))]


def test_another_case_is_no_way_around() -> None:
    path = ".GitHub/Workflows/x.yml"
    assert refused(change(path)) == "path_clash"
    accepted = policy.check(ChangeSet(base_sha=SHA, changes=(change(path),)), {}, Rules())
    assert "workflows` permission" in accepted.held_back[0].reason


def test_workflows_go_where_the_permission_was_granted() -> None:
    reason = held(".github/workflows/ci.yml")[".github/workflows/ci.yml"]
    assert "workflows` permission" in reason
    granted = check(change(".github/workflows/ci.yml"), rules=Rules(may_write_workflows=True))
    assert not granted.held_back and granted.remarks


@pytest.mark.parametrize(
    "path", ["src/agents.py", "docs/security/index.md", "settings.yml", "src/.hidden.py", "claude.py"]
)
def test_names_that_only_look_protected_pass(path: str) -> None:
    assert not held(path)


def test_new_binaries_are_left_out() -> None:
    for content in (b"\x89PNG\0\0", b"plain\0text", "text".encode("utf-16"), b"caf\xe9"):
        assert held("new.bin", content=content)
        assert not held("logo.png", content=content)


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("a.py", "x = 1\nif a:\u202e # admin", "reading direction (U+202E in line 2)"),
        ("a.py", "x\u200b = 1", "cannot be seen (U+200B in line 1)"),
        ("a.py", "usеr = 1", "letters of several scripts (line 1)"),
        (".gitattributes", "src/** linguist-generated\n", "hide other changes"),
        ("sub/.gitattributes", "*.py -diff\n", "hide other changes"),
    ],
)
def test_what_hides_from_a_reviewer_gets_a_remark(path: str, content: str, words: str) -> None:
    (remark,) = check(change(path, content.encode())).remarks
    assert words in remark.detail


@pytest.mark.parametrize("sign", ["\u200b", "\u202e", "p\u0430 "])
def test_of_very_many_signs_the_first_are_named(sign: str) -> None:
    text = "x\n" + sign * 500_000  # would take an hour if the lines of each were counted from the first
    (remark,) = check(change("a.py", text.encode())).remarks
    assert remark.detail.endswith("line 2 and 499997 more)")


def test_honest_text_of_other_languages_gets_none() -> None:
    text = "имя = 'Привет, world'\nnaïve = 'ελληνικά'\nµs = 1\n日本語 = 'テスト'\n"
    assert not check(change("a.py", text.encode())).remarks
    assert not check(change("a.py", b"\xef\xbb\xbfx = 1\n")).remarks


def test_a_new_executable_gets_a_remark() -> None:
    assert [r.detail for r in check(change("tool.py", mode="100755")).remarks] == ["is made executable"]
    assert not check(change("run.sh", mode="100755")).remarks
    assert not check(change("notes.md", b"how to mark files as -diff or binary\n")).remarks
