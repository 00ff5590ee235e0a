"""What chat completions and responses have in common, in requests and in replies.

- Annotations of texts, such as citations. Clients of the format of the service receive them as they
  are, others the citations of URLs.
- Refusals of a model, which are apart from texts. A refusal is a `Text` with a mark in `extra`, so
  that other formats show it. The answer has the finish reason `content_filter`; in these two
  formats it is complete.
- Custom tools take plain text as input. The host offers each to the model as a function with a
  single parameter, `input`. A grammar is added to the description, but is not enforced.
- The resolution of an image, usage, and fields that the host does not know.

Source: OpenAI API reference, "ChatCompletionResponseMessage", "OutputTextContent", and
`response.output_text.annotation.added`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import evolve

from genai_host.api import (
    NO_USAGE,
    Citation,
    Completion,
    Delta,
    Image,
    JsonReader,
    Part,
    Text,
    ToolCall,
    Usage,
    VendorTool,
    citation_of,
    details_in,
    read_finish,
    unknown_fields,
    well_formed,
    with_extra,
    write_json,
)

CHAT, RESPONSES = "openai-chat", "openai-responses"
"""Names of the dialects of both formats."""
_CITATION = "url_citation"


def citations_in(annotations: object) -> tuple[Citation, ...]:
    """The citations of URLs, in either format."""
    found: list[Citation] = []
    for each in annotations if isinstance(annotations, list) else ():
        if isinstance(each, dict) and each.get("type") == _CITATION:
            inner = each.get(_CITATION)
            data = inner if isinstance(inner, dict) else each
            names = ("url", "title", "start_index", "end_index")
            found += citation_of(*(data.get(name) for name in names))
    return tuple(found)


def for_responses(citation: Citation) -> dict[str, Any]:
    return {"type": _CITATION, **_fields_of(citation)}


def for_chat(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    return [{"type": _CITATION, _CITATION: _fields_of(each)} for each in citations]


def _fields_of(citation: Citation) -> dict[str, Any]:
    return {
        "end_index": citation.end,
        "start_index": citation.start,
        "title": citation.title,
        "url": citation.url,
    }


def moved(annotation: Any, by: int) -> Any:
    """An annotation of a text that follows another one."""
    if not isinstance(annotation, dict):
        return annotation
    places = {name: annotation.get(name) for name in ("start_index", "end_index")}
    return {**annotation, **{n: at + by for n, at in places.items() if type(at) is int}}


MARKED: Mapping[str, Any] = {"openai-refusal": True}
"""`extra` of a refusal, of its chunks, and of an answer whose whole text is one."""


def is_refusal(each: Part | Delta | Completion) -> bool:
    return each.extra is not None and each.extra.keys() >= MARKED.keys()


def refusals_in(parts: Iterable[Part]) -> str:
    """The text of the refusals among parts."""
    return "".join(part.text for part in parts if isinstance(part, Text) and is_refusal(part))


def with_own_finish(completion: Completion) -> Completion:
    """The completion with its finish reason in these formats: that of the service, if the model
    refused."""
    if not refusals_in(completion.message.content):
        return completion
    return evolve(completion, finish=read_finish(completion.vendor_finish))


INPUT = "input"
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "the whole input, as text"}},
    "required": [INPUT],
    "additionalProperties": False,
}
"""Parameters of the function in place of a custom tool."""


def with_grammar(description: str, syntax: str, definition: str) -> str:
    """The description of a custom tool with the grammar of its input."""
    return f"{description}\n\nThe input follows this {syntax} grammar:\n{definition}"


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call as JSON, unchanged if they were malformed."""
    return call.malformed or write_json(call.arguments).decode()


def wire_tool_call(call: ToolCall) -> dict[str, Any]:
    """A call, in a chat completion."""
    function = {"name": call.name, "arguments": arguments_text(call)}
    return with_extra({"id": call.id, "type": "function", "function": function}, call, CHAT)


def input_of(call: ToolCall) -> str:
    """The input of a call of a custom tool; a model may have written it without JSON."""
    text = call.arguments.get(INPUT)
    return text if isinstance(text, str) else arguments_text(call)


def custom_names_in(tools: object) -> frozenset[str]:
    """The names of the custom tools in the field `tools` of a chat completion, which may be
    invalid, as calls have them."""
    given = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    custom = [each.get("custom") for each in given if each.get("type") == "custom"]
    names = [each.get("name") for each in custom if isinstance(each, dict)]
    return frozenset(well_formed(name) for name in names if isinstance(name, str))


_DETAIL = "detail"
_ONLY_RESPONSES = ("original",)


def detail_extra(detail: str) -> Mapping[str, Any]:
    """The resolution in `extra` of an image, for services of both formats."""
    if detail in ("", "auto"):
        return {}
    extra: dict[str, Any] = {RESPONSES: {_DETAIL: detail}}
    if detail not in _ONLY_RESPONSES:
        extra[CHAT] = {"image_url": {_DETAIL: detail}}
    return extra


def report_detail(given: JsonReader, detail: str) -> None:
    """Report the resolution in an object, unless the service has one of the formats."""
    if extra := detail_extra(detail):
        given.drop_elsewhere(_DETAIL, VendorTool(_DETAIL, "", extra=extra))


def detail_of(image: Image, dialect: str, usual: str) -> str:
    """The resolution that the client wants, or else the usual one of the service."""
    own = (image.extra or {}).get(dialect, {})
    detail: str = own.get("image_url", own).get(_DETAIL, usual)
    return detail


def chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def responses_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total,
    }


def read_usage(data: Any, names: tuple[str, str] = ("prompt_tokens", "completion_tokens")) -> Usage:
    """Token usage, if reported, with the names of its fields for the input and the output, each of
    which has further ones for details. Invalid counts become 0."""
    if not isinstance(data, dict):
        return NO_USAGE
    into, out = names
    read, written = details_in(data, f"{into}_details"), details_in(data, f"{out}_details")
    return Usage(
        data.get(into, 0),
        data.get(out, 0),
        read.get("cached_tokens", 0),
        written.get("reasoning_tokens", 0),
        read.get("cache_write_tokens", 0),
    )


def unknown_within(data: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object of a service, and of the objects in it, that the host's own form of
    it does not have."""
    unknown = unknown_fields(data, written.keys())
    for name, inner in data.items():
        known = written.get(name) if type(inner) is dict else None
        if type(known) is dict and (further := unknown_fields(inner, known.keys())):
            unknown[name] = further
    return unknown


def drop_unsent(
    given: JsonReader,
    unknown: dict[str, Any],
    places: Mapping[str, tuple[str, ...]],
    capabilities: Collection[str],
) -> None:
    """Remove the unknown fields of objects that are not sent: a service would refuse the objects
    without the fields that the host knows. `places` has their names, after those of the objects
    that they are in, by the capability of the models to which they are sent."""
    for capability, (*outer, name) in places.items():
        if capability in capabilities:
            continue
        reader, fields = given, unknown
        for each in outer:
            inner = reader.object(each)
            if inner is None:
                break
            reader, fields = inner, fields.get(each, {})
        else:
            if name in fields:
                dropped = reader.object(name)
                assert dropped is not None
                dropped.drop(*fields.pop(name))
