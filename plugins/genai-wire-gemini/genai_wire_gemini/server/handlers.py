"""Handlers of generateContent, embedContent, countTokens and models.

    call → _generate → whole → ContentWriter.whole
         → _stream → answer → ContentWriter.events | ContentWriter.array
         → _count → Host.count_tokens
         → embed_content, batch_embed_contents → Host.embed

Source: Gemini API reference, "Generating content", "Counting tokens", "Embeddings", "Models";
`alt` is one of the system parameters of Google's APIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Literal

from genai_host import Host
from genai_host.api import (
    EXTRA_BODY,
    EncodedJson,
    JsonReader,
    Operation,
    RouteRequest,
    RouteResponse,
    Usage,
    body_of,
    json_response,
)
from genai_host.errors import NotFound, ValidationError
from genai_host.serving import (
    ChatRequest,
    PassingFormat,
    ServedModel,
    answer,
    capabilities,
    count_tokens,
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
)
from genai_wire_gemini.dialect.replies import NAME
from genai_wire_gemini.server.contents import messages_in, text_of
from genai_wire_gemini.server.replies import ContentWriter, error_event
from genai_wire_gemini.server.requests import chosen, configured, safety, tools_in, used_parameters

_PREFIX = "models/"
_MAX = 100
"""Maximum number of texts per request, as at Google's service."""

_TASKS = (
    "TASK_TYPE_UNSPECIFIED", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY",
    "CLASSIFICATION", "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION",
    "CODE_RETRIEVAL_QUERY",
)  # fmt: skip
_PURPOSES: Mapping[str, Literal["query", "document"]] = {
    "RETRIEVAL_QUERY": "query",
    "RETRIEVAL_DOCUMENT": "document",
    "QUESTION_ANSWERING": "query",
    "FACT_VERIFICATION": "query",
    "CODE_RETRIEVAL_QUERY": "query",
}


_EMPTY_LINE = b"\r\n"
"""Keepalive between events or values: Google's Python client parses comments as JSON."""


_Wanted = tuple[str, str, Mapping[str, Any]]
"""A text to embed, its task, and the other parameters."""


def embed_content(model: str, request: RouteRequest, host: Host) -> RouteResponse:
    vectors, usage = _embedded([_wanted(body_of(request, camel=True))], model, request, host)
    return json_response({"embedding": {"values": vectors[0]}, **_usage(usage)})


def batch_embed_contents(model: str, request: RouteRequest, host: Host) -> RouteResponse:
    body = body_of(request, camel=True)
    wanted = [_wanted(each) for each in body.objects("requests")]
    body.raw("model")
    body.drop_others()
    if not 0 < len(wanted) <= _MAX:
        raise ValidationError(
            f"the number of requests must be from 1 to {_MAX}, not {len(wanted)}",
            path=body.at("requests"),
        )
    vectors, usage = _embedded(wanted, model, request, host)
    return json_response({"embeddings": [{"values": each} for each in vectors], **_usage(usage)})


def _wanted(given: JsonReader) -> _Wanted:
    content = given.object("content")
    if content is None:
        raise ValidationError("content is not specified", path=given.at("content"))
    text = text_of(content)
    if not text:
        raise ValidationError("text must not be empty", path=content.path)
    task = given.choice("taskType", _TASKS, _TASKS[0])
    dimensions = given.whole("outputDimensionality")
    title = given.text("title")
    given.raw("model")
    given.drop_others()
    parameters = {} if dimensions is None else {"dimensions": dimensions}
    return text, task, {**parameters, **({"title": title} if title else {})}


def _embedded(
    wanted: Sequence[_Wanted], model: str, request: RouteRequest, host: Host
) -> tuple[list[Sequence[float]], Usage]:
    """Embed consecutive texts with the same settings in one call."""
    taken = capabilities(host, model, "embed").parameters
    vectors: list[Sequence[float]] = []
    usage = Usage()
    for (task, parameters), alike in groupby(wanted, key=lambda each: each[1:]):
        if task != _TASKS[0] and "task_type" in taken:
            parameters = {**parameters, "task_type": task}
        found = host.embed(
            [text for text, *_ in alike],
            model=model,
            parameters=parameters,
            purpose=_PURPOSES.get(task),
            limits=request.limits,
            owner=request.user,
        )
        vectors += found.vectors
        usage += found.usage
    return vectors, usage


def _usage(usage: Usage) -> dict[str, Any]:
    return {"usageMetadata": {"promptTokenCount": usage.input_tokens}} if usage.input_tokens else {}


_METHODS_OF_MODELS: Mapping[Operation, list[str]] = {
    "chat": ["generateContent", "streamGenerateContent", "countTokens"],
    "embed": ["embedContent", "batchEmbedContents"],
}
_DEFAULT_SIZE, _MAX_MODELS = 50, 1000
_OTHER_COLLECTIONS = frozenset(
    {"batches", "cachedContents", "corpora", "fileSearchStores", "files", "operations",
     "tunedModels"}
)  # fmt: skip
"""What the service lists beside models. The paths are those of models for clients that leave out
`models/`."""


def listed(request: RouteRequest, host: Host) -> RouteResponse:
    """List a page of models: `pageSize`, and `pageToken` for its start."""
    size = min(_number(request, "pageSize") or _DEFAULT_SIZE, _MAX_MODELS)
    at = _number(request, "pageToken")
    found = [each for each in served_models(host) if each.operation in _METHODS_OF_MODELS]
    page: dict[str, Any] = {"models": [_wire(each) for each in found[at : at + size]]}
    if at + size < len(found):
        page["nextPageToken"] = str(at + size)
    return json_response(page)


