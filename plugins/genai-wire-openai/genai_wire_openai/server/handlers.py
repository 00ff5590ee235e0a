"""Handlers of chat completions and models.

Source: OpenAI API reference, "Create chat completion", "List models"; Azure OpenAI REST API
reference, for paths with the name of a deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from genai_host import Host
from genai_host.api import (
    EXTRA_BODY,
    EncodedJson,
    JsonReader,
    RouteRequest,
    RouteResponse,
    StreamEvent,
    body_of,
    json_response,
    merged_parameters,
    read_json,
    write_json,
)
from genai_host.errors import ValidationError
from genai_host.serving import (
    Capabilities,
    ChatRequest,
    PassingFormat,
    ServedModel,
    answer,
    capabilities,
    check_schema,
    fields_to_pass,
    is_empty,
    pass_through,
    replaced_kinds,
    served_model,
    served_models,
    sse_of,
    streamed,
    value_of,
    whole,
    with_model,
)
from genai_wire_openai.dialect.common import DEFAULT_TIERS, named_schema
from genai_wire_openai.server.replies import DIALECT, CompletionWriter, error_event
from genai_wire_openai.server.requests import chosen, messages_in, tools_in, web_search_in
from genai_wire_openai.shared import custom_names_in, drop_unsent

_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
NEUTRAL = frozenset(
    {
        "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
        "service_tier", "store", "user",
    }
)  # fmt: skip
"""Fields that do not change an answer; ignored."""

_EFFORT = "reasoning_effort"
_REFUSED = ("audio",)


_ONLY_PASSED = ("logit_bias", "logprobs", "top_logprobs")
"""Fields that change an answer, and that only services of this format have."""


_NEUTRAL_OPTIONS = frozenset({"object_root", "strict"})
"""Options of the dialect for what a client writes itself."""


def of_deployment(request: RouteRequest) -> RouteRequest:
    """A request with its model in the body, also if its path names a deployment, which is the
    model."""
    model = request.parameters.get("model")
    return request if model is None else with_model(request, model)


def complete(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a chat completion, streamed if `stream` is set."""
    request = of_deployment(request)
    passed = _passed(request, host)
    if passed is not None:
        return passed
    body = body_of(request)
    model = body.required_text("model")
    carry(body, host, model)
    tools, choice = chosen(body, tools_in(body))
    search = web_search_in(body, tools, lambda: capabilities(host, model).dialect)
    is_streamed, with_functions = bool(body.flag("stream")), bool(body.raw("functions"))
    custom = custom_names_in(body.raw("tools"))
    options = body.object("stream_options")
    with_usage = bool(options.flag("include_usage")) if options is not None else False
    if options is not None and not is_streamed:
        options.drop_others()  # services refuse them
    schema, strict = schema_in(body)
    asked = ChatRequest(
        model=model,
        messages=messages_in(body, lambda: capabilities(host, model).dialect == DIALECT),
        tools=[*tools, *search],
        tool_choice=choice,
        schema=schema,
        strict=strict,
        parameters=parameters_in(body, host, model),
        stream=is_streamed,
    )
    del body  # its values take memory while the service answers
    writer = CompletionWriter(
        model, host.clock.now(), with_usage=with_usage, with_functions=with_functions, custom=custom
    )
    if is_streamed:
        return streamed(answer(host, asked, request), writer.events)
    return json_response(writer.whole(whole(host, asked, request)))


def carry(body: JsonReader, host: Host, model: str) -> None:
    """Let unknown fields reach a service of this format."""
    takes = cache(lambda: _takes_unknown(capabilities(host, model)))
    body.carry(DIALECT, takes, replaced_kinds(host, model))


def _takes_unknown(can: Capabilities) -> bool:
    return can.dialect == DIALECT and EXTRA_BODY in can.parameters


def _passed(request: RouteRequest, host: Host) -> RouteResponse | None:
    """The reply of a service that has the same format; None if there is none."""
    fields = fields_to_pass(host, request)
    if fields is None or EXTRA_BODY in fields or is_empty(fields, "messages"):
        return None
    model, stream = value_of(fields, "model"), value_of(fields, "stream")
    if not isinstance(model, str) or stream not in (None, False, True):
        return None
    form = value_of(fields, "response_format")
    if isinstance(form, dict) and (form.get("type") == "json_schema" or "schema" in form):
        return None  # the answer is checked
    wants_json = isinstance(form, dict) and form.get("type") == "json_object"
    if wants_json and b"json" not in fields["messages"].data.lower():
        return None  # some services require the word, and others an instruction
    options = value_of(fields, "stream_options") or {}
    fields.pop("stream_options", None)
    if not isinstance(options, dict):
        return None
    with_usage = options.get("include_usage") is True
    if stream:  # the host needs the usage
        fields["stream_options"] = EncodedJson(write_json({**options, "include_usage": True}))
    # the two names of the limit: a client that sends neither needs no conversion
    limits = {"max_tokens", "max_completion_tokens"} & fields.keys()
    has_system = b'"system"' in fields["messages"].data  # the role has another name for some
    passing = PassingFormat(
        dialect=DIALECT,
        neutral=_NEUTRAL_OPTIONS.union(
            () if limits else {"max_tokens"}, () if has_system else {"system_role"}
        ),
        renamed={"max_tokens": next(iter(limits))} if len(limits) == 1 else {},
        reply_parameters={"n": value_of(fields, "n")} if "n" in fields else {},
        write_event=sse_of if with_usage else _without_usage,
        write_body=_with_fingerprint,
        write_error=error_event,
        writer=CompletionWriter(
            model, host.clock.now(), with_usage=with_usage, custom=_custom_names(fields)
        ),
    )
    return pass_through(host, request, fields, passing, model=model, stream=bool(stream))


