"""Tools in all forms that clients send, such as Codex: for the model, each is a function.

Source: recorded requests of Codex 0.169.0.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_openai.dialect.responses import OpenAIResponses
from genai_wire_openai.responses.fields import Fields
from genai_wire_openai.responses.tools import read_tools
from responses_api import CLOCK, Api, output_of, user

from genai_host.api import ChatCall, Completion, Message, Part, ToolCall, ToolSchema, VendorPart
from genai_host.errors import ValidationError

pytestmark = pytest.mark.part

PATCH: dict[str, Any] = {
    "type": "custom", "name": "apply_patch", "description": "edits files",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
}  # fmt: skip
SPAWN = {"type": "function", "name": "spawn", "description": "starts an agent", "parameters": {}}
AGENTS = {"type": "namespace", "name": "agents", "description": "many agents", "tools": [SPAWN]}
SEARCH = {
    "type": "tool_search", "execution": "client", "description": "finds tools",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}  # fmt: skip
ADDED = {"type": "additional_tools", "role": "developer", "tools": [AGENTS]}
WEB_SEARCH = "web_search_2025_08_26"
CHOSEN = {"type": WEB_SEARCH}
PREVIEW = "web_search_preview_2025_03_11"

FORMS: dict[str, tuple[dict[str, Any], ToolCall, dict[str, Any]]] = {
    "custom": (
        PATCH, ToolCall("c1", "apply_patch", {"input": "*** é"}),
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** é"}),
    "custom, without JSON": (
        PATCH, ToolCall("c1", "apply_patch", malformed="*** {"),
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** {"}),
    "custom, with other arguments": (
        PATCH, ToolCall("c1", "apply_patch", {"patch": 1}),
        {"type": "custom_tool_call", "name": "apply_patch", "input": '{"patch":1}'}),
    "namespace": (
        AGENTS, ToolCall("c1", "agents__spawn", {"n": 1}),
        {"type": "function_call", "namespace": "agents", "name": "spawn", "arguments": '{"n":1}'}),
    "custom in a namespace": (
        {**AGENTS, "tools": [PATCH]}, ToolCall("c1", "agents__apply_patch", {"input": "x"}),
        {"type": "custom_tool_call", "namespace": "agents", "name": "apply_patch", "input": "x"}),
    "tool_search": (
        SEARCH, ToolCall("c1", "tool_search", {"query": "agents"}),
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "agents"}}),
}  # fmt: skip


def answers(api: Api, *parts: str | Part) -> None:
    """The model answers with these parts, then with a text."""

    def answer(prompt: Any) -> str | Completion:
        if any(message.role == "tool" for message in prompt.messages):
            return "done"
        return Completion(Message("assistant", list(parts)), "tool_calls")

    api.fake.answer = answer


def result_of(item: dict[str, Any]) -> dict[str, Any]:
    """The item with which a client answers a call."""
    if item["type"] == "tool_search_call":
        return {"type": "tool_search_output", "call_id": item["call_id"], "tools": [AGENTS]}
    return {**output_of(item["call_id"], "ok"), "type": f"{item['type']}_output"}


in_each_form = pytest.mark.parametrize(("tool", "call", "expected"), FORMS.values(), ids=FORMS)


@in_each_form
def test_a_call_is_in_the_form_of_its_tool(
    api: Api, tool: dict[str, Any], call: ToolCall, expected: dict[str, Any]
) -> None:
    answers(api, call)
    response = api.response(tools=[tool])
    (item,) = response["output"]
    assert {name: item[name] for name in expected} == expected
    assert (item["call_id"], item["status"]) == ("c1", "completed")
    assert {name: response["tools"][0][name] for name in tool if name != "tools"} == {
        name: value for name, value in tool.items() if name != "tools"
    }
    # the client sends all items again
    again = api.response([user("hi"), item, result_of(item)], tools=[tool])
    assert again["output"][0]["content"][0]["text"] == "done"
    _, called, result = api.fake.prompts[-1].messages
    (sent,) = called.tool_calls
    assert (sent.id, sent.name) == (call.id, call.name)
    assert result.content[0].name == call.name  # type: ignore[attr-defined]  # a tool result


@in_each_form
def test_a_stream(api: Api, tool: dict[str, Any], call: ToolCall, expected: dict[str, Any]) -> None:
    answers(api, call)
    events = api.events(tools=[tool])
    by_type = {event["type"].removeprefix("response."): event for event in events}
    begun, done = by_type["output_item.added"]["item"], by_type["output_item.done"]["item"]
    assert {name: done[name] for name in expected} == expected
    assert (begun["type"], begun["status"]) == (expected["type"], "in_progress")
    assert by_type["completed"]["response"]["output"] == [done]
    if expected["type"] == "custom_tool_call":
        assert begun["input"] == ""
        assert by_type["custom_tool_call_input.delta"]["delta"] == expected["input"]
        assert by_type["custom_tool_call_input.done"]["input"] == expected["input"]


def test_the_input_and_the_grammar_of_a_custom_tool_are_described() -> None:
    (schema,) = read_tools(Fields({"tools": [PATCH]}, "$")).offered
    assert schema.parameters["properties"].keys() == {"input"}
    assert schema.parameters["required"] == ["input"]
    assert schema.description.startswith("edits files\n")
    assert schema.description.endswith('lark grammar:\nstart: "x"')
    (schema,) = read_tools(Fields({"tools": [{**PATCH, "format": None}]}, "$")).offered
    assert schema.description == "edits files"


def test_the_description_of_a_namespace_is_given_once() -> None:
    tools = [{**AGENTS, "tools": [SPAWN, {**SPAWN, "name": "stop"}]}]
    first, second = read_tools(Fields({"tools": tools}, "$")).offered
    assert (first.name, second.name) == ("agents__spawn", "agents__stop")
    assert "many agents" in first.description
    assert second.description == "starts an agent"


@pytest.mark.parametrize(("tools", "dropped"), [
    ([CLOCK, {"type": "web_search", "external_web_access": True}], "tools[1].web_search"),
    ([CLOCK, {"type": PREVIEW}], f"tools[1].{PREVIEW}"),
    ([CLOCK, {"type": "image_generation"}], "tools[1].image_generation"),
    ([CLOCK, {"type": "tool_search"}], "tools[1].tool_search"),
    ([{**CLOCK, "defer_loading": True}], "tools[0].defer_loading"),
])  # fmt: skip
def test_tools_that_only_the_service_runs_or_loads_later_are_left_out_or_offered_at_once(
    api: Api, tools: list[Any], dropped: str
) -> None:
    reply = api.ask("POST", "/responses", {"model": "fake", "input": "hi", "tools": tools})
    assert reply.status_code == 200
    assert reply.headers["x-genai-host-dropped"] == dropped
    assert api.fake.prompts[0].tools == ("clock",)
    assert len(reply.json()["tools"]) == 1


def test_tools_among_the_items_are_offered(api: Api) -> None:
    """Newer models of Codex get all tools in an item."""
    answers(api, ToolCall("c1", "agents__spawn", {}))
    first = api.response([ADDED, user("hi")])
    assert api.fake.prompts[0].tools == ("agents__spawn",)
    (item,) = first["output"]
    assert (item["namespace"], item["name"]) == ("agents", "spawn")
    # they are offered in the next request, too, which refers to this one
    api.response([output_of("c1", "ok")], previous_response_id=first["id"])
    assert api.fake.prompts[1].tools == ("agents__spawn",)


@pytest.mark.parametrize(("choice", "offered"), [
    ("none", ("agents__spawn",)),
    ({"type": "function", "name": "spawn", "namespace": "agents"}, ("agents__spawn",)),
    ("required", ("agents__spawn",)),
    ({"type": "allowed_tools", "mode": "auto", "tools": []}, ()),
])  # fmt: skip
def test_a_choice_among_previous_tools(api: Api, choice: Any, offered: tuple[str, ...]) -> None:
    first = api.response([ADDED, user("hi")])
    again = api.response(previous_response_id=first["id"], tool_choice=choice)
    assert api.fake.prompts[1].tools == offered
    assert again["tool_choice"] == choice


def test_tools_that_were_found_are_offered(api: Api) -> None:
    call = {"type": "tool_search_call", "call_id": "c1", "arguments": {"query": "agents"}}
    search_output = {"type": "tool_search_output", "call_id": "c1", "tools": [AGENTS]}
    more = {"type": "tool_search_call", "call_id": "c2", "arguments": {"query": "more"}}
    none = {"type": "tool_search_output", "call_id": "c2", "tools": []}
    api.response([user("hi"), call, search_output, more, none], tools=[SEARCH])
    prompt = api.fake.prompts[0]
    assert prompt.tools == ("tool_search", "agents__spawn")
    results = [message for message in prompt.messages if message.role == "tool"]
    texts = [each.content[0].content[0].text for each in results]  # type: ignore[attr-defined]
    assert texts == ["tools found: agents__spawn", "tools found: none"]


def test_the_last_definition_of_a_tool_counts() -> None:
    items = [{"tools": [{**SPAWN, "description": each}]} for each in ("old", "new")]
    for fields, others, expected in [
        ({}, [items], "new"),
        ({}, [items[1:], items[:1]], "new"),
        ({"tools": [SPAWN]}, [items], "starts an agent"),
    ]:
        tools = read_tools(Fields(fields, "$"), *others)
        assert [each.description for each in tools.offered] == [expected]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of tools that are checked."""
    names = []

    def check(name: str, *arguments: Any, **more: Any) -> ToolSchema:
        names.append(name)
        return ToolSchema(name, "", {})

    monkeypatch.setattr("genai_wire_openai.responses.tools.offered_tool", check)
    return names


