"""Java and Kotlin: the XML that Maven's surefire and Gradle write into the checkout's build folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from agent.verify import junit, report
from agent.verify.files import Files, matching
from agent.verify.report import Entry, Report
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import (
    ENVIRONMENT,
    REPORTS,
    Canary,
    Collected,
    Invocation,
    Step,
    TestPlan,
    shell,
    spoken,
)
from agent.verify.verdict import GENERIC_EXITS

NAME: Final = "java"
PROGRAMS: Final = ("java", "javac", "mvn", "gradle")
INSTALLED: Final[Mapping[str, str]] = {
    "GRADLE_USER_HOME": f"{ENVIRONMENT}/gradle",
    "MAVEN_OPTS": f"-Dmaven.repo.local={ENVIRONMENT}/m2",
}
_MAVEN: Final = r"mvnw?|mvnd"
_GRADLE: Final = r"gradlew?"
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
    tests = any(matching(files, "*Test.java", "*Tests.java", "*Test.kt", "*Tests.kt", "Test*.java", "*Spec.groovy"))
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
    """Selected test classes run whole."""
    classes = tuple(dict.fromkeys(test.partition("::")[0] for test in selection))
    maven = shell_line.calls(plan.line, _MAVEN)
    found = maven or shell_line.calls(plan.line, _GRADLE)
    fixed = ["-o", "-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false"] if maven else ["--offline"]
    wanted: tuple[str, ...] = ()
    if classes:
        wanted = (f"-Dtest={','.join(classes)}",) if maven else tuple(w for c in classes for w in ("--tests", c))

    def reporting(_number: int, old: str) -> str:
        return f'{old.rstrip()} {" ".join(fixed)} "$@"' + (" " if old.endswith(" ") else "")

    line = shell_line.rewrite(plan.line, found, reporting)
    return Invocation(
        argv=shell(_WRAPPED.format(line=line, reports=REPORTS), *wanted),
        exits=GENERIC_EXITS,
        shown=spoken(plan.line, wanted),
    )


def read(collected: Collected, files: Files) -> Report | None:
    found = [data for name, data in sorted(collected.reports.items()) if re.fullmatch(r"java-\d+\.xml", name)]
    if not found:
        return None
    cases = (case for data in found for case in junit.cases(data))
    return report.build(Entry(f"{case.classname}::{case.name}", case.outcome, case.message) for case in cases)


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


def canary(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    return None
