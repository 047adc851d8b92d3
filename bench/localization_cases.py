"""Makes localization cases from a repository's own history: a commit's message → the sources that it touched.

    .venv/bin/python -m bench.localization_cases NAME GIT_DIR --count 60 > cases.jsonl

Easier than issues of users, because whoever wrote the message knew the change, but enough to see whether a language is
read at all. Taken are commits with a message of at least eight words that touch one to three existing source
files of a known language, tests and their data left out; merges, releases, dependency bumps and reverts are not.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agent.git import Git
from agent.git_errors import RefMissing
from agent.index.graph import is_test
from agent.index.history import Commit, log_arguments, parse_log
from agent.index.languages import language_by_name

_DULL = re.compile(
    r"^(?:merge|bump|release|revert|chore|docs?|ci|build|style|test|update (?:dep|change|readme)|v?\d+\.)|dependabot"
    r"|changelog|typo|\[maven-release",
    re.IGNORECASE,
)


_APART = frozenset({"bash", "make", "python"})
"""Languages whose files are no gold: helpers in most repositories, and Python has cases of its own."""


def cases(name: str, git_dir: str, count: int, apart: Collection[str] = _APART) -> Iterator[dict[str, Any]]:
    """Up to ``count`` cases, drawn evenly over the last 4,000 commits, the same at every call."""
    with Git(Path(git_dir)) as git:
        good = [commit for commit in parse_log(git.run(log_arguments("HEAD", 4000))) if _usable(commit, apart)]
        random.Random(0).shuffle(good)  # noqa: S311
        yield from islice((case for commit in good if (case := _case(name, git, commit, apart))), count)


def _case(name: str, git: Git, commit: Commit, apart: Collection[str]) -> dict[str, Any] | None:
    """``None`` where the commit makes one of its sources."""
    gold = [path for path in commit.files if _source(path, apart)]
    try:
        base = git.resolve(f"{commit.sha}^")
    except RefMissing:  # the first of all
        return None
    if not git.tree(base).keys() >= set(gold):
        return None
    return {
        "instance_id": f"{name}-{commit.sha[:10]}",
        "repo": name,
        "base_commit": base,
        "problem_statement": _message(commit),
        "gold_files": gold,
        "gold_functions": [],
    }


def _usable(commit: Commit, apart: Collection[str]) -> bool:
    sources = [path for path in commit.files if _source(path, apart)]
    return (
        1 <= len(sources) <= 3
        and len(commit.files) <= 8
        and len(_message(commit).split()) >= 8
        and not _DULL.search(commit.message.split("\n")[0])
    )


def _source(path: str, apart: Collection[str]) -> bool:
    language = language_by_name(path)
    return language is not None and language.name not in apart and not is_test(path, language.name)


def _message(commit: Commit) -> str:
    """The message without trailers and without numbers of issues."""
    kept = [line for line in commit.message.split("\n") if not re.match(r"^[A-Z][\w-]+-by:|^Co-authored", line)]
    return re.sub(r"\(?#\d+\)?", "", "\n".join(kept)).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("git_dir")
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    for case in cases(arguments.name, arguments.git_dir, arguments.count):
        print(json.dumps(case))


if __name__ == "__main__":
    main()
