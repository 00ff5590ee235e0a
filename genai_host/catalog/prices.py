"""Prices of calls.

A provider declares whose prices apply (`Provider.price_provider`). The price list is that of the
package genai-prices, `pip install "genai-host[prices]"`.
"""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Protocol

from genai_host.api import FREE, Provider, Usage

_log = logging.getLogger(__name__)


class Prices(Protocol):
    """A price list. Thread-safe."""

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        """The cost of a call in US dollars; None if unknown.

        Args:
            seller: Name of the seller, or URL of the service.
            model: Id of the model there.
            usage: Tokens used.
            at: Time of the call, UTC, since prices change.
        """


def cost_of(
    prices: Prices, provider: Provider, id: str, name: str, usage: Usage | None, at: datetime
) -> float | None:
    """The cost of a call in US dollars; None if it is unknown or an error occurs, since an answer
    must not fail because of its price. The `name` of the declared model is for ids of deployments,
    which are in no price list."""
    try:
        seller = provider.price_provider(id)
        if seller == FREE:
            return 0.0
        if not seller or usage is None or not usage.total:
            return None
        at = at.astimezone(UTC)
        for model in dict.fromkeys((id, name)):
            dollars = prices.price(seller, model, usage, at)
            if dollars is not None:
                return dollars if math.isfinite(dollars) and dollars >= 0 else None
    except Exception:  # noqa: BLE001 - no plugin or price list may break an answer
        _log.warning("cannot determine the cost of a call of %s", name, exc_info=True)
    return None


class NoPrices:
    """An empty price list."""

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        return None


class PackagedPrices:
    """The price list of genai-prices.

    It is imported on first use, which takes some tenths of a second. It is updated only if the
    application does so (`genai_prices.UpdatePrices`).
    """

    @cached_property
    def _library(self) -> tuple[Any, Any]:
        from genai_prices import Usage, calc_price

        return Usage, calc_price

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        make_usage, calc_price = self._library
        counted = make_usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
            output_tokens=usage.output_tokens,
            output_reasoning_tokens=usage.reasoning_tokens,
        )
        try:
            if "://" in seller:
                found = calc_price(
                    counted, model, provider_api_url=seller, genai_request_timestamp=at
                )
            else:
                found = calc_price(counted, model, provider_id=seller, genai_request_timestamp=at)
        except LookupError:  # unknown seller or model
            return None
        except ValueError as error:  # the service reports a part that exceeds the whole
            _log.info("usage of %s without a matching price: %s", model, error)
            return None
        priced = found.model_price  # it also lists models without prices, with a cost of 0
        if usage.input_tokens and priced.input_mtok is None:
            return None
        if usage.output_tokens and priced.output_mtok is None:
            return None
        return float(found.total_price)


def installed_prices() -> Prices | None:
    """The installed price list, not yet imported; None if there is none."""
    return PackagedPrices() if find_spec("genai_prices") is not None else None
