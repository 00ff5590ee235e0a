"""Requests for Anthropic's messages: parameters, thinking, tools.

Source: Claude API reference, "Create a Message", "ThinkingConfigParam", "OutputConfigParam",
"ToolParam", "ToolChoiceParam", "Beta headers"; the guides to thinking, effort, structured outputs,
prompt caching and the beta features.

Unknown fields are refused, as Anthropic's service does. How much a model thinks is a hint: it has
no effect on a model without a parameter for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from genai_host import Host
from genai_host.api import EXTRA_BODY, JsonReader, ToolSchema, merged_parameters
from genai_host.errors import ValidationError
from genai_host.serving import (
    ChatRequest,
    capabilities,
    check_schema,
    each_once,
    offered_tool,
    one_of,
    replaced_kinds,
    vendor_tool,
)
from genai_wire_anthropic.dialect.messages import BETA
from genai_wire_anthropic.dialect.replies import NAME
from genai_wire_anthropic.server.conversation import NEUTRAL, longest, messages_in, ttl_in

_BUDGET, _DISPLAY, _EFFORT = "thinking_budget", "thinking_display", "reasoning_effort"
_NO_EFFORT = "none"
_DEFAULT_EFFORT = "high"  # Anthropic's default
_ON = ("enabled", "adaptive")
_OFF = ("disabled", "between_tools")
_IN_THINKING = ("block_binding", "budget_tokens", "display")
"""Fields of `thinking` that have no effect for some types. What to do with stale thoughts is a
setting of the provider."""


def shows_thoughts(body: JsonReader) -> bool:
    given = body.object("thinking")
    return given is not None and given.text("type") in _ON and given.text("display") != "omitted"


def thinking_in(body: JsonReader, taken: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters for thinking that the model has. Raises `ValidationError`."""
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
            raise ValidationError("this field is required", path=given.at("type"))
    sent = {name: value for name, value in found.items() if name in taken()}
    if given is not None:
        given.read.update(_IN_THINKING)
        if not _is_written(sent, taken()):
            given.drop_others()  # the service would refuse them without a type
    return sent


def _is_written(sent: Mapping[str, Any], taken: Mapping[str, Any]) -> bool:
    """Whether the dialect surely writes `thinking` for these parameters. The effort of a model that
    could have a budget may be in `output_config` alone."""
    if sent.get(_BUDGET) or sent.get(_DISPLAY) or sent.get(_EFFORT) == _NO_EFFORT:
        return True
    return bool(sent.get(_EFFORT)) and _BUDGET not in taken


def _on(given: JsonReader, kind: str, effort: str, taken: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {_DISPLAY: given.choice("display", ("summarized", "omitted")) or None}
    budget = given.whole("budget_tokens") if kind == "enabled" else None
    if kind == "enabled" and budget is None:
        raise ValidationError("this field is required", path=given.at("budget_tokens"))
    if budget is not None and _BUDGET in taken:
        return {**found, _BUDGET: budget}
    if not effort and _can_be(_DEFAULT_EFFORT, taken):
        found[_EFFORT] = _DEFAULT_EFFORT
    return found


def _off(given: JsonReader, effort: str, taken: Mapping[str, Any]) -> dict[str, Any]:
    if _EFFORT not in taken:
        return {}
    if not _can_be(_NO_EFFORT, taken):
        raise ValidationError("thinking cannot be disabled for this model", path=given.at("type"))
    if effort:
        raise ValidationError(
            "not supported when thinking is disabled", path="$.output_config.effort"
        )
    return {_EFFORT: _NO_EFFORT}


def _can_be(effort: str, taken: Mapping[str, Any]) -> bool:
    return _EFFORT in taken and effort in taken[_EFFORT].get("enum", (effort,))


_ALONE = "disable_parallel_tool_use"
_CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}
_OF_SERVICE = re.compile(
    r"(?P<kind>code_execution|tool_search_tool|web_fetch|web_search)_.+"
    r"|(bash|computer|memory|text_editor)_.+"
)
"""Types of tools that the service runs, with their kinds, or describes for the client. Unlike
`mcp_toolset`, they name nothing that others have stored at the service."""
_NEUTRAL_IN_TOOLS = (*NEUTRAL, "eager_input_streaming", "strict")
_DIRECT = "direct"


def tools_in(body: JsonReader) -> tuple[list[ToolSchema], set[str]]:
    """Read the tools and their cache lifetimes. Raises `ValidationError` if a tool is invalid, or
    is described by Anthropic's service alone and the model is at another one."""
    ttls: set[str] = set()
    read = (_tool(each, ttls) for each in body.objects("tools"))
    tools = each_once((tool for tool in read if tool is not None), body.at("tools"))
    return tools, ttls


