"""The official `ollama` SDK as an oracle, as `openai` is one in `test_openai_sdk`: it and we
say the same to a service that writes down what it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import genai_vendor_ollama
import ollama
import pytest
from attrs import frozen
from peers.conversations import CONVERSATIONS, LOOK, Said, user
from peers.differences import ABSENT, HEADERS, Difference, differing, headers_in_vain
from peers.sides import Clients, Sides, clients, service, telling

from genai_host.api import (
    Answer,
    Embed,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    Reasoning,
    ToolResult,
    Turn,
)
from genai_host.api.cancellation import Cancellation
from genai_host.testing.fake_service import FakeService, Received, json_reply
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.ollama_service import CALL, KEY, chat, embeddings

__all__ = ["clients", "service"]

pytestmark = pytest.mark.peers

FIELDS: Mapping[Difference, str] = {
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
"""All that may differ in a body, and why."""

ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "here": {"OLLAMA_HOST": "{url}"},
    "with a key": {"OLLAMA_HOST": "{url}", "OLLAMA_API_KEY": KEY},
    "below a path": {"OLLAMA_HOST": "{url}/ollama/"},
}


class OllamaSides(Sides):
    variables = {"OLLAMA_HOST", "OLLAMA_API_KEY", "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"}
    plugins = {"ollama": genai_vendor_ollama}


@pytest.fixture
def sides(
    service: FakeService,
    clients: Clients,
    make_host: MakeHost,
    monkeypatch: pytest.MonkeyPatch,
) -> Sides:
    made = OllamaSides(service, clients, make_host, monkeypatch)
    made.set_up(ENVIRONMENTS["here"])
    return made


@pytest.fixture
def client(sides: Sides) -> Iterator[Any]:
    """To be made once the environment is set up."""
    with ollama.Client() as made:
        yield made


@pytest.fixture(scope="module")
def noted() -> dict[str, set[Difference]]:
    """What was found to differ, by conversation."""
    return {}


# what is said

HI = [{"role": "user", "content": "hi"}]
WIRE_LOOK: Mapping[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "looks", "parameters": LOOK.parameters},
}
PNG = b"\x89PNG\r\n\x1a\n"


@frozen
class Saying:
    """A conversation as it is said here, and what the SDK's `chat` gets for it."""

    prompt: Prompt
    sdk: Mapping[str, Any]


