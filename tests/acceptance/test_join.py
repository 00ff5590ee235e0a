"""The join: what is said is the same whichever way a model is called. A table of models,
of the ways that each of them can go, and of what is said."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anthropic_service
import bedrock_service
import gemini_service
import genai_models_open
import genai_vendor_anthropic
import genai_vendor_bedrock
import genai_vendor_gemini
import genai_vendor_ollama
import genai_vendor_openai
import ollama_service
import openai_service
import pytest
from attrs import evolve, frozen
from fixtures import MakeHost
from openai_service import LOOKING

from genai_host import Config, Host, Image, Message, Record, Text
from genai_host.api import Opaque, Part, Reasoning, ToolCall, ToolResult
from genai_host.config import InstanceConfig
from genai_host.errors import NoRoute, Unavailable
from genai_host.record import StepEnded
from genai_host.retry import Patience
from genai_host.testing.fake_service import FakeService, Reply, json_reply, stream_reply

Says = Callable[..., Reply]
"""Makes a reply of `text`, one that asks for a tool with `call`, in pieces if `streamed`."""

ENVIRONMENT: Mapping[str, str] = {
    "NO_PROXY": "*",
    "OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "{url}/v1",
    "AZURE_OPENAI_API_KEY": "az-1", "AZURE_OPENAI_ENDPOINT": "{url}",
    "ANTHROPIC_API_KEY": "ant-1", "ANTHROPIC_BASE_URL": "{url}",
    "AWS_BEARER_TOKEN_BEDROCK": "aws-1", "AWS_REGION": "eu-west-1",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}",
    "GEMINI_API_KEY": "g-1", "GOOGLE_GEMINI_BASE_URL": "{url}",
    "GOOGLE_CLOUD_PROJECT": "mine", "GOOGLE_VERTEX_BASE_URL": "{url}",
    "CLOUDSDK_AUTH_ACCESS_TOKEN": "ya29-1",
    "OLLAMA_HOST": "{url}",
}  # fmt: skip
UNSET = (
    "OPENAI_API_VERSION", "AZURE_OPENAI_AD_TOKEN", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY",
    "GOOGLE_CLOUD_LOCATION", "AWS_PROFILE",
)  # fmt: skip
PNG = b"\x89PNG\r\n\x1a\n"
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


def invoked(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """Claude by Bedrock's InvokeModel: Anthropic's replies, and its events in frames."""
    if not streamed:
        return anthropic_service.claude(text, call=call)
    events = bedrock_service.encoded(anthropic_service.events(text, call=call))
    frames = [bedrock_service.chunk(each) for each in events]
    return stream_reply(frames, content_type=bedrock_service.STREAM_TYPE)


@frozen
class Way:
    """A way that a model can go.

    says    what the service answers
    path    a part of where it is asked
    """

    route: str
    says: Says
    path: str


WAYS: Mapping[str, tuple[Way, ...]] = {
    "claude-haiku-4-5": (
        Way("anthropic+anthropic-messages", anthropic_service.claude, "/v1/messages"),
        Way("bedrock+anthropic-messages", invoked, "/invoke"),
        Way("bedrock+bedrock-converse", bedrock_service.converse, "/converse"),
        Way("vertex+anthropic-messages", anthropic_service.claude, "anthropic/models"),
    ),
    "gpt-4.1": (
        Way("openai+openai-chat", openai_service.chat, "/v1/chat/completions"),
        Way("openai+openai-responses", openai_service.responses, "/v1/responses"),
        Way("azure-openai+openai-chat", openai_service.chat, "/openai/v1/chat"),
        Way("azure-openai+openai-responses", openai_service.responses, "/openai/v1/responses"),
    ),
    "gemini-3.8-flash": (
        Way("gemini+gemini", gemini_service.gemini, "/v1beta/models"),
        Way("vertex+gemini", gemini_service.gemini, "google/models"),
    ),
    "llama-3.3-70b": (
        Way("ollama+ollama-chat", ollama_service.chat, "/api/chat"),
        Way("bedrock+bedrock-converse", bedrock_service.converse, "/converse"),
        Way("mine+openai-chat", openai_service.chat, "/v1/chat/completions"),
    ),
}
CASES = [(model, way) for model, ways in WAYS.items() for way in ways]


def ways(but: str = "") -> pytest.MarkDecorator:
    """All of the table, but for models or routes of which this is a part."""
    chosen = [
        pytest.param(model, way, id=f"{model}@{way.route}")
        for model, way in CASES
        if not but or but not in f"{model}@{way.route}"
    ]
    return pytest.mark.parametrize(("model", "way"), chosen)


each_way = ways()
SEES_NOTHING = "llama"
CANNOT_STOP = "responses"  # the format has no place for it: it is an error before the call


@pytest.fixture(scope="module")
def service() -> Iterator[FakeService]:
    with FakeService() as made:
        yield made


MakeHosts = Callable[..., Host]


@pytest.fixture
def set_up(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> MakeHosts:
    """Makes hosts that have all vendors, each of them served here."""
    for name in (*UNSET, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value.format(url=service.url))

    def make(config: Config, **given: Any) -> Host:
        return make_host(
            config=config,
            **given,
            open=genai_models_open,
            anthropic=genai_vendor_anthropic,
            bedrock=genai_vendor_bedrock,
            gemini=genai_vendor_gemini,
            ollama=genai_vendor_ollama,
            openai=genai_vendor_openai,
            look=LOOKING,
        )

    return make


@pytest.fixture
def host(set_up: MakeHosts, service: FakeService) -> Host:
    settings = {"base_url": f"{service.url}/v1"}
    mine = InstanceConfig("openai-compatible", models={"llama-3.3-70b": "llama"}, settings=settings)
    return set_up(Config(providers={"mine": mine}))


def said(
    host: Host,
    service: FakeService,
    model: str,
    way: Way,
    replies: list[Reply],
    message: Any,
    *,
    feature: str = "chat",
    streamed: bool = False,
    returns: Any = None,
    **given: Any,
) -> tuple[list[Message], list[Any]]:
    """What the history is then, without what is the way's own, and what was sent."""
    service.requests.clear()
    service.replies[:] = replies
    with host.open(feature, f"{model}@{way.route}", **given) as conversation:
        if streamed:
            for _ in conversation.stream(message, returns=returns):
                pass
        else:
            conversation.say(message, returns=returns)
        sent = list(service.requests)
        assert all(way.path in each.path for each in sent)
        return [_plain(each) for each in conversation.history], [
            json.loads(each.body) for each in sent
        ]


