"""Answers of the real model: their form, never what they say."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from genai_vendor_local.engine import Engine
from genai_vendor_local.weights import DEFAULT

from genai_host import Answer, Conversation, Host, Message, api
from genai_host.errors import BadRequest, ContextOverflow, OutputValidationError
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import Background, MakeHost

pytestmark = pytest.mark.weights


BOTH = pytest.mark.parametrize("model", ["smollm2", "whole"])
"""Streamed, and in one piece."""


def open_chat(host: Host, model: str = "smollm2", max_tokens: int = 16) -> Conversation:
    return host.open("chat", model, parameters={"max_tokens": max_tokens, "temperature": 0})


def test_a_real_answer_streams_and_ends_with_its_usage(local_host: Host) -> None:
    events = list(open_chat(local_host).stream("Count from one to twenty."))
    answer = events[-1].answer
    assert answer is not None
    assert [event.kind for event in events[-2:]] == ["step", "answer"]
    deltas = [event.text for event in events if event.kind == "delta"]
    assert "".join(deltas) == answer.text
    assert answer.usage.input_tokens > 0
    assert 1 <= answer.usage.output_tokens <= 16
    assert answer.details[0].data["finish"] in ("stop", "length")


def test_an_answer_comes_in_several_deltas(local_host: Host) -> None:
    """It is made to say as much as that."""
    sentence = "one two three four five six"
    events = open_chat(local_host, max_tokens=64).stream("hi", output_type={"const": sentence})
    deltas = [event.text for event in events if event.kind == "delta"]
    assert len(deltas) > 3
    assert "".join(deltas) == json.dumps(sentence)


@BOTH
def test_a_reply_in_one_piece_has_the_same_form(local_host: Host, model: str) -> None:
    answer = open_chat(local_host, model, 64).say("hi", output_type={"const": "one two three"})
    assert answer.text == '"one two three"'
    data = dict(answer.details[0].data)
    assert data["finish"] == "stop"
    assert set(data["usage"]) - {"cached_tokens"} == {"input_tokens", "output_tokens"}
    assert data["cost"] == 0
    names = "cost role messages added schema model provider dialect answer finish usage seconds"
    assert set(data) == set(names.split())
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0


SCHEMAS: list[Any] = [
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "grown": {"type": "boolean"},
            "kind": {"enum": ["cat", "dog", None]},
        },
        "required": ["name", "grown", "kind"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
    {"enum": ["red", "green", 3]},
    {"required": ["name"], "type": "object"},  # a name that has no properties of its own
    {"const": {"required": ["name"]}},
    {"type": "boolean"},
    {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    {"type": "string", "pattern": "^[a-c]{2,4}$"},
    {
        "type": "object",
        "properties": {"pair": {"$ref": "#/$defs/Pair"}},
        "required": ["pair"],
        "additionalProperties": False,
        "$defs": {
            "Pair": {
                "type": "array",
                "prefixItems": [{"type": "boolean"}, {"enum": ["é", '"', "\\"]}],
                "minItems": 2,
                "maxItems": 2,
            }
        },
    },
]


@BOTH
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: next(iter(schema)))
def test_answer_satisfies_its_schema(local_host: Host, model: str, schema: Any) -> None:
    answer = open_chat(local_host, model, 200).say("Tell me of your pet.", output_type=schema)
    assert json.loads(answer.text) == answer.data  # which the host has checked


@BOTH
def test_json_that_is_cut_is_no_answer(local_host: Host, model: str) -> None:
    conversation = open_chat(local_host, model, 3)
    with pytest.raises(OutputValidationError) as caught:
        conversation.say("hi", output_type={"const": "a sentence of more than three tokens"})
    assert caught.value.reason == "length"
    assert "max_tokens" in caught.value.hint
    assert caught.value.detail.startswith('"')
    assert conversation.history == ()


def test_a_schema_that_it_cannot_hold_to_is_refused(local_host: Host) -> None:
    by_anchor = {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "string"}}}
    conversation = open_chat(local_host)
    with pytest.raises(BadRequest) as caught:
        conversation.say("hi", output_type=by_anchor)
    assert "\n" not in caught.value.message
    assert (caught.value.provider, caught.value.model) == ("local", DEFAULT.model)
    assert not caught.value.retryable
    assert conversation.say("hi").usage.output_tokens > 0


@BOTH
def test_a_prompt_longer_than_the_window_is_an_overflow(local_host: Host, model: str) -> None:
    conversation = open_chat(local_host, model)
    with pytest.raises(ContextOverflow) as caught:
        conversation.say("word " * 1100)
    assert caught.value.provider == "local"
    assert not caught.value.retryable
    assert "\n" not in caught.value.message
    assert conversation.history == ()
    assert conversation.say("hi").usage.output_tokens > 0


def test_an_answer_that_fills_the_window_is_cut_there(make_local_host: MakeHost) -> None:
    conversation = open_chat(make_local_host(window=256), max_tokens=1000)
    endless = {"type": "array", "items": {"const": True}, "minItems": 500}
    with pytest.raises(OutputValidationError) as caught:
        conversation.say("hi", output_type=endless)
    assert caught.value.reason == "length"
    assert caught.value.detail.count("true") > 10


def test_without_a_limit_of_the_call_that_of_the_settings_holds(make_local_host: MakeHost) -> None:
    host = make_local_host(max_tokens=3)
    answer = host.open("chat", "smollm2").say("Count from one to a hundred.")
    assert 1 <= answer.usage.output_tokens <= 3


@pytest.mark.smoke
def test_the_engine_loads_late_and_once(
    make_local_host: MakeHost, monkeypatch: pytest.MonkeyPatch, background: Background
) -> None:
    loads: list[Engine] = []
    make = Engine._make_server

    def counted(engine: Engine) -> Any:
        loads.append(engine)
        return make(engine)

    monkeypatch.setattr(Engine, "_make_server", counted)
    host = make_local_host()
    conversations = [open_chat(host, max_tokens=1) for _ in range(4)]
    assert loads == []
    barrier = threading.Barrier(4)

    def say(conversation: Conversation) -> Answer:
        barrier.wait(30)
        return conversation.say("hi")

    answers: list[Future[Answer]] = [background(say, each) for each in conversations]
    assert all(each.result(60).usage.output_tokens == 1 for each in answers)
    open_chat(host, "whole", max_tokens=1).say("hi")
    assert len(loads) == 1


def test_parallel_conversations_stay_apart(local_host: Host, background: Background) -> None:
    """Each is made to say something of its own, twice; all prompts are as long."""
    barrier = threading.Barrier(4)

    def converse(number: int) -> list[int]:
        conversation = open_chat(local_host, max_tokens=64)
        barrier.wait(30)
        prompts = []
        for turn in range(2):
            words = f"this is turn {turn} of conversation {number}"
            events = list(conversation.stream(words, output_type={"const": words}))
            answer = events[-1].answer
            assert answer is not None
            assert answer.data == words
            assert "".join(event.text for event in events) == answer.text
            prompts.append(answer.usage.input_tokens)
        texts = [message.text for message in conversation.history]
        assert texts[::2] == [json.loads(text) for text in texts[1::2]]
        return prompts

    futures: list[Future[list[int]]] = [background(converse, number) for number in range(4)]
    lengths = [each.result(60) for each in futures]
    assert lengths == [lengths[0]] * 4
    assert lengths[0][0] < lengths[0][1]


def _open_bare(host: Host) -> Conversation:
    """A chat that sends what is said, and nothing before it."""
    return host.open("chat", "smollm2", settings={"system_prompt": ""})


class TestCount:
    """Item 8 of the first contact: `count` for the embedded model."""

    def test_item_8_it_is_what_a_call_uses(self, local_host: Host) -> None:
        for text in ("hi", "Why is the sky blue? " * 60):
            answer = _open_bare(local_host).say(text)
            counted = local_host.count_tokens(text, model="smollm2").tokens
            assert counted == answer.usage.input_tokens

    def test_item_8_a_schema_counts_as_it_does_in_a_call(self, local_host: Host) -> None:
        answer = _open_bare(local_host).say("hi", output_type={"const": "one"})
        count = local_host.count_tokens("hi", model="smollm2", schema={"const": "one"})
        assert count.tokens == answer.usage.input_tokens

    def test_item_8_what_no_window_has_room_for_disturbs_no_call(self, local_host: Host) -> None:
        assert local_host.count_tokens("word " * 20_000, model="smollm2").tokens > 20_000
        assert open_chat(local_host).say("hi").text


WEATHER = api.ToolSchema(
    "get_weather",
    "What is the weather in Oslo?",
    {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"enum": [1, 2, 3]}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
CLOCK = api.ToolSchema(
    "get_time", "What time is it?", {"type": "object", "additionalProperties": False}
)
TOOLS = (WEATHER, CLOCK)
PARAMETERS = {tool.name: tool.parameters for tool in TOOLS}


class Asking:
    """A feature that prompts as a test says, and keeps what came back."""

    def __init__(self) -> None:
        self.plugin = InlinePlugin(features=[api.Feature("ask", api.NoSettings, self._respond)])
        self._prompt: dict[str, Any] = {}
        self._completions: list[api.Completion] = []

    def ask(
        self, host: Host, text: str = "hi", *, model: str = "smollm2",
        history: Sequence[Message] = (), max_tokens: int = 80, **prompt: Any,
    ) -> tuple[api.Completion, str]:  # fmt: skip
        """What the model said, and what of it was streamed."""
        self._prompt = {"tools": TOOLS, "parameters": {"max_tokens": max_tokens}, **prompt}
        self._completions.clear()
        events = list(host.open("ask", model, history=history).stream(text))
        (completion,) = self._completions
        return completion, "".join(event.text for event in events)

    def _respond(self, turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
        completion = yield from api.Prompt([*turn.history, turn.message], **self._prompt)
        self._completions.append(completion)
        return Answer(completion.text)


ASKING = Asking()
PLUGINS = {"ask": ASKING.plugin}
ask = ASKING.ask


def assert_valid(calls: Sequence[api.ToolCall]) -> None:
    for call in calls:
        api.SchemaValidator(PARAMETERS[call.name]).check(call.arguments)
        assert call.malformed == ""


@pytest.mark.parametrize("model", ["smollm2", "whole"])
@pytest.mark.parametrize("choice", ["required", "get_weather", "get_time"])
def test_a_required_tool_is_called(local_host: Host, model: str, choice: str) -> None:
    completion, streamed = ask(local_host, model=model, tool_choice=choice)
    (call,) = completion.tool_calls
    assert_valid([call])
    assert call.id == "call_0"
    assert choice in (call.name, "required")
    assert completion.finish == "tool_calls"
    assert completion.text == streamed == ""
    assert completion.usage.output_tokens > 0
    assert completion.message.content == (call,)


@pytest.mark.parametrize("text", ["What is the weather in Oslo?", "Who are you?"])
@pytest.mark.parametrize("choice", [None, "auto"])
def test_it_calls_a_tool_or_answers(local_host: Host, choice: str | None, text: str) -> None:
    completion, streamed = ask(local_host, text, tool_choice=choice)
    assert_valid(completion.tool_calls)
    assert completion.finish in ("tool_calls", "stop", "length")
    assert (completion.finish == "tool_calls") is bool(completion.tool_calls)
    assert bool(completion.text) is not bool(completion.tool_calls)
    assert streamed == completion.text


def test_where_it_may_call_none_it_answers_as_without_tools(local_host: Host) -> None:
    completion, streamed = ask(local_host, tool_choice="none", max_tokens=8)
    assert completion.tool_calls == ()
    assert completion.finish in ("stop", "length")
    assert streamed == completion.text
    plain, _ = ask(local_host, tools=(), max_tokens=8)
    assert plain.usage.input_tokens == completion.usage.input_tokens


def test_the_result_of_a_tool_can_be_told(local_host: Host) -> None:
    history = [
        Message("system", "You tell the weather."),
        Message("user", "What is the weather in Oslo?"),
        Message("assistant", api.ToolCall("call_0", "get_weather", {"city": "Oslo", "days": 1})),
        Message("tool", api.ToolResult("call_0", "get_weather", ("rain",))),
        Message("assistant", "It rains."),
    ]
    completion, _ = ask(local_host, "And in Rome?", history=history, tool_choice="get_weather")
    assert [each.id for each in completion.tool_calls] == ["call_1"]
    assert_valid(completion.tool_calls)
    answer, streamed = ask(local_host, "And in Rome?", history=history, tools=(), max_tokens=8)
    assert answer.tool_calls == ()
    assert streamed == answer.text


@pytest.mark.parametrize("model", ["smollm2", "whole"])
def test_a_choice_that_was_cut_is_given_as_text(local_host: Host, model: str) -> None:
    completion, streamed = ask(local_host, model=model, tool_choice="get_weather", max_tokens=4)
    assert completion.finish == "length"
    assert completion.tool_calls == ()
    assert completion.text.startswith("{")
    assert streamed == completion.text


@pytest.mark.parametrize("schema", [{"const": "a fixed answer"}, {"const": [1, 2]}], ids=str)
def test_answer_beside_tools_has_its_schema(local_host: Host, schema: dict[str, Any]) -> None:
    completion, _ = ask(local_host, "Who are you?", tool_choice="auto", schema=schema)
    assert_valid(completion.tool_calls)
    assert completion.tool_calls or completion.value == schema["const"]


def test_a_tool_may_take_a_class_within_a_class(local_host: Host) -> None:
    parameters = {
        "type": "object",
        "properties": {"place": {"$ref": "#/$defs/Place"}},
        "required": ["place"],
        "additionalProperties": False,
        "$defs": {"Place": WEATHER.parameters},
    }
    go = api.ToolSchema("go", "Go there.", parameters)
    (call,) = ask(local_host, tools=[go], tool_choice="required")[0].tool_calls
    api.SchemaValidator(parameters).check(call.arguments)


def test_a_tool_that_nobody_knows_cannot_be_named(local_host: Host) -> None:
    with pytest.raises(BadRequest, match="get_wether"):
        ask(local_host, tool_choice="get_wether")


@pytest.mark.parametrize("choice", [None, "required", "none"])
def test_templates_may_ask_for_the_tools(make_local_host: MakeHost, choice: str | None) -> None:
    host = make_local_host(tools="template", plugins=PLUGINS)
    completion, _ = ask(host, tool_choice=choice, max_tokens=60)
    assert completion.finish in ("tool_calls", "stop", "length")
    assert {call.name for call in completion.tool_calls} <= set(PARAMETERS)
    if choice == "none":
        assert completion.tool_calls == ()
