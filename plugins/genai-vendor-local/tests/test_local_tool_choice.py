"""Tool calls held to a grammar: how they are asked for, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from genai_vendor_local.tool_choice import Examples, ToolChoice, in_plain_text
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.chat_replies import read_completion
from hypothesis import given, strategies as st

from genai_host.api import (
    ChatCall,
    Message,
    SchemaValidator,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
)
from genai_host.errors import ValidationError

WEATHER = ToolSchema(
    "get_weather",
    "the weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
CLOCK = ToolSchema("get_time", "", {})


def body_of(
    tools: Sequence[ToolSchema] = (WEATHER, CLOCK), choice: str | None = None,
    messages: Sequence[Message] = (Message("user", "hi"),), schema: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A request as the host's dialect writes it."""
    call = ChatCall(model_id="m", messages=messages, tools=tools, tool_choice=choice, schema=schema)
    body: dict[str, Any] = json.loads(OpenAIChat().prepare_request(call).data())
    return body


def grammar_of(body: Mapping[str, Any]) -> SchemaValidator:
    """What the model is held to."""
    return SchemaValidator(ToolChoice(body).request()["response_format"]["json_schema"]["schema"])


def read(body: Mapping[str, Any], text: str) -> Message:
    """What the host makes of a text that the model wrote."""
    message = {"role": "assistant", **ToolChoice(body).delta(text)}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return read_completion(json.dumps({"choices": [choice]}).encode()).message


def allowed(body: Mapping[str, Any], value: Any) -> bool:
    try:
        grammar_of(body).check(value)
    except ValidationError:
        return False
    return True


# What tools take, each with values of it.
TEXTS = st.text(max_size=20)
PARAMETERS: Sequence[tuple[dict[str, Any], st.SearchStrategy[Any]]] = (
    ({"type": "string"}, TEXTS),
    ({"type": "integer"}, st.integers(-(10**6), 10**6)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "boolean"}, st.booleans()),
    ({"enum": ["a", "b", 3, None]}, st.sampled_from(["a", "b", 3, None])),
    ({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers(0, 99), max_size=4)),
    ({"type": "object"}, st.dictionaries(TEXTS, TEXTS, max_size=3)),
    ({"type": ["string", "null"]}, st.one_of(st.none(), TEXTS)),
)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)


