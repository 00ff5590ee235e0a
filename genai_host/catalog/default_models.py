"""Selects the default models of providers: whose may be used, in which order, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from genai_host.api import Operation
from genai_host.catalog.join import ProviderInfo


class DefaultModels:
    def __init__(self, served: Mapping[str, ProviderInfo], prefer: Sequence[str] = ()) -> None:
        self._served = served
        self._prefer = list(prefer)

    def providers(self) -> list[ProviderInfo]:
        """The providers whose default models may be used, best first: preferred, configured, free.
        A key alone does not select a service, since calls may cost money and send data."""
        return sorted(
            (each for each in self._served.values() if each.automatic and self._may_be_used(each)),
            key=lambda each: (self.rank(each.name), not each.configured, not each.free),
        )

    def rank(self, provider: str) -> int:
        """The place of a provider among the preferred ones; others are after them."""
        return self._prefer.index(provider) if provider in self._prefer else len(self._prefer)

    def why(self, provider: str) -> str:
        """Why the default model of a provider was chosen."""
        served = self._served[provider]
        if provider in self._prefer:
            return f"{provider} is in defaults.provider_order"
        if served.configured:
            return f"provider {provider} is configured"
        return "it is free" if served.free else f"provider {provider} needs no key"

    def keyed(self, operation: Operation) -> str:
        """The default model of a service that has a key but is not used automatically; empty if
        there is none."""
        for each in self._served.values():
            name = each.default_models.get(of_model(operation))
            if (
                name
                and each.automatic
                and not each.unavailable_reason
                and not self._may_be_used(each)
            ):
                return f"{name}@{each.name}"
        return ""

    def hint(self, operation: Operation) -> str:
        """How to select the model of a service that has a key but is not used automatically."""
        name = self.keyed(operation)
        what = of_model(operation)
        key = "model" if what == "chat" else what
        return f"to use {name}: genai-host config default {key} {name}" if name else ""

    def _may_be_used(self, served: ProviderInfo) -> bool:
        is_chosen = served.name in self._prefer or served.configured
        return is_chosen or served.free or not served.takes_key


def of_model(operation: Operation) -> Operation:
    """The operation of the model that performs an operation."""
    return "chat" if operation in ("complete", "count") else operation
