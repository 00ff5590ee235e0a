"""OpenAI's models. Source: the documentation of models, the guide to reasoning and the list of
deprecations, as of November 2026.

Reasoning models require `max_completion_tokens` and the role `developer`, and prefer the dialect
for responses, which continues reasoning across tool calls. The latest ones support tools only
there. Unless reasoning is off they reject sampling parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import Model, parameter, standard_parameters

_WINDOW_OF_6 = 1_050_000
_WINDOW_OF_5 = 400_000
_ABLE = {"tools", "schema", "images", "files"}
_GUIDES = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "stop")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_VERBOSITY: Mapping[str, Any] = parameter(
    "string", "length of the answer", enum=["low", "medium", "high"]
)


def _thinking(
    name: str,
    efforts: str,
    window: int,
    max_output: int = 128_000,
    *,
    alias: str = "",
    guides: Sequence[str] = (),
    verbosity: bool = True,
    retired: bool = False,
) -> Model:
    """A model with reasoning.

    Args:
        name: Name of the model.
        efforts: Lowest and highest `reasoning_effort`, for example `low-max`.
        window: Context window in tokens.
        max_output: Maximum number of output tokens.
        alias: Another name; may be empty.
        guides: Sampling parameters that it accepts.
        verbosity: Whether it accepts `verbosity`.
        retired: Whether OpenAI has retired it, though others may offer it.
    """
    return Model(
        name,
        dialects=["openai-responses", "openai-chat"],
        aliases=[alias] if alias else [],
        capabilities={*_ABLE, "reasoning"},
        window=window,
        max_output=max_output,
        parameters={
            **{guide: False for guide in _GUIDES if guide not in guides},
            **({"verbosity": _VERBOSITY} if verbosity else {}),
            "max_tokens": _max_tokens(max_output),
            "reasoning_effort": _effort(efforts),
        },
        variant={
            "openai-chat": {"max_tokens": "max_completion_tokens", "system_role": "developer"},
            "openai-responses": {"encrypted_reasoning": True, "system_role": "developer"},
        },
        at={} if retired else _at(name),
    )


def _direct(name: str, window: int, max_output: int, *, retired: bool = False) -> Model:
    """A model without reasoning."""
    return Model(
        name,
        dialects=["openai-chat", "openai-responses"],
        capabilities=_ABLE,
        window=window,
        max_output=max_output,
        parameters={
            "max_tokens": _max_tokens(max_output),
            "reasoning_effort": False,
            "reasoning_summary": False,
        },
        at={} if retired else _at(name),
    )


def _embed(name: str, dimensions: int | None) -> Model:
    """An embedding model; `dimensions` is their maximum number, None if they are fixed."""
    return Model(
        name,
        dialects=["openai-embed"],
        operation="embed",
        window=8192,
        parameters={
            "dimensions": dimensions is not None
            and parameter("integer", "size of the vectors", minimum=1, maximum=dimensions)
        },
        at=_at(name),
    )


def _at(name: str) -> Mapping[str, str]:
    """Return the ids; an Azure deployment has its model's name unless an instance maps it."""
    return {"openai": name, "azure-openai": name}


def _max_tokens(most: int) -> Mapping[str, Any]:
    return {**standard_parameters("max_tokens")["max_tokens"], "maximum": most}


def _effort(efforts: str) -> Mapping[str, Any]:
    least, _, most = efforts.partition("-")
    known = [effort for effort in _EFFORTS if effort != "minimal" or least == "minimal"]
    return parameter(
        "string", "reasoning effort", enum=known[known.index(least) : known.index(most) + 1]
    )


_WITHOUT_THINKING = ("temperature", "top_p")  # accepted without reasoning, the default

CHAT: Sequence[Model] = (
    _thinking("gpt-6.2-astra", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6.2-sol", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6.1-sol", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6.1-terra", "none-max", _WINDOW_OF_6),
    _thinking("gpt-6-astra", "low-max", _WINDOW_OF_6),
    _thinking("gpt-6-sol", "none-max", _WINDOW_OF_6),
    _thinking("gpt-6-luna", "none-max", _WINDOW_OF_6),
    _thinking("gpt-5.6-sol", "none-max", _WINDOW_OF_6, alias="gpt-5.6"),
    _thinking("gpt-5.6-terra", "none-max", _WINDOW_OF_6),
    _thinking("gpt-5.6-luna", "none-max", _WINDOW_OF_6),
    _thinking("gpt-5.5", "none-xhigh", _WINDOW_OF_6),
    _thinking("gpt-5.4", "none-xhigh", _WINDOW_OF_6, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.4-mini", "none-xhigh", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.4-nano", "none-xhigh", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.2", "none-xhigh", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5.1", "none-high", _WINDOW_OF_5, guides=_WITHOUT_THINKING),
    _thinking("gpt-5", "minimal-high", _WINDOW_OF_5),
    _thinking("gpt-5-mini", "minimal-high", _WINDOW_OF_5),
    _thinking("gpt-5-nano", "minimal-high", _WINDOW_OF_5),
    _thinking("o3", "low-high", 200_000, 100_000, verbosity=False),
    _thinking("o4-mini", "low-high", 200_000, 100_000, verbosity=False, retired=True),
    _direct("gpt-4.1", 1_047_576, 32_768),
    _direct("gpt-4.1-mini", 1_047_576, 32_768),
    _direct("gpt-4.1-nano", 1_047_576, 32_768, retired=True),
    _direct("gpt-4o", 128_000, 16_384),
    _direct("gpt-4o-mini", 128_000, 16_384),
)

MODERATE: Sequence[Model] = (
    Model(
        "omni-moderation",
        dialects=["openai-moderate"],
        aliases=["omni-moderation-latest"],
        operation="moderate",
        at={"openai": "omni-moderation-latest"},
    ),
)

TRANSCRIBE: Sequence[Model] = tuple(
    Model(name, dialects=["openai-transcribe"], operation="transcribe", at=_at(name))
    for name in ("gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-1")
)

EMBED: Sequence[Model] = (
    _embed("text-embedding-3-small", 1536),
    _embed("text-embedding-3-large", 3072),
    _embed("text-embedding-ada-002", None),
)
