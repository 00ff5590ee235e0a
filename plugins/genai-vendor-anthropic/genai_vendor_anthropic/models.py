"""The Claude models. Source: Anthropic's overview of models, the page of each model, the guides to
thinking and effort, and the SDK, as of November 2026.

Models of the fifth generation reason by default, according to their effort; some cannot disable it.
Models from 4.7 on reject sampling parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import Model, parameter, standard_parameters

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
            "max_tokens": _max_tokens(128_000),
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
            "max_tokens": _max_tokens(64_000),
            "reasoning_effort": _effort(efforts) if efforts else False,
        },
        variant={_DIALECT: {"thinking": "budget"}},
        at={} if retired else {"anthropic": f"{name}-{date}"},
    )


def _max_tokens(most: int) -> Mapping[str, Any]:
    return {**standard_parameters("max_tokens")["max_tokens"], "maximum": most}


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