@st.composite
def tools_and_calls(draw: st.DrawFn) -> tuple[list[ToolSchema], str, dict[str, Any]]:
    """Some tools, the name of one of them, and arguments that it takes."""
    tools, arguments = [], {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        fields = draw(st.dictionaries(NAMES, st.sampled_from(PARAMETERS), max_size=3))
        parameters = {
            "type": "object",
            "properties": {field: schema for field, (schema, _) in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }
        tools.append(ToolSchema(name, draw(TEXTS), parameters))
        arguments[name] = {field: draw(values) for field, (_, values) in fields.items()}
    chosen = draw(st.sampled_from([tool.name for tool in tools]))
    return tools, chosen, arguments[chosen]


@given(
    drawn=tools_and_calls(), choice=st.sampled_from(["auto", "required", "name", None]),
    ascii=st.booleans(), indent=st.sampled_from([None, 0, 2]),
)  # fmt: skip
def test_a_chosen_tool_becomes_a_call_of_it(
    drawn: tuple[list[ToolSchema], str, dict[str, Any]], choice: str | None, ascii: bool,
    indent: int | None,
) -> None:  # fmt: skip
    tools, name, arguments = drawn
    body = body_of(tools, name if choice == "name" else choice)
    value = {"tool": name, "arguments": arguments}
    grammar_of(body).check(value)
    message = read(body, json.dumps(value, ensure_ascii=ascii, indent=indent))
    assert message.content == (ToolCall("call_0", name, arguments),)


@given(answer=st.text(), choice=st.sampled_from(["auto", None]))
def test_an_answer_becomes_the_text_of_the_message(answer: str, choice: str | None) -> None:
    body = body_of(choice=choice)
    value = {"tool": "none", "answer": answer}
    grammar_of(body).check(value)
    message = read(body, json.dumps(value))
    assert message.text == answer
    assert message.tool_calls == ()


@given(answer=st.text(), data=st.data(), ascii=st.booleans())
def test_cut_answer_has_what_came(answer: str, data: st.DataObject, ascii: bool) -> None:
    text = json.dumps({"tool": "none", "answer": answer}, ensure_ascii=ascii)
    begin = len(json.dumps({"tool": "none", "answer": ""})) - 2
    cut = data.draw(st.integers(begin, len(text) - 1))
    came = ToolChoice(body_of()).delta(text[:cut])["content"]
    assert answer.startswith(came)
    assert len(json.dumps(came, ensure_ascii=ascii)) >= cut - begin - 11  # but for half a sign
    came.encode()  # it has no half of a pair


@given(drawn=tools_and_calls(), data=st.data())
def test_cut_call(drawn: tuple[list[ToolSchema], str, dict[str, Any]], data: st.DataObject) -> None:
    tools, name, arguments = drawn
    text = json.dumps({"tool": name, "arguments": arguments})
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert ToolChoice(body_of(tools)).delta(cut) == {"content": cut}


@pytest.mark.parametrize("text", ["", "Hello!", "3", "null", "[]", '"tool"', "{}", '{"a": 1}'])
def test_what_is_no_choice_is_given_as_it_is(text: str) -> None:
    assert ToolChoice(body_of()).delta(text) == {"content": text}


@pytest.mark.parametrize(("choice", "tools", "answers"), [
    (None, ["get_time", "get_weather"], True), ("auto", ["get_time", "get_weather"], True),
    ("required", ["get_time", "get_weather"], False), ("get_time", ["get_time"], False),
])  # fmt: skip
def test_the_choice_of_tools_decides(choice: str | None, tools: list[str], answers: bool) -> None:
    body = body_of(choice=choice)
    calls = {
        "get_weather": {"tool": "get_weather", "arguments": {"city": "Oslo"}},
        "get_time": {"tool": "get_time", "arguments": {}},
    }
    assert sorted(name for name, value in calls.items() if allowed(body, value)) == tools
    assert allowed(body, {"tool": "none", "answer": "No."}) is answers
    shown = json.dumps(ToolChoice(body).request()["messages"])
    assert sorted(name for name in calls if name in shown) == tools


@pytest.mark.parametrize("value", [
    {"tool": "get_weather", "arguments": {}},
    {"tool": "get_weather", "arguments": {"city": 3}},
    {"tool": "get_weather", "arguments": {"city": "Oslo"}, "more": 1},
    {"tool": "get_weather"}, {"tool": "unknown", "arguments": {}}, {"tool": "none"},
    {"answer": "hi"}, [],
])  # fmt: skip
def test_nothing_else_may_be_chosen(value: Any) -> None:
    assert not allowed(body_of(), value)


def test_a_tool_may_have_the_name_that_stands_for_none() -> None:
    body = body_of([ToolSchema("none", "does nothing", {"type": "object"})])
    shown = ToolChoice(body).request()["messages"][1]["content"]
    assert [call.name for call in read(body, shown).tool_calls] == ["none"]


def test_an_answer_is_held_to_the_schema_of_the_prompt_as_well() -> None:
    schema = {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": False,
    }  # fmt: skip
    body = body_of(schema=schema)
    assert allowed(body, {"tool": "none", "answer": {"city": "Oslo"}})
    assert not allowed(body, {"tool": "none", "answer": "Oslo"})


@pytest.mark.parametrize("answer", [{"city": "Oslo"}, ["Oslo"], 3, None, "Oslo", '"Oslo"'])
def test_an_answer_that_is_held_to_a_schema_is_read_as_json(answer: Any) -> None:
    message = read(
        body_of(schema={"description": "anything"}), json.dumps({"tool": "none", "answer": answer})
    )
    assert json.loads(message.text) == answer


NESTED = {
    "type": "object",
    "properties": {"place": {"$ref": "#/$defs/Place"}},
    "required": ["place"],
    "$defs": {"Place": {"type": "object", "required": ["city"]}},
}


@pytest.mark.parametrize(("body", "right", "wrong"), [
    (body_of([ToolSchema("go", "", NESTED)]),
     {"tool": "go", "arguments": {"place": {"city": "Oslo"}}},
     {"tool": "go", "arguments": {"place": {}}}),
    (body_of(schema=NESTED), {"tool": "none", "answer": {"place": {"city": "Oslo"}}},
     {"tool": "none", "answer": {"place": {}}}),
], ids=["of a tool", "of the answer"])  # fmt: skip
def test_references_in_a_schema(body: dict[str, Any], right: Any, wrong: Any) -> None:
    grammar_of(body).check(right)
    assert not allowed(body, wrong)


def test_two_tools_may_define_different_things_under_one_name() -> None:
    def tool(name: str, kind: str) -> ToolSchema:
        schema = {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/X"}},
            "required": ["x"],
            "$defs": {"X": {"type": kind}},
        }
        return ToolSchema(name, "", schema)

    body = body_of([tool("count", "integer"), tool("say", "string")])
    grammar_of(body).check({"tool": "count", "arguments": {"x": 1}})
    grammar_of(body).check({"tool": "say", "arguments": {"x": "1"}})
    assert not allowed(body, {"tool": "say", "arguments": {"x": 1}})


def test_the_rest_of_the_request_stays_as_it_is() -> None:
    body = {**body_of(choice="auto"), "temperature": 0.5, "max_tokens": 9, "stop": ["x"]}
    before = json.dumps(body)
    request = ToolChoice(body).request()
    assert {"tools", "tool_choice"}.isdisjoint(request)
    expected = ["m", 0.5, 9, ["x"]]
    assert [request[key] for key in ("model", "temperature", "max_tokens", "stop")] == expected
    assert json.dumps(body) == before


def test_calls_are_numbered_through_the_conversation() -> None:
    messages = [
        Message("user", "weather?"),
        Message("assistant", [ToolCall("call_0", "get_time"), ToolCall("call_1", "get_time")]),
        Message("tool", [ToolResult("call_0"), ToolResult("call_1")]),
        Message("user", "again"),
    ]
    message = read(body_of(messages=messages), '{"tool": "get_time", "arguments": {}}')
    assert [call.id for call in message.tool_calls] == ["call_2"]


def test_the_system_message_comes_before_what_is_shown() -> None:
    messages = [Message("system", "Be brief."), Message("user", "What time is it?")]
    request = ToolChoice(body_of(messages=messages)).request()
    pairs = [(message["role"], message["content"]) for message in request["messages"]]
    assert pairs[0] == ("system", "Be brief.")
    assert pairs[-1] == ("user", "What time is it?")
    assert [role for role, _ in pairs[1:]] == ["user", "assistant"] * 3 + ["user"]
    assert ("user", "the weather of a city (city Alba)") in pairs  # what a tool is good for
    assert ("user", "get_time") in pairs  # its name, where it says nothing


EXAMPLES = [
    *(schema for schema, _ in PARAMETERS), {"const": 7}, {"type": "string", "default": "Oslo"},
    {"type": "string", "examples": ["Oslo", "Rome"]}, {"enum": ["x", "y"]}, {"type": "null"},
    {"type": ["integer", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"$ref": "#/$defs/Place", "$defs": {"Place": {"type": "object"}}},
    True, {}, WEATHER.parameters,
]  # fmt: skip


@pytest.mark.parametrize("schema", EXAMPLES, ids=json.dumps)
def test_what_a_tool_is_shown_with_is_a_call_of_it(schema: Any) -> None:
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    if isinstance(schema, dict) and "$defs" in schema:
        parameters["$defs"] = schema["$defs"]
    request = ToolChoice(body_of([ToolSchema("use", "", parameters)])).request()
    shown = json.loads(request["messages"][1]["content"])
    assert shown["tool"] == "use"
    SchemaValidator(parameters).check(shown["arguments"])


def wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as the host's dialect writes them."""
    request = OpenAIChat().prepare_request(ChatCall(model_id="m", messages=messages))
    written: list[dict[str, Any]] = json.loads(request.data())["messages"]
    return written


def test_calls_and_results_are_told_in_words() -> None:
    call = ToolCall("1", "get_weather", {"city": "Oslo"})
    messages = [
        Message("system", "Be brief."),
        Message("user", "weather?"),
        Message("assistant", ["Let me look.", call]),
        Message(
            "tool", [ToolResult("1", "get_weather", (Text("rain"),)), ToolResult("9", "", ("?",))]
        ),
        Message("assistant", "It rains."),
    ]
    texts = list(in_plain_text(wire(messages)))
    assert texts == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": 'Let me look.\n{"tool": "get_weather", "arguments": {"city": "Oslo"}}',
        },
        {"role": "user", "content": "The result of get_weather: rain"},
        {"role": "user", "content": "The result of a tool: ?"},
        {"role": "assistant", "content": "It rains."},
    ]


@pytest.mark.parametrize("texts", [[], ["one"], ["one ", "two"]])
def test_a_call_may_come_with_any_number_of_texts(texts: list[str]) -> None:
    (plain,) = in_plain_text(wire([Message("assistant", [*texts, ToolCall("1", "get_time")])]))
    assert plain["role"] == "assistant"
    assert all(text in json.dumps(plain["content"]) for text in texts)
    assert "get_time" in json.dumps(plain["content"])


def test_messages_without_tools_are_left_as_they_are() -> None:
    messages = wire([Message("user", ["one ", "two"]), Message("assistant", "")])
    assert list(in_plain_text(messages)) == messages


STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def shown_for(*tools: dict[str, Any]) -> list[tuple[str, Any]]:
    """The questions, and the arguments that answer each."""
    functions = [{"type": "function", "function": tool} for tool in tools]
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": functions}
    contents = [each["content"] for each in ToolChoice(body).request()["messages"]][:-3]
    answers = [json.loads(each)["arguments"] for each in contents[1::2]]
    return list(zip(contents[::2], answers, strict=True))


def test_a_question_says_what_its_arguments_are() -> None:
    place = {"type": "object", "properties": {"city": STRING}}
    properties = {"place": place, "days": INTEGER, "names": {"type": "array", "items": STRING}}
    tools: list[dict[str, Any]] = [
        {"name": "a", "description": "Plan it.", "parameters": {"properties": properties}},
        {"name": "b", "parameters": {"properties": {"name": STRING}}},
        {"name": "c", "description": "Stop."},
    ]
    assert shown_for(*tools) == [
        (
            'Plan it. (place {"city": "Alba"}, days 5, names ["Bruno", "Cedar"])',
            {"place": {"city": "Alba"}, "days": 5, "names": ["Bruno", "Cedar"]},
        ),
        ("b (name Delta)", {"name": "Delta"}),
        ("Stop.", {}),
    ]


def test_the_same_tools_are_shown_alike() -> None:
    """Else no prompt would begin as the one before it, and each would be read anew."""
    tool = {"name": "a", "parameters": {"properties": {"x": STRING, "y": INTEGER}}}
    assert shown_for(tool) == shown_for(tool)


@pytest.mark.parametrize(
    ("required", "names"), [(["y"], ["y"]), (["y", "z"], ["y"]), ([], ["x", "y"])]
)
def test_required_is_shown_or_else_everything(required: list[str], names: list[str]) -> None:
    schema = {"type": "object", "properties": {"x": STRING, "y": STRING}, "required": required}
    assert list(Examples().of(schema)) == names


@given(kinds=st.lists(st.sampled_from(["string", "integer", "number"]), max_size=16))
def test_no_two_values_are_the_same(kinds: list[str]) -> None:
    examples = Examples()
    values = [examples.of({"type": kind}) for kind in kinds]
    assert len(set(values)) == len(values)


def test_a_schema_that_leads_back_to_itself_has_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "x": INTEGER}}
    tree = {"type": "array", "items": {"$ref": "#"}}
    for schema in (node, tree):
        assert len(json.dumps(Examples().of(schema))) < 10_000
