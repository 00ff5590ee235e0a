"""Whether a model is to think, how much, and whether that is to be seen.

Source: Claude API reference, "ThinkingConfigParam", "OutputConfigParam"; the guides to
thinking and effort.

How much a model thinks is a hint: one that cannot be told thinks as it sees fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from genai_host.api.given import Given
from genai_host.errors import InvalidData

_BUDGET, _DISPLAY, _EFFORT = "thinking_budget", "thinking_display", "reasoning_effort"
_NO_EFFORT = "none"
_USUAL_EFFORT = "high"  # which is the format's where nobody says any
_ON = ("enabled", "adaptive")
_OFF = ("disabled", "between_tools")


def shows_thoughts(body: Given) -> bool:
    given = body.object("thinking")
    return given is not None and given.text("type") in _ON and given.text("display") != "omitted"


def thinking_in(body: Given, taken: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters for it, of those that the model takes. Raises `InvalidData`."""
    config, given = body.object("output_config"), body.object("thinking")
    effort = "" if config is None else config.text("effort")
    if given is None and not effort:
        return {}
    found: dict[str, Any] = {_EFFORT: effort or None}
    if given is not None:
        kind = given.choice("type", (*_ON, *_OFF))
        if kind in _ON:
            found |= _on(given, kind, effort, taken())
        elif kind in _OFF:
            found |= _off(given, effort, taken())
        else:
            raise InvalidData("it is needed", path=given.at("type"))
    return {name: value for name, value in found.items() if name in taken()}


def _on(given: Given, kind: str, effort: str, taken: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {_DISPLAY: given.choice("display", ("summarized", "omitted")) or None}
    budget = given.whole("budget_tokens") if kind == "enabled" else None
    if kind == "enabled" and budget is None:
        raise InvalidData("it is needed", path=given.at("budget_tokens"))
    given.raw("block_binding")  # how stale thoughts are treated is a setting of the provider
    given.nothing_else()
    if budget is not None and _BUDGET in taken:
        return {**found, _BUDGET: budget}
    if not effort and _can_be(_USUAL_EFFORT, taken):
        found[_EFFORT] = _USUAL_EFFORT
    return found


def _off(given: Given, effort: str, taken: Mapping[str, Any]) -> dict[str, Any]:
    given.nothing_else()
    if _EFFORT not in taken:
        return {}
    if not _can_be(_NO_EFFORT, taken):
        raise InvalidData("this model always thinks", path=given.at("type"))
    if effort:
        raise InvalidData(
            "it says nothing here where the model does not think", path="$.output_config.effort"
        )
    return {_EFFORT: _NO_EFFORT}


def _can_be(effort: str, taken: Mapping[str, Any]) -> bool:
    return _EFFORT in taken and effort in taken[_EFFORT].get("enum", (effort,))
