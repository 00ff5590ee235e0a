"""The configuration of a service, and its client: keys, addresses, failures."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from genai_feature_assistants.agents import OpenAIServiceConfiguration, client as client_file
from genai_feature_assistants.agents.client import ServiceClient, path_of

from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ConfigurationError,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
    ValidationError,
)
from genai_host_testing import FakeService
from genai_host_testing.fake_service import CUT, HANG, RESET, Reply, json_reply, reply, stream_reply
from genai_host_testing.internal.vendors import modules_after
from genai_host_testing.services.assistants import KEY

pytestmark = pytest.mark.part


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService([json_reply({"id": "x"})]) as service:
        yield service


def client_of(service: FakeService, **more: Any) -> ServiceClient:
    options = {"api_key": KEY, "timeout": 20.0, **more}
    return OpenAIServiceConfiguration.for_host(f"{service.url}/v1", **options).create_client()


def test_usual_addresses() -> None:
    configuration, azure = OpenAIServiceConfiguration, "https://x.openai.azure.com/openai"
    assert configuration.for_host().base_url == "http://127.0.0.1:8642/v1/"
    assert configuration.for_openai(KEY).base_url == "https://api.openai.com/v1/"
    assert configuration.for_azure_openai("https://x.openai.azure.com").base_url == f"{azure}/"
    assert configuration.for_azure_openai(f"{azure}/v1/").base_url == f"{azure}/v1/"


@pytest.mark.parametrize("options", [
    {"service_type": "azure_openai"}, {"endpoint": "x"}, {"endpoint": "ftp://x/"},
    {"endpoint": "http://"}, {"endpoint": "http://[::1"},
    {"endpoint": f"http://user:{KEY}@127.0.0.1/"}, {"endpoint": f"http://127.0.0.1/?key={KEY}"},
], ids=range(7))  # fmt: skip
def test_invalid_endpoints_are_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIServiceConfiguration(**options)
    assert KEY not in repr(caught.value)


@pytest.mark.parametrize("options", [
    {"service_type": "other"}, {"api_key": 7}, {"token_credential": 7},
    {"http_session": 7}, {"timeout": 0}, {"api": "chat"}, {"definitions": 7},
])  # fmt: skip
def test_fields_that_are_none(options: Any) -> None:
    with pytest.raises(TypeError):
        OpenAIServiceConfiguration(**options)


@pytest.mark.parametrize("key", [None, ""])
def test_openai_wants_a_key(key: Any) -> None:
    with pytest.raises(ConfigurationError, match="no key"):
        OpenAIServiceConfiguration(api_key=key).create_client()


def test_keys_are_nowhere_to_be_seen() -> None:
    configuration = OpenAIServiceConfiguration(KEY)
    assert KEY not in repr(configuration)
    assert KEY not in repr(vars(configuration.create_client()))
    with pytest.raises(TypeError):
        pickle.dumps(configuration)


def test_the_key_of_a_host(service: FakeService) -> None:
    with client_of(service) as client:
        client.get("assistants")
    (sent,) = service.requests
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["openai-beta"] == "assistants=v2"
    assert sent.path == "/v1/assistants"


def test_a_host_without_a_key(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {KEY}")
    monkeypatch.setenv("NETRC", str(netrc))
    with client_of(service, api_key=None) as client:
        client.get("assistants")
    with (
        requests.Session() as session,
        client_of(service, api_key=None, http_session=session) as client,
    ):
        client.get("assistants")
    assert ["authorization" in each.headers for each in service.requests] == [False, False]


@pytest.mark.parametrize(("more", "headers"), [
    ({"api_key": KEY}, {"api-key": KEY, "authorization": None}),
    ({"token_credential": lambda: KEY}, {"api-key": None, "authorization": f"Bearer {KEY}"}),
])  # fmt: skip
def test_requests_at_azure(service: FakeService, more: Any, headers: Any) -> None:
    configuration = OpenAIServiceConfiguration.for_azure_openai(service.url, **more)
    with configuration.create_client() as client:
        client.get("assistants", limit=2)
    (sent,) = service.requests
    assert sent.path == "/openai/assistants?limit=2&api-version=2024-05-01-preview"
    assert {name: sent.headers.get(name) for name in headers} == headers


def test_a_credential_is_asked_each_time(service: FakeService) -> None:
    scopes: list[str] = []

    class Credential:
        def get_token(self, *requested: str) -> Any:
            scopes.extend(requested)
            return SimpleNamespace(token=f"t{len(scopes)}")

    with client_of(service, api_key=None, token_credential=Credential()) as client:
        client.get("a")
        client.get("b")
    expected = ["Bearer t1", "Bearer t2"]
    assert [each.headers["authorization"] for each in service.requests] == expected
    assert set(scopes) == {"https://cognitiveservices.azure.com/.default"}


@pytest.mark.parametrize("credential", [lambda: None, lambda: 1 / 0, lambda: ""])
def test_a_credential_that_gives_nothing(service: FakeService, credential: Any) -> None:
    with (
        client_of(service, token_credential=credential) as client,
        pytest.raises(AuthenticationFailed),
    ):
        client.get("a")
    assert not service.requests


def test_nothing_is_sent_where_a_redirect_points(service: FakeService) -> None:
    with FakeService([json_reply({})]) as other:
        service.replies = [reply(status=307, headers={"Location": f"{other.url}/v1/a"})]
        with client_of(service) as client, pytest.raises(BadRequest) as caught:
            client.post("a", {"b": 1})
        assert caught.value.status == 307
        assert not other.requests


@pytest.mark.parametrize(("status", "kind"), [
    (400, BadRequest), (401, AuthenticationFailed), (404, BadRequest),
    (429, RateLimited), (500, ServiceUnavailable), (503, ServiceUnavailable),
])  # fmt: skip
def test_what_the_service_refuses(service: FakeService, status: int, kind: Any) -> None:
    message = f"bad key {KEY}\n" + "x" * 5000
    service.replies = [json_reply({"error": {"message": message}}, status, {"Retry-After": "3"})]
    with client_of(service) as client, pytest.raises(kind) as caught:
        client.get("a")
    assert caught.value.status == status
    assert caught.value.message.startswith("bad key *** xxx")
    assert len(caught.value.message) < 1100
    assert KEY not in repr(caught.value.fields())
    token = {"api_key": None, "token_credential": lambda: KEY}
    with client_of(service, **token) as client, pytest.raises(kind, match=r"\*\*\* xxx"):
        client.get("a")
    if status >= 429:
        assert caught.value.retry_after == 3


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"error":"no"}', b"\xff", b'{"error":{}}', b'{"detail":"no"}']
)
def test_a_refusal_in_any_form(service: FakeService, body: bytes) -> None:
    service.replies = [reply(body, 400)]
    with client_of(service) as client, pytest.raises(BadRequest) as caught:
        client.get("a")
    assert caught.value.message


@pytest.mark.parametrize(("answer", "kind"), [
    (reply(b"{"), MalformedReply), (reply(b"[]"), MalformedReply), (reply(b""), MalformedReply),
    (reply(b"{}", headers={"Content-Encoding": "gzip"}), GenaiError),
    (Reply([RESET]), ServiceUnavailable), (Reply([CUT]), ServiceUnavailable),
    (Reply([b"nonsense\r\n\r\n", CUT]), ServiceUnavailable),
    (stream_reply([b"{", CUT]), IncompleteReply), (stream_reply([b"{", HANG]), ProviderTimeout),
    (Reply([HANG]), ProviderTimeout),
], ids=range(10))  # fmt: skip
def test_replies_that_are_none(service: FakeService, answer: Any, kind: Any) -> None:
    service.replies = [answer]
    hangs = HANG in answer.steps
    with (
        client_of(service, timeout=0.2 if hangs else 20.0) as client,
        pytest.raises(kind) as caught,
    ):
        client.get("a")
    assert KEY not in repr(caught.value)


def test_a_service_that_is_not_there(service: FakeService) -> None:
    service.stop()
    with client_of(service) as client, pytest.raises(ServiceUnavailable) as caught:
        client.get("a")
    assert caught.value.retryable


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9"])
def test_a_proxy_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    configuration = OpenAIServiceConfiguration(api_key=KEY, endpoint="http://example.invalid/v1")
    with ServiceClient(configuration) as client, pytest.raises(ServiceUnavailable) as caught:
        client.get("a")
    assert caught.value.message.startswith("the proxy to example.invalid")


def test_a_reply_without_an_end(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_file, "MAX_BYTES", 1000)
    service.replies = [reply(b"[" + b" " * 2000 + b"]")]
    with client_of(service) as client, pytest.raises(MalformedReply, match="1000 bytes"):
        client.get("a")


def test_a_list_that_has_no_end(service: FakeService) -> None:
    page = {"data": [{"id": "a"}], "last_id": "a", "has_more": True}
    service.replies = [json_reply(page)]
    with client_of(service) as client:
        assert len(list(client.pages("things"))) == 2


def test_files_are_uploaded_as_a_form(service: FakeService) -> None:
    with client_of(service) as client:
        assert client.upload("né.txt", b"one\r\ntwo", "assistants", "text/plain") == {"id": "x"}
    (sent,) = service.requests
    assert sent.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="purpose"\r\n\r\nassistants\r\n' in sent.body
    assert b"Content-Type: text/plain\r\n\r\none\r\ntwo\r\n" in sent.body


def test_a_session_of_ones_own_stays_open(service: FakeService) -> None:
    with requests.Session() as session:
        session.headers["x-mine"] = "1"
        closed: list[bool] = []
        session.close = lambda: closed.append(True)  # type: ignore[method-assign]  # to hear of it
        with client_of(service, http_session=session) as client:
            client.get("a")
        assert not closed
        del session.close
    assert service.requests[0].headers["x-mine"] == "1"


def test_a_body_that_cannot_be_written(service: FakeService) -> None:
    with client_of(service) as client:
        for body in ({"a": float("nan")}, {"a": object()}):
            with pytest.raises(ValidationError):
                client.post("a", body)
    assert not service.requests


@pytest.mark.parametrize("id", ["", ".", "..", "x" * 257, "\ud800"])
def test_what_can_be_no_id(id: str) -> None:
    with pytest.raises(ValidationError):
        path_of("threads", id)


def test_ids_stay_in_their_place() -> None:
    assert path_of("threads", "../a?b#c%2e") == "threads/..%2Fa%3Fb%23c%252e"


@pytest.mark.smoke
@pytest.mark.process
def test_nothing_heavy_is_loaded_with_the_names() -> None:
    program = (
        "import genai_feature_assistants.agents as agents; agents.OpenAIAssistantDefinition;"
        "agents.OpenAIAssistantAgent; agents.OpenAIServiceConfiguration.for_host()"
    )
    assert {"requests", "httpx", "openai"}.isdisjoint(modules_after(program))


def test_all_names_are_there() -> None:
    import genai_feature_assistants.agents as agents

    assert {getattr(agents, name).__name__ for name in agents.__all__} == set(agents.__all__)


def test_a_connection_is_used_again(service: FakeService) -> None:
    service.replies = [
        json_reply({"id": "x"}), stream_reply([b'{"id"', b':"x"}']), json_reply({}, 400),
        reply(gzip.compress(b'{"id":"x"}'), headers={"Content-Encoding": "gzip"}),
    ]  # fmt: skip
    with client_of(service) as client:
        for fails in (False, False, True, False):
            with pytest.raises(BadRequest) if fails else nullcontext():
                assert client.get("a") == {"id": "x"}
    assert service.connections == 1