def chosen(
    body: JsonReader, tools: Sequence[ToolSchema]
) -> tuple[Sequence[ToolSchema], str | None, bool | None]:
    """Read the tools that may be called, the choice, and whether calls may be parallel. Raises
    `ValidationError`."""
    given = body.object("tool_choice")
    if given is None:
        return tools, None, None
    kind, name = given.choice("type", (*_CHOICES, "tool")), given.text("name")
    alone = given.flag(_ALONE)
    if not tools:
        given.drop_others()  # `tool_choice` is not sent
    at_once = None if alone is None or kind == "none" else not alone
    if kind == "tool":
        if name not in {tool.name for tool in tools}:
            raise ValidationError("unknown tool", path=given.at("name"))
        return *one_of(tools, name), at_once
    if not kind:
        raise ValidationError("this field is required", path=given.at("type"))
    if kind == "any" and not tools:
        raise ValidationError("no tools to choose from", path=given.path)
    return tools, _CHOICES[kind] if tools else None, at_once if tools else None


def _tool(given: JsonReader, ttls: set[str]) -> ToolSchema | None:
    kind, name = given.text("type", "custom"), given.text("name")
    ttls.update(ttl_in(given))
    if kind != "custom":
        found = _OF_SERVICE.fullmatch(kind)
        if found is None or not (found["kind"] or given.fields_for_service()):
            raise ValidationError(
                f"this model does not support Anthropic's tools of type {kind}: use custom",
                path=given.at("type"),
            )
        kind = found["kind"] or ""
        return vendor_tool(name or found[0], given, kind=kind, essential=not kind)
    for caller in given.texts("allowed_callers"):
        if caller != _DIRECT:
            raise given.wrong("allowed_callers", f"not supported: only {_DIRECT} is")
    schema, description = given.mapping("input_schema"), given.text("description")
    if schema is None:
        raise ValidationError("this field is required", path=given.at("input_schema"))
    extra = given.extra_fields(*_NEUTRAL_IN_TOOLS)
    return offered_tool(name, description, schema, given.at("input_schema"), extra=extra)


_NEUTRAL = (
    "diagnostics", "metadata", "service_tier", "speed", "user_profile_id", "workspace_id",
)  # fmt: skip
"""Fields that do not change an answer."""
_CONTEXT, _CLEARS_THOUGHTS = "context_management", "clear_thinking_"
_DEFAULT_TIERS = ("auto", "standard_only")
_READ = ("model", "stream")
"""Fields that are read elsewhere."""

_REFUSED = ("betas", "container", EXTRA_BODY, "inference_geo", "mcp_servers")
"""`extra_body` could set any of the others, and `betas` is a header."""
_Taken = Callable[[], Mapping[str, Any]]
"""Returns the parameters of the model. They are determined only if needed, because this takes
time."""

_DEFAULT = 1  # default of temperature and top_p
_OPTIONAL = (_BUDGET, _DISPLAY, _EFFORT, "prompt_cache")
"""Parameters without which a model answers, too."""


def read(body: JsonReader, host: Host, betas: str = "") -> ChatRequest:
    """Read a request. `betas` is the header `anthropic-beta`, which a service needs for further
    fields. Raises `ValidationError`."""
    model = body.text("model")
    if not model:
        raise ValidationError("this field is required", path="$.model")
    can = cache(lambda: capabilities(host, model))
    has_format = cache(lambda: can().dialect == NAME)
    is_own = cache(lambda: has_format() and {"betas", EXTRA_BODY} <= can().parameters.keys())
    body.carry(NAME, is_own, replaced_kinds(host, model), has_format)
    messages, cached = messages_in(body, has_format)
    offered, cached_tools = tools_in(body)
    tools, choice, at_once = chosen(body, offered)
    taken = cache(lambda: can().parameters)
    parameters = {
        "max_tokens": body.whole("max_tokens"),
        "temperature": _unless_usual(body, "temperature", taken),
        "top_p": _unless_usual(body, "top_p", taken),
        "top_k": body.whole("top_k"),
        "stop": list(body.texts("stop_sequences")) or None,
        "prompt_cache": _cache(body, {*cached, *cached_tools}, taken, is_own),
        **thinking_in(body, taken),
    }
    optional = dict.fromkeys(_OPTIONAL, "")
    if at_once is not None and (given := body.object("tool_choice")) is not None:
        if "parallel_tool_calls" in taken():
            parameters["parallel_tool_calls"] = at_once
            optional["parallel_tool_calls"] = "" if at_once else given.at(_ALONE)
        elif not at_once:
            given.drop(_ALONE)
    features = [name for each in betas.split(",") if (name := each.strip())]
    place = "" if all(map(_is_neutral, features)) else BETA
    if features and is_own():
        parameters["betas"] = features
        optional["betas"] = place
    elif place:
        body.dropped.append(place)
    usual = {name for name in ("temperature", "top_p") if parameters[name] == _DEFAULT}
    schema, further = _schema(body), _others(body, taken)
    optional |= {name: body.at(name) for name in further.keys() - {EXTRA_BODY}}
    body.dropped.parameters(optional | dict.fromkeys(usual, ""))
    return ChatRequest(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        schema=schema,
        parameters={
            name: value
            for name, value in merged_parameters(parameters, further).items()
            if value is not None
        },
        stream=bool(body.flag("stream")),
    )


