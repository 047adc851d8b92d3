"""Names that are no text: they are told as well as they can be, and nothing fails for them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from agent.types import Evidence, Partial
from tests.flow.world import EDIT, FINISH, WRITE, plan
from tests.unit.engine.conftest import Desk, MakeModel


def test_names_that_are_no_text_are_told_and_cost_nothing(desk: Desk, scripted: MakeModel) -> None:
    """Of a file that uses what is changed, of a link that leads out, of a file that looks like a secret."""
    repository = desk.repository
    Path(repository.path, "out\udce9").symlink_to(os.fsdecode(b"/etc/\xe9"))
    repository.commit({"uses_\udce9.py": "import widget\nprint(widget.total([1]))\n", ".gitignore": "*.pem\n"})
    repository.write({"k\udce9y.pem": "secret\n"})
    model = scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]})

    told = desk.graftsmith(
        "run", "--task", "Count every item", "--no-apply", "--json", "--test-command", desk.test, model=model
    )

    assert told.out, (told.err, told.error)
    result = json.loads(told.out)
    assert (result["outcome"], result["proven"]) == ("proposed", True), result["reason"]
    assert any("secrets: k\ufffdy.pem" in note for note in result["notes"])
    assert any("left out: out\ufffd" in note for note in result["notes"])


def test_what_is_told_of_the_tests_and_of_compiled_files_is_text() -> None:
    part = Partial(files=("test_\udce9.py",), left=1, why="test_\udce9.py took too long")
    told = Evidence(partial=part, unbuilt=("\udce9.c",)).model_dump_json()
    assert told.count("\ufffd") == 3
