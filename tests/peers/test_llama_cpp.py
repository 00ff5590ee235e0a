"""llama.cpp's own HTTP server, with a real model, as a counterpart of `openai-compatible` and
of `anthropic`.

What the model says is its own affair: it is small. That it says something, in the form
that was asked for, is ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import genai_vendor_anthropic
import genai_vendor_openai
import pytest
from peers.llama_service import KEY, WINDOW, llama_instances, llama_server

from genai_host import Config, Conversation, Host, RetryPolicy
from genai_host.api import (
    Answer,
    Cancellation,
    Embed,
    Feature,
    FeatureSteps,
    ListedModel,
    Message,
    NoSettings,
    Prompt,
    ToolResult,
    ToolSchema,
    Turn,
)
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    Cancelled,
    ContextOverflow,
    GenaiError,
    ProviderError,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import wait_until

pytestmark = [pytest.mark.peers, pytest.mark.weights]

SHORT = {"max_tokens": 24, "temperature": 0}
COLOURS = ["red", "green", "blue"]
LOOK = ToolSchema(
    "look", "looks at something",
    {
        "type": "object", "properties": {"at": {"type": "string", "enum": ["sky", "sea"]}},
        "required": ["at"],
    },
)  # fmt: skip
LONG = {"type": "array", "items": {"const": "on and on"}, "minItems": 100, "maxItems": 100}
"""It takes some 900 tokens, whatever the model would rather say."""


@pytest.fixture(scope="module")
def server(weights: Path) -> Any:
    return llama_server(weights)


@pytest.fixture(scope="module")
def embedding_server(weights: Path) -> Any:
    return llama_server(weights, embedding=True)


def _look(turn: Turn[NoSettings]) -> FeatureSteps:
    """The model calls a tool, and sees what it found."""
    assert turn.message is not None
    completion = yield from Prompt([turn.message], tools=[LOOK], tool_choice="required")
    results = [ToolResult(call.id, call.name, "It is blue.") for call in completion.tool_calls]
    messages = [turn.message, completion.message, Message("tool", results)]
    answered = yield from Prompt([*messages, Message("user", "So?")])
    return Answer(answered.text, data=[dict(call.arguments) for call in completion.tool_calls])


def _embed(turn: Turn[NoSettings]) -> FeatureSteps:
    result = yield from Embed(["the sky", "the sea"], role="main")
    return Answer("", data=[list(each) for each in result.vectors])


PLUGIN = InlinePlugin(
    features=[
        Feature("look", NoSettings, _look),
        Feature("embed", NoSettings, _embed, roles={"main": "embed"}),
    ]
)


@pytest.fixture
def host_for(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """Makes hosts with instances `chat`, `responses` and `messages` of a server, each of
    which serves that dialect: `host_for(server)`."""

    def make(server: Any, *, key: str = KEY, path: str = "/v1") -> Host:
        url = server.listening_address
        instances = llama_instances(url, monkeypatch, key=key, path=path)
        return make_host(
            config=Config(providers=instances),
            patience=RetryPolicy(min_backoff=0.05),  # it drops a connection soon after a stream
            anthropic=genai_vendor_anthropic,
            openai=genai_vendor_openai,
            llama=PLUGIN,
        )

    return make


@pytest.fixture
def host(host_for: Callable[..., Host], server: Any) -> Host:
    return host_for(server)


each_dialect = pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def answer_of(conversation: Conversation, text: str, streamed: bool, **options: Any) -> Answer:
    """What is said to a text; streamed, the pieces make up the answer."""
    if not streamed:
        return conversation.say(text, **options)
    events = list(conversation.stream(text, **options))
    answer = events[-1].answer
    assert answer is not None
    if conversation.feature.name == "chat":
        assert "".join(event.text for event in events) == answer.text
    return answer


@each_dialect
@each_way
def test_it_answers(host: Host, dialect: str, streamed: bool) -> None:
    conversation = host.open("chat", f"{dialect}/smollm2", parameters=SHORT)
    first = answer_of(conversation, "What is the capital of France?", streamed)
    second = answer_of(conversation, "And of Norway?", streamed)
    for answer in (first, second):
        assert answer.text.strip()
        assert 0 < answer.usage.output_tokens <= 24
    assert second.usage.input_tokens > first.usage.input_tokens > 0
    assert second.usage.cached_tokens > 0


def test_it_counts_tokens(host: Host) -> None:
    """It leaves out some of those that its template adds."""

    def counted(*messages: Message) -> tuple[int, int]:
        count = host.count_tokens(messages, model="messages/smollm2").tokens
        *before, last = messages
        parameters = {"max_tokens": 1}
        answering = host.open("chat", "messages/smollm2", parameters=parameters, history=before)
        return count, answering.say(last).usage.input_tokens

    system, user = Message("system", "Be brief."), Message("user", "What is the capital of France?")
    alone, used = counted(user)
    more, used_with_more = counted(system, user)
    assert 5 < alone < more
    assert 0 <= used - alone < 20
    assert 0 <= used_with_more - more < 20


@each_dialect
@each_way
def test_it_is_bounded(host: Host, dialect: str, streamed: bool) -> None:
    conversation = host.open("chat", f"{dialect}/smollm2", parameters={"max_tokens": 3})
    assert answer_of(conversation, "Tell me a story.", streamed).usage.output_tokens == 3


@each_way
@pytest.mark.parametrize("rooted", [True, False], ids=["object", "value"])
def test_it_is_held_to_a_schema(host: Host, rooted: bool, streamed: bool) -> None:
    """In responses it pays no heed to one."""
    colour = {"type": "string", "enum": COLOURS}
    schema = {"type": "object", "properties": {"is": colour}, "required": ["is"]}
    conversation = host.open("chat", "chat/smollm2", parameters={**SHORT, "max_tokens": 64})
    answer = answer_of(
        conversation, "A colour?", streamed, output_type=schema if rooted else colour
    )
    assert (answer.data["is"] if rooted else answer.data) in COLOURS


@each_dialect
@each_way
def test_it_uses_a_tool(host: Host, dialect: str, streamed: bool) -> None:
    conversation = host.open("look", f"{dialect}/smollm2", parameters={**SHORT, "max_tokens": 64})
    answer = answer_of(conversation, "What colour is the sky? Look at it.", streamed)
    assert answer.text.strip()
    assert [call["at"] in ("sky", "sea") for call in answer.data] == [True]


@pytest.mark.parametrize("instance", ["chat", "messages"])
def test_it_lists_its_models(host: Host, instance: str) -> None:
    listed = list(host.instances[instance].provider.list_models(Cancellation()))
    assert listed == [ListedModel("smollm2")]


def test_it_embeds(host_for: Callable[..., Host], embedding_server: Any) -> None:
    vectors = host_for(embedding_server).open("embed", "embed/smollm2").say("go").data
    assert [len(vector) for vector in vectors] == [576, 576]
    assert vectors[0] != vectors[1]


@each_dialect
@each_way
def test_wrong_key(
    host_for: Callable[..., Host], server: Any, dialect: str, streamed: bool
) -> None:
    conversation = host_for(server, key="sk-canary-wrong").open("chat", f"{dialect}/smollm2")
    with pytest.raises(AuthenticationFailed, match="Invalid API Key") as caught:
        answer_of(conversation, "hi", streamed)
    assert caught.value.status == 401


@each_dialect
@each_way
def test_an_overflow_is_told(host: Host, dialect: str, streamed: bool) -> None:
    conversation = host.open("chat", f"{dialect}/smollm2")
    with pytest.raises(ContextOverflow, match=f"{WINDOW} tokens"):
        answer_of(conversation, "word " * 2 * WINDOW, streamed)
    assert conversation.history == ()


@each_dialect
@each_way
def test_unknown(host_for: Callable[..., Host], server: Any, dialect: str, streamed: bool) -> None:
    conversation = host_for(server, path="/v9").open("chat", f"{dialect}/smollm2")
    with pytest.raises(BadRequest, match="File Not Found"):
        answer_of(conversation, "hi", streamed)


def test_what_it_does_not_do_is_told(host: Host) -> None:
    with pytest.raises(ProviderError, match="does not support embeddings"):
        host.open("embed", "embed/smollm2").say("go")


def _until_idle(server: Any) -> None:
    """Until the server generates nothing; each look waits for its next token."""
    wait_until(lambda: not _metric(server, "requests_processing"), "the server to stop")


def _metric(server: Any, name: str) -> float:
    lines = str(server.handle_metrics()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"llamacpp:{name} "))


@pytest.mark.parametrize("how", ["cancel", "close", "leave"])
def test_what_is_cancelled_is_not_generated(host: Host, server: Any, how: str) -> None:
    """While it is streamed: of whole replies the server does not look whether anybody
    waits for them."""
    before = _metric(server, "n_decode_total")
    conversation = host.open("chat", "chat/smollm2")
    events = conversation.stream("Go on.", output_type=LONG)
    next(event for event in events if event.text)
    if how == "leave":
        events.close()
    else:
        thread = threading.Thread(target=getattr(conversation, how))
        thread.start()
        with pytest.raises(Cancelled if how == "cancel" else GenaiError):
            list(events)
        thread.join()
    _until_idle(server)
    assert _metric(server, "n_decode_total") - before < 300
    assert conversation.history == ()


def test_a_whole_reply_is_not_waited_for_once_cancelled(host: Host, server: Any) -> None:
    before = _metric(server, "n_decode_total")
    conversation = host.open("chat", "chat/smollm2", parameters={"max_tokens": 200})
    with ThreadPoolExecutor(1) as pool:
        saying = pool.submit(conversation.say, "Go on.", output_type=LONG)
        while not _metric(server, "requests_processing"):
            assert not saying.done()
        conversation.cancel()
        with pytest.raises(Cancelled):
            saying.result(60)
    assert _metric(server, "n_decode_total") - before < 200
    _until_idle(server)