def test_a_tool_that_is_repeated_is_checked_once(checked: list[str]) -> None:
    read_tools(Fields({}, "$"), [{"tools": [AGENTS, PATCH]}] * 100, [{"tools": [SPAWN]}] * 100)
    assert checked == ["agents__spawn", "apply_patch"]


def test_not_all_of_too_many_tools_are_checked(checked: list[str]) -> None:
    items = [{"tools": [{**PATCH, "name": f"t{number}"}]} for number in range(2000)]
    with pytest.raises(ValidationError, match="more than 512 tools"):
        read_tools(Fields({}, "$"), items)
    assert len(checked) == 513
    # those of a long conversation do not prevent its next response
    assert len(read_tools(Fields({"tools": [CLOCK]}, "$"), (), items).offered) == 512


def test_a_name_that_is_too_long_for_services_is_shortened(api: Api) -> None:
    tools = [{**SPAWN, "name": "x" * 70 + each} for each in "ab"]
    namespace = {**AGENTS, "name": "y" * 70, "tools": tools}
    first, second = read_tools(Fields({"tools": [namespace]}, "$")).offered
    assert first.name != second.name
    assert len(first.name) == len(second.name) == 64
    answers(api, ToolCall("c1", second.name, {}))
    (item,) = api.response(tools=[namespace])["output"]
    assert (item["namespace"], item["name"]) == (namespace["name"], tools[1]["name"])


