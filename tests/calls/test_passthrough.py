"""Requests that pass through, and what their answers have of the reply of the service."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from attrs import evolve

from genai_host import Config, Host
from genai_host.api import (
    CancelToken,
    ChatCall,
    Completion,
    Delta,
    DialectEndpoint,
    EncodedJson,
    Message,
    Model,
    NoSettings,
    Offering,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
    StreamEvent,
)
from genai_host.calls.passthrough import (
    PassedCompletion,
    PassedCount,
    PassedDelta,
    PassedRequest,
    PassThrough,
)
from genai_host.calls.retry import drained
from genai_host.catalog.join import Candidate
from genai_host.config import ModelConfig
from genai_host.errors import BadRequest
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

REQUEST = PassedRequest("wire", {"model": EncodedJson(b'"x"'), "seed": EncodedJson(b"1")})
CANDIDATE = Candidate(Model("m", ["wire"]), "p", "wire", parameters={"extra_body": {}})


@pytest.mark.parametrize(("request_", "candidate", "fits"), [
    ({}, {}, True),
    ({}, {"dialect": "other"}, False),
    ({}, {"parameters": {}}, False),
    ({"operation": "count"}, {"parameters": {}}, True),
    ({}, {"defaults": {"seed": 1}}, False),
    ({"stream": True}, {}, False),
    ({"stream": True}, {"capabilities": frozenset({"stream"})}, True),
    ({}, {"serve": DialectEndpoint(path="/v1/other")}, True),
    ({}, {"serve": DialectEndpoint(extra_fields={"a": 1})}, False),
    ({}, {"serve": DialectEndpoint(omit_fields=("a",))}, False),
    ({}, {"serve": DialectEndpoint(header_to_body={"a": "b"})}, False),
    ({}, {"variant": {"form": "usual", "more": 1}}, False),
    ({}, {"variant": {"form": "other"}}, False),
    ({}, {"variant": {}}, False),
    ({"neutral": frozenset({"form"})}, {"variant": {"form": "other"}}, True),
    ({"renamed": {"form": "seed"}}, {"variant": {"form": "other"}}, True),
], ids=str)  # fmt: skip
def test_what_may_pass(request_: dict[str, Any], candidate: dict[str, Any], fits: bool) -> None:
    candidate_fields = evolve(CANDIDATE, **{"variant": {"form": "usual"}, **candidate})
    assert evolve(REQUEST, **request_).fits(candidate_fields, {"form": "usual"}) is fits


@pytest.fixture
def dialect() -> Any:
    """A dialect for which the test sets the results."""
    return mock.Mock(
        operation="chat",
        price_parameters=frozenset({"tier"}),
        reserved=frozenset({"model"}),
        extensible=frozenset({"choice"}),
        variant={"limit": "most", "unlimited": "none"},
    )


CALL = ChatCall(model_id="model-1", messages=[Message("user", "x")], stream=True)
RESULT = Completion(Message("assistant", "a"), "length", value=1, vendor_finish="cut")


def test_a_request_has_its_own_fields_and_the_models_id(dialect: Any) -> None:
    request = PassThrough(dialect, evolve(REQUEST, headers={"x-beta": "on"})).prepare_request(CALL)
    assert (request.operation, request.dialect, request.model_id) == ("chat", "wire", "model-1")
    assert (request.stream, request.headers) == (True, {"x-beta": "on"})
    assert request.body == {"model": "model-1", "seed": REQUEST.fields["seed"]}
    assert PassThrough(dialect, evolve(REQUEST, fields={})).prepare_request(CALL).body == {}


@pytest.mark.parametrize(("variant", "name"), [({}, "most"), ({"limit": "maximum"}, "maximum")])
def test_a_field_has_the_services_name(dialect: Any, variant: dict[str, str], name: str) -> None:
    passed = evolve(REQUEST, renamed={"limit": "seed"})
    request = PassThrough(dialect, passed).prepare_request(evolve(CALL, variant=variant))
    assert request.body == {"model": "model-1", name: REQUEST.fields["seed"]}


def test_the_dialect_reads_replies_and_errors(dialect: Any) -> None:
    through = PassThrough(dialect, REQUEST)
    assert through.price_parameters == {"tier"}
    assert through.reserved == {"model"}
    assert through.extensible == {"choice"}
    dialect.extract_result.return_value = RESULT
    result = through.extract_result(CALL, ProviderReply(b"whole"))
    assert isinstance(result, PassedCompletion)
    assert (result.body, result.message, result.finish) == (b"whole", RESULT.message, "length")
    assert (result.usage, result.value, result.vendor_finish) == (RESULT.usage, 1, "cut")
    dialect.map_error.return_value = error = BadRequest("no")
    assert through.map_error(ProviderReply(b"", 400)) is error


def test_each_event_is_in_one_chunk(dialect: Any) -> None:
    through = PassThrough(dialect, REQUEST)
    inner = dialect.decoder.return_value
    inner.done = False
    decoder = through.decoder(CALL)
    assert decoder is not None
    event = StreamEvent(b"1")
    for decoded, texts in (([], [""]), ([Delta("a"), Delta("b")], ["a", "b"])):
        inner.feed.return_value = decoded
        first, *others = decoder.feed(event)
        assert isinstance(first, PassedDelta)
        assert first.event is event
        assert [first.text, *(each.text for each in others)] == texts
        assert not any(isinstance(each, PassedDelta) for each in others)
    inner.done = True
    assert decoder.done is True
    inner.finish.return_value = RESULT
    result = decoder.finish()
    assert isinstance(result, PassedCompletion)
    assert (result.body, result.message) == (b"", RESULT.message)
    inner.finish.side_effect = error = BadRequest("there is no answer")
    decoder = through.decoder(CALL)
    assert decoder is not None
    with pytest.raises(BadRequest) as raised:
        decoder.feed(event)  # an end without an answer is not passed on
    assert raised.value is error
    dialect.decoder.return_value = None
    assert through.decoder(CALL) is None


WHOLE = b'{"message": {"role": "assistant", "content": "a"}, "finish": "stop"}'
COUNT = b'{"tokens": 6}'


class Service(Provider):
    """Records the fields that it receives."""

    serves = {"plain": DialectEndpoint(), "plain-count": DialectEndpoint()}
    extra_body: dict[str, Any] = {}

    def __init__(self, settings: NoSettings, services: Services) -> None:
        self.received: list[dict[str, Any]] = []

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        self.received.append(dict(request.body))
        return ProviderReply(WHOLE if request.dialect == "plain" else COUNT)

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self.send(request, limits)


class Other(Service):
    """Requires a field that no client knows."""

    serves = {"plain": DialectEndpoint(extra_fields={"version": 2})}


def passed(host: Host, *, model: str = "m", **fields: Any) -> Any:
    """The result of a request that passes through; None if it has to be read."""
    request = evolve(REQUEST, **{"dialect": "plain", **fields})
    pieces = host.pass_through(request, model=model)
    return None if pieces is None else drained(pieces)


def test_a_host_passes_requests_through(make_host: MakeHost) -> None:
    host = make_host(
        plain=InlinePlugin(
            providers=[
                ProviderType("service", NoSettings, Service),
                ProviderType("other", NoSettings, Other),
            ],
            models=[Model("m", ["plain"])],
            offerings=[Offering("m", "service", "m-1"), Offering("m", "other", "m-2")],
        ),
        config=Config(
            model_configs={"alias": ModelConfig("m"), "cold": ModelConfig("m", (), {"seed": 7})}
        ),
    )
    assert passed(host) is None  # one of two services cannot receive it
    host.instances.remove("other")
    result = passed(host)
    assert isinstance(result, PassedCompletion)
    assert (result.body, result.route and result.route.provider) == (WHOLE, "service")
    service = host.instances["service"].provider
    assert isinstance(service, Service)
    assert service.received == [{"model": "m-1", "seed": REQUEST.fields["seed"]}]
    assert passed(host, model="alias").route.configuration == "alias"
    assert passed(host, model="cold") is None
    count = passed(host, dialect="plain-count", operation="count")
    assert isinstance(count, PassedCount)
    assert (count.tokens, count.body) == (6, COUNT)
    assert passed(host, dialect="plain-count") is None