def _plain(message: Message) -> Message:
    """Without thoughts, which are a model's own, and ids, which a service makes up."""
    return Message(message.role, [_without_id(p) for p in message.content if _is_common(p)])


def _is_common(part: Part) -> bool:
    return not isinstance(part, (Opaque, Reasoning))


def _without_id(part: Part) -> Part:
    return evolve(part, id="") if isinstance(part, (ToolCall, ToolResult)) else part


@each_way
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_answer(host: Host, service: FakeService, model: str, way: Way, streamed: bool) -> None:
    reply = way.says("Grüße", streamed=streamed)
    history, _ = said(host, service, model, way, [reply], "hello", streamed=streamed)
    assert history == [Message("user", "hello"), Message("assistant", "Grüße")]


@each_way
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_tool(host: Host, service: FakeService, model: str, way: Way, streamed: bool) -> None:
    # Llama at Bedrock cannot ask for tools amid a stream, and answers whole
    in_pieces = streamed and not (model.startswith("llama") and "converse" in way.route)
    replies = [
        way.says(call=True, streamed=in_pieces),
        way.says("It is fine", streamed=in_pieces),
    ]
    history, (_, last) = said(
        host, service, model, way, replies, "look at é", feature="look", streamed=streamed
    )
    assert history == [
        Message("user", "look at é"),
        Message("assistant", [ToolCall("", "look", {"at": "é"})]),
        Message("tool", [ToolResult("", "look", [Text("é is fine")])]),
        Message("assistant", "It is fine"),
    ]
    assert "é is fine" in json.dumps(last, ensure_ascii=False)


@each_way
def test_an_answer_that_has_to_be_data(
    host: Host, service: FakeService, model: str, way: Way
) -> None:
    reply = way.says('{"name": "Oslo"}')
    history, (sent,) = said(host, service, model, way, [reply], "a city", returns=CITY)
    assert history[-1] == Message("assistant", '{"name": "Oslo"}')
    asked = json.dumps(sent).replace("\\", "")
    assert '"required": ["name"]' in asked or '"required":["name"]' in asked


