"""Ruby: RSpec's JSON; minitest by its verbose text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agent.types import TestOutcome
from agent.verify import report
from agent.verify.files import Files, matching, text
from agent.verify.report import Entry, Report, Unreadable
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

NAME: Final = "ruby"
PROGRAMS: Final = ("ruby", "bundle", "gem", "rake", "rspec")
INSTALLED: Final[Mapping[str, str]] = {"BUNDLE_PATH": f"{ENVIRONMENT}/bundle", "GEM_HOME": f"{ENVIRONMENT}/gems"}
_RSPEC: Final[Mapping[str, TestOutcome]] = {
    "passed": TestOutcome.PASSED,
    "failed": TestOutcome.FAILED,
    "pending": TestOutcome.SKIPPED,
}
_MINITEST: Final[Mapping[str, TestOutcome]] = {
    ".": TestOutcome.PASSED,
    "F": TestOutcome.FAILED,
    "E": TestOutcome.ERROR,
    "S": TestOutcome.SKIPPED,
}


_OWN: Final = re.compile(r"Gemfile|Rakefile|\.rspec|[^/]+\.(gemspec|rb)|(lib|app|spec|test)/.*\.rb")
"""One of these says that the repository is a Ruby project, and does not just hold one among its third parties."""


def detect(files: Files) -> TestPlan | None:
    if not any(_OWN.fullmatch(path) for path in files.paths()):
        return None
    bundled = "bundle exec " if "Gemfile" in files.paths() else ""
    if any(matching(files, "*_spec.rb")):
        return TestPlan(NAME, f"{bundled}rspec", "there are *_spec.rb files")
    test = next(matching(files, "*_test.rb", "test_*.rb"), "")
    if not test:
        return None
    if "bin/rails" in files.paths():
        return TestPlan(NAME, "bin/rails test", "a Rails application with tests")
    if "test" in text(files, "Rakefile").lower():
        return TestPlan(NAME, f"{bundled}rake test", "the Rakefile has tests")
    folder = test.rpartition("/")[0].partition("/")[0] or "."
    if not _FOLDER.fullmatch(folder):  # it becomes part of a shell's line
        return None
    return TestPlan(NAME, f"{bundled}ruby -Ilib -I{folder} -e '{_EACH.format(folder)}'", f"{test} is there")


_FOLDER: Final = re.compile(r"[\w.][\w.-]*", re.ASCII)
_EACH: Final = 'Dir["./{}/**/{{*_test,test_*}}.rb"].sort.each {{ |file| require file }}'
"""For a project without a Rakefile: minitest runs what was loaded."""


def resolve(line: str, files: Files) -> str | None:
    known = shell_line.calls(line, "rspec") or _plain(line) or re.search(r"\brake\b.*\btest\b", line)
    return line if known else None


def _plain(line: str) -> tuple[shell_line.Call, ...]:
    """Calls that minitest hears the options of, since there is no rake between."""
    rails = (c for c in shell_line.calls(line, "rails") if re.match(r"\s+test\b", line[c.words_from : c.end]))
    ruby = (c for c in shell_line.calls(line, "ruby") if re.search(r"_test\b|\btest_", line[c.words_from : c.end]))
    return (*rails, *ruby)


def _verbose(_number: int, old: str) -> str:
    dashes = " --" if re.search(r"(^|\s)-\w*e\s", old) and " -- " not in old else ""
    return f"{old}{dashes} -v"


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    found = shell_line.calls(plan.line, "rspec")
    if not found and (plain := _plain(plan.line)):
        script = shell_line.rewrite(plan.line, plain, _verbose)
        return Invocation(shell(script), exits=GENERIC_EXITS, structured=False, shown=spoken(plan.line))
    wanted = tuple(dict.fromkeys(s.partition("::")[0] for s in selection)) if found else ()

    def reporting(number: int, old: str) -> str:
        place = f"{REPORTS}/rspec-{number}.json"
        return f'{old} --format progress --format json --out {place} "$@"'

    return Invocation(
        argv=shell(shell_line.rewrite(plan.line, found, reporting), *(f"./{path}" for path in wanted)),
        env={} if found else {"TESTOPTS": "-v"},
        exits=GENERIC_EXITS,
        structured=bool(found),
        shown=spoken(plan.line, wanted),
    )


def read(collected: Collected, files: Files) -> Report | None:
    found = collected.named(r"rspec-\d+\.json")
    if found:
        return report.build(entry for data in found for entry in _of_rspec(data))
    entries = list(_of_minitest(clean(collected.output)))
    return report.build(entries) if entries else None


def _of_rspec(data: bytes) -> Iterator[Entry]:
    try:
        content = json.loads(data)
        for example in content["examples"]:
            path = str(example["file_path"]).removeprefix("./")
            error = example.get("exception") or {}
            message = clean(f"{error.get('class', '')}: {error.get('message', '')}".encode("utf-8", "replace"))
            outcome = _RSPEC[example["status"]]
            yield Entry(f"{path}::{example['full_description']}", outcome, message if error else "")
        outside = int(content["summary"].get("errors_outside_of_examples_count", 0))
        if outside:
            texts = "\n".join(map(str, content.get("messages", ())))
            yield Entry("rspec", TestOutcome.ERROR, clean(texts.encode("utf-8", "replace")), collecting=True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Unreadable(f"the report of rspec is damaged ({type(error).__name__})") from error


def _of_minitest(output: str) -> Iterator[Entry]:
    """``CalcTest#test_adds = 0.00 s = .``; the lines must add up to the summary. A ``describe`` may have any words."""
    found = re.findall(r"(?m)^(\S[^#\n]*)#(test_.+?) = [\d.]+ s = ([.FES])$", output)
    summed = re.findall(r"(?m)^(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips$", output)
    if not summed:
        return
    counts = [sum(int(row[n]) for row in summed) for n in range(4)]
    seen = [len(found), *(sum(sign == s for *_, sign in found) for s in "FES")]
    if counts != seen:
        raise Unreadable("the lines of minitest do not add up to its summary")
    messages = dict(_failures(output))
    for name, test, sign in found:
        yield Entry(f"{name}::{test}", _MINITEST[sign], messages.get(f"{name}#{test}", ""))


_FAILURE: Final = re.compile(r"^ +\d+\) (?:Failure|Error):\n(.+?)(?: \[([^\]\n]*:\d+)\])?:$", re.MULTILINE)
_FAILURE_ENDS: Final = re.compile(r"^(?: +\d+\) (?:Failure|Error|Skipped):|\d+ runs, )", re.MULTILINE)


def _failures(output: str) -> Iterator[tuple[str, str]]:
    """(test, where it failed and why) of each that minitest explains after the run."""
    for head in _FAILURE.finditer(output):
        end = _FAILURE_ENDS.search(output, head.end())
        text = output[head.end() : end.start() if end else len(output)].strip("\n")
        yield head[1], "\n".join(filter(None, (head[2], text)))


def prepare(files: Files) -> tuple[Step, ...]:
    if "Gemfile" in files.paths():
        return (Step(("bundle", "install")),)
    return (Step(("gem", "install", "--no-document", "rspec")),) if any(matching(files, "*_spec.rb")) else ()


def probe(plan: TestPlan) -> tuple[str, ...]:
    return shell("bundle check" if "bundle" in plan.line else f"{plan.line.split()[0]} --version")