def one(request: RouteRequest, host: Host) -> RouteResponse:
    name = request.parameters["model"]
    collection = name.partition("/")[0]
    if collection in _OTHER_COLLECTIONS:
        raise NotFound(f"{collection} are not supported: this server has only models")
    model = served_model(host, name.removeprefix(_PREFIX))
    if model.operation not in _METHODS_OF_MODELS:
        raise NotFound(f"{model.name} supports no method of this API")
    return json_response(_wire(model))


def _wire(model: ServedModel) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "name": f"{_PREFIX}{model.name}",
        "version": "1",
        "displayName": model.name,
        "description": model.help,
        "supportedGenerationMethods": _METHODS_OF_MODELS[model.operation],
    }
    if model.window is not None:
        wire["inputTokenLimit"] = model.window
    if "reasoning" in model.capabilities:
        wire["thinking"] = True
    return wire


def _number(request: RouteRequest, name: str) -> int:
    text = request.query.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValidationError(f"{name}: {text!r} is not a number")
    return int(text)


_Method = Callable[[str, RouteRequest, Host], RouteResponse]


def call(request: RouteRequest, host: Host) -> RouteResponse:
    """Call the method after the last colon of the path."""
    name, _, method = request.parameters["call"].rpartition(":")
    if method not in _METHODS or not name:
        raise NotFound(
            f"unknown method {method!r} of models", hint=f"choose from {', '.join(_METHODS)}"
        )
    return _METHODS[method](name.removeprefix(_PREFIX), request, host)


def _generate(model: str, request: RouteRequest, host: Host) -> RouteResponse:
    passed = _passed(model, request, host, stream=False)
    if passed is not None:
        return passed
    asked, writer = _read(body_of(request, camel=True), model, host, stream=False)
    return json_response(writer.whole(whole(host, asked, request)))


def _stream(model: str, request: RouteRequest, host: Host) -> RouteResponse:
    """Stream events with `alt=sse`, otherwise a JSON array."""
    form = request.query.get("alt") or request.query.get("$alt") or "json"
    if form not in ("json", "sse"):
        raise ValidationError(f"alt: {form!r} must be json or sse")
    passed = _passed(model, request, host, stream=True) if form == "sse" else None
    if passed is not None:
        return passed
    asked, writer = _read(body_of(request, camel=True), model, host, stream=True)
    answering = answer(host, asked, request)
    if form == "sse":
        return streamed(answering, writer.events, keepalive=_EMPTY_LINE)
    return streamed(answering, writer.array, "application/json", keepalive=_EMPTY_LINE)


def _passed(model: str, request: RouteRequest, host: Host, *, stream: bool) -> RouteResponse | None:
    """The reply of a service that has the same format; None if there is none."""
    fields = fields_to_pass(host, request)
    if fields is None or is_empty(fields, "contents"):
        return None
    fields.pop("model", None)  # it is in the path
    config = value_of(fields, "generationConfig") or value_of(fields, "generation_config") or {}
    used = used_parameters(config)
    if used is None:
        return None
    form = PassingFormat(
        dialect=NAME,
        parameters=used,
        neutral=frozenset(() if _has_unsigned_calls(fields) else ("unsigned_calls",)),
        write_event=sse_of,
        write_error=error_event,
        writer=ContentWriter(model, thoughts=True),
        keepalive=_EMPTY_LINE,
    )
    return pass_through(host, request, fields, form, model=model, stream=stream)


_CALL = re.compile(rb'"function(?:Call|_call)"\s*:')
_SIGNATURE = re.compile(rb'"thought(?:S|_s)ignature"\s*:')


def _has_unsigned_calls(fields: Mapping[str, EncodedJson]) -> bool:
    """Whether a conversation has calls, of which none is signed: they are from other models. Of
    parallel calls, Gemini signs the first."""
    text = fields["contents"].data
    return _CALL.search(text) is not None and _SIGNATURE.search(text) is None


def _count(model: str, request: RouteRequest, host: Host) -> RouteResponse:
    body = body_of(request, camel=True)
    inner = body.peek("generateContentRequest")
    if inner is not None:
        body.raw("generateContentRequest")
        body.drop_others()
    asked, _ = _read(inner or body, model, host, stream=False, is_counted=True)
    return json_response({"totalTokens": count_tokens(host, asked, request.limits)})


def _read(
    body: JsonReader, model: str, host: Host, *, stream: bool, is_counted: bool = False
) -> tuple[ChatRequest, ContentWriter]:
    # Check the tools before the model name: Gemini CLI retries a Google search endlessly, without a
    # pause, if the reply is 404, but not if it is 400.
    can = cache(lambda: capabilities(host, model))
    body.carry(
        NAME,
        lambda: can().dialect == NAME and EXTRA_BODY in can().parameters,
        replaced_kinds(host, model),
    )
    tools, choice = chosen(body, tools_in(body))
    taken = can().parameters
    config = configured(body.object("generationConfig"), taken)
    messages = messages_in(body, can().dialect, are_counted=is_counted)
    parameters = {**config.parameters, **safety(body, taken)}
    body.refuse("cachedContent")
    body.raw("model")
    unknown = body.extra_fields("labels", "store", "serviceTier")
    if unknown:
        parameters[EXTRA_BODY] = unknown[NAME]
    asked = ChatRequest(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        schema=config.schema,
        parameters=parameters,
        stream=stream,
    )
    return asked, ContentWriter(model, config.thoughts, config.enum)


_METHODS: Mapping[str, _Method] = {
    "generateContent": _generate,
    "streamGenerateContent": _stream,
    "countTokens": _count,
    "embedContent": embed_content,
    "batchEmbedContents": batch_embed_contents,
}
