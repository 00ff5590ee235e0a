"""What the mock answers: echoes, tool calls, usage, thoughts, vectors; what it keeps."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import genai_vendor_mock
import pytest
from genai_vendor_mock import Script, ScriptedReply

from genai_host import Config, Host, Image, Message, api
from genai_host.api import ToolCall, Usage
from genai_host.config import read_config
from genai_host.errors import ConfigurationError, NoRoute, ServiceUnavailable, UnexpectedFinish
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost, mock_of

MODELS = ["mock", "whole"]
"""Streamed, and in one piece."""

WEATHER = api.ToolSchema("weather", "the weather of a city", {"type": "object"})


class Asking:
    """A feature that prompts, or embeds, and keeps what came back."""

    def __init__(self) -> None:
        self.completions: list[api.Completion] = []
        self.vectors: list[api.Embeddings] = []

    def plugin(self) -> InlinePlugin:
        ask = api.Feature("ask", api.NoSettings, self._ask)
        embed = api.Feature("embed", api.NoSettings, self._embed, roles={"main": "embed"})
        return InlinePlugin(features=[ask, embed])

    def _ask(self, turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
        prompt = api.Prompt([turn.message], tools=[WEATHER], parameters={"seed": 3})
        self.completions.append((yield from prompt))
        return api.Answer(self.completions[-1].text)

    def _embed(self, turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
        self.vectors.append((yield from api.Embed(turn.message.text.split("|"), role="main")))
        return api.Answer("done")


@pytest.mark.parametrize("text", ["hello", "two  spaces ", " \n\ttabs\n", "Ærøskøbing 🌊", "", " "])
def test_without_a_script_it_repeats_what_it_hears(host: Host, text: str) -> None:
    conversation = host.open(model="mock")
    assert conversation.say(text).text == text
    assert "".join(event.text for event in conversation.stream(text)) == text


def test_it_repeats_the_last_words_of_the_user_only(host: Host) -> None:
    conversation = host.open(model="mock", settings={"system_prompt": "be brief"})
    conversation.say("first")
    picture = Image(data=b"png", media_type="image/png")
    assert conversation.say(["what ", picture, "is this?"]).text == "what is this?"


def test_a_stream_comes_word_by_word(scripted: MakeHost) -> None:
    events = list(scripted("one two  three").open(model="mock").stream("hi"))
    expected = ["one", " two", " ", " three"]
    assert [event.text for event in events if event.kind == "delta"] == expected
    assert [event.kind for event in events[-2:]] == ["step", "answer"]


@pytest.mark.parametrize("model", MODELS)
def test_tool_calls_reach_the_feature(scripted: MakeHost, model: str) -> None:
    calls = [
        api.ToolCall("1", "weather", {"city": "Oslo"}),
        api.ToolCall("2", "weather", {"city": "Rome"}),
    ]
    asking = Asking()
    host = scripted(
        ScriptedReply("let me look", tool_calls=calls),
        {"tool_calls": [{"id": "3", "name": "weather", "arguments": {"city": "Bern"}}]},
        "sunny",
        plugins={"ask": asking.plugin()},
    )
    conversation = host.open("ask", model)
    for _ in range(3):
        conversation.say("hi")
    first, second, third = asking.completions
    assert first.message == Message("assistant", ["let me look", *calls])
    assert second.message.content == (api.ToolCall("3", "weather", {"city": "Bern"}),)
    assert [each.finish for each in asking.completions] == ["tool_calls", "tool_calls", "stop"]
    assert third.tool_calls == ()


@pytest.mark.parametrize("model", MODELS)
def test_the_usage_of_a_reply_reaches_the_user(scripted: MakeHost, model: str) -> None:
    usage = api.Usage(7, 5, cached_tokens=3, reasoning_tokens=2)
    answer = scripted(ScriptedReply("one", usage=usage)).open(model=model).say("hi")
    assert answer.usage == usage


def test_without_a_usage_it_counts_words(scripted: MakeHost) -> None:
    conversation = scripted("one two three", "").open(model="mock", settings={"system_prompt": ""})
    first = conversation.say("hi").usage
    assert first.output_tokens == 3
    second = conversation.say("hi there").usage
    assert second.output_tokens == 0
    assert 0 < first.input_tokens < second.input_tokens  # each prompt is longer


@pytest.mark.parametrize("model", MODELS)
def test_what_is_thought_is_no_part_of_the_answer(scripted: MakeHost, model: str) -> None:
    asking = Asking()
    host = scripted(ScriptedReply("yes", reasoning="let me see"), plugins={"ask": asking.plugin()})
    deltas = [event.data for event in host.open("ask", model).stream("hi") if event.kind == "delta"]
    (completion,) = asking.completions
    assert completion.message.content == (api.Reasoning("let me see"), api.Text("yes"))
    assert completion.text == "yes"
    assert deltas[-1] == api.Delta(text="yes")
    if model == "mock":
        assert deltas == [api.Delta(reasoning="let me see"), api.Delta(text="yes")]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("finish", ["length", "other", "content_filter", "tool_calls", "stop"])
def test_finish_of_a_reply(scripted: MakeHost, model: str, finish: api.FinishReason) -> None:
    asking = Asking()
    host = scripted(ScriptedReply("text", finish=finish), plugins={"ask": asking.plugin()})
    host.open("ask", model).say("hi")
    (completion,) = asking.completions
    assert completion.finish == finish


@pytest.mark.parametrize("finish", ["other", "content_filter", "tool_calls"])
def test_the_user_is_told_the_reason(scripted: MakeHost, finish: api.FinishReason) -> None:
    with pytest.raises(UnexpectedFinish, match=f"because of {finish}$") as caught:
        scripted(ScriptedReply("text", finish=finish)).open(model="mock").say("hi")
    assert caught.value.reason == finish


def test_what_it_was_sent_is_remembered(scripted: MakeHost) -> None:
    host = scripted("one", repeat=True, plugins={"ask": Asking().plugin()})
    host.open("ask", "mock", parameters={"temperature": 0.5}).say("hi")
    (request,) = mock_of(host).requests
    assert request["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert request["parameters"] == {"temperature": 0.5, "seed": 3}
    assert [tool["name"] for tool in request["tools"]] == ["weather"]
    json.dumps(request)  # it is plain JSON


def test_it_remembers_the_last_hundred_requests(host: Host) -> None:
    conversation = host.open(model="mock", settings={"keep_history": False, "system_prompt": ""})
    for number in range(105):
        conversation.say(str(number))
    texts = [request["messages"][-1]["content"][0]["text"] for request in mock_of(host).requests]
    assert texts == [str(number) for number in range(5, 105)]


def test_a_request_that_fails_is_remembered_as_well(scripted: MakeHost) -> None:
    host = scripted(ScriptedReply(status=500))
    with pytest.raises(Exception, match="status 500"):
        host.open(model="mock").say("hi")
    assert len(mock_of(host).requests) == 1


def test_equal_texts_have_equal_vectors(make_host: MakeHost) -> None:
    asking = Asking()
    host = make_host(ask=asking.plugin())
    host.open("embed", "mock-embed").say("a cat|a dog|a cat")
    (vectors,) = asking.vectors
    cat, dog, again = vectors.vectors
    assert cat == again
    assert cat != dog
    assert all(math.isclose(math.hypot(*vector), 1) for vector in vectors.vectors)
    assert {len(vector) for vector in vectors.vectors} == {16}
    assert vectors.usage == api.Usage(input_tokens=6)
    assert mock_of(host).requests[0] == {"texts": ["a cat", "a dog", "a cat"]}


def test_an_embedding_takes_no_reply_from_the_script(scripted: MakeHost) -> None:
    host = scripted("one", plugins={"ask": Asking().plugin()})
    host.open("embed", "mock-embed").say("a cat")
    assert host.open(model="mock").say("hi").text == "one"


def test_what_it_lacks_is_why_it_cannot_run(scripted: MakeHost) -> None:
    host = scripted("one", missing="no key: set MOCK_API_KEY")
    with pytest.raises(NoRoute) as caught:
        host.open(model="mock")
    assert caught.value.message == "mock cannot run: no key: set MOCK_API_KEY"
    assert caught.value.reasons == ("no key: set MOCK_API_KEY",)


def test_it_is_never_chosen_where_nobody_names_it(host: Host) -> None:
    with pytest.raises(NoRoute, match="no default model for chat"):
        host.open()
    assert host.open(provider="mock").models == {"main": "mock@mock"}


def test_it_lists_the_models_that_it_serves(host: Host) -> None:
    listed = mock_of(host).list_models(api.Cancellation())
    declared = {model.name: model.dialects for model in genai_vendor_mock.genai_models()}
    assert {each.id: each.dialects for each in listed} == declared


def test_it_is_closed_with_its_host(host: Host) -> None:
    host.open(model="mock")
    mock = mock_of(host)
    assert not mock.closed
    host.close()
    assert mock.closed


def test_its_module_has_no_other_names() -> None:
    missing: Any = genai_vendor_mock
    with pytest.raises(AttributeError, match="has no attribute 'MockProvidr'"):
        _ = missing.MockProvidr


@pytest.mark.parametrize(
    ("repeat", "texts"), [(False, ["one", "two", "3"]), (True, ["one", "two", "one"])]
)
def test_replies_come_in_sequence(scripted: MakeHost, repeat: bool, texts: list[str]) -> None:
    replies: list[Any] = ["one", ScriptedReply("two"), *([] if repeat else [{"text": "3"}])]
    conversation = scripted(*replies, repeat=repeat).open(model="mock")
    assert [conversation.say("go on").text for _ in range(3)] == texts


def test_a_script_counts_what_it_gave_and_starts_anew_when_it_is_reset() -> None:
    script = Script(["one", "two"])
    for _ in range(2):
        assert script.index == 0
        assert [script.next().text, script.next().text] == ["one", "two"]
        assert script.index == 2
        script.reset()


def test_an_exhausted_script_says_which_call_it_was(scripted: MakeHost) -> None:
    conversation = scripted("one", "two").open(model="mock")
    conversation.say("first")
    conversation.say("second")
    for _ in range(2):  # and so it stays
        with pytest.raises(ServiceUnavailable) as caught:
            conversation.say("third")
        assert caught.value == ServiceUnavailable(
            "the script has 2 replies, and this is call 3",
            retryable=False, provider="mock", model="mock",
        )  # fmt: skip
    assert [message.text for message in conversation.history] == ["first", "one", "second", "two"]


@pytest.mark.parametrize("repeat", [False, True])
def test_a_script_without_replies_has_nothing_to_say(repeat: bool) -> None:
    assert Script(["one"], repeat)
    assert not Script([], repeat)
    with pytest.raises(ServiceUnavailable, match="the script has 0 replies, and this is call 1"):
        Script([], repeat).next()


@pytest.mark.parametrize(("written", "expected"), [
    ("hello", ScriptedReply("hello")),
    ("", ScriptedReply("")),
    (ScriptedReply("hello", fault="cut", pieces=1), ScriptedReply("hello", fault="cut", pieces=1)),
    ({"text": "hello"}, ScriptedReply("hello")),
    ({}, ScriptedReply()),
    ({"reasoning": "hm", "delay": 1, "pace": 0.5, "finish": "length"},
     ScriptedReply(reasoning="hm", delay=1.0, pace=0.5, finish="length")),
    ({"fault": "overflow", "status": 429, "retry_after": 2, "pieces": 3},
     ScriptedReply(fault="overflow", status=429, retry_after=2.0, pieces=3)),
    ({"usage": {"input_tokens": 3, "output_tokens": 4}}, ScriptedReply(usage=Usage(3, 4))),
    ({"tool_calls": [{"id": "1", "name": "f", "arguments": {"x": 1}}]},
     ScriptedReply(tool_calls=(ToolCall("1", "f", {"x": 1}),))),
    ({"tool_calls": [{"type": "tool_call", "id": "1", "name": "f"}]},
     ScriptedReply(tool_calls=(ToolCall("1", "f"),))),
])  # fmt: skip
def test_replies_are_strings_or_tables_or_replies(written: Any, expected: ScriptedReply) -> None:
    assert Script([written]).next() == expected


BAD = [
    {"txt": "a misspelt name"}, {"text": 3}, {"text": None}, {"fault": "explode"},
    {"finish": "bored"}, {"delay": "1"}, {"pieces": 1.5}, {"status": "429"}, {"usage": {"in": 1}},
    {"usage": 3}, {"tool_calls": [{"name": "no id"}]}, {"tool_calls": ["a string"]},
    {"tool_calls": [{"type": "text", "text": "another part"}]}, {"tool_calls": 3},
    {"tool_calls": None}, None, 3, ["text"],
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_reply_is_named_by_its_number(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^reply 2 of the script: ."):
        Script(["fine", {"text": "fine, too"}, bad])


def test_a_bad_script_is_why_the_model_cannot_run(scripted: MakeHost) -> None:
    host = scripted("fine", {"text": 3})
    with pytest.raises(NoRoute) as caught:
        host.open(model="mock")
    (reason,) = caught.value.reasons
    assert reason.startswith("reply 1 of the script: expected a string, not an integer")
    with pytest.raises(ConfigurationError, match="reply 1 of the script") as wrong:
        _ = host.instances["mock"].provider
    assert wrong.value.provider == "mock"


@pytest.mark.parametrize(("settings", "message"), [
    ({"replies": "hello"}, "replies: expected a list, not a string"),
    ({"repeat": "yes"}, "repeat: expected a boolean, not a string"),
    ({"replys": ["hello"]}, "unknown setting 'replys'"),
])  # fmt: skip
def test_wrong_settings(make_host: MakeHost, settings: dict[str, Any], message: str) -> None:
    host = make_host(config=Config(providers={"tester": provider_config("mock", **settings)}))
    with pytest.raises(ConfigurationError, match="provider tester: ") as caught:
        _ = host.instances["tester"].provider
    assert message in str(caught.value)


def test_instances_of_a_configuration_have_scripts_of_their_own(make_host: MakeHost) -> None:
    providers = {
        "left": provider_config("mock", replies=["l1", {"text": "l2"}]),
        "right": provider_config("mock", replies=["r1"], repeat=True),
    }
    host = make_host(config=Config(providers=providers))
    left, right = host.open(model="mock@left"), host.open(model="mock@right")
    texts = [conversation.say("hi").text for conversation in (left, right, left, right)]
    assert texts == ["l1", "r1", "l2", "r1"]
    assert host.open(model="mock@mock").say("echo").text == "echo"


def test_a_script_may_stand_in_the_configuration_file(home: Path, make_host: MakeHost) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        """
        [providers.tester]
        type = "mock"
        replies = [
            "one",
            { text = "two", usage = { input_tokens = 7, output_tokens = 5 } },
            { fault = "overflow" },
        ]
        """,
        encoding="utf-8",
    )
    conversation = make_host(config=read_config()).open(model="mock@tester")
    assert conversation.say("hi").text == "one"
    assert conversation.say("hi").usage == Usage(7, 5)


@pytest.fixture
def _restless() -> Iterator[None]:
    """Within a script, threads take turns after every line, as far as no lock is held."""

    def take_turns(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not Script.next.__code__:
            return None
        os.stat(os.curdir)  # as all that waits for the system, it lets another thread run
        return take_turns

    traced = threading.gettrace()
    threading.settrace(take_turns)
    yield
    threading.settrace(traced)


@pytest.mark.usefixtures("_restless")
@pytest.mark.parametrize("repeat", [False, True])
def test_threads_share_a_script_and_lose_no_reply(repeat: bool) -> None:
    threads, each = 16, 200
    length = threads * each // (2 if repeat else 1)
    script = Script([str(number) for number in range(length)], repeat)
    barrier = threading.Barrier(threads)
    received: list[list[str]] = [[] for _ in range(threads)]

    def listen(into: list[str]) -> None:
        barrier.wait(30)
        into.extend(script.next().text for _ in range(each))

    listeners = [threading.Thread(target=listen, args=(into,)) for into in received]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join(30)
    times = 2 if repeat else 1
    expected = sorted(str(number) for number in range(length) for _ in range(times))
    assert sorted(text for texts in received for text in texts) == expected
    assert script.index == threads * each
