"""Our Anthropic API: what is asked reaches the model, and what it says the client."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic_api import CLOCK, HI, OWN, Api, anthropic_api, assistant, text, user

from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PNG = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"PNG").decode()}


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with anthropic_api(make_host, FakeModel()) as api:
        yield api


def block_of(events: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    return [event for event in events if event.get("index") == index]


def test_a_message(api: Api) -> None:
    api.fake.answer = lambda heard: Completion(
        Message("assistant", "hello"), usage=Usage(9, 3, cached_tokens=2, cache_write_tokens=1)
    )
    whole = api.answered()
    assert (whole["type"], whole["role"], whole["model"]) == ("message", "assistant", "fake")
    assert whole["content"] == [text("hello")]
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("end_turn", None)
    # the specification requires these fields, which are null here
    assert whole["container"] is whole["stop_details"] is None
    assert whole["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 2,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": None,
        "service_tier": None,
        "inference_geo": None,
    }


@pytest.mark.parametrize(
    ("finish", "vendors", "reason"),
    [
        ("stop", "", "end_turn"),
        ("length", "", "max_tokens"),
        ("length", "model_context_window_exceeded", "model_context_window_exceeded"),
        ("content_filter", "SAFETY", "refusal"),
        ("other", "pause_turn", "pause_turn"),
        ("tool_calls", "stop", "tool_use"),
    ],
)
def test_why_it_stopped(api: Api, finish: Any, vendors: str, reason: str) -> None:
    completion = Completion(Message("assistant", "so"), finish, vendor_finish=vendors)
    api.fake.answer = lambda heard: completion
    assert api.answered()["stop_reason"] == reason
    assert api.events()[-2]["delta"]["stop_reason"] == reason


def test_an_end_that_the_api_has_no_word_for_is_an_error(api: Api) -> None:
    """Any of its words would say that the answer is usable."""
    completion = Completion(Message("assistant", "so"), "other", vendor_finish="RECITATION")
    api.fake.answer = lambda heard: completion
    reply = api.sent()
    assert reply.status_code == 502
    assert "RECITATION" in reply.json()["error"]["message"]
    last = api.sent(stream=True).text.rstrip().splitlines()[-1]
    assert "RECITATION" in last
    assert json.loads(last.removeprefix("data: "))["type"] == "error"


@pytest.mark.parametrize(("given", "met"), [(["END"], "END"), (["END", "STOP"], None)])
def test_a_stop_sequence(api: Api, given: list[str], met: str | None) -> None:
    """Which of several it was, no service tells the host."""
    completion = Completion(Message("assistant", "so"), vendor_finish="stop_sequence")
    api.fake.answer = lambda heard: completion
    whole = api.answered(stop_sequences=given)
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", met)


def test_what_was_said_reaches_the_model(api: Api) -> None:
    api.answered(
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "user", "content": [{"type": "image", "source": PNG}]},
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
                {
                    "type": "document",
                    "title": "a",
                    "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                    "cache_control": {"type": "ephemeral"},
                },
            ],
        },
        {"role": "assistant", "content": "I see"},
        HI,
        system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    )
    assert api.fake.prompts[0].messages == (
        Message("system", "be brief"),
        Message("user", "look"),
        Message("user", Image(b"PNG", "image/png")),
        Message("user", [Image(url="https://x/y"), File(b"words", "text/plain", "a")]),
        Message("assistant", "I see"),
        Message("user", "hi"),
    )


def test_tools_are_offered_called_and_answered(api: Api) -> None:
    call = ToolCall("toolu_1", "clock", {"zone": "UTC"})
    api.fake.answer = lambda heard: Completion(
        Message("assistant", [Text("let me see"), call]), "tool_calls"
    )
    whole = api.answered(tools=[CLOCK], tool_choice={"type": "any"})
    assert whole["stop_reason"] == "tool_use"
    assert whole["content"][1] == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "clock",
        "input": {"zone": "UTC"},
        "caller": {"type": "direct"},
    }
    api.fake.answer = lambda heard: "noon"
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "12", "is_error": True}
    api.answered(
        HI,
        {"role": "assistant", "content": whole["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
        tools=[CLOCK],
    )
    assert api.fake.prompts[1].messages[1:] == (
        Message("assistant", [Text("let me see"), call]),
        Message("tool", [ToolResult("toolu_1", "clock", [Text("12")], error=True)]),
        Message("user", "and?"),
    )


def test_signed_thoughts_come_back_as_they_were(api: Api) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    api.fake.answer = lambda heard: Completion(
        Message("assistant", [Reasoning("hm"), VendorPart(OWN, thought), Text("so")])
    )
    whole = api.answered()
    assert whole["content"] == [thought, text("so")]
    api.answered(HI, {"role": "assistant", "content": whole["content"]}, HI)
    assert api.fake.prompts[1].messages[1].content == (
        Reasoning("hm"),
        VendorPart(OWN, thought),
        Text("so"),
    )


def test_thoughts_are_shown_to_who_wants_to_see_them(api: Api) -> None:
    api.fake.answer = lambda heard: Completion(Message("assistant", [Reasoning("hm"), Text("so")]))
    assert [block["type"] for block in api.answered()["content"]] == ["text"]
    shown = api.answered(thinking={"type": "adaptive"})["content"]
    assert [block["type"] for block in shown] == ["thinking", "text"]


def test_a_schema_holds_the_answer(api: Api) -> None:
    api.fake.answer = lambda heard: '{"city": "Paris"}'
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    form = {"type": "json_schema", "schema": schema}
    api.answered(output_config={"format": form})
    api.answered(output_format=form)
    assert [heard.schema for heard in api.fake.prompts] == [schema, schema]


def test_parameters_have_the_hosts_names(api: Api) -> None:
    api.answered(temperature=0.5, top_p=1, stop_sequences=["end"], metadata={"user_id": "me"})
    assert api.fake.prompts[0].parameters == {
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 1,
        "stop": ["end"],
    }


def test_json_out_of_its_fence(api: Api) -> None:
    call = ToolCall("a", "clock")
    api.fake.answer = lambda heard: Completion(
        Message("assistant", ['```json\n{"a": 1}\n```', call])
    )
    form = {"type": "json_schema", "schema": {"type": "object"}}
    content = api.answered(output_config={"format": form})["content"]
    assert content[-1] == text('{"a":1}')
    assert content[0]["type"] == "tool_use"


def test_calls_that_are_no_json_go_there_and_back(api: Api) -> None:
    call = ToolCall("a", "clock", malformed="{oops")
    api.fake.answer = lambda heard: Completion(Message("assistant", [call]), "tool_calls")
    (block,) = api.answered()["content"]
    assert block["input"] == {"INVALID_JSON": "{oops"}
    api.answered(HI, assistant(block), HI)
    assert api.fake.prompts[1].messages[1].content == (call,)


def test_what_its_service_wrote_goes_there_and_back(api: Api) -> None:
    own = [
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    ]
    cited = {"citations": [{"type": "web_search_result_location", "url": "https://x"}]}
    parts = [*(VendorPart(OWN, block) for block in own), VendorPart(OWN, cited), Text("so")]
    others = [
        VendorPart("gemini", {"type": "thinking"}),
        VendorPart(OWN, 3),
        VendorPart(OWN, {"type": 3}),
    ]
    api.fake.answer = lambda heard: Completion(Message("assistant", [*parts, *others]))
    content = api.answered()["content"]
    assert content == [*own, {"type": "text", "text": "so", **cited}]
    api.answered(HI, assistant(*content), HI)
    assert api.fake.prompts[1].messages[1].content == tuple(parts)


def test_documents_in_results_of_tools_come_after_them(api: Api) -> None:
    use = {"type": "tool_use", "id": "a", "name": "clock", "input": {}}
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    paper = {"type": "document", "source": source, "title": "x.pdf"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [paper]}
    api.answered(
        HI,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    )
    assert api.fake.prompts[0].messages[-2:] == (
        Message("tool", [ToolResult("a", "clock", [Text("(the document x.pdf follows)")])]),
        Message("user", [File(b"%PDF", "application/pdf", "x.pdf"), Text("and?")]),
    )


def test_results_of_tools_have_pictures(api: Api) -> None:
    use = {"type": "tool_use", "id": "a", "name": "clock", "input": {}}
    text, image = {"type": "text", "text": "x"}, {"type": "image", "source": PNG}
    api.answered(
        HI,
        assistant(use),
        user(
            {"type": "text", "text": "now"},
            {"type": "tool_result", "tool_use_id": "a", "content": [text, image]},
        ),
    )
    picture = Image(b"PNG", "image/png")
    assert api.fake.prompts[0].messages[2:] == (
        Message("tool", [ToolResult("a", "clock", [Text("x"), picture])]),
        Message("user", "now"),
    )


def test_other_blocks_in_results_become_text(api: Api) -> None:
    """They are in the history of the client, which could not continue otherwise."""
    use = {"type": "tool_use", "id": "a", "name": "clock", "input": {}}
    found = {"type": "search_result", "title": "T", "source": "s", "content": [
        {"type": "text", "text": "x"}]}  # fmt: skip
    other = {"type": "tool_reference", "tool_name": "f"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [found, other]}
    api.answered(HI, assistant(use), user(result))
    said = [Text("T\ns\nx"), Text("(a block of type tool_reference was left out)")]
    assert api.fake.prompts[0].messages[-1] == Message("tool", [ToolResult("a", "clock", said)])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({**PNG, "media_type": "application/pdf"}, File(b"PNG", "application/pdf", "a")),
        (
            {"type": "url", "url": "https://x/a.pdf"},
            File(url="https://x/a.pdf", media_type="application/pdf", name="a"),
        ),
        ({"type": "content", "content": "words"}, File(b"words", "text/plain", "a")),
        (
            {"type": "content", "content": [{"type": "text", "text": each} for each in "ab"]},
            File(b"a\nb", "text/plain", "a"),
        ),
        ({"type": "text", "data": "\ud800"}, File("\ufffd".encode(), "text/plain", "a")),
    ],
)
def test_documents(api: Api, source: Any, expected: File) -> None:
    api.answered(
        user({"type": "document", "title": "a", "source": source, "citations": {"enabled": False}})
    )
    assert api.fake.prompts[0].messages == (Message("user", expected),)


def test_the_system_may_speak_in_between(api: Api) -> None:
    api.answered(HI, {"role": "system", "content": "be brief"}, HI, system="be kind")
    assert [message.role for message in api.fake.prompts[0].messages] == [
        "system",
        "user",
        "system",
        "user",
    ]


def test_an_answer_may_have_said_nothing(api: Api) -> None:
    api.fake.answer = lambda heard: Completion(Message("assistant", []))
    assert api.answered()["content"] == []
    api.answered(HI, assistant(), HI)
    assert api.fake.prompts[1].messages[1] == Message("assistant", [])


def test_a_feature_is_a_model_as_well(api: Api) -> None:
    whole = api.answered(model="feature:chat")
    assert (whole["model"], whole["content"]) == ("feature:chat", [text("hi")])


def test_what_is_a_wish_or_unknown_is_left_out_and_named(api: Api) -> None:
    more: dict[str, Any] = {
        "messages": [user({"type": "text", "text": "hi", "x": 1})],
        "tools": [{**CLOCK, "defer_loading": True, "strict": True}],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"task_budget": {"type": "tokens"}},
        "thinking": {"type": "disabled", "x": 1},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "made_up\r\nname: a": 1,
    }
    for in_pieces in (False, True):
        reply = api.sent(**more, stream=in_pieces)
        assert reply.status_code == 200, reply.text
        assert sorted(reply.headers["x-genai-host-dropped"].split(", ")) == [
            "context_management", "made_up__name__a", "messages[0].content[0].x",
            "output_config.task_budget", "thinking.x",
            "tool_choice.disable_parallel_tool_use", "tools[0].defer_loading",
        ]  # fmt: skip
    assert "x-genai-host-dropped" not in api.sent(metadata={"user_id": "a"}).headers
