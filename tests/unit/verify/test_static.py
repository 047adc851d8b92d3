"""Syntax and linters: only what the change brings is told."""

from __future__ import annotations

import importlib.metadata
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from agent.index.languages import LANGUAGES
from agent.index.source import TreeSource
from agent.tree import Draft
from agent.types import Check, Finding
from agent.verify.impact import importers
from agent.verify.linters import LINTERS, read
from agent.verify.static import SHOWN, Linters, syntax, ways
from sandbox import Sandbox
from tests.support.environment import make_environment
from tests.support.indexing import indexed
from tests.unit.index.test_languages import SAMPLES
from tests.unit.verify.conftest import Bench, MakeBench, behind_a_link

# Stands in for a linter that the target brings along: the real ones are looked for by `python3 -m NAME`.
FLAKE8 = """
import sys
from pathlib import Path
found = [
    f"{path}:{n}:1: W1 no print on line {n}"
    for path in sys.argv[sys.argv.index("--") + 1:]
    for n, line in enumerate(Path(path).read_text().splitlines(), 1) if "print" in line
]
print("\\n".join(found))
raise SystemExit(bool(found))
"""


def parsed(draft: Draft) -> Check:
    before = indexed(TreeSource(draft.base.draft()))
    return syntax(draft, before, indexed(TreeSource(draft), base=before))


def linted(made: Bench, draft: Draft) -> tuple[Check, ...]:
    return Linters(made.harness, made.base).check(draft)


def test_broken_syntax_of_each_kind(bench: MakeBench) -> None:
    made = bench({"a.py": "x = 1\n", "old.py": "x = (\n", "c.json": "{}", "d.toml": "a = 1\n"})
    draft = made.draft(
        {
            "a.py": "x = 1\ny = (\n",
            "old.py": "x = (((\n",
            "new.py": "def f(:\n",
            "c.json": '{"a": }',
            "d.toml": "a = \n",
            "fine.py": "x = 1\n",
            "deep.json": "[" * 100_000,
        }
    )
    assert [(finding.path, finding.line) for finding in parsed(draft).found] == [
        ("a.py", 2),
        ("c.json", 1),
        ("d.toml", 1),
        ("deep.json", 0),
        ("new.py", 1),
    ]


GRAMMARS = sorted(name for name in SAMPLES if name in LANGUAGES and name != "python")


def test_whatever_has_a_grammar_is_parsed(bench: MakeBench) -> None:
    """A sample of each language, valid before, and cut off in the middle of something after."""
    names = {name: f"{name}/sample{LANGUAGES[name].suffixes[0]}" for name in GRAMMARS}
    made = bench({path: SAMPLES[name].source for name, path in names.items()})
    before = indexed(TreeSource(made.base))
    records = {name: before.record(path) for name, path in names.items()}
    sound = {name for name, record in records.items() if record and not record.broken and not record.note}
    assert {"javascript", "typescript", "tsx", "go", "rust", "java", "ruby", "c", "bash"} <= sound
    for some in (GRAMMARS[at : at + SHOWN] for at in range(0, len(GRAMMARS), SHOWN)):
        found = parsed(made.draft({names[name]: SAMPLES[name].source + "\n((({\n" for name in some})).found
        assert {finding.path for finding in found} == {names[name] for name in sound & set(some)}
        assert all(finding.line > 0 and "no valid" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("package a\nfunc f( {\n", "package a\nfunc f( { {\n"),  # broken before
        (None, "package a\nfunc f( {\n"),  # new: the grammar may not know what the compiler does
        ("package a\n", "package a\nfunc f() {}\n"),
        ("package a\n", None),
    ],
)
def test_a_grammar_is_believed_only_where_it_understood_the_base(
    bench: MakeBench, before: str | None, after: str | None
) -> None:
    made = bench({"x.txt": "x", **({"a.go": before} if before else {})})
    assert parsed(made.draft({"a.go": after})).found == ()


