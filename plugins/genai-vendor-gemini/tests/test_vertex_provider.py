"""The provider `vertex`, over sockets, with credentials made up on the spot.

There is no server of somebody else that speaks as Vertex AI does: what it is sent here is
held against its documentation, and by `tests/peers` against Google's own client; what it says
is as that client reads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from genai_host import Config, Host, errors
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_service import FakeService, Received, json_reply, reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import VECTORS, ask, each_way
from genai_host_testing.services.anthropic import claude
from genai_host_testing.services.gemini import embeddings, failure, gemini

pytestmark = pytest.mark.part

TOKEN = "ya29.canary-5e0c"
VARIABLES = (
    "CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "GOOGLE_VERTEX_BASE_URL",
)  # fmt: skip
PLACE = "projects/mine/locations/europe-west4/publishers"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))  # where there are none
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # nor does this machine have any


MakeVertex = Callable[..., Host]


@pytest.fixture
def vertex(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> MakeVertex:
    """Makes hosts with Vertex AI at the service: `vertex(location="us")`."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")

    def make(clock: Any = None, **settings: Any) -> Host:
        instance = provider_config("vertex", **{"base_url": service.url, **settings})
        return make_host(
            config=Config(providers={"vertex": instance}),
            clock=clock, anthropic=genai_vendor_anthropic, gemini=genai_vendor_gemini,
            vectors=VECTORS,
        )  # fmt: skip

    return make


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", TOKEN)


