"""What the mock answers: echoes, tool calls, usage, thoughts, vectors; what it keeps."""

from __future__ import annotations

import json
import math
from typing import Any

import genai_vendor_mock
import pytest
from genai_vendor_mock import ScriptedReply

from genai_host import Host, Image, Message, api
from genai_host.errors import NoRoute, UnexpectedFinish
from genai_host_testing import InlinePlugin
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
    streamed = "".join(event.text for event in conversation.stream(text))
    assert streamed == text


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
def test_a_reply_ends_for_the_reason_that_it_names(
    scripted: MakeHost, model: str, finish: api.FinishReason
) -> None:
    asking = Asking()
    host = scripted(ScriptedReply("text", finish=finish), plugins={"ask": asking.plugin()})
    host.open("ask", model).say("hi")
    (completion,) = asking.completions
    assert completion.finish == finish


@pytest.mark.parametrize("finish", ["other", "content_filter", "tool_calls"])
def test_the_reason_that_a_reply_names_is_what_the_user_is_told(
    scripted: MakeHost, finish: api.FinishReason
) -> None:
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
    expected = {"texts": ["a cat", "a dog", "a cat"]}
    assert mock_of(host).requests[0] == expected


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
