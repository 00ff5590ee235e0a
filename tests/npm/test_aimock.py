"""aimock, which speaks as OpenAI, Azure, Anthropic, Google and Ollama do and says what it is
told to, as a counterpart of the vendors here; and what their SDKs read of the same replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import google.genai as genai
import ollama
import openai
import pytest
from npm.aimock_service import KEY, MODELS, WITHOUT_IDS, Hosts, aimock, on

from genai_host import Conversation, Host, RetryPolicy
from genai_host.api import (
    Answer,
    Cancellation,
    Completion,
    Embed,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    Reasoning,
    Turn,
)
from genai_host.errors import AuthenticationFailed, IncompleteReply, RateLimited, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import LOOK, LOOKING

pytestmark = pytest.mark.peers

GREETING = 'Hello, é "you"\n\u2028 there!'
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLS = [("call_a", "look", {"at": "é"}), ("call_b", "look", {"at": "b"})]


BUSY = {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429}
SCRIPT = [
    on("hello", {"content": GREETING}),
    on(
        "look twice",
        {"toolCalls": [{"id": id, "name": name, "arguments": at} for id, name, at in CALLS]},
        match={"hasToolResult": False},
    ),
    on(
        "look twice",
        {"content": "both are fine"},
        match={"hasToolResult": True, "toolCallId": "call_b", "toolResultContains": "b is fine"},
    ),
    on(
        "look without ids",
        {"toolCalls": [{"name": name, "arguments": at} for _, name, at in CALLS]},
        match={"hasToolResult": False},
    ),
    on(
        "look without ids",
        {"content": "both are fine"},
        match={"hasToolResult": True, "toolResultContains": "b is fine"},
    ),
    on("city", {"content": {"city": "Oslo"}}),
    on("think", {"content": "so", "reasoning": "hm"}),
    on("stop early", {"content": "one two", "finishReason": "length"}),
    on("too often", {**BUSY, "retryAfter": 7}),
    on("wait and ask whole", {**BUSY, "retryAfter": 0}, match={"sequenceIndex": 0}),
    on("wait and ask in pieces", {**BUSY, "retryAfter": 0}, match={"sequenceIndex": 0}),
    on("wait and ask", {"content": "now"}),
    on("down", {"error": {"message": "no", "type": "server_error"}, "status": 500}),
    on("cut", {"content": "this is never said to its end"}, truncateAfterChunks=4, latency=5),
    {"match": {"inputText": "a"}, "response": {"embedding": [0.5, -1.0, 0.25]}},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running aimock with the script."""
    with aimock(tmp_path_factory.mktemp("aimock"), SCRIPT) as address:
        yield address


def _embed(turn: Turn[NoSettings]) -> FeatureSteps:
    result = yield from Embed(["a", "a"], role="main")
    return Answer("", data=[list(each) for each in result.vectors])


EMBED = Feature("embed", NoSettings, _embed, roles={"main": "embed"})


