"""Patches are what ``git apply`` takes, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.publish.patch import patch
from sandbox import process

LINES = b"".join(b"%d\n" % number for number in range(12_000))
"""Too many differences to be looked for one by one."""
CASES = [
    (b"a\nb\n", b"a\nB\n"),
    (b"a\nb", b"a\nb\n"),
    (b"a\r\nb\r\n", b"a\r\nB\r\n"),
    (b"a\x0cb\xe2\x80\xa8c\n", b"a\x0cb\xe2\x80\xa8d\n"),
    (None, b"new\n"),
    (b"old\n", None),
    (None, b"no end"),
    (b"\n" * 50 + b"x\n" + b"\n" * 50, b"y\n" + b"\n" * 50 + b"x\n" + b"\n" * 48 + b"z"),
    (LINES, LINES.replace(b"1", b"y")),
    (LINES[2:-2], LINES[:-2].replace(b"1", b"y")),
    (None, LINES + b"no end"),
    (LINES, None),
]


@pytest.mark.parametrize(("before", "after"), CASES)
@pytest.mark.parametrize("path", ["src/a.py", 'sp ace "q"\\ü.py'])
def test_git_applies_it(tmp_path: Path, before: bytes | None, after: bytes | None, path: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    if before is not None:
        file.write_bytes(before)
    text = patch(path, before, after)
    done = process.run(["git", "apply", "-"], cwd=tmp_path, stdin=text.encode())
    assert done.exit_code == 0, (text, done.output)
    assert (file.read_bytes() if file.exists() else None) == after


def test_modes_and_binaries_are_named() -> None:
    assert "old mode 100644\nnew mode 100755\n" in patch("run.sh", b"x\n", b"x\n", mode="100755", old_mode="100644")
    assert "Binary files differ" in patch("a.bin", None, b"\0\1")
    assert patch("a", b"x", b"x") == ""
