"""`/v1/chat/completions`.

Source: OpenAI API reference, "Create chat completion".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.api.given import Given, body_of
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.asking import Asked, answer, streamed, whole
from genai_host.server.offered import check_schema
from genai_host.server.openai.messages import messages_in
from genai_host.server.openai.replies import Writer
from genai_host.server.openai.tools import chosen, tools_in

_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_NEUTRAL = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""What changes nothing of an answer."""

_REFUSED = (
    "audio",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "prediction",
    "top_logprobs",
    "web_search_options",
)


def complete(request: RouteRequest, host: Host) -> RouteReply:
    """In pieces where `stream` says so."""
    body = body_of(request)
    model = body.text("model")
    if not model:
        raise InvalidData("there is no model", path="$.model")
    tools, choice = chosen(body, tools_in(body))
    in_pieces = bool(body.flag("stream"))
    options = body.object("stream_options")
    with_usage = bool(options.flag("include_usage")) if options is not None else False
    asked = Asked(
        model=model,
        messages=messages_in(body),
        tools=tools,
        tool_choice=choice,
        schema=schema_in(body),
        parameters=parameters_in(body, host, model),
        in_pieces=in_pieces,
    )
    writer = Writer(model, host.clock.now(), with_usage=with_usage)
    if in_pieces:
        return streamed(answer(host, asked, request), writer.events)
    return json_reply(writer.whole(whole(host, asked, request)))


def schema_in(body: Given) -> Mapping[str, Any] | None:
    """The JSON Schema that the answer is to satisfy. Raises `InvalidData`."""
    form = body.object("response_format")
    if form is None:
        return None
    kind = form.choice("type", ("text", "json_object", "json_schema"))
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        return None
    inner = form.object("json_schema")
    schema = None if inner is None else inner.mapping("schema")
    if inner is None or schema is None:
        raise InvalidData("there is no schema", path=form.at("json_schema"))
    check_schema(schema, inner.at("schema"))
    return schema


def parameters_in(body: Given, host: Host, model: str) -> dict[str, Any]:
    """The model parameters, by the host's names: those of the format, and others that the
    model has. Raises `InvalidData`."""
    found: dict[str, Any] = {}
    for name in _NUMBERS:
        found[name] = body.number(name)
    most = body.whole("max_completion_tokens")
    found["max_tokens"] = body.whole("max_tokens") if most is None else most
    body.raw("max_tokens")
    found["seed"] = body.whole("seed")
    stop = body.raw("stop")
    if stop is not None:
        found["stop"] = [stop] if isinstance(stop, str) else list(body.texts("stop"))
    found["reasoning_effort"] = body.raw("reasoning_effort")
    body.refuse(*_REFUSED)
    if body.whole("n") not in (None, 1):
        raise InvalidData("there is one answer to a request", path=body.at("n"))
    if body.raw("modalities") not in (None, ["text"]):
        raise InvalidData("answers are texts here", path=body.at("modalities"))
    others = [name for name, _ in body.names() if name not in body.read and name not in _NEUTRAL]
    at_once = body.flag("parallel_tool_calls")
    if others or at_once is not None:
        taken = able(host, model).parameters
        # a wish that many clients always send, also of models that cannot be told
        if "parallel_tool_calls" in taken:
            found["parallel_tool_calls"] = at_once
        for name in set(others) - {"parallel_tool_calls"}:
            if name not in taken:
                raise InvalidData(f"there is no field {name!r} here", path=body.at(name))
            found[name] = body.raw(name)
    return {name: value for name, value in found.items() if value is not None}
