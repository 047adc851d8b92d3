"""Real git repositories for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sandbox import process

_ENV = {
    "PATH": process.DEFAULT_PATH,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


class Repository:
    """A repository with a work tree, as a person has it."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", *init)

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run git here and return its output."""
        finished = process.run(["git", *arguments], cwd=self.path, env=_ENV, stdin=stdin, split_stderr=True)
        assert finished.ok, finished.stderr.decode(errors="replace")
        return finished.stdout.decode(errors="surrogateescape").rstrip("\n")

    def write(self, files: Mapping[str, bytes | str]) -> None:
        """Write files; text as UTF-8."""
        for name, content in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, bytes | str] | None = None, message: str = "change") -> str:
        """Write ``files``, commit everything and return the commit id."""
        self.write(files or {})
        self.git("-c", "core.autocrlf=false", "add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def git_dir(self) -> Path:
        return self.path / ".git"

    @property
    def url(self) -> str:
        return f"file://{self.path}"
