"""Providers over HTTP: what they send, where they send it, and that nobody sees the key."""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import traceback
from collections.abc import Iterable, Iterator
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from genai_host import Host, Transport
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    File,
    HttpProvider,
    HttpRequest,
    ListedModel,
    Message,
    Model,
    NoSettings,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Secret,
    Services,
    StreamEvent,
    http_provider,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.http_provider import key_header, listed_models
from genai_host.api.settings import describe
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    GenaiError,
    MalformedReply,
    NoRoute,
    PluginError,
    ServiceUnavailable,
)
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import FakeService, json_reply, reply, stream_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.part

KEY = "sk-canary-7d31"


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([chat("hello")]) as service:
        yield service


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    transport = Transport(proxy="")
    yield Services("acme", ManualClock(), tmp_path, transport)
    transport.close()


def models_of(host: Host) -> list[ListedModel]:
    return list(host.instances["acme"].provider.list_models(Cancellation()))


def asks(path: str = "/chat", model_id: str = "m", **fields: Any) -> ProviderRequest:
    return ProviderRequest(
        "chat", "openai-chat", model_id, {"model": model_id}, path=path, **fields
    )


def test_a_provider_says_how_streams_are_read(service: FakeService, services: Services) -> None:
    class Provider(HttpProvider):
        framings = {"application/x-words": _read_words}

    service.replies = [stream_reply([b"one t", b"wo"], content_type="application/x-words")]
    events = Provider(services, service.url).stream(asks(), Cancellation())
    assert not isinstance(events, ProviderReply)
    assert [event.data for event in events] == [b"one", b"two"]


def _read_words(blocks: Iterable[bytes]) -> Iterator[StreamEvent]:
    return (StreamEvent(word) for word in b"".join(blocks).split())


def acme(service: FakeService, **options: Any) -> InlinePlugin:
    kind = http_provider(
        "acme", f"{service.url}/v1", {"openai-chat": DialectEndpoint()}, key="ACME_KEY", **options
    )
    return InlinePlugin(
        providers=[kind],
        models=[Model("m", ["openai-chat"], capabilities={"tools"}, at={"acme": "m-1"})],
    )


