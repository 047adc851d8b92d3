"""What a test file in another language than Python says, by its text: declared tests, marks, assertions. Pure.

Without a parser a finding is rougher than for Python, so it leans to telling: a person looks at the hunk.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agent.verify.additions import Form, strange
from agent.verify.blocks import Writing
from agent.verify.python_tests import Problem


@dataclass(frozen=True)
class Language:
    """Patterns over one line of a test file."""

    declares: str
    """Group ``name`` is the test's name; ``None`` where the declaration itself is the sign."""
    skips: str
    focuses: str
    asserts: str
    ends: str
    """Ends the process, or decides how it ends."""
    form: Form


_PIECE: Final = 2_000
"""Characters that are looked at together: minified code must not cost minutes."""
_OVERLAP: Final = 100
"""Of one piece of a line with the next, so that no mark falls between them."""
_PIECES: Final = 50
"""Of one line; of what comes behind them only a change is seen."""

_JS: Final = Language(
    declares=r"\b(?:it|test|describe|specify|context|suite)(?:\.\w+)*(?:\([^'\"`]*?\))?\s*\(\s*(?P<quote>['\"`])(?P<name>.*?)(?P=quote)",
    skips=r"\.(skip|todo|fails|failing|skipIf|runIf)\b|\b(xit|xtest|xdescribe|xcontext)\s*\(|\bthis\.skip\(|\bskip:\s*(true|['\"])"
    r"|\btodo:\s*(true|['\"])|\bt\.(skip|todo)\(",
    focuses=r"\.only\b|\b(fit|fdescribe|ftest)\s*\(|\bonly:\s*true",
    asserts=r"\bexpect\s*\(|\bassert[.\w]*\s*\(|\.should\b|\bt\.(is|deepEqual|true|false|throws|like|equal|ok|same)\(",
    ends=r"\bprocess\.(exit|reallyExit|abort|kill)\b|\bprocess\.exitCode\s*=|\bprocess\.on(ce)?\(\s*['\"](exit|beforeExit|uncaught|unhandled)",
    form=Form(
        declares=r"(it|test|describe|specify|context|suite|t\.test)\b[.\w]*\s*\(|(await|return) t\.test\(",
        outside=r"(import|export|const|let|var|(async )?function|class|type|interface|declare)\b",
        rows=r"[\[{]$",
        writing=Writing(quoted=True, patterns=True),
    ),
)
_GO: Final = Language(
    declares=r"^func (?P<name>(Test|Benchmark|Fuzz|Example)\w*)\s*\(|\bt\.Run\(\s*\"(?P<sub>[^\"]*)\"",
    skips=r"\bt\.Skip(f|Now)?\(|^//go:build|^// \+build",
    focuses=r"$^",
    asserts=r"\bt\.(Error|Fatal|Fail)\w*\(|\b(assert|require|is|c|qt)\.\w+\(",
    ends=r"\bos\.Exit\(|^func (TestMain|init)\s*\(|\bsyscall\.(Exit|Kill)\(",
    form=Form(declares=r"\w+\.Run\(", rows=r"\{$"),
)
_RUST: Final = Language(
    declares=r"\bfn (?P<name>\w+)\s*[(<]",
    skips=r"#\[\s*(ignore|should_panic|cfg_attr\([^)]*ignore)|#\[cfg\((?!test\b)",
    focuses=r"$^",
    asserts=r"\b(assert|assert_eq|assert_ne|debug_assert|panic|matches|insta::\w+|assert_\w+)!",
    ends=r"\bprocess::(exit|abort)\b|\blibc::_?exit\b",
    form=Form(
        declares=r"#\[|((pub|async|unsafe|const)\b.* )?fn \w|(pub )?mod \w|(pub )?use \w", writing=Writing(long=True)
    ),
)
_JVM: Final = Language(
    declares=r"\b(?:void|fun)\s+(?P<name>`[^`]+`|\w+)\s*\(",
    skips=r"@(Disabled|Ignore)\w*\b|\bassume\w*\s*\(|Assumptions\.|@EnabledIf|enabled\s*=\s*false|\.config\(enabled",
    focuses=r"\bf:\s|@Focus",
    asserts=r"\bassert\w*\s*\(|\bverify\w*\s*\(|\bshould\w*\b|\bexpect\w*\s*\(|\bfail\s*\(",
    ends=r"\bSystem\.exit\(|\.halt\(|\bexitProcess\(|@(Before|After)\w*\b|\bstatic\s*\{|\binit\s*\{",
    form=Form(
        declares=r"@|(public|private|protected|internal|override|abstract|fun|test)\b|void \w+\(",
        depth=1,
        rows=r"\{$|\b(asList|listOf|(List|Set|Stream)\.of)\($",
    ),
)
_RUBY: Final = Language(
    declares=r"\b(?:it|specify|scenario|describe|context|test)\s*\(?\s*(?P<quote>['\"])(?P<name>.*?)(?P=quote)"
    r"|\bdef (?P<method>test_\w+)",
    skips=r"\b(xit|xdescribe|xcontext|xspecify|pending|skip)\b",
    focuses=r"\b(fit|fdescribe|fcontext|focus)\b",
    asserts=r"\bexpect\b|\bassert\w*\b|\brefute\w*\b|\bshould\b|\bmust_\w+|\bwont_\w+",
    ends=r"\b(exit!?|abort|at_exit)\b|^def (setup|teardown)\b",
    form=Form(
        declares=r"(it|specify|scenario|describe|context|test)\b|def \w|class |module |require",
        depth=-1,
        writing=Writing(comment="#", brackets=False, quoted=True, long=True),
    ),
)
_PHP: Final = Language(
    declares=r"\bfunction (?P<name>\w+)\s*\(|\b(?:it|test)\(\s*(?P<quote>['\"])(?P<title>.*?)(?P=quote)",
    skips=r"markTestSkipped|markTestIncomplete|->skip\(|->todo\(|#\[RequiresPhp|@requires",
    focuses=r"->only\(",
    asserts=r"\bassert\w*\(|\bexpect\w*\(|->should\w*\(",
    ends=r"\b(exit|die)\b\s*[(;]|register_shutdown_function|\bfunction (setUp|tearDown)",
    form=Form(
        declares=r"#\[|(public|private|protected|static|final|abstract) |function |(it|test)\(",
        writing=Writing(quoted=True, long=True),
    ),
)
_C: Final = Language(
    declares=r"\b(?:TEST|TEST_F|TEST_P|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE|Fact|Theory)\s*\(?\s*(?P<name>[^){]*)"
    r"|\bvoid (?P<method>\w*[Tt]est\w*)\s*\(",
    skips=r"DISABLED_|GTEST_SKIP|SKIP\(|\[Ignore|Skip\s*=|\[\.|XCTSkip|disabled\(",
    focuses=r"$^",
    asserts=r"\b(ASSERT|EXPECT|CHECK|REQUIRE|BOOST_\w+|XCTAssert|assert|Assert)\w*[.(]|#expect|#require",
    ends=r"\b_?[eE]xit\(|\babort\(|\bEnvironment\.(Exit|FailFast)\(",
    form=Form(
        declares=r"(TEST\w*|SCENARIO|BOOST_\w+|SECTION|Fact|Theory)\b|\[\w|@|(public|private|internal|static|func) ",
        rows=r"\{$",
    ),
)
_SHELL: Final = Language(
    declares=r"@test\s+(?P<quote>['\"])(?P<name>.*?)(?P=quote)|^(?P<method>test_\w+)\s*\(\)",
    skips=r"\bskip\b",
    focuses=r"bats:focus",
    asserts=r"\bassert\w*\b|\[\s|\[\[\s|\btest\s+-",
    ends=r"\bexit\b|^(setup|teardown)\w*\s*\(\)|\btrap\b",
    form=Form(declares=r"@test |test_\w+\s*\(\)|function ", writing=Writing("#", quoted=True, long=True)),
)

