"""OpenAI's chat completions and responses, by the suite of API formats."""

from __future__ import annotations

import json
from typing import Any

import genai_wire_openai
import pytest
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host_testing.internal.samples import texts
from genai_host_testing.internal.wires import WEATHER, Wire

pytestmark = pytest.mark.part

PNG = "data:image/png;base64,UE5H"
PDF = "data:application/pdf;base64,UERG"
FUNCTION = {"name": "weather", "arguments": '{"city":"Oslo"}'}
CHAT_CALL = {"id": "call_1", "type": "function", "function": FUNCTION}

OF_STREAMS = {"stream_options": "services refuse it without a stream"}


def chunk(*, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}


class TestOpenAIChat(Wire):
    result_parts = texts  # images follow in a message of the user
    plugin = genai_wire_openai
    dialect = OpenAIChat()
    named_if_whole = OF_STREAMS
    path = "/v1/chat/completions"
    neutral = ("metadata",)
    request = {
        "model": "tested", "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user", "name": "ann", "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": PNG}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}]},
            {"role": "assistant", "content": "so:", "tool_calls": [CHAT_CALL]},
            {
                "role": "tool", "tool_call_id": "call_1",
                "content": [{"type": "text", "text": "3 degrees"}]},
            {"role": "user", "content": "and?"}],
        "tools": [
            {
                "type": "function", "function": {
                    "name": "weather", "description": "of a city", "parameters": WEATHER}}],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {
            "type": "json_schema", "json_schema": {
                "name": "place", "schema": {**WEATHER, "title": "place"}}},
        "metadata": {"team": "a"}, "stream_options": {"include_usage": True},
    }  # fmt: skip
    options = {
        "tool_choice": {"type": "function", "function": {"name": "weather", "new": 1}, "new": 1},
        "response_format": {
            "type": "json_schema", "new": 1, "json_schema": {
                "name": "place", "schema": {**WEATHER, "title": "place"}, "strict": False,
                "new": {"a": 1}}},
        "prediction": {"type": "content", "content": "a"},
    }  # fmt: skip
    settings = {
        "reasoning_effort": "low", "parallel_tool_calls": False, "temperature": 0.5,
        "verbosity": "low", "service_tier": "priority", "seed": 7,
    }  # fmt: skip
    used = {
        "prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1},
    }  # fmt: skip
    reply = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m-1",
        "choices": [
            {
                "index": 0, "message": {
                    "role": "assistant", "content": '{"city": "Oslo"}', "tool_calls": [CHAT_CALL]},
                "finish_reason": "tool_calls"}],
        "usage": used,
    }  # fmt: skip
    stream = [
        chunk(role="assistant", content=""), chunk(content='{"city":'), chunk(content=' "Oslo"}'),
        chunk(tool_calls=[{"index": 0, **CHAT_CALL}]), chunk(finish="tool_calls"),
        {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": used},
        "[DONE]",
    ]  # fmt: skip

    def test_what_changes_an_answer_is_not_left_out_after_a_failover(self) -> None:
        parameters = self.dialect.parameters
        with self.serving(another=True, parameters=parameters, failing=True) as (service, client):
            assert client.dropped(self.path, {**self.request, "logit_bias": {"7": 1}}) is None
            assert not service.bodies
            assert client.dropped(self.path, {**self.request, "logit_bias": {}}) is not None

    def test_a_few_of_many_fields_are_named_after_a_failover(self) -> None:
        parameters = self.dialect.parameters
        many = {f"field_{number}": number for number in range(1000)}
        with self.serving(another=True, parameters=parameters, failing=True) as (_, client):
            named = client.dropped(self.path, {**self.request, **many})
        assert named is not None
        assert (len(named), "..." in named) == (21, True)


class TestOpenAIResponses(Wire):
    tool_name = "x" * 128  # the longest one
    plugin = genai_wire_openai
    dialect = OpenAIResponses()
    named_if_whole = OF_STREAMS
    path = "/v1/responses"
    called = {
        "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "weather",
        "arguments": '{"city":"Oslo"}', "status": "completed",
    }  # fmt: skip
    searched = {
        "id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "Oslo"},
    }  # fmt: skip
    drawn = {
        "id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "iVBORw==",
        "revised_prompt": "Oslo",
    }  # fmt: skip
    computed = {
        "id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": "1",
        "outputs": [{"type": "logs", "logs": "1"}],
    }  # fmt: skip
    ran: tuple[dict[str, Any], ...] = (searched, computed, drawn)
    neutral = ("input.action", "input.outputs")  # named as a whole
    request = {
        "model": "tested", "store": False, "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {
                "role": "user", "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": PDF}]},
            searched, computed,
            {
                "type": "message", "role": "assistant", "phase": "commentary",
                "content": [{"type": "output_text", "text": "so:"}]},
            called,
            {
                "type": "function_call_output", "call_id": "call_1",
                "output": [{"type": "input_text", "text": "3 degrees"}]},
            {"role": "user", "content": "and?"}],
        "tools": [
            {
                "type": "function", "name": "weather", "description": "of a city",
                "parameters": WEATHER, "strict": False}],
        "tool_choice": {"type": "function", "name": "weather"},
        "text": {"format": {"type": "json_schema", "name": "place", "schema": WEATHER}},
        "reasoning": {"effort": "low"}, "stream_options": {"include_obfuscation": False},
    }  # fmt: skip
    options = {
        "reasoning": {"effort": "low", "new": 1},
        "text": {"new": {"a": 1}},
        "tool_choice": {"type": "function", "name": "weather", "new": 1},
        "truncation": "auto",
    }
    settings = {
        "reasoning": {"effort": "low", "summary": "auto"}, "parallel_tool_calls": False,
        "text": {"verbosity": "low"}, "temperature": 0.5,
    }  # fmt: skip
    service_tools = (
        {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}},
        {"type": "web_search_preview_2025_03_11"},
        {"type": "image_generation", "size": "1024x1024"},
    )
    used = {
        "input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1},
    }  # fmt: skip
    cited = {"type": "url_citation", "start_index": 1, "end_index": 5, "url": "https://example.org"}
    text = {"type": "output_text", "text": '{"city": "Oslo"}', "annotations": [cited]}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    reply = {
        "id": "resp_1", "status": "completed", "output": [*ran, item, called], "usage": used,
    }  # fmt: skip
    stream = [
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": searched},
        {"type": "response.output_item.done", "output_index": 1, "item": computed},
        {"type": "response.output_item.done", "output_index": 2, "item": drawn},
        {
            "type": "response.output_text.delta", "output_index": 3, "content_index": 0,
            "delta": '{"city": "Oslo"}'},
        {
            "type": "response.output_text.annotation.added", "output_index": 3, "content_index": 0,
            "annotation_index": 0, "annotation": cited},
        {"type": "response.output_item.done", "output_index": 4, "item": called},
        {"type": "response.completed", "response": reply},
    ]  # fmt: skip
    place = "the host begins and ends responses and items itself"
    lost_in_streams = {
        "response.completed: $": place, "response.created: $": place,
        "response.created: response": place, "response.output_item.done: $": place,
        "response.output_text.annotation.added: $": place, "response.output_text.delta: $": place,
    }  # fmt: skip

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_the_service_ran_reaches_the_client_and_the_next_turn(self, stream: bool) -> None:
        with self.serving() as (service, client):
            answer = client.post(self.path, {**self.request, "stream": stream}).decode()
            data = [line.removeprefix("data: ") for line in answer.split("\n")]
            *events, last = [json.loads(line) for line in data if line.startswith("{")]
            output = last.get("response", last)["output"]
            if stream:
                done = [each for each in events if each["type"] == "response.output_item.done"]
                assert [each["item"] for each in done[:3]] == output[:3]
                kind = "response.output_text.annotation.added"
                [added] = [each for each in events if each["type"] == kind]
                place = {name: added[name] for name in ("output_index", "annotation_index")}
                assert place == {"output_index": 3, "annotation_index": 0}
                assert (added["item_id"], added["annotation"]) == (output[3]["id"], self.cited)
            *ran, message, call = output
            assert ran == [
                {**each, "id": seen["id"]} for each, seen in zip(self.ran, ran, strict=True)
            ]
            assert message["content"][0]["annotations"] == [self.cited]
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "so"}
            before = self.request["input"]
            client.post(self.path, {**self.request, "input": [*before, *output, result]})
            *again, last_message = service.bodies[-1]["input"][len(before) :][:4]
            assert again == ran
            assert last_message["content"][0]["annotations"] == [self.cited]

    def test_what_the_service_ran_last_is_sent_back(self) -> None:
        """A picture may be the whole answer."""
        items = [{"role": "user", "content": "draw"}, self.drawn, {"role": "user", "content": "a"}]
        with self.serving() as (service, client):
            client.post(self.path, {"model": "tested", "store": False, "input": items})
            assert service.bodies[-1]["input"][1] == self.drawn

    def test_what_a_service_ran_is_left_out_for_others_and_named(self) -> None:
        items = [*self.ran, {"role": "user", "content": "and?"}]
        request = {"model": "tested", "store": False, "input": items}
        for failing in (False, True):
            with self.serving(another=True, failing=failing) as (_, client):
                dropped = client.dropped(self.path, request)
            assert dropped is not None
            assert {"input[0].web_search_call", "input[1].code_interpreter_call"} <= dropped