def test_a_search_that_is_malformed_is_passed_on(api: Api) -> None:
    answers(api, ToolCall("c1", "tool_search", malformed="agents"))
    (item,) = api.response(tools=[SEARCH])["output"]
    assert item["arguments"] == {"query": "agents"}


def test_a_tool_is_checked_before_its_item_is_stored(api: Api) -> None:
    wrong = {**ADDED, "tools": [{**SPAWN, "parameters": {"type": 1}}]}
    error = api.error("POST", "/conversations", {"items": [wrong]}, 400)
    assert error["param"] == "items[0].tools[0].parameters"


@pytest.mark.parametrize(("chosen", "function"), [
    ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
    ({"type": "function", "name": "spawn", "namespace": "agents"}, "agents__spawn"),
])  # fmt: skip
def test_a_tool_of_another_form_can_be_chosen(chosen: dict[str, str], function: str) -> None:
    fields = {"tools": [PATCH, AGENTS], "tool_choice": chosen}
    tools = read_tools(Fields(fields, "$"))
    assert (tools.choice, tools.chosen) == (function, chosen)
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [chosen]}
    tools = read_tools(Fields({**fields, "tool_choice": allowed}, "$"))
    assert [each.name for each in tools.offered] == [function]
    assert tools.chosen == allowed


@pytest.mark.parametrize(("item", "param"), [
    ({"type": "custom_tool_call", "call_id": "1", "name": "x"}, "input"),
    ({"type": "custom_tool_call", "call_id": "1", "name": "x", "input": {}}, "input"),
    ({"type": "custom_tool_call_output", "call_id": "1"}, "output"),
    ({"type": "tool_search_call"}, "call_id"),
    ({"type": "tool_search_call", "call_id": "1", "arguments": "x"}, "arguments"),
    ({"type": "tool_search_output", "call_id": "1", "tools": [{}]}, "tools[0].type"),
    ({"type": "additional_tools", "tools": [{"type": "shell"}]}, "tools[0].type"),
    ({"type": "additional_tools", "tools": [{**SPAWN, "parameters": {"type": 1}}]},
     "tools[0].parameters"),
])  # fmt: skip
def test_an_item_that_is_wrong(api: Api, item: dict[str, Any], param: str) -> None:
    assert api.refused([user("hi"), item])["param"] == f"input[1].{param}"