@pytest.fixture(scope="module")
def key() -> str:
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def account(
    service: FakeService, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service account whose tokens the service gives."""
    fields = {
        "type": "service_account", "client_email": "me@mine.iam.gserviceaccount.com",
        "private_key": key, "token_uri": f"{service.url}/token",
    }  # fmt: skip
    file = tmp_path / "account.json"
    file.write_text(json.dumps(fields), encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))


def token_reply(token: str, seconds: int = 3600) -> Any:
    return json_reply({"access_token": token, "expires_in": seconds, "token_type": "Bearer"})


@each_way
@pytest.mark.usefixtures("token")
def test_gemini_answers(vertex: MakeVertex, service: FakeService, streamed: bool) -> None:
    service.replies = [gemini("hello", streamed=streamed)]
    assert ask(vertex(), "gemini-3.8-flash@vertex", streamed) == "hello"
    (sent,) = service.requests
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    assert sent.path == f"/v1beta1/{PLACE}/google/models/gemini-3.8-flash:{method}"
    assert sent.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in sent.headers


@each_way
@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(("model", "id"), [
    ("claude-opus-5@vertex", "claude-opus-5"),
    ("claude-haiku-4-5@vertex", "claude-haiku-4-5%4020251001"),
    ("vertex/claude-next@20270101", "claude-next%4020270101"),
])  # fmt: skip
def test_claude_answers(
    vertex: MakeVertex, service: FakeService, model: str, id: str, streamed: bool
) -> None:
    service.replies = [claude("hello", streamed=streamed)]
    assert ask(vertex(), model, streamed) == "hello"
    (sent,) = service.requests
    method = "streamRawPredict" if streamed else "rawPredict"
    assert sent.path == f"/v1/{PLACE}/anthropic/models/{id}:{method}"
    assert sent.headers["authorization"] == f"Bearer {TOKEN}"
    body = sent.json()
    assert body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in body
    assert body.get("stream", False) is streamed


@pytest.mark.usefixtures("token")
def test_texts_become_vectors(vertex: MakeVertex, service: FakeService) -> None:
    service.replies = [embeddings([1, 2], [3, 4])]
    host = vertex()
    assert host.open("vectors", "gemini-embedding-001@vertex").say("hi").data == [[1, 2], [3, 4]]
    (sent,) = service.requests
    assert sent.path == f"/v1beta1/{PLACE}/google/models/gemini-embedding-001:batchEmbedContents"
    assert sent.json()["requests"][0] == {
        "content": {"parts": [{"text": "a"}]},
        "embedContentConfig": {"taskType": "RETRIEVAL_QUERY"},
    }


# where it is


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(("location", "address"), [
    ("", "https://aiplatform.googleapis.com"),
    ("global", "https://aiplatform.googleapis.com"),
    ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ("us-central1", "https://us-central1-aiplatform.googleapis.com"),
])  # fmt: skip
def test_each_location_has_an_address(vertex: MakeVertex, location: str, address: str) -> None:
    provider: Any = vertex(base_url="", location=location).instances["vertex"].provider
    assert provider.base_url == address


@pytest.mark.parametrize("setting", ["project", "location"])
@pytest.mark.parametrize("name", ["a/b", "..", "a b", "évian", "a?x=y"])
def test_names_that_would_change_the_address(vertex: MakeVertex, setting: str, name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=setting):
        _ = vertex(**{setting: name}).instances["vertex"].provider


def test_it_says_what_it_lacks(vertex: MakeVertex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_vendor_gemini.gemini.find_spec", lambda name: None)
    with pytest.raises(errors.NoRoute, match=r"google-auth is not installed: .*\[vertex\]"):
        ask(vertex(), "gemini-3.8-flash@vertex")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with pytest.raises(errors.NoRoute, match="no project: set GOOGLE_CLOUD_PROJECT"):
        ask(vertex(), "gemini-3.8-flash@vertex")


# credentials


def tokens_sent(service: FakeService) -> list[str]:
    return [
        request.headers["authorization"].removeprefix("Bearer ")
        for request in service.requests
        if request.path != "/token"
    ]


def asked_for_tokens(service: FakeService) -> list[Received]:
    return [request for request in service.requests if request.path == "/token"]


@pytest.mark.usefixtures("account")
def test_a_token_is_got_once_and_used_again(vertex: MakeVertex, service: FakeService) -> None:
    service.replies = [token_reply("one"), gemini("a"), gemini("b")]
    host = vertex()
    assert [ask(host, "gemini-3.8-flash@vertex") for _ in "ab"] == ["a", "b"]
    assert tokens_sent(service) == ["one", "one"]
    assert len(asked_for_tokens(service)) == 1
    assert b"jwt-bearer" in asked_for_tokens(service)[0].body


@pytest.mark.usefixtures("account")
def test_a_token_that_is_refused_is_got_anew_once(vertex: MakeVertex, service: FakeService) -> None:
    refused = failure(401, "UNAUTHENTICATED", message="no: one")
    service.replies = [token_reply("one"), refused, token_reply("two"), gemini("a")]
    assert ask(vertex(), "gemini-3.8-flash@vertex") == "a"
    assert tokens_sent(service) == ["one", "two"]


@pytest.mark.usefixtures("account")
def test_a_token_is_got_anew_before_it_ends(
    vertex: MakeVertex, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    _let_tell_the_time(monkeypatch, clock)
    service.replies = [
        token_reply("one"), gemini("a"), gemini("b"), token_reply("two"), gemini("c"),
    ]  # fmt: skip
    host = vertex(clock=clock)
    ask(host, "gemini-3.8-flash@vertex")
    clock.advance(3600 - 61)
    ask(host, "gemini-3.8-flash@vertex")
    clock.advance(1)
    ask(host, "gemini-3.8-flash@vertex")
    assert tokens_sent(service) == ["one", "one", "two"]


def _let_tell_the_time(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    """google-auth reckons from its own clock when a token ends."""
    import datetime

    def utcnow() -> datetime.datetime:
        return clock.now().astimezone(datetime.UTC).replace(tzinfo=None)

    monkeypatch.setattr("google.auth._helpers.utcnow", utcnow)


@pytest.mark.usefixtures("account")
def test_the_project_that_is_billed_is_named(
    vertex: MakeVertex, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "theirs")
    service.replies = [token_reply("one"), gemini("a")]
    ask(vertex(), "gemini-3.8-flash@vertex")
    assert service.requests[-1].headers["x-goog-user-project"] == "theirs"


def test_that_there_are_no_credentials_is_told(vertex: MakeVertex, service: FakeService) -> None:
    with pytest.raises(
        errors.AuthenticationFailed, match="no application default credentials"
    ) as caught:
        ask(vertex(), "gemini-3.8-flash@vertex")
    assert caught.value.hint == "gcloud auth application-default login"
    assert not service.requests


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(("answer", "kind"), [
    (json_reply({"error": "invalid_grant", "error_description": "no"}, 400),
     errors.AuthenticationFailed),
    (json_reply({"no": "token"}), errors.AuthenticationFailed),
    (reply(b"<html>", 404), errors.AuthenticationFailed),
])  # fmt: skip
def test_credentials_that_give_no_token_are_told(
    vertex: MakeVertex, service: FakeService, answer: Any, kind: type[errors.GenaiError]
) -> None:
    service.replies = [answer]
    with pytest.raises(kind, match="are not valid") as caught:
        ask(vertex(), "gemini-3.8-flash@vertex")
    assert type(caught.value) is kind
    assert tokens_sent(service) == []


@pytest.mark.usefixtures("account")
def test_unreachable(vertex: MakeVertex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    with FakeService() as gone:
        file.write_text(json.dumps({**json.loads(file.read_text()), "token_uri": gone.url}))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the tries of google-auth
    with pytest.raises(errors.ServiceUnavailable, match="cannot get a token"):
        ask(vertex(), "gemini-3.8-flash@vertex")


@pytest.mark.smoke
@pytest.mark.process
def test_google_auth_is_not_imported_before_a_call() -> None:
    code = """
import sys
from genai_host import Config, StaticPlugins, Host
from genai_host.config import InstanceConfig
import genai_vendor_gemini
vertex = InstanceConfig("vertex", settings={"project": "mine"})
with Host(
    config=Config(providers={"vertex": vertex}),
    discovery=StaticPlugins({"gemini": genai_vendor_gemini}),
) as host:
    assert host.instances["vertex"].provider.unavailable_reason() is None
print(sorted(name for name in sys.modules if name.startswith("google.auth")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
