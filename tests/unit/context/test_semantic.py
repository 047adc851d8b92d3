"""The optional layer of meaning and the optional rerank, against local endpoints through the real clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.budget import Meter, Price
from agent.context.issue import read_issue
from agent.context.rerank import rerank
from agent.context.search import search
from agent.context.semantic import BATCH, RecordedMeaning, Semantic
from agent.errors import OperatorError, RetryLater
from agent.index.index import Index
from agent.model.embeddings import OpenAIEmbedder
from agent.model.types import Message, Reply
from agent.types import Budget, CallUsage, ModelEndpoint
from tests.support.embeddings import Endpoint, embeddings
from tests.unit.index.helpers import index_of


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with embeddings() as made:
        yield made


def embedder(endpoint: Endpoint) -> OpenAIEmbedder:
    return OpenAIEmbedder(ModelEndpoint(base_url=endpoint.url, api_key="k", model="m"), longest_pause_s=0.01)


def forty(folder: Path) -> Index:
    files = {f"f{i:02}.py": f"def job_{i}(argument):\n    return 'subject number{i}'\n" for i in range(40)}
    files["f01.py"] = "TABLE = {" + "".join(f"'key_{i}': {i},\n" for i in range(8_000)) + "}\n"
    files["f02.py"] = ""
    files["f03.py"] = "LINE = '" + "many words " * 6_000 + "'\n" + "x = 1\n" * 200
    return index_of(folder, files)


def test_one_long_input_costs_nobody_else(tmp_path: Path, endpoint: Endpoint) -> None:
    index = forty(tmp_path)
    semantic = Semantic(embedder(endpoint))
    scores = semantic.scores(index, read_issue("subject number7"))
    sent = {text.split("\n")[0] for text in endpoint.inputs}
    assert sent >= {path for path in index.paths if path != "f02.py"}
    assert "f02.py" not in sent
    assert "" not in endpoint.inputs
    assert not semantic.notes, "no input is so long that the endpoint would have refused it"
    assert endpoint.requests <= 1 + -(-(39 + 16) // BATCH) + 4
    assert index.paths[int(index.corpus.chunk_file[int(np.argmax(scores))])] == "f07.py"
    assert search(index, "key_7999").files[0].path == "f01.py"


def test_refused_inputs_are_found_by_halving_and_cut(tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.limit = 600
    files = {f"f{i:02}.py": f"def job_{i}(): return 1\n" for i in range(40)}
    files["f09.py"] = "def long_one():\n" + "    do_something_here()\n" * 60
    index = index_of(tmp_path, files)
    semantic = Semantic(embedder(endpoint))
    scores = semantic.scores(index, read_issue("job_3"))
    assert np.count_nonzero(scores) >= 1
    assert any("cut" in note for note in semantic.notes)
    assert endpoint.requests < 20


def test_vectors_are_kept(tmp_path: Path, endpoint: Endpoint) -> None:
    for expected in (40, 0):
        before = len(endpoint.inputs)
        semantic = Semantic(embedder(endpoint), tmp_path / "v.sqlite")
        index = index_of(tmp_path / "t", {f"f{i}.py": f"def job_{i}(): return 1\n" for i in range(39)})
        semantic.scores(index, read_issue("job_3"))
        semantic.close()
        assert len(endpoint.inputs) - before == expected


def test_another_dimension_means_all_anew(tmp_path: Path, endpoint: Endpoint) -> None:
    index = index_of(tmp_path / "t", {"a.py": "def alpha(): return 1\n", "b.py": "def beta(): return 2\n"})
    semantic = Semantic(embedder(endpoint), tmp_path / "v.sqlite")
    assert semantic.scores(index, read_issue("alpha")).max() > 0
    endpoint.size = 384
    assert semantic.scores(index, read_issue("beta now")).max() > 0


def test_failures_that_pass_are_retried_and_others_noted(tmp_path: Path, endpoint: Endpoint) -> None:
    index = index_of(tmp_path, {"a.py": "def alpha(): return 1\n"})
    endpoint.failures = [503, 429]
    assert Semantic(embedder(endpoint)).scores(index, read_issue("alpha")).max() > 0
    endpoint.failures = [401]
    semantic = Semantic(embedder(endpoint))
    assert semantic.scores(index, read_issue("alpha")).max() == 0
    assert len(semantic.notes) == 1
    endpoint.failures = [500] * 9
    with pytest.raises(RetryLater):
        embedder(endpoint).embed(["x"])
    endpoint.failures = [403]
    with pytest.raises(OperatorError):
        embedder(endpoint).embed(["x"])


def test_a_damaged_vector_file_is_made_anew(tmp_path: Path, endpoint: Endpoint) -> None:
    (tmp_path / "v.sqlite").write_bytes(b"\xaa" * 4096)
    index = index_of(tmp_path / "t", {"a.py": "def alpha(): return 1\n"})
    assert Semantic(embedder(endpoint), tmp_path / "v.sqlite").scores(index, read_issue("alpha")).max() > 0


def test_meaning_joins_the_other_signals(tmp_path: Path, endpoint: Endpoint) -> None:
    index = forty(tmp_path)
    result = search(index, "subject number7", meaning=Semantic(embedder(endpoint)))
    assert result.files[0].path == "f07.py"
    assert any("meaning" in reason.signal for reason in result.files[0].why)


def test_a_record_answers_as_the_endpoint_did(tmp_path: Path, endpoint: Endpoint) -> None:
    index = forty(tmp_path)
    log: list[dict[str, Any]] = [{"kind": "stage"}]
    live = Semantic(embedder(endpoint), on_scores=lambda chunks, scores: log.append(meaning_event(chunks, scores)))
    issues = [read_issue("subject number7"), read_issue("key_12 of the table")]
    said = [live.scores(index, issue) for issue in issues]
    recorded = RecordedMeaning(json.loads(json.dumps(log)))
    assert all(np.array_equal(recorded.scores(index, issue), was) for issue, was in zip(issues, said, strict=True))
    assert recorded.scores(index, issues[0]).max() == 0, "beyond the record nothing is known"


def test_a_record_of_a_larger_tree_says_nothing(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"a.py": "def alpha(): return 1\n"})
    assert RecordedMeaning([meaning_event([0, 999], [0.9, 0.8])]).scores(index, read_issue("alpha")).max() == 0


def test_a_dead_endpoint_is_asked_once(tmp_path: Path, endpoint: Endpoint) -> None:
    index = index_of(tmp_path, {"a.py": "def alpha(): return 1\n"})
    endpoint.failures = [401]
    semantic = Semantic(embedder(endpoint))
    assert [semantic.scores(index, read_issue("alpha")).max() for _ in range(3)] == [0, 0, 0]
    assert endpoint.requests == 1 and len(semantic.notes) == 1


def test_a_run_pays_for_what_is_embedded(tmp_path: Path, endpoint: Endpoint) -> None:
    index = index_of(tmp_path, {"a.py": "def alpha(): return 1\n"})
    meter = Meter(Budget(dollars=1e-6, tokens=10, steps=1), prices={"m": Price(input=1.0, cached=1.0, output=0.0)})
    address = ModelEndpoint(base_url=endpoint.url, api_key="k", model="m")
    semantic = Semantic(OpenAIEmbedder(address, meter=meter))
    assert semantic.scores(index, read_issue("alpha")).max() == 0, "the first request took all the money there was"
    assert "budget" in semantic.notes[0]
    assert (meter.usage.calls, meter.usage.input_tokens, meter.usage.embedded_tokens) == (0, 0, 1)
    assert meter.usage.dollars == pytest.approx(1e-6)


def meaning_event(chunks: Sequence[int], scores: Sequence[float]) -> dict[str, Any]:
    return {"kind": "meaning", "chunks": list(chunks), "scores": list(scores)}


class Says:
    """A chooser with a fixed answer; keeps what it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.asked.append(messages[0].content)
        return Reply(text=self.text, tool_calls=(), finish="stop", usage=CallUsage(model="m"))