_LANGUAGES: Final[Mapping[str, Language]] = {
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), _JS),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("java", "kt", "kts", "scala", "groovy"), _JVM),
    "rb": _RUBY,
    "php": _PHP,
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp", "cs", "swift", "m", "mm"), _C),
    **dict.fromkeys(("sh", "bats", "bash"), _SHELL),
}


def knows(path: str) -> bool:
    """Whether the file is in a language that can be compared here."""
    return _suffix(path) in _LANGUAGES


def compare(path: str, old: str | None, new: str | None) -> Iterator[Problem]:
    """Every way in which ``new`` says less than ``old``; nothing for a file that is new, but a focus mark."""
    language = _LANGUAGES[_suffix(path)]
    before, after = _lines(old, language), _lines(new, language)
    focuses, ends, skips = (
        _marked(after, pattern) - _marked(before, pattern)
        for pattern in (language.focuses, language.ends, language.skips)
    )
    for line in focuses.elements():
        yield Problem("collection_changed", f"only this runs: `{line[:160]}`")
    for line in ends.elements():
        yield Problem("exit_status_hook", f"can end the process, or acts at an end: `{line[:160]}`")
    if old is None:
        return
    if new is None:
        yield Problem("test_deleted", "the test file is gone")
        return
    for name in sorted((Counter(_names(before, language)) - Counter(_names(after, language))).elements()):
        yield Problem("test_deleted", f"the test `{name}` is gone or has another name")
    for line in skips.elements():
        yield Problem("test_skipped", f"skipped or expected to fail: `{line[:160]}`")
    fewer = _marked(before, language.asserts).total() - _marked(after, language.asserts).total()
    if fewer > 0:
        yield Problem("assertion_removed", f"{fewer} fewer assertions")
    gone = [line for line in (Counter(before) - Counter(after)).elements() if re.search(r"\w", line)]
    if gone:
        yield Problem("test_changed", f"existing lines are changed: `{gone[0][:120]}`")
        return
    told = {*focuses, *ends, *skips}
    for line in strange(old, new, language.asserts, language.form):
        if told.isdisjoint(_pieces(line)):
            yield Problem("test_changed", f"added to what existing tests do: `{line[:120]}`")


