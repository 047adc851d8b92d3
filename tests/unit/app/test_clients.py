"""What clients say of themselves, asked of stand-ins that answer as they do."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from app.clients import defaults


def program(folder: Path, name: str, says: str, code: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\nexit {code}\n")
    path.chmod(0o755)


def test_each_client_is_asked_for_what_it_comes_with(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    program(tools, "npm", "https://js.invalid/")
    program(tools, "go", "https://modules.invalid|https://second.invalid,direct")
    program(tools, "gem", "*** CURRENT SOURCES ***\n\nhttps://gems.invalid/")
    program(tools, "mvn", "")
    (tmp_path / "lib").mkdir()
    with zipfile.ZipFile(tmp_path / "lib" / "maven-model-builder-3.9.jar", "w") as jar:
        jar.writestr("org/apache/maven/model/pom-4.0.0.xml", "<url>https://central.invalid/maven2</url>")
    found = defaults(f"{tools}:/usr/bin:/bin")
    assert found["npm"] == ("js.invalid",)
    assert found["go"] == ("modules.invalid", "second.invalid")
    assert found["gem"] == ("gems.invalid", "index.gems.invalid")
    assert found["maven"] == ("central.invalid",)
    assert len(found["pip"]) == 2, "the index, and where its files are"


def test_what_clients_write_at_home_is_gone_again(tmp_path: Path) -> None:
    tools, told = tmp_path / "bin", tmp_path / "home"
    program(tools, "npm", "https://js.invalid/")
    script = (
        (tools / "npm").read_text().replace("#!/bin/sh\n", f'#!/bin/sh\nmkdir "$HOME/.npm"\necho "$HOME" > {told}\n')
    )
    (tools / "npm").write_text(script)
    assert defaults(f"{tools}:/usr/bin:/bin")["npm"] == ("js.invalid",)
    home = Path(told.read_text().strip())
    assert home.parent.is_dir() and not home.exists()


def test_a_client_that_is_missing_or_fails_has_none(tmp_path: Path) -> None:
    program(tmp_path / "bin", "npm", "https://js.invalid/", code=1)
    assert defaults(f"{tmp_path / 'bin'}:{tmp_path}{os.sep}nothing").keys() <= {"pip"}
