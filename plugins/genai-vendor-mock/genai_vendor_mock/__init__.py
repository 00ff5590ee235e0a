"""A scripted vendor for tests and tutorials: deterministic, without network or key.

- provider `mock`: replies from a script, or repeats its input
- model `mock`: for chat, in the dialect `plain`
- model `mock-embed`: for embeddings, in the dialect `plain-embed`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from genai_host.api import Model, Provider, ProviderType, Services, hookimpl
from genai_vendor_mock.script import Script, ScriptedReply, Settings

if TYPE_CHECKING:
    from genai_vendor_mock.provider import MockProvider

__all__ = ["MockProvider", "Script", "ScriptedReply", "Settings"]


def _open(settings: Settings, services: Services) -> Provider:
    from genai_vendor_mock.provider import MockProvider

    return MockProvider(settings, services)


def __getattr__(name: str) -> Any:
    if name == "MockProvider":
        from genai_vendor_mock.provider import MockProvider

        return MockProvider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("mock", Settings, _open, automatic=False)


@hookimpl
def genai_models() -> Iterable[Model]:
    yield Model(
        "mock",
        dialects=["plain"],
        capabilities={"tools", "schema", "images", "files", "reasoning"},
        window=1_000_000,
        at={"mock": "mock"},
    )
    yield Model(
        "mock-embed", dialects=["plain-embed"], operation="embed", at={"mock": "mock-embed"}
    )