@pytest.fixture
def hosts(url: str, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> MakeHost:
    """Makes hosts for aimock: `hosts(TELL, key="another")`, with further features."""
    make = Hosts(url, make_host, monkeypatch)

    def with_features(*features: Feature[Any], **settings: Any) -> Host:
        return make(look=LOOKING, features=InlinePlugin(features=[EMBED, *features]), **settings)

    return with_features


@pytest.fixture
def host(hosts: MakeHost) -> Host:
    return hosts()


each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def answer_of(conversation: Conversation, text: str, streamed: bool, **options: Any) -> Answer:
    """What is said to a text."""
    if not streamed:
        return conversation.say(text, **options)
    *_, last = conversation.stream(text, **options)
    assert last.answer is not None
    return last.answer


@each_model
@each_way
def test_it_answers(host: Host, model: str, streamed: bool) -> None:
    conversation = host.open("chat", model, history=[Message("system", "Be brief.")])
    answer = answer_of(conversation, "hello", streamed)
    assert answer.text == GREETING
    # where it tells nothing of it
    silent = any(each in model for each in ("responses", "claude", "gemini", "ollama"))
    assert (answer.usage.output_tokens > 0) is not silent
    assert answer_of(conversation, "hello again", streamed).text == GREETING


@each_model
def test_the_pieces_make_up_the_answer(host: Host, model: str) -> None:
    pieces = [event.text for event in host.open("chat", model).stream("hello")]
    assert "".join(pieces) == GREETING
    assert len([piece for piece in pieces if piece]) == -(-len(GREETING) // 3)


@pytest.mark.parametrize("model", [each for each in MODELS.values() if "ollama" not in each])
@each_way
def test_it_uses_two_tools_at_once(host: Host, model: str, streamed: bool) -> None:
    conversation = host.open("look", model)
    assert answer_of(conversation, "look twice", streamed).text == "both are fine"
    called = [call for message in conversation.history for call in message.tool_calls]
    assert [(call.id, call.name, call.arguments) for call in called] == CALLS


@each_way
def test_it_uses_two_tools_whose_calls_have_no_ids(host: Host, streamed: bool) -> None:
    conversation = host.open("look", WITHOUT_IDS)
    for _ in range(2):
        assert answer_of(conversation, "look without ids", streamed).text == "both are fine"
    called = [call for message in conversation.history for call in message.tool_calls]
    assert [call.id for call in called] == ["call_0", "call_1", "call_2", "call_3"]
    assert [(call.name, call.arguments) for call in called] == [
        (name, arguments) for _, name, arguments in CALLS
    ] * 2


@each_model
@each_way
def test_it_is_held_to_a_schema(host: Host, model: str, streamed: bool) -> None:
    answer = answer_of(host.open("chat", model), "city", streamed, output_type=CITY)
    assert answer.data == {"city": "Oslo"}


@each_model
@each_way
def test_a_refusal_to_answer_so_often_is_told(host: Host, model: str, streamed: bool) -> None:
    with pytest.raises(RateLimited, match="slow down") as caught:
        answer_of(host.open("chat", model), "too often", streamed)
    assert caught.value.retry_after == 7


@each_way
def test_what_may_pass_is_tried_again(hosts: MakeHost, streamed: bool) -> None:
    host = hosts(patience=RetryPolicy(max_attempts=2))
    text = "wait and ask in pieces" if streamed else "wait and ask whole"
    assert answer_of(host.open("chat", "gpt-4.1@openai"), text, streamed).text == "now"


@each_model
@each_way
def test_a_failure_is_told(host: Host, model: str, streamed: bool) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        answer_of(host.open("chat", model), "down", streamed)
    assert caught.value.status == 500


@each_model
@each_way
def test_a_wrong_key_is_told(hosts: MakeHost, model: str, streamed: bool) -> None:
    with pytest.raises(AuthenticationFailed, match="Invalid API key"):
        answer_of(hosts(key="sk-canary-wrong").open("chat", model), "hello", streamed)


@each_model
def test_a_stream_that_is_cut_is_told(host: Host, model: str) -> None:
    conversation = host.open("chat", model)
    with pytest.raises(IncompleteReply):
        list(conversation.stream("cut"))
    assert conversation.history == ()


@pytest.mark.parametrize("instance", ["openai", "azure", "dated"])
def test_it_embeds(host: Host, instance: str) -> None:
    """As Ollama it answers to `/api/embed` in the form of the older `/api/embeddings`; as
    Google it does not know `batchEmbedContents`."""
    vectors = host.open("embed", f"text-embedding-3-small@{instance}").say("go").data
    assert vectors == [[0.5, -1.0, 0.25]] * 2


@pytest.mark.parametrize("instance", ["openai", "ollama"])
def test_it_lists_its_models(host: Host, instance: str) -> None:
    listed = host.instances[instance].provider.list_models(Cancellation())
    assert "gpt-4o" in [each.id for each in listed]


def read_by_us(hosts: MakeHost, prompt: Prompt, model: str, streamed: bool) -> Completion:
    """What comes back to a prompt, as a feature sees it."""
    completions: list[Completion] = []

    def tell(turn: Turn[NoSettings]) -> FeatureSteps:
        completions.append((yield from prompt))
        return Answer("")

    host = hosts(Feature("tell", NoSettings, tell))
    answer_of(host.open("tell", model), "go", streamed)
    return completions[0]


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as sdk_client:
        yield sdk_client


@pytest.mark.parametrize("text", ["hello", "look twice", "think"])
@each_way
def test_same_chat_by_the_sdk(hosts: MakeHost, client: Any, text: str, streamed: bool) -> None:
    prompt = Prompt([Message("user", text)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "gpt-4.1@openai+openai-chat", streamed)
    request = {"model": "gpt-4.1", "messages": [{"role": "user", "content": text}]}
    if streamed:
        options = {"include_usage": True}
        with client.chat.completions.stream(**request, stream_options=options) as events:
            theirs = events.get_final_completion()
    else:
        theirs = client.chat.completions.create(**request)
    choice = theirs.choices[0]
    assert ours.text == (choice.message.content or "")
    assert ours.vendor_finish == choice.finish_reason
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls] == [
        (call.id, call.function.name, json.loads(call.function.arguments))
        for call in choice.message.tool_calls or ()
    ]
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (
        theirs.usage.prompt_tokens,
        theirs.usage.completion_tokens,
    )


@pytest.mark.parametrize("text", ["hello", "look twice", "think", "stop early"])
@each_way
def test_same_responses_by_the_sdk(hosts: MakeHost, client: Any, text: str, streamed: bool) -> None:
    prompt = Prompt([Message("user", text)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "gpt-4.1@openai+openai-responses", streamed)
    request = {"model": "gpt-4.1", "input": [{"role": "user", "content": text}]}
    if streamed:
        with client.responses.stream(**request) as events:
            theirs = events.get_final_response()
    else:
        theirs = client.responses.create(**request)
    assert ours.text == theirs.output_text
    calls = [item for item in theirs.output if item.type == "function_call"]
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls] == [
        (call.call_id, call.name, json.loads(call.arguments)) for call in calls
    ]
    thoughts = [item for item in theirs.output if item.type == "reasoning"]
    assert [part.text for part in ours.message.content if isinstance(part, Reasoning)] == [
        piece.text for item in thoughts for piece in item.summary
    ]


@pytest.fixture
def claude(url: str) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as sdk_client:
        yield sdk_client


@pytest.mark.parametrize("text", ["hello", "look twice", "think", "stop early"])
@each_way
def test_same_by_anthropics_sdk(hosts: MakeHost, claude: Any, text: str, streamed: bool) -> None:
    prompt = Prompt([Message("user", text)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "claude-haiku-4-5@anthropic", streamed)
    request = {
        "model": "claude-haiku-4-5-20251001",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
    }
    if streamed:
        with claude.messages.stream(**request) as events:
            theirs = events.get_final_message()
    else:
        theirs = claude.messages.create(**request)
    assert ours.vendor_finish == theirs.stop_reason
    assert ours.text == "".join(each.text for each in theirs.content if each.type == "text")
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls] == [
        (each.id, each.name, each.input) for each in theirs.content if each.type == "tool_use"
    ]
    assert [part.text for part in ours.message.content if isinstance(part, Reasoning)] == [
        each.thinking for each in theirs.content if each.type == "thinking"
    ]
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
    )


@pytest.mark.parametrize("text", ["hello", "look twice", "think", "stop early"])
@each_way
@pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid FinishReason")
def test_googles_sdk_reads_the_same(hosts: MakeHost, url: str, text: str, streamed: bool) -> None:
    """Where a tool is called it gives a reason why it ended that is none, FUNCTION_CALL."""
    prompt = Prompt([Message("user", text)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "gemini-3.5-flash@gemini", streamed)
    options = genai.types.HttpOptions(base_url=url, api_version="v1beta")
    with genai.Client(vertexai=False, api_key=KEY, http_options=options) as client:
        request = {"model": "gemini-3.5-flash", "contents": text}
        events = (
            list(client.models.generate_content_stream(**request))
            if streamed
            else [client.models.generate_content(**request)]
        )
    parts = [part for event in events for part in event.candidates[0].content.parts]
    assert ours.vendor_finish == events[-1].candidates[0].finish_reason
    assert ours.text == "".join(part.text or "" for part in parts if not part.thought)
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls] == [
        (each.function_call.id, each.function_call.name, each.function_call.args)
        for each in parts
        if each.function_call
    ]
    thoughts = [part for part in ours.message.content if isinstance(part, Reasoning)]
    assert "".join(part.text for part in thoughts) == "".join(
        part.text or "" for part in parts if part.thought
    )


@pytest.mark.parametrize("text", ["city", "look without ids", "stop early"])
@each_way
def test_same_by_the_sdk_of_ollama(hosts: MakeHost, url: str, text: str, streamed: bool) -> None:
    """But for U+2028, at which that SDK ends a line."""
    prompt = Prompt([Message("user", text)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, WITHOUT_IDS, streamed)
    request = {"model": "any", "messages": [{"role": "user", "content": text}]}
    with ollama.Client(host=url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        events = list(client.chat(stream=True, **request)) if streamed else [client.chat(**request)]
    messages = [event.message for event in events]
    assert ours.text == "".join(message.content or "" for message in messages)
    assert ours.vendor_finish == events[-1].done_reason
    assert [(call.name, call.arguments) for call in ours.tool_calls] == [
        (call.function.name, call.function.arguments)
        for message in messages
        for call in message.tool_calls or ()
    ]
