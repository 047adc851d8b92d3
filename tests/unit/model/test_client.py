"""The real openai client against servers on loopback that misbehave in every known way."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.budget import BudgetReached, Meter
from agent.errors import GraftsmithError, OperatorError
from agent.model import errors
from agent.model.client import RESTARTED, ModelClient, pause
from agent.model.link import CallLimits
from agent.model.types import Finish, Message, Reply, ToolCall
from agent.types import Budget, ModelEndpoint
from tests.support.endpoint import delta, drop, endpoint, error, http, reply, silence, stream, trickle
from tests.unit.model.conftest import FAST, KEY

Make = Callable[..., ModelClient]
ASK = [Message.system("be brief"), Message.user("hello")]
TOOLS = [
    {"type": "function", "function": {"name": "edit", "description": "Edit.", "parameters": {"type": "object"}}},
]


class Log:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, kind: str, **data: Any) -> None:
        self.events.append({"kind": kind, **data})


def ask(make: Make, *answers: Any, **options: Any) -> Reply:
    with endpoint(*answers) as server:
        return make(server.base_url).complete(ASK, **options)


def fails(make: Make, *answers: Any, calls: int, **options: Any) -> GraftsmithError:
    """The error after exactly ``calls`` requests."""
    with endpoint(*answers) as server:
        with pytest.raises(GraftsmithError) as caught:
            make(server.base_url, **options).complete(ASK, tools=TOOLS)
        assert len(server.requests) == calls
    assert KEY not in str(caught.value) and "Bearer" not in str(caught.value)
    return caught.value


# ── what a reply is ──────────────────────────────────────────────────────────────────────────────────────────────


def test_streams_text_with_usage(client_for: Make) -> None:
    shown: list[str] = []
    usage = {"prompt_tokens": 20, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 16}}
    with endpoint(stream(delta(content="Hel"), delta("stop", content="lo"), {"choices": [], "usage": usage})) as server:
        answer = client_for(server.base_url).complete(ASK, on_text=shown.append)
        assert server.bodies[0]["stream_options"] == {"include_usage": True}
        assert server.bodies[0].keys() == {"model", "messages", "stream", "stream_options"}, (
            "nothing that nobody asked for"
        )
    assert (answer.text, answer.finish, shown) == ("Hello", Finish.STOP, ["Hel", "lo"])
    assert (answer.usage.input_tokens, answer.usage.cached_tokens, answer.usage.output_tokens) == (20, 16, 4)
    assert not answer.usage.estimated


@pytest.mark.parametrize("suffix", ["", "/"])
def test_base_url_with_and_without_slash(client_for: Make, suffix: str) -> None:
    with endpoint(reply()) as server:
        client_for(server.base_url + suffix).complete(ASK)
        assert server.requests[0][0].startswith("POST /v1/chat/completions HTTP/1.1")


def test_whole_json_instead_of_a_stream(client_for: Make) -> None:
    assert ask(client_for, reply("hi")).text == "hi"


def test_stream_without_its_content_type(client_for: Make) -> None:
    body = f"data: {json.dumps(delta('stop', content='hi'))}\n\ndata: [DONE]\n\n"
    assert ask(client_for, http(body, kind="text/plain")).text == "hi"


def test_tool_calls_in_pieces(client_for: Make) -> None:
    first = {"index": 0, "id": "a", "type": "function", "function": {"name": "edit", "arguments": '{"path"'}}
    second = {"index": 1, "id": "b", "type": "function", "function": {"name": "edit", "arguments": "{}"}}
    answer = ask(
        client_for,
        stream(
            delta(tool_calls=[first]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": ': "a.py"}'}}]),
            delta(tool_calls=[second]),
            delta("tool_calls"),
        ),
        tools=TOOLS,
    )
    assert answer.finish is Finish.TOOL_CALLS
    assert [(c.id, json.loads(c.arguments)) for c in answer.tool_calls] == [("a", {"path": "a.py"}), ("b", {})]


def test_every_call_numbered_zero(client_for: Make) -> None:
    calls = [{"index": 0, "id": i, "function": {"name": "edit", "arguments": f'{{"n": "{i}"}}'}} for i in "ab"]
    answer = ask(client_for, stream(*(delta(tool_calls=[c]) for c in calls), delta("tool_calls")), tools=TOOLS)
    assert [json.loads(c.arguments)["n"] for c in answer.tool_calls] == ["a", "b"]


def test_calls_without_index(client_for: Make) -> None:
    pieces = [
        {"id": "a", "function": {"name": "edit", "arguments": '{"n":'}},
        {"function": {"arguments": " 1}"}},
        {"id": "b", "function": {"name": "edit", "arguments": '{"n": 2}'}},
    ]
    answer = ask(client_for, stream(*(delta(tool_calls=[p]) for p in pieces), delta("tool_calls")), tools=TOOLS)
    assert [json.loads(c.arguments)["n"] for c in answer.tool_calls] == [1, 2]


def piece(arguments: str, **more: Any) -> dict[str, Any]:
    return {"function": {"arguments": arguments, **({"name": "edit"} if more.pop("named", False) else {})}, **more}


@pytest.mark.parametrize(
    "pieces",
    [
        [piece('{"n":', index=0, id="a", named=True), piece(" 1}", index=0, id="a", named=True)],
        [piece('{"n":', index=0, id="a", named=True), piece(" 1}", index=0, id="b")],
        [piece('{"n":', index=0, named=True), piece(" 1}", index=0, named=True)],
        [piece('{"n":', index=0, named=True), piece(" 1}", index=0, id="a", named=True)],
        [piece('{"n":', index=0, id="a", named=True), piece(" 1}", index=0, named=True)],
        [piece('{"n":', index="0", id="a", named=True), piece(" 1}", index="0")],
    ],
    ids=["repeated", "a new id each", "no id", "a late id", "an id once", "a number as text"],
)
def test_pieces_that_are_one_call(client_for: Make, pieces: list[dict[str, Any]]) -> None:
    answer = ask(client_for, stream(*(delta(tool_calls=[p]) for p in pieces), delta("tool_calls")), tools=TOOLS)
    assert [(c.name, json.loads(c.arguments)) for c in answer.tool_calls] == [("edit", {"n": 1})]


@pytest.mark.parametrize("ids", [["x", "x"], ["", ""], [None, None], ["old", "old"]])
def test_call_ids_become_unique(client_for: Make, ids: list[str | None]) -> None:
    calls = [{"id": i, "type": "function", "function": {"name": "edit", "arguments": "{}"}} for i in ids]
    history = [*ASK, Message.assistant("", [ToolCall(id="old", name="edit", arguments="{}")])]
    with endpoint(reply(None, finish="tool_calls", tool_calls=calls)) as server:
        answer = client_for(server.base_url).complete(history, tools=TOOLS)
    got = [call.id for call in answer.tool_calls]
    assert len(set(got)) == 2 and "" not in got and "old" not in got


def test_legacy_function_call(client_for: Make) -> None:
    answer = ask(
        client_for,
        stream(
            delta(function_call={"name": "edit", "arguments": '{"a"'}),
            delta("function_call", function_call={"arguments": ": 1}"}),
        ),
        tools=TOOLS,
    )
    assert [(c.name, json.loads(c.arguments)) for c in answer.tool_calls] == [("edit", {"a": 1})]


def test_arguments_as_an_object(client_for: Make) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "edit", "arguments": {"a": [1]}}}
    answer = ask(client_for, reply(None, finish="tool_calls", tool_calls=[call]), tools=TOOLS)
    assert json.loads(answer.tool_calls[0].arguments) == {"a": [1]}


def test_tool_calls_that_finish_with_stop(client_for: Make) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "edit", "arguments": "{}"}}
    assert ask(client_for, reply(None, tool_calls=[call]), tools=TOOLS).finish is Finish.TOOL_CALLS


def test_only_the_first_of_several_choices_counts(client_for: Make) -> None:
    choices = [{"index": i, "message": {"content": t}, "finish_reason": "stop"} for i, t in ((1, "b"), (0, "a"))]
    assert ask(client_for, http(json.dumps({"choices": choices}))).text == "a"


def test_null_content(client_for: Make) -> None:
    answer = ask(client_for, reply(None))
    assert answer.text == "" and answer.as_message().content


def test_content_in_parts(client_for: Make) -> None:
    parts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    with endpoint(http(json.dumps({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}))) as server:
        assert client_for(server.base_url).complete(ASK).text == "ab"


def test_halves_of_a_character_in_two_chunks(client_for: Make) -> None:
    answer = ask(client_for, stream(delta(content="\ud83d"), delta("stop", content="\ude00 ok \ud83d")))
    assert answer.text == "\U0001f600 ok \ufffd"


@pytest.mark.parametrize(
    "chunks",
    [[delta(content="so"), delta(content="me")], [delta("stop", content="so"), delta(content="me")]],
    ids=["the end mark alone", "a finish reason before the last piece"],
)
def test_ends_that_are_told_in_other_ways(client_for: Make, chunks: list[dict[str, Any]]) -> None:
    answer = ask(client_for, stream(*chunks))
    assert (answer.text, answer.finish) == ("some", Finish.STOP)


# ── cut, withheld, reasoning ─────────────────────────────────────────────────────────────────────────────────────

CUT = '{"path":"a.py","search":"x = 1","repl'


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop", "max_tokens"])
def test_a_cut_call_is_never_usable(client_for: Make, finish: str) -> None:
    whole = {"id": "a", "type": "function", "function": {"name": "edit", "arguments": '{"path": "b.py"}'}}
    cut = {"id": "b", "type": "function", "function": {"name": "edit", "arguments": CUT}}
    answer = ask(client_for, reply(None, finish=finish, tool_calls=[whole, cut]), tools=TOOLS)
    assert (answer.finish, answer.tool_calls, answer.whole) == (Finish.LENGTH, (), False)


def test_a_whole_call_in_a_reply_that_says_it_was_cut(client_for: Make) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "edit", "arguments": "{}"}}
    assert ask(client_for, reply(None, finish="length", tool_calls=[call]), tools=TOOLS).tool_calls == ()


def test_filtered_and_refused(client_for: Make) -> None:
    assert ask(client_for, reply("so far", finish="content_filter")).finish is Finish.CONTENT_FILTER
    refused = ask(client_for, reply(None, refusal="I can't help"))
    assert (refused.finish, refused.refusal, refused.whole) == (Finish.REFUSAL, "I can't help", False)
    assert ask(client_for, reply("no", finish="refusal")).finish is Finish.REFUSAL


def test_reasoning_never_reaches_the_text(client_for: Make) -> None:
    shown: list[str] = []
    chunks = [delta(reasoning_content="hidden one"), delta(content="<thi"), delta(content="nk>hidden two</th")]
    chunks += [delta(content="ink>\n\nvisi"), delta("stop", content="ble")]
    answer = ask(client_for, stream(*chunks), on_text=shown.append)
    assert answer.text == "visible" and "".join(shown) == "visible"


# ── usage ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("usage", ["none", None, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": "?"}])
def test_missing_usage_is_estimated_and_ends_the_budget(client_for: Make, usage: Any) -> None:
    meter = Meter(Budget(tokens=3000), prices={})
    with endpoint(reply("word " * 820, usage=usage)) as server:
        client = client_for(server.base_url, meter=meter)
        with pytest.raises(BudgetReached):
            for _ in range(20):
                client.complete(ASK)
        assert 3 <= len(server.requests) <= 5
    assert meter.usage.estimated and meter.usage.dollars is None
    assert 2400 < meter.usage.output_tokens < 6000
    assert meter.usage.input_tokens > 3 * meter.usage.calls


@pytest.mark.parametrize(
    ("usage", "counts", "estimated"),
    [
        ({"input_tokens": 20, "output_tokens": 4, "cache_read_input_tokens": 16}, (20, 16, 4), False),
        ({"prompt_tokens": 20, "completion_tokens": 4, "prompt_cache_hit_tokens": 99}, (20, 20, 4), False),
        ({"prompt_tokens": 20.0, "completion_tokens": 4}, (20, 0, 4), False),
        ({"prompt_tokens": 20}, (20, 0, 1), True),
        ({"completion_tokens": 4}, (11, 0, 4), True),
        ({"prompt_tokens": True, "completion_tokens": -4}, (11, 0, 1), True),
        ({"prompt_tokens": 1e15, "completion_tokens": float("nan")}, (11, 0, 1), True),
    ],
)
def test_counts_under_other_names_and_counts_that_are_none(
    client_for: Make, usage: dict[str, Any], counts: tuple[int, int, int], estimated: bool
) -> None:
    took = ask(client_for, reply("done", usage=usage)).usage
    assert ((took.input_tokens, took.cached_tokens, took.output_tokens), took.estimated) == (counts, estimated)


def test_a_reply_of_nothing_costs_nothing_more(client_for: Make) -> None:
    assert not ask(client_for, reply("", usage={"prompt_tokens": 7, "completion_tokens": 0})).usage.estimated


def test_reasoning_is_counted_where_the_endpoint_counts_nothing(client_for: Make) -> None:
    answer = ask(client_for, stream(delta(reasoning_content="many words " * 100), delta("stop", content="so")))
    assert answer.usage.estimated and answer.usage.output_tokens > 100


def test_budget_is_checked_before_the_call(client_for: Make) -> None:
    with endpoint(reply()) as server:
        with pytest.raises(BudgetReached):
            client_for(server.base_url, meter=Meter(Budget(tokens=5), prices={})).complete(ASK)
        assert server.requests == []


# ── failures and retries ─────────────────────────────────────────────────────────────────────────────────────────

EMPTY = http(json.dumps({"id": "x", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}))


def test_no_choices_once_then_a_reply(client_for: Make) -> None:
    with endpoint(EMPTY, reply("ok")) as server:
        assert client_for(server.base_url).complete(ASK).text == "ok"
        assert len(server.requests) == 2


def test_no_choices_for_ever(client_for: Make) -> None:
    failure = fails(client_for, EMPTY, calls=3)
    assert isinstance(failure, errors.EmptyReply) and "the model returned no choices" in str(failure)


def test_gateway_pages_then_a_reply(client_for: Make) -> None:
    log = Log()
    page = "<html><head><style>p{}</style></head><body>Just a moment…</body></html>"
    answers = [http("<h1>Bad gateway</h1>", 502, "text/html"), http(page, kind="text/html"), drop, reply("ok")]
    with endpoint(*answers) as server:
        assert client_for(server.base_url, events=log).complete(ASK).text == "ok"
        assert len(server.requests) == 4
    first, second, third = log.events[0]["attempts"]
    assert "HTTP 502: Bad gateway" in first and "HTTP 200: Just a moment" in second and "can't be reached" in third
    assert KEY not in json.dumps(log.events)


def test_an_empty_body_is_told_as_one(client_for: Make) -> None:
    assert "HTTP 200: an empty body. " in str(fails(client_for, http(""), calls=4))


def test_a_refused_key_is_not_repeated(client_for: Make) -> None:
    failure = fails(client_for, error(401, f"Incorrect API key provided: {KEY}"), calls=1)
    assert isinstance(failure, errors.KeyRefused) and "HTTP 401" in str(failure) and "[redacted]" in str(failure)


@pytest.mark.parametrize(
    ("answer", "expected", "calls"),
    [
        (error(403, "spent", code="budget_reached"), errors.BudgetReached, 1),
        (error(402, "pay"), errors.QuotaExhausted, 1),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), errors.QuotaExhausted, 1),
        (error(429, "slow down"), errors.RateLimited, 6),
        (error(500, "oops"), errors.Overloaded, 5),
        (error(529, "busy", type="overloaded_error"), errors.Overloaded, 5),
        (error(404, "The model `m` does not exist", code="model_not_found"), errors.ModelMissing, 1),
        (error(400, "This model's maximum context length is 8192 tokens"), errors.ContextTooLong, 1),
        (error(400, "blocked", code="content_filter"), errors.ContentRefused, 1),
        (error(400, "bad temperature"), errors.RequestRefused, 1),
        (error(501, "overloaded, try again, rate limit"), errors.RequestRefused, 1),
        (http("", 302, location="http://127.0.0.1:9/elsewhere"), errors.RequestRefused, 1),
        (http("{", kind="application/json"), errors.MalformedReply, 4),
        (http(json.dumps({"error": {"message": "busy", "code": 429}})), errors.RateLimited, 6),
        (http(json.dumps({"error": {"message": "x", "type": "invalid_request_error"}})), errors.RequestRefused, 1),
        (stream({"error": {"message": "upstream died", "type": "server_error"}}), errors.Overloaded, 5),
        (stream(delta(content="half"), done=False), errors.StreamBroken, 4),
        (stream("{not json", done=False), errors.MalformedReply, 4),
    ],
)
def test_each_failure_has_its_class_and_number_of_tries(
    client_for: Make, answer: Any, expected: Any, calls: int
) -> None:
    assert type(fails(client_for, answer, calls=calls)) is expected


def test_nobody_listens(client_for: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(errors.Unreachable, match="can't be reached"):
            client_for(f"http://127.0.0.1:{taken.getsockname()[1]}/v1").complete(ASK)


def test_a_stream_that_breaks_is_told_and_repeated(client_for: Make) -> None:
    shown: list[str] = []
    answers = [stream(delta(content="half"), done=False), stream(delta("stop", content="whole"))]
    assert ask(client_for, *answers, on_text=shown.append).text == "whole"
    assert shown == ["half", RESTARTED, "whole"]


def test_a_stream_that_breaks_is_charged(client_for: Make) -> None:
    meter = Meter(Budget(), prices={})
    with endpoint(stream(delta(content="many words " * 50), done=False), reply("ok")) as server:
        client_for(server.base_url, meter=meter).complete(ASK)
    assert meter.usage.calls == 2 and meter.usage.output_tokens > 100 and meter.usage.estimated


def test_a_call_that_fails_for_good_is_charged_and_told(client_for: Make) -> None:
    meter, log = Meter(Budget(), prices={}), Log()
    fails(client_for, stream(delta(content="many words " * 50), done=False), calls=4, meter=meter, events=log)
    assert meter.usage.calls == 4 and meter.usage.output_tokens > 400
    (event,) = log.events
    assert event["error"]["class"] == "StreamBroken" and len(event["attempts"]) == 4


def test_a_stream_that_breaks_after_its_finish_is_whole(client_for: Make) -> None:
    data = f"data: {json.dumps(delta('stop', content='whole'))}\n\n"
    cut = http(data + "x" * 50, kind="text/event-stream")[:-50]
    assert ask(client_for, cut).text == "whole"


def test_silence_is_a_timeout(client_for: Make) -> None:
    quick = CallLimits(pause_s=0.01, read_s=0.5, total_s=60)
    assert isinstance(fails(client_for, silence, calls=3, limits=quick), errors.TimedOut)


def test_a_trickle_ends_at_the_deadline(client_for: Make) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    drip = trickle(head, f"data: {json.dumps(delta(content='x'))}\n\n".encode())
    quick = CallLimits(pause_s=0.01, read_s=20, total_s=2)
    assert isinstance(fails(client_for, drip, calls=1, limits=quick), errors.TimedOut)


def test_the_minutes_of_the_budget_are_a_deadline_too(client_for: Make) -> None:
    meter = Meter(Budget(minutes=2.0 / 60), prices={})
    assert isinstance(fails(client_for, silence, calls=1, meter=meter), BudgetReached)


def test_a_huge_reply_is_refused(client_for: Make) -> None:
    small = CallLimits(pause_s=0.01, reply_bytes=2000)
    assert isinstance(fails(client_for, reply("x" * 3000), calls=4, limits=small), errors.MalformedReply)


def test_pauses_grow_with_jitter_and_keep_to_what_was_asked() -> None:
    limits = CallLimits(pause_s=1, longest_pause_s=10)
    limited, plain = errors.RateLimited("slow", after_s=7), errors.Overloaded("busy")
    assert [pause(plain, n, limits, 0.0) for n in (1, 2, 3, 9)] == [1, 2, 4, 10]
    assert pause(plain, 3, limits, 1.0) == 2
    assert pause(limited, 1, limits, 0.5) == 7
    assert pause(limited, 9, limits, 0.0) == 10


def test_a_wait_beyond_the_deadline_is_not_begun(client_for: Make) -> None:
    failure = fails(client_for, http('{"error": "busy"}', 429, retry_after="600"), calls=1)
    assert isinstance(failure, errors.RateLimited) and failure.after_s == 600


@pytest.mark.parametrize("answer", [silence, http("", 503, retry_after="9")])
def test_cancelled_while_waiting(client_for: Make, answer: Any) -> None:
    stopped = threading.Event()
    threading.Timer(0.2, stopped.set).start()
    with endpoint(answer) as server, pytest.raises(errors.CallCancelled):
        client_for(server.base_url, cancelled=stopped.is_set).complete(ASK)


def test_the_second_model_takes_over_and_stays(client_for: Make) -> None:
    log = Log()
    with endpoint(error(404, "no such model")) as first, endpoint(reply("ok")) as second:
        spare = ModelEndpoint(base_url=second.base_url, api_key=KEY, model="spare")
        client = client_for(first.base_url, fallback=spare, events=log)
        assert [client.complete(ASK).usage.model for _ in range(2)] == ["spare", "spare"]
        assert (len(first.requests), len(second.requests)) == (1, 2)
    assert [event["model"] for event in log.events] == ["spare", "spare"]
    assert "no such model" in log.events[0]["attempts"][0]


def test_errors_that_no_second_model_mends(client_for: Make) -> None:
    with endpoint(reply("ok")) as second:
        spare = ModelEndpoint(base_url=second.base_url, api_key=KEY, model="spare")
        fails(client_for, error(401, "no"), calls=1, fallback=spare)
        assert second.requests == []


@pytest.mark.parametrize("address", ["", "api.example.org/v1", "file:///etc/passwd", "ftp://x/v1", "http://"])
def test_an_address_that_is_none(client_for: Make, address: str) -> None:
    with pytest.raises(OperatorError, match="no web address"):
        client_for(address)


@pytest.mark.parametrize("key", ["sk-ключ-abcdef", "sk-abc\ndef"])
def test_a_key_that_cant_be_sent_is_not_shown(key: str) -> None:
    with pytest.raises(OperatorError, match="key can't be sent") as caught:
        ModelClient(ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key=key, model="m"), limits=FAST)
    assert key not in str(caught.value)


# ── what an endpoint refuses ─────────────────────────────────────────────────────────────────────────────────────


def test_stream_options_are_dropped_once_and_remembered(client_for: Make) -> None:
    refusal = error(400, "Unrecognized request argument supplied: stream_options")
    with endpoint(refusal, reply("a"), reply("b")) as server:
        client = client_for(server.base_url)
        assert [client.complete(ASK).text, client.complete(ASK).text] == ["a", "b"]
        assert ["stream_options" in body for body in server.bodies] == [True, False, False]
        assert all(body["stream"] for body in server.bodies)


FENCED = 'Here is the plan:\n```json\n{"plan":["edit a.py"],"note":"use ``` in docs"}\n```\nLet me know.'


def test_response_format_is_dropped_once_and_the_schema_put_in_words(client_for: Make) -> None:
    with endpoint(error(400, "response_format type is unavailable"), reply(FENCED), reply(FENCED)) as server:
        client = client_for(server.base_url)
        for _ in range(2):
            answer = client.complete(ASK, schema={"type": "object", "title": "Wanted"})
            assert "use ``` in docs" in answer.text
        assert ["response_format" in body for body in server.bodies] == [True, False, False]
        assert all("Wanted" in body["messages"][-1]["content"] for body in server.bodies[1:])


ACTIONS = 'Sure: {"actions": [{"tool": "edit", "arguments": {"path": "a.py"}}, {"tool": "edit"}]}'


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "m does not support tools"),
        error(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        error(500, "tools param requires --jinja flag"),
        error(404, "No endpoints found that support tool use"),
        error(422, "Extra inputs are not permitted", param="tools"),
    ],
)
def test_tools_are_replaced_by_actions_in_json(client_for: Make, refusal: bytes) -> None:
    with endpoint(refusal, reply(ACTIONS), reply("all done")) as server:
        client = client_for(server.base_url)
        first = client.complete(ASK, tools=TOOLS)
        assert [(c.name, json.loads(c.arguments)) for c in first.tool_calls] == [
            ("edit", {"path": "a.py"}),
            ("edit", {}),
        ]
        history = [*ASK, first.as_message(), *(Message.tool(c, f"result {i}") for i, c in enumerate(first.tool_calls))]
        assert client.complete(history, tools=TOOLS).tool_calls == ()
        _, second, third = server.bodies
    assert "tools" not in second and "tools" not in third
    assert '"name":"edit"' in second["messages"][0]["content"]
    assert third["messages"][:2] == second["messages"], "the prefix stays the same for the provider's cache"
    assert [m["role"] for m in third["messages"]] == ["system", "user", "assistant", "user"]
    assert "result 0" in third["messages"][-1]["content"] and "result 1" in third["messages"][-1]["content"]


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_actions_that_were_cut_are_not_carried_out(client_for: Make, finish: str) -> None:
    cut = '{"actions": [{"tool": "edit", "arguments": {"path": "a.py"}}, {"tool": "edit", "argum'
    answer = ask(client_for, error(400, "tools are not supported"), reply(cut, finish=finish), tools=TOOLS)
    assert (answer.finish, answer.tool_calls) == (Finish.LENGTH, ())


def test_actions_inside_reasoning_are_not_carried_out(client_for: Make) -> None:
    text = f"<think>maybe {ACTIONS}</think>Nothing to do."
    answer = ask(client_for, error(400, "tools are not supported"), reply(text), tools=TOOLS)
    assert (answer.text, answer.tool_calls) == ("Nothing to do.", ())


def test_calls_written_into_the_text_are_taken_when_they_name_our_tools(client_for: Make) -> None:
    text = '<tool_call>\n{"name": "edit", "arguments": {"path": "a.py"}}\n</tool_call>'
    assert [call.name for call in ask(client_for, reply(text), tools=TOOLS).tool_calls] == ["edit"]
    assert ask(client_for, reply('{"name": "other", "arguments": {}}'), tools=TOOLS).tool_calls == ()
    assert ask(client_for, reply(text), tools=TOOLS, schema={"type": "object"}).tool_calls == ()


def test_an_endpoint_that_drops_tools_silently_is_found_out(client_for: Make) -> None:
    with endpoint(reply("hm"), reply("hm"), reply(ACTIONS)) as server:
        client = client_for(server.base_url)
        assert [len(client.complete(ASK, tools=TOOLS).tool_calls) for _ in range(3)] == [0, 0, 2]
        assert ["tools" in body for body in server.bodies] == [True, True, False]


def test_replies_that_were_asked_for_in_json_say_nothing_of_tools(client_for: Make) -> None:
    with endpoint(reply("{}")) as server:
        client = client_for(server.base_url)
        for _ in range(4):
            client.complete(ASK, tools=TOOLS, schema={"type": "object"})
        assert all("tools" in body for body in server.bodies)


def test_an_endpoint_that_has_called_a_tool_keeps_them(client_for: Make) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "edit", "arguments": "{}"}}
    with endpoint(reply(None, tool_calls=[call]), reply("hm")) as server:
        client = client_for(server.base_url)
        for _ in range(5):
            client.complete(ASK, tools=TOOLS)
        assert all("tools" in body for body in server.bodies)


def test_the_newer_name_of_the_output_limit(client_for: Make) -> None:
    refusal = error(
        400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens"
    )
    with endpoint(refusal, reply()) as server:
        client = client_for(server.base_url)
        client.complete(ASK, max_output_tokens=7)
        client.complete(ASK, max_output_tokens=7)
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 7, 7]


def test_a_server_that_can_t_stream(client_for: Make) -> None:
    with endpoint(error(400, "streaming is not supported"), reply("ok")) as server:
        assert client_for(server.base_url).complete(ASK).text == "ok"
        assert "stream" not in server.bodies[1]


def test_a_wrong_conversation_is_no_refusal_of_tools(client_for: Make) -> None:
    text = "An assistant message with 'tool_calls' must be followed by tool messages; unknown tool_call_id"
    failure = fails(client_for, error(400, text, param="messages.[3].role"), calls=1)
    assert isinstance(failure, errors.RequestRefused)


@pytest.mark.parametrize("arguments", ["{'path': 1", "[1]", "5", "[" * 100_000])
def test_history_with_unreadable_arguments_is_sent_as_an_object(client_for: Make, arguments: str) -> None:
    call = ToolCall(id="a", name="edit", arguments=arguments)
    with endpoint(reply()) as server:
        client_for(server.base_url).complete(
            [*ASK, Message.assistant("", [call]), Message.tool(call, "no")], tools=TOOLS
        )
        called, answered = server.bodies[0]["messages"][2:]
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"unreadable": arguments}
    assert called["content"] is None and answered["tool_call_id"] == "a"


def test_text_that_is_no_unicode_is_sent_all_the_same(client_for: Make) -> None:
    with endpoint(reply()) as server:
        client_for(server.base_url).complete([Message.user("caf\udce9 \ud83d\ude00")])
        assert server.bodies[0]["messages"][0]["content"] == "caf\ufffd \U0001f600"
