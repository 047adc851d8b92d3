"""Java and Kotlin: the XML that Maven's surefire and Gradle write into the checkout's build folders.

A test that does not compile is told by the compiler's words alone: nothing runs then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from agent.types import TestOutcome
from agent.verify import junit, report
from agent.verify.files import Files, from_root, matching
from agent.verify.report import Entry, Report
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import (
    ENVIRONMENT,
    REPORTS,
    Collected,
    Invocation,
    Step,
    TestPlan,
    shell,
    spoken,
)
from agent.verify.verdict import GENERIC_EXITS
from sandbox.text import clean

NAME: Final = "java"
PROGRAMS: Final = ("java", "javac", "mvn", "gradle")
INSTALLED: Final[Mapping[str, str]] = {
    "GRADLE_USER_HOME": f"{ENVIRONMENT}/gradle",
    "MAVEN_OPTS": f"-Dmaven.repo.local={ENVIRONMENT}/m2",
}
_MAVEN: Final = r"mvnw?|mvnd"
_GRADLE: Final = r"gradlew?"
_TEST_FILES: Final = ("*Test.java", "*Tests.java", "*Test.kt", "*Tests.kt", "Test*.java", "*Spec.groovy")
_SOURCES: Final = re.compile(r"(?:^|.*/)(?:java|kotlin|groovy|scala)/(.+)\.\w+$")
_NOT_COMPILED: Final = re.compile(
    r"^(?:\[ERROR\] |e: (?:file://)?)?(?P<path>/[^\s:]+\.(?:java|kt|groovy|scala)):"
    r"(?:\[\d+,\d+\] |\d+: error: |\d+:\d+:? |\s\(\d+, \d+\): )(?P<what>.*)"
    r"(?P<more>(?:\n(?!\[|/|e: ).*){0,4})",
    re.MULTILINE,
)
"""As Maven, javac and kotlinc write it; javac says in other lines what it misses."""
_MISSED: Final = re.compile(r"(?m)^\s+(?:symbol|location):\s+(.*)$")
# The report folder is ours and fresh, the build folder is not: whatever lies there from before is removed first.
_WRAPPED: Final = """find . -name 'TEST-*.xml' -type f -delete
{line}
code=$?
n=0
find . -name 'TEST-*.xml' -type f | while read -r file; do n=$((n+1)); cp -- "$file" "{reports}/java-$n.xml"; done
exit $code
"""


def detect(files: Files) -> TestPlan | None:
    paths = files.paths()
    tests = any(matching(files, *_TEST_FILES))
    if "pom.xml" in paths:
        line = "./mvnw -B test" if "mvnw" in paths else "mvn -B test"
        return TestPlan(NAME, line, "pom.xml is there", first=not tests)
    if {"build.gradle", "build.gradle.kts"} & set(paths):
        line = "./gradlew test --continue" if "gradlew" in paths else "gradle test --continue"
        return TestPlan(NAME, line, "a Gradle build is there", first=not tests)
    return None


def resolve(line: str, files: Files) -> str | None:
    return line if shell_line.calls(line, f"{_MAVEN}|{_GRADLE}") else None


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """Selected test classes run whole; a file that is none, such as a helper, runs all."""
    chosen = [_class(test, files) for test in selection]
    classes = tuple(dict.fromkeys(chosen)) if all(chosen) else ()
    maven = shell_line.calls(plan.line, _MAVEN)
    found = maven or shell_line.calls(plan.line, _GRADLE)
    fixed = ["-o", "-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false"] if maven else ["--offline"]
    wanted: tuple[str, ...] = ()
    if classes:
        wanted = (f"-Dtest={','.join(classes)}",) if maven else tuple(w for c in classes for w in ("--tests", c))

    def reporting(_number: int, old: str) -> str:
        return f'{old} {" ".join(fixed)} "$@"'

    line = shell_line.rewrite(plan.line, found, reporting)
    return Invocation(
        argv=shell(_WRAPPED.format(line=line, reports=REPORTS), *wanted),
        exits=GENERIC_EXITS,
        shown=spoken(plan.line, wanted),
    )


def _class(test: str, files: Files) -> str:
    """The class that an id names, or that a test file holds; empty for any other file."""
    name = test.partition("::")[0]
    if name not in files.paths():
        return name
    return _declared(name) if any(PurePosixPath(name).match(pattern) for pattern in _TEST_FILES) else ""


def _declared(path: str) -> str:
    """The class of a source, as the folders say."""
    below = _SOURCES.match(path)
    return below[1].replace("/", ".") if below else PurePosixPath(path).stem


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"java-\d+\.xml")
    entries = [*_not_compiled(clean(collected.output), collected.views)]
    if not found and not entries:
        return None
    cases = junit.cases(*found)
    ran = (Entry(f"{case.classname}::{case.name}", case.outcome, case.message) for case in cases)
    return report.build((*entries, *ran))


def _not_compiled(output: str, views: Sequence[str]) -> Iterator[Entry]:
    for match in _NOT_COMPILED.finditer(output):
        path = from_root(match["path"], views)
        missed = ", ".join(_MISSED.findall(match["more"]))
        message = f"{match['what']}: {missed}" if missed else match["what"]
        yield Entry(_declared(path), TestOutcome.ERROR, f"{path}: {message}", collecting=True)


def prepare(files: Files) -> tuple[Step, ...]:
    plan = detect(files)
    if plan is None:
        return ()
    program = plan.line.split()[0]
    if "mvn" in program:
        return (
            Step((program, "-B", "-q", "dependency:go-offline"), required=False),
            Step((program, "-B", "-q", "test", "-DskipTests"), required=False),
        )
    return (Step((program, "testClasses", "--no-daemon"), required=False),)


def probe(plan: TestPlan) -> tuple[str, ...]:
    found = shell_line.calls(plan.line, f"{_MAVEN}|{_GRADLE}")
    return shell(plan.line[found[0].start : found[0].words_from] + " --version") if found else shell("java -version")
