"""The provider `openai-compatible`: an instance from a table of the configuration."""

from __future__ import annotations

from pathlib import Path

import genai_vendor_openai
import pytest

from genai_host import Host
from genai_host.api import ListedModel, Message, Secret
from genai_host.config import read_config
from genai_host.errors import AuthenticationFailed, ConfigurationError, InvalidParameter, NoRoute
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import VECTORS, ask, each_way, listed
from genai_host_testing.services.openai import KEY, LOOKING, chat, embeddings, failure, responses

pytestmark = pytest.mark.part

ROOT = Path(__file__).parent.parent


@pytest.fixture
def configured(make_host: MakeHost, service: FakeService, tmp_path: Path) -> MakeHost:
    """Makes hosts with an instance `gate` of further settings in TOML."""

    def make(settings: str = "") -> Host:
        file = tmp_path / "config.toml"
        file.write_text(
            f'[providers.gate]\ntype = "openai-compatible"\nbase_url = "{service.url}/api/v1"\n'
            + settings,
            encoding="utf-8",
        )
        return make_host(
            config=read_config(file), openai=genai_vendor_openai, look=LOOKING, vectors=VECTORS,
            mock=None,
        )  # fmt: skip

    return make


@pytest.mark.parametrize("id", ["llama3", "meta/llama-3:70b", "openai/gpt-oss-20b", "a@b+c"])
@each_way
def test_any_id_passes(configured: MakeHost, service: FakeService, id: str, streamed: bool) -> None:
    service.replies = [chat("hello", streamed=streamed)]
    assert ask(configured(), f"gate/{id}", streamed) == "hello"
    (sent,) = service.requests
    assert (sent.method, sent.path) == ("POST", "/api/v1/chat/completions")
    assert "authorization" not in sent.headers
    assert sent.json()["model"] == id
    assert sent.json().get("stream_options") == ({"include_usage": True} if streamed else None)