@pytest.mark.parametrize("line", ["1e999", "[" * 100_000])
def test_what_a_forged_linter_says_is_no_error_of_ours(line: str) -> None:
    said = '[{"filePath": "a.js", "messages": [{"severity": 2, "ruleId": "x", "message": "y", "line": ' + line + "}]}]"
    eslint = next(linter for linter in LINTERS if linter.name == "eslint")
    assert not list(read(eslint, said, "/v"))


def test_only_new_findings_of_configured_linters_count(bench: MakeBench) -> None:
    made = bench({".flake8": "[flake8]\n", "flake8.py": FLAKE8, "a.py": "x = 1\nprint(x)\n", "b.py": "print(2)\n"})
    (check,) = linted(made, made.draft({"a.py": "# moved\n\nx = 1\nprint(x)\n", "c.py": "y = 1\nprint(y)\n"}))
    assert check.found == (Finding(path="c.py", line=2, rule="W1", message="no print on line 2"),)
    assert not linted(made, made.draft({"a.py": "x = 2\nprint(x)\n"}))[0].found
    (more,) = linted(made, made.draft({"a.py": "print(1)\nprint(2)\n"}))
    assert [finding.line for finding in more.found] == [2]
    assert linted(made, made.draft({"README": "x"})) == ()


def test_a_tool_that_names_files_by_where_links_lead_to_is_understood(sandbox: Sandbox, tools: str) -> None:
    said = FLAKE8.replace('f"{path}:', 'f"{Path(path).resolve()}:')
    files = {".flake8": "[flake8]\n", "flake8.py": said, "a.py": "print(1)\n", "b/a.py": ""}
    with behind_a_link(sandbox, tools, files) as made:
        (check,) = linted(made, made.draft({"a.py": "print(1)\nprint(2)\n", "b/a.py": "print(1)\n"}))
        assert [found.place for found in check.found] == ["a.py:2", "b/a.py:1"]


def test_a_linter_that_names_none_of_the_files_has_said_nothing(bench: MakeBench) -> None:
    said = FLAKE8.replace("{path}", "/nobody/knows/this")
    made = bench({".flake8": "[flake8]\n", "flake8.py": said, "a.py": "print(1)\n"})
    (check,) = linted(made, made.draft({"a.py": "print(1)\nprint(2)\n"}))
    assert check.silent.startswith("it ended with exit code 1 and named no line: /nobody/knows/this:1")


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ('{"compilerOptions": {"strict": true}}', "--noEmit --pretty false -p ."),
        ('{"files": [],\n "references": [{"path": "./app"}]}', "--build --pretty false"),
    ],
)
def test_projects_that_only_name_others_are_built(bench: MakeBench, tmp_path: Path, config: str, asked: str) -> None:
    program = tmp_path / ".bin" / "tsc"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ -s a.ts ] || exit 0\necho "a.ts(1,2): error TS1: $*"\nexit 2\n')
    program.chmod(0o755)
    files = {"tsconfig.json": config, "a.ts": "", "test_it.py": "", ".gitignore": "node_modules\n"}
    made = bench(files, node_modules=tmp_path)
    (check,) = linted(made, made.draft({"a.ts": "x"}))
    assert [found.message for found in check.found] == [asked]


def test_a_flood_of_findings_is_cut_and_counted(bench: MakeBench) -> None:
    made = bench({".flake8": "[flake8]\n", "flake8.py": FLAKE8})
    (check,) = linted(made, made.draft({"a.py": "print(1)\n" * 500}))
    assert (len(check.found), check.count) == (SHOWN, 500)


def test_what_the_base_says_is_asked_once(bench: MakeBench) -> None:
    made = bench({".flake8": "[flake8]\n", "flake8.py": FLAKE8, "a.py": "print(1)\n"})
    linters = Linters(made.harness, made.base)
    first, again = made.draft({"a.py": "print(1)\nprint(2)\n"}), made.draft({"a.py": "print(1)\nprint(3)\n"})
    assert linters.check(first)[0].count == linters.check(again)[0].count == 1
    assert len(linters.said) == 1


