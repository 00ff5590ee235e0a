"""ministack, which speaks as Amazon Bedrock does, event streams and all, in front of a service
that speaks as OpenAI does, as a counterpart of the vendor here.

It is not Bedrock in some ways, which these tests avoid: it knows the service by the scope of a
signature, and so takes no keys of Bedrock; it checks no signature; in front of another service
it streams what has come whole, and tells no reasons to end but of tools; what Claude is asked
in its maker's format is passed on without its system, its tools and its parameters; it says what
it makes up where that service fails; and it tells the kind of an error in the body alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import genai_vendor_anthropic
import genai_vendor_bedrock
import pytest
from peers.ministack_service import ministack, use_ministack

from genai_host import Config, Host
from genai_host.api import Answer, Cancellation
from genai_host.errors import BadRequest, GenaiError
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import LOOKING, chat

pytestmark = pytest.mark.peers

GREETING = 'Hello, é "you"\n\u2028 there! It is a longer text, so that it comes in pieces.'

each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def behind() -> Iterator[FakeService]:
    """What ministack stands in front of."""
    with FakeService() as fake_service:
        yield fake_service


@pytest.fixture(scope="module")
def url(behind: FakeService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running ministack."""
    with ministack(tmp_path_factory.mktemp("ministack"), behind.url) as address:
        yield address


@pytest.fixture
def host(
    url: str, behind: FakeService, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> Host:
    behind.requests.clear()
    use_ministack(url, monkeypatch)
    return make_host(
        config=Config(providers={"bedrock": provider_config("bedrock")}),
        bedrock=genai_vendor_bedrock, claude=genai_vendor_anthropic, look=LOOKING,
    )  # fmt: skip


def answer_of(host: Host, model: str, streamed: bool, feature: str = "chat", **more: Any) -> Answer:
    conversation = host.open(feature, model, **more)
    if not streamed:
        return conversation.say("hi")
    *_, last = conversation.stream("hi")
    assert last.answer is not None
    return last.answer


@pytest.mark.parametrize("model", [
    "nova-pro",
    "claude-sonnet-4-6@bedrock",
    "claude-sonnet-4-6@bedrock+bedrock-converse",
    "bedrock/arn:aws:bedrock:us-east-1:000000000000:inference-profile/us.meta.llama3-3-70b-v1:0",
])  # fmt: skip
@each_way
def test_it_answers(host: Host, behind: FakeService, model: str, streamed: bool) -> None:
    behind.replies = [chat(GREETING)]
    answer = answer_of(host, model, streamed)
    assert answer.text == GREETING
    assert answer.usage.output_tokens > 0
    (request,) = behind.requests
    assert request.json()["messages"][-1] == {"role": "user", "content": "hi"}


def test_a_stream_comes_in_pieces(host: Host, behind: FakeService) -> None:
    behind.replies = [chat(GREETING)]
    pieces = [event.text for event in host.open("chat", "nova-pro").stream("hi") if event.text]
    assert len(pieces) > 3
    assert "".join(pieces) == GREETING


@each_way
def test_a_tool_is_used(host: Host, behind: FakeService, streamed: bool) -> None:
    behind.replies = [chat(call=True), chat("fine")]
    assert answer_of(host, "nova-pro", streamed, "look").text.endswith("fine")
    first, second = (each.json() for each in behind.requests)
    assert first["tools"][0]["function"]["name"] == "look"
    assert first["tool_choice"] == "auto"
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "tool"]
    assert "is fine" in second["messages"][-1]["content"]


def test_parameters_arrive(host: Host, behind: FakeService) -> None:
    behind.replies = [chat("a")]
    parameters = {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stop": ["x"]}
    answer_of(host, "nova-pro", False, parameters=parameters)
    body = behind.requests[0].json()
    assert {name: body[name] for name in parameters} == parameters


def test_its_models_are_listed(host: Host) -> None:
    listed = [each.id for each in host.instances["bedrock"].provider.list_models(Cancellation())]
    assert any(id.startswith("anthropic.") for id in listed)


@each_way
def test_a_refusal_is_told_by_its_kind(host: Host, streamed: bool) -> None:
    arn = "arn:aws:bedrock:eu-west-1:000000000000:inference-profile/x"
    with pytest.raises(GenaiError) as caught:
        answer_of(host, f"bedrock/{arn}", streamed)
    assert type(caught.value) is BadRequest
    assert (caught.value.status, arn in caught.value.message) == (400, True)