def test_a_key_comes_from_the_variable_that_is_referred_to(
    configured: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GATE_KEY", raising=False)
    settings = 'api_key = { env = "GATE_KEY" }\nheaders = { "X-Title" = "mine" }\n'
    with pytest.raises(NoRoute, match="nothing in the environment variable GATE_KEY"):
        configured(settings).open("chat", "gate/m")
    monkeypatch.setenv("GATE_KEY", KEY)
    service.replies = [chat("hello"), failure(401, message=f"{KEY} is wrong")]
    host = configured(settings)
    host.open("chat", "gate/m").say("hi")
    headers = service.requests[0].headers
    assert (headers["authorization"], headers["x-title"]) == (f"Bearer {KEY}", "mine")
    with pytest.raises(AuthenticationFailed, match=r"\*\*\* is wrong"):
        host.open("chat", "gate/m").say("hi")


def test_key_may_be_given_but_not_written(configured: MakeHost, service: FakeService) -> None:
    service.replies = [chat("hello")]
    host = configured()
    settings = {"base_url": service.url, "api_key": Secret(KEY)}
    host.instances.add("here", "openai-compatible", settings)
    host.open("chat", "here/m").say("hi")
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"
    written = configured(f'api_key = "{KEY}"\n')
    with pytest.raises(NoRoute) as caught:
        written.open("chat", "gate/m")
    assert KEY not in str(caught.value) + caught.value.hint


def test_without_an_address_it_says_so(make_host: MakeHost) -> None:
    host = make_host(openai=genai_vendor_openai)
    with pytest.raises(NoRoute, match=r"set base_url in \[providers\.openai-compatible\]"):
        host.open("chat", "openai-compatible/m")


def test_parameters_are_sent_as_they_are(configured: MakeHost, service: FakeService) -> None:
    service.replies = [chat("a"), chat("b")]
    own = {"top_k": -1, "min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}}
    host = configured('extra_body = { cache = { ttl = 1 }, seed_of = "gate" }\n')
    host.open("chat", "gate/m", parameters={**own, "extra_body": {"seed_of": 3}}).say("hi")
    assert {**own, "cache": {"ttl": 1}, "seed_of": 3}.items() <= service.requests[0].json().items()
    host.open("chat", "gate/m").say("hi")
    assert service.requests[1].json()["seed_of"] == "gate"
    with pytest.raises(InvalidParameter) as caught:
        host.open("chat", "gate/m", parameters={"tempratur": 1})
    assert caught.value.hint.startswith("did you mean temperature?")


def test_its_variants_are_settings(configured: MakeHost, service: FakeService) -> None:
    service.replies = [chat("hello", streamed=True)]
    host = configured(
        'max_tokens = "max_completion_tokens"\nsystem_role = "user"\nstream_usage = false\n'
        'strict = true\nreasoning = "reasoning_content"\nimage_detail = "low"\n'
    )
    history = [Message("user", "a"), Message("assistant", "b")]
    conversation = host.open("look", "gate/m", parameters={"max_tokens": 7}, history=history)
    list(conversation.stream(Message("user", "c")))
    body = service.requests[0].json()
    assert body["max_completion_tokens"] == 7
    assert "stream_options" not in body
    assert body["tools"][0]["function"]["strict"] is True
    variant = host.explain("gate/m")[0].variant
    assert (variant["system_role"], variant["reasoning"]) == ("user", "reasoning_content")
    assert variant["image_detail"] == "low"


def test_a_variant_that_is_not_set_is_left_to_the_model(configured: MakeHost) -> None:
    models = 'models = { "gpt-6.1-sol" = "openai/gpt-6.1-sol" }\n'
    (route,) = configured(models).explain("gpt-6.1-sol@gate")
    assert (route.dialect, route.id) == ("openai-chat", "openai/gpt-6.1-sol")
    assert route.variant["max_tokens"] == "max_completion_tokens"
    (other,) = configured(models + 'max_tokens = "max_tokens"\n').explain("gpt-6.1-sol@gate")
    assert other.variant["max_tokens"] == "max_tokens"


def test_it_says_what_it_serves_and_lacks(configured: MakeHost, service: FakeService) -> None:
    service.replies = [responses("hello")]
    host = configured('serves = ["openai-responses"]\nlacks = ["stream", "tools"]\n')
    assert "".join(event.text for event in host.open("chat", "gate/m").stream("hi")) == "hello"
    assert service.requests[0].path == "/api/v1/responses"
    with pytest.raises(NoRoute, match="tools"):
        host.open("look", "gate/m").say("hi")


@pytest.mark.parametrize(
    "settings",
    ["serves = []", 'serves = ["anthropic"]', 'system_role = "boss"', "strict = 3", 'hedaers = {}',
     'headers = { "x y" = "1" }', 'lacks = "tools"'],
)  # fmt: skip
def test_what_is_no_setting_says_so(configured: MakeHost, settings: str) -> None:
    with pytest.raises(ConfigurationError):
        _ = configured(settings + "\n").instances["gate"].provider


def test_defaults_may_be_named(configured: MakeHost, service: FakeService) -> None:
    service.replies = [chat("hello"), embeddings([1, 2], [3, 4])]
    host = configured(
        'default_model = "openai/gpt-oss-20b"\ndefault_embed_model = "e5"\n'
        'purpose = "input_type"\nencoding = "base64"\n'
    )
    assert host.open("chat", provider="gate").say("hi").text == "hello"
    assert host.open("vectors").say("hi").data == [[1.0, 2.0], [3.0, 4.0]]
    first, second = (request.json() for request in service.requests)
    assert first["model"] == "openai/gpt-oss-20b"
    assert second == {
        "model": "e5", "input": ["a", "b"], "encoding_format": "base64", "input_type": "query",
    }  # fmt: skip


def test_its_models_are_listed(configured: MakeHost, service: FakeService) -> None:
    service.replies = [json_reply({"data": [{"id": "m", "max_model_len": 4096}]})]
    assert listed(configured(), "gate") == [ListedModel("m", window=4096)]
    assert service.requests[0].path == "/api/v1/models"


def test_tables_of_the_readme(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import re

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    file = tmp_path / "config.toml"
    file.write_text("\n".join(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)), "utf-8")
    for name in ("GROQ_API_KEY", "OPENROUTER_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    host = make_host(config=read_config(file), openai=genai_vendor_openai)
    for name in ("groq-work", "openrouter", "vllm", "llama", "my-azure"):
        assert host.instances[name].provider.unavailable_reason() is None
        assert host.explain(f"{name}/m")[0].runs
