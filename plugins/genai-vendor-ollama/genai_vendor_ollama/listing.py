"""Ollama's descriptions of models: the list of all models, and the details of one.

Source: Ollama's `docs/api.md`, "List Local Models" and "Show Model Information", and
`api/types.go`, of August 2026. Older servers omit the capabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import ListedModel
from genai_host.errors import MalformedReply

_CAPABILITIES: Mapping[str, str] = {
    "tools": "tools",
    "vision": "images",
    "thinking": "reasoning",
}
_DIALECTS: Mapping[str, tuple[str, ...]] = {
    "completion": ("ollama-chat",),
    "embedding": ("ollama-embed",),
}


def read_list(data: Any) -> list[ListedModel]:
    """Parse the models of `/api/tags`. Raises `MalformedReply`."""
    try:
        return [
            _listed(each.get("model") or each["name"], each, _details(each).get("context_length"))
            for each in data["models"]
        ]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


def read_shown(id: str, data: Mapping[str, Any]) -> ListedModel:
    """Parse one model of `/api/show`. Raises `MalformedReply`."""
    try:
        return _listed(id, data, _shown_window(data))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise MalformedReply(f"the reply does not describe a model: {error!r}") from error


def _listed(id: str, data: Mapping[str, Any], window: Any) -> ListedModel:
    window = window if type(window) is int and window > 0 else None
    said = data.get("capabilities")
    if said is None:
        return ListedModel(id, window=window)
    dialects = [name for can in said for name in _DIALECTS.get(can, ())]
    able = {_CAPABILITIES[can] for can in said if can in _CAPABILITIES}
    if "completion" in said:  # a grammar enforces schemas for any of them
        able |= {"schema"}
    return ListedModel(id, dialects, able, window)


def _details(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return data.get("details") or {}


def _shown_window(data: Mapping[str, Any]) -> Any:
    """Return the context window; its key is for example `llama.context_length`."""
    info = data.get("model_info") or {}
    return next((size for name, size in info.items() if name.endswith(".context_length")), None)
