"""Syntax and linters: only what the change brings is told."""

from __future__ import annotations

import importlib.metadata
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from agent.index.index import Index
from agent.index.languages import LANGUAGES
from agent.index.source import TreeSource
from agent.tree import Draft
from agent.types import Check, Finding
from agent.verify.impact import importers
from agent.verify.static import LINTERS, SHOWN, Linters, read, syntax, ways
from tests.unit.index.test_languages import SAMPLES
from tests.unit.verify.conftest import Bench, MakeBench, make_environment

# Stands in for a linter that the target brings along: the real ones are looked for by `python3 -m NAME`.
FLAKE8 = """
import sys
from pathlib import Path
found = [
    f"{path}:{n}:1: W1 no print on line {n}"
    for path in sys.argv[2:] for n, line in enumerate(Path(path).read_text().splitlines(), 1) if "print" in line
]
print("\\n".join(found))
raise SystemExit(bool(found))
"""


def parsed(draft: Draft) -> Check:
    before = Index.open(None, TreeSource(draft.base.draft()))
    return syntax(draft, before, Index.open(None, TreeSource(draft), base=before))


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
    before = Index.open(None, TreeSource(made.base))
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


def test_only_new_findings_of_configured_linters_count(bench: MakeBench) -> None:
    made = bench({".flake8": "[flake8]\n", "flake8.py": FLAKE8, "a.py": "x = 1\nprint(x)\n", "b.py": "print(2)\n"})
    (check,) = linted(made, made.draft({"a.py": "# moved\n\nx = 1\nprint(x)\n", "c.py": "y = 1\nprint(y)\n"}))
    assert check.found == (Finding(path="c.py", line=2, rule="W1", message="no print on line 2"),)
    assert not linted(made, made.draft({"a.py": "x = 2\nprint(x)\n"}))[0].found
    (more,) = linted(made, made.draft({"a.py": "print(1)\nprint(2)\n"}))
    assert [finding.line for finding in more.found] == [2]
    assert linted(made, made.draft({"README": "x"})) == ()


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
        "flake8": "it ended with exit code 1 and named no line",
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
    made = bench({"ruff.toml": 'lint.select = ["F"]\n', "a.py": "import os\n", "test_a.py": ""}, path=with_ruff)
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
    before = Index.open(None, TreeSource(made.base))
    after = Index.open(None, TreeSource(draft), base=before)
    (check,) = linters.check(draft, lambda: importers(draft, before, after))
    return check


@pytest.mark.parametrize(
    "config",
    [
        {"mypy.ini": "[mypy]\n"},
        {"mypy.ini": "[mypy]\nstrict = False\nfiles = pkg\n"},
        {"x/clash.py": "", "y/clash.py": "", "mypy.ini": "[mypy]\n"},  # the whole can't be checked: only what is near
    ],
)
def test_a_type_checker_sees_the_callers_of_what_changed(
    bench: MakeBench, with_mypy: str, config: dict[str, str]
) -> None:
    made = bench({**TYPED, **config, "test_a.py": ""}, path=with_mypy)
    linters = Linters(made.harness, made.base)
    assert typed(made, linters, a=F.replace("int", "str")).found == (CALLER,)
    assert typed(made, linters, a=F + "\n\n# longer\n", old="# moved\n\nx: int = 'old'\n").found == ()
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


# What each tool wrote (pyright 1.1, TypeScript 5, ESLint 9, mypy 1, Go 1.22, cargo 1.80).
OUTPUTS = {
    "pyright": (
        '/v/a.py\n  /v/a.py:2:12 - error: Type "int" is not assignable to return type "str"\n'
        '    "int" is not assignable to "str" (reportReturnType)\n'
        '  /v/a.py:6:8 - error: Import "nothere" could not be resolved (reportMissingImports)\n'
        "2 errors, 0 warnings, 0 informations\n",
        [("a.py:2", ""), ("a.py:6", "reportMissingImports")],
    ),
    "tsc": (
        "b.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\n"
        "src/c.ts(2,18): error TS2304: Cannot find name 'z'.\n",
        [("b.ts:1", "TS2322"), ("src/c.ts:2", "TS2304")],
    ),
    "eslint": (
        '[{"filePath":"/v/c.mjs","messages":[{"ruleId":"no-unused-vars","severity":2,"message":"unused","line":1},'
        '{"ruleId":"no-undef","severity":1,"message":"only a warning","line":2},'
        '{"ruleId":null,"severity":2,"fatal":true,"message":"Parsing error","line":3}]}]\n',
        [("c.mjs:1", "no-unused-vars"), ("c.mjs:3", "")],
    ),
    "mypy": (
        'm.py:2: error: Incompatible return value type (got "int", expected "str")  [return-value]\n'
        "m.py:2: note: a hint\nm.py:3:5: error: Odd\n",
        [("m.py:2", "return-value"), ("m.py:3", "")],
    ),
    "go vet": (
        "# ex/calc\n./a.go:5:2: fmt.Printf format %d has arg x of wrong type string\nvet: ./b.go:7:9: undefined: foo\n",
        [("a.go:5", ""), ("b.go:7", "")],
    ),
    "clippy": (
        "src/main.rs:2:9: warning: unused variable: `x`\nsrc/lib.rs:4:1: error[E0425]: cannot find value `y`\n"
        "error: could not compile `a` (lib) due to 1 previous error\n",
        [("src/main.rs:2", "warning"), ("src/lib.rs:4", "error[E0425]")],
    ),
    "flake8": ("./a.py:1:1: F401 'os' imported but unused\n", [("a.py:1", "F401")]),
    "ruff": ("a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n", [("a.py:1", "F401")]),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_each_tool_writes_is_understood(name: str) -> None:
    output, expected = OUTPUTS[name]
    (linter,) = (linter for linter in LINTERS if linter.name == name)
    assert [(finding.place, finding.rule) for finding in read(linter, output, "/v")] == expected
    assert list(read(linter, "Traceback: it crashed\n[{\n", "/v")) == []