def _unless_usual(body: JsonReader, name: str, taken: _Taken) -> int | float | None:
    """A parameter; None if the model does not have it and the value is the default."""
    value = body.number(name)
    return None if value == _DEFAULT and name not in taken() else value


def _cache(
    body: JsonReader, ttls: set[str], taken: _Taken, is_own: Callable[[], bool]
) -> str | None:
    """The longest cache lifetime of all marked blocks, or only that of the whole request for a
    service of this format, which receives the marks; None if the model has no such parameter."""
    whole = ttl_in(body)
    control = body.object("cache_control")
    if control is not None:
        control.raw("type")
        control.raw("ttl")
        control.drop_others()
    if not (ttls or whole) or "prompt_cache" not in taken():
        return None
    return longest(whole if is_own() else {*ttls, *whole})


def _schema(body: JsonReader) -> Mapping[str, Any] | None:
    """The JSON Schema of the answer, in `output_config`, or in the older `output_format`."""
    config = body.object("output_config")
    form = None if config is None else config.object("format")
    before = body.object("output_format")
    if form is not None and before is not None:
        raise ValidationError("cannot be combined with output_config.format", path=before.path)
    form = before if form is None else form
    if form is None:
        return None
    form.choice("type", ("json_schema",))
    schema = form.mapping("schema")
    form.drop_others()
    if schema is None:
        raise ValidationError("schema is missing", path=form.at("schema"))
    check_schema(schema, form.at("schema"))
    return schema


def _others(body: JsonReader, taken: _Taken) -> dict[str, Any]:
    """Parameters of the model that are not part of the format, and other fields for a service of
    this format."""
    body.refuse(*_REFUSED)
    body.read.update(_READ)
    if body.value.get("service_tier") in _DEFAULT_TIERS:
        body.raw("service_tier")
    found: dict[str, Any] = {}
    for name, _ in body.names():
        if name not in body.read and name not in _NEUTRAL and name in taken():
            found[name] = body.raw(name)
    thoughts = (_CONTEXT,) if _only_clears_thoughts(body) else ()
    extra = body.extra_fields(*_NEUTRAL, *thoughts)
    return merged_parameters({EXTRA_BODY: extra[NAME]}, found) if extra else found


def _only_clears_thoughts(body: JsonReader) -> bool:
    """Whether `context_management` only clears earlier thoughts, which models of other formats do
    not receive."""
    given = body.value.get(_CONTEXT)
    if not isinstance(given, dict) or given.keys() != {"edits"}:
        return False
    edits = given["edits"]
    return isinstance(edits, list) and all(
        isinstance(each, dict) and str(each.get("type")).startswith(_CLEARS_THOUGHTS)
        for each in edits
    )


_DATED = re.compile(r"(?P<feature>.+)-[0-9]{4}-?[0-9]{2}-?[0-9]{2}")
_NEUTRAL_BETAS = frozenset(
    {
        # they change costs, limits or details of Anthropic's service, but not what is asked
        "claude-code", "context-1m", "extended-cache-ttl", "fine-grained-tool-streaming",
        "interleaved-thinking", "oauth", "output-128k", "prompt-caching", "prompt-caching-scope",
        "thinking-token-count", "token-efficient-tools",
        # they allow requests, or fields, that are read, named or refused without them too
        "advanced-tool-use", "context-management", "effort", "mid-conversation-system", "pdfs",
        "structured-outputs", "token-counting",
    }
)  # fmt: skip
"""Beta features without which a service of another format answers the same."""


def _is_neutral(beta: str) -> bool:
    found = _DATED.fullmatch(beta)
    return found is not None and found["feature"] in _NEUTRAL_BETAS
