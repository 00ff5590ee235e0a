"""The provider `bedrock` over sockets: requests, credentials and replies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import genai_models_open
import genai_vendor_anthropic
import genai_vendor_bedrock
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from genai_host import Config, Host, RetryPolicy, errors
from genai_host.api import ListedModel, Message, Prompt, ProviderRequest, VendorTool
from genai_host_testing.fake_service import FakeService, Received, json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import ask, each_way, listed
from genai_host_testing.services.anthropic import claude
from genai_host_testing.services.bedrock import CALLED, KEY, THOUGHT, by_claude, converse, refusal
from genai_host_testing.services.openai import LOOKING

pytestmark = pytest.mark.part

ACCESS, SECRET, TOKEN = "AKIDEXAMPLE", "secret-canary-9e1f", "session-canary-3c55"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of AWS but what a test says."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


class Hosts:
    """Makes hosts with the provider at the service: `hosts(region="eu-west-1")`."""

    def __init__(
        self, make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._make_host = make_host
        self._service = service
        self._monkeypatch = monkeypatch

    def __call__(
        self, *, key: str = KEY, region: str = "us-east-1", models: Any = None, **settings: Any
    ) -> Host:
        url = self._service.url
        variables = {"AWS_BEARER_TOKEN_BEDROCK": key, "AWS_REGION": region, "AWS_ENDPOINT_URL": url}
        for name, value in variables.items():
            if value:
                self._monkeypatch.setenv(name, value)
        instance = provider_config("bedrock", models=models or {}, **settings)
        host = self._make_host(
            config=Config(providers={"bedrock": instance}), bedrock=genai_vendor_bedrock,
            claude=genai_vendor_anthropic, open=genai_models_open, look=LOOKING,
            patience=RetryPolicy(jitter=lambda _: 0.0),
        )  # fmt: skip
        assert host.plugins.broken == []
        return host

    def signed(self, token: str = "", **settings: Any) -> Host:
        """With keys of an AWS user."""
        self._monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
        self._monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        if token:
            self._monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        return self(key="", **settings)


@pytest.fixture
def hosts(make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(make_host, service, monkeypatch)


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return hosts()


# both dialects


@pytest.mark.parametrize(("model", "id"), [
    ("nova-2-lite", "global.amazon.nova-2-lite-v1:0"),
    ("nova-pro", "us.amazon.nova-pro-v1:0"),
    ("llama-3.3-70b@bedrock", "us.meta.llama3-3-70b-instruct-v1:0"),
    ("gpt-oss-20b@bedrock", "openai.gpt-oss-20b-1:0"),
    ("claude-sonnet-5-5@bedrock+bedrock-converse", "global.anthropic.claude-sonnet-5-5"),
    ("bedrock/eu.of.tomorrow-v1:0", "eu.of.tomorrow-v1:0"),
    (f"bedrock/{ARN}", ARN),
])  # fmt: skip
@each_way
def test_converse(host: Host, service: FakeService, model: str, id: str, streamed: bool) -> None:
    service.replies = [converse("hello", streamed=streamed)]
    assert ask(host, model, streamed) == "hello"
    (sent,) = service.requests
    operation = "converse-stream" if streamed else "converse"
    assert (sent.method, sent.path) == ("POST", f"/model/{quote(id, safe='')}/{operation}")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json() == {
        "system": [{"text": "You are a helpful assistant."}],
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    }


@pytest.mark.parametrize(("model", "id"), [
    ("claude-sonnet-5-5@bedrock", "global.anthropic.claude-sonnet-5-5"),
    ("claude-haiku-4-5@bedrock", "global.anthropic.claude-haiku-4-5-20251001-v1:0"),
    ("bedrock/us.anthropic.claude-of-tomorrow", "us.anthropic.claude-of-tomorrow"),
])  # fmt: skip
@each_way
def test_claude(host: Host, service: FakeService, model: str, id: str, streamed: bool) -> None:
    service.replies = [by_claude(streamed)]
    assert ask(host, model, streamed, parameters={"prompt_cache": "5m"}) == "hello"
    (sent,) = service.requests
    operation = "invoke-with-response-stream" if streamed else "invoke"
    assert sent.path == f"/model/{quote(id, safe='')}/{operation}"
    cached = {"type": "text", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
    assert sent.json() == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 16_000,
        "system": [{**cached, "text": "You are a helpful assistant."}],
        "messages": [{"role": "user", "content": [{**cached, "text": "hi"}]}],
    }


def test_claude_gets_tools_of_anthropic_that_bedrock_has(host: Host, service: FakeService) -> None:
    """After another service has failed, with all of them."""
    kinds = [
        "bash_20250124", "code_execution_20250825", "computer_20250124", "memory_20250818",
        "text_editor_20250728", "tool_search_tool_regex_20251119", "web_fetch_20250910",
        "web_search_20250305",
    ]  # fmt: skip
    tools = [VendorTool(each, "", extra={"anthropic-messages": {"type": each}}) for each in kinds]
    service.replies = [claude("a"), claude("a")]
    for offered, choice in ((tools, kinds[-1]), (tools[-1:], kinds[-1])):
        prompt = Prompt([Message("user", "hi")], tools=offered, tool_choice=choice)
        list(host.prompt(prompt, model="claude-opus-5-5", provider="bedrock", stream=False))
    some, none = (request.json() for request in service.requests)
    assert [each["type"] for each in some["tools"]] == [
        "bash_20250124", "computer_20250124", "memory_20250818", "text_editor_20250728",
        "tool_search_tool_regex_20251119",
    ]  # fmt: skip
    assert "tool_choice" not in some
    assert none.keys().isdisjoint({"tools", "tool_choice"})


def test_claude_gets_tools_of_the_host_as_functions(host: Host, service: FakeService) -> None:
    own = {"anthropic-messages": {"type": "web_search_20250305"}}
    search = VendorTool("web_search", "finds", {"type": "object"}, extra=own, kind="web_search")
    service.replies = [claude("a")]
    prompt = Prompt([Message("user", "hi")], tools=[search], tool_choice="web_search")
    list(host.prompt(prompt, model="claude-opus-5-5", provider="bedrock", stream=False))
    sent = service.requests[0].json()
    assert [(each["name"], each["description"]) for each in sent["tools"]] == [
        ("web_search", "finds")
    ]
    assert sent["tool_choice"]["name"] == "web_search"


def test_previews_are_named(hosts: Hosts, service: FakeService) -> None:
    service.replies = [claude("a")]
    ask(hosts(betas=["one-2026-01-01", "two-2026-02-02"]), "claude-opus-5-5@bedrock")
    assert service.requests[0].json()["anthropic_beta"] == ["one-2026-01-01", "two-2026-02-02"]


@each_way
def test_a_tool_is_used(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [converse(call=True, streamed=streamed), converse("fine", streamed=streamed)]
    assert ask(host, "nova-pro", streamed, "look").endswith("fine")
    first, second = (request.json() for request in service.requests)
    assert first["toolConfig"]["toolChoice"] == {"auto": {}}
    result = {"toolUseId": "tooluse_1", "content": [{"text": "é is fine"}]}
    assert second["messages"][1:] == [
        {"role": "assistant", "content": [THOUGHT, CALLED]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]


def test_llama_asks_for_tools_in_whole_answers_only(host: Host, service: FakeService) -> None:
    service.replies = [converse(call=True), converse("fine")]
    assert ask(host, "llama-3.3-70b@bedrock", True, "look").endswith("fine")
    assert [each.path.rpartition("/")[2] for each in service.requests] == ["converse"] * 2


@pytest.mark.parametrize(("model", "place"), [
    ("claude-haiku-4-5@bedrock", "output_config"),
    ("claude-haiku-4-5@bedrock+bedrock-converse", "outputConfig"),
    ("claude-opus-5-5@bedrock", "messages"), ("qwen3-32b@bedrock", "outputConfig"),
    ("nova-pro", "toolConfig"), ("llama-3.3-70b@bedrock", "system"),
])  # fmt: skip
def test_schema_is_held_to(host: Host, service: FakeService, model: str, place: str) -> None:
    text = '{"city":"Oslo"}'
    is_converse = place not in ("output_config", "messages")
    service.replies = [converse(text) if is_converse else claude(text)]
    assert host.open("chat", model).say("hi", output_type=CITY).data == {"city": "Oslo"}
    body = service.requests[0].json()
    assert place in body
    places = {"output_config", "outputConfig", "toolConfig"} & body.keys()
    assert places <= {place}


def test_how_much_it_thinks_is_said_as_each_model_has_it(host: Host, service: FakeService) -> None:
    low = {"reasoning_effort": "low"}
    service.replies = [converse("a")] * 2 + [claude("a"), converse("a")]
    ask(host, "nova-2-lite", parameters=low)
    ask(host, "gpt-oss-20b@bedrock", parameters=low)
    ask(host, "claude-opus-5-5@bedrock", parameters=low)
    ask(host, "claude-opus-5-5@bedrock+bedrock-converse", parameters=low)
    nova, gpt, own, claude_ = (request.json() for request in service.requests)
    assert nova["additionalModelRequestFields"]["reasoningConfig"]["maxReasoningEffort"] == "low"
    assert gpt["additionalModelRequestFields"] == {"reasoning_effort": "low"}
    assert own["output_config"] == {"effort": "low"}
    assert claude_["outputConfig"] == {"effort": "low"}


# where it is


@pytest.mark.parametrize(("region", "geography", "model", "id"), [
    ("eu-central-1", "", "nova-pro", "eu.amazon.nova-pro-v1:0"),
    ("ap-northeast-1", "", "nova-pro", "apac.amazon.nova-pro-v1:0"),
    ("ca-central-1", "", "nova-pro", "us.amazon.nova-pro-v1:0"),
    ("us-gov-west-1", "", "nova-pro", "us-gov.amazon.nova-pro-v1:0"),
    ("eu-central-1", "", "nova-2-lite", "global.amazon.nova-2-lite-v1:0"),
    ("eu-central-1", "eu", "nova-2-lite", "eu.amazon.nova-2-lite-v1:0"),
    ("ap-northeast-1", "jp.", "nova-2-lite", "jp.amazon.nova-2-lite-v1:0"),
    ("eu-central-1", "us", "qwen3-32b@bedrock", "qwen.qwen3-32b-v1:0"),
])  # fmt: skip
def test_profiles_are_those_of_a_part_of_the_world(
    hosts: Hosts, service: FakeService, region: str, geography: str, model: str, id: str
) -> None:
    service.replies = [converse("a")]
    ask(hosts(region=region, geography=geography), model)
    assert service.requests[0].path == f"/model/{quote(id)}/converse"


def test_an_instance_may_have_ids_of_its_own(hosts: Hosts, service: FakeService) -> None:
    service.replies = [converse("a")]
    ask(hosts(models={"nova-pro": ARN}), "nova-pro")
    assert service.requests[0].path == f"/model/{quote(ARN, safe='')}/converse"


@pytest.mark.parametrize(("region", "host_name"), [
    ("eu-west-3", "bedrock-runtime.eu-west-3.amazonaws.com"),
    ("cn-north-1", "bedrock-runtime.cn-north-1.amazonaws.com.cn"),
])  # fmt: skip
def test_its_address_is_that_of_the_region(
    hosts: Hosts, service: FakeService, monkeypatch: pytest.MonkeyPatch, region: str, host_name: str
) -> None:
    host = hosts(region=region)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    provider: Any = host.instances["bedrock"].provider
    request = ProviderRequest("chat", "bedrock-converse", "m", {}, path="/model/{model}/converse")
    assert provider.address(request) == f"https://{host_name}/model/m/converse"


def test_the_region_may_be_the_profiles(hosts: Hosts, service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = eu-north-1\n")
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"
    )
    service.replies = [converse("a")]
    ask(hosts(key="", region="", profile="work"), "nova-pro")
    (sent,) = service.requests
    assert sent.path.startswith("/model/eu.amazon")
    assert "/eu-north-1/bedrock/aws4_request" in sent.headers["authorization"]


# credentials


def signature(sent: Received, url: str, token: str = "") -> str:
    """What the library of Amazon signs a request with, at the same time."""
    request = AWSRequest(
        sent.method, f"{url}{sent.path}", {"Content-Type": "application/json"}, sent.body
    )

    class Then(SigV4Auth):  # type: ignore[misc]  # it has no types
        def add_auth(self, request: Any) -> None:
            request.context["timestamp"] = sent.headers["x-amz-date"]
            self._modify_request_before_signing(request)
            to_sign = self.string_to_sign(request, self.canonical_request(request))
            self._inject_signature_to_request(request, self.signature(to_sign, request))

    Then(Credentials(ACCESS, SECRET, token or None), "bedrock", "us-east-1").add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize("model", ["nova-pro", f"bedrock/{ARN}"])
@each_way
def test_requests_are_signed_as_the_library_of_amazon_signs_them(
    hosts: Hosts, service: FakeService, model: str, token: str, streamed: bool
) -> None:
    service.replies = [converse("hello", streamed=streamed)]
    assert ask(hosts.signed(token), model, streamed) == "hello"
    (sent,) = service.requests
    assert sent.headers.get("x-amz-security-token", "") == token
    assert sent.headers["authorization"] == signature(sent, service.url, token)


def test_each_try_is_signed_anew(hosts: Hosts, service: FakeService) -> None:
    host = hosts.signed()
    signed: list[Any] = []
    provider: Any = host.instances["bedrock"].provider
    sign = provider._aws.sign

    def watched(request: Any) -> Any:
        signed.append(request)
        return sign(request)

    provider._aws.sign = watched
    service.replies = [refusal(503, "ServiceUnavailableException", Retry_After="0"), converse("a")]
    assert ask(host, "nova-pro") == "a"
    assert len(signed) == len(service.requests) == 2
    assert "Authorization" not in signed[1].headers


def test_a_key_of_bedrock_comes_first(hosts: Hosts, service: FakeService) -> None:
    hosts.signed()
    service.replies = [converse("a")]
    ask(hosts(), "nova-pro")
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("by", ["setting", "variable"])
def test_profiles_are_found_and_come_before_keys(
    hosts: Hosts, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = b\n"
    )
    service.replies = [converse("a")]
    if by == "setting":
        host = hosts.signed(profile="work")
    else:
        monkeypatch.setenv("AWS_PROFILE", "work")
        host = hosts(key="")
    ask(host, "nova-pro")
    assert "Credential=AKIDWORK/" in service.requests[0].headers["authorization"]


@pytest.mark.process
def test_credentials_are_renewed(hosts: Hosts, service: FakeService, tmp_path: Path) -> None:
    """Here from a program, which gives others each time, valid for too short a while."""
    count = tmp_path / "count"
    program = tmp_path / "program.py"
    program.write_text(f"""