def declared(path: str, source: str) -> frozenset[str]:
    """Names of the tests that a file declares."""
    language = _LANGUAGES[_suffix(path)]
    return frozenset(_names(_lines(source, language), language))


def _suffix(path: str) -> str:
    return path.rsplit(".", 1)[-1].lower()


def _lines(source: str | None, language: Language) -> list[str]:
    stripped = (line.strip().removesuffix(",") for line in (source or "").splitlines())
    return [piece for line in stripped if line and not _is_comment(line, language) for piece in _pieces(line)]


def _pieces(line: str) -> Iterator[str]:
    starts = range(0, max(1, len(line) - _OVERLAP), _PIECE - _OVERLAP)
    yield from (line[start : start + _PIECE] for start in starts[:_PIECES])
    if len(starts) > _PIECES:
        yield hashlib.sha256(line[starts[_PIECES] :].encode("utf-8", "surrogatepass")).hexdigest()


def _is_comment(line: str, language: Language) -> bool:
    return line.startswith(language.form.writing.comment) and not line.startswith(("//go:build", "// +build"))


def _marked(lines: list[str], pattern: str) -> Counter[str]:
    return Counter(line for line in lines if re.search(pattern, line))


def _names(lines: list[str], language: Language) -> Iterator[str]:
    for line in lines:
        for match in re.finditer(language.declares, line):
            groups = match.groupdict()
            name = next((v for k, v in groups.items() if k != "quote" and v), "")
            if name:
                yield name.strip()