def test_rerank_moves_and_never_adds(tmp_path: Path) -> None:
    index = index_of(tmp_path, {f"f{i}.py": f"def shared_job_{i}(): return 'shared'\n" for i in range(6)})
    result = search(index, "shared job")
    chooser = Says(json.dumps({"order": [3, 99, -1, 3, "x"]}))
    again = rerank(result, index, "shared job", chooser, seed="s")
    assert "cut here" not in chooser.asked[0]
    assert again.files[0] == result.files[3]
    assert sorted(again.files) == sorted(result.files)
    assert sorted(again.functions) == sorted(result.functions)
    by_function = rerank(result, index, "x", Says(json.dumps({"order": [len(result.files) + 2]})), seed="s")
    assert by_function.functions[0] == result.functions[2]
    assert by_function.files[0].path == result.functions[2].path


@pytest.mark.parametrize("answer", ["", "not json", "[" * 100_000, "[]", '{"order": 5}', '{"other": []}', "null"])
def test_a_useless_answer_changes_nothing(tmp_path: Path, answer: str) -> None:
    index = index_of(tmp_path, {"a.py": "def alpha(): return 1\n"})
    result = search(index, "alpha")
    assert rerank(result, index, "alpha", Says(answer), seed="s") == result


def test_rerank_keeps_its_budget(tmp_path: Path) -> None:
    index = index_of(tmp_path, {f"f{i}.py": f"def shared_job_{i}(): return 'shared'\n" for i in range(60)})
    chooser = Says('{"order": []}')
    rerank(search(index, "shared job"), index, "shared job " * 9_000, chooser, seed="s", budget_tokens=900)
    assert len(chooser.asked[0]) < 900 * 8
