"""What a call costs, and whether that is known before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from genai_host.api import (
    FREE,
    Cancellation,
    CancelToken,
    DialectEndpoint,
    Message,
    Model,
    NoSettings,
    Offering,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
)
from genai_host.calls.pricing import CallPricing
from genai_host.calls.retry import RetryPolicy, drained
from genai_host.calls.route import Route
from genai_host.catalog.join import Candidate
from genai_host.errors import GenaiError
from genai_host.plugins.observers import CallRecord
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.fixtures import MakeHost

PRICES: Any = SimpleNamespace(price=lambda seller, model, usage, at: usage.total / 2)


class Shop(Provider):
    """Sells answers at list prices. The first reply has a usage, the second none."""

    serves = {"plain": DialectEndpoint()}
    seller = "shop"

    def __init__(self, settings: NoSettings, services: Services) -> None:
        self.usages = ['"usage": {"input": 3, "output": 1}, ', ""]

    def price_provider(self, model_id: str) -> str:
        return self.seller

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        usage = self.usages.pop(0)
        message = '"message": {"role": "assistant", "content": "four words are here"}'
        return ProviderReply(f"{{{usage}{message}}}".encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self.send(request, limits)


@pytest.mark.parametrize(
    ("seller", "prices", "parameters", "known"),
    [
        ("shop", PRICES, {}, True),
        ("shop", PRICES, {"seed": 1}, True),
        ("shop", PRICES, {"tier": "fast"}, False),
        ("shop", PRICES, {"extra_body": {"tier": "fast"}}, False),
        ("shop", None, {}, False),
        ("", PRICES, {}, False),
        (FREE, None, {"tier": "fast"}, True),
    ],
)
def test_a_price_is_known_before_the_call(
    seller: str, prices: Any, parameters: dict[str, Any], known: bool
) -> None:
    candidate = Candidate(Model("m", ["plain"]), "shop", "plain", "m-1")
    pricing = CallPricing(candidate, frozenset({"tier"}), ManualClock(), prices)
    provider = cast("Any", SimpleNamespace(price_provider=lambda id: seller, provider_model_id=str))
    assert pricing.is_known(provider, parameters) is known


PROMPT = Prompt([Message("user", "hi")])


def plugin_of(provider: type[Provider]) -> InlinePlugin:
    return InlinePlugin(
        providers=[ProviderType("shop", NoSettings, provider)],
        models=[Model("m", ["plain"])],
        offerings=[Offering("m", "shop", "m-1")],
    )


class Reports:
    """Middleware that keeps the reports of calls."""

    def __init__(self) -> None:
        self.reports: list[CallRecord] = []

    def enter(self, route: Route, report: CallRecord) -> None:
        self.reports.append(report)

    def leave(self, route: Route, error: GenaiError | None, report: CallRecord) -> None:
        """Nothing."""


def test_an_estimated_cost_is_not_reported(make_host: MakeHost) -> None:
    host, middleware = make_host(plain=plugin_of(Shop), prices=PRICES), Reports()
    agent = host._routing.agent("main", "chat", "m", {}, None, (middleware,))
    results = [drained(agent.stream(PROMPT, Cancellation(), stream=False)) for _ in range(2)]
    assert [(each.usage.total, each.cost) for each in results] == [(4, 2.0), (0, None)]
    reported, estimated = middleware.reports
    assert (reported.estimated_usage.total, reported.estimated_cost) == (0, 2.0)
    assert estimated.estimated_cost == estimated.estimated_usage.total / 2 > 2


@pytest.mark.parametrize(
    ("status", "refused"), [(400, True), (500, True), (408, False), (499, False), (504, False)]
)
def test_a_refused_call_is_not_charged(make_host: MakeHost, status: int, refused: bool) -> None:
    class Refusing(Shop):
        def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            return ProviderReply(b"no", status)

    host, middleware = make_host(plain=plugin_of(Refusing)), Reports()
    host.retry_policy = RetryPolicy(max_attempts=1, max_total_attempts=1)
    agent = host._routing.agent("main", "chat", "m", {}, None, (middleware,))
    with pytest.raises(GenaiError):
        drained(agent.stream(PROMPT, Cancellation(), stream=False))
    [report] = middleware.reports
    assert report.refused is refused
