"""What a request for a message asks for.

Source: Claude API reference, "Create a Message"; the guides to structured outputs and prompt
caching. Fields that nobody knows are refused, as its own service does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from attrs import frozen

from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.anthropic.conversation import messages_in
from genai_host.server.anthropic.marks import longest, ttl_in
from genai_host.server.anthropic.thinking import shows_thoughts, thinking_in
from genai_host.server.anthropic.tools import chosen, tools_in
from genai_host.server.asking import Asked
from genai_host.server.offered import check_schema

_NEUTRAL = (
    "diagnostics",
    "metadata",
    "model",
    "service_tier",
    "speed",
    "stream",
    "user_profile_id",
    "workspace_id",
)
"""What changes nothing of an answer, and what is read elsewhere."""

_REFUSED = ("container", "context_management", "inference_geo", "mcp_servers")
_Taken = Callable[[], Mapping[str, Any]]
"""The parameters that the model takes: what they are takes its time to find, and most requests
need not know."""

_USUAL = 1  # temperature and top_p of who says nothing of them


@frozen
class Wanted:
    """
    shows_thoughts   whether the client wants to see what the model thinks
    """

    asked: Asked
    shows_thoughts: bool


def read(body: Given, host: Host) -> Wanted:
    """Raises `InvalidData`."""
    model = body.text("model")
    if not model:
        raise InvalidData("it is needed", path="$.model")
    messages, cached = messages_in(body)
    offered, cached_tools = tools_in(body)
    tools, choice, at_once = chosen(body, offered)
    taken = cache(lambda: able(host, model).parameters)
    parameters = {
        "max_tokens": body.whole("max_tokens"),
        "temperature": _unless_usual(body, "temperature", taken),
        "top_p": _unless_usual(body, "top_p", taken),
        "top_k": body.whole("top_k"),
        "stop": list(body.texts("stop_sequences")) or None,
        "prompt_cache": _cache(body, {*cached, *cached_tools}, taken),
        **thinking_in(body, taken),
    }
    if at_once is False or (at_once and "parallel_tool_calls" in taken()):
        parameters["parallel_tool_calls"] = at_once
    asked = Asked(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        schema=_schema(body),
        parameters={
            name: value
            for name, value in {**parameters, **_others(body, taken)}.items()
            if value is not None
        },
        in_pieces=bool(body.flag("stream")),
    )
    return Wanted(asked, shows_thoughts(body))


def _unless_usual(body: Given, name: str, taken: _Taken) -> int | float | None:
    """A model that takes none of it is at that anyway."""
    value = body.number(name)
    return None if value == _USUAL and name not in taken() else value


def _cache(body: Given, ttls: set[str], taken: _Taken) -> str | None:
    """How long the prompt is to be kept, where a service can be told: of the marks in it,
    the longest.

    ttls   of the marks in what was said, and in the tools
    """
    kept = longest({*ttls, *ttl_in(body)})
    return kept if kept and "prompt_cache" in taken() else None


def _schema(body: Given) -> Mapping[str, Any] | None:
    """Of the answer: in `output_config`, or in `output_format`, as it was before."""
    config = body.object("output_config")
    form = None if config is None else config.object("format")
    if config is not None:
        config.raw("effort")
        config.nothing_else()
    before = body.object("output_format")
    if form is not None and before is not None:
        raise InvalidData("there is another in output_config", path=before.path)
    form = before if form is None else form
    if form is None:
        return None
    form.choice("type", ("json_schema",))
    schema = form.mapping("schema")
    if schema is None:
        raise InvalidData("there is no schema", path=form.at("schema"))
    check_schema(schema, form.at("schema"))
    return schema


def _others(body: Given, taken: _Taken) -> dict[str, Any]:
    """Parameters that the format does not have, and the model has."""
    body.refuse(*_REFUSED)
    found: dict[str, Any] = {}
    for name, _ in body.names():
        if name not in body.read and name not in _NEUTRAL and name in taken():
            found[name] = body.raw(name)
    for name in _NEUTRAL:
        body.raw(name)
    body.nothing_else()
    return found
