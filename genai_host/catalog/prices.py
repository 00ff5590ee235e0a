"""Prices of calls: what a table says of a model, of whoever charges for it.

The host knows no seller. A provider says whose prices hold (`Provider.priced_as`); the
table is the one that the package genai-prices brings, `pip install "genai-host[prices]"`.
"""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Protocol

from genai_host.api import FREE, Provider, Usage

_log = logging.getLogger(__name__)


class Prices(Protocol):
    """A table of prices. May be asked from many threads."""

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        """What a call cost, in US dollars; None if the table does not say.

        Args:
            seller: Who charges: a name, or the address of the service.
            model: The model's id there.
            at: When it was called, UTC: prices change.
        """


def cost_of(
    prices: Prices, provider: Provider, id: str, name: str, usage: Usage | None, at: datetime
) -> float | None:
    """What a call cost, in US dollars; None if that is not known, for whatever reason: an
    answer is worth more than its price.

    Args:
        id: The model's, as it was sent.
        name: Under which the model is declared: a deployment has an id that no table knows.
        usage: Tokens used; None if the service does not say.
    """
    try:
        seller = provider.priced_as(id)
        if seller == FREE:
            return 0.0
        if not seller or usage is None or not usage.total:
            return None
        at = at.astimezone(UTC)
        for model in dict.fromkeys((id, name)):
            dollars = prices.price(seller, model, usage, at)
            if dollars is not None:
                return dollars if math.isfinite(dollars) and dollars >= 0 else None
    except Exception:  # noqa: BLE001 - neither a plugin nor a table is to break an answer
        _log.warning("the cost of a call of %s cannot be told", name, exc_info=True)
    return None


class NoPrices:
    """A table that knows nothing."""

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        return None


class PackagedPrices:
    """The table that genai-prices brings. It is imported when it is first asked, which takes
    some tenths of a second, and asks nobody for newer prices, unless the program that it
    runs in has told it to (`genai_prices.UpdatePrices`)."""

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price

        counted = Counted(
            input_tokens=usage.input,
            cache_read_tokens=usage.cached_input,
            cache_write_tokens=usage.cache_written,
            cache_write_1h_tokens=usage.cache_written_1h,
            output_tokens=usage.output,
            output_reasoning_tokens=usage.reasoning,
        )
        try:
            if "://" in seller:
                found = calc_price(
                    counted, model, provider_api_url=seller, genai_request_timestamp=at
                )
            else:
                found = calc_price(counted, model, provider_id=seller, genai_request_timestamp=at)
        except LookupError:  # neither seller nor model is in it
            return None
        except ValueError as error:  # the service counts more of a part than of the whole
            _log.info("usage of %s that no price fits: %s", model, error)
            return None
        priced = found.model_price  # it lists models without prices as well, which come to 0
        if usage.input and priced.input_mtok is None:
            return None
        if usage.output and priced.output_mtok is None:
            return None
        return float(found.total_price)


def installed_prices() -> Prices | None:
    """The table that is installed, without importing it; None if there is none."""
    return PackagedPrices() if find_spec("genai_prices") is not None else None
