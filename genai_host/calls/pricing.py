"""Costs of the calls of a route, from the price list."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import timedelta
from typing import Any

from attrs import frozen

from genai_host.api import Clock, Provider, Usage
from genai_host.api.models import EXTRA_BODY
from genai_host.catalog.join import Candidate
from genai_host.catalog.prices import NoPrices, Prices, cost_of
from genai_host.util import waiting

_NO_PRICES = NoPrices()


@frozen
class CallPricing:
    """What the calls of a candidate cost.

    Args:
        candidate: Model, provider and dialect.
        price_parameters: Parameters with which a call has another price than the list's.
        clock: Source of time.
        prices: Price list; None if unknown.
    """

    _candidate: Candidate
    _price_parameters: Set[str]
    _clock: Clock
    _prices: Prices | None

    def is_known(self, provider: Provider, parameters: Mapping[str, Any]) -> bool:
        """Whether the cost of a call will be known, as far as can be determined before it."""
        operation = self._candidate.operation
        if operation == "count":
            return True
        has_answer = operation in ("chat", "complete", "transcribe")
        usage = None if operation == "moderate" else Usage(1, int(has_answer))
        id, name = provider.provider_model_id(self._candidate.id), self._candidate.model.name
        prices = self._prices or _NO_PRICES
        cost = cost_of(prices, provider, id, name, usage, self._clock.now())
        given = {**self._candidate.defaults, **parameters}
        return cost == 0.0 or (cost is not None and not self.is_changed_by(given))

    def is_changed_by(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a call with these parameters has another price than the list's."""
        body = parameters.get(EXTRA_BODY)
        names = {*parameters, *(body if isinstance(body, Mapping) else ())}
        return not self._price_parameters.isdisjoint(names)

    def listed(
        self, provider: Provider, id: str, usage: Usage | None, seconds: float
    ) -> float | None:
        """Cost in US dollars at the list price; None if it is unknown.

        Args:
            provider: The provider.
            id: Model id that was sent.
            usage: Tokens used; None if not reported.
            seconds: Seconds since the start of the call; the price at that time applies.
        """
        if self._prices is None:
            return None
        began, name = self._clock.now() - timedelta(seconds=seconds), self._candidate.model.name
        # the price list is imported with the first call, and a plugin names the provider in it
        return waiting.call(cost_of, self._prices, provider, id, name, usage, began)