@pytest.fixture
def host(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("ACME_KEY", KEY)
    return make_host(acme=acme(service, models="/models", default_models={"chat": "m"}))


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_vendor_in_a_few_lines_answers(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [chat("hello", streamed=streamed)]
    conversation = host.open("chat", provider="acme")
    if streamed:
        assert "".join(event.text for event in conversation.stream("hi")) == "hello"
    else:
        assert conversation.say("hi").text == "hello"
    (sent,) = service.requests
    assert sent.json().get("stream", False) is streamed
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["content-type"] == "application/json"
    assert sent.json()["model"] == "m-1"


def test_a_whole_reply_instead_of_a_stream_is_an_answer_as_well(host: Host) -> None:
    assert "".join(event.text for event in host.open("chat", "m@acme").stream("hi")) == "hello"


def test_it_says_what_is_missing(make_host: MakeHost, service: FakeService) -> None:
    with pytest.raises(NoRoute, match="no key: set ACME_KEY"):
        make_host(acme=acme(service)).open("chat", "m@acme")


def test_a_vendor_may_need_no_key(make_host: MakeHost, service: FakeService) -> None:
    kind = http_provider("free", service.url, {"openai-chat": DialectEndpoint()})
    host = make_host(free=InlinePlugin(providers=[kind]))
    assert host.open("chat", "free/m").say("hi").text == "hello"
    assert "authorization" not in service.requests[0].headers
    assert [setting.env for setting in describe(kind.settings)] == [(), ()]


def test_a_key_may_be_sent_in_another_way(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", f" {KEY}\n")
    make_host(acme=acme(service, auth_header="x-api-key: {key}")).open("chat", "m@acme").say("hi")
    assert service.requests[0].headers["x-api-key"] == KEY


def test_its_models_are_listed(host: Host, service: FakeService) -> None:
    c = {"id": "c", "max_model_len": 8, "context_length": None}
    service.replies = [json_reply({"data": [{"id": "a"}, {"id": "b", "context_length": 9}, c]})]
    listed = [ListedModel("a"), ListedModel("b", window=9), ListedModel("c", window=8)]
    assert models_of(host) == listed
    (sent,) = service.requests
    assert (sent.method, sent.path, sent.body) == ("GET", "/v1/models", b"")
    assert sent.headers["authorization"] == f"Bearer {KEY}"


def test_a_vendor_without_a_list_lists_nothing(make_host: MakeHost, service: FakeService) -> None:
    assert models_of(make_host(acme=acme(service))) == []
    assert not service.requests


PAGE = b"<html><title>Sign in %s</title></html>" % KEY.encode()


@pytest.mark.parametrize(("answer", "kind", "message"), [
    (json_reply({"detail": "no such key"}, 401), AuthenticationFailed, "the key: no such key"),
    (json_reply({}, 503), ServiceUnavailable, "503"),
    (reply(PAGE), MalformedReply, r"a page of HTML, not JSON: Sign in \*"),
], ids=["401", "503", "html"])  # fmt: skip
def test_a_list_that_fails_says_why(
    host: Host, service: FakeService, answer: Any, kind: type[GenaiError], message: str
) -> None:
    service.replies = [answer]
    with pytest.raises(kind, match=message) as caught:
        models_of(host)
    assert ("base_url" in caught.value.hint) is (kind is MalformedReply)


@pytest.mark.parametrize("status", [200, 400])
def test_an_error_has_no_part_of_the_key(host: Host, service: FakeService, status: int) -> None:
    """Whatever is cut off of it."""
    for length in range(930, 1001, 7):
        service.replies = [reply(b"x" * length + KEY.encode(), status)]
        with pytest.raises(GenaiError, match="xxx") as caught:
            host.open("chat", "m@acme").say("hi")
        assert "sk-" not in caught.value.message


@pytest.mark.parametrize("name", ["data", "models", ""])
def test_a_list_of_models_has_several_forms(name: str) -> None:
    models = [{"id": "a", "context_window": 8}, {"name": "b", "max_context_length": 9}]
    listed = listed_models({name: models} if name else models)
    assert listed == [ListedModel("a", window=8), ListedModel("b", window=9)]


def test_an_error_in_place_of_the_list_is_told() -> None:
    with pytest.raises(ServiceUnavailable, match="told you so"):
        listed_models({"detail": "told you so"})


@pytest.mark.parametrize(
    "data", [None, {}, {"data": None}, {"data": [None]}, {"data": ["x"]}, {"data": [{}]},
             {"data": [{"id": 3}]}],
    ids=str,
)  # fmt: skip
def test_what_is_no_list_of_models_is_malformed(data: Any) -> None:
    with pytest.raises(MalformedReply):
        listed_models(data)


@pytest.mark.parametrize(("answer", "kind"), [
    *((json_reply({}, each), None) for each in (200, 403, 404, 500)),
    (json_reply({}, 401), AuthenticationFailed),
    (json_reply({}, 502), ServiceUnavailable),
    (json_reply({}, 503), ServiceUnavailable),
    (reply(b"<html>"), None),
], ids=["200", "403", "404", "500", "401", "502", "503", "html"])  # fmt: skip
def test_a_service_that_answers_can_be_reached_unless_it_refuses_the_key(
    host: Host, service: FakeService, answer: Any, kind: type[GenaiError] | None
) -> None:
    service.replies = [answer]
    with contextlib.nullcontext() if kind is None else pytest.raises(kind):
        assert host.instances["acme"].provider.probe(Cancellation()) == {}
    assert [sent.path for sent in service.requests] == ["/v1/models"]


def test_a_service_without_a_list_is_asked_itself(services: Services, service: FakeService) -> None:
    assert HttpProvider(services, f"{service.url}/v1").probe(Cancellation()) == {}
    assert [(sent.method, sent.path) for sent in service.requests] == [("GET", "/v1")]


@pytest.mark.parametrize(("base_url", "request_", "address"), [
    ("http://x/v1", asks("/chat"), "http://x/v1/chat"),
    (" http://x/v1/ ", asks("/chat"), "http://x/v1/chat"),
    ("http://x", asks("/d/{model}/chat", "a/b c:1"), "http://x/d/a%2Fb%20c%3A1/chat"),
    ("http://x", asks("/chat", ".."), "http://x/chat"),
    ("http://x", asks(query={"v": "a b", "w": "1"}), "http://x/chat?v=a+b&w=1"),
    ("http://[::1]:8080", asks(), "http://[::1]:8080/chat"),
], ids=repr)  # fmt: skip
def test_an_address_is_made(
    services: Services, base_url: str, request_: ProviderRequest, address: str
) -> None:
    assert HttpProvider(services, base_url).address(request_) == address


@pytest.mark.parametrize("model_id", ["", ".", ".."])
def test_a_model_cannot_change_the_path(services: Services, model_id: str) -> None:
    with pytest.raises(ConfigurationError):
        HttpProvider(services, "http://x").address(asks("/d/{model}", model_id))


@pytest.mark.parametrize(
    "base_url",
    ["x", "ftp://x", "http://", "http://x:port", "http://[::1", f"http://me:{KEY}@x",
     f"me:{KEY}@x", f"http://x?key={KEY}", f"http://x#{KEY}"],
)  # fmt: skip
def test_what_is_no_address_is_refused(services: Services, base_url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        HttpProvider(services, base_url)
    assert KEY not in str(caught.value)


def test_an_address_that_is_not_known_yet_is_missing(services: Services) -> None:
    assert HttpProvider(services, "").unavailable_reason() == "no address: set base_url"
    assert HttpProvider(services, "http://x").unavailable_reason() is None


def test_addresses_are_forgotten_in_the_end(services: Services, service: FakeService) -> None:
    provider = HttpProvider(services, service.url)
    sizes = []
    for number in range(600):
        provider._outgoing(asks("/d/{model}", str(number)))
        sizes.append(len(provider._addresses))
    assert max(sizes) == 256


def test_a_file_is_sent_as_a_form(services: Services, service: FakeService) -> None:
    fields = {"model": "m", "kinds": ["word", "segment"], "temperature": 0.5}
    file = File(b"RIFF", "audio/wav", "a.wav")
    request = ProviderRequest("transcribe", "openai-chat", "m", fields, path="/chat", file=file)
    HttpProvider(services, service.url).send(request, Cancellation())
    (sent,) = service.requests
    form = BytesParser(policy=HTTP).parsebytes(
        f"Content-Type: {sent.headers['content-type']}\r\n\r\n".encode() + sent.body
    )
    parts = [(part["content-disposition"].params, part) for part in form.iter_parts()]
    assert [(each["name"], part.get_content()) for each, part in parts[:-1]] == [
        *(("model", "m"), ("kinds[]", "word"), ("kinds[]", "segment"), ("temperature", "0.5"))
    ]
    named, part = parts[-1]
    assert (named["name"], named["filename"]) == ("file", "a.wav")
    assert (part.get_content_type(), part.get_content()) == ("audio/wav", b"RIFF")


def test_headers_of_a_request_come_first(services: Services, service: FakeService) -> None:
    provider = HttpProvider(services, service.url, {"x-a": "1", "x-b": "1"})
    provider.send(asks(headers={"x-b": "2"}), Cancellation())
    (sent,) = service.requests
    assert (sent.headers["x-a"], sent.headers["x-b"]) == ("1", "2")


@pytest.mark.parametrize("headers", [{"x y": "1"}, {"": "1"}, {"x": "a\r\nb: c"}, {"x": "é"}])
def test_what_is_no_header_is_refused(services: Services, headers: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        HttpProvider(services, "http://x", headers)


@pytest.mark.parametrize("key", [f"{KEY}\r\nx: y", f"{KEY}é", f"{KEY}\x00"])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        key_header("x: {key}", Secret(key))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", [None, Secret(""), Secret(" \n")])
def test_no_key_is_no_header(services: Services, key: Secret | None) -> None:
    assert key_header("x: {key}", key) == {}
    assert not HttpProvider(services, "http://x", key=key).has_key


class Signed(HttpProvider):
    serves = {"openai-chat": DialectEndpoint()}

    def __init__(self, settings: NoSettings, services: Services) -> None:
        super().__init__(services, "http://x")

    def authorize(self, request: HttpRequest, limits: CancelToken) -> HttpRequest:
        seen = f"{request.method} {request.url} {len(request.body)}"
        return evolve(request, headers={**request.headers, "x-signature": seen})


def test_a_request_may_be_signed(services: Services, service: FakeService) -> None:
    provider = Signed(NoSettings(), services)
    provider.base_url = service.url
    provider.send(asks(), Cancellation())
    assert service.requests[0].headers["x-signature"] == f"POST {service.url}/chat 13"
    assert ProviderType("signed", NoSettings, Signed).open is Signed


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_a_key_that_a_service_repeats_is_not_shown(
    host: Host, service: FakeService, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = {"error": {"message": f"wrong key: {KEY}", "key": KEY}}
    service.replies = [json_reply(error, status, {"x-echo": KEY})]
    with pytest.raises(GenaiError, match=r"wrong key: \*\*\*") as caught:
        host.open("chat", "m@acme").say("hi")
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown + repr(caught.value) + repr(caught.value.fields()) + caplog.text
    assert KEY.encode() not in pickle.dumps(caught.value)


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_key_in_an_exception_of_a_provider_is_not_shown(
    host: Host, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def send(*args: Any) -> ProviderReply:
        raise kind(f"wrong key: {KEY}")

    monkeypatch.setattr(host.instances["acme"].provider, "send", send)
    with pytest.raises(PluginError, match=r"wrong key: \*\*\*") as caught:
        host.open("chat", "m@acme").say("hi")
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(("status", "key", "text", "shown"), [
    pytest.param(200, KEY, KEY, KEY, id="no error"),
    pytest.param(400, KEY, KEY, "***", id="an error"),
    pytest.param(400, "no", "nothing", "nothing", id="a short key"),
    pytest.param(400, "nothing", "nothing", "nothing", id="of seven characters"),
    pytest.param(400, "nothings", "nothings", "***", id="of eight characters"),
])  # fmt: skip
def test_only_a_long_key_in_an_error_is_redacted(
    services: Services, service: FakeService, status: int, key: str, text: str, shown: str
) -> None:
    service.replies = [json_reply({"text": text}, status)]
    provider = HttpProvider(services, service.url, key=Secret(key))
    assert json.loads(provider.send(asks(), Cancellation()).body) == {"text": shown}


def test_what_a_model_says_is_left_as_it_is(host: Host, service: FakeService) -> None:
    service.replies = [chat(KEY)]
    assert host.open("chat", "m@acme").say(Message("user", "hi")).text == KEY


def test_nothing_of_a_provider_shows_its_key(host: Host) -> None:
    provider = host.instances["acme"].provider
    assert isinstance(provider, HttpProvider)
    request = provider._outgoing(asks())
    assert KEY in request.headers["Authorization"]
    assert KEY not in repr(provider) + repr(request) + str(request)
