"""The official `ollama` SDK as an oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import genai_vendor_ollama
import ollama
import pytest
from attrs import evolve
from peers.conversations import CONVERSATIONS, LOOK, Example, user
from peers.oracle import ABSENT, Case, Difference, Oracle, Place, Sides, both_ways, using_tools

from genai_host.api import Embed, Message, Prompt, Reasoning
from genai_host_testing.fake_service import json_reply
from genai_host_testing.services.ollama import CALL, KEY, chat, embeddings

pytestmark = pytest.mark.peers


def _client(url: str) -> Any:
    return ollama.Client()


HERE = Place({"OLLAMA_HOST": "{url}"}, _client)
PLACES = {
    "with a key": Place({"OLLAMA_HOST": "{url}", "OLLAMA_API_KEY": KEY}, _client),
    "below a path": Place({"OLLAMA_HOST": "{url}/ollama/"}, _client),
}
HI = [{"role": "user", "content": "hi"}]
WIRE_LOOK: Mapping[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "looks", "parameters": LOOK.parameters},
}
PNG = b"\x89PNG\r\n\x1a\n"
OTHERWISE: Mapping[str, Mapping[str, Any]] = {
    "several texts": {"messages": [{"role": "user", "content": "a\nb"}]},
    "length": {"messages": HI, "options": {"num_predict": 7}},
    "guides": {"messages": HI, "options": {"temperature": 0.5, "top_p": 0.9}},
    "further guides": {"messages": HI, "options": {
        "stop": ["x", "\n"], "seed": 1, "presence_penalty": -0.5, "frequency_penalty": 0.5}},
    "tools": {"messages": HI, "tools": [WIRE_LOOK]},
    "tool choice auto": {"messages": HI, "tools": [WIRE_LOOK]},
    "tool choice none": {"messages": HI},
    "picture": {"messages": [{"role": "user", "content": "what?", "images": [PNG]}]},
}  # fmt: skip
"""What is said to other services as well, where the SDK of Ollama writes it otherwise."""

REFUSED = {
    "tool choice required", "tool choice look", "one tool at a time", "effort", "summary",
    "picture by its address", "file", "file by its address",
}  # fmt: skip
"""For what Ollama has no form; the tests of the dialect show that it is an error."""


def _says(name: str, prompt: Prompt, /, **sdk: Any) -> dict[str, Case]:
    def make_case(streamed: bool) -> Case:
        request = {"model": "m:1", **sdk, **({"stream": True} if streamed else {})}
        return Case(
            HERE, "ollama/m:1", prompt, lambda client: client.chat(**request),
            [chat('{"name": "Oslo", "people": null}', streamed=streamed)], streamed=streamed,
        )  # fmt: skip

    return both_ways(name, make_case)


def _for_the_sdk(example: Example) -> Mapping[str, Any]:
    if example.prompt.schema is not None:
        return {"messages": HI, "format": example.prompt.schema}
    if example.name in OTHERWISE:
        return OTHERWISE[example.name]
    assert example.chat is not None
    return {"messages": example.chat["messages"]}


def _use_tools(client: Any) -> None:
    """As Ollama's documentation of tool calling has it."""
    messages: list[Any] = [*HI]
    first = client.chat("m:1", messages, tools=[WIRE_LOOK])
    messages.append(first.message)
    for call in first.message.tool_calls:
        result = {"role": "tool", "tool_name": call.function.name, "content": "fine"}
        messages.append(result)
    client.chat("m:1", messages, tools=[WIRE_LOOK])


def _embed(texts: Sequence[str], parameters: Mapping[str, Any], client: Any) -> None:
    client.embed("m:1", texts, **parameters)


def _cases() -> Iterator[tuple[str, Case]]:
    for example in CONVERSATIONS:
        if example.name not in REFUSED:
            yield from _says(example.name, example.prompt, **_for_the_sdk(example)).items()
    plain = dict(_says("plain", Prompt([user("hi")]), messages=HI))["plain, whole"]
    for place, there in PLACES.items():
        yield place, evolve(plain, place=there)
    hi = [user("hi")]
    for think in (True, False, "high"):
        prompt = Prompt(hi, parameters={"think": think})
        yield from _says(f"think {think}", prompt, messages=HI, think=think).items()
    for keep_alive in ("10m", 0, 1.5):
        prompt = Prompt(hi, parameters={"keep_alive": keep_alive, "num_ctx": 64})
        sdk: Any = {"keep_alive": keep_alive, "options": {"num_ctx": 64}}
        yield from _says(f"keep alive {keep_alive}", prompt, messages=HI, **sdk).items()
    yield from _says(
        "what was thought",
        Prompt([user("hi"), Message("assistant", [Reasoning("hm"), "hello"]), user("so?")]),
        messages=[
            *HI,
            {"role": "assistant", "content": "hello", "thinking": "hm"},
            {"role": "user", "content": "so?"},
        ],
    ).items()
    calls = [chat(thinking="hm", tool_calls=[CALL, CALL]), chat("fine")]
    use = using_tools(False, False)
    yield "tools that are used", Case(HERE, "ollama/m:1", use, _use_tools, calls)
    texts = ["é", ""]
    for parameters in ({}, {"dimensions": 2, "truncate": True, "keep_alive": "1h"}):
        yield (
            f"embeds {parameters}",
            Case(
                HERE, "ollama/m:1", Embed(texts, role="main"), partial(_embed, texts, parameters),
                [embeddings([1.0, 2.0], [3.0, 4.0])], operation="embed", parameters=parameters,
            ),
        )  # fmt: skip
    models = json_reply({"models": [{"name": "m:1", "model": "m:1"}]})
    yield "models", Case(HERE, "ollama", None, lambda client: client.list(), [models])


class TestOllama(Oracle):
    variables = {"OLLAMA_HOST", "OLLAMA_API_KEY"}
    plugins = {"ollama": genai_vendor_ollama}
    cases = dict(_cases())
    alike = {"x-stainless-*"}  # of other SDKs
    fields = {
        Difference("truncate", False, ABSENT): (
            "we ask for an error where the SDK lets Ollama leave out what is too long"
        ),
        Difference("tools", ABSENT, "[]"): "the SDK says that there are none",
        # a tool's round trip:
        Difference("messages[].tool_calls[].id", "call_0", ABSENT): (
            "newer servers pair calls and results by it; the SDK does not know it"
        ),
        Difference("messages[].tool_calls[].id", "call_1", ABSENT): "the same",
        Difference("messages[].tool_call_id", "call_0", ABSENT): "the same",
        Difference("messages[].tool_call_id", "call_1", ABSENT): "the same",
        Difference("messages[].content", "", ABSENT): (
            "the SDK leaves an empty text out; Ollama's own client does not"
        ),
    }

    @pytest.mark.parametrize("place", PLACES)
    def test_a_key_is_sent_where_there_is_one(self, sides: Sides, place: str) -> None:
        [(ours, _)] = sides.both(self.cases[place])
        assert ("authorization" in ours.headers) is (place == "with a key")
