"""Handlers of messages, token counts and models.

    create → read → whole → MessageWriter.whole
                  → answer → MessageWriter.events
    count  → read → Host.count_tokens
    create, count → pass_through, to services of the same format

Source: Claude API reference, "Create a Message", "Count tokens in a Message", "List Models".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from genai_host import Host
from genai_host.api import Operation, RouteRequest, RouteResponse, body_of, json_response, number_in
from genai_host.errors import NotFound, ValidationError
from genai_host.serving import (
    PassingFormat,
    ServedModel,
    answer,
    count_tokens,
    fields_to_pass,
    is_empty,
    named_sse_of,
    pass_through,
    served_model,
    served_models,
    streamed,
    value_of,
    whole,
)
from genai_wire_anthropic.dialect.messages import BETA
from genai_wire_anthropic.server.replies import (
    NO_THREADS,
    PING,
    MessageWriter,
    error_event,
    problem_reply,
)
from genai_wire_anthropic.server.requests import read, shows_thoughts

_SAMPLING = frozenset({"temperature", "top_k", "top_p"})
_VERSION = "anthropic-version"
_OLDER_VERSIONS = ("2023-01-01", "2023-06-01")
"""Versions of the API in which models may have sampling parameters. Clients get the errors and the
rules of their own version."""
_VERSIONS = (*_OLDER_VERSIONS, "2026-10-21")
_PARAMETER_OF = {"adaptive": "reasoning_effort", "enabled": "thinking_budget"}
"""Parameters of models that accept a kind of thinking."""

_DIALECTS: Mapping[str, str] = {"chat": "anthropic-messages", "count": "anthropic-count"}
_NEUTRAL = frozenset({"bound_thinking", "max_tokens", "no_thinking"})
"""Options of the dialect for what a client writes itself."""

_WRITTEN_HERE = [
    re.compile(rb'"%b"\s*:\s*""' % name) for name in (b"signature", b"encrypted_index")
]
"""What this host wrote for services of other formats, thoughts and citations of web pages, which a
service of this format refuses."""


def create(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a message, streamed if `stream` is set."""
    passed = _passed(request, host)
    if passed is not None:
        return passed
    body = body_of(request)
    if "thread" in body:
        return problem_reply(NO_THREADS)
    asked, thinks = read(body, host, request.headers.get(BETA, "")), shows_thoughts(body)
    del body  # its values take memory while the service answers
    if "max_tokens" not in asked.parameters:
        raise ValidationError("this field is required", path="$.max_tokens")
    stop = asked.parameters.get("stop", ())
    writer = MessageWriter(
        asked.model or "", shows_thoughts=thinks, stop=stop[0] if len(stop) == 1 else None
    )
    if asked.stream:
        return streamed(answer(host, asked, request), writer.events, keepalive=PING)
    return json_response(writer.whole(whole(host, asked, request)))


def _passed(
    request: RouteRequest, host: Host, operation: Operation = "chat"
) -> RouteResponse | None:
    """The reply of a service that has the same format; None if there is none."""
    fields = fields_to_pass(host, request)
    if fields is None or "thread" in fields or is_empty(fields, "messages"):
        return None
    model, stream = value_of(fields, "model"), value_of(fields, "stream")
    if not isinstance(model, str) or stream not in (None, False, True):
        return None
    thinking, output = value_of(fields, "thinking") or {}, value_of(fields, "output_config") or {}
    if not isinstance(thinking, dict) or not isinstance(output, dict):
        return None
    if "output_format" in fields or "format" in output:
        return None  # the answer is checked
    if any(each.search(fields["messages"].data) for each in _WRITTEN_HERE):
        return None
    kind, version = str(thinking.get("type", "")), request.headers.get(_VERSION)
    used = _SAMPLING & fields.keys()
    used |= {_PARAMETER_OF.get(kind, kind)} if thinking else set()
    used |= {"reasoning_effort"} if "effort" in output else set()
    form = PassingFormat(
        dialect=_DIALECTS[operation],
        operation=operation,
        parameters=frozenset(used),
        of_client=_SAMPLING if version in _OLDER_VERSIONS else frozenset(),
        neutral=_NEUTRAL if kind == "adaptive" else _NEUTRAL | {"thinking"},
        headers=(BETA, _VERSION) if version in _VERSIONS else (BETA,),
        write_event=named_sse_of,
        write_error=error_event,
        writer=MessageWriter(model, shows_thoughts=True),
        keepalive=PING,
    )
    return pass_through(host, request, fields, form, model=model, stream=bool(stream))


