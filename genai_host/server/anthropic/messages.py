"""`/v1/messages`, and the count of the tokens of one.

Source: Claude API reference, "Create a Message", "Count tokens in a Message".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import RouteReply, RouteRequest, ToolSchema, json_reply
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.anthropic.blocks import messages_in
from genai_host.server.anthropic.replies import Writer
from genai_host.server.asking import Asked, answer, streamed, whole
from genai_host.server.given import Given, body_of
from genai_host.server.offered import check_schema, each_once, offered_tool

_NEUTRAL = (
    "billing_policy",
    "cache_control",
    "diagnostics",
    "fallback_credit_token",
    "metadata",
    "service_tier",
    "speed",
)
"""What changes nothing of an answer."""

_REFUSED = ("compaction", "container", "fallbacks", "inference_geo", "mcp_servers", "thread")
_CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}


def create(request: RouteRequest, host: Host) -> RouteReply:
    """In pieces where `stream` says so."""
    body = body_of(request)
    in_pieces = bool(body.flag("stream"))
    asked, shows = _asked(body, host, in_pieces=in_pieces)
    if "max_tokens" not in asked.parameters:
        raise InvalidData("max_tokens is needed", path="$.max_tokens")
    writer = Writer(asked.model or "", in_json=asked.schema is not None, shows_thoughts=shows)
    if in_pieces:
        return streamed(answer(host, asked, request), writer.events)
    return json_reply(writer.whole(whole(host, asked, request)))


def count(request: RouteRequest, host: Host) -> RouteReply:
    """As the service counts that would answer. Raises `NoRoute` where none does."""
    body = body_of(request)
    body.raw("stream")
    asked, _ = _asked(body, host)
    found = host.count_tokens(
        asked.messages,
        model=asked.model,
        tools=asked.tools,
        schema=asked.schema,
        limits=request.limits,
    )
    return json_reply({"input_tokens": found.tokens})


def _asked(body: Given, host: Host, *, in_pieces: bool = False) -> tuple[Asked, bool]:
    """What is asked, and whether the client wants to see what the model thinks."""
    model = body.text("model")
    if not model:
        raise InvalidData("there is no model", path="$.model")
    body.refuse(*_REFUSED)
    _check_edits(body)
    tools = each_once([_tool(each) for each in body.objects("tools")], body.at("tools"))
    choice, at_once = _choice(body, tools)
    thinking, shows = _thinking(body)
    parameters = {
        "max_tokens": body.whole("max_tokens"),
        "temperature": body.number("temperature"),
        "top_p": body.number("top_p"),
        "top_k": body.whole("top_k"),
        "stop": list(body.texts("stop_sequences")) or None,
    }
    if thinking or at_once is not None:  # which not every model knows, and may be left out
        taken = able(host, model).parameters
        hints = {**thinking, "parallel_tool_calls": at_once}
        parameters |= {name: value for name, value in hints.items() if name in taken}
    asked = Asked(
        model=model,
        messages=messages_in(body),
        tools=tools,
        tool_choice=choice,
        schema=_schema(body),
        parameters={name: value for name, value in parameters.items() if value is not None},
        in_pieces=in_pieces,
    )
    body.read.update(_NEUTRAL)
    body.nothing_else()
    return asked, shows


def _check_edits(body: Given) -> None:
    """Earlier thoughts may be left out: what a model is shown of them is its service's affair.
    Raises `InvalidData` for other things that are not to be shown."""
    given = body.object("context_management")
    for edit in () if given is None else given.objects("edits"):
        if not edit.text("type").startswith("clear_thinking_"):
            raise InvalidData("this is not done here", path=edit.at("type"))


def _tool(given: Given) -> ToolSchema:
    kind = given.text("type", "custom")
    if kind != "custom":
        raise InvalidData(
            f"tools of type {kind} are not run here: only custom is", path=given.at("type")
        )
    return offered_tool(
        given.text("name"),
        given.text("description"),
        given.mapping("input_schema"),
        given.at("input_schema"),
    )


def _choice(body: Given, tools: list[ToolSchema]) -> tuple[str | None, bool | None]:
    """Which tool is to be taken, and whether several may be asked for at once."""
    given = body.object("tool_choice")
    if given is None:
        return None, None
    at_once = False if given.flag("disable_parallel_tool_use") else None
    kind = given.choice("type", (*_CHOICES, "tool"))
    if not kind:
        raise InvalidData("a choice has a type", path=given.at("type"))
    if kind != "tool":
        return _CHOICES.get(kind), at_once
    name = given.text("name")
    if name not in {tool.name for tool in tools}:
        raise InvalidData("no tool of the request has this name", path=given.at("name"))
    return name, at_once


def _thinking(body: Given) -> tuple[dict[str, Any], bool]:
    """The parameters for it, and whether the thoughts are to be seen."""
    given = body.object("thinking")
    kind = "" if given is None else given.choice("type", ("enabled", "disabled", "adaptive"))
    found: dict[str, Any] = {}
    if given is not None and not kind:
        raise InvalidData("thinking has a type", path=given.at("type"))
    if given is not None and kind == "enabled":
        found["thinking_budget"] = given.whole("budget_tokens")
    if kind == "disabled":
        found["reasoning_effort"] = "none"
    config = body.object("output_config")
    effort = "" if config is None else config.text("effort")
    if effort and kind != "disabled":
        found["reasoning_effort"] = effort
    return found, kind in ("enabled", "adaptive")


def _schema(body: Given) -> Mapping[str, Any] | None:
    """Of the answer: in `output_config`, or in `output_format` as it was before."""
    config = body.object("output_config")
    form = None if config is None else config.object("format")
    form = body.object("output_format") if form is None else form
    if form is None:
        return None
    form.choice("type", ("json_schema",))
    schema = form.mapping("schema")
    if schema is None:
        raise InvalidData("there is no schema", path=form.at("schema"))
    check_schema(schema, form.at("schema"))
    return schema
