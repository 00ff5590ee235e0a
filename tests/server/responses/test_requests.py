"""What clients send that is wrong, or asks for what is not had here: each is a 400 that says
where."""

from __future__ import annotations

from typing import Any

import pytest
from responses_api import CLOCK, Api, output_of, user

pytestmark = pytest.mark.part


IMAGE = {"type": "input_image"}
FILE = {"type": "input_file"}
SEARCH = {"type": "tool_search", "execution": "client"}


def in_namespace(tool: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [{"type": "namespace", "name": "a", "tools": [tool]}]}


@pytest.mark.parametrize(("input", "param"), [
    (5, "input"), ([5], "input[0]"), ([{"content": "x"}], "input[0].role"),
    ([{"role": "tool", "content": "x"}], "input[0].role"),
    ([{"role": "user"}], "input[0].content"), ([user([])], "input[0].content"),
    ([user(["x"])], "input[0].content[0]"),
    ([user([{"text": "x"}])], "input[0].content[0].type"),
    ([user([{"type": "output_text", "text": "x"}])], "input[0].content[0].type"),
    ([user([{"type": "input_audio"}])], "input[0].content[0].type"),
    ([user([{"type": "input_text"}])], "input[0].content[0].text"),
    ([user([{"type": "input_text", "text": 1}])], "input[0].content[0].text"),
    ([user([IMAGE])], "input[0].content[0].image_url"),
    ([user([{**IMAGE, "file_id": "f"}])], "input[0].content[0].file_id"),
    ([user([{**IMAGE, "image_url": "file:///etc/passwd"}])], "input[0].content[0].image_url"),
    ([user([{**IMAGE, "image_url": "data:image/png;base64,%"}])], "input[0].content[0].image_url"),
    ([user([{**IMAGE, "image_url": "data:image/png;base64,"}])], "input[0].content[0].image_url"),
    ([user([{**IMAGE, "image_url": "data:,x"}])], "input[0].content[0].image_url"),
    ([user([{**IMAGE, "image_url": "http://a", "detail": 1}])], "input[0].content[0].detail"),
    ([user([FILE])], "input[0].content[0]"),
    ([user([{**FILE, "file_url": "x"}])], "input[0].content[0].file_url"),
    ([user([{**FILE, "file_data": "%"}])], "input[0].content[0].file_data"),
    ([user([{**FILE, "file_data": "AA==", "file_url": "http://a"}])], "input[0].content[0]"),
    ([user([{**FILE, "file_id": "f"}])], "input[0].content[0].file_id"),
    ([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
     "input[0].content[0].type"),
    ([{"type": "computer_call", "id": "cu"}], "input[0].type"),
    ([{"type": "function_call", "name": "x", "arguments": "{}"}], "input[0].call_id"),
    ([{"type": "function_call", "call_id": "1", "name": "x", "arguments": {}}],
     "input[0].arguments"),
    ([{"type": "function_call_output", "call_id": "1"}], "input[0].output"),
    ([output_of("1", [FILE])], "input[0].output[0]"),
    ([output_of("1")], "input"),
    ([{"type": "reasoning", "summary": [{}]}], "input[0].summary[0].text"),
    ([{"type": "item_reference"}], "input[0].id"),
    ([{"type": "image_generation_call", "result": ""}], "input[0].result"),
    ([{"type": "image_generation_call", "result": "%"}], "input[0].result"),
    (None, "input"), ([], "input"), ("", "input"),
    ([{"role": "user", "content": " \n"}], "input"),
    ([{"type": "reasoning", "summary": []}], "input"),
])  # fmt: skip
def test_what_is_no_input(api: Api, input: Any, param: str) -> None:
    assert api.refused(input)["param"] == param
    assert api.fake.calls == 0


@pytest.mark.parametrize(("more", "param", "code"), [
    ({"background": True}, "background", "unsupported_parameter"),
    ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
    ({"top_logprobs": 1}, "top_logprobs", "unsupported_parameter"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]", "unsupported_parameter"),
    ({"include": [1]}, "include[0]", "invalid_data"),
    ({"include": "x"}, "include", "invalid_data"),
    ({"tools": [{"type": "file_search"}]}, "tools[0].type", "unsupported_parameter"),
    ({"tools": [{"type": "custom"}]}, "tools[0].name", "missing_required_parameter"),
    ({"tools": [{"type": "custom", "name": "x", "format": {"type": "grammar"}}]},
     "tools[0].format.syntax", "missing_required_parameter"),
    (in_namespace(SEARCH), "tools[0].tools[0].type", "unsupported_parameter"),
    (in_namespace({**CLOCK, "parameters": {"type": 1}}), "tools[0].tools[0].parameters",
     "invalid_data"),
    ({"tools": [{"name": "x"}]}, "tools[0].type", "missing_required_parameter"),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "missing_required_parameter"),
    ({"tools": [{**CLOCK, "name": "a b"}]}, "tools[0].name", "invalid_data"),
    ({"tools": [{**CLOCK, "parameters": {"type": 1}}]}, "tools[0].parameters", "invalid_data"),
    ({"tools": [{**CLOCK, "parameters": {"type": "array"}}]}, "tools[0].parameters", "inv"),
    ({"tools": [CLOCK, CLOCK]}, "tools", "invalid_data"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_data"),
    ({"tool_choice": "some"}, "tool_choice", "invalid_data"),
    ({"tool_choice": 1}, "tool_choice", "invalid_data"),
    ({"tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name", "invalid_data"),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice.type", "unsupported_parameter"),
    ({"text": {"format": {}}}, "text.format.type", "missing_required_parameter"),
    ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "invalid_data"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", "miss"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name", "miss"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "invalid_data"),
    ({"max_output_tokens": 0}, "max_output_tokens", "invalid_data"),
    ({"max_output_tokens": True}, "max_output_tokens", "invalid_data"),
    ({"temperature": 3}, "temperature", "invalid_data"),
    ({"temperature": "1"}, "temperature", "invalid_data"),
    ({"metadata": {"a": 1}}, "metadata", "invalid_data"),
    ({"stream": 1}, "stream", "invalid_data"), ({"store": "yes"}, "store", "invalid_data"),
    ({"model": 1}, "model", "invalid_data"),
    ({"conversation": 1}, "conversation", "invalid_data"),
    ({"conversation": {}}, "conversation.id", "missing_required_parameter"),
    ({"conversation": "c", "previous_response_id": "r"}, "conversation", "invalid_data"),
    ({"user": 1}, "user", "invalid_data"),
    ({"service_tier": "x"}, "service_tier", "invalid_data"),
])  # fmt: skip
def test_what_is_refused(api: Api, more: dict[str, Any], param: str, code: str) -> None:
    error = api.refused(**more)
    assert error["param"] == param
    assert error["code"].startswith(code)
    assert error["type"] == "invalid_request_error"
    assert api.fake.calls == 0


def test_what_is_accepted_at_the_value_that_changes_nothing(api: Api) -> None:
    api.response(
        background=False, background_options=None, truncation="disabled", prompt=None,
        top_logprobs=0, context_management=None, max_tool_calls=3, service_tier="flex",
        stream_options={"include_obfuscation": False}, prompt_cache_key="k", safety_identifier="s",
        include=["web_search_call.action.sources"], tool_choice="none", parallel_tool_calls=False,
    )  # fmt: skip


def test_what_is_a_wish_or_unknown_is_left_out_and_named(api: Api) -> None:
    more = {"context_management": [{"type": "compaction"}], "truncation": "auto", "seed": 1}
    for in_pieces in (False, True):
        more |= {"include": ["x"], "max_tool_calls": 3}
        body = {"model": "fake", "input": "hi", "stream": in_pieces, **more}
        reply = api.ask("POST", "/responses", body)
        assert reply.status_code == 200, reply.text
        left_out = reply.headers["x-genai-host-dropped"]
        assert left_out == "context_management, truncation, seed, include, max_tool_calls"
        assert '"truncation":"disabled"' in reply.text
        assert '"max_tool_calls":null' in reply.text
        assert '"max_tool_calls":3' not in reply.text


@pytest.mark.parametrize("id", ["resp_x", "../x", "\0", "a" * 300, "é", ""])
def test_ids_of_nothing(api: Api, id: str) -> None:
    assert api.refused(status=404, previous_response_id=id)["code"] == (
        "previous_response_not_found"
    )
    assert api.refused(status=404, conversation=id)["code"] == "conversation_not_found"


def test_models_of_nothing(api: Api) -> None:
    for model in ("nobody", "", "feature:", "a/b", "\ud800"):
        assert api.refused(status=404, model=model)["code"] == "model_not_found"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a":1e999}']
)
def test_bodies_that_are_no_objects(api: Api, body: bytes) -> None:
    for path in ("/responses", "/responses/input_tokens"):
        assert api.error("POST", path, body, 400)["type"] == "invalid_request_error"


def test_many_items_take_no_longer_than_a_few_each(api: Api) -> None:
    call = {"type": "function_call", "name": "x", "arguments": "{}"}
    pairs = [({**call, "call_id": f"{n}"}, output_of(f"{n}")) for n in range(800)]
    api.response([*(item for pair in pairs for item in pair), user("so")])
