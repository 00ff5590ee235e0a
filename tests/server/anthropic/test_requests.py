"""The Anthropic API: refused and supported fields of requests."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic_api import CLOCK, Api, assistant, user
from genai_wire_anthropic.server.requests import thinking_in

from genai_host.api import JsonReader
from genai_host.errors import ValidationError

USE = {"type": "tool_use", "id": "a", "name": "clock", "input": {}}
PNG = {"type": "base64", "media_type": "image/png", "data": "UE5H"}
WORDS = {"type": "text", "data": "words"}


def result(*content: Any) -> Any:
    return user({"type": "tool_result", "tool_use_id": "a", "content": list(content)})


@pytest.mark.part
@pytest.mark.parametrize(("more", "place"), [
    ({"messages": []}, "messages"), ({"messages": [3]}, "messages[0]"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role"),
    ({"messages": [user({"type": "search_result"})]}, "messages[0].content[0].type"),
    ({"messages": [user({"type": "image"})]}, "messages[0].content[0].source"),
    ({"messages": [user({"type": "image", "source": {"type": "file", "file_id": "f"}})]},
     "messages[0].content[0].source.type: the Files API is not supported"),
    ({"messages": [user({"type": "image", "source": {"type": "url", "url": "file:///x"}})]},
     "messages[0].content[0].source.url"),
    ({"messages": [user({"type": "image", "source": {**PNG, "data": "!"}})]},
     "messages[0].content[0].source.data"),
    ({"messages": [user({"type": "image", "source": {**PNG, "media_type": "a/b"}})]},
     "messages[0].content[0].source.media_type"),
    ({"messages": [user({"type": "document", "source": WORDS, "context": "c"})]},
     "messages[0].content[0].context"),
    (
        {
            "messages": [
                user({"type": "document", "source": WORDS, "citations": {"enabled": True}})]},
        "messages[0].content[0].citations.enabled"),
    ({"messages": [user({"type": "thinking"})]}, "messages[0].content[0].type"),
    ({"messages": [user(USE)]}, "messages[0].content[0].type"),
    ({"messages": [assistant({"type": "image"})]}, "messages[0].content[0].type"),
    ({"messages": [assistant({"type": "made_up"})]}, "messages[0].content[0].type"),
    ({"messages": [assistant({"type": "container_upload", "file_id": "f"})]},
     "messages[0].content[0].type: unsupported"),
    ({"messages": [assistant({**USE, "id": ""})]}, "messages[0].content[0]"),
    ({"messages": [result()]}, "messages[0].content[0].tool_use_id"),
    ({"messages": [assistant(USE), result({"name": "audio"})]},
     "messages[1].content[0].content[0]"),
    ({"system": [{"type": "image", "source": PNG}]}, "system[0]"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
    ({"tools": [CLOCK, CLOCK]}, "tools"),
    ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
    ({"tools": [{**CLOCK, "allowed_callers": ["code_execution_20260120"]}]},
     "tools[0].allowed_callers"),
    ({"tools": [CLOCK], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
    ({"tools": [CLOCK], "tool_choice": {}}, "tool_choice.type"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"max_tokens": None}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"),
    ({"model": ""}, "model"), ({"mcp_servers": [{}]}, "mcp_servers"),
    ({"container": "c"}, "container"),
    ({"extra_body": {"container": "c"}}, "extra_body"),
    ({"betas": ["files-api-2025-04-14"]}, "betas"),
    ({"cache_control": {"type": "eternal"}}, "cache_control.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"thinking": {"type": "deep"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"stop_sequences": "END"}, "stop_sequences"),
])  # fmt: skip
def test_what_is_wrong_is_said(api: Api, more: dict[str, Any], place: str) -> None:
    assert place in api.refused(**more)
    assert not api.fake.calls


@pytest.mark.part
def test_what_changes_nothing_is_taken(api: Api) -> None:
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    api.answered(
        user({"type": "text", "text": "hi", "citations": None, **cached}),
        system=[{"type": "text", "text": "be kind", **cached}],
        tools=[{**CLOCK, "strict": True, "type": None, "allowed_callers": ["direct"], **cached}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": False},
        metadata={"user_id": "me"}, service_tier="auto", temperature=1,
        thinking={"type": "disabled"}, mcp_servers=[], **cached,
    )  # fmt: skip
    (prompt,) = api.fake.prompts
    assert prompt.parameters == {"max_tokens": 99, "temperature": 1}
    assert prompt.tools == ("clock",)


@pytest.mark.part
def test_parameters_that_the_model_has_besides(api: Api) -> None:
    api.answered(seed=3, presence_penalty=0.5)
    parameters = api.fake.prompts[0].parameters
    assert (parameters["seed"], parameters["presence_penalty"]) == (3, 0.5)


@pytest.mark.parametrize(("choice", "expected"), [
    ({"type": "auto"}, "auto"),
    ({"type": "any"}, "required"),
    ({"type": "none"}, "none"),
    ({"type": "tool", "name": "clock"}, "clock"),
    ({"type": "tool", "name": "none"}, "required"),
])  # fmt: skip
def test_tools_are_chosen(choice: dict[str, Any], expected: str) -> None:
    from genai_wire_anthropic.server.requests import chosen, tools_in

    body = JsonReader({"tools": [CLOCK, {**CLOCK, "name": "none"}], "tool_choice": choice}, "$")
    tools, name, parallel = chosen(body, tools_in(body)[0])
    assert (name, parallel) == (expected, None)
    assert [tool.name for tool in tools] == (
        ["none"] if choice.get("name") == "none" else ["clock", "none"]
    )


EFFORTS = {"reasoning_effort": {"enum": ["none", "low", "high"]}}
ALWAYS = {"reasoning_effort": {"enum": ["low", "high"]}}
BUDGET: dict[str, Any] = {"thinking_budget": {}, "thinking_display": {}}
ENABLED = {"type": "enabled", "budget_tokens": 2048}
LOW = {"effort": "low"}


class TestThinking:
    def read(self, supported: dict[str, Any], **body: Any) -> dict[str, Any]:
        return thinking_in(JsonReader(body, "$"), lambda: supported)

    @pytest.mark.parametrize(("supported", "body", "expected"), [
        (EFFORTS, {}, {}),
        (EFFORTS, {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}),
        (EFFORTS, {"thinking": {"type": "between_tools"}}, {"reasoning_effort": "none"}),
        (EFFORTS, {"thinking": {"type": "adaptive"}}, {"reasoning_effort": "high"}),
        (EFFORTS, {"thinking": {"type": "adaptive"}, "output_config": LOW},
         {"reasoning_effort": "low"}),
        (EFFORTS, {"output_config": LOW}, {"reasoning_effort": "low"}),
        (EFFORTS, {"thinking": ENABLED}, {"reasoning_effort": "high"}),
        (BUDGET, {"thinking": ENABLED}, {"thinking_budget": 2048}),
        (BUDGET, {"thinking": {**ENABLED, "display": "omitted"}},
         {"thinking_budget": 2048, "thinking_display": "omitted"}),
        (BUDGET, {"thinking": {"type": "disabled"}}, {}),
        ({}, {"thinking": {"type": "disabled"}, "output_config": LOW}, {}),
        ({}, {"thinking": {**ENABLED, "block_binding": {}}}, {}),
    ])  # fmt: skip
    def test_as_far_as_a_model_can_be_told(self, supported: Any, body: Any, expected: Any) -> None:
        thinking = self.read(supported, **body)
        assert {name: value for name, value in thinking.items() if value is not None} == expected

    @pytest.mark.parametrize(("supported", "fields", "is_sent"), [
        (EFFORTS, {"type": "adaptive"}, True),
        (EFFORTS, {"type": "disabled", "display": "omitted"}, True),
        (EFFORTS, ENABLED, True), (BUDGET, ENABLED, True), (BUDGET, {"type": "adaptive"}, False),
        (BUDGET, {"type": "disabled"}, False),
        ({**EFFORTS, **BUDGET}, {"type": "adaptive"}, False),
        ({**EFFORTS, **BUDGET}, {"type": "adaptive", "display": "omitted"}, True),
        ({**EFFORTS, **BUDGET}, {"type": "disabled"}, True),
        ({}, ENABLED, False),
    ])  # fmt: skip
    def test_other_fields_are_sent_where_the_object_is(
        self, supported: Any, fields: Any, is_sent: bool
    ) -> None:
        usual = {"budget_tokens": 2048, "block_binding": {"a": 1}}
        body = JsonReader({"thinking": {**usual, **fields, "new": 1}}, "$")
        body.carry("anthropic-messages", lambda: True)
        thinking_in(body, lambda: supported)
        extra = {"anthropic-messages": {"thinking": {"new": 1}}}
        assert body.extra_fields() == (extra if is_sent else None)
        assert body.dropped == ([] if is_sent else ["thinking.new"])

    @pytest.mark.parametrize(("supported", "body", "path"), [
        (ALWAYS, {"thinking": {"type": "disabled"}}, "$.thinking.type"),
        (
            EFFORTS, {"thinking": {"type": "disabled"}, "output_config": LOW},
            "$.output_config.effort"),
        (EFFORTS, {"thinking": {}}, "$.thinking.type"),
        (EFFORTS, {"output_config": {"effort": 3}}, "$.output_config.effort"),
    ])  # fmt: skip
    def test_what_cannot_be(self, supported: Any, body: Any, path: str) -> None:
        with pytest.raises(ValidationError) as caught:
            self.read(supported, **body)
        assert caught.value.path == path