import datetime, json, pathlib
file = pathlib.Path({str(count)!r})
number = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(number))
end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=1)
print(json.dumps({{"Version": 1, "AccessKeyId": f"AKID{{number}}", "SecretAccessKey": "s",
                   "SessionToken": "t", "Expiration": end.isoformat()}}))
""")
    (tmp_path / "config").write_text(
        f"[profile work]\ncredential_process = {sys.executable} {program}\n"
    )
    service.replies = [converse("a")]
    host = hosts(key="", profile="work")
    ask(host, "nova-pro")
    ask(host, "nova-pro")
    first, second = (each.headers["authorization"] for each in service.requests)
    assert first.partition("/")[0] != second.partition("/")[0]


@pytest.mark.parametrize(("file", "text", "profile", "error", "match"), [
    ("config", "[default]\nregion = us-east-1\n", "", errors.NoRoute, "no credentials"),
    ("credentials", "[other]\n", "", errors.AuthenticationFailed, "no AWS credentials"),
    ("config", "[default]\n", "nobody", errors.ConfigurationError, "nobody"),
    pytest.param(
        "config", "[profile work]\ncredential_process = /does/not/exist x\n", "work",
        errors.AuthenticationFailed, None, marks=[pytest.mark.smoke, pytest.mark.process]),
], ids=["a region alone", "others", "unknown profile", "no program"])  # fmt: skip
def test_files_without_credentials(
    hosts: Hosts, service: FakeService, tmp_path: Path, file: str, text: str, profile: str,
    error: type[errors.GenaiError], match: str | None,
) -> None:  # fmt: skip
    (tmp_path / file).write_text(text)
    with pytest.raises(error, match=match):
        ask(hosts(key="", **({"profile": profile} if profile else {})), "nova-pro")
    assert not service.requests


def test_a_region_that_nobody_says_is_one_as_well(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\n")
    with pytest.raises(errors.ConfigurationError, match="region"):
        ask(hosts.signed(region=""), "nova-pro")


@each_way
def test_signatures_show_no_secret(hosts: Hosts, service: FakeService, streamed: bool) -> None:
    message = f"The Canonical String should have been 'x-amz-security-token:{TOKEN}' {SECRET}"
    service.replies = [refusal(403, "InvalidSignatureException", message)]
    host = hosts.signed(TOKEN)
    with pytest.raises(errors.AuthenticationFailed, match=r"\*\*\*") as caught:
        ask(host, "nova-pro", streamed)
    shown = repr(vars(host.instances["bedrock"].provider))
    assert TOKEN not in repr(vars(caught.value)) + str(caught.value) + shown
    assert SECRET not in shown
    assert SECRET not in str(caught.value)


# what it lacks


def test_it_says_that_it_has_no_credentials(make_host: MakeHost) -> None:
    with pytest.raises(errors.NoRoute, match="no credentials: set AWS_BEARER_TOKEN_BEDROCK"):
        make_host(bedrock=genai_vendor_bedrock).open("chat", "nova-pro")


def test_it_says_it_has_no_region(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    with pytest.raises(errors.NoRoute, match="no region: set AWS_REGION"):
        make_host(bedrock=genai_vendor_bedrock).open("chat", "nova-pro")


def test_it_is_chosen_by_name_only(host: Host) -> None:
    with pytest.raises(errors.NoRoute):
        host.open("chat")
    assert host.open("chat", provider="bedrock").status == "idle"


@pytest.mark.process
def test_the_library_of_amazon_waits_for_a_signature() -> None:
    """It takes long to be imported: not for lists, nor with a key of Bedrock."""
    program = """