@ways(but=SEES_NOTHING)
def test_a_picture_and_what_the_system_says(
    host: Host, service: FakeService, model: str, way: Way
) -> None:
    given: dict[str, Any] = {"history": [Message("system", "You are brief.")]}
    shown = [Text("what is it?"), Image(PNG, "image/png")]
    history, (sent,) = said(host, service, model, way, [way.says("A dot")], shown, **given)
    assert history == [
        Message("system", "You are brief."), Message("user", shown), Message("assistant", "A dot"),
    ]  # fmt: skip
    asked = json.dumps(sent)
    assert base64.b64encode(PNG).decode() in asked
    assert asked.count("You are brief.") == 1


@ways(but=CANNOT_STOP)
def test_a_word_to_stop_at(host: Host, service: FakeService, model: str, way: Way) -> None:
    given: dict[str, Any] = {"parameters": {"stop": ["END"], "max_tokens": 99}}
    history, (sent,) = said(host, service, model, way, [way.says("so")], "go", **given)
    assert history[-1] == Message("assistant", "so")
    asked = json.dumps(sent)
    assert '"END"' in asked
    assert "99" in asked


@each_way
def test_a_failure(host: Host, service: FakeService, model: str, way: Way) -> None:
    service.requests.clear()
    service.replies[:] = [json_reply({}, 503)]
    with host.open("chat", f"{model}@{way.route}") as conversation:
        with pytest.raises(Unavailable) as caught:
            conversation.say("hello")
        assert not conversation.history
    error = caught.value
    provider = way.route.partition("+")[0]
    assert (error.provider, error.model, error.status) == (provider, model, 503)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_claude_goes_on_at_bedrock_where_anthropic_fails(
    set_up: MakeHosts, service: FakeService, streamed: bool
) -> None:
    host = set_up(Config(prefer=("anthropic", "bedrock")), patience=Patience(tries=1, calls=2))
    service.requests.clear()
    service.replies[:] = [
        anthropic_service.failure(529, kind="overloaded_error"),
        invoked("at last", streamed=streamed),
    ]
    with host.open("chat", "claude-haiku-4-5") as conversation:
        if streamed:
            answer = [event.answer for event in conversation.stream("hello")][-1]
        else:
            answer = conversation.say("hello")
        assert answer is not None
        assert answer.text == "at last"
        assert isinstance(conversation.record, Record)
        ended = next(e for e in conversation.record.entries if isinstance(e, StepEnded))
    assert [each.path.startswith("/v1/messages") for each in service.requests] == [True, False]
    assert [(each.route.provider, each.status) for each in ended.tries] == [("anthropic", 529)]
    assert answer.details[0].data["provider"] == "bedrock"


COUNTS: Mapping[str, tuple[str, str]] = {
    "claude-haiku-4-5@anthropic": ("/v1/messages/count_tokens", "input_tokens"),
    "claude-haiku-4-5@bedrock": ("/count-tokens", "inputTokens"),
    "claude-haiku-4-5@vertex": ("/models/count-tokens:rawPredict", "input_tokens"),
    "gpt-4.1@openai": ("/v1/responses/input_tokens", "input_tokens"),
    "gemini-3.8-flash@gemini": (":countTokens", "totalTokens"),
    "gemini-3.8-flash@vertex": (":countTokens", "totalTokens"),
    "llama-3.3-70b@bedrock": ("/count-tokens", "inputTokens"),
}


@pytest.mark.parametrize("route", COUNTS)
def test_tokens_are_counted(host: Host, service: FakeService, route: str) -> None:
    path, name = COUNTS[route]
    service.requests.clear()
    service.replies[:] = [json_reply({name: 12})]
    count = host.count_tokens("how many?", model=route)
    assert count.tokens == 12
    (sent,) = service.requests
    assert sent.path.split("?")[0].endswith(path)
    assert "how many?" in sent.body.decode()
    assert "max_tokens" not in sent.body.decode()
    assert count.route is not None
    assert f"{count.route.model}@{count.route.provider}" == route


def test_where_no_tokens_are_counted_it_is_said(host: Host) -> None:
    with pytest.raises(NoRoute, match="ollama counts no tokens of ollama-chat"):
        host.count_tokens("how many?", model="llama-3.3-70b@ollama+ollama-chat")
