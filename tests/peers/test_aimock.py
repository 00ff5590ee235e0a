"""aimock, which speaks as OpenAI, Azure, Anthropic, Google and Ollama do and says what it is
told to, as a counterpart of the vendors here; and what their SDKs read of the same replies."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anthropic
import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_ollama
import genai_vendor_openai
import google.genai as genai
import ollama
import openai
import pytest
from fixtures import MakeHost
from openai_service import LOOK, LOOKING
from peers import npm_packages

from genai_host import Config, Conversation, Host, Patience
from genai_host.api import (
    Answer,
    Completion,
    Embed,
    Feature,
    Message,
    NoSettings,
    Prompt,
    Reasoning,
    Story,
    Turn,
)
from genai_host.cancellation import Cancellation
from genai_host.config import InstanceConfig
from genai_host.errors import AuthenticationFailed, IncompleteReply, RateLimited, Unavailable
from genai_host.testing import MadePlugin

pytestmark = pytest.mark.peers

KEY = "sk-canary-51fe"
PACKAGE = Path(__file__).with_name("aimock")
GREETING = 'Hello, é "you"\n\u2028 there!'
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLS = [("call_a", "look", {"at": "é"}), ("call_b", "look", {"at": "b"})]


def _on(said: str, response: Any, **more: Any) -> Any:
    return {"match": {"userMessage": said, **more.pop("match", {})}, "response": response, **more}


BUSY = {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429}
SCRIPT = [
    _on("hello", {"content": GREETING}),
    _on(
        "look twice",
        {"toolCalls": [{"id": id, "name": name, "arguments": at} for id, name, at in CALLS]},
        match={"hasToolResult": False},
    ),
    _on(
        "look twice",
        {"content": "both are fine"},
        match={"hasToolResult": True, "toolCallId": "call_b", "toolResultContains": "b is fine"},
    ),
    _on(
        "look without ids",
        {"toolCalls": [{"name": name, "arguments": at} for _, name, at in CALLS]},
        match={"hasToolResult": False},
    ),
    _on(
        "look without ids",
        {"content": "both are fine"},
        match={"hasToolResult": True, "toolResultContains": "b is fine"},
    ),
    _on("city", {"content": {"city": "Oslo"}}),
    _on("think", {"content": "so", "reasoning": "hm"}),
    _on("stop early", {"content": "one two", "finishReason": "length"}),
    _on("too often", {**BUSY, "retryAfter": 7}),
    _on("wait and ask whole", {**BUSY, "retryAfter": 0}, match={"sequenceIndex": 0}),
    _on("wait and ask in pieces", {**BUSY, "retryAfter": 0}, match={"sequenceIndex": 0}),
    _on("wait and ask", {"content": "now"}),
    _on("down", {"error": {"message": "no", "type": "server_error"}, "status": 500}),
    _on("cut", {"content": "this is never said to its end"}, truncateAfterChunks=4, latency=5),
    {"match": {"inputText": "a"}, "response": {"embedding": [0.5, -1.0, 0.25]}},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running aimock with the script."""
    folder = tmp_path_factory.mktemp("aimock")
    packages = npm_packages.install(PACKAGE, folder)
    script = folder / "script.json"
    script.write_text(json.dumps({"fixtures": SCRIPT}), encoding="utf-8")
    program = packages / "@copilotkit" / "aimock" / "dist" / "cli.js"
    options = ["--port", "0", "--fixtures", str(script), "--strict", "--chunk-size", "3"]
    with subprocess.Popen(
        [npm_packages.NODE, program, *options],
        env={**os.environ, "AIMOCK_API_KEYS": KEY},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        found = (re.search(r"listening on (http://[\d.:]+)", line) for line in lines)
        try:
            yield next(each[1] for each in found if each)
        finally:
            process.kill()


MODELS: Mapping[str, str] = {
    "openai, chat": "gpt-4.1@openai+openai-chat",
    "openai, responses": "gpt-4.1@openai+openai-responses",
    "compatible, chat": "gate/any",
    "azure, chat": "gpt-4.1@azure+openai-chat",
    "azure, responses": "gpt-4.1@azure+openai-responses",
    "azure, dated, chat": "gpt-4.1@dated+openai-chat",
    "azure, dated, responses": "gpt-4.1@dated+openai-responses",
    "anthropic": "claude-haiku-4-5@anthropic",
    "gemini": "gemini-3.5-flash@gemini",
    "ollama, chat": "ollama/any",
    "ollama, generate": "any@ollama+ollama-generate",
}
WITHOUT_IDS = "ollama/any"
"""Whose calls of tools have no ids."""
VARIABLES = (
    "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_VERSION", "AZURE_OPENAI_AD_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
)  # fmt: skip


def _embed(turn: Turn[NoSettings]) -> Story:
    found = yield from Embed(["a", "a"], role="main")
    return Answer("", data=[list(each) for each in found.vectors])


EMBED = Feature("embed", NoSettings, _embed, roles={"main": "embed"})


class Hosts:
    """Makes hosts for aimock: `hosts(key="another")`."""

    def __init__(self, url: str, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url = url
        self._make_host = make_host
        self._monkeypatch = monkeypatch

    def __call__(
        self, *features: Feature[Any], key: str = KEY, patience: Patience | None = None
    ) -> Host:
        environment = {
            "OPENAI_API_KEY": key,
            "OPENAI_BASE_URL": f"{self._url}/v1",
            "AZURE_OPENAI_API_KEY": key,
            "AZURE_OPENAI_ENDPOINT": self._url,
            "GENAI_HOST_PROVIDERS__AZURE__API_KEY": key,
            "GENAI_HOST_PROVIDERS__DATED__API_KEY": key,
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_BASE_URL": self._url,
            "GEMINI_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": self._url,
            "OLLAMA_API_KEY": key,
            "OLLAMA_HOST": self._url,
        }
        for name in VARIABLES:
            self._monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)
        gate = {"base_url": f"{self._url}/v1", "api_key": {"env": "OPENAI_API_KEY"}}
        dated = {"api_version": "2025-04-01-preview"}
        return self._make_host(
            config=Config(
                providers={
                    "gate": InstanceConfig("openai-compatible", settings=gate),
                    "azure": InstanceConfig("azure-openai"),
                    "dated": InstanceConfig("azure-openai", settings=dated),
                }
            ),
            patience=patience,
            anthropic=genai_vendor_anthropic,
            gemini=genai_vendor_gemini,
            ollama=genai_vendor_ollama,
            openai=genai_vendor_openai,
            look=LOOKING,
            features=MadePlugin(features=[EMBED, *features]),
        )


@pytest.fixture
def hosts(url: str, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(url, make_host, monkeypatch)


@pytest.fixture
def host(hosts: Hosts) -> Host:
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
    assert (answer.usage.output > 0) is not silent
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
    answer = answer_of(host.open("chat", model), "city", streamed, returns=CITY)
    assert answer.data == {"city": "Oslo"}


@each_model
@each_way
def test_a_refusal_to_answer_so_often_is_told(host: Host, model: str, streamed: bool) -> None:
    with pytest.raises(RateLimited, match="slow down") as caught:
        answer_of(host.open("chat", model), "too often", streamed)
    assert caught.value.retry_after == 7


@each_way
def test_what_may_pass_is_tried_again(hosts: Hosts, streamed: bool) -> None:
    host = hosts(patience=Patience(tries=2))
    said = "wait and ask in pieces" if streamed else "wait and ask whole"
    assert answer_of(host.open("chat", "gpt-4.1@openai"), said, streamed).text == "now"


@each_model
@each_way
def test_a_failure_is_told(host: Host, model: str, streamed: bool) -> None:
    with pytest.raises(Unavailable) as caught:
        answer_of(host.open("chat", model), "down", streamed)
    assert caught.value.status == 500


@each_model
@each_way
def test_a_wrong_key_is_told(hosts: Hosts, model: str, streamed: bool) -> None:
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


def read_by_us(hosts: Hosts, prompt: Prompt, model: str, streamed: bool) -> Completion:
    """What comes back to a prompt, as a feature sees it."""
    found: list[Completion] = []

    def tell(turn: Turn[NoSettings]) -> Story:
        found.append((yield from prompt))
        return Answer("")

    host = hosts(Feature("tell", NoSettings, tell))
    answer_of(host.open("tell", model), "go", streamed)
    return found[0]


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


@pytest.mark.parametrize("said", ["hello", "look twice", "think"])
@each_way
def test_the_sdk_reads_the_same_in_chat(
    hosts: Hosts, client: Any, said: str, streamed: bool
) -> None:
    prompt = Prompt([Message("user", said)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "gpt-4.1@openai+openai-chat", streamed)
    asked = {"model": "gpt-4.1", "messages": [{"role": "user", "content": said}]}
    if streamed:
        options = {"include_usage": True}
        with client.chat.completions.stream(**asked, stream_options=options) as events:
            theirs = events.get_final_completion()
    else:
        theirs = client.chat.completions.create(**asked)
    choice = theirs.choices[0]
    assert ours.text == (choice.message.content or "")
    assert ours.vendor_finish == choice.finish_reason
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls] == [
        (call.id, call.function.name, json.loads(call.function.arguments))
        for call in choice.message.tool_calls or ()
    ]
    assert (ours.usage.input, ours.usage.output) == (
        theirs.usage.prompt_tokens,
        theirs.usage.completion_tokens,
    )


@pytest.mark.parametrize("said", ["hello", "look twice", "think", "stop early"])
@each_way
def test_the_sdk_reads_the_same_in_responses(
    hosts: Hosts, client: Any, said: str, streamed: bool
) -> None:
    prompt = Prompt([Message("user", said)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "gpt-4.1@openai+openai-responses", streamed)
    asked = {"model": "gpt-4.1", "input": [{"role": "user", "content": said}]}
    if streamed:
        with client.responses.stream(**asked) as events:
            theirs = events.get_final_response()
    else:
        theirs = client.responses.create(**asked)
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
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as made:
        yield made


@pytest.mark.parametrize("said", ["hello", "look twice", "think", "stop early"])
@each_way
def test_anthropics_sdk_reads_the_same(
    hosts: Hosts, claude: Any, said: str, streamed: bool
) -> None:
    prompt = Prompt([Message("user", said)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "claude-haiku-4-5@anthropic", streamed)
    asked = {
        "model": "claude-haiku-4-5-20251001",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": said}],
    }
    if streamed:
        with claude.messages.stream(**asked) as events:
            theirs = events.get_final_message()
    else:
        theirs = claude.messages.create(**asked)
    assert ours.vendor_finish == theirs.stop_reason
    assert ours.text == "".join(each.text for each in theirs.content if each.type == "text")
    assert [(call.id, call.name, call.arguments) for call in ours.tool_calls] == [
        (each.id, each.name, each.input) for each in theirs.content if each.type == "tool_use"
    ]
    assert [part.text for part in ours.message.content if isinstance(part, Reasoning)] == [
        each.thinking for each in theirs.content if each.type == "thinking"
    ]
    assert (ours.usage.input, ours.usage.output) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
    )


@pytest.mark.parametrize("said", ["hello", "look twice", "think", "stop early"])
@each_way
@pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid FinishReason")
def test_googles_sdk_reads_the_same(hosts: Hosts, url: str, said: str, streamed: bool) -> None:
    """Where a tool is called it gives a reason why it ended that is none, FUNCTION_CALL."""
    prompt = Prompt([Message("user", said)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, "gemini-3.5-flash@gemini", streamed)
    options = genai.types.HttpOptions(base_url=url, api_version="v1beta")
    with genai.Client(vertexai=False, api_key=KEY, http_options=options) as client:
        asked = {"model": "gemini-3.5-flash", "contents": said}
        events = (
            list(client.models.generate_content_stream(**asked))
            if streamed
            else [client.models.generate_content(**asked)]
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


@pytest.mark.parametrize("said", ["city", "look without ids", "stop early"])
@each_way
def test_the_sdk_reads_the_same_of_ollama(
    hosts: Hosts, url: str, said: str, streamed: bool
) -> None:
    """But for U+2028, at which that SDK ends a line."""
    prompt = Prompt([Message("user", said)], tools=[LOOK])
    ours = read_by_us(hosts, prompt, WITHOUT_IDS, streamed)
    asked = {"model": "any", "messages": [{"role": "user", "content": said}]}
    with ollama.Client(host=url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        events = list(client.chat(stream=True, **asked)) if streamed else [client.chat(**asked)]
    messages = [event.message for event in events]
    assert ours.text == "".join(message.content or "" for message in messages)
    assert ours.vendor_finish == events[-1].done_reason
    assert [(call.name, call.arguments) for call in ours.tool_calls] == [
        (call.function.name, call.function.arguments)
        for message in messages
        for call in message.tool_calls or ()
    ]