import sys
from pathlib import Path
import genai_vendor_bedrock, genai_feature_chat, genai_wire_anthropic
from genai_host import Config, Host
from genai_host.config import InstanceConfig
from genai_host.plugins.discovery import StaticPlugins

given = {"d": genai_wire_anthropic, "chat": genai_feature_chat, "bedrock": genai_vendor_bedrock}
settings = {"endpoint": sys.argv[1], "region": "us-east-1"}
config = Config(providers={"bedrock": InstanceConfig("bedrock", settings=settings)})
with Host(config=config, discovery=StaticPlugins(given)) as host:
    print(host.instances["bedrock"].provider.unavailable_reason())
    print(host.open("chat", "nova-pro").say("hi").text)
print("botocore" in sys.modules)
"""
    environment = {**os.environ, "AWS_BEARER_TOKEN_BEDROCK": KEY, "NO_PROXY": "*"}
    with FakeService([converse("hello")]) as service:
        done = subprocess.run(
            [sys.executable, "-c", program, service.url],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.stdout.split() == ["None", "hello", "False"], done.stderr


# its models


def test_its_models_and_profiles_are_listed(host: Host, service: FakeService) -> None:
    service.replies = [
        json_reply({"modelSummaries": [
            {"modelId": "a", "inferenceTypesSupported": ["ON_DEMAND"]},
            {"modelId": "b", "inferenceTypesSupported": ["INFERENCE_PROFILE"]}]}),
        json_reply({"inferenceProfileSummaries": [{"inferenceProfileId": "us.b"}],
                    "nextToken": "n/1"}),
        json_reply({"inferenceProfileSummaries": [{"inferenceProfileId": "eu.b"}]}),
    ]  # fmt: skip
    assert listed(host, "bedrock") == [ListedModel("a"), ListedModel("us.b"), ListedModel("eu.b")]
    assert [(each.method, each.path) for each in service.requests] == [
        ("GET", "/foundation-models?byOutputModality=TEXT"),
        ("GET", "/inference-profiles?maxResults=1000"),
        ("GET", "/inference-profiles?maxResults=1000&nextToken=n%2F1"),
    ]


def test_lists_are_signed_as_well(hosts: Hosts, service: FakeService) -> None:
    service.replies = [
        json_reply({"modelSummaries": []}), json_reply({"inferenceProfileSummaries": []})
    ]  # fmt: skip
    assert listed(hosts.signed(), "bedrock") == []
    for sent in service.requests:
        assert sent.headers["authorization"] == signature(sent, service.url)


@pytest.mark.parametrize(
    "page", [{}, {"modelSummaries": 1}, {"modelSummaries": [1]}, {"modelSummaries": [{}]}], ids=str
)
def test_malformed_list_of_models(host: Host, service: FakeService, page: Any) -> None:
    service.replies = [json_reply(page)]
    with pytest.raises(errors.MalformedReply):
        listed(host, "bedrock")


def test_a_list_without_end_is_left(host: Host, service: FakeService) -> None:
    page = {"inferenceProfileSummaries": [], "nextToken": "n"}
    service.replies = [json_reply({"modelSummaries": []}), json_reply(page)]
    assert listed(host, "bedrock") == []


# refusals


@each_way
def test_how_long_to_wait_is_kept(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [refusal(429, "ThrottlingException", "slow down", Retry_After="170")]
    with pytest.raises(errors.RateLimited, match="slow down") as caught:
        ask(host, "nova-pro", streamed)
    assert caught.value.retry_after == 170


@each_way
def test_claude_is_refused_by_amazon(host: Host, service: FakeService, streamed: bool) -> None:
    service.replies = [refusal(403, "AccessDeniedException", "You don't have access.")]
    with pytest.raises(errors.AuthenticationFailed, match="access") as caught:
        ask(host, "claude-opus-5-5@bedrock", streamed)
    assert "enabled" in caught.value.hint
    assert json.loads(service.requests[0].body)