OTHERWISE: Mapping[str, Mapping[str, Any]] = {
    "several texts": {"messages": [{"role": "user", "content": "ab"}]},
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


def _sayings() -> Iterator[tuple[str, Saying]]:
    for said in CONVERSATIONS:
        if said.name not in REFUSED:
            yield said.name, Saying(said.prompt, _for_the_sdk(said))
    hi = [user("hi")]
    for think in (True, False, "high"):
        asked = Prompt(hi, parameters={"think": think})
        yield f"think {think}", Saying(asked, {"messages": HI, "think": think})
    for keep_alive in ("10m", 0, 1.5):
        asked = Prompt(hi, parameters={"keep_alive": keep_alive, "num_ctx": 64})
        sdk = {"keep_alive": keep_alive, "options": {"num_ctx": 64}}
        yield f"keep alive {keep_alive}", Saying(asked, {"messages": HI, **sdk})
    thought = Message("assistant", [Reasoning("hm"), "hello"])
    yield "what was thought", Saying(
        Prompt([user("hi"), thought, user("so?")]),
        {"messages": [
            *HI,
            {"role": "assistant", "content": "hello", "thinking": "hm"},
            {"role": "user", "content": "so?"}]},
    )  # fmt: skip


def _for_the_sdk(said: Said) -> Mapping[str, Any]:
    if said.prompt.schema is not None:
        return {"messages": HI, "format": said.prompt.schema}
    if said.name in OTHERWISE:
        return OTHERWISE[said.name]
    assert said.chat is not None
    return {"messages": said.chat["messages"]}


SAYINGS = dict(_sayings())
TELLINGS = {
    f"{name}, {'streamed' if streamed else 'whole'}": (saying, streamed)
    for name, saying in SAYINGS.items()
    for streamed in (False, True)
}


@pytest.mark.parametrize("name", TELLINGS)
def test_both_send_the_same(
    sides: Sides, client: Any, noted: dict[str, set[Difference]], name: str
) -> None:
    noted[name] = differing(*sent_by_both(sides, client, *TELLINGS[name]))
    assert noted[name] <= FIELDS.keys()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_both_send_it_to_the_same_place(sides: Sides, environment: str) -> None:
    sides.set_up(ENVIRONMENTS[environment])
    with ollama.Client() as client:
        ours, theirs = sent_by_both(sides, client, SAYINGS["plain"], False)
    assert differing(ours, theirs) <= FIELDS.keys()
    assert ("authorization" in ours.headers) is (environment == "with a key")


def sent_by_both(
    sides: Sides, client: Any, saying: Saying, streamed: bool
) -> tuple[Received, Received]:
    answer = '{"name": "Oslo", "people": null}'
    reply = chat(answer, streamed=streamed)
    conversation = sides.host(telling(saying.prompt), "chat").open("tell", "ollama/m:1")
    say = client.chat

    def speak() -> None:
        if streamed:
            list(conversation.stream("go"))
        else:
            conversation.say("go")

    def speak_by_sdk() -> None:
        if streamed:
            list(say(model="m:1", stream=True, **saying.sdk))
        else:
            say(model="m:1", **saying.sdk)

    (ours,) = sides.sent([reply], speak)
    (theirs,) = sides.sent([reply], speak_by_sdk)
    return ours, theirs


# tools, vectors, the list


def _use_tools(turn: Turn[NoSettings]) -> FeatureSteps:
    said = [user("hi")]
    asked = yield from Prompt(said, tools=[LOOK])
    results = [ToolResult(call.id, call.name, "fine") for call in asked.tool_calls]
    yield from Prompt([*said, asked.message, Message("tool", results)], tools=[LOOK])
    return Answer("")


def _use_tools_by_sdk(client: Any) -> None:
    """As Ollama's documentation of tool calling has it."""
    messages: list[Any] = [*HI]
    first = client.chat("m:1", messages, tools=[WIRE_LOOK])
    messages.append(first.message)
    for call in first.message.tool_calls:
        result = {"role": "tool", "tool_name": call.function.name, "content": "fine"}
        messages.append(result)
    client.chat("m:1", messages, tools=[WIRE_LOOK])


def tools_used_by_both(sides: Sides, client: Any) -> list[set[Difference]]:
    replies = [chat(thinking="hm", tool_calls=[CALL, CALL]), chat("fine")]
    conversation = sides.host(_use_tools, "chat").open("tell", "ollama/m:1")
    ours = sides.sent(replies, lambda: conversation.say("go"))
    theirs = sides.sent(replies, lambda: _use_tools_by_sdk(client))
    assert len(ours) == len(theirs) == 2
    return [differing(*both) for both in zip(ours, theirs, strict=True)]


def test_both_use_tools_alike(sides: Sides, client: Any) -> None:
    for found in tools_used_by_both(sides, client):
        assert found <= FIELDS.keys()


VECTORS: list[Mapping[str, Any]] = [{}, {"dimensions": 2, "truncate": True, "keep_alive": "1h"}]


@pytest.mark.parametrize("parameters", VECTORS)
def test_both_embed_alike(sides: Sides, client: Any, parameters: Mapping[str, Any]) -> None:
    assert embedded_by_both(sides, client, parameters) <= FIELDS.keys()


def embedded_by_both(sides: Sides, client: Any, parameters: Mapping[str, Any]) -> set[Difference]:
    texts = ["é", ""]
    tell = telling(Embed(texts, role="main"))
    conversation = sides.host(tell, "embed").open("tell", "ollama/m:1", parameters=parameters)
    replies = [embeddings([1.0, 2.0], [3.0, 4.0])]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(replies, lambda: client.embed("m:1", texts, **parameters))
    return differing(ours, theirs)


def test_both_list_models_alike(sides: Sides, client: Any) -> None:
    provider = sides.host(telling(Prompt([])), "chat").instances["ollama"].provider
    replies = [json_reply({"models": [{"name": "m:1", "model": "m:1"}]})]
    (ours,) = sides.sent(replies, lambda: list(provider.list_models(Cancellation())))
    (theirs,) = sides.sent(replies, client.list)
    assert differing(ours, theirs) == set()


def test_no_difference_is_listed_in_vain(
    sides: Sides, client: Any, noted: dict[str, set[Difference]]
) -> None:
    for name, said in TELLINGS.items():
        if name not in noted:
            noted[name] = differing(*sent_by_both(sides, client, *said))
    found = set().union(*noted.values(), *tools_used_by_both(sides, client))
    for parameters in VECTORS:
        found |= embedded_by_both(sides, client, parameters)
    assert found == FIELDS.keys()


def test_no_header_is_listed_in_vain(sides: Sides, client: Any) -> None:
    both = sent_by_both(sides, client, *TELLINGS["plain, streamed"])
    assert headers_in_vain(*both, HEADERS) == ["x-stainless-*"]  # of other SDKs