def test_a_choice_has_the_type_of_its_tool(api: Api) -> None:
    chosen = {"type": "function", "name": "apply_patch"}
    assert api.refused(tools=[PATCH], tool_choice=chosen)["param"] == "tool_choice.name"


def test_a_tool_that_is_left_out_is_not_allowed(api: Api) -> None:
    search = {"type": "web_search"}
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [search, {"name": "clock"}]}
    api.response(tools=[CLOCK, search], tool_choice=allowed)
    assert api.fake.prompts[0].tools == ("clock",)


@pytest.mark.parametrize(("choice", "sent"), [
    ({"type": WEB_SEARCH}, {"type": WEB_SEARCH}),
    ({"type": "function", "name": "web_search"}, {"type": "function", "name": "web_search"}),
    ({"type": "allowed_tools", "mode": "required", "tools": [{"type": WEB_SEARCH}]}, "required"),
    (None, None),
])  # fmt: skip
def test_a_tool_of_the_service_can_be_chosen(choice: Any, sent: Any) -> None:
    """A function of the client may have its name."""
    search = {"type": WEB_SEARCH, "extra": 1}
    function = {**CLOCK, "name": "web_search"}
    request = Fields({"tools": [function, search], "tool_choice": choice}, "$")
    request.carry("openai-responses", lambda: True)
    tools = read_tools(request)
    assert [*tools.repeated][1] == search
    call = ChatCall(
        model_id="m", messages=[Message("user", "hi")], tools=tools.offered,
        tool_choice=tools.choice,
    )  # fmt: skip
    body = json.loads(OpenAIResponses().prepare_request(call).data())
    assert body["tools"][-1] == search
    assert body.get("tool_choice") == sent
    assert len(body["tools"]) == (1 if sent == "required" else 2)


@pytest.mark.parametrize(("is_sent", "expected"), [(True, 2), (False, 1)])
def test_each_type_of_a_tool_of_the_service_counts_once(is_sent: bool, expected: int) -> None:
    """The host replaces all types with one function."""
    kinds = [WEB_SEARCH, WEB_SEARCH, PREVIEW, WEB_SEARCH]
    request = Fields({"tools": [{"type": kind} for kind in kinds]}, "$")
    request.carry("openai-responses", lambda: is_sent, {"web_search": "find"})
    tools = read_tools(request)
    assert len({each.name for each in tools.offered}) == len(tools.offered) == expected
    assert [each["type"] for each in tools.repeated] == [WEB_SEARCH, PREVIEW]
    assert request.dropped == [f"tools[{at}].{WEB_SEARCH}" for at in (1, 3)]


@pytest.mark.parametrize("replaced", ["web_search", ""])
def test_tools_of_the_service_count_as_tools(replaced: str) -> None:
    kinds = [f"web_search_2025_{number // 100:02}_{number % 100:02}" for number in range(512)]
    request = Fields({"tools": [CLOCK, *({"type": kind} for kind in kinds)]}, "$")
    request.carry("openai-responses", lambda: not replaced, {replaced: "find"})
    with pytest.raises(ValidationError, match="more than 512 tools"):
        read_tools(request)


def test_the_status_of_a_search_is_a_word(api: Api) -> None:
    answers(api, VendorPart("openai-responses", {"type": "web_search_call", "status": 7}))
    (item,) = api.response()["output"]
    assert item["status"] == "completed"


def test_a_request_for_a_websocket_is_told_to_use_http(api: Api) -> None:
    """Codex then does at once; on other statuses, it tries seven times."""
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    url = f"{api.url}/v1/responses"
    reply = api.client.request("GET", url, data=None, params={}, headers=headers, timeout=60)
    assert reply.status_code == 426
    assert "use POST" in reply.json()["error"]["message"]


def test_a_grammar_must_not_be_empty(api: Api) -> None:
    tool = {**PATCH, "format": {**PATCH["format"], "definition": ""}}
    assert api.refused(tools=[tool])["param"] == "tools[0].format.definition"