def test_a_linter_that_can_say_nothing_is_named(bench: MakeBench) -> None:
    crash = "raise SystemExit('flake8: error: no such option')\n"
    made = bench(
        {
            "mypy.ini": "[mypy]\n",
            "ruff.toml": "line-length = 100\n",
            ".flake8": "[flake8]\n",
            "flake8.py": crash,
            "pyrightconfig.json": "{}",
            "a.py": "x = 1\n",
        }
    )
    silent = {check.tool: check.silent for check in linted(made, made.draft({"a.py": "x: str = 1\n"}))}
    assert silent == {
        "ruff": "it is not installed",
        "mypy": "it is not installed",
        "pyright": "it is not installed",
        "flake8": "it ended with exit code 1 and named no line: flake8: error: no such option",
    }


@pytest.fixture(scope="module")
def with_ruff(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ``PATH`` that leads to Python with pytest and the real ruff."""
    return with_tools(tmp_path_factory.mktemp("ruff"), "ruff")


@pytest.fixture(scope="module")
def with_mypy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ``PATH`` that leads to Python with pytest and the real mypy."""
    parts = ("mypy", "mypy_extensions", "typing_extensions", "pathspec", "librt", "ast-serialize")
    return with_tools(tmp_path_factory.mktemp("mypy"), *parts)


def with_tools(folder: Path, *names: str) -> str:
    environment = make_environment(folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):  # what one version needs another may not
            _copied(name, environment, packages)
    return f"{environment}/bin:/usr/local/bin:/usr/bin:/bin"


def _copied(name: str, environment: Path, packages: Path) -> None:
    for file in importlib.metadata.files(name) or ():
        program = file.name == name and ".." in file.parts
        if program or ".." not in file.parts:
            target = environment / "bin" / name if program else packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(file.locate()).resolve(), target)


def test_the_real_ruff(bench: MakeBench, with_ruff: str) -> None:
    made = bench(
        {"ruff.toml": 'fix = true\nlint.select = ["F"]\n', "a.py": "import os\n", "test_a.py": ""}, path=with_ruff
    )
    (check,) = linted(made, made.draft({"a.py": "\n\nimport os\nimport sys\n\nprint(y)\n"}))
    assert [(finding.place, finding.rule) for finding in check.found] == [("a.py:4", "F401"), ("a.py:6", "F821")]
    assert linted(made, made.draft({"a.py": "import os\n\nprint(os)\n"})) == (Check(level="static", tool="ruff"),)


F = "def f(x: int) -> int:\n    return x\n"
TYPED = {
    "mypy.ini": "[mypy]\n",
    "pkg/__init__.py": "",
    "pkg/a.py": F,
    "pkg/b.py": "from pkg.a import f\n\ny = f(1)\n",
    "pkg/old.py": "x: int = 'old'\n",
}
CALLER = Finding(
    path="pkg/b.py", line=3, rule="arg-type", message='Argument 1 to "f" has incompatible type "int"; expected "str"'
)


def typed(made: Bench, linters: Linters, **files: str | None) -> Check:
    draft = made.draft({f"pkg/{name}.py": text for name, text in files.items()})
    before = indexed(TreeSource(made.base))
    after = indexed(TreeSource(draft), base=before)
    (check,) = linters.check(draft, lambda: importers(draft, before, after))
    return check


@pytest.mark.parametrize(
    "config",
    [
        {"mypy.ini": "[mypy]\n"},
        {"mypy.ini": "[mypy]\nstrict = False\npretty = True\nshow_error_end = True\nfiles = pkg\n"},
        {"x/clash.py": "", "y/clash.py": "", "mypy.ini": "[mypy]\n"},  # the whole can't be checked: only what is near
    ],
)
def test_a_type_checker_sees_the_callers_of_what_changed(
    bench: MakeBench, with_mypy: str, config: dict[str, str]
) -> None:
    made = bench({**TYPED, **config, "test_a.py": ""}, path=with_mypy)
    linters = Linters(made.harness, made.base)
    moved = "# moved\n\nx: int = 'old'\n"
    assert typed(made, linters, a=F.replace("int", "str") + "\n\n# longer\n", old=moved).found == (CALLER,)
    gone = typed(made, linters, a=None, b="from pkg.a import f\n\n\ny = f(1)\n")
    assert [(found.path, found.rule) for found in gone.found] == [("pkg/b.py", "import-not-found")]


