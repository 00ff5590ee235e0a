"""Anthropic's own service, and the Claude models.

- provider `anthropic`: Anthropic's service, or a compatible gateway or server
- models `claude-...`: independent of the provider; other plugins can offer them elsewhere

Source of the models: Anthropic's overview of models, the page of each model, the guides to thinking
and effort, and the SDK, as of November 2026. Models of the fifth generation reason by default,
according to their effort; some cannot disable it. Models from 4.7 on reject sampling parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from genai_host.api import (
    Model,
    Provider,
    ProviderType,
    Secret,
    Services,
    hookimpl,
    parameter,
    setting,
    standard_parameters,
)

__all__ = ["CHAT", "AnthropicSettings"]


_DIALECT = "anthropic-messages"
_ABLE = {"tools", "schema", "images", "files", "reasoning"}
_GUIDES = ("temperature", "top_p", "top_k")
_EFFORTS = ("none", "low", "medium", "high", "xhigh", "max")


def _adaptive(
    name: str,
    efforts: str,
    *,
    without: Sequence[str] = (),
    guides: bool = False,
    budget: bool = False,
    bound: bool = False,
    no_thinking: str = "",
) -> Model:
    """A model with adaptive reasoning.

    Args:
        name: Name of the model.
        efforts: Lowest and highest `reasoning_effort`, for example `low-max`.
        without: Efforts between them that it does not support.
        guides: Whether it accepts sampling parameters.
        budget: Whether it also accepts a reasoning budget.
        bound: Whether its reasoning depends on the messages before it.
        no_thinking: How reasoning is disabled, if not as usual.
    """
    variant = {
        **({"bound_thinking": True} if bound else {}),
        **({"no_thinking": no_thinking} if no_thinking else {}),
    }
    return Model(
        name,
        dialects=[_DIALECT],
        capabilities=_ABLE,
        window=1_000_000,
        max_output=128_000,
        parameters={
            **({} if guides else dict.fromkeys(_GUIDES, False)),
            **({} if budget else {"thinking_budget": False}),
            **standard_parameters(max_tokens={"maximum": 128_000}),
            "reasoning_effort": _effort(efforts, without),
        },
        variant={_DIALECT: variant} if variant else {},
        at={"anthropic": name},
    )


def _by_budget(name: str, date: str, *, efforts: str = "", retired: bool = False) -> Model:
    """A model with a reasoning budget.

    Args:
        name: Name of the model.
        date: Date of its version.
        efforts: As above; empty if it supports none.
        retired: Whether Anthropic has retired it, though others may offer it.
    """
    return Model(
        name,
        dialects=[_DIALECT],
        aliases=[f"{name}-{date}"],
        capabilities=_ABLE,
        window=200_000,
        max_output=64_000,
        parameters={
            **standard_parameters(max_tokens={"maximum": 64_000}),
            "reasoning_effort": _effort(efforts) if efforts else False,
        },
        variant={_DIALECT: {"thinking": "budget"}},
        at={} if retired else {"anthropic": f"{name}-{date}"},
    )


def _effort(efforts: str, without: Sequence[str] = ()) -> Mapping[str, Any]:
    least, _, most = efforts.partition("-")
    known = _EFFORTS[_EFFORTS.index(least) : _EFFORTS.index(most) + 1]
    return parameter(
        "string", "reasoning effort", enum=[effort for effort in known if effort not in without]
    )


CHAT: Sequence[Model] = (
    _adaptive("claude-fable-5-2", "low-max", bound=True),
    _adaptive("claude-fable-5-1", "low-max", bound=True),
    _adaptive("claude-fable-5", "low-max"),
    _adaptive("claude-opus-5-5", "low-max", bound=True),
    _adaptive("claude-opus-5", "none-max"),
    _adaptive("claude-opus-4-8", "none-max"),
    _adaptive("claude-opus-4-7", "none-max"),
    _adaptive("claude-opus-4-6", "none-max", without=["xhigh"], guides=True, budget=True),
    _adaptive("claude-sonnet-5-5", "none-max", bound=True, no_thinking="between_tools"),
    _adaptive("claude-sonnet-5", "none-max"),
    _adaptive("claude-sonnet-4-6", "none-max", without=["xhigh"], guides=True, budget=True),
    _adaptive("claude-haiku-5-5", "none-max", bound=True),
    _by_budget("claude-haiku-4-5", "20251001"),
    _by_budget("claude-opus-4-5", "20251101", efforts="low-high"),
    _by_budget("claude-sonnet-4-5", "20250929", retired=True),
)


@frozen
class AnthropicSettings:
    base_url: str = setting(
        "https://api.anthropic.com", "address of the service", env="ANTHROPIC_BASE_URL"
    )
    api_key: Secret | None = setting(None, "API key", env="ANTHROPIC_API_KEY")
    auth_token: Secret | None = setting(
        None, "bearer token instead of a key, for gateways", env="ANTHROPIC_AUTH_TOKEN"
    )
    version: str = setting(
        "2026-10-21", "API version; 2023-06-01 accepts temperature, top_p and top_k"
    )
    betas: tuple[str, ...] = setting((), "beta features to enable, sent with each request")
    drop_stale_thinking: bool = setting(
        False, "drop earlier reasoning if the content before it has changed, instead of failing"
    )
    cache: Literal["request", "blocks"] = setting(
        "request", "placement of prompt_cache: for the whole request, or per block"
    )
    lacks: tuple[str, ...] = setting(
        (), "capabilities that a compatible service lacks, for example schema, files"
    )


def _open(settings: AnthropicSettings, services: Services) -> Provider:
    from genai_vendor_anthropic.anthropic import AnthropicProvider

    return AnthropicProvider(settings, services)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("anthropic", AnthropicSettings, _open)


@hookimpl
def genai_models() -> Iterable[Model]:
    return CHAT