def _custom_names(fields: Mapping[str, EncodedJson]) -> frozenset[str]:
    has_custom = "tools" in fields and b'"custom"' in fields["tools"].data
    return custom_names_in(value_of(fields, "tools")) if has_custom else frozenset()


def _with_fingerprint(body: bytes) -> bytes:
    """A reply with the field `system_fingerprint`, which some clients require and some services
    leave out."""
    start = body.find(b"{") + 1
    if not start or b'"system_fingerprint"' in body:
        return body
    return b'%b"system_fingerprint":"",%b' % (body[:start], body[start:])


def _without_usage(event: StreamEvent) -> bytes:
    """An event for a client that did not request the usage, which is in a chunk of its own."""
    if b'"usage"' in event.data and not event.is_done:
        try:
            chunk = read_json(event.data)
        except ValueError:
            return sse_of(event)
        if isinstance(chunk, dict) and chunk.get("usage") and not chunk.get("choices"):
            return b""
    return sse_of(event)


def schema_in(body: JsonReader) -> tuple[Mapping[str, Any] | None, bool]:
    """Read the JSON Schema of the answer, whose title is the name of the format, and whether the
    service must enforce it. Raises `ValidationError`."""
    form = body.object("response_format")
    if form is None:
        return None, False
    found = _schema(form)
    if found[0] is None:
        form.drop_others()  # the object is not sent
    return found


def _schema(form: JsonReader) -> tuple[Mapping[str, Any] | None, bool]:
    kind = form.choice("type", ("text", "json_object", "json_schema"))
    if kind == "json_object":  # some clients and services have a schema here
        form.drop("description", "json_schema", "name", "strict")  # it may be sent with a schema
        schema = form.mapping("schema")
        if schema is None:
            return {"type": "object"}, False
        check_schema(schema, form.at("schema"))
        return schema, False
    if kind != "json_schema":
        return None, False
    form.drop("schema")  # of `json_object`
    inner = form.object("json_schema")
    schema = None if inner is None else inner.mapping("schema")
    if inner is None or schema is None:
        raise ValidationError("schema is missing", path=form.at("json_schema"))
    check_schema(schema, inner.at("schema"))
    schema, strict = named_schema(inner.text("name"), schema), bool(inner.flag("strict"))
    if schema == {"type": "object"}:
        inner.drop_others()  # it may be sent as `json_object`
    return schema, strict


def parameters_in(body: JsonReader, host: Host, model: str) -> dict[str, Any]:
    """Read the model parameters, by the host's names: those of the format, others of the model or
    its provider, and unknown fields; see `carry`. Raises `ValidationError`."""
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
    effort = body.raw(_EFFORT)
    body.refuse(*_REFUSED)
    further = body.peek(EXTRA_BODY)
    if further is not None:
        further.refuse(*_REFUSED, "modalities")
    if body.whole("n") not in (None, 1) and "n" not in capabilities(host, model).parameters:
        raise ValidationError("the model gives only one answer per request", path=body.at("n"))
    found["n"] = None if body.whole("n") == 1 else body.whole("n")
    if found["n"] and body.raw("functions"):
        raise ValidationError("only one answer is possible with functions", path=body.at("n"))
    if body.raw("modalities") not in (None, ["text"]):
        raise ValidationError("only text answers are supported", path=body.at("modalities"))
    at_once = body.flag("parallel_tool_calls")
    if body.raw("functions"):
        at_once = False  # the answer has one call
    if body.value.get("service_tier") in DEFAULT_TIERS:
        body.raw("service_tier")
    others = [name for name, _ in body.names() if name not in body.read]
    if others or effort or at_once is not None:
        can = capabilities(host, model)
        if _EFFORT in can.parameters:
            found[_EFFORT] = effort
        else:
            body.drop(_EFFORT)
        # many clients always send it, also for models without it
        if "parallel_tool_calls" in can.parameters:
            found["parallel_tool_calls"] = at_once
        others = [name for name in others if name in can.parameters]
        found.update((name, body.raw(name)) for name in others)
        body.refuse_elsewhere(*(name for name in _ONLY_PASSED if name not in found))
        given = {*others, *([_EFFORT] if found.get(_EFFORT) else ())}
        optional = given - {*_ONLY_PASSED, EXTRA_BODY}
        paths = {name: "" if name in NEUTRAL else body.at(name) for name in optional}
        body.dropped.parameters({**paths, "parallel_tool_calls": ""})
    unknown = body.extra_fields(*NEUTRAL)
    if unknown is not None:
        extra = dict(unknown[DIALECT])
        drop_unsent(body, extra, _PLACES, capabilities(host, model).capabilities)
        found = merged_parameters({EXTRA_BODY: extra}, found)
    return {name: value for name, value in found.items() if value is not None}


_PLACES = {"schema": ("response_format",), "stream": ("stream_options",)}
"""Objects that are only sent for models with a capability."""


def listed(request: RouteRequest, host: Host) -> RouteResponse:
    """List all models."""
    return json_response({"object": "list", "data": [_wire(each) for each in served_models(host)]})


def one(request: RouteRequest, host: Host) -> RouteResponse:
    """Get one model by name. Raises `NoRoute` if the model is unknown."""
    return json_response(_wire(served_model(host, request.parameters["model"])))


def _wire(model: ServedModel) -> dict[str, Any]:
    # no provider reports when a model was created
    return {"id": model.name, "object": "model", "created": 0, "owned_by": model.owner}
