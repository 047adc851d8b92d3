"""PHP: phpunit's and Pest's JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from agent.verify import junit, report
from agent.verify.files import Files, from_root, matching, names_path, text
from agent.verify.report import Entry, Report
from agent.verify.toolchains import shell_line
from agent.verify.toolchains.base import REPORTS, Collected, Invocation, Step, TestPlan, shell, spoken
from agent.verify.verdict import GENERIC_EXITS, Exit

NAME: Final = "php"
PROGRAMS: Final = ("php", "composer")
INSTALLED: Final[Mapping[str, str]] = {}
EXITS: Final[Mapping[int, Exit]] = {0: Exit.CLEAN, 1: Exit.FAILURES, 2: Exit.FAILURES, 255: Exit.BROKEN}
_PHPUNIT: Final = "phpunit|pest|paratest"


def detect(files: Files) -> TestPlan | None:
    """The project's own phpunit where it requires one, else that of the machine."""
    composer = text(files, "composer.json")
    required = next((package for package in ("pestphp/pest", "phpunit/phpunit") if package in composer), "")
    program = f"vendor/bin/{required.partition('/')[2]}" if required else "phpunit"
    if any(matching(files, "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "Pest.php")):
        return TestPlan(NAME, program, "phpunit is configured")
    test = next(matching(files, "*Test.php"), "")
    folder = test.partition("/")[0]
    return TestPlan(NAME, f"{program} {folder}", f"{test} is there") if folder in ("test", "tests") else None


def resolve(line: str, files: Files) -> str | None:
    named = re.fullmatch(r"composer\s+(?:run(?:-script)?\s+)?(test[\w:-]*)", line)
    if named:
        try:
            script = json.loads(text(files, "composer.json") or "{}").get("scripts", {}).get(named.group(1))
        except (ValueError, AttributeError, RecursionError):
            return None
        if isinstance(script, str) and shell_line.calls(script, _PHPUNIT):
            return script if "/" in script.split()[0] else f"vendor/bin/{script}"
    return line if shell_line.calls(line, _PHPUNIT) else None


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """phpunit takes one file a call: a selection within one file runs that file, any other runs all."""
    found = shell_line.calls(plan.line, _PHPUNIT)
    chosen = tuple(dict.fromkeys(s.partition("::")[0] for s in selection))
    wanted = chosen if len(chosen) == 1 and chosen[0] in files.paths() else ()

    def selected(old: str) -> str:
        return shell_line.without_paths(old, lambda word: names_path(word, files.paths())) if wanted else old

    def reporting(number: int, old: str) -> str:
        place = f"{REPORTS}/phpunit-{number}.xml"
        return f'{selected(old)} --log-junit {place} --colors=never "$@"'

    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, found, reporting), *(f"./{path}" for path in wanted)),
        exits=EXITS if shell_line.is_all(found) else GENERIC_EXITS,
        shown=spoken(shell_line.rewrite(plan.line, found, lambda _n, old: selected(old)), wanted),
    )


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"phpunit-\d+\.xml")
    if not found:
        return None
    entries = (Entry(_id(case, collected.views), case.outcome, case.message) for case in junit.cases(*found))
    return report.unexplained_by(report.build(entries), files.paths())


def _id(case: junit.Case, views: Sequence[str]) -> str:
    path = from_root(case.file.partition("::")[0], views)
    return f"{path}::{case.name}" if path else f"{case.classname}::{case.name}"


def prepare(files: Files) -> tuple[Step, ...]:
    if "composer.json" not in files.paths():
        return ()
    return (Step(("composer", "install", "--no-interaction", "--no-progress")),)


def probe(plan: TestPlan) -> tuple[str, ...]:
    found = shell_line.calls(plan.line, _PHPUNIT)
    return shell(plan.line[found[0].start : found[0].words_from] + " --version") if found else shell("php --version")
