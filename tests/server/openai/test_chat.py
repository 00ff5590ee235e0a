"""`/v1/chat/completions`: what is asked reaches the model, and what it says the client."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_suite import ApiSuite, completion_of
from fronts import FRONTS, place
from openai_form import HI, READING, Api, gate_api

from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Reasoning,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from genai_host.config import ServerConfig
from genai_host.errors import IncompleteReply
from genai_host.serving.router import DROPPED
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import FakeService, json_reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PNG = b"\x89PNG\r\n\x1a\n and so on"
PICTURE = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
PDF = f"data:application/pdf;base64,{base64.b64encode(b'%PDF').decode()}"
PAPER = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
USER = Message("user", "hi")
CLOCK = {
    "type": "function", "function": {
        "name": "clock", "description": "what time it is",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}},
}  # fmt: skip


def test_a_completion(api: Api) -> None:
    api.fake.answer = lambda prompt: Completion(
        Message("assistant", "hello"),
        usage=Usage(7, 3, cached_tokens=2, reasoning_tokens=1, cache_write_tokens=4),
    )
    body = api.completed()
    assert (body["object"], body["model"]) == ("chat.completion", "fake")
    assert body["system_fingerprint"] == ""
    [choice] = body["choices"]
    assert choice["finish_reason"] == "stop"
    assert (choice["message"]["role"], choice["message"]["content"]) == ("assistant", "hello")
    usage = body["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (7, 10)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2
    assert usage["prompt_tokens_details"]["cache_write_tokens"] == 4
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 1


def test_a_stream(api: Api) -> None:
    *pieces, last, done = api.events({"role": "user", "content": "a long thing to say"})
    assert done == "[DONE]"
    assert pieces[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)
    assert text == "a long thing to say"
    assert len(pieces) > 2
    assert {piece["id"] for piece in pieces} == {last["id"]}
    assert {piece["system_fingerprint"] for piece in (*pieces, last)} == {""}
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None] * len(pieces)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert "usage" not in last


def test_the_usage_of_a_stream_is_told_where_it_is_asked_for(api: Api) -> None:
    *pieces, usage, done = api.events(stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] >= 0
    assert all(piece["usage"] is None for piece in pieces)


def image(url: str) -> Any:
    return {"type": "image_url", "image_url": {"url": url}}


def result(id: str, content: Any) -> Any:
    return {"role": "tool", "tool_call_id": id, "content": content}


def calls(ids: str, name: str, arguments: Any) -> Any:
    function = {"name": name, "arguments": arguments}
    tool_calls = [{"id": id, "type": "function", "function": function} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


class TestMessages(ApiSuite):
    prompts = {
        "turns": (
            [{"role": "developer", "content": "be brief"},
             {"role": "user", "content": [{"type": "text", "text": "look"}]},
             {"role": "user", "content": [image(PICTURE)]},
             {"role": "user", "content": [{"type": "image_url", "image_url": "https://x/y"}]},
             {"role": "user", "content": [PAPER]},
             {"role": "assistant", "content": "I see", "reasoning_content": "hm"}, HI],
            [Message("system", "be brief"), Message("user", "look"),
             Message("user", Image(PNG, "image/png")), Message("user", Image(url="https://x/y")),
             Message("user", File(b"%PDF", "application/pdf", "a.pdf")),
             Message("assistant", [Reasoning("hm"), "I see"]), USER]),
        "a picture and a document of tools": (
            [HI, calls("12", "look", "{}"), result("1", [{"type": "text", "text": "taken"}, PAPER]),
             result("2", [image(PICTURE)])],
            [USER, Message("assistant", [ToolCall("1", "look"), ToolCall("2", "look")]),
             Message("tool", [ToolResult("1", "look", ["taken", "(the document a.pdf follows)"]),
                              ToolResult("2", "look", Image(PNG, "image/png"))]),
             Message("user", File(b"%PDF", "application/pdf", "a.pdf"))]),
        "arguments that are no JSON": (
            [HI, calls("a", "clock", "{oops"), result("a", "no")],
            [USER, Message("assistant", ToolCall("a", "clock", {}, malformed="{oops")),
             Message("tool", ToolResult("a", "clock", "no"))]),
        **{f"arguments {arguments!r}": (
            [HI, calls("a", "clock", arguments), result("a", "12:00")],
            [USER, Message("assistant", ToolCall("a", "clock", {"zone": "UTC"})),
             Message("tool", ToolResult("a", "clock", "12:00"))])
           for arguments in ('{"zone":"UTC"}', {"zone": "UTC"})},  # some clients send an object
    }  # fmt: skip

    def ask(self, api: Api, *messages: Any, **more: Any) -> Any:
        return api.completed(*messages, **more)


def test_tools_are_offered_and_called(api: Api) -> None:
    call = ToolCall("call_1", "clock", {"zone": "UTC"})
    api.fake.answer = lambda prompt: completion_of("let me see", call, finish="tool_calls")
    [choice] = api.completed(tools=[CLOCK], tool_choice="required")["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "let me see")
    [wire] = choice["message"]["tool_calls"]
    assert wire["id"] == "call_1"
    assert wire["function"] == {"name": "clock", "arguments": '{"zone":"UTC"}'}
    assert api.fake.prompts[0].tools == ("clock",)


@pytest.mark.parametrize("name", ["auto", "none", "required"])
def test_a_tool_that_is_called_as_a_choice_can_be_chosen(api: Api, name: str) -> None:
    other = {"type": "function", "function": {"name": name}}
    api.completed(tools=[CLOCK, other], tool_choice=other)
    assert api.fake.prompts[0].tools == (name,)


def test_calls_of_tools_in_a_stream(api: Api) -> None:
    calls = [ToolCall("a", "clock", {}), ToolCall("b", "clock", {"zone": "UTC"})]
    api.fake.answer = lambda prompt: Completion(Message("assistant", calls), "tool_calls")
    *pieces, last, _ = api.events(tools=[CLOCK])
    streamed_calls = [
        call for piece in pieces for call in piece["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert [(call["index"], call["id"]) for call in streamed_calls] == [(0, "a"), (1, "b")]
    assert streamed_calls[1]["function"]["arguments"] == '{"zone":"UTC"}'
    assert last["choices"][0]["finish_reason"] == "tool_calls"


def test_an_end_that_the_api_has_no_word_for_is_an_error(api: Api) -> None:
    """Any of its words would say that the answer is usable."""
    completion = Completion(Message("assistant", "so"), "other", vendor_finish="RECITATION")
    api.fake.answer = lambda prompt: completion
    reply = api.chat()
    assert reply.status_code == 502
    assert "RECITATION" in reply.json()["error"]["message"]
    assert "RECITATION" in api.events()[-1]["error"]["message"]


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_json_is_asked_for_by_a_schema(api: Api, kind: str) -> None:
    api.fake.answer = lambda prompt: '{"city": "Paris"}'
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    more = {"json_schema": {"name": "city", "schema": schema, "strict": True}}
    form = {"type": kind, **(more if kind == "json_schema" else {})}
    body = api.completed(response_format=form)
    assert body["choices"][0]["message"]["content"] == '{"city": "Paris"}'
    named = {"title": "city", **schema}
    assert api.fake.prompts[0].schema == (named if kind == "json_schema" else {"type": "object"})


def test_parameters_have_the_hosts_names(api: Api) -> None:
    api.completed(temperature=0.5, max_completion_tokens=9, stop="end", seed=3, top_p=1)
    assert api.fake.prompts[0].parameters == {
        "temperature": 0.5, "max_tokens": 9, "stop": ["end"], "seed": 3, "top_p": 1,
    }  # fmt: skip


def test_what_changes_nothing_is_taken(api: Api) -> None:
    api.completed(n=1, user="me", metadata={"a": "b"}, store=False, logprobs=False, tools=None)
    assert api.fake.prompts[0].parameters == {}


def test_what_is_unknown_is_left_out_and_named(api: Api) -> None:
    reply = api.chat(
        nonsense=1, prompt_cache_key="a", temperature=0, top_q=None, reasoning_effort="low"
    )
    assert reply.status_code == 200, reply.text
    assert reply.headers["x-genai-host-dropped"] == "reasoning_effort, nonsense"
    assert api.fake.prompts[0].parameters == {"temperature": 0}
    many = api.chat(**{f"field_{n}": n for n in range(1000)}).headers["x-genai-host-dropped"]
    assert many.count("field_") == 20
    assert many.endswith(", ...")
    feature = api.chat(model="feature:chat", nonsense=1)
    assert feature.headers["x-genai-host-dropped"] == "nonsense"


def test_what_only_the_service_knows_reaches_one_that_speaks_the_format(
    make_host: MakeHost, service: FakeService
) -> None:
    answer = {"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}]}
    more = {
        "top_k": 40, "made_up": {"a": [1]}, "logit_bias": {"7": -100},
        "extra_body": {"x": 1}, "metadata": {"m": "n"}, "service_tier": "auto",
    }  # fmt: skip
    service.replies = [json_reply(answer)]
    with gate_api(make_host, service) as api:
        reply = api.chat(model="gate/m", **more)
        assert reply.status_code == 200, reply.text
        assert "x-genai-host-dropped" not in reply.headers
        wrong = api.refused(model="gate/m", extra_body={"stream": True})
        assert "extra_body cannot set stream" in wrong["message"]
        for name in ("audio", "modalities"):
            wrong = api.refused(model="gate/m", extra_body={name: {"a": 1}})
            assert wrong["param"] == f"extra_body.{name}"
    (received,) = service.requests
    sent = received.json()
    assert (sent["top_k"], sent["made_up"], sent["x"]) == (40, {"a": [1]}, 1)
    assert sent["logit_bias"] == {"7": -100}
    assert sent["metadata"] == {"m": "n"}
    assert not {"extra_body", "service_tier"} & sent.keys()


@pytest.mark.parametrize("parallel", [False, True])
def test_a_model_that_cannot_be_told_how_many_calls_to_make(api: Api, parallel: bool) -> None:
    api.completed(tools=[CLOCK], parallel_tool_calls=parallel)
    assert api.fake.prompts[0].parameters == {}


def test_a_feature_is_a_model_as_well(api: Api) -> None:
    assert api.completed(model="feature:chat")["choices"][0]["message"]["content"] == "hi"


@pytest.mark.parametrize(("more", "param"), [
    ({"messages": []}, "messages"), ({"messages": "hi"}, "messages"),
    ({"messages": [3]}, "messages[0]"),
    ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "tool_call_id": "x"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
     "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [image("file:///x")]}]},
     "messages[0].content[0].image_url.url"),
    ({"n": 2}, "n"), ({"logprobs": True}, "logprobs"), ({"logit_bias": {"7": 1}}, "logit_bias"),
    ({"functions": [{}]}, "functions[0].parameters"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"tools": [{"type": "code_interpreter"}]}, "tools[0].type"),
    ({"tools": [CLOCK, CLOCK]}, "tools"),
    ({"tools": [CLOCK], "tool_choice": {"function": {"name": "other"}}}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"model": ""}, "model"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(api: Api, more: dict[str, Any], param: str) -> None:
    assert api.refused(**more)["param"] == param
    assert not api.fake.calls


def test_a_parameter_that_the_model_has_not_is_refused(api: Api) -> None:
    assert "max_tokens" in api.refused(max_tokens=0)["message"]


def test_a_stream_that_breaks_off_ends_with_an_error_and_is_not_done(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    from genai_host.serving import completion

    iterate = completion.CompletionStream.__iter__

    def cut(self: Any) -> Iterator[Any]:
        yield next(iterate(self))
        raise IncompleteReply("cut")

    monkeypatch.setattr(completion.CompletionStream, "__iter__", cut)
    *_, last = api.events()
    assert last["error"]["code"] == "incomplete_reply"


def test_a_chunk_with_unknown_fields_is_one_event(make_host: MakeHost, tmp_path: Path) -> None:
    """Some services add a field to each chunk."""
    chunk = b'{"choices":[{"index":0,"delta":{"content":"%s"}}],"provider":"p"}'
    steps = [chunk % b"a", chunk % b"b", b'{"choices":[{"index":0,"finish_reason":"stop"}]}']
    with place(make_host, tmp_path, config={"server": READING}) as here:
        here.service.replies = [sse_reply([*steps, b"[DONE]"])]
        reply = here.ask(FRONTS[0], stream=True)
    events = [json.loads(line[6:]) for line in reply.text.split("\n\n")[:-2]]
    pairs = [(each["choices"][0]["delta"].get("content"), each.get("provider")) for each in events]
    assert pairs == [("", None), ("a", "p"), ("b", "p"), (None, None)]


OSLO = {"city": "Oslo", "country": "NO"}
OPTIONS = {
    "search_context_size": "low", "user_location": {"type": "approximate", "approximate": OSLO},
    "new": 1,
}  # fmt: skip
SEARCH = {
    "type": "web_search", "search_context_size": "low",
    "user_location": {"type": "approximate", **OSLO},
}  # fmt: skip
OWN = {
    "type": "function",
    "function": {"name": "web_search", "description": "the client's"},
}
SAID = {"message": {"role": "assistant", "content": "so"}, "finish_reason": "stop"}
ITEM = {"type": "message", "content": [{"type": "output_text", "text": "so"}]}
REPLY = json_reply({"choices": [SAID], "status": "completed", "output": [ITEM]})


@pytest.mark.parametrize(("dialect", "field", "tools", "dropped"), [
    ("openai-chat", OPTIONS, ["web_search"], None),
    ("openai-responses", None, ["web_search", SEARCH], "web_search_options.new"),
])  # fmt: skip
def test_a_service_of_openai_searches(
    make_host: MakeHost, service: FakeService, dialect: str, field: Any, tools: Any, dropped: Any
) -> None:
    service.replies = [REPLY]
    with gate_api(make_host, service, {"server": READING}, settings={"serves": [dialect]}) as api:
        reply = api.chat(model="gate/m", tools=[OWN], web_search_options=OPTIONS)
    assert (reply.status_code, reply.headers.get(DROPPED)) == (200, dropped), reply.text
    sent = service.requests[0].json()
    assert sent.get("web_search_options") == field
    names = [each.get("function", each).get("name", each) for each in sent["tools"]]
    assert names == tools


@pytest.mark.parametrize(("played", "tools", "dropped"), [
    ({}, (), "web_search_options"),
    ({"web_search": "find"}, ("web_search",), "search_context_size user_location new"),
])  # fmt: skip
def test_for_other_services_a_tool_of_the_host_searches(
    make_host: MakeHost, service: FakeService, played: Any, tools: Any, dropped: str
) -> None:
    find = InlinePlugin(tools=[Tool("find", "searches", lambda arguments, context: "cold")])
    config = {"server": ServerConfig(service_tools=played), "models": {"chat": "fake"}}
    with gate_api(make_host, service, config, find=find) as api:
        reply = api.chat(web_search_options=OPTIONS)
        assert reply.status_code == 200, reply.text
        names = reply.headers[DROPPED].replace("web_search_options.", "").split(", ")
        assert names == dropped.split()
        assert [each.tools for each in api.fake.prompts] == [tools]


def test_it_must_be_an_object(make_host: MakeHost, service: FakeService) -> None:
    with gate_api(make_host, service) as api:
        assert api.refused(web_search_options=1)["param"] == "web_search_options"
