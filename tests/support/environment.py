"""Interpreters for the projects under test."""

from __future__ import annotations

import compileall
import importlib.metadata
import shutil
import venv
from pathlib import Path


def make_environment(folder: Path) -> Path:
    """A virtual environment with pytest and none of the plugins of our own, which take a second to load."""
    folder.chmod(0o755)
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), packages / file)  # with the times that its bytecode names
    compileall.compile_dir(packages, quiet=1)  # it is read-only inside, where nobody could keep the bytecode
    script = folder / "bin" / "pytest"
    script.write_text(f"#!{folder}/bin/python3\nimport pytest\nraise SystemExit(pytest.console_main())\n")
    script.chmod(0o755)
    return folder