def test_a_tool_of_the_whole_project_is_asked_in_two_ways_and_others_in_one(bench: MakeBench) -> None:
    made = bench({"a.py": "", "b.py": "", "c.py": "", "a.go": "package a\n", "mypy.ini": "[mypy]\nfiles = src\n"})
    draft = made.draft({"a.py": "x = 1\n", "b.py": None, "a.go": None, "notes.md": "x"})

    def asked(name: str) -> list[tuple[tuple[str, ...], bool]]:
        (linter,) = (linter for linter in LINTERS if linter.name == name)
        return [(way.files, way.whole) for way in ways(linter, draft, lambda: ("c.py", "b.py", "x.ts"))]

    assert asked("mypy") == [((), True), (("a.py", "c.py"), False)]
    assert asked("pyright") == [((".",), True), (("a.py", "c.py"), False)]
    assert asked("ruff") == [(("a.py",), False)]
    assert asked("go vet") == [((".",), True)], "a deleted file may be missed by others"
    assert asked("eslint") == []


# A project with what a tool has against the base, and a change that moves it and brings one thing more.
REAL: dict[str, tuple[str, dict[str, str], dict[str, str | bytes | None], tuple[str, str, str]]] = {
    "pyright": (
        "pyright",
        {
            "pyrightconfig.json": '{"include": ["pkg"]}',
            "pkg/__init__.py": "",
            "pkg/a.py": "def f() -> int:\n    return 1\n\n\ny: str = 3\n",
            "pkg/b.py": "from pkg.a import f\n\nx: int = f()\n",
        },
        {"pkg/a.py": 'def f() -> str:\n    return "1"\n\n\n\ny: str = 3\n'},
        ("pkg/b.py:3", "reportAssignmentType", 'Type "str" is not assignable to declared type "int"'),
    ),
    "tsc": (
        "tsc",
        {
            "package.json": '{"scripts": {"test": "node --test"}}',
            "tsconfig.json": '{"compilerOptions": {"strict": true, "module": "nodenext", "target": "es2020"}}',
            "a.ts": "export function f(): number {\n  return 1;\n}\nexport const y: string = 3;\n",
            "b.ts": 'import { f } from "./a.js";\nexport const x: number = f();\n',
        },
        {"a.ts": 'export function f(): string {\n  return "1";\n}\n\nexport const y: string = 3;\n'},
        ("b.ts:2", "TS2322", "Type 'string' is not assignable to type 'number'."),
    ),
    "eslint": (
        "eslint",
        {
            "package.json": '{"scripts": {"test": "node --test"}}',
            "eslint.config.mjs": 'export default [{ rules: { "no-undef": "error", "no-unused-vars": "error" } }];\n',
            "a.mjs": "const unused = 1;\nexport const x = 2;\n",
        },
        {"a.mjs": "\nconst unused = 1;\nexport const x = y;\n"},
        ("a.mjs:3", "no-undef", "'y' is not defined."),
    ),
    "go vet": (
        "go",
        {
            "go.mod": "module example.com/m\n\ngo 1.19\n",
            "a.go": "package m\n\nfunc F() int { return 1 }\n",
            "b/b.go": "package b\n\nfunc Old(n int) {\n\tn = n\n}\n",
            "c/c.go": 'package c\n\nimport "example.com/m"\n\nvar X int = m.F()\n',
        },
        {
            "a.go": 'package m\n\nfunc F() string { return "1" }\n',
            "b/b.go": "package b\n\n\nfunc Old(n int) {\n\tn = n\n}\n",
        },
        ("c/c.go:5", "", "cannot use m.F() (value of type string) as int value in variable declaration"),
    ),
    "clippy": (
        "cargo-clippy",
        {
            "Cargo.toml": '[package]\nname = "m"\nversion = "0.1.0"\nedition = "2021"\n',
            "clippy.toml": "cognitive-complexity-threshold = 30\n",
            "src/lib.rs": "pub fn old(x: bool) -> bool {\n    return x;\n}\n",
        },
        {
            "src/lib.rs": "\npub fn old(x: bool) -> bool {\n    return x;\n}\n\n"
            "pub fn new(x: bool) -> u8 {\n    if x == true {\n        1\n    } else {\n        2\n    }\n}\n"
        },
        ("src/lib.rs:7", "warning", "equality checks against true are unnecessary"),
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_tools_tell_what_is_new_and_only_that(name: str, bench: MakeBench, tools: str) -> None:
    program, files, change, (place, rule, message) = REAL[name]
    there = shutil.which(program)
    if there is None:
        pytest.skip(f"{program} is not installed here")
    modules = next((above for above in Path(there).resolve().parents if above.name == "node_modules"), None)
    if modules and not (modules / ".bin" / program).exists():
        pytest.skip(f"{program} is installed in another way than a project has it: in its node_modules")
    made = bench(
        {"test_it.py": "", ".gitignore": "node_modules\n", **files},
        path=f"{Path(there).parent}:{tools}",
        node_modules=modules,
    )
    (check,) = linted(made, made.draft(change))
    assert check.tool == name and check.silent == ""
    assert [(found.place, found.rule) for found in check.found] == [(place, rule)]
    assert message in check.found[0].message


# What each tool wrote (pyright 1.1.414, TypeScript 7.0, ESLint 10.15, mypy 1, Go 1.19, cargo 1.95; and, behind a comma,
# TypeScript 5.9, ESLint 9.39, mypy 1.18, flake8 7.3, ruff 0.14).
OUTPUTS = {
    "pyright": (
        '/v/pkg/a.py\n  /v/pkg/a.py:4:10 - error: Type "str" is not assignable to declared type "int"\n'
        '  \u00a0 \u00a0 "str" is not assignable to "int" (reportAssignmentType)\n'
        '  /v/pkg/a.py:5:8 - error: Import "nothere" could not be resolved (reportMissingImports)\n'
        '  /v/pkg/a.py:7:27 - error: Type "(a: int, b: Unknown) -> Literal[1]" is not assignable to declared type '
        '"(int) -> str"\n'
        '  \u00a0 \u00a0 Type "(a: int, b: Unknown) -> Literal[1]" is not assignable to type "(int) -> str"\n'
        '  \u00a0 \u00a0 \u00a0 \u00a0 Extra parameter "b"\n'
        '  \u00a0 \u00a0 \u00a0 \u00a0 \u00a0 \u00a0 "Literal[1]" is not assignable to "str" (reportAssignmentType)\n'
        '  /v/pkg/a.py:8:6 - error: "(" was not closed\n  /v/pkg/a.py:9:1 - error: Expected ":"\n'
        "7 errors, 0 warnings, 0 informations\n",
        [
            ("pkg/a.py:4", "reportAssignmentType"),
            ("pkg/a.py:5", "reportMissingImports"),
            ("pkg/a.py:7", "reportAssignmentType"),
            ("pkg/a.py:8", ""),
            ("pkg/a.py:9", ""),
        ],
    ),
    "tsc": (
        "b.ts(1,7): error TS2322: Type '(a: number) => string' is not assignable to type '(a: number) => number'.\n"
        "  Type 'string' is not assignable to type 'number'.\n"
        "src/c.ts(2,18): error TS2304: Cannot find name 'z'.\n",
        [("b.ts:1", "TS2322"), ("src/c.ts:2", "TS2304")],
    ),
    "eslint": (
        '[{"filePath":"/v/a.mjs","messages":[{"ruleId":"no-unused-vars","severity":2,"message":"\'unused\' is assigned '
        'a value but never used.","line":2,"column":7,"messageId":"unusedVar","endLine":2,"endColumn":13,'
        '"suggestions":[{"messageId":"removeVar","data":{"varName":"unused"},"fix":{"range":[1,18],"text":""},'
        '"desc":"Remove unused variable \'unused\'."}]},{"ruleId":"no-undef","severity":1,"message":"\'y\' is not '
        'defined.","line":3,"column":18,"messageId":"undef","endLine":3,"endColumn":19}],"suppressedMessages":[],'
        '"errorCount":1,"fatalErrorCount":0,"warningCount":1,"fixableErrorCount":0,"fixableWarningCount":0,'
        '"source":"\\nconst unused = 1;\\nexport const x = y;\\n","usedDeprecatedRules":[]},{"filePath":"/v/bad.mjs",'
        '"messages":[{"ruleId":null,"fatal":true,"severity":2,"message":"Parsing error: Unexpected token","line":2,'
        '"column":1}],"suppressedMessages":[],"errorCount":1,"fatalErrorCount":1,"warningCount":0}]\n',
        [("a.mjs:2", "no-unused-vars"), ("bad.mjs:2", "")],
    ),
    "mypy": (
        'm.py:2: error: Incompatible return value type (got "int", expected "str")  [return-value]\n'
        "m.py:2: note: a hint\nm.py:3:5: error: Odd\n",
        [("m.py:2", "return-value"), ("m.py:3", "")],
    ),
    "go vet": (
        '# example.com/m\n./a.go:7:2: fmt.Printf format %d has arg "x" of wrong type string\n# example.com/m/b\n'
        "vet: b/b.go:5:13: cannot use m.F() (value of type string) as int value in variable declaration\n",
        [("a.go:7", ""), ("b/b.go:5", "")],
    ),
    "clippy": (
        "    Checking m v0.1.0 (/v)\nsrc/lib.rs:4:5: warning: unneeded `return` statement\n"
        "src/lib.rs:8:8: warning: equality checks against true are unnecessary: help: try: `x`\n"
        "src/lib.rs:9:5: error[E0308]: mismatched types: expected `i32`, found `String`\n"
        "warning: `m` (lib) generated 3 warnings (run `cargo clippy --fix --lib -p m -- ` to apply 2 suggestions)\n"
        "error: could not compile `m` (lib) due to 1 previous error\n"
        "warning: build failed, waiting for other jobs to finish...\n",
        [("src/lib.rs:4", "warning"), ("src/lib.rs:8", "warning"), ("src/lib.rs:9", "error[E0308]")],
    ),
    "tsc, 5": (
        "p/b.ts(2,14): error TS2322: Type 'string' is not assignable to type 'number'.\n",
        [("p/b.ts:2", "TS2322")],
    ),
    "eslint, 9": (
        '[{"filePath":"/v/a.mjs","messages":[{"ruleId":"no-undef","severity":2,"message":"\'y\' is not defined.",'
        '"line":3,"column":18,"nodeType":"Identifier","messageId":"undef","endLine":3,"endColumn":19}],'
        '"suppressedMessages":[],"errorCount":1,"fatalErrorCount":0,"warningCount":0,"fixableErrorCount":0,'
        '"fixableWarningCount":0,"source":"\\nconst unused = 1;\\nexport const x = y;\\n","usedDeprecatedRules":[]}]\n',
        [("a.mjs:3", "no-undef")],
    ),
    "mypy, 1.18": (
        'pkg/b.py:3:7:3:7: error: Argument 1 to "f" has incompatible type "int"; expected "str"  [arg-type]\n',
        [("pkg/b.py:3", "arg-type")],
    ),
    "flake8, 7.3": (
        "./a.py:2:7: E999 SyntaxError: invalid syntax\n./a.py:2:31: E501 line too long (46 > 30 characters)\n",
        [("a.py:2", "E999"), ("a.py:2", "E501")],
    ),
    "ruff, 0.14": (
        "a.py:2:7: invalid-syntax: Expected a parameter or the end of the parameter list\nFound 1 error.\n",
        [("a.py:2", "invalid-syntax")],
    ),
    "flake8": ("./a.py:1:1: F401 'os' imported but unused\n", [("a.py:1", "F401")]),
    "ruff": ("a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n", [("a.py:1", "F401")]),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_each_tool_writes_is_understood(name: str) -> None:
    output, expected = OUTPUTS[name]
    linter = next(linter for linter in LINTERS if linter.name == name.partition(",")[0])
    assert [(finding.place, finding.rule) for finding in read(linter, output, "/v")] == expected
    assert list(read(linter, "Traceback: it crashed\n[{\n", "/v")) == []