def count(request: RouteRequest, host: Host) -> RouteResponse:
    """Count tokens with the service that would answer. Raises `NoRoute` if it cannot count."""
    passed = _passed(request, host, "count")
    if passed is not None:
        return passed
    asked = read(body_of(request), host, request.headers.get(BETA, ""))
    return json_response({"input_tokens": count_tokens(host, asked, request.limits)})


def no_batches(request: RouteRequest, host: Host) -> RouteResponse:
    raise NotFound(
        "the Message Batches API is not supported", hint="send each request to POST /v1/messages"
    )


_PAGE, _MAX = 20, 1000
_UNKNOWN = "1970-01-01T00:00:00Z"  # no provider reports when a model was created
_CAPABILITIES: Mapping[str, str] = {
    "image_input": "images",
    "pdf_input": "files",
    "structured_outputs": "schema",
}
_NOT_HAD = ("batch", "citations", "code_execution")
"""Capabilities that are not supported for any model."""


def listed(request: RouteRequest, host: Host) -> RouteResponse:
    """List a page of models: `limit`, and `after_id` or `before_id`."""
    found = [each for each in served_models(host) if each.operation == "chat"]
    names = [each.name for each in found]
    limit = number_in(request.query, "limit", _PAGE, _MAX)
    after, before = request.query.get("after_id"), request.query.get("before_id")
    if after and before:
        raise ValidationError("after_id and before_id cannot be combined", path="?after_id")
    for name in (after, before):
        if name and name not in names:
            place = "?after_id" if after else "?before_id"
            raise ValidationError(f"unknown model {name!r}", path=place)
    if before:
        found = found[: names.index(before)]
        page, has_more = found[-limit:], len(found) > limit
    else:
        found = found[names.index(after) + 1 :] if after else found
        page, has_more = found[:limit], len(found) > limit
    return json_response(
        {
            "data": [_wire(each) for each in page],
            "has_more": has_more,
            "first_id": page[0].name if page else None,
            "last_id": page[-1].name if page else None,
        }
    )


def one(request: RouteRequest, host: Host) -> RouteResponse:
    """Get one model by name. Raises `NotFound`."""
    model = served_model(host, request.parameters["model"])
    if model.operation != "chat":
        raise NotFound(f"{model.name} is not a chat model")
    return json_response(_wire(model))


def _wire(model: ServedModel) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": _UNKNOWN,
        "lifecycle": "active",
        "max_input_tokens": model.window,
        "max_tokens": None,
        "capabilities": _capabilities(model.capabilities) if model.capabilities else None,
    }


def _capabilities(able: frozenset[str]) -> dict[str, Any]:
    """Whether a model accepts an effort is unknown until it is requested."""
    thinks = "reasoning" in able
    types = {"adaptive": thinks, "between_tools": False, "disabled": True, "enabled": thinks}
    efforts = dict.fromkeys(("low", "medium", "high", "max"), _supported(thinks))
    server_tools = dict.fromkeys(("code_execution", "web_search"), _supported(False))
    return {
        **{wire: _supported(name in able) for wire, name in _CAPABILITIES.items()},
        **{wire: _supported(False) for wire in (*_NOT_HAD, "context_management")},
        "effort": {**_supported(thinks), **efforts},
        "server_tools": {**_supported(False), **server_tools},
        "thinking": {
            **_supported(thinks),
            "types": {name: _supported(is_so) for name, is_so in types.items()},
        },
    }


def _supported(is_so: bool) -> dict[str, Any]:
    return {"supported": is_so}
